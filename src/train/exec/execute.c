/*
 * The loop over the operations of a program.
 */
#include "train/exec/execute.h"
#include "base/clock.h"
#include "train/exec/finite.h"
#include "train/exec/input.h"
#include "train/exec/shard.h"
#include <paradl/comm/watch.h>

void *pdl__buffer_at(const pdl_session_t *s, const pdl__execution_t *execution, int buffer)
{
    if (buffer < 0) return NULL;
    const pdl_program_buffer_t *entry = &execution->program->buffer[buffer];
    return (entry->space == PDL_SPACE_DEVICE ? s->executor.arena : s->executor.host_arena) + entry->offset;
}

/* Where the whole buckets are whose weights or gradients an operation uses. */
static void find_buckets(pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution)
{
    const pdl_program_t *program = execution->program;

    for (int k = 0; k < op->whole_count; k++) {
        int            buffer = program->whole[op->first_whole + k], b = program->buffer[buffer].bucket;
        pdl__bucket_t *bucket = &s->exchange.buckets[program->bucket[b].set].bucket[program->bucket[b].index];
        if (program->buffer[buffer].weights)
            bucket->weights = pdl__buffer_at(s, execution, buffer);
        else
            bucket->gradients = pdl__buffer_at(s, execution, buffer);
    }
}

/* A tensor in another format; of no layer: the copies that kernels have of weights. */
static pdl_status_t convert(pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution)
{
    if (op->node < 0) return pdl__session_refresh(s, true);
    const pdl__unit_t *unit = &s->graph->unit[op->node];
    pdl_format_t       formats[2] = {s->graph->unit[unit->input[0]].format, unit->format};
    return s->spec.backend->ops->convert(s->spec.backend, s->executor.stream[PDL_STREAM_COMPUTE], &unit->shape,
                                         pdl__region_samples(&unit->region), formats[op->backward],
                                         pdl__buffer_at(s, execution, op->input[0]), formats[!op->backward],
                                         pdl__buffer_at(s, execution, op->output));
}

static pdl_status_t add_gradients(pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution)
{
    size_t bytes = op->part > 0 ? execution->program->buffer[op->output].bytes : s->graph->node[op->node].out_bytes;

    return s->spec.backend->ops->add(s->spec.backend, s->executor.stream[PDL_STREAM_COMPUTE],
                                     pdl__buffer_at(s, execution, op->input[0]),
                                     pdl__buffer_at(s, execution, op->input[1]), bytes,
                                     pdl__buffer_at(s, execution, op->output));
}

/* Rows of a tensor at the boundary of a convolution, or zeros. */
static pdl_status_t copy_boxes(pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution)
{
    const pdl__halo_side_t *side = &s->graph->unit[op->node].halo->side[op->part - 1];
    pdl_tensor_stream_t    *compute = s->executor.stream[PDL_STREAM_COMPUTE];
    void                   *target = pdl__buffer_at(s, execution, op->output);

    if (op->input[0] < 0)
        return s->executor.device->ops->fill(s->executor.device, compute, target,
                                             execution->program->buffer[op->output].bytes);
    return s->executor.device->ops->boxes(s->executor.device, compute, &side->boxes[op->boxes], op->reverse,
                                          s->spec.backend->activation_type,
                                          pdl__buffer_at(s, execution, op->input[0]), target, false);
}

static pdl_status_t execute_one(pdl_session_t *s, const pdl_program_op_t *op, pdl__execution_t *execution)
{
    switch (op->kind) {
    case PDL_OP_LOAD: return pdl__execute_load(s, op, execution);
    case PDL_OP_FORWARD:
    case PDL_OP_RECOMPUTE: return pdl__execute_forward(s, op, execution);
    case PDL_OP_BACKWARD:
    case PDL_OP_DGRAD:
    case PDL_OP_WGRAD: return pdl__execute_backward(s, op, execution);
    case PDL_OP_CONVERT: return convert(s, op, execution);
    case PDL_OP_SUM:
    case PDL_OP_COPY:
        if (op->bucket >= 0) return pdl__execute_bucket(s, op, execution);
        return op->kind == PDL_OP_SUM ? add_gradients(s, op, execution) : copy_boxes(s, op, execution);
    case PDL_OP_REDISTRIBUTE:
    case PDL_OP_COLLECTIVE:
    case PDL_OP_SEND:
    case PDL_OP_RECV:
    case PDL_OP_COPY_OUT:
    case PDL_OP_COPY_IN: return pdl__issue(s, op, execution);
    case PDL_OP_RESULT: return pdl__execute_result(s, execution);
    case PDL_OP_UPDATE: return pdl__execute_update(s, op, execution);
    case PDL_OP_KIND_COUNT: break;
    }
    return pdl_error(PDL_ERR_UNSUPPORTED, "there is no operation of kind %d", (int)op->kind);
}

static bool of_forward_pass(const pdl_program_op_t *op)
{
    return !op->backward && op->kind != PDL_OP_RESULT && op->kind != PDL_OP_UPDATE;
}

/* Those who watch this rank see where it is. */
static void show_place(const pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution)
{
    bool              train = execution->mode == PDL__EXECUTE_TRAIN;
    const char       *doing = op->kind == PDL_OP_COLLECTIVE ? "exchange of gradients"
                              : op->kind == PDL_OP_UPDATE   ? "update of weights"
                                                            : pdl_op_kind_names[op->kind];
    pdl_watch_place_t place = {.update = train ? s->updates + 1 : s->updates,
                               .doing = train                                      ? doing
                                        : execution->mode == PDL__EXECUTE_EVALUATE ? "validation"
                                                                                   : "forward pass",
                               .micro_batch = s->micro_batches > 1 && op->node >= 0 ? op->micro_batch + 1 : 0};

    if (op->node >= 0) place.layer = pdl_model_layer(s->spec.plan->model, s->graph->unit[op->node].layer)->name;
    pdl_watch_at(s->spec.ranks, &place);
}

/* What is searched for: the first output that is not finite. */
static pdl_status_t look_at_output(pdl_session_t *s, const pdl_program_op_t *op, pdl__execution_t *execution)
{
    int64_t bad = -1;

    if (!execution->searches || execution->found >= 0 || op->node < 0 || op->output < 0 || op->part > 0)
        return PDL_OK;
    if (s->graph->unit[op->node].loss) return PDL_OK;
    pdl_status_t status = pdl__find_not_finite(s, pdl__buffer_at(s, execution, op->output),
                                               execution->program->buffer[op->output].bytes, &bad);
    if (bad >= 0) execution->found = op->node;
    return status;
}

/* Completes what operation i waits for. */
static pdl_status_t wait_for(pdl_session_t *s, int i, pdl__execution_t *execution)
{
    const pdl_program_t    *program = execution->program;
    const pdl_program_op_t *op = &program->op[i];
    pdl_status_t            status = PDL_OK;

    for (int k = 0; k < op->wait_count && !status; k++) {
        int    w = program->wait[op->first_wait + k];
        double start_s = pdl__seconds();
        status = pdl__complete(s, &program->op[w], execution);
        if (execution->mode == PDL__EXECUTE_TRAIN) pdl__session_note(s, w, true, start_s);
        if (!status) status = look_at_output(s, &program->op[w], execution);
    }
    return status;
}

pdl_status_t pdl__execute_op(pdl_session_t *s, int i, pdl__execution_t *execution)
{
    const pdl_program_op_t *op = &execution->program->op[i];
    bool                    train = execution->mode == PDL__EXECUTE_TRAIN;

    show_place(s, op, execution);
    pdl_status_t status = wait_for(s, i, execution);
    if (status) return status;
    double start_s = pdl__seconds();
    find_buckets(s, op, execution);
    status = execute_one(s, op, execution);
    if (train && op->kind != PDL_OP_LOAD) pdl__session_note(s, i, false, start_s);
    if (!status && train) status = pdl__events_mark(s, i);
    if (status) return status;
    if (!pdl_program_op_in_flight(op)) status = look_at_output(s, op, execution);
    return !status && (train || s->weights.sharding != PDL_SHARDING_NONE) ? pdl__poll(s) : status;
}

/* Where one rank updates by itself the host need not see the results before. */
static pdl_status_t begin(pdl_session_t *s, pdl__execution_t *execution)
{
    bool train = execution->mode == PDL__EXECUTE_TRAIN;

    if (s->dry) return pdl_error(PDL_ERR_UNSUPPORTED, "a dry rank computes nothing");
    execution->found = -1;
    execution->updated = false;
    execution->resumed = execution->next > 0;
    execution->defers = train && !execution->resumed && !execution->halts && pdl_ranks_size(s->replica) == 1;
    s->observer.moved_s = 0;
    pdl_status_t status = execution->resumed ? PDL_OK : pdl__borders_begin(s, train);
    if (!status && !execution->resumed) status = pdl__input_begin(s, execution->batch);
    if (!status && train && !execution->resumed) status = pdl__events_begin(s);
    if (!status && !execution->resumed) status = pdl__step_numbers_send(s, execution);
    if (status || !execution->defers) return status;
    return s->executor.device->ops->fill(s->executor.device, s->executor.stream[PDL_STREAM_COMPUTE],
                                         pdl__finite_flag(s), sizeof(int64_t));
}

pdl_status_t pdl__session_execute(pdl_session_t *s, const pdl_program_t *program, pdl__execution_t *execution)
{
    pdl_status_t status = begin(s, execution);

    execution->program = program;
    if (!status) status = pdl__captures_replay(s, execution);
    for (; execution->next < program->op_count && !status; execution->next++) {
        if (execution->halts && !of_forward_pass(&program->op[execution->next])) return PDL_OK;
        status = pdl__execute_op(s, execution->next, execution);
    }
    if (!status) pdl__captures_warm(s, execution);
    if (!status) status = pdl__borders_end(s);
    return status ? status : pdl__execute_end(s, execution);
}
