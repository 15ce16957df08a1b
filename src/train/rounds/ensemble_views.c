/*
 * A gated loader for every net; a turn of a worker is an epoch of all of them.
 */
#include "train/rounds/ensemble_views.h"
#include <paradl/base/random.h>
#include <stdlib.h>
#include <string.h>

struct pdl__view_source {
    pdl__view_source_spec_t spec;
    pdl_loader_t          **loader; /* [nets] */
    int64_t                 round, epochs, steps;
    const int64_t *const   *ids;
    const int64_t          *count;
    int64_t                *order, samples, capacity; /* of the turn at hand */
};

static pdl_status_t order_of(void *context, int64_t epoch, int64_t step, int64_t count, int64_t *indices)
{
    const pdl__view_source_t *s = context;

    (void)epoch;
    for (int64_t i = 0; i < count; i++) indices[i] = s->order[(step * count + i) % s->samples];
    return PDL_OK;
}

pdl_status_t pdl__view_source_create(const pdl__view_source_spec_t *spec, pdl__view_source_t **out)
{
    pdl__view_source_t *s = calloc(1, sizeof(*s));
    pdl_status_t        status = PDL_OK;

    if (s) s->loader = calloc((size_t)spec->nets, sizeof(pdl_loader_t *));
    if (!s || !s->loader) {
        free(s);
        return pdl_error(PDL_ERR_NOMEM, "out of memory for batches");
    }
    s->spec = *spec;
    s->spec.loader.order = order_of;
    s->spec.loader.order_context = s;
    s->spec.loader.gated = true;
    s->spec.loader.steps_per_epoch = 1;
    for (int n = 0; n < spec->nets && !status; n++) {
        pdl_loader_spec_t loader = s->spec.loader;
        loader.seed = spec->loader.seed + (uint64_t)n;
        status = pdl_loader_create(&loader, &s->loader[n]);
    }
    if (status) {
        pdl__view_source_destroy(s);
        return status;
    }
    *out = s;
    return PDL_OK;
}

void pdl__view_source_destroy(pdl__view_source_t *s)
{
    if (!s) return;
    for (int n = 0; n < s->spec.nets; n++) pdl_loader_destroy(s->loader[n]);
    free(s->loader);
    free(s->order);
    free(s);
}

pdl_status_t pdl__view_source_begin(pdl__view_source_t *s, int64_t round, int64_t epochs, int64_t steps,
                                    const int64_t *const *ids, const int64_t *count)
{
    int64_t most = 0;

    for (int64_t w = 0; w < s->spec.workers; w++)
        if (count[w] > most) most = count[w];
    if (most > s->capacity) {
        int64_t *grown = realloc(s->order, (size_t)most * sizeof(*grown));
        if (!grown) return pdl_error(PDL_ERR_NOMEM, "out of memory for %lld samples", (long long)most);
        s->order = grown;
        s->capacity = most;
    }
    s->round = round;
    s->epochs = epochs;
    s->steps = steps;
    s->ids = ids;
    s->count = count;
    return PDL_OK;
}

/* The loaders have prepared all of the turn before and read the order no more. */
static pdl_status_t open_turn(void *context, int64_t worker, int64_t epoch)
{
    pdl__view_source_t *s = context;
    const int64_t      *ids = s->ids[worker];
    int64_t             number = s->round * s->epochs + epoch;
    pdl_status_t        status = PDL_OK;

    s->samples = s->count[worker];
    if (epoch > 0) {
        pdl_random_permutation(s->spec.seed, pdl_random_stream("local epoch", (uint64_t)worker, (uint64_t)number),
                               s->samples, s->order);
        for (int64_t i = 0; i < s->samples; i++) s->order[i] = ids[s->order[i]];
    } else {
        memcpy(s->order, ids, (size_t)s->samples * sizeof(*ids));
    }
    for (int n = 0; n < s->spec.nets && !status; n++) status = pdl_loader_epoch(s->loader[n], number, 0, s->steps);
    return status;
}

static pdl_status_t next_view(void *context, int net, pdl_batch_t *batch)
{
    pdl__view_source_t *s = context;

    return pdl_loader_next(s->loader[net], batch);
}

pdl__views_t pdl__view_source_views(pdl__view_source_t *s)
{
    return (pdl__views_t){.open = open_turn, .next = next_view, .context = s};
}
