/*
 * Playing a program: one operation after the other, on buffers at their places in the arena.
 */
#include "train/exec/finite.h"
#include "train/exec/shard.h"
#include <paradl/comm/watch.h>
#include <string.h>
#include <time.h>

double pdl__now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

pdl_op_class_t pdl__op_class_of(const pdl_session_t *s, int op)
{
    if (op < 0) return op == -1 ? PDL_CLASS_GRADIENT : PDL_CLASS_UPDATE;
    const pdl_program_op_t *entry = &s->program->op[op];
    if (entry->kind == PDL_OP_LOAD) return PDL_CLASS_INPUT;
    const pdl__unit_t *unit = &s->graph->unit[entry->node];
    bool               backwards = entry->kind == PDL_OP_BACKWARD || entry->kind == PDL_OP_BACKWARD_REST;
    if (entry->kind == PDL_OP_GRADIENT_DONE) return PDL_CLASS_GRADIENT;
    if (unit->kind == PDL__UNIT_EDGE || unit->kind == PDL__UNIT_RECEIVE || unit->kind == PDL__UNIT_SEND)
        return PDL_CLASS_MOVE;
    if (unit->kind == PDL__UNIT_CONVERT) return PDL_CLASS_CONVERT;
    if (unit->kind != PDL__UNIT_OP || entry->kind == PDL_OP_SUM) return PDL_CLASS_ELEMENT;
    return pdl_op_class(pdl_model_layer(s->spec.plan->model, unit->layer)->type, backwards);
}

void pdl__session_note(pdl_session_t *s, int op, double start_s)
{
    double end_s = pdl__now_s(), moved_s = s->moved_s;

    s->class_s[PDL_CLASS_MOVE] += moved_s;
    s->class_s[pdl__op_class_of(s, op)] += end_s - start_s - moved_s;
    s->moved_s = 0;
    if (!s->timeline || s->timeline_count == PDL__TIMELINE_CAPACITY) return;
    s->timeline[s->timeline_count++] = (pdl__moment_t){start_s, end_s, moved_s, op};
}

static void *at(const pdl_session_t *s, const pdl_program_t *program, int buffer)
{
    return buffer < 0 ? NULL : s->arena + program->buffer[buffer].offset;
}

/* The first element of activations that is not finite, or -1. */
static pdl_status_t find_not_finite(pdl_session_t *s, const void *data, size_t bytes, int64_t *index)
{
    pdl_tensor_stream_t *compute = s->stream[PDL__STREAM_COMPUTE];
    pdl_status_t         status =
        s->spec.backend->ops->find_not_finite(s->spec.backend, compute, data, bytes, (int64_t *)(void *)s->scalars);

    return status ? status : pdl_device_fetch(s->device, compute, index, s->scalars, sizeof(*index));
}

/* The samples of one micro-batch into the source's buffer. */
static pdl_status_t load(pdl_session_t *s, const pdl_program_t *program, const pdl_program_op_t *op,
                         const pdl__execution_t *execution)
{
    const pdl_batch_t   *batch = execution->batch;
    const pdl__unit_t   *source = &s->graph->unit[s->graph->source];
    pdl_tensor_stream_t *compute = s->stream[PDL__STREAM_COMPUTE];
    void                *target = at(s, program, op->input[0]);
    int64_t              from = op->micro_batch * s->micro_samples, bad = -1;

    if (s->graph->tokens) {
        int64_t positions = pdl_shape_positions(&source->shape);
        return s->device->ops->copy(s->device, compute, target, batch->tokens + from * positions,
                                    (size_t)(s->micro_samples * positions) * sizeof(int32_t));
    }
    int64_t      elements = pdl_shape_elements(&source->shape);
    pdl_status_t status =
        s->spec.backend->ops->from_float(s->spec.backend, compute, batch->values + from * elements,
                                         s->micro_samples * elements, target);
    /* In training a bad sample is seen in the gradients; a score could hide it. */
    size_t bytes = (size_t)(s->micro_samples * elements) * pdl_dtype_bytes(s->spec.backend->activation_type);
    if (!status && execution->mode == PDL__EXECUTE_EVALUATE) status = find_not_finite(s, target, bytes, &bad);
    if (!status && bad >= 0) pdl__finite_note_input(s, batch);
    return status;
}

static pdl_status_t sum_over_ranks(void *context, double *values, int64_t count)
{
    return pdl_ranks_sum(context, values, count);
}

static pdl_status_t max_over_ranks(void *context, double *values, int64_t count)
{
    return pdl_ranks_max(context, values, count);
}

/* Tokens on their way to experts of other ranks, and back. */
static pdl_status_t route_tokens(void *context, const void *send, const int64_t *to, void *receive,
                                 const int64_t *from)
{
    pdl_session_t *s = context;
    double         start_s = pdl__now_s(), before = s->routing->sent;
    pdl_status_t   status = pdl__dispatch_run(s->routing, send, to, receive, from);

    s->sent_bytes += s->routing->sent - before;
    s->moved_s += pdl__now_s() - start_s;
    return status;
}

/* Batch norm over all ranks that have other samples or positions of the same channels. */
static void share_statistics(pdl_session_t *s, const pdl__unit_t *unit, pdl_op_run_t *run)
{
    const pdl_layer_t *layer = pdl_model_layer(s->spec.plan->model, unit->layer);

    if (!s->spec.plan->sync_batch_norm || !unit->statistics) return;
    run->reduce = sum_over_ranks;
    run->reduce_context = unit->statistics;
    run->total_samples = s->mean_over / s->micro_batches;
    run->total_values = run->total_samples * pdl_shape_positions(&layer->in);
}

static pdl_op_run_t common_run(pdl_session_t *s, const pdl_program_t *program, const pdl_program_op_t *op,
                               const pdl__execution_t *execution)
{
    const pdl__unit_t  *unit = &s->graph->unit[op->node];
    const pdl_traits_t *traits = pdl_layer_traits(unit->spec.layer);
    pdl_op_run_t        run = {.output = at(s, program, op->output),
                               .saved = at(s, program, op->saved),
                               .workspace = at(s, program, op->workspace),
                               .training = execution->mode != PDL__EXECUTE_EVALUATE,
                               .again = op->again || execution->searches,
                               .seed = s->spec.seed,
                               .step = (uint64_t)s->updates,
                               .first_sample = s->draws_at + op->micro_batch * s->micro_samples +
                                               pdl__region_first(s->layouts, &unit->region),
                               .total_samples = pdl__region_samples(&unit->region),
                               .loss_scale = 1.0 / (double)s->mean_over,
                               .label_smoothing = execution->mode == PDL__EXECUTE_TRAIN ? s->spec.label_smoothing : 0};

    for (int j = 0; j < unit->input_count; j++) run.input[j] = at(s, program, op->input[j]);
    if (s->packed) run.packed = (char *)s->packed + s->packed_at[op->node];
    for (int k = 0; k < unit->description.weight_count; k++) {
        const pdl__trace_entry_t *entry = &s->entry[unit->weight[k]];
        run.weight[k] = entry->info.trainable ? pdl__entry_at(s, PDL_ARRAY_WEIGHT, entry)
                                              : pdl__statistics_at(s, entry, pdl__worker_of(s, op->micro_batch));
        if (unit->zero_bias && entry->info.rank == 1) run.weight[k] = s->zeros;
    }
    if (traits->statistics) share_statistics(s, unit, &run);
    if (traits->loss && unit->statistics) {
        run.reduce = sum_over_ranks;
        run.reduce_max = max_over_ranks;
        run.reduce_context = unit->statistics;
    }
    if (unit->routes) {
        s->routing = unit->routes;
        run.route = route_tokens;
        run.route_context = s;
    }
    return run;
}

/* Sends an edge on its way, there or back; bytes and time are counted. */
static pdl_status_t start_edge(pdl_session_t *s, pdl__edge_t *edge, bool way_back, const void *source, void *target,
                               void *scratch)
{
    double there, back, start_s = pdl__now_s();

    pdl__edge_bytes(edge, &there, &back);
    s->sent_bytes += way_back ? back : there;
    pdl_status_t status = pdl__session_order(s, PDL__STREAM_COMPUTE, PDL__STREAM_MOVE);
    if (!status) status = pdl__edge_start(edge, s->stream[PDL__STREAM_MOVE], way_back, source, target, scratch);
    s->moved_s += pdl__now_s() - start_s;
    return status;
}

static pdl_status_t finish_edge(pdl_session_t *s, pdl__edge_t *edge)
{
    double       start_s = pdl__now_s();
    pdl_status_t status = pdl__edge_finish(edge);

    if (!status) status = pdl__session_order(s, PDL__STREAM_MOVE, PDL__STREAM_COMPUTE);
    s->moved_s += pdl__now_s() - start_s;
    return status;
}

/* What an operation says of an edge: all of it, or one of its halves. */
static pdl_status_t run_edge(pdl_session_t *s, const pdl_program_t *program, const pdl_program_op_t *op)
{
    pdl__edge_t *edge = s->graph->unit[op->node].edge;
    pdl_status_t status = PDL_OK;

    if (op->kind == PDL_OP_FORWARD)
        status = start_edge(s, edge, false, at(s, program, op->input[0]), at(s, program, op->output),
                            at(s, program, op->workspace));
    else if (op->kind == PDL_OP_BACKWARD)
        status = start_edge(s, edge, true, at(s, program, op->gradient[0]), at(s, program, op->input_gradient[0]),
                            at(s, program, op->workspace));
    return status || op->partly ? status : finish_edge(s, edge);
}

/* The copies that a backend makes of weights, where they change with every use. */
static pdl_status_t pack_weights(pdl_session_t *s, pdl_op_t *op, const pdl_op_run_t *run)
{
    if (op->description.packed_bytes == 0 || !pdl__shard_divides(s, PDL_ARRAY_WEIGHT)) return PDL_OK;
    return s->spec.backend->ops->refresh(op, s->stream[PDL__STREAM_COMPUTE], run);
}

static pdl_status_t forward(pdl_session_t *s, const pdl_program_t *program, const pdl_program_op_t *op,
                            pdl__execution_t *execution)
{
    pdl__unit_t             *unit = &s->graph->unit[op->node];
    const pdl_backend_ops_t *ops = s->spec.backend->ops;
    pdl_status_t             status;

    if (unit->kind == PDL__UNIT_RECEIVE || unit->kind == PDL__UNIT_SEND) {
        status = pdl__border_forward(s, unit, at(s, program, op->input[0]), at(s, program, op->output));
    } else if (unit->kind == PDL__UNIT_EDGE) {
        status = run_edge(s, program, op);
    } else if (unit->kind == PDL__UNIT_CONVERT) {
        status = ops->convert(s->spec.backend, s->stream[PDL__STREAM_COMPUTE], &unit->shape,
                              pdl__region_samples(&unit->region), s->graph->unit[unit->input[0]].format,
                              at(s, program, op->input[0]), unit->format, at(s, program, op->output));
    } else {
        pdl_op_run_t run = common_run(s, program, op, execution);
        status = unit->loss ? pdl__targets_set(s, op->micro_batch, execution->batch, &run) : PDL_OK;
        if (!status) status = pack_weights(s, unit->op, &run);
        if (!status)
            status = unit->halo ? pdl__halo_forward(s, unit, &run)
                                : ops->forward(unit->op, s->stream[PDL__STREAM_COMPUTE], &run);
        if (!status && unit->loss) status = pdl__results_keep(s, op->micro_batch, run.output);
        if (!status && unit->loss && s->logits.call && !execution->searches)
            status = pdl__logits_show(s, op->micro_batch, &run, execution->mode == PDL__EXECUTE_TRAIN);
    }
    if (execution->searches && !status && execution->found < 0 && !unit->loss && !op->partly &&
        unit->kind != PDL__UNIT_SEND) {
        int64_t bad = -1;
        status = find_not_finite(s, at(s, program, op->output), s->graph->node[op->node].out_bytes, &bad);
        if (bad >= 0) execution->found = op->node;
    }
    return status;
}

static bool has_sums(const pdl__unit_t *unit, const pdl_op_run_t *run)
{
    bool sums = false;

    for (int j = 0; j < unit->input_count; j++) sums |= unit->after[j] && run->input_gradient[j];
    return sums;
}

/* Partial sums of input gradients over the ranks, one after the other: they may share their scratch memory unless only
   one half is asked for. */
static pdl_status_t sum_gradients(pdl_session_t *s, const pdl__unit_t *unit, const pdl_op_run_t *run, bool start,
                                  bool finish)
{
    pdl_status_t status = PDL_OK;

    for (int j = 0; j < unit->input_count && !status; j++) {
        if (!unit->after[j] || !run->input_gradient[j]) continue;
        if (start)
            status = start_edge(s, unit->after[j], true, run->input_gradient[j], run->input_gradient[j],
                                run->workspace ? (char *)run->workspace + unit->after_at[j] : NULL);
        if (!status && finish) status = finish_edge(s, unit->after[j]);
    }
    return status;
}

/* Where gradients go; returns which of them are wanted. */
static unsigned set_gradients(pdl_session_t *s, const pdl_program_t *program, const pdl_program_op_t *op,
                              pdl_op_run_t *run)
{
    const pdl__unit_t *unit = &s->graph->unit[op->node];
    unsigned           what = 0;

    for (int g = 0; g < 2; g++) run->output_gradient[g] = at(s, program, op->gradient[g]);
    for (int j = 0; j < unit->input_count; j++) {
        run->input_gradient[j] = at(s, program, op->input_gradient[j]);
        if (run->input_gradient[j]) what |= PDL_BACKWARD_DATA;
    }
    for (int k = 0; k < unit->description.weight_count; k++) {
        pdl__trace_entry_t *entry = &s->entry[unit->weight[k]];
        if (!entry->info.trainable) continue;
        what |= PDL_BACKWARD_WEIGHT;
        run->weight_gradient[k] = pdl__entry_at(s, PDL_ARRAY_GRADIENT, entry);
        run->accumulate |= entry->written;
    }
    return what;
}

static pdl_status_t run_backward(pdl_session_t *s, pdl__unit_t *unit, const pdl_op_run_t *run, unsigned what)
{
    return unit->halo ? pdl__halo_backward(s, unit, run, what)
                      : s->spec.backend->ops->backward(unit->op, s->stream[PDL__STREAM_COMPUTE], run, what);
}

/* Weight gradients by themselves, while input gradients travel. */
static pdl_status_t backward_rest(pdl_session_t *s, const pdl_program_t *program, const pdl_program_op_t *op,
                                  pdl__execution_t *execution)
{
    pdl__unit_t *unit = &s->graph->unit[op->node];

    if (unit->kind == PDL__UNIT_EDGE) return run_edge(s, program, op);
    pdl_op_run_t run = common_run(s, program, op, execution);
    set_gradients(s, program, op, &run);
    for (int k = 0; k < unit->description.weight_count; k++) s->entry[unit->weight[k]].written = true;
    return run_backward(s, unit, &run, PDL_BACKWARD_WEIGHT | PDL_BACKWARD_AGAIN);
}

static pdl_status_t backward(pdl_session_t *s, const pdl_program_t *program, const pdl_program_op_t *op,
                             pdl__execution_t *execution)
{
    pdl__unit_t             *unit = &s->graph->unit[op->node];
    const pdl_backend_ops_t *ops = s->spec.backend->ops;

    if (unit->kind == PDL__UNIT_RECEIVE || unit->kind == PDL__UNIT_SEND)
        return pdl__border_backward(s, unit, at(s, program, op->gradient[0]),
                                    at(s, program, op->input_gradient[0]));
    if (unit->kind == PDL__UNIT_EDGE) return run_edge(s, program, op);
    if (unit->kind == PDL__UNIT_CONVERT)
        return ops->convert(s->spec.backend, s->stream[PDL__STREAM_COMPUTE], &unit->shape,
                            pdl__region_samples(&unit->region), unit->format, at(s, program, op->gradient[0]),
                            s->graph->unit[unit->input[0]].format, at(s, program, op->input_gradient[0]));
    pdl_op_run_t run = common_run(s, program, op, execution);
    pdl_status_t status = unit->loss ? pdl__targets_set(s, op->micro_batch, execution->batch, &run) : PDL_OK;
    unsigned     what = set_gradients(s, program, op, &run);
    if (!status) status = pack_weights(s, unit->op, &run);
    /* Where the program has no rest, sums of this very unit may travel while its weight gradients are made. */
    bool divided = op->partly || (unit->divides && has_sums(unit, &run));
    if (!status) status = run_backward(s, unit, &run, divided ? what & ~PDL_BACKWARD_WEIGHT : what);
    if (!status && unit->loss && s->logits.call && run.input_gradient[0])
        status = pdl__logits_add(s, op->micro_batch, &run);
    if (status || op->partly) return status;
    for (int k = 0; k < unit->description.weight_count; k++) s->entry[unit->weight[k]].written = true;
    if (!divided) return sum_gradients(s, unit, &run, true, true);
    status = sum_gradients(s, unit, &run, true, false);
    if (!status) status = run_backward(s, unit, &run, PDL_BACKWARD_WEIGHT | PDL_BACKWARD_AGAIN);
    return status ? status : sum_gradients(s, unit, &run, false, true);
}

/* The gradients of a unit are complete: buckets that wait for nothing else may travel. */
static pdl_status_t gradient_done(pdl_session_t *s, int u)
{
    const pdl__unit_t *unit = &s->graph->unit[u];

    for (int k = 0; unit->kind == PDL__UNIT_OP && k < unit->description.weight_count; k++) {
        pdl__trace_entry_t *entry = &s->entry[unit->weight[k]];
        if (!entry->info.trainable || entry->group < 0 || --entry->missing > 0) continue;
        pdl__buckets_t *buckets = &s->buckets[entry->group];
        if (--buckets->bucket[entry->bucket].missing > 0) continue;
        if (pdl__shard_divides(s, PDL_ARRAY_GRADIENT) && buckets->shard_ranks) continue; /* has left already */
        pdl_status_t status = pdl__bucket_ready(s, buckets->exchange, entry->bucket);
        if (status) return status;
    }
    return PDL_OK;
}

static pdl_status_t execute_one(pdl_session_t *s, const pdl_program_t *program, const pdl_program_op_t *op,
                                pdl__execution_t *execution)
{
    switch (op->kind) {
    case PDL_OP_LOAD: return load(s, program, op, execution);
    case PDL_OP_FORWARD: return forward(s, program, op, execution);
    case PDL_OP_BACKWARD: return backward(s, program, op, execution);
    case PDL_OP_SUM:
        return s->spec.backend->ops->add(s->spec.backend, s->stream[PDL__STREAM_COMPUTE],
                                         at(s, program, op->gradient[0]), at(s, program, op->gradient[1]),
                                         s->graph->node[op->node].out_bytes, at(s, program, op->output));
    case PDL_OP_GRADIENT_DONE: return gradient_done(s, op->node);
    case PDL_OP_FORWARD_REST: return forward(s, program, op, execution);
    case PDL_OP_BACKWARD_REST: return backward_rest(s, program, op, execution);
    }
    return PDL_OK;
}

static void begin_update(pdl_session_t *s)
{
    for (int g = 0; g < s->bucket_groups; g++)
        for (int b = 0; b < s->buckets[g].count; b++) s->buckets[g].bucket[b].missing = 0;
    for (int i = 0; i < s->entry_count; i++) {
        pdl__trace_entry_t *entry = &s->entry[i];
        entry->missing = entry->users;
        entry->written = false;
        if (entry->info.trainable && entry->group >= 0) s->buckets[entry->group].bucket[entry->bucket].missing++;
    }
    if (s->shard) pdl__shard_begin(s);
}

static pdl_status_t poll_exchanges(pdl_session_t *s)
{
    pdl_status_t status = PDL_OK;

    if (s->bucket_groups == 0) return PDL_OK;
    double start_s = pdl__now_s();
    for (int g = 0; g < s->bucket_groups && !status; g++) status = pdl_exchange_poll(s->buckets[g].exchange);
    if (!status && s->shard) status = pdl__shard_poll(s);
    s->class_s[PDL_CLASS_GRADIENT] += pdl__now_s() - start_s;
    return status;
}

static bool of_forward_pass(const pdl_program_op_t *op)
{
    return op->kind == PDL_OP_LOAD || op->kind == PDL_OP_FORWARD || op->kind == PDL_OP_FORWARD_REST;
}

/* Those who watch this rank see where it is. */
static void show_place(const pdl_session_t *s, const pdl_program_op_t *op, pdl__execute_mode_t mode)
{
    static const char *const doing[] = {[PDL_OP_LOAD] = "loading samples",
                                        [PDL_OP_FORWARD] = "forward",
                                        [PDL_OP_BACKWARD] = "backward",
                                        [PDL_OP_SUM] = "sum of gradients",
                                        [PDL_OP_GRADIENT_DONE] = "exchange of gradients",
                                        [PDL_OP_FORWARD_REST] = "forward",
                                        [PDL_OP_BACKWARD_REST] = "backward"};
    bool                     train = mode == PDL__EXECUTE_TRAIN;
    pdl_watch_place_t        place = {.update = train ? s->updates + 1 : s->updates,
                                      .doing = train                           ? doing[op->kind]
                                               : mode == PDL__EXECUTE_EVALUATE ? "validation"
                                                                               : "forward pass",
                                      .micro_batch = s->micro_batches > 1 ? (int)op->micro_batch + 1 : 0};

    if (op->kind != PDL_OP_LOAD)
        place.layer = pdl_model_layer(s->spec.plan->model, s->graph->unit[op->node].layer)->name;
    pdl_watch_at(s->spec.ranks, &place);
}

pdl_status_t pdl__session_execute(pdl_session_t *s, const pdl_program_t *program, pdl__execution_t *execution)
{
    pdl_status_t status = s->dry ? pdl_error(PDL_ERR_UNSUPPORTED, "a pretended rank computes nothing")
                          : execution->next == 0 ? pdl__borders_begin(s, execution->mode == PDL__EXECUTE_TRAIN)
                                                 : PDL_OK;

    execution->found = -1;
    s->moved_s = 0;
    if (execution->next == 0) begin_update(s);
    for (; execution->next < program->op_count && !status; execution->next++) {
        int i = execution->next;
        if (execution->halts && !of_forward_pass(&program->op[i])) return PDL_OK;
        show_place(s, &program->op[i], execution->mode);
        if (s->shard) status = pdl__shard_before(s, program, i, execution->mode == PDL__EXECUTE_TRAIN);
        double start_s = pdl__now_s();
        if (!status) status = execute_one(s, program, &program->op[i], execution);
        if (execution->mode == PDL__EXECUTE_TRAIN && program->op[i].kind != PDL_OP_LOAD)
            pdl__session_note(s, i, start_s);
        if (!status && execution->mode == PDL__EXECUTE_TRAIN && s->shard) status = pdl__shard_after(s, i);
        if (!status && (execution->mode == PDL__EXECUTE_TRAIN || s->shard)) status = poll_exchanges(s);
    }
    return status ? status : pdl__borders_end(s);
}
