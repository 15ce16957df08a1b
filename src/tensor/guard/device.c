/*
 * The guard's memory, streams and events.
 *
 * The host learns nothing of what a stream has done unless it synchronises or asks for an event: nothing else of it is
 * read, no lock is shared. So the thread sanitizer knows no order between streams but the one that events give them.
 */
#define _GNU_SOURCE /* memfd_create */
#include "base/clock.h"
#include "tensor/guard/memory.h"

#include "tensor/cpu/threads.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct job {
    _Atomic(struct job *) next; /* written by the host, read by the stream */
    pdl__guard_fn_t       run;
    max_align_t           argument[];
} job_t;

struct pdl_tensor_stream {
    pdl__guard_device_t *device;
    pthread_t            thread;
    sem_t                work;
    job_t               *last;   /* the host's */
    uint64_t             given;  /* the host's: jobs */
    job_t               *before; /* the stream's: the job that was done last */
    pthread_mutex_t      lock;   /* of what follows */
    pthread_cond_t       changed;
    uint64_t             done, wanted;
    pdl_status_t         status; /* of the first that failed, until somebody waits */
    char                 message[512];
};

/* A point in a stream. */
typedef struct mark {
    struct mark         *next;
    pdl_tensor_stream_t *stream;
    uint64_t             job;
    atomic_bool          reached;
    double               time_s;
} mark_t;

pdl_status_t pdl__guard_map(pdl__guard_device_t *device, int file, bool own, size_t bytes, void **guarded)
{
    pdl__guard_region_t made = {.bytes = bytes, .file = own ? file : -1};

    made.memory = mmap(NULL, made.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    made.guarded = mmap(NULL, made.bytes, PROT_NONE, MAP_SHARED, file, 0);
    pthread_mutex_lock(&device->lock);
    if (device->count == device->capacity) {
        pdl__guard_region_t *grown = realloc(device->region, (size_t)(2 * device->capacity + 16) * sizeof(*grown));
        if (grown != NULL) {
            device->region = grown;
            device->capacity = 2 * device->capacity + 16;
        }
    }
    bool enough = made.memory != MAP_FAILED && made.guarded != MAP_FAILED && device->count < device->capacity;
    made.id = device->next_id++;
    if (enough) device->region[device->count++] = made;
    pthread_mutex_unlock(&device->lock);
    *guarded = made.guarded;
    if (!enough || !own) close(file);
    if (enough) return PDL_OK;
    return pdl_error(PDL_ERR_NOMEM, "guard: no memory for %zu bytes", bytes);
}

static pdl_status_t guard_alloc(pdl_tensor_device_t *base, pdl_space_t space, size_t bytes, void **memory)
{
    size_t taken = bytes > 0 ? bytes : 1;
    int    file;

    if (space != PDL_SPACE_DEVICE) {
        *memory = malloc(taken);
        return *memory != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for %zu bytes", bytes);
    }
    file = memfd_create("paradl-guard", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)taken) != 0) {
        if (file >= 0) close(file);
        return pdl_error(PDL_ERR_NOMEM, "guard: no memory for %zu bytes", bytes);
    }
    return pdl__guard_map((pdl__guard_device_t *)base, file, true, taken, memory);
}

static void unmap(const pdl__guard_region_t *region)
{
    munmap(region->guarded, region->bytes);
    munmap(region->memory, region->bytes);
    if (region->file >= 0) close(region->file);
}

void pdl__guard_unmap(pdl__guard_device_t *device, const void *guarded)
{
    pthread_mutex_lock(&device->lock);
    for (int i = 0; i < device->count; i++) {
        if (device->region[i].guarded != guarded) continue;
        unmap(&device->region[i]);
        device->region[i] = device->region[--device->count];
    }
    pthread_mutex_unlock(&device->lock);
}

static void guard_release(pdl_tensor_device_t *base, pdl_space_t space, void *memory, size_t bytes)
{
    (void)bytes;
    if (space != PDL_SPACE_DEVICE)
        free(memory);
    else if (memory != NULL)
        pdl__guard_unmap((pdl__guard_device_t *)base, memory);
}

pdl_status_t pdl__guard_translate(pdl_tensor_device_t *base, const void *address, size_t bytes, bool host,
                                  void *translated)
{
    pdl__guard_device_t *device = (pdl__guard_device_t *)base;
    uintptr_t            at = (uintptr_t)address;
    void                *found = host || address == NULL ? (void *)at : NULL;
    pdl_status_t         status = PDL_OK;

    pthread_mutex_lock(&device->lock);
    for (int i = 0; i < device->count; i++) {
        const pdl__guard_region_t *region = &device->region[i];
        uintptr_t                  first = (uintptr_t)region->guarded;

        /* The end of a region is a place for nothing. */
        if (at < first || at > first + region->bytes || (at == first + region->bytes && bytes > 0)) continue;
        found = region->memory + (at - first);
        if (bytes > first + region->bytes - at)
            status = pdl_error(PDL_ERR_INPUT, "guard: %zu bytes at %zu of %zu", bytes, (size_t)(at - first),
                               region->bytes);
        break;
    }
    pthread_mutex_unlock(&device->lock);
    if (!status && found == NULL && address != NULL)
        status = pdl_error(PDL_ERR_INPUT, "guard: memory of the host is given to the device");
    memcpy(translated, &found, sizeof(found));
    return status;
}

/* Somebody waits until so many jobs of a stream are done. */
static void want(pdl_tensor_stream_t *stream, uint64_t jobs)
{
    if (!stream->device->lazy) return;
    pthread_mutex_lock(&stream->lock);
    if (stream->wanted < jobs) stream->wanted = jobs;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

void pdl__guard_want_all(pdl_tensor_stream_t *stream)
{
    if (stream != NULL) want(stream, stream->given);
}

static void await_demand(pdl_tensor_stream_t *stream)
{
    if (!stream->device->lazy) return;
    pthread_mutex_lock(&stream->lock);
    while (stream->done >= stream->wanted) pthread_cond_wait(&stream->changed, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
}

static void *run_stream(void *context)
{
    pdl_tensor_stream_t *stream = context;

    pdl__threads_setup(stream->device->threads, false);
    for (;;) {
        while (sem_wait(&stream->work) != 0) continue;
        await_demand(stream);
        job_t *job = atomic_load_explicit(&stream->before->next, memory_order_acquire);
        free(stream->before);
        stream->before = job;
        if (job->run == NULL) return NULL;
        pdl_status_t status = job->run(job->argument);
        pthread_mutex_lock(&stream->lock);
        if (status && !stream->status) {
            stream->status = status;
            snprintf(stream->message, sizeof(stream->message), "%s", pdl_error_message());
        }
        stream->done++;
        pthread_cond_broadcast(&stream->changed);
        pthread_mutex_unlock(&stream->lock);
    }
}

pdl_status_t pdl__guard_enqueue(pdl_tensor_stream_t *stream, pdl__guard_fn_t run, const void *argument,
                                size_t bytes)
{
    job_t *job = calloc(1, sizeof(*job) + bytes);

    if (job == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    job->run = run;
    if (bytes > 0) memcpy(job->argument, argument, bytes);
    if (stream == NULL) {
        pdl_status_t status = run(job->argument);
        free(job);
        return status;
    }
    atomic_store_explicit(&stream->last->next, job, memory_order_release);
    stream->last = job;
    stream->given++;
    sem_post(&stream->work);
    return PDL_OK;
}

static pdl_status_t guard_stream_create(pdl_tensor_device_t *base, pdl_tensor_stream_t **stream)
{
    pdl_tensor_stream_t *made = calloc(1, sizeof(*made));

    if (made != NULL) made->before = made->last = calloc(1, sizeof(job_t));
    if (made == NULL || made->last == NULL) {
        free(made);
        return pdl_error(PDL_ERR_NOMEM, "out of memory");
    }
    made->device = (pdl__guard_device_t *)base;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    sem_init(&made->work, 0, 0);
    if (pthread_create(&made->thread, NULL, run_stream, made) != 0) {
        free(made->last);
        free(made);
        return pdl_error(PDL_ERR_LIMIT, "guard: no thread for a stream");
    }
    *stream = made;
    return PDL_OK;
}

static void guard_stream_destroy(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream)
{
    (void)base;
    if (stream == NULL) return;
    (void)pdl__guard_enqueue(stream, NULL, NULL, 0);
    want(stream, stream->given);
    pthread_join(stream->thread, NULL);
    pthread_mutex_destroy(&stream->lock);
    pthread_cond_destroy(&stream->changed);
    sem_destroy(&stream->work);
    free(stream->before);
    free(stream);
}

static pdl_status_t guard_synchronise(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream)
{
    pdl_status_t status;

    (void)base;
    if (stream == NULL) return PDL_OK;
    want(stream, stream->given);
    pthread_mutex_lock(&stream->lock);
    while (stream->done < stream->given) pthread_cond_wait(&stream->changed, &stream->lock);
    status = stream->status ? pdl_error(stream->status, "%s", stream->message) : PDL_OK;
    stream->status = PDL_OK;
    pthread_mutex_unlock(&stream->lock);
    return status;
}

static pdl_status_t guard_event_create(pdl_tensor_device_t *base, pdl_tensor_event_t **event)
{
    (void)base;
    *event = calloc(1, sizeof(**event));
    return *event != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");
}

static void guard_event_destroy(pdl_tensor_device_t *base, pdl_tensor_event_t *event)
{
    (void)base;
    if (event != NULL) pdl__guard_unshare(event);
    free(event);
}

static pdl_status_t reach(void *argument)
{
    mark_t *mark = *(mark_t **)argument;

    mark->time_s = pdl__seconds();
    atomic_store_explicit(&mark->reached, true, memory_order_release);
    return PDL_OK;
}

/* Every record is a mark of its own, so that nobody takes one for another. */
static pdl_status_t guard_record(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event)
{
    pdl__guard_device_t *device = (pdl__guard_device_t *)base;
    mark_t              *mark = calloc(1, sizeof(*mark));

    if (mark == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    *mark = (mark_t){.next = device->marks, .stream = stream, .job = stream != NULL ? stream->given + 1 : 0};
    device->marks = event->mark = mark;
    return pdl__guard_enqueue(stream, reach, &mark, sizeof(mark));
}

static pdl_status_t await(void *argument)
{
    mark_t *mark = *(mark_t **)argument;

    if (mark->stream != NULL) want(mark->stream, mark->job);
    while (!atomic_load_explicit(&mark->reached, memory_order_acquire)) sched_yield();
    return PDL_OK;
}

static pdl_status_t guard_wait(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event)
{
    (void)base;
    return event->mark != NULL ? pdl__guard_enqueue(stream, await, &event->mark, sizeof(event->mark)) : PDL_OK;
}

static pdl_status_t guard_query(pdl_tensor_device_t *base, pdl_tensor_event_t *event, bool *done)
{
    mark_t *mark = event->mark;

    (void)base;
    if (mark != NULL && mark->stream != NULL) want(mark->stream, mark->job);
    *done = mark == NULL || atomic_load_explicit(&mark->reached, memory_order_acquire);
    return PDL_OK;
}

static double guard_elapsed(pdl_tensor_device_t *base, const pdl_tensor_event_t *from, const pdl_tensor_event_t *to)
{
    (void)base;
    return from->mark != NULL && to->mark != NULL ? to->mark->time_s - from->mark->time_s : 0;
}

/* What is asked of the CPU, on memory that kernels use. */
typedef struct request {
    const pdl_boxes_t *boxes;
    const void        *source;
    void              *target;
    size_t             bytes;
    int64_t            count;
    pdl_dtype_t        type;
    int                from;
    bool               add;
} request_t;

static pdl_status_t run_copy(void *argument)
{
    const request_t *r = argument;

    return pdl_device_cpu()->ops->copy(NULL, NULL, r->target, r->source, r->bytes);
}

static pdl_status_t run_fill(void *argument)
{
    const request_t *r = argument;

    return pdl_device_cpu()->ops->fill(NULL, NULL, r->target, r->bytes);
}

static pdl_status_t run_boxes(void *argument)
{
    const request_t *r = argument;

    return pdl_device_cpu()->ops->boxes(NULL, NULL, r->boxes, r->from, r->type, r->source, r->target, r->add);
}

static pdl_status_t run_reduce(void *argument)
{
    const request_t *r = argument;

    return pdl_device_cpu()->ops->reduce(NULL, NULL, r->type, r->source, r->target, r->count);
}

static pdl_status_t run_round(void *argument)
{
    const request_t *r = argument;

    return pdl_device_cpu()->ops->round(NULL, NULL, r->source, r->count, r->type, r->target);
}

static pdl_status_t request(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, pdl__guard_fn_t run,
                            request_t *r, size_t source_bytes, size_t target_bytes)
{
    pdl_status_t status = pdl__guard_translate(base, r->source, source_bytes, true, (void *)&r->source);

    if (!status) status = pdl__guard_translate(base, r->target, target_bytes, true, (void *)&r->target);
    return status ? status : pdl__guard_enqueue(stream, run, r, sizeof(*r));
}

static pdl_status_t guard_copy(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, void *to, const void *from,
                               size_t bytes)
{
    return request(base, stream, run_copy, &(request_t){.source = from, .target = to, .bytes = bytes}, bytes,
                   bytes);
}

typedef struct call {
    pdl_call_fn_t function;
    void         *context;
} call_t;

static pdl_status_t run_call(void *argument)
{
    const call_t *call = argument;

    call->function(call->context);
    return PDL_OK;
}

static pdl_status_t guard_call(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, pdl_call_fn_t function,
                               void *context)
{
    (void)base;
    return pdl__guard_enqueue(stream, run_call, &(call_t){function, context}, sizeof(call_t));
}

static pdl_status_t guard_fill(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, void *memory, size_t bytes)
{
    return request(base, stream, run_fill, &(request_t){.target = memory, .bytes = bytes}, 0, bytes);
}

static pdl_status_t guard_boxes(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, const pdl_boxes_t *boxes,
                                int from, pdl_dtype_t type, const void *source, void *target, bool add)
{
    request_t r = {.boxes = boxes, .from = from, .type = type, .source = source, .target = target, .add = add};

    return boxes->elements > 0 ? request(base, stream, run_boxes, &r, 0, 0) : PDL_OK;
}

static pdl_status_t guard_reduce(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                 const void *values, void *sum, int64_t count)
{
    request_t r = {.source = values, .target = sum, .type = type, .count = count};
    size_t    bytes = (size_t)count * pdl_dtype_bytes(type);

    return request(base, stream, run_reduce, &r, bytes, type == PDL_DTYPE_BF16 ? 2 * bytes : bytes);
}

static pdl_status_t guard_round(pdl_tensor_device_t *base, pdl_tensor_stream_t *stream, const float *values,
                                int64_t count, pdl_dtype_t type, void *rounded)
{
    request_t r = {.source = values, .target = rounded, .type = type, .count = count};

    return request(base, stream, run_round, &r, (size_t)count * sizeof(float),
                   (size_t)count * pdl_dtype_bytes(type));
}

static void guard_destroy(pdl_tensor_device_t *base)
{
    pdl__guard_device_t *device = (pdl__guard_device_t *)base;

    for (int i = 0; i < device->count; i++) unmap(&device->region[i]);
    while (device->marks != NULL) {
        mark_t *mark = device->marks;

        device->marks = mark->next;
        free(mark);
    }
    pthread_mutex_destroy(&device->lock);
    free(device->region);
    free(device);
}

pdl_status_t pdl__guard_device_create(int threads, bool lazy, pdl_tensor_device_t **device)
{
    static const pdl_device_ops_t ops = {
        .name = "guard",
        .alloc = guard_alloc,
        .release = guard_release,
        .copy = guard_copy,
        .fill = guard_fill,
        .call = guard_call,
        .boxes = guard_boxes,
        .reduce = guard_reduce,
        .round = guard_round,
        .stream_create = guard_stream_create,
        .stream_destroy = guard_stream_destroy,
        .event_create = guard_event_create,
        .event_destroy = guard_event_destroy,
        .record = guard_record,
        .wait = guard_wait,
        .query = guard_query,
        .synchronise = guard_synchronise,
        .elapsed = guard_elapsed,
        .destroy = guard_destroy,
        .sharing = &pdl__guard_sharing,
    };
    pdl__guard_device_t *made = calloc(1, sizeof(*made));

    if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    made->base.ops = &ops;
    made->base.asynchronous = true;
    made->threads = threads;
    made->lazy = lazy;
    pthread_mutex_init(&made->lock, NULL);
    *device = &made->base;
    return PDL_OK;
}
