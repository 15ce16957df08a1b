/*
 * CADIS (CCGRID 2023): workers whose classifiers change alike form a cluster, and clusters have equal weight in the
 * mean. Local training is held back from forgetting what the common model knows: lambda KL(common || own) is added
 * to the loss of samples on which the common model is the better one.
 */
#include "base/sorted.h"
#include "train/rounds/agreement.h"
#include "train/rounds/clusters.h"
#include "train/rounds/inside.h"
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
        if (!pdl_layer_is_linear(layer)) continue;
        snprintf(name, sizeof(name), "%s.weight", layer->name);
        r->cadis.weight = pdl_session_find(r->session, name);
        if (r->cadis.weight < 0) break;
        r->cadis.classes = pdl_session_tensor(r->session, r->cadis.weight)->dims[0];
        r->cadis.features = pdl_session_tensor(r->session, r->cadis.weight)->dims[1];
        snprintf(name, sizeof(name), "%s.bias", layer->name);
        r->cadis.bias = pdl_session_find(r->session, name);
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
        const float *own = logits->values + i * logits->classes, *common = teacher + i * logits->classes;
        double       weight = (double)logits->weight[i];
        if (weight == 0) continue; /* no sample, and no label */
        double trust = pdl__trust(logits->classes, common, own, logits->labels[i], c->work);
        pdl__distill(logits->classes, common, own, r->spec.options.temperature,
                     r->spec.options.distill * trust * logits->scale * weight, c->work,
                     logits->extra + i * logits->classes);
        c->trust[0] += weight * trust;
        c->trust[1] += weight;
    }
    if (c->before) c->before(c->before_context, logits);
}

int64_t pdl__cadis_numbers(const pdl__rounds_t *r)
{
    return 1 + r->workers * r->workers * (int64_t)(sizeof(pdl__overlap_t) / sizeof(double));
}

static pdl_status_t take(pdl__rounds_t *r)
{
    pdl__cadis_t *c = &r->cadis;
    size_t layer = (size_t)(c->classes * (c->features + 1)), logits = (size_t)r->session->executor.logits.classes;
    size_t workers = (size_t)r->workers, row = workers > logits ? workers : logits;

    c->change = calloc(workers * layer, sizeof(*c->change));
    c->common = calloc(layer, sizeof(*c->common));
    c->state = calloc((size_t)pdl__cadis_numbers(r), sizeof(*c->state));
    c->similarity = calloc(workers * workers, sizeof(*c->similarity));
    c->teacher = calloc((size_t)r->session->count * logits, sizeof(*c->teacher));
    c->work = calloc(2 * row, sizeof(*c->work));
    c->pairs = calloc(workers * workers, sizeof(*c->pairs));
    if (c->change && c->common && c->state && c->similarity && c->teacher && c->work && c->pairs) return PDL_OK;
    return pdl_error(PDL_ERR_NOMEM, "out of memory for the classifiers of %lld workers", (long long)r->workers);
}

pdl_status_t pdl__cadis_create(pdl__rounds_t *r)
{
    pdl_session_t *s = r->session;

    if (!s->layouts->trivial || s->layouts->stages->count > 1)
        return pdl_error(PDL_ERR_INPUT, "--aggregate cadis compares whole classifiers: use --strategy data");
    r->cadis.before = s->executor.logits.call;
    r->cadis.before_context = s->executor.logits.context;
    pdl_status_t status = find_classifier(r);
    if (!status) status = pdl__logits_create(s, look, r);
    return status ? status : take(r);
}

void pdl__cadis_destroy(pdl__rounds_t *r)
{
    pdl__cadis_t *c = &r->cadis;

    if (r->session->executor.logits.call == look) {
        r->session->executor.logits.call = c->before;
        r->session->executor.logits.context = c->before_context;
    }
    free(c->change);
    free(c->common);
    free(c->state);
    free(c->similarity);
    free(c->teacher);
    free(c->work);
    free(c->pairs);
}

pdl_status_t pdl__cadis_teach(pdl__rounds_t *r, const pdl_batch_t *batch, int set)
{
    pdl__execution_t execution = {.batch = batch, .mode = PDL__EXECUTE_EVALUATE};
    pdl_status_t     status = pdl__weight_set_select(r->session, PDL__COMMON_SET);

    r->cadis.teaches = true;
    if (!status) status = pdl__session_execute(r->session, r->session->forward_program, &execution);
    r->cadis.teaches = false;
    return status ? status : pdl__weight_set_select(r->session, set);
}

/* The last linear layer of the model that is there: weights, then biases. */
static pdl_status_t get_layer(pdl__rounds_t *r, int set, float *layer)
{
    pdl__cadis_t *c = &r->cadis;
    pdl_status_t  status = pdl__weight_set_select(r->session, set);

    if (!status) status = pdl_session_get(r->session, c->weight, PDL_ARRAY_WEIGHT, layer);
    if (!status && c->bias >= 0)
        status = pdl_session_get(r->session, c->bias, PDL_ARRAY_WEIGHT, layer + c->classes * c->features);
    return status;
}

/* The changes of all workers' classifiers, on every rank. */
static pdl_status_t gather_changes(pdl__rounds_t *r)
{
    pdl__cadis_t *c = &r->cadis;
    int64_t       elements = c->classes * (c->features + 1), low, high;
    pdl_status_t  status = get_layer(r, PDL__COMMON_SET, c->common);

    for (int64_t w = 0; w < r->count && !status; w++) {
        float *change = c->change + (r->first + w) * elements;
        status = get_layer(r, r->weight_set[w], change);
        for (int64_t i = 0; i < elements; i++) change[i] -= c->common[i];
    }
    for (int k = 0; k < pdl_ranks_size(r->ranks) && !status; k++) {
        pdl_block_range(r->workers, pdl_ranks_size(r->ranks), k, &low, &high);
        status = pdl_ranks_broadcast(r->ranks, c->change + low * elements,
                                     (high - low) * elements * (int64_t)sizeof(float), k);
    }
    return status;
}

static pdl__update_t change_of(const pdl__cadis_t *c, int64_t worker)
{
    const float *change = c->change + worker * c->classes * (c->features + 1);

    return (pdl__update_t){change, c->bias >= 0 ? change + c->classes * c->features : NULL};
}

/* The similarities of all pairs, with this round. */
static void compare_workers(pdl__rounds_t *r)
{
    pdl__cadis_t   *c = &r->cadis;
    pdl__overlap_t *overlap = (pdl__overlap_t *)(c->state + 1);
    int64_t         n = r->workers;

    for (int64_t u = 0; u < n; u++)
        for (int64_t v = u + 1; v < n; v++) {
            pdl__overlap_t *of_u = &overlap[u * n + v], *of_v = &overlap[v * n + u];
            pdl__update_t   a = change_of(c, u), b = change_of(c, v);
            pdl__add_overlap(c->classes, c->features, &a, &b, of_u, of_v);
            c->similarity[u * n + v] = c->similarity[v * n + u] = pdl__likeness(of_u, of_v);
        }
}

/* Least, median and most of all pairs; a single worker is like itself. */
static void describe_similarity(pdl__cadis_t *c, int64_t workers, double similarity[3])
{
    int64_t pairs = 0;

    for (int64_t u = 0; u < workers; u++)
        for (int64_t v = u + 1; v < workers; v++) c->pairs[pairs++] = c->similarity[u * workers + v];
    if (pairs == 0) c->pairs[pairs++] = 1;
    similarity[1] = pdl__median(c->pairs, (size_t)pairs);
    similarity[0] = c->pairs[0];
    similarity[2] = c->pairs[pairs - 1];
}

pdl_status_t pdl__cadis_shares(pdl__rounds_t *r, pdl_mean_parts_t *mean)
{
    const pdl_aggregate_options_t *o = &r->spec.options;
    pdl__cadis_t                  *c = &r->cadis;
    double                         trust[2] = {c->trust[0], c->trust[1]};
    pdl_status_t                   status = gather_changes(r);

    if (!status) status = pdl_ranks_sum(r->ranks, trust, 2);
    if (status) return status;
    compare_workers(r);
    describe_similarity(c, r->workers, mean->similarity);
    mean->trust = trust[1] > 0 ? trust[0] / trust[1] : 0;
    mean->threshold = o->fixed_threshold ? o->threshold : pdl__widest_gap(r->workers, c->similarity, c->work);
    mean->clusters = pdl__find_clusters(r->workers, c->similarity, mean->threshold, r->cluster);
    pdl__cluster_shares(r->workers, mean->clusters, r->cluster, r->samples, r->share);
    return PDL_OK;
}
