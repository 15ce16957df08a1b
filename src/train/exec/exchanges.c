/*
 * What exchanges gradients and sharded weights.
 */
#include "train/exec/session.h"
#include "train/exec/shard.h"
#include <paradl/plan/collectives.h>
#include <stdio.h>
#include <string.h>

/* The names of all buckets, each once. */
static void join_names(const pdl_exchange_t *exchange, int buckets, char text[PDL_COLL_NAME_SIZE])
{
    text[0] = '\0';
    for (int b = 0; b < buckets; b++) {
        const char *name = pdl_exchange_algorithm(exchange, b);
        size_t      length = strlen(text);

        if (strcmp(name, "none") == 0 || strstr(text, name) != NULL) continue;
        snprintf(text + length, PDL_COLL_NAME_SIZE - length, "%s%s", length > 0 ? ", " : "", name);
    }
}

typedef struct list {
    const pdl_session_t    *session;
    pdl_session_exchange_t *out;
    int                     count;
} list_t;

static void add(list_t *list, unsigned axes, pdl_collective_t collective, int ranks, const pdl_exchange_t *exchange,
                int buckets)
{
    pdl_session_exchange_t *out = &list->out[list->count];
    double                  waited_s, polled_s;

    if (!exchange || ranks == 1 || list->count == PDL_MAX_EXCHANGES) return;
    *out = (pdl_session_exchange_t){.collective = collective,
                                    .ranks = ranks,
                                    .messages = pdl_exchange_messages(exchange)};
    pdl_plan_format_axes(&list->session->spec.plan->mesh, axes, out->axes, sizeof(out->axes));
    join_names(exchange, buckets, out->algorithm);
    pdl_exchange_counters(exchange, &out->sent, &waited_s, &polled_s);
    if (pdl_sparse_named(out->algorithm)) {
        out->density = pdl_plan_density(list->session->spec.plan, axes);
        out->ring = 2 * (double)(ranks - 1) / ranks * pdl_exchange_summed(exchange) * (double)sizeof(float);
    }
    if (out->algorithm[0] != '\0') list->count++;
}

static int group_size(const list_t *list, unsigned axes)
{
    pdl_ranks_t *ranks = NULL;

    return pdl__groups_get(list->session->groups, axes, &ranks) == PDL_OK ? pdl_ranks_size(ranks) : 1;
}

static void add_group(list_t *list, const pdl__buckets_t *g)
{
    const pdl_mesh_t *mesh = &list->session->spec.plan->mesh;
    unsigned          data = g->axes & pdl__data_axes(mesh), rest = g->axes & ~data;

    if (!g->shard_ranks) {
        add(list, g->axes, PDL_COLL_ALLREDUCE, group_size(list, g->axes), g->exchange, g->count);
        return;
    }
    int ranks = pdl_ranks_size(g->shard_ranks);
    add(list, data, PDL_COLL_REDUCE_SCATTER, ranks, g->exchange, g->count);
    add(list, data, PDL_COLL_ALLGATHER, ranks, g->gather, g->count);
    if (g->rest) add(list, rest, PDL_COLL_ALLREDUCE, group_size(list, rest), g->rest, g->count);
}

const char *pdl_session_transport(const pdl_session_t *session)
{
    return pdl_transport_name(session->executor.transport);
}

int pdl_session_turns(const pdl_session_t *session)
{
    pdl_tensor_device_t *device = session->executor.device;
    const pdl_ranks_t   *sharers = pdl_transport_sharers(session->executor.transport);

    if (sharers == NULL || pdl_ranks_size(sharers) == 1) return 0;
    return device->ops->in_turns != NULL && device->ops->in_turns(device) ? pdl_ranks_size(sharers) : 0;
}

int pdl_session_exchanges(const pdl_session_t *session, pdl_session_exchange_t out[PDL_MAX_EXCHANGES])
{
    const pdl_mesh_t *mesh = &session->spec.plan->mesh;
    int               pipeline = pdl_mesh_find(mesh, PDL_AXIS_PIPELINE);
    list_t            list = {session, out, 0};

    for (int g = 0; g < session->exchange.bucket_groups; g++) add_group(&list, &session->exchange.buckets[g]);
    for (int i = 0; i < session->exchange.tie_count; i++)
        add(&list, 1u << pipeline, PDL_COLL_ALLREDUCE, pdl_ranks_size(session->exchange.ties[i].ranks),
            session->exchange.ties[i].exchange, 1);
    return list.count;
}
