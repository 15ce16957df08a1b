/*
 * What the links of a machine carry in an iteration, by level. Where one group of the machine stands for all others, only its links
 * carry something: means are over links that do.
 */
#include "sim/plan/plan.h"

#include <math.h>
#include <stdio.h>

#define DEVICES (-1) /* in place of a level */

/* The level that a vertex is a group of, and its number there; behind the groups come the ports and switches of a network. */
typedef struct vertex {
    int level, number;
    int ports; /* of the network it is in; 0: it is in none */
} vertex_t;

static vertex_t vertex_of(const pdl_system_t *system, int hosts, int vertex)
{
    const pdl_topology_t *network = NULL;
    int                   first = hosts, last = system->level_count - 1;

    if (vertex < hosts) return (vertex_t){DEVICES, vertex, 0};
    for (int l = 0; l < last; l++) {
        int64_t group = pdl_system_group_size(system, l);
        int     count = (int)((hosts + group - 1) / group);

        if (vertex < first + count) return (vertex_t){l, vertex - first, 0};
        first += count;
    }
    if (pdl_topology_network(system, &network) || network == NULL) return (vertex_t){last, vertex - first, 0};
    return (vertex_t){last, vertex - first, pdl_topology_hosts(network)};
}

/* "device 3", "node 0", "port 5" or "switch 7". */
static void name_vertex(const pdl_system_t *system, const vertex_t *v, char *buffer, size_t size)
{
    if (v->level == DEVICES)
        snprintf(buffer, size, "device %d", v->number);
    else if (v->ports == 0)
        snprintf(buffer, size, "%s %d", system->level[v->level].name, v->number);
    else if (v->number < v->ports)
        snprintf(buffer, size, "port %d", v->number);
    else
        snprintf(buffer, size, "switch %d", v->number - v->ports);
}

static double bytes_of(const pdl__pricer_t *pricer, int link)
{
    double bytes = pricer->link_bytes[link];

    for (int k = 0; k < pricer->count; k++)
        bytes += pricer->prices[k].comm.times * pricer->prices[k].link_bytes[link];
    return bytes;
}

/* Links of a level join its groups to what they are made of. */
static void add_link(pdl_level_sim_t *level, double bytes, double share)
{
    level->links++;
    if (!(bytes > 0)) return;
    level->used++;
    level->mean_share += (share - level->mean_share) / level->used;
    if (share <= level->largest_share) return;
    level->largest_share = share;
    level->largest_bytes = bytes;
}

void pdl__sim_links(const pdl__pricer_t *pricer, pdl_plan_sim_t *sim)
{
    const pdl_system_t *system = pdl_oracle_system(pricer->oracle);
    const pdl_link_t   *links = pdl_topology_links(pricer->topology);
    int                 hosts = pdl_topology_hosts(pricer->topology);
    char                from[24], to[24];

    sim->level_count = system->level_count;
    for (int l = 0; l < system->level_count; l++)
        snprintf(sim->levels[l].name, sizeof(sim->levels[l].name), "%.23s", system->level[l].name);
    for (int i = 0; i < pdl_topology_link_count(pricer->topology); i++) {
        vertex_t src = vertex_of(system, hosts, links[i].src), dst = vertex_of(system, hosts, links[i].dst);
        double   bytes = bytes_of(pricer, i), seconds = bytes / links[i].bytes_per_s;
        double   share = sim->simulated.total_s > 0 ? seconds / sim->simulated.total_s : 0;
        int      level = src.level > dst.level ? src.level : dst.level;

        add_link(&sim->levels[level == DEVICES ? 0 : level], bytes, share);
        if (share <= sim->busiest_share) continue;
        name_vertex(system, &src, from, sizeof(from));
        name_vertex(system, &dst, to, sizeof(to));
        snprintf(sim->busiest_link, sizeof(sim->busiest_link), "%s to %s", from, to);
        sim->busiest_bytes = bytes;
        sim->busiest_share = share;
    }
}
