/*
 * Exact searches of parts of a space as one of all of it.
 */
#include "base/memory.h"
#include "oracle/search/searcher.h"
#include <stdlib.h>

/* Both lists in one, of which what is taken belongs to the caller. */
static pdl_exact_point_t *append(const pdl_exact_point_t *a, int count, const pdl_exact_point_t *b, int more)
{
    pdl_exact_point_t *all = calloc((size_t)(count + more) + 1, sizeof(*all));

    for (int i = 0; all != NULL && i < count + more; i++) all[i] = i < count ? a[i] : b[i - count];
    return all;
}

/* Sorted by insertion, so that equal ones stay in the order of the parts. */
static void sort(pdl_exact_point_t *point, int count, bool by_time)
{
    for (int i = 1; i < count; i++) {
        pdl_exact_point_t moved = point[i];
        int               k = i;
        for (; k > 0 && (by_time ? point[k - 1].projection.total_s > moved.projection.total_s
                                 : point[k - 1].score > moved.score);
             k--)
            point[k] = point[k - 1];
        point[k] = moved;
    }
}

static bool covers(const pdl_projection_t *a, const pdl_projection_t *b, bool earlier)
{
    if (a->total_s > b->total_s || a->memory_bytes > b->memory_bytes || a->energy_j > b->energy_j) return false;
    return earlier || a->total_s < b->total_s || a->memory_bytes < b->memory_bytes || a->energy_j < b->energy_j;
}

/* Nothing that is left has another that is as good in all. */
static int leave_front(pdl_exact_point_t *point, int count)
{
    int left = 0;

    for (int i = 0; i < count; i++) {
        bool covered = false;
        for (int k = 0; k < left && !covered; k++)
            covered = covers(&point[k].projection, &point[i].projection, true);
        for (int k = i + 1; k < count && !covered; k++)
            covered = covers(&point[k].projection, &point[i].projection, false);
        if (!covered) point[left++] = point[i];
    }
    return left;
}

pdl_status_t pdl__exact_join(pdl_exact_t *exact, pdl_exact_t *other, int top)
{
    int                count = exact->count + other->count, front = exact->front_count + other->front_count;
    pdl_exact_point_t *best = append(exact->best, exact->count, other->best, other->count);
    pdl_exact_point_t *points = append(exact->front, exact->front_count, other->front, other->front_count);

    if (best == NULL || points == NULL) {
        free(best);
        free(points);
        pdl_exact_destroy(other);
        return pdl__no_memory("for the answer of a search");
    }
    sort(best, count, false);
    sort(points, front, true);
    free(exact->best);
    free(exact->front);
    exact->best = best;
    exact->count = top > 0 && count > top ? top : count;
    exact->front = points;
    exact->front_count = leave_front(points, front);
    exact->configurations += other->configurations;
    exact->evaluated += other->evaluated;
    exact->too_large += other->too_large;
    exact->impossible += other->impossible;
    for (int b = 0; b < PDL_BOUND_COUNT; b++) exact->removed[b] += other->removed[b];
    exact->broken += other->broken;
    exact->certified = exact->certified && other->certified;
    exact->seconds += other->seconds;
    pdl_exact_destroy(other);
    return PDL_OK;
}
