/*
 * Any bytes given to the reader of topologies yield an error or a network in which every route that is tried leads
 * from its source to its destination.
 */
#include <paradl/topo/topo.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Holds in every build, unlike assert(). */
static void require(bool condition)
{
    if (!condition) abort();
}

static void use_routes(const pdl_topology_t *topology)
{
    static int links[PDL_MAX_ROUTE], path[PDL_MAX_ROUTE + 1];
    int        hosts = pdl_topology_hosts(topology);

    for (int i = 0; i < 16; i++) {
        int src = i * 7 % hosts, dst = (int)((int64_t)i * hosts / 16), count, vertices;
        count = pdl_topology_route(topology, src, dst, links);
        require(count >= 0 && count <= PDL_MAX_ROUTE && (count == 0) == (src == dst));
        vertices = pdl_topology_path(topology, src, links, count, path);
        require(vertices >= 1 && path[vertices - 1] == dst);
    }
}

static void use_metrics(const pdl_topology_t *topology)
{
    pdl_topology_metrics_t metrics;

    require(pdl_topology_metrics(topology, NULL, &metrics) == PDL_OK);
    require(metrics.diameter >= 0 && isfinite(metrics.average_hops) && isfinite(metrics.cost));
    require(metrics.bisection_bytes_per_s >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_topology_t *topology;

    if (pdl_topology_read_memory((const char *)data, size, "fuzz.yaml", &topology) != PDL_OK) return 0;
    require(pdl_topology_hosts(topology) >= 1 && pdl_topology_vertices(topology) >= pdl_topology_hosts(topology));
    require(pdl_topology_hosts_per_switch(topology) >= 1);
    use_routes(topology);
    /* Large networks are made from few bytes; what takes long there is left out. */
    if (pdl_topology_link_count(topology) <= 4096) {
        use_metrics(topology);
        if (pdl_topology_link_count(topology) > 0 && pdl_topology_fail_link(topology, 0) == PDL_OK)
            use_routes(topology);
    }
    pdl_topology_destroy(topology);
    return 0;
}
