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

typedef struct pdl_pipeline_op {
    bool    backward;
    int     chunk;
    int64_t micro_batch;
} pdl_pipeline_op_t;

/* The pipeline of a plan. */
pdl_pipeline_t pdl_pipeline_of_plan(const pdl_plan_t *plan);

/* Passes of every stage. */
int64_t pdl_pipeline_op_count(const pdl_pipeline_t *pipeline);

/* The passes of a stage in order, pdl_pipeline_op_count() of them. Stages that follow their lists and wait for
   their inputs never wait for each other in a circle. */
void pdl_pipeline_order(const pdl_pipeline_t *pipeline, int stage, pdl_pipeline_op_t *ops);

/* Where the input of a pass comes from; false: from the data set, or from the loss. */
bool pdl_pipeline_source(const pdl_pipeline_t *pipeline, int stage, const pdl_pipeline_op_t *op, int *from_stage,
                         int *from_chunk);
/* Where its output goes; false: nowhere. */
bool pdl_pipeline_target(const pdl_pipeline_t *pipeline, int stage, const pdl_pipeline_op_t *op, int *to_stage,
                         int *to_chunk);

/* The most pairs of chunk and micro-batch that are between their forward and backward pass at once. */
int64_t pdl_pipeline_in_flight(const pdl_pipeline_op_t *ops, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
