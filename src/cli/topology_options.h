/*
 * Options that describe a topology, for every command that takes one.
 */
#ifndef PDL_CLI_TOPOLOGY_OPTIONS_H
#define PDL_CLI_TOPOLOGY_OPTIONS_H

#include "cli/options.h"

#include <paradl/topo/topo.h>

typedef struct pdl__topology_values {
    int64_t     hosts, hosts_per_switch, leaf_hosts, uplinks, degree, diameter, optical_ports, seed;
    const char *dims, *shape, *strides, *children, *parents, *cables;
    const char *host_link_latency;
    double link_bandwidth, link_latency, host_link_bandwidth, reconfigure, optical_bandwidth, optical_min_bytes;
    int    duplex, routing;
    bool   valiant;
} pdl__topology_values_t;

extern const char *const pdl__duplex_names[3];
extern const char *const pdl__routing_names[3];

/* Entries for a table of options; `field` of the struct `values` is a pdl__topology_values_t. */
#define PDL__TOPOLOGY_OPTIONS(values, field)                                                                      \
    {"hosts", "P", NULL, "hosts, or GPUs where the topology describes nodes; else as the other options say",      \
     PDL__INT(values, field.hosts, 1)},                                                                           \
        {"hosts-per-switch", "H", NULL, "hosts of a switch of a direct network; else the host is its own switch", \
         PDL__INT(values, field.hosts_per_switch, 0)},                                                            \
        {"dims", "AxB..", NULL, "torus: sizes; fc2: columns x rows; dln2d: rows x columns",                       \
         PDL__TEXT(values, field.dims)},                                                                          \
        {"leaf-hosts", "L", "32", "fat-tree, hybrid: hosts of a leaf switch",                                     \
         PDL__INT(values, field.leaf_hosts, 1)},                                                                  \
        {"uplinks", "U", NULL, "fat-tree, hybrid: cables up from a leaf switch; else as many as hosts",           \
         PDL__INT(values, field.uplinks, 1)},                                                                     \
        {"children", "M1,M2..", NULL, "xgft: children of a vertex, level by level",                               \
         PDL__TEXT(values, field.children)},                                                                      \
        {"parents", "W1,W2..", NULL, "xgft: parents of a vertex, level by level",                                 \
         PDL__TEXT(values, field.parents)},                                                                       \
        {"cables", "Q1,Q2..", NULL, "xgft: parallel cables, level by level; else 1",                              \
         PDL__TEXT(values, field.cables)},                                                                        \
        {"shape", "p,a,h,g", NULL,                                                                                \
         "dragonfly: hosts per router, routers per group, global cables per router, groups",                      \
         PDL__TEXT(values, field.shape)},                                                                         \
        {"valiant", NULL, NULL, "dragonfly: by way of a random group", PDL__FLAG(values, field.valiant)},         \
        {"seed", "N", "1", "of random routes", PDL__INT(values, field.seed, 0)},                                  \
        {"strides", "S1,S2..", NULL, "dln, dln2d: strides; else all powers of two",                               \
         PDL__TEXT(values, field.strides)},                                                                       \
        {"routing", "ORDER", "row", "fc2: which dimension first",                                                 \
         PDL__CHOICE(values, field.routing, pdl__routing_names, 3)},                                              \
        {"degree", "D", NULL, "kautz: links out of a node", PDL__INT(values, field.degree, 1)},                   \
        {"diameter", "K", NULL, "kautz: longest way", PDL__INT(values, field.diameter, 1)},                       \
        {"optical-ports", "N", "1", "hybrid: of a host", PDL__INT(values, field.optical_ports, 1)},               \
        {"optical-bandwidth", "RATE", NULL, "hybrid: of an optical port; else as the links",                      \
         PDL__POSITIVE(values, field.optical_bandwidth, PDL_UNIT_BYTE_RATE)},                                     \
        {"optical-min-bytes", "SIZE", "1MB", "hybrid: smallest message that takes a circuit",                     \
         PDL__QUANTITY(values, field.optical_min_bytes, PDL_UNIT_BYTES)},                                         \
        {"reconfigure", "TIME", "10ms", "hybrid: to switch circuits",                                             \
         PDL__QUANTITY(values, field.reconfigure, PDL_UNIT_SECONDS)},                                             \
        {"link-bandwidth", "RATE", "12.5GB/s", "of a cable between switches",                                     \
         PDL__QUANTITY(values, field.link_bandwidth, PDL_UNIT_BYTE_RATE)},                                        \
        {"link-latency", "TIME", "1us", "of a cable between switches",                                            \
         PDL__QUANTITY(values, field.link_latency, PDL_UNIT_SECONDS)},                                            \
        {"host-link-bandwidth", "RATE", NULL, "of the cable of a host; else as between switches",                 \
         PDL__POSITIVE(values, field.host_link_bandwidth, PDL_UNIT_BYTE_RATE)},                                   \
        {"host-link-latency", "TIME", NULL, "of the cable of a host; else as between switches",                   \
         PDL__TEXT(values, field.host_link_latency)},                                                             \
    {                                                                                                             \
        "duplex", "MODE", "auto", "of cables, auto: full, but half for tsubame3",                                 \
            PDL__CHOICE(values, field.duplex, pdl__duplex_names, 3)                                               \
    }

/* The machine room that a network is priced in. */
typedef struct pdl__room_values {
    int64_t      switches_per_cabinet;
    pdl__texts_t set;
} pdl__room_values_t;

#define PDL__ROOM_OPTIONS(values, field)                                                               \
    {"switches-per-cabinet", "N", NULL,                                                                \
     "of the machine room, for the lengths of cables; else as the default room",                       \
     PDL__INT(values, field.switches_per_cabinet, 1)},                                                 \
    {                                                                                                  \
        "room", "KEY=VALUE", NULL,                                                                     \
            "a length, price or power of the machine room, such as switch-cost=9000; may be repeated", \
            PDL__LIST(values, field.set)                                                               \
    }

pdl_status_t pdl__room_from_options(const pdl__room_values_t *values, pdl_room_t *room);

/* Refuses options of the table that none of the topologies uses. */
pdl_status_t pdl__check_topology_options(const pdl__option_t *options, const void *values, const char *const *names,
                                         int count);

/* NAME, or NAME:OPTION=VALUE:.., which sets these options of the table in `values`. The text is cut up, and is NAME then. */
pdl_status_t pdl__take_own_options(const pdl__option_t *options, char *text, void *values);

/* The topology `name` with these options; `hosts` in place of --hosts unless it is 0. */
pdl_status_t pdl__topology_from_options(const char *name, const pdl__topology_values_t *values, int64_t hosts,
                                        pdl_topology_t **topology);

/* Whole numbers from `least` on with `separator` between them, at most `most`. */
pdl_status_t pdl__parse_list(const char *option, const char *text, char separator, int64_t least, int most,
                             int64_t *values, int *count);

/* "h12" or "s3", or the number of a vertex. */
pdl_status_t pdl__parse_vertex(const pdl_topology_t *topology, const char *text, int *vertex);

#endif
