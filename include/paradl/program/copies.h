/*
 * What the copies between device and host do in one update of a program, from when every operation of it is complete: replayed
 * or measured, the figures are made in the same way.
 */
#ifndef PARADL_COPIES_H
#define PARADL_COPIES_H

#include <paradl/program/program.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_program_copies {
    double swapped_bytes;    /* activations: out, and in again */
    double state_bytes;      /* of the optimizer, and weights that are updated with it: in, and out again */
    double gradient_bytes;   /* out, for updates by the host */
    double weight_bytes;     /* of the host, before they are used */
    double recomputed_bytes; /* outputs that are made again */
    double out_s, in_s;      /* the links are busy */
    double stall_s;          /* the computation waits for copies; */
    double worst_s;          /* of this, for the block for which it waits longest, */
    int    worst_layer;      /* which ends with this layer; -1: for none, or for state */
} pdl_program_copies_t;

/* `end_s` of every operation; NULL: bytes alone. */
pdl_status_t pdl_program_count_copies(const pdl_program_t *program, const double *end_s,
                                      pdl_program_copies_t *copies);

#ifdef __cplusplus
}
#endif
#endif
