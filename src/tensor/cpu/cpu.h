/*
 * Inside the CPU backend: one table entry per layer type, and what they share.
 *
 * BLOCKED activations are [n][c/B][space][B] with B = PDL__BLOCK elements; padded channels are zero and stay zero.
 */
#ifndef PDL_TENSOR_CPU_H
#define PDL_TENSOR_CPU_H

#include "tensor/plugin/dnnl.h"

#include <paradl/model/traits.h>
#include <paradl/tensor/backend.h>

#define PDL__BLOCK 16

typedef struct pdl__cpu {
    pdl_backend_t       base; /* first: a pdl_backend_t is cast to this */
    const pdl__dnnl_t  *dnnl;
    pdl__dnnl_engine_t *engine;
    bool                blocks;    /* BLOCKED is worth while: the processor has vectors of a whole block */
    bool                direct;    /* no Winograd */
    bool                describes; /* no op is made: there are no threads */
} pdl__cpu_t;

/* What the backend does for one type of layer. `describe` finds op->spec filled in (with copies of what its pointers
   point to), all inputs and the output PLAIN, and nothing else; it decides the description, and leaves in private_data
   what kernels need to know. When it fails it leaves nothing behind. When it leaves out_bytes 0, they are those of
   layer->out in op->description.out_format. `prepare` makes tables and primitives; when it fails, `destroy` is called.
   NULL for weight_import and weight_export: the storage is plain. */
typedef struct pdl__cpu_kind {
    pdl_status_t (*describe)(pdl__cpu_t *cpu, pdl_op_t *op);
    pdl_status_t (*prepare)(pdl__cpu_t *cpu, pdl_op_t *op); /* NULL: there is nothing to make */
    void (*destroy)(pdl_op_t *op);                          /* frees private_data; NULL: free() */
    pdl_status_t (*forward)(pdl_op_t *op, const pdl_op_run_t *run);
    pdl_status_t (*backward)(pdl_op_t *op, const pdl_op_run_t *run, unsigned what);
    pdl_status_t (*refresh)(pdl_op_t *op, const pdl_op_run_t *run);
    pdl_status_t (*weight_import)(pdl_op_t *op, int k, const float *plain, void *storage);
    pdl_status_t (*weight_export)(pdl_op_t *op, int k, const void *storage, float *plain);
    bool (*fuses)(const pdl_layer_t *layer, const pdl_fusion_t *fusion); /* NULL: nothing */
    bool wide; /* computes in fp32 and sees fp32 tensors even where activations are bf16 (wide.h) */
} pdl__cpu_kind_t;

/* images and anything element-wise */
extern const pdl__cpu_kind_t pdl__cpu_conv, pdl__cpu_conv_transpose, pdl__cpu_batch_norm, pdl__cpu_lrn,
    pdl__cpu_activation, pdl__cpu_pool, pdl__cpu_global_pool, pdl__cpu_add, pdl__cpu_mul, pdl__cpu_concat,
    pdl__cpu_upsample, pdl__cpu_dropout;
/* sequences, vectors, losses */
extern const pdl__cpu_kind_t pdl__cpu_linear, pdl__cpu_layer_norm, pdl__cpu_group_norm, pdl__cpu_softmax,
    pdl__cpu_flatten, pdl__cpu_to_sequence, pdl__cpu_select, pdl__cpu_embedding, pdl__cpu_position,
    pdl__cpu_attention, pdl__cpu_moe, pdl__cpu_cross_entropy, pdl__cpu_mse;

/* PDL_ERR_UNSUPPORTED unless the backend computes in fp32. */
pdl_status_t pdl__cpu_require_f32(const pdl__cpu_t *cpu, const pdl_layer_t *layer);

/* Whether a tensor of this shape can be BLOCKED: images and volumes. */
bool pdl__cpu_blockable(const pdl_shape_t *shape);

/* Elements of a tensor as it lies, padding included. */
int64_t pdl__cpu_elements(const pdl_shape_t *shape, int64_t samples, pdl_format_t format);

/* Appends a weight of an op; elements is the product of dims. */
pdl_weight_t *pdl__cpu_add_weight(pdl_op_t *op, const char *name, int rank, const int64_t *dims, bool trainable);

/* sum += values, in float whatever the activations are: weight gradients. */
void pdl__cpu_add_floats(float *sum, const void *values, int64_t count);

/* masked = a + b where the output of a ReLU is positive, else 0; `b` may be NULL. Activations. */
void pdl__cpu_mask(pdl_backend_t *backend, const void *a, const void *b, const void *output, size_t bytes,
                   void *masked);

/* Entries of the backend's table that are not about ops (convert.c, vector.c, update.c). */
pdl_status_t pdl__cpu_convert(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                              int64_t samples, pdl_format_t from, const void *source, pdl_format_t to,
                              void *target);
pdl_status_t pdl__cpu_from_float(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const float *source,
                                 int64_t count, void *target);
pdl_status_t pdl__cpu_to_float(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *source,
                               int64_t count, float *target);
pdl_status_t pdl__cpu_sum(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *a, const void *b,
                          size_t bytes, void *sum);
pdl_status_t pdl__cpu_find_not_finite(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *data,
                                      size_t bytes, int64_t *index);
pdl_status_t pdl__cpu_sum_squares(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *values,
                                  const pdl_slice_t *slices, int count, double *sums);
pdl_status_t pdl__cpu_average(pdl_backend_t *backend, pdl_tensor_stream_t *stream, double keep, int64_t count,
                              void *ema, const void *w);
pdl_status_t pdl__cpu_update(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_update_t *update,
                             const pdl_update_range_t *ranges, int count);

#endif
