/*
 * Exact search: every configuration of the named strategies on a number of devices, compared by the closed form. Branch and
 * bound leaves out what cannot be among the best, and counts by which bound; or everything is evaluated. Both find the same.
 *
 *     pdl_request_t       request = pdl_request_default();
 *     pdl_exact_options_t options = {.top = 10};
 *     pdl_exact_t        *exact;
 *     request.pe = 4096, request.batch = 4096;
 *     pdl_exact_search(oracle, &request, &options, &exact);
 *     if (exact->certified) printf("best of %lld\n", (long long)exact->configurations);
 *     pdl_exact_destroy(exact);
 *
 * A configuration (docs/oracle.md, "Exact search") is a strategy, a mesh, the order of its axes and of the parts of the machine,
 * micro-batches, a schedule with its virtual stages, recomputation, sharding and sequence parallelism.
 */
#ifndef PARADL_EXACT_H
#define PARADL_EXACT_H

#include <paradl/oracle/search.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What shows that configurations cannot be among the best, without evaluating them. */
typedef enum pdl_exact_bound {
    PDL_BOUND_COMPUTE,       /* the passes of all micro-batches, shared out evenly over the stages */
    PDL_BOUND_BUBBLE,        /* with what the pipeline takes to fill and to drain */
    PDL_BOUND_COMMUNICATION, /* the exchange of gradients */
    PDL_BOUND_MEMORY,        /* weights, gradients and optimizer state alone do not fit */
    PDL_BOUND_COUNT
} pdl_exact_bound_t;
extern const char *const pdl_exact_bound_names[PDL_BOUND_COUNT];

typedef struct pdl_exact_options {
    bool exhaustive; /* evaluates everything, and finds the Pareto front */
    bool checks;     /* exhaustive: asks the bounds as well, and counts those that are wrong */
    int  top;        /* so many of the best are kept; 0: one */
    int  threads;    /* 0: all cores; the answer does not depend on them */
    /* Asked about ten times a second with the share that is done; true ends the search. NULL: nobody. */
    bool (*stop)(void *context, double share);
    void *context;
} pdl_exact_options_t;

typedef struct pdl_exact_point {
    pdl_config_t     config;
    pdl_projection_t projection; /* by the closed form */
    double           score;      /* what the goal minimises */
} pdl_exact_point_t;

typedef struct pdl_exact {
    pdl_exact_point_t *best; /* best first; of equal ones the first in the order of enumeration */
    int                count;
    pdl_exact_point_t *front; /* nothing is better in time, memory and energy; by time. Exhaustive search only */
    int                front_count;
    int64_t            batch;
    int64_t            configurations; /* in the space */
    int64_t            evaluated;
    int64_t            too_large;  /* of these, not possible in memory */
    int64_t            impossible; /* of these, refused by a limit of a layer or of the batch */
    int64_t            removed[PDL_BOUND_COUNT];
    int64_t            broken;    /* bounds above what they bound, where they are checked: none */
    bool               certified; /* none of the others can be better than the best */
    double             seconds;
} pdl_exact_t;

pdl_status_t pdl_exact_search(pdl_oracle_t *oracle, const pdl_request_t *request,
                              const pdl_exact_options_t *options, pdl_exact_t **exact);
void         pdl_exact_destroy(pdl_exact_t *exact); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
