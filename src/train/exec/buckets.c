/*
 * Buckets of the gradient exchange: sums of gradients in flight, of whole buckets.
 */
#include "base/memory.h"
#include "train/exec/session.h"
#include "train/exec/shard.h"
#include <paradl/plan/collectives.h>
#include <stdlib.h>
#include <string.h>

/* Buckets of one set. */
static pdl_status_t take_set(pdl_session_t *s, const pdl_program_bucket_t *first, int count)
{
    pdl__buckets_t *group = &s->exchange.buckets[s->exchange.bucket_groups];

    *group = (pdl__buckets_t){.axes = first->axes,
                              .first = first->first,
                              .last = first[count - 1].last,
                              .count = count,
                              .bucket = calloc((size_t)count, sizeof(*group->bucket))};
    if (group->bucket == NULL) return pdl__no_memory("while preparing to train");
    for (int b = 0; b < count; b++) {
        group->bucket[b] = (pdl__bucket_t){.first = first[b].first, .last = first[b].last};
        for (int i = first[b].first; i < first[b].last; i++) {
            s->weights.entry[i].group = s->exchange.bucket_groups;
            s->weights.entry[i].bucket = b;
        }
    }
    s->exchange.bucket_groups++;
    return PDL_OK;
}

pdl_status_t pdl__buckets_take(pdl_session_t *s)
{
    const pdl__rank_weights_t *w = s->graph->weights;
    pdl_status_t               status = PDL_OK;

    s->exchange.buckets = calloc((size_t)w->bucket_count + 1, sizeof(*s->exchange.buckets));
    if (s->exchange.buckets == NULL) return pdl__no_memory("while preparing to train");
    for (int b = 0, first = 0; b < w->bucket_count && !status; first = b) {
        while (b < w->bucket_count && w->bucket[b].set == w->bucket[first].set) b++;
        status = take_set(s, &w->bucket[first], b - first);
    }
    return status;
}

float *pdl__bucket_at(const pdl_session_t *s, pdl_session_array_t array, const pdl__bucket_t *bucket)
{
    return (float *)s->weights.array[array] + bucket->low;
}

/* A trial compares sums; parts go as the plan says. */
void pdl__name_exchange(const pdl_session_t *s, unsigned axes, pdl_exchange_spec_t *spec)
{
    pdl_schedule_spec_t schedule = pdl_plan_schedule(s->spec.plan, axes, spec->collective, 0);
    const char         *instead = s->spec.algorithm;

    spec->algorithm = schedule.algorithm;
    spec->chunk_bytes = s->spec.chunk_bytes;
    spec->ranks_per_node = schedule.hosts_per_switch;
    spec->density = pdl_plan_density(s->spec.plan, axes);
    spec->most_density = pdl__first_density(s, spec->density);
    if (s->spec.optimizer.momentum_of != PDL_MOMENTUM_SUMMED)
        spec->momentum = (pdl_topk_momentum_t){.factor = s->spec.optimizer.momentum,
                                               .nesterov = s->spec.optimizer.nesterov,
                                               .masked = s->spec.optimizer.momentum_of == PDL_MOMENTUM_MASKED};
    if (instead && (spec->collective == PDL_COLL_ALLREDUCE || strcmp(instead, "measure") != 0))
        spec->algorithm = instead;
}

/* Sums of whole buckets, everywhere. Of gradients that replicas keep parts of, those that are no replica's else lie among the parts. */
static pdl_status_t connect_group(pdl_session_t *s, pdl__buckets_t *group)
{
    int64_t            *bound = calloc((size_t)group->count + 1, sizeof(*bound));
    pdl_status_t        status = bound ? PDL_OK : pdl__no_memory("while preparing to train");
    pdl_exchange_spec_t spec = {.transport = s->executor.transport,
                                .stream = s->executor.stream[PDL_STREAM_GRADIENT],
                                .bound = bound,
                                .buckets = group->count,
                                .overlap = s->spec.overlap};

    for (int b = 0; b < group->count && !status; b++)
        bound[b + 1] = bound[b] + group->bucket[b].high - group->bucket[b].low;
    if (!status) status = pdl__groups_get(s->groups, group->axes, &spec.ranks);
    pdl__name_exchange(s, group->axes, &spec);
    if (!status) status = pdl_exchange_create(&spec, &group->exchange);
    for (int b = 0; b < group->count && !status && s->weights.array[PDL_ARRAY_GRADIENT] != NULL; b++)
        status = pdl_exchange_place(group->exchange, b, pdl__shard_part(s, PDL_ARRAY_GRADIENT, &group->bucket[b]));
    free(bound);
    return status;
}

pdl_status_t pdl__buckets_connect(pdl_session_t *s)
{
    pdl_status_t status = PDL_OK;

    for (int g = 0; g < s->exchange.bucket_groups && !status; g++) {
        pdl__buckets_t *group = &s->exchange.buckets[g];
        if (group->axes == 0) continue; /* of this rank alone */
        status = group->shard_ranks ? pdl__shard_connect(s, group) : connect_group(s, group);
    }
    return status;
}

void pdl__buckets_destroy(pdl_session_t *s)
{
    for (int g = 0; g < s->exchange.bucket_groups; g++) {
        pdl_exchange_destroy(s->exchange.buckets[g].exchange);
        pdl_exchange_destroy(s->exchange.buckets[g].gather);
        pdl_exchange_destroy(s->exchange.buckets[g].rest);
        free(s->exchange.buckets[g].bucket);
    }
    free(s->exchange.buckets);
}

pdl_status_t pdl__bucket_ready(pdl_session_t *s, pdl_exchange_t *exchange, int b)
{
    pdl_status_t status = pdl__session_order(s, PDL_STREAM_COMPUTE, PDL_STREAM_GRADIENT);

    return status ? status : pdl_exchange_ready(exchange, b);
}

pdl_status_t pdl__bucket_wait(pdl_session_t *s, pdl_exchange_t *exchange, int b)
{
    pdl_status_t status = pdl_exchange_wait(exchange, b);

    return status ? status : pdl__session_order(s, PDL_STREAM_GRADIENT, PDL_STREAM_COMPUTE);
}
