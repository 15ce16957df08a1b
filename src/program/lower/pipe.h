/*
 * A pipeline as one rank sees it: which runs of layers are its own, and where the tensors between runs go.
 */
#ifndef PDL_PROGRAM_PIPE_H
#define PDL_PROGRAM_PIPE_H

#include <paradl/model/traits.h>
#include <paradl/plan/plan.h>
#include <paradl/program/program.h>

/* Run k of layers belongs to chunk k / count of stage k % count. */
typedef struct pdl__pipe {
    const pdl_plan_t *plan;
    int               count, at; /* stages, and this rank's */
    int               chunks;    /* runs per stage */
    int              *run;       /* of every layer */
    bool             *trains; /* per layer: weights in it or before it are trained, so its output has a gradient */
    bool             *leads;  /* per layer: the loss depends on it */
} pdl__pipe_t;

pdl_status_t pdl__pipe_create(const pdl_plan_t *plan, int at, pdl__pipe_t **stages);
void         pdl__pipe_destroy(pdl__pipe_t *stages); /* NULL is allowed */

/* The stage that computes a layer. */
int pdl__pipe_stage_of(const pdl__pipe_t *stages, int layer);
/* Whether a stage reads the output of a layer, and whether a gradient of it comes back from there. */
bool pdl__pipe_reads(const pdl__pipe_t *stages, int layer, int stage, bool *gradient);
/* Whether a stage holds the weight of layer `owner`, its own or as one that is tied to it. */
bool pdl__pipe_holds(const pdl__pipe_t *stages, int owner, int stage);
/* The stages that hold it. */
int pdl__pipe_holders(const pdl__pipe_t *stages, int owner);

/* The passes of this rank in order; the caller frees *order. */
pdl_status_t pdl__pipe_order(const pdl__pipe_t *stages, bool training, pdl_program_pass_t **order, int *count);

/* Messages of a tensor between two stages that may be in flight before the sender waits for the first to be received. */
int pdl__pipe_messages(const pdl__pipe_t *stages, int from, int to);

#endif
