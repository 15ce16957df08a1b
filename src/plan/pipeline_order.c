/*
 * GPipe: all forward passes, then all backward passes in the opposite order. 1F1B: a stage runs ahead by the stages
 * behind it, then alternates. Interleaved: micro-batches go through a chunk in groups as large as the
 * pipeline, so that the group comes back to the first stage when that has sent its last one off.
 */
#include <paradl/plan/pipeline.h>

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

pdl_pipeline_t pdl_pipeline_of_plan(const pdl_plan_t *plan)
{
    return (pdl_pipeline_t){.schedule = plan->schedule,
                            .stages = (int)pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE),
                            .chunks = plan->virtual_stages,
                            .micro_batches = plan->micro_batches,
                            .training = plan->run_mode == PDL_TRAINING};
}

int64_t pdl_pipeline_op_count(const pdl_pipeline_t *p)
{
    return p->micro_batches * p->chunks * (p->training ? 2 : 1);
}

/* Micro-batches with the last group filled up: the order of whole groups has no circles, and leaving out passes
   that do not exist makes none. */
static int64_t padded(const pdl_pipeline_t *p)
{
    if (p->chunks == 1) return p->micro_batches;
    return (p->micro_batches + p->stages - 1) / p->stages * p->stages;
}

/* The k-th forward or backward pass of a stage: groups of micro-batches, in each of them the chunks in turn. */
static pdl_pipeline_op_t pass(const pdl_pipeline_t *p, int64_t k, bool backward)
{
    int64_t group = k / ((int64_t)p->stages * p->chunks), inside = k % ((int64_t)p->stages * p->chunks);
    int     chunk = (int)(inside / p->stages);

    if (p->chunks == 1) return (pdl_pipeline_op_t){backward, 0, k};
    return (pdl_pipeline_op_t){backward, backward ? p->chunks - 1 - chunk : chunk,
                               group * p->stages + inside % p->stages};
}

/* Forward passes before the first backward pass. */
static int64_t passes_ahead(const pdl_pipeline_t *p, int stage)
{
    int64_t all = padded(p) * p->chunks;

    if (!p->training || p->schedule == PDL_SCHEDULE_GPIPE) return all;
    if (p->chunks == 1) return min64(all, p->stages - stage);
    return min64(all, 2 * (int64_t)(p->stages - stage - 1) + (int64_t)(p->chunks - 1) * p->stages + 1);
}

static void add(const pdl_pipeline_t *p, pdl_pipeline_op_t op, pdl_pipeline_op_t **end)
{
    if (op.micro_batch < p->micro_batches) *(*end)++ = op;
}

void pdl_pipeline_order(const pdl_pipeline_t *p, int stage, pdl_pipeline_op_t *ops)
{
    int64_t all = padded(p) * p->chunks, ahead = passes_ahead(p, stage);

    for (int64_t k = 0; k < ahead; k++) add(p, pass(p, k, false), &ops);
    if (!p->training) return;
    for (int64_t k = 0; k < all; k++) {
        pdl_pipeline_op_t op = pass(p, k, true);

        /* GPipe goes back newest first: what was kept last is used first. */
        if (p->schedule == PDL_SCHEDULE_GPIPE) op.micro_batch = p->micro_batches - 1 - k;
        add(p, op, &ops);
        if (ahead + k < all) add(p, pass(p, ahead + k, false), &ops);
    }
}

/* The virtual stage before or after that of a pass. Asked for every pass that is replayed, hence without divisions. */
static bool neighbour(const pdl_pipeline_t *p, int stage, int chunk, int step, int *to_stage, int *to_chunk)
{
    *to_stage = stage + step;
    *to_chunk = chunk;
    if (*to_stage < 0) {
        *to_stage = p->stages - 1;
        --*to_chunk;
    } else if (*to_stage >= p->stages) {
        *to_stage = 0;
        ++*to_chunk;
    }
    return *to_chunk >= 0 && *to_chunk < p->chunks;
}

bool pdl_pipeline_source(const pdl_pipeline_t *p, int stage, const pdl_pipeline_op_t *op, int *from_stage,
                         int *from_chunk)
{
    return neighbour(p, stage, op->chunk, op->backward ? 1 : -1, from_stage, from_chunk);
}

bool pdl_pipeline_target(const pdl_pipeline_t *p, int stage, const pdl_pipeline_op_t *op, int *to_stage,
                         int *to_chunk)
{
    return neighbour(p, stage, op->chunk, op->backward ? -1 : 1, to_stage, to_chunk);
}

int64_t pdl_pipeline_in_flight(const pdl_pipeline_op_t *ops, int64_t count)
{
    int64_t now = 0, most = 0;

    for (int64_t i = 0; i < count; i++) {
        now += ops[i].backward ? -1 : 1;
        if (now > most) most = now;
    }
    return most;
}
