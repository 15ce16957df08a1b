/*
 * Circuits of a hybrid network for one collective. They are switched once, before it starts: the pairs of hosts
 * that exchange most get them, as long as optical ports are free. A pair that also sends messages below the least
 * size of a circuit stays on the electrical network, since these would not pay.
 */
#include "sim/case.h"

#include <stdlib.h>
#include <string.h>

typedef struct pair {
    int    src, dst;
    double bytes;
} pair_t;

typedef struct pairs {
    pair_t     *list;
    size_t      count, room;
    double     *sum;     /* to each rank, from the rank at hand */
    bool       *small;   /* a message to it is below the least size */
    int        *touched; /* ranks it sends to */
    pdl_moves_t moves;
} pairs_t;

static int most_bytes_first(const void *left, const void *right)
{
    const pair_t *a = left, *b = right;

    if (a->bytes > b->bytes) return -1;
    if (a->bytes < b->bytes) return 1;
    return a->src != b->src ? a->src - b->src : a->dst - b->dst;
}

static pdl_status_t add_pair(pairs_t *pairs, pair_t pair)
{
    if (pairs->count == pairs->room) {
        size_t  room = pairs->room > 0 ? 2 * pairs->room : 1024;
        pair_t *list = realloc(pairs->list, room * sizeof(*list));

        if (list == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for circuits");
        pairs->list = list;
        pairs->room = room;
    }
    pairs->list[pairs->count++] = pair;
    return PDL_OK;
}

/* Sums up what one rank sends to each other rank over all steps. */
static int sum_rank(pairs_t *pairs, const pdl_schedule_t *schedule, int rank, double block, double least)
{
    int touched = 0;

    for (int step = 0; step < pdl_schedule_steps(schedule); step++) {
        pdl_schedule_sends(schedule, step, rank, &pairs->moves);
        for (int m = 0; m < pairs->moves.move_count; m++) {
            const pdl_coll_move_t *move = &pairs->moves.move[m];
            double                 bytes = 0;

            for (int i = 0; i < move->range_count; i++)
                bytes += block * (double)pairs->moves.range[move->range_first + i].count;
            if (pairs->sum[move->peer] <= 0) pairs->touched[touched++] = move->peer;
            pairs->sum[move->peer] += bytes;
            if (bytes < least) pairs->small[move->peer] = true;
        }
    }
    return touched;
}

static pdl_status_t collect(const pdl_sim_case_t *asked, const pdl_schedule_t *schedule, pairs_t *pairs)
{
    double       block = (double)pdl__case_bytes(asked) / (double)pdl_schedule_blocks(schedule);
    double       least = pdl_topology_get_spec(asked->topology)->optical_min_bytes;
    int          groups = asked->groups > 1 ? asked->groups : 1;
    pdl_status_t status = PDL_OK;

    for (int rank = 0; rank < pdl_schedule_ranks(schedule); rank++) {
        int touched = sum_rank(pairs, schedule, rank, block, least);

        for (int t = 0; t < touched; t++) {
            int peer = pairs->touched[t];

            for (int g = 0; !status && !pairs->small[peer] && g < groups; g++)
                status = add_pair(pairs, (pair_t){pdl__case_host(asked, g, rank), pdl__case_host(asked, g, peer),
                                                  pairs->sum[peer]});
            pairs->sum[peer] = 0;
            pairs->small[peer] = false;
        }
        if (status) return status;
    }
    return PDL_OK;
}

/* Takes the pairs in order while both ends have a free port, and switches them. */
static pdl_status_t switch_pairs(const pdl_sim_case_t *asked, pairs_t *pairs, int *circuits)
{
    int          hosts = pdl_topology_hosts(asked->topology);
    int64_t      ports = pdl_topology_get_spec(asked->topology)->optical_ports;
    int64_t     *used = calloc(2 * (size_t)hosts, sizeof(*used));
    int         *ends = malloc((2 * pairs->count + 1) * sizeof(*ends));
    int          count = 0;
    pdl_status_t status;

    if (used == NULL || ends == NULL) {
        free(used);
        free(ends);
        return pdl_error(PDL_ERR_NOMEM, "out of memory for circuits");
    }
    if (pairs->count > 0) qsort(pairs->list, pairs->count, sizeof(*pairs->list), most_bytes_first);
    for (size_t i = 0; i < pairs->count; i++) {
        const pair_t *pair = &pairs->list[i];

        if (used[2 * pair->src] == ports || used[2 * pair->dst + 1] == ports) continue;
        used[2 * pair->src]++;
        used[2 * pair->dst + 1]++;
        ends[2 * count] = pair->src;
        ends[2 * count + 1] = pair->dst;
        count++;
    }
    status = pdl_topology_set_circuits(asked->topology, ends, count);
    if (!status) *circuits = count;
    free(used);
    free(ends);
    return status;
}

pdl_status_t pdl__sim_switch_circuits(const pdl_sim_case_t *asked, const pdl_schedule_t *schedule, int *circuits)
{
    size_t       ranks = (size_t)pdl_schedule_ranks(schedule);
    pairs_t     *pairs;
    pdl_status_t status;

    *circuits = 0;
    if (strcmp(pdl_topology_get_spec(asked->topology)->name, "hybrid") != 0) return PDL_OK;
    pairs = calloc(1, sizeof(*pairs));
    if (pairs == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for circuits");
    pairs->sum = calloc(ranks, sizeof(*pairs->sum));
    pairs->small = calloc(ranks, sizeof(*pairs->small));
    pairs->touched = calloc(ranks, sizeof(*pairs->touched));
    if (pairs->sum == NULL || pairs->small == NULL || pairs->touched == NULL)
        status = pdl_error(PDL_ERR_NOMEM, "out of memory for circuits");
    else
        status = collect(asked, schedule, pairs);
    if (!status) status = switch_pairs(asked, pairs, circuits);
    free(pairs->list);
    free(pairs->sum);
    free(pairs->small);
    free(pairs->touched);
    free(pairs);
    return status;
}
