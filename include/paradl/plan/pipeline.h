/*
 * The order in which the stages of a pipeline work: for each stage a list of forward and backward passes of one
 * micro-batch through one chunk of layers. The oracle replays it, the simulator simulates it, the runtime executes it.
 *
 *     pdl_pipeline_t pipeline = {PDL_SCHEDULE_1F1B, 4, 1, 16, true};
 *     int64_t count = pdl_pipeline_op_count(&pipeline);
 *     pdl_pipeline_op_t *ops = malloc((size_t)count * sizeof(*ops));
 *     pdl_pipeline_order(&pipeline, stage, ops);
 *
 * The model is cut into stages * chunks runs of layers; run k belongs to chunk k / stages of stage k % stages. A
 * forward pass reads what the run before it made, a backward pass what the run after it made.
 */
#ifndef PARADL_PIPELINE_H
#define PARADL_PIPELINE_H

#include <paradl/plan/plan.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_pipeline {
    pdl_pipeline_schedule_t schedule;
    int                     stages;
    int                     chunks; /* per stage; 1 unless interleaved */
    int64_t                 micro_batches;
    bool                    training; /* false: no backward passes */
} pdl_pipeline_t;

/* What a backward pass makes. Only inputs' gradients are waited for by another stage. */
typedef enum pdl_pass_gradients {
    PDL_GRADIENTS_ALL,
    PDL_GRADIENTS_OF_INPUTS, /* those of weights are left to a later pass, where a layer can divide them */
    PDL_GRADIENTS_OF_WEIGHTS /* what such a pass has left */
} pdl_pass_gradients_t;

typedef struct pdl_pipeline_op {
    bool                 backward;
    int                  chunk;
    int64_t              micro_batch;
    pdl_pass_gradients_t gradients; /* of a backward pass */
} pdl_pipeline_op_t;

/* The pipeline of a plan. */
pdl_pipeline_t pdl_pipeline_of_plan(const pdl_plan_t *plan);

/* Whether backward passes are divided: gradients of weights are left to passes of their own. */
bool pdl_pipeline_divides(const pdl_pipeline_t *pipeline);

/* Passes of every stage. */
int64_t pdl_pipeline_op_count(const pdl_pipeline_t *pipeline);

/* The passes of a stage in order, pdl_pipeline_op_count() of them. Stages that follow their lists and wait for
   their inputs never wait for each other in a circle. */
void pdl_pipeline_order(const pdl_pipeline_t *pipeline, int stage, pdl_pipeline_op_t *ops);

/* The same one by one, for who replays many, and inline, as it is asked for every pass. Backward passes are not divided here. */
typedef struct pdl_pipeline_turn {
    int64_t done;              /* passes before the next one */
    int64_t micro_batch, left; /* its micro-batch, and how many there are with it until the chunk changes */
    int     chunk, step;       /* to the micro-batch behind it */
} pdl_pipeline_turn_t;

typedef struct pdl_pipeline_walk {
    const pdl_pipeline_t *pipeline;
    int64_t               all;     /* passes each way, with those that fill up the last group of micro-batches */
    int64_t               ahead;   /* forward passes before the first backward pass */
    pdl_pipeline_turn_t   turn[2]; /* forward, backward */
} pdl_pipeline_walk_t;

/* Before the first pass of a stage. */
pdl_pipeline_walk_t pdl_pipeline_begin(const pdl_pipeline_t *pipeline, int stage);
/* As if so many micro-batches more, of whole groups, had gone each way. */
void pdl_pipeline_skip(pdl_pipeline_walk_t *walk, int64_t micro_batches);

/* Which way the next pass goes, of a stage that has one. */
static inline bool pdl_pipeline_backward(const pdl_pipeline_walk_t *walk)
{
    int64_t forward = walk->turn[0].done;

    return forward >= walk->all || forward >= walk->ahead + walk->turn[1].done;
}

/* The chunk that comes behind that of the latest pass this way. */
void pdl_pipeline_change_chunk(pdl_pipeline_walk_t *walk, bool backward);

/* The next pass, which goes this way, is done. */
static inline void pdl_pipeline_go(pdl_pipeline_walk_t *walk, bool backward)
{
    pdl_pipeline_turn_t *turn = &walk->turn[backward];

    turn->done++;
    turn->micro_batch += turn->step;
    if (--turn->left == 0) pdl_pipeline_change_chunk(walk, backward);
}

/* The next pass of a stage that has one. */
pdl_pipeline_op_t pdl_pipeline_next(pdl_pipeline_walk_t *walk);

/* Where the input of a pass comes from; false: from the data set, or from the loss. */
bool pdl_pipeline_source(const pdl_pipeline_t *pipeline, int stage, const pdl_pipeline_op_t *op, int *from_stage,
                         int *from_chunk);
/* Where its output goes; false: nowhere. */
bool pdl_pipeline_target(const pdl_pipeline_t *pipeline, int stage, const pdl_pipeline_op_t *op, int *to_stage,
                         int *to_chunk);

/* The most pairs of chunk and micro-batch that are between their forward pass and their last backward pass at once. */
int64_t pdl_pipeline_in_flight(const pdl_pipeline_op_t *ops, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
