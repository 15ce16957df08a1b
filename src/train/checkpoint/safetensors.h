/*
 * A safetensors file in memory, and the parser of its header. Internal to train.
 */
#ifndef PDL_TRAIN_SAFETENSORS_H
#define PDL_TRAIN_SAFETENSORS_H

#include <paradl/train/safetensors.h>

#include <stdbool.h>

/* Other readers stop at the same length; a longer header is no header. */
#define PDL__HEADER_LIMIT ((size_t)100000000)

struct pdl_safetensors {
    char                *name;         /* of the file, for messages */
    void                *mapping;      /* NULL when the bytes are borrowed */
    size_t               mapped_bytes; /* of the mapping */
    pdl_stored_t        *tensor;       /* in the order of their bytes */
    const pdl_stored_t **by_name;      /* the same, sorted */
    int                  count;
    pdl_metadata_t      *metadata; /* sorted by key */
    int                  metadata_count;
    char                *text; /* names, keys and values, each ended by a zero byte */
};

/* Reads the header's JSON into `file`, whose name is set and whose other fields are zero. The tensors' bytes are
   data[0 .. data_bytes-1]; `data` may be NULL when only the header is checked. */
pdl_status_t pdl__safetensors_parse(pdl_safetensors_t *file, const char *header, size_t header_bytes,
                                    const unsigned char *data, size_t data_bytes);

/* Bytes of one element of a type by its name in the file ("F32"); 0 when the type is unknown. */
size_t pdl__stored_type_find(const char *name, pdl_stored_type_t *type);
/* The name in the file, NULL for PDL_STORED_OTHER; and its bytes. */
const char *pdl__stored_type_name(pdl_stored_type_t type, size_t *element_bytes);

/* Checksums are metadata: of the header under one key, of all tensors, in the order of their bytes and separated by
   blanks, under the other. Both have a fixed length, for they are known only when everything else is written. */
#define PDL__SUM_KEY    "paradl.sum"
#define PDL__SUMS_KEY   "paradl.sums"
#define PDL__SUM_DIGITS 16
/* Of the header's length and of what is before and behind the sum itself, which is at digits[0 .. PDL__SUM_DIGITS-1]. */
uint64_t pdl__header_sum(const char *header, size_t header_bytes, const char *digits);
void     pdl__sum_print(uint64_t sum, char digits[PDL__SUM_DIGITS]); /* without a final zero */
/* Whether the header of `file`, as it is in the file, is the one that was written. */
pdl_status_t pdl__header_verify(const pdl_safetensors_t *file, const char *header, size_t header_bytes);

/* Elements times element_bytes; false when that is beyond what memory can hold. */
bool pdl__stored_bytes(int rank, const int64_t *dims, size_t element_bytes, size_t *bytes);

#endif
