/*
 * Finds the checkpoint from which a run resumes.
 */
#include "train/checkpoint/resume.h"
#include "train/checkpoint/checkpoint.h"

#include <stdio.h>
#include <string.h>

/* On rank 0: whether there is a checkpoint to resume from. A checkpoint of another kind of run is an error; the run
   does not start anew. */
static pdl_status_t find(const char *run, const char *const *folders, int count, bool *found)
{
    bool         other = false, nets = strcmp(run, folders[0]) != 0;
    pdl_status_t status = pdl__checkpoint_used(folders[count - 1], found);

    if (!status && !*found && nets) status = pdl__checkpoint_used(run, &other);
    if (!status && !*found && !nets) other = pdl__checkpoint_has_nets(run);
    if (status || !other) return status;
    return pdl_error(PDL_ERR_INPUT, "%s was written with%s --aggregate feddct: resume with the same options", run,
                     nets ? "out" : "");
}

static pdl_status_t open_first(const char *run, const char *const *folders, int count,
                               pdl_checkpoint_t **checkpoints)
{
    pdl_status_t status;

    if (pdl__checkpoint_is_one(run))
        return pdl_error(PDL_ERR_INPUT,
                         "--checkpoint %s is a checkpoint, or a part of one, itself: give the folder that it is in",
                         run);
    status = pdl__checkpoint_open_latest(folders, count, checkpoints);
    if (status == PDL_ERR_IO)
        status = pdl_error(status, "%s: bring the file back, or begin anew in another folder or with --overwrite",
                           pdl_error_message());
    return status;
}

static void report(const pdl_train_observer_t *observer, const pdl_checkpoint_t *checkpoint,
                   const pdl__identity_change_t *change)
{
    char text[512];

    if (pdl_checkpoint_damage(checkpoint) && observer->on_warning)
        observer->on_warning(observer->context, pdl_checkpoint_damage(checkpoint));
    if (change->text[0] != '\0' && observer->on_warning) {
        snprintf(text, sizeof(text), "the run goes on with %s", change->text);
        observer->on_warning(observer->context, text);
    }
    if (pdl_checkpoint_summed(checkpoint) || !observer->on_note) return;
    snprintf(text, sizeof(text),
             "%s has no checksums: an earlier version wrote it, and damage would not be noticed",
             pdl_checkpoint_path(checkpoint));
    observer->on_note(observer->context, text);
}

pdl_status_t pdl__resume_open(const pdl_train_options_t *o, const pdl__identity_t *identity,
                              const char *const *folders, int count, pdl_checkpoint_t **checkpoints, bool *found)
{
    pdl_ranks_t           *ranks = o->session.ranks;
    bool                   first = pdl_ranks_rank(ranks) == 0;
    pdl__identity_change_t change = {0};
    pdl_status_t           status = first ? find(o->checkpoint, folders, count, found) : PDL_OK;

    for (int i = 0; i < count; i++) checkpoints[i] = NULL;
    status = pdl_ranks_agree(ranks, status);
    if (!status) status = pdl_ranks_broadcast(ranks, found, sizeof(*found), 0);
    if (status) return status;
    if (!*found) {
        if (o->observer.on_note)
            o->observer.on_note(o->observer.context, "nothing to resume yet: starting from the beginning");
        return PDL_OK;
    }
    if (first) status = open_first(o->checkpoint, folders, count, checkpoints);
    if (first && !status) status = pdl__identity_check(identity, &o->session.optimizer, checkpoints[0], &change);
    status = pdl__checkpoint_share(ranks, status, count, checkpoints);
    if (!status) report(&o->observer, checkpoints[0], &change);
    return status;
}
