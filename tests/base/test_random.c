/* Philox gives the published vectors, filling equals drawing one by one, and what is drawn looks random. */
#include "test.h"

#include <paradl/base/random.h>

#include <stdlib.h>

/* The vectors of the authors' library Random123 for philox4x32-10. */
static void known_answers(void)
{
    static const struct {
        uint64_t seed, stream, index;
        uint32_t out[4];
    } cases[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {UINT64_C(0x299f31d0a4093822),
         UINT64_C(0x0370734413198a2e),
         UINT64_C(0x85a308d3243f6a88),
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t out[4];

        pdl_random_block(cases[i].seed, cases[i].stream, cases[i].index, out);
        for (int word = 0; word < 4; word++) CHECK_INT(out[word], cases[i].out[word]);
    }
}

static void check_fill(uint64_t first, int64_t count)
{
    static float out[1024 + 2];
    const float  guard = -7;

    out[0] = out[count + 1] = guard;
    pdl_random_fill(42, 7, first, count, out + 1);
    for (int64_t i = 0; i < count; i++) {
        uint64_t element = first + (uint64_t)i;
        uint32_t block[4];

        pdl_random_block(42, 7, element / 4, block);
        CHECK_NEAR(out[i + 1], (block[element % 4] >> 8) / 16777216.0, 0);
    }
    CHECK_NEAR(out[0], guard, 0);
    CHECK_NEAR(out[count + 1], guard, 0);
}

static void fill_equals_single_blocks(void)
{
    static const int64_t counts[] = {0, 1, 2, 3, 4, 5, 63, 64, 65, 127, 129, 1000};

    for (uint64_t first = 0; first < 9; first++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) check_fill(first, counts[i]);
    }
    /* Where the lower half of the block index overflows. */
    for (int back = 0; back < 300; back += 37) check_fill((UINT64_C(4) << 32) - (uint64_t)back, 400);
    check_fill(UINT64_MAX - 500, 500);
}

static void uniform_moments(void)
{
    enum { COUNT = 200000 };
    double sum = 0, square = 0, neighbour = 0, before = 0.5;

    for (int i = 0; i < COUNT; i++) {
        double x = pdl_random_uniform(1, 2, (uint64_t)i);

        CHECK(x >= 0 && x < 1);
        sum += x;
        square += x * x;
        neighbour += (x - 0.5) * (before - 0.5);
        before = x;
    }
    CHECK_NEAR(sum / COUNT, 0.5, 0.005);
    CHECK_NEAR(square / COUNT, 1.0 / 3, 0.01);
    CHECK(fabs(neighbour / COUNT) < 1e-3);
}

static void fill_is_uniform(void)
{
    enum { COUNT = 1 << 18, BINS = 256 };
    float *out = malloc(COUNT * sizeof(*out));
    int    bin[BINS] = {0};
    double chi = 0;

    CHECK(out != NULL);
    if (out == NULL) return;
    pdl_random_fill(3, 4, 1, COUNT, out);
    for (int i = 0; i < COUNT; i++) {
        CHECK(out[i] >= 0 && out[i] < 1);
        bin[(int)(out[i] * BINS)]++;
    }
    for (int i = 0; i < BINS; i++) {
        double expected = (double)COUNT / BINS, off = bin[i] - expected;

        chi += off * off / expected;
    }
    /* 255 degrees of freedom: mean 255, deviation 22.6. */
    CHECK(chi > 165 && chi < 345);
    free(out);
}

static void normal_moments(void)
{
    enum { COUNT = 200000 };
    double moment[5] = {0};
    int    beyond = 0;

    for (int i = 0; i < COUNT; i++) {
        double x = pdl_random_normal(5, 6, (uint64_t)i), power = 1;

        for (int k = 1; k <= 4; k++) moment[k] += power *= x;
        beyond += fabs(x) > 1.959964;
    }
    CHECK(fabs(moment[1] / COUNT) < 0.01);
    CHECK_NEAR(moment[2] / COUNT, 1, 0.02);
    CHECK(fabs(moment[3] / COUNT) < 0.04);
    CHECK_NEAR(moment[4] / COUNT, 3, 0.04);
    CHECK_NEAR((double)beyond / COUNT, 0.05, 0.05);
}

static void below_is_even(void)
{
    enum { COUNT = 70000, LIMIT = 7 };
    int      bin[LIMIT] = {0};
    uint64_t half = (UINT64_C(1) << 63) + 1, high = 0;

    for (int i = 0; i < COUNT; i++) {
        uint64_t x = pdl_random_below(8, 9, (uint64_t)i, LIMIT);

        CHECK(x < LIMIT);
        if (x < LIMIT) bin[x]++;
    }
    for (int i = 0; i < LIMIT; i++) CHECK_NEAR(bin[i], (double)COUNT / LIMIT, 0.05);
    /* Nearly every other draw is refused here; without refusal one half would come twice as often. */
    for (int i = 0; i < COUNT; i++) {
        uint64_t x = pdl_random_below(8, 9, (uint64_t)i, half);

        CHECK(x < half);
        high += x >= half / 2;
    }
    CHECK_NEAR((double)high / COUNT, 0.5, 0.02);
    CHECK_INT(pdl_random_below(1, 2, 3, 1), 0);
}

static void permutations_are_permutations(void)
{
    enum { COUNT = 1000 };
    int64_t order[COUNT], again[COUNT];
    int     seen[COUNT] = {0}, fixed = 0, first[4] = {0};

    pdl_random_permutation(1, 1, COUNT, order);
    pdl_random_permutation(1, 1, COUNT, again);
    CHECK(memcmp(order, again, sizeof(order)) == 0);
    for (int i = 0; i < COUNT; i++) {
        CHECK(order[i] >= 0 && order[i] < COUNT);
        seen[order[i]]++;
        fixed += order[i] == i;
    }
    for (int i = 0; i < COUNT; i++) CHECK_INT(seen[i], 1);
    CHECK(fixed < 10);
    for (uint64_t stream = 0; stream < 4000; stream++) {
        pdl_random_permutation(1, stream, 4, order);
        first[order[0]]++;
    }
    for (int i = 0; i < 4; i++) CHECK_NEAR(first[i], 1000, 0.12);
    pdl_random_permutation(1, 1, 0, order);
}

static void streams_differ(void)
{
    const uint64_t base = pdl_random_stream("dropout", 1, 2);

    CHECK(base == pdl_random_stream("dropout", 1, 2));
    CHECK(base != pdl_random_stream("dropout", 2, 1));
    CHECK(base != pdl_random_stream("dropout", 1, 3));
    CHECK(base != pdl_random_stream("weights", 1, 2));
    CHECK(pdl_random_stream("", 0, 0) != pdl_random_stream("", 0, 1));
    CHECK(pdl_random_uniform(1, base, 0) != pdl_random_uniform(2, base, 0));
}

int main(void)
{
    RUN(known_answers);
    RUN(fill_equals_single_blocks);
    RUN(uniform_moments);
    RUN(fill_is_uniform);
    RUN(normal_moments);
    RUN(below_is_even);
    RUN(permutations_are_permutations);
    RUN(streams_differ);
    return test_done();
}
