/*
 * A backend that only describes, for machines without a backend of ours: tensors are plain, what is kept follows from
 * the traits of a layer's type, as frameworks that differentiate layer by layer keep it, and nothing is fused. Programs
 * of it are lowered and priced; none can be executed.
 */
#include "tensor/describe.h"

#include <paradl/model/traits.h>

#include <stdlib.h>

typedef struct generic {
    pdl_backend_t base; /* first: a pdl_backend_t is cast to this */
    bool          keeps_scores;
} generic_t;

static bool fuses(pdl_backend_t *backend, const pdl_layer_t *layer, const pdl_fusion_t *fusion)
{
    (void)backend, (void)layer;
    return !fusion->add && fusion->activation == PDL_LAYER_INPUT;
}

static size_t tensor_bytes(pdl_backend_t *backend, const pdl_shape_t *shape, int64_t samples, pdl_format_t format)
{
    (void)format;
    return (size_t)(pdl_shape_elements(shape) * samples) * pdl_dtype_bytes(backend->activation_type);
}

static void add_weight(pdl_op_description_t *d, const char *name, bool trainable, int rank, const int64_t *dims)
{
    pdl_weight_t *weight = &d->weight[d->weight_count++];

    *weight = (pdl_weight_t){.name = name, .rank = rank, .elements = 1, .trainable = trainable};
    for (int i = 0; i < rank; i++) {
        weight->dims[i] = dims[i];
        weight->elements *= dims[i];
    }
}

static void add_experts(const pdl_op_spec_t *spec, pdl_op_description_t *d)
{
    const pdl_layer_t *layer = spec->layer;
    int64_t            all = spec->expert_first != NULL ? spec->expert_first[spec->expert_ranks] : layer->experts;
    int64_t            router[2] = {all, layer->in.channels};
    int64_t            up[3] = {layer->experts, layer->expert_hidden, layer->in.channels};
    int64_t            down[3] = {layer->experts, layer->out.channels, layer->expert_hidden};

    add_weight(d, "router", true, 2, router);
    if (layer->gated) add_weight(d, "gate", true, 3, up);
    add_weight(d, "up", true, 3, up);
    add_weight(d, "down", true, 3, down);
}

static void add_matrix(const pdl_layer_t *layer, pdl_op_description_t *d)
{
    bool    transposed = pdl_layer_traits(layer)->transposed, window = pdl_layer_traits(layer)->window;
    int64_t dims[5] = {transposed ? layer->in.channels : layer->out.channels,
                       (transposed ? layer->out.channels : layer->in.channels) / layer->groups, layer->kernel[0],
                       layer->kernel[1], layer->kernel[2]};

    add_weight(d, "weight", true, window ? 2 + layer->in.rank : 2, dims);
}

static void add_weights(const pdl_op_spec_t *spec, pdl_op_description_t *d)
{
    const pdl_layer_t  *layer = spec->layer;
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    const int64_t      *channels = &layer->out.channels;
    int64_t             table[2] = {layer->vocabulary, *channels},
            places[2] = {spec->context > 0 ? spec->context : layer->out.extent[0], *channels};

    if (layer->rows > 0) places[0] = layer->rows;
    if (layer->qk_norm) add_weight(d, "norms", true, 1, &(int64_t){2 * layer->head_dim});
    switch (traits->kernel) {
    case PDL_KERNEL_NONE: return;
    case PDL_KERNEL_MATRIX: add_matrix(layer, d); break;
    case PDL_KERNEL_SCALE: add_weight(d, "weight", true, 1, channels); break;
    case PDL_KERNEL_TABLE: add_weight(d, "weight", true, 2, table); break;
    case PDL_KERNEL_EXPERTS: add_experts(spec, d); break;
    case PDL_KERNEL_POSITIONS:
        add_weight(d, "weight", true, 2, places);
        if (layer->class_token) add_weight(d, "class_token", true, 1, channels);
        break;
    }
    if (traits->bias && layer->bias) add_weight(d, "bias", true, 1, channels);
    if (!traits->statistics) return;
    add_weight(d, "running_mean", false, 1, channels);
    add_weight(d, "running_var", false, 1, channels);
}

/* Kept besides inputs and output: masks of a byte, the hidden values of experts, scores where they are kept. */
static double kept_inside(const generic_t *generic, const pdl_op_spec_t *spec)
{
    const pdl_layer_t  *layer = spec->layer;
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    double              item = (double)pdl_dtype_bytes(generic->base.activation_type);
    double              y = (double)(pdl_shape_elements(&layer->out) * spec->samples);

    if (traits->drops) return layer->rate > 0 ? y : 0;
    if (traits->work == PDL_WORK_EXPERTS)
        return item * y * pdl_layer_expert_rows(layer) *
               (1 + (layer->gated ? 3 : 2) * (double)layer->expert_hidden / (double)layer->in.channels);
    if (traits->work == PDL_WORK_ATTENTION && generic->keeps_scores)
        return item * (double)(spec->samples * layer->heads) * (double)(layer->in.extent[0] * layer->in.extent[0]);
    return 0;
}

static void describe_gradients(const pdl_op_spec_t *spec, pdl_op_description_t *d)
{
    const pdl_traits_t *traits = pdl_layer_traits(spec->layer);

    for (int i = 0; i < spec->input_count; i++) {
        bool passed = traits->combine == PDL_COMBINE_SUM || traits->view != PDL_VIEW_NONE;
        d->gradient_use[i] = passed               ? PDL_GRADIENT_PASSED
                             : traits->activation ? PDL_GRADIENT_INPLACE
                                                  : PDL_GRADIENT_OWN;
    }
}

static pdl_status_t op_describe(pdl_backend_t *backend, const pdl_op_spec_t *spec,
                                pdl_op_description_t *description)
{
    const pdl_layer_t   *layer = spec->layer;
    const pdl_traits_t  *traits = pdl_layer_traits(layer);
    pdl_op_description_t d = {.out_format = PDL_FORMAT_PLAIN};

    if (spec->input_count < 1 || spec->input_count > PDL_MAX_INPUTS)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: %d inputs; a layer has 1 to %d", layer->name, spec->input_count,
                         PDL_MAX_INPUTS);
    if (!fuses(backend, layer, &spec->fusion))
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: the generic backend fuses nothing", layer->name);
    d.out_bytes = traits->loss != PDL_LOSS_NONE ? (size_t)(3 * spec->samples) * sizeof(float)
                                                : tensor_bytes(backend, &layer->out, spec->samples, d.out_format);
    d.inplace = traits->view != PDL_VIEW_NONE;
    if (spec->training) {
        d.saved_bytes = (size_t)kept_inside((const generic_t *)backend, spec);
        d.keeps_inputs = traits->keeps_inputs || traits->loss != PDL_LOSS_NONE ? (1u << spec->input_count) - 1 : 0;
        d.keeps_output = traits->keeps_output && traits->loss == PDL_LOSS_NONE;
    }
    if (traits->work == PDL_WORK_ATTENTION && spec->context > 0)
        d.cache_bytes = (size_t)(spec->samples * spec->context * layer->kv_heads *
                                 (layer->head_dim + pdl_attention_value_dim(layer))) *
                        pdl_dtype_bytes(backend->activation_type);
    describe_gradients(spec, &d);
    add_weights(spec, &d);
    pdl__describe_work(spec, &d);
    *description = d;
    return PDL_OK;
}

static pdl_status_t op_create(pdl_backend_t *backend, const pdl_op_spec_t *spec, pdl_op_t **op)
{
    (void)backend, (void)op;
    return pdl_error(PDL_ERR_UNSUPPORTED, "%s: the generic backend describes layers and computes none",
                     spec->layer->name);
}

static void op_destroy(pdl_op_t *op)
{
    (void)op; /* there is none */
}

static void destroy(pdl_backend_t *backend)
{
    free(backend);
}

static const pdl_backend_ops_t generic_ops = {.name = "generic",
                                              .fuses = fuses,
                                              .tensor_bytes = tensor_bytes,
                                              .op_describe = op_describe,
                                              .op_create = op_create,
                                              .op_destroy = op_destroy,
                                              .destroy = destroy};

pdl_status_t pdl_backend_create_generic(const pdl_generic_options_t *options, pdl_backend_t **backend)
{
    generic_t *made = malloc(sizeof(*made));

    if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the generic backend");
    *made = (generic_t){.base = {.ops = &generic_ops,
                                 .device = pdl_device_cpu(),
                                 .activation_type = options->precision,
                                 .weight_type = options->precision,
                                 .threads = 1,
                                 .block = 1},
                        .keeps_scores = options->keeps_scores};
    *backend = &made->base;
    return PDL_OK;
}
