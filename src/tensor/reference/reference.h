/*
 * Inside the reference backend: one table entry per layer type, and what they share.
 *
 * Everything is double, plain and computed by one thread in the most obvious order. Gradients arrive zeroed (or,
 * for weights that accumulate, as they were), so that every kind only ever adds to them; those that nobody wants
 * are NULL.
 */
#ifndef PDL_TENSOR_REFERENCE_H
#define PDL_TENSOR_REFERENCE_H

#include <paradl/model/traits.h>
#include <paradl/tensor/backend.h>

/* What the backend does for one type of layer. */
typedef struct pdl__reference_kind {
    void (*describe)(pdl_op_t *op); /* weights, saved and workspace bytes; NULL: there are none */
    pdl_status_t (*forward)(const pdl_op_t *op, const pdl_op_run_t *run);
    pdl_status_t (*backward)(const pdl_op_t *op, const pdl_op_run_t *run);
} pdl__reference_kind_t;

extern const pdl__reference_kind_t pdl__reference_conv, pdl__reference_conv_transpose, pdl__reference_linear,
    pdl__reference_batch_norm, pdl__reference_layer_norm, pdl__reference_rms_norm, pdl__reference_group_norm,
    pdl__reference_lrn, pdl__reference_activation, pdl__reference_softmax, pdl__reference_max_pool,
    pdl__reference_avg_pool, pdl__reference_global_pool, pdl__reference_add, pdl__reference_mul,
    pdl__reference_concat, pdl__reference_upsample, pdl__reference_dropout, pdl__reference_flatten,
    pdl__reference_to_sequence, pdl__reference_select, pdl__reference_embedding, pdl__reference_position,
    pdl__reference_attention, pdl__reference_moe, pdl__reference_cross_entropy, pdl__reference_mse;

/* Appends a weight to those of the op. */
void pdl__reference_weight(pdl_op_t *op, const char *name, bool trainable, int rank, const int64_t *dims);

/* Index of channel c at position p of sample n in a plain tensor. */
static inline int64_t pdl__reference_at(const pdl_shape_t *shape, int64_t n, int64_t c, int64_t p)
{
    int64_t positions = pdl_shape_positions(shape);

    if (shape->sequence) return (n * positions + p) * shape->channels + c;
    return (n * shape->channels + c) * positions + p;
}

/* Row-major position of coordinates, and back. */
static inline int64_t pdl__reference_join(const pdl_shape_t *shape, const int64_t at[PDL_MAX_SPACE])
{
    return (at[0] * shape->extent[1] + at[1]) * shape->extent[2] + at[2];
}
static inline void pdl__reference_part(const int64_t extent[PDL_MAX_SPACE], int64_t position,
                                       int64_t at[PDL_MAX_SPACE])
{
    at[2] = position % extent[2];
    at[1] = position / extent[2] % extent[1];
    at[0] = position / extent[2] / extent[1];
}

/* The element-wise activations and their derivatives, which experts use too. */
double pdl__reference_activate(const pdl_layer_t *layer, pdl_layer_type_t type, double x);
double pdl__reference_slope(const pdl_layer_t *layer, pdl_layer_type_t type, double x);

/* Cross-entropy of which other ranks have other classes. */
void         pdl__reference_split_describe(pdl_op_t *op);
pdl_status_t pdl__reference_split_forward(const pdl_op_t *op, const pdl_op_run_t *run);
void         pdl__reference_split_backward(const pdl_op_t *op, const pdl_op_run_t *run);

/* 0 when the element at `index` of the stream is dropped, else 1 / (1 - rate); 1 outside of training. */
double pdl__reference_keep(const pdl_op_t *op, const pdl_op_run_t *run, const char *purpose, int64_t index);

/* Tensors without a layer: the rest of the table. */
pdl_status_t pdl__reference_convert(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                                    int64_t samples, pdl_format_t from, const void *source, pdl_format_t to,
                                    void *target);
pdl_status_t pdl__reference_from_float(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const float *source,
                                       int64_t count, void *target);
pdl_status_t pdl__reference_to_float(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *source,
                                     int64_t count, float *target);
pdl_status_t pdl__reference_sum(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *a, const void *b,
                                size_t bytes, void *sum);
pdl_status_t pdl__reference_find_not_finite(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *data,
                                            size_t bytes, int64_t *index);
pdl_status_t pdl__reference_sum_squares(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *values,
                                        const pdl_slice_t *slices, int count, double *sums);
pdl_status_t pdl__reference_update(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_update_t *update,
                                   const pdl_update_range_t *ranges, int count);
pdl_status_t pdl__reference_average(pdl_backend_t *backend, pdl_tensor_stream_t *stream, double keep, int64_t count,
                                    void *ema, const void *w);

#endif
