/* Measured layers: the nearest row counts, and a window over a part in space is another kernel than one over a whole. */
#include "oracle/cost/cost.h"
#include "test.h"

#include <paradl/system/system.h>

/* Whole images at 1 TFLOP/s, parts at half of that; backward is not measured. */
static const pdl_measured_t rows[] = {
    {PDL_LAYER_CONV, -1, {1e9, 0}, {1e-3, 0}, 64, 64, 9, false},
    {PDL_LAYER_CONV, -1, {1e9, 0}, {2e-3, 0}, 64, 64, 9, true},
    {PDL_LAYER_LINEAR, -1, {1e9, 0}, {5e-3, 0}, 64, 64, 1, false},
};

static double seconds_of(int layer, double work, bool halo, int count)
{
    pdl_compute_cost_t cost = {.measured = rows, .measured_count = count};
    pdl_measured_t     row = {.layer = layer,
                              .after = -1,
                              .work = {work, 0},
                              .in_channels = 64,
                              .out_channels = 64,
                              .window = layer == PDL_LAYER_CONV ? 9 : 1,
                              .halo = halo};
    double             seconds[2] = {0, 0};

    pdl__measured_apply(&cost, &row, seconds);
    return seconds[0];
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

int main(void)
{
    RUN(rows_are_told_apart_by_their_halo);
    RUN(another_kernel_is_better_than_nothing);
    return test_done();
}
