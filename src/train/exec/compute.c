/*
 * Operations that compute: samples in, layers forward and backward.
 */
#include "train/exec/execute.h"
#include "train/exec/finite.h"
#include "train/exec/shard.h"

pdl_status_t pdl__find_not_finite(pdl_session_t *s, const void *data, size_t bytes, int64_t *index)
{
    pdl_tensor_stream_t *compute = s->executor.stream[PDL_STREAM_COMPUTE];
    pdl_status_t         status = s->spec.backend->ops->find_not_finite(s->spec.backend, compute, data, bytes,
                                                                        (int64_t *)(void *)s->executor.scalars);

    return status ? status
                  : pdl_device_fetch(s->executor.device, compute, index, s->executor.scalars, sizeof(*index));
}

/* The samples of one micro-batch into the source's buffer. */
pdl_status_t pdl__execute_load(pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution)
{
    const pdl_batch_t   *batch = &s->executor.input.batch;
    const pdl__unit_t   *source = &s->graph->unit[s->graph->source];
    pdl_tensor_stream_t *compute = s->executor.stream[PDL_STREAM_COMPUTE];
    void                *target = pdl__buffer_at(s, execution, op->input[0]);
    int64_t              from = op->micro_batch * s->micro_samples;

    if (s->graph->tokens) {
        int64_t positions = pdl_shape_positions(&source->shape);
        return s->executor.device->ops->copy(s->executor.device, compute, target, batch->tokens + from * positions,
                                             (size_t)(s->micro_samples * positions) * sizeof(int32_t));
    }
    pdl_backend_t *backend = s->spec.backend;
    int64_t        elements = pdl_shape_elements(&source->shape);
    pdl_status_t   status = batch->bytes != NULL
                                ? backend->ops->load_images(backend, compute, &source->shape, s->micro_samples,
                                                            batch->bytes + from * elements, batch->changes + from,
                                                            batch->scale, source->format, target)
                                : backend->ops->load_values(backend, compute, &source->shape, s->micro_samples,
                                                            batch->values + from * elements, source->format, target);
    if (status || execution->mode != PDL__EXECUTE_EVALUATE) return status;
    return pdl__finite_watch_input(s, op->micro_batch, target,
                                   backend->ops->tensor_bytes(backend, &source->shape, s->micro_samples,
                                                              source->format));
}

/* Batch norm over all ranks that have other samples or positions of the same channels. */
static void share_statistics(pdl_session_t *s, const pdl__unit_t *unit, pdl_op_run_t *run)
{
    const pdl_layer_t *layer = pdl_model_layer(s->spec.plan->model, unit->layer);

    if (!unit->spec.shared) return;
    run->total_samples = s->executor.mean_over / s->micro_batches;
    run->total_values = run->total_samples * pdl_shape_positions(&layer->in);
}

static pdl_op_run_t common_run(pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution)
{
    const pdl__unit_t  *unit = &s->graph->unit[op->node];
    const pdl_traits_t *traits = pdl_layer_traits(unit->spec.layer);
    pdl_op_run_t        run = {.output = pdl__buffer_at(s, execution, op->output),
                               .saved = pdl__buffer_at(s, execution, op->saved),
                               .workspace = pdl__buffer_at(s, execution, op->workspace),
                               .training = execution->mode != PDL__EXECUTE_EVALUATE,
                               .again = op->again || execution->searches,
                               .from_saved = op->from_saved,
                               .seed = s->spec.seed,
                               .step = (uint64_t)s->updates,
                               .numbers = pdl__step_numbers(s),
                               .first_sample = s->executor.draws_at + op->micro_batch * s->micro_samples +
                                               pdl__region_first(s->layouts, &unit->region),
                               .total_samples = pdl__region_samples(&unit->region),
                               .loss_scale = 1.0 / (double)s->executor.mean_over,
                               .label_smoothing = execution->mode == PDL__EXECUTE_TRAIN ? s->spec.label_smoothing : 0};

    for (int j = 0; j < unit->input_count; j++) {
        run.input[j] = pdl__buffer_at(s, execution, op->input[j]);
        run.input_gradient[j] = pdl__buffer_at(s, execution, op->input_gradient[j]);
    }
    if (s->weights.packed) run.packed = (char *)s->weights.packed + s->weights.packed_at[op->node];
    for (int k = 0; k < unit->description.weight_count; k++) {
        const pdl__trace_entry_t *entry = &s->weights.entry[unit->weight[k]];
        run.weight[k] = entry->info.trainable ? pdl__entry_at(s, PDL_ARRAY_WEIGHT, entry)
                                              : pdl__statistics_at(s, entry, pdl__worker_of(s, op->micro_batch));
        if (unit->zero_bias && entry->info.rank == 1) run.weight[k] = s->executor.zeros;
    }
    if (traits->statistics) share_statistics(s, unit, &run);
    if (s->spec.context > 0) pdl__cache_set(s, op->node, &run);
    return run;
}

/* The op of a unit, or of one side: its copies of weights are made anew, behind its workspace. */
static pdl_op_t *kernel_of(const pdl__unit_t *unit, const pdl_program_op_t *op, pdl_op_run_t *run)
{
    if (op->part == 0) return unit->op;
    const pdl__halo_side_t *side = &unit->halo->side[op->part - 1];
    run->packed = (char *)run->workspace + side->packed_at;
    return side->op;
}

/* The copies that a backend makes of weights, where they change with every use. */
static pdl_status_t pack_weights(pdl_session_t *s, const pdl_program_op_t *op, pdl_op_t *kernel,
                                 const pdl_op_run_t *run)
{
    bool come = pdl__shard_divides(s, PDL_ARRAY_WEIGHT) || s->weights.passes;

    if (kernel->description.packed_bytes == 0 || (op->part == 0 && !come)) return PDL_OK;
    return s->spec.backend->ops->refresh(kernel, s->executor.stream[PDL_STREAM_COMPUTE], run);
}

pdl_status_t pdl__execute_forward(pdl_session_t *s, const pdl_program_op_t *op, pdl__execution_t *execution)
{
    pdl__unit_t *unit = &s->graph->unit[op->node];
    pdl_op_run_t run = common_run(s, op, execution);

    pdl_status_t status = unit->loss ? pdl__targets_set(s, op->micro_batch, &run) : PDL_OK;
    pdl_op_t    *kernel = kernel_of(unit, op, &run);
    if (!status) status = pack_weights(s, op, kernel, &run);
    if (!status) status = pdl__run_forward(s, unit, kernel, &run);
    if (!status && unit->loss) status = pdl__results_keep(s, op->micro_batch, run.output);
    if (!status && unit->loss && execution->defers) status = pdl__finite_watch_results(s, unit, &run);
    if (!status && unit->loss && s->executor.outputs && !execution->searches)
        status = pdl__outputs_take(s, op->micro_batch, unit, &run);
    if (!status && unit->loss && s->executor.logits.call && !execution->searches)
        status = pdl__logits_show(s, op->micro_batch, &run, execution);
    return status;
}

/* Where gradients go; returns which of them the operation makes. */
static unsigned set_gradients(pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution,
                              pdl_op_run_t *run)
{
    const pdl__unit_t *unit = &s->graph->unit[op->node];
    unsigned           what = 0;

    run->accumulate = op->adds;
    for (int g = 0; g < 2; g++) run->output_gradient[g] = pdl__buffer_at(s, execution, op->gradient[g]);
    if (unit->description.adds_gradient) {
        run->added_gradient = run->output_gradient[1];
        run->output_gradient[1] = NULL;
    }
    for (int j = 0; j < unit->input_count; j++)
        if (run->input_gradient[j]) what |= PDL_BACKWARD_DATA;
    for (int k = 0; k < unit->description.weight_count; k++) {
        const pdl__trace_entry_t *entry = &s->weights.entry[unit->weight[k]];
        if (!entry->info.trainable || op->kind == PDL_OP_DGRAD) continue;
        what |= PDL_BACKWARD_WEIGHT;
        run->weight_gradient[k] = pdl__entry_at(s, PDL_ARRAY_GRADIENT, entry);
    }
    /* What a halo contributes is to the weight; the bias is complete with the interior. */
    if (op->part > 0) run->weight_gradient[1] = NULL;
    return op->kind != PDL_OP_WGRAD ? what
           : op->part > 0           ? PDL_BACKWARD_WEIGHT
                                    : PDL_BACKWARD_WEIGHT | PDL_BACKWARD_AGAIN;
}

pdl_status_t pdl__execute_backward(pdl_session_t *s, const pdl_program_op_t *op, pdl__execution_t *execution)
{
    pdl__unit_t *unit = &s->graph->unit[op->node];
    pdl_op_run_t run = common_run(s, op, execution);

    pdl_status_t status = unit->loss ? pdl__targets_set(s, op->micro_batch, &run) : PDL_OK;
    unsigned     what = set_gradients(s, op, execution, &run);
    pdl_op_t    *kernel = kernel_of(unit, op, &run);
    if (!status && op->kind != PDL_OP_WGRAD) status = pack_weights(s, op, kernel, &run);
    if (!status) status = pdl__run_backward(s, unit, kernel, &run, what);
    if (!status && unit->loss && s->executor.logits.call && run.input_gradient[0])
        status = pdl__logits_add(s, op->micro_batch, &run);
    return status;
}
