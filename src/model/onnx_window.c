/*
 * Operators that slide a window over space, and those that resize it.
 */
#include "onnx_graph.h"

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

/* SAME: the output has ceil(extent / stride) positions. */
static void same_padding(const pdl_shape_t *shape, bool low_first, pdl_layer_t *layer)
{
    for (int i = 0; i < shape->rank; i++) {
        int64_t out = (shape->extent[i] + layer->stride[i] - 1) / layer->stride[i];
        int64_t all =
            (out - 1) * layer->stride[i] + (layer->kernel[i] - 1) * layer->dilation[i] + 1 - shape->extent[i];

        if (all < 0) all = 0;
        layer->pad_low[i] = low_first ? all - all / 2 : all / 2;
        layer->pad_high[i] = all - layer->pad_low[i];
    }
}

/* Kernel (already set), stride, dilation and padding, with the padding of a Pad node in front. */
static pdl_status_t read_window(pdl__onnx_t *o, const pdl__onnx_value_t *x, const pdl_shape_t *shape,
                                pdl_layer_t *layer)
{
    int64_t      pads[2 * PDL_MAX_SPACE];
    int          count, rank = shape->rank;
    pdl_status_t st = read_extents(o, "strides", rank, 1, layer->stride);

    if (!st) st = read_extents(o, "dilations", rank, 1, layer->dilation);
    if (!st) st = pdl__onnx_ints(o, "pads", -1, pads, 2 * PDL_MAX_SPACE, &count);
    if (st) return st;
    if (count >= 0 && count != 2 * rank)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "attribute pads has %d elements for %d extents", count, rank);
    for (int i = 0; i < rank; i++) {
        if (layer->stride[i] < 1 || layer->dilation[i] < 1)
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "strides and dilations must be positive");
        layer->pad_low[i] = count > 0 ? pads[i] : 0;
        layer->pad_high[i] = count > 0 ? pads[rank + i] : 0;
        if (layer->pad_low[i] < 0 || layer->pad_low[i] > INT32_MAX || layer->pad_high[i] < 0 ||
            layer->pad_high[i] > INT32_MAX)
            return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "negative or huge padding");
    }
    if (pdl__onnx_string_is(o, "auto_pad", "SAME_UPPER") || pdl__onnx_string_is(o, "auto_pad", "SAME_LOWER"))
        same_padding(shape, pdl__onnx_string_is(o, "auto_pad", "SAME_LOWER"), layer);
    for (int i = 0; x->padded && i < rank; i++) {
        layer->pad_low[i] += x->pad_low[i];
        layer->pad_high[i] += x->pad_high[i];
    }
    return PDL_OK;
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

pdl_status_t pdl__onnx_conv(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *w = pdl__onnx_input(o, 1);
    bool               transposed = strcmp(o->node->op_type, "ConvTranspose") == 0;
    pdl_layer_t        layer = pdl__layer_default(transposed ? PDL_LAYER_CONV_TRANSPOSE : PDL_LAYER_CONV);
    const pdl_shape_t *shape;
    int64_t            extra[PDL_MAX_SPACE], of_input;
    int                added;
    pdl_status_t       st = image_under_window(o, x, &shape);

    if (st) return st;
    if (w->kind != PDL__ONNX_CONSTANT)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "the kernel is computed; only weights are supported");
    if (w->view.rank != shape->rank + 2)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "a kernel of %d dimensions for an operand of %d", w->view.rank,
                              shape->rank + 2);
    for (int i = 0; i < shape->rank; i++) layer.kernel[i] = w->view.dims[i + 2];
    layer.groups = pdl__onnx_int(o, "group", 1);
    if (layer.groups < 1 || layer.groups > INT32_MAX) return pdl__onnx_fail(o, PDL_ERR_INPUT, "no groups");
    layer.bias = pdl__onnx_input(o, 2) != NULL;
    layer.out.channels = transposed ? w->view.dims[1] * layer.groups : w->view.dims[0];
    of_input = transposed ? w->view.dims[0] : w->view.dims[1] * layer.groups;
    if (of_input != shape->channels)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "the kernel is for %lld channels, the operand has %lld",
                              (long long)of_input, (long long)shape->channels);
    st = read_window(o, x, shape, &layer);
    if (!st) st = read_extents(o, "output_padding", shape->rank, 0, extra);
    if (st) return st;
    if (transposed && (x->padded || pdl__onnx_attribute(o, "output_shape") != NULL))
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "padding in front and output_shape are not supported");
    for (int i = 0; transposed && i < shape->rank; i++) layer.pad_high[i] -= extra[i];
    st = pdl__onnx_add(o, &layer, o->node, w->label, &x->layer, 1, &added);
    return st ? st : pdl__onnx_output_image(o, added, pdl__onnx_view_batch(&x->view));
}

/* Rounding up is padding enough for one more window, unless that window would lie in the padding alone. */
static void round_up(const pdl_shape_t *shape, pdl_layer_t *layer)
{
    for (int i = 0; i < shape->rank; i++) {
        int64_t covered = (layer->kernel[i] - 1) * layer->dilation[i] + 1;
        int64_t padded = shape->extent[i] + layer->pad_low[i] + layer->pad_high[i];
        int64_t rest = padded >= covered ? (padded - covered) % layer->stride[i] : 0;
        int64_t start = padded - rest + layer->stride[i] - covered;

        if (rest > 0 && start < shape->extent[i] + layer->pad_low[i]) layer->pad_high[i] += layer->stride[i] - rest;
    }
}

pdl_status_t pdl__onnx_pool(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0);
    bool               max = strcmp(o->node->op_type, "MaxPool") == 0;
    pdl_layer_t        layer = pdl__layer_default(max ? PDL_LAYER_MAX_POOL : PDL_LAYER_AVG_POOL);
    const pdl_shape_t *shape;
    int                added;
    pdl_status_t       st = image_under_window(o, x, &shape);

    if (!st) st = read_extents(o, "kernel_shape", shape->rank, 0, layer.kernel);
    if (!st) st = read_window(o, x, shape, &layer);
    if (st) return st;
    for (int i = 0; !max && i < shape->rank; i++)
        if (layer.dilation[i] != 1) return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "dilated average pooling");
    if (pdl__onnx_int(o, "ceil_mode", 0) != 0) round_up(shape, &layer);
    layer.count_padding = !max && (pdl__onnx_int(o, "count_include_pad", 0) != 0 || x->padded);
    st = pdl__onnx_add(o, &layer, o->node, NULL, &x->layer, 1, &added);
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

pdl_status_t pdl__onnx_pad(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *y;
    int64_t            pads[2 * PDL__ONNX_MAX_RANK];
    int                count, rank = x->view.rank;
    bool               any = false;
    pdl_status_t       st = pdl__onnx_ints(o, "pads", 1, pads, 2 * PDL__ONNX_MAX_RANK, &count);

    if (st) return st;
    if (count != 2 * rank) return pdl__onnx_fail(o, PDL_ERR_INPUT, "%d paddings for %d dimensions", count, rank);
    for (int i = 0; i < count; i++) any = any || pads[i] != 0;
    if (!any) return pdl__onnx_pass(o);
    if (pdl__onnx_attribute(o, "mode") != NULL && !pdl__onnx_string_is(o, "mode", "constant"))
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "only padding with a constant is supported");
    st = pdl__onnx_materialise(o, x);
    if (st) return st;
    y = pdl__onnx_copy(o, x);
    if (y == NULL) return PDL_ERR_NOMEM;
    for (int i = 0; i < rank; i++) {
        int64_t low = pads[i], high = pads[rank + i];

        if (low < 0 || high < 0 || low > INT32_MAX || high > INT32_MAX || (i < 2 && (low != 0 || high != 0)) ||
            (i >= 2 + PDL_MAX_SPACE && (low != 0 || high != 0)))
            return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "only space can be padded, and not be cropped");
        if (i < 2 || i >= 2 + PDL_MAX_SPACE) continue;
        y->pad_low[i - 2] = low;
        y->pad_high[i - 2] = high;
        y->view.dims[i] += low + high;
    }
    y->padded = true;
    return pdl__onnx_output(o, 0, y);
}

/* Sizes after resizing: operand 3 gives them, or operand 2 (1 for Upsample, or an attribute) the factors. */
static pdl_status_t resized(pdl__onnx_t *o, const pdl__onnx_view_t *view, int64_t *sizes)
{
    const Onnx__AttributeProto *a = pdl__onnx_attribute(o, "scales");
    bool                        upsample = strcmp(o->node->op_type, "Upsample") == 0;
    pdl__onnx_value_t          *scales = pdl__onnx_input(o, upsample || o->opset < 11 ? 1 : 2);
    const double               *numbers = NULL;
    int                         count = -1;
    pdl_status_t st = upsample ? PDL_OK : pdl__onnx_ints(o, NULL, 3, sizes, PDL__ONNX_MAX_RANK, &count);

    if (st) return st;
    if (count < 0 && scales != NULL && scales->kind == PDL__ONNX_CONSTANT) numbers = pdl__onnx_numbers(o, scales);
    for (int i = 0; i < view->rank && count < 0; i++) {
        double scale;

        if (numbers != NULL && pdl__onnx_elements(&scales->view) == view->rank)
            scale = numbers[i];
        else if (a != NULL && a->n_floats == (size_t)view->rank)
            scale = (double)a->floats[i];
        else
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "the new size is not known; export with fixed input sizes");
        sizes[i] = pdl__onnx_to_int((double)view->dims[i] * scale);
    }
    if (count >= 0 && count != view->rank)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "%d sizes for %d dimensions", count, view->rank);
    return PDL_OK;
}

pdl_status_t pdl__onnx_resize(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0);
    pdl_layer_t        layer = pdl__layer_default(PDL_LAYER_UPSAMPLE);
    int64_t            sizes[PDL__ONNX_MAX_RANK] = {0};
    bool               factors = true;
    const pdl_shape_t *shape;
    int                added;
    pdl_status_t       st = image_under_window(o, x, &shape);

    if (!st) st = resized(o, &x->view, sizes);
    if (st) return st;
    if (x->padded || sizes[0] != x->view.dims[0] || sizes[1] != x->view.dims[1])
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "only space can be resized");
    if (pdl__onnx_string_is(o, "mode", "cubic"))
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "cubic interpolation; use nearest or linear");
    layer.bilinear = pdl__onnx_string_is(o, "mode", "linear");
    for (int i = 0; i < shape->rank; i++) {
        if (sizes[i + 2] < 1) return pdl__onnx_fail(o, PDL_ERR_INPUT, "nothing is left");
        factors = factors && sizes[i + 2] % shape->extent[i] == 0;
    }
    for (int i = 0; i < shape->rank; i++) {
        if (factors)
            layer.stride[i] = sizes[i + 2] / shape->extent[i];
        else
            layer.out.extent[i] = sizes[i + 2];
    }
    st = pdl__onnx_add(o, &layer, o->node, NULL, &x->layer, 1, &added);
    return st ? st : pdl__onnx_output_image(o, added, pdl__onnx_view_batch(&x->view));
}
