/*
 * Layers with several inputs: sum, product and concatenation along channels.
 */
#include "tensor/reference/reference.h"

#include <stddef.h>

static pdl_status_t forward_add(const pdl_op_t *op, const pdl_op_run_t *run)
{
    int64_t count = op->spec.samples * pdl_shape_elements(&op->spec.layer->out);
    double *y = run->output;

    for (int k = 0; k < op->spec.input_count; k++) {
        const double *x = run->input[k];

        for (int64_t i = 0; i < count; i++) y[i] += x[i];
    }
    return PDL_OK;
}

static pdl_status_t backward_add(const pdl_op_t *op, const pdl_op_run_t *run)
{
    int64_t       count = op->spec.samples * pdl_shape_elements(&op->spec.layer->out);
    const double *dy = run->output_gradient[0];

    for (int k = 0; k < op->spec.input_count; k++) {
        double *dx = run->input_gradient[k];

        for (int64_t i = 0; dx && i < count; i++) dx[i] = dy[i];
    }
    return PDL_OK;
}

/* Where factor k has the element of channel c and position p: one of a single position scales them all. */
static int64_t factor_at(const pdl_op_t *op, int k, int64_t n, int64_t c, int64_t p)
{
    const pdl_shape_t *shape = &op->spec.inputs[k];

    return pdl__reference_at(shape, n, c, pdl_shape_positions(shape) == 1 ? 0 : p);
}

/* The product of all factors but one; -1 leaves none out. */
static double product(const pdl_op_t *op, const pdl_op_run_t *run, int without, int64_t n, int64_t c, int64_t p)
{
    double result = 1;

    for (int k = 0; k < op->spec.input_count; k++)
        if (k != without) result *= ((const double *)run->input[k])[factor_at(op, k, n, c, p)];
    return result;
}

static pdl_status_t forward_mul(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t *out = &op->spec.layer->out;
    double            *y = run->output;

    for (int64_t n = 0; n < op->spec.samples; n++)
        for (int64_t c = 0; c < out->channels; c++)
            for (int64_t p = 0; p < pdl_shape_positions(out); p++)
                y[pdl__reference_at(out, n, c, p)] = product(op, run, -1, n, c, p);
    return PDL_OK;
}

static pdl_status_t backward_mul(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t *out = &op->spec.layer->out;
    const double      *dy = run->output_gradient[0];

    for (int k = 0; k < op->spec.input_count; k++) {
        double *dx = run->input_gradient[k];

        for (int64_t n = 0; dx && n < op->spec.samples; n++)
            for (int64_t c = 0; c < out->channels; c++)
                for (int64_t p = 0; p < pdl_shape_positions(out); p++)
                    dx[factor_at(op, k, n, c, p)] +=
                        dy[pdl__reference_at(out, n, c, p)] * product(op, run, k, n, c, p);
    }
    return PDL_OK;
}

static pdl_status_t forward_concat(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t *out = &op->spec.layer->out;
    double            *y = run->output;
    int64_t            first = 0;

    for (int k = 0; k < op->spec.input_count; k++) {
        const pdl_shape_t *in = &op->spec.inputs[k];
        const double      *x = run->input[k];

        for (int64_t n = 0; n < op->spec.samples; n++)
            for (int64_t c = 0; c < in->channels; c++)
                for (int64_t p = 0; p < pdl_shape_positions(out); p++)
                    y[pdl__reference_at(out, n, first + c, p)] = x[pdl__reference_at(in, n, c, p)];
        first += in->channels;
    }
    return PDL_OK;
}

static pdl_status_t backward_concat(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t *out = &op->spec.layer->out;
    const double      *dy = run->output_gradient[0];
    int64_t            first = 0;

    for (int k = 0; k < op->spec.input_count; k++) {
        const pdl_shape_t *in = &op->spec.inputs[k];
        double            *dx = run->input_gradient[k];

        for (int64_t n = 0; dx && n < op->spec.samples; n++)
            for (int64_t c = 0; c < in->channels; c++)
                for (int64_t p = 0; p < pdl_shape_positions(out); p++)
                    dx[pdl__reference_at(in, n, c, p)] = dy[pdl__reference_at(out, n, first + c, p)];
        first += in->channels;
    }
    return PDL_OK;
}

const pdl__reference_kind_t pdl__reference_add = {NULL, forward_add, backward_add};
const pdl__reference_kind_t pdl__reference_mul = {NULL, forward_mul, backward_mul};
const pdl__reference_kind_t pdl__reference_concat = {NULL, forward_concat, backward_concat};
