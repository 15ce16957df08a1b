/*
 * Networks side by side: how long the best algorithm of each takes, and what each costs and draws.
 */
#include <paradl/base/document.h>
#include <paradl/base/units.h>
#include <paradl/report/sim_report.h>
#include <paradl/report/table.h>

#include <stdlib.h>

static const pdl_sim_report_t *at(const pdl_networks_report_t *report, int point, int network)
{
    return &report->points[point * report->networks + network];
}

static const pdl_sim_verdict_t *best_of(const pdl_networks_report_t *report, int point, int network)
{
    return &at(report, point, network)->verdicts[0];
}

/* 0: nothing is possible there. */
static double time_of(const pdl_networks_report_t *report, int point, int network)
{
    const pdl_sim_verdict_t *best = best_of(report, point, network);

    return best->possible ? best->result.time_s : 0;
}

static int fastest_of(const pdl_networks_report_t *report, int point)
{
    int fastest = 0;

    for (int n = 1; n < report->networks; n++) {
        double time_s = time_of(report, point, n), least_s = time_of(report, point, fastest);

        if (time_s > 0 && (least_s <= 0 || time_s < least_s)) fastest = n;
    }
    return fastest;
}

static void print_heading(const pdl_networks_report_t *report, FILE *stream)
{
    const pdl_sim_case_t *asked = report->points[0].asked;
    char                  text[PDL_FORMAT_SIZE];

    fprintf(stream, "%s", pdl_collective_names[asked->collective]);
    if (report->point_count == 1 || report->over_hosts)
        fprintf(stream, " of %s", pdl_format_bytes((double)asked->bytes, text));
    fprintf(stream, ", the best algorithm of each network, engine %s\n\n", pdl_engine_names[asked->options.engine]);
}

static pdl_status_t add_network(const pdl_networks_report_t *report, int network, bool strong, pdl_table_t *table)
{
    const pdl_sim_report_t  *point = at(report, 0, network);
    const pdl_sim_verdict_t *best = &point->verdicts[0];
    pdl_topology_metrics_t   m;
    char                     text[PDL_FORMAT_SIZE];
    pdl_status_t             status = pdl_topology_metrics(point->asked->topology, report->room, &m);

    if (status) return status;
    pdl_table_row(table, !best->possible ? PDL_ROW_FAINT : strong ? PDL_ROW_STRONG : PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", report->names[network]);
    pdl_table_cell(table, "%s", pdl_format_count(pdl_topology_hosts(point->asked->topology), text));
    pdl_table_cell(table, "%s", pdl_format_count(m.switches, text));
    pdl_table_cell(table, "%s", pdl_format_count(m.cables, text));
    pdl_table_cell(table, "%s", pdl_format_count((int64_t)(m.cost + 0.5), text));
    pdl_table_cell(table, "%s", pdl_format_count((int64_t)(m.power_w + 0.5), text));
    if (!best->possible) {
        pdl_table_span(table, "not possible: %s", best->problem);
        return PDL_OK;
    }
    if (report->point_count > 1) return PDL_OK;
    pdl_table_cell(table, "%s", best->algorithm);
    pdl_table_cell(table, "%s", pdl_format_seconds(best->result.time_s, text));
    pdl_table_cell(table, "%.3f", best->ratio);
    pdl_table_cell(table, "%.4g", m.power_w * best->result.time_s);
    return PDL_OK;
}

/* Sizes and prices, and of one point the times. Of a sweep over hosts they are those of the first point. */
static pdl_status_t print_networks(const pdl_networks_report_t *report, FILE *stream)
{
    static const pdl_column_t columns[] = {{"network", PDL_LEFT},   {"hosts", PDL_RIGHT},
                                           {"switches", PDL_RIGHT}, {"cables", PDL_RIGHT},
                                           {"cost USD", PDL_RIGHT}, {"power W", PDL_RIGHT},
                                           {"algorithm", PDL_LEFT}, {"time", PDL_RIGHT},
                                           {"x bound", PDL_RIGHT},  {"energy J", PDL_RIGHT}};
    pdl_table_t              *table = pdl_table_create(columns, report->point_count == 1 ? 10 : 6);
    int                       fastest = report->point_count == 1 ? fastest_of(report, 0) : -1;
    pdl_status_t              status = PDL_OK;

    for (int n = 0; !status && n < report->networks; n++) status = add_network(report, n, n == fastest, table);
    if (!status) status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

static void add_point(const pdl_networks_report_t *report, int point, pdl_table_t *table)
{
    const pdl_sim_case_t *asked = at(report, point, 0)->asked;
    int                   fastest = fastest_of(report, point);
    char                  text[PDL_FORMAT_SIZE];

    pdl_table_row(table, PDL_ROW_PLAIN);
    if (report->over_hosts)
        pdl_table_cell(table, "%s", pdl_format_count(pdl_topology_hosts(asked->topology), text));
    else
        pdl_table_cell(table, "%s", pdl_format_bytes((double)asked->bytes, text));
    for (int n = 0; n < report->networks; n++) {
        double time_s = time_of(report, point, n);

        pdl_table_cell(table, "%s", time_s > 0 ? pdl_format_seconds(time_s, text) : "-");
    }
    if (time_of(report, point, fastest) > 0)
        pdl_table_cell(table, "%s, %s", report->names[fastest], best_of(report, point, fastest)->algorithm);
}

static pdl_status_t print_points(const pdl_networks_report_t *report, FILE *stream)
{
    int           count = report->networks + 2;
    pdl_column_t *columns = calloc((size_t)count, sizeof(*columns));
    pdl_table_t  *table;
    pdl_status_t  status;

    if (columns == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a table");
    columns[0] = (pdl_column_t){report->over_hosts ? "hosts" : "bytes", PDL_RIGHT};
    for (int n = 0; n < report->networks; n++) columns[n + 1] = (pdl_column_t){report->names[n], PDL_RIGHT};
    columns[count - 1] = (pdl_column_t){"fastest", PDL_LEFT};
    table = pdl_table_create(columns, count);
    for (int p = 0; p < report->point_count; p++) add_point(report, p, table);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    free(columns);
    return status;
}

pdl_status_t pdl_report_networks(const pdl_networks_report_t *report, FILE *stream)
{
    pdl_status_t status = PDL_OK;

    print_heading(report, stream);
    if (report->point_count > 1) {
        status = print_points(report, stream);
        fputs("\n", stream);
    }
    if (!status) status = print_networks(report, stream);
    return status;
}

static pdl_status_t write_network(const pdl_networks_report_t *report, int point, int network, pdl_json_t *json)
{
    const pdl_sim_report_t  *here = at(report, point, network);
    const pdl_sim_verdict_t *best = &here->verdicts[0];
    const pdl_topology_t    *topology = here->asked->topology;
    pdl_topology_metrics_t   m;
    pdl_status_t             status = pdl_topology_metrics(topology, report->room, &m);

    if (status) return status;
    pdl_json_open(json, NULL, '{');
    pdl_json_string(json, "network", report->names[network]);
    pdl_json_string(json, "topology", pdl_topology_name(topology));
    pdl_json_string(json, "description", pdl_topology_description(topology));
    pdl_json_int(json, "hosts", pdl_topology_hosts(topology));
    pdl_json_int(json, "switches", m.switches);
    pdl_json_int(json, "cables", m.cables);
    pdl_json_number(json, "cost", m.cost);
    pdl_json_string(json, "cost_unit", "USD");
    pdl_json_number(json, "power_w", m.power_w);
    pdl_json_bool(json, "possible", best->possible);
    if (best->possible) {
        pdl_json_string(json, "algorithm", best->algorithm);
        pdl_json_number(json, "time_s", best->result.time_s);
        pdl_json_number(json, "bound_s", best->bound_s);
        pdl_json_number(json, "bound_ratio", best->ratio);
        pdl_json_number(json, "energy_j", m.power_w * best->result.time_s);
        if (here->intact_s > 0) pdl_json_number(json, "intact_s", here->intact_s);
    } else {
        pdl_json_string(json, "reason", best->problem);
    }
    pdl_json_close(json);
    return PDL_OK;
}

pdl_status_t pdl_report_networks_json(const pdl_networks_report_t *report, FILE *stream)
{
    const pdl_sim_case_t *first = report->points[0].asked;
    pdl_json_t            json;
    pdl_status_t          status = PDL_OK;

    pdl_document_begin(&json, stream, "networks/1");
    pdl_json_string(&json, "collective", pdl_collective_names[first->collective]);
    pdl_json_string(&json, "engine", pdl_engine_names[first->options.engine]);
    pdl_json_string(&json, "sweep", report->point_count == 1 ? NULL : report->over_hosts ? "hosts" : "bytes");
    pdl_json_open(&json, "points", '[');
    for (int p = 0; !status && p < report->point_count; p++) {
        pdl_json_open(&json, NULL, '{');
        pdl_json_int(&json, "bytes", at(report, p, 0)->asked->bytes);
        pdl_json_open(&json, "networks", '[');
        for (int n = 0; !status && n < report->networks; n++) status = write_network(report, p, n, &json);
        pdl_json_close(&json);
        pdl_json_close(&json);
    }
    pdl_json_close(&json);
    pdl_json_close(&json);
    return status;
}

/* The drawing of a sweep, with networks in place of algorithms. */
pdl_status_t pdl_report_networks_plot(const pdl_networks_report_t *report, bool text, FILE *stream)
{
    size_t             all = (size_t)report->networks * (size_t)report->point_count;
    pdl_sim_verdict_t *verdicts = calloc(all + 1, sizeof(*verdicts));
    pdl_sim_report_t  *points = calloc((size_t)report->point_count + 1, sizeof(*points));
    const char       **names = calloc((size_t)report->networks + 1, sizeof(*names));
    pdl_sim_sweep_t    sweep = {points, report->point_count, names, report->networks, report->over_hosts, true};
    pdl_status_t       status = PDL_OK;

    if (verdicts == NULL || points == NULL || names == NULL)
        status = pdl_error(PDL_ERR_NOMEM, "out of memory for a drawing");
    for (int p = 0; !status && p < report->point_count; p++) {
        pdl_sim_verdict_t *here = verdicts + (size_t)p * (size_t)report->networks;

        points[p] =
            (pdl_sim_report_t){.asked = at(report, p, 0)->asked, .verdicts = here, .count = report->networks};
        for (int n = 0; n < report->networks; n++) {
            here[n] = *best_of(report, p, n);
            snprintf(here[n].algorithm, sizeof(here[n].algorithm), "%s", report->names[n]);
            if (p == 0) names[n] = here[n].algorithm;
        }
    }
    if (!status) status = text ? pdl_report_sweep_text(&sweep, stream) : pdl_report_sweep_svg(&sweep, stream);
    free(verdicts);
    free(points);
    free(names);
    return status;
}
