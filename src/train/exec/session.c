/*
 * A session: made once, then one update after the other.
 */
#include "train/exec/bank.h"
#include "train/exec/finite.h"
#include "train/exec/shard.h"
#include <math.h>
#include <paradl/comm/watch.h>
#include <stdlib.h>
#include <string.h>

void pdl_session_defaults(pdl_session_spec_t *spec)
{
    *spec = (pdl_session_spec_t){.training = true, .seed = 1, .bucket_bytes = (size_t)8 << 20, .overlap = true};
    pdl_optimizer_defaults(&spec->optimizer);
}

static pdl_status_t no_memory(void)
{
    return pdl_error(PDL_ERR_NOMEM, "out of memory while preparing to train");
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

    if (plan->precision != PDL_FP32 && plan->precision != PDL_BF16)
        return pdl_error(PDL_ERR_UNSUPPORTED, "precision %s cannot be trained here: use fp32 or bf16",
                         pdl_precision_names[plan->precision]);
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

    s->workers = pdl_session_workers(plan, s->spec.workers);
    parts *= s->workers;
    if (parts > 1 && (s->count % parts != 0 || s->count * (plan->batch / s->count) != plan->batch))
        return pdl_error(PDL_ERR_INPUT,
                         "a batch of %lld cannot be cut into %lld micro-batches of one size on each of the ranks "
                         "that share it: use a multiple of %lld",
                         (long long)plan->batch, (long long)parts,
                         (long long)(parts * pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA)));
    s->micro_batches = (int)parts;
    s->micro_samples = s->count / parts;
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
    s->mean_over = s->spec.separate ? s->count : s->batch;
    s->draws_at = s->first;
    status = cut_batch(s);
    if (status) return status;
    status = pdl__layouts_create(s->spec.plan, pdl_ranks_rank(s->spec.ranks), plan->batch / s->micro_batches,
                                 &s->layouts);
    return status;
}

pdl_status_t pdl__session_order(pdl_session_t *s, pdl__stream_t earlier, pdl__stream_t later)
{
    return pdl_device_order(s->device, s->stream[earlier], s->stream[later], s->event);
}

static pdl_status_t create_streams(pdl_session_t *s)
{
    pdl_status_t status = s->device->ops->event_create(s->device, &s->event);

    for (int i = 0; i < PDL__STREAM_COUNT && !status; i++)
        status = s->device->ops->stream_create(s->device, &s->stream[i]);
    return status;
}

static void destroy_streams(pdl_session_t *s)
{
    if (!s->device) return;
    for (int i = 0; i < PDL__STREAM_COUNT; i++) s->device->ops->stream_destroy(s->device, s->stream[i]);
    s->device->ops->event_destroy(s->device, s->event);
}

pdl_status_t pdl__session_await(const pdl_session_t *s)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < PDL__STREAM_COUNT && !status; i++)
        if (s->stream[i]) status = s->device->ops->synchronise(s->device, s->stream[i]);
    return status;
}

static pdl_status_t lower_program(pdl_session_t *s, bool training, pdl_program_t **program)
{
    pdl_program_options_t options = {.micro_batches = s->micro_batches, .training = training};
    pdl_program_pass_t   *order = NULL;
    pdl_status_t          status = PDL_OK;

    if (s->layouts->stages->count > 1) {
        status = pdl__pipe_order(s->layouts->stages, training, &order, &options.order_count);
        options.order = order;
    }
    if (!status) status = pdl_program_create(s->graph->node, s->graph->unit_count, &options, program);
    free(order);
    return status;
}

static pdl_status_t create_program(pdl_session_t *s)
{
    pdl__graph_spec_t spec = {.plan = s->spec.plan,
                              .layouts = s->layouts,
                              .backend = s->spec.backend,
                              .training = s->spec.training,
                              .separate = s->spec.separate,
                              .overlap = s->spec.overlap};
    pdl_status_t      status = pdl__graph_create(&spec, &s->graph);

    if (!status && !s->dry) status = pdl__graph_make(s->graph, s->groups);
    if (!status) status = lower_program(s, false, &s->forward_program);
    if (!status && s->spec.training) status = lower_program(s, true, &s->program);
    if (status) return status;
    s->arena_bytes = s->forward_program->arena_bytes;
    if (s->program && s->program->arena_bytes > s->arena_bytes) s->arena_bytes = s->program->arena_bytes;
    return PDL_OK;
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

/* Small buffers of the device, one behind the other. Sums of squares: two of every weight and one more, or one of every
   statistic. */
static void place_small(pdl_session_t *s)
{
    int64_t zeros = 0, sums = 2 * (int64_t)s->entry_count + 1, statistics = s->entry_count * s->workers;

    for (int i = 0; i < s->entry_count; i++)
        if (s->graph->unit[s->entry[i].unit].zero_bias && s->entry[i].info.rank == 1 && s->entry[i].storage > zeros)
            zeros = s->entry[i].storage;
    s->scalar_count = sums > statistics ? sums : statistics;
    s->zeros_at = (size_t)(s->scalar_count + 7) / 8 * 64;
    s->small_bytes = s->zeros_at + (size_t)(zeros + 15) / 16 * 16 * pdl_dtype_bytes(s->spec.backend->weight_type);
    s->small_bytes = pdl__targets_place(s, s->small_bytes);
}

static pdl_status_t take_small(pdl_session_t *s)
{
    void        *memory = NULL;
    pdl_status_t status = s->device->ops->alloc(s->device, PDL_SPACE_DEVICE, s->small_bytes, &memory);

    if (status) return status;
    s->small = memory;
    s->scalars = memory;
    s->zeros = s->small + s->zeros_at;
    status = s->device->ops->alloc(s->device, PDL_SPACE_PINNED, (size_t)s->scalar_count * sizeof(double), &memory);
    s->scalars_home = memory;
    return status ? status : pdl__targets_create(s);
}

static pdl_status_t take_buffers(pdl_session_t *s)
{
    pdl_status_t status = check_loss(s);

    void *arena = NULL;

    place_small(s);
    if (s->dry || status) return status;
    if (s->device->ops->alloc(s->device, PDL_SPACE_DEVICE, s->arena_bytes, &arena)) {
        return pdl_error(PDL_ERR_NOMEM,
                         "no memory for %.1f GiB of activations: lower --batch or use --recompute full",
                         (double)s->arena_bytes / (double)(1 << 30));
    }
    s->arena = arena;
    status = take_small(s);
    if (status) return status;
    if (s->spec.timeline) {
        s->timeline = calloc(PDL__TIMELINE_CAPACITY, sizeof(*s->timeline));
        if (!s->timeline) return no_memory();
    }
    s->timeline_zero_s = pdl__now_s();
    return PDL_OK;
}

pdl_status_t pdl_session_create(const pdl_session_spec_t *spec, pdl_session_t **out)
{
    pdl_session_t *s = calloc(1, sizeof(*s));
    pdl_status_t   status = s ? PDL_OK : no_memory();

    if (!status && spec->max_memory > 0) status = pdl__session_check_memory(spec);
    if (!status) {
        s->spec = *spec;
        s->device = spec->backend->device;
        s->rate_position = -1;
        s->rate_factor = 1;
        s->dry = pdl_ranks_pretended(spec->ranks);
        status = create_streams(s);
        if (!status) status = find_share(s);
        pdl__shard_choose(s);
    }
    if (!status && spec->training) status = pdl_optimizer_check(&spec->optimizer);
    if (!status && spec->training) s->spec.optimizer.lr = pdl_optimizer_rate(&spec->optimizer);
    status = pdl_ranks_agree(spec->ranks, status);
    if (!status) status = pdl__groups_create(&s->spec.plan->mesh, spec->ranks, &s->groups);
    if (!status) status = pdl__separate_create(s);
    if (!status) status = create_program(s);
    if (!status) status = pdl__session_weights(s);
    if (!status) status = take_buffers(s);
    if (!status && spec->logits) status = pdl__logits_create(s, spec->logits, spec->logits_context);
    status = pdl_ranks_agree(spec->ranks, status);
    if (!status) status = pdl__buckets_connect(s);
    if (!status) status = pdl__ties_create(s);
    if (!status && !s->dry) status = pdl__session_list(s);
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
    pdl__session_free_list(s);
    pdl__banks_give(s);
    if (s->graph) pdl__session_free_weights(s);
    pdl__shard_destroy(s);
    if (s->arena) s->device->ops->release(s->device, PDL_SPACE_DEVICE, s->arena, s->arena_bytes);
    if (s->small) s->device->ops->release(s->device, PDL_SPACE_DEVICE, s->small, s->small_bytes);
    if (s->device) {
        s->device->ops->release(s->device, PDL_SPACE_PINNED, s->scalars_home,
                                (size_t)s->scalar_count * sizeof(double));
        pdl__targets_destroy(s);
    }
    pdl_program_destroy(s->program);
    pdl_program_destroy(s->forward_program);
    pdl__graph_unmake(s->graph);
    pdl__graph_destroy(s->graph);
    pdl__groups_destroy(s->groups);
    pdl__layouts_destroy(s->layouts);
    if (s->own_plan) pdl_plan_destroy(s->own_plan);
    pdl__separate_destroy(s);
    pdl__logits_destroy(s);
    free(s->timeline);
    free(s->kept);
    pdl_ranks_destroy(s->pretended);
    destroy_streams(s);
    free(s);
}

void pdl_session_share(const pdl_session_t *s, int64_t *first, int64_t *count)
{
    *first = s->first;
    *count = s->count;
}

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
        sums[0] += weight * (double)s->results[i];
        sums[1] += weight * (double)s->results[s->count + i];
        sums[2] += weight * (share > 0 ? share : 1);
    }
}

static pdl_status_t gather_result(pdl_session_t *s, pdl_ranks_t *ranks, const pdl_batch_t *batch,
                                  pdl_step_result_t *result)
{
    double sums[PDL__RESULT_SUMS] = {0, 0, 0, s->stop, s->not_finite > 0};

    pdl_status_t status = pdl__results_fetch(s);

    if (!status && s->graph->loss >= 0) sum_samples(s, batch, sums);
    if (!status) status = pdl_ranks_sum(ranks, sums, PDL__RESULT_SUMS);
    if (!status && sums[4] > 0) status = pdl__finite_agree(s, ranks);
    if (status) return status;
    result->samples = sums[2];
    result->loss = sums[2] > 0 ? sums[0] / sums[2] : 0;
    result->accuracy = sums[2] > 0 ? sums[1] / sums[2] : 0;
    result->stop = sums[3] > 0;
    return PDL_OK;
}

/* Exchanges inside and between layers and of gradients, so far. */
static double exchanged_s(const pdl_session_t *s)
{
    return s->class_s[PDL_CLASS_MOVE] + s->class_s[PDL_CLASS_GRADIENT];
}

static pdl_status_t finish_exchange(pdl_session_t *s)
{
    double start_s = pdl__now_s();

    for (int g = 0; g < s->bucket_groups; g++) {
        if (pdl__shard_divides(s, PDL_ARRAY_GRADIENT) && s->buckets[g].shard_ranks) continue;
        for (int b = 0; b < s->buckets[g].count; b++) {
            pdl_status_t status = pdl__bucket_wait(s, s->buckets[g].exchange, b);
            if (status) return status;
        }
    }
    pdl_status_t status = s->shard ? pdl__shard_finish(s) : PDL_OK;
    if (!status) status = pdl__ties_sum(s);
    if (s->bucket_groups || s->tie_count) pdl__session_note(s, -1, start_s);
    return status;
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
        if (s->entry[i / 2].k == 0) values[i] *= pdl__pipe_holders(l->stages, s->entry[i / 2].owner);
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

static pdl_status_t update_weights(pdl_session_t *s, const pdl_batch_t *batch, pdl_step_result_t *result)
{
    double              start_s = pdl__now_s();
    pdl_optimizer_run_t run = {.backend = s->spec.backend,
                               .stream = s->stream[PDL__STREAM_COMPUTE],
                               .scalars = s->scalars,
                               .home = s->scalars_home,
                               .parameters = s->parameter,
                               .count = s->parameter_count,
                               .weights = s->array[PDL_ARRAY_WEIGHT],
                               .gradients = s->array[PDL_ARRAY_GRADIENT],
                               .moment = {s->array[PDL_ARRAY_MOMENT1], s->array[PDL_ARRAY_MOMENT2]},
                               .ema = s->array[PDL_ARRAY_EMA],
                               .step = s->updates - s->moments_from,
                               .lr = &result->lr};
    bool                clips = s->spec.optimizer.clip_norm > 0;
    if (!s->layouts->trivial || s->layouts->stages->count > 1 || s->shard) {
        run.reduce = sum_over_ranks;
        run.reduce_context = s->replica;
    }
    if (!s->layouts->trivial || s->shard) {
        run.tensor = s->parameter_entry;
        run.tensors = s->entry_count;
        run.sums = s->sums;
        run.reduce_tensors = sum_tensors;
        run.tensors_context = s;
    }
    if (s->shard) {
        run.weight_at = s->shard->weight_at;
        run.gradient_at = s->shard->gradient_at;
    }
    pdl_status_t status = pdl_optimizer_step(&s->spec.optimizer, &run, clips ? &result->gradient_norm : NULL);

    status = check_update(s, batch, status, result);
    if (!status && s->shard) {
        pdl__session_note(s, -2, start_s);
        start_s = pdl__now_s();
        status = pdl__shard_gather(s);
        pdl__session_note(s, -1, start_s);
        start_s = pdl__now_s();
    }
    if (!status) status = pdl__session_refresh(s);
    pdl__session_note(s, -2, start_s);
    return status;
}

pdl_status_t pdl_session_step_begin(pdl_session_t *s, const pdl_batch_t *batch)
{
    pdl__execution_t execution = {.batch = batch, .mode = PDL__EXECUTE_TRAIN, .halts = true};

    if (s->micro_batches > 1 || s->layouts->stages->count > 1)
        return pdl_error(PDL_ERR_UNSUPPORTED,
                         "a step cannot halt at its loss with micro-batches or stages: plan without them");
    pdl_status_t status = pdl__session_execute(s, s->program, &execution);
    s->halted = execution.next;
    return status ? status : pdl__results_fetch(s);
}

static void show_phase(const pdl_session_t *s, const char *doing)
{
    pdl_watch_at(s->spec.ranks, &(pdl_watch_place_t){.update = s->updates + 1, .doing = doing});
}

pdl_status_t pdl_session_step_finish(pdl_session_t *s, const pdl_batch_t *batch, pdl_step_result_t *result)
{
    double           start_s = pdl__now_s(), exchanged = exchanged_s(s);
    pdl__execution_t execution = {.batch = batch, .mode = PDL__EXECUTE_TRAIN, .next = s->halted};
    pdl_status_t     status = pdl__session_execute(s, s->program, &execution);

    s->halted = 0;
    double position = s->rate_position < 0 ? (double)s->updates : s->rate_position;
    *result = (pdl_step_result_t){.lr = pdl_learning_rate(&s->spec.optimizer, position) * s->rate_factor};
    show_phase(s, "exchange of gradients");
    if (!status) status = finish_exchange(s);
    if (!status) status = gather_result(s, s->replica, batch, result);
    if (!status && !isfinite(result->loss))
        status = pdl__finite_explain(s, s->replica, batch, PDL__EXECUTE_TRAIN, "loss");
    show_phase(s, "update of weights");
    s->updating = true;
    if (!status) status = update_weights(s, batch, result);
    if (status) return status;
    s->updates++;
    s->updating = false;
    result->step_s = pdl__now_s() - start_s;
    result->comm_s = exchanged_s(s) - exchanged;
    result->compute_s = result->step_s - result->comm_s;
    return PDL_OK;
}

/* Nothing has been executed yet, so finishing is all of it. */
pdl_status_t pdl_session_step(pdl_session_t *s, const pdl_batch_t *batch, pdl_step_result_t *result)
{
    s->halted = 0;
    return pdl_session_step_finish(s, batch, result);
}

static pdl_status_t execute_forward(pdl_session_t *s, pdl__execute_mode_t mode, const pdl_batch_t *batch,
                                    pdl_step_result_t *result)
{
    double           start_s = pdl__now_s();
    pdl__execution_t execution = {.batch = batch, .mode = mode};
    pdl_status_t     status = pdl__session_execute(s, s->forward_program, &execution);

    *result = (pdl_step_result_t){0};
    if (!status) status = gather_result(s, s->spec.ranks, batch, result);
    if (!status && !isfinite(result->loss)) status = pdl__finite_explain(s, s->spec.ranks, batch, mode, "loss");
    result->step_s = result->compute_s = pdl__now_s() - start_s;
    return status;
}

pdl_status_t pdl_session_evaluate(pdl_session_t *s, const pdl_batch_t *batch, pdl_step_result_t *result)
{
    return execute_forward(s, PDL__EXECUTE_EVALUATE, batch, result);
}

pdl_status_t pdl_session_pass(pdl_session_t *s, const pdl_batch_t *batch, pdl_step_result_t *result)
{
    return execute_forward(s, PDL__EXECUTE_PASS, batch, result);
}

/* Through the arena, which nobody uses between executions. */
static pdl_status_t swap_bytes(pdl_session_t *s, char *a, char *b, size_t bytes)
{
    pdl_tensor_stream_t *compute = s->stream[PDL__STREAM_COMPUTE];
    pdl_status_t         status = PDL_OK;

    for (size_t at = 0; at < bytes && !status; at += s->arena_bytes) {
        size_t length = bytes - at < s->arena_bytes ? bytes - at : s->arena_bytes;
        status = s->device->ops->copy(s->device, compute, s->arena, a + at, length);
        if (!status) status = s->device->ops->copy(s->device, compute, a + at, b + at, length);
        if (!status) status = s->device->ops->copy(s->device, compute, b + at, s->arena, length);
    }
    return status;
}

pdl_status_t pdl_session_swap_ema(pdl_session_t *s)
{
    size_t       item = pdl_dtype_bytes(s->spec.backend->weight_type);
    pdl_status_t status = PDL_OK;

    if (!pdl__session_keeps(s, PDL_ARRAY_EMA)) return PDL_OK;
    for (int i = 0; i < s->parameter_count && !status; i++) {
        const pdl_parameter_t *p = &s->parameter[i];
        int64_t                at = s->shard ? s->shard->weight_at[i] : p->offset;
        status = swap_bytes(s, (char *)s->array[PDL_ARRAY_WEIGHT] + (size_t)at * item,
                            (char *)s->array[PDL_ARRAY_EMA] + (size_t)p->offset * item, (size_t)p->elements * item);
    }
    if (!status) status = pdl__shard_gather(s);
    return status ? status : pdl__session_refresh(s);
}

pdl_sample_results_t pdl_session_samples(const pdl_session_t *s)
{
    return (pdl_sample_results_t){s->results, s->results + s->count, s->results + 2 * s->count, s->count};
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

    *memory = (pdl_session_memory_t){.weights = (size_t)pdl__session_elements(s, PDL_ARRAY_WEIGHT) * item +
                                                s->packed_bytes,
                                     .gradients = (size_t)pdl__session_elements(s, PDL_ARRAY_GRADIENT) * item,
                                     .activations = s->arena_bytes + s->small_bytes,
                                     .messages = pdl__messages_bytes(s)};
    for (int a = PDL_ARRAY_MOMENT1; a < PDL_ARRAY_COUNT; a++)
        memory->optimizer += (size_t)pdl__session_elements(s, (pdl_session_array_t)a) * item;
    if (s->shard) {
        memory->weights += s->shard->weight_bytes;
        memory->gradients += s->shard->gradient_bytes;
    }
    memory->live = s->program ? s->program->live_bytes : s->forward_program->live_bytes;
    memory->weights += pdl__banks_bytes(s);
    memory->total =
        memory->weights + memory->gradients + memory->optimizer + memory->activations + memory->messages;
}
