/*
 * Entries of the backend's table that are not about ops.
 */
#ifndef PDL_TENSOR_CUDA_VECTOR_CALLS_H
#define PDL_TENSOR_CUDA_VECTOR_CALLS_H

#include <paradl/tensor/backend.h>

pdl_status_t pdl__cuda_convert_tensor(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                                      int64_t samples, pdl_format_t from, const void *source, pdl_format_t to,
                                      void *target);
pdl_status_t pdl__cuda_load_images(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                                   int64_t samples, const uint8_t *bytes, const pdl_image_change_t *changes,
                                   const pdl_image_scale_t *scale, pdl_format_t format, void *target);
pdl_status_t pdl__cuda_load_values(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                                   int64_t samples, const float *values, pdl_format_t format, void *target);
pdl_status_t pdl__cuda_from_float(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const float *source,
                                  int64_t count, void *target);
pdl_status_t pdl__cuda_to_float(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *source,
                                int64_t count, float *target);
pdl_status_t pdl__cuda_sum(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *a, const void *b,
                           size_t bytes, void *sum);
pdl_status_t pdl__cuda_largest(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *values,
                               int64_t rows, int64_t count, int64_t stride, int32_t *index);
pdl_status_t pdl__cuda_find_not_finite(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *data,
                                       size_t bytes, int64_t *index);
pdl_status_t pdl__cuda_check_results(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *results,
                                     const float *sample_weight, int64_t count, int64_t *flag);
pdl_status_t pdl__cuda_sum_squares(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *values,
                                   const pdl_slice_t *slices, int count, double *sums);
pdl_status_t pdl__cuda_clip(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const double *sums, int count,
                            double allowed, const int64_t *flag, double clip[2]);
pdl_status_t pdl__cuda_step(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_update_t *update,
                            const pdl_update_range_t *ranges, int count);
pdl_status_t pdl__cuda_average(pdl_backend_t *backend, pdl_tensor_stream_t *stream, double keep, int64_t count,
                               void *ema, const void *w);
/* The storage of weights is plain. */
pdl_status_t pdl__cuda_weight_import(pdl_op_t *op, int k, const float *plain, void *storage);
pdl_status_t pdl__cuda_weight_export(pdl_op_t *op, int k, const void *storage, float *plain);

#endif
