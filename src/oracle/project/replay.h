/*
 * The one replay: lists of steps side by side in time. A list is the program of a rank, or the passes of a stage.
 */
#ifndef PDL_ORACLE_REPLAY_H
#define PDL_ORACLE_REPLAY_H

#include <paradl/oracle/replay.h>

/* What steps follow one another on: streams, and for transfers between stages one for each direction, sent and received, as
   messages do not wait for others that go elsewhere. */
enum {
    PDL__TRACK_SEND = PDL_STREAM_COUNT,
    PDL__TRACK_RECEIVE = PDL__TRACK_SEND + PDL_DIRECTIONS,
    PDL__TRACK_COUNT = PDL__TRACK_RECEIVE + PDL_DIRECTIONS
};

/* COMPUTES: it is slower while gradients are exchanged. HOLDS: computation waits until it is over. */
enum { PDL__STEP_COMPUTES = 1, PDL__STEP_HOLDS = 2, PDL__STEP_SENDS = 4, PDL__STEP_NEEDS = 8 };

typedef struct pdl__replay_step {
    int     price;                  /* what it takes, and where its end is written */
    int     tensor;                 /* that it sends or needs */
    int     first_wait, wait_count; /* in the list of waits: prices of steps before it */
    uint8_t track, flags;
} pdl__replay_step_t;

/* What became of a lane that came to the end of its steps: it has others, waits for another lane, or has done all. */
typedef enum pdl__more { PDL__MORE_STEPS, PDL__MORE_LATER, PDL__MORE_NEVER } pdl__more_t;

/* The list of one rank, and where it is in time. */
typedef struct pdl__lane pdl__lane_t;
struct pdl__lane {
    const pdl__replay_step_t *steps;
    int                       count, next;
    int                       tensor; /* the numbers of tensors in these steps begin here */
    /* The next steps, in place of these; sets *moved when it did any itself. NULL: these are all. */
    pdl__more_t (*more)(pdl__lane_t *lane, bool *moved);
    const int    *wait;
    const double *seconds, *queue_s; /* by price; queue_s, of the host to queue it: NULL: nothing */
    double       *start_s, *end_s;   /* by price, filled in; start_s may be NULL */
    double        slowdown;          /* of computation while gradients are exchanged; up to 1: none */
    double        free_s[PDL__TRACK_COUNT], host_s;
    double        slowed_s, host_wait_s; /* of computation: how much longer it took; what it waited for the host */
};

/* Instead of the time at which a tensor arrives. */
#define PDL__TENSOR_NOBODY  -2.0 /* none of the ranks sends it: it is there at once */
#define PDL__TENSOR_PENDING -1.0

/* Lanes are `size` bytes apart. */
pdl_status_t pdl__replay(pdl__lane_t *lanes, size_t size, int count, double *sent_s, double *total_s);

#endif
