/*
 * Ops of a backend against the reference: every case in every way in which ops are run.
 */
#ifndef PDL_TEST_OP_COMPARE_H
#define PDL_TEST_OP_COMPARE_H

#include "op_cases.h"
#include "test.h"

#include <stdarg.h>

static pdl_backend_t *reference;

typedef struct way {
    const char *name;
    op_case_t   with; /* its switches are added to those of the case */
} way_t;

static const way_t ways[] = {
    {"plain", {.blocked = false}},
    {"blocked", {.blocked = true}},
    {"equal values", {.coarse = true, .blocked = true}},
    {"evaluation", {.evaluate = true}},
    {"evaluation, blocked", {.evaluate = true, .blocked = true}},
    {"evaluation by a training op", {.evaluate = true, .made_for_training = true, .blocked = true}},
    {"no input gradient", {.no_input_gradient = true}},
    {"accumulated", {.accumulate = true, .blocked = true}},
    {"two gradients", {.two_gradients = true, .blocked = true}},
    {"in place", {.inplace = true, .blocked = true}},
    {"with others", {.with_others = true, .at_once = true, .blocked = true}},
    {"at once, in place", {.at_once = true, .inplace = true, .blocked = true}},
};
#define WAY_COUNT ((int)(sizeof(ways) / sizeof(ways[0])))

static op_case_t combine(const op_case_t *c, const way_t *way, const pdl_fusion_t *fusion)
{
    op_case_t both = *c;

    both.blocked = way->with.blocked;
    both.coarse = way->with.coarse;
    both.evaluate = way->with.evaluate;
    both.made_for_training = way->with.made_for_training;
    both.no_input_gradient = way->with.no_input_gradient;
    both.accumulate = way->with.accumulate;
    both.two_gradients = way->with.two_gradients;
    both.inplace = way->with.inplace;
    both.with_others = way->with.with_others;
    both.at_once = way->with.at_once;
    both.fusion = *fusion;
    return both;
}

PDL_PRINTF(3, 4) static void fail(const op_case_t *c, const char *way, const char *format, ...)
{
    va_list arguments;

    test_fail_at(__FILE__, __LINE__);
    printf("%s, %lld samples", op_case_title(c), (long long)c->samples);
    if (c->fusion.add) printf(" + add");
    if (c->fusion.activation != PDL_LAYER_INPUT) printf(" + %s", pdl_layer_type_name(c->fusion.activation));
    printf(" (%s): ", way);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

/* First element that differs by more than `bound` of the scale. */
static void compare_tensor(const op_case_t *c, const char *way, const char *what, const double *found,
                           const double *expected, int64_t count, double bound)
{
    double difference;

    if (expected == NULL) return;
    difference = op_difference(found, expected, count);
    if (difference <= bound) return;
    for (int64_t i = 0; i < count; i++) {
        if (!isnan(found[i]) && fabs(found[i] - expected[i]) < difference * 1e-3) continue;
        fail(c, way, "%s off by %.2g of its scale (bound %.0g), for example [%lld] is %.9g, expected %.9g", what,
             difference, bound, (long long)i, found[i], expected[i]);
        return;
    }
    fail(c, way, "%s off by %.2g of its scale", what, difference);
}

static void compare_weights(const op_case_t *c, const char *way, const op_result_t *found,
                            const op_result_t *expected, double bound)
{
    char what[64];

    if (found->weights != expected->weights) {
        fail(c, way, "%d weights, expected %d", found->weights, expected->weights);
        return;
    }
    for (int k = 0; k < expected->weights; k++) {
        bool trainable = expected->weight_gradient[k] != NULL;

        if (strcmp(found->weight_name[k], expected->weight_name[k]) != 0 ||
            found->weight_count[k] != expected->weight_count[k] ||
            memcmp(found->weight_dims[k], expected->weight_dims[k], sizeof(found->weight_dims[k])) != 0 ||
            (found->weight_gradient[k] != NULL) != trainable) {
            fail(c, way, "weight %d is another: %s of %lld elements, expected %s of %lld", k, found->weight_name[k],
                 (long long)found->weight_count[k], expected->weight_name[k], (long long)expected->weight_count[k]);
            continue;
        }
        snprintf(what, sizeof(what), "gradient of %s", expected->weight_name[k]);
        compare_tensor(c, way, what, found->weight_gradient[k], expected->weight_gradient[k],
                       expected->weight_count[k], bound);
        snprintf(what, sizeof(what), "%s afterwards", expected->weight_name[k]);
        compare_tensor(c, way, what, found->weight[k], expected->weight[k], expected->weight_count[k], bound);
    }
}

static void compare_results(const op_case_t *c, const char *way, const op_result_t *found,
                            const op_result_t *expected, double bound)
{
    char what[64];

    compare_tensor(c, way, "output", found->output, expected->output, expected->out_count, bound);
    for (int i = 0; i < expected->inputs; i++) {
        snprintf(what, sizeof(what), "gradient of input %d", i);
        compare_tensor(c, way, what, found->input_gradient[i], expected->input_gradient[i], expected->in_count[i],
                       bound);
    }
    compare_weights(c, way, found, expected, bound);
}

static void check_case(pdl_backend_t *backend, const op_case_t *c, const char *way, double bound)
{
    op_result_t found, expected;

    if (c->tolerance > bound) bound = c->tolerance;
    CHECK_OK(op_case_run(reference, c, &expected));
    if (op_case_run(backend, c, &found))
        fail(c, way, "%s", pdl_error_message());
    else
        compare_results(c, way, &found, &expected, bound);
    op_result_free(&found);
    op_result_free(&expected);
}

/* Whether the backend has the last layer of the case as one op with these attachments. */
static bool has_fusion(pdl_backend_t *backend, const op_case_t *c, const pdl_fusion_t *fusion)
{
    char         text[2048];
    int          length = snprintf(text, sizeof(text), "paradl: model/1\nname: case\n%s\n", c->text);
    pdl_model_t *model;
    bool         has;

    if (pdl_model_read_yaml_memory(text, (size_t)length, "case", &model)) return false;
    has = backend->ops->fuses(backend, pdl_model_layer(model, pdl_model_layer_count(model) - 1), fusion);
    pdl_model_destroy(model);
    return has;
}

#endif
