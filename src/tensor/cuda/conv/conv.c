/*
 * Convolutions and their transposes, with bias and ReLU.
 *
 * Weights are packed [filters][window][channels of a group], in the type of activations, filled up with zeros to a multiple of 8
 * as tensors are; their gradient is made like that too, and goes from there to the plain one. A first layer over images of a few
 * channels with stride 2 reads the image folded: 2 x 2 positions side by side as 16 channels, windows of half the size with stride
 * 1. That is the same sum, and in bf16 2.6 times as fast as a window over 8 channels, of which 5 are zero. In fp32 nothing is folded.
 * fp32 that keeps all bits of its factors is not asked of the library, whose engines without tensor cores are slow for channels that are innermost.
 */
#include "tensor/cuda/cuda.h"

#include <stdlib.h>

#define FOLDED_CHANNELS (4 * PDL__FOLDED) /* of 2 x 2 positions */

enum { KERNEL_WINDOWS, KERNEL_FOLDED };

typedef struct conv {
    pdl__cuda_form_t    form;
    pdl__conv_packing_t packing;
    bool                transposed, relu, bias;
    int64_t             out_rows;
    size_t              packed_bias; /* where it begins behind the packed weights: floats, filled up */
    size_t              masked, gradient, columns, library; /* where things begin in the workspace */
    size_t              library_bytes;
    pdl__cuda_conv_t   *products;
} conv_t;

static int padded(int64_t channels)
{
    return (int)((channels + 7) / 8 * 8);
}

/* Channels and filters as products see them. Groups have to fit what is filled up: as many groups more, or not at all, which only
   our own loops can do. */
static void set_channels(const pdl_layer_t *layer, conv_t *conv)
{
    const pdl_shape_t *wide = conv->transposed ? &layer->out : &layer->in;
    const pdl_shape_t *narrow = conv->transposed ? &layer->in : &layer->out;
    pdl__cuda_form_t  *form = &conv->form;
    int in_group = (int)(wide->channels / layer->groups), out_group = (int)(narrow->channels / layer->groups);

    form->wide_stride = padded(wide->channels);
    form->narrow_stride = padded(narrow->channels);
    form->groups = (int)layer->groups;
    form->channels = (int)wide->channels;
    form->filters = (int)narrow->channels;
    conv->packing = (pdl__conv_packing_t){.filters = form->filters, .channels = in_group};
    if (form->groups == 1) {
        form->channels = form->wide_stride;
        form->filters = form->narrow_stride;
    } else if (form->wide_stride % in_group == 0 && form->narrow_stride % out_group == 0 &&
               form->wide_stride / in_group == form->narrow_stride / out_group) {
        form->channels = form->wide_stride;
        form->filters = form->narrow_stride;
        form->groups = form->wide_stride / in_group;
    }
    conv->packing.packed_filters = form->filters;
    conv->packing.packed_channels = form->channels / form->groups;
}

static void set_windows(const pdl_op_t *op, conv_t *conv)
{
    const pdl_layer_t *layer = op->spec.layer;
    const pdl_shape_t *wide = conv->transposed ? &layer->out : &layer->in;
    const pdl_shape_t *narrow = conv->transposed ? &layer->in : &layer->out;
    pdl__cuda_form_t  *form = &conv->form;

    form->samples = (int)op->spec.samples;
    form->space = layer->in.rank;
    for (int d = 0; d < PDL_MAX_SPACE; d++) {
        bool used = d < layer->in.rank;

        form->wide[d] = (int)wide->extent[d];
        form->narrow[d] = (int)narrow->extent[d];
        form->kernel[d] = used ? (int)layer->kernel[d] : 1;
        form->step[d] = used ? (int)layer->stride[d] : 1;
        form->dilation[d] = used ? (int)layer->dilation[d] : 1;
        form->pad_low[d] = used ? (int)layer->pad_low[d] : 0;
        conv->packing.window[d] = conv->packing.packed_window[d] = form->kernel[d];
    }
}

static bool folds(const pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;

    if (pdl_layer_traits(layer)->transposed || layer->in.rank != 2 || layer->groups != 1) return false;
    if (op->backend->activation_type != PDL_DTYPE_BF16) return false;
    if (layer->in.channels > PDL__FOLDED || op->spec.input_gradient) return false;
    for (int d = 0; d < 2; d++) /* rows of other ranks come in another format */
        if (layer->out.extent[d] != op->spec.origin.whole.extent[d]) return false;
    for (int d = 0; d < 2; d++)
        if (layer->stride[d] != 2 || layer->dilation[d] != 1 || layer->in.extent[d] % 2 != 0) return false;
    return true;
}

/* The half below, also of negative numbers. */
static int half(int value)
{
    return (value - (value < 0)) / 2;
}

/* Element t of the window at o is at 2 o - pad + t: in the pair of positions o + half(t - pad). */
static void fold(conv_t *conv)
{
    pdl__cuda_form_t    *form = &conv->form;
    pdl__conv_packing_t *packing = &conv->packing;

    for (int d = 0; d < 2; d++) {
        packing->pad[d] = form->pad_low[d];
        packing->first[d] = half(-form->pad_low[d]);
        packing->packed_window[d] = half(form->kernel[d] - 1 - form->pad_low[d]) - packing->first[d] + 1;
        form->wide[d] /= 2;
        form->kernel[d] = packing->packed_window[d];
        form->step[d] = 1;
        form->pad_low[d] = -packing->first[d];
    }
    packing->folded = true;
    packing->packed_channels = form->channels = form->wide_stride = FOLDED_CHANNELS;
}

static int64_t volume(const int extent[PDL_MAX_SPACE])
{
    return (int64_t)extent[0] * extent[1] * extent[2];
}

static int64_t packed_elements(const conv_t *conv)
{
    return volume(conv->packing.packed_window) * conv->packing.packed_filters * conv->packing.packed_channels;
}

/* Sums over parts of the positions, as many as keep a GPU busy: tiles of 64 x 64 weights and 1,024 of them at once are meant, no part of less
   than 64 positions. */
static size_t own_bytes(const conv_t *conv)
{
    size_t  floats = (size_t)packed_elements(conv) * sizeof(float);
    int64_t tiles = (packed_elements(conv) + 4095) / 4096, parts = (1023 + tiles) / tiles;
    int64_t most = (conv->form.samples * volume(conv->form.narrow) + 63) / 64;

    if (parts > most) parts = most;
    if (parts > PDL__CONV_PARTS) parts = PDL__CONV_PARTS;
    return (size_t)parts * floats;
}

/* What the library may use: as much as the tensors have, between 4 and 256 MiB; in fp32 up to 1 GiB and a little more than they have, because some
   of its plans copy them to another format. Our own loops want one float for every weight. */
static size_t library_bytes(const conv_t *conv, size_t element)
{
    const pdl__cuda_form_t *form = &conv->form;
    size_t                  mebi = (size_t)1 << 20, least = 4 * mebi, most = (element == 2 ? 256 : 1024) * mebi;
    size_t                  floats = (size_t)packed_elements(conv) * sizeof(float);
    size_t                  bytes = (size_t)form->samples * element *
                   (size_t)(volume(form->wide) * form->wide_stride + volume(form->narrow) * form->narrow_stride);

    if (element > 2) bytes += mebi;
    bytes = bytes < least ? least : bytes > most ? most : bytes;
    return bytes < floats ? floats : bytes;
}

/* Gradient behind the ReLU | packed weight gradient | sums of columns | the library's. */
static void plan_memory(pdl_op_t *op, conv_t *conv)
{
    pdl_op_description_t *d = &op->description;
    size_t                element = pdl_dtype_bytes(op->backend->activation_type);
    bool                  training = op->spec.training;
    int64_t               out_stride = pdl__cuda_stride(&op->spec.layer->out);

    conv->packed_bias = pdl__cuda_aligned((size_t)packed_elements(conv) * element);
    d->packed_bytes = conv->packed_bias + (conv->bias ? (size_t)out_stride * sizeof(float) : 0);
    conv->masked = 0;
    conv->gradient =
        pdl__cuda_aligned(training && conv->relu ? (size_t)(conv->out_rows * out_stride) * element : 0);
    conv->columns = conv->gradient + (training ? conv->packed_bias : 0);
    conv->library = conv->columns;
    if (training && conv->bias)
        conv->library +=
            pdl__cuda_aligned(pdl__cuda_columns_workspace(conv->out_rows, op->spec.layer->out.channels));
    conv->library_bytes = !conv->form.own ? library_bytes(conv, element) : training ? own_bytes(conv) : 0;
    d->workspace_bytes = conv->library + conv->library_bytes;
}

static void describe_op(pdl_op_t *op, const conv_t *conv)
{
    const pdl_layer_t    *layer = op->spec.layer;
    pdl_op_description_t *d = &op->description;
    int64_t dims[5] = {conv->packing.filters, conv->packing.channels, layer->kernel[0], layer->kernel[1],
                       layer->kernel[2]};

    pdl__cuda_set_formats(op);
    if (conv->packing.folded) d->in_format[0] = PDL_FORMAT_FOLDED;
    pdl__cuda_add_weight(op, "weight", 2 + layer->in.rank, dims, true);
    if (layer->bias) pdl__cuda_add_weight(op, "bias", 1, &layer->out.channels, true);
    d->kernel = conv->packing.folded ? KERNEL_FOLDED : KERNEL_WINDOWS;
    if (!op->spec.training) return;
    d->keeps_inputs = 1;
    d->keeps_output = conv->relu;
}

static pdl_status_t conv_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    conv_t            *conv = calloc(1, sizeof(*conv));

    if (conv == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", layer->name);
    conv->transposed = pdl_layer_traits(layer)->transposed;
    conv->relu = op->spec.fusion.activation == PDL_LAYER_RELU;
    conv->bias = layer->bias;
    conv->out_rows = op->spec.samples * pdl_shape_positions(&layer->out);
    conv->form.type = cuda->base.activation_type;
    conv->form.bias = conv->bias && !conv->transposed;
    conv->form.relu = conv->relu;
    conv->form.own = conv->form.type == PDL_DTYPE_F32 && !cuda->options.tf32;
    set_channels(layer, conv);
    set_windows(op, conv);
    if (folds(op)) fold(conv);
    plan_memory(op, conv);
    describe_op(op, conv);
    op->private_data = conv;
    return PDL_OK;
}

static pdl_status_t conv_prepare(pdl__cuda_t *cuda, pdl_op_t *op)
{
    conv_t          *conv = op->private_data;
    bool             training = op->spec.training, data = training && op->spec.input_gradient;
    bool             wanted[PDL__CONV_PRODUCTS] = {[PDL__CONV_NARROW] = !conv->transposed || data,
                                                   [PDL__CONV_WIDE] = conv->transposed || data,
                                                   [PDL__CONV_WEIGHT] = training};
    pdl__conv_wish_t wish = {.workspace = conv->library_bytes, .any_order = cuda->options.any_order};

    return cuda->api->convs->create(cuda->gpu, &conv->form, wanted, &wish, &conv->products);
}

static void conv_destroy(pdl_op_t *op)
{
    conv_t *conv = op->private_data;

    if (conv == NULL) return;
    if (conv->products != NULL) pdl__cuda_of(op)->api->convs->destroy(conv->products);
    free(conv);
    op->private_data = NULL;
}

static pdl_status_t conv_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    pdl__cuda_t *cuda = pdl__cuda_of(op);
    conv_t      *conv = op->private_data;
    void        *library = (char *)run->workspace + conv->library, *input = (void *)run->input[0];
    const float *bias = conv->bias ? (const float *)((char *)run->packed + conv->packed_bias) : NULL;

    return conv->transposed ? cuda->api->convs->run(conv->products, stream, PDL__CONV_WIDE, run->output,
                                                    run->packed, input, bias, library)
                            : cuda->api->convs->run(conv->products, stream, PDL__CONV_NARROW, input, run->packed,
                                                    run->output, bias, library);
}

/* The gradient of what the ReLU reads. */
static pdl_status_t mask_gradient(const pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                  unsigned what, void **gradient)
{
    pdl__cuda_t           *cuda = pdl__cuda_of(op);
    const conv_t          *conv = op->private_data;
    const pdl_shape_t     *out = &op->spec.layer->out;
    pdl__cuda_activation_t relu = {.function = PDL_LAYER_RELU,
                                   .rows = conv->out_rows,
                                   .channels = out->channels,
                                   .stride = pdl__cuda_stride(out),
                                   .x = run->output,
                                   .gradient = {run->output_gradient[0]},
                                   .out = (char *)run->workspace + conv->masked};

    *gradient = (void *)run->output_gradient[0];
    if (!conv->relu) return PDL_OK;
    *gradient = relu.out;
    if (what & PDL_BACKWARD_AGAIN) return PDL_OK;
    return cuda->api->pointwise->activate_back(cuda->gpu, stream, conv->form.type, &relu);
}

static pdl_status_t weight_gradients(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                     void *gradient)
{
    pdl__cuda_t       *cuda = pdl__cuda_of(op);
    conv_t            *conv = op->private_data;
    const pdl_shape_t *out = &op->spec.layer->out;
    char              *workspace = run->workspace;
    void              *packed = workspace + conv->gradient, *input = (void *)run->input[0];
    pdl_status_t       status = PDL_OK;

    if (run->weight_gradient[0] != NULL) {
        status =
            cuda->api->convs->run(conv->products, stream, PDL__CONV_WEIGHT, conv->transposed ? gradient : input,
                                  packed, conv->transposed ? input : gradient, NULL, workspace + conv->library);
        if (status == PDL_OK)
            status = cuda->api->convs->unpack(cuda->gpu, stream, conv->form.type, &conv->packing, packed,
                                              run->weight_gradient[0], run->accumulate);
    }
    if (status == PDL_OK && conv->bias && run->weight_gradient[1] != NULL)
        status = cuda->api->products->sum_columns(cuda->gpu, stream, conv->form.type, gradient, conv->out_rows,
                                                  out->channels, pdl__cuda_stride(out), run->accumulate,
                                                  run->weight_gradient[1], (float *)(workspace + conv->columns));
    return status;
}

static pdl_status_t conv_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run, unsigned what)
{
    pdl__cuda_t *cuda = pdl__cuda_of(op);
    conv_t      *conv = op->private_data;
    void        *dx = run->input_gradient[0], *library = (char *)run->workspace + conv->library, *gradient;
    pdl_status_t status = mask_gradient(op, stream, run, what, &gradient);

    if (status == PDL_OK && (what & PDL_BACKWARD_WEIGHT)) status = weight_gradients(op, stream, run, gradient);
    if (status != PDL_OK || !(what & PDL_BACKWARD_DATA) || dx == NULL) return status;
    if (conv->transposed)
        return cuda->api->convs->run(conv->products, stream, PDL__CONV_NARROW, gradient, run->packed, dx, NULL,
                                     library);
    return cuda->api->convs->run(conv->products, stream, PDL__CONV_WIDE, dx, run->packed, gradient, NULL, library);
}

static pdl_status_t conv_refresh(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    pdl__cuda_t        *cuda = pdl__cuda_of(op);
    const conv_t       *conv = op->private_data;
    const pdl_shape_t  *out = &op->spec.layer->out;
    void               *bias = (char *)run->packed + conv->packed_bias;
    pdl__conv_packing_t vector = {.filters = (int)out->channels,
                                  .channels = 1,
                                  .packed_filters = (int)pdl__cuda_stride(out),
                                  .packed_channels = 1,
                                  .window = {1, 1, 1},
                                  .packed_window = {1, 1, 1}};
    pdl_status_t        status =
        cuda->api->convs->pack(cuda->gpu, stream, conv->form.type, &conv->packing, run->weight[0], run->packed);

    if (status != PDL_OK || !conv->bias) return status;
    return cuda->api->convs->pack(cuda->gpu, stream, PDL_DTYPE_F32, &vector, run->weight[1], bias);
}

static bool conv_fuses(const pdl_layer_t *layer, const pdl_fusion_t *fusion)
{
    return !pdl_layer_traits(layer)->transposed && !fusion->add && fusion->activation == PDL_LAYER_RELU;
}

const pdl__cuda_kind_t pdl__cuda_conv = {.describe = conv_describe,
                                         .prepare = conv_prepare,
                                         .destroy = conv_destroy,
                                         .forward = conv_forward,
                                         .backward = conv_backward,
                                         .refresh = conv_refresh,
                                         .fuses = conv_fuses};
