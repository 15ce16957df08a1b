/*
 * Which ranks are lost, from what is known of each.
 */
#ifndef PDL_COMM_WATCH_JUDGE_H
#define PDL_COMM_WATCH_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a rank says of itself. */
typedef struct pdl__record {
    uint64_t ticks;  /* operations and messages so far */
    uint64_t active; /* heartbeats since which processor time or storage was used */
    int64_t  update; /* 0: none */
    int32_t  micro_batch;
    bool     waiting; /* for messages */
    char     doing[32], layer[64];
} pdl__record_t;

/* What is known of a rank. */
typedef struct pdl__watched {
    pdl__record_t record;
    double        heard_s;  /* when the record came */
    double        active_s; /* when it last was another one, or said that the rank does something */
    double        moved_s;  /* when its ticks last were others */
    bool          closed;   /* its connection */
    bool          left;     /* with a goodbye, or was never there */
} pdl__watched_t;

typedef enum pdl__fault {
    PDL__FAULT_NONE,
    PDL__FAULT_DIED,
    PDL__FAULT_SILENT,
    PDL__FAULT_HUNG,
    PDL__FAULT_KNOT
} pdl__fault_t;

typedef struct pdl__verdict {
    pdl__fault_t fault;
    int          count, first, speaker; /* ranks at fault, and the lowest of them; the lowest that is not, or -1 */
    char         who[80];               /* "rank 2", "ranks 2, 5" */
    char         text[320];             /* without what ended a rank that died */
} pdl__verdict_t;

/* A new record of a rank. */
void pdl__watched_hear(pdl__watched_t *watched, const pdl__record_t *record, double now_s);
/* Where a rank is: "in update 7 (forward of layer conv1, micro-batch 2)". */
void pdl__record_place(const pdl__record_t *record, char *text, size_t size);
/* Of ranks first .. first + count; limit_s 0: only ranks that died count. */
pdl__verdict_t pdl__judge(const pdl__watched_t *watched, int first, int count, double now_s, double limit_s);

#endif
