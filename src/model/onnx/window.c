/*
 * Operators that slide a window over space.
 */
#include "model/onnx/graph.h"

#include <string.h>

static pdl_status_t read_extents(pdl__onnx_t *o, const char *name, int rank, int64_t otherwise, int64_t *values)
{
    int          count;
    pdl_status_t st = pdl__onnx_ints(o, name, -1, values, PDL_MAX_SPACE, &count);

    if (st) return st;
    if (count >= 0 && count != rank)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "attribute %s has %d elements for %d extents", name, count, rank);
    for (int i = count < 0 ? 0 : rank; i < PDL_MAX_SPACE; i++) values[i] = otherwise;
    for (int i = 0; i < rank; i++)
        if (values[i] < 0 || values[i] > INT32_MAX)
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "attribute %s has an element of %lld", name,
                                  (long long)values[i]);
    return PDL_OK;
}

/* SAME: the output has ceil(extent / stride) positions; the extent contains the padding of a Pad node. */
static void same_padding(const pdl__onnx_value_t *x, const pdl_shape_t *shape, bool low_first, pdl_layer_t *layer)
{
    for (int i = 0; i < shape->rank; i++) {
        int64_t extent = shape->extent[i] + (x->padded ? x->pad_low[i] + x->pad_high[i] : 0);
        int64_t out = (extent + layer->stride[i] - 1) / layer->stride[i];
        int64_t all = (out - 1) * layer->stride[i] + (layer->kernel[i] - 1) * layer->dilation[i] + 1 - extent;

        if (all < 0) all = 0;
        layer->pad_low[i] = low_first ? all - all / 2 : all / 2;
        layer->pad_high[i] = all - layer->pad_low[i];
    }
}

typedef enum auto_pad { PAD_NOTSET, PAD_VALID, PAD_SAME_UPPER, PAD_SAME_LOWER, PAD_COUNT } auto_pad_t;

static pdl_status_t read_auto_pad(pdl__onnx_t *o, auto_pad_t *pad)
{
    static const char *const names[PAD_COUNT] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"};
    const char              *text = pdl__onnx_string(o, "auto_pad", "NOTSET");

    if (text == NULL) return PDL_ERR_NOMEM;
    for (int i = 0; i < PAD_COUNT; i++) {
        *pad = (auto_pad_t)i;
        if (strcmp(text, names[i]) == 0) return PDL_OK;
    }
    return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "auto_pad %.40s is not supported", text);
}

/* Padding that the node names; with auto_pad it does not count. */
static pdl_status_t read_pads(pdl__onnx_t *o, int rank, pdl_layer_t *layer)
{
    int64_t      pads[2 * PDL_MAX_SPACE];
    int          count;
    pdl_status_t st = pdl__onnx_ints(o, "pads", -1, pads, 2 * PDL_MAX_SPACE, &count);

    if (st) return st;
    if (count >= 0 && count != 2 * rank)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "attribute pads has %d elements for %d extents", count, rank);
    for (int i = 0; i < rank; i++) {
        layer->pad_low[i] = count > 0 ? pads[i] : 0;
        layer->pad_high[i] = count > 0 ? pads[rank + i] : 0;
        if (layer->pad_low[i] < 0 || layer->pad_low[i] > INT32_MAX || layer->pad_high[i] < 0 ||
            layer->pad_high[i] > INT32_MAX)
            return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "negative or huge padding");
    }
    return PDL_OK;
}

/* Kernel (already set), stride, dilation and padding. */
static pdl_status_t read_window(pdl__onnx_t *o, const pdl_shape_t *shape, pdl_layer_t *layer, auto_pad_t *pad)
{
    int          rank = shape->rank;
    pdl_status_t st = read_extents(o, "strides", rank, 1, layer->stride);

    if (!st) st = read_extents(o, "dilations", rank, 1, layer->dilation);
    if (!st) st = read_auto_pad(o, pad);
    if (!st && *pad == PAD_NOTSET) st = read_pads(o, rank, layer);
    for (int i = 0; !st && i < rank; i++)
        if (layer->stride[i] < 1 || layer->dilation[i] < 1)
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "strides and dilations must be positive");
    return st;
}

/* The same for a window that slides over its operand, with the padding of a Pad node in front. */
static pdl_status_t read_sliding(pdl__onnx_t *o, const pdl__onnx_value_t *x, const pdl_shape_t *shape,
                                 pdl_layer_t *layer)
{
    auto_pad_t   pad;
    pdl_status_t st = read_window(o, shape, layer, &pad);

    if (st) return st;
    if (pad == PAD_SAME_UPPER || pad == PAD_SAME_LOWER) same_padding(x, shape, pad == PAD_SAME_LOWER, layer);
    for (int i = 0; x->padded && i < shape->rank; i++) {
        layer->pad_low[i] += x->pad_low[i];
        layer->pad_high[i] += x->pad_high[i];
    }
    return PDL_OK;
}

/* Where the output's size is given (output_shape, or SAME: extent times stride), padding is what is left over. An odd
   element goes to the beginning, but with SAME_UPPER, and without auto_pad before operator set 11, to the end. */
static pdl_status_t pad_to_size(pdl__onnx_t *o, const pdl_shape_t *shape, auto_pad_t pad, const int64_t *extra,
                                pdl_layer_t *layer)
{
    bool         end = pad == PAD_SAME_UPPER || (pad == PAD_NOTSET && o->opset < 11);
    int64_t      sizes[PDL_MAX_SPACE];
    pdl_status_t st = read_extents(o, "output_shape", shape->rank, 0, sizes);

    for (int i = 0; !st && i < shape->rank; i++) {
        int64_t size = sizes[i] > 0 ? sizes[i] : shape->extent[i] * layer->stride[i];
        int64_t all = layer->stride[i] * (shape->extent[i] - 1) + extra[i] +
                      (layer->kernel[i] - 1) * layer->dilation[i] + 1 - size;

        if (all < 0)
            return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "an output of %lld positions needs negative padding",
                                  (long long)size);
        layer->pad_low[i] = end ? all / 2 : all - all / 2;
        layer->pad_high[i] = all - layer->pad_low[i];
    }
    return st;
}

static pdl_status_t read_transposed(pdl__onnx_t *o, const pdl__onnx_value_t *x, const pdl_shape_t *shape,
                                    pdl_layer_t *layer)
{
    int64_t      extra[PDL_MAX_SPACE];
    auto_pad_t   pad;
    pdl_status_t st = read_window(o, shape, layer, &pad);

    if (!st) st = read_extents(o, "output_padding", shape->rank, 0, extra);
    if (st) return st;
    if (x->padded) return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "padding in front of a transposed convolution");
    if (pad >= PAD_SAME_UPPER || pdl__onnx_attribute(o, "output_shape") != NULL)
        st = pad_to_size(o, shape, pad, extra, layer);
    for (int i = 0; i < shape->rank; i++) layer->pad_high[i] -= extra[i];
    return st;
}

/* The operand as an image; padding that waits on it stays on `x` for read_window. */
static pdl_status_t image_under_window(pdl__onnx_t *o, pdl__onnx_value_t *x, const pdl_shape_t **shape)
{
    bool         padded = x->padded;
    int64_t      dims[PDL__ONNX_MAX_RANK];
    pdl_status_t st;

    memcpy(dims, x->view.dims, sizeof dims);
    for (int i = 0; padded && i + 2 < x->view.rank; i++) x->view.dims[i + 2] -= x->pad_low[i] + x->pad_high[i];
    x->padded = false;
    st = pdl__onnx_as_image(o, x);
    memcpy(x->view.dims, dims, sizeof dims);
    x->padded = padded;
    if (st) return st;
    *shape = pdl__onnx_shape(o, x);
    if (x->view.rank != (*shape)->rank + 2)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "a window needs an operand with space");
    return PDL_OK;
}

/* The layers pad with zeros, a maximum with what is smaller than everything; zeros are that behind a ReLU. */
static pdl_status_t check_fill(const pdl__onnx_t *o, const pdl__onnx_value_t *x, const pdl_layer_t *layer)
{
    bool zero = x->pad_value == 0, lowest = x->pad_value < -1e30;

    if (!x->padded) return PDL_OK;
    if (layer->type != PDL_LAYER_MAX_POOL && !zero)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "the padding in front is filled with %g; only 0 is supported",
                              x->pad_value);
    if (layer->type == PDL_LAYER_MAX_POOL && !lowest &&
        !(zero && pdl_layer_traits(pdl__builder_layer(o->builder, x->layer))->not_negative))
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                              "the padding in front is filled with %g, which may be the maximum; pad with the "
                              "pooling itself",
                              x->pad_value);
    return PDL_OK;
}

/* The kernel's shape says it all; an attribute that repeats it must agree. */
static pdl_status_t read_kernel(pdl__onnx_t *o, const pdl__onnx_value_t *w, const pdl_shape_t *shape,
                                pdl_layer_t *layer)
{
    int64_t      named[PDL_MAX_SPACE];
    pdl_status_t st;

    if (w->kind != PDL__ONNX_CONSTANT)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "the kernel is computed; only weights are supported");
    if (w->view.rank != shape->rank + 2)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "a kernel of %d dimensions for an operand of %d", w->view.rank,
                              shape->rank + 2);
    st = read_extents(o, "kernel_shape", shape->rank, 0, named);
    for (int i = 0; !st && i < shape->rank; i++) {
        layer->kernel[i] = w->view.dims[i + 2];
        if (named[i] != 0 && named[i] != layer->kernel[i])
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "kernel_shape says %lld, the kernel has %lld",
                                  (long long)named[i], (long long)layer->kernel[i]);
    }
    return st;
}

static pdl_status_t read_channels(pdl__onnx_t *o, const pdl__onnx_value_t *w, const pdl_shape_t *shape,
                                  pdl_layer_t *layer)
{
    bool                     transposed = pdl_layer_traits(layer)->transposed;
    const pdl__onnx_value_t *bias = pdl__onnx_input(o, 2);
    int64_t                  of_input;

    layer->groups = pdl__onnx_int(o, "group", 1);
    if (layer->groups < 1 || layer->groups > INT32_MAX) return pdl__onnx_fail(o, PDL_ERR_INPUT, "no groups");
    layer->bias = bias != NULL;
    layer->out.channels = transposed ? w->view.dims[1] * layer->groups : w->view.dims[0];
    of_input = transposed ? w->view.dims[0] : w->view.dims[1] * layer->groups;
    if (of_input != shape->channels)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "the kernel is for %lld channels, the operand has %lld",
                              (long long)of_input, (long long)shape->channels);
    if (bias != NULL && bias->kind != PDL__ONNX_CONSTANT)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "the bias is computed; only weights are supported");
    if (bias != NULL && pdl__onnx_elements(&bias->view) != layer->out.channels)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "a bias of %lld elements for %lld channels",
                              (long long)pdl__onnx_elements(&bias->view), (long long)layer->out.channels);
    return PDL_OK;
}

pdl_status_t pdl__onnx_conv(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *w = pdl__onnx_input(o, 1);
    bool               transposed = strcmp(o->node->op_type, "ConvTranspose") == 0;
    pdl_layer_t        layer = pdl__layer_default(transposed ? PDL_LAYER_CONV_TRANSPOSE : PDL_LAYER_CONV);
    const pdl_shape_t *shape;
    int                added;
    pdl_status_t       st = image_under_window(o, x, &shape);

    if (!st) st = read_kernel(o, w, shape, &layer);
    if (!st) st = read_channels(o, w, shape, &layer);
    if (!st) st = transposed ? read_transposed(o, x, shape, &layer) : read_sliding(o, x, shape, &layer);
    if (!st) st = check_fill(o, x, &layer);
    if (!st) st = pdl__onnx_add(o, &layer, o->node, w->label, &x->layer, 1, &added);
    if (!st) st = pdl__onnx_bind(o, added, &(pdl__onnx_parts_t){.part = {w, pdl__onnx_input(o, 2)}});
    if (st) return st;
    pdl__onnx_note_conv(o, &layer, w, pdl__onnx_input(o, 2));
    return pdl__onnx_output_image(o, added, pdl__onnx_view_batch(&x->view));
}

/* Rounding up is padding enough for one more window, unless that window would be in the padding alone. */
static bool round_up(const pdl_shape_t *shape, pdl_layer_t *layer)
{
    bool more = false;

    for (int i = 0; i < shape->rank; i++) {
        int64_t covered = (layer->kernel[i] - 1) * layer->dilation[i] + 1;
        int64_t padded = shape->extent[i] + layer->pad_low[i] + layer->pad_high[i];
        int64_t rest = padded >= covered ? (padded - covered) % layer->stride[i] : 0;
        int64_t start = padded - rest + layer->stride[i] - covered;

        if (rest == 0 || start >= shape->extent[i] + layer->pad_low[i]) continue;
        layer->pad_high[i] += layer->stride[i] - rest;
        more = true;
    }
    return more;
}

/* Which positions an average counts. A layer counts all of its window, or only what is inside: the zeros of a Pad
   node are inside, and what rounding up adds is outside even where padding counts. */
static pdl_status_t read_divisor(pdl__onnx_t *o, const pdl__onnx_value_t *x, int rank, bool rounded,
                                 pdl_layer_t *layer)
{
    bool counts = pdl__onnx_int(o, "count_include_pad", 0) != 0, own = false;

    for (int i = 0; i < rank; i++)
        own = own || layer->pad_low[i] > (x->padded ? x->pad_low[i] : 0) ||
              layer->pad_high[i] > (x->padded ? x->pad_high[i] : 0);
    layer->count_padding = counts || x->padded;
    if (rounded && layer->count_padding)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                              "ceil_mode with padding that counts; use count_include_pad = 0, or ceil_mode = 0");
    if (x->padded && own && !counts)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "padding that counts and padding that does not");
    return PDL_OK;
}

pdl_status_t pdl__onnx_pool(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0);
    bool               max = strcmp(o->node->op_type, "MaxPool") == 0, rounded = false;
    pdl_layer_t        layer = pdl__layer_default(max ? PDL_LAYER_MAX_POOL : PDL_LAYER_AVG_POOL);
    const pdl_shape_t *shape;
    int                added;
    pdl_status_t       st = image_under_window(o, x, &shape);

    if (!st) st = read_extents(o, "kernel_shape", shape->rank, 0, layer.kernel);
    if (!st) st = read_sliding(o, x, shape, &layer);
    if (!st) st = check_fill(o, x, &layer);
    if (st) return st;
    for (int i = 0; !max && i < shape->rank; i++)
        if (layer.dilation[i] != 1) return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "dilated average pooling");
    if (pdl__onnx_int(o, "ceil_mode", 0) != 0) rounded = round_up(shape, &layer);
    if (!max) st = read_divisor(o, x, shape->rank, rounded, &layer);
    if (!st) st = pdl__onnx_add(o, &layer, o->node, NULL, &x->layer, 1, &added);
    return st ? st : pdl__onnx_output_image(o, added, pdl__onnx_view_batch(&x->view));
}

pdl_status_t pdl__onnx_global_pool(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0);
    pdl_layer_t        layer = pdl__layer_default(PDL_LAYER_GLOBAL_AVG_POOL);
    int                added;
    pdl_status_t       st = pdl__onnx_as_image(o, x);

    if (!st) st = pdl__onnx_add(o, &layer, o->node, NULL, &x->layer, 1, &added);
    return st ? st : pdl__onnx_output_image(o, added, pdl__onnx_view_batch(&x->view));
}
