/*
 * Every op of the CPU backend against the reference: every layer type and every fusion that the backend offers, on
 * awkward shapes, in every way in which ops are run. A layer that the backend refuses is a failure.
 */
#include "op_compare.h"
#include "tensor/scalars.h"

#define TOLERANCE       1e-5
#define LARGE_TOLERANCE 2e-5
#define BF16_TOLERANCE  2e-2

#define VECTOR 70 /* elements of the longest vector that is updated */

static pdl_backend_t *cpu, *cpu_one_thread;

static void layers_match_the_reference(void)
{
    static const pdl_fusion_t none = {false, PDL_LAYER_INPUT};

    for (int i = 0; i < OP_CASE_COUNT; i++)
        for (int w = 0; w < WAY_COUNT; w++) {
            op_case_t c = combine(&op_cases[i], &ways[w], &none);

            check_case(cpu, &c, ways[w].name, TOLERANCE);
        }
}

static void fusions_match_the_reference(void)
{
    int count = 0;

    for (int i = 0; i < OP_CASE_COUNT; i++)
        for (int add = 0; add < 2; add++)
            for (int a = PDL_LAYER_INPUT; a < PDL_LAYER_TYPE_COUNT; a++) {
                pdl_fusion_t fusion = {add, (pdl_layer_type_t)a};

                if ((!add && a == PDL_LAYER_INPUT) || !has_fusion(cpu, &op_cases[i], &fusion)) continue;
                for (int w = 0; w < WAY_COUNT; w++) {
                    op_case_t c = combine(&op_cases[i], &ways[w], &fusion);

                    check_case(cpu, &c, ways[w].name, TOLERANCE);
                }
                count++;
            }
    printf("     %d fusions\n", count);
}

static void large_layers_match_the_reference(void)
{
    static const way_t        accumulated = {"accumulated, in place",
                                             {.accumulate = true, .blocked = true, .inplace = true}};
    static const pdl_fusion_t none = {false, PDL_LAYER_INPUT};

    for (int i = 0; i < LARGE_OP_CASE_COUNT; i++) {
        op_case_t c = combine(&large_op_cases[i], &accumulated, &none);

        check_case(cpu, &large_op_cases[i], "plain", LARGE_TOLERANCE);
        check_case(cpu, &c, accumulated.name, LARGE_TOLERANCE);
    }
}

/* Results do not depend on the number of threads, to the last bit. */
static void compare_threads(const op_case_t *from)
{
    op_case_t   c = *from;
    op_result_t one, two;

    c.blocked = true;
    if (op_case_run(cpu_one_thread, &c, &one)) {
        fail(&c, "1 thread", "%s", pdl_error_message());
    } else if (op_case_run(cpu, &c, &two)) {
        fail(&c, "2 threads", "%s", pdl_error_message());
        op_result_free(&two);
    } else {
        compare_results(&c, "2 threads against 1", &two, &one, 0);
        op_result_free(&two);
    }
    op_result_free(&one);
}

static void threads_do_not_matter(void)
{
    for (int i = 0; i < OP_CASE_COUNT; i++) compare_threads(&op_cases[i]);
    for (int i = 0; i < LARGE_OP_CASE_COUNT; i++) compare_threads(&large_op_cases[i]);
}

static void bf16_is_near_the_reference(void)
{
    pdl_backend_t    *bf16;
    pdl_cpu_options_t options = {.threads = 2, .precision = PDL_DTYPE_BF16};
    pdl_status_t      status = pdl_backend_create_cpu(&options, &bf16);
    int               refused = 0;

    if (status == PDL_ERR_UNSUPPORTED) {
        printf("     no bf16 here: %s\n", pdl_error_message());
        return;
    }
    CHECK_OK(status);
    if (status) return;
    for (int i = 0; i < OP_CASE_COUNT; i++) {
        op_case_t   c = op_cases[i];
        op_result_t result;

        c.coarse = c.blocked = true;
        status = op_case_run(bf16, &c, &result);
        op_result_free(&result);
        if (status == PDL_ERR_UNSUPPORTED)
            refused++;
        else
            check_case(bf16, &c, "bf16", BF16_TOLERANCE);
    }
    printf("     %d of %d cases are not computed in bf16\n", refused, OP_CASE_COUNT);
    pdl_backend_destroy(bf16);
}

/* Optimizer state of one length, for both backends. */
typedef struct state {
    double w[VECTOR], g[VECTOR], m[VECTOR], v[VECTOR], norm;
} state_t;

static void fill_state(state_t *state)
{
    for (int i = 0; i < VECTOR; i++) {
        state->w[i] = op_value(1, 0, i);
        state->g[i] = op_value(1, 1, i);
        state->m[i] = op_value(1, 2, i);
        state->v[i] = fabs(op_value(1, 3, i));
    }
    state->norm = 0;
}

static void update_cpu(const pdl_update_t *update, int64_t count, state_t *state)
{
    float w[VECTOR], g[VECTOR], m[VECTOR], v[VECTOR];

    for (int i = 0; i < VECTOR; i++) {
        w[i] = (float)state->w[i];
        g[i] = (float)state->g[i];
        m[i] = (float)state->m[i];
        v[i] = (float)state->v[i];
    }
    state->norm = update_range(cpu, *update, 0.5, count, w, g, m, v);
    for (int i = 0; i < VECTOR; i++) {
        state->w[i] = (double)w[i];
        state->m[i] = (double)m[i];
        state->v[i] = (double)v[i];
    }
}

/* Every kind of update at every length up to a few vectors; what lies beyond stays as it was. */
static void updates_match_the_reference(void)
{
    pdl_update_t u = {.lr = 0.1,
                      .momentum = 0.9,
                      .beta1 = 0.8,
                      .beta2 = 0.9,
                      .epsilon = 1e-3,
                      .decay = 0.01,
                      .correction1 = 0.2,
                      .correction2 = 0.1};

    for (int kind = PDL_UPDATE_SGD; kind <= PDL_UPDATE_LAMB_APPLY; kind++)
        for (int64_t count = 0; count <= VECTOR; count++) {
            state_t expected, found;

            u.kind = (pdl_update_kind_t)kind;
            fill_state(&expected);
            fill_state(&found);
            expected.norm = update_range(reference, u, 0.5, count, expected.w, expected.g, expected.m, expected.v);
            update_cpu(&u, count, &found);
            CHECK(op_difference(found.w, expected.w, VECTOR) <= 1e-6);
            CHECK(op_difference(found.m, expected.m, VECTOR) <= 1e-6);
            CHECK(op_difference(found.v, expected.v, VECTOR) <= 1e-6);
            CHECK_NEAR(found.norm, expected.norm, 1e-5);
        }
}

static void vectors_match_the_reference(void)
{
    for (int64_t count = 1; count <= VECTOR; count++) {
        float  a[VECTOR], b[VECTOR];
        size_t bytes = (size_t)count * sizeof(float);
        double squares = 0;

        for (int i = 0; i < VECTOR; i++) {
            a[i] = (float)op_value(2, 0, i);
            b[i] = (float)op_value(2, 1, i);
            if (i < count) squares += (double)a[i] * (double)a[i];
        }
        CHECK_NEAR(squares_of(cpu, a, count), squares, 1e-6);
        cpu->ops->average(cpu, NULL, 0.75, count, a, b);
        CHECK_NEAR((double)a[count - 1], 0.75 * op_value(2, 0, count - 1) + 0.25 * (double)b[count - 1], 1e-5);
        cpu->ops->add(cpu, NULL, a, b, bytes, a);
        CHECK_NEAR((double)a[0], 0.75 * op_value(2, 0, 0) + 1.25 * (double)b[0], 1e-5);
        CHECK_INT(first_not_finite(cpu, b, bytes), -1);
        b[count - 1] = count % 2 ? NAN : -INFINITY;
        CHECK_INT(first_not_finite(cpu, b, bytes), count - 1);
    }
}

int main(void)
{
    pdl_cpu_options_t two = {.threads = 2, .precision = PDL_DTYPE_F32},
                      one = {.threads = 1, .precision = PDL_DTYPE_F32};

    if (pdl_backend_create_reference(&reference) || pdl_backend_create_cpu(&two, &cpu) ||
        pdl_backend_create_cpu(&one, &cpu_one_thread)) {
        printf("no backend: %s\n", pdl_error_message());
        return 1;
    }
    RUN(layers_match_the_reference);
    RUN(fusions_match_the_reference);
    RUN(large_layers_match_the_reference);
    RUN(threads_do_not_matter);
    RUN(bf16_is_near_the_reference);
    RUN(updates_match_the_reference);
    RUN(vectors_match_the_reference);
    pdl_backend_destroy(reference);
    pdl_backend_destroy(cpu);
    pdl_backend_destroy(cpu_one_thread);
    return test_done();
}
