/*
 * Dry ranks know their place, leave values alone, and count what they would send and hold.
 */
#include "test.h"

#include <paradl/comm/exchange.h>
#include <paradl/comm/ranks.h>
#include <paradl/comm/regions.h>

static void test_place(void)
{
    pdl_ranks_t         *ranks = NULL, *group = NULL;
    pdl_ranks_request_t *request = NULL;
    double               values[2] = {1, 2};
    char                 byte = 0;

    CHECK_OK(pdl_ranks_create_dry(1000, 1024, &ranks));
    CHECK(pdl_ranks_dry(ranks) && pdl_ranks_rank(ranks) == 1000 && pdl_ranks_size(ranks) == 1024);
    CHECK_OK(pdl_ranks_sum(ranks, values, 2));
    CHECK_OK(pdl_ranks_max(ranks, values, 2));
    CHECK_OK(pdl_ranks_broadcast(ranks, values, sizeof(values), 3));
    CHECK_OK(pdl_ranks_barrier(ranks));
    CHECK(values[0] == 1 && values[1] == 2);
    CHECK(pdl_ranks_agree(ranks, PDL_ERR_LIMIT) == PDL_ERR_LIMIT);
    CHECK(pdl_ranks_split(ranks, 0, 0, &group) == PDL_ERR_UNSUPPORTED);
    REQUIRE_OK(pdl_ranks_request_create(ranks, 1, &request));
    CHECK(pdl_ranks_send_start(request, &byte, 1, 0, 0) == PDL_ERR_UNSUPPORTED);
    for (int k = 0; k < PDL_SENT_KINDS; k++) CHECK(pdl_ranks_sent(ranks, (pdl_sent_t)k) == 0);
    pdl_ranks_request_destroy(request);
    pdl_ranks_destroy(ranks);
    CHECK(pdl_ranks_create_dry(4, 4, &ranks) == PDL_ERR_INPUT);
    CHECK(pdl_ranks_create_dry(0, 0, &ranks) == PDL_ERR_INPUT);
}

/* A ring's ranks send 2 (P - 1) / P of the vector each: together 2 (P - 1) times it. */
static void test_exchange(void)
{
    static const int sizes[] = {1, 2, 3, 8, 100};
    const int64_t    bound[] = {0, 1000, 1000, 5000};

    for (int i = 0; i < 5; i++) {
        double total = 0;
        for (int rank = 0; rank < sizes[i]; rank++) {
            pdl_ranks_t        *ranks = NULL;
            pdl_exchange_t     *exchange = NULL;
            pdl_exchange_spec_t spec = {.bound = bound, .buckets = 3, .algorithm = "ring"};
            double              sent;
            size_t              held;
            CHECK_OK(pdl_ranks_create_dry(rank, sizes[i], &ranks));
            spec.ranks = ranks;
            REQUIRE_OK(pdl_exchange_create(&spec, &exchange));
            pdl_exchange_bytes(exchange, &sent, &held);
            CHECK((held > 0) == (sizes[i] > 1));
            total += sent;
            pdl_exchange_destroy(exchange);
            pdl_ranks_destroy(ranks);
        }
        CHECK(total == 2.0 * (sizes[i] - 1) * 5000 * sizeof(float));
    }
}

/* Parts of any size: one way sends everybody's part to its owner, the other everyone's part to all. */
static void test_parts(void)
{
    const int64_t bound[] = {0, 96, 96, 400}, part[] = {48, 32, 16, 0, 0, 0, 304, 0, 0};
    const char   *algorithms[] = {"ring", NULL, "measure", "circulant", "library"};

    for (int i = 0; i < 10; i++) {
        double total = 0, of_first = 0;
        for (int rank = 0; rank < 3; rank++) {
            pdl_ranks_t        *ranks = NULL;
            pdl_exchange_t     *exchange = NULL;
            pdl_exchange_spec_t spec = {.bound = bound,
                                        .buckets = 3,
                                        .part = part,
                                        .collective = i % 2 ? PDL_COLL_ALLGATHER : PDL_COLL_REDUCE_SCATTER,
                                        .algorithm = algorithms[i / 2]};
            double              sent;
            size_t              held;
            CHECK_OK(pdl_ranks_create_dry(rank, 3, &ranks));
            spec.ranks = ranks;
            REQUIRE_OK(pdl_exchange_create(&spec, &exchange));
            pdl_exchange_bytes(exchange, &sent, &held);
            CHECK(pdl_exchange_bucket_bytes(exchange, 1) == 0);
            CHECK(pdl_exchange_bucket_bytes(exchange, 0) + pdl_exchange_bucket_bytes(exchange, 2) == sent);
            of_first += pdl_exchange_bucket_bytes(exchange, 0);
            total += sent;
            pdl_exchange_destroy(exchange);
            pdl_ranks_destroy(ranks);
        }
        CHECK_NEAR(of_first, 2.0 * 96 * sizeof(float), 1e-12);
        CHECK_NEAR(total, 2.0 * 400 * sizeof(float), 1e-2); /* MPI's own is counted as if parts were alike */
    }
}

/* The middle one of three gives its first and its last row away. */
static void test_move(void)
{
    pdl_region_t    own[3], need[3];
    pdl_ranks_t    *ranks = NULL;
    pdl_move_spec_t spec = {.own = own, .need = need};
    pdl_move_t     *move = NULL;
    float           source[40], target[60];

    for (int m = 0; m < 3; m++) {
        own[m] = (pdl_region_t){.rank = 2, .segments = {1, 1}, .range = {{{4 * m, 4 * m + 4}}, {{0, 10}}}};
        need[m] = own[m];
        if (m > 0) need[m].range[0][0].low--;
        if (m < 2) need[m].range[0][0].high++;
    }
    CHECK_OK(pdl_ranks_create_dry(1, 3, &ranks));
    spec.group = ranks;
    REQUIRE_OK(pdl_move_create(&spec, &move));
    CHECK(pdl_move_bytes(move, 0) == 80 && pdl_move_bytes(move, 1) == 80);
    CHECK(pdl_move_buffer_bytes(move) > 0);
    CHECK(pdl_move_forward(move, NULL, source, target) == PDL_ERR_UNSUPPORTED);
    pdl_move_destroy(move);
    pdl_ranks_destroy(ranks);
}

int main(void)
{
    RUN(test_place);
    RUN(test_exchange);
    RUN(test_parts);
    RUN(test_move);
    return test_done();
}
