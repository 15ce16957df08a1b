/*
 * Losses. The output is [3][samples]: the loss of each sample, the share of its positions that were predicted
 * right, and the probability given to the right class.
 */
#include "tensor/reference/reference.h"

#include <math.h>
#include <stddef.h>

/* What one position says: softmax by its largest logit and the sum of exponentials. */
typedef struct position {
    double  largest, sum;
    int64_t best;
} position_t;

static position_t look(const pdl_shape_t *shape, const double *x, int64_t n, int64_t p)
{
    position_t at = {.largest = -INFINITY};

    for (int64_t c = 0; c < shape->channels; c++) {
        double value = x[pdl__reference_at(shape, n, c, p)];

        if (value > at.largest) {
            at.largest = value;
            at.best = c;
        }
    }
    for (int64_t c = 0; c < shape->channels; c++) at.sum += exp(x[pdl__reference_at(shape, n, c, p)] - at.largest);
    return at;
}

static int64_t counted(const int32_t *classes, int64_t positions)
{
    int64_t count = 0;

    for (int64_t p = 0; p < positions; p++) count += classes[p] >= 0;
    return count;
}

/* Adds one position to loss, hits and probability of its sample. */
static void add_position(const pdl_op_run_t *run, const pdl_shape_t *shape, int64_t n, int64_t p, int32_t class,
                         double share, double result[3])
{
    const double *x = run->input[0];
    position_t    at = look(shape, x, n, p);
    double        right = x[pdl__reference_at(shape, n, class, p)] - at.largest - log(at.sum), all = 0;

    for (int64_t c = 0; c < shape->channels; c++)
        all += x[pdl__reference_at(shape, n, c, p)] - at.largest - log(at.sum);
    result[0] -=
        share * ((1 - run->label_smoothing) * right + run->label_smoothing * all / (double)shape->channels);
    result[1] += share * (at.best == class && isfinite(right)); /* no answer is right where a logit is a NaN */
    result[2] += share * exp(right);
}

static pdl_status_t forward_cross_entropy(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t *shape = &op->spec.layer->in;
    int64_t            positions = pdl_shape_positions(shape), samples = op->spec.samples;
    double            *out = run->output;

    if (op->spec.classes > 0) return pdl__reference_split_forward(op, run);
    for (int64_t n = 0; n < samples; n++) {
        const int32_t *classes = (const int32_t *)run->target + n * positions;
        int64_t        count = counted(classes, positions);
        double         result[3] = {0, 0, 0};

        for (int64_t p = 0; p < positions; p++) {
            if (classes[p] >= shape->channels)
                return pdl_error(PDL_ERR_INPUT, "layer %s: class %d, but the network tells only %lld apart",
                                 op->spec.layer->name, (int)classes[p], (long long)shape->channels);
            if (classes[p] >= 0) add_position(run, shape, n, p, classes[p], 1 / (double)count, result);
        }
        for (int i = 0; i < 3; i++) out[i * samples + n] = result[i];
    }
    return PDL_OK;
}

static double sample_scale(const pdl_op_run_t *run, int64_t n)
{
    return run->loss_scale * (run->sample_weight ? run->sample_weight[n] : 1);
}

static pdl_status_t backward_cross_entropy(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t *shape = &op->spec.layer->in;
    int64_t            positions = pdl_shape_positions(shape);
    const double      *x = run->input[0];
    double            *dx = run->input_gradient[0], smoothing = run->label_smoothing;

    if (op->spec.classes > 0) {
        pdl__reference_split_backward(op, run);
        return PDL_OK;
    }
    for (int64_t n = 0; dx && n < op->spec.samples; n++) {
        const int32_t *classes = (const int32_t *)run->target + n * positions;
        double         scale = sample_scale(run, n) / (double)counted(classes, positions);

        for (int64_t p = 0; p < positions; p++) {
            position_t at = look(shape, x, n, p);

            for (int64_t c = 0; c < shape->channels; c++) {
                int64_t i = pdl__reference_at(shape, n, c, p);
                double  wanted = (c == classes[p] ? 1 - smoothing : 0) + smoothing / (double)shape->channels;

                dx[i] = classes[p] < 0 ? 0 : scale * (exp(x[i] - at.largest) / at.sum - wanted);
            }
        }
    }
    return PDL_OK;
}

static pdl_status_t forward_mse(const pdl_op_t *op, const pdl_op_run_t *run)
{
    int64_t       count = pdl_shape_elements(&op->spec.layer->in);
    const double *x = run->input[0], *target = run->target;
    double       *out = run->output;

    for (int64_t n = 0; n < op->spec.samples; n++)
        for (int64_t i = n * count; i < (n + 1) * count; i++)
            out[n] += (x[i] - target[i]) * (x[i] - target[i]) / (double)count;
    return PDL_OK;
}

static pdl_status_t backward_mse(const pdl_op_t *op, const pdl_op_run_t *run)
{
    int64_t       count = pdl_shape_elements(&op->spec.layer->in);
    const double *x = run->input[0], *target = run->target;
    double       *dx = run->input_gradient[0];

    for (int64_t n = 0; dx && n < op->spec.samples; n++)
        for (int64_t i = n * count; i < (n + 1) * count; i++)
            dx[i] = sample_scale(run, n) * 2 * (x[i] - target[i]) / (double)count;
    return PDL_OK;
}

const pdl__reference_kind_t pdl__reference_cross_entropy = {pdl__reference_split_describe, forward_cross_entropy,
                                                            backward_cross_entropy};
const pdl__reference_kind_t pdl__reference_mse = {NULL, forward_mse, backward_mse};
