/*
 * Several networks side by side: the best algorithm of each, at one size or over a sweep.
 */
#include "cli/commands.h"
#include "cli/simulate/simulate.h"

#include <paradl/base/output.h>

#include <stdlib.h>
#include <string.h>

/* A network as it was asked for, with the options that hold for it alone. */
typedef struct network {
    char                   text[256]; /* cut up: its name first */
    pdl__simulate_values_t values;
    pdl__setting_t         setting;
} network_t;

static pdl_status_t read_network(const pdl__setting_t *setting, const char *text, network_t *network)
{
    pdl_status_t status;

    if (strlen(text) >= sizeof(network->text))
        return pdl_error(PDL_ERR_INPUT, "--topology: %.60s..: at most %zu characters", text,
                         sizeof(network->text) - 1);
    strcpy(network->text, text);
    network->values = *setting->values;
    status = pdl__take_own_options(pdl__simulate_options, network->text, &network->values);
    network->values.name = network->text;
    network->setting = *setting;
    network->setting.values = &network->values;
    network->setting.options.latency_factor = network->setting.latency;
    network->setting.options.bandwidth_factor = network->setting.bandwidth;
    return status;
}

/* All points of one network, `stride` apart. */
static pdl_status_t run_network(const network_t *network, const int64_t *values, int count, int stride,
                                pdl__point_t *points)
{
    const pdl__simulate_values_t *v = &network->values;
    pdl_status_t                  status = PDL_OK;

    for (int p = 0; !status && p < count; p++) {
        pdl__point_t   *point = &points[(size_t)p * (size_t)stride];
        pdl_topology_t *shared = v->sweep_hosts == NULL && p > 0 ? points[0].topology : NULL;

        status = pdl__open_point(&network->setting, v->sweep_hosts != NULL ? values[p] : 0, shared, point);
        if (!status)
            status = pdl__run_point(&network->setting, v->sweep_bytes != NULL ? values[p] : (int64_t)v->bytes, true,
                                    point);
    }
    return status;
}

static pdl_status_t write_plot(const pdl_networks_report_t *report, const char *path)
{
    pdl_output_t *output;
    pdl_status_t  status = pdl_output_open(path, &output);

    if (status) return status;
    status = pdl_report_networks_plot(report, pdl_output_is_stdout(path), pdl_output_stream(output));
    return pdl__finish_output(output, status);
}

static pdl_status_t show(const pdl__setting_t *setting, const pdl__point_t *points, int count)
{
    const pdl__simulate_values_t *v = setting->values;
    int                           networks = v->networks.count;
    pdl_sim_report_t             *reports = calloc((size_t)count * (size_t)networks, sizeof(*reports));
    pdl_room_t                    room;
    pdl_networks_report_t report = {reports, v->networks.text, networks, count, v->sweep_hosts != NULL, &room};
    pdl_status_t          status = pdl__room_from_options(&v->room, &room);

    if (reports == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a sweep");
    for (int i = 0; i < count * networks; i++) reports[i] = points[i].report;
    if (!status && v->plot != NULL) status = write_plot(&report, v->plot);
    if (!status)
        status = v->json ? pdl_report_networks_json(&report, stdout) : pdl_report_networks(&report, stdout);
    free(reports);
    return status;
}

pdl_status_t pdl__simulate_networks(const pdl__setting_t *setting)
{
    int           networks = setting->values->networks.count, count = 0;
    network_t    *network = calloc((size_t)networks, sizeof(*network));
    pdl__point_t *points = NULL;
    int64_t       values[PDL__MAX_POINTS];
    pdl_status_t  status = pdl__sweep_points(setting->values, values, &count);

    if (!status) points = calloc((size_t)count * (size_t)networks, sizeof(*points));
    if (!status && (network == NULL || points == NULL))
        status = pdl_error(PDL_ERR_NOMEM, "out of memory for networks");
    for (int n = 0; !status && n < networks; n++) {
        status = read_network(setting, setting->values->networks.text[n], &network[n]);
        if (!status) status = run_network(&network[n], values, count, networks, points + n);
    }
    if (!status) status = show(setting, points, count);
    for (int i = count * networks - 1; points != NULL && i >= 0; i--) pdl__free_point(&points[i]);
    free(points);
    free(network);
    return status;
}
