/*
 * Counted prices equal the closed forms; the periods of rings are periods; bytes of blocks sum to the whole, and
 * those that ranks send to what they move.
 */
#include "test.h"

#include <paradl/coll/coll.h>
#include <stdlib.h>

static const double bytes = 1 << 20;

static pdl_schedule_t *create(pdl_schedule_spec_t spec)
{
    pdl_schedule_t *schedule = NULL;

    REQUIRE_OK(pdl_schedule_create(&spec, &schedule));
    return schedule;
}

static void check_price(pdl_schedule_spec_t spec, double startups, double moved, double reduced)
{
    pdl_schedule_t  *schedule = create(spec);
    pdl_coll_price_t price = pdl_schedule_price(schedule, bytes);

    CHECK_NEAR(price.startups, startups, 0);
    CHECK_NEAR(price.bytes, moved * bytes, 1e-12);
    if (reduced >= 0) CHECK_NEAR(price.reduced_bytes, reduced * bytes, 1e-12);
    if (test_failures > 0) printf("    (%s, %lld ranks)\n", spec.algorithm, (long long)spec.ranks);
    pdl_schedule_destroy(schedule);
}

static void flat_allreduce(void)
{
    for (int p = 1; p <= 40; p++) {
        double once = (p - 1.0) / p;
        int    log = 0;

        while (1 << log < p) log++;
        check_price((pdl_schedule_spec_t){.algorithm = "ring", .ranks = p}, 2 * (p - 1), 2 * once, once);
        check_price((pdl_schedule_spec_t){.algorithm = "circulant", .ranks = p}, 2 * log, 2 * once, once);
        check_price((pdl_schedule_spec_t){.algorithm = "tree", .ranks = p}, 2 * log, 2 * log, log);
        if (1 << log == p) {
            check_price((pdl_schedule_spec_t){.algorithm = "rdb", .ranks = p}, log, log, log);
            check_price((pdl_schedule_spec_t){.algorithm = "hd_near", .ranks = p}, 2 * log, 2 * once, once);
            check_price((pdl_schedule_spec_t){.algorithm = "hd_far", .ranks = p}, 2 * log, 2 * once, once);
            check_price((pdl_schedule_spec_t){.algorithm = "rshd", .ranks = p}, 2 * log, 2 * once, once);
            check_price((pdl_schedule_spec_t){.algorithm = "swing", .ranks = p}, 2 * log, 2 * once, once);
        } else {
            /* Folding adds two messages of the whole vector to the price of the power of two below. */
            double below = 1 - 1.0 / (1 << (log - 1));
            check_price((pdl_schedule_spec_t){.algorithm = "rdb", .ranks = p}, log + 1, log + 1, log);
            check_price((pdl_schedule_spec_t){.algorithm = "hd_far", .ranks = p}, 2 * log, 2 + 2 * below,
                        1 + below);
        }
    }
}

static void hierarchies(void)
{
    for (int n = 1; n <= 16; n++) {
        for (int g = 1; g <= 8; g++) {
            double inside = (g - 1.0) / g, between = (n - 1.0) / (n * g);

            check_price((pdl_schedule_spec_t){.algorithm = "ring_ring", .ranks = n * g, .hosts_per_switch = g},
                        2 * (g - 1) + 2 * (n - 1), 2 * inside + 2 * between, inside + between);
        }
    }
    for (int h = 1; h <= 8; h *= 2) {
        double once = 1 - 1.0 / (64 * h);

        for (int k = 0; k < 3; k++) {
            static const char *const names[] = {"shd_near", "shd_far", "rshd"};
            int                      log = 6 + (h > 1) + (h > 2) + (h > 4);
            check_price((pdl_schedule_spec_t){.algorithm = names[k], .ranks = 64 * h, .hosts_per_switch = h},
                        2 * log, 2 * once, once);
        }
    }
    /* A binomial tree of 4 ranks up and down, a ring of 8 leaders between. */
    check_price((pdl_schedule_spec_t){.algorithm = "leader", .ranks = 32, .hosts_per_switch = 4}, 4 + 14,
                4 + 2 * 7.0 / 8, 2 + 7.0 / 8);
    check_price((pdl_schedule_spec_t){.algorithm = "ring_rdb", .ranks = 32, .hosts_per_switch = 4}, 6 + 3,
                2 * 0.75 + 3 * 0.25, 0.75 + 3 * 0.25);
}

static void several_ports(void)
{
    for (int d = 2; d <= 16; d++) {
        int n = d * (d + 1);
        check_price((pdl_schedule_spec_t){.algorithm = "kautz", .ranks = n}, 4, 2.0 * (d + 1) / n, -1);
    }
    check_price((pdl_schedule_spec_t){.algorithm = "kautz", .ranks = 36, .rows = 3}, 6, 2 * 13.0 / 36, -1);
    for (int n = 2; n <= 16; n *= 2) {
        double block = 1.0 / ((double)n * n * n * n);
        check_price((pdl_schedule_spec_t){.collective = PDL_COLL_ALLTOALL,
                                          .algorithm = "fc2",
                                          .ranks = n * n,
                                          .rows = n,
                                          .columns = n},
                    2, n * block, 0);
    }
}

static void other_collectives(void)
{
    check_price((pdl_schedule_spec_t){.collective = PDL_COLL_ALLGATHER, .algorithm = "bruck", .ranks = 13}, 4,
                12.0 / 13, 0);
    check_price((pdl_schedule_spec_t){.collective = PDL_COLL_ALLTOALL, .algorithm = "pairwise", .ranks = 13}, 12,
                12.0 / 169, 0);
    check_price((pdl_schedule_spec_t){.collective = PDL_COLL_ALLTOALL, .algorithm = "bruck", .ranks = 16}, 4,
                4 * 8.0 / 256, 0);
    check_price((pdl_schedule_spec_t){.collective = PDL_COLL_BROADCAST, .algorithm = "binomial", .ranks = 13}, 4, 4,
                0);
    check_price(
        (pdl_schedule_spec_t){.collective = PDL_COLL_BROADCAST, .algorithm = "chain", .ranks = 13, .segments = 4},
        11 + 4, 15 / 4.0, 0);
    check_price((pdl_schedule_spec_t){.collective = PDL_COLL_BROADCAST,
                                      .algorithm = "scatter_allgather",
                                      .ranks = 16},
                4 + 15, 2 * 15 / 16.0, 0);
    check_price((pdl_schedule_spec_t){.algorithm = "recmul", .ranks = 64, .radix = 4}, 9, 9, 9);
    /* Six ports of a hypercube and of a torus 4 x 4 x 4 share the volume of one. */
    check_price((pdl_schedule_spec_t){.algorithm = "multiport", .ranks = 64}, 12, 2 * 63.0 / 64 / 6, 63.0 / 64);
    check_price((pdl_schedule_spec_t){.algorithm = "multiport:4", .ranks = 64}, 18, 2 * 63.0 / 64 / 6, 63.0 / 64);
    check_price((pdl_schedule_spec_t){.algorithm = "multiport", .ranks = 64, .rows = 4}, 18, 2 * 63.0 / 64 / 6,
                63.0 / 64);
}

/* Inside a group every step of every rank has the peers and counts of the first. */
static void check_periods(pdl_schedule_spec_t spec, int expected)
{
    static pdl_moves_t one, other;
    int                first[PDL_MAX_PERIODS], last[PDL_MAX_PERIODS];
    pdl_schedule_t    *schedule = create(spec);
    int                groups = pdl_schedule_period(schedule, first, last);

    CHECK_INT(groups, expected);
    for (int k = 0; k < groups; k++) {
        CHECK(k == 0 || first[k] >= last[k - 1]);
        CHECK(last[k] <= pdl_schedule_steps(schedule));
        for (int step = first[k]; step < last[k]; step++) {
            for (int rank = 0; rank < spec.ranks; rank++) {
                pdl_schedule_sends(schedule, first[k], rank, &one);
                pdl_schedule_sends(schedule, step, rank, &other);
                CHECK_INT(one.move_count, other.move_count);
                for (int m = 0; m < one.move_count; m++) {
                    CHECK_INT(one.move[m].peer, other.move[m].peer);
                    CHECK_INT(one.move[m].op, other.move[m].op);
                    CHECK_INT(one.range[one.move[m].range_first].count,
                              other.range[other.move[m].range_first].count);
                }
            }
        }
    }
    pdl_schedule_destroy(schedule);
}

static void rings_have_periods(void)
{
    check_periods((pdl_schedule_spec_t){.algorithm = "ring", .ranks = 12}, 2);
    check_periods((pdl_schedule_spec_t){.collective = PDL_COLL_ALLGATHER, .algorithm = "ring", .ranks = 12}, 1);
    check_periods((pdl_schedule_spec_t){.collective = PDL_COLL_REDUCE_SCATTER, .algorithm = "ring", .ranks = 12},
                  1);
    check_periods((pdl_schedule_spec_t){.algorithm = "ring_ring", .ranks = 24, .hosts_per_switch = 4}, 4);
    check_periods((pdl_schedule_spec_t){.algorithm = "ring_rab", .ranks = 32, .hosts_per_switch = 4}, 2);
    check_periods((pdl_schedule_spec_t){.algorithm = "ring_rdb", .ranks = 28, .hosts_per_switch = 4}, 2);
    check_periods((pdl_schedule_spec_t){.algorithm = "leader", .ranks = 32, .hosts_per_switch = 4}, 2);
    check_periods((pdl_schedule_spec_t){.algorithm = "hd_far", .ranks = 12}, 0);
    check_periods((pdl_schedule_spec_t){.algorithm = "kautz", .ranks = 12}, 0);
}

static void long_rings_are_priced_at_once(void)
{
    check_price((pdl_schedule_spec_t){.algorithm = "ring", .ranks = 65536}, 131070, 2 * 65535.0 / 65536,
                65535.0 / 65536);
}

static void bytes_of_ranges_add_up(void)
{
    pdl_schedule_t *schedule = create((pdl_schedule_spec_t){.algorithm = "circulant", .ranks = 7});

    for (int64_t elements = 0; elements < 40; elements++) {
        int64_t sum = 0;
        for (int64_t b = 0; b < 7; b++) {
            int64_t          from = b * elements / 7, to = (b + 1) * elements / 7;
            pdl_block_span_t range = {b, 1}, around = {b, 7};

            CHECK_INT(pdl_range_bytes(schedule, &range, elements, 4), 4 * (to - from));
            CHECK_INT(pdl_range_bytes(schedule, &around, elements, 4), 4 * elements);
            sum += pdl_range_bytes(schedule, &range, elements, 4);
        }
        CHECK_INT(sum, 4 * elements);
    }
    pdl_schedule_destroy(schedule);
}

/* The number of segments that pdl_schedule_tune() gives is within 7 % of the best price of all powers of two. */
static void tuned_segments_have_nearly_the_least_price(void)
{
    static const struct {
        pdl_collective_t collective;
        const char      *name;
        int64_t          ranks;
        double           bytes;
    } cases[] = {{PDL_COLL_BROADCAST, "chain", 1024, 1e9},    {PDL_COLL_BROADCAST, "chain", 5, 1e6},
                 {PDL_COLL_BROADCAST, "chain", 64, 40},       {PDL_COLL_ALLREDUCE, "double_tree", 256, 64e6},
                 {PDL_COLL_ALLREDUCE, "double_tree", 7, 1e9}, {PDL_COLL_ALLREDUCE, "double_tree", 64, 1e3}};
    const double startup = 2e-6, rate = 12.5e9;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pdl_schedule_spec_t spec = {.collective = cases[i].collective,
                                    .algorithm = cases[i].name,
                                    .ranks = cases[i].ranks};
        double              best = INFINITY, chosen = INFINITY;

        CHECK_OK(pdl_schedule_tune(&spec, cases[i].bytes, startup, rate));
        for (int64_t segments = 1; segments <= 8192; segments *= 2) {
            pdl_schedule_spec_t tried = spec;
            pdl_schedule_t     *schedule = NULL;
            double              seconds;

            tried.segments = segments;
            REQUIRE_OK(pdl_schedule_create(&tried, &schedule));
            /* Every step takes one start-up and one segment. */
            seconds = pdl_schedule_steps(schedule) *
                      (startup + cases[i].bytes / (double)pdl_schedule_blocks(schedule) / rate);
            CHECK_INT(pdl_schedule_segments(schedule), segments);
            best = fmin(best, seconds);
            if (segments == spec.segments) chosen = seconds;
            pdl_schedule_destroy(schedule);
        }
        CHECK(chosen <= 1.07 * best);
    }
}

static void what_is_not_pipelined_is_not_tuned(void)
{
    pdl_schedule_spec_t ring = {.algorithm = "ring", .ranks = 16};
    pdl_schedule_spec_t given = {.algorithm = "double_tree", .ranks = 16, .segments = 3};

    CHECK_OK(pdl_schedule_tune(&ring, 1e9, 1e-6, 1e10));
    CHECK_INT(ring.segments, 0);
    CHECK_OK(pdl_schedule_tune(&given, 1e9, 1e-6, 1e10));
    CHECK_INT(given.segments, 3);
}

static int64_t count_of(const void *counts, int rank)
{
    return ((const int64_t *)counts)[rank];
}

/* What ranks send: of vectors in order, the ranges of their moves; of vectors in parts, every part goes to all others once at
   least, and to nobody twice by rings. */
static void ranks_send_what_they_move(void)
{
    static const pdl_collective_t in_parts[] = {PDL_COLL_REDUCE_SCATTER, PDL_COLL_ALLGATHER};
    const int64_t                 elements = 1001;
    pdl_moves_t                   moves;

    for (const char *const *name = pdl_coll_common(); *name != NULL; name++)
        for (int p = 2; p <= 8; p++) {
            pdl_schedule_spec_t spec = {.algorithm = *name, .ranks = p, .hosts_per_switch = p % 2 == 0 ? 2 : 1};
            pdl_schedule_t     *schedule;

            if (pdl_schedule_create(&spec, &schedule)) continue;
            for (int r = 0; r < p; r++) {
                pdl_sends_t *sends;
                int64_t      moved = 0;

                for (int s = 0; s < pdl_schedule_steps(schedule); s++) {
                    pdl_schedule_sends(schedule, s, r, &moves);
                    for (int i = 0; i < moves.range_count; i++)
                        moved += pdl_range_bytes(schedule, &moves.range[i], elements, 1);
                }
                REQUIRE_OK(pdl_sends_create(schedule, r, &sends));
                CHECK_INT(pdl_sends_elements(sends, elements, NULL, NULL), moved);
                pdl_sends_destroy(sends);
            }
            pdl_schedule_destroy(schedule);
        }
    for (int k = 0; k < 2; k++)
        for (int p = 2; p <= 8; p++) {
            pdl_schedule_t *schedule =
                create((pdl_schedule_spec_t){.collective = in_parts[k], .algorithm = "ring", .ranks = p});
            int64_t          counts[8], part[9], all = 0;
            pdl_block_span_t block[8];

            for (int r = 0; r < p; r++) counts[r] = r == p - 1 ? elements - (p - 1) * 100 : 100;
            for (int r = 0; r < p; r++) {
                pdl_sends_t *sends;
                REQUIRE_OK(pdl_sends_create(schedule, r, &sends));
                all += pdl_sends_elements(sends, elements, count_of, counts);
                pdl_sends_destroy(sends);
            }
            CHECK_INT(all, (p - 1) * elements);
            counts[0]++;
            CHECK_INT(pdl_schedule_place(schedule, elements, counts, part, block), PDL_ERR_INPUT);
            pdl_schedule_destroy(schedule);
        }
}

int main(void)
{
    RUN(flat_allreduce);
    RUN(hierarchies);
    RUN(several_ports);
    RUN(other_collectives);
    RUN(rings_have_periods);
    RUN(long_rings_are_priced_at_once);
    RUN(bytes_of_ranges_add_up);
    RUN(ranks_send_what_they_move);
    RUN(tuned_segments_have_nearly_the_least_price);
    RUN(what_is_not_pipelined_is_not_tuned);
    return test_done();
}
