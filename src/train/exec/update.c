/*
 * The end of a step: results over all ranks, then the update of the weights.
 */
#include "train/exec/execute.h"
#include "train/exec/finite.h"
#include "train/exec/shard.h"
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

pdl_status_t pdl__execute_result(pdl_session_t *s, pdl__execution_t *execution)
{
    const pdl_batch_t *batch = execution->batch;
    pdl_step_result_t *result = execution->result;
    pdl_ranks_t       *ranks = execution->mode == PDL__EXECUTE_TRAIN ? s->replica : s->spec.ranks;

    double sums[PDL__RESULT_SUMS] = {0, 0, 0, s->stop, s->observer.not_finite > 0};

    pdl_status_t status = pdl__results_fetch(s);

    if (status || result == NULL) return status; /* nobody asked for their sums */
    if (s->graph->loss >= 0) sum_samples(s, batch, sums);
    status = pdl_ranks_sum(ranks, sums, PDL__RESULT_SUMS);
    if (!status && sums[4] > 0) status = pdl__finite_agree(s, ranks);
    if (status) return status;
    result->samples = sums[2];
    result->loss = sums[2] > 0 ? sums[0] / sums[2] : 0;
    result->accuracy = sums[2] > 0 ? sums[1] / sums[2] : 0;
    result->stop = sums[3] > 0;
    return isfinite(result->loss) ? PDL_OK : pdl__finite_explain(s, ranks, batch, execution->mode, "loss");
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

/* What the optimizer says of numbers that are not finite: a norm is the same on all ranks, weights are this one's. */
static pdl_status_t check_update(pdl_session_t *s, const pdl_batch_t *batch, pdl_status_t status,
                                 const pdl_step_result_t *result)
{
    if (status == PDL_ERR_NOT_FINITE && !isfinite(result->gradient_norm))
        return pdl__finite_explain(s, s->replica, batch, PDL__EXECUTE_TRAIN, "norm of the gradients");
    if (status == PDL_ERR_NOT_FINITE || (!status && !pdl__finite_statistics(s))) {
        pdl__finite_note_update(s, batch, result->lr);
        status = pdl_ranks_size(s->replica) == 1 ? pdl__finite_agree(s, s->replica) : PDL_OK;
    }
    return status;
}

pdl_status_t pdl__execute_update(pdl_session_t *s, pdl__execution_t *execution)
{
    pdl_step_result_t  *result = execution->result;
    pdl_optimizer_run_t run = {.backend = s->spec.backend,
                               .stream = s->executor.stream[PDL_STREAM_COMPUTE],
                               .scalars = s->executor.scalars,
                               .home = s->executor.scalars_home,
                               .parameters = s->weights.parameter,
                               .count = s->weights.parameter_count,
                               .weights = s->weights.array[PDL_ARRAY_WEIGHT],
                               .gradients = s->weights.array[PDL_ARRAY_GRADIENT],
                               .moment = {s->weights.array[PDL_ARRAY_MOMENT1], s->weights.array[PDL_ARRAY_MOMENT2]},
                               .ema = s->weights.array[PDL_ARRAY_EMA],
                               .step = s->updates - s->weights.moments_from,
                               .lr = &result->lr};
    bool                clips = s->spec.optimizer.clip_norm > 0;
    s->updating = true;
    if (!s->layouts->trivial || s->layouts->stages->count > 1 || s->weights.shard) {
        run.reduce = sum_over_ranks;
        run.reduce_context = s->replica;
    }
    if (!s->layouts->trivial || s->weights.shard) {
        run.tensor = s->weights.parameter_entry;
        run.tensors = s->weights.entry_count;
        run.sums = s->weights.sums;
        run.reduce_tensors = sum_tensors;
        run.tensors_context = s;
    }
    if (s->weights.shard) {
        run.weight_at = s->weights.shard->weight_at;
        run.gradient_at = s->weights.shard->gradient_at;
    }
    pdl_status_t status = pdl_optimizer_step(&s->spec.optimizer, &run, clips ? &result->gradient_norm : NULL);

    return check_update(s, execution->batch, status, result);
}
