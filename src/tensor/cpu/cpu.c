/*
 * The CPU backend's table: finds the entry of a layer's type and keeps the parts every op has.
 */
#include "tensor/cpu/cpu.h"

#include "base/plugin.h"
#include "tensor/cpu/crowd.h"
#include "tensor/cpu/matmul/wide.h"
#include "tensor/cpu/threads.h"
#include "tensor/describe.h"
#include "tensor/image.h"
#include "tensor/update.h"

#include <stdlib.h>
#include <string.h>

static const pdl__cpu_kind_t *const kinds[PDL_LAYER_TYPE_COUNT] = {
    [PDL_LAYER_CONV] = &pdl__cpu_conv,
    [PDL_LAYER_CONV_TRANSPOSE] = &pdl__cpu_conv_transpose,
    [PDL_LAYER_LINEAR] = &pdl__cpu_linear,
    [PDL_LAYER_BATCH_NORM] = &pdl__cpu_batch_norm,
    [PDL_LAYER_LAYER_NORM] = &pdl__cpu_layer_norm,
    [PDL_LAYER_RMS_NORM] = &pdl__cpu_layer_norm,
    [PDL_LAYER_GROUP_NORM] = &pdl__cpu_group_norm,
    [PDL_LAYER_LOCAL_RESPONSE_NORM] = &pdl__cpu_lrn,
    [PDL_LAYER_SOFTMAX] = &pdl__cpu_softmax,
    [PDL_LAYER_MAX_POOL] = &pdl__cpu_pool,
    [PDL_LAYER_AVG_POOL] = &pdl__cpu_pool,
    [PDL_LAYER_GLOBAL_AVG_POOL] = &pdl__cpu_global_pool,
    [PDL_LAYER_ADD] = &pdl__cpu_add,
    [PDL_LAYER_MUL] = &pdl__cpu_mul,
    [PDL_LAYER_CONCAT] = &pdl__cpu_concat,
    [PDL_LAYER_UPSAMPLE] = &pdl__cpu_upsample,
    [PDL_LAYER_DROPOUT] = &pdl__cpu_dropout,
    [PDL_LAYER_FLATTEN] = &pdl__cpu_flatten,
    [PDL_LAYER_TO_SEQUENCE] = &pdl__cpu_to_sequence,
    [PDL_LAYER_SELECT] = &pdl__cpu_select,
    [PDL_LAYER_EMBEDDING] = &pdl__cpu_embedding,
    [PDL_LAYER_POSITION] = &pdl__cpu_position,
    [PDL_LAYER_ATTENTION] = &pdl__cpu_attention,
    [PDL_LAYER_MOE] = &pdl__cpu_moe,
    [PDL_LAYER_CROSS_ENTROPY] = &pdl__cpu_cross_entropy,
    [PDL_LAYER_MSE] = &pdl__cpu_mse,
};

/* NULL: the backend has none. */
static const pdl__cpu_kind_t *kind_of_type(pdl_layer_type_t type)
{
    return pdl_type_traits(type)->activation ? &pdl__cpu_activation : kinds[type];
}

/* An op with the arrays its spec points to. */
typedef struct pdl__cpu_op {
    pdl_op_t     op; /* first: a pdl_op_t is cast to this */
    pdl_shape_t  inputs[PDL_MAX_INPUTS];
    pdl_format_t given[PDL_MAX_INPUTS];
    bool         widens;  /* runs on fp32 copies of bf16 tensors, */
    size_t       wide_at; /* which begin here in the workspace */
} pdl__cpu_op_t;

static const pdl__cpu_kind_t *kind_of(const pdl_op_t *op)
{
    return kind_of_type(op->spec.layer->type);
}

pdl_status_t pdl__cpu_require_f32(const pdl__cpu_t *cpu, const pdl_layer_t *layer)
{
    if (cpu->base.activation_type == PDL_DTYPE_F32) return PDL_OK;
    return pdl_error(PDL_ERR_UNSUPPORTED, "%s: %s is computed in fp32 only on CPUs; train with --precision fp32",
                     layer->name, pdl_layer_type_name(layer->type));
}

bool pdl__cpu_blockable(const pdl_shape_t *shape)
{
    return !shape->sequence && shape->rank > 0;
}

int64_t pdl__cpu_elements(const pdl_shape_t *shape, int64_t samples, pdl_format_t format)
{
    int64_t channels = shape->channels;

    if (format == PDL_FORMAT_BLOCKED && pdl__cpu_blockable(shape))
        channels = (channels + PDL__BLOCK - 1) / PDL__BLOCK * PDL__BLOCK;
    return samples * channels * pdl_shape_positions(shape);
}

pdl_weight_t *pdl__cpu_add_weight(pdl_op_t *op, const char *name, int rank, const int64_t *dims, bool trainable)
{
    pdl_weight_t *weight = &op->description.weight[op->description.weight_count++];

    *weight = (pdl_weight_t){.name = name, .rank = rank, .elements = 1, .trainable = trainable};
    for (int i = 0; i < rank; i++) {
        weight->dims[i] = dims[i];
        weight->elements *= dims[i];
    }
    return weight;
}

static bool cpu_fuses(pdl_backend_t *backend, const pdl_layer_t *layer, const pdl_fusion_t *fusion)
{
    const pdl__cpu_kind_t *kind = kind_of_type(layer->type);

    (void)backend;
    if (!fusion->add && fusion->activation == PDL_NO_ACTIVATION) return true;
    return kind != NULL && kind->fuses != NULL && kind->fuses(layer, fusion);
}

static size_t cpu_tensor_bytes(pdl_backend_t *backend, const pdl_shape_t *shape, int64_t samples,
                               pdl_format_t format)
{
    return (size_t)pdl__cpu_elements(shape, samples, format) * pdl_dtype_bytes(backend->activation_type);
}

static pdl_status_t check_spec(pdl_backend_t *backend, const pdl_op_spec_t *spec)
{
    const pdl_layer_t *layer = spec->layer;

    if (kind_of_type(layer->type) == NULL)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: the CPU backend does not compute layers of type %s", layer->name,
                         pdl_layer_type_name(layer->type));
    return pdl__describe_check(spec, cpu_fuses(backend, layer, &spec->fusion));
}

static void free_private(pdl_op_t *op)
{
    if (kind_of(op)->destroy != NULL)
        kind_of(op)->destroy(op);
    else
        free(op->private_data);
}

/* The op without its kernels: what is described and what is made begin here. */
static pdl_status_t describe(pdl_backend_t *backend, const pdl_op_spec_t *spec, pdl__cpu_op_t *made)
{
    pdl_op_t             *op = &made->op;
    pdl_op_description_t *description = &op->description;
    pdl_status_t          status = check_spec(backend, spec);

    if (status != PDL_OK) return status;
    *made = (pdl__cpu_op_t){.op = {.backend = backend, .spec = *spec}};
    memcpy(made->inputs, spec->inputs, (size_t)spec->input_count * sizeof(made->inputs[0]));
    if (spec->given != NULL) memcpy(made->given, spec->given, (size_t)spec->input_count * sizeof(made->given[0]));
    op->spec.inputs = made->inputs;
    op->spec.given = made->given;
    status = kind_of(op)->describe((pdl__cpu_t *)backend, op);
    if (status != PDL_OK) return status;
    if (description->out_bytes == 0)
        description->out_bytes =
            cpu_tensor_bytes(backend, &spec->layer->out, spec->samples, description->out_format);
    made->widens = backend->activation_type == PDL_DTYPE_BF16 && kind_of(op)->wide;
    if (made->widens) {
        made->wide_at = (description->workspace_bytes + 63) / 64 * 64;
        description->workspace_bytes = made->wide_at + pdl__wide_bytes(op);
    }
    pdl__describe_work(&op->spec, description);
    return PDL_OK;
}

static pdl_status_t cpu_op_describe(pdl_backend_t *backend, const pdl_op_spec_t *spec,
                                    pdl_op_description_t *description)
{
    pdl__cpu_op_t described;
    pdl_status_t  status = describe(backend, spec, &described);

    if (status != PDL_OK) return status;
    *description = described.op.description;
    free_private(&described.op);
    return PDL_OK;
}

static pdl_status_t cpu_op_create(pdl_backend_t *backend, const pdl_op_spec_t *spec, pdl_op_t **op)
{
    pdl__cpu_op_t *made;
    pdl_status_t   status;

    if (((const pdl__cpu_t *)backend)->describes)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: this backend was created to describe ops only",
                         spec->layer->name);
    made = malloc(sizeof(*made));
    if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", spec->layer->name);
    status = describe(backend, spec, made);
    if (status != PDL_OK) {
        free(made);
        return status;
    }
    if (kind_of(&made->op)->prepare != NULL) status = kind_of(&made->op)->prepare((pdl__cpu_t *)backend, &made->op);
    if (status != PDL_OK) {
        free_private(&made->op);
        free(made);
        return status;
    }
    *op = &made->op;
    return PDL_OK;
}

static void cpu_op_destroy(pdl_op_t *op)
{
    if (op == NULL) return;
    free_private(op);
    free(op);
}

static pdl_status_t cpu_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    const pdl__cpu_op_t *made = (const pdl__cpu_op_t *)op;

    (void)stream;
    if (made->widens) return pdl__wide_forward(kind_of(op), op, run, made->wide_at);
    return kind_of(op)->forward(op, run);
}

static pdl_status_t cpu_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run, unsigned what)
{
    const pdl__cpu_op_t *made = (const pdl__cpu_op_t *)op;

    (void)stream;
    if (!op->spec.training)
        return pdl_error(PDL_ERR_INPUT, "%s: backward of an op that was made for inference", op->spec.layer->name);
    if (made->widens) return pdl__wide_backward(kind_of(op), op, run, what, made->wide_at);
    return kind_of(op)->backward(op, run, what);
}

static pdl_status_t cpu_refresh(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    (void)stream;
    return kind_of(op)->refresh != NULL ? kind_of(op)->refresh(op, run) : PDL_OK;
}

static pdl_status_t cpu_weight_import(pdl_op_t *op, int k, const float *plain, void *storage)
{
    if (kind_of(op)->weight_import != NULL) return kind_of(op)->weight_import(op, k, plain, storage);
    memcpy(storage, plain, (size_t)op->description.weight[k].elements * sizeof(*plain));
    return PDL_OK;
}

static pdl_status_t cpu_weight_export(pdl_op_t *op, int k, const void *storage, float *plain)
{
    if (kind_of(op)->weight_export != NULL) return kind_of(op)->weight_export(op, k, storage, plain);
    memcpy(plain, storage, (size_t)op->description.weight[k].elements * sizeof(*plain));
    return PDL_OK;
}

static void cpu_destroy(pdl_backend_t *backend)
{
    pdl__cpu_t *cpu = (pdl__cpu_t *)backend;

    if (!cpu->describes) pdl__crowd_end();
    if (cpu->dnnl != NULL) cpu->dnnl->close(cpu->engine);
    free(cpu);
}

static const pdl_backend_ops_t cpu_ops = {
    .name = "cpu",
    .fuses = cpu_fuses,
    .tensor_bytes = cpu_tensor_bytes,
    .op_describe = cpu_op_describe,
    .op_create = cpu_op_create,
    .op_destroy = cpu_op_destroy,
    .forward = cpu_forward,
    .backward = cpu_backward,
    .refresh = cpu_refresh,
    .weight_import = cpu_weight_import,
    .weight_export = cpu_weight_export,
    .convert = pdl__cpu_convert,
    .from_float = pdl__cpu_from_float,
    .to_float = pdl__cpu_to_float,
    .add = pdl__cpu_sum,
    .find_not_finite = pdl__cpu_find_not_finite,
    .load_images = pdl__host_load_images,
    .load_values = pdl__host_load_values,
    .check_results = pdl__host_check_results,
    .sum_squares = pdl__cpu_sum_squares,
    .clip = pdl__host_clip,
    .update = pdl__cpu_update,
    .average = pdl__cpu_average,
    .destroy = cpu_destroy,
};

static pdl_status_t check_options(const pdl_cpu_options_t *options)
{
    if (options->threads < 0 || options->threads > 4096)
        return pdl_error(PDL_ERR_INPUT, "%d threads; give 1 to 4096, or 0 for one per core", options->threads);
    if (options->precision != PDL_DTYPE_F32 && options->precision != PDL_DTYPE_BF16)
        return pdl_error(PDL_ERR_UNSUPPORTED, "CPUs compute in fp32 or bf16; give one of them as the precision");
    return PDL_OK;
}

/* Without oneDNN, or where its plugin is there and the library is not, convolutions are our own, in single precision. */
static pdl_status_t load_dnnl(pdl_dtype_t precision, const void **dnnl)
{
    pdl_status_t status = pdl__plugin_load(PDL__PLUGIN_DNNL, "bf16", sizeof(pdl__dnnl_t), dnnl);

    return precision == PDL_DTYPE_BF16 ? status : PDL_OK;
}

bool pdl_cpu_uses_onednn(const pdl_backend_t *backend)
{
    return backend->ops == &cpu_ops && ((const pdl__cpu_t *)backend)->dnnl != NULL;
}

pdl_status_t pdl_backend_create_cpu(const pdl_cpu_options_t *options, pdl_backend_t **backend)
{
    pdl__cpu_t  *cpu;
    const void  *dnnl = NULL;
    bool         wide = false, bf16 = true;
    pdl_status_t status = check_options(options);

    if (status == PDL_OK) status = load_dnnl(options->precision, &dnnl);
    if (status != PDL_OK) return status;
    if (dnnl != NULL) ((const pdl__dnnl_t *)dnnl)->instructions(&wide, &bf16);
    if (options->precision == PDL_DTYPE_BF16 && !bf16)
        return pdl_error(PDL_ERR_UNSUPPORTED,
                         "this processor has no bf16 instructions (AVX512_BF16); train with --precision fp32");
    cpu = calloc(1, sizeof(*cpu));
    if (cpu == NULL) return pdl_error(PDL_ERR_NOMEM, "CPU backend: out of memory");
    cpu->base.ops = &cpu_ops;
    cpu->base.device = pdl_device_cpu();
    cpu->base.activation_type = options->precision;
    cpu->base.weight_type = PDL_DTYPE_F32;
    cpu->base.threads = options->threads > 0 ? options->threads : pdl_threads_allowed();
    cpu->dnnl = dnnl;
    cpu->blocks = wide;
    cpu->base.block = PDL__BLOCK;
    cpu->direct = options->direct;
    cpu->describes = options->describes;
    if (!cpu->describes) {
        pdl__threads_setup(cpu->base.threads, options->bind);
        pdl__crowd_begin(cpu->base.threads);
    }
    if (dnnl != NULL) status = cpu->dnnl->open(&cpu->engine);
    if (status != PDL_OK) {
        cpu_destroy(&cpu->base);
        return status;
    }
    *backend = &cpu->base;
    return PDL_OK;
}
