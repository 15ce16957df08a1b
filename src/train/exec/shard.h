/*
 * Sharded state (ZeRO): ranks that would hold the same weights keep a part each of the optimizer's state (zero1), of
 * the gradients (zero2) and of the weights (zero3).
 *
 * Every bucket of the gradient exchange is cut into as many parts as there are ranks on the data axes. The parts of
 * a rank lie one after the other in its arrays. Gradients are reduced and scattered, the rank updates its parts, and
 * weights are gathered: after the update, or with zero3 shortly before a layer uses them. What is there for a while
 * only, whole buckets of gradients and of weights, has its place in two small arenas, worked out from the program.
 */
#ifndef PDL_TRAIN_SHARD_H
#define PDL_TRAIN_SHARD_H

#include "train/exec/session.h"

/* A whole bucket in an arena, during some operations of a program. */
typedef struct pdl__stay {
    int    group, bucket;
    int    begin;       /* the operation before which it takes its place */
    int    first, last; /* that use it */
    int    end;         /* gradients: the operation before which the sum must have arrived */
    size_t offset;
} pdl__stay_t;

typedef struct pdl__stays {
    pdl__stay_t *stay; /* in the order of `first` */
    int          count;
    size_t       bytes; /* of the arena */
} pdl__stays_t;

typedef enum pdl__shard_event_kind {
    PDL__SHARD_ARRIVE, /* before an operation */
    PDL__SHARD_OPEN,
    PDL__SHARD_SEND /* after it */
} pdl__shard_event_kind_t;

typedef struct pdl__shard_event {
    int                     op;
    pdl__shard_event_kind_t kind;
    int                     stay;
} pdl__shard_event_t;

struct pdl__shard {
    pdl__stays_t        gradients;  /* of the training program; from zero2 on */
    pdl__stays_t        weights[2]; /* of the forward and of the training program; zero3 */
    pdl__shard_event_t *event;      /* of gradients, in the order in which they happen */
    int                 event_count;
    char               *gradient_arena, *weight_arena;
    size_t              gradient_bytes, weight_bytes;
    int64_t            *weight_at, *gradient_at;      /* of every parameter */
    int                 next_event, started, arrived; /* of the program that is executed */
};

/* shard.c. Local: what is sharded on this rank, before memory is taken; and what the programs need besides. */
void         pdl__shard_choose(pdl_session_t *session);
pdl_status_t pdl__shard_divide(pdl_session_t *session);
pdl_status_t pdl__shard_connect(pdl_session_t *session, pdl__buckets_t *group); /* collective */
void         pdl__shard_destroy(pdl_session_t *session);
/* Whether an array holds parts instead of whole weights. */
bool pdl__shard_divides(const pdl_session_t *session, pdl_session_array_t array);
/* This rank's part of a bucket in an array. */
float *pdl__shard_part(const pdl_session_t *session, pdl_session_array_t array, const pdl__bucket_t *bucket);

/* shard_tensors.c: whether this rank's values of a weight are only a part of it, from which the first of the next
   two, collective over the group, puts together its storage; the second takes this rank's part of it. */
bool pdl__shard_cuts(const pdl_session_t *session, pdl_session_array_t array, const pdl__trace_entry_t *entry);
pdl_status_t pdl__shard_collect(const pdl_session_t *session, pdl_session_array_t array,
                                const pdl__trace_entry_t *entry, float *storage);
pdl_status_t pdl__shard_spread(pdl_session_t *session, pdl_session_array_t array, const pdl__trace_entry_t *entry,
                               const float *storage);

/* shard_stays.c */
pdl_status_t pdl__shard_place(pdl_session_t *session);

/* shard_execute.c: around the operations of a program, and after it. */
void         pdl__shard_begin(pdl_session_t *session);
pdl_status_t pdl__shard_before(pdl_session_t *session, const pdl_program_t *program, int op, bool training);
pdl_status_t pdl__shard_after(pdl_session_t *session, int op);
pdl_status_t pdl__shard_poll(pdl_session_t *session);
pdl_status_t pdl__shard_finish(pdl_session_t *session);
/* Whole weights on every rank again, after the parts have changed. */
pdl_status_t pdl__shard_gather(pdl_session_t *session);

#endif
