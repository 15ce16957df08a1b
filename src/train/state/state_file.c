/*
 * A file of pieces and its thread.
 */
#include "train/state/state_file.h"
#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <paradl/base/units.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

typedef struct job {
    int  piece;
    bool writes;
} job_t;

struct pdl__state_file {
    pdl__state_file_spec_t spec;
    char                  *folder;
    int                    handle;
    pthread_t              thread;
    pthread_mutex_t        lock;
    pthread_cond_t         changed;
    bool                   runs, ends;
    job_t                 *job; /* a ring of 2 * slots: a slot has at most a write and a read behind it */
    int64_t                asked, done;
    int64_t               *last;    /* of every piece: the number of jobs up to its last one */
    int                    failure; /* the first errno; 0: none */
    bool                   failed_writing;
};

/* All of some bytes of the file; an errno, or 0. */
static int transfer(int file, bool writes, char *memory, size_t bytes, off_t at)
{
    while (bytes > 0) {
        ssize_t moved = writes ? pwrite(file, memory, bytes, at) : pread(file, memory, bytes, at);
        if (moved < 0 && errno == EINTR) continue;
        if (moved <= 0) return moved < 0 ? errno : EIO;
        memory += moved;
        bytes -= (size_t)moved;
        at += moved;
    }
    return 0;
}

static off_t place_of(const pdl__state_file_t *file, int piece)
{
    return (off_t)piece * (off_t)file->spec.piece_bytes;
}

char *pdl__state_file_slot(const pdl__state_file_t *file, int piece)
{
    return file->spec.memory + (size_t)(piece % file->spec.slots) * file->spec.piece_bytes;
}

static void *work(void *context)
{
    pdl__state_file_t *file = context;

    pthread_mutex_lock(&file->lock);
    for (;;) {
        while (file->done == file->asked && !file->ends) pthread_cond_wait(&file->changed, &file->lock);
        if (file->done == file->asked) break;
        job_t job = file->job[file->done % (2 * file->spec.slots)];
        pthread_mutex_unlock(&file->lock);
        int failure = transfer(file->handle, job.writes, pdl__state_file_slot(file, job.piece),
                               file->spec.piece_bytes, place_of(file, job.piece));
        pthread_mutex_lock(&file->lock);
        if (failure != 0 && file->failure == 0) {
            file->failure = failure;
            file->failed_writing = job.writes;
        }
        file->done++;
        pthread_cond_broadcast(&file->changed);
    }
    pthread_mutex_unlock(&file->lock);
    return NULL;
}

static void ask(pdl__state_file_t *file, int piece, bool writes)
{
    pthread_mutex_lock(&file->lock);
    while (file->asked - file->done == 2 * file->spec.slots) pthread_cond_wait(&file->changed, &file->lock);
    file->job[file->asked++ % (2 * file->spec.slots)] = (job_t){piece, writes};
    file->last[piece] = file->asked;
    pthread_cond_broadcast(&file->changed);
    pthread_mutex_unlock(&file->lock);
}

void pdl__state_file_read(pdl__state_file_t *file, int piece)
{
    ask(file, piece, false);
}

void pdl__state_file_write(pdl__state_file_t *file, int piece)
{
    ask(file, piece, true);
}

static pdl_status_t tell(const pdl__state_file_t *file, int failure, bool writing)
{
    if (failure == 0) return PDL_OK;
    return pdl_error(PDL_ERR_IO, "cannot %s the optimizer's state in %s: %s", writing ? "write" : "read",
                     file->folder, strerror(failure));
}

pdl_status_t pdl__state_file_wait(pdl__state_file_t *file, int piece)
{
    pthread_mutex_lock(&file->lock);
    int64_t until = piece < 0 ? file->asked : file->last[piece];
    while (file->done < until) pthread_cond_wait(&file->changed, &file->lock);
    int  failure = file->failure;
    bool writing = file->failed_writing;
    pthread_mutex_unlock(&file->lock);
    return tell(file, failure, writing);
}

pdl_status_t pdl__state_file_get(pdl__state_file_t *file, int piece, size_t at, void *to, size_t bytes)
{
    pdl_status_t status = pdl__state_file_wait(file, -1);

    return status ? status
                  : tell(file, transfer(file->handle, false, to, bytes, place_of(file, piece) + (off_t)at), false);
}

pdl_status_t pdl__state_file_put(pdl__state_file_t *file, int piece, size_t at, const void *from, size_t bytes)
{
    pdl_status_t status = pdl__state_file_wait(file, -1);
    char        *memory = (char *)(uintptr_t)from; /* only read */

    return status
               ? status
               : tell(file, transfer(file->handle, true, memory, bytes, place_of(file, piece) + (off_t)at), true);
}

/* Room is taken before the run, so that a disk is not found full in the middle of it. */
static pdl_status_t open_file(pdl__state_file_t *file)
{
    double         needs = (double)file->spec.pieces * (double)file->spec.piece_bytes;
    char           path[4096], needed[PDL_FORMAT_SIZE], has[PDL_FORMAT_SIZE];
    struct statvfs room;

    if (statvfs(file->folder, &room) != 0)
        return pdl_error(PDL_ERR_INPUT, "%s, the folder for the optimizer's state: %s", file->folder,
                         strerror(errno));
    double free_bytes = (double)room.f_bavail * (double)room.f_frsize;
    if (needs > free_bytes)
        return pdl_error(PDL_ERR_LIMIT,
                         "the optimizer's state takes %s, and %s has room for %s: name another folder with "
                         "--state-dir",
                         pdl_format_bytes(needs, needed), file->folder, pdl_format_bytes(free_bytes, has));
    snprintf(path, sizeof(path), "%s/.paradl-state-XXXXXX", file->folder);
    file->handle = mkstemp(path);
    if (file->handle < 0)
        return pdl_error(PDL_ERR_IO, "cannot make a file for the optimizer's state in %s: %s", file->folder,
                         strerror(errno));
    unlink(path);
    int failure = posix_fallocate(file->handle, 0, (off_t)needs);
    return failure == 0 ? PDL_OK : tell(file, failure, true);
}

pdl_status_t pdl__state_file_create(const pdl__state_file_spec_t *spec, pdl__state_file_t **out)
{
    pdl__state_file_t *file = calloc(1, sizeof(*file));
    pdl_status_t       status = PDL_OK;

    if (file == NULL) return pdl__no_memory("while preparing to train");
    file->spec = *spec;
    file->handle = -1;
    file->folder = strdup(spec->folder);
    file->job = calloc(2 * (size_t)spec->slots, sizeof(*file->job));
    file->last = calloc((size_t)spec->pieces + 1, sizeof(*file->last));
    pthread_mutex_init(&file->lock, NULL);
    pthread_cond_init(&file->changed, NULL);
    if (file->folder == NULL || file->job == NULL || file->last == NULL)
        status = pdl__no_memory("while preparing to train");
    if (!status) status = open_file(file);
    if (!status) {
        int failure = pthread_create(&file->thread, NULL, work, file);
        file->runs = failure == 0;
        if (failure != 0)
            status =
                pdl_error(PDL_ERR_IO, "cannot start the thread that reads and writes state: %s", strerror(failure));
    }
    if (status) {
        pdl__state_file_destroy(file);
        return status;
    }
    *out = file;
    return PDL_OK;
}

void pdl__state_file_destroy(pdl__state_file_t *file)
{
    if (file == NULL) return;
    if (file->runs) {
        pthread_mutex_lock(&file->lock);
        file->ends = true;
        pthread_cond_broadcast(&file->changed);
        pthread_mutex_unlock(&file->lock);
        pthread_join(file->thread, NULL);
    }
    if (file->handle >= 0) close(file->handle);
    pthread_cond_destroy(&file->changed);
    pthread_mutex_destroy(&file->lock);
    free(file->folder);
    free(file->job);
    free(file->last);
    free(file);
}
