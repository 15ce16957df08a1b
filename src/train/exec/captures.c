/*
 * Operations that a device keeps and replays: a launch for all of them costs the host less than one for each, and the device waits
 * less between them. What differs from step to step is not in them but in memory of the device.
 *
 * A program is executed once as ever, which loads kernels, then captured where its input is in one of the two slots, then replayed.
 * Operations from the first one on that needs the host are executed as ever.
 */
#include "train/exec/execute.h"
#include "train/exec/finite.h"
#include <string.h>

#define LEAST 4 /* operations that are worth it */

const pdl_step_numbers_t *pdl__step_numbers(const pdl_session_t *s)
{
    return (const pdl_step_numbers_t *)(const void *)(s->executor.scalars + s->executor.numbers_at);
}

pdl_status_t pdl__step_numbers_send(pdl_session_t *s, const pdl__execution_t *execution)
{
    pdl__executor_t   *e = &s->executor;
    pdl_step_numbers_t numbers = {.step = (uint64_t)s->updates};

    if (execution->mode == PDL__EXECUTE_EVALUATE) return PDL_OK;
    if (execution->mode == PDL__EXECUTE_TRAIN && execution->result)
        pdl_optimizer_numbers(&s->spec.optimizer, s->updates - s->weights.moments_from, execution->result->lr,
                              &numbers);
    memcpy(e->scalars_home + e->numbers_at, &numbers, sizeof(numbers));
    return e->device->ops->copy(e->device, e->stream[PDL_STREAM_COMPUTE], e->scalars + e->numbers_at,
                                e->scalars_home + e->numbers_at, sizeof(numbers));
}

static bool needs_host(const pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution)
{
    const pdl__unit_t *unit = op->node >= 0 ? &s->graph->unit[op->node] : NULL;
    bool               alone = op->kind == PDL_OP_RESULT ? execution->defers : pdl_ranks_size(s->spec.ranks) == 1;

    if (pdl_program_op_needs_host(op, alone)) return true;
    if (!unit || unit->kind != PDL__UNIT_OP) return false;
    if (unit->description.meetings[op->backward] > 0 || unit->routes || unit->halo) return true;
    return unit->loss && (s->executor.outputs || s->executor.logits.call);
}

static bool can_replay(const pdl_session_t *s, const pdl__execution_t *execution)
{
    return s->executor.device->captures && !s->executor.captures.refused && !execution->searches &&
           !execution->halts && !execution->resumed && !s->observer.measures && !s->observer.timeline &&
           (s->executor.captures.warm >> execution->mode & 1) != 0;
}

static pdl__capture_t describe(const pdl_session_t *s, const pdl__execution_t *execution)
{
    const pdl_program_t *program = execution->program;
    const pdl_batch_t   *batch = &s->executor.input.batch;
    pdl__capture_t       c = {.program = program,
                              .mode = execution->mode,
                              .slot = s->executor.input.slot,
                              .bytes = batch->bytes != NULL,
                              .mean_over = s->executor.mean_over,
                              .draws_at = s->executor.draws_at,
                              .weights = s->weights.array[PDL_ARRAY_WEIGHT]};

    if (c.bytes) c.scale = *batch->scale;
    while (c.stop < program->op_count && !needs_host(s, &program->op[c.stop], execution)) c.stop++;
    return c;
}

static bool same(const pdl__capture_t *a, const pdl__capture_t *b)
{
    return a->program == b->program && a->mode == b->mode && a->slot == b->slot && a->stop == b->stop &&
           a->bytes == b->bytes && a->mean_over == b->mean_over && a->draws_at == b->draws_at &&
           a->weights == b->weights && memcmp(&a->scale, &b->scale, sizeof(a->scale)) == 0;
}

/* The device may not be able to: then the operations are executed as ever, from now on. */
static void capture(pdl_session_t *s, pdl__execution_t *execution, pdl__capture_t *c)
{
    pdl__executor_t     *e = &s->executor;
    pdl_tensor_stream_t *compute = e->stream[PDL_STREAM_COMPUTE];
    pdl_status_t         status = e->device->ops->capture_begin(e->device, compute), end;

    if (!status) {
        for (int i = 0; i < c->stop && !status; i++) status = pdl__execute_op(s, i, execution);
        end = e->device->ops->capture_end(e->device, compute, &c->work);
        if (!status) status = end;
    }
    if (!status) return;
    e->device->ops->work_destroy(e->device, c->work);
    c->work = NULL;
    e->captures.refused = true;
}

/* What the host does in these operations. */
static void note_replay(pdl_session_t *s, pdl__execution_t *execution, int stop)
{
    for (int i = 0; i < stop; i++) {
        const pdl_program_op_t *op = &execution->program->op[i];

        if (op->kind == PDL_OP_FORWARD && op->node >= 0 && s->graph->unit[op->node].loss)
            s->executor.targets.coming[op->micro_batch] = true;
        if (op->kind == PDL_OP_UPDATE) s->updating = execution->updated = true;
    }
    s->executor.captures.replayed++;
    execution->next = stop;
}

pdl_status_t pdl__captures_replay(pdl_session_t *s, pdl__execution_t *execution)
{
    pdl__captures_t *all = &s->executor.captures;
    pdl__capture_t   wanted, *found = NULL;

    if (!can_replay(s, execution)) return PDL_OK;
    wanted = describe(s, execution);
    if (wanted.stop < LEAST) return PDL_OK;
    for (int i = 0; i < all->count && !found; i++)
        if (same(&all->one[i], &wanted)) found = &all->one[i];
    if (!found) {
        if (all->count == PDL__CAPTURES) return PDL_OK;
        found = &all->one[all->count];
        *found = wanted;
        capture(s, execution, found);
        if (!found->work) return PDL_OK;
        all->count++;
    }
    note_replay(s, execution, found->stop);
    return s->executor.device->ops->replay(s->executor.device, s->executor.stream[PDL_STREAM_COMPUTE], found->work);
}

void pdl__captures_warm(pdl_session_t *s, const pdl__execution_t *execution)
{
    if (!execution->searches) s->executor.captures.warm |= 1u << execution->mode;
}

int64_t pdl_session_replayed(const pdl_session_t *s)
{
    return s->executor.captures.replayed;
}

void pdl__captures_destroy(pdl_session_t *s)
{
    for (int i = 0; i < s->executor.captures.count; i++)
        s->executor.device->ops->work_destroy(s->executor.device, s->executor.captures.one[i].work);
}
