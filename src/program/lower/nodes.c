/*
 * The units of a graph as the program sees them: what they read, keep and want of memory.
 */
#include "program/lower/graph.h"
#include <stdlib.h>

#define ALIGNMENT 64

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Sums of input gradients lie behind the op's own workspace where both are used at a time; what a halo works with
   lies behind both. */
static size_t place_workspace(pdl__unit_t *unit)
{
    size_t bytes = unit->halo ? unit->halo->op_bytes : unit->description.workspace_bytes;

    for (int j = 0; j < unit->input_count; j++) {
        size_t scratch = unit->after[j] ? pdl__edge_scratch_bytes(unit->after[j]) : 0;
        if (scratch == 0) continue;
        unit->after_at[j] = unit->divides ? aligned(bytes) : 0;
        if (unit->after_at[j] + scratch > bytes) bytes = unit->after_at[j] + scratch;
    }
    if (!unit->halo) return bytes;
    unit->halo->work_at = aligned(bytes);
    return unit->halo->work_at + unit->halo->bytes;
}

static pdl_program_node_t node_of_op(pdl__unit_t *unit)
{
    const pdl_op_description_t *op = &unit->description;
    pdl_program_node_t          node = {.out_bytes = op->out_bytes,
                                        .saved_bytes = unit->halo ? unit->halo->saved_bytes : op->saved_bytes,
                                        .workspace_bytes = place_workspace(unit),
                                        .divides = unit->divides,
                                        .keeps_inputs = op->keeps_inputs,
                                        .keeps_output = op->keeps_output,
                                        .inplace = op->inplace,
                                        .sums_gradients = op->sums_gradients,
                                        .loss = unit->loss,
                                        .backward = unit->gradient};

    for (int j = 0; j < unit->input_count; j++) {
        node.gradient[j] = (pdl_gradient_use_t)op->gradient_use[j];
        if (unit->after[j]) node.divides = false; /* its sums travel at once */
    }
    return node;
}

/* The same on all ranks, so that they start their moves in the same order. */
static unsigned moves_of(const pdl__edge_t *edge)
{
    return (pdl__edge_waits(edge, false) ? PDL_PROGRAM_THERE : 0) |
           (pdl__edge_waits(edge, true) ? PDL_PROGRAM_BACK : 0);
}

pdl_status_t pdl__graph_nodes(pdl__graph_t *graph, bool overlap)
{
    graph->node = calloc((size_t)graph->unit_count, sizeof(*graph->node));
    if (!graph->node) return pdl_error(PDL_ERR_NOMEM, "out of memory while preparing a model of this size");
    for (int i = 0; i < graph->unit_count; i++) {
        pdl__unit_t        *unit = &graph->unit[i];
        pdl_program_node_t *node = &graph->node[i];
        int64_t             samples = pdl__region_samples(&unit->region);
        if (unit->kind == PDL__UNIT_OP) *node = node_of_op(unit);
        node->source = unit->kind == PDL__UNIT_SOURCE;
        node->view = unit->kind == PDL__UNIT_VIEW;
        node->rearranges = unit->kind == PDL__UNIT_CONVERT;
        node->input_count = unit->input_count;
        node->backward = unit->gradient;
        node->chunk = unit->chunk;
        node->loss |= unit->kind == PDL__UNIT_SEND;
        if (unit->edge) node->workspace_bytes = pdl__edge_scratch_bytes(unit->edge);
        if (unit->edge && overlap) node->moves = moves_of(unit->edge);
        node->stepwise = unit->edge && pdl__edge_waits(unit->edge, false) > 1;
        /* A halo moves in its turn: what comes behind it is started behind it, on all ranks. */
        if (unit->halo && overlap) node->moves = PDL_PROGRAM_THERE;
        node->stepwise |= unit->halo != NULL;
        /* After a sum every rank has the gradient of its own part already. */
        if (unit->edge && unit->edge->backward_count == 0) node->gradient[0] = PDL_GRADIENT_PASSED;
        if (unit->kind != PDL__UNIT_OP && unit->kind != PDL__UNIT_SEND)
            node->out_bytes =
                graph->backend->ops->tensor_bytes(graph->backend, &unit->shape, samples, unit->format);
        if (node->source && graph->tokens)
            node->out_bytes = (size_t)(samples * pdl_shape_positions(&unit->shape)) * sizeof(int32_t);
        for (int j = 0; j < unit->input_count; j++) {
            node->input[j] = unit->input[j];
            if (graph->unit[unit->input[j]].gradient) node->input_gradients |= 1u << j;
        }
    }
    return PDL_OK;
}
