/*
 * The program of a rank for those who want to read it, and what it is projected to take.
 */
#include "oracle/cost/cost.h"
#include "train/exec/session.h"
#include <paradl/train/dry.h>

int pdl_session_op_count(const pdl_session_t *s)
{
    return s->program ? s->program->op_count + 2 : 0;
}

/* Whether the halo of the operation's unit travels in it. */
static bool moves_halo(const pdl_program_op_t *op)
{
    return op->kind == PDL_OP_FORWARD || (op->kind == PDL_OP_BACKWARD && op->input_gradient[0] >= 0);
}

static const char *note_of(const pdl__unit_t *unit, const pdl_program_op_t *op)
{
    switch (unit->kind) {
    case PDL__UNIT_CONVERT: return "convert";
    case PDL__UNIT_EDGE: return "redistribute";
    case PDL__UNIT_RECEIVE: return op->kind == PDL_OP_BACKWARD ? "send" : "receive";
    case PDL__UNIT_SEND: return op->kind == PDL_OP_BACKWARD ? "receive" : "send";
    default: return op->again ? "again" : unit->halo && moves_halo(op) ? "halo" : "";
    }
}

/* The buffer that an operation writes, or -1: backward may write several, of which the first counts. The rest of a divided
   operation has no other ones. */
static int written_by(const pdl_program_op_t *op)
{
    if (op->kind == PDL_OP_LOAD) return op->input[0];
    if (op->kind == PDL_OP_GRADIENT_DONE || op->kind == PDL_OP_BACKWARD_REST) return -1;
    if (op->kind != PDL_OP_BACKWARD) return op->output;
    for (int j = 0; j < PDL_PROGRAM_INPUTS; j++)
        if (op->input_gradient[j] >= 0) return op->input_gradient[j];
    return -1;
}

static void place_of(const pdl_program_t *program, int buffer, int64_t *offset, int64_t *bytes)
{
    *offset = buffer < 0 ? -1 : (int64_t)program->buffer[buffer].offset;
    *bytes = buffer < 0 ? 0 : (int64_t)program->buffer[buffer].bytes;
}

void pdl_session_op(const pdl_session_t *s, int i, pdl_session_op_t *op)
{
    static const char *const names[] = {"load", "forward", "sum", "backward", "done", "finish", "finish backward"};
    pdl_session_traffic_t    traffic = {0};
    int                      tail = i - s->program->op_count;

    *op = (pdl_session_op_t){.layer = "", .note = "", .offset = -1, .workspace_offset = -1};
    op->op_class = pdl__op_class_of(s, tail < 0 ? i : -1 - tail);
    if (tail >= 0) {
        op->what = tail ? "update" : "exchange";
        if (!tail) {
            pdl_session_traffic(s, &traffic);
            op->sent_bytes = traffic.gradients;
        }
        return;
    }
    const pdl_program_op_t *entry = &s->program->op[i];
    int                     node = entry->kind == PDL_OP_LOAD ? s->graph->source : entry->node;
    op->what = names[entry->kind];
    op->micro_batch = entry->micro_batch;
    if (node < 0) return; /* another stage has the samples */
    const pdl__unit_t *unit = &s->graph->unit[node];
    if (entry->kind != PDL_OP_LOAD) pdl__op_traffic(s, entry, &traffic);
    op->layer = pdl_model_layer(s->spec.plan->model, unit->layer)->name;
    op->note = note_of(unit, entry);
    op->shape = unit->shape;
    op->samples = pdl__region_samples(&unit->region);
    op->sent_bytes = traffic.moves + traffic.routed + traffic.stages + traffic.statistics;
    place_of(s->program, written_by(entry), &op->offset, &op->bytes);
    place_of(s->program, entry->kind == PDL_OP_LOAD ? -1 : entry->workspace, &op->workspace_offset,
             &op->workspace_bytes);
}

/* The layer behind `at` on the way to `head`. */
static int layer_before(const pdl_model_t *model, int at, int head)
{
    const pdl_layer_t *layer = pdl_model_layer(model, at);
    int                before = -1;

    for (int j = 0; j < layer->input_count; j++)
        if (layer->inputs[j] >= head && (before < 0 || layer->inputs[j] < before)) before = layer->inputs[j];
    return before < 0 ? head : before;
}

/* A unit takes what the layers fused into it take. */
static double unit_seconds(const pdl_session_t *s, const pdl_compute_cost_t *cost, const pdl__unit_t *unit,
                           bool backward)
{
    const pdl_model_t *model = s->spec.plan->model;
    double             seconds = 0;

    for (int at = unit->tail;; at = layer_before(model, at, unit->layer)) {
        double there, back;
        pdl__layer_seconds(cost, pdl_model_layer(model, at), &s->layouts->partition->local[at], &there, &back);
        seconds += backward ? back : there;
        if (at <= unit->layer) return seconds;
    }
}

void pdl_session_project(const pdl_session_t *s, const pdl_system_t *system, const pdl_parameters_t *parameters,
                         double *seconds)
{
    int64_t            ranks = pdl_mesh_size(&s->spec.plan->mesh);
    const pdl_level_t *level = &system->level[pdl_system_level_of_span(system, ranks)];
    pdl_compute_cost_t cost;

    pdl__compute_cost(system, parameters, s->spec.plan->precision, &cost);
    cost.model = s->spec.plan->model;
    for (int i = 0; i < pdl_session_op_count(s); i++) {
        pdl_session_op_t op;
        pdl_session_op(s, i, &op);
        seconds[i] = op.sent_bytes > 0 ? level->latency_s + op.sent_bytes / level->bandwidth_bytes_per_s : 0;
        if (i == s->program->op_count + 1)
            seconds[i] += pdl__update_seconds(parameters, &cost, s->spec.plan->optimizer,
                                              (double)(s->shard ? s->held : s->trainable), s->parameter_count);
        if (i >= s->program->op_count || s->program->op[i].kind == PDL_OP_LOAD) continue;
        const pdl_program_op_t *entry = &s->program->op[i];
        const pdl__unit_t      *unit = &s->graph->unit[entry->node];
        bool                    runs = entry->kind == PDL_OP_FORWARD || entry->kind == PDL_OP_BACKWARD;
        if (runs && unit->kind == PDL__UNIT_OP)
            seconds[i] += unit_seconds(s, &cost, unit, entry->kind == PDL_OP_BACKWARD);
        else if (entry->kind == PDL_OP_SUM || (runs && unit->kind == PDL__UNIT_CONVERT))
            seconds[i] += 3 * (double)op.bytes / cost.bytes_per_s; /* two streams read or written, one written */
    }
}
