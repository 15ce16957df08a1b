/*
 * One process by itself, with or without MPI in the build: its group is itself, a move is a copy, and there is
 * nobody to send to.
 */
#include <paradl/comm/regions.h>

#include "test.h"

static void one_rank_is_its_group(void)
{
    pdl_ranks_t *ranks = NULL, *group = NULL;
    double       value = 2.5;

    REQUIRE_OK(pdl_ranks_create(&ranks));
    CHECK_OK(pdl_ranks_split(ranks, 3, 0, &group));
    CHECK_INT(pdl_ranks_rank(group), 0);
    CHECK_INT(pdl_ranks_size(group), 1);
    CHECK_INT(pdl_ranks_node_size(group), 1);
    CHECK_OK(pdl_ranks_sum(group, &value, 1));
    CHECK_NEAR(value, 2.5, 0);
    CHECK_OK(pdl_ranks_barrier(group));
    CHECK_ERROR(pdl_ranks_agree(group, pdl_error(PDL_ERR_IO, "as it was")), "as it was");
    pdl_ranks_destroy(group);
    CHECK_ERROR(pdl_ranks_split(ranks, -1, 0, &group), "colour -1");
    pdl_ranks_destroy(ranks);
}

static void one_rank_copies(void)
{
    pdl_ranks_t *ranks = NULL;
    pdl_move_t  *move = NULL;
    pdl_region_t own = {.rank = 2, .segments = {1, 1}, .range = {{{0, 3}}, {{0, 4}}}}, need = own;
    float        data[12], part[6], back[12];

    for (int i = 0; i < 12; i++) data[i] = (float)i;
    need.range[0][0].low = 1;
    need.segments[1] = 2;
    need.range[1][0] = (pdl_range_t){0, 1};
    need.range[1][1] = (pdl_range_t){2, 4};
    REQUIRE_OK(pdl_ranks_create(&ranks));
    REQUIRE_OK(pdl_move_create(&(pdl_move_spec_t){.group = ranks, .own = &own, .need = &need}, &move));
    CHECK_OK(pdl_move_forward(move, NULL, data, part));
    CHECK(memcmp(part, (float[]){4, 6, 7, 8, 10, 11}, sizeof(part)) == 0);
    CHECK_OK(pdl_move_backward(move, NULL, part, back));
    CHECK(memcmp(back, (float[]){0, 0, 0, 0, 4, 0, 6, 7, 8, 0, 10, 11}, sizeof(back)) == 0);
    CHECK_INT(pdl_move_bytes(move, 0) + pdl_move_bytes(move, 1) + pdl_move_buffer_bytes(move), 0);
    pdl_move_destroy(move);
    pdl_ranks_destroy(ranks);
}

static void one_rank_has_no_peer(void)
{
    pdl_ranks_t         *ranks = NULL;
    pdl_ranks_request_t *request = NULL;
    char                 byte = 0;

    REQUIRE_OK(pdl_ranks_create(&ranks));
    REQUIRE_OK(pdl_ranks_request_create(ranks, 1, &request));
    CHECK_ERROR(pdl_ranks_send_start(request, &byte, 1, 0, 0), "expected another of 1 ranks");
    CHECK_OK(pdl_ranks_request_wait(request));
    pdl_ranks_request_destroy(request);
    pdl_ranks_destroy(ranks);
}

int main(void)
{
    RUN(one_rank_is_its_group);
    RUN(one_rank_copies);
    RUN(one_rank_has_no_peer);
    return test_done();
}
