/*
 * Memory of the emulated GPU in other processes, which open its files through /proc. Streams work at once, so an event that
 * somebody hears of has happened.
 */
#include "tensor/plugin/cuda/transport.h"
#include "tensor/plugin/cuda/emulated/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

/* What a handle is. */
struct place {
    int64_t process, file, bytes;
};

void identity(pdl__gpu_t *gpu, char text[PDL_SHARED_HANDLE])
{
    (void)gpu;
    snprintf(text, PDL_SHARED_HANDLE, "emulated");
}

/* The cores of the machine do the work of all of them, in turns. */
bool in_turns(pdl__gpu_t *gpu)
{
    (void)gpu;
    return true;
}

pdl_status_t export_memory(pdl__gpu_t *gpu, const void *address, pdl_shared_memory_t *memory)
{
    pdl__emulated_piece_t piece;
    place                 at;

    (void)gpu;
    if (!pdl__emulated_find(address, &piece) || piece.file < 0)
        return pdl_error(PDL_ERR_INPUT, "CUDA: memory that is not of a GPU cannot be shared");
    at = {getpid(), piece.file, (int64_t)piece.bytes};
    memset(memory, 0, sizeof(*memory));
    memory->id = piece.id;
    memory->offset = (uint64_t)((const char *)address - piece.memory);
    memcpy(memory->handle, &at, sizeof(at));
    return PDL_OK;
}

pdl_status_t import_memory(pdl__gpu_t *gpu, const pdl_shared_memory_t *memory, void **address)
{
    char  path[64];
    place at;
    int   file;

    (void)gpu;
    memcpy(&at, memory->handle, sizeof(at));
    snprintf(path, sizeof(path), "/proc/%lld/fd/%lld", (long long)at.process, (long long)at.file);
    file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return pdl_error(PDL_ERR_IO, "emulated GPU: cannot open %s of another rank", path);
    return pdl__emulated_map(file, false, (size_t)at.bytes, address);
}

void forget_memory(pdl__gpu_t *gpu, void *address)
{
    (void)gpu;
    pdl__emulated_unmap(address);
}

pdl_status_t export_event(pdl__gpu_t *gpu, pdl_tensor_event_t **event, char handle[PDL_SHARED_HANDLE])
{
    memset(handle, 0, PDL_SHARED_HANDLE);
    return pdl__cuda_runtime.event_create(gpu, event);
}

pdl_status_t import_event(pdl__gpu_t *gpu, const char handle[PDL_SHARED_HANDLE], pdl_tensor_event_t **event)
{
    (void)handle;
    return pdl__cuda_runtime.event_create(gpu, event);
}

pdl_status_t no_nccl(pdl__gpu_t *gpu)
{
    (void)gpu;
    return pdl_error(PDL_ERR_UNSUPPORTED, "--transport nccl: the emulated GPU has no NCCL; use --transport auto");
}

} // namespace

extern "C" const pdl__cuda_ipc_t pdl__cuda_ipc = {
    .identity = identity,
    .in_turns = in_turns,
    .export_memory = export_memory,
    .import_memory = import_memory,
    .forget_memory = forget_memory,
    .export_event = export_event,
    .import_event = import_event,
};

extern "C" const pdl__cuda_nccl_t pdl__cuda_nccl = {.available = no_nccl};
