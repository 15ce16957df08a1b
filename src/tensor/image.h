/*
 * Samples on backends whose memory is the host's: they load them plain.
 */
#ifndef PDL_TENSOR_IMAGE_H
#define PDL_TENSOR_IMAGE_H

#include <paradl/tensor/backend.h>

/* Entries of the table of a backend. */
pdl_status_t pdl__host_load_images(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                                   int64_t samples, const uint8_t *bytes, const pdl_image_change_t *changes,
                                   const pdl_image_scale_t *scale, pdl_format_t format, void *target);
pdl_status_t pdl__host_load_values(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                                   int64_t samples, const float *values, pdl_format_t format, void *target);

#endif
