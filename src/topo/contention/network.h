/*
 * Machines whose outermost groups are joined by a network that is not a tree: their links, numbered, and messages counted on them.
 */
#ifndef PARADL_TOPO_CONTENTION_NETWORK_H
#define PARADL_TOPO_CONTENTION_NETWORK_H

#include "topo/contention/tree.h"

#include <paradl/topo/contention.h>

/* Links of the tree level by level, up and down in turn, then those of the network. */
typedef struct pdl__links {
    const pdl__tree_t *tree;
    int                first[PDL_MAX_LEVELS + 1], levels, count;
} pdl__links_t;
#define PDL__WAY_MAX (PDL__ROUTE_MAX + PDL_MAX_ROUTE)

/* Of the first `devices` devices, which `levels` levels join. PDL_ERR_LIMIT where they cannot be numbered. */
pdl_status_t pdl__links_init(pdl__links_t *links, const pdl__tree_t *tree, int64_t devices, int levels);
/* From one device to another in order; how many. */
int    pdl__links_route(const pdl__links_t *links, int64_t from, int64_t to, int way[PDL__WAY_MAX]);
int    pdl__links_level(const pdl__links_t *links, int link);
double pdl__links_capacity(const pdl__links_t *links, int link);

/* Bytes, or messages, on links: what was touched is forgotten at the end of a step. */
typedef struct pdl__carried {
    pdl__links_t links;
    double      *amount;
    int         *touched, touched_count, top; /* the highest level that was crossed */
    double       latency_s;                   /* of the longest way over the network */
    double       least;                       /* capacity of the narrowest link on any way */
} pdl__carried_t;
pdl_status_t pdl__carried_create(const pdl__tree_t *tree, int64_t devices, pdl__carried_t *carried);
void         pdl__carried_free(pdl__carried_t *carried);
void         pdl__carried_add(pdl__carried_t *carried, int64_t from, int64_t to, double amount);
/* The most seconds of a link at efficiency[level] (NULL: 1), and that link; the next step begins. */
double pdl__carried_end(pdl__carried_t *carried, const double *efficiency, int *busiest, double *amount);

pdl_status_t pdl__network_explain(const pdl__tree_t *tree, const pdl_contention_query_t *query,
                                  pdl_contention_answer_t *answer);

#endif
