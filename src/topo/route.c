/*
 * Routes: the rule of the family between the hosts' own links, and ways round links that failed.
 */
#include "topo/network.h"

#include <stdlib.h>

/* The route as if no link had failed. */
static int plain_route(const pdl_topology_t *topology, int src, int dst, int *links)
{
    const pdl__topology_ops_t *ops = topology->ops;
    int                        h = topology->hosts_per_router, count = 0, a, b;

    if (!ops->direct || h == 0) return ops->route(topology, src, dst, links);
    a = src / h;
    b = dst / h;
    links[count++] = pdl__cable_link(topology, src, 0);
    if (a != b) count += ops->route(topology, a, b, links + count);
    links[count++] = pdl__cable_link(topology, dst, 1);
    return count;
}

static bool uses_failed(const pdl_topology_t *topology, const int *links, int count)
{
    for (int i = 0; i < count; i++)
        if (topology->failed[links[i]]) return true;
    return false;
}

int pdl_topology_route(const pdl_topology_t *topology, int src, int dst, int links[PDL_MAX_ROUTE])
{
    int count;

    if (src == dst) return 0;
    count = plain_route(topology, src, dst, links);
    if (topology->failed == NULL || !uses_failed(topology, links, count)) return count;
    return pdl__search_route(topology, src, dst, links);
}

int pdl_topology_route_sized(const pdl_topology_t *topology, int src, int dst, double bytes,
                             int links[PDL_MAX_ROUTE])
{
    int count;

    if (topology->ops != &pdl__topology_hybrid || src == dst || bytes >= topology->spec.optical_min_bytes)
        return pdl_topology_route(topology, src, dst, links);
    count = pdl__hybrid_electrical(topology, src, dst, links);
    if (topology->failed == NULL || !uses_failed(topology, links, count)) return count;
    return pdl__search_route(topology, src, dst, links);
}

int pdl_topology_path(const pdl_topology_t *topology, int src, const int *links, int count,
                      int vertices[PDL_MAX_ROUTE + 1])
{
    int n = 0;

    vertices[n++] = src;
    for (int i = 0; i < count; i++) {
        const pdl_link_t *link = &topology->links[links[i]];
        int               at = vertices[n - 1];
        if (link->kind == PDL_LINK_INTERNAL) {
            if (link->src != at) return 0;
        } else if (link->src == at) {
            vertices[n++] = link->dst;
        } else if (link->dst == at && link->both_ways) {
            vertices[n++] = link->src;
        } else {
            return 0;
        }
    }
    return n;
}

/* Takes out `link`, or (-1) all links of a vertex. */
static pdl_status_t take_out(pdl_topology_t *topology, int link, int vertex)
{
    bool          *failed = calloc((size_t)topology->link_count, sizeof(*failed));
    pdl__search_t *search;
    pdl_status_t   st;

    if (failed == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for %d links", topology->link_count);
    for (int i = 0; i < topology->link_count; i++)
        failed[i] = (topology->failed != NULL && topology->failed[i]) || i == link ||
                    (link < 0 && (topology->links[i].src == vertex || topology->links[i].dst == vertex));
    st = pdl__search_create(topology, failed, &search);
    if (st != PDL_OK) {
        free(failed);
        return st;
    }
    free(topology->failed);
    pdl__search_destroy(topology->search);
    topology->failed = failed;
    topology->search = search;
    return PDL_OK;
}

pdl_status_t pdl_topology_fail_link(pdl_topology_t *topology, int link)
{
    if (link < 0 || link >= topology->link_count)
        return pdl_error(PDL_ERR_INPUT, "%s has no link %d; links are numbered 0..%d", topology->name, link,
                         topology->link_count - 1);
    if (topology->links[link].kind == PDL_LINK_INTERNAL)
        return pdl_error(PDL_ERR_INPUT, "link %d is the inside of a switch and cannot fail alone", link);
    return take_out(topology, link, -1);
}

pdl_status_t pdl_topology_fail_switch(pdl_topology_t *topology, int vertex)
{
    if (vertex < topology->hosts || vertex >= topology->vertices)
        return pdl_error(PDL_ERR_INPUT, "%s has no switch with the vertex %d", topology->name, vertex);
    return take_out(topology, -1, vertex);
}
