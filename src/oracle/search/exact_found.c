/*
 * The best configurations of an exact search, and its Pareto front.
 */
#include "base/memory.h"
#include "oracle/search/exact_walk.h"
#include <stdlib.h>
#include <string.h>

pdl_status_t pdl__exact_begin(pdl__exact_walk_t *walk)
{
    walk->best = calloc((size_t)walk->top + 1, sizeof(*walk->best));
    return walk->best != NULL ? PDL_OK : pdl__no_memory("for the best of a search");
}

void pdl__exact_end(pdl__exact_walk_t *walk)
{
    free(walk->best);
    free(walk->front);
    walk->best = walk->front = NULL;
}

static bool before(const pdl__exact_entry_t *a, const pdl__exact_entry_t *b)
{
    if (a->score != b->score) return a->score < b->score;
    return a->node != b->node ? a->node < b->node : a->leaf < b->leaf;
}

bool pdl__exact_is_better(const pdl__exact_walk_t *walk, const pdl__exact_entry_t *found)
{
    return walk->count < walk->top || before(found, &walk->best[walk->top - 1]);
}

void pdl__exact_keep(pdl__exact_walk_t *walk, const pdl__exact_entry_t *found)
{
    int at = walk->count;

    while (at > 0 && before(found, &walk->best[at - 1])) at--;
    if (at == walk->top) return;
    /* There is room for one more than is wanted. */
    memmove(walk->best + at + 1, walk->best + at, (size_t)(walk->count - at) * sizeof(*found));
    walk->best[at] = *found;
    if (walk->count < walk->top) walk->count++;
}

/* At least as good in all; of equal ones the earlier. */
static bool covers(const pdl__exact_entry_t *a, const pdl__exact_entry_t *b)
{
    if (a->total_s > b->total_s || a->memory_bytes > b->memory_bytes || a->energy_j > b->energy_j) return false;
    if (a->total_s < b->total_s || a->memory_bytes < b->memory_bytes || a->energy_j < b->energy_j) return true;
    return a->node != b->node ? a->node < b->node : a->leaf < b->leaf;
}

/* Who was in the way last is likely to be again: it comes first. */
static void move_to_front(pdl__exact_walk_t *walk, int at)
{
    pdl__exact_entry_t first = walk->front[at];

    walk->front[at] = walk->front[0];
    walk->front[0] = first;
}

bool pdl__exact_is_in_front(pdl__exact_walk_t *walk, const pdl__exact_entry_t *found)
{
    for (int i = 0; i < walk->front_count; i++)
        if (covers(&walk->front[i], found)) {
            if (i > 0) move_to_front(walk, i);
            return false;
        }
    return true;
}

pdl_status_t pdl__exact_offer(pdl__exact_walk_t *walk, const pdl__exact_entry_t *found)
{
    int left = 0;

    if (!pdl__exact_is_in_front(walk, found)) return PDL_OK;
    for (int i = 0; i < walk->front_count; i++)
        if (!covers(found, &walk->front[i])) walk->front[left++] = walk->front[i];
    walk->front_count = left;
    if (left == walk->front_capacity) {
        int                 capacity = 2 * left + 32;
        pdl__exact_entry_t *grown = realloc(walk->front, (size_t)capacity * sizeof(*grown));
        if (grown == NULL) return pdl__no_memory("for the front of a search");
        walk->front = grown;
        walk->front_capacity = capacity;
    }
    walk->front[walk->front_count++] = *found;
    return PDL_OK;
}

static int by_time(const void *a, const void *b)
{
    const pdl__exact_entry_t *x = a, *y = b;

    if (x->total_s != y->total_s) return x->total_s < y->total_s ? -1 : 1;
    return before(x, y) ? -1 : before(y, x);
}

/* With all of its projection, of which the search has looked at a few numbers only. */
static pdl_status_t complete(const pdl__exact_walk_t *walk, const pdl__exact_entry_t *found, int count,
                             pdl_exact_point_t **points, int *completed)
{
    pdl_status_t status = PDL_OK;

    *points = calloc((size_t)count + 1, sizeof(**points));
    if (*points == NULL) return pdl__no_memory("for the answer of a search");
    for (int i = 0; i < count && !status; i++) {
        pdl_exact_point_t *point = &(*points)[i];
        point->config = found[i].config;
        point->score = found[i].score;
        status = pdl_oracle_evaluate(walk->oracle, &point->config, walk->request->dataset, &point->projection);
    }
    *completed = count;
    return status;
}

pdl_status_t pdl__exact_take(const pdl__exact_walk_t *walk, pdl_exact_t *exact)
{
    pdl_status_t status = complete(walk, walk->best, walk->count, &exact->best, &exact->count);

    if (walk->front_count > 1) qsort(walk->front, (size_t)walk->front_count, sizeof(*walk->front), by_time);
    if (!status) status = complete(walk, walk->front, walk->front_count, &exact->front, &exact->front_count);
    return status;
}
