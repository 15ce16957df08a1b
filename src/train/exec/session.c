/*
 * A session: made once, then one update after the other.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "train/exec/execute.h"
#include "train/exec/finite.h"
#include "train/exec/input.h"
#include "train/exec/shard.h"
#include "train/exec/weight_sets.h"
#include "train/state/state.h"
#include <math.h>
#include <paradl/comm/watch.h>
#include <paradl/program/compile.h>
#include <stdlib.h>
#include <string.h>

void pdl_session_defaults(pdl_session_spec_t *spec)
{
    *spec = (pdl_session_spec_t){.training = true, .seed = 1, .bucket_bytes = PDL_BUCKET_BYTES, .overlap = true};
    pdl_optimizer_defaults(&spec->optimizer);
}

/* The samples [first, first + count) of every batch that this rank's replica has; the data axes cut them one after the
   other, as they cut regions. */
static void data_share(const pdl_plan_t *plan, int64_t rank, int64_t *first, int64_t *count)
{
    int64_t coordinates[PDL_MAX_AXES], low, high;

    pdl_mesh_coordinates(&plan->mesh, rank, coordinates);
    *first = 0;
    *count = plan->batch;
    for (int a = 0; a < plan->mesh.axis_count; a++)
        if (plan->mesh.axis[a].kind == PDL_AXIS_DATA) {
            pdl_block_range(*count, plan->mesh.axis[a].size, coordinates[a], &low, &high);
            *first += low;
            *count = high - low;
        }
}

/* What a plan may ask for and this version does not do. */
static pdl_status_t check_plan(const pdl_session_t *s)
{
    const pdl_plan_t *plan = s->spec.plan;
    int               axis = pdl_mesh_find(&plan->mesh, PDL_AXIS_PIPELINE);

    pdl_model_totals_t totals;

    if (plan->precision != PDL_FP32 && plan->precision != PDL_TF32 && plan->precision != PDL_BF16)
        return pdl_error(PDL_ERR_UNSUPPORTED, "precision %s cannot be trained here: use fp32, tf32 or bf16",
                         pdl_precision_names[plan->precision]);
    pdl_model_totals(plan->model, &totals);
    if (s->spec.training && totals.weights > 0 && totals.trained == 0)
        return pdl_error(PDL_ERR_INPUT,
                         "all weights of %s are frozen, so there is nothing to train: leave out \"frozen\"",
                         pdl_model_name(plan->model));
    if (axis >= 0 && plan->mesh.axis[axis].size != pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE))
        return pdl_error(PDL_ERR_UNSUPPORTED, "a mesh with two pipeline axes cannot be run: join them to one");
    return PDL_OK;
}

static bool has_batch_norm(const pdl_model_t *model)
{
    for (int i = 0; i < pdl_model_layer_count(model); i++)
        if (pdl_layer_traits(pdl_model_layer(model, i))->statistics) return true;
    return false;
}

int64_t pdl_session_workers(const pdl_plan_t *plan, int64_t workers)
{
    return workers > 1 && has_batch_norm(plan->model) && !plan->sync_batch_norm ? workers : 1;
}

/* Workers differ only in the statistics of batch norm, for which each of them is a micro-batch (or several). */
static pdl_status_t cut_batch(pdl_session_t *s)
{
    const pdl_plan_t *plan = s->spec.plan;
    int64_t           parts = plan->micro_batches;

    s->weights.workers = pdl_session_workers(plan, s->spec.workers);
    parts *= s->weights.workers;
    if (parts > 1 && (s->count % parts != 0 || s->count * (plan->batch / s->count) != plan->batch))
        return pdl_error(PDL_ERR_INPUT,
                         "a batch of %lld cannot be cut into %lld micro-batches of one size on each of the ranks "
                         "that share it: use a multiple of %lld",
                         (long long)plan->batch, (long long)parts,
                         (long long)(parts * pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA)));
    s->micro_batches = (int)parts;
    s->micro_samples = s->count / parts;
    if (s->spec.program_micro_batches > 0) parts = s->spec.program_micro_batches;
    if (parts == plan->micro_batches) return PDL_OK;
    pdl_status_t status = pdl_plan_copy(plan, &s->own_plan);
    if (status) return status;
    s->own_plan->micro_batches = parts;
    s->spec.plan = s->own_plan;
    return PDL_OK;
}

/* What this rank does of every batch. */
static pdl_status_t find_share(pdl_session_t *s)
{
    const pdl_plan_t *plan = s->spec.plan;
    int64_t           size = pdl_ranks_size(s->spec.ranks), places = pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA);
    pdl_status_t      status = check_plan(s);

    if (status) return status;
    if (pdl_mesh_size(&plan->mesh) != size)
        return pdl_error(PDL_ERR_INPUT, "the plan needs %lld ranks, the job has %lld; start with --pe %lld",
                         (long long)pdl_mesh_size(&plan->mesh), (long long)size,
                         (long long)pdl_mesh_size(&plan->mesh));
    if (plan->batch < places)
        return pdl_error(PDL_ERR_INPUT, "a batch of %lld samples cannot be divided over %lld ranks",
                         (long long)plan->batch, (long long)places);
    data_share(plan, pdl_ranks_rank(s->spec.ranks), &s->first, &s->count);
    s->batch = plan->batch;
    s->executor.mean_over = s->spec.separate ? s->count : s->batch;
    s->executor.draws_at = s->first;
    status = cut_batch(s);
    if (status) return status;
    status = pdl__layouts_create(s->spec.plan, pdl_ranks_rank(s->spec.ranks), plan->batch / s->micro_batches,
                                 &s->layouts);
    return status;
}

pdl_status_t pdl__session_order(pdl_session_t *s, pdl_op_stream_t earlier, pdl_op_stream_t later)
{
    return pdl_device_order(s->executor.device, s->executor.stream[earlier], s->executor.stream[later],
                            s->executor.event);
}

static pdl_status_t create_streams(pdl_session_t *s)
{
    pdl_status_t status = s->executor.device->ops->event_create(s->executor.device, &s->executor.event);

    for (int i = 0; i < PDL_STREAM_COUNT && !status; i++)
        if (i != PDL_STREAM_HOST || s->spec.plan->update_tier == PDL_TIER_HOST)
            status = s->executor.device->ops->stream_create(s->executor.device, &s->executor.stream[i]);
    return status;
}

static void destroy_streams(pdl_session_t *s)
{
    if (!s->executor.device) return;
    for (int i = 0; i < PDL_STREAM_COUNT; i++)
        s->executor.device->ops->stream_destroy(s->executor.device, s->executor.stream[i]);
    s->executor.device->ops->event_destroy(s->executor.device, s->executor.event);
}

pdl_status_t pdl__session_await(const pdl_session_t *s)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < PDL_STREAM_COUNT && !status; i++)
        if (s->executor.stream[i])
            status = s->executor.device->ops->synchronise(s->executor.device, s->executor.stream[i]);
    return status;
}

static pdl__graph_spec_t graph_spec(const pdl_session_t *s)
{
    const pdl_optimizer_options_t *o = &s->spec.optimizer;

    return (pdl__graph_spec_t){.plan = s->spec.plan,
                               .layouts = s->layouts,
                               .backend = s->spec.backend,
                               .training = s->spec.training,
                               .separate = s->spec.separate,
                               .overlap = s->spec.overlap,
                               .context = s->spec.context,
                               .shows_logits = s->spec.logits != NULL,
                               .bucket_bytes = s->spec.bucket_bytes,
                               .smooths = s->spec.label_smoothing > 0,
                               .clips = o->clip_norm > 0,
                               .tensor_norms = o->method == PDL_METHOD_LARS || o->method == PDL_METHOD_LAMB,
                               .state_arrays = pdl_optimizer_moments(o) + (o->ema > 0)};
}

static pdl_status_t create_programs(pdl_session_t *s)
{
    pdl__graph_spec_t spec = graph_spec(s);
    int               parts = (int)s->spec.plan->micro_batches;
    pdl_status_t      status = pdl__graph_program(&spec, s->graph, parts, false, &s->forward_program);

    if (!status && s->spec.training) status = pdl__graph_program(&spec, s->graph, parts, true, &s->program);
    if (status) return status;
    s->executor.arena_bytes = s->forward_program->arena_bytes;
    if (s->program && s->program->arena_bytes > s->executor.arena_bytes)
        s->executor.arena_bytes = s->program->arena_bytes;
    if (s->program) s->executor.host_bytes = s->program->host_bytes;
    return PDL_OK;
}

static pdl_status_t create_graph(pdl_session_t *s)
{
    pdl__graph_spec_t spec = graph_spec(s);
    pdl_status_t      status = pdl__graph_create(&spec, &s->graph);

    if (s->dry) return status;
    /* All ranks go on together: the first of them may choose kernels. */
    status = pdl_ranks_agree(s->spec.ranks, status);
    if (!status) status = pdl__graph_make_kernels(s->graph, s->spec.ranks);
    return status ? status : pdl__graph_make(s->graph, s->groups, s->executor.transport);
}

static pdl_status_t check_loss(const pdl_session_t *s)
{
    const pdl__unit_t *loss = s->graph->loss >= 0 ? &s->graph->unit[s->graph->loss] : NULL;

    if (!loss || pdl_layer_traits(loss->spec.layer)->loss != PDL_LOSS_VALUES || loss->spec.share == 0 ||
        loss->spec.share == 1)
        return PDL_OK;
    return pdl_error(PDL_ERR_UNSUPPORTED, "layer %s: a regression loss is not split in space; use replicate",
                     loss->spec.layer->name);
}

/* Small buffers of the device, one behind the other. */
static void place_small(pdl_session_t *s)
{
    int64_t zeros = 0;

    for (int i = 0; i < s->weights.entry_count; i++)
        if (s->graph->unit[s->weights.entry[i].unit].zero_bias && s->weights.entry[i].info.rank == 1 &&
            s->weights.entry[i].storage > zeros)
            zeros = s->weights.entry[i].storage;
    s->executor.flag_at = PDL_OPTIMIZER_NUMBERS(s->weights.entry_count);
    s->executor.inputs_at = s->executor.flag_at + 2;
    s->executor.numbers_at = s->executor.inputs_at + s->micro_batches;
    s->executor.scalar_count =
        s->executor.numbers_at + (int64_t)(sizeof(pdl_step_numbers_t) / sizeof(*s->executor.scalars));
    s->executor.zeros_at = (size_t)(s->executor.scalar_count + 7) / 8 * 64;
    s->executor.small_bytes =
        s->executor.zeros_at + (size_t)(zeros + 15) / 16 * 16 * pdl_dtype_bytes(s->spec.backend->weight_type);
    s->executor.small_bytes = pdl__targets_place(s, s->executor.small_bytes);
    s->executor.small_bytes = pdl__input_place(s, s->executor.small_bytes);
}

static pdl_status_t take_small(pdl_session_t *s)
{
    void        *memory = NULL;
    pdl_status_t status =
        s->executor.device->ops->alloc(s->executor.device, PDL_SPACE_DEVICE, s->executor.small_bytes, &memory);

    if (status) return status;
    s->executor.small = memory;
    s->executor.scalars = memory;
    s->executor.zeros = s->executor.small + s->executor.zeros_at;
    status = s->executor.device->ops->alloc(s->executor.device, PDL_SPACE_PINNED,
                                            (size_t)s->executor.scalar_count * sizeof(double), &memory);
    s->executor.scalars_home = memory;
    if (!status && pdl__phases_bytes(s) > 0) {
        status =
            s->executor.device->ops->alloc(s->executor.device, PDL_SPACE_PINNED, pdl__phases_bytes(s), &memory);
        s->executor.meeting_home = status ? NULL : memory;
    }
    if (!status) status = pdl__input_create(s);
    return status ? status : pdl__targets_create(s);
}

static pdl_status_t take_buffers(pdl_session_t *s)
{
    pdl_status_t status = check_loss(s);

    void *arena = NULL;

    if (s->dry || status) return status;
    if (s->executor.device->ops->alloc(s->executor.device, PDL_SPACE_DEVICE, s->executor.arena_bytes, &arena)) {
        return pdl_error(PDL_ERR_NOMEM,
                         "no memory for %.1f GiB of activations: lower --batch or use --recompute full",
                         (double)s->executor.arena_bytes / (double)(1 << 30));
    }
    s->executor.arena = arena;
    if (s->executor.host_bytes > 0 &&
        s->executor.device->ops->alloc(s->executor.device, PDL_SPACE_PINNED, s->executor.host_bytes, &arena))
        return pdl_error(PDL_ERR_NOMEM,
                         "no memory on the host for %.1f GiB of swapped activations: recompute some blocks instead",
                         (double)s->executor.host_bytes / (double)(1 << 30));
    if (s->executor.host_bytes > 0) s->executor.host_arena = arena;
    status = take_small(s);
    if (status) return status;
    if (s->spec.timeline) {
        s->observer.timeline = calloc(PDL__TIMELINE_CAPACITY, sizeof(*s->observer.timeline));
        if (!s->observer.timeline) return pdl__no_memory("while preparing to train");
    }
    s->observer.timeline_zero_s = pdl__seconds();
    if (s->program != NULL) status = pdl_program_count_copies(s->program, NULL, &s->observer.copies);
    if (status) return status;
    status = pdl__copies_create(s);
    return status ? status : pdl__events_create(s);
}

pdl_status_t pdl_session_create(const pdl_session_spec_t *spec, pdl_session_t **out)
{
    pdl_session_t *s = calloc(1, sizeof(*s));
    pdl_status_t   status = s ? PDL_OK : pdl__no_memory("while preparing to train");

    if (!status && spec->max_memory > 0) status = pdl__session_check_memory(spec);
    if (!status) {
        s->spec = *spec;
        s->executor.device = spec->backend->device;
        s->rate_position = -1;
        s->rate_factor = 1;
        s->dry = pdl_ranks_dry(spec->ranks);
        status = create_streams(s);
        if (!status) status = find_share(s);
    }
    if (!status && spec->training) status = pdl_optimizer_check(&spec->optimizer);
    if (!status) status = pdl__residuals_check(spec);
    if (!status && spec->training) s->spec.optimizer.lr = pdl_optimizer_rate(&spec->optimizer);
    status = pdl_ranks_agree(spec->ranks, status);
    if (!status)
        status = pdl_transport_create(spec->ranks, s->executor.device, spec->transport, &s->executor.transport);
    if (!status) status = pdl__groups_create(&s->spec.plan->mesh, spec->ranks, s->executor.transport, &s->groups);
    if (!status) status = pdl__separate_create(s);
    if (!status) status = create_graph(s);
    if (!status) status = pdl__weights_plan(s);
    if (!status) status = create_programs(s);
    if (!status) status = pdl__state_check(s);
    if (!status) place_small(s);
    if (!status) status = pdl__cache_place(s);
    status = pdl_ranks_agree(spec->ranks, status);
    if (!status) status = pdl__session_check_device(s);
    if (!status) status = take_buffers(s);
    if (!status) status = pdl__weights_take(s);
    if (!status) status = pdl__cache_take(s);
    if (!status && spec->logits) status = pdl__logits_create(s, spec->logits, spec->logits_context);
    status = pdl_ranks_agree(spec->ranks, status);
    if (!status) status = pdl__buckets_connect(s);
    if (!status) status = pdl__ties_create(s);
    if (!status) pdl__session_count_bytes(s);
    if (!status && !s->dry) status = pdl__session_list(s);
    if (!status && !s->dry && spec->initial) status = pdl_ranks_agree(spec->ranks, pdl__session_initialise(s));
    if (!status && !s->dry && spec->timeline) status = pdl_ranks_clock(spec->ranks, &s->observer.clock);
    if (status) {
        pdl_session_destroy(s);
        return status;
    }
    *out = s;
    return PDL_OK;
}

void pdl_session_destroy(pdl_session_t *s)
{
    if (!s) return;
    if (s->spec.ranks) pdl_watch_forget(s->spec.ranks);
    (void)pdl__session_await(s); /* after a failure the reason is known already */
    pdl__buckets_destroy(s);
    pdl__ties_destroy(s);
    pdl__captures_destroy(s);
    pdl__graph_unmake(s->graph);
    pdl_transport_destroy(s->executor.transport);
    pdl__session_free_list(s);
    pdl__weight_sets_give(s);
    if (s->graph) pdl__session_free_weights(s);
    if (s->executor.arena)
        s->executor.device->ops->release(s->executor.device, PDL_SPACE_DEVICE, s->executor.arena,
                                         s->executor.arena_bytes);
    if (s->executor.host_arena)
        s->executor.device->ops->release(s->executor.device, PDL_SPACE_PINNED, s->executor.host_arena,
                                         s->executor.host_bytes);
    if (s->executor.small)
        s->executor.device->ops->release(s->executor.device, PDL_SPACE_DEVICE, s->executor.small,
                                         s->executor.small_bytes);
    if (s->executor.device) {
        s->executor.device->ops->release(s->executor.device, PDL_SPACE_PINNED, s->executor.scalars_home,
                                         (size_t)s->executor.scalar_count * sizeof(double));
        if (s->executor.meeting_home)
            s->executor.device->ops->release(s->executor.device, PDL_SPACE_PINNED, s->executor.meeting_home,
                                             pdl__phases_bytes(s));
        pdl__targets_destroy(s);
        pdl__input_destroy(s);
    }
    pdl_program_destroy(s->program);
    pdl_program_destroy(s->forward_program);
    pdl__outputs_destroy(s);
    pdl__cache_destroy(s);
    pdl__graph_destroy(s->graph);
    pdl__groups_destroy(s->groups);
    pdl__layouts_destroy(s->layouts);
    if (s->own_plan) pdl_plan_destroy(s->own_plan);
    pdl__separate_destroy(s);
    pdl__logits_destroy(s);
    free(s->observer.timeline);
    pdl__copies_destroy(s);
    pdl__events_destroy(s);
    free(s->weights.kept);
    pdl_ranks_destroy(s->dry_ranks);
    destroy_streams(s);
    free(s);
}

void pdl_session_share(const pdl_session_t *s, int64_t *first, int64_t *count)
{
    *first = s->first;
    *count = s->count;
}

/* Exchanges inside and between layers and of gradients, so far. */
static double exchanged_s(const pdl_session_t *s)
{
    return s->observer.class_s[PDL_CLASS_MOVE] + s->observer.class_s[PDL_CLASS_GRADIENT] +
           s->observer.class_s[PDL_CLASS_COPY];
}

pdl_status_t pdl_session_step_begin(pdl_session_t *s, const pdl_batch_t *batch)
{
    pdl__execution_t execution = {.batch = batch, .mode = PDL__EXECUTE_TRAIN, .halts = true};

    if (s->micro_batches > 1)
        return pdl_error(PDL_ERR_UNSUPPORTED,
                         "a step cannot halt at its loss with micro-batches: plan without them");
    pdl_status_t status = pdl__session_execute(s, s->program, &execution);
    s->executor.halted = execution.next;
    return status ? status : pdl__results_fetch(s);
}

pdl_status_t pdl_session_step_finish(pdl_session_t *s, const pdl_batch_t *batch, pdl_step_result_t *result)
{
    double           start_s = pdl__seconds(), exchanged = exchanged_s(s);
    double           position = s->rate_position < 0 ? (double)s->updates : s->rate_position;
    pdl__execution_t execution = {.batch = batch,
                                  .mode = PDL__EXECUTE_TRAIN,
                                  .next = s->executor.halted,
                                  .result = result};

    s->executor.halted = 0;
    pdl__residuals_thin(s);
    *result = (pdl_step_result_t){.lr = pdl_learning_rate(&s->spec.optimizer, position) * s->rate_factor};
    pdl_status_t status = pdl__session_execute(s, s->program, &execution);
    if (status) return status;
    s->updates++;
    s->updating = false;
    result->step_s = pdl__seconds() - start_s;
    result->comm_s = exchanged_s(s) - exchanged;
    result->compute_s = result->step_s - result->comm_s;
    return PDL_OK;
}

/* Nothing has been executed yet, so finishing is all of it. */
pdl_status_t pdl_session_step(pdl_session_t *s, const pdl_batch_t *batch, pdl_step_result_t *result)
{
    s->executor.halted = 0;
    return pdl_session_step_finish(s, batch, result);
}

static pdl_status_t execute_forward(pdl_session_t *s, pdl__execute_mode_t mode, const pdl_batch_t *batch,
                                    pdl_step_result_t *result)
{
    double           start_s = pdl__seconds();
    pdl__execution_t execution = {.batch = batch, .mode = mode, .result = result};

    *result = (pdl_step_result_t){0};
    pdl_status_t status = pdl__session_execute(s, s->forward_program, &execution);
    result->step_s = result->compute_s = pdl__seconds() - start_s;
    return status;
}

pdl_status_t pdl_session_evaluate(pdl_session_t *s, const pdl_batch_t *batch, pdl_step_result_t *result)
{
    return execute_forward(s, PDL__EXECUTE_EVALUATE, batch, result);
}

pdl_status_t pdl_session_predict(pdl_session_t *s, const pdl_batch_t *batch, const pdl_outputs_t *outputs,
                                 pdl_step_result_t *result)
{
    pdl_shape_t  shape;
    pdl_status_t status = pdl_session_output_shape(s, &shape);

    if (status) return status;
    s->executor.outputs = outputs;
    status = execute_forward(s, PDL__EXECUTE_EVALUATE, batch, result);
    s->executor.outputs = NULL;
    if (!status)
        status = s->executor.device->ops->synchronise(s->executor.device, s->executor.stream[PDL_STREAM_COMPUTE]);
    return status;
}

pdl_status_t pdl_session_pass(pdl_session_t *s, const pdl_batch_t *batch, pdl_step_result_t *result)
{
    return execute_forward(s, PDL__EXECUTE_PASS, batch, result);
}

/* Through the arena, which nobody uses between executions. */
static pdl_status_t swap_bytes(pdl_session_t *s, char *a, char *b, size_t bytes)
{
    pdl_tensor_stream_t *compute = s->executor.stream[PDL_STREAM_COMPUTE];
    pdl_status_t         status = PDL_OK;

    for (size_t at = 0; at < bytes && !status; at += s->executor.arena_bytes) {
        size_t length = bytes - at < s->executor.arena_bytes ? bytes - at : s->executor.arena_bytes;
        status = s->executor.device->ops->copy(s->executor.device, compute, s->executor.arena, a + at, length);
        if (!status) status = s->executor.device->ops->copy(s->executor.device, compute, a + at, b + at, length);
        if (!status)
            status = s->executor.device->ops->copy(s->executor.device, compute, b + at, s->executor.arena, length);
    }
    return status;
}

pdl_status_t pdl_session_swap_ema(pdl_session_t *s)
{
    size_t       item = pdl_dtype_bytes(s->spec.backend->weight_type);
    pdl_status_t status = PDL_OK;

    if (!pdl__session_keeps(s, PDL_ARRAY_EMA)) return PDL_OK;
    for (int i = 0; i < s->weights.parameter_count && !status; i++) {
        const pdl_update_range_t *range = &s->weights.parameter[i].range;
        status = swap_bytes(s, (char *)s->weights.array[PDL_ARRAY_WEIGHT] + (size_t)range->weights * item,
                            (char *)s->weights.array[PDL_ARRAY_EMA] + (size_t)range->state * item,
                            (size_t)range->elements * item);
    }
    if (!status) status = pdl__shard_gather(s);
    return status ? status : pdl__session_refresh(s, false);
}

pdl_sample_results_t pdl_session_samples(const pdl_session_t *s)
{
    return (pdl_sample_results_t){s->executor.results, s->executor.results + s->count,
                                  s->executor.results + 2 * s->count, s->count};
}

void pdl_session_set_rate(pdl_session_t *s, double position, double factor)
{
    s->rate_position = position;
    s->rate_factor = factor;
}

void pdl_session_request_stop(pdl_session_t *s)
{
    s->stop = 1;
}

int64_t pdl_session_updates(const pdl_session_t *s)
{
    return s->updates;
}

void pdl_session_set_updates(pdl_session_t *s, int64_t updates)
{
    s->updates = updates;
}

void pdl_session_memory(const pdl_session_t *s, pdl_session_memory_t *memory)
{
    size_t item = pdl_dtype_bytes(s->spec.backend->weight_type);

    *memory = (pdl_session_memory_t){.weights = s->weights.packed_bytes + pdl__statistics_bytes(s),
                                     .gradients = (size_t)pdl__session_elements(s, PDL_ARRAY_GRADIENT) * item,
                                     .messages = pdl__messages_bytes(s)};
    if (!s->weights.passes) memory->weights += (size_t)pdl__session_elements(s, PDL_ARRAY_WEIGHT) * item;
    for (int a = PDL_ARRAY_MOMENT1; a < PDL_ARRAY_COUNT && pdl__array_tier(s, PDL_ARRAY_MOMENT1) == PDL_TIER_DEVICE;
         a++)
        memory->optimizer += (size_t)pdl__session_elements(s, (pdl_session_array_t)a) * item;
    /* Whole buckets count as what is in them. */
    const pdl_program_t *largest =
        s->program && s->program->arena_bytes == s->executor.arena_bytes ? s->program : s->forward_program;
    memory->gradients += largest->whole_bytes[0];
    memory->weights += largest->whole_bytes[1];
    memory->activations =
        s->executor.arena_bytes + s->executor.small_bytes - largest->whole_bytes[0] - largest->whole_bytes[1];
    memory->live = s->program ? s->program->live_bytes : s->forward_program->live_bytes;
    memory->weights += pdl__weight_sets_bytes(s);
    memory->host = s->executor.host_bytes + pdl__state_host_bytes(s);
    memory->cache = s->spec.like ? 0 : s->executor.cache_bytes;
    if (s->spec.like) memory->weights = s->weights.packed_bytes; /* the others are those of that session */
    memory->total = memory->cache + memory->weights + memory->gradients + memory->optimizer + memory->activations +
                    memory->messages;
}
