/*
 * Programs in time: what every operation of a program takes, and when it runs beside the others. The programs are those that
 * a run executes (program.h); nothing is executed.
 *
 *     pdl_timeline_t *timeline;
 *     pdl_oracle_timeline(oracle, plan, &timeline);
 *     pdl_replay_trace(timeline->ranks, timeline->count, stream);
 *     pdl_timeline_destroy(timeline);
 */
#ifndef PARADL_REPLAY_H
#define PARADL_REPLAY_H

#include <paradl/oracle/oracle.h>
#include <paradl/program/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Seconds of every operation of a rank of the plan, program->op_count of them: computation by the layers of its node,
   communication by the plan's schedule on the group and the bytes of the operation. */
pdl_status_t pdl_oracle_price_program(pdl_oracle_t *oracle, const pdl_plan_t *plan, const pdl_program_t *program,
                                      double *seconds);

/* By what an operation is compared with what a run took. */
pdl_op_class_t pdl_program_op_class(const pdl_program_t *program, const pdl_program_op_t *op);

/* Whether it is communication or copies, as far as the computation waits for them. */
bool pdl_op_class_waits(pdl_op_class_t op_class);

/* The program of one rank in time. */
typedef struct pdl_replay_rank {
    int64_t              rank;
    const pdl_program_t *program;
    const double        *seconds;         /* of every operation */
    const double        *queue_s;         /* the host's, to queue every operation before it can begin; NULL: none */
    double              *start_s, *end_s; /* filled in: when each starts, and is complete */
    unsigned             held;            /* bits of streams whose operations hold up computation */
    double               slowdown;        /* of computation while gradients are exchanged; up to 1: none */
} pdl_replay_rank_t;

/* Streams do their operations in order; of transfers between stages, those of one direction. An operation is issued when those of
   the compute stream that stand before it are complete, and starts when those that it waits for are; a tensor arrives when
   another of these ranks has sent it. What is received from ranks that are not given is there at once. */
pdl_status_t pdl_program_replay(pdl_replay_rank_t *ranks, int count, double *total_s);

/* An update of a plan: the programs of one rank of every stage side by side. PDL_ERR_LIMIT or PDL_ERR_UNSUPPORTED where the plan
   cannot be run so, or is too long. */
typedef struct pdl_timeline {
    pdl_replay_rank_t *ranks;
    int                count;
    double             total_s;
    double *rate; /* of computation, over its price, by how many of the ranks compute at once; NULL: always 1 */
} pdl_timeline_t;
pdl_status_t pdl_oracle_timeline(pdl_oracle_t *oracle, const pdl_plan_t *plan, pdl_timeline_t **timeline);
void         pdl_timeline_destroy(pdl_timeline_t *timeline); /* NULL is allowed */

/* For Perfetto: a process for every rank and a thread for every stream that it uses. */
void pdl_replay_trace(const pdl_replay_rank_t *ranks, int count, FILE *stream);

#ifdef __cplusplus
}
#endif
#endif
