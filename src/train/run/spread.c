/*
 * How long each rank computed in the updates of an epoch. Ranks wait for each other in every update, so its time says nothing of them;
 * what they computed does. They are asked once an epoch: in every update that would cost a round of messages.
 */
#include "base/sorted.h"
#include "train/run/run_summary.h"
#include <paradl/comm/ranks.h>
#include <stdlib.h>

#define MOST_UPDATES 256 /* of an epoch: a line of the log stays short */

/* One update: `seconds` of all ranks, which are sorted here. */
static pdl_rank_spread_t spread_of(double *seconds, int ranks)
{
    pdl_rank_spread_t spread = {.slowest = 0};

    for (int r = 1; r < ranks; r++)
        if (seconds[r] > seconds[spread.slowest]) spread.slowest = r;
    spread.median_s = pdl__median(seconds, (size_t)ranks);
    spread.least_s = seconds[0];
    spread.largest_s = seconds[ranks - 1];
    return spread;
}

static pdl_status_t gather(const pdl__times_t *times, pdl_ranks_t *ranks, pdl_train_spread_t *spread,
                           double *seconds)
{
    int          size = pdl_ranks_size(ranks);
    int64_t      count = spread->count, begin = times->count - count * spread->every;
    double      *mine = seconds, *all = mine + count, *one = all + count * size;
    int64_t     *sizes = (int64_t *)(one + size);
    pdl_status_t status;

    for (int64_t i = 0; i < count; i++)
        mine[i] = pdl__work_of(times->update[(begin + i * spread->every) % times->capacity].class_s);
    status = pdl_ranks_gather_all(ranks, mine, count * (int64_t)sizeof(*mine), all, sizes);
    for (int64_t i = 0; i < count && !status; i++) {
        for (int r = 0; r < size; r++) one[r] = all[r * count + i];
        spread->update[i] = spread_of(one, size);
    }
    return status;
}

pdl_status_t pdl__times_spread(const pdl__times_t *times, const pdl_session_t *s, int64_t updates,
                               pdl_train_spread_t *spread)
{
    pdl_ranks_t *ranks = s->spec.ranks;
    int64_t      kept = times->count < times->capacity ? times->count : times->capacity, size;
    double      *seconds;
    pdl_status_t status;

    *spread = (pdl_train_spread_t){.every = 1};
    if (pdl_ranks_size(ranks) == 1 || updates == 0) return PDL_OK;
    if (updates > kept) updates = kept;
    spread->every = (updates + MOST_UPDATES - 1) / MOST_UPDATES;
    spread->count = updates / spread->every;
    spread->first = pdl_session_updates(s) - spread->count * spread->every + 1;
    size = pdl_ranks_size(ranks);
    spread->update = malloc((size_t)spread->count * sizeof(*spread->update));
    seconds = malloc((size_t)(spread->count * (size + 1) + 2 * size) * sizeof(*seconds));
    status = pdl_ranks_agree(ranks, spread->update != NULL && seconds != NULL
                                        ? PDL_OK
                                        : pdl_error(PDL_ERR_NOMEM, "out of memory for the times of ranks"));
    if (!status) status = gather(times, ranks, spread, seconds);
    free(seconds);
    return status;
}
