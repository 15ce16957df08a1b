/*
 * The index of a shard of samples. Internal to the module.
 */
#ifndef PDL_DATA_TAR_H
#define PDL_DATA_TAR_H

#include <paradl/base/status.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pdl__tar_sample {
    size_t  offset, size; /* of the image; its header is 512 bytes before */
    int32_t label;
} pdl__tar_sample_t;

typedef struct pdl__tar_index {
    pdl__tar_sample_t *samples;
    size_t             count;
    int32_t            largest; /* label; -1 without samples */
} pdl__tar_index_t;

/* Walks through the archive; all offsets in the index are within `size`. */
pdl_status_t pdl__tar_read_memory(const uint8_t *data, size_t size, const char *name, pdl__tar_index_t *index);
void         pdl__tar_free(pdl__tar_index_t *index);

/* "shard.tar: n01440764_10026.jpg", fit for a message whatever the archive says. */
#define PDL__TAR_TEXT 512
char *pdl__tar_entry_name(const uint8_t *data, const char *name, const pdl__tar_sample_t *sample,
                          char text[PDL__TAR_TEXT]);

#endif
