/*
 * The topology that a system names for its outermost level, the links of such a machine, and phi of the messages of a mesh axis,
 * which are counted one by one: on a network of any kind no part of it stands for the others.
 */
#include "topo/contention/network.h"

#include "topo/network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void destroy(void *made)
{
    pdl_topology_destroy(made);
}

/* A route over the network and the links to it must fit: no way is longer than there are vertices, or, as routes there are shortest
   ones, than the two ways by the first host. */
static bool is_wide(const pdl_topology_t *network)
{
    int longest = 0, links[PDL_MAX_ROUTE];

    if (network->vertices > PDL_MAX_ROUTE / 2)
        for (int h = 0; h < network->hosts; h++) {
            int count = pdl_topology_route(network, 0, h, links);

            if (count > longest) longest = count;
        }
    return 2 * longest > PDL_MAX_ROUTE - PDL__ROUTE_MAX;
}

static pdl_status_t check_hosts(const pdl_system_t *system, const pdl_topology_t *network)
{
    const pdl_level_t *top = &system->level[system->level_count - 1];
    double             ports = (double)top->fanout * top->ports;

    if (strcmp(network->ops->name, "hybrid") == 0)
        return pdl_error(
            PDL_ERR_LIMIT,
            "the network of %s is hybrid: its circuits are switched for one collective, not for a plan",
            system->name);
    if (is_wide(network))
        return pdl_error(PDL_ERR_LIMIT, "the ways over the network of %s are too long: give it shorter ones",
                         system->name);
    if (ports == (double)network->hosts) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "the network of %s has %d hosts, but level %s has %g (fanout %lld x %g ports)",
                     system->name, network->hosts, top->name, ports, (long long)top->fanout, top->ports);
}

pdl_status_t pdl_topology_network(const pdl_system_t *system, const pdl_topology_t **network)
{
    pdl_system_network_t *n = system->network;
    pdl_topology_t       *made;
    char                  place[128];
    pdl_status_t          status;

    *network = n != NULL ? n->made : NULL;
    if (n == NULL || n->made != NULL) return PDL_OK;
    snprintf(place, sizeof(place), "network of %.100s", system->name);
    status = n->path != NULL ? pdl__topology_read_file(n->path, &made)
                             : pdl_topology_read_memory(n->text, strlen(n->text), place, &made);
    if (status) return status;
    status = check_hosts(system, made);
    if (status) {
        pdl_topology_destroy(made);
        return status;
    }
    n->destroy = destroy;
    n->made = made;
    *network = made;
    return PDL_OK;
}

pdl_status_t pdl_contention_latency(const pdl_system_t *system, int64_t from, int64_t to, double *latency_s)
{
    pdl__tree_t  tree;
    int          links[PDL_MAX_ROUTE];
    pdl_status_t status;

    *latency_s = 0;
    if (system->network == NULL) return PDL_OK;
    status = pdl__tree_init(&tree, system, false);
    if (!status) *latency_s = pdl__tree_network_latency(&tree, links, pdl__tree_network(&tree, from, to, links));
    return status;
}

pdl_status_t pdl__links_init(pdl__links_t *links, const pdl__tree_t *tree, int64_t devices, int levels)
{
    int64_t count = 0;

    *links = (pdl__links_t){.tree = tree, .levels = levels};
    for (int l = 0; l < levels; l++) {
        const pdl__tree_level_t *at = &tree->level[l];

        links->first[l] = (int)count;
        count += 2 * ((devices + at->span - 1) / at->span) * at->links;
        if (count > PDL__MOST_LINKS) break;
    }
    links->first[levels] = (int)count;
    if (tree->network != NULL && levels == tree->level_count) count += pdl_topology_link_count(tree->network);
    links->count = (int)count;
    if (count <= PDL__MOST_LINKS) return PDL_OK;
    return pdl_error(PDL_ERR_LIMIT, "%lld devices have more links than can be counted", (long long)devices);
}

/* The way up, over the network, then the way down: the tree names the links of each level in pairs. */
int pdl__links_route(const pdl__links_t *links, int64_t from, int64_t to, int way[PDL__WAY_MAX])
{
    const pdl__tree_t *tree = links->tree;
    pdl__hop_t         hops[PDL__ROUTE_MAX];
    int                count = pdl__tree_route(tree, from, to, hops);
    int                across = pdl__tree_network(tree, from, to, way + count / 2);

    for (int i = 0; i < across; i++) way[count / 2 + i] += links->first[links->levels];
    for (int i = 0; i < count; i++) {
        int64_t within = hops[i].span * tree->level[hops[i].level].links + hops[i].link;
        int     at = hops[i].down ? count + across - 1 - hops[i].level : hops[i].level;

        way[at] = links->first[hops[i].level] + (int)(2 * within) + hops[i].down;
    }
    return count + across;
}

int pdl__links_level(const pdl__links_t *links, int link)
{
    int level = 0;

    while (level + 1 < links->levels && link >= links->first[level + 1]) level++;
    return level;
}

double pdl__links_capacity(const pdl__links_t *links, int link)
{
    int network = link - links->first[links->levels];

    return network >= 0 ? pdl__tree_network_capacity(links->tree, network)
                        : links->tree->level[pdl__links_level(links, link)].capacity;
}

pdl_status_t pdl__carried_create(const pdl__tree_t *tree, int64_t devices, pdl__carried_t *carried)
{
    pdl_status_t status;

    *carried = (pdl__carried_t){.top = -1, .least = INFINITY};
    status = pdl__links_init(&carried->links, tree, devices, tree->level_count);
    if (status) return status;
    carried->amount = calloc((size_t)carried->links.count + 1, sizeof(*carried->amount));
    carried->touched = malloc(((size_t)carried->links.count + 1) * sizeof(*carried->touched));
    if (carried->amount != NULL && carried->touched != NULL) return PDL_OK;
    pdl__carried_free(carried);
    return pdl_error(PDL_ERR_NOMEM, "out of memory for %d links", carried->links.count);
}

void pdl__carried_free(pdl__carried_t *carried)
{
    free(carried->amount);
    free(carried->touched);
    carried->amount = NULL;
    carried->touched = NULL;
}

void pdl__carried_add(pdl__carried_t *carried, int64_t from, int64_t to, double amount)
{
    const pdl__tree_t *tree = carried->links.tree;
    int                way[PDL__WAY_MAX], count = pdl__links_route(&carried->links, from, to, way);
    int                common = pdl__tree_common_level(tree, from, to), last = tree->level_count - 1;
    int                top = common < last ? common : last, up = top + 1;

    if (from == to || !(amount > 0)) return;
    if (top > carried->top) carried->top = top;
    for (int i = 0; i < count; i++) {
        if (!(carried->amount[way[i]] > 0)) carried->touched[carried->touched_count++] = way[i];
        carried->amount[way[i]] += amount;
        carried->least = fmin(carried->least, pdl__links_capacity(&carried->links, way[i]));
    }
    if (top < last) return;
    for (int i = up; i < count - up; i++) way[i] -= carried->links.first[carried->links.levels];
    carried->latency_s = fmax(carried->latency_s, pdl__tree_network_latency(tree, way + up, count - 2 * up));
}

double pdl__carried_end(pdl__carried_t *carried, const double *efficiency, int *busiest, double *amount)
{
    double seconds = 0;

    *busiest = -1;
    *amount = 0;
    for (int i = 0; i < carried->touched_count; i++) {
        int    link = carried->touched[i];
        double share = efficiency != NULL ? efficiency[pdl__links_level(&carried->links, link)] : 1;
        double busy = carried->amount[link] / (share * pdl__links_capacity(&carried->links, link));

        if (busy > seconds) {
            seconds = busy;
            *busiest = link;
            *amount = carried->amount[link];
        }
        carried->amount[link] = 0;
    }
    carried->touched_count = 0;
    return seconds;
}

/* The messages of all active groups in one step: rank i sends to i + step around the group, or not around the end of it. */
static void add_step(pdl__carried_t *carried, const pdl_contention_query_t *q, int64_t step, bool around)
{
    int64_t groups = q->pe_count / q->size, active = groups;

    if (q->concurrent > 0 && q->concurrent < groups) active = q->concurrent;
    for (int64_t g = 0; g < active; g++) {
        int64_t first = g / q->stride * q->size * q->stride + g % q->stride;

        for (int64_t i = 0; i < q->size; i++) {
            int64_t peer = i + step;

            if (!around && (peer < 0 || peer >= q->size)) continue;
            pdl__carried_add(carried, first + i * q->stride, first + peer % q->size * q->stride, 1);
        }
    }
}

/* Steps of an all-to-all that are looked at: all of few, some of many. */
enum { MOST_STEPS = 32 };

pdl_status_t pdl__network_explain(const pdl__tree_t *tree, const pdl_contention_query_t *query,
                                  pdl_contention_answer_t *answer)
{
    pdl__carried_t carried;
    int64_t        steps = query->pattern == PDL_PATTERN_PAIRWISE ? query->size - 1 : 1, asked = steps;
    double         worst = 0, sum = 0;
    pdl_status_t   status = pdl__carried_create(tree, query->pe_count, &carried);

    if (status) return status;
    *answer = (pdl_contention_answer_t){.phi = 1};
    if (asked > MOST_STEPS) asked = MOST_STEPS;
    for (int64_t s = 0; s < asked; s++) {
        bool   around = query->pattern != PDL_PATTERN_NEIGHBOURS;
        int    busiest;
        double messages, seconds;

        add_step(&carried, query, 1 + s * steps / asked, around);
        if (!around) add_step(&carried, query, -1, around);
        seconds = pdl__carried_end(&carried, NULL, &busiest, &messages);
        sum += seconds;
        if (seconds <= worst) continue;
        worst = seconds;
        answer->bottleneck_level = pdl__links_level(&carried.links, busiest);
        answer->bottleneck_messages = (int64_t)messages;
    }
    answer->level = carried.top > 0 ? carried.top : 0;
    answer->latency_s = carried.latency_s;
    answer->seconds_per_byte = sum / (double)asked;
    answer->phi = fmax(1, answer->seconds_per_byte * carried.least);
    pdl__carried_free(&carried);
    return PDL_OK;
}
