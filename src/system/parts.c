/*
 * Machines with several kinds of devices: which rank has which. This is the one place that says it.
 */
#include <paradl/system/system.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

int64_t pdl_system_orders(const pdl_system_t *system)
{
    int64_t orders = 1;

    for (int i = 2; i <= system->part_count; i++) orders *= i;
    return orders;
}

/* Digits of the number in the factorial base say which of the parts that are left comes next. */
void pdl_system_order(const pdl_system_t *system, int number, int order[PDL_MAX_PARTS])
{
    int left[PDL_MAX_PARTS], count = system->part_count, ways = (int)pdl_system_orders(system);

    for (int i = 0; i < count; i++) left[i] = i;
    for (int i = 0; i < count; i++) {
        ways /= count - i;
        int next = number / ways;
        order[i] = left[next];
        memmove(&left[next], &left[next + 1], (size_t)(count - i - next - 1) * sizeof(*left));
        number %= ways;
    }
}

static pdl_status_t unknown(const pdl_system_t *system)
{
    char   has[PDL_MAX_PARTS * (PDL_PART_NAME + 2)] = "";
    size_t used = 0;

    for (int i = 0; i < system->part_count; i++)
        used += (size_t)snprintf(has + used, sizeof(has) - used, "%s%s", i > 0 ? ", " : "", system->part[i].name);
    return pdl_error(PDL_ERR_INPUT, "the parts of the plan are not those of %s, each once: it has %s", system->name,
                     has);
}

pdl_status_t pdl_system_find_order(const pdl_system_t *system, const char (*names)[PDL_PART_NAME], int count,
                                   int *number)
{
    int order[PDL_MAX_PARTS];

    *number = 0;
    if (count == 0 || system->part_count == 0) return PDL_OK;
    for (int n = 0; count == system->part_count && n < pdl_system_orders(system); n++) {
        int same = 0;

        pdl_system_order(system, n, order);
        while (same < count && strcmp(system->part[order[same]].name, names[same]) == 0) same++;
        if (same < count) continue;
        *number = n;
        return PDL_OK;
    }
    return unknown(system);
}

/* Whether one of the stretches of `stride` ranks from stage * stride on, every stages * stride of them, meets [first, last). */
static bool meets(int64_t stages, int64_t stride, int64_t stage, int64_t first, int64_t last)
{
    int64_t period = stages * stride, round = first / period;

    for (int i = 0; i < 2; i++) {
        int64_t begin = (round + i) * period + stage * stride;
        if (begin < last && begin + stride > first) return true;
    }
    return false;
}

unsigned pdl_system_kinds(const pdl_system_t *system, int order, int64_t ranks, int64_t stages, int64_t stride,
                          int64_t stage)
{
    int      part[PDL_MAX_PARTS];
    int64_t  first = 0;
    unsigned kinds = 0;

    pdl_system_order(system, order, part);
    for (int i = 0; i < system->part_count && first < ranks; i++) {
        const pdl_system_part_t *p = &system->part[part[i]];
        int64_t                  last = first + p->nodes * system->level[0].fanout;

        if (meets(stages, stride, stage, first, last < ranks ? last : ranks)) kinds |= 1u << p->kind;
        first = last;
    }
    return kinds;
}

void pdl_system_count_kinds(const pdl_system_t *system, int order, int64_t ranks, int64_t count[PDL_MAX_PARTS])
{
    int part[PDL_MAX_PARTS];

    memset(count, 0, PDL_MAX_PARTS * sizeof(*count));
    pdl_system_order(system, order, part);
    for (int i = 0; i < system->part_count && ranks > 0; i++) {
        const pdl_system_part_t *p = &system->part[part[i]];
        int64_t                  devices = p->nodes * system->level[0].fanout;

        count[p->kind] += devices < ranks ? devices : ranks;
        ranks -= devices;
    }
}

double pdl_system_price(const pdl_system_t *system, int order, int64_t ranks)
{
    int    part[PDL_MAX_PARTS];
    double sum = 0, all = (double)ranks;

    if (system->part_count == 0) return system->cost_per_pe_hour;
    pdl_system_order(system, order, part);
    for (int i = 0; i < system->part_count && ranks > 0; i++) {
        const pdl_system_part_t *p = &system->part[part[i]];
        int64_t                  devices = p->nodes * system->level[0].fanout;
        double                   each = p->cost_per_pe_hour > 0 ? p->cost_per_pe_hour : system->cost_per_pe_hour;

        if (!(each > 0)) return 0;
        sum += (double)(devices < ranks ? devices : ranks) * each;
        ranks -= devices;
    }
    return sum / all;
}

double pdl_system_peak(const pdl_system_t *system, int order, int64_t ranks, pdl_precision_t precision)
{
    int64_t count[PDL_MAX_PARTS];
    double  sum = 0, all = 0;

    if (system->part_count == 0) return pdl_device_peak(&system->device, precision);
    pdl_system_count_kinds(system, order, ranks, count);
    for (int i = 0; i < system->part_count; i++) {
        sum += (double)count[i] * pdl_device_peak(&system->part[i].device, precision);
        all += (double)count[i];
    }
    return sum / all;
}

/* Where 0 stands for no limit. */
static double less_unless_none(double a, double b)
{
    return a > 0 && b > 0 ? fmin(a, b) : fmax(a, b);
}

/* A rate that one of them does not have is not known of both. */
static pdl_host_link_t weaker_link(const pdl_host_link_t *a, const pdl_host_link_t *b)
{
    const pdl_host_link_t *slower = a->bytes_per_s[PDL_HOST_BOTH] <= b->bytes_per_s[PDL_HOST_BOTH] ? a : b;

    return *slower;
}

pdl_device_t pdl_device_weaker(const pdl_device_t *a, const pdl_device_t *b)
{
    /* What one leaves free beside what it reserves is what both do. */
    const pdl_device_t *tighter = b->memory_bytes - b->reserved_bytes < a->memory_bytes - a->reserved_bytes ? b : a;
    pdl_device_t        weaker = *a;
    double              rate = fmin(a->memory_bandwidth_bytes_per_s * a->memory_efficiency,
                                    b->memory_bandwidth_bytes_per_s * b->memory_efficiency);

    weaker.memory_bytes = fmin(a->memory_bytes, b->memory_bytes);
    weaker.memory_bandwidth_bytes_per_s = fmin(a->memory_bandwidth_bytes_per_s, b->memory_bandwidth_bytes_per_s);
    weaker.memory_efficiency = a->memory_efficiency == b->memory_efficiency
                                   ? a->memory_efficiency
                                   : rate / weaker.memory_bandwidth_bytes_per_s;
    for (int p = 0; p < PDL_PRECISION_COUNT; p++)
        weaker.peak_flop_per_s[p] = fmin(a->peak_flop_per_s[p], b->peak_flop_per_s[p]);
    weaker.compute_units = a->compute_units < b->compute_units ? a->compute_units : b->compute_units;
    weaker.launch_s = fmax(a->launch_s, b->launch_s);
    weaker.matrix_efficiency = fmin(a->matrix_efficiency, b->matrix_efficiency);
    weaker.fitted = a->fitted && b->fitted;
    weaker.power_w = fmax(a->power_w, b->power_w);
    weaker.idle_power_w = fmax(a->idle_power_w, b->idle_power_w);
    weaker.queue_s = fmax(a->queue_s, b->queue_s);
    weaker.issue_s = fmax(a->issue_s, b->issue_s);
    weaker.step_s = fmax(a->step_s, b->step_s);
    weaker.graphs = a->graphs && b->graphs;
    weaker.slice_s = fmax(a->slice_s, b->slice_s);
    weaker.sharing = fmin(a->sharing, b->sharing);
    weaker.host_link = weaker_link(&a->host_link, &b->host_link);
    weaker.host_bytes = less_unless_none(a->host_bytes, b->host_bytes);
    weaker.host_update_bytes_per_s = fmin(a->host_update_bytes_per_s, b->host_update_bytes_per_s);
    weaker.reserved_bytes = tighter->reserved_bytes + weaker.memory_bytes - tighter->memory_bytes;
    weaker.copy_bytes_per_s = less_unless_none(a->copy_bytes_per_s, b->copy_bytes_per_s);
    return weaker;
}
