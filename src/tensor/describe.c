/*
 * The work of an op, which does not depend on who computes it.
 */
#include "tensor/describe.h"

static bool trains(const pdl_op_description_t *description)
{
    for (int k = 0; k < description->weight_count; k++)
        if (description->weight[k].trainable) return true;
    return false;
}

/* Backends describe and compute layers whatever is trained of them; backward is then asked for the gradients of inputs alone. */
static void freeze(const pdl_layer_t *layer, pdl_op_description_t *description)
{
    if (!layer->frozen) return;
    for (int k = 0; k < description->weight_count; k++) description->weight[k].trainable = false;
    if (!pdl_layer_keeps_inputs(layer)) description->keeps_inputs &= ~1u;
}

void pdl__describe_work(const pdl_op_spec_t *spec, pdl_op_description_t *description)
{
    double *flop = description->flop;
    double  fused = (spec->fusion.add ? 1 : 0) + (spec->fusion.activation != PDL_NO_ACTIVATION ? 1 : 0);

    freeze(spec->layer, description);
    pdl_layer_flop(spec->layer, flop);
    flop[0] += fused * (double)pdl_shape_elements(&spec->layer->out);
    flop[1] += fused * (double)pdl_shape_elements(&spec->layer->out);
    for (int i = 0; i < 3; i++) flop[i] *= (double)spec->samples;
    if (!spec->training || !spec->input_gradient) flop[1] = 0;
    if (!spec->training || !trains(description)) flop[2] = 0;
    /* Both gradients are products of matrices. */
    description->divides =
        pdl_layer_traits(spec->layer)->work == PDL_WORK_MATRIX && spec->training && trains(description);
}

/* What a model may say of a layer, for planning, and no kernel does. */
static const char *only_planned(const pdl_layer_t *layer)
{
    if (layer->value_dim > 0 && layer->value_dim != layer->head_dim) return "value_dim";
    if (layer->shared_dim > 0) return "shared_dim";
    if (layer->window > 0 && layer->window < layer->in.extent[0]) return "window";
    if (layer->qk_norm) return "qk_norm";
    if (layer->capacity_factor > 0) return "capacity_factor";
    return layer->rows > 0 ? "rows" : NULL;
}

pdl_status_t pdl__describe_check_computed(const pdl_layer_t *layer)
{
    const char *key = only_planned(layer);

    if (key == NULL) return PDL_OK;
    return pdl_error(PDL_ERR_UNSUPPORTED, "%s: %s with %s is planned and simulated, no kernel computes it yet",
                     layer->name, pdl_layer_type_name(layer->type), key);
}

pdl_status_t pdl__describe_check(const pdl_op_spec_t *spec, bool fuses)
{
    const pdl_layer_t *layer = spec->layer;

    if (spec->input_count < 1 || spec->input_count > PDL_MAX_INPUTS)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: %d inputs; a layer has 1 to %d", layer->name, spec->input_count,
                         PDL_MAX_INPUTS);
    if (spec->samples < 1)
        return pdl_error(PDL_ERR_INPUT, "%s: %lld samples; a micro-batch has at least 1", layer->name,
                         (long long)spec->samples);
    if (!fuses)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: %s cannot be fused with what follows it", layer->name,
                         pdl_layer_type_name(layer->type));
    return pdl__describe_check_computed(layer);
}
