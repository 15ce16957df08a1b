/*
 * Activations, element by element, and softmax and local response norm, which look across channels.
 */
#include "tensor/reference/reference.h"

#include <math.h>

#define PI 3.14159265358979323846

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* sqrt(2 / pi) (x + 0.044715 x^3) */
static double inside_tanh(double x)
{
    return sqrt(2 / PI) * (x + 0.044715 * x * x * x);
}

/* y = f(x) and its derivative; `slope` is the layer's, where it has one. */
#define FUNCTION(name, y, derivative)                       \
    static double name##_value(double slope, double x)      \
    {                                                       \
        (void)slope;                                        \
        return y;                                           \
    }                                                       \
    static double name##_derivative(double slope, double x) \
    {                                                       \
        (void)slope;                                        \
        return derivative;                                  \
    }

FUNCTION(relu, x<0 ? 0 : x, x> 0 ? 1 : 0) /* a NaN stays one */
FUNCTION(leaky_relu, x > 0 ? x : slope * x, x > 0 ? 1 : slope)
FUNCTION(gelu, x * 0.5 * erfc(-x / sqrt(2)), 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * PI))
FUNCTION(gelu_tanh, 0.5 * x * (1 + tanh(inside_tanh(x))),
         0.5 * (1 + tanh(inside_tanh(x))) + 0.5 * x * (1 - tanh(inside_tanh(x)) * tanh(inside_tanh(x))) *
                                                sqrt(2 / PI) * (1 + 3 * 0.044715 * x * x))
FUNCTION(silu, x *sigmoid(x), sigmoid(x) + x * sigmoid(x) * (1 - sigmoid(x)))
FUNCTION(hard_swish, x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6, x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6)
FUNCTION(tanh, tanh(x), 1 - tanh(x) * tanh(x))
FUNCTION(sigmoid, sigmoid(x), sigmoid(x) * (1 - sigmoid(x)))

static const struct {
    double (*value)(double slope, double x);
    double (*derivative)(double slope, double x);
} functions[PDL_LAYER_TYPE_COUNT] = {
    [PDL_LAYER_RELU] = {relu_value, relu_derivative},
    [PDL_LAYER_LEAKY_RELU] = {leaky_relu_value, leaky_relu_derivative},
    [PDL_LAYER_GELU] = {gelu_value, gelu_derivative},
    [PDL_LAYER_GELU_TANH] = {gelu_tanh_value, gelu_tanh_derivative},
    [PDL_LAYER_SILU] = {silu_value, silu_derivative},
    [PDL_LAYER_HARD_SWISH] = {hard_swish_value, hard_swish_derivative},
    [PDL_LAYER_TANH] = {tanh_value, tanh_derivative},
    [PDL_LAYER_SIGMOID] = {sigmoid_value, sigmoid_derivative},
};

double pdl__reference_activate(const pdl_layer_t *layer, pdl_layer_type_t type, double x)
{
    return functions[type].value != NULL ? functions[type].value(layer->slope, x) : x;
}

double pdl__reference_slope(const pdl_layer_t *layer, pdl_layer_type_t type, double x)
{
    return functions[type].derivative != NULL ? functions[type].derivative(layer->slope, x) : 1;
}

static pdl_status_t forward(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            count = op->spec.samples * pdl_shape_elements(&layer->in);
    const double      *x = run->input[0];
    double            *y = run->output;

    for (int64_t i = 0; i < count; i++) y[i] = pdl__reference_activate(layer, layer->type, x[i]);
    return PDL_OK;
}

static pdl_status_t backward(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            count = op->spec.samples * pdl_shape_elements(&layer->in);
    const double      *x = run->input[0], *dy = run->output_gradient[0];
    double            *dx = run->input_gradient[0];

    for (int64_t i = 0; dx && i < count; i++) dx[i] = dy[i] * pdl__reference_slope(layer, layer->type, x[i]);
    return PDL_OK;
}

static pdl_status_t forward_softmax(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t *shape = &op->spec.layer->in;
    const double      *x = run->input[0];
    double            *y = run->output;

    for (int64_t n = 0; n < op->spec.samples; n++)
        for (int64_t p = 0; p < pdl_shape_positions(shape); p++) {
            double largest = -INFINITY, sum = 0;

            for (int64_t c = 0; c < shape->channels; c++)
                largest = fmax(largest, x[pdl__reference_at(shape, n, c, p)]);
            for (int64_t c = 0; c < shape->channels; c++)
                sum += exp(x[pdl__reference_at(shape, n, c, p)] - largest);
            for (int64_t c = 0; c < shape->channels; c++) {
                int64_t i = pdl__reference_at(shape, n, c, p);

                y[i] = exp(x[i] - largest) / sum;
            }
        }
    return PDL_OK;
}

static pdl_status_t backward_softmax(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t *shape = &op->spec.layer->in;
    const double      *y = run->output, *dy = run->output_gradient[0];
    double            *dx = run->input_gradient[0];

    for (int64_t n = 0; dx && n < op->spec.samples; n++)
        for (int64_t p = 0; p < pdl_shape_positions(shape); p++) {
            double mean = 0;

            for (int64_t c = 0; c < shape->channels; c++) {
                int64_t i = pdl__reference_at(shape, n, c, p);

                mean += y[i] * dy[i];
            }
            for (int64_t c = 0; c < shape->channels; c++) {
                int64_t i = pdl__reference_at(shape, n, c, p);

                dx[i] = y[i] * (dy[i] - mean);
            }
        }
    return PDL_OK;
}

/* First and last channel of the window around c: of an even size the larger part lies before. */
static int64_t lrn_first(const pdl_layer_t *layer, int64_t c)
{
    return c - layer->lrn_size / 2 > 0 ? c - layer->lrn_size / 2 : 0;
}

static int64_t lrn_last(const pdl_layer_t *layer, int64_t c)
{
    int64_t last = c + (layer->lrn_size - 1) / 2;

    return last < layer->in.channels ? last : layer->in.channels - 1;
}

/* k + alpha / size * sum of squares in the window. */
static double lrn_scale(const pdl_layer_t *layer, const double *x, int64_t n, int64_t c, int64_t p)
{
    double squares = 0;

    for (int64_t j = lrn_first(layer, c); j <= lrn_last(layer, c); j++) {
        double value = x[pdl__reference_at(&layer->in, n, j, p)];

        squares += value * value;
    }
    return layer->lrn_k + layer->lrn_alpha / (double)layer->lrn_size * squares;
}

static pdl_status_t forward_lrn(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    const double      *x = run->input[0];
    double            *y = run->output;

    for (int64_t n = 0; n < op->spec.samples; n++)
        for (int64_t c = 0; c < layer->in.channels; c++)
            for (int64_t p = 0; p < pdl_shape_positions(&layer->in); p++) {
                int64_t i = pdl__reference_at(&layer->in, n, c, p);

                y[i] = x[i] * pow(lrn_scale(layer, x, n, c, p), -layer->lrn_beta);
            }
    return PDL_OK;
}

/* y_c = x_c s_c^-beta, so x_j also acts on every y_c whose window holds j. */
static pdl_status_t backward_lrn(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    const double      *x = run->input[0], *dy = run->output_gradient[0];
    double            *dx = run->input_gradient[0];
    double             factor = 2 * layer->lrn_beta * layer->lrn_alpha / (double)layer->lrn_size;

    for (int64_t n = 0; dx && n < op->spec.samples; n++)
        for (int64_t c = 0; c < layer->in.channels; c++)
            for (int64_t p = 0; p < pdl_shape_positions(&layer->in); p++) {
                int64_t i = pdl__reference_at(&layer->in, n, c, p);
                double  s = lrn_scale(layer, x, n, c, p);

                dx[i] += dy[i] * pow(s, -layer->lrn_beta);
                for (int64_t j = lrn_first(layer, c); j <= lrn_last(layer, c); j++) {
                    int64_t other = pdl__reference_at(&layer->in, n, j, p);

                    dx[other] -= dy[i] * x[i] * factor * x[other] * pow(s, -layer->lrn_beta - 1);
                }
            }
    return PDL_OK;
}

const pdl__reference_kind_t pdl__reference_activation = {NULL, forward, backward};
const pdl__reference_kind_t pdl__reference_softmax = {NULL, forward_softmax, backward_softmax};
const pdl__reference_kind_t pdl__reference_lrn = {NULL, forward_lrn, backward_lrn};
