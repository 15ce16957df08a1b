/*
 * Calls on vectors, tensors and weights that are not about ops.
 */
#include "tensor/cuda/vectors.h"
#include "tensor/cuda/cuda.h"

#define SCRATCH_FLOATS ((int64_t)(PDL__STREAM_SCRATCH / sizeof(float)))

/* A call of the plugin in `stream`, or at once. */
#define CALL(family, function, ...)                                          \
    pdl__cuda_end(backend->device, stream,                                   \
                  ((pdl__cuda_t *)backend)                                   \
                      ->api->family->function(((pdl__cuda_t *)backend)->gpu, \
                                              pdl__cuda_begin(backend->device, stream), __VA_ARGS__))

pdl_status_t pdl__cuda_convert_tensor(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                                      int64_t samples, pdl_format_t from, const void *source, pdl_format_t to,
                                      void *target)
{
    bool wide = pdl__cuda_pads(backend, shape);

    if (from == to || !(pdl__cuda_blockable(shape) || wide))
        return backend->device->ops->copy(backend->device, stream, target, source,
                                          backend->ops->tensor_bytes(backend, shape, samples, from));
    if (to == PDL_FORMAT_FOLDED)
        return CALL(vectors, load, backend->activation_type,
                    &(pdl__cuda_load_t){.shape = *shape,
                                        .samples = samples,
                                        .type = backend->activation_type,
                                        .values = source,
                                        .from = from,
                                        .format = to},
                    target);
    int64_t positions = pdl_shape_positions(shape);
    return CALL(vectors, convert, backend->activation_type, wide ? samples * positions : samples, shape->channels,
                pdl__cuda_channels(shape, PDL_FORMAT_BLOCKED), wide ? 1 : positions, to == PDL_FORMAT_BLOCKED,
                source, target);
}

pdl_status_t pdl__cuda_load_images(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                                   int64_t samples, const uint8_t *bytes, const pdl_image_change_t *changes,
                                   const pdl_image_scale_t *scale, pdl_format_t format, void *target)
{
    pdl__cuda_load_t load = {.shape = *shape,
                             .samples = samples,
                             .bytes = bytes,
                             .changes = changes,
                             .scale = *scale,
                             .format = pdl__cuda_blockable(shape) ? format : PDL_FORMAT_PLAIN};

    return CALL(vectors, load, backend->activation_type, &load, target);
}

pdl_status_t pdl__cuda_load_values(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                                   int64_t samples, const float *values, pdl_format_t format, void *target)
{
    pdl__cuda_load_t load = {.shape = *shape,
                             .samples = samples,
                             .type = PDL_DTYPE_F32,
                             .values = values,
                             .from = PDL_FORMAT_PLAIN,
                             .format = format};

    if (format == PDL_FORMAT_PLAIN || !pdl__cuda_blockable(shape))
        return pdl__cuda_from_float(backend, stream, values, samples * pdl_shape_elements(shape), target);
    return CALL(vectors, load, backend->activation_type, &load, target);
}

/* Plain floats of the host that are to be cast go piece by piece through the scratch memory of the stream. */
static pdl_status_t cast_from_host(pdl__cuda_t *cuda, pdl_tensor_stream_t *stream, const float *source,
                                   int64_t count, char *target)
{
    const pdl__cuda_api_t *api = cuda->api;
    pdl_dtype_t            type = cuda->base.activation_type;
    float                 *scratch = api->runtime->scratch(stream);
    pdl_status_t           status = PDL_OK;

    for (int64_t i = 0; i < count && !status; i += SCRATCH_FLOATS) {
        int64_t piece = count - i < SCRATCH_FLOATS ? count - i : SCRATCH_FLOATS;

        status = api->runtime->copy(cuda->gpu, stream, scratch, source + i, (size_t)piece * sizeof(float));
        if (!status)
            status = api->vectors->cast(cuda->gpu, stream, PDL_DTYPE_F32, scratch, type,
                                        target + (size_t)i * pdl_dtype_bytes(type), piece);
    }
    return status;
}

static pdl_status_t cast_to_host(pdl__cuda_t *cuda, pdl_tensor_stream_t *stream, const char *source, int64_t count,
                                 float *target)
{
    const pdl__cuda_api_t *api = cuda->api;
    pdl_dtype_t            type = cuda->base.activation_type;
    float                 *scratch = api->runtime->scratch(stream);
    pdl_status_t           status = PDL_OK;

    for (int64_t i = 0; i < count && !status; i += SCRATCH_FLOATS) {
        int64_t piece = count - i < SCRATCH_FLOATS ? count - i : SCRATCH_FLOATS;

        status = api->vectors->cast(cuda->gpu, stream, type, source + (size_t)i * pdl_dtype_bytes(type),
                                    PDL_DTYPE_F32, scratch, piece);
        if (!status)
            status = api->runtime->copy(cuda->gpu, stream, target + i, scratch, (size_t)piece * sizeof(float));
    }
    return status;
}

pdl_status_t pdl__cuda_from_float(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const float *source,
                                  int64_t count, void *target)
{
    pdl__cuda_t *cuda = (pdl__cuda_t *)backend;

    if (backend->activation_type != PDL_DTYPE_F32 && !cuda->api->runtime->reaches(cuda->gpu, source))
        return pdl__cuda_end(backend->device, stream,
                             cast_from_host(cuda, pdl__cuda_begin(backend->device, stream), source, count, target));
    return CALL(vectors, cast, PDL_DTYPE_F32, source, backend->activation_type, target, count);
}

pdl_status_t pdl__cuda_to_float(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *source,
                                int64_t count, float *target)
{
    pdl__cuda_t *cuda = (pdl__cuda_t *)backend;

    if (backend->activation_type != PDL_DTYPE_F32 && !cuda->api->runtime->reaches(cuda->gpu, target))
        return pdl__cuda_end(backend->device, stream,
                             cast_to_host(cuda, pdl__cuda_begin(backend->device, stream), source, count, target));
    return CALL(vectors, cast, backend->activation_type, source, PDL_DTYPE_F32, target, count);
}

pdl_status_t pdl__cuda_sum(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *a, const void *b,
                           size_t bytes, void *sum)
{
    int64_t count = (int64_t)(bytes / pdl_dtype_bytes(backend->activation_type));

    return CALL(vectors, add, backend->activation_type, a, b, count, sum);
}

pdl_status_t pdl__cuda_largest(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *values,
                               int64_t rows, int64_t count, int64_t stride, int32_t *index)
{
    return CALL(vectors, largest, backend->activation_type, values, rows, count, stride, index);
}

pdl_status_t pdl__cuda_find_not_finite(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *data,
                                       size_t bytes, int64_t *index)
{
    int64_t count = (int64_t)(bytes / pdl_dtype_bytes(backend->activation_type));

    return CALL(vectors, find_not_finite, backend->activation_type, data, count, index);
}

pdl_status_t pdl__cuda_check_results(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *results,
                                     const float *sample_weight, int64_t count, int64_t *flag)
{
    return CALL(vectors, check_results, results, sample_weight, count, flag);
}

pdl_status_t pdl__cuda_sum_squares(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *values,
                                   const pdl_slice_t *slices, int count, double *sums)
{
    return CALL(vectors, sum_squares, values, slices, count, sums);
}

pdl_status_t pdl__cuda_clip(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const double *sums, int count,
                            double allowed, const int64_t *flag, double clip[2])
{
    return CALL(vectors, clip, sums, count, allowed, flag, clip);
}

pdl_status_t pdl__cuda_step(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_update_t *update,
                            const pdl_update_range_t *ranges, int count)
{
    return CALL(vectors, update, backend->activation_type, update, ranges, count);
}

pdl_status_t pdl__cuda_average(pdl_backend_t *backend, pdl_tensor_stream_t *stream, double keep, int64_t count,
                               void *ema, const void *w)
{
    return CALL(vectors, average, keep, count, ema, w);
}

pdl_status_t pdl__cuda_weight_import(pdl_op_t *op, int k, const float *plain, void *storage)
{
    pdl_tensor_device_t *device = op->backend->device;

    return device->ops->copy(device, NULL, storage, plain,
                             (size_t)op->description.weight[k].elements * sizeof(*plain));
}

pdl_status_t pdl__cuda_weight_export(pdl_op_t *op, int k, const void *storage, float *plain)
{
    pdl_tensor_device_t *device = op->backend->device;

    return device->ops->copy(device, NULL, plain, storage,
                             (size_t)op->description.weight[k].elements * sizeof(*plain));
}
