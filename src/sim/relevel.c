/*
 * New levels of single links: most events change nothing else (see network.h).
 */
#include "sim/lists.h"

#include <math.h>

/* So many links that change are looked at one after the other. */
#define FEW_CHANGES 16

/* The link of a flow that begins which has the least to give. */
static int32_t narrowest(const pdl__network_t *net, int32_t flow)
{
    const pdl__flow_t *f = &net->flow[flow];
    const int32_t     *links = pdl__links_of(net, flow);
    int32_t            narrow = links[0];
    double             least = INFINITY;

    for (int h = pdl__next_hop(f, -1); h < f->hops; h = pdl__next_hop(f, h)) {
        const pdl__wire_t *wire = &net->wire[links[h]];
        double             left = wire->capacity - (double)wire->used * net->part;

        if (left >= least) continue;
        least = left;
        narrow = links[h];
    }
    return narrow;
}

/* What the flows that a link holds, and one that begins on it, could have each of what the others leave; negative: one of the
   others has more. */
static double level_of_held(pdl__network_t *net, int32_t link, int32_t begins)
{
    const pdl__list_t *list = pdl__list_of(net, link);
    const pdl__wire_t *wire = &net->wire[link];
    int64_t            open = list->load, others = 0;
    double             most = 0, left, level;

    for (int32_t i = wire->held; i < list->count; i++) {
        int32_t            entry = list->entry[i], flow = entry >> net->shift, hop = entry & (net->stride - 1);
        const pdl__flow_t *f = &net->flow[flow];
        double             share = pdl__share_of(net, f);

        if (f->bottleneck == link || flow == begins) {
            open += pdl__hop_load(f, hop);
            continue;
        }
        if (share > most) most = share;
        others += pdl__hop_use(f, pdl__use_of(net, f, share), hop);
    }
    left = wire->capacity - (double)others * net->part;
    level = left > 0 && open > 0 ? left / (double)open : 0;
    return most > level ? -1 : level;
}

/* A share in place of another one. Flows mostly weigh the same: what more they use is then found once. */
typedef struct change {
    int32_t    link;
    double     before, share;
    int64_t    weight, back; /* of `more` */
    pdl__use_t more;
} change_t;

static void weigh(const pdl__network_t *net, const pdl__flow_t *f, change_t *change)
{
    pdl__use_t before = pdl__use_of(net, f, change->before), use = pdl__use_of(net, f, change->share);

    change->weight = f->weight;
    change->back = f->back;
    change->more = (pdl__use_t){use.forward - before.forward, use.back - before.back};
}

/* True when a link carries no more than it can. */
static bool is_enough(const pdl__network_t *net, const pdl__wire_t *wire)
{
    return (double)wire->used * net->part < wire->capacity * (1 - PDL__SAME);
}

/* True when a flow on a link with a new share leaves the others there as they are: there is enough for it, and those that
   the link holds get nothing. */
static bool leaves_others(const pdl__network_t *net, const pdl__flow_t *f, int hop, const pdl__wire_t *wire,
                          const change_t *change)
{
    if (change->share < change->before) return wire->held == 0;
    if (pdl__hop_shared(f, hop)) return is_enough(net, wire);
    return change->share * (double)pdl__hop_load(f, hop) < wire->capacity * (1 - PDL__SAME);
}

/* Gives a flow another share of the links of its way. True when that changes nothing for others than those of the link. */
static bool change_share(pdl__network_t *net, int32_t flow, change_t *change)
{
    const pdl__flow_t *f = &net->flow[flow];
    const int32_t     *links = pdl__links_of(net, flow);
    bool               alone = true;

    if (f->weight != change->weight || (f->hops > f->forward && f->back != change->back)) weigh(net, f, change);
    for (int h = pdl__next_hop(f, -1); h < f->hops; h = pdl__next_hop(f, h)) {
        pdl__wire_t *wire = &net->wire[links[h]];

        if (pdl__hop_shared(f, h)) wire->used += pdl__hop_use(f, change->more, h);
        if (links[h] != change->link) alone = alone && leaves_others(net, f, h, wire, change);
    }
    return alone;
}

/* The first flows that a link holds have the share again that they had. */
static void restore_shares(pdl__network_t *net, const change_t *change, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        int32_t flow = net->list[change->link].entry[i] >> net->shift;

        pdl__lists_use(net, flow, change->share, -1);
        pdl__lists_use(net, flow, change->before, 1);
    }
}

/* change_share() of a flow that the link holds, for most of them. What it uses of the link itself is left to the caller. */
static inline bool change_plain(pdl__network_t *net, int32_t flow, const change_t *change)
{
    const pdl__flow_t *f = &net->flow[flow];
    const int32_t     *links = pdl__links_of(net, flow);
    bool               alone = true;

    for (uint32_t hops = f->shared & ~(1u << f->bottleneck_hop); hops != 0; hops &= hops - 1) {
        pdl__wire_t *wire = &net->wire[links[__builtin_ctz(hops)]];

        wire->used += change->more.forward;
        alone &= change->share < change->before ? wire->held == 0 : is_enough(net, wire);
    }
    return alone;
}

/* The plain flows that a link holds get another level; the number of them that can have it. */
static int32_t change_plain_flows(pdl__network_t *net, change_t *change)
{
    const pdl__list_t *list = &net->list[change->link];
    int32_t            done = 0, held = net->wire[change->link].held;

    weigh(net, &net->flow[list->entry[0] >> net->shift], change);
    while (done < held && change_plain(net, list->entry[done] >> net->shift, change)) done++;
    if (list->count > 1) net->wire[change->link].used += (done < held ? done + 1 : held) * change->more.forward;
    return done;
}

/* The flows that a link holds get another level. If that changes anything for others, all is left as it was. */
static bool change_level(pdl__network_t *net, change_t *change)
{
    pdl__list_t *list = &net->list[change->link];
    int32_t      held = net->wire[change->link].held, done = 0;

    if (list->odd == 0) {
        done = change_plain_flows(net, change);
    } else {
        while (done < held && change_share(net, list->entry[done] >> net->shift, change)) done++;
    }
    if (done < held) {
        restore_shares(net, change, done + 1);
        return false;
    }
    list->level = change->share;
    pdl__lists_change(net, change->link);
    return true;
}

/* A flow that begins gets the level of a link, which then holds it. Not if that changes anything for others. */
static bool begin_with(pdl__network_t *net, int32_t flow, int32_t link, double level)
{
    change_t change = {.link = link, .before = 0, .share = level, .weight = -1};

    if (change_share(net, flow, &change)) {
        pdl__lists_join(net, flow, link, level);
        return true;
    }
    pdl__lists_use(net, flow, level, -1);
    return false;
}

/* A new level for the flows that a link holds, and for a flow that begins on it (-1: none), where nothing else changes. */
static bool relevel(pdl__network_t *net, int32_t link, int32_t begins)
{
    double   level = level_of_held(net, link, begins);
    change_t change = {.link = link, .before = net->list[link].level, .share = level, .weight = -1};
    bool     changes = net->wire[link].held > 0 && fabs(level - change.before) > PDL__SAME * change.before;

    if (level < 0 || (changes && !change_level(net, &change))) return false;
    if (begins < 0 || begin_with(net, begins, link, net->wire[link].held > 0 ? net->list[link].level : level))
        return true;
    if (changes) {
        restore_shares(net, &change, net->wire[link].held);
        net->list[link].level = change.before;
    }
    return false;
}

/* Most events change the levels of single links and nothing else. Then no heap is needed. False: what is left of batch and
   dirty links is to be filled, with the flows that are open. */
bool pdl__rates_relevel(pdl__network_t *net)
{
    if (net->batches + net->dirties > FEW_CHANGES) return false;
    for (; net->dirties > 0; net->dirties--) {
        int32_t link = net->dirty[net->dirties - 1];

        if (net->wire[link].held > 0 && !relevel(net, link, -1)) return false;
    }
    for (; net->batches > 0; net->batches--) {
        int32_t flow = net->batch[net->batches - 1];

        if (net->flow[flow].hops > 0 && !relevel(net, narrowest(net, flow), flow)) return false;
    }
    return true;
}
