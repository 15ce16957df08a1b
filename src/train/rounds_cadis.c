/*
 * CADIS (CCGRID 2023): workers whose classifiers change alike form a cluster, and clusters have equal weight in the
 * mean. Local training is held back from forgetting what the common model knows: lambda KL(common || own) is added
 * to the loss.
 */
#include "train/agreement.h"
#include "train/clusters.h"
#include "train/rounds_inside.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last linear layer of the model. */
static pdl_status_t find_classifier(pdl__rounds_t *r)
{
    const pdl_model_t *model = r->session->spec.plan->model;
    char               name[512];

    for (int i = pdl_model_layer_count(model) - 1; i >= 0; i--) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        if (layer->type != PDL_LAYER_LINEAR) continue;
        snprintf(name, sizeof(name), "%s.weight", layer->name);
        r->cadis.tensor = pdl_session_find(r->session, name);
        if (r->cadis.tensor < 0) break;
        r->cadis.classes = pdl_session_tensor(r->session, r->cadis.tensor)->dims[0];
        r->cadis.features = pdl_session_tensor(r->session, r->cadis.tensor)->dims[1];
        return PDL_OK;
    }
    return pdl_error(PDL_ERR_UNSUPPORTED,
                     "--aggregate cadis compares the last linear layer, and %s has none: use local or sem",
                     pdl_model_name(model));
}

/* The hook: remembers what the common weights say, then pulls what the worker's say towards it. */
static void look(void *context, const pdl_logits_t *logits)
{
    pdl__rounds_t *r = context;
    pdl__cadis_t  *c = &r->cadis;
    float         *teacher = c->teacher + logits->first * logits->classes;

    if (c->teaches) {
        memcpy(teacher, logits->values, (size_t)(logits->samples * logits->classes) * sizeof(float));
        return;
    }
    for (int64_t i = 0; i < logits->samples && c->distills && logits->extra; i++) {
        double  scale = r->spec.options.distill * logits->scale * (double)logits->weight[i];
        int64_t at = i * logits->classes;
        pdl__distill(logits->classes, teacher + at, logits->values + at, r->spec.options.temperature, scale,
                     c->work, logits->extra + at);
    }
    if (c->before) c->before(c->before_context, logits);
}

static pdl_status_t take(pdl__rounds_t *r)
{
    pdl__cadis_t *c = &r->cadis;
    size_t        update = (size_t)(c->classes * c->features), logits = (size_t)r->session->logits.classes;

    c->update = calloc((size_t)r->workers * update, sizeof(*c->update));
    c->common = calloc(update, sizeof(*c->common));
    c->state = calloc((size_t)(r->workers * r->workers) + 1, sizeof(*c->state));
    c->teacher = calloc((size_t)r->session->count * logits, sizeof(*c->teacher));
    c->work = calloc(2 * logits, sizeof(*c->work));
    if (c->update && c->common && c->state && c->teacher && c->work) return PDL_OK;
    return pdl_error(PDL_ERR_NOMEM, "out of memory for the classifiers of %lld workers", (long long)r->workers);
}

pdl_status_t pdl__cadis_create(pdl__rounds_t *r)
{
    pdl_session_t *s = r->session;

    if (!s->layouts->trivial || s->layouts->stages->count > 1)
        return pdl_error(PDL_ERR_INPUT, "--aggregate cadis compares whole classifiers: use --strategy data");
    r->cadis.before = s->logits.call;
    r->cadis.before_context = s->logits.context;
    pdl_status_t status = find_classifier(r);
    if (!status) status = pdl__logits_create(s, look, r);
    return status ? status : take(r);
}

void pdl__cadis_destroy(pdl__rounds_t *r)
{
    pdl__cadis_t *c = &r->cadis;

    if (r->session->logits.call == look) {
        r->session->logits.call = c->before;
        r->session->logits.context = c->before_context;
    }
    free(c->update);
    free(c->common);
    free(c->state);
    free(c->teacher);
    free(c->work);
}

pdl_status_t pdl__cadis_teach(pdl__rounds_t *r, const pdl_batch_t *batch, int bank)
{
    pdl__play_t  play = {.batch = batch, .mode = PDL__PLAY_EVALUATE};
    pdl_status_t status = pdl__bank_select(r->session, PDL__COMMON_BANK);

    r->cadis.teaches = true;
    if (!status) status = pdl__session_play(r->session, r->session->forward_tape, &play);
    r->cadis.teaches = false;
    return status ? status : pdl__bank_select(r->session, bank);
}

/* The changes of all workers' classifiers, on every rank. */
static pdl_status_t gather_updates(pdl__rounds_t *r)
{
    pdl__cadis_t *c = &r->cadis;
    int64_t       elements = c->classes * c->features, low, high;
    pdl_status_t  status = pdl__bank_select(r->session, PDL__COMMON_BANK);

    if (!status) status = pdl_session_get(r->session, c->tensor, PDL_ARRAY_WEIGHT, c->common);
    for (int64_t w = 0; w < r->count && !status; w++) {
        float *update = c->update + (r->first + w) * elements;
        status = pdl__bank_select(r->session, r->bank[w]);
        if (!status) status = pdl_session_get(r->session, c->tensor, PDL_ARRAY_WEIGHT, update);
        for (int64_t i = 0; i < elements; i++) update[i] -= c->common[i];
    }
    for (int k = 0; k < pdl_ranks_size(r->ranks) && !status; k++) {
        pdl_block_range(r->workers, pdl_ranks_size(r->ranks), k, &low, &high);
        status = pdl_ranks_broadcast(r->ranks, c->update + low * elements,
                                     (high - low) * elements * (int64_t)sizeof(float), k);
    }
    return status;
}

pdl_status_t pdl__cadis_shares(pdl__rounds_t *r, double *mean)
{
    pdl__cadis_t *c = &r->cadis;
    int64_t       elements = c->classes * c->features, n = r->workers;
    double       *similarity = c->state + 1, sum = 0;
    pdl_status_t  status = gather_updates(r);

    if (status) return status;
    for (int64_t u = 0; u < n; u++)
        for (int64_t v = u + 1; v < n; v++) {
            double now =
                pdl__update_similarity(c->classes, c->features, c->update + u * elements, c->update + v * elements);
            double *smooth = &similarity[u * n + v];
            *smooth += (now - *smooth) / (double)(r->round + 1);
            similarity[v * n + u] = *smooth;
            sum += *smooth;
        }
    *mean = n > 1 ? sum / ((double)n * (double)(n - 1) / 2) : 1;
    r->clusters = pdl__find_clusters(n, similarity, r->spec.options.threshold, r->cluster);
    pdl__cluster_shares(n, r->clusters, r->cluster, r->samples, r->share);
    return PDL_OK;
}
