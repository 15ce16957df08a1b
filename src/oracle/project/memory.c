/*
 * Memory of the busiest rank: states, activations by liveness times the micro-batches in flight, buffers
 * (docs/oracle.md, "Memory").
 */
#include "oracle/internal.h"
#include "program/footprint.h"
#include <math.h>
#include <string.h>

/* Micro-batches whose activations stage s holds at once. */
static double in_flight(const pdl_case_t *c, int64_t stage)
{
    double m = (double)c->micro_batches, depth = (double)(c->pipeline - stage);

    if (c->pipeline == 1) return 1;
    if (c->schedule == PDL_SCHEDULE_GPIPE) return m;
    if (c->schedule == PDL_SCHEDULE_INTERLEAVED) depth += (double)(c->pipeline - 1) / (double)c->virtual_stages;
    return fmin(m, depth);
}

/* Bytes of weight, gradient and optimizer state per weight element. 16-bit training keeps a 32-bit copy. */
static void state_bytes(const pdl_case_t *c, double *weight, double *gradient, double *optimizer)
{
    static const double moments[PDL_OPTIMIZER_COUNT] = {0, 1, 2};
    /* 8-bit formats are for products only: weights stay in 16 bits. */
    double item = pdl_precision_bytes(c->precision == PDL_FP8 ? PDL_BF16 : c->precision);

    *weight = item;
    *gradient = item;
    *optimizer = moments[c->optimizer] * fmax(item, 4) + (item < 4 ? 4 : 0);
    if (c->run_mode == PDL_INFERENCE) *gradient = *optimizer = 0;
}

static double sharded(const pdl_case_t *c, pdl_sharding_t from, double bytes)
{
    return c->sharding >= from ? bytes / (double)c->data : bytes;
}

double pdl__state_bytes(const pdl_case_t *c)
{
    double weight, gradient, optimizer;

    state_bytes(c, &weight, &gradient, &optimizer);
    return sharded(c, PDL_SHARDING_ZERO3, weight) + sharded(c, PDL_SHARDING_ZERO2, gradient) +
           sharded(c, PDL_SHARDING_ZERO1, optimizer);
}

/* Elements kept for backward by one micro-batch of a stage under the recompute policy. */
static double saved_elements(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_stages_t *st, int64_t s,
                             double *transient)
{
    const pdl_activation_memory_t *m = &st->held->memory[s];
    double                         saved = m->saved;
    double                         scores = oracle->p.fused_attention ? 0 : st->sums[s].attention_scores;

    *transient = m->transient;
    if (c->run_mode == PDL_INFERENCE) return 0;
    if (c->recompute == PDL_RECOMPUTE_NONE) return saved + scores;
    if (c->recompute == PDL_RECOMPUTE_SELECTIVE) return saved;
    /* Full: one tensor per segment, and one segment at a time in full. */
    double border = m->input > 0              ? m->input
                    : st->border_elements > 0 ? st->border_elements
                                              : saved / (st->cuts[s] + 1);
    double segments = fmax(1, fmin(st->cuts[s] + 1, sqrt((saved + scores) / fmax(border, 1))));
    *transient += (saved + scores) / segments;
    return segments * border;
}

static void stage_memory(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                         const pdl_stages_t *st, int64_t s, pdl_memory_breakdown_t *b)
{
    double weight, gradient, optimizer, transient, item = profile->compute.item_bytes;
    double elements = st->sums[s].weights + st->tied[s];

    state_bytes(c, &weight, &gradient, &optimizer);
    if (oracle->p.wide_gradients && gradient > 0) gradient = fmax(gradient, 4);
    *b = (pdl_memory_breakdown_t){.workspace = oracle->p.workspace_bytes,
                                  .context = oracle->system->device.reserved_bytes};
    b->weights = sharded(c, PDL_SHARDING_ZERO3, elements * weight);
    b->gradients = sharded(c, PDL_SHARDING_ZERO2, elements * gradient);
    b->optimizer = sharded(c, PDL_SHARDING_ZERO1, elements * optimizer);
    b->saved_activations = saved_elements(oracle, c, st, s, &transient) * item * in_flight(c, s);
    b->transient = transient * item;
    b->buffers = c->pe > 1 ? fmax(profile->largest_transfer, oracle->p.bucket_bytes) : 0;
    /* Allocators lose a share of what they hand out; weights and context are placed once. */
    b->margin = (oracle->p.memory_margin - 1) * (b->saved_activations + b->transient + b->buffers + b->gradients);
}

/* Threads of a rank: the cores of a node, where a PE is one, are shared out over the ranks on it. */
static int threads_of(const pdl_oracle_t *oracle, const pdl_case_t *c)
{
    double cores = (double)oracle->system->level[0].fanout * oracle->system->device.compute_units;
    double ranks = fmin((double)c->pe, (double)oracle->system->level[0].fanout);

    return (int)fmax(1, floor(cores / ranks));
}

/* The trainer places every buffer before it starts: what it takes is known op by op, and nothing is added for
   allocators. What the process needs besides is not its own. */
static pdl_status_t place_buffers(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                                  pdl_memory_breakdown_t *b)
{
    pdl__footprint_spec_t spec = {.recompute = c->recompute,
                                  .training = c->run_mode == PDL_TRAINING,
                                  .accumulates = c->micro_batches > 1,
                                  .item_bytes = profile->compute.item_bytes,
                                  .channel_block = (int64_t)oracle->p.channel_block,
                                  .threads = threads_of(oracle, c)};
    pdl__footprint_t      footprint;
    pdl_status_t          status = pdl__partition_footprint(profile->partition, &spec, &footprint);

    if (status) return status;
    b->saved_activations = footprint.saved;
    b->transient = footprint.peak - footprint.saved;
    b->workspace = b->context = b->margin = 0;
    /* Gradients are exchanged where they lie. */
    if (c->inner == 1) b->buffers = 0;
    return PDL_OK;
}

static double breakdown_sum(const pdl_memory_breakdown_t *b)
{
    return b->weights + b->gradients + b->optimizer + b->saved_activations + b->transient + b->buffers +
           b->workspace + b->context + b->margin;
}

pdl_status_t pdl__project_memory(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                                 const pdl_stages_t *st, pdl_projection_t *out)
{
    double cap = oracle->memory_cap > 0 ? oracle->memory_cap : oracle->system->device.memory_bytes;
    bool   placed = oracle->p.own_runtime && c->pipeline == 1;

    const pdl__stage_memory_t *held = pdl__stages_memory(profile, st);

    /* Later stages hold no more micro-batches than earlier ones, so the first of each kind speaks for it. */
    out->memory_bytes = 0;
    for (int k = 0; k < held->kind_count; k++) {
        pdl_memory_breakdown_t b;
        stage_memory(oracle, c, profile, st, held->kinds[k], &b);
        pdl_status_t status = placed ? place_buffers(oracle, c, profile, &b) : PDL_OK;
        if (status) return status;
        double bytes = breakdown_sum(&b);
        if (bytes > out->memory_bytes) {
            out->memory_bytes = bytes;
            out->memory = b;
        }
    }
    double besides = placed ? oracle->system->device.reserved_bytes : 0;
    out->fits = out->memory_bytes + besides <= cap;
    return PDL_OK;
}
