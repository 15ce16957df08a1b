/*
 * The flows of each link, kept while flows have different rates: who uses how much of a link, and when the first of the
 * flows that it holds ends.
 *
 * Flows that a link holds have its level. A level that changes costs one event in the queue, and the bytes and times of
 * these flows are close together.
 *
 * What a link carries is counted where several flows share it. A link that one flow has for itself, as most host links,
 * is left out, so that a share that changes touches only links where others notice.
 */
#ifndef PDL_SIM_LISTS_H
#define PDL_SIM_LISTS_H

#include "sim/network.h"

/* Shares that differ by less than this part are the same: rounding, not contention. */
#define PDL__SAME 1e-12

/* What a flow uses of the links of its way, and of those of the way back. Whole numbers, so that adding and taking away
   leaves nothing behind, in any order. */
typedef struct pdl__use {
    int64_t forward, back;
} pdl__use_t;

static inline int64_t pdl__load_use(const pdl__network_t *net, double share, int64_t load)
{
    double use = share * (double)load * net->unit;

    /* A share that is tried can be far above what any link has: see `unit`. */
    return use < 0x1p60 ? (int64_t)use : INT64_C(1) << 60;
}

static inline pdl__use_t pdl__use_of(const pdl__network_t *net, const pdl__flow_t *f, double share)
{
    pdl__use_t use = {pdl__load_use(net, share, f->weight), 0};

    if (f->hops > f->forward) use.back = pdl__load_use(net, share, f->back);
    return use;
}

static inline int64_t pdl__hop_use(const pdl__flow_t *f, pdl__use_t use, int hop)
{
    return hop < f->forward ? use.forward : use.back;
}

/* True when a link counts what the flow uses of it. */
static inline bool pdl__hop_shared(const pdl__flow_t *f, int hop)
{
    return hop >= PDL__MARKED_HOPS || (f->shared >> hop & 1) != 0;
}

/* The hops that can hold a flow back, one after the other, from -1 to f->hops: the shared ones, and any one where there are
   none; all of them where links differ. */
static inline int pdl__next_hop(const pdl__flow_t *f, int hop)
{
    uint32_t rest;

    if (f->uneven) return hop + 1;
    rest = (uint32_t)(f->shared != 0 ? f->shared : 1) >> (hop + 1);
    return rest != 0 ? hop + 1 + __builtin_ctz(rest) : f->hops;
}

static inline double pdl__share_of(const pdl__network_t *net, const pdl__flow_t *f)
{
    return f->bottleneck >= 0 && f->target >= 0 ? net->list[f->bottleneck].level : f->target;
}

static inline int32_t *pdl__links_of(const pdl__network_t *net, int32_t flow)
{
    return net->links + (size_t)flow * (size_t)net->stride;
}

/* Begins lists with the active flows; pdl__lists_drop() ends them when all of these are of the batch. */
pdl_status_t pdl__lists_make(pdl__network_t *net);
void         pdl__lists_drop(pdl__network_t *net);
void         pdl__lists_free(pdl__network_t *net);

/* More room for the hops of flows. */
pdl_status_t pdl__lists_grow(pdl__network_t *net, size_t room);

/* A flow joins the lists of its links, with what it uses of them, or leaves. Sets short_of_memory. */
void pdl__lists_enter(pdl__network_t *net, int32_t flow);
void pdl__lists_leave(pdl__network_t *net, int32_t flow);

bool pdl__lists_more_motions(pdl__list_t *list);

/* The list of a link that may have a sole flow. */
static inline pdl__list_t *pdl__list_of(pdl__network_t *net, int32_t link)
{
    pdl__list_t *list = &net->list[link];
    int32_t      sole = net->wire[link].sole;

    if (sole < 0) return list;
    list->entry[0] = sole;
    list->count = 1;
    net->place[sole] = 0;
    net->wire[link].sole = PDL__LISTED;
    return list;
}

/* The entries at two places of a list change them. */
static inline void pdl__lists_swap(pdl__network_t *net, pdl__list_t *list, int32_t one, int32_t other)
{
    int32_t first = list->entry[one], second = list->entry[other];

    if (one == other) return;
    list->entry[one] = second;
    list->entry[other] = first;
    net->place[second] = one;
    net->place[first] = other;
}

/* The level of a link, or what it holds, has changed. */
static inline void pdl__lists_change(pdl__network_t *net, int32_t link)
{
    if (net->list[link].changed) return;
    net->list[link].changed = true;
    net->changed[net->changes++] = link;
}

/* A link is to be the bottleneck of a listed flow, with its share, which is that of the others that it holds; or no longer.
   What the flow uses stays as it is counted. */
static inline void pdl__lists_join(pdl__network_t *net, int32_t flow, int32_t link, double share)
{
    pdl__flow_t   *f = &net->flow[flow];
    pdl__list_t   *list = pdl__list_of(net, link);
    const int32_t *links = pdl__links_of(net, flow);
    int32_t        held = net->wire[link].held;
    int16_t        hop = 0;

    f->target = share;
    if (held == (list->motion_shift > 0 ? 1 << list->motion_shift : 0) && !pdl__lists_more_motions(list)) {
        net->short_of_memory = true;
        return;
    }
    while (links[hop] != link) hop++;
    pdl__lists_swap(net, list, net->place[flow * net->stride + hop], held);
    list->motion[held] = f->motion;
    list->level = share;
    list->load += pdl__hop_load(f, hop);
    list->odd += !f->plain;
    f->bottleneck = link;
    f->bottleneck_hop = hop;
    net->wire[link].held++;
    pdl__lists_change(net, link);
}

static inline void pdl__lists_part(pdl__network_t *net, int32_t flow)
{
    pdl__flow_t *f = &net->flow[flow];
    pdl__list_t *list = &net->list[f->bottleneck];
    int32_t      place = net->place[flow * net->stride + f->bottleneck_hop];
    int32_t      last = --net->wire[f->bottleneck].held;

    f->motion = list->motion[place];
    list->motion[place] = list->motion[last];
    pdl__lists_swap(net, list, place, last);
    list->load -= pdl__hop_load(f, f->bottleneck_hop);
    list->odd -= !f->plain;
    f->target = list->level;
    f->bottleneck = -1;
}

/* What a flow with a share uses is added to its links, so many times. */
void pdl__lists_use(pdl__network_t *net, int32_t flow, double share, int times);

/* A flow without a share joins a link, and uses what follows. */
void pdl__lists_hold(pdl__network_t *net, int32_t flow, int32_t link, double share);
/* The reverse. */
void pdl__lists_let_go(pdl__network_t *net, int32_t flow);

/* Gives the flows of links that changed their rates and ends, and queues the first of these. */
pdl_status_t pdl__lists_settle(pdl__network_t *net, pdl__tick_t now);

#endif
