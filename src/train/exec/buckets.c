/*
 * Buckets of the gradient exchange: which weights travel together, and over which ranks.
 */
#include "base/memory.h"
#include "train/exec/session.h"
#include "train/exec/shard.h"
#include <paradl/plan/collectives.h>
#include <stdlib.h>
#include <string.h>

bool pdl__same_buckets(const pdl__trace_entry_t *a, const pdl__trace_entry_t *b)
{
    return a->axes == b->axes && a->tie == b->tie;
}

#define SHARDED_BUCKETS 16
#define LEAST_ELEMENTS  16384

/* Elements of a bucket. Where whole buckets come and go in a session that keeps parts only, a few of them must be
   little beside the parts: of what a rank has in the mean, since all must come to the same figure. */
static int64_t wanted_elements(const pdl_session_t *s)
{
    int64_t wanted = (int64_t)(s->spec.bucket_bytes / sizeof(float)), share = 0;
    int64_t ranks = pdl_ranks_size(s->groups->stage);

    for (int i = 0; i < s->weights.entry_count; i++)
        share += s->weights.entry[i].info.trainable ? s->weights.entry[i].info.elements : 0;
    share /= SHARDED_BUCKETS * ranks / pdl_mesh_extent(&s->layouts->plan->mesh, PDL_AXIS_DATA);
    if (share < LEAST_ELEMENTS) share = LEAST_ELEMENTS;
    return s->weights.sharding >= PDL_SHARDING_ZERO2 && share < wanted ? share : wanted;
}

/* Whether a bucket may end after a weight. Those of one unit stay together where buckets come and go. */
static bool may_end(const pdl_session_t *s, const pdl__buckets_t *group, int i)
{
    return s->weights.sharding < PDL_SHARDING_ZERO2 || i + 1 == group->last ||
           s->weights.entry[i + 1].unit != s->weights.entry[i].unit;
}

/* Buckets end with a weight, as soon as they are large enough. */
static pdl_status_t cut_group(pdl_session_t *s, pdl__buckets_t *group)
{
    int64_t wanted = wanted_elements(s), elements = 0;

    group->bucket = calloc((size_t)(group->last - group->first) + 1, sizeof(*group->bucket));
    if (!group->bucket) return pdl__no_memory("while preparing to train");
    for (int i = group->first; i < group->last; i++) {
        pdl__bucket_t *bucket = &group->bucket[group->count];
        if (bucket->last == 0) *bucket = (pdl__bucket_t){.first = i};
        s->weights.entry[i].group = (int)(group - s->exchange.buckets);
        s->weights.entry[i].bucket = group->count;
        bucket->last = i + 1;
        elements += s->weights.entry[i].storage;
        if ((elements < wanted || !may_end(s, group, i)) && i + 1 < group->last) continue;
        group->count++;
        elements = 0;
    }
    return PDL_OK;
}

pdl_status_t pdl__buckets_cut(pdl_session_t *s)
{
    pdl_status_t status = PDL_OK;
    int          trainable = 0;

    for (int i = 0; i < s->weights.entry_count; i++) {
        s->weights.entry[i].group = -1;
        trainable += s->weights.entry[i].info.trainable;
    }
    if (pdl_ranks_size(s->spec.ranks) == 1 || !s->spec.training) return PDL_OK;
    s->exchange.buckets = calloc((size_t)trainable + 1, sizeof(*s->exchange.buckets));
    if (!s->exchange.buckets) return pdl__no_memory("while preparing to train");
    for (int i = 0; i < trainable && !status;) {
        pdl__buckets_t *group = &s->exchange.buckets[s->exchange.bucket_groups];
        *group = (pdl__buckets_t){.axes = s->weights.entry[i].axes, .first = i};
        while (i < trainable && pdl__same_buckets(&s->weights.entry[i], &s->weights.entry[group->first])) i++;
        group->last = i;
        if (group->axes == 0) continue;
        s->exchange.bucket_groups++;
        status = cut_group(s, group);
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
    spec->ranks_per_node = schedule.hosts_per_switch;
    if (instead && (spec->collective == PDL_COLL_ALLREDUCE || strcmp(instead, "measure") != 0))
        spec->algorithm = instead;
}

/* Sums of whole buckets, everywhere. */
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
    for (int b = 0; b < group->count && !status && !s->dry; b++)
        status = pdl_exchange_place(group->exchange, b, pdl__bucket_at(s, PDL_ARRAY_GRADIENT, &group->bucket[b]));
    free(bound);
    return status;
}

/* Which trained weights every unit has. */
static void list_uses(const pdl_session_t *s, int *first_use, int *use)
{
    int count = 0;

    for (int u = 0; u < s->graph->unit_count; u++) {
        const pdl__unit_t *unit = &s->graph->unit[u];
        first_use[u] = count;
        for (int k = 0; unit->kind == PDL__UNIT_OP && k < unit->description.weight_count; k++)
            if (s->weights.entry[unit->weight[k]].info.trainable) use[count++] = unit->weight[k];
    }
    first_use[s->graph->unit_count] = count;
}

static void list_buckets(const pdl_session_t *s, pdl_program_bucket_t *list)
{
    for (int g = 0; g < s->exchange.bucket_groups; g++)
        for (int b = 0; b < s->exchange.buckets[g].count; b++) {
            const pdl__bucket_t *bucket = &s->exchange.buckets[g].bucket[b];
            *list++ = (pdl_program_bucket_t){.set = g,
                                             .index = b,
                                             .first = bucket->first,
                                             .last = bucket->last,
                                             .axes = s->exchange.buckets[g].axes,
                                             .sharded = s->exchange.buckets[g].shard_ranks
                                                            ? s->exchange.buckets[g].axes &
                                                                  pdl__data_axes(&s->spec.plan->mesh)
                                                            : 0,
                                             .bytes = (size_t)(bucket->high - bucket->low) * sizeof(float)};
        }
}

pdl_status_t pdl__buckets_describe(const pdl_session_t *s, pdl_program_update_t *update)
{
    size_t units = (size_t)s->graph->unit_count;
    int    buckets = 0;

    for (int g = 0; g < s->exchange.bucket_groups; g++) buckets += s->exchange.buckets[g].count;
    int                  *uses = calloc(units + 1 + units * PDL_MAX_WEIGHTS, sizeof(*uses));
    pdl_program_bucket_t *list = calloc((size_t)buckets + 1, sizeof(*list));
    *update =
        (pdl_program_update_t){.first_use = uses,
                               .use = uses + units + 1,
                               .weight_count = s->weights.entry_count,
                               .bucket = list,
                               .bucket_count = buckets,
                               .ties = pdl__ties_count(s),
                               .sharding = s->weights.sharding,
                               .packs = s->weights.packed_bytes > 0 && !pdl__shard_divides(s, PDL_ARRAY_WEIGHT)};
    if (uses == NULL || list == NULL) return pdl__no_memory("while preparing to train");
    list_uses(s, uses, uses + units + 1);
    list_buckets(s, list);
    for (int a = 0; a < s->spec.plan->mesh.axis_count; a++)
        if (s->spec.plan->mesh.axis[a].kind == PDL_AXIS_PIPELINE) update->tie_group |= 1u << a;
    return PDL_OK;
}

void pdl__buckets_forget(pdl_program_update_t *update)
{
    free((void *)(uintptr_t)update->first_use);
    free((void *)(uintptr_t)update->bucket);
}

pdl_status_t pdl__buckets_connect(pdl_session_t *s)
{
    pdl_status_t status = PDL_OK;

    for (int g = 0; g < s->exchange.bucket_groups && !status; g++) {
        pdl__buckets_t *group = &s->exchange.buckets[g];
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
