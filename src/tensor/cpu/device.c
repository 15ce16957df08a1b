/*
 * The CPU as a device: its memory is that of the process, and a stream does its work at once in the caller.
 */
#include "tensor/cpu/simd.h"

#include <paradl/tensor/backend.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ALIGNMENT 64 /* bytes: a cache line */
#define SHORT_RUN 16 /* elements; a call of memcpy costs more than such a loop */

struct pdl_tensor_event {
    struct timespec time;
};

static pdl_status_t cpu_alloc(pdl_tensor_device_t *device, pdl_space_t space, size_t bytes, void **memory)
{
    (void)device;
    if (space == PDL_SPACE_DEVICE)
        *memory = pdl_memory_take(bytes);
    else
        *memory =
            bytes > SIZE_MAX - ALIGNMENT ? NULL : aligned_alloc(ALIGNMENT, (bytes / ALIGNMENT + 1) * ALIGNMENT);
    return *memory != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for %zu bytes", bytes);
}

static void cpu_release(pdl_tensor_device_t *device, pdl_space_t space, void *memory, size_t bytes)
{
    (void)device;
    if (space == PDL_SPACE_DEVICE)
        pdl_memory_give(memory, bytes);
    else
        free(memory);
}

static pdl_status_t cpu_copy(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, void *to, const void *from,
                             size_t bytes)
{
    (void)device, (void)stream;
    if (bytes > 0) memcpy(to, from, bytes);
    return PDL_OK;
}

static pdl_status_t cpu_fill(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, void *memory, size_t bytes)
{
    (void)device, (void)stream;
    if (bytes > 0) memset(memory, 0, bytes);
    return PDL_OK;
}

static pdl_status_t cpu_call(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, pdl_call_fn_t function,
                             void *context)
{
    (void)device, (void)stream;
    function(context);
    return PDL_OK;
}

/* The two inner dimensions of a box, seen from the source and from the target. */
typedef struct plane {
    int64_t rows, columns;
    int64_t source_row, source_column, target_row, target_column; /* strides */
} plane_t;

typedef void (*plane_fn_t)(const plane_t *plane, const void *source, void *target);

/* The loops of copying and adding, for one pair of types each. */
#define ROWS(what)                                                                                        \
    for (int64_t row = 0; row < plane->rows; row++, from += plane->source_row, to += plane->target_row) { \
        if (plane->source_column == 1 && plane->target_column == 1) {                                     \
            for (int64_t i = 0; i < plane->columns; i++) what(to[i], from[i]);                            \
        } else {                                                                                          \
            for (int64_t i = 0; i < plane->columns; i++)                                                  \
                what(to[i * plane->target_column], from[i * plane->source_column]);                       \
        }                                                                                                 \
    }
#define COPY(to, from)  ((to) = (from))
#define ADD(to, from)   ((to) += (from))
#define WIDEN(to, from) ((to) += pdl__from_bf16(from))

static bool copy_long_rows(const plane_t *plane, size_t item, const char *source, char *target)
{
    if (plane->source_column != 1 || plane->target_column != 1 || plane->columns < SHORT_RUN) return false;
    for (int64_t row = 0; row < plane->rows; row++)
        memcpy(target + (size_t)(row * plane->target_row) * item, source + (size_t)(row * plane->source_row) * item,
               (size_t)plane->columns * item);
    return true;
}

static void copy_4(const plane_t *plane, const void *source, void *target)
{
    const float *restrict from = source;
    float *restrict to = target;

    if (!copy_long_rows(plane, sizeof(*to), source, target)) ROWS(COPY)
}

static void copy_2(const plane_t *plane, const void *source, void *target)
{
    const uint16_t *restrict from = source;
    uint16_t *restrict to = target;

    if (!copy_long_rows(plane, sizeof(*to), source, target)) ROWS(COPY)
}

static void add_4(const plane_t *plane, const void *source, void *target)
{
    const float *restrict from = source;
    float *restrict to = target;

    ROWS(ADD)
}

static void add_2(const plane_t *plane, const void *source, void *target)
{
    const uint16_t *restrict from = source;
    float *restrict to = target;

    ROWS(WIDEN)
}

/* What is done with every plane of a box; elements of the source and the target have so many bytes. */
typedef struct work {
    plane_fn_t function;
    int        from;
    size_t     source_item, target_item;
} work_t;

/* Dimension d and those inside it. */
static void walk(const pdl_box_t *box, int d, const work_t *work, const char *source, char *target)
{
    const int64_t *source_stride = box->stride[work->from], *target_stride = box->stride[1 - work->from];
    int            inner = box->rank - 1;

    if (d + 1 < inner) {
        for (int64_t i = 0; i < box->extent[d]; i++)
            walk(box, d + 1, work, source + (size_t)(i * source_stride[d]) * work->source_item,
                 target + (size_t)(i * target_stride[d]) * work->target_item);
        return;
    }
    work->function(&(plane_t){.rows = inner > 0 ? box->extent[d] : 1,
                              .columns = box->extent[inner],
                              .source_row = inner > 0 ? source_stride[d] : 0,
                              .source_column = source_stride[inner],
                              .target_row = inner > 0 ? target_stride[d] : 0,
                              .target_column = target_stride[inner]},
                   source, target);
}

static pdl_status_t cpu_boxes(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, const pdl_boxes_t *boxes,
                              int from, pdl_dtype_t type, const void *source, void *target, bool add)
{
    size_t item = pdl_dtype_bytes(type);
    bool   wide = item == sizeof(float);
    work_t work = {add ? (wide ? add_4 : add_2) : (wide ? copy_4 : copy_2), from, item, add ? sizeof(float) : item};

    (void)device, (void)stream;
    for (int i = 0; i < boxes->count; i++) {
        const pdl_box_t *box = &boxes->box[i];

        walk(box, 0, &work, (const char *)source + (size_t)box->first[from] * work.source_item,
             (char *)target + (size_t)box->first[1 - from] * work.target_item);
    }
    return PDL_OK;
}

static pdl_status_t cpu_reduce(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                               const void *values, void *sum, int64_t count)
{
    const float    *single = values;
    const double   *twice = values;
    const uint16_t *half = values;
    float          *to = sum;

    (void)device, (void)stream;
    if (type == PDL_DTYPE_F64) {
        for (int64_t i = 0; i < count; i++) ((double *)sum)[i] += twice[i];
    } else if (type == PDL_DTYPE_BF16) {
        for (int64_t i = 0; i < count; i++) to[i] += pdl__from_bf16(half[i]);
    } else {
        for (int64_t i = 0; i < count; i++) to[i] += single[i];
    }
    return PDL_OK;
}

static pdl_status_t cpu_round(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, const float *values,
                              int64_t count, pdl_dtype_t type, void *rounded)
{
    uint16_t *half = rounded;

    if (type == PDL_DTYPE_F32) return cpu_copy(device, stream, rounded, values, (size_t)count * sizeof(*values));
    for (int64_t i = 0; i < count; i++) half[i] = pdl__to_bf16(values[i]);
    return PDL_OK;
}

/* There is nothing to remember of a stream: all of them are this address. */
static pdl_status_t cpu_stream_create(pdl_tensor_device_t *device, pdl_tensor_stream_t **stream)
{
    *stream = (pdl_tensor_stream_t *)(void *)device;
    return PDL_OK;
}

static void cpu_stream_destroy(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream)
{
    (void)device, (void)stream;
}

static pdl_status_t cpu_event_create(pdl_tensor_device_t *device, pdl_tensor_event_t **event)
{
    (void)device;
    *event = calloc(1, sizeof(**event));
    return *event != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");
}

static void cpu_event_destroy(pdl_tensor_device_t *device, pdl_tensor_event_t *event)
{
    (void)device;
    free(event);
}

static pdl_status_t cpu_record(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event)
{
    (void)device, (void)stream;
    clock_gettime(CLOCK_MONOTONIC, &event->time);
    return PDL_OK;
}

static pdl_status_t cpu_wait(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event)
{
    (void)device, (void)stream, (void)event;
    return PDL_OK;
}

static pdl_status_t cpu_query(pdl_tensor_device_t *device, pdl_tensor_event_t *event, bool *done)
{
    (void)device, (void)event;
    *done = true;
    return PDL_OK;
}

static pdl_status_t cpu_synchronise(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream)
{
    (void)device, (void)stream;
    return PDL_OK;
}

static double cpu_elapsed(pdl_tensor_device_t *device, const pdl_tensor_event_t *from, const pdl_tensor_event_t *to)
{
    (void)device;
    return (double)(to->time.tv_sec - from->time.tv_sec) + 1e-9 * (double)(to->time.tv_nsec - from->time.tv_nsec);
}

static void cpu_destroy(pdl_tensor_device_t *device)
{
    (void)device;
}

pdl_tensor_device_t *pdl_device_cpu(void)
{
    static const pdl_device_ops_t ops = {
        .name = "cpu",
        .alloc = cpu_alloc,
        .release = cpu_release,
        .copy = cpu_copy,
        .fill = cpu_fill,
        .call = cpu_call,
        .boxes = cpu_boxes,
        .reduce = cpu_reduce,
        .round = cpu_round,
        .stream_create = cpu_stream_create,
        .stream_destroy = cpu_stream_destroy,
        .event_create = cpu_event_create,
        .event_destroy = cpu_event_destroy,
        .record = cpu_record,
        .wait = cpu_wait,
        .query = cpu_query,
        .synchronise = cpu_synchronise,
        .elapsed = cpu_elapsed,
        .destroy = cpu_destroy,
    };
    static pdl_tensor_device_t device = {.ops = &ops, .host_access = true};

    return &device;
}
