/*
 * What the topologies share. Internal to topo.
 *
 * A topology is a list of links and a rule that names the links of a route. Most links come in cables: cable c
 * has the links 2c (from its first end to its second) and 2c+1 (back) when it is full duplex, and the one link c
 * when it is half duplex. A family numbers its cables so that its rule can compute them; no table of routes is
 * stored.
 *
 * In a direct network every router has h hosts (h = 0: the router is the host), host cables come first, and the
 * rule of the family goes from router to router. In the others it goes from host to host.
 */
#ifndef PDL_TOPO_NETWORK_H
#define PDL_TOPO_NETWORK_H

#include <paradl/topo/topo.h>

#include <stdbool.h>
#include <stddef.h>

/* Bounds that keep every index in an int and every table in memory. */
#define PDL__MOST_LINKS    (INT64_C(1) << 25)
#define PDL__MOST_VERTICES (INT64_C(1) << 24)

typedef struct pdl__topology_ops {
    const char *name, *summary;
    bool        direct; /* route() takes routers */
    pdl_status_t (*create)(pdl_topology_t *topology, const pdl_topology_spec_t *spec);
    int (*route)(const pdl_topology_t *topology, int src, int dst, int *links);
    /* optional */
    int (*cabinet)(const pdl_topology_t *topology, int vertex); /* NULL: switches in the order of their numbers */
    void (*destroy)(pdl_topology_t *topology);                  /* frees `data`; NULL: free(data) */
} pdl__topology_ops_t;

typedef struct pdl__search pdl__search_t;

struct pdl_topology {
    const pdl__topology_ops_t *ops;
    pdl_topology_spec_t        spec;
    char                      *name;
    char                       description[160];
    int                        hosts, vertices, routers;
    int                        hosts_per_router; /* direct networks; 0: hosts are routers */
    int                        group;            /* consecutive hosts of a switch or node, for algorithms */
    int                        full;             /* 1 full duplex, 0 half: links of cable c start at c << full */
    int                        router_cables;    /* number of the first cable between routers */
    bool                       relay;            /* hosts forward for others */
    bool                       transitive;       /* every router sees the same network */
    int                        floor_columns;    /* switches in a row of the machine room; 0: near square */
    pdl_link_t                *links;
    int                        link_count, link_capacity;
    int                       *internal; /* per vertex, the resource inside it or -1; NULL: none */
    bool                      *failed;   /* per link; NULL: none */
    pdl__search_t             *search;   /* YAML graphs, and ways round failed links */
    void                      *data;     /* of the family */
};

extern const pdl__topology_ops_t pdl__topology_ring, pdl__topology_torus, pdl__topology_hypercube,
    pdl__topology_fc2, pdl__topology_fat_tree, pdl__topology_xgft, pdl__topology_abci, pdl__topology_tsubame3,
    pdl__topology_dragonfly, pdl__topology_dln, pdl__topology_dln2d, pdl__topology_kautz, pdl__topology_hybrid,
    pdl__topology_graph;

/* network.c */

/* A topology without vertices; the caller fills it in. NULL when memory is out. */
pdl_topology_t *pdl__topology_new(const pdl__topology_ops_t *ops, const char *name);

/* a * b, or -1 when a factor is negative or the product passes `most`. */
int64_t pdl__product(int64_t a, int64_t b, int64_t most);

/* Sets the numbers of hosts and vertices and makes room for links. PDL_ERR_LIMIT when they are too many. */
pdl_status_t pdl__topology_reserve(pdl_topology_t *topology, int64_t hosts, int64_t switches, int64_t links);

/* Both within the room reserved. */
void pdl__add_link(pdl_topology_t *topology, int src, int dst, pdl_link_kind_t kind, double bytes_per_s,
                   double latency_s);
void pdl__add_cable(pdl_topology_t *topology, int a, int b, pdl_link_kind_t kind, double bytes_per_s,
                    double latency_s);

/* Power and cables of the links added last. */
void pdl__set_power(pdl_topology_t *topology, double idle_w, double peak_w);
void pdl__set_trunk(pdl_topology_t *topology, int cables);

/* direct.c */

/* Routers of a network with spec->hosts hosts; `routers` is their number where the other fields fix it, else 0. */
pdl_status_t pdl__direct_routers(const pdl_topology_spec_t *spec, int64_t routers, int64_t *count);
/* The hosts and their cables; then the family adds `cables` cables between routers, in order. */
pdl_status_t pdl__direct_begin(pdl_topology_t *topology, const pdl_topology_spec_t *spec, int64_t routers,
                               int64_t cables);
void         pdl__direct_cable(pdl_topology_t *topology, int router_a, int router_b);
/* PDL_ERR_LIMIT when routes with so many hops between routers do not fit. */
pdl_status_t pdl__check_route_length(const char *name, int64_t hops);

static inline int pdl__router_vertex(const pdl_topology_t *topology, int router)
{
    return topology->hosts_per_router > 0 ? topology->hosts + router : router;
}

/* The link of a cable: backwards when `reverse` is 1. */
static inline int pdl__cable_link(const pdl_topology_t *topology, int cable, int reverse)
{
    return (cable << topology->full) + (reverse & topology->full);
}

/* The link of a cable between routers, counted from the first of these. */
static inline int pdl__router_link(const pdl_topology_t *topology, int cable, int reverse)
{
    return pdl__cable_link(topology, topology->router_cables + cable, reverse);
}

/* Number of the pair a < b among all pairs of 0..n-1, in the order (0,1) (0,2) (1,2) (0,3)... */
static inline int pdl__pair(int a, int b)
{
    return b * (b - 1) / 2 + a;
}

/* search.c: shortest ways over links that have not failed, lowest link first. */

/* PDL_ERR_LIMIT when hosts are cut off from each other or routes may be too long. */
pdl_status_t pdl__search_create(const pdl_topology_t *topology, const bool *failed, pdl__search_t **search);
void         pdl__search_destroy(pdl__search_t *search);
int          pdl__search_route(const pdl_topology_t *topology, int src, int dst, int *links);

/* hybrid.c */
int pdl__hybrid_electrical(const pdl_topology_t *topology, int src, int dst, int *links);

/* graph.c */
pdl_status_t pdl__topology_read_file(const char *path, pdl_topology_t **topology);

/* fat_tree.c: builds the tree into a topology of another family and routes in it. */
typedef struct pdl__xgft {
    int     levels;
    int     m[PDL_MAX_DIMS], w[PDL_MAX_DIMS], q[PDL_MAX_DIMS];
    int     below[PDL_MAX_DIMS + 1]; /* hosts below a vertex of the level */
    int     ways[PDL_MAX_DIMS + 1];  /* W_l = w_1 * ... * w_l */
    int     first_cable[PDL_MAX_DIMS], first_vertex[PDL_MAX_DIMS + 1];
    int64_t switches, cables;
} pdl__xgft_t;

pdl_status_t pdl__xgft_shape(const int64_t *m, const int64_t *w, const int64_t *q, int levels, pdl__xgft_t *tree);
pdl_status_t pdl__fat_tree_shape(const pdl_topology_spec_t *spec, pdl__xgft_t *tree);
void         pdl__xgft_add(pdl_topology_t *topology, const pdl__xgft_t *tree);
int          pdl__xgft_route(const pdl_topology_t *topology, const pdl__xgft_t *tree, int src, int dst, int *links);

/* loop.c: circulant graphs, for dln and dln2d. */
typedef struct pdl__loop {
    int       n, stride_count;
    int       stride[32];
    int       first_cable[32];
    int       cables;
    bool      powers; /* all powers of two below n: routes by signed digits */
    uint16_t *distance;
    int8_t   *hop; /* the hop that reached an offset first: k + 1 upward, -(k + 1) downward */
    int       diameter;
} pdl__loop_t;

pdl_status_t pdl__loop_init(pdl__loop_t *loop, const char *name, int64_t n, const int64_t *strides, int count);
void         pdl__loop_free(pdl__loop_t *loop);
/* Hops from `src` to `dst`, first to last: stride index k + 1 upward, -(k + 1) downward. */
int pdl__loop_hops(const pdl__loop_t *loop, int src, int dst, int8_t hops[PDL_MAX_ROUTE]);
/* The cable that a hop from `at` takes; *at moves on, *reverse tells the direction. */
int pdl__loop_step(const pdl__loop_t *loop, int hop, int *at, int *reverse);

/* torus.c */
pdl_status_t pdl__torus_build(pdl_topology_t *topology, const pdl_topology_spec_t *spec, const int64_t *dims,
                              int count);
int          pdl__torus_route(const pdl_topology_t *topology, int src, int dst, int *links);

#endif
