/*
 * What rounds of one measurement say together. The median is what a rank may expect. The least is what the network itself takes:
 * whatever else runs on the hosts makes a round longer, and nothing makes one shorter.
 */
#ifndef PDL_COMM_ROUNDS_H
#define PDL_COMM_ROUNDS_H

typedef struct pdl__rounds {
    double least_s, median_s, mean_s;
} pdl__rounds_t;

/* Sorts the seconds of `count` rounds, at least one. */
pdl__rounds_t pdl__rounds_sum_up(double *seconds, int count);

#endif
