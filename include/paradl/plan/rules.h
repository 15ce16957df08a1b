/*
 * What each operation reads, writes and computes in each mode (docs/layouts.md, "operation rules").
 */
#ifndef PARADL_PLAN_RULES_H
#define PARADL_PLAN_RULES_H

#include <paradl/model/traits.h>
#include <paradl/plan/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_rule {
    pdl_placement_t reads;     /* x, all inputs alike */
    pdl_placement_t writes;    /* y */
    pdl_placement_t dx;        /* gradient of x as the operation produces it */
    pdl_placement_t weight;    /* REPLICATED or SPLIT_C (its share lies on this rank) */
    pdl_placement_t dw;        /* REPLICATED (equal everywhere), PARTIAL or SPLIT_C */
    double          share;     /* of the operation's work done by the busiest rank */
    bool            redundant; /* every rank of the axis does all of the work */
} pdl_rule_t;

/* The rule of a layer on one axis. `given` are the placements its inputs arrive in (they decide for
   PDL_MODE_PASS). The mode must be allowed. */
pdl_rule_t pdl_layer_rule(const pdl_layer_t *layer, pdl_mode_t mode, const pdl_axis_t *axis,
                          const pdl_placement_t *given);

/* The mode that PASS stands for: what the operation can do with inputs that arrive like this. */
pdl_mode_t pdl_mode_of_pass(const pdl_layer_t *layer, const pdl_axis_t *axis, const pdl_placement_t *given);

/* Window of a convolution or pooling along one extent; kernel 1 and stride 1 for all others. */
pdl_window_t pdl_layer_window(const pdl_layer_t *layer, int dim);

/* True for convolutions, linear layers and embeddings: operations whose channels can be split apart. */
bool pdl_layer_is_matrix(const pdl_layer_t *layer);

#ifdef __cplusplus
}
#endif
#endif
