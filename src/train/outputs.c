/*
 * Folders that have to be there when a run ends.
 */
#include "train/outputs.h"
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

pdl_status_t pdl__outputs_check(const pdl_train_options_t *o)
{
    pdl_status_t status = PDL_OK;

    if (o->checkpoint && pdl_ranks_rank(o->session.ranks) == 0) status = check_checkpoint(o->checkpoint);
    if (!status && o->trace) status = check_trace(o->trace);
    return pdl_ranks_agree(o->session.ranks, status);
}
