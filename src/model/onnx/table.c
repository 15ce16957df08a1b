/*
 * Tensors by name, and the operands and results of the node being read.
 */
#include "model/onnx/graph.h"

#include <string.h>

static size_t hash_name(const char *name)
{
    uint64_t hash = 1469598103934665603u; /* FNV-1a */

    for (; *name != '\0'; name++) hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    return (size_t)hash;
}

/* The slot of `name`, or the empty one where it belongs: at most half of them are taken. */
static size_t slot_of(const pdl__onnx_t *o, const char *name)
{
    size_t i = hash_name(name) & (o->slot_count - 1);

    while (o->slots[i].name != NULL && strcmp(o->slots[i].name, name) != 0) i = (i + 1) & (o->slot_count - 1);
    return i;
}

static void count_use(pdl__onnx_t *o, const char *name)
{
    size_t i;

    if (name == NULL || name[0] == '\0') return;
    i = slot_of(o, name);
    o->slots[i].name = name;
    o->slots[i].uses++;
}

pdl_status_t pdl__onnx_table_create(pdl__onnx_t *o)
{
    const Onnx__GraphProto *graph = o->graph;
    size_t                  names = graph->n_initializer + graph->n_input + graph->n_output;

    for (size_t i = 0; i < graph->n_node; i++) names += graph->node[i]->n_input + graph->node[i]->n_output;
    for (o->slot_count = 16; o->slot_count < 2 * names; o->slot_count *= 2) continue;
    o->slots = pdl_arena_alloc(o->arena, o->slot_count, sizeof *o->slots);
    if (o->slots == NULL) return PDL_ERR_NOMEM;

    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t k = 0; k < graph->node[i]->n_input; k++) count_use(o, graph->node[i]->input[k]);
    for (size_t i = 0; i < graph->n_output; i++) count_use(o, graph->output[i]->name);
    return PDL_OK;
}

pdl__onnx_value_t *pdl__onnx_find(const pdl__onnx_t *o, const char *name)
{
    return o->slots[slot_of(o, name)].value;
}

pdl_status_t pdl__onnx_define(pdl__onnx_t *o, const char *name, pdl__onnx_value_t *value)
{
    size_t i = slot_of(o, name);

    if (o->slots[i].value != NULL)
        return pdl_error(PDL_ERR_INPUT, "%s: tensor %s is defined twice; the file is not a valid ONNX graph",
                         o->file, name);
    o->slots[i].name = name;
    o->slots[i].value = value;
    value->uses += o->slots[i].uses; /* a value may have several names */
    return PDL_OK;
}

int pdl__onnx_uses(const pdl__onnx_t *o, const char *name)
{
    return o->slots[slot_of(o, name)].uses;
}

pdl__onnx_value_t *pdl__onnx_input(const pdl__onnx_t *o, size_t i)
{
    if (i == 1 && o->second != NULL) return o->second;
    if (i >= o->node->n_input || o->node->input[i][0] == '\0') return NULL;
    return pdl__onnx_find(o, o->node->input[i]);
}

pdl_status_t pdl__onnx_output(pdl__onnx_t *o, size_t i, pdl__onnx_value_t *value)
{
    if (value == NULL) return PDL_ERR_NOMEM;
    if (i >= o->node->n_output || o->node->output[i][0] == '\0') return PDL_OK;
    if (value->node == NULL) value->node = o->node; /* a rearranged copy keeps the node that computed it */
    return pdl__onnx_define(o, o->node->output[i], value);
}

pdl__onnx_value_t *pdl__onnx_new(pdl__onnx_t *o, pdl__onnx_kind_t kind)
{
    pdl__onnx_value_t *value = pdl_arena_alloc(o->arena, 1, sizeof *value);

    if (value == NULL) return NULL;
    value->kind = kind;
    value->layer = -1;
    memcpy(value->probe, pdl__onnx_probe, sizeof value->probe);
    return value;
}

pdl__onnx_value_t *pdl__onnx_copy(pdl__onnx_t *o, const pdl__onnx_value_t *from)
{
    pdl__onnx_value_t *value = pdl_arena_alloc(o->arena, 1, sizeof *value);

    if (value == NULL) return NULL;
    *value = *from;
    value->uses = 0;
    return value;
}
