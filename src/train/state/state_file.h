/*
 * Pieces of state in a file, which a thread reads ahead and writes behind. Piece k passes through slot k % slots of memory that the
 * caller has. Jobs are done in the order in which they are asked for; a failure is told by the next wait.
 */
#ifndef PDL_TRAIN_STATE_FILE_H
#define PDL_TRAIN_STATE_FILE_H

#include <paradl/base/status.h>
#include <stddef.h>

typedef struct pdl__state_file pdl__state_file_t;

typedef struct pdl__state_file_spec {
    const char *folder; /* where the file is; it has no name there */
    size_t      piece_bytes;
    int         pieces, slots;
    char       *memory; /* slots * piece_bytes */
} pdl__state_file_spec_t;

/* The file is zero. PDL_ERR_LIMIT where the folder has not room enough, before anything is written. */
pdl_status_t pdl__state_file_create(const pdl__state_file_spec_t *spec, pdl__state_file_t **file);
void         pdl__state_file_destroy(pdl__state_file_t *file); /* NULL is allowed */

void  pdl__state_file_read(pdl__state_file_t *file, int piece);  /* into its slot */
void  pdl__state_file_write(pdl__state_file_t *file, int piece); /* from its slot */
char *pdl__state_file_slot(const pdl__state_file_t *file, int piece);
/* Until the last job of a piece is done; of all of them where it is negative. */
pdl_status_t pdl__state_file_wait(pdl__state_file_t *file, int piece);
/* Bytes of a piece at once, behind all jobs. */
pdl_status_t pdl__state_file_get(pdl__state_file_t *file, int piece, size_t at, void *to, size_t bytes);
pdl_status_t pdl__state_file_put(pdl__state_file_t *file, int piece, size_t at, const void *from, size_t bytes);

#endif
