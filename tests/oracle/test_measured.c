/* Measured layers: the nearest row counts, and a window over a part in space is another kernel than one over a whole. */
#include "oracle/cost/cost.h"
#include "test.h"

#include <paradl/system/system.h>

/* Whole images at 1 TFLOP/s, parts at half of that; backward is not measured. */
#define ROW(TYPE, PRECISION, WORK, SECONDS, WINDOW, HALO)                                               \
    {                                                                                                   \
        .layer = TYPE, .precision = PRECISION, .after = -1, .work = {WORK, 0}, .seconds = {SECONDS, 0}, \
        .in_channels = 64, .out_channels = 64, .window = WINDOW, .halo = HALO                           \
    }
static const pdl_measured_t rows[] = {
    ROW(PDL_LAYER_CONV, PDL_FP32, 1e9, 1e-3, 9, false),   ROW(PDL_LAYER_CONV, PDL_FP32, 1e9, 2e-3, 9, true),
    ROW(PDL_LAYER_LINEAR, PDL_FP32, 1e9, 5e-3, 1, false), ROW(PDL_LAYER_LINEAR, PDL_BF16, 1e9, 1e-3, 1, false),
    ROW(PDL_LAYER_RELU, PDL_FP32, 1e5, 5e-6, 1, false),   ROW(PDL_LAYER_RELU, PDL_FP32, 1e8, 105e-6, 1, false),
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static double seconds_in(pdl_precision_t precision, int layer, double work, bool halo, int count)
{
    pdl_compute_cost_t cost = {
        .measured = rows, .measured_count = count, .flop_per_s = 1e12, .bytes_per_s = 1e12, .kernel_s = 5e-6};
    pdl_measured_t row = {.layer = layer,
                          .precision = (int)precision,
                          .after = -1,
                          .work = {work, 0},
                          .in_channels = 64,
                          .out_channels = 64,
                          .window = layer == PDL_LAYER_CONV ? 9 : 1,
                          .halo = halo};
    double         seconds[2] = {0, 0};

    pdl__measured_apply(&cost, &row, seconds);
    return seconds[0];
}

static double seconds_of(int layer, double work, bool halo, int count)
{
    return seconds_in(PDL_FP32, layer, work, halo, count);
}

static void rows_are_told_apart_by_their_halo(void)
{
    CHECK_NEAR(seconds_of(PDL_LAYER_CONV, 1e9, false, 3), 1e-3, 0.01);
    CHECK_NEAR(seconds_of(PDL_LAYER_CONV, 1e9, true, 3), 2e-3, 0.01);
    CHECK_NEAR(seconds_of(PDL_LAYER_CONV, 2e9, true, 3), 4e-3, 0.05);
}

static void another_kernel_is_better_than_nothing(void)
{
    CHECK_NEAR(seconds_of(PDL_LAYER_CONV, 1e9, true, 1), 1e-3, 1e-9);
    CHECK_NEAR(seconds_of(PDL_LAYER_LINEAR, 1e9, false, 3), 5e-3, 1e-9);
}

static void rows_are_told_apart_by_their_precision(void)
{
    CHECK_NEAR(seconds_in(PDL_BF16, PDL_LAYER_LINEAR, 1e9, false, ROWS), 1e-3, 1e-9);
    CHECK_NEAR(seconds_of(PDL_LAYER_LINEAR, 1e9, false, ROWS), 5e-3, 1e-9);
    /* None of that precision: what was said before stays. */
    CHECK_NEAR(seconds_in(PDL_FP16, PDL_LAYER_LINEAR, 1e9, false, ROWS), 0, 1e-12);
}

/* Small kernels take what one takes at least, large ones what their bytes take. */
static void time_follows_work_through_both_ends(void)
{
    CHECK_NEAR(seconds_of(PDL_LAYER_RELU, 1e4, false, ROWS), 5.01e-6, 0.03);
    CHECK_NEAR(seconds_of(PDL_LAYER_RELU, 1e7, false, ROWS), 15e-6, 0.03);
    CHECK_NEAR(seconds_of(PDL_LAYER_RELU, 1e9, false, ROWS), 1005e-6, 0.03);
}

/* Attention that drops is far from one that does not, however near it is otherwise. */
static void rows_are_told_apart_by_dropout(void)
{
    const pdl_measured_t both[] = {
        {.layer = PDL_LAYER_ATTENTION,
         .precision = PDL_FP32,
         .after = -1,
         .work = {1e9, 0},
         .seconds = {1e-3, 0},
         .in_channels = 64,
         .out_channels = 64,
         .window = 1},
        {.layer = PDL_LAYER_ATTENTION,
         .precision = PDL_FP32,
         .after = -1,
         .work = {1e9, 0},
         .seconds = {9e-3, 0},
         .in_channels = 64,
         .out_channels = 64,
         .window = 1,
         .drops = true},
    };
    pdl_compute_cost_t cost = {
        .measured = both, .measured_count = 2, .flop_per_s = 1e12, .bytes_per_s = 1e12, .kernel_s = 1e-6};
    double seconds[2] = {0, 0};

    pdl__measured_apply(&cost, &both[1], seconds);
    CHECK_NEAR(seconds[0], 9e-3, 0.01);
    pdl__measured_apply(&cost, &both[0], seconds);
    CHECK_NEAR(seconds[0], 1e-3, 0.01);
}

int main(void)
{
    RUN(rows_are_told_apart_by_their_precision);
    RUN(rows_are_told_apart_by_dropout);
    RUN(time_follows_work_through_both_ends);
    RUN(rows_are_told_apart_by_their_halo);
    RUN(another_kernel_is_better_than_nothing);
    return test_done();
}
