/*
 * Groups of workers with like updates, told by the last linear layer of their models (CADIS).
 */
#ifndef PDL_TRAIN_CLUSTERS_H
#define PDL_TRAIN_CLUSTERS_H

#include <stdint.h>

/* Mean over classes of the cosine of two updates [classes][features]. A class that neither has changed counts as
   alike, one that only one of them has as unlike. */
double pdl__update_similarity(int64_t classes, int64_t features, const float *a, const float *b);

/* Connected components of the workers whose similarity [workers][workers] is above the threshold: their numbers,
   from 0 in the order of the first worker, into cluster[]; returns how many there are. */
int64_t pdl__find_clusters(int64_t workers, const double *similarity, double threshold, int64_t *cluster);

/* share[w] = 1 / clusters * samples of w / samples of its cluster. */
void pdl__cluster_shares(int64_t workers, int64_t clusters, const int64_t *cluster, const double *samples,
                         double *share);

#endif
