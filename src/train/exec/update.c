/*
 * The end of a step: results over all ranks, then the update of the weights.
 */
#include "train/exec/execute.h"
#include "train/exec/finite.h"
#include "train/exec/shard.h"
#include "train/state/state.h"
#include <math.h>

/* Sums of this rank's samples: loss, accuracy, and how many they are. Ranks that have the same samples whole count as
   one; those that share a sample's positions add up to one. */
static void sum_samples(const pdl_session_t *s, const pdl_batch_t *batch, double *sums)
{
    const pdl__layouts_t *l = s->layouts;
    const pdl__unit_t    *loss = &s->graph->unit[s->graph->loss];
    double                alike = 1, share = loss->spec.share;

    for (int a = 0; a < l->plan->mesh.axis_count; a++)
        if (l->layer[loss->layer].out.on[a] == PDL_REPLICATED && l->plan->mesh.axis[a].kind != PDL_AXIS_PIPELINE)
            alike *= (double)l->plan->mesh.axis[a].size;
    int64_t samples = pdl__region_samples(&loss->region), first = pdl__region_first(l, &loss->region);
    for (int64_t k = 0; k < s->micro_batches * samples; k++) {
        int64_t i = k / samples * s->micro_samples + first + k % samples;
        double  weight = batch->weight[i] / alike;
        if (weight == 0) continue;
        sums[0] += weight * (double)s->executor.results[i];
        sums[1] += weight * (double)s->executor.results[s->count + i];
        sums[2] += weight * (share > 0 ? share : 1);
    }
}

/* What came home of all samples, over all ranks. */
static pdl_status_t judge_results(pdl_session_t *s, pdl__execution_t *execution)
{
    const pdl_batch_t *batch = execution->batch;
    pdl_step_result_t *result = execution->result;
    pdl_ranks_t       *ranks = execution->mode == PDL__EXECUTE_TRAIN ? s->replica : s->spec.ranks;
    double             sums[PDL_RESULT_SUMS] = {0, 0, 0, s->stop, s->observer.not_finite > 0};

    if (s->graph->loss >= 0) sum_samples(s, batch, sums);
    pdl_status_t status = pdl_ranks_sum(ranks, sums, PDL_RESULT_SUMS);
    if (!status && sums[4] > 0) status = pdl__finite_agree(s, ranks);
    if (status) return status;
    result->samples = sums[2];
    result->loss = sums[2] > 0 ? sums[0] / sums[2] : 0;
    result->accuracy = sums[2] > 0 ? sums[1] / sums[2] : 0;
    result->stop = sums[3] > 0;
    return isfinite(result->loss) ? PDL_OK : pdl__finite_explain(s, ranks, batch, execution->mode, "loss");
}

pdl_status_t pdl__execute_result(pdl_session_t *s, pdl__execution_t *execution)
{
    if (execution->defers) return PDL_OK;
    pdl_status_t status = execution->resumed ? PDL_OK : pdl__results_fetch(s);

    if (status || execution->result == NULL) return status; /* nobody asked for their sums */
    if (execution->mode == PDL__EXECUTE_EVALUATE) pdl__finite_check_inputs(s, execution->batch);
    return judge_results(s, execution);
}

static pdl_status_t sum_over_ranks(void *context, double *values, int64_t count)
{
    return pdl_ranks_sum(context, values, count);
}

/* Sums over the parts of every tensor. Stages that hold the same one do so each for itself. */
static pdl_status_t sum_tensors(void *context, double *values, int64_t count)
{
    const pdl_session_t  *s = context;
    const pdl__layouts_t *l = s->layouts;

    for (int64_t i = 0; i < count; i++)
        if (s->weights.entry[i / 2].k == 0)
            values[i] *= pdl__pipe_holders(l->stages, s->weights.entry[i / 2].owner);
    return pdl_ranks_sum(s->groups->stage, values, count);
}

static pdl_optimizer_run_t prepare_update(pdl_session_t *s, const pdl__execution_t *execution)
{
    bool                sharded = s->weights.sharding != PDL_SHARDING_NONE;
    pdl_optimizer_run_t run = {.backend = s->spec.backend,
                               .table = s->weights.table,
                               .stream = s->executor.stream[PDL_STREAM_COMPUTE],
                               .scalars = s->executor.scalars,
                               .home = s->executor.scalars_home,
                               .numbers = pdl__step_numbers(s),
                               .flag = execution->defers ? pdl__finite_flag(s) : NULL,
                               .weights = s->weights.array[PDL_ARRAY_WEIGHT],
                               .gradients = s->weights.array[PDL_ARRAY_GRADIENT],
                               .moment = {s->weights.array[PDL_ARRAY_MOMENT1], s->weights.array[PDL_ARRAY_MOMENT2]},
                               .ema = s->weights.array[PDL_ARRAY_EMA],
                               .packed = s->weights.packed,
                               .step = s->updates - s->weights.moments_from,
                               .lr = &execution->result->lr};

    if (!s->layouts->trivial || s->layouts->stages->count > 1 || sharded) {
        run.reduce = sum_over_ranks;
        run.reduce_context = s->replica;
    }
    if (!s->layouts->trivial || sharded) {
        run.tensor = s->weights.parameter_entry;
        run.tensors = s->weights.entry_count;
        run.sums = s->weights.sums;
        run.reduce_tensors = sum_tensors;
        run.tensors_context = s;
    }
    return run;
}

static pdl_status_t explain_norm(pdl_session_t *s, const pdl__execution_t *execution)
{
    return pdl__finite_explain(s, s->replica, execution->batch, PDL__EXECUTE_TRAIN, "norm of the gradients");
}

/* The update of a piece: its state is in the operation's buffer. */
static void take_piece(const pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution,
                       pdl_optimizer_run_t *run)
{
    const pdl_program_t *program = execution->program;
    char                *buffer = pdl__buffer_at(s, execution, op->output);
    int                  moments = pdl_optimizer_moments(&s->spec.optimizer);

    run->moment[0] = moments > 0 ? buffer + pdl__state_at(s, PDL_ARRAY_MOMENT1) : NULL;
    run->moment[1] = moments > 1 ? buffer + pdl__state_at(s, PDL_ARRAY_MOMENT2) : NULL;
    if (run->ema != NULL || s->spec.optimizer.ema > 0) run->ema = buffer + pdl__state_at(s, PDL_ARRAY_EMA);
    run->weights_pass = s->weights.passes;
    if (s->weights.passes) run->weights = buffer;
    if (op->input[0] >= 0) {
        const pdl_program_bucket_t *bucket = &program->bucket[op->bucket];
        run->gradients = pdl__buffer_at(s, execution, op->input[0]);
        run->gradients_low = s->exchange.buckets[bucket->set].bucket[bucket->index].low;
    }
    run->state_low = program->piece[op->piece].low;
    run->state_high = program->piece[op->piece].high;
    run->first_piece = op->piece == 0;
    run->last_piece = op->piece + 1 == program->piece_count;
}

pdl_status_t pdl__execute_update(pdl_session_t *s, const pdl_program_op_t *op, pdl__execution_t *execution)
{
    pdl_optimizer_run_t run = prepare_update(s, execution);
    pdl_status_t        status = PDL_OK;

    if (op->piece <= 0) status = pdl__finite_watch_statistics(s);
    s->updating = execution->updated = true;
    if (op->stream == PDL_STREAM_HOST) {
        if (!status) status = pdl__host_update(s, op, execution, &run);
    } else {
        if (op->piece >= 0) take_piece(s, op, execution, &run);
        if (!status) status = pdl_optimizer_step(&s->spec.optimizer, &run);
    }
    return status == PDL_ERR_NOT_FINITE ? explain_norm(s, execution) : status;
}

/* Of numbers that are not finite: a norm is the same on all ranks, weights are this one's. */
pdl_status_t pdl__execute_end(pdl_session_t *s, pdl__execution_t *execution)
{
    if (!execution->updated) return PDL_OK;
    pdl_step_result_t  *result = execution->result;
    pdl_optimizer_run_t run = prepare_update(s, execution);
    pdl_status_t        status = pdl__results_fetch(s);

    if (!status) status = pdl__events_end(s);
    if (!status) status = pdl__state_end(s);
    if (!status && execution->defers) status = judge_results(s, execution);
    if (status) return status;
    status = pdl_optimizer_outcome(&run, &result->gradient_norm);
    if (status == PDL_ERR_NOT_FINITE && !isfinite(result->gradient_norm)) return explain_norm(s, execution);
    if (status == PDL_ERR_NOT_FINITE || (!status && !pdl__finite_statistics(s))) {
        pdl__finite_note_update(s, execution->batch, result->lr);
        status = pdl_ranks_size(s->replica) == 1 ? pdl__finite_agree(s, s->replica) : PDL_OK;
    }
    return status;
}
