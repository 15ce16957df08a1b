/*
 * Rounds of a pipeline that are alike. When all stages have done two rounds, each exactly so much later than the one before, all
 * that follow do the same: what a pass waits for is a round back at the most.
 */
#ifndef PDL_ORACLE_REPEATS_H
#define PDL_ORACLE_REPEATS_H

#include "oracle/project/replay.h"
#include <math.h>

/* Sums of a stage that grow with every round. */
typedef struct pdl__repeat_sums {
    double host_s, slowed_s, host_wait_s, exchange_s;
} pdl__repeat_sums_t;

/* The rounds of a stage, in the passes [first, end) of its list. */
typedef struct pdl__repeats {
    int64_t            first, end;
    int                length, at; /* passes of a round; where it is in this one */
    double            *ends;       /* of the passes of the latest round */
    double             tracks[PDL__TRACK_COUNT];
    double             took, before; /* this round, and the one before it */
    bool               uniform;      /* this round so far: all passes are so much later */
    int                alike;        /* rounds in a row that were */
    pdl__repeat_sums_t sums, each;   /* at the end of the latest round, and what it added */
} pdl__repeats_t;

/* Of the time at which a pass ends: differences that are rounding. */
static inline bool pdl__repeats_same(double a, double b, double now)
{
    return fabs(a - b) <= 1e-13 * now;
}

/* Another pass is over; true when a round is, for which pdl__repeats_end() is next. */
static inline bool pdl__repeats_follow(pdl__repeats_t *r, double now)
{
    double later = now - r->ends[r->at];

    if (r->at == 0) {
        r->took = later;
        r->uniform = true;
    } else if (!pdl__repeats_same(later, r->took, now)) {
        r->uniform = false;
    }
    r->ends[r->at] = now;
    return ++r->at == r->length;
}
void pdl__repeats_end(pdl__repeats_t *rounds, const pdl__lane_t *lane, double exchange_s);
/* Whether the latest rounds of a stage were alike, and took so long. */
bool pdl__repeats_seen(const pdl__repeats_t *rounds, double seconds);
/* As if `count` rounds more had passed. */
void pdl__repeats_skip(pdl__repeats_t *rounds, int64_t count, double seconds, pdl__lane_t *lane,
                       double *exchange_s);

#endif
