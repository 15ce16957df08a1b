/*
 * Worker threads that prepare batches ahead of the training step.
 *
 * Batches are numbered from the place where reading began and prepared in a ring of slots, one more than may be ahead,
 * because the caller still uses the last one. Workers take a few samples of the newest batch at a time, so that all of them
 * share one batch and the first is ready soon. What a sample becomes depends only on the seed, the epoch and its index;
 * which worker prepares it does not matter. With the ring full the workers sleep and leave the cores to the training.
 */
#include "data/load/loader.h"
#include "base/clock.h"
#include "data/load/affinity.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void note_failure(pdl__slot_t *slot, int64_t place, pdl_status_t status)
{
    if (slot->status != PDL_OK && slot->failed <= place) return;
    slot->status = status;
    slot->failed = place;
    snprintf(slot->message, sizeof(slot->message), "%s", pdl_error_message());
}

/* Gated loaders stop here until the next epoch is opened. Under the lock. */
static bool epoch_is_over(const pdl_loader_t *loader)
{
    return loader->spec.gated && loader->given < 0 && !loader->opening &&
           loader->step == loader->spec.steps_per_epoch;
}

/* Whether a worker finds something to do. Under the lock. */
static bool has_work(const pdl_loader_t *loader)
{
    const int64_t oldest = loader->next - (loader->holding ? 1 : 0);

    if (loader->resting || loader->opening) return false;
    if (epoch_is_over(loader)) return false;
    return loader->given >= 0 || loader->filling < oldest + loader->slot_count;
}

/* Asks which samples make up the batch. The order may take its time over a permutation, so the lock is open meanwhile. */
static void open_batch(pdl_loader_t *loader)
{
    pdl__slot_t *slot = &loader->slots[loader->filling % loader->slot_count];
    pdl_status_t status;

    slot->epoch = loader->epoch;
    slot->step = loader->step;
    slot->status = PDL_OK;
    loader->opening = true;
    pthread_mutex_unlock(&loader->lock);
    status =
        loader->spec.order(loader->spec.order_context, slot->epoch, slot->step, loader->spec.samples, slot->index);
    pthread_mutex_lock(&loader->lock);
    loader->opening = false;
    if (++loader->step == loader->spec.steps_per_epoch && !loader->spec.gated) {
        loader->step = 0;
        loader->epoch++;
    }
    slot->left = loader->spec.samples;
    loader->given = 0;
    if (status) {
        note_failure(slot, 0, status);
        slot->left = 0;
        loader->given = -1;
        loader->filling++;
        pthread_cond_broadcast(&loader->ready);
    }
    pthread_cond_broadcast(&loader->work);
}

/* Takes some samples of the open batch and prepares them with the lock open. */
static void prepare_some(pdl__loader_worker_t *worker)
{
    pdl_loader_t *loader = worker->loader;
    pdl__slot_t  *slot = &loader->slots[loader->filling % loader->slot_count];
    const int64_t first = loader->given;
    const int64_t rest = loader->spec.samples - first;
    const int64_t count = rest < loader->chunk ? rest : loader->chunk;
    pdl_status_t  status = PDL_OK;
    int64_t       i;

    loader->given += count;
    if (loader->given == loader->spec.samples) {
        loader->given = -1;
        loader->filling++;
    }
    pthread_mutex_unlock(&loader->lock);
    for (i = 0; i < count && !status; i++) {
        if (atomic_load_explicit(&loader->hurry, memory_order_relaxed)) break;
        status = pdl__loader_prepare(worker, slot, first + i);
    }
    pthread_mutex_lock(&loader->lock);
    if (status) note_failure(slot, first + i - 1, status);
    slot->left -= count;
    if (slot->left == 0) pthread_cond_broadcast(&loader->ready);
}

static void *work(void *argument)
{
    pdl__loader_worker_t *worker = argument;
    pdl_loader_t         *loader = worker->loader;

    pthread_mutex_lock(&loader->lock);
    for (;;) {
        while (!loader->stop && !has_work(loader)) pthread_cond_wait(&loader->work, &loader->lock);
        if (loader->stop) break;
        loader->busy++;
        if (loader->given < 0) {
            open_batch(loader);
        } else {
            prepare_some(worker);
        }
        loader->busy--;
        if (loader->resting && loader->busy == 0) pthread_cond_broadcast(&loader->ready);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

static pdl_batch_t batch_of(const pdl_loader_t *loader, const pdl__slot_t *slot)
{
    return (pdl_batch_t){.epoch = slot->epoch,
                         .step = slot->step,
                         .bytes = slot->pixels,
                         .changes = slot->changes,
                         .scale = slot->pixels != NULL ? &loader->scale : NULL,
                         .values = slot->values,
                         .tokens = slot->tokens,
                         .labels = slot->labels,
                         .numbers = slot->numbers,
                         .weight = slot->weight,
                         .index = slot->index};
}

pdl_status_t pdl_loader_next(pdl_loader_t *loader, pdl_batch_t *batch)
{
    const double       start_s = pdl__seconds();
    const pdl__slot_t *slot;

    pthread_mutex_lock(&loader->lock);
    slot = &loader->slots[loader->next % loader->slot_count];
    if (loader->holding) {
        loader->holding = false; /* the batch before may be overwritten now */
        pthread_cond_broadcast(&loader->work);
    }
    if (loader->filling <= loader->next && epoch_is_over(loader)) {
        pthread_mutex_unlock(&loader->lock);
        return pdl_error(PDL_ERR_INPUT, "the epoch has no more than %lld steps: open the next one first",
                         (long long)loader->spec.steps_per_epoch);
    }
    /* The batch is complete when all of its samples were given out and came back. */
    while (loader->filling <= loader->next || slot->left > 0) pthread_cond_wait(&loader->ready, &loader->lock);
    if (slot->status) {
        pthread_mutex_unlock(&loader->lock);
        return pdl_error(slot->status, "%s", slot->message);
    }
    loader->next++;
    loader->holding = true;
    pthread_mutex_unlock(&loader->lock);
    *batch = batch_of(loader, slot);
    batch->waited_s = pdl__seconds() - start_s;
    return PDL_OK;
}

bool pdl_loader_peek(pdl_loader_t *loader, pdl_batch_t *batch)
{
    pthread_mutex_lock(&loader->lock);
    const pdl__slot_t *slot = &loader->slots[loader->next % loader->slot_count];
    bool               there = loader->filling > loader->next && slot->left == 0 && !slot->status;

    if (there) *batch = batch_of(loader, slot);
    pthread_mutex_unlock(&loader->lock);
    return there;
}

/* Begins anew at step `step` of an epoch of `steps` steps. */
static pdl_status_t go_on_at(pdl_loader_t *loader, int64_t epoch, int64_t step, int64_t steps)
{
    if (epoch < 0 || step < 0 || step >= steps) {
        return pdl_error(PDL_ERR_INPUT, "cannot go on at step %lld of epoch %lld: an epoch has %lld steps",
                         (long long)step, (long long)epoch, (long long)steps);
    }
    pthread_mutex_lock(&loader->lock);
    loader->resting = true;
    while (loader->busy > 0) pthread_cond_wait(&loader->ready, &loader->lock);
    loader->spec.steps_per_epoch = steps;
    loader->next = loader->filling = 0;
    loader->given = -1;
    loader->epoch = epoch;
    loader->step = step;
    loader->holding = loader->resting = false;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
    return PDL_OK;
}

pdl_status_t pdl_loader_seek(pdl_loader_t *loader, int64_t epoch, int64_t step)
{
    return go_on_at(loader, epoch, step, loader->spec.steps_per_epoch);
}

pdl_status_t pdl_loader_epoch(pdl_loader_t *loader, int64_t epoch, int64_t first, int64_t steps)
{
    return go_on_at(loader, epoch, first, steps);
}

#define LINE 64 /* bytes: where memory begins, and of which it is a multiple */

/* Bytes of rows x columns elements of `size` bytes; 0: they cannot be counted. */
static size_t bytes_of(int64_t rows, int64_t columns, size_t size)
{
    if (columns <= 0 || rows > INT64_MAX / columns || (uint64_t)(rows * columns) > (SIZE_MAX - LINE) / size)
        return 0;
    return ((size_t)(rows * columns) * size + LINE - 1) / LINE * LINE;
}

static pdl_status_t no_memory(int64_t rows, int64_t columns)
{
    return pdl_error(PDL_ERR_NOMEM, "out of memory for batches of %lld samples with %lld numbers each",
                     (long long)rows, (long long)columns);
}

static void give(const pdl_loader_t *loader, void *memory, size_t bytes)
{
    if (loader->spec.device != NULL)
        loader->spec.device->ops->release(loader->spec.device, PDL_SPACE_PINNED, memory, bytes);
    else
        free(memory);
}

void pdl_loader_destroy(pdl_loader_t *loader)
{
    if (loader == NULL) return;
    pthread_mutex_lock(&loader->lock);
    loader->stop = true;
    atomic_store(&loader->hurry, true);
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
    for (int i = 0; i < loader->started; i++) pthread_join(loader->workers[i].thread, NULL);
    for (int i = 0; loader->workers != NULL && i < loader->spec.threads; i++) {
        free(loader->workers[i].values);
        free(loader->workers[i].labels);
    }
    for (int i = 0; loader->slots != NULL && i < loader->slot_count; i++) {
        pdl__slot_t *slot = &loader->slots[i];

        give(loader, slot->memory, slot->bytes);
        free(slot->index);
    }
    free(loader->workers);
    free(loader->slots);
    pthread_cond_destroy(&loader->ready);
    pthread_cond_destroy(&loader->work);
    pthread_mutex_destroy(&loader->lock);
    free(loader);
}

/* Zeroed memory for rows x columns elements of `size` bytes that is really there: a page that the system hands out at its
   first use would cost the first steps their time. */
static pdl_status_t take(int64_t rows, int64_t columns, size_t size, void *result)
{
    size_t bytes = bytes_of(rows, columns, size);
    void  *memory = bytes > 0 ? aligned_alloc(LINE, bytes) : NULL;

    if (memory == NULL) return no_memory(rows, columns);
    memset(memory, 0, bytes);
    memcpy(result, &memory, sizeof(memory));
    return PDL_OK;
}

/* Parts of a slot: samples, targets, weights and changes, one behind the other in one piece of memory. */
static pdl_status_t take_slot(const pdl_loader_t *loader, pdl__slot_t *slot)
{
    const pdl_source_info_t *info = loader->info;
    const int64_t            samples = loader->spec.samples;
    const bool               bytes = loader->spec.bytes;
    pdl_tensor_device_t     *device = loader->spec.device;
    size_t data = bytes_of(samples, info->tokens ? loader->positions : loader->elements, bytes ? 1 : 4);
    size_t targets = bytes_of(samples, info->target_count, 4), weight = bytes_of(samples, 1, 4);
    size_t changes = bytes ? bytes_of(samples, 1, sizeof(*slot->changes)) : 0;
    void  *memory = NULL;

    if (data == 0 || targets == 0 || data > SIZE_MAX / 4 || targets > SIZE_MAX / 4)
        return no_memory(samples, loader->elements);
    slot->bytes = data + targets + weight + changes;
    if (device == NULL) memory = aligned_alloc(LINE, slot->bytes);
    if (device != NULL && device->ops->alloc(device, PDL_SPACE_PINNED, slot->bytes, &memory)) memory = NULL;
    slot->memory = memory;
    if (memory == NULL) return no_memory(samples, loader->elements);
    memset(memory, 0, slot->bytes);
    char *at = memory;
    slot->tokens = info->tokens ? (int32_t *)(void *)at : NULL;
    slot->values = info->tokens || bytes ? NULL : (float *)(void *)at;
    slot->pixels = bytes ? (uint8_t *)at : NULL;
    at += data;
    slot->numbers = info->target == PDL_TARGET_VALUES ? (float *)(void *)at : NULL;
    slot->labels = info->target == PDL_TARGET_VALUES ? NULL : (int32_t *)(void *)at;
    slot->weight = (float *)(void *)(at + targets);
    slot->changes = bytes ? (pdl_image_change_t *)(void *)(at + targets + weight) : NULL;
    return take(samples, 1, sizeof(int64_t), &slot->index);
}

/* Memory of all slots and workers; the threads come last. */
static pdl_status_t take_memory(pdl_loader_t *loader)
{
    const bool   masks = loader->info->target == PDL_TARGET_MASK && loader->moves;
    pdl_status_t status = PDL_OK;

    loader->slots = calloc((size_t)loader->slot_count, sizeof(*loader->slots));
    loader->workers = calloc((size_t)loader->spec.threads, sizeof(*loader->workers));
    if (loader->slots == NULL || loader->workers == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (int i = 0; !status && i < loader->slot_count; i++) status = take_slot(loader, &loader->slots[i]);
    for (int i = 0; !status && i < loader->spec.threads; i++) {
        pdl__loader_worker_t *worker = &loader->workers[i];

        worker->loader = loader;
        if (loader->moves && !loader->spec.bytes)
            status = take(1, loader->elements, sizeof(float), &worker->values);
        if (!status && masks) status = take(1, loader->info->target_count, sizeof(int32_t), &worker->labels);
    }
    return status;
}

static pdl_status_t start_workers(pdl_loader_t *loader)
{
    pthread_attr_t attributes;
    sigset_t       all, before;
    int            code = pthread_attr_init(&attributes);

    if (code != 0) return pdl_error(PDL_ERR_LIMIT, "cannot start loader threads: %s", strerror(code));
    pdl__affinity_of_process(&attributes);
    /* Signals such as Ctrl-C are for the thread that trains. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (code == 0 && loader->started < loader->spec.threads) {
        pdl__loader_worker_t *worker = &loader->workers[loader->started];

        code = pthread_create(&worker->thread, &attributes, work, worker);
        if (code == 0) loader->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (code == 0) return PDL_OK;
    return pdl_error(PDL_ERR_LIMIT, "cannot start loader thread %d of %d: %s", loader->started + 1,
                     loader->spec.threads, strerror(code));
}

static pdl_status_t check_spec(const pdl_loader_spec_t *spec, const pdl_source_info_t *info)
{
    const pdl_augmentation_t *wanted = &spec->augmentation;

    if (spec->samples < 1 || spec->threads < 1 || spec->depth < 1 || spec->steps_per_epoch < 1) {
        return pdl_error(
            PDL_ERR_INPUT,
            "a loader needs at least one sample, thread, batch ahead and step (given: %lld, %d, %d, %lld)",
            (long long)spec->samples, spec->threads, spec->depth, (long long)spec->steps_per_epoch);
    }
    if (wanted->crop_pad < 0 || wanted->cutout < 0 || wanted->crop_pad > INT32_MAX || wanted->cutout > INT32_MAX) {
        return pdl_error(PDL_ERR_INPUT,
                         "crop padding %lld and cutout %lld cannot be used: give small counts of pixels",
                         (long long)wanted->crop_pad, (long long)wanted->cutout);
    }
    if (spec->bytes && !info->bytes)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: its samples are no images of bytes of this size", info->name);
    if (info->target == PDL_TARGET_MASK && pdl__augment_moves(wanted) &&
        info->target_count != pdl_shape_positions(&info->shape)) {
        return pdl_error(PDL_ERR_INPUT,
                         "%s: samples and their masks differ in size, so they cannot be cropped or flipped",
                         info->name);
    }
    return PDL_OK;
}

pdl_status_t pdl_loader_create(const pdl_loader_spec_t *spec, pdl_loader_t **result)
{
    const pdl_source_info_t *info = pdl_source_info(spec->source);
    pdl_status_t             status = check_spec(spec, info);
    pdl_loader_t            *loader;

    if (status) return status;
    loader = calloc(1, sizeof(*loader));
    if (loader == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    loader->spec = *spec;
    loader->info = info;
    loader->elements = pdl_shape_elements(&info->shape);
    loader->positions = pdl_shape_positions(&info->shape);
    loader->moves = !info->tokens && pdl__augment_moves(&spec->augmentation);
    loader->scale = pdl__loader_scale(loader);
    loader->slot_count = spec->depth + 1;
    loader->given = -1;
    if (spec->gated) loader->step = spec->steps_per_epoch; /* closed until pdl_loader_epoch() */
    /* A few portions for each worker even out what they cost; a portion of many small samples saves on the lock. */
    loader->chunk = spec->samples / ((int64_t)spec->threads * 4);
    if (loader->chunk < 1) loader->chunk = 1;
    atomic_init(&loader->hurry, false);
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->work, NULL);
    pthread_cond_init(&loader->ready, NULL);
    status = take_memory(loader);
    if (!status) status = start_workers(loader);
    if (status) {
        pdl_loader_destroy(loader);
        return status;
    }
    *result = loader;
    return PDL_OK;
}
