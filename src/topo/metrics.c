/*
 * Numbers about a topology: distances, degree, bisection; cable lengths and cost are in room.c.
 *
 * Distances are counted by breadth-first search between switches that have hosts (between hosts where hosts are
 * their own switches): from one of them when all see the same network, from all of up to 4,096, from a sample
 * beyond.
 */
#include "topo/metrics.h"

#include <math.h>
#include <stdlib.h>

#define MOST_SOURCES   4096
#define SAMPLE_SOURCES 64

/* Arcs between switches (or relaying hosts) only, by the vertex they leave. */
typedef struct arcs {
    int *first, *peer;
} arcs_t;

static bool alive(const pdl_topology_t *topology, int i)
{
    return topology->failed == NULL || !topology->failed[i];
}

/* Is between two vertices that forward. */
static bool between_switches(const pdl_topology_t *topology, int i)
{
    const pdl_link_t *link = &topology->links[i];
    int               hosts = topology->relay ? 0 : topology->hosts;

    return alive(topology, i) && link->src >= hosts && link->dst >= hosts && link->kind != PDL_LINK_INTERNAL &&
           link->kind != PDL_LINK_OPTICAL;
}

static pdl_status_t make_arcs(const pdl_topology_t *topology, arcs_t *arcs)
{
    int total = 0;

    arcs->first = calloc((size_t)topology->vertices + 1, sizeof(int));
    arcs->peer = malloc((2 * (size_t)topology->link_count + 1) * sizeof(int));
    if (arcs->first == NULL || arcs->peer == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for metrics");
    for (int i = 0; i < topology->link_count; i++) {
        if (!between_switches(topology, i)) continue;
        arcs->first[topology->links[i].src]++;
        if (topology->links[i].both_ways) arcs->first[topology->links[i].dst]++;
    }
    for (int v = 0; v <= topology->vertices; v++) arcs->first[v] = total += arcs->first[v];
    for (int i = topology->link_count - 1; i >= 0; i--) {
        const pdl_link_t *link = &topology->links[i];
        if (!between_switches(topology, i)) continue;
        arcs->peer[--arcs->first[link->src]] = link->dst;
        if (link->both_ways) arcs->peer[--arcs->first[link->dst]] = link->src;
    }
    return PDL_OK;
}

/* Vertices that hosts hang on; hosts themselves where there are no switches. */
static int mark_edge(const pdl_topology_t *topology, bool *edge)
{
    int  count = 0;
    bool switches = topology->vertices > topology->hosts;

    for (int v = 0; v < topology->vertices; v++) edge[v] = !switches;
    for (int i = 0; i < topology->link_count && switches; i++) {
        const pdl_link_t *link = &topology->links[i];
        if (link->kind == PDL_LINK_OPTICAL || (link->src < topology->hosts) == (link->dst < topology->hosts))
            continue;
        edge[link->src < topology->hosts ? link->dst : link->src] = true;
    }
    for (int v = 0; v < topology->vertices; v++) count += edge[v];
    return count;
}

/* Adds the distances from one source to all other edge vertices. */
static void measure_from(const pdl_topology_t *topology, const arcs_t *arcs, const bool *edge, int source,
                         int *distance, int *queue, pdl_topology_metrics_t *metrics, int64_t *pairs)
{
    int head = 0, tail = 0;

    for (int v = 0; v < topology->vertices; v++) distance[v] = -1;
    distance[source] = 0;
    queue[tail++] = source;
    while (head < tail) {
        int v = queue[head++];
        if (edge[v] && v != source) {
            metrics->average_hops += distance[v];
            (*pairs)++;
            if (distance[v] > metrics->diameter) metrics->diameter = distance[v];
        }
        for (int i = arcs->first[v]; i < arcs->first[v + 1]; i++) {
            int u = arcs->peer[i];
            if (distance[u] >= 0) continue;
            distance[u] = distance[v] + 1;
            queue[tail++] = u;
        }
    }
}

static void measure_all(const pdl_topology_t *topology, const arcs_t *arcs, const bool *edge, int count,
                        int *distance, int *queue, pdl_topology_metrics_t *metrics)
{
    bool    one = topology->transitive && topology->failed == NULL;
    int     take = one ? 1 : count <= MOST_SOURCES ? count : SAMPLE_SOURCES, seen = 0, taken = 0;
    int64_t pairs = 0;

    metrics->sampled = !one && take < count;
    for (int v = 0; v < topology->vertices; v++) {
        if (!edge[v]) continue;
        /* Sources are spread evenly over the numbering. */
        if ((int64_t)seen++ * take < (int64_t)taken * count) continue;
        taken++;
        measure_from(topology, arcs, edge, v, distance, queue, metrics, &pairs);
    }
    metrics->average_hops = pairs > 0 ? metrics->average_hops / (double)pairs : 0;
}

static pdl_status_t measure_distances(const pdl_topology_t *topology, pdl_topology_metrics_t *metrics)
{
    size_t       vertices = (size_t)topology->vertices;
    bool        *edge = malloc(vertices * sizeof(*edge));
    int         *distance = malloc(vertices * sizeof(*distance)), *queue = malloc(vertices * sizeof(*queue));
    arcs_t       arcs = {NULL, NULL};
    pdl_status_t st = PDL_OK;

    if (edge == NULL || distance == NULL || queue == NULL) st = pdl_error(PDL_ERR_NOMEM, "no memory for metrics");
    if (st == PDL_OK) st = make_arcs(topology, &arcs);
    if (st == PDL_OK) measure_all(topology, &arcs, edge, mark_edge(topology, edge), distance, queue, metrics);
    free(edge);
    free(distance);
    free(queue);
    free(arcs.first);
    free(arcs.peer);
    return st;
}

bool pdl__is_cable(const pdl_topology_t *topology, int i)
{
    const pdl_link_t *link = &topology->links[i];

    return !link->way_back && link->kind != PDL_LINK_NVLINK && link->kind != PDL_LINK_PCIE &&
           link->kind != PDL_LINK_INTERNAL;
}

static pdl_status_t count_cables(const pdl_topology_t *topology, pdl_topology_metrics_t *metrics)
{
    int *degree = calloc((size_t)topology->vertices, sizeof(*degree));

    if (degree == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for metrics");
    for (int i = 0; i < topology->link_count; i++) {
        const pdl_link_t *link = &topology->links[i];
        if (!pdl__is_cable(topology, i)) continue;
        metrics->cables += link->cables;
        if (!between_switches(topology, i)) continue;
        degree[link->src] += link->cables;
        /* Arcs of a digraph count where they leave: as many arrive. */
        if (topology->ops != &pdl__topology_kautz) degree[link->dst] += link->cables;
    }
    for (int v = 0; v < topology->vertices; v++)
        if (degree[v] > metrics->degree) metrics->degree = degree[v];
    free(degree);
    return PDL_OK;
}

pdl_status_t pdl_topology_metrics(const pdl_topology_t *topology, const pdl_room_t *room,
                                  pdl_topology_metrics_t *metrics)
{
    const pdl_room_t       standard = pdl_room_default();
    pdl_topology_metrics_t found = {.vertices = topology->vertices,
                                    .switches = topology->vertices - topology->hosts,
                                    .links = topology->link_count};
    pdl_status_t           st = count_cables(topology, &found);

    if (st == PDL_OK) st = measure_distances(topology, &found);
    if (st == PDL_OK) st = pdl__bisection(topology, &found.bisection_bytes_per_s);
    if (st == PDL_OK) st = pdl__lay_cables(topology, room != NULL ? room : &standard, &found);
    if (st == PDL_OK) *metrics = found;
    return st;
}
