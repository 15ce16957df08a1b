/*
 * Units that hold tensors: as they are written, in another format, redistributed for a reader, or of another stage.
 */
#include "base/memory.h"
#include "program/lower/lowering.h"
#include <stdlib.h>

pdl__unit_t *pdl__add_unit(pdl__graph_t *graph, pdl__unit_kind_t kind, int layer)
{
    if (graph->unit_count == graph->capacity) {
        int          capacity = graph->capacity ? 2 * graph->capacity : 128;
        pdl__unit_t *grown = realloc(graph->unit, (size_t)capacity * sizeof(*grown));
        if (!grown) return NULL;
        graph->unit = grown;
        graph->capacity = capacity;
    }
    pdl__unit_t *unit = &graph->unit[graph->unit_count++];
    *unit = (pdl__unit_t){.kind = kind, .layer = layer, .tail = layer, .tied_to = -1, .chunk = graph->chunk};
    for (int k = 0; k < PDL_MAX_WEIGHTS; k++) unit->weight[k] = -1;
    return unit;
}

pdl_shape_t pdl__local_shape(const pdl_shape_t *whole, const pdl_region_t *region)
{
    pdl_shape_t shape = *whole;

    shape.channels = pdl_region_extent(region, PDL_DIM_CHANNEL);
    for (int k = 0; k < shape.rank; k++) shape.extent[k] = pdl_region_extent(region, PDL_DIM_SPACE + k);
    return shape;
}

pdl_status_t pdl__converted(pdl__graph_t *graph, int from, pdl_format_t format, int *result)
{
    if (graph->unit[from].format == format) {
        *result = from;
        return PDL_OK;
    }
    for (int i = from + 1; i < graph->unit_count; i++)
        if (graph->unit[i].kind == PDL__UNIT_CONVERT && graph->unit[i].input[0] == from &&
            graph->unit[i].format == format) {
            *result = i;
            return PDL_OK;
        }
    pdl__unit_t *unit = pdl__add_unit(graph, PDL__UNIT_CONVERT, graph->unit[from].tail);
    if (!unit) return pdl__no_memory("while preparing a model of this size");
    unit->shape = graph->unit[from].shape;
    unit->region = graph->unit[from].region;
    unit->format = format;
    unit->input[0] = from;
    unit->input_count = 1;
    unit->gradient = graph->unit[from].gradient;
    *result = graph->unit_count - 1;
    return PDL_OK;
}

/* The two directions between this rank and the one of stage `peer`, for the output of a layer. */
static void connect(const pdl__lowering_t *l, int layer, int peer, bool gradient, pdl__unit_t *unit)
{
    const pdl__pipe_t *stages = l->spec->layouts->stages;
    pdl_backend_t     *backend = l->graph->backend;
    bool               receives = unit->kind == PDL__UNIT_RECEIVE;
    int                messages = pdl__pipe_messages(stages, stages->at, peer);
    size_t             bytes =
        backend->ops->tensor_bytes(backend, &unit->shape, pdl__region_samples(&unit->region), PDL_FORMAT_PLAIN);

    unit->there = (pdl__stage_link_t){peer, layer, bytes, receives ? 1 : messages};
    if (gradient && l->spec->training)
        unit->back = (pdl__stage_link_t){peer, layer, bytes, receives ? messages : 1};
}

pdl_status_t pdl__receive(pdl__lowering_t *l, int producer)
{
    const pdl__layouts_t *layouts = l->spec->layouts;
    const pdl_shape_t    *whole = &pdl_model_layer(l->model, producer)->out;
    pdl__unit_t          *unit = pdl__add_unit(l->graph, PDL__UNIT_RECEIVE, producer);
    bool                  gradient;

    if (!unit) return pdl__no_memory("while preparing a model of this size");
    l->unit_of[producer] = l->graph->unit_count - 1;
    pdl__pipe_reads(layouts->stages, producer, layouts->stages->at, &gradient);
    pdl_status_t status = pdl__layouts_region(layouts, &layouts->layer[producer].out, whole, -1, 0, &unit->region);
    unit->shape = pdl__local_shape(whole, &unit->region);
    unit->format = PDL_FORMAT_PLAIN;
    unit->gradient = gradient;
    if (!status) connect(l, producer, pdl__pipe_stage_of(layouts->stages, producer), gradient, unit);
    return status;
}

pdl_status_t pdl__send(pdl__lowering_t *l, int layer)
{
    const pdl__pipe_t *stages = l->spec->layouts->stages;
    pdl_status_t       status = PDL_OK;

    for (int k = 0; k < stages->count && !status; k++) {
        bool gradient;
        int  from = l->unit_of[layer];
        if (k == stages->at || !pdl__pipe_reads(stages, layer, k, &gradient)) continue;
        status = pdl__converted(l->graph, from, PDL_FORMAT_PLAIN, &from);
        pdl__unit_t *unit = status ? NULL : pdl__add_unit(l->graph, PDL__UNIT_SEND, layer);
        if (!unit) return status ? status : pdl__no_memory("while preparing a model of this size");
        unit->shape = l->graph->unit[from].shape;
        unit->region = l->graph->unit[from].region;
        unit->format = PDL_FORMAT_PLAIN;
        unit->input[0] = from;
        unit->input_count = 1;
        unit->gradient = gradient;
        connect(l, layer, k, gradient, unit);
    }
    return status;
}

pdl_format_t pdl__format_of(const pdl__lowering_t *l, int producer)
{
    int unit = l->unit_of[producer];

    return unit < 0 ? PDL_FORMAT_PLAIN : l->graph->unit[unit].format;
}

/* Channels of a block where a tensor can be in flight in the format that it has, which must be so on all ranks of the
   stage; else 1. Halos are whole rows of blocks too, so that nothing has to be converted around their exchange. */
static int64_t block_in_flight(const pdl__lowering_t *l, int producer, int reader)
{
    if (!pdl__edge_keeps_channels(l->spec->layouts, producer, reader)) return 1;
    if (pdl_model_layer(l->model, producer)->out.sequence) return 1; /* blocks are of images */
    for (int c = 0; c < l->all->count; c++)
        if (pdl__format_of(&l->all->of[c], producer) == PDL_FORMAT_PLAIN) return 1;
    return pdl_backend_block(l->graph->backend, pdl_model_layer(l->model, producer)->out.channels);
}

pdl_status_t pdl__arrive(pdl__lowering_t *l, int producer, int reader, int without, int *result)
{
    pdl__graph_t         *graph = l->graph;
    const pdl__layouts_t *layouts = l->spec->layouts;
    int64_t               block = block_in_flight(l, producer, reader);
    pdl_status_t          status = l->unit_of[producer] < 0 ? pdl__receive(l, producer) : PDL_OK;
    int                   from = l->unit_of[producer];
    pdl__edge_t          *edge;

    *result = from;
    if (layouts->trivial || status) return status;
    bool gradient = l->spec->training && graph->unit[from].gradient;
    /* Tokens are indices of 32 bits, and only moved. */
    bool tokens = graph->tokens && from == graph->source;
    if (!status)
        status = pdl__edge_create(layouts, producer, reader, without,
                                  tokens ? PDL_DTYPE_F32 : graph->backend->activation_type, gradient, block, &edge);
    if (status) return status;
    if (edge->count[PDL_FORWARD] == 0) {
        pdl__edge_destroy(edge);
        return PDL_OK;
    }
    if (block == 1) status = pdl__converted(graph, from, PDL_FORMAT_PLAIN, &from);
    pdl__unit_t *unit = status ? NULL : pdl__add_unit(graph, PDL__UNIT_EDGE, producer);
    if (!unit) {
        pdl__edge_destroy(edge);
        return status ? status : pdl__no_memory("while preparing a model of this size");
    }
    unit->edge = edge;
    unit->reader = reader;
    unit->region = edge->arrives;
    unit->shape = pdl__local_shape(&pdl_model_layer(l->model, producer)->out, &edge->arrives);
    unit->format = block > 1 ? PDL_FORMAT_BLOCKED : PDL_FORMAT_PLAIN;
    unit->input[0] = from;
    unit->input_count = 1;
    unit->gradient = gradient;
    *result = graph->unit_count - 1;
    return PDL_OK;
}
