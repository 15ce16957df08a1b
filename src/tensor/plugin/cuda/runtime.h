/*
 * A GPU: its memory, streams and events.
 */
#ifndef PDL_TENSOR_CUDA_RUNTIME_H
#define PDL_TENSOR_CUDA_RUNTIME_H

#include <paradl/tensor/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl__gpu pdl__gpu_t;

#define PDL__STREAM_SCRATCH ((size_t)1 << 20)

/* What is known of a GPU. */
typedef struct pdl__gpu_properties {
    char   name[256];
    int    capability; /* 10 * major + minor */
    int    multiprocessors;
    size_t memory_bytes, free_bytes;
    char   versions[128]; /* of driver, runtime and libraries, as text */
} pdl__gpu_properties_t;

typedef struct pdl__cuda_runtime {
    /* How many there are; when none, the message says why. */
    pdl_status_t (*count)(int *devices);
    /* `choices`: the file that keeps which kernels were chosen; NULL: there is none. */
    pdl_status_t (*open)(int device, const char *choices, pdl__gpu_t **gpu);
    void (*close)(pdl__gpu_t *gpu); /* NULL is allowed */
    pdl_status_t (*properties)(pdl__gpu_t *gpu, pdl__gpu_properties_t *properties);

    /* As in pdl_backend_ops_t. */
    pdl_status_t (*choices)(pdl__gpu_t *gpu, char **text);
    pdl_status_t (*learn)(pdl__gpu_t *gpu, const char *text);

    /* As in pdl_device_ops_t. Memory of the device is zero. */
    pdl_status_t (*alloc)(pdl__gpu_t *gpu, pdl_space_t space, size_t bytes, void **memory);
    void (*release)(pdl__gpu_t *gpu, pdl_space_t space, void *memory);
    /* Pins memory of the host that the caller has mapped, which must be there; false: it is not pinned, for whatever reason, or was
       pinned in another way. */
    bool (*pin)(pdl__gpu_t *gpu, void *memory, size_t bytes);
    bool (*unpin)(pdl__gpu_t *gpu, void *memory);
    /* Whether kernels can read an address: memory of the device, or pinned. */
    bool (*reaches)(pdl__gpu_t *gpu, const void *address);
    pdl_status_t (*copy)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, void *to, const void *from, size_t bytes);
    pdl_status_t (*fill)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, void *memory, size_t bytes);
    pdl_status_t (*call)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_call_fn_t function, void *context);
    pdl_status_t (*stream_create)(pdl__gpu_t *gpu, pdl_tensor_stream_t **stream);
    void (*stream_destroy)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream);
    /* Memory of a stream of PDL__STREAM_SCRATCH bytes, whose content is of use to one call and the next only. */
    void *(*scratch)(pdl_tensor_stream_t *stream);
    pdl_status_t (*event_create)(pdl__gpu_t *gpu, pdl_tensor_event_t **event);
    void (*event_destroy)(pdl__gpu_t *gpu, pdl_tensor_event_t *event);
    pdl_status_t (*record)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event);
    pdl_status_t (*wait)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event);
    pdl_status_t (*query)(pdl__gpu_t *gpu, pdl_tensor_event_t *event, bool *done);
    pdl_status_t (*synchronise)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream);
    double (*elapsed)(pdl__gpu_t *gpu, const pdl_tensor_event_t *from, const pdl_tensor_event_t *to);
    pdl_status_t (*capture_begin)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream);
    pdl_status_t (*capture_end)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_tensor_work_t **work);
    pdl_status_t (*replay)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_tensor_work_t *work);
    void (*work_destroy)(pdl__gpu_t *gpu, pdl_tensor_work_t *work);
} pdl__cuda_runtime_t;

extern const pdl__cuda_runtime_t pdl__cuda_runtime;

#ifdef __cplusplus
}
#endif
#endif
