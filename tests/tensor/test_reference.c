/*
 * The reference backend is right: its gradients are those of its outputs, by central differences in double
 * precision, for every layer type; and the rest of its table does what the formulas say.
 */
#include "op_cases.h"
#include "tensor/scalars.h"
#include "test.h"

#include <float.h>
#include <paradl/base/random.h>

#define STEP      1e-5
#define TOLERANCE 1e-7
#define CHECKED   12 /* elements of a tensor that are moved: all of small ones */

static pdl_backend_t *reference;

/* Derivative of the objective by one element of one tensor. */
static double slope(const op_case_t *c, int tensor, int64_t index)
{
    double objective[2] = {0, 0};

    for (int side = 0; side < 2; side++) {
        op_case_t   moved = *c;
        op_result_t result;

        moved.moved_tensor = tensor;
        moved.moved_index = index;
        moved.moved_by = side ? STEP : -STEP;
        CHECK_OK(op_case_run(reference, &moved, &result));
        objective[side] = result.objective;
        op_result_free(&result);
    }
    return (objective[1] - objective[0]) / (2 * STEP);
}

/* A quotient of differences is as exact as the objective, which is rounded, over the step. */
static void check_tensor(const op_case_t *c, const char *what, int tensor, const double *gradient, int64_t count,
                         double objective)
{
    int64_t stride = count / CHECKED + 1;
    double  expected[CHECKED + 1], found[CHECKED + 1], difference, largest = 1e-3;
    int64_t checked = 0;

    if (gradient == NULL) return;
    for (int64_t i = 0; i < count; i += stride) {
        expected[checked] = slope(c, tensor, i);
        largest = fmax(largest, fabs(expected[checked]));
        found[checked++] = gradient[i];
    }
    difference = op_difference(found, expected, checked);
    if (difference <= TOLERANCE + DBL_EPSILON * fabs(objective) / (STEP * largest)) return;
    test_fail_at(__FILE__, __LINE__);
    printf("%s, gradient of %s: off by %g\n", op_case_title(c), what, difference);
}

static void gradients_are_differences_of_outputs(void)
{
    for (int i = 0; i < OP_CASE_COUNT; i++) {
        op_result_t result;

        CHECK_OK(op_case_run(reference, &op_cases[i], &result));
        for (int k = 0; k < result.inputs; k++)
            check_tensor(&op_cases[i], "an input", OP_INPUT + k, result.input_gradient[k], result.in_count[k],
                         result.objective);
        for (int k = 0; k < result.weights; k++)
            check_tensor(&op_cases[i], result.weight_name[k], OP_WEIGHT + k, result.weight_gradient[k],
                         result.weight_count[k], result.objective);
        op_result_free(&result);
    }
}

static void every_layer_type_is_covered(void)
{
    bool seen[PDL_LAYER_TYPE_COUNT] = {false};

    for (int i = 0; i < OP_CASE_COUNT; i++) {
        op_result_t result;

        CHECK_OK(op_case_run(reference, &op_cases[i], &result));
        for (int t = 0; t < PDL_LAYER_TYPE_COUNT; t++)
            if (strcmp(result.layer, pdl_layer_type_name((pdl_layer_type_t)t)) == 0) seen[t] = true;
        op_result_free(&result);
    }
    for (int t = PDL_LAYER_INPUT + 1; t < PDL_LAYER_TYPE_COUNT; t++) {
        if (seen[t]) continue;
        test_fail_at(__FILE__, __LINE__);
        printf("no case of %s\n", pdl_layer_type_name((pdl_layer_type_t)t));
    }
}

/* Weight gradients are added to what is there. */
static void accumulates(void)
{
    op_case_t   c = {.text = IMAGE("3, size: [5]", conv : {out : 2, kernel : 3}), .samples = 2};
    op_result_t once, added;

    CHECK_OK(op_case_run(reference, &c, &once));
    c.accumulate = true;
    CHECK_OK(op_case_run(reference, &c, &added));
    for (int64_t i = 0; i < once.weight_count[0]; i++)
        CHECK_NEAR(added.weight_gradient[0][i] - op_value(0, OP_START, i), once.weight_gradient[0][i], 1e-12);
    op_result_free(&once);
    op_result_free(&added);
}

/* Running statistics move by the momentum, with the unbiased variance; evaluation uses them. */
static void keeps_running_statistics(void)
{
    op_case_t   c = {.text = IMAGE("1", batch_norm : {momentum : 0.25}), .samples = 3};
    op_result_t result;
    double      x[3], mean, variance = 0, old_mean = op_value(0, OP_WEIGHT + 2, 0);
    double      old_variance = 0.5 + fabs(op_value(0, OP_WEIGHT + 3, 0));

    for (int i = 0; i < 3; i++) x[i] = op_value(0, OP_INPUT, i);
    mean = (x[0] + x[1] + x[2]) / 3;
    for (int i = 0; i < 3; i++) variance += (x[i] - mean) * (x[i] - mean) / 2;
    CHECK_OK(op_case_run(reference, &c, &result));
    CHECK_NEAR(result.weight[2][0], 0.75 * old_mean + 0.25 * mean, 1e-12);
    CHECK_NEAR(result.weight[3][0], 0.75 * old_variance + 0.25 * variance, 1e-12);
    op_result_free(&result);
    c.evaluate = true;
    CHECK_OK(op_case_run(reference, &c, &result));
    CHECK_NEAR(result.weight[2][0], old_mean, 0);
    CHECK_NEAR(result.output[1],
               (x[1] - old_mean) / sqrt(old_variance + 1e-5) * op_value(0, OP_WEIGHT, 0) +
                   op_value(0, OP_WEIGHT + 1, 0),
               1e-12);
    op_result_free(&result);
}

/* A piece of a tensor drops exactly what the whole one drops there. */
static void dropout_does_not_depend_on_the_cut(void)
{
    op_case_t   c = {.text = IMAGE("2, size: [3]", dropout : 0.5), .samples = 1, .split = true};
    op_result_t result;
    uint64_t    stream = pdl_random_stream("dropout", 3, 5);

    CHECK_OK(op_case_run(reference, &c, &result));
    for (int channel = 0; channel < 2; channel++)
        for (int p = 0; p < 3;
             p++) { /* whole: 7 channels of 5 positions, cut out at channel 3, position 1, sample 6 */
            float u;

            pdl_random_fill(11, stream, (uint64_t)((6 * 7 + 3 + channel) * 5 + 1 + p), 1, &u);
            CHECK_NEAR(result.output[channel * 3 + p], u < 0.5f ? 0 : 2 * op_value(0, OP_INPUT, channel * 3 + p),
                       0);
        }
    op_result_free(&result);
}

/* Classes and tokens that do not exist are refused, not read out of bounds. */
static void refuses_wrong_indices(void)
{
    static const char text[] =
        "paradl: model/1\nname: m\ninput: {tokens: 2, vocabulary: 3}\nlayers: [{embedding: 2}]\n";

    pdl_model_t  *model;
    pdl_format_t  given = PDL_FORMAT_PLAIN;
    pdl_op_t     *op;
    double        weight[6] = {0}, output[4];
    int32_t       tokens[2] = {1, 3};
    pdl_op_run_t  run = {.input = {tokens}, .weight = {weight}, .output = output};
    pdl_op_spec_t spec = {.input_count = 1, .samples = 1, .given = &given};

    CHECK_OK(pdl_model_read_yaml_memory(text, sizeof(text) - 1, "m", &model));
    spec.layer = pdl_model_layer(model, 1);
    spec.inputs = &spec.layer->in;
    CHECK_OK(reference->ops->op_create(reference, &spec, &op));
    CHECK_ERROR(reference->ops->forward(op, NULL, &run), "token 3 is outside the vocabulary of 3");
    reference->ops->op_destroy(op);
    pdl_model_destroy(model);
}

static double step_once(pdl_update_t update, double *m, double *v, double *norm)
{
    double w = 2, g = 0.5;

    double squares = update_range(reference, update, 2, 1, &w, &g, m, v);
    if (norm != NULL) *norm = squares;
    return w;
}

static void updates_follow_their_formulas(void)
{
    double       m = 0.25, v = 0.125, norm = 0, d;
    pdl_update_t u = {.lr = 0.1,
                      .momentum = 0.9,
                      .beta1 = 0.8,
                      .beta2 = 0.9,
                      .epsilon = 1e-3,
                      .decay = 0.01,
                      .correction1 = 0.2,
                      .correction2 = 0.1};

    u.kind = PDL_UPDATE_SGD;
    CHECK_NEAR(step_once(u, NULL, NULL, NULL), 2 - 0.1 * (1 + 0.02), 1e-14);
    u.kind = PDL_UPDATE_MOMENTUM;
    CHECK_NEAR(step_once(u, &m, NULL, NULL), 2 - 0.1 * (0.9 * 0.25 + 1.02), 1e-14);
    m = 0.25;
    u.kind = PDL_UPDATE_NESTEROV;
    CHECK_NEAR(step_once(u, &m, NULL, NULL), 2 - 0.1 * (1.02 + 0.9 * (0.9 * 0.25 + 1.02)), 1e-14);
    m = 0.25;
    u.kind = PDL_UPDATE_ADAMW;
    d = (0.8 * 0.25 + 0.2) / 0.2 / (sqrt((0.9 * 0.125 + 0.1) / 0.1) + 1e-3);
    CHECK_NEAR(step_once(u, &m, &v, NULL), 2 - 0.1 * 0.01 * 2 - 0.1 * d, 1e-14);
    m = 0.25;
    v = 0.125;
    u.kind = PDL_UPDATE_LAMB_STATE;
    CHECK_NEAR(step_once(u, &m, &v, &norm), 2, 0);
    CHECK_NEAR(norm, (d + 0.02) * (d + 0.02), 1e-14);
    u.kind = PDL_UPDATE_LAMB_APPLY;
    CHECK_NEAR(step_once(u, &m, &v, NULL), 2 - 0.1 * (d + 0.02), 1e-14);
}

static void vectors(void)
{
    double a[3] = {1, 2, 3}, b[3] = {4, INFINITY, 6}, sum[3];

    reference->ops->add(reference, NULL, a, b, sizeof(a), sum);
    CHECK_NEAR(sum[2], 9, 0);
    CHECK_INT(first_not_finite(reference, a, sizeof(a)), -1);
    CHECK_INT(first_not_finite(reference, b, sizeof(b)), 1);
    CHECK_NEAR(squares_of(reference, a, 3), 14, 0);
    reference->ops->average(reference, NULL, 0.75, 3, a, sum);
    CHECK_NEAR(a[0], 0.75 + 0.25 * 5, 0);
    CHECK_ERROR(reference->ops->convert(reference, NULL, &(pdl_shape_t){1, {1, 1, 1}, 0, false}, 1,
                                        PDL_FORMAT_PLAIN, a, PDL_FORMAT_BLOCKED, sum),
                "plain tensors only");
}

int main(void)
{
    if (pdl_backend_create_reference(&reference)) return 1;
    RUN(every_layer_type_is_covered);
    RUN(gradients_are_differences_of_outputs);
    RUN(accumulates);
    RUN(keeps_running_statistics);
    RUN(dropout_does_not_depend_on_the_cut);
    RUN(refuses_wrong_indices);
    RUN(updates_follow_their_formulas);
    RUN(vectors);
    pdl_backend_destroy(reference);
    return test_done();
}
