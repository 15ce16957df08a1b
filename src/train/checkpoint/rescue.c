/*
 * What is left to do when ranks are lost in the middle of a run.
 */
#include "train/checkpoint/rescue.h"
#include "train/exec/session.h"
#include <paradl/comm/watch.h>
#include <paradl/train/checkpoint.h>
#include <stdio.h>

/* Rank 0 has what belongs beside a checkpoint: the log of the updates, which is complete first, and the disk. */
static bool may_write(const pdl_train_options_t *o)
{
    const pdl_train_observer_t *observer = &o->observer;
    pdl_ranks_t                *ranks = o->session.ranks;

    if (pdl_ranks_rank(ranks) == 0) return !observer->on_save || observer->on_save(observer->context) == PDL_OK;
    return !o->logged && pdl_ranks_node_size(ranks) == pdl_ranks_size(ranks);
}

void pdl__rescue(const pdl_train_options_t *o, pdl_session_t *session, const pdl__place_t *place)
{
    pdl_ranks_t *ranks = o->session.ranks;
    int64_t      update = pdl_session_updates(session), latest = -1;
    char         text[256];

    if (!pdl_watch_speaks(ranks) || !o->checkpoint) return;
    pdl_watch_at(ranks, &(pdl_watch_place_t){.update = update, .doing = "writing a checkpoint"});
    if (pdl_checkpoint_latest(o->checkpoint, &latest)) latest = -1;
    if (place && latest < update && pdl__session_whole(session) && may_write(o) &&
        pdl__session_save_alone(session, o->checkpoint, place, o->keep) == PDL_OK)
        snprintf(text, sizeof(text), "checkpoint of update %lld written to %s", (long long)update, o->checkpoint);
    else if (latest >= 0)
        snprintf(text, sizeof(text), "the latest checkpoint in %s is of update %lld", o->checkpoint,
                 (long long)latest);
    else
        snprintf(text, sizeof(text), "there is no checkpoint in %s yet", o->checkpoint);
    pdl_watch_remark(ranks, text);
    pdl_watch_at(ranks, &(pdl_watch_place_t){.update = update, .doing = "ending"});
}
