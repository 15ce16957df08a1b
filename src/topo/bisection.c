/*
 * Bisection across the middle of the host numbering, one way.
 *
 * In a direct network routers split with their hosts, and the capacity of the cables across is counted. In the
 * others switches above the hosts belong to neither half, and the greatest flow from the lower half of the hosts
 * to the upper is found (Dinic's algorithm); hosts of one half on one switch enter as one source or sink.
 * Resources inside switches are not counted.
 */
#include "topo/metrics.h"

#include <math.h>
#include <stdlib.h>

typedef struct flow_net {
    int     vertices, arc_count;
    int    *first, *next; /* lists of arcs per vertex; arc i ^ 1 is the way back */
    int    *to;
    double *left; /* capacity that is left */
    int    *level, *queue, *at, *path;
} flow_net_t;

static bool counts(const pdl_topology_t *topology, int i)
{
    pdl_link_kind_t kind = topology->links[i].kind;

    return (topology->failed == NULL || !topology->failed[i]) && kind != PDL_LINK_INTERNAL &&
           kind != PDL_LINK_OPTICAL;
}

/* Whether a vertex of a direct network is in the upper half. */
static bool upper(const pdl_topology_t *topology, int vertex)
{
    int router = vertex < topology->hosts && topology->hosts_per_router > 0 ? vertex / topology->hosts_per_router
                 : vertex < topology->hosts                                 ? vertex
                                                                            : vertex - topology->hosts;
    return router >= topology->routers / 2;
}

static double count_across(const pdl_topology_t *topology)
{
    double sum = 0;

    for (int i = 0; i < topology->link_count; i++) {
        const pdl_link_t *link = &topology->links[i];
        bool              a = upper(topology, link->src), b = upper(topology, link->dst);
        if (counts(topology, i) && ((!a && b) || (a && !b && link->both_ways))) sum += link->bytes_per_s;
    }
    return sum;
}

static void add_arc(flow_net_t *net, int from, int to, double capacity, double back)
{
    const int    ends[2] = {from, to};
    const double left[2] = {capacity, back};

    for (int i = 0; i < 2; i++) {
        int arc = net->arc_count++;
        net->to[arc] = ends[1 - i];
        net->left[arc] = left[i];
        net->next[arc] = net->first[ends[i]];
        net->first[ends[i]] = arc;
    }
}

static bool find_levels(flow_net_t *net, int source, int sink)
{
    int head = 0, tail = 0;

    for (int v = 0; v < net->vertices; v++) net->level[v] = -1;
    net->level[source] = 0;
    net->queue[tail++] = source;
    while (head < tail) {
        int v = net->queue[head++];
        for (int arc = net->first[v]; arc >= 0; arc = net->next[arc]) {
            int u = net->to[arc];
            if (!(net->left[arc] > 0) || net->level[u] >= 0) continue;
            net->level[u] = net->level[v] + 1;
            net->queue[tail++] = u;
        }
    }
    return net->level[sink] >= 0;
}

/* One path along rising levels, pushed as far as its narrowest arc allows; 0 when there is none left. */
static double push_path(flow_net_t *net, int source, int sink)
{
    int    depth = 0, v = source;
    double least = INFINITY;

    while (v != sink) {
        int arc = net->at[v];
        while (arc >= 0 && !(net->left[arc] > 0 && net->level[net->to[arc]] == net->level[v] + 1))
            arc = net->next[arc];
        net->at[v] = arc;
        if (arc >= 0) {
            net->path[depth++] = arc;
            v = net->to[arc];
        } else if (depth > 0) {
            net->level[v] = -1; /* a dead end */
            v = net->to[net->path[--depth] ^ 1];
        } else {
            return 0;
        }
    }
    for (int i = 0; i < depth; i++) least = fmin(least, net->left[net->path[i]]);
    for (int i = 0; i < depth; i++) {
        double rest = net->left[net->path[i]] - least;
        /* What is left by rounding only must not make further paths. */
        net->left[net->path[i]] = rest < 1e-6 ? 0 : rest;
        net->left[net->path[i] ^ 1] += least;
    }
    return least;
}

static double greatest_flow(flow_net_t *net, int source, int sink)
{
    double sum = 0, pushed;

    while (find_levels(net, source, sink)) {
        for (int v = 0; v < net->vertices; v++) net->at[v] = net->first[v];
        while ((pushed = push_path(net, source, sink)) > 0) sum += pushed;
    }
    return sum;
}

/* The vertex that stands for a vertex of the topology: hosts are merged into the source and the sink. */
static int merged(const pdl_topology_t *topology, int vertex)
{
    if (vertex < topology->hosts) return vertex < topology->hosts / 2 ? 0 : 1;
    return vertex - topology->hosts + 2;
}

static void fill_net(const pdl_topology_t *topology, flow_net_t *net)
{
    for (int v = 0; v < net->vertices; v++) net->first[v] = -1;
    for (int i = 0; i < topology->link_count; i++) {
        const pdl_link_t *link = &topology->links[i];
        int               a = merged(topology, link->src), b = merged(topology, link->dst);
        if (!counts(topology, i) || a == b) continue;
        add_arc(net, a, b, link->bytes_per_s, link->both_ways ? link->bytes_per_s : 0);
    }
}

static pdl_status_t flow_across(const pdl_topology_t *topology, double *bytes_per_s)
{
    size_t vertices = (size_t)(topology->vertices - topology->hosts + 2),
           arcs = 2 * (size_t)topology->link_count + 1;
    flow_net_t   net = {.vertices = (int)vertices};
    int         *per_vertex = malloc(5 * vertices * sizeof(int)), *per_arc = malloc(2 * arcs * sizeof(int));
    pdl_status_t st = PDL_OK;

    net.left = malloc(arcs * sizeof(double));
    if (per_vertex == NULL || per_arc == NULL || net.left == NULL) {
        st = pdl_error(PDL_ERR_NOMEM, "no memory for the bisection");
    } else {
        net.first = per_vertex;
        net.level = per_vertex + vertices;
        net.queue = per_vertex + 2 * vertices;
        net.at = per_vertex + 3 * vertices;
        net.path = per_vertex + 4 * vertices;
        net.next = per_arc;
        net.to = per_arc + arcs;
        fill_net(topology, &net);
        *bytes_per_s = greatest_flow(&net, 0, 1);
    }
    free(per_vertex);
    free(per_arc);
    free(net.left);
    return st;
}

pdl_status_t pdl__bisection(const pdl_topology_t *topology, double *bytes_per_s)
{
    *bytes_per_s = 0;
    if (topology->hosts < 2) return PDL_OK;
    /* Hosts that relay are no sources or sinks alone; with all of them in a half the cut is given. */
    if (topology->ops->direct || (topology->relay && topology->vertices == topology->hosts)) {
        *bytes_per_s = count_across(topology);
        return PDL_OK;
    }
    return flow_across(topology, bytes_per_s);
}
