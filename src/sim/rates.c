/*
 * Max-min fair rates of the flows that change: by counting where every flow then has a bottleneck, by progressive
 * filling otherwise (see network.h).
 */
#include "sim/network.h"

#include <math.h>
#include <stdlib.h>

/* Shares that differ by less than this part are the same: rounding, not contention. */
#define SAME 1e-12
/* Batches with more than this part of all flows are worth the attempt to count. */
#define LARGE_BATCH 8
/* So many links that change are looked at one after the other. */
#define FEW_CHANGES 16

/* What a flow uses of the links of its way, and of those of the way back. Whole numbers, so that adding and taking away
   leaves nothing behind, in any order. */
typedef struct use {
    int64_t forward, back;
} use_t;

static use_t use_of(const pdl__network_t *net, const pdl__flow_t *f)
{
    use_t use = {(int64_t)(f->target * (double)f->weight * net->unit), 0};

    if (f->hops > f->forward) use.back = (int64_t)(f->target * (double)f->back * net->unit);
    return use;
}

static int64_t hop_use(const pdl__flow_t *f, use_t use, int hop)
{
    return hop < f->forward ? use.forward : use.back;
}

void pdl__rates_hold(pdl__network_t *net, int32_t flow)
{
    const pdl__flow_t *f = &net->flow[flow];
    const int32_t     *links = net->links + (size_t)flow * (size_t)net->stride;
    use_t              use;

    if (f->hops == 0) return;
    use = use_of(net, f);
    for (int h = 0; h < f->hops; h++) net->wire[links[h]].used += hop_use(f, use, h);
    if (f->bottleneck >= 0) net->wire[f->bottleneck].held++;
}

static void let_go(pdl__network_t *net, int32_t flow)
{
    const pdl__flow_t *f = &net->flow[flow];
    const int32_t     *links = net->links + (size_t)flow * (size_t)net->stride;
    use_t              use;

    if (f->hops == 0) return;
    use = use_of(net, f);
    for (int h = 0; h < f->hops; h++) net->wire[links[h]].used -= hop_use(f, use, h);
    if (f->bottleneck >= 0) net->wire[f->bottleneck].held--;
}

void pdl__rates_enlist(pdl__network_t *net, int32_t flow)
{
    int32_t base = flow * net->stride;

    for (int h = 0; h < net->flow[flow].hops; h++) {
        pdl__wire_t *wire = &net->wire[net->links[base + h]];

        net->entry[base + h] = (pdl__timed_entry_t){wire->head, -1};
        if (wire->head >= 0) net->entry[wire->head].prev = base + h;
        wire->head = base + h;
    }
    pdl__rates_hold(net, flow);
}

void pdl__rates_delist(pdl__network_t *net, int32_t flow)
{
    int32_t base = flow * net->stride;

    let_go(net, flow);
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

static pdl_status_t create_lists(pdl__network_t *net)
{
    net->entry = malloc((size_t)net->room * (size_t)net->stride * sizeof(*net->entry));
    net->heap = malloc((size_t)net->room * (size_t)net->stride * sizeof(*net->heap));
    if (net->entry == NULL || net->heap == NULL)
        return pdl_error(PDL_ERR_NOMEM, "out of memory for the flows of the simulation");
    return PDL_OK;
}

pdl_status_t pdl__rates_make_lists(pdl__network_t *net)
{
    if (net->entry == NULL && create_lists(net)) return PDL_ERR_NOMEM;
    for (int32_t i = 0; i < net->actives; i++) pdl__rates_enlist(net, net->active[i]);
    net->lists = true;
    return PDL_OK;
}

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
    for (int32_t e = wire->head; e >= 0; e = net->entry[e].next) reach_flow(net, e >> net->shift);
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

/* Shares of the flows reached, by counting, as `counted`; `key` and `open` of a link are its own share and the load of
   the flows that have it. True when the shares are max-min fair. */
static bool count_shares(pdl__network_t *net)
{
    for (int32_t i = 0; i < net->reacheds; i++) {
        pdl__flow_t   *f = &net->flow[net->reached[i]];
        const int32_t *links = net->links + (size_t)net->reached[i] * (size_t)net->stride;

        f->counted = INFINITY;
        for (int h = 0; h < f->hops; h++) {
            pdl__wire_t *wire = &net->wire[links[h]];

            wire->key = wire->capacity / (double)wire->load;
            wire->open = 0;
            if (wire->key < f->counted) f->counted = wire->key;
        }
    }
    for (int32_t i = 0; i < net->reacheds; i++) {
        const pdl__flow_t *f = &net->flow[net->reached[i]];
        const int32_t     *links = net->links + (size_t)net->reached[i] * (size_t)net->stride;

        for (int h = 0; h < f->hops; h++)
            if (net->wire[links[h]].key == f->counted) net->wire[links[h]].open += pdl__hop_load(f, h);
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
    for (int32_t i = 0; i < net->reacheds; i++) {
        pdl__flow_t   *f = &net->flow[net->reached[i]];
        const int32_t *links = net->links + (size_t)net->reached[i] * (size_t)net->stride;
        int            h = 0;

        let_go(net, net->reached[i]);
        f->target = f->counted;
        while (h < f->hops && net->wire[links[h]].open != net->wire[links[h]].load) h++;
        f->bottleneck = f->hops > 0 ? links[h] : -1;
        pdl__rates_hold(net, net->reached[i]);
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
    const int32_t *links = net->links + (size_t)flow * (size_t)net->stride;
    use_t          use;

    if (f->stamp == net->stamp) return;
    reach_flow(net, flow);
    f->before = f->target;
    f->target = INFINITY;
    if (f->hops == 0) return;
    f->target = f->before;
    use = use_of(net, f);
    for (int h = 0; h < f->hops; h++) {
        pdl__wire_t *wire = &net->wire[links[h]];

        if (wire->stamp != net->stamp) {
            wire->stamp = net->stamp;
            wire->open = 0;
            wire->key = INFINITY;
            net->touched[net->toucheds++] = links[h];
        }
        wire->open += pdl__hop_load(f, h);
        wire->used -= hop_use(f, use, h);
    }
    if (f->bottleneck >= 0) net->wire[f->bottleneck].held--;
    f->target = -1;
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
    const int32_t     *links = net->links + (size_t)flow * (size_t)net->stride;
    double             least = least_shared(net, f, links);

    for (int h = 0; h < f->hops; h++) {
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

/* Opens the flows whose bottleneck a link is. */
static void open_held(pdl__network_t *net, int32_t link)
{
    if (net->wire[link].held == 0) return;
    for (int32_t e = net->wire[link].head; e >= 0; e = net->entry[e].next)
        if (net->flow[e >> net->shift].bottleneck == link) open_flow(net, e >> net->shift);
}

/* Opens the flows of a full link that have more than its level. */
static void open_faster(pdl__network_t *net, int32_t link, double level)
{
    for (int32_t e = net->wire[link].head; e >= 0; e = net->entry[e].next)
        if (net->flow[e >> net->shift].target > level * (1 + SAME)) open_flow(net, e >> net->shift);
}

/* An open flow gets the level of a link that is full. */
static void take_level(pdl__network_t *net, int32_t flow, int32_t link, double level)
{
    pdl__flow_t   *f = &net->flow[flow];
    const int32_t *links = net->links + (size_t)flow * (size_t)net->stride;
    use_t          use;

    f->target = fabs(level - f->before) <= SAME * f->before ? f->before : level;
    f->bottleneck = link;
    net->wire[link].held++;
    net->opens--;
    use = use_of(net, f);
    for (int h = 0; h < f->hops; h++) {
        net->wire[links[h]].used += hop_use(f, use, h);
        net->wire[links[h]].open -= pdl__hop_load(f, h);
    }
}

/* Where a flow gets less than it had, it leaves something to those that its other links hold back. */
static void give_level(pdl__network_t *net, int32_t flow, int32_t link, double level)
{
    const pdl__flow_t *f = &net->flow[flow];
    const int32_t     *links = net->links + (size_t)flow * (size_t)net->stride;

    take_level(net, flow, link, level);
    if (f->target >= f->before) return;
    for (int h = 0; h < f->hops; h++)
        if (links[h] != link) open_held(net, links[h]);
}

/* The first link of the heap is full. Flows on it that have more are opened first, and the link waits for its new level. */
static void fill_link(pdl__network_t *net, int32_t link, double level)
{
    int32_t first = net->reacheds;

    open_faster(net, link, level);
    if (net->reacheds == first) {
        for (int32_t e = net->wire[link].head; e >= 0; e = net->entry[e].next)
            if (net->flow[e >> net->shift].target < 0) give_level(net, e >> net->shift, link, level);
    }
    for (int32_t i = first; i < net->reacheds; i++) queue_links(net, net->reached[i]);
}

/* The link of a flow that begins which has the least to give. */
static int32_t narrowest(const pdl__network_t *net, int32_t flow)
{
    const int32_t *links = net->links + (size_t)flow * (size_t)net->stride;
    int32_t        narrow = links[0];
    double         least = INFINITY;

    for (int h = 0; h < net->flow[flow].hops; h++) {
        const pdl__wire_t *wire = &net->wire[links[h]];
        double             left = wire->capacity - (double)wire->used * net->part;

        if (left >= least) continue;
        least = left;
        narrow = links[h];
    }
    return narrow;
}

/* True when a level of `link` for the flows opened from `first` on, which are those it holds, leaves every other flow as
   it is: none on the link has more, no other link of an open flow is as full, and those that hold flows get nothing. */
static bool fits(const pdl__network_t *net, int32_t link, double level, int32_t first)
{
    bool lower = false;

    for (int32_t e = net->wire[link].head; e >= 0; e = net->entry[e].next)
        if (net->flow[e >> net->shift].target > level) return false;
    for (int32_t i = first; i < net->reacheds; i++) lower = lower || level < net->flow[net->reached[i]].before;
    for (int32_t i = 0; i < net->toucheds; i++) {
        const pdl__wire_t *wire = &net->wire[net->touched[i]];

        if (net->touched[i] == link) continue;
        if (lower && wire->held > 0) return false;
        if (wire->capacity - (double)wire->used * net->part <= level * (double)wire->open * (1 + SAME))
            return false;
    }
    return true;
}

/* A new level for the flows that a link holds, and for a flow that begins on it (-1: none), where nothing else changes. If
   not, they are left open. */
static bool relevel(pdl__network_t *net, int32_t link, int32_t begins)
{
    int32_t first = net->reacheds;
    double  level;

    if (first + net->wire[link].held >= net->room) return false;
    net->stamp++;
    net->toucheds = 0;
    if (begins >= 0) open_flow(net, begins);
    open_held(net, link);
    if (net->reacheds == first) return true;
    level = level_of(net, link);
    if (!fits(net, link, level, first)) return false;
    for (int32_t i = first; i < net->reacheds; i++) take_level(net, net->reached[i], link, level);
    return true;
}

/* Most events change the levels of single links and nothing else. Then no heap is needed. False: what is left of batch and
   dirty links is to be filled, with the flows that are open. */
static bool relevel_links(pdl__network_t *net)
{
    for (; net->dirties > 0; net->dirties--) {
        int32_t link = net->dirty[net->dirties - 1];

        if (net->wire[link].held > 0 && !relevel(net, link, -1)) return false;
    }
    for (; net->batches > 0; net->batches--) {
        int32_t flow = net->batch[net->batches - 1];

        if (net->flow[flow].hops == 0 || !relevel(net, narrowest(net, flow), flow)) return false;
    }
    return true;
}

/* The link with the least level is filled first. Levels only grow while others are filled, so a stale node of the heap is
   put back with its new one; and a flow that is opened has more than the level of the moment (see network.h). */
static void fill(pdl__network_t *net)
{
    net->reacheds = net->heap_count = net->opens = net->toucheds = 0;
    net->stamp++;
    if (net->batches + net->dirties <= FEW_CHANGES && relevel_links(net)) return;
    for (int32_t i = 0; i < net->batches; i++) open_flow(net, net->batch[i]);
    for (int32_t i = 0; i < net->dirties; i++) open_held(net, net->dirty[i]);
    for (int32_t i = 0; i < net->reacheds; i++)
        if (net->flow[net->reached[i]].target < 0) queue_links(net, net->reached[i]);
    while (net->opens > 0 && net->heap_count > 0) {
        pdl__share_t *top = &net->heap[0];
        int32_t       link = top->link;
        pdl__wire_t  *at = &net->wire[link];
        double        level = at->open > 0 ? level_of(net, link) : 0;

        if (level > top->share * (1 + SAME)) {
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

pdl_status_t pdl__rates_component(pdl__network_t *net, pdl__tick_t now)
{
    bool counted = false;

    if (net->batches > net->actives / LARGE_BATCH) {
        reach_component(net);
        counted = count_shares(net);
    }
    if (counted) {
        take_counted_shares(net);
    } else {
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
