/*
 * Lower bounds of a collective on a topology: no algorithm is faster in the alpha-beta model of the network.
 *
 *   latency    the shortest way to the host that is farthest from the first one; a rank may send to all others at once, so
 *              that no number of rounds is a bound
 *   bandwidth  what all hosts together must send over the capacity of their own links
 *   cut        what must cross from one side of the network to the other over the capacity between them; sides are
 *              the hosts of one switch with it, and the first s switches with their hosts, for every s
 */
#include <paradl/sim/sim.h>

#include <math.h>
#include <stdlib.h>

/* The links at the hosts. */
typedef struct ends {
    double capacity;  /* out of the hosts that take part */
    double latency_s; /* of the shortest way from one host to another */
    bool   half;      /* one resource for both directions */
} ends_t;

/* What all ranks together must send, in vectors. */
static double volume_sent(pdl_collective_t collective, double ranks)
{
    switch (collective) {
    case PDL_COLL_ALLREDUCE: return 2 * (ranks - 1);
    case PDL_COLL_ALLTOALL: return (ranks - 1) / ranks;
    default: return ranks - 1;
    }
}

static void look_at_ends(const pdl_topology_t *topology, int ranks, ends_t *ends)
{
    const pdl_link_t *links = pdl_topology_links(topology);
    int               hosts = pdl_topology_hosts(topology);
    double            least_in = INFINITY, least_out = INFINITY, least_direct = INFINITY;

    *ends = (ends_t){0};
    for (int i = 0; i < pdl_topology_link_count(topology); i++) {
        const pdl_link_t *link = &links[i];
        bool              from = link->src < ranks || (link->both_ways && link->dst < ranks);
        bool              to = link->dst < ranks || (link->both_ways && link->src < ranks);

        if (link->kind == PDL_LINK_INTERNAL || link->bytes_per_s <= 0) continue;
        if (from) ends->capacity += link->bytes_per_s;
        if (link->both_ways && from) ends->half = true;
        if (link->src < hosts && link->dst < hosts) {
            least_direct = fmin(least_direct, link->latency_s);
        } else {
            if (from) least_out = fmin(least_out, link->latency_s);
            if (to) least_in = fmin(least_in, link->latency_s);
        }
    }
    ends->latency_s = fmin(least_direct, least_out + least_in);
    if (!isfinite(ends->latency_s)) ends->latency_s = 0;
}

/* Ways out of every vertex: links first[v] .. first[v + 1] - 1 of `link`; those of both directions twice. */
typedef struct ways {
    int    *first, *link, *queue;
    double *far_s;
    bool   *waits;
} ways_t;

static void free_ways(ways_t *ways)
{
    free(ways->first);
    free(ways->link);
    free(ways->queue);
    free(ways->far_s);
    free(ways->waits);
}

static bool list_ways(const pdl_topology_t *topology, ways_t *ways)
{
    const pdl_link_t *links = pdl_topology_links(topology);
    size_t            vertices = (size_t)pdl_topology_vertices(topology);
    int               count = pdl_topology_link_count(topology);

    *ways = (ways_t){.first = calloc(vertices + 2, sizeof(int)),
                     .link = calloc(2 * (size_t)count + 1, sizeof(int)),
                     .queue = calloc(vertices + 1, sizeof(int)),
                     .far_s = calloc(vertices + 1, sizeof(double)),
                     .waits = calloc(vertices + 1, sizeof(bool))};
    if (ways->first == NULL || ways->link == NULL || ways->queue == NULL || ways->far_s == NULL ||
        ways->waits == NULL)
        return false;
    for (int i = 0; i < count; i++) {
        ways->first[links[i].src + 2]++;
        if (links[i].both_ways) ways->first[links[i].dst + 2]++;
    }
    for (size_t v = 2; v <= vertices + 1; v++) ways->first[v] += ways->first[v - 1];
    for (int i = 0; i < count; i++) {
        ways->link[ways->first[links[i].src + 1]++] = i;
        if (links[i].both_ways) ways->link[ways->first[links[i].dst + 1]++] = i;
    }
    return true;
}

/* Shortest ways from the first host; a vertex that is reached sooner than before is looked at again. */
static void spread(const pdl_topology_t *topology, ways_t *ways)
{
    const pdl_link_t *links = pdl_topology_links(topology);
    int               vertices = pdl_topology_vertices(topology), head = 0, waiting = 1;

    for (int v = 1; v < vertices; v++) ways->far_s[v] = INFINITY;
    while (waiting > 0) {
        int from = ways->queue[head];

        head = (head + 1) % vertices;
        waiting--;
        ways->waits[from] = false;
        for (int w = ways->first[from]; w < ways->first[from + 1]; w++) {
            const pdl_link_t *link = &links[ways->link[w]];
            int               to = link->src == from ? link->dst : link->src;
            double            far_s = ways->far_s[from] + link->latency_s;

            if (link->bytes_per_s <= 0 || !(far_s < ways->far_s[to])) continue;
            ways->far_s[to] = far_s;
            if (ways->waits[to]) continue;
            ways->waits[to] = true;
            ways->queue[(head + waiting++) % vertices] = to;
        }
    }
}

/* Something of the first rank must reach every other one, by whatever way. */
static pdl_status_t look_at_distances(const pdl_topology_t *topology, int ranks, double *latency_s)
{
    ways_t ways;
    bool   listed = list_ways(topology, &ways);

    *latency_s = 0;
    if (listed) spread(topology, &ways);
    for (int r = 0; listed && r < ranks; r++)
        if (isfinite(ways.far_s[r])) *latency_s = fmax(*latency_s, ways.far_s[r]);
    free_ways(&ways);
    return listed ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for the lower bound");
}

/* All-to-all: every block crosses the links of its way, and all links together carry no more than the sum of their
   capacities. Ways are as short as the topology routes them. Up to 1,024 ranks, as it looks at all pairs. */
static double hop_bound(const pdl_topology_t *topology, int ranks, double bytes)
{
    const pdl_link_t *links = pdl_topology_links(topology);
    double            hops = 0, capacity = 0;
    int               way[PDL_MAX_ROUTE];

    if (ranks > 1024) return 0;
    for (int src = 0; src < ranks; src++)
        for (int dst = 0; dst < ranks; dst++) hops += pdl_topology_route(topology, src, dst, way);
    for (int i = 0; i < pdl_topology_link_count(topology); i++) capacity += links[i].bytes_per_s;
    return hops * bytes / ranks / ranks / capacity;
}

/* The switch of each host, itself where it has none; the vertex below which a cut places it. */
static void attach_hosts(const pdl_topology_t *topology, int *home)
{
    const pdl_link_t *links = pdl_topology_links(topology);
    int               hosts = pdl_topology_hosts(topology);

    for (int v = 0; v < pdl_topology_vertices(topology); v++) home[v] = v;
    for (int i = 0; i < pdl_topology_link_count(topology); i++) {
        if (links[i].src < hosts && links[i].dst >= hosts && home[links[i].src] == links[i].src)
            home[links[i].src] = links[i].dst;
        if (links[i].dst < hosts && links[i].src >= hosts && home[links[i].dst] == links[i].dst)
            home[links[i].dst] = links[i].src;
    }
}

typedef struct cuts {
    double *out, *in;             /* of one vertex with its hosts */
    double *ahead_out, *ahead_in; /* changes of the capacity of the prefix cut */
    int    *ranks, *home;
} cuts_t;

static void add_link(cuts_t *cuts, int src, int dst, double capacity)
{
    int a = cuts->home[src], b = cuts->home[dst];

    if (a == b) return;
    cuts->out[a] += capacity;
    cuts->in[b] += capacity;
    if (a < b) {
        cuts->ahead_out[a] += capacity;
        cuts->ahead_out[b] -= capacity;
    } else {
        cuts->ahead_in[b] += capacity;
        cuts->ahead_in[a] -= capacity;
    }
}

/* The vectors that must cross a cut with `inside` of `ranks` on one side, over its capacity in each direction. A
   broadcast crosses it once, in the direction that its root decides. */
static double cut_time(pdl_collective_t collective, double inside, double ranks, double out, double in,
                       double bytes)
{
    double outside = ranks - inside;

    if (inside <= 0 || outside <= 0 || out <= 0 || in <= 0) return 0;
    switch (collective) {
    case PDL_COLL_ALLREDUCE: return bytes / fmin(out, in);
    case PDL_COLL_BROADCAST: return bytes / fmax(out, in);
    case PDL_COLL_ALLTOALL: return bytes * inside * outside / (ranks * ranks) / fmin(out, in);
    case PDL_COLL_ALLGATHER: return bytes / ranks * fmax(inside / out, outside / in);
    default: return bytes / ranks * fmax(outside / out, inside / in);
    }
}

static double worst_cut(const cuts_t *cuts, int vertices, pdl_collective_t collective, int ranks, double bytes)
{
    double out = 0, in = 0, inside = 0, worst = 0;

    for (int v = 0; v < vertices; v++) {
        worst = fmax(worst, cut_time(collective, cuts->ranks[v], ranks, cuts->out[v], cuts->in[v], bytes));
        out += cuts->ahead_out[v];
        in += cuts->ahead_in[v];
        inside += cuts->ranks[v];
        worst = fmax(worst, cut_time(collective, inside, ranks, out, in, bytes));
    }
    return worst;
}

static pdl_status_t look_at_cuts(const pdl_topology_t *topology, pdl_collective_t collective, int ranks,
                                 double bytes, double *cut_s)
{
    const pdl_link_t *links = pdl_topology_links(topology);
    size_t            vertices = (size_t)pdl_topology_vertices(topology);
    double           *sums = calloc(4 * vertices + 1, sizeof(*sums));
    int              *counts = calloc(2 * vertices + 1, sizeof(*counts));
    cuts_t cuts = {sums, sums + vertices, sums + 2 * vertices, sums + 3 * vertices, counts, counts + vertices};

    if (sums == NULL || counts == NULL) {
        free(sums);
        free(counts);
        return pdl_error(PDL_ERR_NOMEM, "out of memory for the lower bound");
    }
    attach_hosts(topology, cuts.home);
    for (int r = 0; r < ranks; r++) cuts.ranks[cuts.home[r]]++;
    for (int i = 0; i < pdl_topology_link_count(topology); i++) {
        if (links[i].kind == PDL_LINK_INTERNAL || links[i].src == links[i].dst) continue;
        add_link(&cuts, links[i].src, links[i].dst, links[i].bytes_per_s);
        if (links[i].both_ways) add_link(&cuts, links[i].dst, links[i].src, links[i].bytes_per_s);
    }
    *cut_s = worst_cut(&cuts, (int)vertices, collective, ranks, bytes);
    free(sums);
    free(counts);
    return PDL_OK;
}

pdl_status_t pdl_sim_bound(const pdl_topology_t *topology, pdl_collective_t collective, int ranks, double bytes,
                           double gamma_s_per_byte, pdl_bound_t *bound)
{
    pdl_bound_t  found = {.governing = "latency"};
    ends_t       ends = {0};
    pdl_status_t status;
    double       reduce_s;

    if (ranks < 1 || ranks > pdl_topology_hosts(topology))
        return pdl_error(PDL_ERR_INPUT, "a bound for %d ranks on %d hosts", ranks, pdl_topology_hosts(topology));
    if (ranks == 1) {
        *bound = found;
        return PDL_OK;
    }
    look_at_ends(topology, ranks, &ends);
    found.nearest_s = ends.latency_s;
    status = look_at_distances(topology, ranks, &found.latency_s);
    if (!status) status = look_at_cuts(topology, collective, ranks, bytes, &found.cut_s);
    if (status) return status;
    found.bandwidth_s = volume_sent(collective, ranks) * bytes * (ends.half ? 2 : 1) / ends.capacity;
    if (collective == PDL_COLL_ALLTOALL)
        found.bandwidth_s = fmax(found.bandwidth_s, hop_bound(topology, ranks, bytes));
    reduce_s = collective == PDL_COLL_ALLREDUCE || collective == PDL_COLL_REDUCE_SCATTER
                   ? gamma_s_per_byte * bytes * (ranks - 1) / ranks
                   : 0;
    found.total_s = found.latency_s;
    if (found.bandwidth_s > found.total_s) found.total_s = found.bandwidth_s, found.governing = "bandwidth";
    if (found.cut_s > found.total_s) found.total_s = found.cut_s, found.governing = "cut";
    if (reduce_s > found.total_s) found.total_s = reduce_s, found.governing = "reduction";
    *bound = found;
    return PDL_OK;
}
