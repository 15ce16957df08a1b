/*
 * Scalar functions of the element-wise operators, and what a combination of them amounts to.
 */
#include "model/onnx/graph.h"

#include <math.h>
#include <string.h>

/* Both signs, near zero, beyond the 6 of a clipped ReLU; no symmetry that a wrong formula could share. */
const double pdl__onnx_probe[PDL__ONNX_PROBES] = {-7.3, -3.1, -1.7, -0.83, -0.37, -0.05, 0.21, 0.66, 1.4, 2.9, 6.8};

static double relu(double x)
{
    return x > 0 ? x : 0;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double negate(double x)
{
    return -x;
}

static double reciprocal(double x)
{
    return 1 / x;
}

static double logical_not(double x)
{
    return x == 0;
}

static double gelu(double x)
{
    return 0.5 * x * (1 + erf(x * M_SQRT1_2));
}

static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
}

/* The attribute `approximate` is the parameter. */
static double gelu_either(double x, const double *parameter)
{
    return parameter[0] != 0 ? gelu_tanh(x) : gelu(x);
}

static double hard_swish(double x)
{
    return x * fmax(0, fmin(1, x / 6 + 0.5));
}

static double leaky_relu(double x, const double *parameter)
{
    return x > 0 ? x : parameter[0] * x;
}

static double clip(double x, const double *limit)
{
    return x < limit[0] ? limit[0] : x > limit[1] ? limit[1] : x;
}

static double hard_sigmoid(double x, const double *parameter)
{
    return fmax(0, fmin(1, parameter[0] * x + parameter[1]));
}

static const pdl__onnx_unary_t unary_functions[] = {
    {"Relu", relu, NULL},
    {"Sigmoid", sigmoid, NULL},
    {"Tanh", tanh, NULL},
    {"Erf", erf, NULL},
    {"Gelu", NULL, gelu_either},
    {"HardSwish", hard_swish, NULL},
    {"Sqrt", sqrt, NULL},
    {"Exp", exp, NULL},
    {"Log", log, NULL},
    {"Neg", negate, NULL},
    {"Abs", fabs, NULL},
    {"Reciprocal", reciprocal, NULL},
    {"Floor", floor, NULL},
    {"Ceil", ceil, NULL},
    {"Round", nearbyint, NULL},
    {"Sin", sin, NULL},
    {"Cos", cos, NULL},
    {"Not", logical_not, NULL},
    {"LeakyRelu", NULL, leaky_relu},
    {"Clip", NULL, clip},
    {"HardSigmoid", NULL, hard_sigmoid},
};

double pdl__onnx_apply(const pdl__onnx_unary_t *unary, double x, const double *parameter)
{
    return unary->plain != NULL ? unary->plain(x) : unary->with_parameters(x, parameter);
}

static double fn_add(double x, double y)
{
    return x + y;
}
static double fn_sub(double x, double y)
{
    return x - y;
}
static double fn_mul(double x, double y)
{
    return x * y;
}
static double fn_div(double x, double y)
{
    return x / y;
}
static double fn_equal(double x, double y)
{
    return x == y;
}
static double fn_less(double x, double y)
{
    return x < y;
}
static double fn_less_equal(double x, double y)
{
    return x <= y;
}
static double fn_greater(double x, double y)
{
    return x > y;
}
static double fn_greater_equal(double x, double y)
{
    return x >= y;
}
static double fn_and(double x, double y)
{
    return x != 0 && y != 0;
}
static double fn_or(double x, double y)
{
    return x != 0 || y != 0;
}
static double fn_mod(double x, double y)
{
    return y == 0 ? NAN : x - y * floor(x / y);
}

static const struct {
    const char           *op;
    pdl__onnx_binary_fn_t fn;
} binary_functions[] = {
    {"Add", fn_add},
    {"Sum", fn_add},
    {"Sub", fn_sub},
    {"Mul", fn_mul},
    {"Div", fn_div},
    {"Pow", pow},
    {"Min", fmin},
    {"Max", fmax},
    {"Mod", fn_mod},
    {"Equal", fn_equal},
    {"Less", fn_less},
    {"Greater", fn_greater},
    {"LessOrEqual", fn_less_equal},
    {"GreaterOrEqual", fn_greater_equal},
    {"And", fn_and},
    {"Or", fn_or},
};

const pdl__onnx_unary_t *pdl__onnx_unary(const char *op)
{
    for (size_t i = 0; i < sizeof unary_functions / sizeof unary_functions[0]; i++)
        if (strcmp(unary_functions[i].op, op) == 0) return &unary_functions[i];
    return NULL;
}

pdl__onnx_binary_fn_t pdl__onnx_binary(const char *op)
{
    for (size_t i = 0; i < sizeof binary_functions / sizeof binary_functions[0]; i++)
        if (strcmp(binary_functions[i].op, op) == 0) return binary_functions[i].fn;
    return NULL;
}

static bool close_to(double a, double b)
{
    return fabs(a - b) <= 1e-4 * (fabs(a) + fabs(b)) + 1e-5;
}

static double gelu_sigmoid(double x)
{
    return x * sigmoid(1.702 * x);
}

static double silu(double x)
{
    return x * sigmoid(x);
}

static double identity(double x)
{
    return x;
}

/* MobileNet's; it trains as a ReLU does. */
static double relu_6(double x)
{
    return fmin(relu(x), 6);
}

static const struct {
    double (*fn)(double x);
    pdl_layer_type_t type;
    const char      *other; /* its name, where the layer computes another function that is close to it */
} known[] = {
    {relu, PDL_LAYER_RELU, NULL},
    {relu_6, PDL_LAYER_RELU, "relu6"},
    {gelu, PDL_LAYER_GELU, NULL},
    {gelu_tanh, PDL_LAYER_GELU_TANH, NULL},
    {gelu_sigmoid, PDL_LAYER_GELU, "gelu by sigmoid"},
    {silu, PDL_LAYER_SILU, NULL},
    {hard_swish, PDL_LAYER_HARD_SWISH, NULL},
    {tanh, PDL_LAYER_TANH, NULL},
    {sigmoid, PDL_LAYER_SIGMOID, NULL},
};

static bool matches(const double *y, double (*fn)(double x))
{
    for (int i = 0; i < PDL__ONNX_PROBES; i++)
        if (!close_to(y[i], fn(pdl__onnx_probe[i]))) return false;
    return true;
}

const char *pdl__onnx_other_function(const pdl__onnx_value_t *value)
{
    if (value->normalises || matches(value->probe, identity)) return NULL;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (matches(value->probe, known[i].fn)) return known[i].other;
    return NULL;
}

/* y = x where x is positive, else slope x. */
static bool matches_leaky(const double *y, double slope)
{
    for (int i = 0; i < PDL__ONNX_PROBES; i++)
        if (!close_to(y[i], leaky_relu(pdl__onnx_probe[i], &slope))) return false;
    return true;
}

/* y = (x - center) / sqrt(spread + epsilon) for one epsilon >= 0, which is read off the largest element. */
static bool matches_norm(const double *y, double center, double spread, double *epsilon)
{
    double deviation = (pdl__onnx_probe[0] - center) / y[0];

    if (!isfinite(deviation) || deviation <= 0) return false;
    *epsilon = deviation * deviation - spread;
    if (*epsilon > 0.1 || *epsilon < -1e-9) return false;
    for (int i = 0; i < PDL__ONNX_PROBES; i++)
        if (!close_to(y[i], (pdl__onnx_probe[i] - center) / deviation)) return false;
    return true;
}

double pdl__onnx_decimal(double number, int digits)
{
    int scale;

    if (number == 0 || !isfinite(number)) return number;
    scale = digits - 1 - (int)floor(log10(fabs(number)));
    if (scale > 300) return 0;
    return scale > 0 ? nearbyint(number * pow(10, scale)) / pow(10, scale)
                     : nearbyint(number / pow(10, -scale)) * pow(10, -scale);
}

static bool recognise_norm(const double *y, pdl_layer_t *layer)
{
    double mean = 0, square = 0, epsilon;

    for (int i = 0; i < PDL__ONNX_PROBES; i++) {
        mean += pdl__onnx_probe[i] / PDL__ONNX_PROBES;
        square += pdl__onnx_probe[i] * pdl__onnx_probe[i] / PDL__ONNX_PROBES;
    }
    if (matches_norm(y, mean, square - mean * mean, &epsilon))
        layer->type = PDL_LAYER_LAYER_NORM;
    else if (matches_norm(y, 0, square, &epsilon))
        layer->type = PDL_LAYER_RMS_NORM;
    else
        return false;
    /* The difference of two nearly equal numbers keeps few digits. */
    layer->epsilon = epsilon < 1e-13 ? 0 : pdl__onnx_decimal(epsilon, 2);
    return true;
}

pdl__onnx_form_t pdl__onnx_recognise(const pdl__onnx_value_t *value, pdl_layer_t *layer)
{
    const double *y = value->probe;
    double        slope = y[0] / pdl__onnx_probe[0];
    double        scale = y[PDL__ONNX_PROBES - 1] / pdl__onnx_probe[PDL__ONNX_PROBES - 1];

    for (int i = 0; i < PDL__ONNX_PROBES; i++)
        if (!isfinite(y[i])) return PDL__FORM_UNKNOWN;
    if (value->normalises) return recognise_norm(y, layer) ? PDL__FORM_LAYER : PDL__FORM_UNKNOWN;
    if (matches(y, identity)) return PDL__FORM_IDENTITY;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (matches(y, known[i].fn)) {
            layer->type = known[i].type;
            return PDL__FORM_LAYER;
        }
    }
    if (slope > 0 && slope < 1 && matches_leaky(y, slope)) {
        layer->type = PDL_LAYER_LEAKY_RELU;
        layer->slope = slope;
        return PDL__FORM_LAYER;
    }
    for (int i = 0; i < PDL__ONNX_PROBES; i++)
        if (!close_to(y[i], scale * pdl__onnx_probe[i])) return PDL__FORM_UNKNOWN;
    return PDL__FORM_SCALE;
}
