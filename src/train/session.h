/*
 * Inside a session: the lowered graph, its tapes, the weights in flat arrays, and what runs between them.
 */
#ifndef PDL_TRAIN_SESSION_H
#define PDL_TRAIN_SESSION_H

#include "train/graph.h"
#include <paradl/exchange.h>
#include <paradl/session.h>
#include <signal.h>

/* One weight or statistic: [offset, offset + storage) of the flat arrays. */
typedef struct pdl__entry {
    pdl_session_tensor_t info;
    int                  unit, k; /* the op that translates it */
    pdl_region_t         region;  /* the part of it on this rank; info has the dimensions of the whole */
    bool                 whole;   /* that is all of it */
    unsigned             axes;    /* over which gradients are summed */
    int64_t              offset, storage;
    int                  users;         /* ops whose gradients make it up */
    int                  group, bucket; /* of the exchange; group -1: nothing to sum */
    /* of the update at hand */
    int  missing; /* users whose backward has not run */
    bool written; /* later gradients are added */
} pdl__entry_t;

/* The time of one operation. */
typedef struct pdl__moment {
    double start_s, end_s;
    int    op; /* of the tape; negative: -1 exchange, -2 update */
} pdl__moment_t;

/* Gradients that are summed over the same ranks: a range of the flat array, cut into buckets. */
typedef struct pdl__buckets {
    unsigned        axes;
    int             first, last; /* entries */
    pdl_exchange_t *exchange;
    int             count;
    int            *missing; /* per bucket: entries without a complete gradient */
} pdl__buckets_t;

struct pdl_session {
    pdl_session_spec_t spec;
    pdl__layouts_t    *layouts;
    pdl__graph_t      *graph;
    pdl_tape_t        *tape, *forward_tape; /* the first only when training */
    int64_t            batch, first, count, micro_samples;
    int                micro_batches;

    /* trainable weights come first, in the order in which backward finishes their gradients */
    pdl__entry_t    *entry;
    int              entry_count;
    int64_t          elements, trainable; /* of the flat arrays; of these, trainable */
    void            *array[PDL_ARRAY_COUNT];
    pdl_parameter_t *parameter;
    int              parameter_count;
    void            *packed;
    size_t           packed_bytes;
    size_t          *packed_at; /* per unit */

    char  *arena;
    size_t arena_bytes;

    pdl__buckets_t *buckets; /* one for every set of axes over which gradients are summed */
    int             bucket_groups;
    float          *zeros;      /* the bias that another rank adds */
    double          sent_bytes; /* by redistributions, since the beginning */

    void   *numbers; /* regression: the targets of a micro-batch in the activation type */
    void   *targets; /* labels of the positions this rank has, where that is not all of them */
    float  *results; /* [3][count]: loss, correctness, confidence */
    int64_t updates;

    volatile sig_atomic_t stop;

    pdl__moment_t *timeline;
    int            timeline_count;
    double         timeline_zero_s;
};

/* weights.c */
pdl_status_t pdl__session_weights(pdl_session_t *session);
void         pdl__session_free_weights(pdl_session_t *session);
pdl_status_t pdl__session_refresh(pdl_session_t *session);
void        *pdl__entry_at(const pdl_session_t *session, pdl_session_array_t array, const pdl__entry_t *entry);

/* play.c: runs a tape on this rank's batch. */
typedef enum pdl__play_mode { PDL__PLAY_TRAIN, PDL__PLAY_EVALUATE, PDL__PLAY_SEARCH } pdl__play_mode_t;
typedef struct pdl__play {
    const pdl_batch_t *batch;
    pdl__play_mode_t   mode;
    int                found; /* PDL__PLAY_SEARCH: unit whose output is the first that is not finite, or -1 */
} pdl__play_t;
pdl_status_t pdl__session_play(pdl_session_t *session, const pdl_tape_t *tape, pdl__play_t *play);

/* Seconds since some fixed moment. */
double pdl__now_s(void);
#define PDL__TIMELINE_CAPACITY 400000
void pdl__session_note(pdl_session_t *session, int op, double start_s);

#endif
