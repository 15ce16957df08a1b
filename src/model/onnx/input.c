/*
 * What a graph starts from. Weights are initializers; files without weights may declare them as inputs instead.
 * The first input that has no initializer is the network's. The others must be
 *
 *   parameters       floating point, of fixed shape, and read only where weights stand (the kernel of a
 *                    convolution, the table of a Gather ...) or named as weights are;
 *   a mask           its name contains "mask": samples are taken to fill their sequence;
 *   token types or positions   ("token_type", "segment", "position"): of the first kind, counted from zero.
 */
#include "model/onnx/input.h"

#include <stdio.h>
#include <string.h>

#define EXTENT_LIMIT ((int64_t)1 << 31)

typedef struct input_shape {
    int     rank;
    int64_t dims[PDL__ONNX_MAX_RANK]; /* -1: left open */
    bool    real;
} input_shape_t;

static pdl_status_t input_error(const pdl__onnx_t *o, const Onnx__ValueInfoProto *info, const char *what)
{
    return pdl_error(PDL_ERR_INPUT, "%s: input %s %s", o->file, info->name, what);
}

static pdl_status_t read_shape(const pdl__onnx_t *o, const Onnx__ValueInfoProto *info, input_shape_t *shape)
{
    const Onnx__TypeProto__Tensor *tensor;

    if (info->type == NULL || info->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
        return input_error(o, info, "is not a tensor");
    tensor = info->type->tensor_type;
    if (tensor->shape == NULL) return input_error(o, info, "has no shape; export with a fixed input size");
    if (tensor->shape->n_dim > PDL__ONNX_MAX_RANK) return input_error(o, info, "has more than 8 dimensions");
    shape->rank = (int)tensor->shape->n_dim;
    shape->real = tensor->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ||
                  tensor->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE ||
                  tensor->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
                  tensor->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16;
    for (int i = 0; i < shape->rank; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = tensor->shape->dim[i];
        bool known = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;

        shape->dims[i] = known ? dim->dim_value : -1;
        if (known && (dim->dim_value < 1 || dim->dim_value > EXTENT_LIMIT))
            return input_error(o, info, "has an impossible dimension; export with a fixed input size");
    }
    return PDL_OK;
}

/* Who reads the network's input decides how its dimensions are meant. */
static const Onnx__NodeProto *first_reader(const pdl__onnx_t *o, const char *name)
{
    for (size_t i = 0; i < o->graph->n_node; i++)
        for (size_t k = 0; k < o->graph->node[i]->n_input; k++)
            if (strcmp(o->graph->node[i]->input[k], name) == 0) return o->graph->node[i];
    return NULL;
}

static bool reads_channels_last(const Onnx__NodeProto *reader, int rank)
{
    const Onnx__AttributeProto *perm = NULL;

    if (reader == NULL || reader->op_type == NULL || strcmp(reader->op_type, "Transpose") != 0 || rank < 4)
        return false;
    for (size_t i = 0; i < reader->n_attribute; i++)
        if (reader->attribute[i]->name != NULL && strcmp(reader->attribute[i]->name, "perm") == 0)
            perm = reader->attribute[i];
    return perm != NULL && perm->n_ints == (size_t)rank && perm->ints[0] == 0 && perm->ints[1] == rank - 1;
}

static int64_t token_values(const pdl__onnx_t *o, const char *name)
{
    const Onnx__NodeProto   *reader = first_reader(o, name);
    const pdl__onnx_value_t *table;

    if (reader == NULL || reader->op_type == NULL || strcmp(reader->op_type, "Gather") != 0 || reader->n_input < 2)
        return 0;
    table = pdl__onnx_find(o, reader->input[0]);
    return table != NULL && table->view.rank == 2 ? table->view.dims[0] : 0;
}

static bool reads_image(const Onnx__NodeProto *reader)
{
    return reader != NULL && reader->op_type != NULL &&
           (strcmp(reader->op_type, "Conv") == 0 || strcmp(reader->op_type, "BatchNormalization") == 0 ||
            strcmp(reader->op_type, "Pad") == 0);
}

/* Fills the layer's shape and the view; dims are complete. [tokens] [tokens, channels] or [channels, extents...] */
static void shape_input(const pdl__onnx_t *o, const Onnx__ValueInfoProto *info, const input_shape_t *shape,
                        int batch_dim, pdl_layer_t *layer, pdl__onnx_view_t *view)
{
    const Onnx__NodeProto *reader = first_reader(o, info->name);
    bool                   last = reads_channels_last(reader, shape->rank);
    int64_t                batch = shape->dims[batch_dim];

    if (!shape->real) {
        layer->out = (pdl_shape_t){.channels = 1, .extent = {shape->dims[1], 1, 1}, .rank = 1, .sequence = true};
        layer->vocabulary = token_values(o, info->name);
        pdl__onnx_view_of(&layer->out, batch, true, view);
        pdl__onnx_view_drop(view, 2);
        return;
    }
    if (shape->rank == 3 && !reads_image(reader)) {
        layer->out = (pdl_shape_t){.channels = shape->dims[2],
                                   .extent = {shape->dims[1 - batch_dim], 1, 1},
                                   .rank = 1,
                                   .sequence = true};
        pdl__onnx_view_of(&layer->out, batch, true, view);
        if (batch_dim == 1) pdl__onnx_view_transpose(view, (const int[]){1, 0, 2});
        return;
    }
    layer->out = (pdl_shape_t){.channels = shape->dims[last ? shape->rank - 1 : 1],
                               .extent = {1, 1, 1},
                               .rank = shape->rank - 2};
    for (int i = 0; i < layer->out.rank; i++) layer->out.extent[i] = shape->dims[i + (last ? 1 : 2)];
    pdl__onnx_view_of(&layer->out, batch, last, view);
}

static pdl_status_t add_network_input(pdl__onnx_t *o, const Onnx__ValueInfoProto *info, input_shape_t *shape)
{
    pdl_layer_t        layer = pdl__layer_default(PDL_LAYER_INPUT);
    pdl__onnx_value_t *value = pdl__onnx_new(o, PDL__ONNX_ACTIVATION);
    int                batch_dim = 0;
    char               where[256];
    pdl_status_t       st;

    if (value == NULL) return PDL_ERR_NOMEM;
    if (shape->rank < 2 || shape->rank > 2 + PDL_MAX_SPACE || (!shape->real && shape->rank != 2))
        return input_error(o, info, "must be [batch, tokens] of integers, or floating point of 2 to 5 dimensions");
    /* A sequence may be [tokens, batch, channels]: the batch is what is open, or 1. */
    if (shape->rank == 3 && shape->real && !reads_image(first_reader(o, info->name)) && shape->dims[0] > 1 &&
        (shape->dims[1] < 0 || shape->dims[1] == 1))
        batch_dim = 1;
    if (shape->dims[batch_dim] < 0) shape->dims[batch_dim] = 1;
    for (int i = 0; i < shape->rank; i++)
        if (shape->dims[i] < 0)
            return pdl_error(PDL_ERR_INPUT,
                             "%s: input %s: dimension %d is dynamic, only the batch may be; export with "
                             "a fixed input size",
                             o->file, info->name, i);
    shape_input(o, info, shape, batch_dim, &layer, &value->view);
    o->integer_input = !shape->real;
    layer.name = "input";
    snprintf(where, sizeof where, "%.120s: input %.80s", o->file, info->name);
    st = pdl__builder_add(o->builder, &layer, where, &value->layer);
    return st ? st : pdl__onnx_define(o, info->name, value);
}

static bool stands_as_weight(const Onnx__NodeProto *node, size_t operand, int rank)
{
    const char *op = node->op_type != NULL ? node->op_type : "";

    if (strcmp(op, "Gather") == 0) return operand == 0;
    if (strcmp(op, "Add") == 0 || strcmp(op, "Mul") == 0) return rank <= 1;
    return operand > 0 && (strcmp(op, "Conv") == 0 || strcmp(op, "ConvTranspose") == 0 || strcmp(op, "Gemm") == 0 ||
                           strcmp(op, "MatMul") == 0 || strstr(op, "Normalization") != NULL);
}

static bool is_parameter(const pdl__onnx_t *o, const char *name, const input_shape_t *shape)
{
    static const char *const parts[] = {"weight", "bias", "embed", "pos", "token", "gamma", "beta"};
    bool                     used = false;

    if (!shape->real) return false;
    for (int i = 0; i < shape->rank; i++)
        if (shape->dims[i] < 0) return false;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(name, parts[i]) != NULL) return true;
    for (size_t i = 0; i < o->graph->n_node; i++) {
        const Onnx__NodeProto *node = o->graph->node[i];

        for (size_t k = 0; k < node->n_input; k++) {
            if (strcmp(node->input[k], name) != 0) continue;
            if (!stands_as_weight(node, k, shape->rank)) return false;
            used = true;
        }
    }
    return used;
}

/* An input beside the network's own becomes a constant. */
static pdl_status_t add_other_input(pdl__onnx_t *o, const Onnx__ValueInfoProto *info, const input_shape_t *shape)
{
    bool               positions = strstr(info->name, "position") != NULL;
    bool               types = strstr(info->name, "token_type") != NULL || strstr(info->name, "segment") != NULL;
    bool               parameter = is_parameter(o, info->name, shape);
    pdl__onnx_value_t *value = pdl__onnx_new(o, PDL__ONNX_CONSTANT);
    pdl_status_t       st = PDL_OK;

    if (value == NULL) return PDL_ERR_NOMEM;
    if (!parameter && !positions && !types && strstr(info->name, "mask") == NULL)
        return input_error(o, info,
                           "is a second input, and neither a parameter, a mask nor token types; a model has one");
    value->real = shape->real;
    value->view.rank = shape->rank;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < 0 && i > 0)
            return input_error(o, info,
                               "has a dynamic dimension, only the batch may be; export with a fixed input size");
        value->view.dims[i] = shape->dims[i] < 0 ? 1 : shape->dims[i];
    }
    if (parameter)
        value->origin = value->label = info->name;
    else if (positions || types)
        st = pdl__onnx_make_room(o, value);
    for (int64_t i = 0; positions && value->data != NULL && i < pdl__onnx_elements(&value->view); i++)
        value->data[i] = (double)(shape->rank > 0 ? i % value->view.dims[shape->rank - 1] : 0);
    return st ? st : pdl__onnx_define(o, info->name, value);
}

static pdl_status_t add_initializers(pdl__onnx_t *o)
{
    for (size_t i = 0; i < o->graph->n_initializer; i++) {
        const Onnx__TensorProto *tensor = o->graph->initializer[i];
        pdl__onnx_value_t       *value;
        pdl_status_t             st;

        if (tensor->name == NULL || tensor->name[0] == '\0')
            return pdl_error(PDL_ERR_INPUT, "%s: initializer %zu has no name", o->file, i);
        st = pdl__onnx_from_tensor(o, tensor, &value);
        if (st) return st;
        value->origin = value->label = tensor->name;
        st = pdl__onnx_define(o, tensor->name, value);
        if (st) return st;
    }
    return PDL_OK;
}

pdl_status_t pdl__onnx_add_inputs(pdl__onnx_t *o)
{
    const Onnx__ValueInfoProto *network = NULL;
    input_shape_t               network_shape = {0};
    pdl_status_t                st = add_initializers(o);

    if (st) return st;
    if (o->graph->n_sparse_initializer > 0)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: sparse weights are not supported; export dense ones", o->file);
    for (size_t i = 0; i < o->graph->n_input; i++) {
        const Onnx__ValueInfoProto *info = o->graph->input[i];
        input_shape_t               shape = {0};

        if (info->name == NULL || info->name[0] == '\0')
            return pdl_error(PDL_ERR_INPUT, "%s: input %zu has no name", o->file, i);
        if (pdl__onnx_find(o, info->name) != NULL) continue; /* has an initializer */
        st = read_shape(o, info, &shape);
        if (st) return st;
        if (network == NULL) {
            network = info;
            network_shape = shape;
        } else {
            st = add_other_input(o, info, &shape);
            if (st) return st;
        }
    }
    if (network == NULL) return pdl_error(PDL_ERR_INPUT, "%s: the graph has no input", o->file);
    return add_network_input(o, network, &network_shape);
}
