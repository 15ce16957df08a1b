/*
 * The table of the backend of NVIDIA GPUs: finds the entry of a layer's type and keeps the parts every op has.
 */
#include "tensor/cuda/cuda.h"

#include "base/plugin.h"
#include "tensor/cuda/vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const pdl__cuda_kind_t *const kinds[PDL_LAYER_TYPE_COUNT] = {
    [PDL_LAYER_CONV] = &pdl__cuda_conv,
    [PDL_LAYER_CONV_TRANSPOSE] = &pdl__cuda_conv,
    [PDL_LAYER_BATCH_NORM] = &pdl__cuda_batch_norm,
    [PDL_LAYER_GROUP_NORM] = &pdl__cuda_group_norm,
    [PDL_LAYER_LOCAL_RESPONSE_NORM] = &pdl__cuda_lrn,
    [PDL_LAYER_MAX_POOL] = &pdl__cuda_pool,
    [PDL_LAYER_AVG_POOL] = &pdl__cuda_pool,
    [PDL_LAYER_GLOBAL_AVG_POOL] = &pdl__cuda_global_pool,
    [PDL_LAYER_ADD] = &pdl__cuda_add,
    [PDL_LAYER_MUL] = &pdl__cuda_mul,
    [PDL_LAYER_CONCAT] = &pdl__cuda_concat,
    [PDL_LAYER_UPSAMPLE] = &pdl__cuda_upsample,
    [PDL_LAYER_DROPOUT] = &pdl__cuda_dropout,
    [PDL_LAYER_FLATTEN] = &pdl__cuda_flatten,
    [PDL_LAYER_TO_SEQUENCE] = &pdl__cuda_to_sequence,
    [PDL_LAYER_SELECT] = &pdl__cuda_select,
    [PDL_LAYER_LINEAR] = &pdl__cuda_linear,
    [PDL_LAYER_LAYER_NORM] = &pdl__cuda_layer_norm,
    [PDL_LAYER_RMS_NORM] = &pdl__cuda_layer_norm,
    [PDL_LAYER_SOFTMAX] = &pdl__cuda_softmax,
    [PDL_LAYER_EMBEDDING] = &pdl__cuda_embedding,
    [PDL_LAYER_POSITION] = &pdl__cuda_position,
    [PDL_LAYER_ATTENTION] = &pdl__cuda_attention,
    [PDL_LAYER_MOE] = &pdl__cuda_moe,
    [PDL_LAYER_CROSS_ENTROPY] = &pdl__cuda_cross_entropy,
    [PDL_LAYER_MSE] = &pdl__cuda_mse,
};

/* NULL: the backend has none. */
static const pdl__cuda_kind_t *kind_of_type(pdl_layer_type_t type)
{
    return pdl_type_traits(type)->activation ? &pdl__cuda_activation : kinds[type];
}

/* An op with the arrays its spec points to. */
typedef struct cuda_op {
    pdl_op_t     op; /* first: a pdl_op_t is cast to this */
    pdl_shape_t  inputs[PDL_MAX_INPUTS];
    pdl_format_t given[PDL_MAX_INPUTS];
} cuda_op_t;

static const pdl__cuda_kind_t *kind_of(const pdl_op_t *op)
{
    return kind_of_type(op->spec.layer->type);
}

bool pdl__cuda_blockable(const pdl_shape_t *shape)
{
    return !shape->sequence && shape->rank > 0;
}

/* Classes from which padding of logits pays, and of what their rows are a multiple: 128 bytes of bf16. */
#define MANY 1024
#define ROW  64

static bool is_wide(const pdl_shape_t *shape)
{
    return shape->sequence && shape->channels >= MANY && shape->channels % ROW != 0;
}

bool pdl__cuda_pads(const pdl_backend_t *backend, const pdl_shape_t *shape)
{
    return backend->activation_type == PDL_DTYPE_BF16 && is_wide(shape);
}

pdl_format_t pdl__cuda_format(const pdl_shape_t *shape)
{
    return pdl__cuda_blockable(shape) ? PDL_FORMAT_BLOCKED : PDL_FORMAT_PLAIN;
}

int64_t pdl__cuda_channels(const pdl_shape_t *shape, pdl_format_t format)
{
    if (format == PDL_FORMAT_PLAIN || !(pdl__cuda_blockable(shape) || is_wide(shape))) return shape->channels;
    if (format == PDL_FORMAT_FOLDED) return PDL__FOLDED;
    if (is_wide(shape)) return (shape->channels + ROW - 1) / ROW * ROW;
    return (shape->channels + PDL__PADDED - 1) / PDL__PADDED * PDL__PADDED;
}

int64_t pdl__cuda_elements(const pdl_shape_t *shape, int64_t samples, pdl_format_t format)
{
    return samples * pdl__cuda_channels(shape, format) * pdl_shape_positions(shape);
}

int64_t pdl__cuda_stride(const pdl_shape_t *shape)
{
    return pdl__cuda_channels(shape, pdl__cuda_format(shape));
}

void pdl__cuda_set_formats(pdl_op_t *op)
{
    for (int i = 0; i < op->spec.input_count; i++)
        op->description.in_format[i] = pdl__cuda_format(&op->spec.inputs[i]);
    op->description.out_format = pdl__cuda_format(&op->spec.layer->out);
}

pdl_weight_t *pdl__cuda_add_weight(pdl_op_t *op, const char *name, int rank, const int64_t *dims, bool trainable)
{
    pdl_weight_t *weight = &op->description.weight[op->description.weight_count++];

    *weight = (pdl_weight_t){.name = name, .rank = rank, .elements = 1, .trainable = trainable};
    for (int i = 0; i < rank; i++) {
        weight->dims[i] = dims[i];
        weight->elements *= dims[i];
    }
    return weight;
}

pdl_status_t pdl__cuda_copy(const pdl_op_t *op, pdl_tensor_stream_t *stream, void *to, const void *from)
{
    pdl__cuda_t *cuda = pdl__cuda_of(op);

    if (to == NULL || to == from) return PDL_OK;
    return cuda->api->runtime->copy(cuda->gpu, stream, to, from, op->description.out_bytes);
}

static bool cuda_fuses(pdl_backend_t *backend, const pdl_layer_t *layer, const pdl_fusion_t *fusion)
{
    const pdl__cuda_kind_t *kind = kind_of_type(layer->type);

    (void)backend;
    if (!fusion->add && fusion->activation == PDL_NO_ACTIVATION) return true;
    return kind != NULL && kind->fuses != NULL && kind->fuses(layer, fusion);
}

static size_t cuda_tensor_bytes(pdl_backend_t *backend, const pdl_shape_t *shape, int64_t samples,
                                pdl_format_t format)
{
    return (size_t)pdl__cuda_elements(shape, samples, format) * pdl_dtype_bytes(backend->activation_type);
}

static pdl_status_t check_spec(pdl_backend_t *backend, const pdl_op_spec_t *spec)
{
    const pdl_layer_t *layer = spec->layer;

    if (kind_of_type(layer->type) == NULL)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: layers of type %s are not computed on GPUs; use --device cpu",
                         layer->name, pdl_layer_type_name(layer->type));
    return pdl__describe_check(spec, cuda_fuses(backend, layer, &spec->fusion));
}

static void free_private(pdl_op_t *op)
{
    if (kind_of(op)->destroy != NULL)
        kind_of(op)->destroy(op);
    else
        free(op->private_data);
}

/* The op without its kernels: what is described and what is made begin here. */
static pdl_status_t describe(pdl_backend_t *backend, const pdl_op_spec_t *spec, cuda_op_t *made)
{
    pdl_op_t             *op = &made->op;
    pdl_op_description_t *description = &op->description;
    pdl_status_t          status = check_spec(backend, spec);

    if (status) return status;
    *made = (cuda_op_t){.op = {.backend = backend, .spec = *spec}};
    memcpy(made->inputs, spec->inputs, (size_t)spec->input_count * sizeof(made->inputs[0]));
    if (spec->given != NULL) memcpy(made->given, spec->given, (size_t)spec->input_count * sizeof(made->given[0]));
    op->spec.inputs = made->inputs;
    op->spec.given = made->given;
    status = kind_of(op)->describe((pdl__cuda_t *)backend, op);
    if (status) return status;
    if (description->out_bytes == 0)
        description->out_bytes =
            cuda_tensor_bytes(backend, &spec->layer->out, spec->samples, description->out_format);
    pdl__describe_work(&op->spec, description);
    return PDL_OK;
}

static pdl_status_t cuda_op_describe(pdl_backend_t *backend, const pdl_op_spec_t *spec,
                                     pdl_op_description_t *description)
{
    cuda_op_t    described;
    pdl_status_t status = describe(backend, spec, &described);

    if (status) return status;
    *description = described.op.description;
    free_private(&described.op);
    return PDL_OK;
}

/* The name of the layer goes before a message of the plugin. */
static pdl_status_t name_layer(const pdl_op_t *op, pdl_status_t status)
{
    return status ? pdl_error(status, "%s: %s", op->spec.layer->name, pdl_error_message()) : PDL_OK;
}

static pdl_status_t cuda_op_create(pdl_backend_t *backend, const pdl_op_spec_t *spec, pdl_op_t **op)
{
    pdl__cuda_t *cuda = (pdl__cuda_t *)backend;
    cuda_op_t   *made;
    pdl_status_t status;

    if (cuda->api == NULL)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: this backend was created to describe ops only",
                         spec->layer->name);
    made = malloc(sizeof(*made));
    if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", spec->layer->name);
    status = describe(backend, spec, made);
    if (status) {
        free(made);
        return status;
    }
    if (kind_of(&made->op)->prepare != NULL)
        status = name_layer(&made->op, kind_of(&made->op)->prepare(cuda, &made->op));
    if (status) {
        free_private(&made->op);
        free(made);
        return status;
    }
    *op = &made->op;
    return PDL_OK;
}

static void cuda_op_destroy(pdl_op_t *op)
{
    if (op == NULL) return;
    free_private(op);
    free(op);
}

static pdl_status_t cuda_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    pdl_tensor_device_t *device = op->backend->device;
    pdl_status_t         status = kind_of(op)->forward(op, pdl__cuda_begin(device, stream), run);

    return name_layer(op, pdl__cuda_end(device, stream, status));
}

static pdl_status_t cuda_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run, unsigned what)
{
    pdl_tensor_device_t *device = op->backend->device;
    pdl_status_t         status;

    if (!op->spec.training)
        return pdl_error(PDL_ERR_INPUT, "%s: backward of an op that was made for inference", op->spec.layer->name);
    status = kind_of(op)->backward(op, pdl__cuda_begin(device, stream), run, what);
    return name_layer(op, pdl__cuda_end(device, stream, status));
}

static pdl_status_t cuda_refresh(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    pdl_tensor_device_t *device = op->backend->device;
    pdl_status_t         status;

    if (kind_of(op)->refresh == NULL) return PDL_OK;
    status = kind_of(op)->refresh(op, pdl__cuda_begin(device, stream), run);
    return name_layer(op, pdl__cuda_end(device, stream, status));
}

static pdl_status_t cuda_choices(pdl_backend_t *backend, char **text)
{
    pdl__cuda_t *cuda = (pdl__cuda_t *)backend;

    return cuda->api->runtime->choices(cuda->gpu, text);
}

static pdl_status_t cuda_learn(pdl_backend_t *backend, const char *text)
{
    pdl__cuda_t *cuda = (pdl__cuda_t *)backend;

    return cuda->api->runtime->learn(cuda->gpu, text);
}

static void cuda_destroy(pdl_backend_t *backend)
{
    pdl__cuda_t *cuda = (pdl__cuda_t *)backend;

    if (cuda->api != NULL) backend->device->ops->destroy(backend->device);
    free(cuda->choices);
    free(cuda);
}

static const pdl_backend_ops_t cuda_ops = {
    .name = "cuda",
    .fuses = cuda_fuses,
    .tensor_bytes = cuda_tensor_bytes,
    .op_describe = cuda_op_describe,
    .op_create = cuda_op_create,
    .op_destroy = cuda_op_destroy,
    .forward = cuda_forward,
    .backward = cuda_backward,
    .refresh = cuda_refresh,
    .weight_import = pdl__cuda_weight_import,
    .weight_export = pdl__cuda_weight_export,
    .convert = pdl__cuda_convert_tensor,
    .load_images = pdl__cuda_load_images,
    .load_values = pdl__cuda_load_values,
    .from_float = pdl__cuda_from_float,
    .to_float = pdl__cuda_to_float,
    .add = pdl__cuda_sum,
    .largest = pdl__cuda_largest,
    .find_not_finite = pdl__cuda_find_not_finite,
    .check_results = pdl__cuda_check_results,
    .choices = cuda_choices,
    .learn = cuda_learn,
    .sum_squares = pdl__cuda_sum_squares,
    .clip = pdl__cuda_clip,
    .update = pdl__cuda_step,
    .average = pdl__cuda_average,
    .destroy = cuda_destroy,
};

static pdl_status_t load(bool emulated, const pdl__cuda_api_t **api)
{
    const void  *table = NULL;
    pdl_status_t status = pdl__plugin_load(emulated ? PDL__PLUGIN_CUDA_EMULATED : PDL__PLUGIN_CUDA, "--device cuda",
                                           sizeof(**api), &table);

    *api = table;
    return status;
}

pdl_status_t pdl_gpu_count(bool emulated, int *count)
{
    const pdl__cuda_api_t *api;
    pdl_status_t           status = load(emulated, &api);

    return status ? status : api->runtime->count(count);
}

pdl_status_t pdl_gpu_info(bool emulated, int device, pdl_gpu_info_t *info)
{
    const pdl__cuda_api_t *api;
    pdl__gpu_properties_t  known;
    pdl__gpu_t            *gpu = NULL;
    pdl_status_t           status = load(emulated, &api);

    if (!status) status = api->runtime->open(device, NULL, &gpu);
    if (status) return status;
    status = api->runtime->properties(gpu, &known);
    api->runtime->close(gpu);
    if (status) return status;
    *info = (pdl_gpu_info_t){.multiprocessors = known.multiprocessors,
                             .memory_bytes = (double)known.memory_bytes,
                             .free_bytes = (double)known.free_bytes};
    snprintf(info->name, sizeof(info->name), "%.120s", known.name);
    snprintf(info->versions, sizeof(info->versions), "%s", known.versions);
    return PDL_OK;
}

/* Loads the plugin and opens the GPU. */
static pdl_status_t open_gpu(pdl__cuda_t *cuda)
{
    const pdl__cuda_api_t *api;
    pdl_status_t           status = load(cuda->options.emulated, &api);

    if (!status) status = api->runtime->open(cuda->options.device, cuda->options.choices, &cuda->gpu);
    if (status) return status;
    status = pdl__cuda_device_create(api, cuda->gpu, &cuda->base.device);
    if (status) {
        api->runtime->close(cuda->gpu);
        return status;
    }
    cuda->base.device->captures = !cuda->options.launches;
    cuda->api = api;
    return PDL_OK;
}

pdl_status_t pdl_backend_create_cuda(const pdl_cuda_options_t *options, pdl_backend_t **backend)
{
    pdl__cuda_t *cuda;
    pdl_status_t status = PDL_OK;

    if (options->precision != PDL_DTYPE_F32 && options->precision != PDL_DTYPE_BF16)
        return pdl_error(PDL_ERR_UNSUPPORTED, "GPUs compute in fp32 or bf16; give one of them as the precision");
    cuda = calloc(1, sizeof(*cuda));
    if (cuda == NULL) return pdl_error(PDL_ERR_NOMEM, "CUDA backend: out of memory");
    cuda->base = (pdl_backend_t){.ops = &cuda_ops,
                                 .device = &cuda->described,
                                 .activation_type = options->precision,
                                 .weight_type = PDL_DTYPE_F32,
                                 .threads = 1,
                                 .block = PDL__BLOCK_ALL,
                                 .loads_formats = true};
    /* Memory is counted as on a GPU: the host cannot use it where it is. */
    cuda->described = *pdl_device_cpu();
    cuda->described.host_access = false;
    cuda->options = *options;
    if (options->choices != NULL) {
        cuda->choices = strdup(options->choices);
        cuda->options.choices = cuda->choices;
        if (cuda->choices == NULL) status = pdl_error(PDL_ERR_NOMEM, "CUDA backend: out of memory");
    }
    if (!status && !options->describes) status = open_gpu(cuda);
    if (status) {
        cuda_destroy(&cuda->base);
        return status;
    }
    *backend = &cuda->base;
    return PDL_OK;
}
