/*
 * Threads that do not spin where others want their cores.
 */
#ifndef PDL_TENSOR_CPU_CROWD_H
#define PDL_TENSOR_CPU_CROWD_H

#include <stdbool.h>

/* One of the threads that compute together: called by each of them, `worker` counting from 0. */
void pdl__crowd_join(int worker);
/* Begins to look after `threads` threads that have joined, until as many calls of pdl__crowd_end(). */
void pdl__crowd_begin(int threads);
void pdl__crowd_end(void);
/* Whether waiting is short at the moment. */
bool pdl__crowd_waits_briefly(void);

/* What is decided from the share of time for which a thread has waited for a core. */
typedef struct pdl__crowd_rule {
    bool   brief;
    double calm_s;   /* for which nobody has waited */
    double wanted_s; /* of calm before threads spin again; doubles with every relapse */
    double since_s;  /* in the present state */
} pdl__crowd_rule_t;
void pdl__crowd_decide(pdl__crowd_rule_t *rule, double share, double seconds);

#endif
