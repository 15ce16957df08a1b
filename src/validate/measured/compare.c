/*
 * Where a measured run differs from its projection.
 */
#include <paradl/validate/measured_run.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void add(pdl_difference_t *d, const char *name, double projected, double measured, const char *advice)
{
    d->row[d->count++] = (pdl_difference_row_t){name, projected, measured, advice};
}

static double lost(const pdl_difference_row_t *row)
{
    double difference = row->measured - row->projected;

    return isnan(difference) ? -INFINITY : difference;
}

static int by_loss(const void *a, const void *b)
{
    double x = lost(a), y = lost(b);

    return (x < y) - (x > y);
}

static void miss(pdl_difference_t *d, const char *what)
{
    size_t used = strlen(d->missing);

    snprintf(d->missing + used, sizeof(d->missing) - used, "%s%s", used > 0 ? ", " : "", what);
}

static void compare_computation(const pdl_measured_run_t *run, const pdl_projection_t *p, pdl_difference_t *d)
{
    double other = run->compute_s - run->product_s;

    if (isnan(run->product_s)) {
        add(d, "computation", p->compute_s, run->compute_s,
            "kernels: record a profiler's trace to see which; clocks and power limits (nvidia-smi -q -d "
            "PERFORMANCE); "
            "precision of products");
        return;
    }
    add(d, "products and convolutions", p->matrix_s, run->product_s,
        "shapes: a narrower tensor axis or larger micro-batches make products larger; clocks and power limits; "
        "tf32 or "
        "bf16 really in use");
    add(d, "other kernels", p->compute_s - p->matrix_s, other,
        "fusion: compile the model, fused norms, optimizer and attention; less recomputation");
}

/* A trace sees that nothing runs, not what is waited for. */
static void compare_waiting(const pdl_measured_run_t *run, const pdl_projection_t *p, pdl_difference_t *d)
{
    static const char host[] =
        "the host: CUDA graphs or a compiled model, larger micro-batches, no synchronisation (item(), "
        "print) in a step; loader workers; more micro-batches in a pipeline; a slow rank";

    if (!isnan(run->idle_s) && isnan(run->io_s)) {
        add(d, "device idle: host, samples, bubble", p->bubble_s + p->io_s, run->idle_s, host);
        return;
    }
    add(d, "device idle: host, bubble", p->bubble_s, run->idle_s, host);
    add(d, "waiting for samples", p->io_s, run->io_s, "input: more loader workers, prefetching, faster storage");
    if (isnan(run->idle_s)) miss(d, "idle_s");
    if (isnan(run->io_s)) miss(d, "io_s");
}

void pdl_measured_compare(const pdl_measured_run_t *run, const pdl_projection_t *p, pdl_difference_t *d)
{
    *d = (pdl_difference_t){.within = run->iteration_s >= p->low_s && run->iteration_s <= p->high_s};
    compare_computation(run, p, d);
    add(d, "exposed communication", p->comm_s, run->comm_s,
        "overlap: switches of gradient and parameter overlap, bucket size, CUDA_DEVICE_MAX_CONNECTIONS; speed of "
        "the network "
        "(nccl-tests) against the system description; tensor groups inside a node");
    compare_waiting(run, p, d);
    if (isnan(run->compute_s)) miss(d, "compute_s");
    if (isnan(run->comm_s)) miss(d, "comm_s");
    qsort(d->row, (size_t)d->count, sizeof(d->row[0]), by_loss);
}
