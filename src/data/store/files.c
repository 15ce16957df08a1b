/*
 * The file of a store. With a ring, writes are copied to buffers and go on while the caller does; without one they are
 * done when they return. Reads of the loader's threads are plain in both cases: each waits for its own sample.
 */
#define _GNU_SOURCE /* O_TMPFILE */
#include "data/store/files.h"

#include "base/plugin.h"
#include "data/fetch/get.h"
#include "data/plugin/uring.h"
#include "data/source/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEPTH 32 /* transfers at once */

struct pdl__files {
    char                folder[PDL__PATH];
    int                 file;
    int64_t             place_bytes;
    pdl__ring_t        *ring;
    const pdl__uring_t *uring; /* of the ring */
    pdl__transfer_t     transfer[DEPTH];
    uint8_t            *buffer[DEPTH]; /* of writes */
    bool                busy[DEPTH];
    int                 under_way;
    bool                broken; /* the ring failed: what follows is done by plain calls */
    int                 error;  /* of a write, kept for the flush */
};

/* A file without a name where the file system has such, else one whose name goes at once. */
static int open_nameless(const char *folder)
{
    char path[PDL__PATH + 32];
    int  file = -1;

#ifdef O_TMPFILE
    file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file >= 0) return file;
#endif
    snprintf(path, sizeof(path), "%s/paradl-store-XXXXXX", folder);
    file = mkstemp(path);
    if (file >= 0) unlink(path);
    return file;
}

/* Without the plugin, or where the system allows no ring, transfers are done one by one. */
static void open_ring(pdl__files_t *files)
{
    const void *table;

    if (pdl__plugin_load(PDL__PLUGIN_URING, files->folder, sizeof(pdl__uring_t), &table)) return;
    files->uring = table;
    files->ring = files->uring->open(DEPTH);
}

pdl_status_t pdl__files_open(const char *folder, int64_t place_bytes, bool ring, pdl__files_t **result)
{
    pdl__files_t *files;
    pdl_status_t  status = pdl__folder_make(folder);

    if (status) return status;
    files = calloc(1, sizeof(*files));
    if (files == NULL) return pdl__out_of_memory(folder);
    snprintf(files->folder, sizeof(files->folder), "%s", folder);
    files->place_bytes = (place_bytes + 511) / 512 * 512;
    files->file = open_nameless(folder);
    if (files->file < 0) {
        status = pdl_error(PDL_ERR_IO, "cannot make a file for samples in %s: %s; name another folder", folder,
                           strerror(errno));
    } else if (ring) {
        open_ring(files);
    }
    for (int i = 0; !status && files->ring != NULL && i < DEPTH; i++) {
        files->buffer[i] = malloc((size_t)place_bytes);
        if (files->buffer[i] == NULL) status = pdl__out_of_memory(folder);
    }
    if (status) {
        pdl__files_close(files);
        return status;
    }
    *result = files;
    return PDL_OK;
}

bool pdl__files_ring(const pdl__files_t *files)
{
    return files->ring != NULL;
}

static pdl_status_t refuse(const pdl__files_t *files, const char *what, int error)
{
    if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
        return pdl_error(PDL_ERR_IO,
                         "%s: no room for more samples (%s): name a folder on a larger disk, or keep them "
                         "in memory",
                         files->folder, strerror(error));
    }
    return pdl_error(PDL_ERR_IO, "%s: cannot %s samples: %s", files->folder, what,
                     error == 0 ? "the file is too short" : strerror(error));
}

/* Plain transfer of all bytes; the errno of what went wrong, 0 for none and -1 where the file ends. */
static int move_all(int file, uint8_t *data, int64_t bytes, int64_t offset, bool writes)
{
    while (bytes > 0) {
        const ssize_t moved = writes ? pwrite(file, data, (size_t)bytes, (off_t)offset)
                                     : pread(file, data, (size_t)bytes, (off_t)offset);

        if (moved < 0 && errno == EINTR) continue;
        if (moved < 0) return errno;
        if (moved == 0) return -1;
        data += moved;
        bytes -= moved;
        offset += moved;
    }
    return 0;
}

/* Waits for one transfer of the ring; the rest is done by plain calls, which also show why it stopped short. */
static int reap(pdl__files_t *files)
{
    pdl__transfer_t *ended;
    int64_t          moved = 0;
    int              error = files->uring->wait(files->ring, &ended, &moved);

    if (ended == NULL) {
        files->under_way = 0; /* nothing more will come of it */
        memset(files->busy, 0, sizeof(files->busy));
        files->broken = true;
        return error != 0 ? error : EIO;
    }
    files->under_way--;
    files->busy[ended - files->transfer] = false;
    if (error == EINTR || error == EAGAIN)
        error = 0;
    else if (error == 0)
        ended->done += moved;
    if (error == 0) {
        error = move_all(files->file, ended->data + ended->done, ended->bytes - ended->done,
                         ended->offset + ended->done, ended->writes);
    }
    return error;
}

static void note_failure(pdl__files_t *files, int error)
{
    if (error != 0 && files->error == 0) files->error = error;
}

/* A transfer that is free, after waiting for one if need be. */
static int find_free(pdl__files_t *files)
{
    while (files->under_way == DEPTH) note_failure(files, reap(files));
    for (int i = 0; i < DEPTH; i++) {
        if (!files->busy[i]) return i;
    }
    return 0; /* not reached: fewer than DEPTH are in flight */
}

static void start(pdl__files_t *files, int i, pdl__transfer_t transfer)
{
    int error;

    files->transfer[i] = transfer;
    error = files->broken ? EIO : files->uring->start(files->ring, files->file, &files->transfer[i]);
    if (error == 0) {
        files->busy[i] = true;
        files->under_way++;
    } else {
        files->broken = true;
        note_failure(files, move_all(files->file, transfer.data, transfer.bytes, transfer.offset, transfer.writes));
    }
}

pdl_status_t pdl__files_write(pdl__files_t *files, int64_t place, const void *record, int64_t bytes)
{
    const int64_t offset = place * files->place_bytes;
    int           i, error;

    if (files->ring == NULL || files->broken) {
        error = move_all(files->file, (uint8_t *)(uintptr_t)record, bytes, offset, true);
        return error == 0 ? PDL_OK : refuse(files, "write", error);
    }
    i = find_free(files);
    memcpy(files->buffer[i], record, (size_t)bytes);
    start(files, i, (pdl__transfer_t){files->buffer[i], bytes, 0, offset, true});
    return PDL_OK;
}

pdl_status_t pdl__files_flush(pdl__files_t *files)
{
    int error;

    while (files->under_way > 0) note_failure(files, reap(files));
    error = files->error;
    files->error = 0;
    return error == 0 ? PDL_OK : refuse(files, "write", error);
}

pdl_status_t pdl__files_read(const pdl__files_t *files, int64_t place, void *record, int64_t bytes)
{
    const int error = move_all(files->file, record, bytes, place * files->place_bytes, false);

    return error == 0 ? PDL_OK : refuse(files, "read", error < 0 ? 0 : error);
}

pdl_status_t pdl__files_read_many(pdl__files_t *files, const int64_t *place, const int64_t *bytes, int64_t count,
                                  uint8_t *records)
{
    pdl_status_t status = PDL_OK;
    int          error;

    if (files->ring == NULL || files->broken || count == 1) {
        for (int64_t i = 0; !status && i < count; i++) {
            status = pdl__files_read(files, place[i], records, bytes[i]);
            records += bytes[i];
        }
        return status;
    }
    status = pdl__files_flush(files); /* so that a failure below is one of reading */
    for (int64_t i = 0; !status && i < count; i++) {
        start(files, find_free(files),
              (pdl__transfer_t){records, bytes[i], 0, place[i] * files->place_bytes, false});
        records += bytes[i];
    }
    while (files->under_way > 0) note_failure(files, reap(files));
    error = files->error;
    files->error = 0;
    if (status || error == 0) return status;
    return refuse(files, "read", error < 0 ? 0 : error);
}

void pdl__files_close(pdl__files_t *files)
{
    if (files == NULL) return;
    while (files->under_way > 0) reap(files);
    if (files->ring != NULL) files->uring->close(files->ring);
    if (files->file >= 0) close(files->file);
    for (int i = 0; i < DEPTH; i++) free(files->buffer[i]);
    free(files);
}
