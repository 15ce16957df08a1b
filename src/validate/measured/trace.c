/*
 * Traces of PyTorch's profiler: events with a begin and a duration in microseconds, those of the device by their category.
 */
#include "validate/measured/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct busy {
    double begin, end;
    bool   comm, product;
} busy_t;

/* Beginnings and ends of steps, as the host or the device saw them. */
typedef struct steps {
    double first, last, end;
    int    count;
} steps_t;

typedef struct trace {
    busy_t *busy;
    int     busy_count;
    steps_t host, gpu;
    double  device; /* process of the first event on a device; others are left out */
} trace_t;

static bool has(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

/* Kernels are known by their names, which libraries have kept for years. */
static bool is_comm(const char *name)
{
    return has(name, "nccl") || has(name, "rccl") || has(name, "AllReduce") || has(name, "AllGather") ||
           has(name, "ReduceScatter");
}

static bool is_product(const char *name)
{
    return has(name, "gemm") || has(name, "Gemm") || has(name, "GEMM") || has(name, "xmma") ||
           has(name, "cutlass") || has(name, "nvjet") || has(name, "conv") || has(name, "implicit") ||
           has(name, "wgrad") || has(name, "dgrad");
}

static void take_step(steps_t *s, double begin, double duration)
{
    s->first = s->count == 0 ? begin : fmin(s->first, begin);
    s->last = s->count == 0 ? begin : fmax(s->last, begin);
    s->end = s->count == 0 ? begin + duration : fmax(s->end, begin + duration);
    s->count++;
}

static void take_event(trace_t *t, const pdl_json_value_t *event)
{
    const char *category = pdl_json_text_of(event, "cat"), *name = pdl_json_text_of(event, "name");
    double      begin = pdl_json_number_of(event, "ts"), duration = pdl_json_number_of(event, "dur");
    double      device = pdl_json_number_of(event, "pid");

    if (category == NULL || name == NULL || isnan(begin) || !(duration >= 0)) return;
    if (strncmp(name, "ProfilerStep#", 13) == 0) {
        if (strcmp(category, "user_annotation") == 0) take_step(&t->host, begin, duration);
        if (strcmp(category, "gpu_user_annotation") == 0) take_step(&t->gpu, begin, duration);
        return;
    }
    if (strcmp(category, "kernel") != 0 && strcmp(category, "gpu_memcpy") != 0 &&
        strcmp(category, "gpu_memset") != 0)
        return;
    if (isnan(t->device)) t->device = device;
    if (device != t->device && !isnan(device)) return;
    t->busy[t->busy_count++] = (busy_t){begin, begin + duration, is_comm(name), is_product(name)};
}

static int by_begin(const void *a, const void *b)
{
    double x = ((const busy_t *)a)->begin, y = ((const busy_t *)b)->begin;

    return (x > y) - (x < y);
}

/* Time in which something of the kind runs; events are in order. */
static double covered(const trace_t *t, bool with_comm)
{
    double end = -INFINITY, sum = 0;

    for (int i = 0; i < t->busy_count; i++) {
        const busy_t *b = &t->busy[i];

        if (b->comm && !with_comm) continue;
        if (b->end <= end) continue;
        sum += b->end - fmax(b->begin, end);
        end = b->end;
    }
    return sum;
}

/* Only what runs from the first step to the beginning of the last counts, which are whole steps; of one step, all of it. The host
   runs ahead of the device, so that steps of the device are taken where they are recorded. Returns their number. */
static int cut_to_steps(trace_t *t, double *begin, double *end)
{
    const steps_t *steps = t->gpu.count >= t->host.count ? &t->gpu : &t->host;
    int            kept = 0;

    *begin = steps->first;
    *end = steps->count > 1 ? steps->last : steps->end;
    for (int i = 0; i < t->busy_count; i++) {
        busy_t b = t->busy[i];

        b.begin = fmax(b.begin, *begin);
        b.end = fmin(b.end, *end);
        if (b.end > b.begin) t->busy[kept++] = b;
    }
    t->busy_count = kept;
    return steps->count > 1 ? steps->count - 1 : 1;
}

static void fill(trace_t *t, const char *name, pdl_measured_run_t *run)
{
    double begin, end, all, compute, scale, product = 0, work = 0, comm = 0;

    run->iterations = cut_to_steps(t, &begin, &end);
    scale = 1e-6 / run->iterations;
    qsort(t->busy, (size_t)t->busy_count, sizeof(*t->busy), by_begin);
    all = covered(t, true);
    compute = covered(t, false);
    for (int i = 0; i < t->busy_count; i++) {
        double length = t->busy[i].end - t->busy[i].begin;

        *(t->busy[i].comm ? &comm : &work) += length;
        if (t->busy[i].product && !t->busy[i].comm) product += length;
    }
    run->iteration_s = (end - begin) * scale;
    run->compute_s = compute * scale;
    run->product_s = work > 0 ? product / work * compute * scale : 0;
    run->comm_s = (all - compute) * scale;
    run->overlapped_s = comm * scale - run->comm_s;
    run->idle_s = (end - begin - all) * scale;
    snprintf(run->source, sizeof(run->source), "%d steps of the trace %.100s", run->iterations, name);
}

pdl_status_t pdl__measured_trace(pdl_arena_t *arena, const pdl_json_value_t *root, const char *name,
                                 pdl_measured_run_t *run)
{
    const pdl_json_value_t *events = pdl_json_get(root, "traceEvents");
    trace_t                 t = {.device = NAN};
    size_t                  count;

    if (events == NULL || events->kind != PDL_JSON_ARRAY)
        return pdl_error(PDL_ERR_INPUT,
                         "%s: no traceEvents and no step_s: give a trace of PyTorch's profiler "
                         "(export_chrome_trace), a log of paradl train --log, or iteration_s=SECONDS",
                         name);
    count = (size_t)events->count + 1;
    t.busy = pdl_arena_alloc(arena, count, sizeof(*t.busy));
    if (t.busy == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", name);
    for (const pdl_json_value_t *e = events->first; e != NULL; e = e->next) take_event(&t, e);
    if (t.host.count + t.gpu.count == 0)
        return pdl_error(PDL_ERR_INPUT,
                         "%s: the trace has no ProfilerStep, so the time of an iteration is not known: call "
                         "prof.step() after every iteration",
                         name);
    if (t.busy_count == 0)
        return pdl_error(PDL_ERR_INPUT,
                         "%s: the trace has no kernels of a device: record ProfilerActivity.CUDA, or give "
                         "iteration_s=SECONDS",
                         name);
    fill(&t, name, run);
    return PDL_OK;
}
