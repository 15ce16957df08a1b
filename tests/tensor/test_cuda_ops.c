/*
 * Every op on a GPU against the reference: every layer type and every fusion that the backend offers, on awkward shapes, in every
 * way in which ops are run, in both precisions. Emulated in the ordinary tests, on a real one with `--device N`; `--device N few`
 * leaves out as many ways as the emulated tests, for tools under which kernels take a thousand times as long.
 */
#include "op_compare.h"
#include "tensor/cuda_device.h"

#define TOLERANCE       1e-5
#define LARGE_TOLERANCE 2e-5
#define BF16_TOLERANCE  2e-2

static pdl_backend_t *f32, *bf16;
static bool           all_ways;

/* Emulated, a case in all ways takes longer than it tells: each is run in two or three of them, another one in others. */
static bool is_tried(int i, int w)
{
    return all_ways || w % 5 == i % 5 || (ways[w].with.inplace && i % 2 == 0);
}

static void layers_match(pdl_backend_t *backend, double tolerance, bool coarse)
{
    static const pdl_fusion_t none = {false, PDL_LAYER_INPUT};

    for (int i = 0; i < OP_CASE_COUNT; i++)
        for (int w = 0; w < WAY_COUNT; w++) {
            op_case_t c = combine(&op_cases[i], &ways[w], &none);

            c.coarse = c.coarse || coarse;
            if (is_tried(i, w)) check_case(backend, &c, ways[w].name, tolerance);
        }
}

static void layers_match_the_reference(void)
{
    layers_match(f32, TOLERANCE, false);
}

static void bf16_is_near_the_reference(void)
{
    layers_match(bf16, BF16_TOLERANCE, true);
}

static void fusions_match_the_reference(void)
{
    int count = 0;

    for (int i = 0; i < OP_CASE_COUNT; i++)
        for (int add = 0; add < 2; add++)
            for (int a = PDL_LAYER_INPUT; a < PDL_LAYER_TYPE_COUNT; a++) {
                pdl_fusion_t fusion = {add, (pdl_layer_type_t)a};

                if ((!add && a == PDL_LAYER_INPUT) || !has_fusion(f32, &op_cases[i], &fusion)) continue;
                for (int w = 0; w < WAY_COUNT; w++) {
                    op_case_t c = combine(&op_cases[i], &ways[w], &fusion);

                    if (!all_ways && (i + add + a) % WAY_COUNT != w) continue;
                    check_case(f32, &c, ways[w].name, TOLERANCE);
                    c.coarse = true;
                    check_case(bf16, &c, ways[w].name, BF16_TOLERANCE);
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

        /* Tiles of convolutions have several sizes, of which small layers take the small ones. */
        if (!all_ways && strstr(c.text, "conv:") == NULL) continue;
        check_case(f32, &c, accumulated.name, LARGE_TOLERANCE);
    }
}

/* Tiles of tensor cores are larger than the other cases. */
static void attention_in_bf16_is_near_the_reference(void)
{
    static const way_t        plain = {"", {.blocked = true}};
    static const pdl_fusion_t none = {false, PDL_LAYER_INPUT};

    for (int i = 0; i < LARGE_OP_CASE_COUNT; i++) {
        op_case_t   c = combine(&large_op_cases[i], &plain, &none);
        op_result_t once, again;

        if (strstr(c.text, "attention") == NULL) continue;
        c.coarse = true;
        check_case(bf16, &c, plain.name, BF16_TOLERANCE);
        if (op_case_run(bf16, &c, &once) == PDL_OK && op_case_run(bf16, &c, &again) == PDL_OK) {
            compare_results(&c, "again", &again, &once, 0);
            op_result_free(&again);
        }
        op_result_free(&once);
    }
}

/* The same bits in every run. */
static void repeated_runs_are_equal(void)
{
    for (int i = 0; i < OP_CASE_COUNT; i++)
        for (int precision = 0; precision < 2; precision++) {
            pdl_backend_t *backend = precision ? bf16 : f32;
            op_result_t    once, again;

            if (!all_ways && (i + precision) % 4 != 0) continue;
            if (op_case_run(backend, &op_cases[i], &once) == PDL_OK &&
                op_case_run(backend, &op_cases[i], &again) == PDL_OK) {
                compare_results(&op_cases[i], "again", &again, &once, 0);
                op_result_free(&again);
            }
            op_result_free(&once);
        }
}

int main(int count, char **arguments)
{
    all_ways = count == 3;
    f32 = cuda_backend(count, arguments, PDL_DTYPE_F32);
    bf16 = cuda_backend(count, arguments, PDL_DTYPE_BF16);
    CHECK_OK(pdl_backend_create_reference(&reference));
    RUN(layers_match_the_reference);
    RUN(bf16_is_near_the_reference);
    RUN(fusions_match_the_reference);
    RUN(attention_in_bf16_is_near_the_reference);
    RUN(large_layers_match_the_reference);
    RUN(repeated_runs_are_equal);
    pdl_backend_destroy(reference);
    pdl_backend_destroy(bf16);
    pdl_backend_destroy(f32);
    return test_done();
}
