/*
 * A GPU by CUDA's runtime, which is linked in; it finds the driver when it is first called.
 */
#include "tensor/plugin/cuda/check.h"
#include "tensor/plugin/cuda/gpu.h"

#include <stdio.h>
#include <stdlib.h>

#define GRAIN ((size_t)2 << 20)

#define LEAST_CAPABILITY 80

pdl_status_t pdl__cuda_check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess) return PDL_OK;
    return pdl_error(error == cudaErrorMemoryAllocation ? PDL_ERR_NOMEM : PDL_ERR_IO, "CUDA: %s: %s (%s)", what,
                     cudaGetErrorString(error), cudaGetErrorName(error));
}

#define CHECK PDL__CUDA_CHECK

static pdl_status_t count_gpus(int *devices)
{
    cudaError_t error;
    int         driver = 0, runtime = 0;

    *devices = 0;
    error = cudaGetDeviceCount(devices);
    if (error == cudaSuccess && *devices > 0) return PDL_OK;
    *devices = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (error == cudaErrorInsufficientDriver && driver > 0)
        return pdl_error(
            PDL_ERR_LIMIT,
            "the NVIDIA driver is too old: it is made for CUDA %d.%d, this build needs %d.%d; install a "
            "newer driver, or use --device cpu",
            driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    return pdl_error(PDL_ERR_LIMIT, "no NVIDIA GPU here: %s; use --device cpu",
                     error != cudaSuccess ? cudaGetErrorString(error) : "the driver finds none");
}

static pdl_status_t open_gpu(int device, const char *choices, pdl__gpu_t **gpu)
{
    struct cudaDeviceProp properties;
    pdl__gpu_t           *made;
    int                   devices;
    pdl_status_t          status = count_gpus(&devices);

    if (status) return status;
    if (device < 0 || device >= devices)
        return pdl_error(PDL_ERR_INPUT, "there is no GPU %d: there are %d, from 0 on", device, devices);
    status = CHECK(cudaGetDeviceProperties(&properties, device));
    if (status) return status;
    if (10 * properties.major + properties.minor < LEAST_CAPABILITY)
        return pdl_error(PDL_ERR_LIMIT,
                         "GPU %d, %s, has compute capability %d.%d: at least %d.%d is needed; use --device cpu",
                         device, properties.name, properties.major, properties.minor, LEAST_CAPABILITY / 10,
                         LEAST_CAPABILITY % 10);
    status = CHECK(cudaSetDevice(device));
    if (status) return status;
    made = calloc(1, sizeof(*made));
    if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    made->device = device;
    made->multiprocessors = properties.multiProcessorCount;
    status = pdl__choices_share(choices, properties.name, &made->choices);
    if (status) {
        free(made);
        return status;
    }
    *gpu = made;
    return PDL_OK;
}

static void close_gpu(pdl__gpu_t *gpu)
{
    if (gpu == NULL) return;
    /* Later parts use earlier ones. */
    for (int i = PDL__GPU_PARTS - 1; i >= 0; i--)
        if (gpu->part[i].destroy != NULL) gpu->part[i].destroy(gpu->part[i].state);
    free(gpu);
}

static pdl_status_t list_choices(pdl__gpu_t *gpu, char **text)
{
    return pdl__choices_text(gpu->choices, text);
}

static pdl_status_t learn_choices(pdl__gpu_t *gpu, const char *text)
{
    return pdl__choices_learn(gpu->choices, text);
}

static pdl_status_t describe_gpu(pdl__gpu_t *gpu, pdl__gpu_properties_t *properties)
{
    struct cudaDeviceProp known;
    int                   driver = 0, runtime = 0;
    pdl_status_t          status = CHECK(cudaGetDeviceProperties(&known, gpu->device));

    if (status) return status;
    *properties = (pdl__gpu_properties_t){.capability = 10 * known.major + known.minor,
                                          .multiprocessors = known.multiProcessorCount};
    snprintf(properties->name, sizeof(properties->name), "%s", known.name);
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    snprintf(properties->versions, sizeof(properties->versions), "driver for CUDA %d.%d, runtime %d.%d",
             driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    return CHECK(cudaMemGetInfo(&properties->free_bytes, &properties->memory_bytes));
}

static pdl_status_t no_memory(pdl__gpu_t *gpu, size_t bytes)
{
    size_t free_bytes = 0, all = 0;

    (void)cudaGetLastError();
    (void)cudaMemGetInfo(&free_bytes, &all);
    return pdl_error(PDL_ERR_NOMEM, "GPU %d: %.2f GiB are wanted, %.2f of %.2f GiB are free", gpu->device,
                     (double)bytes / (1 << 30), (double)free_bytes / (1 << 30), (double)all / (1 << 30));
}

static pdl_status_t take(pdl__gpu_t *gpu, pdl_space_t space, size_t bytes, void **memory)
{
    cudaError_t  error;
    pdl_status_t status;

    if (bytes == 0) bytes = 1;
    *memory = NULL;
    (void)cudaSetDevice(gpu->device); /* it is the thread's, and this may be another one */
    if (space == PDL_SPACE_HOST) {
        *memory = malloc(bytes);
        return *memory != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for %zu bytes", bytes);
    }
    /* CUDA cuts small allocations out of one of 2 MiB, which another process cannot open twice. */
    error = space == PDL_SPACE_PINNED ? cudaHostAlloc(memory, bytes, cudaHostAllocDefault)
                                      : cudaMalloc(memory, (bytes + GRAIN - 1) / GRAIN * GRAIN);
    if (error == cudaErrorMemoryAllocation && space == PDL_SPACE_DEVICE) return no_memory(gpu, bytes);
    if (error != cudaSuccess) return CHECK(error);
    if (space != PDL_SPACE_DEVICE) return PDL_OK;
    status = CHECK(cudaMemset(*memory, 0, bytes));
    /* That is work of the default stream, for which ours do not wait: it could clear what they write. */
    return status ? status : CHECK(cudaStreamSynchronize(cudaStreamLegacy));
}

static void give(pdl__gpu_t *gpu, pdl_space_t space, void *memory)
{
    (void)gpu;
    if (memory == NULL) return;
    if (space == PDL_SPACE_HOST)
        free(memory);
    else if (space == PDL_SPACE_PINNED)
        (void)cudaFreeHost(memory);
    else
        (void)cudaFree(memory);
}

static bool pin(pdl__gpu_t *gpu, void *memory, size_t bytes)
{
    (void)cudaSetDevice(gpu->device);
    if (cudaHostRegister(memory, bytes, cudaHostRegisterPortable) == cudaSuccess) return true;
    (void)cudaGetLastError();
    return false;
}

static bool unpin(pdl__gpu_t *gpu, void *memory)
{
    (void)gpu;
    if (cudaHostUnregister(memory) == cudaSuccess) return true;
    (void)cudaGetLastError();
    return false;
}

static bool reaches(pdl__gpu_t *gpu, const void *address)
{
    struct cudaPointerAttributes known;

    (void)gpu;
    return cudaPointerGetAttributes(&known, address) == cudaSuccess && known.type != cudaMemoryTypeUnregistered;
}

static pdl_status_t copy(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, void *to, const void *from, size_t bytes)
{
    (void)gpu;
    return bytes > 0 ? CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, PDL__CUDA_STREAM(stream)))
                     : PDL_OK;
}

static pdl_status_t fill(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, void *memory, size_t bytes)
{
    (void)gpu;
    return bytes > 0 ? CHECK(cudaMemsetAsync(memory, 0, bytes, PDL__CUDA_STREAM(stream))) : PDL_OK;
}

static pdl_status_t call(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_call_fn_t function, void *context)
{
    (void)gpu;
    return CHECK(cudaLaunchHostFunc(PDL__CUDA_STREAM(stream), function, context));
}

static void *scratch_of(pdl_tensor_stream_t *stream)
{
    return stream->scratch;
}

static void destroy_stream(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream)
{
    if (stream == NULL) return;
    if (stream->handle != NULL) (void)cudaStreamDestroy(PDL__CUDA_STREAM(stream));
    give(gpu, PDL_SPACE_DEVICE, stream->scratch);
    free(stream);
}

static pdl_status_t create_stream(pdl__gpu_t *gpu, pdl_tensor_stream_t **stream)
{
    pdl_tensor_stream_t *made = calloc(1, sizeof(*made));
    cudaStream_t         handle = NULL;
    pdl_status_t         status =
        made != NULL ? CHECK(cudaSetDevice(gpu->device)) : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (!status) status = CHECK(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking));
    if (!status) {
        made->handle = handle;
        status = take(gpu, PDL_SPACE_DEVICE, PDL__STREAM_SCRATCH, &made->scratch);
    }
    if (status) {
        destroy_stream(gpu, made);
        return status;
    }
    *stream = made;
    return PDL_OK;
}

static cudaEvent_t event_of(const pdl_tensor_event_t *event)
{
    return (cudaEvent_t)(void *)event;
}

static pdl_status_t create_event(pdl__gpu_t *gpu, pdl_tensor_event_t **event)
{
    cudaEvent_t  made;
    pdl_status_t status = CHECK(cudaSetDevice(gpu->device));

    if (!status) status = CHECK(cudaEventCreate(&made));
    if (!status) *event = (pdl_tensor_event_t *)(void *)made;
    return status;
}

static void destroy_event(pdl__gpu_t *gpu, pdl_tensor_event_t *event)
{
    (void)gpu;
    if (event != NULL) (void)cudaEventDestroy(event_of(event));
}

static pdl_status_t record(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event)
{
    (void)gpu;
    return CHECK(cudaEventRecord(event_of(event), PDL__CUDA_STREAM(stream)));
}

static pdl_status_t wait(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event)
{
    (void)gpu;
    return CHECK(cudaStreamWaitEvent(PDL__CUDA_STREAM(stream), event_of(event), 0));
}

static pdl_status_t query(pdl__gpu_t *gpu, pdl_tensor_event_t *event, bool *done)
{
    cudaError_t error = cudaEventQuery(event_of(event));

    (void)gpu;
    *done = error == cudaSuccess;
    if (error == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* else the next launch of a kernel would report it */
        return PDL_OK;
    }
    return CHECK(error);
}

static pdl_status_t synchronise(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream)
{
    (void)gpu;
    return CHECK(cudaStreamSynchronize(PDL__CUDA_STREAM(stream)));
}

static double elapsed(pdl__gpu_t *gpu, const pdl_tensor_event_t *from, const pdl_tensor_event_t *to)
{
    float milliseconds = 0;

    (void)gpu;
    return cudaEventElapsedTime(&milliseconds, event_of(from), event_of(to)) == cudaSuccess
               ? 1e-3 * (double)milliseconds
               : 0;
}

/* Other threads of this process may go on with what they do. */
static pdl_status_t begin_capture(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream)
{
    (void)gpu;
    return CHECK(cudaStreamBeginCapture(PDL__CUDA_STREAM(stream), cudaStreamCaptureModeThreadLocal));
}

static pdl_status_t end_capture(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_tensor_work_t **work)
{
    cudaGraph_t     graph = NULL;
    cudaGraphExec_t made = NULL;
    pdl_status_t    status = CHECK(cudaStreamEndCapture(PDL__CUDA_STREAM(stream), &graph));

    (void)gpu;
    if (!status) status = CHECK(cudaGraphInstantiate(&made, graph, 0));
    if (graph != NULL) (void)cudaGraphDestroy(graph);
    if (status) (void)cudaGetLastError(); /* else the next launch of a kernel would report it */
    *work = (pdl_tensor_work_t *)(void *)made;
    return status;
}

static pdl_status_t replay(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_tensor_work_t *work)
{
    (void)gpu;
    return CHECK(cudaGraphLaunch((cudaGraphExec_t)(void *)work, PDL__CUDA_STREAM(stream)));
}

static void destroy_work(pdl__gpu_t *gpu, pdl_tensor_work_t *work)
{
    (void)gpu;
    if (work != NULL) (void)cudaGraphExecDestroy((cudaGraphExec_t)(void *)work);
}

const pdl__cuda_runtime_t pdl__cuda_runtime = {
    .count = count_gpus,
    .open = open_gpu,
    .close = close_gpu,
    .properties = describe_gpu,
    .choices = list_choices,
    .learn = learn_choices,
    .alloc = take,
    .release = give,
    .pin = pin,
    .unpin = unpin,
    .reaches = reaches,
    .copy = copy,
    .fill = fill,
    .call = call,
    .stream_create = create_stream,
    .stream_destroy = destroy_stream,
    .scratch = scratch_of,
    .event_create = create_event,
    .event_destroy = destroy_event,
    .record = record,
    .wait = wait,
    .query = query,
    .synchronise = synchronise,
    .elapsed = elapsed,
    .capture_begin = begin_capture,
    .capture_end = end_capture,
    .replay = replay,
    .work_destroy = destroy_work,
};
