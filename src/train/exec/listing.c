/*
 * The program of a rank for those who want to read it, and what it is projected to take.
 */
#include "oracle/cost/cost.h"
#include "train/exec/session.h"
#include <paradl/train/dry.h>

int pdl_session_op_count(const pdl_session_t *s)
{
    return s->program ? s->program->op_count : 0;
}

static void place_of(const pdl_program_t *program, int buffer, int64_t *offset, int64_t *bytes)
{
    *offset = buffer < 0 ? -1 : (int64_t)program->buffer[buffer].offset;
    *bytes = buffer < 0 ? 0 : (int64_t)program->buffer[buffer].bytes;
}

void pdl_session_op(const pdl_session_t *s, int i, pdl_session_op_t *op)
{
    const pdl_program_op_t *entry = &s->program->op[i];
    int                     node = entry->kind == PDL_OP_LOAD ? s->graph->source : entry->node;

    *op = (pdl_session_op_t){.kind = pdl_op_kind_names[entry->kind],
                             .layer = "",
                             .op_class = pdl__op_class_of(s, entry),
                             .micro_batch = entry->micro_batch,
                             .sent_bytes = entry->bytes};
    pdl_program_op_name(s->program, i, op->name, sizeof(op->name));
    place_of(s->program, pdl_program_op_output(entry), &op->offset, &op->bytes);
    place_of(s->program, entry->workspace, &op->workspace_offset, &op->workspace_bytes);
    if (node < 0) return;
    const pdl__unit_t *unit = &s->graph->unit[node];
    op->layer = pdl_model_layer(s->spec.plan->model, unit->layer)->name;
    op->shape = unit->shape;
    op->samples = pdl__region_samples(&unit->region);
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

static double compute_seconds(const pdl_session_t *s, const pdl_parameters_t *parameters,
                              const pdl_compute_cost_t *cost, const pdl_program_op_t *op)
{
    if (op->part > 0) return 0; /* priced with the interior */
    switch (op->kind) {
    case PDL_OP_FORWARD:
    case PDL_OP_RECOMPUTE: return unit_seconds(s, cost, &s->graph->unit[op->node], false);
    /* Gradients of weights are priced with those of inputs. */
    case PDL_OP_BACKWARD:
    case PDL_OP_DGRAD: return unit_seconds(s, cost, &s->graph->unit[op->node], true);
    case PDL_OP_UPDATE:
        return pdl__update_seconds(parameters, cost, s->spec.plan->optimizer,
                                   (double)(s->shard ? s->held : s->trainable), s->parameter_count);
    default: return 0;
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
        const pdl_program_op_t *op = &s->program->op[i];
        int                     output = pdl_program_op_output(op);
        seconds[i] = op->bytes > 0 ? level->latency_s + op->bytes / level->bandwidth_bytes_per_s : 0;
        seconds[i] += compute_seconds(s, parameters, &cost, op);
        if (op->node >= 0 && (op->kind == PDL_OP_SUM || op->kind == PDL_OP_CONVERT))
            /* two streams read or written, one written */
            seconds[i] += 3 * (double)s->program->buffer[output].bytes / cost.bytes_per_s;
    }
}
