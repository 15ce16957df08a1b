/*
 * A GPU of two multiprocessors that is none: its memory is that of the process, and streams work at once.
 */
#include "tensor/plugin/cuda/emulate.h"
#include "tensor/plugin/cuda/emulated/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MULTIPROCESSORS 2
#define MEMORY          ((size_t)8 << 30)

struct pdl_tensor_event {
    struct timespec time;
};

/* Work that is kept: what run() needs is behind it. */
struct alignas(16) kept_t {
    kept_t *next;
    pdl_status_t (*run)(void *work);
};

struct pdl_tensor_work {
    kept_t *first, *last;
};

namespace
{

/* What a real device refuses while it captures. */
pdl_status_t refuse(const pdl_tensor_stream_t *stream)
{
    return stream->kept == NULL ? PDL_OK : pdl_error(PDL_ERR_IO, "CUDA: not while work of the stream is captured");
}

pdl_status_t count_gpus(int *devices)
{
    *devices = 1;
    return PDL_OK;
}

pdl_status_t open_gpu(int device, const char *choices, pdl__gpu_t **gpu)
{
    pdl__gpu_t *made;

    (void)choices;
    if (device != 0) return pdl_error(PDL_ERR_INPUT, "there is no GPU %d: there is one, number 0", device);
    made = (pdl__gpu_t *)calloc(1, sizeof(*made));
    if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    made->multiprocessors = MULTIPROCESSORS;
    *gpu = made;
    return PDL_OK;
}

void close_gpu(pdl__gpu_t *gpu)
{
    if (gpu == NULL) return;
    for (const pdl__gpu_part_t &part : gpu->part)
        if (part.destroy != NULL) part.destroy(part.state);
    free(gpu);
}

/* Nothing is timed here, so nothing is chosen. */
pdl_status_t list_choices(pdl__gpu_t *, char **text)
{
    *text = strdup("");
    return *text != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");
}

pdl_status_t learn_choices(pdl__gpu_t *, const char *)
{
    return PDL_OK;
}

pdl_status_t describe_gpu(pdl__gpu_t *gpu, pdl__gpu_properties_t *properties)
{
    (void)gpu;
    *properties = {};
    snprintf(properties->name, sizeof(properties->name), "emulated GPU");
    snprintf(properties->versions, sizeof(properties->versions), "emulated");
    properties->capability = 90;
    properties->multiprocessors = MULTIPROCESSORS;
    properties->memory_bytes = MEMORY;
    properties->free_bytes = MEMORY - pdl__emulated_held();
    return PDL_OK;
}

pdl_status_t take(pdl__gpu_t *gpu, pdl_space_t space, size_t bytes, void **memory)
{
    (void)gpu;
    if (space == PDL_SPACE_DEVICE && bytes > MEMORY - pdl__emulated_held())
        return pdl_error(PDL_ERR_NOMEM, "out of memory for %zu bytes", bytes);
    if (space != PDL_SPACE_HOST) return pdl__emulated_take(space == PDL_SPACE_DEVICE, bytes, memory);
    *memory = malloc(bytes > 0 ? bytes : 1);
    return *memory != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for %zu bytes", bytes);
}

void give(pdl__gpu_t *gpu, pdl_space_t space, void *memory)
{
    (void)gpu;
    if (space == PDL_SPACE_HOST)
        free(memory);
    else
        pdl__emulated_unmap(memory);
}

bool pin(pdl__gpu_t *, void *memory, size_t bytes)
{
    return pdl__emulated_pin(memory, bytes);
}

bool unpin(pdl__gpu_t *, void *memory)
{
    return pdl__emulated_unpin(memory);
}

bool reaches(pdl__gpu_t *gpu, const void *address)
{
    pdl__emulated_piece_t piece;

    (void)gpu;
    return pdl__emulated_find(address, &piece);
}

pdl_status_t copy(pdl__gpu_t *, pdl_tensor_stream_t *stream, void *to, const void *from, size_t bytes)
{
    return pdl__emulated_give(stream, [=] {
        if (bytes > 0) memmove(to, from, bytes);
        return PDL_OK;
    });
}

pdl_status_t fill(pdl__gpu_t *, pdl_tensor_stream_t *stream, void *memory, size_t bytes)
{
    return pdl__emulated_give(stream, [=] {
        if (bytes > 0) memset(memory, 0, bytes);
        return PDL_OK;
    });
}

pdl_status_t call(pdl__gpu_t *, pdl_tensor_stream_t *stream, pdl_call_fn_t function, void *context)
{
    return pdl__emulated_give(stream, [=] {
        function(context);
        return PDL_OK;
    });
}

void *scratch_of(pdl_tensor_stream_t *stream)
{
    return stream->scratch;
}

void destroy_stream(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream)
{
    if (stream == NULL) return;
    give(gpu, PDL_SPACE_PINNED, stream->scratch); /* so that it does not count as the GPU's */
    free(stream);
}

pdl_status_t create_stream(pdl__gpu_t *gpu, pdl_tensor_stream_t **stream)
{
    pdl_tensor_stream_t *made = (pdl_tensor_stream_t *)calloc(1, sizeof(*made));
    pdl_status_t         status = made != NULL ? take(gpu, PDL_SPACE_PINNED, PDL__STREAM_SCRATCH, &made->scratch)
                                               : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (status) {
        free(made);
        return status;
    }
    *stream = made;
    return PDL_OK;
}

pdl_status_t create_event(pdl__gpu_t *gpu, pdl_tensor_event_t **event)
{
    (void)gpu;
    *event = (pdl_tensor_event_t *)calloc(1, sizeof(**event));
    return *event != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");
}

void destroy_event(pdl__gpu_t *gpu, pdl_tensor_event_t *event)
{
    (void)gpu;
    free(event);
}

pdl_status_t record(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event)
{
    (void)gpu, (void)stream;
    clock_gettime(CLOCK_MONOTONIC, &event->time);
    return PDL_OK;
}

pdl_status_t wait(pdl__gpu_t *, pdl_tensor_stream_t *stream, pdl_tensor_event_t *)
{
    return refuse(stream);
}

pdl_status_t query(pdl__gpu_t *gpu, pdl_tensor_event_t *event, bool *done)
{
    (void)gpu, (void)event;
    *done = true;
    return PDL_OK;
}

pdl_status_t synchronise(pdl__gpu_t *, pdl_tensor_stream_t *stream)
{
    return refuse(stream);
}

double elapsed(pdl__gpu_t *gpu, const pdl_tensor_event_t *from, const pdl_tensor_event_t *to)
{
    (void)gpu;
    return (double)(to->time.tv_sec - from->time.tv_sec) + 1e-9 * (double)(to->time.tv_nsec - from->time.tv_nsec);
}

pdl_status_t begin_capture(pdl__gpu_t *, pdl_tensor_stream_t *stream)
{
    if (stream->kept != NULL) return refuse(stream);
    stream->kept = (pdl_tensor_work_t *)calloc(1, sizeof(*stream->kept));
    return stream->kept != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");
}

pdl_status_t end_capture(pdl__gpu_t *, pdl_tensor_stream_t *stream, pdl_tensor_work_t **work)
{
    *work = stream->kept;
    stream->kept = NULL;
    return PDL_OK;
}

pdl_status_t replay(pdl__gpu_t *, pdl_tensor_stream_t *, pdl_tensor_work_t *work)
{
    pdl_status_t status = PDL_OK;

    for (kept_t *kept = work->first; kept != NULL && !status; kept = kept->next) status = kept->run(kept + 1);
    return status;
}

void destroy_work(pdl__gpu_t *, pdl_tensor_work_t *work)
{
    for (kept_t *kept = work != NULL ? work->first : NULL, *next; kept != NULL; kept = next) {
        next = kept->next;
        free(kept);
    }
    free(work);
}

} // namespace

bool pdl__emulated_keeps(const pdl_tensor_stream *stream)
{
    return stream != NULL && stream->kept != NULL;
}

void *pdl__emulated_keep(const pdl_tensor_stream *stream, size_t bytes, pdl_status_t (*run)(void *work))
{
    kept_t *kept = (kept_t *)malloc(sizeof(*kept) + bytes);

    if (kept == NULL) return NULL;
    *kept = {NULL, run};
    if (stream->kept->last != NULL)
        stream->kept->last->next = kept;
    else
        stream->kept->first = kept;
    stream->kept->last = kept;
    return kept + 1;
}

extern "C" const pdl__cuda_runtime_t pdl__cuda_runtime = {
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
