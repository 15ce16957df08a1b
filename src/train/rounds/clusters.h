/*
 * Groups of workers with like updates of the last linear layer of their models (CADIS).
 */
#ifndef PDL_TRAIN_CLUSTERS_H
#define PDL_TRAIN_CLUSTERS_H

#include <stdint.h>

/* What a round has changed in the last linear layer of a worker. */
typedef struct pdl__update {
    const float *weight; /* [classes][features] */
    const float *bias;   /* [classes]; NULL: the layer has none */
} pdl__update_t;

/* Sums over rounds, of which the likeness of a worker to another is made. */
typedef struct pdl__overlap {
    double product; /* of both changes */
    double energy;  /* of the worker's own: sum of squares */
} pdl__overlap_t;

/* Adds a round to what `a` and `b` have in common. Only rows of classes that one of the two has are compared: in all
   others both move away from their features, whatever their classes are. A worker has a class whose bias has risen;
   without biases all rows are compared. */
void pdl__add_overlap(int64_t classes, int64_t features, const pdl__update_t *a, const pdl__update_t *b,
                      pdl__overlap_t *of_a, pdl__overlap_t *of_b);

/* The cosine of the two, -1 .. 1, in which a round counts by how much it has changed. Two that have changed nothing
   are alike, one that has and one that has not are unlike. */
double pdl__likeness(const pdl__overlap_t *of_a, const pdl__overlap_t *of_b);

/* The middle of the widest gap between similarities that join workers to groups, with 0 (nothing in common) and 1
   (the same) as the ends: a threshold that cuts through no group. `work` has place for 2 numbers a worker. */
double pdl__widest_gap(int64_t workers, const double *similarity, double *work);

/* Connected components of the workers whose similarity [workers][workers] is above the threshold: their numbers,
   from 0 in the order of the first worker, into cluster[]; returns how many there are. */
int64_t pdl__find_clusters(int64_t workers, const double *similarity, double threshold, int64_t *cluster);

/* share[w] = 1 / clusters * samples of w / samples of its cluster. */
void pdl__cluster_shares(int64_t workers, int64_t clusters, const int64_t *cluster, const double *samples,
                         double *share);

#endif
