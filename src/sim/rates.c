/*
 * Max-min fair rates of the flows that can change: by counting where every flow then has a bottleneck, by progressive
 * filling otherwise (see network.h).
 */
#include "sim/network.h"

#include <math.h>
#include <stdlib.h>

/* Rates that differ by less than this part are the same: residuals of repeated subtraction, not contention. */
#define SAME 1e-12
/* Levels and loads this close to each other count as reached, where a doubt only costs a look at more flows. */
#define CLOSE 1e-9
/* Of batches with more than this part of all flows, everything is solved at once. */
#define LARGE_BATCH 8

void pdl__rates_enlist(pdl__network_t *net, int32_t flow)
{
    int32_t base = flow * net->stride;

    for (int h = 0; h < net->flow[flow].hops; h++) {
        pdl__wire_t *wire = &net->wire[net->links[base + h]];

        net->entry[base + h] = (pdl__timed_entry_t){wire->head, -1};
        if (wire->head >= 0) net->entry[wire->head].prev = base + h;
        wire->head = base + h;
    }
}

void pdl__rates_delist(pdl__network_t *net, int32_t flow)
{
    int32_t base = flow * net->stride;

    for (int h = 0; h < net->flow[flow].hops; h++) {
        pdl__timed_entry_t entry = net->entry[base + h];

        if (entry.prev >= 0) {
            net->entry[entry.prev].next = entry.next;
        } else {
            net->wire[net->links[base + h]].head = entry.next;
        }
        if (entry.next >= 0) net->entry[entry.next].prev = entry.prev;
    }
}

pdl_status_t pdl__rates_make_lists(pdl__network_t *net)
{
    if (net->entry == NULL) {
        net->entry = malloc((size_t)net->room * (size_t)net->stride * sizeof(*net->entry));
        net->heap = malloc((size_t)net->wires * sizeof(*net->heap));
        if (net->entry == NULL || net->heap == NULL)
            return pdl_error(PDL_ERR_NOMEM, "out of memory for the flows of the simulation");
    }
    for (int32_t i = 0; i < net->actives; i++) pdl__rates_enlist(net, net->active[i]);
    net->lists = true;
    return PDL_OK;
}

/* The level from which on the flows that are left on a link may get more: that at which it was full. */
static double freed_level(const pdl__network_t *net, int32_t link)
{
    double used = net->freed[link].sum, fastest = 0;

    for (int32_t e = net->wire[link].head; e >= 0; e = net->entry[e].next) {
        const pdl__flow_t *f = &net->flow[e >> net->shift];

        if (f->rate <= 0) continue; /* of the batch */
        used += f->target * (double)pdl__hop_load(f, e & (net->stride - 1));
        if (f->target > fastest) fastest = f->target;
    }
    if (used < net->wire[link].capacity * (1 - CLOSE) || fastest < net->freed[link].fastest * (1 - CLOSE))
        return INFINITY;
    return fastest;
}

/* The level at which a link with new flows is full: flows with smaller shares have these, all others the level. It is
   approached from below, and every step on the way is a lower bound. */
static double loaded_level(const pdl__network_t *net, int32_t link)
{
    const pdl__wire_t *wire = &net->wire[link];
    double             level = wire->capacity / (double)wire->load;

    for (int round = 0; round < 4; round++) {
        double  used = 0, before = level;
        int64_t open = 0;

        for (int32_t e = wire->head; e >= 0; e = net->entry[e].next) {
            const pdl__flow_t *f = &net->flow[e >> net->shift];
            int64_t            load = pdl__hop_load(f, e & (net->stride - 1));

            if (f->rate > 0 && f->target < level) {
                used += f->target * (double)load;
            } else {
                open += load;
            }
        }
        level = open > 0 ? (wire->capacity - used) / (double)open : INFINITY;
        if (!(level > before * (1 + CLOSE))) break;
    }
    return level;
}

/* The level below which nothing can have changed. */
static double find_floor(pdl__network_t *net)
{
    double floor = INFINITY;

    if (net->batches > net->actives / LARGE_BATCH) return 0;
    for (int32_t i = 0; i < net->dirties; i++) floor = fmin(floor, freed_level(net, net->dirty[i]));
    net->stamp++;
    for (int32_t i = 0; i < net->batches; i++) {
        int32_t flow = net->batch[i];

        for (int h = 0; h < net->flow[flow].hops; h++) {
            int32_t link = net->links[flow * net->stride + h];

            if (net->wire[link].stamp == net->stamp) continue;
            net->wire[link].stamp = net->stamp;
            floor = fmin(floor, loaded_level(net, link));
        }
    }
    return floor * (1 - CLOSE);
}

static void reach_flow(pdl__network_t *net, int32_t flow)
{
    if (net->flow[flow].stamp == net->stamp) return;
    net->flow[flow].stamp = net->stamp;
    net->reached[net->reacheds++] = flow;
}

/* Reaches the flows of a link that can change; the others keep their part of it. */
static void reach_link(pdl__network_t *net, int32_t link)
{
    pdl__wire_t *wire = &net->wire[link];

    if (wire->stamp == net->stamp) return;
    wire->stamp = net->stamp;
    wire->residual = wire->capacity;
    wire->open = wire->load;
    for (int32_t e = wire->head; e >= 0; e = net->entry[e].next) {
        const pdl__flow_t *f = &net->flow[e >> net->shift];

        if (f->rate > 0 && f->target < net->floor) {
            int64_t load = pdl__hop_load(f, e & (net->stride - 1));

            wire->residual -= f->target * (double)load;
            wire->open -= load;
            net->whole = false;
        } else {
            reach_flow(net, e >> net->shift);
        }
    }
}

/* All flows at or above the floor that share a link with those that began or ended, and so on. */
static void reach(pdl__network_t *net)
{
    net->floor = find_floor(net);
    net->whole = true;
    net->stamp++;
    net->reacheds = 0;
    for (int32_t i = 0; i < net->dirties; i++) reach_link(net, net->dirty[i]);
    for (int32_t i = 0; i < net->batches; i++) reach_flow(net, net->batch[i]);
    for (int32_t i = 0; i < net->reacheds; i++) {
        int32_t flow = net->reached[i];

        for (int h = 0; h < net->flow[flow].hops; h++) reach_link(net, net->links[flow * net->stride + h]);
    }
}

/* Rates by counting; `residual` and `open` of a link sum the load at its own share. True when they are max-min
   fair. */
static bool count_rates(pdl__network_t *net)
{
    for (int32_t i = 0; i < net->reacheds; i++) {
        pdl__flow_t   *f = &net->flow[net->reached[i]];
        const int32_t *links = net->links + (size_t)net->reached[i] * (size_t)net->stride;

        f->target = INFINITY;
        for (int h = 0; h < f->hops; h++) {
            pdl__wire_t *wire = &net->wire[links[h]];

            wire->residual = wire->capacity / (double)wire->load;
            wire->open = 0;
            if (wire->residual < f->target) f->target = wire->residual;
        }
    }
    for (int32_t i = 0; i < net->reacheds; i++) {
        pdl__flow_t   *f = &net->flow[net->reached[i]];
        const int32_t *links = net->links + (size_t)net->reached[i] * (size_t)net->stride;

        for (int h = 0; h < f->hops; h++)
            if (net->wire[links[h]].residual == f->target) net->wire[links[h]].open += pdl__hop_load(f, h);
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

/* The least capacity of the links that a flow shares with others; infinite when it shares none. */
static double least_shared(const pdl__network_t *net, const pdl__flow_t *f, const int32_t *links)
{
    double least = INFINITY;

    for (int h = 0; h < f->hops; h++) {
        const pdl__wire_t *wire = &net->wire[links[h]];

        if (wire->load > pdl__hop_load(f, h) && wire->capacity < least) least = wire->capacity;
    }
    return least;
}

/* Every link of the flows that can change with what the others leave of its capacity. A link that a flow has for itself cannot hold it back when
   it is as wide as one that the flow shares, and stays out of the heap: the host links of most networks. */
static void open_links(pdl__network_t *net)
{
    net->stamp++;
    net->heap_count = 0;
    for (int32_t i = 0; i < net->reacheds; i++) {
        pdl__flow_t   *f = &net->flow[net->reached[i]];
        const int32_t *links = net->links + (size_t)net->reached[i] * (size_t)net->stride;
        double         least = least_shared(net, f, links);

        f->target = -1;
        for (int h = 0; h < f->hops; h++) {
            pdl__wire_t *wire = &net->wire[links[h]];

            if (wire->stamp == net->stamp) continue;
            wire->stamp = net->stamp;
            if (net->whole) {
                wire->residual = wire->capacity;
                wire->open = wire->load;
            }
            if (wire->load == f->weight && h < f->forward && wire->capacity >= least) continue;
            net->heap[net->heap_count] = (pdl__share_t){wire->residual / (double)wire->open, links[h]};
            sift_up(net->heap, net->heap_count++);
        }
    }
}

/* Gives the open flows of a link its share and takes it from all their links. */
static int32_t fill_link(pdl__network_t *net, int32_t link, double share)
{
    int32_t filled = 0;

    for (int32_t e = net->wire[link].head; e >= 0; e = net->entry[e].next) {
        int32_t        flow = e >> net->shift;
        pdl__flow_t   *f = &net->flow[flow];
        const int32_t *links = net->links + (size_t)flow * (size_t)net->stride;

        if (f->target >= 0) continue;
        f->target = share;
        filled++;
        for (int h = 0; h < f->hops; h++) {
            int64_t load = pdl__hop_load(f, h);

            net->wire[links[h]].open -= load;
            net->wire[links[h]].residual -= share * (double)load;
        }
    }
    return filled;
}

/* The link with the least share of its residual capacity is filled first. Shares only grow while others are
   filled, so a stale node of the heap is put back with its new share. */
static void fill(pdl__network_t *net)
{
    int32_t to_go = 0;

    open_links(net);
    for (int32_t i = 0; i < net->reacheds; i++) {
        if (net->flow[net->reached[i]].hops == 0) {
            net->flow[net->reached[i]].target = INFINITY;
        } else {
            to_go++;
        }
    }
    while (to_go > 0 && net->heap_count > 0) {
        pdl__share_t *top = &net->heap[0];
        pdl__wire_t  *wire = &net->wire[top->link];
        double        share = wire->open > 0 ? wire->residual / (double)wire->open : 0;

        if (wire->open > 0 && share > top->share * (1 + SAME)) {
            top->share = share;
        } else {
            if (wire->open > 0) to_go -= fill_link(net, top->link, top->share);
            *top = net->heap[--net->heap_count];
        }
        if (net->heap_count > 0) sift_down(net->heap, 0, net->heap_count);
    }
}

pdl_status_t pdl__rates_component(pdl__network_t *net, pdl__tick_t now)
{
    reach(net);
    if (!net->whole || !count_rates(net)) {
        fill(net);
        net->solves++;
    }
    for (int32_t i = 0; i < net->reacheds; i++) {
        const pdl__flow_t *f = &net->flow[net->reached[i]];
        double             rate = pdl__share_rate(f, f->target);
        pdl_status_t       status;

        if (f->rate > 0 && (rate == f->rate || fabs(rate - f->rate) <= SAME * f->rate)) continue;
        status = pdl__network_set_rate(net, net->reached[i], rate, now);
        if (status) return status;
    }
    return PDL_OK;
}
