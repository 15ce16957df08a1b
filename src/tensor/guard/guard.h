/*
 * Inside the guard: a CPU backend whose memory is out of the host's reach, with a thread for every stream. It finds what
 * would go wrong on a device of its own: a host that touches device memory, and streams that do not wait for each other.
 *
 * Memory of the device is mapped twice. The address that callers get has no access rights; calls of the device and of
 * the backend translate it, on the host's side of a stream, to the one that kernels use.
 */
#ifndef PDL_TENSOR_GUARD_H
#define PDL_TENSOR_GUARD_H

#include <paradl/tensor/backend.h>

/* `threads`: of the parallel regions of every stream. `lazy`: a stream does nothing until somebody waits for it, so that what
   does not wait is sure to be early. */
pdl_status_t pdl__guard_device_create(int threads, bool lazy, pdl_tensor_device_t **device);

/* Work of a stream: `run` gets a copy of `argument`. At once where there is no stream. */
typedef pdl_status_t (*pdl__guard_fn_t)(void *argument);
pdl_status_t pdl__guard_enqueue(pdl_tensor_stream_t *stream, pdl__guard_fn_t run, const void *argument,
                                size_t bytes);

/* *address as kernels use it: an address of the device, of which `bytes` are its own. With `host`, memory of the host is
   left as it is, otherwise refused; NULL stays. */
pdl_status_t pdl__guard_translate(pdl_tensor_device_t *device, const void *address, size_t bytes, bool host,
                                  void *translated);

/* backend.c: the CPU backend behind the guard's. */
pdl_backend_t *pdl__guard_cpu(pdl_backend_t *backend);

/* update.c: entries of the backend's table. */
pdl_status_t pdl__guard_check_results(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *results,
                                      const float *sample_weight, int64_t count, int64_t *flag);
pdl_status_t pdl__guard_sum_squares(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *values,
                                    const pdl_slice_t *slices, int count, double *sums);
pdl_status_t pdl__guard_clip(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const double *sums, int count,
                             double allowed, const int64_t *flag, double clip[2]);
pdl_status_t pdl__guard_update(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_update_t *update,
                               const pdl_update_range_t *ranges, int count);

#endif
