/*
 * Inside the backend of NVIDIA GPUs: one table entry per layer type, and what they share.
 *
 * This side has no header of CUDA and is always compiled: it describes ops, so that plans for GPUs can be made on any machine,
 * and calls the kernels of the plugin (tensor/plugin/cuda/api.h), which is loaded when a GPU is asked for.
 *
 * BLOCKED activations are [n][s0][s1][s2][c], with c padded to a multiple of 8; padded channels are zero and stay zero, in
 * gradients too. Every op on images or volumes wants them BLOCKED, whatever is given. Weights, their gradients and moments are
 * fp32 in the plain order of PyTorch; what products and convolutions read are packed copies made by `refresh`.
 */
#ifndef PDL_TENSOR_CUDA_H
#define PDL_TENSOR_CUDA_H

#include "tensor/describe.h"
#include "tensor/plugin/cuda/api.h"

#include <paradl/model/traits.h>
#include <paradl/tensor/backend.h>

typedef struct pdl__cuda {
    pdl_backend_t          base; /* first: a pdl_backend_t is cast to this */
    pdl_cuda_options_t     options;
    const pdl__cuda_api_t *api; /* NULL: ops are only described */
    pdl__gpu_t            *gpu;
    char                  *choices;   /* options.choices, owned */
    pdl_tensor_device_t    described; /* that of a backend that only describes */
} pdl__cuda_t;

/* What the backend does for one type of layer. `describe` finds op->spec filled in (with copies of what its pointers point to),
   all inputs and the output PLAIN, and nothing else; it decides the description, and leaves in private_data what kernels need to
   know. It knows nothing of a GPU: cuda->api may be NULL, and what is described may not depend on it. When it fails it leaves
   nothing behind. When it leaves out_bytes 0, they are those of layer->out in op->description.out_format. `prepare` makes plans
   and tables and may take memory and time; when it fails, `destroy` is called. The others enqueue kernels on `stream`, which is
   never NULL. */
typedef struct pdl__cuda_kind {
    pdl_status_t (*describe)(pdl__cuda_t *cuda, pdl_op_t *op);
    pdl_status_t (*prepare)(pdl__cuda_t *cuda, pdl_op_t *op); /* NULL: there is nothing to make */
    void (*destroy)(pdl_op_t *op);                            /* frees private_data; NULL: free() */
    pdl_status_t (*forward)(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run);
    pdl_status_t (*backward)(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run, unsigned what);
    pdl_status_t (*refresh)(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run); /* NULL: nothing */
    bool (*fuses)(const pdl_layer_t *layer, const pdl_fusion_t *fusion);                         /* NULL: nothing */
} pdl__cuda_kind_t;

/* images and anything element-wise */
extern const pdl__cuda_kind_t pdl__cuda_conv, pdl__cuda_batch_norm, pdl__cuda_group_norm, pdl__cuda_lrn,
    pdl__cuda_activation, pdl__cuda_pool, pdl__cuda_global_pool, pdl__cuda_add, pdl__cuda_mul, pdl__cuda_concat,
    pdl__cuda_upsample, pdl__cuda_dropout, pdl__cuda_flatten, pdl__cuda_to_sequence, pdl__cuda_select;
/* sequences, vectors, losses */
extern const pdl__cuda_kind_t pdl__cuda_linear, pdl__cuda_layer_norm, pdl__cuda_softmax, pdl__cuda_embedding,
    pdl__cuda_position, pdl__cuda_attention, pdl__cuda_moe, pdl__cuda_cross_entropy, pdl__cuda_mse;

static inline pdl__cuda_t *pdl__cuda_of(const pdl_op_t *op)
{
    return (pdl__cuda_t *)op->backend;
}

/* Whether a tensor of this shape is BLOCKED on GPUs: images and volumes. */
bool pdl__cuda_blockable(const pdl_shape_t *shape);
/* Whether rows of a sequence may be BLOCKED too, where a linear layer writes and a loss reads them: logits whose classes
   are many and no multiple of 64, because products of unaligned rows are slow. Everybody else has them PLAIN. */
bool pdl__cuda_pads(const pdl_backend_t *backend, const pdl_shape_t *shape);
/* The format in which ops want and give a tensor of this shape. */
pdl_format_t pdl__cuda_format(const pdl_shape_t *shape);
/* Channels of a tensor with their padding. */
int64_t pdl__cuda_channels(const pdl_shape_t *shape, pdl_format_t format);
/* Elements of a tensor in memory, padding included. */
int64_t pdl__cuda_elements(const pdl_shape_t *shape, int64_t samples, pdl_format_t format);
/* Elements of a position of a tensor in the format that ops want: its channels with their padding. */
int64_t pdl__cuda_stride(const pdl_shape_t *shape);
/* All inputs and the output of an op in the formats that ops on GPUs want. */
void pdl__cuda_set_formats(pdl_op_t *op);

/* Appends a weight of an op; elements is the product of dims. */
pdl_weight_t *pdl__cuda_add_weight(pdl_op_t *op, const char *name, int rank, const int64_t *dims, bool trainable);

/* Where the next part of a workspace may begin. */
static inline size_t pdl__cuda_aligned(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* The output's bytes from one tensor to another, which may be NULL or the same. */
pdl_status_t pdl__cuda_copy(const pdl_op_t *op, pdl_tensor_stream_t *stream, void *to, const void *from);

/* device.c: the device of an open GPU, which it owns. */
pdl_status_t pdl__cuda_device_create(const pdl__cuda_api_t *api, pdl__gpu_t *gpu, pdl_tensor_device_t **device);
const pdl__cuda_api_t *pdl__cuda_api(const pdl_tensor_device_t *device);
pdl__gpu_t            *pdl__cuda_gpu(const pdl_tensor_device_t *device);
/* transport.c: memory of the device between processes. */
extern const pdl_sharing_ops_t pdl__cuda_sharing;
extern const pdl_library_ops_t pdl__cuda_library;
void                           pdl__cuda_identity(pdl_tensor_device_t *device, char text[PDL_SHARED_HANDLE]);
bool                           pdl__cuda_in_turns(pdl_tensor_device_t *device);
/* The stream for a call: where that is NULL, one of the device's own, for which pdl__cuda_end() waits. */
pdl_tensor_stream_t *pdl__cuda_begin(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream);
pdl_status_t         pdl__cuda_end(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, pdl_status_t status);

#endif
