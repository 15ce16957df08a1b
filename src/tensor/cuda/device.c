/*
 * A GPU as a device: calls of the plugin, and a stream of its own for what is to be done at once.
 */
#include "tensor/cuda/cuda.h"

#include <stdlib.h>

typedef struct device {
    pdl_tensor_device_t    base; /* first: a pdl_tensor_device_t is cast to this */
    const pdl__cuda_api_t *api;
    pdl__gpu_t            *gpu;
    pdl_tensor_stream_t   *at_once;
} device_t;

static const device_t *device_of(const pdl_tensor_device_t *base)
{
    return (const device_t *)base;
}

const pdl__cuda_api_t *pdl__cuda_api(const pdl_tensor_device_t *base)
{
    return device_of(base)->api;
}

pdl__gpu_t *pdl__cuda_gpu(const pdl_tensor_device_t *base)
{
    return device_of(base)->gpu;
}

pdl_tensor_stream_t *pdl__cuda_begin(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream)
{
    return stream != NULL ? stream : device_of(base)->at_once;
}

pdl_status_t pdl__cuda_end(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, pdl_status_t status)
{
    const device_t *d = device_of(base);

    return stream != NULL || status ? status : d->api->runtime->synchronise(d->gpu, d->at_once);
}

/* CUDA takes pinned memory on one core. Much of it is taken as tensors of the host are, in
   large pages and by all cores, and pinned then. */
#define MUCH ((size_t)64 << 20)

static bool take_pinned(const device_t *d, size_t bytes, void **memory)
{
    *memory = pdl_memory_take(bytes);
    if (*memory != NULL && d->api->runtime->pin(d->gpu, *memory, bytes)) return true;
    pdl_memory_give(*memory, bytes);
    return false;
}

static pdl_status_t cuda_alloc(pdl_tensor_device_t *base, pdl_space_t space, size_t bytes, void **memory)
{
    if (space == PDL_SPACE_PINNED && bytes >= MUCH && take_pinned(device_of(base), bytes, memory)) return PDL_OK;
    return device_of(base)->api->runtime->alloc(device_of(base)->gpu, space, bytes, memory);
}

static void cuda_release(pdl_tensor_device_t *base, pdl_space_t space, void *memory, size_t bytes)
{
    const device_t *d = device_of(base);

    if (memory == NULL) return;
    if (space == PDL_SPACE_PINNED && bytes >= MUCH && d->api->runtime->unpin(d->gpu, memory))
        pdl_memory_give(memory, bytes);
    else
        d->api->runtime->release(d->gpu, space, memory);
}

static pdl_status_t cuda_memory(pdl_tensor_device_t *base, size_t *free_bytes, size_t *all_bytes)
{
    pdl__gpu_properties_t known;
    pdl_status_t          status = device_of(base)->api->runtime->properties(device_of(base)->gpu, &known);

    if (status) return status;
    *free_bytes = known.free_bytes;
    *all_bytes = known.memory_bytes;
    return PDL_OK;
}

/* A call of the plugin in `stream`, or at once. */
#define CALL(family, function, ...)                                                                           \
    pdl__cuda_end(base, stream,                                                                               \
                  device_of(base)->api->family->function(device_of(base)->gpu, pdl__cuda_begin(base, stream), \
                                                         __VA_ARGS__))

static pdl_status_t cuda_copy(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, void *to, const void *from,
                              size_t bytes)
{
    return CALL(runtime, copy, to, from, bytes);
}

static pdl_status_t cuda_fill(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, void *memory, size_t bytes)
{
    return CALL(runtime, fill, memory, bytes);
}

static pdl_status_t cuda_call(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, pdl_call_fn_t function,
                              void *context)
{
    return CALL(runtime, call, function, context);
}

static pdl_status_t cuda_boxes(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, const pdl_boxes_t *boxes,
                               int from, pdl_dtype_t type, const void *source, void *target, bool add)
{
    return CALL(vectors, boxes, boxes, from, type, source, target, add);
}

static pdl_status_t cuda_reduce(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                const void *values, void *sum, int64_t count)
{
    return CALL(vectors, reduce, type, values, sum, count);
}

static pdl_status_t cuda_round(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, const float *values,
                               int64_t count, pdl_dtype_t type, void *rounded)
{
    return CALL(vectors, cast, PDL_DTYPE_F32, values, type, rounded, count);
}

static pdl_status_t cuda_stream_create(pdl_tensor_device_t *base, pdl_tensor_stream_t **stream)
{
    return device_of(base)->api->runtime->stream_create(device_of(base)->gpu, stream);
}

static void cuda_stream_destroy(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream)
{
    if (stream != NULL) device_of(base)->api->runtime->stream_destroy(device_of(base)->gpu, stream);
}

static pdl_status_t cuda_event_create(pdl_tensor_device_t *base, pdl_tensor_event_t **event)
{
    return device_of(base)->api->runtime->event_create(device_of(base)->gpu, event);
}

static void cuda_event_destroy(pdl_tensor_device_t *base, pdl_tensor_event_t *event)
{
    if (event != NULL) device_of(base)->api->runtime->event_destroy(device_of(base)->gpu, event);
}

static pdl_status_t cuda_record(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event)
{
    return CALL(runtime, record, event);
}

static pdl_status_t cuda_wait(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event)
{
    return CALL(runtime, wait, event);
}

static pdl_status_t cuda_query(pdl_tensor_device_t *base, pdl_tensor_event_t *event, bool *done)
{
    return device_of(base)->api->runtime->query(device_of(base)->gpu, event, done);
}

static pdl_status_t cuda_synchronise(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream)
{
    return device_of(base)->api->runtime->synchronise(device_of(base)->gpu, pdl__cuda_begin(base, stream));
}

static double cuda_elapsed(pdl_tensor_device_t *base, const pdl_tensor_event_t *from, const pdl_tensor_event_t *to)
{
    return device_of(base)->api->runtime->elapsed(device_of(base)->gpu, from, to);
}

static pdl_status_t cuda_capture_begin(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream)
{
    return device_of(base)->api->runtime->capture_begin(device_of(base)->gpu, stream);
}

static pdl_status_t cuda_capture_end(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream,
                                     pdl_tensor_work_t **work)
{
    return device_of(base)->api->runtime->capture_end(device_of(base)->gpu, stream, work);
}

static pdl_status_t cuda_replay(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, pdl_tensor_work_t *work)
{
    return device_of(base)->api->runtime->replay(device_of(base)->gpu, stream, work);
}

static void cuda_work_destroy(pdl_tensor_device_t *base, pdl_tensor_work_t *work)
{
    device_of(base)->api->runtime->work_destroy(device_of(base)->gpu, work);
}

static void cuda_destroy(pdl_tensor_device_t *base)
{
    device_t *d = (device_t *)base;

    cuda_stream_destroy(base, d->at_once);
    d->api->runtime->close(d->gpu);
    free(d);
}

pdl_status_t pdl__cuda_device_create(const pdl__cuda_api_t *api, pdl__gpu_t *gpu, pdl_tensor_device_t **device)
{
    static const pdl_device_ops_t ops = {
        .name = "cuda",
        .alloc = cuda_alloc,
        .release = cuda_release,
        .memory = cuda_memory,
        .copy = cuda_copy,
        .fill = cuda_fill,
        .call = cuda_call,
        .boxes = cuda_boxes,
        .reduce = cuda_reduce,
        .round = cuda_round,
        .stream_create = cuda_stream_create,
        .stream_destroy = cuda_stream_destroy,
        .event_create = cuda_event_create,
        .event_destroy = cuda_event_destroy,
        .record = cuda_record,
        .wait = cuda_wait,
        .query = cuda_query,
        .synchronise = cuda_synchronise,
        .elapsed = cuda_elapsed,
        .destroy = cuda_destroy,
        .capture_begin = cuda_capture_begin,
        .capture_end = cuda_capture_end,
        .replay = cuda_replay,
        .work_destroy = cuda_work_destroy,
        .sharing = &pdl__cuda_sharing,
        .library = &pdl__cuda_library,
        .identity = pdl__cuda_identity,
        .in_turns = pdl__cuda_in_turns,
    };
    device_t    *made = calloc(1, sizeof(*made));
    pdl_status_t status =
        made != NULL ? api->runtime->stream_create(gpu, &made->at_once) : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (status) {
        free(made);
        return status;
    }
    made->base.ops = &ops;
    made->base.asynchronous = true;
    made->api = api;
    made->gpu = gpu;
    *device = &made->base;
    return PDL_OK;
}
