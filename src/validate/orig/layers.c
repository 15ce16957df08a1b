/*
 * Layers as the published program sees them: operation counts, and the times that follow from
 * them, or from the measured total where a table has one.
 */
#include "validate/orig/case.h"

double pdl__orig_weights(const pdl_layer_t *layer)
{
    switch (layer->type) {
    case PDL_LAYER_BATCH_NORM:
    case PDL_LAYER_LAYER_NORM:
    case PDL_LAYER_RMS_NORM:
    case PDL_LAYER_GROUP_NORM: return 0;
    default: return (double)(layer->weights - layer->bias_weights);
    }
}

/* f of the operation counts. Fully connected layers come out at half of what they do, pooling C times too large. */
static double forward_flop(const pdl_layer_t *layer)
{
    switch (layer->type) {
    case PDL_LAYER_CONV:
    case PDL_LAYER_CONV_TRANSPOSE: return 2.0 * (double)pdl_layer_macs(layer);
    case PDL_LAYER_LINEAR: return (double)pdl_layer_macs(layer);
    case PDL_LAYER_MAX_POOL:
    case PDL_LAYER_AVG_POOL:
    case PDL_LAYER_GLOBAL_AVG_POOL: return (double)layer->in.channels * (double)layer->flop_forward;
    case PDL_LAYER_RELU:
    case PDL_LAYER_LEAKY_RELU:
    case PDL_LAYER_ADD: return (double)layer->y_elements;
    case PDL_LAYER_BATCH_NORM: return 4.0 * (double)layer->x_elements;
    default: return 0; /* dropout, and what the program does not know */
    }
}

/* Backward counts as much as forward; the weight gradient as one operation per weight. */
double pdl_orig_flop(const pdl_layer_t *layer)
{
    return 2.0 * forward_flop(layer) + pdl__orig_weights(layer);
}

pdl_status_t pdl_orig_layer_seconds(const pdl_model_t *model, double flop_per_s, double *seconds)
{
    int    count = pdl_model_layer_count(model);
    double measured = 0, flop = 0, per_flop;

    for (int i = 0; i < count; i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);

        measured += layer->measured_s;
        flop += pdl_orig_flop(layer);
    }
    if (!(flop > 0))
        return pdl_error(PDL_ERR_INPUT, "model %s has no layer whose operations the original formulas count",
                         pdl_model_name(model));
    if (!(measured > 0) && !(flop_per_s > 0))
        return pdl_error(PDL_ERR_INPUT, "model %s has no measured times; choose a system that gives an fp64 peak",
                         pdl_model_name(model));
    per_flop = measured > 0 ? measured / flop : 1 / flop_per_s;
    for (int i = 0; i < count; i++) seconds[i] = pdl_orig_flop(pdl_model_layer(model, i)) * per_flop;
    return PDL_OK;
}
