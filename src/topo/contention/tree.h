/*
 * The links of a machine tree and the static routes over them.
 *
 * The links of a level belong to spans of devices: normally each child of the level (a device on level 0, a group of the
 * level below above it) has its own links to the level, in both directions; on a shared medium the children of a
 * group use the links of the group together. Where a network of another kind joins the outermost groups, a message crosses, between
 * its links out of one such group and into the other, those of the network's route.
 */
#ifndef PARADL_TOPO_TREE_H
#define PARADL_TOPO_TREE_H

#include <paradl/topo/topo.h>

typedef struct pdl__tree_level {
    int64_t child; /* devices in one child */
    int64_t span;  /* devices that use one set of links */
    int64_t fanout;
    int64_t links;    /* of one span in each direction */
    double  capacity; /* of one link, bytes per second */
    bool    shared;
} pdl__tree_level_t;

typedef struct pdl__tree {
    int                   level_count;
    int64_t               pe_count;
    pdl__tree_level_t     level[PDL_MAX_LEVELS];
    const pdl_topology_t *network;       /* between the groups of the outermost level; NULL: none */
    double                network_speed; /* of its links over what its description says */
} pdl__tree_t;

/* Fails where the network is not what its level can be joined by. */
pdl_status_t pdl__tree_init(pdl__tree_t *tree, const pdl_system_t *system, bool host_path);

/* Which of its span's links on `level` a device uses for messages to or from `peer`. */
int64_t pdl__tree_link(const pdl__tree_t *tree, int level, int64_t pe, int64_t peer);

/* Lowest common level; the number of levels when the tree does not join the two. */
int pdl__tree_common_level(const pdl__tree_t *tree, int64_t a, int64_t b);

/* The links of a message's route as numbers that are unique in the tree; returns how many (two per level). */
#define PDL__ROUTE_MAX (2 * PDL_MAX_LEVELS)
typedef struct pdl__hop {
    int     level;
    bool    down;
    int64_t span, link;
} pdl__hop_t;
int pdl__tree_route(const pdl__tree_t *tree, int64_t from, int64_t to, pdl__hop_t hops[PDL__ROUTE_MAX]);

/* The links of the network that a message crosses; 0 where there is none or the message does not get there. */
int    pdl__tree_network(const pdl__tree_t *tree, int64_t from, int64_t to, int links[PDL_MAX_ROUTE]);
double pdl__tree_network_capacity(const pdl__tree_t *tree, int link);
double pdl__tree_network_latency(const pdl__tree_t *tree, const int *links, int count);

/* Walks over consecutive devices and knows pdl__tree_link() of each without dividing: for levels above 0. */
typedef struct pdl__walk {
    const pdl__tree_t *tree;
    int                level;
    int64_t            digit[PDL_MAX_LEVELS]; /* child index of the device's group on each level */
    int64_t            block_rest;            /* remainder that spreads devices over the ports of their node */
    int64_t            port[PDL_MAX_LEVELS];
} pdl__walk_t;

void                  pdl__walk_init(pdl__walk_t *walk, const pdl__tree_t *tree, int level, int64_t pe);
void                  pdl__walk_next(pdl__walk_t *walk);
static inline int64_t pdl__walk_link(const pdl__walk_t *walk)
{
    return walk->port[walk->level];
}

#endif
