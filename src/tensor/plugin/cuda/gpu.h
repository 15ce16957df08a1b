/*
 * Inside the plugins: what a GPU and a stream are, in both of them.
 */
#ifndef PDL_TENSOR_CUDA_GPU_H
#define PDL_TENSOR_CUDA_GPU_H

#include "tensor/plugin/cuda/choices.h"
#include "tensor/plugin/cuda/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a family of kernels keeps of a GPU, such as a handle of a library: made when it is first needed, never in a step,
   and destroyed with the GPU. */
typedef struct pdl__gpu_part {
    void *state;
    void (*destroy)(void *state);
} pdl__gpu_part_t;

typedef enum pdl__gpu_part_id {
    PDL__GPU_CONVOLUTION,
    PDL__GPU_PRODUCT,
    PDL__GPU_ATTENTION,
    PDL__GPU_TRANSPORT,
    PDL__GPU_PARTS
} pdl__gpu_part_id_t;

struct pdl__gpu {
    int             device;
    int             multiprocessors; /* grids of kernels are sized by it; descriptions of ops must not know it */
    pdl__gpu_part_t part[PDL__GPU_PARTS];
    pdl__choices_t *choices; /* of kernels; the emulated GPU has none */
};

/* Partial sums of doubles that a kernel leaves in the scratch memory of its stream, one for a block of threads. */
#define PDL__STREAM_PARTIALS 1024

struct pdl_tensor_stream {
    void              *handle; /* cudaStream_t */
    void              *scratch;
    pdl_tensor_work_t *kept; /* of the emulation: while work is kept instead of done */
};

/* The stream as CUDA's libraries want it. */
#define PDL__CUDA_STREAM(stream) ((cudaStream_t)((const pdl_tensor_stream_t *)(stream))->handle)

/* Of an element: plugins call nothing of the library. */
static inline size_t pdl__gpu_element(pdl_dtype_t type)
{
    return type == PDL_DTYPE_BF16 ? 2 : type == PDL_DTYPE_F64 ? 8 : 4;
}

/* Blocks of a grid-stride kernel for so many rounds of work, each of `threads` of `items`: enough to fill the GPU, not more
   than there is to do, at least one. */
static inline int pdl__gpu_blocks(const pdl__gpu_t *gpu, int64_t items, int threads, int blocks_per_multiprocessor)
{
    int64_t wanted = (items + threads - 1) / threads,
            most = (int64_t)gpu->multiprocessors * blocks_per_multiprocessor;

    if (wanted > most) wanted = most;
    return wanted > 0 ? (int)wanted : 1;
}

#ifdef __cplusplus
}
#endif
#endif
