/*
 * What every hardware number is worth: the best plan is projected again on machines that differ in one number.
 */
#include "oracle/internal.h"

#include <paradl/oracle/sensitivity.h>

#include <math.h>
#include <stdlib.h>

/* The kinds of numbers; those of levels come once a level. */
typedef enum number {
    NUMBER_PEAK,
    NUMBER_MEMORY_RATE,
    NUMBER_LAUNCH,
    NUMBER_QUEUE,
    NUMBER_HOST_LINK,
    NUMBER_STORAGE,
    NUMBER_DECODE,
    NUMBER_LINK,
    NUMBER_LATENCY,
    NUMBER_COUNT
} number_t;

typedef struct probe {
    const pdl_oracle_t    *oracle;
    const pdl_request_t   *request;
    const pdl_candidate_t *best;
    double                 present_s;
} probe_t;

static void scale_host_link(pdl_host_link_t *link, double factor)
{
    for (int way = 0; way < PDL_HOST_WAYS; way++) link->bytes_per_s[way] *= factor;
}

#define BETWEEN_NODES (-1) /* in place of a level: all above the first */

static void improve_links(pdl_system_t *system, int level, double bandwidth, double latency)
{
    int first = level == BETWEEN_NODES ? 1 : level, last = level == BETWEEN_NODES ? system->level_count - 1 : level;

    for (int l = first; l <= last; l++) {
        system->level[l].bandwidth_bytes_per_s *= bandwidth;
        system->host_level[l].bandwidth_bytes_per_s *= bandwidth;
        system->level[l].latency_s /= latency;
        system->host_level[l].latency_s /= latency;
    }
}

static void improve_device(pdl_device_t *device, number_t number, double factor)
{
    switch (number) {
    case NUMBER_PEAK:
        for (int p = 0; p < PDL_PRECISION_COUNT; p++) device->peak_flop_per_s[p] *= factor;
        break;
    case NUMBER_MEMORY_RATE: device->memory_bandwidth_bytes_per_s *= factor; break;
    case NUMBER_LAUNCH: device->launch_s /= factor; break;
    case NUMBER_QUEUE:
        device->queue_s /= factor;
        device->issue_s /= factor;
        break;
    case NUMBER_HOST_LINK: scale_host_link(&device->host_link, factor); break;
    default: break;
    }
}

/* Makes one number better by a factor, of all kinds of devices. */
static void improve(pdl_system_t *system, number_t number, int level, double factor)
{
    pdl_storage_t *storage = &system->storage;

    improve_device(&system->device, number, factor);
    for (int i = 0; i < system->part_count; i++) improve_device(&system->part[i].device, number, factor);
    switch (number) {
    case NUMBER_STORAGE:
        storage->node_bandwidth_bytes_per_s *= factor;
        storage->total_bandwidth_bytes_per_s *= factor;
        break;
    case NUMBER_DECODE: storage->decode_samples_per_s *= factor; break;
    case NUMBER_LINK: improve_links(system, level, factor, 1); break;
    case NUMBER_LATENCY: improve_links(system, level, 1, factor); break;
    default: break;
    }
}

/* Its present value; 0: the machine has none. */
static double value_of(const pdl_system_t *system, number_t number, int level, pdl_precision_t precision)
{
    if (level == BETWEEN_NODES) level = 1;
    switch (number) {
    case NUMBER_PEAK: return pdl_device_peak(&system->device, precision);
    case NUMBER_MEMORY_RATE: return system->device.memory_bandwidth_bytes_per_s;
    case NUMBER_LAUNCH: return system->device.launch_s;
    case NUMBER_QUEUE: return system->device.queue_s;
    case NUMBER_HOST_LINK: return system->device.host_link.bytes_per_s[PDL_HOST_TO_DEVICE];
    case NUMBER_STORAGE: return system->storage.node_bandwidth_bytes_per_s;
    case NUMBER_DECODE: return system->storage.decode_samples_per_s;
    case NUMBER_LINK: return system->level[level].bandwidth_bytes_per_s;
    case NUMBER_LATENCY: return system->level[level].latency_s;
    case NUMBER_COUNT: break;
    }
    return 0;
}

static const struct {
    const char *name;
    pdl_unit_t  unit;
    bool        smaller;
} kinds[NUMBER_COUNT] = {
    [NUMBER_PEAK] = {"peak of the device", PDL_UNIT_FLOP_RATE, false},
    [NUMBER_MEMORY_RATE] = {"memory bandwidth", PDL_UNIT_BYTE_RATE, false},
    [NUMBER_LAUNCH] = {"least time of a kernel", PDL_UNIT_SECONDS, true},
    [NUMBER_QUEUE] = {"host time to queue a layer", PDL_UNIT_SECONDS, true},
    [NUMBER_HOST_LINK] = {"link to host memory", PDL_UNIT_BYTE_RATE, false},
    [NUMBER_STORAGE] = {"storage of a node", PDL_UNIT_BYTE_RATE, false},
    [NUMBER_DECODE] = {"samples decoded a second", PDL_UNIT_NONE, false},
    [NUMBER_LINK] = {"bandwidth of a link: ", PDL_UNIT_BYTE_RATE, false},
    [NUMBER_LATENCY] = {"start-up of a message: ", PDL_UNIT_SECONDS, true},
};

/* The best plan on another machine; negative where it cannot be had. */
static double seconds_on(const probe_t *probe, const pdl_system_t *system)
{
    pdl_oracle_t    *oracle = NULL;
    pdl_projection_t projection;
    pdl_status_t     status = pdl_oracle_create(probe->oracle->model, system, &probe->oracle->p, &oracle);

    if (!status && probe->best->config.strategy->per_layer)
        status = pdl_oracle_replay(oracle, probe->best->plan, probe->request->dataset, &projection);
    else if (!status)
        status = pdl__evaluate_replayed(oracle, &probe->best->config, probe->request->dataset, &projection);
    pdl_oracle_destroy(oracle);
    return status ? -1 : projection.total_s;
}

static double seconds_at(const probe_t *probe, number_t number, int level, double factor)
{
    pdl_system_t system = *probe->oracle->system;

    improve(&system, number, level, factor);
    return seconds_on(probe, &system);
}

/* By bisection on a logarithmic scale, to a percent. */
static double factor_for_gain(const probe_t *probe, number_t number, int level)
{
    double wanted = (1 - PDL_UPGRADE_GAIN) * probe->present_s, low = 0, high = log(64.0);

    if (seconds_at(probe, number, level, exp(high)) > wanted) return 0;
    while (high - low > 0.01) {
        double middle = 0.5 * (low + high);

        if (seconds_at(probe, number, level, exp(middle)) > wanted)
            low = middle;
        else
            high = middle;
    }
    return exp(high);
}

static void add_row(const probe_t *probe, number_t number, int level, pdl_sensitivity_t *out)
{
    const pdl_system_t    *system = probe->oracle->system;
    double                 value = value_of(system, number, level, probe->request->precision);
    pdl_sensitivity_row_t *row = &out->row[out->count];
    double                 better;
    bool                   leveled = number == NUMBER_LINK || number == NUMBER_LATENCY;

    if (value <= 0 || out->count == PDL_MOST_NUMBERS) return;
    better = seconds_at(probe, number, level, 1.1);
    if (better < 0) return;
    *row = (pdl_sensitivity_row_t){.unit = kinds[number].unit, .value = value, .smaller = kinds[number].smaller};
    snprintf(row->name, sizeof(row->name), "%s%.30s", kinds[number].name,
             !leveled                 ? ""
             : level == BETWEEN_NODES ? "all between nodes"
                                      : system->level[level].name);
    row->elasticity = log(probe->present_s / better) / log(1.1);
    /* A number that a tenth hardly touches does not save a tenth. */
    if (row->elasticity > 0.01) row->factor = factor_for_gain(probe, number, level);
    out->count++;
}

static int by_elasticity(const void *a, const void *b)
{
    double x = ((const pdl_sensitivity_row_t *)a)->elasticity, y = ((const pdl_sensitivity_row_t *)b)->elasticity;

    return (x < y) - (x > y);
}

/* More memory lets other plans in, so that the search is asked again. */
static pdl_status_t try_memory(const probe_t *probe, pdl_sensitivity_t *out)
{
    pdl_system_t  system = *probe->oracle->system;
    pdl_request_t request = *probe->request;
    pdl_oracle_t *oracle = NULL;
    pdl_search_t *search = NULL;
    pdl_status_t  status;

    if (system.backend != NULL || request.max_memory > 0) return PDL_OK; /* there, memory is counted otherwise */
    system.device.memory_bytes *= 2;
    for (int i = 0; i < system.part_count; i++) system.part[i].device.memory_bytes *= 2;
    request.batch = probe->best->config.batch;
    request.top = 1;
    status = pdl_oracle_create(probe->oracle->model, &system, &probe->oracle->p, &oracle);
    if (!status) status = pdl_search_run(oracle, &request, &search);
    if (!status && search->possible > 0) {
        char       mesh[80];
        pdl_mesh_t axes = pdl_config_mesh(&search->candidates[0].config);

        out->memory_s = search->candidates[0].projection.total_s;
        snprintf(out->memory_plan, sizeof(out->memory_plan), "%s", pdl_mesh_format(&axes, mesh, sizeof(mesh)));
    }
    pdl_search_destroy(search);
    pdl_oracle_destroy(oracle);
    return status;
}

pdl_status_t pdl_search_sensitivity(pdl_oracle_t *oracle, const pdl_request_t *request, const pdl_search_t *search,
                                    pdl_sensitivity_t *out)
{
    const pdl_system_t *system = oracle->system;
    probe_t             probe = {.oracle = oracle, .request = request, .best = &search->candidates[0]};
    int                 top = pdl_system_level_of_span(system, request->pe);

    *out = (pdl_sensitivity_t){.cheapest = -1,
                               .measured = system->measured_count > 0 || system->operation_count > 0 ||
                                           system->fabric != NULL};
    if (search->possible == 0) return PDL_OK;
    probe.present_s = seconds_on(&probe, system);
    if (probe.present_s <= 0) return PDL_ERR_LIMIT;
    for (int number = 0; number < NUMBER_LINK; number++) add_row(&probe, (number_t)number, 0, out);
    for (int level = 0; level <= top && level < system->level_count && request->pe > 1; level++) {
        add_row(&probe, NUMBER_LINK, level, out);
        add_row(&probe, NUMBER_LATENCY, level, out);
    }
    if (top > 1) {
        add_row(&probe, NUMBER_LINK, BETWEEN_NODES, out);
        add_row(&probe, NUMBER_LATENCY, BETWEEN_NODES, out);
    }
    qsort(out->row, (size_t)out->count, sizeof(out->row[0]), by_elasticity);
    for (int i = 0; i < out->count; i++)
        if (out->row[i].factor > 0 && (out->cheapest < 0 || out->row[i].factor < out->row[out->cheapest].factor))
            out->cheapest = i;
    return try_memory(&probe, out);
}
