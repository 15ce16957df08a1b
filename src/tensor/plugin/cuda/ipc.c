/*
 * Memory and events of a GPU in other processes of the machine.
 */
#include "tensor/plugin/cuda/check.h"
#include "tensor/plugin/cuda/gpu.h"
#include "tensor/plugin/cuda/transport.h"

#include <cuda.h>
#include <string.h>

#define CHECK PDL__CUDA_CHECK

typedef CUresult (*range_fn_t)(CUdeviceptr *base, size_t *bytes, CUdeviceptr address);
typedef CUresult (*attribute_fn_t)(void *value, CUpointer_attribute attribute, CUdeviceptr address);

static void identity(pdl__gpu_t *gpu, char text[PDL_SHARED_HANDLE])
{
    memset(text, 0, PDL_SHARED_HANDLE);
    (void)cudaDeviceGetPCIBusId(text, PDL_SHARED_HANDLE, gpu->device);
}

/* A function of the driver, which the runtime has found already. */
static pdl_status_t driver_function(const char *name, void *function)
{
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    void                                *symbol = NULL;
    pdl_status_t status = CHECK(cudaGetDriverEntryPointByVersion(name, &symbol, 12000, cudaEnableDefault, &found));

    if (!status && (found != cudaDriverEntryPointSuccess || symbol == NULL))
        status = pdl_error(PDL_ERR_UNSUPPORTED, "the NVIDIA driver has no %s", name);
    memcpy(function, &symbol, sizeof(symbol));
    return status;
}

/* A driver that cannot tell is not complained about: the answer is for a hint. */
static bool in_turns(pdl__gpu_t *gpu)
{
    CUresult (*attribute)(int *value, CUdevice_attribute attribute, CUdevice device);
    int mps = 1;

    if (driver_function("cuDeviceGetAttribute", &attribute)) return false;
    return attribute(&mps, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, gpu->device) == CUDA_SUCCESS && mps == 0;
}

/* The allocation that an address is in, and a number that no other of this process ever has. */
static pdl_status_t find_allocation(CUdeviceptr address, CUdeviceptr *base, uint64_t *id)
{
    static range_fn_t     range;
    static attribute_fn_t attribute;
    unsigned long long    number = 0;
    size_t                bytes;
    pdl_status_t          status = PDL_OK;

    if (range == NULL) status = driver_function("cuMemGetAddressRange", &range);
    if (!status && attribute == NULL) status = driver_function("cuPointerGetAttribute", &attribute);
    if (status) return status;
    if (range(base, &bytes, address) != CUDA_SUCCESS ||
        attribute(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) != CUDA_SUCCESS)
        return pdl_error(PDL_ERR_INPUT, "CUDA: memory that is not of a GPU cannot be shared");
    *id = number;
    return PDL_OK;
}

/* Handles of allocations that were exported lately: a driver takes its time to make one. */
#define KNOWN 64
static struct known {
    uint64_t           id;
    cudaIpcMemHandle_t handle;
} known[KNOWN];

static pdl_status_t export_memory(pdl__gpu_t *gpu, const void *address, pdl_shared_memory_t *memory)
{
    CUdeviceptr   base;
    struct known *at;
    pdl_status_t  status = find_allocation((CUdeviceptr)(uintptr_t)address, &base, &memory->id);

    (void)gpu;
    if (status) return status;
    at = &known[memory->id % KNOWN];
    if (at->id != memory->id) status = CHECK(cudaIpcGetMemHandle(&at->handle, (void *)(uintptr_t)base));
    at->id = status ? 0 : memory->id;
    memory->offset = (uint64_t)((uintptr_t)address - (uintptr_t)base);
    memcpy(memory->handle, &at->handle, sizeof(at->handle));
    return status;
}

static pdl_status_t import_memory(pdl__gpu_t *gpu, const pdl_shared_memory_t *memory, void **address)
{
    cudaIpcMemHandle_t handle;
    pdl_status_t       status = CHECK(cudaSetDevice(gpu->device));

    memcpy(&handle, memory->handle, sizeof(handle));
    return status ? status : CHECK(cudaIpcOpenMemHandle(address, handle, cudaIpcMemLazyEnablePeerAccess));
}

static void forget_memory(pdl__gpu_t *gpu, void *address)
{
    (void)gpu;
    (void)cudaIpcCloseMemHandle(address);
}

static pdl_status_t export_event(pdl__gpu_t *gpu, pdl_tensor_event_t **event, char handle[PDL_SHARED_HANDLE])
{
    cudaIpcEventHandle_t made;
    cudaEvent_t          shared = NULL;
    pdl_status_t         status = CHECK(cudaSetDevice(gpu->device));

    if (!status) status = CHECK(cudaEventCreateWithFlags(&shared, cudaEventDisableTiming | cudaEventInterprocess));
    if (status) return status;
    *event = (pdl_tensor_event_t *)(void *)shared;
    status = CHECK(cudaIpcGetEventHandle(&made, shared));
    memcpy(handle, &made, sizeof(made));
    return status;
}

static pdl_status_t import_event(pdl__gpu_t *gpu, const char handle[PDL_SHARED_HANDLE], pdl_tensor_event_t **event)
{
    cudaIpcEventHandle_t made;
    cudaEvent_t          shared = NULL;
    pdl_status_t         status = CHECK(cudaSetDevice(gpu->device));

    memcpy(&made, handle, sizeof(made));
    if (!status) status = CHECK(cudaIpcOpenEventHandle(&shared, made));
    *event = (pdl_tensor_event_t *)(void *)shared;
    return status;
}

const pdl__cuda_ipc_t pdl__cuda_ipc = {.identity = identity,
                                       .in_turns = in_turns,
                                       .export_memory = export_memory,
                                       .import_memory = import_memory,
                                       .forget_memory = forget_memory,
                                       .export_event = export_event,
                                       .import_event = import_event};
