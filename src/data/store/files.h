/*
 * Records in a file on a local disk, at places of equal size. The file has no name: it is gone as soon as it is closed,
 * also when the program is killed. Internal to the module.
 */
#ifndef PDL_DATA_STORE_FILES_H
#define PDL_DATA_STORE_FILES_H

#include <paradl/base/status.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct pdl__files pdl__files_t;

/* `ring`: several reads and writes at once by io_uring, where this build and the system have it. */
pdl_status_t pdl__files_open(const char *folder, int64_t place_bytes, bool ring, pdl__files_t **files);
void         pdl__files_close(pdl__files_t *files); /* NULL is allowed */
bool         pdl__files_ring(const pdl__files_t *files);

/* The record is copied and may be in flight when this returns; the next flush says whether it arrived. */
pdl_status_t pdl__files_write(pdl__files_t *files, int64_t place, const void *record, int64_t bytes);
pdl_status_t pdl__files_flush(pdl__files_t *files);
/* Of what has been flushed; may be called from several threads at once. */
pdl_status_t pdl__files_read(const pdl__files_t *files, int64_t place, void *record, int64_t bytes);
/* The same for many, one after the other in `records`; by the thread that writes. */
pdl_status_t pdl__files_read_many(pdl__files_t *files, const int64_t *place, const int64_t *bytes, int64_t count,
                                  uint8_t *records);

#endif
