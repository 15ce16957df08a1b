/*
 * Pooling: the maximum or the mean of a window, or the mean of all positions.
 */
#include "tensor/reference/reference.h"

#include <math.h>
#include <stddef.h>

/* Input position under element e of the window at output position p, or -1 in the padding. */
static int64_t under(const pdl_layer_t *layer, int64_t p, int64_t e)
{
    int64_t at[PDL_MAX_SPACE], k[PDL_MAX_SPACE];

    pdl__reference_part(layer->out.extent, p, at);
    pdl__reference_part(layer->kernel, e, k);
    for (int d = 0; d < PDL_MAX_SPACE; d++) {
        at[d] = at[d] * layer->stride[d] - layer->pad_low[d] + k[d] * layer->dilation[d];
        if (at[d] < 0 || at[d] >= layer->in.extent[d]) return -1;
    }
    return pdl__reference_join(&layer->in, at);
}

static int64_t window(const pdl_layer_t *layer)
{
    return layer->kernel[0] * layer->kernel[1] * layer->kernel[2];
}

/* Index of the first maximum of a window, or -1 when all of it is padding. NaN counts as larger than everything. */
static int64_t find_max(const pdl_layer_t *layer, const double *x, int64_t n, int64_t c, int64_t p)
{
    int64_t best = -1;

    for (int64_t e = 0; e < window(layer); e++) {
        int64_t position = under(layer, p, e), i;

        if (position < 0) continue;
        i = pdl__reference_at(&layer->in, n, c, position);
        if (best < 0 || x[i] > x[best] || isnan(x[i])) best = i;
    }
    return best;
}

static pdl_status_t forward_max(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    const double      *x = run->input[0];
    double            *y = run->output;

    for (int64_t n = 0; n < op->spec.samples; n++)
        for (int64_t c = 0; c < layer->in.channels; c++)
            for (int64_t p = 0; p < pdl_shape_positions(&layer->out); p++) {
                int64_t best = find_max(layer, x, n, c, p);

                y[pdl__reference_at(&layer->out, n, c, p)] = best < 0 ? 0 : x[best];
            }
    return PDL_OK;
}

static pdl_status_t backward_max(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    const double      *x = run->input[0], *dy = run->output_gradient[0];
    double            *dx = run->input_gradient[0];

    for (int64_t n = 0; dx && n < op->spec.samples; n++)
        for (int64_t c = 0; c < layer->in.channels; c++)
            for (int64_t p = 0; p < pdl_shape_positions(&layer->out); p++) {
                int64_t best = find_max(layer, x, n, c, p);

                if (best >= 0) dx[best] += dy[pdl__reference_at(&layer->out, n, c, p)];
            }
    return PDL_OK;
}

/* What the sum of the window at p is divided by. */
static double divisor(const pdl_layer_t *layer, int64_t p)
{
    int64_t inside = 0;

    if (layer->count_padding) return (double)window(layer);
    for (int64_t e = 0; e < window(layer); e++) inside += under(layer, p, e) >= 0;
    return inside > 0 ? (double)inside : 1;
}

/* Both directions of average pooling: y[o] += x[i] / d, or dx[i] += dy[o] / d. */
static void average(const pdl_op_t *op, const double *x, double *y, const double *dy, double *dx)
{
    const pdl_layer_t *layer = op->spec.layer;

    for (int64_t n = 0; n < op->spec.samples; n++)
        for (int64_t c = 0; c < layer->in.channels; c++)
            for (int64_t p = 0; p < pdl_shape_positions(&layer->out); p++) {
                int64_t o = pdl__reference_at(&layer->out, n, c, p);

                for (int64_t e = 0; e < window(layer); e++) {
                    int64_t position = under(layer, p, e), i;

                    if (position < 0) continue;
                    i = pdl__reference_at(&layer->in, n, c, position);
                    if (y) y[o] += x[i] / divisor(layer, p);
                    if (dx) dx[i] += dy[o] / divisor(layer, p);
                }
            }
}

static pdl_status_t forward_avg(const pdl_op_t *op, const pdl_op_run_t *run)
{
    average(op, run->input[0], run->output, NULL, NULL);
    return PDL_OK;
}

static pdl_status_t backward_avg(const pdl_op_t *op, const pdl_op_run_t *run)
{
    average(op, NULL, NULL, run->output_gradient[0], run->input_gradient[0]);
    return PDL_OK;
}

static pdl_status_t forward_global(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            positions = pdl_shape_positions(&layer->in);
    double             all = (double)positions / (op->spec.share > 0 ? op->spec.share : 1);
    const double      *x = run->input[0];
    double            *y = run->output;

    for (int64_t n = 0; n < op->spec.samples; n++)
        for (int64_t c = 0; c < layer->in.channels; c++)
            for (int64_t p = 0; p < positions; p++)
                y[n * layer->in.channels + c] += x[pdl__reference_at(&layer->in, n, c, p)] / all;
    return PDL_OK;
}

static pdl_status_t backward_global(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            positions = pdl_shape_positions(&layer->in);
    double             all = (double)positions / (op->spec.share > 0 ? op->spec.share : 1);
    const double      *dy = run->output_gradient[0];
    double            *dx = run->input_gradient[0];

    for (int64_t n = 0; dx && n < op->spec.samples; n++)
        for (int64_t c = 0; c < layer->in.channels; c++)
            for (int64_t p = 0; p < positions; p++)
                dx[pdl__reference_at(&layer->in, n, c, p)] = dy[n * layer->in.channels + c] / all;
    return PDL_OK;
}

const pdl__reference_kind_t pdl__reference_max_pool = {NULL, forward_max, backward_max};
const pdl__reference_kind_t pdl__reference_avg_pool = {NULL, forward_avg, backward_avg};
const pdl__reference_kind_t pdl__reference_global_pool = {NULL, forward_global, backward_global};
