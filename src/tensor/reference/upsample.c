/*
 * Upsampling: every output is a weighted sum of inputs, so both directions are one loop over input, output and
 * weight.
 */
#include "tensor/reference/reference.h"

#include <math.h>
#include <stddef.h>

/* The two inputs along dimension d that output i lies between, and the share of the second. */
static void between(const pdl_layer_t *layer, int d, int64_t i, int64_t low_high[2], double *share)
{
    int64_t in = layer->in.extent[d], out = layer->out.extent[d];
    double  centre = fmax(((double)i + 0.5) * (double)in / (double)out - 0.5, 0);

    if (!layer->bilinear) {
        low_high[0] = low_high[1] = i * in / out;
        *share = 0;
        return;
    }
    low_high[0] = (int64_t)centre < in - 1 ? (int64_t)centre : in - 1;
    low_high[1] = low_high[0] + 1 < in ? low_high[0] + 1 : low_high[0];
    *share = centre - (double)low_high[0];
}

/* All eight corners of the cell of output position p; those of no weight are left out. */
static void interpolate(const pdl_op_t *op, int64_t n, int64_t c, int64_t p, const pdl_op_run_t *run, bool back)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            at[PDL_MAX_SPACE], cell[PDL_MAX_SPACE][2], o = pdl__reference_at(&layer->out, n, c, p);
    double             share[PDL_MAX_SPACE];

    pdl__reference_part(layer->out.extent, p, at);
    for (int d = 0; d < PDL_MAX_SPACE; d++) between(layer, d, at[d], cell[d], &share[d]);
    for (unsigned corner = 0; corner < 8; corner++) {
        double  weight = 1;
        int64_t i;

        for (int d = 0; d < PDL_MAX_SPACE; d++) {
            bool high = corner >> d & 1;

            at[d] = cell[d][high];
            weight *= high ? share[d] : 1 - share[d];
        }
        if (weight == 0) continue;
        i = pdl__reference_at(&layer->in, n, c, pdl__reference_join(&layer->in, at));
        if (back)
            ((double *)run->input_gradient[0])[i] += weight * ((const double *)run->output_gradient[0])[o];
        else
            ((double *)run->output)[o] += weight * ((const double *)run->input[0])[i];
    }
}

static void every_output(const pdl_op_t *op, const pdl_op_run_t *run, bool back)
{
    const pdl_shape_t *out = &op->spec.layer->out;

    for (int64_t n = 0; n < op->spec.samples; n++)
        for (int64_t c = 0; c < out->channels; c++)
            for (int64_t p = 0; p < pdl_shape_positions(out); p++) interpolate(op, n, c, p, run, back);
}

static pdl_status_t forward(const pdl_op_t *op, const pdl_op_run_t *run)
{
    every_output(op, run, false);
    return PDL_OK;
}

static pdl_status_t backward(const pdl_op_t *op, const pdl_op_run_t *run)
{
    if (run->input_gradient[0]) every_output(op, run, true);
    return PDL_OK;
}

const pdl__reference_kind_t pdl__reference_upsample = {NULL, forward, backward};
