/*
 * The event queue: a heap of distinct instants, a hash from instant to bucket, and a list of entities in each.
 */
#include "sim/queue.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash_of(const pdl__queue_t *queue, pdl__tick_t tick)
{
    return (uint32_t)((uint64_t)tick * 0x9E3779B97F4A7C15u >> 32) & queue->hash_mask;
}

static void hash_put(pdl__queue_t *queue, int32_t bucket)
{
    uint32_t at = hash_of(queue, queue->bucket[bucket].tick);

    while (queue->hash[at] >= 0) at = (at + 1) & queue->hash_mask;
    queue->hash[at] = bucket;
}

/* Takes a bucket out and closes the gap, so that probing never meets a grave. */
static void hash_drop(pdl__queue_t *queue, int32_t bucket)
{
    uint32_t mask = queue->hash_mask, at = hash_of(queue, queue->bucket[bucket].tick), next;

    while (queue->hash[at] != bucket) at = (at + 1) & mask;
    for (next = (at + 1) & mask; queue->hash[next] >= 0; next = (next + 1) & mask) {
        uint32_t home = hash_of(queue, queue->bucket[queue->hash[next]].tick);

        if (((next - home) & mask) >= ((next - at) & mask)) {
            queue->hash[at] = queue->hash[next];
            at = next;
        }
    }
    queue->hash[at] = -1;
}

static pdl_status_t more_buckets(pdl__queue_t *queue)
{
    int32_t              room = queue->bucket_room > 0 ? 2 * queue->bucket_room : 256;
    pdl__queue_bucket_t *bucket = realloc(queue->bucket, (size_t)room * sizeof(*bucket));
    pdl__heap_node_t    *heap;
    int32_t             *hash;

    if (bucket == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for simulated events");
    queue->bucket = bucket;
    heap = realloc(queue->heap, (size_t)room * sizeof(*heap));
    if (heap == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for simulated events");
    queue->heap = heap;
    hash = malloc((size_t)room * 2 * sizeof(*hash));
    if (hash == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for simulated events");
    free(queue->hash);
    memset(hash, 0xff, (size_t)room * 2 * sizeof(*hash));
    queue->hash = hash;
    queue->hash_mask = (uint32_t)room * 2 - 1;
    queue->bucket_room = room;
    for (int32_t i = 0; i < queue->heap_count; i++) hash_put(queue, queue->heap[i].bucket);
    return PDL_OK;
}

pdl_status_t pdl__queue_create(pdl__queue_t *queue, int32_t entities)
{
    memset(queue, 0, sizeof(*queue));
    queue->free_bucket = queue->last = -1;
    if (more_buckets(queue)) return PDL_ERR_NOMEM;
    return pdl__queue_grow(queue, entities);
}

void pdl__queue_destroy(pdl__queue_t *queue)
{
    free(queue->entity);
    free(queue->bucket);
    free(queue->heap);
    free(queue->hash);
    memset(queue, 0, sizeof(*queue));
}

pdl_status_t pdl__queue_grow(pdl__queue_t *queue, int32_t entities)
{
    pdl__link3_t *entity = realloc(queue->entity, (size_t)entities * sizeof(*entity));

    if (entity == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for simulated events");
    queue->entity = entity;
    for (int32_t i = queue->entities; i < entities; i++) entity[i] = (pdl__link3_t){-1, -1, -1};
    queue->entities = entities;
    return PDL_OK;
}

static void put(pdl__queue_t *queue, int32_t at, pdl__heap_node_t node)
{
    queue->heap[at] = node;
    queue->bucket[node.bucket].at = at;
}

static void sift_up(pdl__queue_t *queue, int32_t at)
{
    pdl__heap_node_t node = queue->heap[at];

    for (int32_t up; at > 0 && queue->heap[up = (at - 1) / 4].tick > node.tick; at = up)
        put(queue, at, queue->heap[up]);
    put(queue, at, node);
}

static void sift_down(pdl__queue_t *queue)
{
    pdl__heap_node_t *heap = queue->heap, node = heap[0];
    int32_t           at = 0, count = queue->heap_count;

    for (;;) {
        int32_t child = 4 * at + 1, end = child + 4 < count ? child + 4 : count, least = child;

        if (child >= count) break;
        for (int32_t i = child + 1; i < end; i++)
            if (heap[i].tick < heap[least].tick) least = i;
        if (heap[least].tick >= node.tick) break;
        put(queue, at, heap[least]);
        at = least;
    }
    put(queue, at, node);
}

static int32_t find_bucket(const pdl__queue_t *queue, pdl__tick_t tick)
{
    for (uint32_t at = hash_of(queue, tick); queue->hash[at] >= 0; at = (at + 1) & queue->hash_mask)
        if (queue->bucket[queue->hash[at]].tick == tick) return queue->hash[at];
    return -1;
}

/* A new bucket for an instant that has none. */
static int32_t open_bucket(pdl__queue_t *queue, pdl__tick_t tick)
{
    int32_t bucket = queue->free_bucket;

    if (bucket >= 0) {
        queue->free_bucket = queue->bucket[bucket].tail;
    } else {
        if (queue->buckets == queue->bucket_room && more_buckets(queue)) return -1;
        bucket = queue->buckets++;
    }
    queue->bucket[bucket] = (pdl__queue_bucket_t){tick, -1, -1, -1};
    hash_put(queue, bucket);
    queue->heap[queue->heap_count] = (pdl__heap_node_t){tick, bucket};
    sift_up(queue, queue->heap_count++);
    return bucket;
}

pdl_status_t pdl__queue_add(pdl__queue_t *queue, int32_t entity, pdl__tick_t tick)
{
    int32_t              bucket = queue->last;
    pdl__queue_bucket_t *b;

    if (bucket < 0 || queue->bucket[bucket].tick != tick) {
        bucket = find_bucket(queue, tick);
        if (bucket < 0) bucket = open_bucket(queue, tick);
        if (bucket < 0) return PDL_ERR_NOMEM;
        queue->last = bucket;
    }
    b = &queue->bucket[bucket];
    queue->entity[entity] = (pdl__link3_t){-1, b->tail, bucket};
    if (b->tail >= 0) {
        queue->entity[b->tail].next = entity;
    } else {
        b->head = entity;
    }
    b->tail = entity;
    return PDL_OK;
}

void pdl__queue_remove(pdl__queue_t *queue, int32_t entity)
{
    pdl__link3_t         e = queue->entity[entity];
    pdl__queue_bucket_t *b = &queue->bucket[e.bucket];

    if (e.prev >= 0) {
        queue->entity[e.prev].next = e.next;
    } else {
        b->head = e.next;
    }
    if (e.next >= 0) {
        queue->entity[e.next].prev = e.prev;
    } else {
        b->tail = e.prev;
    }
    queue->entity[entity].bucket = -1;
}

pdl_status_t pdl__queue_advance(pdl__queue_t *queue, int32_t entity, pdl__tick_t tick)
{
    int32_t              bucket = queue->entity[entity].bucket;
    pdl__queue_bucket_t *b = &queue->bucket[bucket];

    if (b->head != b->tail || find_bucket(queue, tick) >= 0) {
        pdl__queue_remove(queue, entity);
        return pdl__queue_add(queue, entity, tick);
    }
    /* It is alone: the whole instant moves. */
    hash_drop(queue, bucket);
    b->tick = queue->heap[b->at].tick = tick;
    hash_put(queue, bucket);
    sift_up(queue, b->at);
    return PDL_OK;
}

int32_t pdl__queue_pop(pdl__queue_t *queue, pdl__tick_t *tick)
{
    int32_t bucket, head;

    if (queue->heap_count == 0) {
        *tick = PDL__NEVER;
        return -1;
    }
    bucket = queue->heap[0].bucket;
    *tick = queue->heap[0].tick;
    head = queue->bucket[bucket].head;
    hash_drop(queue, bucket);
    queue->heap[0] = queue->heap[--queue->heap_count];
    if (queue->heap_count > 0) sift_down(queue);
    queue->bucket[bucket].tick = PDL__NEVER;
    queue->bucket[bucket].tail = queue->free_bucket;
    queue->free_bucket = bucket;
    if (queue->last == bucket) queue->last = -1;
    for (int32_t i = head; i >= 0; i = queue->entity[i].next) queue->entity[i].bucket = -1;
    return head;
}

void pdl__queue_shift(pdl__queue_t *queue, pdl__tick_t by)
{
    memset(queue->hash, 0xff, ((size_t)queue->hash_mask + 1) * sizeof(*queue->hash));
    for (int32_t i = 0; i < queue->heap_count; i++) {
        queue->heap[i].tick += by;
        queue->bucket[queue->heap[i].bucket].tick += by;
        hash_put(queue, queue->heap[i].bucket);
    }
}
