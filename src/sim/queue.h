/*
 * Events in integer time. All events of one instant share a bucket, so that a step of 65,536 equal flows costs one
 * heap operation; times are whole ticks, so that sums of the same latencies in another order are the same instant.
 */
#ifndef PDL_SIM_QUEUE_H
#define PDL_SIM_QUEUE_H

#include <paradl/base/status.h>

#include <stdint.h>

typedef int64_t pdl__tick_t;

#define PDL__NEVER INT64_MAX

/* An entity (a flow or a rank) has at most one event at a time. */
typedef struct pdl__link3 {
    int32_t next, prev, bucket; /* bucket -1: no event */
} pdl__link3_t;

typedef struct pdl__queue_bucket {
    pdl__tick_t tick;
    int32_t     head, tail; /* entities in order of arrival; tail links free buckets */
    int32_t     at;         /* place in the heap */
} pdl__queue_bucket_t;

typedef struct pdl__heap_node {
    pdl__tick_t tick;
    int32_t     bucket;
} pdl__heap_node_t;

typedef struct pdl__queue {
    pdl__link3_t        *entity;
    pdl__queue_bucket_t *bucket;
    pdl__heap_node_t    *heap; /* one node per distinct instant */
    int32_t             *hash; /* bucket of an instant, linear probing; -1: free */
    int32_t              entities, buckets, bucket_room, heap_count, free_bucket, last;
    uint32_t             hash_mask;
} pdl__queue_t;

pdl_status_t pdl__queue_create(pdl__queue_t *queue, int32_t entities);
void         pdl__queue_destroy(pdl__queue_t *queue);

/* More entities than before. */
pdl_status_t pdl__queue_grow(pdl__queue_t *queue, int32_t entities);

/* PDL_ERR_NOMEM is the only failure. */
pdl_status_t pdl__queue_add(pdl__queue_t *queue, int32_t entity, pdl__tick_t tick);
/* Moves the event of an entity, which it must have, to an earlier instant. */
pdl_status_t pdl__queue_advance(pdl__queue_t *queue, int32_t entity, pdl__tick_t tick);

/* Takes the event of an entity, which it must have, out; its instant stays. */
void pdl__queue_remove(pdl__queue_t *queue, int32_t entity);

/* The time of an entity's event, which it must have. */
static inline pdl__tick_t pdl__queue_tick(const pdl__queue_t *queue, int32_t entity)
{
    return queue->bucket[queue->entity[entity].bucket].tick;
}

/* Takes out the earliest instant: the first of its entities, the others by entity[].next, -1 at the end; their
   events are over. An instant may be empty (-1) with a valid tick. PDL__NEVER: nothing is left. */
int32_t pdl__queue_pop(pdl__queue_t *queue, pdl__tick_t *tick);

/* Moves every event by the same time. */
void pdl__queue_shift(pdl__queue_t *queue, pdl__tick_t by);

#endif
