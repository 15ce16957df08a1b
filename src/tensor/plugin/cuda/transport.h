/*
 * Memory of GPUs between processes: shared with others of the machine (CUDA IPC), or sent by NCCL.
 */
#ifndef PDL_TENSOR_CUDA_TRANSPORT_H
#define PDL_TENSOR_CUDA_TRANSPORT_H

#include "tensor/plugin/cuda/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As in pdl_sharing_ops_t. Events are recorded and waited for as others. */
typedef struct pdl__cuda_ipc {
    /* The same text in all processes that have the GPU. */
    void (*identity)(pdl__gpu_t *gpu, char text[PDL_SHARED_HANDLE]);
    /* Whether processes have the GPU in turns: no MPS daemon gives all of them one context. */
    bool (*in_turns)(pdl__gpu_t *gpu);
    pdl_status_t (*export_memory)(pdl__gpu_t *gpu, const void *address, pdl_shared_memory_t *memory);
    pdl_status_t (*import_memory)(pdl__gpu_t *gpu, const pdl_shared_memory_t *memory, void **address);
    void (*forget_memory)(pdl__gpu_t *gpu, void *address);
    pdl_status_t (*export_event)(pdl__gpu_t *gpu, pdl_tensor_event_t **event, char handle[PDL_SHARED_HANDLE]);
    pdl_status_t (*import_event)(pdl__gpu_t *gpu, const char handle[PDL_SHARED_HANDLE], pdl_tensor_event_t **event);
} pdl__cuda_ipc_t;

/* As in pdl_library_ops_t. */
typedef struct pdl__cuda_nccl {
    pdl_status_t (*available)(pdl__gpu_t *gpu);
    pdl_status_t (*identify)(pdl__gpu_t *gpu, char id[PDL_LIBRARY_ID]);
    pdl_status_t (*join)(pdl__gpu_t *gpu, const char id[PDL_LIBRARY_ID], int rank, int ranks, void **communicator);
    pdl_status_t (*ready)(pdl__gpu_t *gpu, void *communicator, bool *ready);
    void (*leave)(pdl__gpu_t *gpu, void *communicator);
    pdl_status_t (*begin)(pdl__gpu_t *gpu);
    pdl_status_t (*end)(pdl__gpu_t *gpu);
    pdl_status_t (*send)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, void *communicator, const void *data,
                         size_t bytes, int peer);
    pdl_status_t (*receive)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, void *communicator, void *data,
                            size_t bytes, int peer);
    pdl_status_t (*collective)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, void *communicator,
                               pdl_library_collective_t collective, float *data, int64_t count);
} pdl__cuda_nccl_t;

extern const pdl__cuda_ipc_t  pdl__cuda_ipc;
extern const pdl__cuda_nccl_t pdl__cuda_nccl;

#ifdef __cplusplus
}
#endif
#endif
