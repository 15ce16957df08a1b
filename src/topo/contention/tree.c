/*
 * Links and static routes of a machine tree; the rules are stated in paradl/contention.h.
 *
 * Messages of a higher level keep the order of the ports they come from: port q of child c of a group is number
 * c * ports + q among all that enter the group from below, and takes link (number mod links) out of the group. With
 * as many links as ports below this is one link each, as in a fat tree with well-chosen routes.
 */
#include "topo/contention/tree.h"

#include <math.h>

/* Links that carry data: a fraction left by the oversubscription becomes one more, and all are a little slower. */
static void set_links(pdl__tree_level_t *out, const pdl_level_t *level)
{
    double effective = level->ports / level->oversubscription;
    double whole = ceil(effective - 1e-9 * effective);

    out->links = whole < 1 ? 1 : (int64_t)whole;
    out->capacity = level->bandwidth_bytes_per_s;
    if (fabs(whole - effective) > 1e-9 * effective || whole < 1) out->capacity *= effective / (double)out->links;
}

pdl_status_t pdl__tree_init(pdl__tree_t *tree, const pdl_system_t *system, bool host_path)
{
    const pdl_level_t *levels = host_path ? system->host_level : system->level;
    int64_t            size = 1;

    *tree = (pdl__tree_t){.level_count = system->level_count, .pe_count = system->pe_count};
    for (int l = 0; l < tree->level_count; l++) {
        pdl__tree_level_t *out = &tree->level[l];
        out->child = size;
        out->fanout = system->level[l].fanout;
        size *= out->fanout;
        out->shared = levels[l].shared_medium;
        out->span = out->shared ? size : out->child;
        set_links(out, &levels[l]);
    }
    if (system->network == NULL) return PDL_OK;
    tree->network_speed =
        system->level[system->level_count - 1].bandwidth_bytes_per_s / system->network->port_bytes_per_s;
    return pdl_topology_network(system, &tree->network);
}

static int64_t floor_mod(int64_t a, int64_t b)
{
    int64_t r = a % b;
    return r < 0 ? r + b : r;
}

/* The port by which messages of a device leave its group of level - 1. */
static int64_t port_above(const pdl__tree_t *tree, int level, int64_t pe)
{
    const pdl__tree_level_t *below = &tree->level[level - 1];
    int64_t                  child = pe / below->child % below->fanout;
    int64_t                  links = tree->level[level].links;

    if (level == 1) return child * links / below->fanout;
    if (below->shared) return child % links;
    return (child * below->links + port_above(tree, level - 1, pe)) % links;
}

int64_t pdl__tree_link(const pdl__tree_t *tree, int level, int64_t pe, int64_t peer)
{
    const pdl__tree_level_t *at = &tree->level[level];

    if (at->links == 1) return 0;
    if (at->shared) return pe / at->child % at->fanout * at->links / at->fanout;
    if (level == 0) return floor_mod(peer - pe - 1, at->fanout) % at->links;
    return port_above(tree, level, pe);
}

int pdl__tree_common_level(const pdl__tree_t *tree, int64_t a, int64_t b)
{
    for (int l = 0; l < tree->level_count; l++) {
        int64_t group = tree->level[l].child * tree->level[l].fanout;
        if (a / group == b / group) return l;
    }
    return tree->level_count;
}

int pdl__tree_route(const pdl__tree_t *tree, int64_t from, int64_t to, pdl__hop_t hops[PDL__ROUTE_MAX])
{
    int count = 0, top = pdl__tree_common_level(tree, from, to);

    if (from == to) return 0;
    for (int l = 0; l <= top && l < tree->level_count; l++) {
        int64_t span = tree->level[l].span;
        hops[count++] = (pdl__hop_t){l, false, from / span, pdl__tree_link(tree, l, from, to)};
        hops[count++] = (pdl__hop_t){l, true, to / span, pdl__tree_link(tree, l, to, from)};
    }
    return count;
}

/* The host of the network that a device's messages enter or leave it by: a port of its group. */
static int host_of(const pdl__tree_t *tree, int64_t pe, int64_t peer)
{
    int                      top = tree->level_count - 1;
    const pdl__tree_level_t *at = &tree->level[top];

    return (int)((pe / at->child * at->links + pdl__tree_link(tree, top, pe, peer)) %
                 pdl_topology_hosts(tree->network));
}

int pdl__tree_network(const pdl__tree_t *tree, int64_t from, int64_t to, int links[PDL_MAX_ROUTE])
{
    int top = tree->level_count - 1;

    if (tree->network == NULL || from == to || pdl__tree_common_level(tree, from, to) < top) return 0;
    return pdl_topology_route(tree->network, host_of(tree, from, to), host_of(tree, to, from), links);
}

double pdl__tree_network_capacity(const pdl__tree_t *tree, int link)
{
    return tree->network_speed * pdl_topology_links(tree->network)[link].bytes_per_s;
}

double pdl__tree_network_latency(const pdl__tree_t *tree, const int *links, int count)
{
    double latency_s = 0;

    for (int i = 0; i < count; i++) latency_s += pdl_topology_links(tree->network)[links[i]].latency_s;
    return latency_s;
}

/* The ports above level 1 follow from that on level 1; most of the time no division is needed. */
static void update_ports(pdl__walk_t *walk)
{
    const pdl__tree_level_t *level = walk->tree->level;

    if (level[walk->level].shared) {
        walk->port[walk->level] = walk->digit[walk->level] * level[walk->level].links / level[walk->level].fanout;
        return;
    }
    for (int l = 2; l <= walk->level; l++) {
        const pdl__tree_level_t *below = &level[l - 1];
        int64_t                  number = walk->digit[l - 1];
        if (!below->shared) number = number * below->links + walk->port[l - 1];
        walk->port[l] = number < level[l].links ? number : number % level[l].links;
    }
}

void pdl__walk_init(pdl__walk_t *walk, const pdl__tree_t *tree, int level, int64_t pe)
{
    *walk = (pdl__walk_t){.tree = tree, .level = level};
    for (int l = 0; l <= level; l++) walk->digit[l] = pe / tree->level[l].child % tree->level[l].fanout;
    if (level >= 1) {
        int64_t spread = walk->digit[0] * tree->level[1].links;
        walk->port[1] = spread / tree->level[0].fanout;
        walk->block_rest = spread % tree->level[0].fanout;
    }
    update_ports(walk);
}

void pdl__walk_next(pdl__walk_t *walk)
{
    const pdl__tree_level_t *level = walk->tree->level;
    int                      l = 0;

    while (l <= walk->level && ++walk->digit[l] == level[l].fanout) walk->digit[l++] = 0;
    if (walk->level >= 1) {
        if (walk->digit[0] == 0) {
            walk->port[1] = 0;
            walk->block_rest = 0;
        } else {
            walk->block_rest += level[1].links;
            if (walk->block_rest >= level[0].fanout) {
                walk->port[1] += walk->block_rest / level[0].fanout;
                walk->block_rest %= level[0].fanout;
            }
        }
    }
    update_ports(walk);
}
