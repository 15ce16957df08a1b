/*
 * Where a run writes: what has to be there, and what must not be there already.
 */
#include "train/run/outputs.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/clean.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pdl_status_t check_checkpoint(const char *folder)
{
    if ((mkdir(folder, 0777) == 0 || errno == EEXIST) && access(folder, W_OK | X_OK) == 0) return PDL_OK;
    return pdl_error(PDL_ERR_IO,
                     "cannot write a checkpoint to %s: %s: give a folder in one that is there to "
                     "--checkpoint",
                     folder, strerror(errno));
}

/* Two runs in one folder would be taken for one: the latest checkpoint is the one of the highest number. */
static pdl_status_t check_unused(const pdl_train_options_t *o)
{
    bool         used;
    pdl_status_t status = pdl__checkpoint_used(o->checkpoint, &used);

    if (status || o->resume) return status;
    if (pdl__checkpoint_is_one(o->checkpoint))
        return pdl_error(PDL_ERR_INPUT,
                         "--checkpoint %s is a checkpoint, or a part of one, itself: give another folder",
                         o->checkpoint);
    if (o->overwrite || (!used && !pdl__checkpoint_has_nets(o->checkpoint))) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT,
                     "%s holds the checkpoints of another run: go on with that run by --resume, replace it by "
                     "--overwrite, or give another folder to --checkpoint",
                     o->checkpoint);
}

static pdl_status_t check_trace(const char *path)
{
    const char  *slash = strrchr(path, '/');
    char        *folder = slash ? strndup(path, slash > path ? (size_t)(slash - path) : 1) : strdup(".");
    pdl_status_t status = PDL_OK;

    if (!folder) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    /* Also a file that is there may be one that can be written, in a folder that cannot. */
    if (access(folder, W_OK | X_OK) != 0 && access(path, W_OK) != 0)
        status = pdl_error(PDL_ERR_IO, "cannot write %s: %s: give a path in a folder that is there to --trace",
                           path, strerror(errno));
    free(folder);
    return status;
}

/* A run that is about to end, as ranks are whose command was killed, is waited for. */
static pdl_status_t claim(const pdl_train_options_t *o)
{
    enum { PATIENCE = 300 }; /* tenths of a second */
    const pdl_train_observer_t *observer = &o->observer;
    pdl_status_t                status = check_checkpoint(o->checkpoint);

    if (!status) status = check_unused(o);
    if (status || pdl__checkpoint_claim(o->checkpoint, 0) == PDL_OK) return status;
    if (observer->on_note) observer->on_note(observer->context, "waiting for another run in this folder to end");
    status = pdl__checkpoint_claim(o->checkpoint, PATIENCE);
    return status ? status : check_unused(o);
}

pdl_status_t pdl__outputs_check(const pdl_train_options_t *o)
{
    pdl_status_t status = PDL_OK;

    if (o->checkpoint && pdl_ranks_rank(o->session.ranks) == 0) status = claim(o);
    if (!status && o->trace) status = check_trace(o->trace);
    return pdl_ranks_agree(o->session.ranks, status);
}

void pdl__outputs_release(void)
{
    pdl__checkpoint_release();
}

pdl_status_t pdl__outputs_begin(const pdl_train_options_t *o, int64_t updates)
{
    const pdl_train_observer_t *observer = &o->observer;
    pdl_status_t                status = PDL_OK;

    if (o->checkpoint && o->overwrite && pdl_ranks_rank(o->session.ranks) == 0)
        status = pdl__checkpoint_set_aside(o->checkpoint);
    if (!status && observer->on_start) status = observer->on_start(observer->context, updates);
    /* A run that goes on has the weights of its checkpoint. */
    for (int i = 0; !status && o->session.initial && updates == 0 && observer->on_note &&
                    i < pdl_initial_line_count(o->session.initial);
         i++)
        observer->on_note(observer->context, pdl_initial_line(o->session.initial, i));
    return pdl_ranks_agree(o->session.ranks, status);
}

pdl_status_t pdl__outputs_settle(const pdl_train_options_t *o)
{
    const pdl_train_observer_t *observer = &o->observer;

    return pdl_ranks_agree(o->session.ranks, observer->on_save ? observer->on_save(observer->context) : PDL_OK);
}
