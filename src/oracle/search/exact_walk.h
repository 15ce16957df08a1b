/*
 * One walk through nodes of an exact search, and what it has found.
 */
#ifndef PDL_ORACLE_EXACT_WALK_H
#define PDL_ORACLE_EXACT_WALK_H

#include "oracle/search/exact.h"

/* A configuration, what is compared of it, and its place in the order of enumeration, by which ties are broken. */
typedef struct pdl__exact_entry {
    double       score, total_s, memory_bytes, energy_j;
    int          node;
    int64_t      leaf;
    pdl_config_t config; /* of one that is kept */
} pdl__exact_entry_t;

/* Nodes with ranks so far apart, and stages on such devices: the least seconds of a sample in smaller micro-batches of the chain, without
   what divided passes leave for later, and on the slowest of different devices. */
typedef struct pdl__exact_rate {
    int64_t  stride, expert_stride;
    uint64_t places;
    double   sample_s, sooner_s, share_s;
} pdl__exact_rate_t;
#define PDL__MOST_RATES 32

typedef struct pdl__exact_walk {
    pdl_oracle_t            *oracle;
    const pdl_request_t     *request;
    const pdl__exact_list_t *list;
    bool                     exhaustive, checks;
    int                      top;
    double                   threshold; /* score that as many as are wanted reach */
    pdl__exact_entry_t      *best;      /* best first */
    int                      count;
    pdl__exact_entry_t      *front; /* exhaustive: nothing found is better in all */
    int                      front_count, front_capacity;
    int64_t                  evaluated, too_large, impossible, broken, removed[PDL_BOUND_COUNT];
    pdl__exact_rate_t        anywhere; /* of computation alone, however far apart ranks are */
    pdl__exact_rate_t        rate[PDL__MOST_RATES];
    int                      rates;
    pdl_status_t             status;
    char                     message[256];
} pdl__exact_walk_t;

pdl_status_t pdl__exact_begin(pdl__exact_walk_t *walk);
void         pdl__exact_end(pdl__exact_walk_t *walk);
/* All configurations of a node, those that bounds leave. */
void pdl__exact_visit(pdl__exact_walk_t *walk, int node);
/* Whether a node is likely to be good; one or two of its configurations. */
bool pdl__exact_likely(const pdl__exact_walk_t *walk, int node);
void pdl__exact_glance(pdl__exact_walk_t *walk, int node);

/* Whether it is one of the best, or on the front; and that it is now. */
bool         pdl__exact_is_better(const pdl__exact_walk_t *walk, const pdl__exact_entry_t *found);
bool         pdl__exact_is_in_front(pdl__exact_walk_t *walk, const pdl__exact_entry_t *found);
void         pdl__exact_keep(pdl__exact_walk_t *walk, const pdl__exact_entry_t *found);
pdl_status_t pdl__exact_offer(pdl__exact_walk_t *walk, const pdl__exact_entry_t *found);
/* What was found becomes the answer. */
pdl_status_t pdl__exact_take(const pdl__exact_walk_t *walk, pdl_exact_t *exact);

#endif
