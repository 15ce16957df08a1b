/*
 * The GPU of a test: the emulated one, or with the argument `--device N` a real one, which `make gpu-test` asks for. Where
 * there is none the test is skipped.
 */
#ifndef PDL_TEST_CUDA_DEVICE_H
#define PDL_TEST_CUDA_DEVICE_H

#include <paradl/tensor/backend.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SKIPPED 77

static inline pdl_cuda_options_t cuda_options(int count, char **arguments, pdl_dtype_t precision)
{
    bool real = count > 2 && strcmp(arguments[1], "--device") == 0;

    return (pdl_cuda_options_t){.device = real ? atoi(arguments[2]) : 0, .precision = precision, .emulated = !real};
}

/* Ends the test where there is no such GPU. */
static inline pdl_backend_t *cuda_backend(int count, char **arguments, pdl_dtype_t precision)
{
    pdl_cuda_options_t options = cuda_options(count, arguments, precision);
    pdl_backend_t     *backend;

    if (pdl_backend_create_cuda(&options, &backend) == PDL_OK) return backend;
    printf("skipped: no NVIDIA GPU (%s)\n", pdl_error_message());
    exit(SKIPPED);
}

/* Memory of the device with so many bytes of the host, or with garbage where that is NULL. */
static inline void *cuda_put(pdl_backend_t *backend, const void *from, size_t bytes)
{
    pdl_tensor_device_t *device = backend->device;
    void                *memory;

    if (device->ops->alloc(device, PDL_SPACE_DEVICE, bytes, &memory) != PDL_OK ||
        device->ops->copy(device, NULL, memory, from, bytes) != PDL_OK) {
        printf("%s\n", pdl_error_message());
        exit(1);
    }
    return memory;
}

/* Copies it home and gives it back. */
static inline void cuda_take(pdl_backend_t *backend, void *memory, void *to, size_t bytes)
{
    if (to != NULL && backend->device->ops->copy(backend->device, NULL, to, memory, bytes) != PDL_OK) {
        printf("%s\n", pdl_error_message());
        exit(1);
    }
    backend->device->ops->release(backend->device, PDL_SPACE_DEVICE, memory, bytes);
}

#endif
