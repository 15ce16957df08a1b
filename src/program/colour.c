/*
 * Placing buffers in one arena by colouring the intervals during which they live. No order of placing is best for
 * all programs, so a few are tried until one reaches the most bytes alive at once, which nothing can beat: large
 * ones first, which suits training, whose saved tensors nest like brackets; those that take most room for longest;
 * those of the busiest moments first, which suits networks that look far back; in the order of time, which suits
 * recomputation; and those that live longest. Each of them is then improved by placing first what came to lie highest.
 */
#include "program/builder.h"
#include <stdlib.h>

#define ROUNDS 16   /* of improving an order: ... */
#define FEW    500  /* ... all of them where there are fewer buffers, */
#define MANY   2000 /* the best where there are fewer than that: it would take long */

/* One buffer as the orders see it. */
typedef struct piece {
    pdl_program_buffer_t *buffer;
    size_t                bytes;  /* rounded up */
    size_t                offset; /* in the attempt at hand */
    double                rank;   /* by the order at hand: the highest first */
} piece_t;

typedef struct colouring {
    piece_t  *piece;
    piece_t **placed; /* sorted by offset */
    size_t   *alive;  /* bytes at every step */
    int       count, steps;
    size_t    bound;     /* the most of these */
    size_t    top, best; /* highest marks: of the latest attempt, and the lowest so far */
} colouring_t;

typedef enum order { BY_SIZE, BY_AREA, BY_BREADTH, BY_START, BY_LIFE, ORDER_COUNT } order_t;

static int by_rank(const void *a, const void *b)
{
    const piece_t *x = a, *y = b;

    if (x->rank != y->rank) return x->rank < y->rank ? 1 : -1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    if (x->buffer->first != y->buffer->first) return x->buffer->first < y->buffer->first ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
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
        c->alive[c->piece[i].buffer->first] += c->piece[i].bytes;
        c->alive[c->piece[i].buffer->last + 1] -= c->piece[i].bytes;
    }
    for (int t = 1; t < c->steps; t++) c->alive[t] += c->alive[t - 1];
    for (int t = 0; t < c->steps; t++)
        if (c->alive[t] > c->bound) c->bound = c->alive[t];
}

static double rank_of(const colouring_t *c, const piece_t *piece, order_t order)
{
    const pdl_program_buffer_t *buffer = piece->buffer;
    size_t                      most = 0;

    switch (order) {
    case BY_AREA: return (double)piece->bytes * (buffer->last - buffer->first + 1);
    case BY_BREADTH:
        for (int t = buffer->first; t <= buffer->last; t++)
            if (c->alive[t] > most) most = c->alive[t];
        return (double)most;
    case BY_START: return -(double)buffer->first;
    case BY_LIFE: return buffer->last - buffer->first;
    default: return (double)piece->bytes;
    }
}

/* The placed pieces are kept sorted by offset. */
static void insert_sorted(piece_t **placed, int count, piece_t *piece)
{
    int at = count;

    while (at > 0 && placed[at - 1]->offset > piece->offset) {
        placed[at] = placed[at - 1];
        at--;
    }
    placed[at] = piece;
}

/* The smallest gap between neighbours in time that holds the piece; after the last one if there is none. */
static size_t find_gap(piece_t *const *placed, int count, const piece_t *piece)
{
    size_t end = 0, best = 0, best_gap = SIZE_MAX;

    for (int i = 0; i < count; i++) {
        const pdl_program_buffer_t *other = placed[i]->buffer;
        if (other->last < piece->buffer->first || piece->buffer->last < other->first) continue;
        size_t begin = placed[i]->offset;
        if (begin >= end + piece->bytes && begin - end < best_gap) {
            best_gap = begin - end;
            best = end;
        }
        if (begin + placed[i]->bytes > end) end = begin + placed[i]->bytes;
    }
    return best_gap == SIZE_MAX ? end : best;
}

/* Places all, the highest ranks first; what becomes better than before is noted in the buffers. */
static void attempt(colouring_t *c)
{
    size_t top = 0;

    qsort(c->piece, (size_t)c->count, sizeof(*c->piece), by_rank);
    for (int i = 0; i < c->count; i++) {
        piece_t *piece = &c->piece[i];
        piece->offset = find_gap(c->placed, i, piece);
        insert_sorted(c->placed, i, piece);
        if (piece->offset + piece->bytes > top) top = piece->offset + piece->bytes;
    }
    c->top = top;
    if (top >= c->best) return;
    c->best = top;
    for (int i = 0; i < c->count; i++) {
        c->piece[i].buffer->offset = c->piece[i].offset;
    }
}

static void attempt_order(colouring_t *c, order_t order)
{
    for (int i = 0; i < c->count; i++) c->piece[i].rank = rank_of(c, &c->piece[i], order);
    attempt(c);
}

/* Who came to lie highest is placed first next time. */
static void promote_highest(colouring_t *c)
{
    double most = 0;

    for (int i = 0; i < c->count; i++)
        if (c->piece[i].rank > most) most = c->piece[i].rank;
    for (int i = 0; i < c->count; i++)
        if (c->piece[i].offset + c->piece[i].bytes == c->top) c->piece[i].rank = most + 1;
}

/* From one order on. */
static void improve(colouring_t *c, order_t order)
{
    attempt_order(c, order);
    for (int round = 0; round < ROUNDS && c->best > c->bound; round++) {
        promote_highest(c);
        attempt(c);
    }
}

static pdl_status_t prepare(colouring_t *c, pdl_program_buffer_t *buffers, int count, size_t alignment)
{
    c->count = count;
    for (int i = 0; i < count; i++)
        if (buffers[i].last + 2 > c->steps) c->steps = buffers[i].last + 2;
    c->piece = calloc((size_t)count + 1, sizeof(*c->piece));
    c->placed = calloc((size_t)count + 1, sizeof(*c->placed));
    c->alive = calloc((size_t)c->steps + 1, sizeof(*c->alive));
    if (!c->piece || !c->placed || !c->alive)
        return pdl_error(PDL_ERR_NOMEM, "out of memory while placing %d buffers", count);
    for (int i = 0; i < count; i++)
        c->piece[i] = (piece_t){.buffer = &buffers[i], .bytes = align_up(buffers[i].bytes, alignment)};
    count_alive(c);
    return PDL_OK;
}

pdl_status_t pdl_colour_intervals(pdl_program_buffer_t *buffers, int count, size_t alignment, size_t *arena_bytes)
{
    colouring_t  c = {.best = SIZE_MAX};
    order_t      best = BY_SIZE;
    pdl_status_t status = prepare(&c, buffers, count, alignment);

    for (int order = 0; order < ORDER_COUNT && !status && c.best > c.bound; order++) {
        size_t before = c.best;
        attempt_order(&c, (order_t)order);
        if (c.best < before) best = (order_t)order;
    }
    for (int order = 0; order < ORDER_COUNT && !status && c.best > c.bound; order++)
        if (count < FEW || (count < MANY && order == (int)best)) improve(&c, (order_t)order);
    *arena_bytes = c.best;
    free(c.piece);
    free(c.placed);
    free(c.alive);
    return status;
}
