/*
 * What becomes of one sample of a batch: read, moved, cut and scaled; or, of images that stay bytes, read, and the rest is
 * left to the device.
 */
#include "data/load/loader.h"

#include <paradl/base/random.h>

#include <string.h>

pdl_image_scale_t pdl__loader_scale(const pdl_loader_t *loader)
{
    const pdl_source_info_t *info = loader->info;
    pdl_image_scale_t        scale = {{0}, {0}, {0}};

    for (int c = 0; c < PDL_IMAGE_CHANNELS; c++) {
        const bool known = c < info->mean_count;

        scale.factor[c] = 1;
        if (!known) continue;
        scale.cut[c] = (float)info->mean[c];
        if (!loader->spec.normalise) continue;
        scale.shift[c] = (float)info->mean[c];
        scale.factor[c] = 1 / (info->deviation[c] > 0 ? (float)info->deviation[c] : 1);
    }
    return scale;
}

static void clear_sample(const pdl_loader_t *loader, pdl__slot_t *slot, int64_t place)
{
    const size_t targets = (size_t)loader->info->target_count;
    const size_t start = (size_t)place * targets;

    if (slot->values != NULL) {
        memset(slot->values + place * loader->elements, 0, (size_t)loader->elements * sizeof(float));
    }
    if (slot->tokens != NULL) {
        memset(slot->tokens + place * loader->positions, 0, (size_t)loader->positions * sizeof(int32_t));
    }
    if (slot->changes != NULL) slot->changes[place] = (pdl_image_change_t){.empty = 1};
    if (slot->labels != NULL) memset(slot->labels + start, 0, targets * sizeof(int32_t));
    if (slot->numbers != NULL) memset(slot->numbers + start, 0, targets * sizeof(float));
    slot->weight[place] = 0;
}

static pdl_status_t read_tokens(pdl_loader_t *loader, pdl__slot_t *slot, int64_t place)
{
    const int64_t targets = loader->info->target_count;
    pdl_sample_t  sample = {.tokens = slot->tokens + place * loader->positions};

    if (slot->labels != NULL) sample.labels = slot->labels + place * targets;
    if (slot->numbers != NULL) sample.numbers = slot->numbers + place * targets;
    if (loader->spec.shift_tokens && loader->positions > 1) {
        /* All windows of an epoch move together, so that every token is still seen once. */
        sample.shift = (int64_t)pdl_random_below(loader->spec.seed, pdl_random_stream("token shift", 0, 0),
                                                 (uint64_t)slot->epoch, (uint64_t)loader->positions);
    }
    return pdl_source_read(loader->spec.source, slot->index[place], &sample);
}

/* Moves, cuts and scales the channels of a sample that was read to worker->values, or where it is to be. */
static void finish_values(pdl__loader_worker_t *worker, const pdl_image_change_t *change, float *values)
{
    const pdl_loader_t *loader = worker->loader;
    const pdl_shape_t  *shape = &loader->info->shape;

    for (int64_t c = 0; c < shape->channels; c++, values += loader->positions) {
        if (loader->moves) pdl_image_move(change, shape, worker->values + c * loader->positions, values);
        pdl_image_finish(change, &loader->scale, shape, c, values);
    }
}

static pdl_status_t read_values(pdl__loader_worker_t *worker, pdl__slot_t *slot, int64_t place)
{
    pdl_loader_t            *loader = worker->loader;
    const pdl_source_info_t *info = loader->info;
    const int64_t            targets = info->target_count;
    const bool               mask = worker->labels != NULL;
    float                   *values = slot->values != NULL ? slot->values + place * loader->elements : NULL;
    int32_t                 *labels = slot->labels != NULL ? slot->labels + place * targets : NULL;
    pdl_sample_t             sample = {.values = values != NULL && loader->moves ? worker->values : values,
                                       .labels = mask ? worker->labels : labels};
    pdl_image_change_t       change;
    pdl_status_t             status;

    if (slot->numbers != NULL) sample.numbers = slot->numbers + place * targets;
    if (slot->pixels != NULL) sample.bytes = slot->pixels + place * loader->elements;
    status = pdl_source_read(loader->spec.source, slot->index[place], &sample);
    if (status) return status;
    pdl__augment_draw(&loader->spec.augmentation, &info->shape, loader->spec.seed, slot->epoch, slot->index[place],
                      &change);
    if (mask) pdl_image_move(&change, &info->shape, worker->labels, labels);
    if (slot->changes != NULL)
        slot->changes[place] = change;
    else
        finish_values(worker, &change, values);
    return PDL_OK;
}

pdl_status_t pdl__loader_prepare(pdl__loader_worker_t *worker, pdl__slot_t *slot, int64_t place)
{
    const int64_t index = slot->index[place], samples = worker->loader->info->samples;

    if (index == -1) {
        clear_sample(worker->loader, slot, place);
        return PDL_OK;
    }
    if (index < 0 || index >= samples) {
        return pdl_error(PDL_ERR_INPUT, "%s has %lld samples: there is no sample %lld", worker->loader->info->name,
                         (long long)samples, (long long)index);
    }
    slot->weight[place] =
        worker->loader->spec.weigh ? worker->loader->spec.weigh(worker->loader->spec.weigh_context, index) : 1;
    return worker->loader->info->tokens ? read_tokens(worker->loader, slot, place)
                                        : read_values(worker, slot, place);
}
