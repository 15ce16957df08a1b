/*
 * A gated loader whose epochs are the local epochs of a cycle. Its steps go through the workers piece by piece, as
 * the rounds do.
 */
#include "train/rounds/source.h"
#include <paradl/base/random.h>
#include <stdlib.h>
#include <string.h>

struct pdl__round_source {
    pdl__round_source_spec_t spec;
    pdl_loader_t            *loader;
    pdl__rounds_plan_t       plan;
    int64_t                  cycle, epoch, taken; /* of the cycle; local epoch of it; batches of that epoch */
    int64_t                 *begin;               /* [workers + 1]: where a worker's samples are in `ids` */
    int64_t                 *ids, *order;         /* as given; as they are trained on */
    int64_t                  capacity;
};

/* A pdl_order_fn_t. A worker that has fewer samples than the others begins again with its first. */
static pdl_status_t order_of(void *context, int64_t epoch, int64_t step, int64_t count, int64_t *indices)
{
    const pdl__round_source_t *s = context;
    int64_t                    piece = step / (s->spec.workers * s->plan.segment), from = piece * s->plan.segment;
    int64_t length = s->plan.steps - from < s->plan.segment ? s->plan.steps - from : s->plan.segment;
    int64_t rest = step - s->spec.workers * from, worker = rest / length, local = from + rest % length;
    int64_t begin = s->begin[worker], samples = s->begin[worker + 1] - begin;

    (void)epoch;
    for (int64_t i = 0; i < count; i++) indices[i] = s->order[begin + (local * count + i) % samples];
    return PDL_OK;
}

pdl_status_t pdl__round_source_create(const pdl__round_source_spec_t *spec, pdl__round_source_t **out)
{
    pdl__round_source_t *s = calloc(1, sizeof(*s));

    if (!s) return pdl_error(PDL_ERR_NOMEM, "out of memory for batches");
    s->spec = *spec;
    s->spec.loader.order = order_of;
    s->spec.loader.order_context = s;
    s->spec.loader.gated = true;
    s->spec.loader.steps_per_epoch = 1;
    s->begin = calloc((size_t)spec->workers + 1, sizeof(*s->begin));
    pdl_status_t status =
        s->begin ? pdl_loader_create(&s->spec.loader, &s->loader)
                 : pdl_error(PDL_ERR_NOMEM, "out of memory for %lld workers", (long long)spec->workers);
    if (status) {
        pdl__round_source_destroy(s);
        return status;
    }
    *out = s;
    return PDL_OK;
}

void pdl__round_source_destroy(pdl__round_source_t *s)
{
    if (!s) return;
    pdl_loader_destroy(s->loader);
    free(s->begin);
    free(s->ids);
    free(s);
}

/* The order of a local epoch after the first: drawn for each worker, whatever rank it is on. */
static void draw_orders(pdl__round_source_t *s)
{
    for (int64_t w = 0; w < s->spec.workers; w++) {
        int64_t  begin = s->begin[w], count = s->begin[w + 1] - begin, *order = s->order + begin;
        uint64_t number = (uint64_t)(s->cycle * s->plan.epochs + s->epoch);
        pdl_random_permutation(s->spec.seed,
                               pdl_random_stream("local epoch", (uint64_t)(s->spec.first + w), number), count,
                               order);
        for (int64_t i = 0; i < count; i++) order[i] = s->ids[begin + order[i]];
    }
}

static pdl_status_t open_epoch(pdl__round_source_t *s)
{
    if (s->epoch > 0) draw_orders(s);
    return pdl_loader_epoch(s->loader, s->cycle * s->plan.epochs + s->epoch, s->taken,
                            s->plan.steps * s->spec.workers);
}

static pdl_status_t keep_ids(pdl__round_source_t *s, const int64_t *const *ids, const int64_t *count)
{
    for (int64_t w = 0; w < s->spec.workers; w++) s->begin[w + 1] = s->begin[w] + count[w];
    int64_t all = s->begin[s->spec.workers];
    if (all > s->capacity) {
        int64_t *grown = realloc(s->ids, 2 * (size_t)all * sizeof(*grown));
        if (!grown) return pdl_error(PDL_ERR_NOMEM, "out of memory for %lld samples", (long long)all);
        s->ids = grown;
        s->capacity = all;
    }
    s->order = s->ids + all;
    for (int64_t w = 0; w < s->spec.workers; w++)
        memcpy(s->ids + s->begin[w], ids[w], (size_t)count[w] * sizeof(**ids));
    memcpy(s->order, s->ids, (size_t)all * sizeof(*s->ids));
    return PDL_OK;
}

pdl_status_t pdl__round_source_begin(pdl__round_source_t *s, int64_t cycle, const pdl__rounds_plan_t *plan,
                                     int64_t skip, const int64_t *const *ids, const int64_t *count)
{
    pdl_status_t status = keep_ids(s, ids, count);

    if (status) return status;
    s->plan = *plan;
    s->cycle = cycle;
    s->epoch = 0;
    s->taken = skip * plan->segment * s->spec.workers;
    return open_epoch(s);
}

pdl_status_t pdl__round_source_next(void *context, int64_t worker, pdl_batch_t *batch)
{
    pdl__round_source_t *s = context;
    pdl_status_t         status = PDL_OK;

    (void)worker;
    if (s->taken == s->plan.steps * s->spec.workers) {
        s->taken = 0;
        s->epoch++;
        status = open_epoch(s);
    }
    s->taken++;
    return status ? status : pdl_loader_next(s->loader, batch);
}
