/*
 * A convolution as a graph of one operation, in bf16 or in fp32 whose factors may be rounded to 10 bits.
 */
#include "tensor/plugin/cuda/conv/cudnn_conv.h"

#include "tensor/plugin/cuda/conv/cudnn.h"

#include <stdio.h>

#define COMPILED 3 /* plans with a tail that are compared: each is compiled for a second or two */

enum { WIDE = 1, WEIGHT, NARROW, BIAS, PRODUCT, SUM }; /* the last two are in no memory */

/* cuDNN has two or three dimensions. */
static int space_of(const pdl__cuda_form_t *form)
{
    return form->space > 2 ? 3 : 2;
}

static cudnnDataType_t type_of(const pdl__cuda_form_t *form)
{
    return form->type == PDL_DTYPE_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

/* [n][space][c] of a tensor, as cuDNN counts: n, c, space. Inside a graph numbers are floats. */
static pdl__cudnn_descriptor_t make_tensor(pdl__cudnn_graph_t *graph, int space, int id, cudnnDataType_t type,
                                           int64_t n, int64_t channels, const int extent[PDL_MAX_SPACE])
{
    int64_t dims[2 + PDL_MAX_SPACE] = {n, channels}, strides[2 + PDL_MAX_SPACE] = {0, 1}, stride = channels;

    for (int d = space - 1; d >= 0; d--) {
        dims[2 + d] = extent[d];
        strides[2 + d] = stride;
        stride *= extent[d];
    }
    strides[0] = stride;
    return pdl__cudnn_tensor(graph, id, type, 2 + space, dims, strides, id >= PRODUCT);
}

/* This engine for weight gradients in fp32 reads behind the end of its tensors (wgrad_alg1_engine_NHWC of cuDNN 9.19 under
   compute-sanitizer). */
#define OVERREADS 1

static int64_t window_reach(const pdl__cuda_form_t *form, int d)
{
    return (int64_t)(form->kernel[d] - 1) * form->dilation[d] + 1;
}

/* What has to follow the input so that there are as many windows as the output has positions; negative: not possible. As much as
   before it where that gives no window more: cuDNN has more plans for that. */
static int64_t padding_behind(const pdl__cuda_form_t *form, int d)
{
    int64_t before = form->wide[d] + form->pad_low[d];
    int64_t behind = (int64_t)(form->narrow[d] - 1) * form->step[d] + window_reach(form, d) - before;

    if (behind <= form->pad_low[d] && form->pad_low[d] - behind < form->step[d]) return form->pad_low[d];
    if (behind >= 0) return behind;
    /* What is left over behind the last window may be less than a step. */
    return -behind < form->step[d] ? 0 : -1;
}

/* Whether cuDNN can be asked at all. Its heuristics fail by a bad address where a window is larger than the input with the padding
   before it on both sides (9.19: an input of 2 with 1 behind it under a window of 3, as ranks at the border of space have). */
static bool is_possible(const pdl__cuda_form_t *form)
{
    if (form->channels != form->wide_stride || form->filters != form->narrow_stride) return false;
    for (int d = 0; d < PDL_MAX_SPACE; d++)
        if (form->pad_low[d] < 0 || padding_behind(form, d) < 0 ||
            window_reach(form, d) > form->wide[d] + 2 * (int64_t)form->pad_low[d])
            return false;
    return true;
}

static pdl__cudnn_descriptor_t make_windows(pdl__cudnn_graph_t *graph, const pdl__cuda_form_t *form)
{
    pdl__cudnn_descriptor_t windows = pdl__cudnn_make(graph, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    cudnnDataType_t         type = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t  mode = CUDNN_CROSS_CORRELATION;
    int64_t                 space = space_of(form), dilation[PDL_MAX_SPACE], step[PDL_MAX_SPACE];
    int64_t                 before[PDL_MAX_SPACE], behind[PDL_MAX_SPACE];

    for (int d = 0; d < PDL_MAX_SPACE; d++) {
        dilation[d] = form->dilation[d];
        step[d] = form->step[d];
        before[d] = form->pad_low[d];
        behind[d] = padding_behind(form, d);
    }
    pdl__cudnn_set(graph, windows, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    pdl__cudnn_set(graph, windows, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    pdl__cudnn_set(graph, windows, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &space);
    pdl__cudnn_set(graph, windows, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, space, dilation);
    pdl__cudnn_set(graph, windows, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, space, step);
    pdl__cudnn_set(graph, windows, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, space, before);
    pdl__cudnn_set(graph, windows, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, space, behind);
    return pdl__cudnn_finish(graph, windows, "convolution");
}

/* The attributes of the operation that makes each tensor. */
static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t  windows, wide, weight, narrow, factor, keep;
} operations[PDL__CONV_PRODUCTS] = {
    [PDL__CONV_NARROW] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [PDL__CONV_WIDE] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [PDL__CONV_WEIGHT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

/* y = x + b, or y = relu(x) where b is NULL. */
static void add_pointwise(pdl__cudnn_graph_t *graph, pdl__cudnn_descriptor_t x, pdl__cudnn_descriptor_t b,
                          pdl__cudnn_descriptor_t y)
{
    pdl__cudnn_descriptor_t function = pdl__cudnn_make(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    pdl__cudnn_descriptor_t operation = pdl__cudnn_make(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    cudnnPointwiseMode_t    mode = b != NULL ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_RELU_FWD;
    cudnnDataType_t         type = CUDNN_DATA_FLOAT;

    pdl__cudnn_set(graph, function, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    pdl__cudnn_set(graph, function, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    pdl__cudnn_finish(graph, function, "element by element");
    pdl__cudnn_refer(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
    pdl__cudnn_refer(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b != NULL) pdl__cudnn_refer(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    pdl__cudnn_refer(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    pdl__cudnn_add(graph, pdl__cudnn_finish(graph, operation, "element by element"));
}

/* What follows the product, which is not rounded before. */
static void add_tail(pdl__cudnn_graph_t *graph, const pdl__cuda_form_t *form, pdl__cudnn_descriptor_t product,
                     pdl__cudnn_descriptor_t narrow)
{
    static const int        one[PDL_MAX_SPACE] = {1, 1, 1};
    int                     space = space_of(form);
    pdl__cudnn_descriptor_t sum = product, bias;

    if (form->bias) {
        bias = make_tensor(graph, space, BIAS, CUDNN_DATA_FLOAT, 1, form->filters, one);
        sum = !form->relu
                  ? narrow
                  : make_tensor(graph, space, SUM, CUDNN_DATA_FLOAT, form->samples, form->filters, form->narrow);
        add_pointwise(graph, product, bias, sum);
    }
    if (form->relu) add_pointwise(graph, sum, NULL, narrow);
}

static void make_graph(pdl__cudnn_graph_t *graph, const pdl__cuda_form_t *form, pdl__conv_product_t product,
                       bool tail)
{
    pdl__cudnn_descriptor_t operation = pdl__cudnn_make(graph, operations[product].type), narrow, result;
    int                     space = space_of(form);
    float                   one = 1, zero = 0;

    narrow = result = make_tensor(graph, space, NARROW, type_of(form), form->samples, form->filters, form->narrow);
    if (tail)
        result = make_tensor(graph, space, PRODUCT, CUDNN_DATA_FLOAT, form->samples, form->filters, form->narrow);
    pdl__cudnn_refer(graph, operation, operations[product].windows, make_windows(graph, form));
    pdl__cudnn_refer(graph, operation, operations[product].wide,
                     make_tensor(graph, space, WIDE, type_of(form), form->samples, form->channels, form->wide));
    pdl__cudnn_refer(graph, operation, operations[product].weight,
                     make_tensor(graph, space, WEIGHT, type_of(form), form->filters, form->channels / form->groups,
                                 form->kernel));
    pdl__cudnn_refer(graph, operation, operations[product].narrow, result);
    pdl__cudnn_set(graph, operation, operations[product].factor, CUDNN_TYPE_FLOAT, 1, &one);
    pdl__cudnn_set(graph, operation, operations[product].keep, CUDNN_TYPE_FLOAT, 1, &zero);
    pdl__cudnn_add(graph, pdl__cudnn_finish(graph, operation, "convolution"));
    if (tail) add_tail(graph, form, result, narrow);
}

static size_t tensor_bytes(const pdl__cuda_form_t *form, int64_t n, int64_t channels,
                           const int extent[PDL_MAX_SPACE])
{
    return (size_t)(n * channels * extent[0] * extent[1] * extent[2]) * (form->type == PDL_DTYPE_BF16 ? 2 : 4);
}

/* Everything that decides which plan is fastest. */
static void name_choice(const pdl__cudnn_t *library, const pdl__cuda_form_t *f, pdl__conv_product_t product,
                        const pdl__conv_wish_t *wish, bool tail, char *key, size_t size)
{
    static const char *const names[PDL__CONV_PRODUCTS] = {"forward", "data", "weight"};

    snprintf(
        key, size,
        "cuDNN %zu: convolution %s %s, %d x %d to %d, %d groups, %d.%d.%d to %d.%d.%d, window %d.%d.%d, stride "
        "%d.%d.%d, dilation %d.%d.%d, padding %d.%d.%d to %d.%d.%d, %zu bytes%s%s%s",
        library->GetVersion(), names[product], f->type == PDL_DTYPE_BF16 ? "bf16" : "tf32", f->samples, f->channels,
        f->filters, f->groups, f->wide[0], f->wide[1], f->wide[2], f->narrow[0], f->narrow[1], f->narrow[2],
        f->kernel[0], f->kernel[1], f->kernel[2], f->step[0], f->step[1], f->step[2], f->dilation[0],
        f->dilation[1], f->dilation[2], f->pad_low[0], f->pad_low[1], f->pad_low[2], (int)padding_behind(f, 0),
        (int)padding_behind(f, 1), (int)padding_behind(f, 2), wish->workspace, tail && f->bias ? ", bias" : "",
        tail && f->relu ? ", relu" : "", wish->any_order ? ", any order" : "");
}

/* `name`: of the plan that is to be taken; NULL: any. */
static pdl_status_t make_plan(pdl__cudnn_t *library, const pdl__cuda_form_t *form, pdl__conv_product_t product,
                              const pdl__conv_wish_t *wish, bool tail, const char *name, pdl__cudnn_plan_t **plan)
{
    pdl__cudnn_graph_t graph = {.library = library};
    char               key[512];
    pdl__cudnn_wish_t  all = {.key = key,
                              .name = name,
                              .most = tail ? COMPILED : 0,
                              .workspace = wish->workspace,
                              .repeatable = !wish->any_order,
                              .refused = form->type == PDL_DTYPE_F32 && product == PDL__CONV_WEIGHT ? OVERREADS : 0,
                              .tensors = tail && form->bias ? 4 : 3,
                              .id = {WIDE, WEIGHT, NARROW, BIAS},
                              .bytes = {tensor_bytes(form, form->samples, form->channels, form->wide),
                                        tensor_bytes(form, form->filters, form->channels / form->groups,
                                                     form->kernel),
                                        tensor_bytes(form, form->samples, form->filters, form->narrow),
                                        (size_t)form->filters * sizeof(float)},
                              .type = form->type};
    pdl_status_t       status;

    if (!is_possible(form)) return pdl_error(PDL_ERR_UNSUPPORTED, "cuDNN has no such convolution");
    name_choice(library, form, product, wish, tail, key, sizeof(key));
    make_graph(&graph, form, product, tail);
    status = pdl__cudnn_choose(&graph, &all, plan);
    pdl__cudnn_clear(&graph);
    return status;
}

pdl_status_t pdl__cudnn_conv_create(pdl__gpu_t *gpu, const pdl__cuda_form_t *form, pdl__conv_product_t product,
                                    const pdl__conv_wish_t *wish, bool tail, pdl__cudnn_plan_t **plan)
{
    pdl__cudnn_t *library;
    pdl_status_t  status = pdl__cudnn_open(gpu, &library);

    return status == PDL_OK ? make_plan(library, form, product, wish, tail, NULL, plan) : status;
}

/* One product: the first plan, and again from its name. */
static pdl_status_t propose(pdl__cudnn_t *library, const pdl__cuda_form_t *form, pdl__conv_product_t product,
                            const pdl__conv_wish_t *wish, char name[PDL__CONV_NAME])
{
    pdl__cudnn_plan_t *plan = NULL, *again = NULL;
    pdl_status_t       status = make_plan(library, form, product, wish, false, NULL, &plan);

    if (status == PDL_OK) {
        snprintf(name, PDL__CONV_NAME, "%s", pdl__cudnn_name(plan));
        status = make_plan(library, form, product, wish, false, name, &again);
    }
    pdl__cudnn_destroy(plan);
    pdl__cudnn_destroy(again);
    return status;
}

pdl_status_t pdl__cudnn_conv_propose(const char *device, const pdl__cuda_form_t *form, const pdl__conv_wish_t *wish,
                                     char name[PDL__CONV_PRODUCTS][PDL__CONV_NAME])
{
    pdl__cudnn_t *library;
    pdl_status_t  status = pdl__cudnn_open_described(device, &library);

    if (status != PDL_OK) return status;
    for (int i = 0; i < PDL__CONV_PRODUCTS && status == PDL_OK; i++)
        status = propose(library, form, (pdl__conv_product_t)i, wish, name[i]);
    pdl__cudnn_close(library);
    return status;
}

pdl_status_t pdl__cudnn_conv_run(pdl__cudnn_plan_t *plan, pdl_tensor_stream_t *stream, void *wide, void *weight,
                                 void *narrow, const float *bias, void *workspace)
{
    static const int64_t id[4] = {WIDE, WEIGHT, NARROW, BIAS};
    void                *address[4] = {wide, weight, narrow, (void *)bias};

    return pdl__cudnn_run(plan, stream, bias != NULL ? 4 : 3, id, address, workspace);
}
