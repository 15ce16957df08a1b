/*
 * Locks on checkpoint folders. Two runs in one folder would remove each other's work, so a run claims its folder from
 * its first look at it to its end, and whoever writes a checkpoint locks the folder for that long. Locks end with the
 * process that has them, however it ends. File systems without locks are trusted.
 */
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/clean.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The folder of the run of this process. A lock belongs to an open file, so another one of the same folder, opened to
   write a checkpoint, would be kept out by the run's own. */
static struct {
    bool  held;
    int   directory;
    dev_t device;
    ino_t inode;
} claimed;

static pdl_status_t open_folder(const char *folder, int *directory)
{
    if (mkdir(folder, 0777) == 0 || errno == EEXIST) {
        *directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (*directory >= 0) return PDL_OK;
    }
    return pdl_error(PDL_ERR_IO, "cannot write a checkpoint to %s: %s", folder, strerror(errno));
}

static bool is_locked(int directory)
{
    return flock(directory, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

static bool is_claimed(int directory)
{
    struct stat info;

    return claimed.held && fstat(directory, &info) == 0 && info.st_dev == claimed.device &&
           info.st_ino == claimed.inode;
}

pdl_status_t pdl__checkpoint_lock(const char *folder, int *directory)
{
    pdl_status_t status = open_folder(folder, directory);

    if (status || is_claimed(*directory) || !is_locked(*directory)) return status;
    close(*directory);
    return pdl_error(PDL_ERR_IO, "another run is writing a checkpoint to %s: give each run a folder of its own",
                     folder);
}

pdl_status_t pdl__checkpoint_claim(const char *folder, int tenths)
{
    struct timespec tenth = {0, 100000000};
    struct stat     info;
    int             directory = -1;
    pdl_status_t    status = open_folder(folder, &directory);

    if (status) return status;
    while (is_locked(directory)) {
        if (tenths-- <= 0) {
            close(directory);
            return pdl_error(PDL_ERR_IO, "another run is at work in %s: wait for its end, or give another folder",
                             folder);
        }
        nanosleep(&tenth, NULL);
    }
    pdl__checkpoint_release();
    claimed.held = fstat(directory, &info) == 0;
    if (!claimed.held) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", folder, strerror(errno));
    claimed.directory = directory;
    claimed.device = info.st_dev;
    claimed.inode = info.st_ino;
    /* A run that has nothing left to do writes no checkpoint, which would remove what a killed one left. */
    pdl__checkpoint_clean(directory, folder);
    return PDL_OK;
}

void pdl__checkpoint_release(void)
{
    if (claimed.held) close(claimed.directory);
    claimed.held = false;
}
