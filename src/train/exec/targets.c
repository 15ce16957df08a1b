/*
 * What a loss reads besides its input, and what it says of every sample: to the device and home again.
 */
#include "train/exec/session.h"
#include <stdlib.h>
#include <string.h>

double pdl__loss_share(const pdl_session_t *s)
{
    double share = s->graph->unit[s->graph->loss].spec.share;

    return share > 0 ? share : 1;
}

static int64_t loss_samples(const pdl_session_t *s)
{
    return pdl__region_samples(&s->graph->unit[s->graph->loss].region);
}

static bool is_regression(const pdl_session_t *s)
{
    return pdl_layer_traits(s->graph->unit[s->graph->loss].spec.layer)->loss == PDL_LOSS_VALUES;
}

/* Whether labels have to be copied before the loss can read them: this rank has some of the positions. */
static bool copies_labels(const pdl_session_t *s)
{
    return pdl__loss_share(s) != 1;
}

static size_t padded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

size_t pdl__targets_place(pdl_session_t *s, size_t at)
{
    pdl__targets_t    *t = &s->executor.targets;
    pdl_backend_t     *backend = s->spec.backend;
    const pdl_shape_t *predicted;
    int64_t            samples;

    if (s->graph->loss < 0) return at;
    predicted = &s->graph->unit[s->graph->unit[s->graph->loss].input[0]].shape;
    samples = loss_samples(s);
    t->numbers_at = at;
    if (is_regression(s)) at += padded(backend->ops->tensor_bytes(backend, predicted, samples, PDL_FORMAT_PLAIN));
    t->labels_at = at;
    if (!is_regression(s) && copies_labels(s))
        at += padded((size_t)(samples * pdl_shape_positions(predicted)) * sizeof(int32_t));
    return at;
}

pdl_status_t pdl__targets_create(pdl_session_t *s)
{
    void        *home = NULL;
    size_t       bytes = (size_t)s->count * 3 * pdl_dtype_bytes(s->spec.backend->weight_type);
    pdl_status_t status = s->executor.device->ops->alloc(s->executor.device, PDL_SPACE_PINNED, bytes, &home);

    if (status) return status;
    memset(home, 0, bytes);
    s->executor.targets.home = home;
    s->executor.targets.coming = calloc((size_t)s->micro_batches, sizeof(*s->executor.targets.coming));
    s->executor.results = calloc((size_t)s->count * 3, sizeof(*s->executor.results));
    if (s->executor.results && s->executor.targets.coming) return PDL_OK;
    return pdl_error(PDL_ERR_NOMEM, "out of memory for the results of %lld samples", (long long)s->count);
}

void pdl__targets_destroy(pdl_session_t *s)
{
    size_t bytes = (size_t)s->count * 3 * pdl_dtype_bytes(s->spec.backend->weight_type);

    if (s->executor.targets.home)
        s->executor.device->ops->release(s->executor.device, PDL_SPACE_PINNED, s->executor.targets.home, bytes);
    free(s->executor.targets.coming);
    free(s->executor.results);
}

/* Which of this rank's samples is the first whose loss it computes in a micro-batch. */
static int64_t first_result(const pdl_session_t *s, int64_t micro_batch)
{
    return micro_batch * s->micro_samples + pdl__region_first(s->layouts, &s->graph->unit[s->graph->loss].region);
}

static pdl_status_t copy(pdl_session_t *s, void *to, const void *from, size_t bytes)
{
    return s->executor.device->ops->copy(s->executor.device, s->executor.stream[PDL_STREAM_COMPUTE], to, from,
                                         bytes);
}

/* The labels of the positions that this rank has, in rows as long as they are one behind the other. */
static pdl_status_t copy_labels(pdl_session_t *s, const int32_t *all, int32_t *to)
{
    const pdl__unit_t  *loss = &s->graph->unit[s->graph->loss];
    const pdl_region_t *region = &s->graph->unit[loss->input[0]].region;
    const pdl_shape_t  *whole = &pdl_model_layer(s->spec.plan->model, loss->layer)->in;
    const pdl_range_t  *r[PDL_MAX_SPACE];
    int64_t             run, lines[PDL_MAX_SPACE];
    pdl_status_t        status = PDL_OK;
    int                 d = PDL_MAX_SPACE - 1;

    for (int k = 0; k < PDL_MAX_SPACE; k++) {
        r[k] = &region->range[PDL_DIM_SPACE + k][0];
        lines[k] = r[k]->high - r[k]->low;
    }
    for (run = lines[d]; d > 0 && lines[d] == whole->extent[d]; d--) run *= lines[d - 1];
    for (int k = d; k < PDL_MAX_SPACE; k++) lines[k] = 1;
    for (int64_t n = 0; n < pdl__region_samples(region); n++)
        for (int64_t i = 0; i < lines[0]; i++)
            for (int64_t j = 0; j < lines[1] && !status; j++, to += run) {
                int64_t row = (n * whole->extent[0] + r[0]->low + i) * whole->extent[1] + r[1]->low + j;
                status = copy(s, to, all + row * whole->extent[2] + r[2]->low, (size_t)run * sizeof(*to));
            }
    return status;
}

pdl_status_t pdl__targets_set(pdl_session_t *s, int64_t micro_batch, pdl_op_run_t *run)
{
    const pdl__targets_t *t = &s->executor.targets;
    const pdl_batch_t    *batch = &s->executor.input.batch;
    const pdl_layer_t    *layer = pdl_model_layer(s->spec.plan->model, s->graph->unit[s->graph->loss].layer);
    int64_t               from = first_result(s, micro_batch), samples = loss_samples(s);

    run->loss_scale *= pdl__loss_share(s);
    run->sample_weight = batch->weight + from;
    if (is_regression(s)) {
        int64_t elements = pdl_shape_elements(&layer->in);
        run->target = s->executor.small + t->numbers_at;
        return s->spec.backend->ops->from_float(s->spec.backend, s->executor.stream[PDL_STREAM_COMPUTE],
                                                batch->numbers + from * elements, samples * elements,
                                                s->executor.small + t->numbers_at);
    }
    const int32_t *labels = batch->labels + from * pdl_shape_positions(&layer->in);
    run->target = copies_labels(s) ? s->executor.small + t->labels_at : (const void *)labels;
    if (!copies_labels(s)) return PDL_OK;
    return copy_labels(s, labels, (int32_t *)(void *)(s->executor.small + t->labels_at));
}

/* The results of a micro-batch, where they come home. */
static char *home_of(const pdl_session_t *s, int64_t micro_batch)
{
    return s->executor.targets.home +
           (size_t)(micro_batch * 3 * loss_samples(s)) * pdl_dtype_bytes(s->spec.backend->weight_type);
}

pdl_status_t pdl__results_keep(pdl_session_t *s, int64_t micro_batch, const void *output)
{
    s->executor.targets.coming[micro_batch] = true;
    return copy(s, home_of(s, micro_batch), output,
                (size_t)(3 * loss_samples(s)) * pdl_dtype_bytes(s->spec.backend->weight_type));
}

/* From where they have come home to their places in the batch. */
static void place_results(pdl_session_t *s, int64_t micro_batch)
{
    const void *home = home_of(s, micro_batch);
    bool        doubles = s->spec.backend->weight_type == PDL_DTYPE_F64;
    float       share = (float)pdl__loss_share(s);
    int64_t     first = first_result(s, micro_batch), samples = loss_samples(s);

    for (int64_t i = 0; i < 3 * samples; i++) {
        float value = doubles ? (float)((const double *)home)[i] : ((const float *)home)[i];
        s->executor.results[i / samples * s->count + first + i % samples] = value * share;
    }
}

pdl_status_t pdl__results_fetch(pdl_session_t *s)
{
    pdl_status_t status =
        s->executor.device->ops->synchronise(s->executor.device, s->executor.stream[PDL_STREAM_COMPUTE]);

    for (int m = 0; m < s->micro_batches && !status; m++) {
        if (s->executor.targets.coming[m]) place_results(s, m);
        s->executor.targets.coming[m] = false;
    }
    return status;
}
