/*
 * GPipe: all forward passes, then all backward passes in the opposite order. 1F1B: a stage runs ahead by the stages
 * behind it, then alternates. Interleaved: micro-batches go through a chunk in groups as large as the
 * pipeline, so that the group comes back to the first stage when that has sent its last one off. Zero-bubble: 1F1B
 * with divided backward passes (ZB-H1 of Qi et al., "Zero Bubble Pipeline Parallelism", 2023). Stage s, which runs ahead
 * by s micro-batches less than the first one, makes gradients of weights s micro-batches later: in all stages as many
 * micro-batches are held, and what is left at the end fills the time in which the stages in front still work.
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

bool pdl_pipeline_divides(const pdl_pipeline_t *p)
{
    return p->training && p->schedule == PDL_SCHEDULE_ZERO_BUBBLE;
}

int64_t pdl_pipeline_op_count(const pdl_pipeline_t *p)
{
    return p->micro_batches * p->chunks * (pdl_pipeline_divides(p) ? 3 : p->training ? 2 : 1);
}

/* Micro-batches with the last group filled up: the order of whole groups has no circles, and leaving out passes
   that do not exist makes none. */
static int64_t padded(const pdl_pipeline_t *p)
{
    if (p->chunks == 1) return p->micro_batches;
    return (p->micro_batches + p->stages - 1) / p->stages * p->stages;
}

/* Forward passes before the first backward pass. */
static int64_t passes_ahead(const pdl_pipeline_t *p, int stage)
{
    int64_t all = padded(p) * p->chunks;

    if (!p->training || p->schedule == PDL_SCHEDULE_GPIPE) return all;
    if (p->chunks == 1) return min64(all, p->stages - stage);
    return min64(all, 2 * (int64_t)(p->stages - stage - 1) + (int64_t)(p->chunks - 1) * p->stages + 1);
}

pdl_pipeline_walk_t pdl_pipeline_begin(const pdl_pipeline_t *p, int stage)
{
    pdl_pipeline_turn_t forward = {.left = p->chunks == 1 ? p->micro_batches : p->stages, .step = 1},
                        backward = forward;

    backward.chunk = p->chunks - 1;
    /* GPipe goes back newest first: what was kept last is used first. */
    if (p->schedule == PDL_SCHEDULE_GPIPE) {
        backward.step = -1;
        backward.micro_batch = p->micro_batches - 1;
    }
    return (pdl_pipeline_walk_t){p, padded(p) * p->chunks, passes_ahead(p, stage), {forward, backward}};
}

void pdl_pipeline_skip(pdl_pipeline_walk_t *walk, int64_t micro_batches)
{
    for (int d = 0; d < (walk->pipeline->training ? 2 : 1); d++) {
        walk->turn[d].done += micro_batches * walk->pipeline->chunks;
        walk->turn[d].micro_batch += micro_batches;
        if (walk->pipeline->chunks == 1) walk->turn[d].left -= micro_batches;
    }
}

void pdl_pipeline_change_chunk(pdl_pipeline_walk_t *walk, bool backward)
{
    const pdl_pipeline_t *p = walk->pipeline;
    pdl_pipeline_turn_t  *turn = &walk->turn[backward];

    if (p->chunks == 1) return;
    turn->left = p->stages;
    turn->chunk += backward ? -1 : 1;
    if (turn->chunk < 0 || turn->chunk == p->chunks)
        turn->chunk = backward ? p->chunks - 1 : 0;
    else
        turn->micro_batch -= p->stages;
}

pdl_pipeline_op_t pdl_pipeline_next(pdl_pipeline_walk_t *walk)
{
    for (;; pdl_pipeline_go(walk, pdl_pipeline_backward(walk))) {
        bool                       backward = pdl_pipeline_backward(walk);
        const pdl_pipeline_turn_t *turn = &walk->turn[backward];

        if (turn->micro_batch < walk->pipeline->micro_batches)
            return (pdl_pipeline_op_t){backward, turn->chunk, turn->micro_batch, PDL_GRADIENTS_ALL};
    }
}

static void divided_order(const pdl_pipeline_t *p, int stage, pdl_pipeline_op_t *ops)
{
    pdl_pipeline_walk_t walk = pdl_pipeline_begin(p, stage);
    pdl_pipeline_op_t   weights = {.backward = true, .gradients = PDL_GRADIENTS_OF_WEIGHTS};

    for (int64_t k = 2 * p->micro_batches; k > 0; k--) {
        pdl_pipeline_op_t *op = ops++;
        *op = pdl_pipeline_next(&walk);
        pdl_pipeline_go(&walk, op->backward);
        if (!op->backward) continue;
        op->gradients = PDL_GRADIENTS_OF_INPUTS;
        if (op->micro_batch < stage) continue;
        *ops++ = weights;
        weights.micro_batch++;
    }
    for (; weights.micro_batch < p->micro_batches; weights.micro_batch++) *ops++ = weights;
}

void pdl_pipeline_order(const pdl_pipeline_t *p, int stage, pdl_pipeline_op_t *ops)
{
    pdl_pipeline_walk_t walk = pdl_pipeline_begin(p, stage);

    if (pdl_pipeline_divides(p)) {
        divided_order(p, stage, ops);
        return;
    }
    for (int64_t k = pdl_pipeline_op_count(p); k > 0; k--, ops++) {
        *ops = pdl_pipeline_next(&walk);
        pdl_pipeline_go(&walk, ops->backward);
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
        if (ops[i].gradients == PDL_GRADIENTS_OF_INPUTS) continue;
        now += ops[i].backward ? -1 : 1;
        if (now > most) most = now;
    }
    return most;
}
