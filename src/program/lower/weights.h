/*
 * The weights of a rank: which part of each it has, over which ranks gradients are summed, and in which buckets.
 */
#ifndef PDL_PROGRAM_WEIGHTS_H
#define PDL_PROGRAM_WEIGHTS_H

#include <paradl/plan/boxes.h>
#include <paradl/program/program.h>

struct pdl__graph;
struct pdl__graph_spec;
struct pdl__layouts;

/* A weight or statistic of a unit; dims, of which there are `rank`, and elements are those of the whole. */
typedef struct pdl__rank_weight {
    int          unit, k; /* the op that translates it */
    int          owner;   /* layer whose weight it is: that of the unit unless tied to one of another stage */
    int          tie;     /* the owner, where several stages hold it and state is sharded; else -1 */
    int          rank;
    int64_t      dims[5], elements;
    bool         trainable;
    pdl_region_t region;  /* the part of it on this rank */
    bool         whole;   /* that is all of it */
    unsigned     axes;    /* over which gradients are summed */
    int64_t      storage; /* elements with padding */
    int          bucket;  /* -1: nothing to sum */
} pdl__rank_weight_t;

/* Trainable ones come first: those that are summed over the same ranks together, in the order in which backward finishes
   their gradients. */
typedef struct pdl__rank_weights {
    pdl__rank_weight_t   *weight;
    int                   count, trainable;
    pdl_program_bucket_t *bucket; /* of those that ranks share; of all where state passes through the device */
    int                   bucket_count;
    pdl_sharding_t        sharding; /* none where there is nobody to share with */
    int                  *tie;      /* of these, weights that other stages hold too */
    int                   tie_count;
    bool                  packs;          /* kernels have copies of weights, made again after an update */
    bool                  weights_pass;   /* they are on the host, and come in these buckets */
    bool                  state_passes;   /* it is on the host or on disk, and buckets are updated one by one: */
    bool                  early;          /* during backward, */
    bool                  gradients_pass; /* and then their gradients are gone */
} pdl__rank_weights_t;

/* Of the units of a graph, whose `weight` are filled in. */
pdl_status_t pdl__rank_weights_create(const struct pdl__graph_spec *spec, struct pdl__graph *graph);
void         pdl__rank_weights_destroy(pdl__rank_weights_t *weights); /* NULL is allowed */

/* The part [low, high) of a bucket of so many elements that a rank keeps where state is sharded: whole cache lines. */
#define PDL__PART_UNIT 16 /* elements */
void pdl__bucket_part(int64_t elements, int ranks, int rank, int64_t *low, int64_t *high);

/* bytes.c: what every operation of a program of the graph sends. */
pdl_status_t pdl__graph_count_bytes(const struct pdl__graph_spec *spec, const struct pdl__graph *graph,
                                    bool training, pdl_program_t *program);

#endif
