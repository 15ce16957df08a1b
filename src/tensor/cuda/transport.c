/*
 * Memory of a GPU between processes: calls of the plugin.
 */
#include "tensor/cuda/cuda.h"

#define IPC(function, ...)  pdl__cuda_api(base)->ipc->function(pdl__cuda_gpu(base), __VA_ARGS__)
#define NCCL(function, ...) pdl__cuda_api(base)->nccl->function(pdl__cuda_gpu(base), __VA_ARGS__)

void pdl__cuda_identity(pdl_tensor_device_t *base, char text[PDL_SHARED_HANDLE])
{
    IPC(identity, text);
}

bool pdl__cuda_in_turns(pdl_tensor_device_t *base)
{
    return pdl__cuda_api(base)->ipc->in_turns(pdl__cuda_gpu(base));
}

static pdl_status_t export_memory(pdl_tensor_device_t *base, const void *address, pdl_shared_memory_t *memory)
{
    return IPC(export_memory, address, memory);
}

static pdl_status_t import_memory(pdl_tensor_device_t *base, const pdl_shared_memory_t *memory, void **address)
{
    return IPC(import_memory, memory, address);
}

static void forget_memory(pdl_tensor_device_t *base, void *address)
{
    IPC(forget_memory, address);
}

static pdl_status_t export_event(pdl_tensor_device_t *base, pdl_tensor_event_t **event,
                                 char handle[PDL_SHARED_HANDLE])
{
    return IPC(export_event, event, handle);
}

static pdl_status_t import_event(pdl_tensor_device_t *base, const char handle[PDL_SHARED_HANDLE],
                                 pdl_tensor_event_t **event)
{
    return IPC(import_event, handle, event);
}

/* CUDA waits for an event as it was recorded last: who hears of it may wait for a later one, never for an earlier one. */
static pdl_status_t record(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event,
                           uint64_t *count)
{
    *count = 0;
    return base->ops->record(base, stream, event);
}

static pdl_status_t wait(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event,
                         uint64_t count)
{
    (void)count;
    return base->ops->wait(base, stream, event);
}

static pdl_status_t query(pdl_tensor_device_t *base, pdl_tensor_event_t *event, uint64_t count, bool *done)
{
    (void)count;
    return base->ops->query(base, event, done);
}

const pdl_sharing_ops_t pdl__cuda_sharing = {.export_memory = export_memory,
                                             .import_memory = import_memory,
                                             .forget_memory = forget_memory,
                                             .export_event = export_event,
                                             .import_event = import_event,
                                             .record = record,
                                             .wait = wait,
                                             .query = query};

static pdl_status_t available(pdl_tensor_device_t *base)
{
    return pdl__cuda_api(base)->nccl->available(pdl__cuda_gpu(base));
}

static pdl_status_t identify(pdl_tensor_device_t *base, char id[PDL_LIBRARY_ID])
{
    return NCCL(identify, id);
}

static pdl_status_t join(pdl_tensor_device_t *base, const char id[PDL_LIBRARY_ID], int rank, int ranks,
                         void **communicator)
{
    return NCCL(join, id, rank, ranks, communicator);
}

static pdl_status_t ready(pdl_tensor_device_t *base, void *communicator, bool *done)
{
    return NCCL(ready, communicator, done);
}

static void leave(pdl_tensor_device_t *base, void *communicator)
{
    NCCL(leave, communicator);
}

static pdl_status_t begin(pdl_tensor_device_t *base)
{
    return pdl__cuda_api(base)->nccl->begin(pdl__cuda_gpu(base));
}

static pdl_status_t end(pdl_tensor_device_t *base)
{
    return pdl__cuda_api(base)->nccl->end(pdl__cuda_gpu(base));
}

static pdl_status_t send(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, void *communicator,
                         const void *data, size_t bytes, int peer)
{
    return NCCL(send, stream, communicator, data, bytes, peer);
}

static pdl_status_t receive(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, void *communicator, void *data,
                            size_t bytes, int peer)
{
    return NCCL(receive, stream, communicator, data, bytes, peer);
}

static pdl_status_t collective(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, void *communicator,
                               pdl_library_collective_t which, float *data, int64_t count)
{
    return NCCL(collective, stream, communicator, which, data, count);
}

const pdl_library_ops_t pdl__cuda_library = {.name = "NCCL",
                                             .available = available,
                                             .identify = identify,
                                             .join = join,
                                             .ready = ready,
                                             .leave = leave,
                                             .begin = begin,
                                             .end = end,
                                             .send = send,
                                             .receive = receive,
                                             .collective = collective};
