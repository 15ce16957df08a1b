/*
 * Network topologies: graphs of hosts, switches and links with deterministic routes, their metrics and their
 * cost in cables.
 *
 *     pdl_topology_spec_t spec = pdl_topology_spec("dln");
 *     spec.hosts = 1024;
 *     spec.hosts_per_switch = 8;
 *     pdl_topology_t *topology;
 *     pdl_topology_create(&spec, &topology);
 *     int links[PDL_MAX_ROUTE], count = pdl_topology_route(topology, 0, 17, links);
 *     pdl_topology_destroy(topology);
 *
 * Vertices are hosts first, then switches. A link is a resource with a capacity: one direction of a full-duplex
 * cable, both directions of a half-duplex one (then both routes name the same link), a trunk of parallel cables,
 * or the inside of a switch. Routes are computed, not stored, so that 65,536 hosts take no more than their links.
 */
#ifndef PARADL_TOPO_H
#define PARADL_TOPO_H

#include <paradl/base/status.h>
#include <paradl/system/system.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_link_kind {
    PDL_LINK_HOST,     /* host to switch */
    PDL_LINK_SWITCH,   /* between switches, or between nodes that are their own switches */
    PDL_LINK_NVLINK,   /* inside a node: not a cable of the machine room */
    PDL_LINK_PCIE,     /* inside a node as well */
    PDL_LINK_INTERNAL, /* the inside of a switch; src == dst */
    PDL_LINK_OPTICAL,  /* host to the optical circuit switch */
    PDL_LINK_KIND_COUNT
} pdl_link_kind_t;
extern const char *const pdl_link_kind_names[PDL_LINK_KIND_COUNT];

typedef struct pdl_link {
    int             src, dst; /* vertices; half duplex: the two ends */
    pdl_link_kind_t kind;
    double          bytes_per_s, latency_s;
    double          idle_w, peak_w; /* 0: not described */
    int             cables;         /* of a trunk */
    bool            both_ways;      /* half duplex: traffic from dst to src uses it too */
    bool            way_back;       /* second direction of the full-duplex cable whose first is the link before */
} pdl_link_t;

#define PDL_MAX_DIMS 6
/* Longest route; a topology whose routes could be longer (a ring of more than 2,044 switches) is refused. */
#define PDL_MAX_ROUTE 1024

typedef enum pdl_duplex { PDL_FULL_DUPLEX, PDL_HALF_DUPLEX } pdl_duplex_t;

/* What the layer that moves messages adds to the network, as it was measured (paradl calibrate --topology). */
#define PDL_LIBRARY_SIZES 16
typedef struct pdl_message_layer {
    /* Share of its rate that a message of this size or larger keeps while its receiver sends to its sender; 0: all. */
    double   exchange, exchange_bytes;
    double   reverse;     /* share of its rate that a message's acknowledgements take on the way back */
    double   chunk_bytes; /* into which messages are cut for it; 0: as the executor does */
    bool     buffered;    /* a sender goes on while its messages move; those to one receiver queue up */
    uint64_t host_order;  /* which host had which rank while it was measured, as a number; 0: not known */
    double   library_bytes[PDL_LIBRARY_SIZES]; /* allreduces of the MPI library's own, smallest first */
    double   library_s[PDL_LIBRARY_SIZES];
    int      library_sizes;
} pdl_message_layer_t;

/* What a topology is made from; a field that a topology does not use is ignored. */
typedef struct pdl_topology_spec {
    const char  *name;  /* ring torus hypercube fc2 fat-tree xgft abci-v tsubame3 dragonfly dln dln2d kautz hybrid,
                          or the path of a YAML file */
    int64_t      hosts; /* 0: follows from the other fields */
    int64_t      hosts_per_switch;   /* direct networks; 0: the host is its own switch and relays for others */
    int64_t      dims[PDL_MAX_DIMS]; /* torus k1 x k2.., fc2 columns x rows, dln2d rows x columns */
    int          dim_count;
    int64_t      leaf_hosts, uplinks; /* fat-tree, hybrid; 0 uplinks: as many as hosts */
    int64_t      xgft_m[PDL_MAX_DIMS], xgft_w[PDL_MAX_DIMS], xgft_q[PDL_MAX_DIMS]; /* xgft */
    int          xgft_levels;
    int64_t      shape[4];    /* dragonfly p, a, h, g; p = 1: the router is the node */
    int64_t      strides[32]; /* dln; empty: all powers of two */
    int          stride_count;
    int64_t      degree, diameter;                                      /* kautz */
    int64_t      optical_ports;                                         /* hybrid */
    double       reconfigure_s, optical_min_bytes, optical_bytes_per_s; /* 0 bytes per second: as the links */
    int          fc2_routing; /* 0 row first, 1 column first, 2 by halves (odd sources column first) */
    bool         valiant;     /* dragonfly */
    uint64_t     seed;
    double       link_bytes_per_s, link_latency_s;           /* between switches; default 12.5 GB/s, 1 us */
    double       host_link_bytes_per_s, host_link_latency_s; /* host to switch; default 0 and -1: as the links */
    pdl_duplex_t duplex;
    pdl_message_layer_t messages; /* zeros: it adds nothing */
} pdl_topology_spec_t;

/* Defaults for a name. */
pdl_topology_spec_t pdl_topology_spec(const char *name);

/* The built-in topologies: name and a line about each; NULL beyond the last. */
const char *pdl_topology_builtin_name(int i);
const char *pdl_topology_builtin_summary(int i);

typedef struct pdl_topology pdl_topology_t;

/* One line that names what does not fit ("a hypercube has a power of two of switches, not 12") otherwise. */
pdl_status_t pdl_topology_create(const pdl_topology_spec_t *spec, pdl_topology_t **topology);
pdl_status_t pdl_topology_read_memory(const char *text, size_t length, const char *name, pdl_topology_t **topology);
void         pdl_topology_destroy(pdl_topology_t *topology);
/* Of a built-in topology, with its rates and message layer, as a file. */
pdl_status_t pdl_topology_write(const pdl_topology_spec_t *spec, const char *description, FILE *stream);

/* How fast the links of a system are in use: shares of their bandwidth, and start-ups of a message inside a node and
   between nodes (0: as the system says). */
typedef struct pdl_machine_speed {
    double fabric_share, network_share, fabric_step_s, network_step_s;
} pdl_machine_speed_t;

/* The machine tree of a system with its first `hosts` devices as hosts; `speed` NULL: as the system says. Its links and
   routes are those of paradl/contention.h. */
pdl_status_t pdl_topology_of_system(const pdl_system_t *system, int64_t hosts, const pdl_machine_speed_t *speed,
                                    pdl_topology_t **topology);

/* What joins the outermost groups of a system where that is not a tree; NULL where it is. It belongs to the system and is made at
   the first call, which must not run beside others. One line that says what does not fit otherwise. */
pdl_status_t pdl_topology_network(const pdl_system_t *system, const pdl_topology_t **network);

const char *pdl_topology_name(const pdl_topology_t *topology);
const char *pdl_topology_description(const pdl_topology_t *topology); /* its sizes, in one line */
/* What it was made from, defaults filled in; of a YAML graph only name and hosts mean something. */
const pdl_topology_spec_t *pdl_topology_get_spec(const pdl_topology_t *topology);
int                        pdl_topology_hosts(const pdl_topology_t *topology);
int                        pdl_topology_vertices(const pdl_topology_t *topology);
int                        pdl_topology_link_count(const pdl_topology_t *topology);
const pdl_link_t          *pdl_topology_links(const pdl_topology_t *topology);

/* Links from one host to another in order; the number of them, 0 for a host and itself. A link may occur twice
   (internal resources of a switch where a path turns round). */
int pdl_topology_route(const pdl_topology_t *topology, int src, int dst, int links[PDL_MAX_ROUTE]);

/* The same for a message of a size: on a hybrid network small ones do not take the circuit. */
int pdl_topology_route_sized(const pdl_topology_t *topology, int src, int dst, double bytes,
                             int links[PDL_MAX_ROUTE]);

/* Vertices of a route, one more than it has links between vertices: src first, dst last, internal resources left
   out. Returns how many; 0 when the links do not make a way. */
int pdl_topology_path(const pdl_topology_t *topology, int src, const int *links, int count,
                      int vertices[PDL_MAX_ROUTE + 1]);

/* Hybrid: the circuits that are up, `count` directed pairs of hosts (src, dst, src, dst..), in place of those
   before. PDL_ERR_LIMIT when a host has more circuits in one direction than optical ports; then nothing changes.
   */
pdl_status_t pdl_topology_set_circuits(pdl_topology_t *topology, const int *pairs, int count);

/* Takes a link out: routes that used it go by a shortest way round (breadth first, lowest link first).
   PDL_ERR_LIMIT when hosts are cut off; then nothing changes. On large topologies (hosts times vertices above
   2^24) the way round is searched when asked for and kept until the next destination: ask from one thread, in
   order of destinations. */
pdl_status_t pdl_topology_fail_link(pdl_topology_t *topology, int link);
/* The same for all links of a switch at once. */
pdl_status_t pdl_topology_fail_switch(pdl_topology_t *topology, int vertex);

/* What algorithms can use as structure: hosts of one switch (tsubame3, abci-v: of one node) are so many consecutive
   hosts; 1 where hosts are their own switches. */
int64_t pdl_topology_hosts_per_switch(const pdl_topology_t *topology);

typedef struct pdl_topology_metrics {
    int    vertices, switches, links;
    int    cables;                /* of the machine room: none inside nodes and switches; all those of trunks */
    int    degree;                /* most cables of a switch to other switches (hosts where there are none) */
    int    diameter;              /* hops between switches that have hosts (between hosts where there are none) */
    double average_hops;          /* over ordered pairs of different ones */
    bool   sampled;               /* diameter and average come from a sample of sources */
    double bisection_bytes_per_s; /* one way across the middle of the host numbering */
    double cable_m, longest_cable_m, cost; /* machine-room layout: see pdl_room_t; the cost includes switch ports */
    double power_w;                        /* of switches, ports, cables and hosts, as the room says */
} pdl_topology_metrics_t;

/* Cabinets on a grid, `switches_per_cabinet` each (with their hosts), pitch in metres; cables run along rows and
   columns and have `slack_m` more; price per cable and per metre, copper up to `copper_m`, optical beyond. A cable whose
   own power is described draws that. */
typedef struct pdl_room {
    int64_t switches_per_cabinet;
    double  pitch_x_m, pitch_y_m, slack_m;
    double  copper_m, copper_cost, copper_cost_per_m, optical_cost, optical_cost_per_m, switch_cost_per_port;
    double  switch_cost, host_cost;
    double  switch_w, port_w, host_w, copper_w, optical_w;
} pdl_room_t;
pdl_room_t pdl_room_default(void);
/* KEY=VALUE, such as "switch-cost=9000" or "port-power=5W". */
pdl_status_t pdl_room_set(pdl_room_t *room, const char *setting);
pdl_status_t pdl_topology_metrics(const pdl_topology_t *topology, const pdl_room_t *room,
                                  pdl_topology_metrics_t *metrics);

pdl_status_t pdl_topology_write_dot(const pdl_topology_t *topology, FILE *stream); /* Graphviz */
/* SimGrid platform with hosts h0.., links l0.. and every route written out; at most 1,024 hosts. */
pdl_status_t pdl_topology_write_simgrid(const pdl_topology_t *topology, FILE *stream);

#ifdef __cplusplus
}
#endif
#endif
