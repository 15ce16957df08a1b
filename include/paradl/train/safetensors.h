/*
 * safetensors files: eight bytes of header length, a JSON header, raw tensors. Written atomically and read with
 * every offset checked; a reader maps the file and copies nothing.
 */
#ifndef PARADL_SAFETENSORS_H
#define PARADL_SAFETENSORS_H

#include <paradl/base/status.h>
#include <paradl/tensor/backend.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PDL_SAFETENSORS_RANK 8

typedef enum pdl_stored_type {
    PDL_STORED_F32,
    PDL_STORED_F64,
    PDL_STORED_BF16,
    PDL_STORED_F16,
    PDL_STORED_I32,
    PDL_STORED_I64,
    PDL_STORED_U8,
    PDL_STORED_OTHER
} pdl_stored_type_t;

typedef struct pdl_stored {
    const char       *name;
    pdl_stored_type_t type;
    int               rank;
    int64_t           dims[PDL_SAFETENSORS_RANK];
    const void *data;  /* reading: inside the mapped file; not aligned for anything but bytes. Writing: unused */
    size_t      bytes; /* writing: unused, it follows from type and shape */
} pdl_stored_t;

typedef struct pdl_safetensors pdl_safetensors_t;

pdl_status_t        pdl_safetensors_open(const char *path, pdl_safetensors_t **file);
pdl_status_t        pdl_safetensors_read_memory(const void *data, size_t length, const char *name,
                                                pdl_safetensors_t **file); /* data is borrowed */
void                pdl_safetensors_close(pdl_safetensors_t *file);
const char         *pdl_safetensors_name(const pdl_safetensors_t *file); /* the path or name it was opened by */
int                 pdl_safetensors_count(const pdl_safetensors_t *file);
const pdl_stored_t *pdl_safetensors_at(const pdl_safetensors_t *file, int i); /* in the order of their bytes */
const pdl_stored_t *pdl_safetensors_find(const pdl_safetensors_t *file, const char *name);    /* NULL when absent */
const char         *pdl_safetensors_metadata(const pdl_safetensors_t *file, const char *key); /* NULL when absent */
/* Compares all tensors with the checksums that pdl_safetensors_write() put beside them; the message names the first
   that is damaged. The header has been compared when the file was opened. Files of others have no sums: *summed (may
   be NULL) says which it is. */
pdl_status_t pdl_safetensors_verify(const pdl_safetensors_t *file, bool *summed);
/* All elements as float, whatever real or integer type is stored; `count` must be their number. */
pdl_status_t pdl_stored_to_float(const pdl_stored_t *tensor, int64_t count, float *out);

/* Writing: all tensors are declared, then their bytes come in the same order. `fill` writes tensor i into `into`
   (bytes of it). Checksums of header and tensors go into the metadata. */
typedef pdl_status_t (*pdl_fill_fn_t)(void *context, int i, void *into);
typedef struct pdl_metadata {
    const char *key, *value;
} pdl_metadata_t;
pdl_status_t pdl_safetensors_write(const char *path, const pdl_stored_t *tensors, int count,
                                   const pdl_metadata_t *metadata, int metadata_count, pdl_fill_fn_t fill,
                                   void *context);

#ifdef __cplusplus
}
#endif
#endif
