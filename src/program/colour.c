/*
 * Placing buffers in one arena by colouring the intervals during which they live. No order of placing is best for
 * all programs, so a few are tried until one reaches the most bytes alive at once, which nothing can beat: large
 * ones first, which suits training, whose saved tensors nest like brackets; those that take most room for longest;
 * those of the busiest moments first, which suits networks that look far back; in the order of time, which suits
 * recomputation; and those that live longest. Each of them is then improved by placing first what came to lie highest.
 */
#include "program/builder.h"
#include "program/shelf.h"
#include <stdlib.h>
#include <string.h>

#define ROUNDS 16   /* of improving an order: ... */
#define FEW    500  /* ... all of them where there are fewer buffers, */
#define MANY   2000 /* the best where there are fewer than that: it would take long */
#define STRIDE 64   /* steps whose maximum is kept */

/* One buffer as the orders see it. */
typedef struct key {
    double rank; /* by the order at hand: the highest first */
    size_t bytes;
    int    first, index;
} pdl__key_t;

typedef struct colouring {
    pdl_program_buffer_t *buffers;
    size_t               *bytes;  /* of every buffer, rounded up */
    size_t               *offset; /* in the attempt at hand */
    pdl__key_t           *key;
    int                  *order, *spare;   /* buffers, as they are placed */
    size_t               *alive, *strides; /* bytes at every step; the most of STRIDE steps */
    pdl__shelf_t         *shelf;
    int                   count, steps;
    size_t                bound;     /* the most bytes alive at once */
    size_t                top, best; /* highest marks: of the latest attempt, and the lowest so far */
} colouring_t;

typedef enum order { BY_SIZE, BY_AREA, BY_BREADTH, BY_START, BY_LIFE, ORDER_COUNT } order_t;

static int by_rank(const void *a, const void *b)
{
    const pdl__key_t *x = a, *y = b;

    if (x->rank != y->rank) return x->rank < y->rank ? 1 : -1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->index - y->index;
}

static size_t align_up(size_t bytes, size_t alignment)
{
    return (bytes + alignment - 1) & ~(alignment - 1);
}

/* Bytes alive at every step. */
static void count_alive(colouring_t *c)
{
    /* Differences first: unsigned numbers may pass below zero on the way, the sums are right. */
    for (int i = 0; i < c->count; i++) {
        c->alive[c->buffers[i].first] += c->bytes[i];
        c->alive[c->buffers[i].last + 1] -= c->bytes[i];
    }
    for (int t = 1; t < c->steps; t++) c->alive[t] += c->alive[t - 1];
    for (int t = 0; t < c->steps; t++)
        if (c->alive[t] > c->strides[t / STRIDE]) c->strides[t / STRIDE] = c->alive[t];
    for (int k = 0; k <= c->steps / STRIDE; k++)
        if (c->strides[k] > c->bound) c->bound = c->strides[k];
}

/* The most bytes alive while a buffer is. */
static size_t most_beside(const colouring_t *c, const pdl_program_buffer_t *buffer)
{
    size_t most = 0;

    for (int t = buffer->first; t <= buffer->last;) {
        bool   whole = t % STRIDE == 0 && t + STRIDE - 1 <= buffer->last;
        size_t here = whole ? c->strides[t / STRIDE] : c->alive[t];
        if (here > most) most = here;
        t += whole ? STRIDE : 1;
    }
    return most;
}

static double rank_of(const colouring_t *c, int i, order_t order)
{
    const pdl_program_buffer_t *buffer = &c->buffers[i];

    switch (order) {
    case BY_AREA: return (double)c->bytes[i] * (buffer->last - buffer->first + 1);
    case BY_BREADTH: return (double)most_beside(c, buffer);
    case BY_START: return -(double)buffer->first;
    case BY_LIFE: return buffer->last - buffer->first;
    default: return (double)c->bytes[i];
    }
}

/* Places all in their order, or, unless it is to be improved, until it is no better than before; what is better is noted in
   the buffers. */
static void attempt(colouring_t *c, bool improves)
{
    pdl__shelf_clear(c->shelf);
    c->top = 0;
    for (int k = 0; k < c->count && (improves || c->top < c->best); k++) {
        int i = c->order[k];
        c->offset[i] = pdl__shelf_put(c->shelf, i, c->bytes[i]);
        if (c->offset[i] + c->bytes[i] > c->top) c->top = c->offset[i] + c->bytes[i];
    }
    if (c->top >= c->best) return;
    c->best = c->top;
    for (int i = 0; i < c->count; i++) c->buffers[i].offset = c->offset[i];
}

static void sort_keys(colouring_t *c, int count, int *order)
{
    qsort(c->key, (size_t)count, sizeof(*c->key), by_rank);
    for (int k = 0; k < count; k++) order[k] = c->key[k].index;
}

static void attempt_order(colouring_t *c, order_t order, bool improves)
{
    for (int i = 0; i < c->count; i++)
        c->key[i] = (pdl__key_t){rank_of(c, i, order), c->bytes[i], c->buffers[i].first, i};
    sort_keys(c, c->count, c->order);
    attempt(c, improves);
}

/* Who came to lie highest is placed first next time. */
static void promote_highest(colouring_t *c)
{
    int high = 0, rest = 0;

    for (int k = 0; k < c->count; k++) {
        int i = c->order[k];
        if (c->offset[i] + c->bytes[i] == c->top)
            c->key[high++] = (pdl__key_t){0, c->bytes[i], c->buffers[i].first, i};
        else
            c->spare[rest++] = i;
    }
    memmove(c->spare + high, c->spare, (size_t)rest * sizeof(*c->spare));
    sort_keys(c, high, c->spare);
    int *before = c->order;
    c->order = c->spare;
    c->spare = before;
}

/* From one order on. */
static void improve(colouring_t *c, order_t order)
{
    attempt_order(c, order, true);
    for (int round = 1; round <= ROUNDS && c->best > c->bound; round++) {
        promote_highest(c);
        attempt(c, round < ROUNDS);
    }
}

static pdl_status_t prepare(colouring_t *c, pdl_program_buffer_t *buffers, int count, size_t alignment)
{
    size_t n = (size_t)count;

    c->buffers = buffers;
    c->count = count;
    for (int i = 0; i < count; i++)
        if (buffers[i].last + 2 > c->steps) c->steps = buffers[i].last + 2;
    c->bytes = calloc(2 * n + 1, sizeof(*c->bytes));
    c->key = calloc(n + 1, sizeof(*c->key));
    c->order = calloc(2 * n + 1, sizeof(*c->order));
    c->alive = calloc((size_t)c->steps + (size_t)(c->steps / STRIDE) + 2, sizeof(*c->alive));
    if (c->bytes == NULL || c->key == NULL || c->order == NULL || c->alive == NULL ||
        pdl__shelf_create(buffers, count, c->steps, &c->shelf))
        return pdl_error(PDL_ERR_NOMEM, "out of memory while placing %d buffers", count);
    c->offset = c->bytes + n;
    c->spare = c->order + n;
    c->strides = c->alive + c->steps + 1;
    for (int i = 0; i < count; i++) c->bytes[i] = align_up(buffers[i].bytes, alignment);
    count_alive(c);
    return PDL_OK;
}

pdl_status_t pdl_colour_intervals(pdl_program_buffer_t *buffers, int count, size_t alignment, size_t *arena_bytes)
{
    colouring_t  c = {.best = SIZE_MAX};
    order_t      best = BY_SIZE;
    pdl_status_t status = prepare(&c, buffers, count, alignment);
    int         *orders = c.order; /* both, which change places */

    for (int order = 0; order < ORDER_COUNT && !status && c.best > c.bound; order++) {
        size_t before = c.best;
        attempt_order(&c, (order_t)order, false);
        if (c.best < before) best = (order_t)order;
    }
    for (int order = 0; order < ORDER_COUNT && !status && c.best > c.bound; order++)
        if (count < FEW || (count < MANY && order == (int)best)) improve(&c, (order_t)order);
    *arena_bytes = c.best;
    pdl__shelf_destroy(c.shelf);
    free(c.bytes);
    free(c.key);
    free(orders);
    free(c.alive);
    return status;
}
