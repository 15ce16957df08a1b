/*
 * Weights that layers of several stages use. Every one of these stages holds them and updates them alike; what it takes
 * is that their gradients are summed over the stages.
 */
#include "train/exec/session.h"
#include "train/exec/shard.h"
#include <stdlib.h>

/* The stages that hold the weight of a layer; those that do not are left with a group that is of no use. */
static pdl_status_t holders_of(const pdl_session_t *s, int owner, bool holds, pdl_ranks_t **group)
{
    const pdl__pipe_t *stages = s->layouts->stages;
    int                before = 0;

    if (!pdl_ranks_dry(s->groups->stages)) {
        pdl_status_t status = pdl_ranks_split(s->groups->stages, holds ? 0 : 1, stages->at, group);
        return status || !holds ? status : pdl_transport_join(s->executor.transport, *group);
    }
    for (int k = 0; k < stages->at; k++) before += pdl__pipe_holds(stages, owner, k);
    return holds ? pdl_ranks_create_dry(before, pdl__pipe_holders(stages, owner), group) : PDL_OK;
}

/* The gradient of a weight, or this rank's part of it: then it is alone in its bucket. */
static float *own_gradient(const pdl_session_t *s, const pdl__trace_entry_t *entry, int64_t *count)
{
    const pdl__bucket_t *bucket;

    *count = entry->storage;
    if (!pdl__shard_cuts(s, PDL_ARRAY_GRADIENT, entry))
        return s->dry ? NULL : pdl__entry_at(s, PDL_ARRAY_GRADIENT, entry);
    bucket = &s->exchange.buckets[entry->group].bucket[entry->bucket];
    *count = bucket->part_high - bucket->part_low;
    return s->dry ? NULL : pdl__shard_part(s, PDL_ARRAY_GRADIENT, bucket);
}

static bool is_owner(const pdl_model_t *model, int layer)
{
    for (int i = layer + 1; i < pdl_model_layer_count(model); i++)
        if (pdl_model_layer(model, i)->tied_to == layer) return true;
    return false;
}

/* The weight of a layer among those that this stage shares with others, or -1. */
static int tie_of(const pdl__rank_weights_t *w, int owner)
{
    for (int t = 0; t < w->tie_count; t++)
        if (w->weight[w->tie[t]].owner == owner) return w->tie[t];
    return -1;
}

/* All stages form the group; those that do not hold the weight stay outside. */
static pdl_status_t create_tie(pdl_session_t *s, int owner)
{
    int          i = tie_of(s->graph->weights, owner);
    pdl_ranks_t *group = NULL;
    pdl_status_t status = holders_of(s, owner, i >= 0, &group);

    if (status) return status;
    if (i < 0) {
        pdl_ranks_destroy(group);
        return PDL_OK;
    }
    pdl__tie_t *tie = &s->exchange.ties[s->exchange.tie_count++];
    tie->ranks = group;
    int64_t             count;
    float              *data = own_gradient(s, &s->weights.entry[i], &count);
    pdl_exchange_spec_t spec = {.transport = s->executor.transport,
                                .stream = s->executor.stream[PDL_STREAM_GRADIENT],
                                .ranks = group,
                                .data = data,
                                .bound = (const int64_t[]){0, count},
                                .buckets = 1};
    pdl__name_exchange(s, 1u << pdl_mesh_find(&s->spec.plan->mesh, PDL_AXIS_PIPELINE), &spec);
    return pdl_exchange_create(&spec, &tie->exchange);
}

pdl_status_t pdl__ties_create(pdl_session_t *s)
{
    const pdl_model_t *model = s->spec.plan->model;
    int                layers = pdl_model_layer_count(model);
    pdl_status_t       status = PDL_OK;

    if (s->layouts->stages->count == 1 || !s->spec.training) return PDL_OK;
    s->exchange.ties = calloc((size_t)layers, sizeof(*s->exchange.ties));
    if (!s->exchange.ties) return pdl_error(PDL_ERR_NOMEM, "out of memory while preparing to train");
    for (int i = 0; i < layers && !status; i++)
        if (is_owner(model, i) && pdl__pipe_holders(s->layouts->stages, i) > 1) status = create_tie(s, i);
    return status;
}

void pdl__ties_destroy(pdl_session_t *s)
{
    for (int i = 0; i < s->exchange.tie_count; i++) {
        pdl_exchange_destroy(s->exchange.ties[i].exchange);
        pdl_ranks_destroy(s->exchange.ties[i].ranks);
    }
    free(s->exchange.ties);
}
