/*
 * The reference backend: what every other backend is compared with. It is slow and obvious on purpose; each family
 * of layers is one file, and this one is the table that finds them.
 */
#include "tensor/reference/reference.h"

#include "tensor/describe.h"
#include "tensor/image.h"
#include "tensor/update.h"

#include <stdlib.h>
#include <string.h>

static const pdl__reference_kind_t *const kinds[PDL_LAYER_TYPE_COUNT] = {
    [PDL_LAYER_CONV] = &pdl__reference_conv,
    [PDL_LAYER_CONV_TRANSPOSE] = &pdl__reference_conv_transpose,
    [PDL_LAYER_LINEAR] = &pdl__reference_linear,
    [PDL_LAYER_BATCH_NORM] = &pdl__reference_batch_norm,
    [PDL_LAYER_LAYER_NORM] = &pdl__reference_layer_norm,
    [PDL_LAYER_RMS_NORM] = &pdl__reference_rms_norm,
    [PDL_LAYER_GROUP_NORM] = &pdl__reference_group_norm,
    [PDL_LAYER_LOCAL_RESPONSE_NORM] = &pdl__reference_lrn,
    [PDL_LAYER_SOFTMAX] = &pdl__reference_softmax,
    [PDL_LAYER_MAX_POOL] = &pdl__reference_max_pool,
    [PDL_LAYER_AVG_POOL] = &pdl__reference_avg_pool,
    [PDL_LAYER_GLOBAL_AVG_POOL] = &pdl__reference_global_pool,
    [PDL_LAYER_ADD] = &pdl__reference_add,
    [PDL_LAYER_MUL] = &pdl__reference_mul,
    [PDL_LAYER_CONCAT] = &pdl__reference_concat,
    [PDL_LAYER_UPSAMPLE] = &pdl__reference_upsample,
    [PDL_LAYER_DROPOUT] = &pdl__reference_dropout,
    [PDL_LAYER_FLATTEN] = &pdl__reference_flatten,
    [PDL_LAYER_TO_SEQUENCE] = &pdl__reference_to_sequence,
    [PDL_LAYER_SELECT] = &pdl__reference_select,
    [PDL_LAYER_EMBEDDING] = &pdl__reference_embedding,
    [PDL_LAYER_POSITION] = &pdl__reference_position,
    [PDL_LAYER_ATTENTION] = &pdl__reference_attention,
    [PDL_LAYER_MOE] = &pdl__reference_moe,
    [PDL_LAYER_CROSS_ENTROPY] = &pdl__reference_cross_entropy,
    [PDL_LAYER_MSE] = &pdl__reference_mse,
};

static const pdl__reference_kind_t *kind_of(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->activation ? &pdl__reference_activation : kinds[layer->type];
}

static bool fuses(pdl_backend_t *backend, const pdl_layer_t *layer, const pdl_fusion_t *fusion)
{
    (void)backend, (void)layer;
    return !fusion->add && fusion->activation == PDL_NO_ACTIVATION;
}

static size_t tensor_bytes(pdl_backend_t *backend, const pdl_shape_t *shape, int64_t samples, pdl_format_t format)
{
    (void)backend, (void)format;
    return (size_t)(pdl_shape_elements(shape) * samples) * sizeof(double);
}

void pdl__reference_weight(pdl_op_t *op, const char *name, bool trainable, int rank, const int64_t *dims)
{
    pdl_weight_t *weight = &op->description.weight[op->description.weight_count++];

    *weight = (pdl_weight_t){.name = name, .rank = rank, .elements = 1, .trainable = trainable};
    for (int d = 0; d < rank; d++) {
        weight->dims[d] = dims[d];
        weight->elements *= dims[d];
    }
}

static pdl_status_t check_spec(pdl_backend_t *backend, const pdl_op_spec_t *spec)
{
    const pdl_layer_t           *layer = spec->layer;
    const pdl__reference_kind_t *kind = kind_of(layer);

    if (kind == NULL || !fuses(backend, layer, &spec->fusion))
        return pdl_error(PDL_ERR_UNSUPPORTED, "layer %s: the reference backend has no %s%s", layer->name,
                         kind ? "fused " : "", pdl_layer_type_name(layer->type));
    if (spec->expert_first != NULL)
        return pdl_error(PDL_ERR_UNSUPPORTED, "layer %s: the reference backend has all experts on one rank",
                         layer->name);
    if (spec->input_count > PDL_MAX_INPUTS)
        return pdl_error(PDL_ERR_UNSUPPORTED, "layer %s has %d inputs, a backend takes at most %d; split it in two",
                         layer->name, spec->input_count, PDL_MAX_INPUTS);
    return pdl__describe_check_computed(layer);
}

/* Of an op whose spec and backend are known. */
static void describe(pdl_op_t *op)
{
    const pdl_op_spec_t  *spec = &op->spec;
    const pdl_layer_t    *layer = spec->layer;
    pdl_op_description_t *description = &op->description;

    description->out_bytes = pdl_layer_traits(layer)->loss
                                 ? (size_t)spec->samples * 3 * sizeof(double)
                                 : tensor_bytes(op->backend, &layer->out, spec->samples, PDL_FORMAT_PLAIN);
    description->keeps_inputs = spec->training ? (1u << spec->input_count) - 1 : 0;
    description->keeps_output = spec->training;
    if (kind_of(layer)->describe != NULL) kind_of(layer)->describe(op);
    if (spec->gradient_in_forward && spec->classes == 0) {
        description->gradient_in_forward = true;
        description->keeps_inputs = 0;
        description->keeps_output = false;
    }
    pdl__describe_work(spec, description);
}

static pdl_status_t op_describe(pdl_backend_t *backend, const pdl_op_spec_t *spec,
                                pdl_op_description_t *description)
{
    pdl_op_t     op = {.backend = backend, .spec = *spec};
    pdl_status_t status = check_spec(backend, spec);

    if (status != PDL_OK) return status;
    describe(&op);
    *description = op.description;
    return PDL_OK;
}

static pdl_status_t op_create(pdl_backend_t *backend, const pdl_op_spec_t *spec, pdl_op_t **result)
{
    pdl_op_t    *op;
    pdl_shape_t *inputs;
    pdl_status_t status = check_spec(backend, spec);

    if (status != PDL_OK) return status;
    op = calloc(1, sizeof(*op));
    inputs = malloc((size_t)spec->input_count * sizeof(*inputs));
    if (op == NULL || inputs == NULL) {
        free(op);
        free(inputs);
        return pdl_error(PDL_ERR_NOMEM, "out of memory for layer %s", spec->layer->name);
    }
    memcpy(inputs, spec->inputs, (size_t)spec->input_count * sizeof(*inputs));
    op->backend = backend;
    op->spec = *spec;
    op->spec.inputs = op->private_data = inputs;
    op->spec.given = NULL;
    describe(op);
    *result = op;
    return PDL_OK;
}

static void op_destroy(pdl_op_t *op)
{
    if (op == NULL) return;
    free(op->private_data);
    free(op);
}

static pdl_status_t forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    (void)stream;
    if (run->phase == 0) memset(run->output, 0, op->description.out_bytes);
    pdl_status_t status = kind_of(op->spec.layer)->forward(op, run);
    if (status || !op->description.gradient_in_forward || run->input_gradient[0] == NULL) return status;
    return kind_of(op->spec.layer)->backward(op, run);
}

/* Leaves out what is not wanted and clears what is only added to. */
static pdl_status_t backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run, unsigned what)
{
    pdl_op_run_t wanted = *run;

    (void)stream;
    for (int i = 0; i < op->spec.input_count; i++) {
        if (!(what & PDL_BACKWARD_DATA)) wanted.input_gradient[i] = NULL;
        if (wanted.input_gradient[i] == NULL || run->phase > 0) continue;
        memset(wanted.input_gradient[i], 0,
               tensor_bytes(op->backend, &op->spec.inputs[i], op->spec.samples, PDL_FORMAT_PLAIN));
    }
    for (int k = 0; k < op->description.weight_count; k++) {
        if (!(what & PDL_BACKWARD_WEIGHT) || !op->description.weight[k].trainable) wanted.weight_gradient[k] = NULL;
        if (wanted.weight_gradient[k] == NULL || run->accumulate || run->phase > 0) continue;
        memset(wanted.weight_gradient[k], 0, (size_t)op->description.weight[k].elements * sizeof(double));
    }
    return kind_of(op->spec.layer)->backward(op, &wanted);
}

static pdl_status_t refresh(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    (void)op, (void)stream, (void)run;
    return PDL_OK;
}

static pdl_status_t weight_import(pdl_op_t *op, int k, const float *plain, void *storage)
{
    return pdl__reference_from_float(op->backend, NULL, plain, op->description.weight[k].elements, storage);
}

static pdl_status_t weight_export(pdl_op_t *op, int k, const void *storage, float *plain)
{
    return pdl__reference_to_float(op->backend, NULL, storage, op->description.weight[k].elements, plain);
}

static void destroy(pdl_backend_t *backend)
{
    free(backend);
}

static const pdl_backend_ops_t reference_ops = {
    .name = "reference",
    .fuses = fuses,
    .tensor_bytes = tensor_bytes,
    .op_describe = op_describe,
    .op_create = op_create,
    .op_destroy = op_destroy,
    .forward = forward,
    .backward = backward,
    .refresh = refresh,
    .weight_import = weight_import,
    .weight_export = weight_export,
    .convert = pdl__reference_convert,
    .from_float = pdl__reference_from_float,
    .to_float = pdl__reference_to_float,
    .add = pdl__reference_sum,
    .find_not_finite = pdl__reference_find_not_finite,
    .load_images = pdl__host_load_images,
    .load_values = pdl__host_load_values,
    .check_results = pdl__host_check_results,
    .sum_squares = pdl__reference_sum_squares,
    .clip = pdl__host_clip,
    .update = pdl__reference_update,
    .average = pdl__reference_average,
    .destroy = destroy,
};

pdl_status_t pdl_backend_create_reference(pdl_backend_t **backend)
{
    pdl_backend_t *made = malloc(sizeof(*made));

    if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the reference backend");
    *made = (pdl_backend_t){.ops = &reference_ops,
                            .device = pdl_device_cpu(),
                            .activation_type = PDL_DTYPE_F64,
                            .weight_type = PDL_DTYPE_F64,
                            .threads = 1,
                            .block = 1};
    *backend = made;
    return PDL_OK;
}
