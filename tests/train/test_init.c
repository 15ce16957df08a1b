/*
 * Initial weights have the distribution that their layer asks for, and every piece of a tensor holds the numbers of
 * the whole.
 */
#include "test.h"

#include <paradl/train/init.h>

#include <stdlib.h>

typedef struct moments {
    double mean, deviation, kurtosis, least, most;
} moments_t;

static moments_t measure(const float *values, int64_t count)
{
    moments_t m = {.least = INFINITY, .most = -INFINITY};
    double    second = 0, fourth = 0;

    for (int64_t i = 0; i < count; i++) {
        m.mean += (double)values[i] / (double)count;
        m.least = fmin(m.least, (double)values[i]);
        m.most = fmax(m.most, (double)values[i]);
    }
    for (int64_t i = 0; i < count; i++) {
        double d = (double)values[i] - m.mean;

        second += d * d / (double)count;
        fourth += d * d * d * d / (double)count;
    }
    m.deviation = sqrt(second);
    m.kurtosis = fourth / (second * second);
    return m;
}

static pdl_layer_t make_layer(pdl_layer_type_t type, pdl_init_t init)
{
    return (pdl_layer_t){.name = "block.0.layer",
                         .type = type,
                         .init = init,
                         .init_std = 0.02,
                         .groups = 1,
                         .in = {.channels = 64, .extent = {8, 8, 1}, .rank = 2},
                         .out = {.channels = 128, .extent = {8, 8, 1}, .rank = 2},
                         .kernel = {3, 3, 1},
                         .bias = true};
}

static const int64_t conv_dims[] = {128, 64, 3, 3};
#define CONV_COUNT (128 * 64 * 9)

static float values[CONV_COUNT];

/* With 73,728 draws the mean strays by 0.4 % of the deviation, the deviation itself by 0.3 %. */
static void check_uniform(double bound)
{
    moments_t m = measure(values, CONV_COUNT);

    CHECK(fabs(m.mean) < 0.02 * bound);
    CHECK_NEAR(m.deviation, bound / sqrt(3), 0.01);
    CHECK_NEAR(m.kurtosis, 1.8, 0.02);
    CHECK(m.least >= -bound && m.most <= bound && m.most > 0.999 * bound && m.least < -0.999 * bound);
}

static void check_normal(double deviation)
{
    moments_t m = measure(values, CONV_COUNT);

    CHECK(fabs(m.mean) < 0.02 * deviation);
    CHECK_NEAR(m.deviation, deviation, 0.01);
    CHECK_NEAR(m.kurtosis, 3, 0.03);
    CHECK(m.most > 3.7 * deviation && m.least < -3.7 * deviation && m.most < 6 * deviation);
}

static void convolutions(void)
{
    pdl_layer_t layer = make_layer(PDL_LAYER_CONV, PDL_INIT_DEFAULT);
    float       bias[128];

    CHECK_OK(pdl_init_weight(&layer, "weight", 4, conv_dims, 1, values));
    check_uniform(1 / sqrt(64 * 9));
    CHECK_OK(pdl_init_weight(&layer, "bias", 1, conv_dims, 1, bias));
    for (int i = 0; i < 128; i++) CHECK(fabs((double)bias[i]) <= 1 / sqrt(64 * 9) && bias[i] != 0);
    layer.init = PDL_INIT_HE;
    CHECK_OK(pdl_init_weight(&layer, "weight", 4, conv_dims, 1, values));
    check_normal(sqrt(2.0 / (64 * 9)));
    CHECK_OK(pdl_init_weight(&layer, "bias", 1, conv_dims, 1, bias));
    for (int i = 0; i < 128; i++) CHECK(bias[i] == 0);
    layer.init = PDL_INIT_XAVIER;
    CHECK_OK(pdl_init_weight(&layer, "weight", 4, conv_dims, 1, values));
    check_uniform(sqrt(6.0 / ((64 + 128) * 9)));
    layer.init = PDL_INIT_NORMAL;
    CHECK_OK(pdl_init_weight(&layer, "weight", 4, conv_dims, 1, values));
    check_normal(0.02);
    layer.init = PDL_INIT_ONE;
    CHECK_OK(pdl_init_weight(&layer, "weight", 4, conv_dims, 1, values));
    CHECK(values[0] == 1 && values[CONV_COUNT - 1] == 1);
    layer.init = PDL_INIT_ZERO;
    CHECK_OK(pdl_init_weight(&layer, "weight", 4, conv_dims, 1, values));
    CHECK(values[0] == 0 && values[CONV_COUNT - 1] == 0);
}

/* A group sees only its own channels, and so does its bias; a transposed one is counted from its outputs. */
static void groups_and_transposed(void)
{
    pdl_layer_t   layer = make_layer(PDL_LAYER_CONV, PDL_INIT_DEFAULT);
    const int64_t grouped[] = {128, 16, 3, 3}, transposed[] = {64, 128, 3, 3}, count[] = {1024};
    float         bias[1024];

    layer.groups = 4;
    CHECK_OK(pdl_init_weight(&layer, "weight", 4, grouped, 1, values));
    CHECK_NEAR(measure(values, CONV_COUNT / 4).most, 1 / sqrt(16 * 9), 1e-3);
    CHECK_OK(pdl_init_weight(&layer, "bias", 1, count, 1, bias));
    CHECK_NEAR(measure(bias, 1024).most, 1 / sqrt(16 * 9), 0.02);
    layer.type = PDL_LAYER_CONV_TRANSPOSE;
    layer.groups = 1;
    CHECK_OK(pdl_init_weight(&layer, "weight", 4, transposed, 1, values));
    check_uniform(1 / sqrt(128 * 9));
    CHECK_OK(pdl_init_weight(&layer, "bias", 1, count, 1, bias));
    CHECK_NEAR(measure(bias, 1024).most, 1 / sqrt(128 * 9), 0.02);
}

static void other_layers(void)
{
    const int64_t linear[] = {576, 128}, table[] = {1152, 64}, experts[] = {8, 96, 96}, one[] = {4};
    pdl_layer_t   layer = make_layer(PDL_LAYER_LINEAR, PDL_INIT_DEFAULT);

    CHECK_OK(pdl_init_weight(&layer, "weight", 2, linear, 5, values));
    check_uniform(1 / sqrt(128));
    layer.type = PDL_LAYER_EMBEDDING;
    CHECK_OK(pdl_init_weight(&layer, "weight", 2, table, 5, values));
    check_normal(1);
    layer.type = PDL_LAYER_POSITION;
    CHECK_OK(pdl_init_weight(&layer, "weight", 2, table, 5, values));
    check_normal(0.02);
    CHECK_OK(pdl_init_weight(&layer, "class_token", 1, one, 5, values));
    CHECK(values[0] == 0 && values[3] == 0);
    layer.type = PDL_LAYER_MOE;
    CHECK_OK(pdl_init_weight(&layer, "down", 3, experts, 5, values));
    check_uniform(1 / sqrt(96));
    layer.type = PDL_LAYER_BATCH_NORM;
    layer.init = PDL_INIT_HE;
    CHECK_OK(pdl_init_weight(&layer, "weight", 1, one, 5, values));
    CHECK(values[0] == 1 && values[3] == 1);
    CHECK_OK(pdl_init_weight(&layer, "bias", 1, one, 5, values));
    CHECK(values[0] == 0 && values[3] == 0);
    CHECK_OK(pdl_init_weight(&layer, "running_var", 1, one, 5, values));
    CHECK(values[0] == 1 && values[3] == 1);
    CHECK_OK(pdl_init_weight(&layer, "running_mean", 1, one, 5, values));
    CHECK(values[0] == 0 && values[3] == 0);
    layer.init = PDL_INIT_ZERO;
    CHECK_OK(pdl_init_weight(&layer, "weight", 1, one, 5, values));
    CHECK(values[0] == 0 && values[3] == 0);
    CHECK_ERROR(pdl_init_weight(&layer, "tilt", 1, one, 5, values),
                "layer block.0.layer: how its weight tilt starts");
}

static void pieces_are_of_the_whole(void)
{
    static const pdl_init_t inits[] = {PDL_INIT_DEFAULT, PDL_INIT_HE};
    static float            piece[CONV_COUNT];

    for (int k = 0; k < 2; k++) {
        pdl_layer_t layer = make_layer(PDL_LAYER_CONV, inits[k]);

        CHECK_OK(pdl_init_weight(&layer, "weight", 4, conv_dims, 9, values));
        for (int64_t first = 0, count = 1; first < CONV_COUNT; first += count, count = 3 * count + 1) {
            if (count > CONV_COUNT - first) count = CONV_COUNT - first;
            CHECK_OK(pdl_init_weight_piece(&layer, "weight", 4, conv_dims, 9, first, count, piece));
            CHECK(memcmp(piece, values + first, (size_t)count * sizeof(float)) == 0);
        }
    }
}

static void names_and_seeds_differ(void)
{
    pdl_layer_t  layer = make_layer(PDL_LAYER_CONV, PDL_INIT_HE);
    static float other[CONV_COUNT];
    int          equal = 0;

    CHECK_OK(pdl_init_weight(&layer, "weight", 4, conv_dims, 9, values));
    CHECK_OK(pdl_init_weight(&layer, "weight", 4, conv_dims, 10, other));
    for (int i = 0; i < CONV_COUNT; i++) equal += values[i] == other[i];
    layer.name = "block.1.layer";
    CHECK_OK(pdl_init_weight(&layer, "weight", 4, conv_dims, 9, other));
    for (int i = 0; i < CONV_COUNT; i++) equal += values[i] == other[i];
    CHECK(equal < 20);
}

int main(void)
{
    RUN(convolutions);
    RUN(groups_and_transposed);
    RUN(other_layers);
    RUN(pieces_are_of_the_whole);
    RUN(names_and_seeds_differ);
    return test_done();
}
