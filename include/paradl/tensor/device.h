/*
 * A device has memory and computes in streams. Every backend has one (backend->device), and whatever touches memory
 * of its space does so through this table: on the CPU the calls are plain loops done at once, on a GPU they are
 * enqueued.
 *
 *     device->ops->alloc(device, PDL_SPACE_DEVICE, bytes, &memory);
 *     device->ops->copy(device, compute, memory, values, bytes);
 *     backend->ops->forward(op, compute, &run);
 *     device->ops->record(device, compute, done);          // a point in `compute`
 *     device->ops->wait(device, exchange, done);           // `exchange` goes on when it has been reached
 *     device->ops->copy(device, exchange, home, memory, bytes);
 *     device->ops->synchronise(device, exchange);          // now the host may look at `home`
 *
 * Spaces. HOST is ordinary memory. PINNED memory is the host's too, and the device copies from and to it while the
 * host goes on; with HOST memory a copy may be complete only after a synchronise like any other, but may also take
 * the host's time. DEVICE memory must not be touched by the host unless the device says `host_access`.
 *
 * Streams. Work of a stream is done in order; streams have no order among each other but by events. A stream of NULL
 * means at once: the call returns when the work is done (it has no order with streams: wait for these first).
 * An error inside a stream is reported by the next call that waits for it.
 */
#ifndef PARADL_DEVICE_H
#define PARADL_DEVICE_H

#include <paradl/base/status.h>
#include <paradl/plan/boxes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_dtype { PDL_DTYPE_F32, PDL_DTYPE_BF16, PDL_DTYPE_F64, PDL_DTYPE_I32 } pdl_dtype_t;
size_t pdl_dtype_bytes(pdl_dtype_t type);

typedef enum pdl_space { PDL_SPACE_HOST, PDL_SPACE_PINNED, PDL_SPACE_DEVICE } pdl_space_t;

typedef struct pdl_tensor_device pdl_tensor_device_t;
typedef struct pdl_tensor_stream pdl_tensor_stream_t;
typedef struct pdl_tensor_event  pdl_tensor_event_t;
typedef struct pdl_tensor_work   pdl_tensor_work_t;

/* Memory and events of one process that others of the same machine use. A handle is bytes that any of them understands. */
#define PDL_SHARED_HANDLE 64
typedef struct pdl_shared_memory {
    uint64_t id;     /* of the allocation: no other of this process ever has it */
    uint64_t offset; /* of the address in the allocation */
    char     handle[PDL_SHARED_HANDLE];
} pdl_shared_memory_t;

typedef struct pdl_sharing_ops {
    /* Of any address of memory of the device. */
    pdl_status_t (*export_memory)(pdl_tensor_device_t *device, const void *address, pdl_shared_memory_t *memory);
    /* The beginning of the allocation, as this process has it; not of memory of its own. */
    pdl_status_t (*import_memory)(pdl_tensor_device_t *device, const pdl_shared_memory_t *memory, void **address);
    void (*forget_memory)(pdl_tensor_device_t *device, void *address);
    /* Events are destroyed by event_destroy. */
    pdl_status_t (*export_event)(pdl_tensor_device_t *device, pdl_tensor_event_t **event,
                                 char handle[PDL_SHARED_HANDLE]);
    pdl_status_t (*import_event)(pdl_tensor_device_t *device, const char handle[PDL_SHARED_HANDLE],
                                 pdl_tensor_event_t **event);
    /* As those of the device. *count says which time it was recorded: who waits in another process tells it. */
    pdl_status_t (*record)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event,
                           uint64_t *count);
    pdl_status_t (*wait)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event,
                         uint64_t count);
    /* Whether it has happened; the host asks. */
    pdl_status_t (*query)(pdl_tensor_device_t *device, pdl_tensor_event_t *event, uint64_t count, bool *done);
} pdl_sharing_ops_t;

/* A library that sends between devices, one for every rank; what it does is work of a stream. Functions of a communicator are
   called by all of its ranks in the same order. */
#define PDL_LIBRARY_ID 128
typedef enum pdl_library_collective {
    PDL_LIBRARY_SUM,
    PDL_LIBRARY_SCATTER,
    PDL_LIBRARY_GATHER
} pdl_library_collective_t;
typedef struct pdl_library_ops {
    const char *name;
    /* Why not, if not. */
    pdl_status_t (*available)(pdl_tensor_device_t *device);
    /* What one rank asks for and gives to the others. */
    pdl_status_t (*identify)(pdl_tensor_device_t *device, char id[PDL_LIBRARY_ID]);
    /* Begins to make a communicator, and whether it is there; destroyed also while it is not. */
    pdl_status_t (*join)(pdl_tensor_device_t *device, const char id[PDL_LIBRARY_ID], int rank, int ranks,
                         void **communicator);
    pdl_status_t (*ready)(pdl_tensor_device_t *device, void *communicator, bool *ready);
    void (*leave)(pdl_tensor_device_t *device, void *communicator);
    /* Messages between these begin together. */
    pdl_status_t (*begin)(pdl_tensor_device_t *device);
    pdl_status_t (*end)(pdl_tensor_device_t *device);
    pdl_status_t (*send)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, void *communicator,
                         const void *data, size_t bytes, int peer);
    pdl_status_t (*receive)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, void *communicator,
                            void *data, size_t bytes, int peer);
    /* In place, of floats; of the last two every rank has `count / ranks` elements, one rank after the other. */
    pdl_status_t (*collective)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, void *communicator,
                               pdl_library_collective_t collective, float *data, int64_t count);
} pdl_library_ops_t;

typedef void (*pdl_call_fn_t)(void *context);

typedef struct pdl_device_ops {
    const char *name;
    /* Never inside a step. Device memory is zero. */
    pdl_status_t (*alloc)(pdl_tensor_device_t *device, pdl_space_t space, size_t bytes, void **memory);
    void (*release)(pdl_tensor_device_t *device, pdl_space_t space, void *memory,
                    size_t bytes); /* NULL is allowed */
    /* Bytes of the device's own memory, those that nobody has taken and all of them. NULL: it has none, it is the host's. */
    pdl_status_t (*memory)(pdl_tensor_device_t *device, size_t *free_bytes, size_t *all_bytes);

    /* Between any two spaces. */
    pdl_status_t (*copy)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, void *to, const void *from,
                         size_t bytes);
    /* All bytes are set to zero. */
    pdl_status_t (*fill)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, void *memory, size_t bytes);
    /* The elements of boxes from side `from` to the other. The boxes stay where they are until the work is done.
       `add`: elements of `type` (F32 or BF16) are added to floats. Otherwise elements are of 2 or 4 bytes. */
    pdl_status_t (*boxes)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, const pdl_boxes_t *boxes,
                          int from, pdl_dtype_t type, const void *source, void *target, bool add);
    /* sum[i] += values[i]. `sum` is of the type of `values`, or float where that is BF16. */
    pdl_status_t (*reduce)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                           const void *values, void *sum, int64_t count);
    /* A function of the host as work of the stream. It uses memory of the host, and nothing of the device. */
    pdl_status_t (*call)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, pdl_call_fn_t function,
                         void *context);
    /* Floats, rounded to `type` (F32 or BF16). */
    pdl_status_t (*round)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, const float *values,
                          int64_t count, pdl_dtype_t type, void *rounded);

    pdl_status_t (*stream_create)(pdl_tensor_device_t *device, pdl_tensor_stream_t **stream);
    void (*stream_destroy)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream); /* NULL is allowed */
    pdl_status_t (*event_create)(pdl_tensor_device_t *device, pdl_tensor_event_t **event);
    void (*event_destroy)(pdl_tensor_device_t *device, pdl_tensor_event_t *event); /* NULL is allowed */
    /* What the stream has been given so far; an event may be recorded again and again. */
    pdl_status_t (*record)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event);
    /* Later work of the stream begins when the event has happened, as it was recorded last before this call. */
    pdl_status_t (*wait)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event);
    /* Whether an event has happened. */
    pdl_status_t (*query)(pdl_tensor_device_t *device, pdl_tensor_event_t *event, bool *done);
    /* The host waits for all work of a stream. */
    pdl_status_t (*synchronise)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream);
    /* Seconds from one event to another; both have happened. */
    double (*elapsed)(pdl_tensor_device_t *device, const pdl_tensor_event_t *from, const pdl_tensor_event_t *to);
    void (*destroy)(pdl_tensor_device_t *device);

    /* Of a device that `captures`: what a stream is given between the first two is kept instead of done, and a replay does all of it, on
       the same addresses and with the same numbers. In between nothing is waited for, and the stream waits for no event of
       others. */
    pdl_status_t (*capture_begin)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream);
    pdl_status_t (*capture_end)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, pdl_tensor_work_t **work);
    pdl_status_t (*replay)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, pdl_tensor_work_t *work);
    void (*work_destroy)(pdl_tensor_device_t *device, pdl_tensor_work_t *work); /* NULL is allowed */

    /* Between processes; where they can be NULL they are for this process alone. */
    const pdl_sharing_ops_t *sharing;
    const pdl_library_ops_t *library;
    /* Which device of the machine it is, the same in all processes; NULL: there is only one. */
    void (*identity)(pdl_tensor_device_t *device, char text[PDL_SHARED_HANDLE]);
    /* Whether processes that share the device have it in turns, which costs them time; NULL: they do not. */
    bool (*in_turns)(pdl_tensor_device_t *device);
} pdl_device_ops_t;

struct pdl_tensor_device {
    const pdl_device_ops_t *ops;
    bool                    host_access; /* the host, and with it MPI, may use device memory where it is */
    bool asynchronous; /* streams work while the host goes on: times are those of events, not of the host's clock */
    bool captures;     /* work of streams can be kept and replayed, which takes less of the host's time */
};

/* The memory of this process and the caller's thread: streams do their work at once, events are times. Never fails, and
   need not be destroyed. */
pdl_tensor_device_t *pdl_device_cpu(void);

/* `later` goes on behind what `earlier` has been given so far; `event` is used for it. */
pdl_status_t pdl_device_order(pdl_tensor_device_t *device, pdl_tensor_stream_t *earlier, pdl_tensor_stream_t *later,
                              pdl_tensor_event_t *event);
/* A copy that the host waits for, behind all work of the stream. */
pdl_status_t pdl_device_fetch(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, void *to, const void *from,
                              size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
