/*
 * Attention of the CPU backend goes by tiles: these are the sequences that end before, at and behind their borders,
 * the memory that long ones take, and the same bits from any number of threads.
 */
#include "op_case.h"
#include "tensor/cpu/sequence/attention.h"
#include "test.h"

#define TOLERANCE 1e-5

static pdl_backend_t *reference, *cpu, *cpu_one, *cpu_five;

static pdl_backend_t *make_cpu(int threads)
{
    pdl_cpu_options_t options = {.threads = threads, .precision = PDL_DTYPE_F32};
    pdl_backend_t    *backend = NULL;

    REQUIRE_OK(pdl_backend_create_cpu(&options, &backend));
    return backend;
}

/* A model of one attention layer. */
static const char *attention_text(int tokens, int channels, const char *attributes)
{
    static char text[256];

    snprintf(text, sizeof(text), "input: {tokens: %d, channels: %d}\nlayers:\n  - attention: {%s}", tokens,
             channels, attributes);
    return text;
}

static void compare_with_reference(int tokens, int channels, const char *attributes, int64_t samples)
{
    op_case_t   c = {.text = attention_text(tokens, channels, attributes), .samples = samples};
    op_result_t found, expected;
    double      output = 1, gradient = 1;

    CHECK_OK(op_case_run(reference, &c, &expected));
    CHECK_OK(op_case_run(cpu, &c, &found));
    if (expected.output != NULL && found.output != NULL) {
        output = op_difference(found.output, expected.output, expected.out_count);
        gradient = op_difference(found.input_gradient[0], expected.input_gradient[0], expected.in_count[0]);
    }
    if (!(output <= TOLERANCE && gradient <= TOLERANCE)) {
        test_fail_at(__FILE__, __LINE__);
        printf("%d tokens, {%s}: output off by %.2g, gradient by %.2g\n", tokens, attributes, output, gradient);
    }
    op_result_free(&found);
    op_result_free(&expected);
}

static void sequences_end_anywhere_in_a_tile(void)
{
    static const int lengths[] = {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 193, 257};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        compare_with_reference(lengths[i], 3 * 8, "heads: 1, causal: true", 1);
        compare_with_reference(lengths[i], 3 * 8, "heads: 1", 1);
    }
}

static void long_sequences_match(void)
{
    compare_with_reference(400, 4 * 10, "heads: 2, kv_heads: 1, causal: true, rotary: true", 1);
    compare_with_reference(390, 3 * 5, "heads: 1", 1);
}

static void heads_of_any_width_match(void)
{
    static const int widths[] = {1, 7, 8, 31, 32, 33, 64, 80, 128};

    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
        compare_with_reference(70, 6 * widths[i], "heads: 2, causal: true", 2);
}

static void queries_share_keys(void)
{
    compare_with_reference(130, 8 * 6, "heads: 4, kv_heads: 2, causal: true", 2);
    compare_with_reference(130, 8 * 6, "heads: 6, kv_heads: 1, causal: true, rotary: true", 2);
    compare_with_reference(70, 12 * 4, "heads: 8, kv_heads: 2, rotary: true", 1);
}

static void dropped_weights_match_across_tiles(void)
{
    compare_with_reference(140, 6 * 8, "heads: 2, causal: true, rate: 0.3", 2);
    compare_with_reference(140, 8 * 8, "heads: 4, kv_heads: 2, rate: 0.5", 1);
}

static void check_same_bits(const op_result_t *a, const op_result_t *b)
{
    CHECK(memcmp(a->output, b->output, (size_t)a->out_count * sizeof(double)) == 0);
    CHECK(memcmp(a->input_gradient[0], b->input_gradient[0], (size_t)a->in_count[0] * sizeof(double)) == 0);
}

static void threads_give_the_same_bits(void)
{
    static const char attributes[] = "heads: 4, kv_heads: 2, causal: true, rotary: true, rate: 0.2";

    op_case_t   c = {.text = attention_text(200, 8 * 12, attributes), .samples = 3};
    op_result_t one, two, five;

    CHECK_OK(op_case_run(cpu_one, &c, &one));
    CHECK_OK(op_case_run(cpu, &c, &two));
    CHECK_OK(op_case_run(cpu_five, &c, &five));
    check_same_bits(&one, &two);
    check_same_bits(&one, &five);
    op_result_free(&one);
    op_result_free(&two);
    op_result_free(&five);
}

/* What the op keeps and needs for a sequence of `tokens`. */
static size_t op_bytes(int64_t tokens)
{
    pdl_layer_t   layer = {.name = "attention",
                           .type = PDL_LAYER_ATTENTION,
                           .in = {.channels = 3 * 64, .extent = {tokens, 1, 1}, .rank = 1, .sequence = true},
                           .out = {.channels = 64, .extent = {tokens, 1, 1}, .rank = 1, .sequence = true},
                           .heads = 2,
                           .kv_heads = 2,
                           .head_dim = 32,
                           .causal = true};
    pdl_format_t  given = PDL_FORMAT_PLAIN;
    pdl_op_spec_t spec = {.layer = &layer,
                          .inputs = &layer.in,
                          .given = &given,
                          .input_count = 1,
                          .samples = 1,
                          .training = true,
                          .input_gradient = true,
                          .origin = {.whole = layer.out}};
    pdl_op_t     *op = NULL;
    size_t        bytes = 0;

    CHECK_OK(cpu->ops->op_create(cpu, &spec, &op));
    if (op != NULL) bytes = op->description.saved_bytes + op->description.workspace_bytes;
    cpu->ops->op_destroy(op);
    return bytes;
}

static void memory_grows_with_the_length(void)
{
    size_t  base = op_bytes(1 << 10);
    int64_t per_token = 2 * 2 * (int64_t)sizeof(float); /* two numbers a head */

    CHECK_INT(op_bytes(1 << 11) - base, (1 << 10) * per_token);
    CHECK_INT(op_bytes(1 << 16) - base, ((1 << 16) - (1 << 10)) * per_token);
}

static void odd_rotary_heads_are_refused(void)
{
    op_case_t   c = {.text = attention_text(4, 9, "heads: 1, rotary: true"), .samples = 1};
    op_result_t result;

    CHECK_ERROR(op_case_run(cpu, &c, &result), "even head_dim");
    op_result_free(&result);
}

int main(void)
{
    REQUIRE_OK(pdl_backend_create_reference(&reference));
    cpu_one = make_cpu(1);
    cpu_five = make_cpu(5);
    cpu = make_cpu(2);
    RUN(sequences_end_anywhere_in_a_tile);
    RUN(long_sequences_match);
    RUN(heads_of_any_width_match);
    RUN(queries_share_keys);
    RUN(dropped_weights_match_across_tiles);
    RUN(threads_give_the_same_bits);
    RUN(memory_grows_with_the_length);
    RUN(odd_rotary_heads_are_refused);
    pdl_backend_destroy(cpu);
    pdl_backend_destroy(cpu_one);
    pdl_backend_destroy(cpu_five);
    pdl_backend_destroy(reference);
    return test_done();
}
