/*
 * Under mpirun: groups of ranks, and messages between two ranks.
 */
#include <paradl/comm/exchange.h>
#include <paradl/comm/route.h>

#include "comm/inside.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>

static float value(int64_t i, int of_rank)
{
    return (float)((i * 7 + of_rank * 5 + i % 11 * of_rank) % 64);
}

static void groups_are_ranks(void)
{
    pdl_ranks_t *group = NULL, *pair = NULL;
    int          count = (size - rank % 2 + 1) / 2;
    double       values[2] = {rank, 1};
    char         text[64] = "", message[64];

    CHECK_OK(pdl_ranks_split(ranks, rank % 2, -rank, &group));
    CHECK_INT(pdl_ranks_size(group), count);
    CHECK_INT(pdl_ranks_rank(group), count - 1 - rank / 2);
    CHECK_INT(pdl_ranks_node_size(group), count);
    CHECK_OK(pdl_ranks_sum(group, values, 2));
    CHECK_NEAR(values[0], count * (count - 1) + rank % 2 * count, 0);
    CHECK_NEAR(values[1], count, 0);
    values[0] = rank;
    CHECK_OK(pdl_ranks_max(group, values, 1));
    CHECK_NEAR(values[0], 2 * (count - 1) + rank % 2, 0);
    snprintf(text, sizeof(text), "from %d", rank);
    CHECK_OK(pdl_ranks_broadcast(group, text, sizeof(text), count - 1));
    CHECK_STR(text, rank % 2 ? "from 1" : "from 0");
    CHECK_OK(pdl_ranks_barrier(group));
    snprintf(message, sizeof(message), count > 1 ? "rank %d: no" : "no", 2 + rank % 2);
    CHECK_INT(pdl_ranks_agree(group, rank / 2 == (count > 1) ? pdl_error(PDL_ERR_INPUT, "no") : PDL_OK),
              PDL_ERR_INPUT);
    CHECK_STR(pdl_error_message(), message);
    CHECK_OK(pdl_ranks_split(group, pdl_ranks_rank(group) / 2, 0, &pair));
    CHECK(pdl_ranks_size(pair) == 2 || pdl_ranks_size(pair) == 1);
    pdl_ranks_destroy(pair);
    pdl_ranks_destroy(group);
    CHECK_ERROR(pdl_ranks_split(ranks, rank == size - 1 ? -1 : 0, 0, &group), "colour -1");
}

static void groups_exchange(void)
{
    enum { COUNT = 3000 };
    static const int64_t bound[] = {0, 700, COUNT};
    pdl_ranks_t         *group = NULL;
    pdl_exchange_t      *exchange = NULL;
    float               *data = malloc(COUNT * sizeof(*data));
    int                  wrong = 0;

    CHECK_OK(pdl_ranks_split(ranks, rank % 2, rank, &group));
    for (int i = 0; i < COUNT; i++) data[i] = value(i, rank);
    REQUIRE_OK(pdl_exchange_create(
        &(pdl_exchange_spec_t){.ranks = group, .data = data, .bound = bound, .buckets = 2, .algorithm = "ring"},
        &exchange));
    for (int b = 0; b < 2; b++) CHECK_OK(pdl_exchange_ready(exchange, b));
    for (int b = 0; b < 2; b++) CHECK_OK(pdl_exchange_wait(exchange, b));
    for (int i = 0; i < COUNT; i++) {
        float sum = 0;

        for (int r = rank % 2; r < size; r += 2) sum += value(i, r);
        wrong += data[i] != sum;
    }
    CHECK_INT(wrong, 0);
    pdl_exchange_destroy(exchange);
    pdl_ranks_destroy(group);
    free(data);
}

/* Around the ring, with two tags that are received in the other order, and nothing at all under a third. */
static void messages_go_around(void)
{
    enum { COUNT = 50000 };
    float               *sent = malloc(COUNT * sizeof(*sent)), *got = malloc(COUNT * sizeof(*got));
    pdl_ranks_request_t *request[6] = {0};
    int                  next = (rank + 1) % size, before = (rank + size - 1) % size, small = rank, arrived = -1;

    for (int i = 0; i < 6; i++)
        REQUIRE_OK(pdl_ranks_request_create(ranks, COUNT * (int64_t)sizeof(*sent), &request[i]));
    for (int round = 0; size > 1 && round < 3; round++) {
        for (int i = 0; i < COUNT; i++) sent[i] = value(i + round, rank);
        CHECK_OK(pdl_ranks_receive_start(request[0], &arrived, sizeof(arrived), before, 0));
        CHECK_OK(pdl_ranks_receive_start(request[1], got, COUNT * (int64_t)sizeof(*got), before, 9));
        CHECK_OK(pdl_ranks_send_start(request[2], sent, COUNT * (int64_t)sizeof(*sent), next, 9));
        CHECK_OK(pdl_ranks_send_start(request[3], &small, sizeof(small), next, 0));
        CHECK_OK(pdl_ranks_send_start(request[4], NULL, 0, next, PDL_RANKS_TAGS - 1));
        CHECK_OK(pdl_ranks_receive_start(request[5], NULL, 0, before, PDL_RANKS_TAGS - 1));
        for (int i = 5; i >= 0; i--) CHECK_OK(pdl_ranks_request_wait(request[i]));
        CHECK_INT(arrived, before);
        for (int i = 0; i < COUNT; i++) sent[i] = value(i + round, before);
        CHECK(memcmp(sent, got, COUNT * sizeof(*sent)) == 0);
    }
    for (int i = 0; i < 6; i++) pdl_ranks_request_destroy(request[i]);
    pdl_ranks_request_destroy(NULL);
    free(sent);
    free(got);
}

/* From rank r to rank s go (r + 2 s) % 3 numbers, none sometimes, and those to itself stay. Three times, as a route
   is used again and again. */
static void rows_find_their_way(void)
{
    enum { MOST = 3 };
    int64_t *to = calloc((size_t)size, sizeof(*to)), *from = calloc((size_t)size, sizeof(*from)), wrong = 0;
    int     *send = calloc((size_t)size * MOST, sizeof(*send)), *got = calloc((size_t)size * MOST, sizeof(*got));
    pdl_route_t *route = NULL;
    double       counted = pdl_ranks_sent(ranks, PDL_SENT_MOVES), expected = 0;

    REQUIRE_OK(pdl_route_create(NULL, ranks, MOST * (int64_t)sizeof(*send), &route));
    for (int round = 0; round < 3; round++) {
        int place = 0;

        for (int s = 0; s < size; s++) {
            int count = (rank + 2 * s) % 3;

            to[s] = count * (int64_t)sizeof(*send);
            from[s] = (s + 2 * rank) % 3 * (int64_t)sizeof(*send);
            if (s != rank) expected += (double)to[s];
            for (int i = 0; i < count; i++) send[place++] = 10000 * round + 100 * rank + 10 * s + i;
        }
        CHECK_OK(pdl_route_run(route, NULL, send, to, got, from));
        place = 0;
        for (int s = 0; s < size; s++)
            for (int i = 0; i < (s + 2 * rank) % 3; i++)
                wrong += got[place++] != 10000 * round + 100 * s + 10 * rank + i;
    }
    CHECK_INT(wrong, 0);
    CHECK(pdl_ranks_sent(ranks, PDL_SENT_MOVES) - counted == expected);
    pdl_route_destroy(route);
    pdl_route_destroy(NULL);
    free(to);
    free(from);
    free(send);
    free(got);
}

/* Rank r gives r * 1000 bytes, so that the first gives none. Both ways, and without asking for more than the sizes. */
static void bytes_come_together(void)
{
    int64_t  mine = rank * INT64_C(1000), total = size * (size - INT64_C(1)) / 2 * 1000, wrong, place;
    int64_t *sizes = calloc((size_t)size, sizeof(*sizes));
    char    *given = malloc((size_t)mine + 1), *all = malloc((size_t)total + 1);

    memset(given, 'a' + rank, (size_t)mine);
    CHECK_OK(pdl_ranks_gather_all(ranks, given, mine, NULL, sizes));
    for (int r = 0; r < size; r++) CHECK_INT(sizes[r], r * 1000);
    for (int way = 0; way < 2; way++) {
        memset(all, '?', (size_t)total + 1);
        memset(sizes, 0, (size_t)size * sizeof(*sizes));
        CHECK_OK(pdl__ranks_gather_all(ranks, given, mine, all, sizes, way == 0 ? INT32_MAX : 0));
        wrong = place = 0;
        for (int r = 0; r < size; r++) {
            CHECK_INT(sizes[r], r * 1000);
            for (int64_t i = 0; i < sizes[r]; i++) wrong += all[place++] != 'a' + r;
        }
        CHECK_INT(wrong, 0);
        CHECK_INT(all[total], '?');
    }
    free(sizes);
    free(given);
    free(all);
}

static void wrong_messages_are_refused(void)
{
    pdl_ranks_request_t *request = NULL, *other = NULL;
    char                 data[8] = {0};
    int                  peer = rank ^ 1;

    CHECK_ERROR(pdl_ranks_request_create(ranks, -1, &request), "expected 0 or more");
    REQUIRE_OK(pdl_ranks_request_create(ranks, 8, &request));
    REQUIRE_OK(pdl_ranks_request_create(ranks, 8, &other));
    CHECK_OK(pdl_ranks_request_wait(request));
    CHECK_ERROR(pdl_ranks_send_start(request, data, 8, rank, 0), "expected another of");
    CHECK_ERROR(pdl_ranks_receive_start(request, data, 8, size, 0), "expected another of");
    if (size > 1) {
        CHECK_ERROR(pdl_ranks_send_start(request, data, 9, (rank + 1) % size, 0), "made for up to 8");
        CHECK_ERROR(pdl_ranks_send_start(request, data, 8, (rank + 1) % size, PDL_RANKS_TAGS), "tag 16382");
    }
    if (peer < size) {
        CHECK_OK(pdl_ranks_send_start(request, data, 4, peer, 0));
        CHECK_ERROR(pdl_ranks_send_start(request, data, 4, peer, 0), "before it was waited for");
        CHECK_OK(pdl_ranks_receive_start(other, data + 4, 3, peer, 1));
        CHECK_OK(pdl_ranks_request_wait(request));
        CHECK_OK(pdl_ranks_send_start(request, data, 2, peer, 1));
        CHECK_ERROR(pdl_ranks_request_wait(other), "sent 2 bytes where 3 were expected");
        CHECK_OK(pdl_ranks_request_wait(request));
        CHECK_OK(pdl_ranks_receive_start(other, data, 4, peer, 0));
        CHECK_OK(pdl_ranks_request_wait(other));
    }
    pdl_ranks_request_destroy(request);
    pdl_ranks_request_destroy(other);
}

/* Ranks of one machine have one clock: what is measured is no farther off than is said. */
static void clocks_are_compared(void)
{
    pdl_clock_t first, last;

    REQUIRE_OK(pdl_ranks_clock(ranks, &first));
    REQUIRE_OK(pdl_ranks_clock(ranks, &last));
    CHECK(fabs(first.offset_s) <= first.error_s && (rank > 0) == (first.error_s > 0) && first.error_s < 1);
    CHECK(last.at_s > first.at_s);
    first = (pdl_clock_t){.at_s = 10, .offset_s = 1};
    last = (pdl_clock_t){.at_s = 20, .offset_s = 2};
    CHECK_NEAR(pdl_clock_common(&first, &last, 15), 16.5, 1e-15);
    CHECK_NEAR(pdl_clock_common(&first, &last, 30), 32, 1e-15);
}

int main(void)
{
    if (!begin_ranks()) return 1;
    RUN(groups_are_ranks);
    RUN(groups_exchange);
    RUN(messages_go_around);
    RUN(rows_find_their_way);
    RUN(bytes_come_together);
    RUN(wrong_messages_are_refused);
    RUN(clocks_are_compared);
    return end_ranks();
}
