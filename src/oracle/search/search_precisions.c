/*
 * Several precisions as choices of the search: each is searched as if it were the only one, so that its best is known whether it
 * wins or not; then of every strategy the precision that is best stands. Of those that tie the one that was named first does: a
 * precision changes what is computed, so another has to be worth it.
 */
#include "base/memory.h"
#include "oracle/search/searcher.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct round {
    const pdl_exact_options_t *asked;
    int                        precision, precisions; /* that are searched one after the other */
} round_t;

typedef struct answers {
    pdl_search_t **of; /* every precision of the request; NULL: the device has it not, or the search was ended */
    char (*why)[224];  /* the device has it not */
    int count;
} answers_t;

/* The part of the whole that a precision is. */
static bool stop_round(void *context, double share)
{
    const round_t *r = context;

    return r->asked->stop(r->asked->context, (r->precision + share) / r->precisions);
}

/* One after the other, until the user has enough. */
static pdl_status_t search_each(pdl_oracle_t *oracle, const pdl_request_t *request, answers_t *answers)
{
    pdl_request_t       alone = *request;
    pdl_exact_options_t exact;
    round_t             r = {.asked = request->exact, .precisions = request->precision_count};
    pdl_status_t        status = PDL_OK;
    bool                any = false, stopped = false;

    alone.precision_count = 0;
    if (request->exact != NULL) {
        exact = *request->exact;
        if (exact.stop != NULL) exact.stop = stop_round;
        exact.context = &r;
        alone.exact = &exact;
    }
    for (int k = 0; k < answers->count && !status; k++) {
        r.precision = k;
        alone.precision = request->precisions[k];
        if (pdl_system_check_precision(oracle->system, alone.precision)) {
            snprintf(answers->why[k], sizeof(answers->why[k]), "%s", pdl_error_message());
            continue;
        }
        any = true;
        if (stopped) continue;
        status = pdl__search_precision(oracle, &alone, &answers->of[k]);
        stopped = !status && answers->of[k]->stopped;
    }
    /* The message about the last one says what the device has. */
    return status || any ? status : PDL_ERR_INPUT;
}

static pdl_candidate_t *candidate_of(const pdl_search_t *search, const pdl_strategy_t *strategy, int only)
{
    if (only >= 0) return &search->candidates[only];
    for (int i = 0; i < search->count; i++)
        if (search->candidates[i].config.strategy == strategy) return &search->candidates[i];
    return NULL;
}

/* What ranks a candidate beside that of another precision: one that is the same as a named strategy has its score, and what is not
   possible comes by how far it is from fitting. */
static double score_of(const pdl_search_t *search, const pdl_candidate_t *c)
{
    for (int i = 0; c->same_as != NULL && i < search->count; i++)
        if (search->candidates[i].config.strategy == c->same_as) c = &search->candidates[i];
    return c->possible ? c->score : INFINITY;
}

static double need_of(const pdl_candidate_t *c)
{
    return c->projection.memory_bytes > 0 ? c->projection.memory_bytes : INFINITY;
}

/* The first of those that are best but for a tie. */
static pdl_candidate_t *choose(const answers_t *answers, const pdl_strategy_t *strategy, int only)
{
    pdl_candidate_t *chosen = NULL;
    double           least = INFINITY, need = INFINITY;

    for (int k = 0; k < answers->count; k++) {
        pdl_candidate_t *c = answers->of[k] != NULL ? candidate_of(answers->of[k], strategy, only) : NULL;
        if (c == NULL) continue;
        least = fmin(least, score_of(answers->of[k], c));
        need = fmin(need, need_of(c));
    }
    for (int k = 0; k < answers->count && chosen == NULL; k++) {
        pdl_candidate_t *c = answers->of[k] != NULL ? candidate_of(answers->of[k], strategy, only) : NULL;
        if (c == NULL) continue;
        bool best = isfinite(least) ? score_of(answers->of[k], c) <= least * (1 + PDL_TIE) : need_of(c) <= need;
        if (best) chosen = c;
    }
    return chosen;
}

/* Plans change hands. */
static void choose_candidates(const answers_t *answers, const pdl_search_t *first, pdl_search_t *search)
{
    for (int i = 0; i < first->count; i++) {
        pdl_candidate_t *chosen = choose(answers, first->candidates[i].config.strategy, first->count == 1 ? 0 : -1);
        search->candidates[search->count++] = *chosen;
    }
    for (int i = 0; i < search->count; i++)
        for (int k = 0; k < answers->count; k++)
            for (int j = 0; answers->of[k] != NULL && j < answers->of[k]->count; j++)
                if (answers->of[k]->candidates[j].plan == search->candidates[i].plan)
                    answers->of[k]->candidates[j].plan = NULL;
    pdl_search_rank(search);
}

/* The best of a precision; where nothing is possible the nearest. */
static const pdl_candidate_t *best_of(const pdl_search_t *search)
{
    const pdl_candidate_t *nearest = &search->candidates[0];

    for (int i = 1; i < search->count && search->possible == 0; i++)
        if (need_of(&search->candidates[i]) < need_of(nearest)) nearest = &search->candidates[i];
    return nearest;
}

static int by_answer(const void *a, const void *b)
{
    const pdl_precision_answer_t *x = a, *y = b;

    if (x->best.possible != y->best.possible) return y->best.possible - x->best.possible;
    if (x->computed != y->computed) return y->computed - x->computed;
    if (x->best.possible && x->best.score != y->best.score) return x->best.score < y->best.score ? -1 : 1;
    return (int)x->precision - (int)y->precision;
}

/* The one that was chosen stands first, as it was chosen. */
static void list_precisions(const pdl_request_t *request, const answers_t *answers, pdl_search_t *search)
{
    const pdl_candidate_t *winner = search->possible > 0 ? &search->candidates[0] : NULL;

    for (int k = 0; k < answers->count; k++) {
        pdl_precision_answer_t *a = &search->precisions[search->precision_count];
        const pdl_search_t     *found = answers->of[k];

        *a = (pdl_precision_answer_t){.precision = request->precisions[k], .computed = found != NULL};
        if (found != NULL) {
            a->best = *best_of(found);
            a->configurations = found->configurations + (found->exact != NULL ? found->exact->configurations : 0);
            a->certified = found->certified;
        } else if (answers->why[k][0] != '\0') {
            snprintf(a->best.reason, sizeof(a->best.reason), "%s", answers->why[k]);
        } else {
            continue; /* not looked at */
        }
        if (winner != NULL && winner->config.precision == a->precision) a->best = *winner;
        a->best.plan = NULL;
        search->precision_count++;
    }
    qsort(search->precisions, (size_t)search->precision_count, sizeof(*search->precisions), by_answer);
    for (int k = 1; k < search->precision_count && winner != NULL; k++) {
        pdl_precision_answer_t a = search->precisions[k];
        if (a.precision != winner->config.precision) continue;
        memmove(search->precisions + 1, search->precisions, (size_t)k * sizeof(a));
        search->precisions[0] = a;
    }
}

/* Counts of all, and what keeps any of them from being certified. */
static pdl_status_t add_up(const pdl_request_t *request, const answers_t *answers, pdl_search_t *search)
{
    pdl_status_t status = PDL_OK;

    search->certified = true;
    for (int k = 0; k < answers->count && !status; k++) {
        pdl_search_t *found = answers->of[k];

        if (found == NULL && answers->why[k][0] != '\0') continue;
        if (found == NULL) {
            search->certified = false;
            continue;
        }
        search->configurations += found->configurations;
        search->seconds += found->seconds;
        search->not_replayed += found->not_replayed;
        search->stopped = search->stopped || found->stopped;
        search->certified = search->certified && found->certified;
        if (search->not_certified[0] == '\0')
            memcpy(search->not_certified, found->not_certified, sizeof(found->not_certified));
        if (found->exact == NULL) continue;
        if (search->exact == NULL)
            search->exact = found->exact;
        else
            status = pdl__exact_join(search->exact, found->exact, request->exact->top);
        found->exact = NULL;
    }
    return status;
}

static pdl_status_t join(const pdl_request_t *request, const answers_t *answers, pdl_search_t *search)
{
    const pdl_search_t *first = NULL;

    for (int k = answers->count - 1; k >= 0; k--)
        if (answers->of[k] != NULL) first = answers->of[k];
    search->candidates = calloc((size_t)first->count + 1, sizeof(*search->candidates));
    search->precisions = calloc((size_t)answers->count, sizeof(*search->precisions));
    if (search->candidates == NULL || search->precisions == NULL) return pdl__no_memory("for a search");
    search->batch = first->batch;
    memcpy(search->batch_reason, first->batch_reason, sizeof(first->batch_reason));
    choose_candidates(answers, first, search);
    list_precisions(request, answers, search);
    return add_up(request, answers, search);
}

pdl_status_t pdl__search_precisions(pdl_oracle_t *oracle, const pdl_request_t *request, pdl_search_t **out)
{
    int           count = request->precision_count;
    answers_t     answers = {.of = calloc((size_t)count, sizeof(*answers.of)),
                             .why = calloc((size_t)count, sizeof(*answers.why)),
                             .count = count};
    pdl_search_t *search = calloc(1, sizeof(*search));
    pdl_status_t  status = PDL_OK;

    if (answers.of == NULL || answers.why == NULL || search == NULL) status = pdl__no_memory("for a search");
    if (!status) status = search_each(oracle, request, &answers);
    if (!status) status = join(request, &answers, search);
    for (int k = 0; answers.of != NULL && k < count; k++) pdl_search_destroy(answers.of[k]);
    free(answers.of);
    free(answers.why);
    if (status)
        pdl_search_destroy(search);
    else
        *out = search;
    return status;
}
