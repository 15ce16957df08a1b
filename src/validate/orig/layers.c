/*
 * Layers as the published program sees them: operation counts, and the times that follow from
 * them, or from the measured total where a table has one.
 */
#include "validate/orig/case.h"

double pdl__orig_weights(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->norm ? 0 : (double)(layer->weights - layer->bias_weights);
}

/* f of the operation counts. Fully connected layers come out at half of what they do, pooling C times too large. */
static double forward_flop(const pdl_layer_t *layer)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);

    if (traits->original == NULL || traits->drops) return 0; /* what the program does not know, and dropout */
    if (traits->kernel == PDL_KERNEL_MATRIX) return (traits->window ? 2.0 : 1.0) * (double)pdl_layer_macs(layer);
    if (traits->flop.per == PDL_FLOP_PER_TAP) return (double)layer->in.channels * (double)layer->flop_forward;
    return traits->norm ? 4.0 * (double)layer->x_elements : (double)layer->y_elements;
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
