/*
 * Numbers that are not finite: layers let them through, as PyTorch does, so that a loss shows them; and a score counts
 * no logit that is a NaN.
 */
#include "op_cases.h"
#include "tensor/cuda_device.h"
#include "test.h"

/* Arithmetic makes NaNs with a sign, so both kinds are tried. */
static const double bad[] = {NAN, -NAN};

#define BACKENDS 5

static pdl_backend_t *backends[BACKENDS]; /* NULL: there is none; the last two are GPUs */

static void run_with(pdl_backend_t *backend, op_case_t c, int tensor, int64_t index, double value,
                     op_result_t *result)
{
    c.evaluate = true;
    c.moved_tensor = tensor;
    c.moved_index = index;
    c.moved_by = value;
    CHECK_OK(op_case_run(backend, &c, result));
}

static bool shows(const op_result_t *result)
{
    bool found = false;

    for (int64_t i = 0; i < result->out_count; i++) found = found || isnan(result->output[i]);
    return found;
}

#define RELU           .fusion = {false, PDL_LAYER_RELU}
#define FROM(t, first) .tensor = (t), .index = (first)

/* clang-format off */
/* What is set to NaN must be seen in the output. */
static const struct {
    op_case_t c;
    int       tensor;
    int64_t   index, count;
    bool      not_bf16; /* oneDNN or cuDNN computes it, whose ReLU makes a NaN 0; then the check of the weights finds it */
} cases[] = {
    {{.text = IMAGE("3, size: [7, 5]", relu: {}), .samples = 2}, FROM(OP_INPUT, 0), .count = 40},
    {{.text = IMAGE("16, size: [7, 5]", relu: {}), .samples = 2, .blocked = true}, FROM(OP_INPUT, 3), .count = 20},
    {{.text = IMAGE("3, size: [7]", leaky_relu: 0.1), .samples = 2}, FROM(OP_INPUT, 0), .count = 20},
    {{.text = IMAGE("3, size: [7]", gelu_tanh: {}), .samples = 2}, FROM(OP_INPUT, 5), .count = 3},
    {{.text = IMAGE("3, size: [7]", gelu: {}), .samples = 2}, FROM(OP_INPUT, 5), .count = 3},
    {{.text = IMAGE("3, size: [7]", silu: {}), .samples = 2}, FROM(OP_INPUT, 5), .count = 3},
    {{.text = IMAGE("3, size: [7]", hard_swish: {}), .samples = 2}, FROM(OP_INPUT, 5), .count = 3},
    {{.text = IMAGE("3, size: [7]", tanh: {}), .samples = 2}, FROM(OP_INPUT, 5), .count = 3},
    {{.text = IMAGE("3, size: [7]", sigmoid: {}), .samples = 2}, FROM(OP_INPUT, 5), .count = 3},
    {{.text = IMAGE("5, size: [7]", softmax: {}), .samples = 2}, FROM(OP_INPUT, 0), .count = 36},
    {{.text = IMAGE("6", softmax: {}), .samples = 2}, FROM(OP_INPUT, 0), .count = 12},
    /* windows: every place of one, with pairs of rows and without, blocked and plain */
    {{.text = IMAGE("2, size: [8, 16]", max_pool: {kernel: 2, stride: 2}), .samples = 1}, FROM(OP_INPUT, 0), .count = 40},
    {{.text = IMAGE("2, size: [6, 8]", max_pool: {kernel: 2, stride: 2}), .samples = 1}, FROM(OP_INPUT, 0), .count = 40},
    {{.text = IMAGE("3, size: [5, 7]", max_pool: {kernel: 3, stride: 2, pad: 1}), .samples = 1}, FROM(OP_INPUT, 0), .count = 40},
    {{.text = IMAGE("16, size: [4, 4]", max_pool: {kernel: 2, stride: 2}), .samples = 1, .blocked = true}, FROM(OP_INPUT, 0), .count = 40},
    {{.text = IMAGE("19, size: [4, 4]", batch_norm: {}), .samples = 3, RELU}, FROM(OP_WEIGHT, 0), .count = 19},
    {{.text = IMAGE("19, size: [4, 4]", batch_norm: {}), .samples = 3, .blocked = true, RELU}, FROM(OP_WEIGHT, 0), .count = 19},
    {{.text = IMAGE("3, size: [7, 7]", conv: {out: 5, kernel: 3}), .samples = 3, RELU}, FROM(OP_WEIGHT, 0), .count = 30, .not_bf16 = true},
    {{.text = IMAGE("9", linear: 21), .samples = 3, RELU}, FROM(OP_WEIGHT, 0), .count = 30},
    {{.text = TOKENS("5, channels: 6", moe: {experts: 4, top_k: 1, hidden: 7}), .samples = 2}, FROM(OP_WEIGHT, 0), .count = 24},
};
/* clang-format on */

static void layers_let_nan_through(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int b = 0; b < BACKENDS; b++)
            for (int64_t k = 0; k < 2 * cases[i].count; k++) {
                op_result_t result;

                if (backends[b] == NULL || (b >= 2 && cases[i].not_bf16)) break;
                run_with(backends[b], cases[i].c, cases[i].tensor, cases[i].index + k / 2, bad[k % 2], &result);
                if (!shows(&result)) {
                    test_fail_at(__FILE__, __LINE__);
                    printf("%s on %s: element %lld set to %f is not in the output\n", op_case_title(&cases[i].c),
                           backends[b]->ops->name, (long long)(cases[i].index + k / 2), bad[k % 2]);
                }
                op_result_free(&result);
            }
}

/* Every logit in turn, also that of the right class: the loss shows it, and the answer is not right. */
static void no_nan_is_a_right_answer(void)
{
    static const op_case_t losses[] = {
        {.text = IMAGE("5", cross_entropy
                       : {}),
         .samples = 1},
        {.text = IMAGE("4, size: [1, 1]", cross_entropy
                       : {}),
         .samples = 1},
    };

    for (int l = 0; l < 2; l++)
        for (int b = 0; b < BACKENDS; b++)
            for (int64_t k = 0; k < 16 && backends[b] != NULL; k++) {
                op_result_t result;
                op_case_t   c = losses[l];

                c.seed = (unsigned)(k / 8); /* other right classes */
                run_with(backends[b], c, OP_INPUT, k / 2 % 4, bad[k % 2], &result);
                CHECK(isnan(result.output[0]));
                CHECK(result.output[1] == 0);
                op_result_free(&result);
            }
}

int main(int count, char **arguments)
{
    pdl_cpu_options_t single = {.threads = 2, .precision = PDL_DTYPE_F32},
                      half = {.threads = 2, .precision = PDL_DTYPE_BF16};

    REQUIRE_OK(pdl_backend_create_reference(&backends[0]));
    REQUIRE_OK(pdl_backend_create_cpu(&single, &backends[1]));
    if (pdl_backend_create_cpu(&half, &backends[2])) printf("without bf16: %s\n", pdl_error_message());
    for (int b = 3; b < BACKENDS; b++) {
        pdl_cuda_options_t gpu = cuda_options(count, arguments, b == 3 ? PDL_DTYPE_F32 : PDL_DTYPE_BF16);

        if (pdl_backend_create_cuda(&gpu, &backends[b])) printf("without GPUs: %s\n", pdl_error_message());
    }
    RUN(layers_let_nan_through);
    RUN(no_nan_is_a_right_answer);
    for (int b = 0; b < BACKENDS; b++) pdl_backend_destroy(backends[b]);
    return test_done();
}
