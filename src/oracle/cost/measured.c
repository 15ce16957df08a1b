/*
 * Layers as they were measured. A layer that is like measured ones takes its work over the speed of those, the
 * nearer the more; one that is like none takes what the roofline says. Near means of the same type, with about as much
 * work, as many channels and as large a window, with a halo or without (docs/calibration.md).
 */
#include "oracle/cost/cost.h"
#include <math.h>

/* Logarithms that count as one step; how far off a layer is that is not known at all; squared distance within which rows count alike, and by which
   those are farther that another kernel computes. */
static const double WORK_SCALE = 2, UNKNOWN = 4, CLOSE = 0.02, OTHER_KERNEL = 1;

/* The type of the latest layer that an activation or a sum reads, dropout left aside: that may compute it along. */
static int type_before(const pdl_model_t *model, const pdl_layer_t *layer)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    int                 latest = 0;

    if (!traits->activation && traits->combine != PDL_COMBINE_SUM) return -1;
    for (int j = 0; j < layer->input_count; j++)
        if (layer->inputs[j] > latest) latest = layer->inputs[j];
    const pdl_layer_t *before = pdl_model_layer(model, latest);
    while (pdl_layer_is_identity(before)) before = pdl_model_layer(model, before->inputs[0]);
    /* What others read too must be there by itself. */
    return before->consumer_count == 1 ? (int)before->type : (int)PDL_LAYER_INPUT;
}

void pdl__measured_describe(const pdl_model_t *model, const pdl_layer_t *layer, const pdl_local_t *local,
                            pdl_measured_t *row)
{
    double bytes = local->samples * 4.0 * (local->x_elements + local->y_elements);

    *row = (pdl_measured_t){.layer = layer->type,
                            .after = type_before(model, layer),
                            .work = {bytes, bytes},
                            .in_channels = fmax(1, local->in_channels),
                            .out_channels = fmax(1, local->out_channels),
                            .window = 1};
    for (int k = 0; k < PDL_MAX_SPACE; k++)
        if (layer->kernel[k] > 1) row->window *= (double)layer->kernel[k];
    row->halo = row->window > 1 && local->split_space;
    if (pdl_layer_traits(layer)->work == PDL_WORK_ELEMENTS) return;
    row->work[0] = local->samples * (double)layer->flop_forward * local->share_forward;
    row->work[1] = local->samples * (double)layer->flop_backward_weight * local->share_backward_weight;
    if (layer->needs_input_gradient)
        row->work[1] += local->samples * (double)layer->flop_backward_data * local->share_backward_data;
}

static double square(double x)
{
    return x * x;
}

/* Squared distance of two layers, as far as the pass `i` goes. */
static double distance(const pdl_measured_t *a, const pdl_measured_t *b, int i)
{
    return square(log(a->work[i] / b->work[i]) / WORK_SCALE) + square(log(a->in_channels / b->in_channels)) +
           square(log(a->out_channels / b->out_channels)) + square(log(a->window / b->window)) +
           (a->halo != b->halo ? OTHER_KERNEL : 0);
}

static double corrected(const pdl_compute_cost_t *cost, const pdl_measured_t *row, int i, double seconds)
{
    double sum = 0, weights = 0, nearest = UNKNOWN;
    bool   nothing = false;

    if (seconds > 0) {
        weights = 1 / square(UNKNOWN);
        sum = weights * log(seconds / row->work[i]);
    }
    for (int k = 0; k < cost->measured_count; k++) {
        const pdl_measured_t *m = &cost->measured[k];
        if (m->layer != row->layer || m->after != row->after || !(m->work[i] > 0)) continue;
        double d = distance(m, row, i);
        if (d < nearest) {
            nearest = d;
            nothing = m->seconds[i] <= 0;
        }
        if (m->seconds[i] <= 0) continue;
        double w = 1 / square(CLOSE + d);
        sum += w * log(m->seconds[i] / m->work[i]);
        weights += w;
    }
    if (nothing) return 0;
    return weights > 0 ? row->work[i] * exp(sum / weights) : seconds;
}

void pdl__measured_apply(const pdl_compute_cost_t *cost, const pdl_measured_t *row, double seconds[2])
{
    for (int i = 0; i < 2; i++)
        if (row->work[i] > 0) seconds[i] = corrected(cost, row, i, seconds[i]);
}
