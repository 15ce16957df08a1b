/*
 * Inside the guard's device: memory and events, as other processes can have them too.
 */
#ifndef PDL_TENSOR_GUARD_MEMORY_H
#define PDL_TENSOR_GUARD_MEMORY_H

#include "tensor/guard/guard.h"

#include <pthread.h>
#include <stdatomic.h>

struct mark;

typedef struct pdl__guard_region {
    char    *guarded, *memory; /* the same, as the host and as kernels have it */
    size_t   bytes;
    int      file; /* -1: another process's */
    uint64_t id;
} pdl__guard_region_t;

typedef struct pdl__guard_device {
    pdl_tensor_device_t  base; /* first: a pdl_tensor_device_t is cast to this */
    int                  threads;
    bool                 lazy;
    pthread_mutex_t      lock; /* of the regions; streams never take it */
    pdl__guard_region_t *region;
    int                  count, capacity;
    uint64_t             next_id;
    struct mark         *marks; /* all that were made */
} pdl__guard_device_t;

struct pdl_tensor_event {
    struct mark      *mark;   /* the host's: as it was recorded last; NULL: never */
    _Atomic uint64_t *shared; /* how often it has happened, where other processes see it; or NULL */
    uint64_t          recorded;
    int               file; /* -1: another process's */
};

/* Maps a file, and the first of its two addresses. What is this process's own stays open, for others to open it too. */
pdl_status_t pdl__guard_map(pdl__guard_device_t *device, int file, bool own, size_t bytes, void **guarded);
void         pdl__guard_unmap(pdl__guard_device_t *device, const void *guarded);
/* Somebody waits for all that a stream has been given. */
void pdl__guard_want_all(pdl_tensor_stream_t *stream);

/* sharing.c */
extern const pdl_sharing_ops_t pdl__guard_sharing;
void                           pdl__guard_unshare(pdl_tensor_event_t *event);

#endif
