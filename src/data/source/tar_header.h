/*
 * One header block of a tar archive (POSIX ustar, with GNU's large sizes). Internal to data.
 */
#ifndef PDL_DATA_TAR_HEADER_H
#define PDL_DATA_TAR_HEADER_H

#include <paradl/base/status.h>
#include <stdbool.h>
#include <stdint.h>

#define PDL__TAR_BLOCK 512
#define PDL__TAR_NAME  257 /* 155 of the prefix, a slash, 100 of the name, the final zero */

typedef struct pdl__tar_entry {
    bool    end;  /* a block of zeros: the archive is over */
    bool    file; /* an ordinary file; folders, links and extension headers are not */
    char    type; /* as stored: '0' or 0 file, '5' folder, 'x' POSIX extension, 'L' long name of GNU, ... */
    char    name[PDL__TAR_NAME];
    int64_t bytes; /* of its content, which follows in whole blocks */
} pdl__tar_entry_t;

/* `archive` stands for it in messages. The check sum is verified and the size is never negative. */
pdl_status_t pdl__tar_parse(const uint8_t block[PDL__TAR_BLOCK], const char *archive, pdl__tar_entry_t *entry);

/* Bytes that the content takes in the archive. */
int64_t pdl__tar_padded(int64_t bytes);

#endif
