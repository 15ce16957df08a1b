/*
 * Between update.c and stays.c: a walk through the operations of the layers, between which those of an update are inserted.
 */
#ifndef PDL_PROGRAM_WALK_H
#define PDL_PROGRAM_WALK_H

#include "program/builder.h"

/* A whole bucket, during some operations of the layers. */
typedef struct pdl__stay {
    int bucket, buffer;
    int begin;       /* the operation before which it takes its place */
    int first, last; /* that use it */
    int end;         /* gradients: the operation before which the sum has arrived */
} pdl__stay_t;

typedef struct pdl__stays {
    pdl__stay_t *stay; /* in the order of `first` */
    int          count, capacity;
    int         *latest;       /* of every bucket: the stay that is open or was last, or -1 */
    int          issued, used; /* so many of them, while operations are inserted */
} pdl__stays_t;

typedef struct pdl__update_walk {
    pdl__builder_t             *builder;
    const pdl_program_update_t *update;
    pdl_program_op_t           *op; /* of the layers: those that are walked through */
    int                         op_count;
    pdl__stays_t                gradients, weights;
    int                        *bucket_of; /* of every weight, or -1 */
    int                        *users;     /* of every weight: operations that add to its gradient, in all */
    int                        *made;      /* of these, how many have been seen */
    int                        *last;      /* of every bucket: the operation that completes its gradients, or -1 */
    bool                       *kept;      /* of every bucket: this rank's part holds gradients */
    bool                       *written;   /* of every weight: its gradient is there, and later ones are added */
    int                        *sent;      /* stays whose sum is in flight */
    int                         sent_count;
    int                         fetched; /* stays of weights that have their place, and what the host has of them */
    int                        *gradients_at; /* of every bucket: the buffer of its gradients, or -1 */
    int                         in_flight;    /* bucket whose sum was sent last, or -1 */
    bool               *summed; /* of every bucket: what an update needs of its gradients is there, or in flight */
    pdl__state_pieces_t state;
} pdl__update_walk_t;

bool pdl__update_uses_weights(const pdl_program_op_t *op);
bool pdl__update_makes_gradients(const pdl_program_op_t *op);
/* The weights of an operation's node. */
int pdl__update_uses(const pdl__update_walk_t *walk, const pdl_program_op_t *op, const int **use);
/* The bucket of a weight if it comes and goes: of gradients from zero2 on, of weights with zero3; or by copies. */
int pdl__update_passing(const pdl__update_walk_t *walk, int weight, bool of_weights);

/* When whole buckets of weights and gradients are there. */
pdl_status_t pdl__update_find_weights(pdl__update_walk_t *walk);
pdl_status_t pdl__update_find_gradients(pdl__update_walk_t *walk);

#endif
