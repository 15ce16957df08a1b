/*
 * The units of a graph as the program sees them: what they read, keep and want of memory.
 */
#include "program/lower/graph.h"
#include <paradl/system/system.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pdl_program_node_t node_of_op(pdl__unit_t *unit)
{
    const pdl_op_description_t *op = &unit->description;
    pdl_program_node_t          node = {.out_bytes = op->out_bytes,
                                        .saved_bytes = op->saved_bytes,
                                        .workspace_bytes = op->workspace_bytes,
                                        .divides = unit->divides,
                                        .side = unit->halo ? unit->halo->said : NULL,
                                        .keeps_inputs = op->keeps_inputs,
                                        .keeps_output = op->keeps_output,
                                        .from_saved = op->from_saved,
                                        .inplace = op->inplace,
                                        .gradient_in_forward = op->gradient_in_forward,
                                        .sums_gradients = op->sums_gradients,
                                        .adds_gradient = op->adds_gradient,
                                        .loss = unit->loss};

    for (int k = 0; k < op->weight_count; k++) node.trains |= op->weight[k].trainable;
    for (int j = 0; j < unit->input_count; j++) {
        node.gradient[j] = op->gradient_use[j];
        if (!unit->after[j]) continue;
        node.sum[j] = unit->after[j]->said[PDL_BACKWARD];
        node.sum_count[j] = unit->after[j]->count[PDL_BACKWARD];
    }
    return node;
}

static pdl_program_node_t node_of_edge(const pdl__unit_t *unit)
{
    pdl_program_node_t node = {.reader = unit->reader};

    for (int way = 0; way < PDL_DIRECTIONS; way++) {
        node.move[way] = unit->edge->said[way];
        node.move_count[way] = unit->edge->count[way];
    }
    /* After a sum every rank has the gradient of its own part already. */
    if (node.move_count[PDL_BACKWARD] == 0) node.gradient[0] = PDL_GRADIENT_PASSED;
    return node;
}

static void count_readers(pdl__graph_t *graph)
{
    for (int u = 0; u < graph->unit_count; u++)
        for (int j = 0; j < graph->unit[u].input_count; j++)
            graph->unit[graph->unit[u].input[j]].readers += graph->unit[u].gradient;
}

int pdl__unit_gradients(const pdl__graph_t *graph, int i)
{
    const pdl__unit_t *unit = &graph->unit[i];

    if (unit->kind != PDL__UNIT_OP || !unit->gradient) return 0;
    if (unit->description.sums_gradients) return unit->readers;
    return unit->description.adds_gradient ? graph->unit[unit->input[0]].readers : 1;
}

void pdl__unit_key(const pdl__graph_t *graph, int i, char *text, size_t size)
{
    const pdl__unit_t *unit = &graph->unit[i];
    pdl_op_spec_t      spec = pdl__unit_spec(unit);

    text[0] = '\0';
    if (unit->kind == PDL__UNIT_OP) {
        pdl_op_key(&spec, text, size);
        if (pdl__unit_gradients(graph, i) > 1) snprintf(text + strlen(text), size - strlen(text), " and sum");
    }
    if (unit->kind == PDL__UNIT_SOURCE) pdl_load_key(&unit->shape, unit->format, graph->tokens, text, size);
    if (unit->kind == PDL__UNIT_CONVERT)
        pdl_convert_key(&unit->shape, graph->unit[unit->input[0]].format, unit->format, text, size);
}

static bool same_shape(const pdl_shape_t *a, const pdl_shape_t *b)
{
    bool same = a->channels == b->channels && a->rank == b->rank;

    for (int k = 0; k < a->rank && same; k++) same = a->extent[k] == b->extent[k];
    return same;
}

/* Whether two units of layers that are alike have the same key. */
static bool same_key(const pdl__graph_t *graph, int i, int k)
{
    const pdl__unit_t   *a = &graph->unit[i], *b = &graph->unit[k];
    const pdl_op_spec_t *x = &a->spec, *y = &b->spec;
    bool                 same = x->input_count == y->input_count && x->fusion.add == y->fusion.add &&
                x->fusion.activation == y->fusion.activation && x->training == y->training &&
                x->input_gradient == y->input_gradient && x->shared == y->shared && x->classes == y->classes &&
                x->context == y->context && same_shape(&x->layer->out, &y->layer->out);

    for (int j = 0; j < x->input_count && same; j++)
        same = a->given[j] == b->given[j] && same_shape(&a->reads[j], &b->reads[j]);
    return same && pdl__unit_gradients(graph, i) == pdl__unit_gradients(graph, k);
}

/* Most layers are like one before, whose key they have: writing it takes longer. */
#define ALIKE 128
static uint64_t key_of(const pdl__graph_t *graph, int i, int *latest)
{
    const pdl__unit_t *unit = &graph->unit[i];
    int               *like = unit->kind == PDL__UNIT_OP ? &latest[unit->spec.layer->class_id % ALIKE] : NULL;
    char               key[PDL_KEY_SIZE];

    if (like != NULL && *like > 0 && graph->unit[*like].spec.layer->class_id == unit->spec.layer->class_id &&
        same_key(graph, i, *like))
        return graph->node[*like].key;
    pdl__unit_key(graph, i, key, sizeof(key));
    if (like != NULL) *like = i;
    return key[0] != '\0' ? pdl_timed_hash(key) : 0;
}

pdl_status_t pdl__graph_nodes(pdl__graph_t *graph)
{
    static const pdl_node_kind_t kinds[] = {
        [PDL__UNIT_SOURCE] = PDL_NODE_SOURCE,     [PDL__UNIT_OP] = PDL_NODE_COMPUTE,
        [PDL__UNIT_CONVERT] = PDL_NODE_CONVERT,   [PDL__UNIT_VIEW] = PDL_NODE_VIEW,
        [PDL__UNIT_EDGE] = PDL_NODE_REDISTRIBUTE, [PDL__UNIT_RECEIVE] = PDL_NODE_RECEIVE,
        [PDL__UNIT_SEND] = PDL_NODE_SEND};

    int latest[ALIKE] = {0};

    graph->node = calloc((size_t)graph->unit_count, sizeof(*graph->node));
    if (!graph->node) return pdl_error(PDL_ERR_NOMEM, "out of memory while preparing a model of this size");
    count_readers(graph);
    for (int i = 0; i < graph->unit_count; i++) {
        pdl__unit_t        *unit = &graph->unit[i];
        pdl_program_node_t *node = &graph->node[i];
        int64_t             samples = pdl__region_samples(&unit->region);
        if (unit->kind == PDL__UNIT_OP) *node = node_of_op(unit);
        if (unit->kind == PDL__UNIT_EDGE) *node = node_of_edge(unit);
        node->key = key_of(graph, i, latest);
        node->samples = unit->kind == PDL__UNIT_OP ? unit->spec.samples : samples;
        node->kind = kinds[unit->kind];
        node->layer = unit->layer;
        node->tail = unit->tail;
        node->input_count = unit->input_count;
        node->backward = unit->gradient;
        node->chunk = unit->chunk;
        node->loss |= unit->kind == PDL__UNIT_SEND;
        if (unit->kind != PDL__UNIT_OP && unit->kind != PDL__UNIT_SEND)
            node->out_bytes =
                graph->backend->ops->tensor_bytes(graph->backend, &unit->shape, samples, unit->format);
        if (unit->kind == PDL__UNIT_SOURCE && graph->tokens)
            node->out_bytes = (size_t)(samples * pdl_shape_positions(&unit->shape)) * sizeof(int32_t);
        for (int j = 0; j < unit->input_count; j++) {
            node->input[j] = unit->input[j];
            if (graph->unit[unit->input[j]].gradient) node->input_gradients |= 1u << j;
        }
    }
    return PDL_OK;
}
