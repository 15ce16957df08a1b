/*
 * Links and flows of the simulated network, and the rates that follow from counting; see network.h.
 */
#include "base/memory.h"
#include "sim/lists.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

pdl_status_t pdl__network_create(pdl__network_t *net, const pdl_topology_t *topology, double tick_s, int stride,
                                 pdl__queue_t *queue, int32_t first_link)
{
    const pdl_link_t *links = pdl_topology_links(topology);
    size_t            count = (size_t)pdl_topology_link_count(topology);
    double            widest = 0;

    memset(net, 0, sizeof(*net));
    net->wires = (int32_t)count;
    net->stride = stride;
    net->queue = queue;
    while (1 << net->shift < stride) net->shift++;
    net->first_link = first_link;
    net->first_entity = first_link + net->wires;
    net->free_flow = -1;
    net->instant = 1;
    net->wire = aligned_alloc(sizeof(*net->wire), (count + 1) * sizeof(*net->wire));
    net->dirty = malloc((count + 1) * sizeof(*net->dirty));
    net->left_at = calloc(count + 1, sizeof(*net->left_at));
    net->bytes = calloc(count + 1, sizeof(*net->bytes));
    if (net->wire == NULL || net->dirty == NULL || net->left_at == NULL || net->bytes == NULL)
        return pdl__no_memory("for the flows of the simulation");
    net->alike = true;
    for (size_t i = 0; i < count; i++) {
        if (links[i].bytes_per_s != links[0].bytes_per_s) net->alike = false;
        net->wire[i] =
            (pdl__wire_t){.capacity = links[i].bytes_per_s * tick_s * (double)PDL__WHOLE, .sole = PDL__NONE};
        widest = fmax(widest, net->wire[i].capacity);
    }
    net->unit = ldexp(1, 58 - (widest > 0 ? ilogb(widest) : 0));
    net->part = 1 / net->unit;
    return pdl__queue_grow(queue, net->first_entity);
}

void pdl__network_destroy(pdl__network_t *net)
{
    free(net->wire);
    free(net->flow);
    free(net->links);
    free(net->active);
    free(net->dirty);
    free(net->left_at);
    free(net->bytes);
    free(net->batch);
    free(net->reached);
    pdl__lists_free(net);
    memset(net, 0, sizeof(*net));
}

static bool resize(void *pointer, size_t count, size_t size)
{
    void **array = pointer, *grown = realloc(*array, count * size);

    if (grown == NULL) return false;
    *array = grown;
    return true;
}

/* Flows begin at lines of the cache, which realloc() does not promise. */
static bool resize_flows(pdl__network_t *net, size_t room)
{
    pdl__flow_t *grown = aligned_alloc(PDL__LINE, room * sizeof(*grown));

    if (grown == NULL) return false;
    if (net->flows > 0) memcpy(grown, net->flow, (size_t)net->flows * sizeof(*grown));
    free(net->flow);
    net->flow = grown;
    return true;
}

static pdl_status_t more_flows(pdl__network_t *net)
{
    size_t room = net->room > 0 ? 2 * (size_t)net->room : 1024, stride = (size_t)net->stride;

    if (room * stride > INT32_MAX) return pdl_error(PDL_ERR_NOMEM, "too many flows at once: simulate fewer ranks");
    if (!resize_flows(net, room) || !resize(&net->links, room * stride, sizeof(*net->links)) ||
        !resize(&net->active, room, sizeof(*net->active)) || !resize(&net->batch, room, sizeof(*net->batch)) ||
        !resize(&net->reached, 2 * room, sizeof(*net->reached)))
        return pdl__no_memory("for the flows of the simulation");
    if (net->list != NULL && pdl__lists_grow(net, room)) return PDL_ERR_NOMEM;
    net->room = (int32_t)room;
    return pdl__queue_grow(net->queue, net->first_entity + net->room);
}

int32_t pdl__network_take(pdl__network_t *net)
{
    int32_t flow = net->free_flow;

    if (flow >= 0) {
        net->free_flow = net->flow[flow].order;
        return flow;
    }
    if (net->flows == net->room && more_flows(net)) return -1;
    net->flow[net->flows].stamp = 0;
    return net->flows++;
}

void pdl__network_release(pdl__network_t *net, int32_t flow)
{
    net->flow[flow].active = false;
    net->flow[flow].order = net->free_flow;
    net->free_flow = flow;
}

static bool has_equal_links(const pdl__network_t *net, const pdl__flow_t *f, const int32_t *links)
{
    for (int h = 1; !net->alike && h < f->hops; h++)
        if (net->wire[links[h]].capacity != net->wire[links[0]].capacity) return false;
    return true;
}

void pdl__network_begin(pdl__network_t *net, int32_t flow)
{
    pdl__flow_t   *f = &net->flow[flow];
    const int32_t *links = net->links + (size_t)flow * (size_t)net->stride;

    f->uneven = !has_equal_links(net, f, links) || f->hops > PDL__MARKED_HOPS ||
                (f->hops > f->forward && f->back != f->weight);
    for (int h = 0; h < f->hops; h++) {
        pdl__wire_t *wire = &net->wire[links[h]];
        int64_t      load = pdl__hop_load(f, h);

        wire->load += load;
        wire->fresh = wire->instant == net->instant ? wire->fresh + load : load;
        wire->instant = net->instant;
        if (h < f->forward) net->bytes[links[h]] += f->bytes;
    }
    f->plain = !f->uneven && f->hops == f->forward && f->weight == PDL__WHOLE;
    f->active = true;
    f->target = f->motion.rate = 0;
    f->bottleneck = -1;
    f->order = net->actives;
    net->active[net->actives++] = flow;
    net->batch[net->batches++] = flow;
    if (net->lists) pdl__lists_enter(net, flow);
}

void pdl__network_end(pdl__network_t *net, int32_t flow)
{
    pdl__flow_t   *f = &net->flow[flow];
    const int32_t *links = net->links + (size_t)flow * (size_t)net->stride;
    int32_t        last = net->active[--net->actives];

    if (net->lists) pdl__lists_leave(net, flow);
    for (int h = 0; h < f->hops; h++) {
        pdl__wire_t *wire = &net->wire[links[h]];

        wire->load -= pdl__hop_load(f, h);
        if (wire->load == 0 || net->left_at[links[h]] == net->instant) continue;
        net->left_at[links[h]] = net->instant;
        net->dirty[net->dirties++] = links[h];
    }
    net->active[f->order] = last;
    net->flow[last].order = f->order;
    f->active = false;
}

void pdl__network_shift(pdl__network_t *net, pdl__tick_t ticks)
{
    for (int32_t i = 0; i < net->flows; i++) {
        net->flow[i].begin += ticks;
        net->flow[i].motion.since += ticks;
        net->flow[i].motion.end += ticks;
    }
    for (int32_t i = 0; net->list != NULL && i < net->wires; i++) {
        if (net->list[i].due != PDL__NEVER) net->list[i].due += ticks;
        for (int32_t r = 0; r < net->wire[i].held; r++) {
            net->list[i].motion[r].since += ticks;
            net->list[i].motion[r].end += ticks;
        }
    }
}

/* The share of a flow by counting, with its bottleneck, or -1 when it meets a flow that is not of this batch. */
static double counted_share(pdl__network_t *net, int32_t flow)
{
    const int32_t *links = net->links + (size_t)flow * (size_t)net->stride;
    double         least = INFINITY;

    for (int h = 0; h < net->flow[flow].hops; h++) {
        const pdl__wire_t *wire = &net->wire[links[h]];
        double             share;

        if (!pdl__all_fresh(net, wire)) return -1;
        share = wire->capacity / (double)wire->load;
        if (share >= least) continue;
        least = share;
        net->flow[flow].bottleneck = links[h];
    }
    return least;
}

/* True when no flow is left on the links of those that ended but flows that began. */
static bool dirty_are_fresh(const pdl__network_t *net)
{
    for (int32_t i = 0; i < net->dirties; i++) {
        const pdl__wire_t *wire = &net->wire[net->dirty[i]];

        if (wire->load > 0 && !pdl__all_fresh(net, wire)) return false;
    }
    return true;
}

/* True when the batch meets no older flow and one share is right for all of its flows. */
static bool uniform_batch(pdl__network_t *net, double *share)
{
    *share = net->batches > 0 ? counted_share(net, net->batch[0]) : 0;
    if (*share < 0 || !dirty_are_fresh(net)) return false;
    for (int32_t i = 1; i < net->batches; i++)
        if (counted_share(net, net->batch[i]) != *share) return false;
    return true;
}

/* A flow of the batch begins with a rate, and with its end in the queue, or held by a link. */
static pdl_status_t start(pdl__network_t *net, int32_t flow, double share, pdl__tick_t end, pdl__tick_t now)
{
    pdl__flow_t *f = &net->flow[flow];

    f->target = share;
    f->motion = (pdl__motion_t){f->motion.left, pdl__share_rate(f, share), now, end};
    if (net->lists && f->hops > 0) {
        pdl__lists_hold(net, flow, f->bottleneck, share);
        return PDL_OK;
    }
    return pdl__queue_add(net->queue, net->first_entity + flow, end);
}

/* Every flow of the batch gets the same share; messages of the same size then end at the same instant. */
static pdl_status_t give_share(pdl__network_t *net, double share, pdl__tick_t now)
{
    double      left = -1, rate = -1;
    pdl__tick_t ticks = 0;

    for (int32_t i = 0; i < net->batches; i++) {
        const pdl__flow_t *f = &net->flow[net->batch[i]];

        if (f->motion.left != left || pdl__share_rate(f, share) != rate) {
            left = f->motion.left;
            rate = pdl__share_rate(f, share);
            if (left / rate >= (double)(PDL__NEVER / 4)) return PDL_ERR_LIMIT;
            ticks = (pdl__tick_t)llrint(left / rate);
        }
        if (start(net, net->batch[i], share, now + ticks, now)) return PDL_ERR_NOMEM;
    }
    return PDL_OK;
}

/* Flows that are each alone on all their links need no common rate: each is its own component. Their share, or -1. */
static double lone_share(pdl__network_t *net, int32_t flow)
{
    const int32_t *links = net->links + (size_t)flow * (size_t)net->stride;
    double         least = INFINITY;

    for (int h = 0; h < net->flow[flow].hops; h++) {
        const pdl__wire_t *wire = &net->wire[links[h]];

        if (wire->load != net->flow[flow].weight || h >= net->flow[flow].forward) return -1;
        if (wire->capacity >= least) continue;
        least = wire->capacity;
        net->flow[flow].bottleneck = links[h];
    }
    return least / (double)net->flow[flow].weight;
}

static pdl_status_t give_lone_rates(pdl__network_t *net, pdl__tick_t now, bool *all)
{
    if (!dirty_are_fresh(net)) return PDL_OK;
    for (int32_t i = 0; i < net->batches; i++)
        if (lone_share(net, net->batch[i]) < 0) return PDL_OK;
    *all = true;
    for (int32_t i = 0; i < net->batches; i++) {
        const pdl__flow_t *f = &net->flow[net->batch[i]];
        double share = lone_share(net, net->batch[i]), ticks = f->motion.left / pdl__share_rate(f, share);

        if (ticks >= (double)(PDL__NEVER / 4)) return PDL_ERR_LIMIT;
        if (start(net, net->batch[i], share, now + (pdl__tick_t)llrint(ticks), now)) return PDL_ERR_NOMEM;
    }
    return PDL_OK;
}

static pdl_status_t find_rates(pdl__network_t *net, pdl__tick_t now)
{
    bool         done = false;
    double       share;
    pdl_status_t status;

    if (uniform_batch(net, &share)) return give_share(net, share, now);
    status = give_lone_rates(net, now, &done);
    if (status || done) return status;
    for (int32_t i = 0; i < net->batches; i++) net->flow[net->batch[i]].bottleneck = -1;
    if (!net->lists && pdl__lists_make(net)) return PDL_ERR_NOMEM;
    for (int32_t i = 0; i < net->batches; i++)
        if (net->flow[net->batch[i]].hops == 0 && start(net, net->batch[i], INFINITY, now, now))
            return PDL_ERR_NOMEM;
    pdl__rates_component(net);
    return PDL_OK;
}

pdl_status_t pdl__network_settle(pdl__network_t *net, pdl__tick_t now)
{
    pdl_status_t status = PDL_OK;

    /* Lists cost more than they give once every flow is of this batch; those that are given up are left empty. */
    if (net->lists && net->actives == net->batches) pdl__lists_drop(net);
    if (net->batches > 0 || net->dirties > 0) status = find_rates(net, now);
    if (net->short_of_memory) status = pdl__no_memory("for the flows of the simulation");
    net->batches = net->dirties = 0;
    net->instant++;
    return status ? status : pdl__lists_settle(net, now);
}
