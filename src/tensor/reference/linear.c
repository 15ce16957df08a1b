/*
 * Linear layers, over the channels of every position, and the tables that sequences start with: embeddings and
 * learned positions.
 */
#include "tensor/reference/reference.h"

#include <stddef.h>

static void describe_linear(pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            dims[2] = {layer->out.channels, layer->in.channels};

    pdl__reference_weight(op, "weight", true, 2, dims);
    if (layer->bias) pdl__reference_weight(op, "bias", true, 1, &layer->out.channels);
}

static pdl_status_t forward_linear(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            rows = op->spec.samples * pdl_shape_positions(&layer->in);
    int64_t            ins = layer->in.channels, outs = layer->out.channels;
    const double      *x = run->input[0], *w = run->weight[0],
                 *bias = op->description.weight_count > 1 ? run->weight[1] : NULL;
    double *y = run->output;

    for (int64_t r = 0; r < rows; r++)
        for (int64_t f = 0; f < outs; f++) {
            double sum = bias ? bias[f] : 0;

            for (int64_t c = 0; c < ins; c++) sum += x[r * ins + c] * w[f * ins + c];
            y[r * outs + f] = sum;
        }
    return PDL_OK;
}

static pdl_status_t backward_linear(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            rows = op->spec.samples * pdl_shape_positions(&layer->in);
    int64_t            ins = layer->in.channels, outs = layer->out.channels;
    const double      *x = run->input[0], *w = run->weight[0], *dy = run->output_gradient[0];
    double            *dx = run->input_gradient[0], *dw = run->weight_gradient[0];
    double            *dbias = op->description.weight_count > 1 ? run->weight_gradient[1] : NULL;

    for (int64_t r = 0; r < rows; r++)
        for (int64_t f = 0; f < outs; f++) {
            double g = dy[r * outs + f];

            if (dbias) dbias[f] += g;
            for (int64_t c = 0; c < ins; c++) {
                if (dx) dx[r * ins + c] += g * w[f * ins + c];
                if (dw) dw[f * ins + c] += g * x[r * ins + c];
            }
        }
    return PDL_OK;
}

static void describe_embedding(pdl_op_t *op)
{
    int64_t dims[2] = {op->spec.layer->vocabulary, op->spec.layer->out.channels};

    pdl__reference_weight(op, "weight", true, 2, dims);
}

static pdl_status_t forward_embedding(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            rows = op->spec.samples * layer->in.extent[0], channels = layer->out.channels;
    int64_t            vocabulary = op->spec.classes > 0 ? op->spec.classes : layer->vocabulary;
    const int32_t     *tokens = run->input[0];
    const double      *w = run->weight[0];
    double            *y = run->output;

    for (int64_t r = 0; r < rows; r++) {
        int64_t row = tokens[r] - op->spec.first_class;

        if (tokens[r] < 0 || tokens[r] >= vocabulary)
            return pdl_error(PDL_ERR_INPUT, "layer %s: token %d is outside the vocabulary of %lld", layer->name,
                             (int)tokens[r], (long long)vocabulary);
        if (row < 0 || row >= layer->vocabulary) continue; /* another rank has it */
        for (int64_t c = 0; c < channels; c++) y[r * channels + c] = w[row * channels + c];
    }
    return PDL_OK;
}

static pdl_status_t backward_embedding(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            rows = op->spec.samples * layer->in.extent[0], channels = layer->out.channels;
    const int32_t     *tokens = run->input[0];
    const double      *dy = run->output_gradient[0];
    double            *dw = run->weight_gradient[0];

    for (int64_t r = 0; dw && r < rows; r++) {
        int64_t row = tokens[r] - op->spec.first_class;

        if (row < 0 || row >= layer->vocabulary) continue;
        for (int64_t c = 0; c < channels; c++) dw[row * channels + c] += dy[r * channels + c];
    }
    return PDL_OK;
}

static void describe_position(pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t dims[2] = {op->spec.context > 0 ? op->spec.context : layer->out.extent[0], layer->out.channels};

    pdl__reference_weight(op, "weight", true, 2, dims);
    if (layer->class_token) pdl__reference_weight(op, "class_token", true, 1, &layer->out.channels);
}

static pdl_status_t forward_position(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            channels = layer->out.channels, first = layer->class_token ? 1 : 0;
    const double      *x = run->input[0], *w = run->weight[0], *token = first ? run->weight[1] : NULL;
    double            *y = run->output;

    for (int64_t n = 0; n < op->spec.samples; n++)
        for (int64_t t = 0; t < layer->out.extent[0]; t++)
            for (int64_t c = 0; c < channels; c++) {
                double  from = t < first ? token[c] : x[pdl__reference_at(&layer->in, n, c, t - first)];
                int64_t at = op->spec.context > 0 ? run->past[n] + t : t;

                if (at < op->description.weight[0].dims[0]) from += w[at * channels + c];
                y[pdl__reference_at(&layer->out, n, c, t)] = from;
            }
    return PDL_OK;
}

static pdl_status_t backward_position(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            channels = layer->out.channels, first = layer->class_token ? 1 : 0;
    const double      *dy = run->output_gradient[0];
    double            *dx = run->input_gradient[0], *dw = run->weight_gradient[0];
    double            *dtoken = first ? run->weight_gradient[1] : NULL;

    for (int64_t n = 0; n < op->spec.samples; n++)
        for (int64_t t = 0; t < layer->out.extent[0]; t++)
            for (int64_t c = 0; c < channels; c++) {
                double g = dy[pdl__reference_at(&layer->out, n, c, t)];

                if (dw) dw[t * channels + c] += g;
                if (t < first && dtoken) dtoken[c] += g;
                if (t >= first && dx) dx[pdl__reference_at(&layer->in, n, c, t - first)] += g;
            }
    return PDL_OK;
}

const pdl__reference_kind_t pdl__reference_linear = {describe_linear, forward_linear, backward_linear};
const pdl__reference_kind_t pdl__reference_embedding = {describe_embedding, forward_embedding, backward_embedding};
const pdl__reference_kind_t pdl__reference_position = {describe_position, forward_position, backward_position};
