/*
 * The devices on which a program of tests trains: the CPU, the guard device, and a GPU, emulated or with `--device N` a real one.
 */
#ifndef PDL_TEST_DEVICES_FIXTURE_H
#define PDL_TEST_DEVICES_FIXTURE_H

#include "tensor/cuda_device.h"
#include "test.h"

typedef enum device { CPU, EAGER, LAZY, GPU_F32, GPU_BF16 } device_t;

/* Those of main(). */
static int    argument_count;
static char **argument;

static bool on_real_gpu(void)
{
    return argument_count > 2;
}

static pdl_backend_t *backend_of(device_t device)
{
    pdl_cpu_options_t cpu = {.threads = 1};
    pdl_backend_t    *backend = NULL;

    if (device >= GPU_F32)
        return cuda_backend(argument_count, argument, device == GPU_BF16 ? PDL_DTYPE_BF16 : PDL_DTYPE_F32);
    REQUIRE_OK(device == CPU ? pdl_backend_create("cpu", &cpu, &backend)
                             : pdl_backend_create_guard(&cpu, device == LAZY, &backend));
    return backend;
}

#endif
