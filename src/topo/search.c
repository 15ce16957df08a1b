/*
 * Shortest ways by breadth-first search from the destination; among several the lowest link first. Used for
 * graphs from files and for ways round failed links.
 *
 * The next link from every vertex towards every host is kept in a table while that has at most 2^24 entries.
 * Beyond, the search towards the destination asked for last is kept. Optical fibres are left out: without a circuit
 * they lead nowhere.
 */
#include "topo/network.h"

#include <stdlib.h>

#define MOST_ENTRIES (INT64_C(1) << 24)

struct pdl__search {
    int  vertices, hosts;
    int *first;       /* per vertex, where its arcs begin */
    int *peer, *link; /* arcs into a vertex: where they come from, and over which link */
    int *next;        /* [host][vertex], or [vertex] for `dst` */
    int *distance, *queue;
    int  dst; /* of the search kept; -1: the table holds all */
};

void pdl__search_destroy(pdl__search_t *search)
{
    if (search == NULL) return;
    free(search->first);
    free(search->peer);
    free(search->link);
    free(search->next);
    free(search->distance);
    free(search->queue);
    free(search);
}

static bool usable(const pdl_topology_t *topology, const bool *failed, int i)
{
    pdl_link_kind_t kind = topology->links[i].kind;

    return (failed == NULL || !failed[i]) && kind != PDL_LINK_INTERNAL && kind != PDL_LINK_OPTICAL;
}

/* Sorts arcs by the vertex they enter (`out`: leave); arcs of a vertex stay in the order of links. */
static void fill_arcs(const pdl_topology_t *topology, const bool *failed, bool out, pdl__search_t *search)
{
    int *first = search->first, total = 0;

    for (int v = 0; v <= topology->vertices; v++) first[v] = 0;
    for (int i = 0; i < topology->link_count; i++) {
        const pdl_link_t *link = &topology->links[i];
        if (!usable(topology, failed, i)) continue;
        first[out ? link->src : link->dst]++;
        if (link->both_ways) first[out ? link->dst : link->src]++;
    }
    for (int v = 0; v <= topology->vertices; v++) {
        total += first[v];
        first[v] = total;
    }
    /* Filled from the back, every first[v] ends where its arcs begin. */
    for (int i = topology->link_count - 1; i >= 0; i--) {
        const pdl_link_t *link = &topology->links[i];
        int               at = out ? link->src : link->dst, other = out ? link->dst : link->src;
        if (!usable(topology, failed, i)) continue;
        search->peer[--first[at]] = other;
        search->link[first[at]] = i;
        if (!link->both_ways) continue;
        search->peer[--first[other]] = at;
        search->link[first[other]] = i;
    }
}

/* Searches from `root` against the arcs; next[v] becomes the lowest link that leads nearer. The greatest distance
   of a host, or -1 when one is not reached. */
static int search_from(const pdl__search_t *search, bool relay, int root, int *next)
{
    int head = 0, tail = 0, reached = 0, deepest = 0;

    for (int v = 0; v < search->vertices; v++) search->distance[v] = -1;
    search->distance[root] = 0;
    search->queue[tail++] = root;
    while (head < tail) {
        int v = search->queue[head++], d = search->distance[v];
        if (v < search->hosts) {
            reached++;
            deepest = d;
            if (!relay && v != root) continue;
        }
        for (int i = search->first[v]; i < search->first[v + 1]; i++) {
            int u = search->peer[i];
            if (search->distance[u] < 0) {
                search->distance[u] = d + 1;
                next[u] = search->link[i];
                search->queue[tail++] = u;
            } else if (search->distance[u] == d + 1 && search->link[i] < next[u]) {
                next[u] = search->link[i];
            }
        }
    }
    return reached == search->hosts ? deepest : -1;
}

static pdl_status_t cut_off(const pdl_topology_t *topology, const pdl__search_t *search)
{
    for (int v = 0; v < search->hosts; v++)
        if (search->distance[v] < 0)
            return pdl_error(PDL_ERR_LIMIT, "%s falls apart: host %d is cut off from others", topology->name, v);
    return PDL_OK;
}

/* Where paths may pass in any case: a switch of host 0, or host 0 itself. */
static int middle_of(const pdl_topology_t *topology, const bool *failed)
{
    for (int i = 0; i < topology->link_count && !topology->relay; i++) {
        const pdl_link_t *link = &topology->links[i];
        if (!usable(topology, failed, i)) continue;
        if (link->src == 0) return link->dst;
        if (link->dst == 0 && link->both_ways) return link->src;
    }
    return 0;
}

/* Fills the table; or, where it is too large, bounds all routes by those through one vertex in the middle. */
static pdl_status_t search_all(const pdl_topology_t *topology, const bool *failed, pdl__search_t *search)
{
    int deepest = 0;

    if (search->dst < 0) {
        for (int host = 0; host < search->hosts; host++) {
            int deep = search_from(search, topology->relay, host, search->next + (int64_t)host * search->vertices);
            if (deep < 0) return cut_off(topology, search);
            if (deep > deepest) deepest = deep;
        }
    } else {
        int middle = middle_of(topology, failed), out, in;
        fill_arcs(topology, failed, true, search);
        out = search_from(search, topology->relay, middle, search->next);
        if (out < 0) return cut_off(topology, search);
        fill_arcs(topology, failed, false, search);
        in = search_from(search, topology->relay, middle, search->next);
        if (in < 0) return cut_off(topology, search);
        deepest = in + out;
        search->dst = search->hosts; /* none kept yet */
    }
    /* Internal resources add at most two per vertex. */
    return pdl__check_route_length(topology->name, topology->internal != NULL ? 3 * (int64_t)deepest : deepest);
}

pdl_status_t pdl__search_create(const pdl_topology_t *topology, const bool *failed, pdl__search_t **search)
{
    pdl__search_t *made = calloc(1, sizeof(*made));
    size_t         vertices = (size_t)topology->vertices, arcs = 2 * (size_t)topology->link_count + 1;
    bool           table = (int64_t)topology->hosts * topology->vertices <= MOST_ENTRIES;
    pdl_status_t   st;

    if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory to search %s", topology->name);
    made->vertices = topology->vertices;
    made->hosts = topology->hosts;
    made->dst = table ? -1 : 0;
    made->first = malloc((vertices + 1) * sizeof(int));
    made->peer = malloc(arcs * sizeof(int));
    made->link = malloc(arcs * sizeof(int));
    made->next = malloc((table ? (size_t)topology->hosts : 1) * vertices * sizeof(int));
    made->distance = malloc(vertices * sizeof(int));
    made->queue = malloc(vertices * sizeof(int));
    if (made->first == NULL || made->peer == NULL || made->link == NULL || made->next == NULL ||
        made->distance == NULL || made->queue == NULL) {
        st = pdl_error(PDL_ERR_NOMEM, "no memory to search %s", topology->name);
    } else {
        fill_arcs(topology, failed, false, made);
        st = search_all(topology, failed, made);
    }
    if (st != PDL_OK) {
        pdl__search_destroy(made);
        return st;
    }
    *search = made;
    return PDL_OK;
}

/* Adds the inside of a vertex: once on the way up or down, twice where the path turns round. Vertices of higher
   levels have higher numbers. */
static int cross(const pdl_topology_t *topology, int before, int at, int after, int *links)
{
    int inside = topology->internal != NULL ? topology->internal[at] : -1;

    if (inside < 0) return 0;
    links[0] = links[1] = inside;
    return before < at && after < at ? 2 : 1;
}

int pdl__search_route(const pdl_topology_t *topology, int src, int dst, int *links)
{
    pdl__search_t *search = topology->search;
    const int     *next = search->next;
    int            count = 0, at = src, before = -1;

    if (search->dst < 0) {
        next += (int64_t)dst * search->vertices;
    } else if (search->dst != dst) {
        search_from(search, topology->relay, dst, search->next);
        search->dst = dst;
    }
    while (at != dst) {
        const pdl_link_t *link = &topology->links[next[at]];
        int               after = link->src == at ? link->dst : link->src;
        if (before >= 0) count += cross(topology, before, at, after, links + count);
        links[count++] = next[at];
        before = at;
        at = after;
    }
    return count;
}
