/*
 * Weights and state that the host has, updated by its processors: work of a stream of its own, beside what the device computes.
 */
#include "base/memory.h"
#include "train/exec/execute.h"
#include "train/state/state.h"
#include <stdlib.h>

/* What the update of a piece is called with; it stays there until the end of the step. */
typedef struct pdl__host_piece {
    const pdl_optimizer_options_t *options;
    pdl_optimizer_run_t            run;
} host_piece_t;

pdl_status_t pdl__host_update_create(pdl_session_t *s)
{
    if (!s->spec.training || s->spec.plan->update_tier != PDL_TIER_HOST) return PDL_OK;
    s->weights.hosted = calloc((size_t)s->program->piece_count + 1, sizeof(*s->weights.hosted));
    if (s->weights.hosted == NULL) return pdl__no_memory("while preparing to train");
    return pdl_backend_create_describing("cpu", 1, PDL_DTYPE_F32, &s->weights.host);
}

void pdl__host_update_destroy(pdl_session_t *s)
{
    pdl_backend_destroy(s->weights.host);
    free(s->weights.hosted);
    s->weights.host = NULL;
    s->weights.hosted = NULL;
}

static void update_piece(void *context)
{
    const host_piece_t *piece = context;

    (void)pdl_optimizer_piece(piece->options, &piece->run); /* loops over memory: they do not fail */
}

/* Where a piece begins in an array of the host; NULL: there is none. */
static void *piece_of(const pdl_session_t *s, pdl_session_array_t array, const pdl_program_piece_t *piece)
{
    return s->weights.array[array] != NULL ? (float *)s->weights.array[array] + piece->low : NULL;
}

pdl_status_t pdl__host_update(pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution,
                              const pdl_optimizer_run_t *run)
{
    const pdl_program_piece_t *piece = &execution->program->piece[op->piece];
    host_piece_t              *hosted = &s->weights.hosted[op->piece];
    pdl_tensor_device_t       *device = s->executor.device;
    pdl_status_t               status = op->piece == 0 ? pdl_optimizer_begin(&s->spec.optimizer, run) : PDL_OK;

    *hosted = (host_piece_t){.options = &s->spec.optimizer, .run = *run};
    hosted->run.backend = s->weights.host;
    hosted->run.stream = NULL;
    hosted->run.scalars = run->home;
    hosted->run.numbers = NULL;
    hosted->run.packed = NULL;
    hosted->run.weights = piece_of(s, PDL_ARRAY_WEIGHT, piece);
    hosted->run.moment[0] = piece_of(s, PDL_ARRAY_MOMENT1, piece);
    hosted->run.moment[1] = piece_of(s, PDL_ARRAY_MOMENT2, piece);
    hosted->run.ema = piece_of(s, PDL_ARRAY_EMA, piece);
    hosted->run.gradients = pdl__buffer_at(s, execution, op->input[0]);
    hosted->run.weights_pass = hosted->run.gradients_pass = true;
    hosted->run.state_low = piece->low;
    hosted->run.state_high = piece->high;
    if (!status) status = pdl__session_order(s, PDL_STREAM_COMPUTE, PDL_STREAM_HOST);
    if (!status) status = device->ops->call(device, s->executor.stream[PDL_STREAM_HOST], update_piece, hosted);
    return status ? status : pdl__record_done(s, op, execution);
}
