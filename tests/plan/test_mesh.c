/*
 * Mesh arithmetic, balanced blocks, the table of redistributions, and halo rows against an enumeration of every
 * input row that every piece needs.
 */
#include "random.h"
#include "test.h"

#include <paradl/plan/mesh.h>

#include <stdbool.h>

static const pdl_mesh_t mesh = {{{PDL_AXIS_PIPELINE, 2, 0},
                                 {PDL_AXIS_DATA, 3, 0},
                                 {PDL_AXIS_SPATIAL, 1, 0},
                                 {PDL_AXIS_SPATIAL, 5, 1},
                                 {PDL_AXIS_TENSOR, 4, 0}},
                                5};

static void last_axis_is_fastest(void)
{
    int64_t c[PDL_MAX_AXES];

    CHECK_INT(pdl_mesh_size(&mesh), 120);
    CHECK_INT(pdl_mesh_stride(&mesh, 4), 1);
    CHECK_INT(pdl_mesh_stride(&mesh, 3), 4);
    CHECK_INT(pdl_mesh_stride(&mesh, 1), 20);
    CHECK_INT(pdl_mesh_stride(&mesh, 0), 60);
    for (int64_t rank = 0; rank < 120; rank++) {
        int64_t back = 0;
        pdl_mesh_coordinates(&mesh, rank, c);
        for (int a = 0; a < mesh.axis_count; a++) {
            CHECK(c[a] >= 0 && c[a] < mesh.axis[a].size);
            back += c[a] * pdl_mesh_stride(&mesh, a);
        }
        CHECK_INT(back, rank);
    }
    pdl_mesh_coordinates(&mesh, 119, c);
    CHECK_INT(c[0], 1);
    CHECK_INT(c[1], 2);
    CHECK_INT(c[3], 4);
    CHECK_INT(c[4], 3);
}

static void axes_are_found_and_named(void)
{
    const pdl_mesh_t none = {{{PDL_AXIS_DATA, 1, 0}}, 1};
    char             text[64], small[10];

    CHECK_INT(pdl_mesh_extent(&mesh, PDL_AXIS_SPATIAL), 5);
    CHECK_INT(pdl_mesh_extent(&mesh, PDL_AXIS_TENSOR), 4);
    CHECK_INT(pdl_mesh_extent(&none, PDL_AXIS_TENSOR), 1);
    CHECK_INT(pdl_mesh_find(&mesh, PDL_AXIS_SPATIAL), 2);
    CHECK_INT(pdl_mesh_find(&none, PDL_AXIS_SPATIAL), -1);
    CHECK_STR(pdl_mesh_format(&mesh, text, sizeof(text)), "pipeline 2 x data 3 x spatial 5 x tensor 4");
    CHECK_STR(pdl_mesh_format(&none, text, sizeof(text)), "1");
    CHECK_STR(pdl_mesh_format(&mesh, small, sizeof(small)), "pipeline ");
}

static void blocks_are_balanced_and_cover(void)
{
    for (int64_t n = 1; n <= 60; n++)
        for (int64_t blocks = 1; blocks <= n; blocks++) {
            int64_t expected = 0, low, high, smallest = n, largest = 0;
            for (int64_t b = 0; b < blocks; b++) {
                pdl_block_range(n, blocks, b, &low, &high);
                CHECK_INT(low, expected);
                CHECK_INT(low, b * n / blocks);
                expected = high;
                if (high - low < smallest) smallest = high - low;
                if (high - low > largest) largest = high - low;
            }
            CHECK_INT(expected, n);
            CHECK(smallest >= 1 && largest - smallest <= 1);
            CHECK_INT(pdl_block_max(n, blocks), largest);
        }
}

static void huge_blocks_do_not_overflow(void)
{
    int64_t low, high;

    pdl_block_range(INT64_C(1) << 60, 3, 2, &low, &high);
    CHECK_INT(low, INT64_C(768614336404564650));
    CHECK_INT(high, INT64_C(1) << 60);
}

/* The table of redistributions, one row for every pair. */
static void redistributions_follow_the_table(void)
{
    for (int from = 0; from < PDL_PLACEMENT_COUNT; from++)
        for (int to = 0; to < PDL_PLACEMENT_COUNT; to++) {
            bool            split_from = from >= PDL_SPLIT_N, split_to = to >= PDL_SPLIT_N;
            pdl_primitive_t expected = PDL_LOCAL; /* equal, slices, and parts placed among zeros */
            if (split_from && to == PDL_REPLICATED) expected = PDL_ALLGATHER;
            if (from == PDL_PARTIAL && to == PDL_REPLICATED) expected = PDL_ALLREDUCE;
            if (from == PDL_PARTIAL && split_to) expected = PDL_REDUCE_SCATTER;
            if (split_from && split_to && from != to) expected = PDL_ALLTOALL;
            CHECK_INT(pdl_redistribution((pdl_placement_t)from, (pdl_placement_t)to), expected);
        }
}

/* Rows that piece r must receive and from how many others: the range its outputs touch, row by row. */
static int64_t enumerate(const pdl_window_t *w, int64_t pieces, int64_t r, int *owners)
{
    int64_t low, high, first = w->in, last = -1, rows = 0, a, b;
    bool    from[64] = {false};

    pdl_block_range(w->out, pieces, r, &low, &high);
    for (int64_t o = low; o < high; o++)
        for (int64_t k = 0; k < w->kernel; k++) {
            int64_t x = o * w->stride - w->pad + k * w->dilation;
            if (x < 0) x = 0; /* padding clips the range that is needed, it does not end it */
            if (x >= w->in) x = w->in - 1;
            if (x < first) first = x;
            if (x > last) last = x;
        }
    *owners = 0;
    for (int64_t x = first; x <= last; x++)
        for (int64_t s = 0; s < pieces; s++) {
            pdl_block_range(w->in, pieces, s, &a, &b);
            if (x < a || x >= b || s == r) continue;
            rows++;
            from[s] = true;
        }
    for (int64_t s = 0; s < pieces; s++) *owners += from[s];
    return rows;
}

/* A window all of whose positions lie in the padding reads nothing: leave such shapes out, models have none. */
static bool touches_input(const pdl_window_t *w)
{
    int64_t reach = (w->kernel - 1) * w->dilation + 1;

    return reach > w->pad && (w->out - 1) * w->stride - w->pad < w->in;
}

/* Of all pieces together: the rows they receive, and those they read, of their own too. */
/* Data, pipeline and axes of one rank take no step; a slice comes before what shrinks, that before what grows. */
static void redistributions_come_in_the_cheapest_order(void)
{
    static const pdl_mesh_t   cube = {{{PDL_AXIS_DATA, 2, 0},
                                       {PDL_AXIS_TENSOR, 2, 0},
                                       {PDL_AXIS_SPATIAL, 2, 0},
                                       {PDL_AXIS_TENSOR, 1, 0},
                                       {PDL_AXIS_TENSOR, 2, 0},
                                       {PDL_AXIS_SPATIAL, 2, 1}},
                                      6};
    const pdl_placement_t     from[PDL_MAX_AXES] = {PDL_SPLIT_N,    PDL_SPLIT_C, PDL_SPLIT_S0,
                                                    PDL_REPLICATED, PDL_PARTIAL, PDL_REPLICATED};
    const pdl_placement_t     to[PDL_MAX_AXES] = {PDL_SPLIT_N,    PDL_REPLICATED, PDL_SPLIT_S1,
                                                  PDL_REPLICATED, PDL_SPLIT_C,    PDL_SPLIT_S0};
    pdl_redistribution_step_t step[PDL_MAX_AXES];

    REQUIRE(pdl_redistribution_steps(&cube, from, to, step) == 4);
    CHECK(step[0].axis == 5 && step[0].primitive == PDL_LOCAL);
    CHECK(step[1].axis == 4 && step[1].primitive == PDL_REDUCE_SCATTER);
    CHECK(step[2].axis == 2 && step[2].primitive == PDL_ALLTOALL);
    CHECK(step[3].axis == 1 && step[3].primitive == PDL_ALLGATHER);
    CHECK(pdl_gradient_placement(PDL_PARTIAL) == PDL_REPLICATED);
    CHECK(pdl_gradient_placement(PDL_SPLIT_C) == PDL_SPLIT_C);
}

static void halo_rows_equal_enumeration(void)
{
    int uneven = 0, thin = 0, tried = 0;

    while (tried < 20000) {
        pdl_window_t w = {between(1, 40), 0, between(1, 7), between(1, 4), between(1, 3), 0};
        int64_t      reach = (w.kernel - 1) * w.dilation + 1, most = 0;
        int          neighbours, owners, expected = 0;
        bool         seen = false;

        w.pad = between(0, reach - 1);
        int64_t padded = w.in + w.pad + between(0, reach - 1);
        if (padded < reach) continue;
        w.out = (padded - reach) / w.stride + 1;
        int64_t pieces = between(1, w.in < w.out ? w.in : w.out);
        if (!touches_input(&w)) continue;
        int64_t rows = pdl_halo_rows(&w, pieces, &neighbours);
        for (int64_t r = 0; r < pieces; r++) {
            int64_t here = enumerate(&w, pieces, r, &owners);
            if (here > most) most = here;
        }
        CHECK_INT(rows, most);
        for (int64_t r = 0; r < pieces; r++)
            if (enumerate(&w, pieces, r, &owners) == most && owners == neighbours) seen = true;
        if (most == 0) expected = 0, seen = neighbours == expected;
        CHECK(seen);
        uneven += w.in % pieces != 0;
        thin += neighbours > 2;
        tried++;
    }
    CHECK(uneven > 1000 && thin > 1000);
}

static void known_halos(void)
{
    int neighbours;

    /* 3x3, same padding: a row from each side; two pieces have one neighbour each. */
    CHECK_INT(pdl_halo_rows(&(pdl_window_t){12, 12, 3, 1, 1, 1}, 4, &neighbours), 2);
    CHECK_INT(neighbours, 2);
    CHECK_INT(pdl_halo_rows(&(pdl_window_t){12, 12, 3, 1, 1, 1}, 2, &neighbours), 1);
    CHECK_INT(neighbours, 1);
    CHECK_INT(pdl_halo_rows(&(pdl_window_t){12, 12, 1, 1, 1, 0}, 3, &neighbours), 0);
    CHECK_INT(pdl_halo_rows(&(pdl_window_t){12, 6, 2, 2, 1, 0}, 3, &neighbours), 0);
    /* One row a piece and a halo of three: six rows from six neighbours. */
    CHECK_INT(pdl_halo_rows(&(pdl_window_t){16, 16, 7, 1, 1, 3}, 16, &neighbours), 6);
    CHECK_INT(neighbours, 6);
    CHECK_INT(pdl_halo_rows(&(pdl_window_t){16, 16, 7, 1, 1, 3}, 1, &neighbours), 0);
    CHECK_INT(neighbours, 0);
}

int main(void)
{
    RUN(last_axis_is_fastest);
    RUN(axes_are_found_and_named);
    RUN(blocks_are_balanced_and_cover);
    RUN(huge_blocks_do_not_overflow);
    RUN(redistributions_follow_the_table);
    RUN(redistributions_come_in_the_cheapest_order);
    RUN(halo_rows_equal_enumeration);
    RUN(known_halos);
    return test_done();
}
