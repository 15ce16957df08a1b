/*
 * Layers as they were measured. A layer takes what a kernel of its work takes at the speed of the device, times a factor: that
 * of measured layers that are like it, the nearer the more, and its trend with the work. One that is like
 * none takes what the roofline says. Near means of the same type, with about as much work, as many channels and as large a
 * window, with a halo or without (docs/calibration.md).
 */
#include "oracle/cost/cost.h"
#include <math.h>

/* Logarithms that count as one step; how far off a layer is that is not known at all; squared distance within which rows count alike, and by which
   those are farther that another kernel computes. */
static const double WORK_SCALE = 2, UNKNOWN = 4, CLOSE = 0.02, OTHER_KERNEL = 1;
/* How far apart in work rows must be before their trend is believed, and how steep it may be. */
static const double TREND_SPREAD = 0.3, STEEPEST = 1;

bool pdl__measured_in(const pdl_system_t *system, pdl_precision_t precision)
{
    for (int i = 0; i < system->measured_count; i++)
        if (system->measured[i].precision == (int)precision) return true;
    return false;
}

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

void pdl_measured_describe(const pdl_model_t *model, const pdl_layer_t *layer, const pdl_local_t *local,
                           pdl_precision_t precision, pdl_measured_t *row)
{
    double bytes = local->samples * pdl_precision_bytes(precision) * (local->x_elements + local->y_elements);

    *row = (pdl_measured_t){.layer = layer->type,
                            .precision = (int)precision,
                            .after = type_before(model, layer),
                            .work = {bytes, bytes},
                            .in_channels = fmax(1, local->in_channels),
                            .out_channels = fmax(1, local->out_channels),
                            .window = 1};
    for (int k = 0; k < PDL_MAX_SPACE; k++)
        if (layer->kernel[k] > 1) row->window *= (double)layer->kernel[k];
    row->drops = pdl_layer_traits(layer)->work == PDL_WORK_ATTENTION && layer->rate > 0;
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
           (a->halo != b->halo ? OTHER_KERNEL : 0) + (a->drops != b->drops ? OTHER_KERNEL : 0);
}

/* What a kernel of so much work takes at the reachable speed of the device. */
static double plain_seconds(const pdl_compute_cost_t *cost, int layer, double work)
{
    bool product =
        layer != PDL_MEASURED_UPDATE && pdl_type_traits((pdl_layer_type_t)layer)->work != PDL_WORK_ELEMENTS;

    return cost->kernel_s + work / (product ? cost->flop_per_s : cost->bytes_per_s);
}

/* A line through the logarithms of factors over the logarithms of work, weighted. */
typedef struct trend {
    double weight, x, xx, y, xy;
} trend_t;

static void add_point(trend_t *t, double weight, double x, double y)
{
    t->weight += weight;
    t->x += weight * x;
    t->xx += weight * x * x;
    t->y += weight * y;
    t->xy += weight * x * y;
}

/* At x = 0. */
static double trend_value(const trend_t *t)
{
    double spread = t->xx - t->x * t->x / t->weight, both = t->xy - t->x * t->y / t->weight;
    double slope = both / (spread + TREND_SPREAD * t->weight);

    return (t->y - fmin(fmax(slope, -STEEPEST), STEEPEST) * t->x) / t->weight;
}

/* How many times more or less work than in a row of the same layer its line is believed. */
static const double SAME_LAYER = 4;

/* Rows of this very layer with other numbers of samples: their line, and a kernel at least with less work than any. 0: there are none near. */
static double on_rows(const pdl_compute_cost_t *cost, const pdl_measured_t *row, int i)
{
    const pdl_measured_t *below = NULL, *above = NULL;

    for (int k = 0; k < cost->measured_count; k++) {
        const pdl_measured_t *m = &cost->measured[k];
        pdl_measured_t        same = *m;

        same.work[i] = row->work[i];
        if (m->layer != row->layer || m->after != row->after || m->precision != row->precision ||
            !(m->work[i] > 0) || !(m->seconds[i] > 0) || distance(&same, row, i) > 0)
            continue;
        if (m->work[i] <= row->work[i] && (below == NULL || m->work[i] > below->work[i])) below = m;
        if (m->work[i] >= row->work[i] && (above == NULL || m->work[i] < above->work[i])) above = m;
    }
    if (below != NULL && above != NULL && below->work[i] < above->work[i]) {
        double share = (row->work[i] - below->work[i]) / (above->work[i] - below->work[i]);
        return below->seconds[i] + share * (above->seconds[i] - below->seconds[i]);
    }
    const pdl_measured_t *near = below != NULL ? below : above;
    if (near == NULL || fmax(near->work[i] / row->work[i], row->work[i] / near->work[i]) > SAME_LAYER) return 0;
    double begin = fmin(cost->kernel_s, near->seconds[i]);
    return begin + (near->seconds[i] - begin) * row->work[i] / near->work[i];
}

static double corrected(const pdl_compute_cost_t *cost, const pdl_measured_t *row, int i, double seconds)
{
    trend_t trend = {0};
    double  nearest = UNKNOWN, plain_s = plain_seconds(cost, row->layer, row->work[i]);
    bool    nothing = false;

    double same_s = on_rows(cost, row, i);
    if (same_s > 0) return same_s;
    if (seconds > 0) add_point(&trend, 1 / square(UNKNOWN), 0, log(seconds / plain_s));
    for (int k = 0; k < cost->measured_count; k++) {
        const pdl_measured_t *m = &cost->measured[k];
        if (m->layer != row->layer || m->after != row->after || m->precision != row->precision || !(m->work[i] > 0))
            continue;
        double d = distance(m, row, i);
        if (d < nearest) {
            nearest = d;
            nothing = m->seconds[i] <= 0;
        }
        if (m->seconds[i] <= 0) continue;
        add_point(&trend, 1 / square(CLOSE + d), log(m->work[i] / row->work[i]),
                  log(m->seconds[i] / plain_seconds(cost, m->layer, m->work[i])));
    }
    if (nothing) return 0;
    return trend.weight > 0 ? plain_s * exp(trend_value(&trend)) : seconds;
}

void pdl__measured_apply(const pdl_compute_cost_t *cost, const pdl_measured_t *row, double seconds[2])
{
    for (int i = 0; i < 2; i++)
        if (row->work[i] > 0) seconds[i] = corrected(cost, row, i, seconds[i]);
}
