/*
 * Ranks that watch each other, so that one which is stopped, hangs or dies does not leave the others waiting for ever.
 *
 *     pdl_watch_start(ranks, 60);                                   // seconds; 0: only ranks that die are noticed
 *     pdl_watch_at(ranks, &(pdl_watch_place_t){.update = 7, .doing = "forward", .layer = "conv1"});
 *     ...
 *     status = pdl_ranks_sum(ranks, sums, 2);                       // fails where a rank is lost, instead of waiting
 *     if (pdl_watch_failed(ranks)) ...                              // save what can be saved, then pdl_ranks_abort()
 *
 * Every rank keeps a record of what it does, which is a few stores into memory. A thread of its own sends the record as a
 * heartbeat over TCP to rank 0, whose thread judges:
 *
 *   - a rank whose connection closes without a word has died;
 *   - a rank that is not heard of for longer than the limit is stopped, or cut off; if it is rank 0 the others see it;
 *   - a rank that is heard of, yet neither makes progress nor waits for messages nor computes nor reads, hangs;
 *   - ranks that all wait for messages and make no progress wait for each other.
 *
 * A rank that computes is never judged, however long a step takes. The limit does not count while a whole job is
 * suspended. Whoever connects without the token that the ranks have agreed on over MPI is turned away.
 */
#ifndef PARADL_WATCH_H
#define PARADL_WATCH_H

#include <paradl/comm/ranks.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Collective. Begins to watch, until the ranks are destroyed; nothing happens where there is one rank. A failure to connect
   is no error: *watched, which may be NULL, says whether the ranks are watched. */
pdl_status_t pdl_watch_start(pdl_ranks_t *ranks, double limit_s, bool *watched);

/* What this rank is about to do. The names are not copied. */
typedef struct pdl_watch_place {
    int64_t     update;      /* the one at hand, from 1; 0: none */
    const char *doing;       /* a literal: "forward", "waiting for samples" */
    const char *layer;       /* NULL: none; valid until pdl_watch_forget() or the next place */
    int         micro_batch; /* from 1; 0: there is only one */
} pdl_watch_place_t;
void pdl_watch_at(pdl_ranks_t *ranks, const pdl_watch_place_t *place);
/* The names of layers are about to go. */
void pdl_watch_forget(pdl_ranks_t *ranks);

/* Whether ranks are lost, so that whatever waits for messages fails; the message says who and where. */
bool pdl_watch_failed(const pdl_ranks_t *ranks);
/* Whether this is the rank that speaks, and saves, for those that are left. */
bool pdl_watch_speaks(const pdl_ranks_t *ranks);
/* What is to be added to the message of the loss, such as where the latest checkpoint is. */
void pdl_watch_remark(pdl_ranks_t *ranks, const char *remark);

#ifdef __cplusplus
}
#endif
#endif
