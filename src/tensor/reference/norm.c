/*
 * Layer, RMS and group norm: a sample falls into sets of elements, each of which is brought to mean 0 (not in RMS
 * norm) and mean square 1, then scaled and shifted channel by channel.
 */
#include "tensor/reference/reference.h"

#include <math.h>
#include <stddef.h>

/* Channels and positions of one sample that are normalised together. */
typedef struct set {
    int64_t sample, first_channel, last_channel, first_position, last_position; /* last: one beyond */
} set_t;

typedef struct statistics {
    double mean, rstd;
} statistics_t;

typedef struct norm {
    const pdl_layer_t *layer;
    const double      *x, *dy, *weight, *bias;
    double            *y, *dx, *dweight, *dbias;
} norm_t;

static int64_t set_count(const pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;

    if (layer->type == PDL_LAYER_GROUP_NORM) return op->spec.samples * layer->groups;
    return op->spec.samples * pdl_shape_positions(&layer->in);
}

static set_t find_set(const pdl_layer_t *layer, int64_t i)
{
    int64_t positions = pdl_shape_positions(&layer->in), channels = layer->in.channels;

    if (layer->type == PDL_LAYER_GROUP_NORM) {
        int64_t group = i % layer->groups, width = channels / layer->groups;

        return (set_t){i / layer->groups, group * width, (group + 1) * width, 0, positions};
    }
    return (set_t){i / positions, 0, channels, i % positions, i % positions + 1};
}

static statistics_t measure(const norm_t *norm, const set_t *set)
{
    int64_t count = (set->last_channel - set->first_channel) * (set->last_position - set->first_position);
    double  sum = 0, squares = 0, mean = 0;

    for (int64_t c = set->first_channel; c < set->last_channel; c++)
        for (int64_t p = set->first_position; p < set->last_position; p++)
            sum += norm->x[pdl__reference_at(&norm->layer->in, set->sample, c, p)];
    if (norm->layer->type != PDL_LAYER_RMS_NORM) mean = sum / (double)count;
    for (int64_t c = set->first_channel; c < set->last_channel; c++)
        for (int64_t p = set->first_position; p < set->last_position; p++) {
            double from_mean = norm->x[pdl__reference_at(&norm->layer->in, set->sample, c, p)] - mean;

            squares += from_mean * from_mean;
        }
    return (statistics_t){mean, 1 / sqrt(squares / (double)count + norm->layer->epsilon)};
}

static void forward_set(const norm_t *norm, const set_t *set)
{
    statistics_t s = measure(norm, set);

    for (int64_t c = set->first_channel; c < set->last_channel; c++)
        for (int64_t p = set->first_position; p < set->last_position; p++) {
            int64_t i = pdl__reference_at(&norm->layer->in, set->sample, c, p);

            norm->y[i] = (norm->x[i] - s.mean) * s.rstd * norm->weight[c] + (norm->bias ? norm->bias[c] : 0);
        }
}

/* With z the normalised x and g = dy * weight: dx = rstd (g - mean(g) - z mean(g z)); RMS norm has no mean(g). */
static void backward_set(const norm_t *norm, const set_t *set)
{
    statistics_t s = measure(norm, set);
    int64_t      count = (set->last_channel - set->first_channel) * (set->last_position - set->first_position);
    double       mean_g = 0, mean_gz = 0;

    for (int64_t c = set->first_channel; c < set->last_channel; c++)
        for (int64_t p = set->first_position; p < set->last_position; p++) {
            int64_t i = pdl__reference_at(&norm->layer->in, set->sample, c, p);
            double  z = (norm->x[i] - s.mean) * s.rstd;

            mean_g += norm->dy[i] * norm->weight[c] / (double)count;
            mean_gz += norm->dy[i] * norm->weight[c] * z / (double)count;
            if (norm->dweight) norm->dweight[c] += norm->dy[i] * z;
            if (norm->dbias) norm->dbias[c] += norm->dy[i];
        }
    if (norm->layer->type == PDL_LAYER_RMS_NORM) mean_g = 0;
    for (int64_t c = set->first_channel; norm->dx && c < set->last_channel; c++)
        for (int64_t p = set->first_position; p < set->last_position; p++) {
            int64_t i = pdl__reference_at(&norm->layer->in, set->sample, c, p);
            double  z = (norm->x[i] - s.mean) * s.rstd;

            norm->dx[i] = s.rstd * (norm->dy[i] * norm->weight[c] - mean_g - z * mean_gz);
        }
}

static void describe(pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;

    pdl__reference_weight(op, "weight", true, 1, &layer->out.channels);
    if (layer->bias) pdl__reference_weight(op, "bias", true, 1, &layer->out.channels);
}

static pdl_status_t forward(const pdl_op_t *op, const pdl_op_run_t *run)
{
    norm_t norm = {.layer = op->spec.layer,
                   .x = run->input[0],
                   .weight = run->weight[0],
                   .bias = op->description.weight_count > 1 ? run->weight[1] : NULL,
                   .y = run->output};

    for (int64_t i = 0; i < set_count(op); i++) {
        set_t set = find_set(norm.layer, i);

        forward_set(&norm, &set);
    }
    return PDL_OK;
}

static pdl_status_t backward(const pdl_op_t *op, const pdl_op_run_t *run)
{
    norm_t norm = {.layer = op->spec.layer,
                   .x = run->input[0],
                   .dy = run->output_gradient[0],
                   .weight = run->weight[0],
                   .dx = run->input_gradient[0],
                   .dweight = run->weight_gradient[0],
                   .dbias = op->description.weight_count > 1 ? run->weight_gradient[1] : NULL};

    for (int64_t i = 0; i < set_count(op); i++) {
        set_t set = find_set(norm.layer, i);

        backward_set(&norm, &set);
    }
    return PDL_OK;
}

const pdl__reference_kind_t pdl__reference_layer_norm = {describe, forward, backward};
const pdl__reference_kind_t pdl__reference_rms_norm = {describe, forward, backward};
const pdl__reference_kind_t pdl__reference_group_norm = {describe, forward, backward};
