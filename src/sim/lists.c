/*
 * Lists of the flows of each link, and the events of links.
 */
#include "sim/lists.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void pdl__lists_use(pdl__network_t *net, int32_t flow, double share, int times)
{
    const pdl__flow_t *f = &net->flow[flow];
    const int32_t     *links = pdl__links_of(net, flow);
    pdl__use_t         use = pdl__use_of(net, f, share);

    if (f->plain) {
        for (uint32_t hops = f->shared; hops != 0; hops &= hops - 1)
            net->wire[links[__builtin_ctz(hops)]].used += times * use.forward;
        return;
    }
    for (int h = 0; h < f->hops; h++)
        if (pdl__hop_shared(f, h)) net->wire[links[h]].used += times * pdl__hop_use(f, use, h);
}

static bool more_entries(pdl__list_t *list)
{
    int      shift = list->room_shift > 0 ? list->room_shift + 1 : 3;
    int32_t *entry = realloc(list->entry == list->few ? NULL : list->entry, sizeof(*entry) << shift);

    if (entry == NULL) return false;
    if (list->entry == list->few) memcpy(entry, list->few, sizeof(list->few));
    list->entry = entry;
    list->room_shift = (uint8_t)shift;
    return true;
}

bool pdl__lists_more_motions(pdl__list_t *list)
{
    int            shift = list->motion_shift > 0 ? list->motion_shift + 1 : 2;
    pdl__motion_t *motion = realloc(list->motion, sizeof(*motion) << shift);

    if (motion == NULL) return false;
    list->motion = motion;
    list->motion_shift = (uint8_t)shift;
    return true;
}

void pdl__lists_hold(pdl__network_t *net, int32_t flow, int32_t link, double share)
{
    pdl__lists_use(net, flow, share, 1);
    pdl__lists_join(net, flow, link, share);
}

void pdl__lists_let_go(pdl__network_t *net, int32_t flow)
{
    const pdl__flow_t *f = &net->flow[flow];

    if (f->hops == 0) return;
    if (f->bottleneck >= 0) pdl__lists_part(net, flow);
    if (f->target > 0) pdl__lists_use(net, flow, f->target, -1);
}

/* The only flow of a list is no longer alone on the link, or is left alone. */
static void mark_first(pdl__network_t *net, int32_t link, bool shared)
{
    int32_t      entry = net->list[link].entry[0];
    int          hop = entry & (net->stride - 1);
    pdl__flow_t *f = &net->flow[entry >> net->shift];
    pdl__use_t   use = pdl__use_of(net, f, pdl__share_of(net, f));

    if (hop < PDL__MARKED_HOPS) f->shared = (uint16_t)(shared ? f->shared | 1 << hop : f->shared & ~(1 << hop));
    net->wire[link].used = pdl__hop_shared(f, hop) ? pdl__hop_use(f, use, hop) : 0;
}

static bool list_hop(pdl__network_t *net, int32_t flow, int hop)
{
    pdl__flow_t *f = &net->flow[flow];
    int32_t      entry = flow * net->stride + hop, link = net->links[entry];
    pdl__list_t *list;

    if (net->wire[link].sole == PDL__NONE) {
        net->wire[link].sole = entry;
        return true;
    }
    list = pdl__list_of(net, link);
    if (list->count == (list->room_shift > 0 ? 1 << list->room_shift : PDL__FEW_ENTRIES) && !more_entries(list))
        return false;
    net->place[entry] = list->count;
    list->entry[list->count++] = entry;
    if (list->count == 2) mark_first(net, link, true);
    if (hop < PDL__MARKED_HOPS) f->shared = (uint16_t)(f->shared | 1 << hop);
    return true;
}

void pdl__lists_enter(pdl__network_t *net, int32_t flow)
{
    pdl__flow_t *f = &net->flow[flow];
    int32_t      bottleneck = f->bottleneck;
    double       share = f->target;

    /* Without a share, so that nothing is counted twice where it meets itself on the way back. */
    f->shared = 0;
    f->target = 0;
    f->bottleneck = -1;
    for (int h = 0; h < f->hops; h++) {
        if (list_hop(net, flow, h)) continue;
        net->short_of_memory = true;
        return;
    }
    if (bottleneck >= 0) {
        pdl__lists_hold(net, flow, bottleneck, share);
    } else {
        f->target = share;
    }
}

/* Closes the gap that a hop leaves in a list. */
static void unlist_hop(pdl__network_t *net, int32_t link, int32_t entry)
{
    pdl__wire_t *wire = &net->wire[link];
    pdl__list_t *list = &net->list[link];
    int32_t      place = net->place[entry];

    if (wire->sole == PDL__LISTED && list->count > 1) {
        list->entry[place] = list->entry[--list->count];
        net->place[list->entry[place]] = place;
        if (list->count == 1) mark_first(net, link, false);
        return;
    }
    if (wire->sole == PDL__LISTED) list->count = 0;
    wire->sole = PDL__NONE;
    wire->used = 0;
}

void pdl__lists_leave(pdl__network_t *net, int32_t flow)
{
    int32_t base = flow * net->stride;

    pdl__lists_let_go(net, flow);
    for (int h = 0; h < net->flow[flow].hops; h++) unlist_hop(net, net->links[base + h], base + h);
}

pdl_status_t pdl__lists_grow(pdl__network_t *net, size_t room)
{
    size_t        hops = room * (size_t)net->stride;
    int32_t      *place = realloc(net->place, hops * sizeof(*place));
    pdl__share_t *heap;

    if (place == NULL) return pdl__no_memory("for the flows of the simulation");
    net->place = place;
    heap = realloc(net->heap, hops * sizeof(*heap));
    if (heap == NULL) return pdl__no_memory("for the flows of the simulation");
    net->heap = heap;
    return PDL_OK;
}

static pdl_status_t create(pdl__network_t *net)
{
    size_t size = (((size_t)net->wires + 1) * sizeof(*net->list) + PDL__LINE - 1) / PDL__LINE * PDL__LINE;

    net->list = aligned_alloc(PDL__LINE, size);
    if (net->list == NULL) return pdl__no_memory("for the flows of the simulation");
    memset(net->list, 0, size);
    for (int32_t i = 0; i < net->wires; i++) {
        net->list[i].due = PDL__NEVER;
        net->list[i].entry = net->list[i].few;
    }
    net->changed = malloc(((size_t)net->wires + 1) * sizeof(*net->changed));
    if (net->changed == NULL) return pdl__no_memory("for the flows of the simulation");
    return pdl__lists_grow(net, (size_t)net->room);
}

pdl_status_t pdl__lists_make(pdl__network_t *net)
{
    if (net->list == NULL && create(net)) return PDL_ERR_NOMEM;
    for (int32_t i = 0; i < net->actives; i++) {
        int32_t flow = net->active[i], entity = net->first_entity + flow;

        /* From now on the event of its bottleneck counts. */
        if (net->flow[flow].hops > 0 && net->queue->entity[entity].bucket >= 0)
            pdl__queue_remove(net->queue, entity);
        pdl__lists_enter(net, flow);
    }
    net->lists = true;
    return PDL_OK;
}

void pdl__lists_drop(pdl__network_t *net)
{
    for (int32_t i = 0; i < net->actives; i++) pdl__lists_leave(net, net->active[i]);
    net->lists = false;
}

void pdl__lists_free(pdl__network_t *net)
{
    for (int32_t i = 0; net->list != NULL && i < net->wires; i++) {
        if (net->list[i].entry != net->list[i].few) free(net->list[i].entry);
        free(net->list[i].motion);
    }
    free(net->list);
    free(net->place);
    free(net->changed);
    free(net->heap);
}

/* To the nearest, as llrint(), of a number that is not negative; without a call. */
static inline pdl__tick_t round_ticks(double ticks)
{
    return (pdl__tick_t)(ticks < 0x1p52 ? ticks + 0x1p52 - 0x1p52 : ticks);
}

/* Sets a rate and the end that follows from it, unless it is the one that was; false: the end does not fit in ticks. */
static bool set_rate(pdl__motion_t *motion, double rate, pdl__tick_t now)
{
    double ticks;

    if (motion->rate > 0) {
        if (fabs(rate - motion->rate) <= PDL__SAME * motion->rate) return true;
        motion->left -= motion->rate * (double)(now - motion->since);
        if (motion->left < 0) motion->left = 0;
    }
    ticks = motion->left / rate;
    if (ticks >= (double)(PDL__NEVER / 4)) return false;
    motion->end = now + round_ticks(ticks);
    motion->rate = rate;
    motion->since = now;
    return true;
}

static pdl_status_t settle_link(pdl__network_t *net, int32_t link, pdl__tick_t now)
{
    pdl__list_t *list = &net->list[link];
    int32_t      held = net->wire[link].held, entity = net->first_link + link;
    pdl__tick_t  due = PDL__NEVER;

    for (int32_t i = 0; i < held; i++) {
        double rate = list->level;

        if (list->odd > 0) rate = pdl__share_rate(&net->flow[list->entry[i] >> net->shift], rate);
        if (!set_rate(&list->motion[i], rate, now)) return PDL_ERR_LIMIT;
        if (list->motion[i].end < due) due = list->motion[i].end;
    }
    if (due >= list->due) return PDL_OK;
    list->due = due;
    if (net->queue->entity[entity].bucket < 0) return pdl__queue_add(net->queue, entity, due);
    return pdl__queue_advance(net->queue, entity, due);
}

pdl_status_t pdl__lists_settle(pdl__network_t *net, pdl__tick_t now)
{
    pdl_status_t status = PDL_OK;

    for (int32_t i = 0; i < net->changes && !status; i++) {
        net->list[net->changed[i]].changed = false;
        status = settle_link(net, net->changed[i], now);
    }
    net->changes = 0;
    return status;
}

const int32_t *pdl__network_due(pdl__network_t *net, int32_t link, pdl__tick_t now, int32_t *count)
{
    pdl__list_t *list = &net->list[link];

    *count = 0;
    list->due = PDL__NEVER;
    for (int32_t i = 0; i < net->wire[link].held; i++)
        if (list->motion[i].end <= now) net->reached[(*count)++] = list->entry[i] >> net->shift;
    pdl__lists_change(net, link);
    return net->reached;
}

pdl__motion_t pdl__network_motion(const pdl__network_t *net, int32_t flow)
{
    const pdl__flow_t *f = &net->flow[flow];

    if (net->lists && f->active && f->bottleneck >= 0)
        return net->list[f->bottleneck].motion[net->place[flow * net->stride + f->bottleneck_hop]];
    return f->motion;
}
