/*
 * The order of candidates. Differences that a projection cannot tell apart are ties, and of those that tie the simplest
 * comes first.
 */
#include "oracle/search/searcher.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool pdl_candidates_tie(const pdl_candidate_t *a, const pdl_candidate_t *b)
{
    return fmax(a->score, b->score) <= fmin(a->score, b->score) * (1 + PDL_TIE);
}

static int axes_of(const pdl_candidate_t *c)
{
    return (c->config.pipeline > 1) + (c->config.data > 1) + (c->config.spatial > 1) + (c->config.tensor > 1);
}

static int by_place(const pdl_candidate_t *a, const pdl_candidate_t *b)
{
    return pdl_strategy_place(a->config.strategy) - pdl_strategy_place(b->config.strategy);
}

static int by_score(const void *a, const void *b)
{
    const pdl_candidate_t *x = a, *y = b;

    if (x->possible != y->possible) return y->possible - x->possible;
    if (!x->possible) return by_place(x, y);
    return (x->score > y->score) - (x->score < y->score);
}

static int by_simplicity(const void *a, const void *b)
{
    const pdl_candidate_t *x = a, *y = b;

    if (axes_of(x) != axes_of(y)) return axes_of(x) - axes_of(y);
    return by_place(x, y);
}

void pdl_search_rank(pdl_search_t *search)
{
    pdl_candidate_t *c = search->candidates;

    search->possible = 0;
    for (int i = 0; i < search->count; i++) search->possible += c[i].possible;
    qsort(c, (size_t)search->count, sizeof(*c), by_score);
    for (int i = 0, end; i < search->possible; i = end) {
        for (end = i + 1; end < search->possible && pdl_candidates_tie(&c[i], &c[end]);) end++;
        qsort(c + i, (size_t)(end - i), sizeof(*c), by_simplicity);
    }
}
