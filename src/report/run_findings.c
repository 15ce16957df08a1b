/*
 * What held a run up: the table of limits and bottlenecks (docs/training.md) applied to measured times, and to what is
 * left of them when the projection is taken away.
 */
#include <math.h>
#include <paradl/report/train_report.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct search {
    const pdl_run_report_spec_t *spec;
    const pdl_train_summary_t   *s;
    double                       step_s;
    pdl_finding_t               *found;
    int                          count;
} search_t;

__attribute__((format(printf, 5, 6))) static void find(search_t *f, const char *name, bool limit, double share,
                                                       const char *hint, ...)
{
    va_list        arguments;
    pdl_finding_t *finding;

    if (f->count == PDL_MAX_FINDINGS) return;
    finding = &f->found[f->count++];
    *finding = (pdl_finding_t){.name = name, .limit = limit, .share = fmin(share, 1)}; /* some are estimates */
    va_start(arguments, hint);
    vsnprintf(finding->hint, sizeof(finding->hint), hint, arguments);
    va_end(arguments);
}

static double share_of(const search_t *f, double seconds)
{
    return f->step_s > 0 ? seconds / f->step_s : 0;
}

/* Projected seconds of a class; NAN where nothing was projected. */
static double projected(const search_t *f, pdl_op_class_t class)
{
    return f->spec->classes ? f->spec->classes[class] : NAN;
}

static int64_t extent(const search_t *f, pdl_axis_kind_t kind)
{
    return pdl_mesh_extent(&f->spec->plan->mesh, kind);
}

static void find_input(search_t *f)
{
    double waited = f->s->class_s[PDL_CLASS_INPUT];

    if (f->spec->projection) waited -= f->spec->projection->io_s;
    if (share_of(f, waited) > 0.05)
        find(f, "input and staging", false, share_of(f, waited),
             "samples come late: more --loader-threads, data on faster storage, or less augmentation");
}

static void find_gradients(search_t *f)
{
    double measured = f->s->class_s[PDL_CLASS_GRADIENT], share = share_of(f, measured);
    double expected = projected(f, PDL_CLASS_GRADIENT);

    if (share <= 0.2) return;
    if (isfinite(expected) && measured > 2 * expected && f->s->most_work_s > 1.1 * f->s->work_s)
        return; /* it waits for the busiest rank, which is found apart */
    find(f, "gradient exchange", true, share,
         f->spec->plan->micro_batches == 1
             ? "exposed behind backward: a larger batch, or --micro-batches to exchange less often"
             : "exposed behind backward: a larger batch, smaller buckets (--bucket), or fewer replicas");
}

static void find_moves(search_t *f)
{
    double measured = f->s->class_s[PDL_CLASS_MOVE], share = share_of(f, measured);
    double expected = projected(f, PDL_CLASS_MOVE);
    bool   pieces = extent(f, PDL_AXIS_SPATIAL) > 1 || extent(f, PDL_AXIS_PIPELINE) > 1;

    if (pieces && isfinite(expected) && measured > 2 * expected && share_of(f, measured - expected) > 0.05)
        find(f, "point-to-point transport", false, share_of(f, measured - expected),
             "halos or stage transfers take %.1f times the projected time: fewer pieces, or a larger batch",
             measured / fmax(expected, 1e-12));
    else if (extent(f, PDL_AXIS_PIPELINE) > 1 && share > 0.1)
        find(f, "pipeline bubble", true, share, "stages wait for each other: more --micro-batches, or interleaved");
    else if (share > 0.2)
        find(f, "collectives in every layer", true, share,
             "a larger batch shares their start-up out, or split fewer layers (--strategy data, data+filter)");
}

static void find_copies(search_t *f)
{
    double share = share_of(f, f->s->class_s[PDL_CLASS_COPY]);

    if (share > 0.05)
        find(f, "copies to the host", true, share,
             "the computation waits for them: let paradl plan --max-memory choose policies for this machine, or "
             "raise "
             "the limit");
}

static void find_congestion(search_t *f)
{
    double mean = f->s->comm_s, least = f->s->least_comm_s;

    if (least > 0 && mean > 1.5 * least && share_of(f, mean - least) > 0.1)
        find(f, "congestion", false, share_of(f, mean - least),
             "exchanges take %.1f times their least time: others use the network or the cores", mean / least);
}

static void find_balance(search_t *f)
{
    double work = f->s->work_s, most = f->s->most_work_s;

    if (f->spec->ranks > 1 && work > 0 && most > 1.1 * work)
        find(f, "load balance", extent(f, PDL_AXIS_PIPELINE) > 1, share_of(f, most - work),
             "rank %d computes %.2f times the mean: even pieces or stages, and a core of its own for every thread",
             f->s->busiest_rank, most / work);
}

/* Tensor cores do not keep all bits of factors in fp32. */
static void find_precision(search_t *f)
{
    double share =
        share_of(f, f->s->class_s[PDL_CLASS_PRODUCT_FORWARD] + f->s->class_s[PDL_CLASS_PRODUCT_BACKWARD]);
    bool gpu = f->spec->device != NULL && strncmp(f->spec->device, "cuda", 4) == 0;

    if (gpu && f->spec->plan->precision == PDL_FP32 && share > 0.5)
        find(f, "fp32 without tensor cores", false, share,
             "products in fp32 leave them idle: --precision bf16, or tf32, which rounds the factors of products "
             "alone");
}

static void find_computation(search_t *f)
{
    double work = f->s->work_s, operations = f->s->operations * f->spec->launch_s;
    double convert = f->s->class_s[PDL_CLASS_CONVERT], update = f->s->class_s[PDL_CLASS_UPDATE];

    if (work > 0 && update > 0.1 * work)
        find(f, "weight update", true, share_of(f, update),
             "a larger batch or more --micro-batches update less often");
    if (f->spec->ranks > 1 && share_of(f, convert) > 0.05)
        find(f, "conversions", false, share_of(f, convert),
             extent(f, PDL_AXIS_SPATIAL) > 1 || extent(f, PDL_AXIS_TENSOR) > 1
                 ? "images change their format around exchanges: split fewer layers"
                 : "neighbouring layers of the model store images differently: no option changes that");
    if (share_of(f, operations) > 0.1)
        find(f, "small kernels", false, share_of(f, operations),
             "%.0f operations of %.1f us overhead each: a larger batch per rank, or fewer --micro-batches",
             f->s->operations, 1e6 * f->spec->launch_s);
    if (f->spec->projection && f->spec->projection->replicated_share > 0.3)
        find(f, "redundant computation", false, f->spec->projection->replicated_share * share_of(f, work),
             "layers between the split ones are computed by every rank of a group: keep them split");
}

/* Layers that take longer than projected, class by class: the machine differs from its description. */
static void find_slow(search_t *f)
{
    double worst = 0;
    int class = -1;

    if (!f->spec->classes || f->spec->generic) return;
    for (int i = 0; i < PDL_CLASS_CONVERT; i++) {
        double more = f->s->class_s[i] - f->spec->classes[i];

        if (f->s->class_s[i] <= 1.25 * f->spec->classes[i] || more <= worst) continue;
        worst = more;
        class = i;
    }
    if (share_of(f, worst) > 0.1)
        find(f, "slow computation", false, share_of(f, worst),
             "%s take %.1f times the projected time: paradl calibrate --model, or other programs use the cores",
             pdl_op_class_names[class], f->s->class_s[class] / fmax(f->spec->classes[class], 1e-12));
}

static void find_memory(search_t *f)
{
    const pdl_session_memory_t *m = &f->s->memory;
    double                      states = (double)(m->weights + m->gradients + m->optimizer);

    if (extent(f, PDL_AXIS_DATA) > 1 && f->spec->plan->sharding == PDL_SHARDING_NONE &&
        states > 0.5 * (double)m->total)
        find(f, "redundant copies", false, states / (double)m->total,
             "of memory: every replica holds all weights and states; split them, or shard them");
}

static int larger_share(const void *a, const void *b)
{
    double x = ((const pdl_finding_t *)a)->share, y = ((const pdl_finding_t *)b)->share;

    return (x < y) - (x > y);
}

int pdl_run_findings(const pdl_run_report_spec_t *spec, const pdl_train_summary_t *summary,
                     pdl_finding_t findings[PDL_MAX_FINDINGS])
{
    search_t f = {.spec = spec, .s = summary, .step_s = summary->step_s, .found = findings};

    if (summary->updates == 0) return 0;
    find_input(&f);
    find_gradients(&f);
    find_moves(&f);
    find_copies(&f);
    find_congestion(&f);
    find_balance(&f);
    find_precision(&f);
    find_computation(&f);
    find_slow(&f);
    find_memory(&f);
    qsort(findings, (size_t)f.count, sizeof(*findings), larger_share);
    return f.count;
}

void pdl_run_simulated_classes(const pdl_plan_sim_t *sim, const double classes[PDL_OP_CLASS_COUNT],
                               double seconds[PDL_OP_CLASS_COUNT])
{
    double work = 0;

    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) {
        seconds[i] = i == PDL_CLASS_INPUT ? NAN : classes[i];
        if (i != PDL_CLASS_INPUT && i != PDL_CLASS_MOVE && i != PDL_CLASS_GRADIENT) work += classes[i];
    }
    seconds[PDL_CLASS_GRADIENT] = sim->simulated.comm[PDL_COMM_GRADIENT];
    seconds[PDL_CLASS_MOVE] = fmax(0, sim->simulated.total_s - seconds[PDL_CLASS_GRADIENT] - work);
}
