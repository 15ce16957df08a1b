/*
 * Every algorithm gives the right result on integers for every number of ranks it claims, also when the elements
 * are not divisible by the blocks or fewer than them; what it does not support it refuses with a reason.
 */
#include "test.h"

#include <paradl/coll/coll.h>
#include <stdlib.h>

static int verified;

/* Somebody sends in the first and in the last step. */
static void check_ends(const pdl_schedule_t *schedule)
{
    static pdl_moves_t moves;
    int                steps = pdl_schedule_steps(schedule), sends[2] = {0, 0};

    for (int rank = 0; steps > 0 && rank < pdl_schedule_ranks(schedule); rank++) {
        for (int end = 0; end < 2; end++) {
            pdl_schedule_sends(schedule, end == 0 ? 0 : steps - 1, rank, &moves);
            sends[end] += moves.move_count;
        }
    }
    CHECK(steps == 0 || (sends[0] > 0 && sends[1] > 0));
}

/* Verifies with an uneven number of elements and, unless that takes long, one per block and fewer than blocks. */
static void verify(const pdl_schedule_spec_t *spec)
{
    pdl_schedule_t *schedule = NULL;
    int64_t         blocks;

    REQUIRE_OK(pdl_schedule_create(spec, &schedule));
    if (schedule == NULL) return;
    blocks = pdl_schedule_blocks(schedule);
    check_ends(schedule);
    CHECK_OK(pdl_schedule_verify(schedule, blocks + blocks / 2 + 1));
    if (blocks <= 256 || spec->collective == PDL_COLL_ALLTOALL) {
        CHECK_OK(pdl_schedule_verify(schedule, blocks));
        CHECK_OK(pdl_schedule_verify(schedule, blocks / 2));
    }
    verified++;
    pdl_schedule_destroy(schedule);
}

static int next_ranks(int ranks)
{
    return ranks < 40 ? ranks + 1 : ranks == 40 ? 64 : ranks == 64 ? 100 : ranks == 100 ? 128 : 0;
}

static void any_ranks(void)
{
    static const struct {
        pdl_collective_t collective;
        const char      *algorithm;
    } cases[] = {
        {PDL_COLL_ALLREDUCE, "ring"},      {PDL_COLL_ALLREDUCE, "rdb"},
        {PDL_COLL_ALLREDUCE, "hd_near"},   {PDL_COLL_ALLREDUCE, "hd_far"},
        {PDL_COLL_ALLREDUCE, "circulant"}, {PDL_COLL_ALLREDUCE, "recmul"},
        {PDL_COLL_ALLREDUCE, "tree"},      {PDL_COLL_ALLREDUCE, "double_tree"},
        {PDL_COLL_ALLREDUCE, "multiport"}, {PDL_COLL_ALLREDUCE, "double_ring"},
        {PDL_COLL_ALLREDUCE, "leader"},    {PDL_COLL_ALLREDUCE, "ring_rdb"},
        {PDL_COLL_ALLREDUCE, "ring_ring"}, {PDL_COLL_ALLREDUCE, "ring_rab"},
        {PDL_COLL_REDUCE_SCATTER, "ring"}, {PDL_COLL_REDUCE_SCATTER, "circulant"},
        {PDL_COLL_ALLGATHER, "ring"},      {PDL_COLL_ALLGATHER, "circulant"},
        {PDL_COLL_ALLGATHER, "bruck"},     {PDL_COLL_ALLTOALL, "pairwise"},
        {PDL_COLL_ALLTOALL, "bruck"},
    };

    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        for (int ranks = 1; ranks > 0; ranks = next_ranks(ranks)) {
            verify(&(pdl_schedule_spec_t){.collective = cases[k].collective,
                                          .algorithm = cases[k].algorithm,
                                          .ranks = ranks});
        }
    }
}

static void powers_of_two(void)
{
    static const char *const algorithms[] = {"hd_near", "hd_far", "swing", "shd_near", "shd_far", "rshd"};

    for (size_t k = 0; k < 6; k++) {
        for (int ranks = 1; ranks <= 256; ranks *= 2) {
            for (pdl_collective_t c = PDL_COLL_ALLREDUCE; c <= PDL_COLL_ALLGATHER; c++) {
                verify(&(pdl_schedule_spec_t){.collective = c, .algorithm = algorithms[k], .ranks = ranks});
            }
        }
    }
}

static void switches_with_hosts(void)
{
    static const char *const algorithms[] = {"shd_near", "shd_far", "rshd"};

    for (size_t k = 0; k < 3; k++) {
        for (int switches = 2; switches <= 128; switches *= 2) {
            for (int hosts = 1; hosts <= 8; hosts *= 2) {
                for (pdl_collective_t c = PDL_COLL_ALLREDUCE; c <= PDL_COLL_ALLGATHER; c++) {
                    verify(&(pdl_schedule_spec_t){.collective = c,
                                                  .algorithm = algorithms[k],
                                                  .ranks = switches * hosts,
                                                  .hosts_per_switch = hosts});
                }
            }
        }
    }
}

static void nodes_with_ranks(void)
{
    static const char *const algorithms[] = {"ring_ring", "ring_rab", "circulant", "ring_rdb", "leader"};

    for (size_t k = 0; k < 5; k++) {
        for (int nodes = 1; nodes <= 17; nodes++) {
            for (int hosts = 1; hosts <= 9; hosts++) {
                for (pdl_collective_t c = PDL_COLL_ALLREDUCE; c <= (k < 3 ? PDL_COLL_ALLGATHER : 0); c++) {
                    verify(&(pdl_schedule_spec_t){.collective = c,
                                                  .algorithm = algorithms[k],
                                                  .ranks = nodes * hosts,
                                                  .hosts_per_switch = hosts});
                }
            }
        }
    }
}

static void two_dimensions(void)
{
    for (int rows = 1; rows <= 16; rows *= 2) {
        for (int columns = 1; columns <= 16; columns *= 2) {
            for (int hosts = 1; hosts <= 4; hosts *= 2) {
                for (pdl_collective_t c = PDL_COLL_ALLREDUCE; c <= PDL_COLL_ALLGATHER; c++) {
                    pdl_schedule_spec_t spec = {.collective = c,
                                                .algorithm = "shd2d",
                                                .ranks = rows * columns * hosts,
                                                .hosts_per_switch = hosts,
                                                .rows = rows,
                                                .columns = columns};
                    verify(&spec);
                    spec.algorithm = "shd2d_plain";
                    verify(&spec);
                }
            }
        }
    }
}

static void kautz(void)
{
    static const struct {
        int degree, ranks;
    } shapes[] = {{0, 2},  {0, 6},  {0, 12}, {0, 20}, {0, 272}, {2, 3},  {4, 5},
                  {2, 12}, {3, 36}, {2, 24}, {4, 80}, {2, 48},  {3, 108}};

    for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
        pdl_schedule_spec_t spec = {.algorithm = "kautz", .ranks = shapes[k].ranks, .rows = shapes[k].degree};

        for (spec.collective = 0; spec.collective < PDL_COLL_BROADCAST; spec.collective++) verify(&spec);
        spec.collective = PDL_COLL_BROADCAST;
        for (spec.root = 0; spec.root < spec.ranks; spec.root += 1 + spec.ranks / 7) {
            spec.algorithm = "kautz";
            verify(&spec);
            spec.algorithm = "kautz_scatter";
            verify(&spec);
        }
        if (shapes[k].degree != 0 && shapes[k].ranks > shapes[k].degree + 1) continue;
        spec.root = 0;
        spec.algorithm = "kautz";
        spec.collective = PDL_COLL_ALLTOALL;
        verify(&spec);
    }
}

static void fully_connected(void)
{
    for (int rows = 1; rows <= 9; rows++) {
        for (int columns = 1; columns <= 9; columns++) {
            verify(&(pdl_schedule_spec_t){.collective = PDL_COLL_ALLTOALL,
                                          .algorithm = "fc2",
                                          .ranks = rows * columns,
                                          .rows = rows,
                                          .columns = columns});
        }
    }
}

static void broadcasts_from_every_root(void)
{
    static const char *const algorithms[] = {"binomial", "chain", "scatter_allgather"};

    for (size_t k = 0; k < 3; k++) {
        for (int ranks = 1; ranks <= 40; ranks++) {
            for (int root = 0; root < ranks; root++) {
                verify(&(pdl_schedule_spec_t){
                    .collective = PDL_COLL_BROADCAST, .algorithm = algorithms[k], .ranks = ranks, .root = root});
            }
        }
    }
}

static void other_parameters(void)
{
    int order[12] = {3, 1, 4, 0, 5, 9, 2, 6, 8, 7, 11, 10};

    for (pdl_collective_t c = PDL_COLL_ALLREDUCE; c <= PDL_COLL_ALLGATHER; c++) {
        verify(&(pdl_schedule_spec_t){.collective = c, .algorithm = "ring", .ranks = 12, .order = order});
        verify(&(pdl_schedule_spec_t){.collective = c,
                                      .algorithm = "levels:ring/3,hd_near/4,circulant/5,swing/2",
                                      .ranks = 120});
    }
    for (int segments = 1; segments <= 5; segments++) {
        verify(&(pdl_schedule_spec_t){
            .algorithm = "ring_ring", .ranks = 24, .hosts_per_switch = 4, .segments = segments});
        verify(
            &(pdl_schedule_spec_t){.algorithm = "rshd", .ranks = 64, .hosts_per_switch = 4, .segments = segments});
        verify(&(pdl_schedule_spec_t){.algorithm = "hd_far", .ranks = 19, .segments = segments});
        verify(&(pdl_schedule_spec_t){.algorithm = "double_tree", .ranks = 19, .segments = segments});
        verify(&(pdl_schedule_spec_t){
            .collective = PDL_COLL_BROADCAST, .algorithm = "chain", .ranks = 7, .segments = segments});
    }
    for (int radix = 2; radix <= 9; radix++) {
        for (int ranks = 1; ranks <= 100; ranks++) {
            verify(&(pdl_schedule_spec_t){.algorithm = "recmul", .ranks = ranks, .radix = radix});
        }
    }
}

static void a_thousand_ranks(void)
{
    static const char *const algorithms[] = {"ring", "rdb",       "hd_near",   "hd_far",      "shd_near", "shd_far",
                                             "rshd", "circulant", "ring_ring", "double_tree", "swing"};

    verify(&(pdl_schedule_spec_t){.algorithm = "rshd", .ranks = 256, .hosts_per_switch = 16});
    for (size_t k = 0; k < sizeof(algorithms) / sizeof(algorithms[0]); k++) {
        pdl_schedule_t *schedule = NULL;

        REQUIRE_OK(pdl_schedule_create(
            &(pdl_schedule_spec_t){.algorithm = algorithms[k], .ranks = 1024, .hosts_per_switch = 8}, &schedule));
        CHECK_OK(pdl_schedule_verify(schedule, 1027));
        pdl_schedule_destroy(schedule);
    }
}

static void refuses_what_it_cannot_do(void)
{
    pdl_schedule_t *s = NULL;
    int             order[3] = {0, 1, 1};

#define REFUSED(text, ...) CHECK_ERROR(pdl_schedule_create(&(pdl_schedule_spec_t){__VA_ARGS__}, &s), text)
    REFUSED("power of two", .algorithm = "swing", .ranks = 12);
    REFUSED("power of two", .collective = PDL_COLL_ALLGATHER, .algorithm = "hd_far", .ranks = 12);
    REFUSED("powers of two", .algorithm = "rshd", .ranks = 24, .hosts_per_switch = 2);
    REFUSED("do not divide", .algorithm = "ring_ring", .ranks = 10, .hosts_per_switch = 4);
    REFUSED("do not divide", .algorithm = "ring_ring", .ranks = 10, .hosts_per_switch = -4);
    REFUSED("d^k + d^(k-1)", .algorithm = "kautz", .ranks = 13);
    REFUSED("d^k + d^(k-1)", .algorithm = "kautz", .ranks = 13, .rows = -3);
    REFUSED("diameter 2", .collective = PDL_COLL_ALLTOALL, .algorithm = "kautz", .ranks = 36, .rows = 3);
    REFUSED("rows x columns", .collective = PDL_COLL_ALLTOALL, .algorithm = "fc2", .ranks = 12, .rows = 5);
    REFUSED("rows x columns", .algorithm = "shd2d", .ranks = 32, .rows = 8, .columns = 8);
    REFUSED("unknown allreduce algorithm sing", .algorithm = "sing", .ranks = 4);
    REFUSED("unknown", .algorithm = NULL, .ranks = 4);
    REFUSED("1 to", .algorithm = "ring", .ranks = 0);
    REFUSED("1 to", .algorithm = "ring", .ranks = INT64_MAX);
    REFUSED("not one of the ranks", .collective = PDL_COLL_BROADCAST, .algorithm = "chain", .ranks = 4, .root = 4);
    REFUSED("segments", .algorithm = "ring_ring", .ranks = 4, .segments = INT64_MAX);
    REFUSED("radix", .algorithm = "recmul", .ranks = 4, .radix = 1);
    REFUSED("permutation", .algorithm = "ring", .ranks = 3, .order = order);
    REFUSED("KIND/RANKS", .algorithm = "levels:rung/3", .ranks = 3);
    REFUSED("KIND/RANKS", .algorithm = "levels:", .ranks = 3);
    REFUSED("not 6", .algorithm = "levels:ring/3", .ranks = 6);
    REFUSED("at most 6", .algorithm = "levels:ring/3,ring/9223372036854775807", .ranks = 6);
    REFUSED("at most 6", .algorithm = "levels:ring/7", .ranks = 6);
    REFUSED("powers of two", .algorithm = "levels:swing/3", .ranks = 3);
    REFUSED("up to 4096", .collective = PDL_COLL_ALLTOALL, .algorithm = "bruck", .ranks = 5000);
#undef REFUSED
    CHECK(s == NULL);
}

static void lists_every_algorithm_with_a_description(void)
{
    for (pdl_collective_t c = 0; c < PDL_COLL_COUNT; c++) {
        CHECK(pdl_coll_algorithms(c)[0] != NULL);
        for (const char *const *name = pdl_coll_algorithms(c); *name != NULL; name++) {
            CHECK(pdl_coll_describe(c, *name) != NULL && strchr(pdl_coll_describe(c, *name), ';') != NULL);
        }
        CHECK(pdl_coll_describe(c, "no such") == NULL);
    }
}

int main(void)
{
    RUN(any_ranks);
    RUN(powers_of_two);
    RUN(switches_with_hosts);
    RUN(nodes_with_ranks);
    RUN(two_dimensions);
    RUN(kautz);
    RUN(fully_connected);
    RUN(broadcasts_from_every_root);
    RUN(other_parameters);
    RUN(a_thousand_ranks);
    RUN(refuses_what_it_cannot_do);
    RUN(lists_every_algorithm_with_a_description);
    printf("%d schedules verified\n", verified);
    return test_done();
}
