/*
 * Memory and events of the guard in other processes: files without a name, which others open through /proc.
 */
#define _GNU_SOURCE /* memfd_create */
#include "tensor/guard/memory.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What a handle is. */
typedef struct place {
    int64_t process, file, bytes;
} place_t;

static pdl_status_t open_place(const char handle[PDL_SHARED_HANDLE], place_t *place, int *file)
{
    char path[64];

    memcpy(place, handle, sizeof(*place));
    snprintf(path, sizeof(path), "/proc/%lld/fd/%lld", (long long)place->process, (long long)place->file);
    *file = open(path, O_RDWR | O_CLOEXEC);
    return *file >= 0 ? PDL_OK : pdl_error(PDL_ERR_IO, "guard: cannot open %s of another rank", path);
}

static pdl_status_t export_memory(pdl_tensor_device_t *base, const void *address, pdl_shared_memory_t *memory)
{
    pdl__guard_device_t *device = (pdl__guard_device_t *)base;
    const char          *at = address;
    bool                 found = false;

    pthread_mutex_lock(&device->lock);
    for (int i = 0; i < device->count && !found; i++) {
        const pdl__guard_region_t *region = &device->region[i];
        place_t                    place = {getpid(), region->file, (int64_t)region->bytes};

        found = at >= region->guarded && at < region->guarded + region->bytes;
        if (!found) continue;
        *memory = (pdl_shared_memory_t){.id = region->id, .offset = (uint64_t)(at - region->guarded)};
        memcpy(memory->handle, &place, sizeof(place));
    }
    pthread_mutex_unlock(&device->lock);
    return found ? PDL_OK : pdl_error(PDL_ERR_INPUT, "guard: memory of the host is sent as the device's");
}

static pdl_status_t import_memory(pdl_tensor_device_t *base, const pdl_shared_memory_t *memory, void **address)
{
    place_t      place;
    int          file;
    pdl_status_t status = open_place(memory->handle, &place, &file);

    return status ? status : pdl__guard_map((pdl__guard_device_t *)base, file, false, (size_t)place.bytes, address);
}

static void forget_memory(pdl_tensor_device_t *base, void *address)
{
    pdl__guard_unmap((pdl__guard_device_t *)base, address);
}

/* An event whose count is in a file. */
static pdl_status_t map_event(pdl_tensor_device_t *base, int file, bool own, pdl_tensor_event_t **event)
{
    void        *memory = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    pdl_status_t status = memory != MAP_FAILED ? base->ops->event_create(base, event)
                                               : pdl_error(PDL_ERR_NOMEM, "guard: no memory for an event");

    if (status || !own) close(file);
    if (status) return status;
    (*event)->shared = memory;
    (*event)->file = own ? file : -1;
    return PDL_OK;
}

static pdl_status_t export_event(pdl_tensor_device_t *base, pdl_tensor_event_t **event,
                                 char handle[PDL_SHARED_HANDLE])
{
    int     file = memfd_create("paradl-event", MFD_CLOEXEC);
    place_t place = {getpid(), file, sizeof(uint64_t)};

    memset(handle, 0, PDL_SHARED_HANDLE);
    memcpy(handle, &place, sizeof(place));
    if (file < 0 || ftruncate(file, sizeof(uint64_t)) != 0) {
        if (file >= 0) close(file);
        return pdl_error(PDL_ERR_NOMEM, "guard: no memory for an event");
    }
    return map_event(base, file, true, event);
}

static pdl_status_t import_event(pdl_tensor_device_t *base, const char handle[PDL_SHARED_HANDLE],
                                 pdl_tensor_event_t **event)
{
    place_t      place;
    int          file;
    pdl_status_t status = open_place(handle, &place, &file);

    return status ? status : map_event(base, file, false, event);
}

void pdl__guard_unshare(pdl_tensor_event_t *event)
{
    if (event->shared == NULL) return;
    munmap((void *)(uintptr_t)event->shared, sizeof(*event->shared));
    if (event->file >= 0) close(event->file);
}

typedef struct moment {
    _Atomic uint64_t *shared;
    uint64_t          count;
} moment_t;

static pdl_status_t reach(void *argument)
{
    const moment_t *moment = argument;

    atomic_store_explicit(moment->shared, moment->count, memory_order_release);
    return PDL_OK;
}

static pdl_status_t await(void *argument)
{
    const moment_t *moment = argument;

    while (atomic_load_explicit(moment->shared, memory_order_acquire) < moment->count) sched_yield();
    return PDL_OK;
}

/* Who waits in another process cannot say so: lazy streams work at once. */
static pdl_status_t shared_record(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event,
                                  uint64_t *count)
{
    moment_t     moment = {event->shared, ++event->recorded};
    pdl_status_t status = pdl__guard_enqueue(stream, reach, &moment, sizeof(moment));

    (void)base;
    *count = moment.count;
    pdl__guard_want_all(stream);
    return status;
}

static pdl_status_t shared_wait(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event,
                                uint64_t count)
{
    moment_t moment = {event->shared, count};

    (void)base;
    return pdl__guard_enqueue(stream, await, &moment, sizeof(moment));
}

static pdl_status_t shared_query(pdl_tensor_device_t *base, pdl_tensor_event_t *event, uint64_t count, bool *done)
{
    (void)base;
    *done = atomic_load_explicit(event->shared, memory_order_acquire) >= count;
    return PDL_OK;
}

const pdl_sharing_ops_t pdl__guard_sharing = {.export_memory = export_memory,
                                              .import_memory = import_memory,
                                              .forget_memory = forget_memory,
                                              .export_event = export_event,
                                              .import_event = import_event,
                                              .record = shared_record,
                                              .wait = shared_wait,
                                              .query = shared_query};
