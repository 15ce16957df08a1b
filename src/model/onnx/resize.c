/*
 * Resize and Upsample. ONNX has many ways to say which input position an output position is; a layer knows two
 * functions, the nearest and the linear one below. Which of the ways amounts to these is found by evaluating them.
 */
#include "model/onnx/graph.h"

#include <math.h>
#include <string.h>

/* Further positions tell nothing new: a ratio of extents that differs does so early. */
#define POSITION_LIMIT 65536

typedef struct resize {
    const char *mode, *coordinates, *nearest;
    double      scale[PDL__ONNX_MAX_RANK]; /* of every dimension of the operand */
    int64_t     size[PDL__ONNX_MAX_RANK];
} resize_t;

static pdl_status_t refuse(const pdl__onnx_t *o, const char *attribute, const char *value)
{
    return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "%s %.60s is not supported", attribute, value);
}

static bool is_one_of(const char *text, const char *const *names)
{
    for (; *names != NULL; names++)
        if (strcmp(text, *names) == 0) return true;
    return false;
}

/* Before operator set 11 there was one way: x / scale, rounded down. */
static pdl_status_t read_modes(pdl__onnx_t *o, resize_t *r)
{
    static const char *const modes[] = {"nearest", "linear", "bilinear", NULL};
    static const char *const coordinates[] = {"half_pixel",
                                              "half_pixel_symmetric",
                                              "pytorch_half_pixel",
                                              "align_corners",
                                              "asymmetric",
                                              "tf_half_pixel_for_nn",
                                              NULL};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
    bool                     old = o->opset < 11 || strcmp(o->node->op_type, "Upsample") == 0;
    const char              *policy = pdl__onnx_string(o, "keep_aspect_ratio_policy", "stretch");

    r->mode = pdl__onnx_string(o, "mode", "nearest");
    r->coordinates = pdl__onnx_string(o, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
    r->nearest = pdl__onnx_string(o, "nearest_mode", old ? "floor" : "round_prefer_floor");
    if (policy == NULL || r->mode == NULL || r->coordinates == NULL || r->nearest == NULL) return PDL_ERR_NOMEM;
    if (strcmp(policy, "stretch") != 0) return refuse(o, "keep_aspect_ratio_policy", policy);
    if (!is_one_of(r->mode, modes)) return refuse(o, "mode", r->mode);
    if (!is_one_of(r->coordinates, coordinates)) return refuse(o, "coordinate_transformation_mode", r->coordinates);
    if (!is_one_of(r->nearest, roundings)) return refuse(o, "nearest_mode", r->nearest);
    return PDL_OK;
}

/* Operator set 1 has two attributes, 7 a list, newer ones an operand. */
static pdl_status_t read_scales(pdl__onnx_t *o, double *scales, int *count)
{
    const Onnx__AttributeProto *a = pdl__onnx_attribute(o, "scales");
    bool                        second = strcmp(o->node->op_type, "Upsample") == 0 || o->opset < 11;
    pdl__onnx_value_t          *operand = pdl__onnx_input(o, second ? 1 : 2);
    const double               *numbers = NULL;

    *count = 0;
    if (pdl__onnx_attribute(o, "height_scale") != NULL || pdl__onnx_attribute(o, "width_scale") != NULL) {
        *count = 4;
        scales[0] = scales[1] = 1;
        scales[2] = pdl__onnx_float(o, "height_scale", 1);
        scales[3] = pdl__onnx_float(o, "width_scale", 1);
        return PDL_OK;
    }
    if (operand != NULL && operand->kind == PDL__ONNX_CONSTANT) numbers = pdl__onnx_numbers(o, operand);
    if (numbers != NULL && pdl__onnx_elements(&operand->view) <= PDL__ONNX_MAX_RANK)
        *count = (int)pdl__onnx_elements(&operand->view);
    else if (numbers == NULL && a != NULL && a->n_floats <= PDL__ONNX_MAX_RANK)
        *count = (int)a->n_floats;
    for (int i = 0; i < *count; i++) scales[i] = numbers != NULL ? numbers[i] : (double)a->floats[i];
    if (*count == 0)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "the new size is not known; export with fixed input sizes");
    return PDL_OK;
}

/* Sizes after resizing, and the factors that go with them; `axes` may leave dimensions out. */
static pdl_status_t read_sizes(pdl__onnx_t *o, const pdl__onnx_view_t *view, resize_t *r)
{
    int64_t      sizes[PDL__ONNX_MAX_RANK], axes[PDL__ONNX_MAX_RANK];
    double       scales[PDL__ONNX_MAX_RANK];
    int          count = -1, axis_count, axis;
    bool         sized;
    pdl_status_t st = pdl__onnx_ints(o, "axes", -1, axes, PDL__ONNX_MAX_RANK, &axis_count);

    if (!st && strcmp(o->node->op_type, "Upsample") != 0)
        st = pdl__onnx_ints(o, NULL, 3, sizes, PDL__ONNX_MAX_RANK, &count);
    if (st) return st;
    sized = count > 0;
    if (!sized) st = read_scales(o, scales, &count);
    if (st) return st;
    if (count != (axis_count >= 0 ? axis_count : view->rank))
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "%d %s for %d dimensions", count, sized ? "sizes" : "scales",
                              axis_count >= 0 ? axis_count : view->rank);
    for (int i = 0; i < view->rank; i++) {
        r->size[i] = view->dims[i];
        r->scale[i] = 1;
    }
    for (int i = 0; i < count; i++) {
        st = pdl__onnx_normal_axis(o, axis_count >= 0 ? axes[i] : i, view->rank, &axis);
        if (st) return st;
        /* 1.3333334 times 6 is 8: factors are single precision. */
        r->size[axis] =
            sized ? sizes[i] : pdl__onnx_to_int(floor((double)view->dims[axis] * scales[i] * (1 + 1e-7)));
        r->scale[axis] = sized ? (double)sizes[i] / (double)view->dims[axis] : scales[i];
        if (r->size[axis] < 1 || !(r->scale[axis] > 0)) return pdl__onnx_fail(o, PDL_ERR_INPUT, "nothing is left");
    }
    return PDL_OK;
}

/* The input position that the file gives position i of `out`. */
static double source_of(const resize_t *r, int64_t i, int64_t in, int64_t out, double scale)
{
    double x = (double)i;

    if (strcmp(r->coordinates, "asymmetric") == 0) return x / scale;
    if (strcmp(r->coordinates, "tf_half_pixel_for_nn") == 0) return (x + 0.5) / scale;
    if (strcmp(r->coordinates, "align_corners") == 0) return out > 1 ? x * (double)(in - 1) / (double)(out - 1) : 0;
    if (strcmp(r->coordinates, "pytorch_half_pixel") == 0 && out == 1) return 0;
    if (strcmp(r->coordinates, "half_pixel_symmetric") == 0)
        return (double)in / 2 * (1 - (double)out / (scale * (double)in)) + (x + 0.5) / scale - 0.5;
    return (x + 0.5) / scale - 0.5;
}

static double nearest_of(const resize_t *r, double x)
{
    double halves = nearbyint(2 * x);

    if (fabs(2 * x - halves) < 1e-4) x = halves / 2; /* what single precision makes of it */
    if (strcmp(r->nearest, "floor") == 0) return floor(x);
    if (strcmp(r->nearest, "ceil") == 0) return ceil(x);
    return strcmp(r->nearest, "round_prefer_ceil") == 0 ? floor(x + 0.5) : ceil(x - 0.5);
}

/* Whether the layer reads the same positions along one dimension as the file asks for. */
static bool same_function(const resize_t *r, bool linear, int64_t in, int64_t out, double scale)
{
    double last = (double)(in - 1);

    for (int64_t i = 0; i < out && i < POSITION_LIMIT; i++) {
        double x = source_of(r, i, in, out, scale);
        double own = linear ? ((double)i + 0.5) * (double)in / (double)out - 0.5 : (double)(i * in / out);

        if (!linear) x = nearest_of(r, x);
        if (fabs(fmax(0, fmin(x, last)) - fmax(0, fmin(own, last))) > 1e-3) return false;
    }
    return true;
}

static pdl_status_t check_function(pdl__onnx_t *o, const resize_t *r, const pdl_shape_t *shape, bool linear)
{
    for (int i = 0; i < shape->rank; i++) {
        int64_t in = shape->extent[i], out = r->size[i + 2];

        if (linear && out < in && pdl__onnx_int(o, "antialias", 0) != 0) return refuse(o, "antialias", "1");
        if (out == in && fabs(r->scale[i + 2] - 1) < 1e-6 && strcmp(r->coordinates, "tf_half_pixel_for_nn") != 0)
            continue;
        if (!same_function(r, linear, in, out, r->scale[i + 2]))
            return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                                  "mode %s with coordinate_transformation_mode %s%s%s from %lld to %lld positions; "
                                  "the layer has nearest as asymmetric and floor, linear as half_pixel "
                                  "(align_corners=False)",
                                  r->mode, r->coordinates, linear ? "" : " and nearest_mode ",
                                  linear ? "" : r->nearest, (long long)in, (long long)out);
    }
    return PDL_OK;
}

pdl_status_t pdl__onnx_resize(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0);
    pdl_layer_t        layer = pdl__layer_default(PDL_LAYER_UPSAMPLE);
    resize_t           r;
    bool               factors = true;
    const pdl_shape_t *shape;
    int                added;
    pdl_status_t       st = pdl__onnx_as_image(o, x);

    if (!st) st = read_modes(o, &r);
    if (!st) st = read_sizes(o, &x->view, &r);
    if (st) return st;
    shape = pdl__onnx_shape(o, x);
    if (x->view.rank != shape->rank + 2 || r.size[0] != x->view.dims[0] || r.size[1] != x->view.dims[1])
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "only space can be resized");
    layer.bilinear = strcmp(r.mode, "nearest") != 0;
    st = check_function(o, &r, shape, layer.bilinear);
    if (st) return st;
    for (int i = 0; i < shape->rank; i++) factors = factors && r.size[i + 2] % shape->extent[i] == 0;
    for (int i = 0; i < shape->rank; i++) {
        if (factors)
            layer.stride[i] = r.size[i + 2] / shape->extent[i];
        else
            layer.out.extent[i] = r.size[i + 2];
    }
    st = pdl__onnx_add(o, &layer, o->node, NULL, &x->layer, 1, &added);
    return st ? st : pdl__onnx_output_image(o, added, pdl__onnx_view_batch(&x->view));
}
