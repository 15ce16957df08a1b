/*
 * Max-min fair shares of the flows that change: by counting where every flow then has a bottleneck, by progressive
 * filling otherwise (see network.h).
 */
#include "sim/lists.h"

#include <math.h>
#include <stdlib.h>

/* Batches with more than this part of all flows are worth the attempt to count. */
#define LARGE_BATCH 8

static void reach_flow(pdl__network_t *net, int32_t flow)
{
    if (net->flow[flow].stamp == net->stamp) return;
    net->flow[flow].stamp = net->stamp;
    net->reached[net->reacheds++] = flow;
}

static void reach_link(pdl__network_t *net, int32_t link)
{
    pdl__wire_t *wire = &net->wire[link];

    if (wire->stamp == net->stamp) return;
    wire->stamp = net->stamp;
    if (wire->sole >= 0) {
        reach_flow(net, wire->sole >> net->shift);
    } else {
        for (int32_t i = 0; i < net->list[link].count; i++) reach_flow(net, net->list[link].entry[i] >> net->shift);
    }
}

/* All flows that share a link with those that began or ended, and so on. */
static void reach_component(pdl__network_t *net)
{
    net->stamp++;
    net->reacheds = 0;
    for (int32_t i = 0; i < net->dirties; i++) reach_link(net, net->dirty[i]);
    for (int32_t i = 0; i < net->batches; i++) reach_flow(net, net->batch[i]);
    for (int32_t i = 0; i < net->reacheds; i++) {
        int32_t flow = net->reached[i];

        for (int h = 0; h < net->flow[flow].hops; h++) reach_link(net, net->links[flow * net->stride + h]);
    }
}

/* Shares of the flows reached, by counting, as `before`; `key` and `open` of a link are its own share and the load of
   the flows that have it. True when the shares are max-min fair. */
static bool count_shares(pdl__network_t *net)
{
    for (int32_t i = 0; i < net->reacheds; i++) {
        pdl__flow_t   *f = &net->flow[net->reached[i]];
        const int32_t *links = net->links + (size_t)net->reached[i] * (size_t)net->stride;

        f->before = INFINITY;
        for (int h = 0; h < f->hops; h++) {
            pdl__wire_t *wire = &net->wire[links[h]];

            wire->key = wire->capacity / (double)wire->load;
            wire->open = 0;
            if (wire->key < f->before) f->before = wire->key;
        }
    }
    for (int32_t i = 0; i < net->reacheds; i++) {
        const pdl__flow_t *f = &net->flow[net->reached[i]];
        const int32_t     *links = net->links + (size_t)net->reached[i] * (size_t)net->stride;

        for (int h = 0; h < f->hops; h++)
            if (net->wire[links[h]].key == f->before) net->wire[links[h]].open += pdl__hop_load(f, h);
    }
    for (int32_t i = 0; i < net->reacheds; i++) {
        const pdl__flow_t *f = &net->flow[net->reached[i]];
        const int32_t     *links = net->links + (size_t)net->reached[i] * (size_t)net->stride;
        bool               bottleneck = f->hops == 0;

        for (int h = 0; h < f->hops && !bottleneck; h++)
            bottleneck = net->wire[links[h]].open == net->wire[links[h]].load;
        if (!bottleneck) return false;
    }
    return true;
}

static void take_counted_shares(pdl__network_t *net)
{
    for (int32_t i = 0; i < net->reacheds; i++) pdl__lists_let_go(net, net->reached[i]);
    for (int32_t i = 0; i < net->reacheds; i++) {
        const pdl__flow_t *f = &net->flow[net->reached[i]];
        const int32_t     *links = pdl__links_of(net, net->reached[i]);
        int                h = 0;

        if (f->hops == 0) continue;
        while (net->wire[links[h]].open != net->wire[links[h]].load) h++;
        pdl__lists_hold(net, net->reached[i], links[h], f->before);
    }
}

static void sift_up(pdl__share_t *heap, int32_t at)
{
    pdl__share_t node = heap[at];

    for (int32_t up; at > 0 && heap[up = (at - 1) / 2].share > node.share; at = up) heap[at] = heap[up];
    heap[at] = node;
}

static void sift_down(pdl__share_t *heap, int32_t at, int32_t count)
{
    pdl__share_t node = heap[at];

    for (int32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1].share < heap[child].share) child++;
        if (heap[child].share >= node.share) break;
        heap[at] = heap[child];
    }
    heap[at] = node;
}

/* What each open flow of a link can have of what the others leave. */
static double level_of(const pdl__network_t *net, int32_t link)
{
    const pdl__wire_t *wire = &net->wire[link];
    double             left = wire->capacity - (double)wire->used * net->part;

    return left > 0 ? left / (double)wire->open : 0;
}

/* Opens a flow: it gives back what it has, and its links join the filling with queue_links(). */
static void open_flow(pdl__network_t *net, int32_t flow)
{
    pdl__flow_t   *f = &net->flow[flow];
    const int32_t *links = pdl__links_of(net, flow);
    pdl__use_t     use;

    if (f->stamp == net->stamp || f->hops == 0) return;
    reach_flow(net, flow);
    if (f->bottleneck >= 0) net->list[f->bottleneck].opened++;
    f->before = pdl__share_of(net, f);
    f->target = -1;
    use = pdl__use_of(net, f, f->before);
    for (int h = pdl__next_hop(f, -1); h < f->hops; h = pdl__next_hop(f, h)) {
        pdl__wire_t *wire = &net->wire[links[h]];

        if (wire->stamp != net->stamp) {
            wire->stamp = net->stamp;
            wire->open = 0;
            wire->key = INFINITY;
        }
        wire->open += pdl__hop_load(f, h);
        if (pdl__hop_shared(f, h)) wire->used -= pdl__hop_use(f, use, h);
    }
    net->opens++;
}

/* The least capacity of the links of its way that a flow shares with others; infinite when it shares none. */
static double least_shared(const pdl__network_t *net, const pdl__flow_t *f, const int32_t *links)
{
    double least = INFINITY;

    for (int h = 0; h < f->forward; h++) {
        const pdl__wire_t *wire = &net->wire[links[h]];

        if (wire->load > f->weight && wire->capacity < least) least = wire->capacity;
    }
    return least;
}

/* Puts the links of an open flow into the heap where they are not there with so low a level. A link that a flow has for
   itself cannot hold the flow back when it is as wide as one that the flow shares, and stays out: the host links of most
   networks. */
static void queue_links(pdl__network_t *net, int32_t flow)
{
    const pdl__flow_t *f = &net->flow[flow];
    const int32_t     *links = pdl__links_of(net, flow);
    double             least = f->uneven ? least_shared(net, f, links) : INFINITY;

    for (int h = pdl__next_hop(f, -1); h < f->hops; h = pdl__next_hop(f, h)) {
        pdl__wire_t *wire = &net->wire[links[h]];
        double       level;

        if (wire->load == f->weight && h < f->forward && wire->capacity >= least) continue;
        level = level_of(net, links[h]);
        if (level >= wire->key) continue;
        wire->key = level;
        net->heap[net->heap_count] = (pdl__share_t){level, links[h]};
        sift_up(net->heap, net->heap_count++);
    }
}

/* Opens the flows that a link holds, but for those that have been opened in this pass. */
static void open_held(pdl__network_t *net, int32_t link)
{
    for (int32_t i = 0; i < net->wire[link].held; i++) open_flow(net, net->list[link].entry[i] >> net->shift);
}

/* Opens the flows of a full link that have more than its level. */
static void open_faster(pdl__network_t *net, int32_t link, double level)
{
    const pdl__list_t *list = pdl__list_of(net, link);
    int32_t            held = net->wire[link].held;

    if (held > list->opened && fabs(list->level - level) > PDL__SAME * level) open_held(net, link);
    for (int32_t i = held; i < list->count; i++) {
        int32_t flow = list->entry[i] >> net->shift;

        if (pdl__share_of(net, &net->flow[flow]) > level * (1 + PDL__SAME)) open_flow(net, flow);
    }
}

/* An open flow is held by a link from now on, as it may have been before. Its share is that of the others there. */
static double be_held(pdl__network_t *net, int32_t flow, int32_t link, double share)
{
    pdl__flow_t *f = &net->flow[flow];
    pdl__list_t *list = &net->list[link];

    if (net->wire[link].held > list->opened) share = list->level;
    if (f->bottleneck >= 0) net->list[f->bottleneck].opened--;
    if (f->bottleneck != link) {
        if (f->bottleneck >= 0) pdl__lists_part(net, flow);
        pdl__lists_join(net, flow, link, share);
        return share;
    }
    list->level = f->target = share;
    pdl__lists_change(net, link);
    return share;
}

/* An open flow gets the level of a link that is full. */
static void take_level(pdl__network_t *net, int32_t flow, int32_t link, double level)
{
    pdl__flow_t   *f = &net->flow[flow];
    const int32_t *links = pdl__links_of(net, flow);
    double share = be_held(net, flow, link, fabs(level - f->before) <= PDL__SAME * f->before ? f->before : level);
    pdl__use_t use = pdl__use_of(net, f, share);

    net->opens--;
    for (int h = pdl__next_hop(f, -1); h < f->hops; h = pdl__next_hop(f, h)) {
        if (pdl__hop_shared(f, h)) net->wire[links[h]].used += pdl__hop_use(f, use, h);
        net->wire[links[h]].open -= pdl__hop_load(f, h);
    }
}

/* Where a flow gets less than it had, it leaves something to those that its other links hold back. */
static void give_level(pdl__network_t *net, int32_t flow, int32_t link, double level)
{
    const pdl__flow_t *f = &net->flow[flow];
    const int32_t     *links = pdl__links_of(net, flow);

    take_level(net, flow, link, level);
    if (f->target >= f->before) return;
    for (int h = pdl__next_hop(f, -1); h < f->hops; h = pdl__next_hop(f, h))
        if (links[h] != link) open_held(net, links[h]);
}

/* The first link of the heap is full. Flows on it that have more are opened first, and the link waits for its new level.
   An open flow that the link did not hold takes a place before those that are still to be looked at. */
static void fill_link(pdl__network_t *net, int32_t link, double level)
{
    const pdl__list_t *list = pdl__list_of(net, link);
    int32_t            first = net->reacheds;

    open_faster(net, link, level);
    if (net->reacheds == first) {
        for (int32_t i = 0; i < list->count; i++)
            if (net->flow[list->entry[i] >> net->shift].target < 0)
                give_level(net, list->entry[i] >> net->shift, link, level);
    }
    for (int32_t i = first; i < net->reacheds; i++) queue_links(net, net->reached[i]);
}

/* The link with the least level is filled first. Levels only grow while others are filled, so a stale node of the heap is
   put back with its new one; and a flow that is opened has more than the level of the moment (see network.h). */
static void fill(pdl__network_t *net)
{
    net->reacheds = net->heap_count = net->opens = 0;
    if (pdl__rates_relevel(net)) return;
    net->stamp++;
    for (int32_t i = 0; i < net->batches; i++) open_flow(net, net->batch[i]);
    for (int32_t i = 0; i < net->dirties; i++) open_held(net, net->dirty[i]);
    for (int32_t i = 0; i < net->reacheds; i++)
        if (net->flow[net->reached[i]].target < 0) queue_links(net, net->reached[i]);
    while (net->opens > 0 && net->heap_count > 0) {
        pdl__share_t *top = &net->heap[0];
        int32_t       link = top->link;
        pdl__wire_t  *at = &net->wire[link];
        double        level = at->open > 0 ? level_of(net, link) : 0;

        if (level > top->share * (1 + PDL__SAME)) {
            top->share = at->key = level;
            sift_down(net->heap, 0, net->heap_count);
            continue;
        }
        level = top->share;
        *top = net->heap[--net->heap_count];
        if (net->heap_count > 0) sift_down(net->heap, 0, net->heap_count);
        at->key = INFINITY;
        if (at->open > 0) fill_link(net, link, level);
    }
}

void pdl__rates_component(pdl__network_t *net)
{
    if (net->batches > net->actives / LARGE_BATCH) {
        reach_component(net);
        if (count_shares(net)) {
            take_counted_shares(net);
            return;
        }
    }
    fill(net);
    net->solves++;
}
