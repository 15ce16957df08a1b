/*
 * Memory of the emulated GPU: files without a name, so that other processes can have it too. Pages around it cannot be used, and
 * under the address sanitizer the rest of its last page neither.
 */
#ifndef PDL_TENSOR_CUDA_EMULATED_MEMORY_H
#define PDL_TENSOR_CUDA_EMULATED_MEMORY_H

#include "tensor/plugin/cuda/gpu.h"

/* What has been taken, so that memory of the host is known as such. */
typedef struct pdl__emulated_piece {
    char    *memory;
    size_t   bytes;
    int      file; /* or one of those below */
    uint64_t id;   /* no other piece of this process ever has it */
} pdl__emulated_piece_t;

enum { PDL__EMULATED_PINNED = -1, PDL__EMULATED_IMPORTED = -2, PDL__EMULATED_REGISTERED = -3 };

/* What is this process's own stays open, for others to open it too. */
pdl_status_t pdl__emulated_map(int file, bool own, size_t bytes, void **memory);
/* Memory of the device, which is zero, or pinned. */
pdl_status_t pdl__emulated_take(bool device, size_t bytes, void **memory);
void         pdl__emulated_unmap(void *memory);
/* Memory of the caller, which is pinned from there on. */
bool pdl__emulated_pin(void *memory, size_t bytes);
bool pdl__emulated_unpin(void *memory);
/* Bytes of the device that this process has taken. */
size_t pdl__emulated_held();
bool   pdl__emulated_find(const void *address, pdl__emulated_piece_t *piece);

#endif
