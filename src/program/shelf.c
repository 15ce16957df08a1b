/*
 * Buffers that have been placed, in the order of their offsets. A question about one buffer concerns those that are alive
 * together with it, which are few where there are many in all. So there are lists for windows of time, of several lengths:
 * every buffer asks the shortest window that holds its life, and is put into all that it touches. A list is made of
 * blocks; what is known of all entries of a block often makes it needless to look at them.
 */
#include "program/shelf.h"
#include "program/builder.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64, MOST_LEVELS = 12 };

typedef struct entry {
    size_t begin, end;
    int    first, last;
} entry_t;

typedef struct block {
    int     count;
    int     first_low, first_high, last_low, last_high;
    size_t  end_high, gap; /* highest end; widest gap between entries, were all of them alive */
    bool    measured;      /* the gap is known */
    entry_t entry[BLOCK];
} block_t;

/* The list of one window. */
typedef struct window {
    int asked;      /* buffers that ask it; none: it is not kept */
    int capacity;   /* buffers that it gets in all, */
    int slot, used; /* its blocks are block[slot .. slot + used), in order */
} window_t;

/* Windows of a level are two of its strides long and begin at every stride, so that lives up to a stride are inside one. */
typedef struct level {
    int stride, windows, first; /* window `first` of all is its first */
} level_t;

struct pdl__shelf {
    const pdl_program_buffer_t *buffers;
    level_t                     level[MOST_LEVELS];
    int                         levels;
    window_t                   *window;
    int                         window_count;
    block_t                   **block; /* of all windows, by slots */
    block_t                    *pool;
    int                         pool_used;
};

/* A window that is much shorter than lives would put every buffer into many lists. */
static void choose_levels(pdl__shelf_t *s, int count, int steps)
{
    double life = 0;

    for (int i = 0; i < count; i++) life += s->buffers[i].last - s->buffers[i].first + 1;
    for (int stride = steps; s->levels < MOST_LEVELS; stride = (stride + 1) / 2) {
        if (s->levels > 0 && ((double)stride * count < life || (double)count * stride < (double)BLOCK * steps))
            break;
        s->level[s->levels++] = (level_t){stride, (steps + stride - 1) / stride, s->window_count};
        s->window_count += (steps + stride - 1) / stride;
    }
}

/* The window that a buffer asks. */
static window_t *home_of(const pdl__shelf_t *s, const pdl_program_buffer_t *buffer)
{
    int k = s->levels - 1;

    while (k > 0 && buffer->last - buffer->first > s->level[k].stride) k--;
    return &s->window[s->level[k].first + buffer->first / s->level[k].stride];
}

/* Windows of a level that the life of a buffer touches. */
static void touched(const level_t *level, const pdl_program_buffer_t *buffer, int *low, int *high)
{
    *low = buffer->first / level->stride;
    *low = *low > 0 ? *low - 1 : 0;
    *high = buffer->last / level->stride;
}

static void count_entries(pdl__shelf_t *s, int count)
{
    for (int i = 0; i < count; i++) home_of(s, &s->buffers[i])->asked++;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < s->levels; k++) {
            int low, high;
            touched(&s->level[k], &s->buffers[i], &low, &high);
            for (int w = low; w <= high; w++) s->window[s->level[k].first + w].capacity++;
        }
}

pdl_status_t pdl__shelf_create(const pdl_program_buffer_t *buffers, int count, int steps, pdl__shelf_t **out)
{
    pdl__shelf_t *s = calloc(1, sizeof(*s));
    int           slots = 0;

    *out = s;
    if (s == NULL) return pdl__program_no_memory();
    s->buffers = buffers;
    choose_levels(s, count, steps);
    s->window = calloc((size_t)s->window_count, sizeof(*s->window));
    if (s->window == NULL) return pdl__program_no_memory();
    count_entries(s, count);
    for (int w = 0; w < s->window_count; w++) {
        s->window[w].slot = slots;
        /* Blocks that were divided are at least half full. */
        if (s->window[w].asked > 0) slots += 2 * s->window[w].capacity / BLOCK + 1;
    }
    s->block = malloc((size_t)slots * sizeof(*s->block));
    s->pool = malloc((size_t)slots * sizeof(*s->pool));
    return s->block != NULL && s->pool != NULL ? PDL_OK : pdl__program_no_memory();
}

void pdl__shelf_clear(pdl__shelf_t *s)
{
    for (int w = 0; w < s->window_count; w++) s->window[w].used = 0;
    s->pool_used = 0;
}

/* A gap that is found, and how far addresses are taken up to here. */
typedef struct search {
    int    first, last;
    size_t bytes, end, best, best_gap;
} search_t;

static inline void meet(search_t *q, size_t begin, size_t end)
{
    if (begin >= q->end + q->bytes && begin - q->end < q->best_gap) {
        q->best_gap = begin - q->end;
        q->best = q->end;
    }
    q->end = end > q->end ? end : q->end;
}

/* What is not alive meanwhile takes up nothing. */
static void meet_entries(search_t *q, const block_t *b)
{
    for (int i = 0; i < b->count; i++) {
        const entry_t *e = &b->entry[i];
        size_t         beside = (size_t)0 - (size_t)((e->last >= q->first) & (e->first <= q->last));
        meet(q, e->begin & beside, e->end & beside);
    }
}

static size_t widest_gap(block_t *b)
{
    size_t end = b->entry[0].begin;

    if (b->measured) return b->gap;
    b->gap = 0;
    b->measured = true;
    for (int i = 0; i < b->count; i++) {
        const entry_t *e = &b->entry[i];
        if (e->begin > end && e->begin - end > b->gap) b->gap = e->begin - end;
        if (e->end > end) end = e->end;
    }
    return b->gap;
}

static size_t find_gap(const pdl__shelf_t *s, const window_t *w, search_t *q)
{
    for (int k = 0; k < w->used; k++) {
        block_t *b = s->block[w->slot + k];
        if (b->last_high < q->first || q->last < b->first_low || b->end_high <= q->end) continue;
        if (b->first_high <= q->last && b->last_low >= q->first && widest_gap(b) < q->bytes)
            meet(q, b->entry[0].begin, b->end_high);
        else
            meet_entries(q, b);
    }
    return q->best_gap == SIZE_MAX ? q->end : q->best;
}

static void note_life(block_t *b, const entry_t *e)
{
    if (e->first < b->first_low) b->first_low = e->first;
    if (e->first > b->first_high) b->first_high = e->first;
    if (e->last < b->last_low) b->last_low = e->last;
    if (e->last > b->last_high) b->last_high = e->last;
    if (e->end > b->end_high) b->end_high = e->end;
    b->measured = false;
}

static void note_lives(block_t *b)
{
    b->first_low = b->last_low = INT_MAX;
    b->first_high = b->last_high = -1;
    b->end_high = 0;
    for (int i = 0; i < b->count; i++) note_life(b, &b->entry[i]);
}

/* A new block at place k of a window. */
static block_t *add_block(pdl__shelf_t *s, window_t *w, int k)
{
    block_t **place = &s->block[w->slot + k];

    memmove(place + 1, place, (size_t)(w->used - k) * sizeof(*place));
    w->used++;
    *place = &s->pool[s->pool_used++];
    (*place)->count = 0;
    note_lives(*place);
    return *place;
}

/* The block into which an entry goes, with room for it. */
static block_t *find_block(pdl__shelf_t *s, window_t *w, size_t begin)
{
    int low = 0, high = w->used; /* the last block that begins at or below it, or the first */

    if (w->used == 0) return add_block(s, w, 0);
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (s->block[w->slot + middle]->entry[0].begin <= begin)
            low = middle;
        else
            high = middle;
    }
    block_t *b = s->block[w->slot + low];
    if (b->count < BLOCK) return b;
    block_t *half = add_block(s, w, low + 1);
    half->count = BLOCK / 2;
    b->count = BLOCK - half->count;
    memcpy(half->entry, b->entry + b->count, (size_t)half->count * sizeof(*half->entry));
    note_lives(half);
    note_lives(b);
    return half->entry[0].begin <= begin ? half : b;
}

static void insert(pdl__shelf_t *s, window_t *w, const entry_t *entry)
{
    block_t *b = find_block(s, w, entry->begin);
    int      at = b->count;

    while (at > 0 && b->entry[at - 1].begin > entry->begin) at--;
    memmove(b->entry + at + 1, b->entry + at, (size_t)(b->count - at) * sizeof(*b->entry));
    b->entry[at] = *entry;
    b->count++;
    note_life(b, entry);
}

size_t pdl__shelf_put(pdl__shelf_t *s, int buffer, size_t bytes)
{
    const pdl_program_buffer_t *life = &s->buffers[buffer];
    search_t q = {.first = life->first, .last = life->last, .bytes = bytes, .best_gap = SIZE_MAX};
    size_t   begin = find_gap(s, home_of(s, life), &q);
    entry_t  entry = {begin, begin + bytes, life->first, life->last};

    for (int k = 0; k < s->levels; k++) {
        int low, high;
        touched(&s->level[k], life, &low, &high);
        for (int i = low; i <= high; i++) {
            window_t *w = &s->window[s->level[k].first + i];
            if (w->asked > 0) insert(s, w, &entry);
        }
    }
    return begin;
}

void pdl__shelf_destroy(pdl__shelf_t *s)
{
    if (s == NULL) return;
    free(s->window);
    free(s->block);
    free(s->pool);
    free(s);
}
