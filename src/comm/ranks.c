/*
 * The ranks of a job and what they tell each other.
 */
#include <paradl/comm/ranks.h>

#include "comm/inside.h"
#include "comm/launch.h"
#include "comm/watch/watch.h"

#include <paradl/comm/launch.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_VALUES   1024  /* of each rank in one gathering, at least */
#define GATHER_VALUES  32768 /* of all ranks together, where that is more */
#define BROADCAST_STEP (1 << 30)
#define MESSAGE_BYTES  2048

static pdl_status_t make_room(pdl_ranks_t *ranks)
{
    if (ranks->size == 1 || ranks->dry) return PDL_OK;
    ranks->piece = GATHER_VALUES / ranks->size > PIECE_VALUES ? GATHER_VALUES / ranks->size : PIECE_VALUES;
    ranks->gathered = malloc((size_t)ranks->piece * (size_t)ranks->size * sizeof(*ranks->gathered));
    if (ranks->gathered == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for %d ranks", ranks->size);
    return PDL_OK;
}

pdl_status_t pdl_ranks_create(pdl_ranks_t **result)
{
    pdl_ranks_t *ranks = calloc(1, sizeof(*ranks));
    pdl_status_t status = PDL_OK;

    if (ranks == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    ranks->size = ranks->node_size = 1;
    ranks->counted = ranks->sent;
    ranks->progress = &ranks->own_progress;
    if (pdl_launch_active() || pdl__world_running()) status = pdl__world_start(ranks);
    ranks->job_rank = ranks->rank;
    if (!status && ranks->world != NULL) pdl__world_progress(ranks->world, ranks->progress);
    if (!status) status = make_room(ranks);
    if (status) {
        pdl_ranks_destroy(ranks);
        return status;
    }
    *result = ranks;
    return PDL_OK;
}

pdl_status_t pdl_ranks_split(pdl_ranks_t *ranks, int colour, int key, pdl_ranks_t **result)
{
    pdl_ranks_t *group = calloc(1, sizeof(*group));
    pdl_status_t status = PDL_OK;

    if (group == NULL)
        status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    else if (ranks->dry)
        status = pdl_error(PDL_ERR_UNSUPPORTED, "groups of %d dry ranks cannot be split", ranks->size);
    else if (colour < 0)
        status = pdl_error(PDL_ERR_INPUT, "colour %d of a group: expected 0 or more", colour);
    else if (ranks->size > 1)
        status = pdl__world_reserve(group);
    status = pdl_ranks_agree(ranks, status);
    if (!status) {
        group->size = group->node_size = 1;
        group->job_rank = ranks->job_rank;
        group->counted = ranks->counted;
        group->watch = ranks->watch;
        group->progress = ranks->progress;
        group->group = true;
        if (ranks->size > 1) status = pdl__world_split(ranks, colour, key, group);
        if (!status) status = make_room(group);
        status = pdl_ranks_agree(ranks, status);
    }
    if (status) {
        pdl_ranks_destroy(group);
        return status;
    }
    *result = group;
    return PDL_OK;
}

pdl_status_t pdl_ranks_create_dry(int rank, int size, pdl_ranks_t **result)
{
    pdl_ranks_t *ranks;

    if (size < 1 || rank < 0 || rank >= size)
        return pdl_error(PDL_ERR_INPUT, "rank %d of %d: expected 0 to %d", rank, size, size - 1);
    ranks = calloc(1, sizeof(*ranks));
    if (ranks == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    *ranks = (pdl_ranks_t){.rank = rank, .size = size, .node_size = 1, .job_rank = rank, .dry = true};
    ranks->counted = ranks->sent;
    ranks->progress = &ranks->own_progress;
    *result = ranks;
    return PDL_OK;
}

bool pdl_ranks_dry(const pdl_ranks_t *ranks)
{
    return ranks->dry;
}

double pdl_ranks_sent(const pdl_ranks_t *ranks, pdl_sent_t kind)
{
    return ranks->counted[kind];
}

/* Whether there is somebody to talk to. */
static bool alone(const pdl_ranks_t *ranks)
{
    return ranks->size == 1 || ranks->dry;
}

void pdl_ranks_destroy(pdl_ranks_t *ranks)
{
    bool watched = ranks != NULL && ranks->watch != NULL && !ranks->group;

    if (ranks == NULL) return;
    /* Ranks wait for each other there too. */
    if (watched) pdl__watch_finishes(ranks);
    if (ranks->world != NULL) pdl__world_stop(ranks->world);
    if (watched) {
        pdl__watch_leave(ranks->watch);
        pdl__watch_destroy(ranks->watch);
    }
    free(ranks->gathered);
    free(ranks);
}

int pdl_ranks_rank(const pdl_ranks_t *ranks)
{
    return ranks->rank;
}

int pdl_ranks_size(const pdl_ranks_t *ranks)
{
    return ranks->size;
}

int pdl_ranks_node_rank(const pdl_ranks_t *ranks)
{
    return ranks->node_rank;
}

int pdl_ranks_node_size(const pdl_ranks_t *ranks)
{
    return ranks->node_size;
}

typedef double (*combine_fn_t)(double a, double b);

static double add(double a, double b)
{
    return a + b;
}

/* Not a number stays: a rank that has one must not look well. */
static double greater(double a, double b)
{
    return a > b || a != a ? a : b;
}

static pdl_status_t combine(pdl_ranks_t *ranks, double *values, int64_t count, combine_fn_t function)
{
    if (alone(ranks)) return PDL_OK;
    ranks->counted[PDL_SENT_SUMS] += (double)(ranks->size - 1) * (double)count * sizeof(*values);
    for (int64_t first = 0; first < count; first += ranks->piece) {
        int64_t      n = count - first < ranks->piece ? count - first : ranks->piece;
        pdl_status_t status =
            pdl__world_gather(ranks->world, values + first, ranks->gathered, (int)(n * (int64_t)sizeof(*values)));

        if (status) return status;
        memcpy(values + first, ranks->gathered, (size_t)n * sizeof(*values));
        for (int r = 1; r < ranks->size; r++) {
            for (int64_t i = 0; i < n; i++)
                values[first + i] = function(values[first + i], ranks->gathered[r * n + i]);
        }
    }
    return PDL_OK;
}

pdl_status_t pdl_ranks_sum(pdl_ranks_t *ranks, double *values, int64_t count)
{
    return combine(ranks, values, count, add);
}

pdl_status_t pdl_ranks_max(pdl_ranks_t *ranks, double *values, int64_t count)
{
    return combine(ranks, values, count, greater);
}

pdl_status_t pdl_ranks_broadcast(pdl_ranks_t *ranks, void *data, int64_t bytes, int root)
{
    pdl_status_t status = PDL_OK;

    if (alone(ranks)) return PDL_OK;
    for (int64_t first = 0; !status && first < bytes; first += BROADCAST_STEP) {
        int64_t n = bytes - first < BROADCAST_STEP ? bytes - first : BROADCAST_STEP;

        status = pdl__world_broadcast(ranks->world, (char *)data + first, (int)n, root);
    }
    return status;
}

/* Where MPI's int does not count that far: one rank after the other. */
static pdl_status_t gather_much(pdl_ranks_t *ranks, const void *mine, void *all, const int64_t *sizes)
{
    pdl_status_t status = PDL_OK;
    char        *place = all;

    for (int r = 0; !status && r < ranks->size; r++) {
        if (r == ranks->rank && sizes[r] > 0) memcpy(place, mine, (size_t)sizes[r]);
        status = pdl_ranks_broadcast(ranks, place, sizes[r], r);
        place += sizes[r];
    }
    return status;
}

pdl_status_t pdl__ranks_gather_all(pdl_ranks_t *ranks, const void *mine, int64_t bytes, void *all, int64_t *sizes,
                                   int64_t most)
{
    int64_t      total = 0;
    int         *count, *first;
    pdl_status_t status;

    sizes[ranks->rank] = bytes;
    if (ranks->size == 1) {
        if (all != NULL && bytes > 0) memcpy(all, mine, (size_t)bytes);
        return PDL_OK;
    }
    status = pdl__world_gather(ranks->world, &bytes, sizes, (int)sizeof(bytes));
    if (status || all == NULL) return status;
    for (int r = 0; r < ranks->size; r++) total += sizes[r];
    if (total > most) return gather_much(ranks, mine, all, sizes);
    count = (int *)ranks->gathered;
    first = count + ranks->size;
    for (int r = 0; r < ranks->size; r++) {
        count[r] = (int)sizes[r];
        first[r] = r == 0 ? 0 : first[r - 1] + count[r - 1];
    }
    return pdl__world_gather_some(ranks->world, mine, all, count, first, ranks->rank);
}

pdl_status_t pdl_ranks_gather_all(pdl_ranks_t *ranks, const void *mine, int64_t bytes, void *all, int64_t *sizes)
{
    return pdl__ranks_gather_all(ranks, mine, bytes, all, sizes, INT_MAX);
}

pdl_status_t pdl_ranks_barrier(pdl_ranks_t *ranks)
{
    return alone(ranks) ? PDL_OK : pdl__world_barrier(ranks->world);
}

typedef struct verdict {
    int64_t  status;
    uint64_t hash; /* of the message: FNV-1a */
    int64_t  job_rank;
} verdict_t;

static verdict_t verdict_of(pdl_status_t status, int job_rank)
{
    verdict_t verdict = {.status = status, .hash = 0xcbf29ce484222325u, .job_rank = job_rank};

    for (const char *c = pdl_error_message(); status && *c != '\0'; c++)
        verdict.hash = (verdict.hash ^ (unsigned char)*c) * 0x100000001b3u;
    return verdict;
}

pdl_status_t pdl_ranks_agree(pdl_ranks_t *ranks, pdl_status_t status)
{
    verdict_t    mine = verdict_of(status, ranks->job_rank), worst, *all = (verdict_t *)ranks->gathered;
    char         message[MESSAGE_BYTES];
    bool         unanimous = true;
    int          speaker = 0;
    pdl_status_t moved;

    if (alone(ranks)) return status;
    moved = pdl__world_gather(ranks->world, &mine, all, (int)sizeof(mine));
    if (moved) return moved;
    for (int r = 1; r < ranks->size; r++) {
        if (all[r].status < all[speaker].status) speaker = r;
        unanimous = unanimous && all[r].status == all[0].status && all[r].hash == all[0].hash;
    }
    worst = all[speaker];
    if (worst.status == PDL_OK) return PDL_OK;
    snprintf(message, sizeof(message), "%s", pdl_error_message());
    moved = pdl__world_broadcast(ranks->world, message, (int)sizeof(message), speaker);
    if (moved) return moved;
    if (unanimous) return pdl_error((pdl_status_t)worst.status, "%s", message);
    return pdl_error((pdl_status_t)worst.status, "rank %d: %s", (int)worst.job_rank, message);
}

void pdl_ranks_abort(pdl_ranks_t *ranks, pdl_status_t status)
{
    int exit_status = pdl_status_exit(status);

    fflush(stdout);
    if (pdl_watch_failed(ranks)) {
        pdl__watch_mourn(ranks->watch);
        pdl__world_abort(1);
        _Exit(1);
    }
    pdl__watch_leave(ranks->watch);
    if (ranks->size == 1) {
        fprintf(stderr, "paradl: %s\n", pdl_error_message());
    } else if (pdl__launch_claim()) {
        /* What ranks have agreed on may name one of them already. */
        bool named = strncmp(pdl_error_message(), "rank ", 5) == 0;

        if (!named) fprintf(stderr, "paradl: rank %d: %s\n", ranks->job_rank, pdl_error_message());
        if (named) fprintf(stderr, "paradl: %s\n", pdl_error_message());
    }
    if (ranks->world != NULL) pdl__world_abort(exit_status);
    _Exit(exit_status);
}
