#include "oracle/cost/kept_schedules.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT = 1024 };

/* All that the answer depends on besides the parameters and the system of the oracle. */
typedef struct question {
    pdl_group_query_t     query;
    pdl_collective_t      collective;
    bool                  gradient;
    pdl_plan_collective_t named;
} question_t;

typedef struct kept {
    question_t          question;
    bool                used, serves;
    pdl_schedule_cost_t cost;
} kept_t;

struct pdl__kept_schedules {
    kept_t kept[KEPT]; /* each in the place of its key */
};

static uint64_t key_of(const question_t *q)
{
    uint64_t key = pdl__mix(UINT64_C(0xcbf29ce484222325), (uint64_t)q->query.pe_count);

    key = pdl__mix(pdl__mix(key, (uint64_t)q->query.size), (uint64_t)q->query.stride);
    key = pdl__mix(pdl__mix(key, (uint64_t)q->collective), (uint64_t)q->named.ranks_per_node);
    return pdl__mix_text(key, q->named.algorithm);
}

static bool same(const question_t *a, const question_t *b)
{
    return a->query.pe_count == b->query.pe_count && a->query.size == b->query.size &&
           a->query.stride == b->query.stride && a->collective == b->collective && a->gradient == b->gradient &&
           a->named.ranks_per_node == b->named.ranks_per_node && a->named.density == b->named.density &&
           strcmp(a->named.algorithm, b->named.algorithm) == 0;
}

static pdl_status_t answer(pdl_oracle_t *oracle, const question_t *q, const pdl_plan_use_t *use, kept_t *found)
{
    pdl_status_t status = pdl_plan_try_schedule(&q->named, use);

    *found = (kept_t){.question = *q, .serves = status == PDL_OK};
    if (found->serves && pdl__algorithm(oracle->system, &q->named).form == PDL_FORM_COUNTED)
        status =
            pdl__count_collective(oracle->system, &oracle->p, &q->query, &q->named, q->collective, &found->cost);
    else if (status != PDL_ERR_NOMEM)
        status = PDL_OK;
    found->used = status == PDL_OK;
    return status;
}

pdl_status_t pdl__schedule_of(pdl_oracle_t *oracle, const pdl_group_query_t *query, const pdl_plan_use_t *use,
                              const pdl_plan_collective_t *named, bool *serves, pdl_algorithm_t *algorithm)
{
    bool         sparse = named->density > 0; /* which only gradients may be */
    question_t   q = {*query, use->collective, sparse && use->gradient, *named};
    kept_t       found, *place = &found;
    pdl_status_t status = PDL_OK;

    if (oracle->schedules == NULL) oracle->schedules = calloc(1, sizeof(*oracle->schedules));
    /* Without memory nothing is kept. */
    if (oracle->schedules != NULL) place = &oracle->schedules->kept[key_of(&q) % KEPT];
    if (place == &found || !place->used || !same(&place->question, &q)) status = answer(oracle, &q, use, place);
    *serves = place->serves;
    *algorithm = pdl__algorithm(oracle->system, named);
    algorithm->cost[use->collective] = place->cost;
    return status;
}

pdl_status_t pdl__schedules_of(pdl_oracle_t *oracle, const pdl_group_query_t *query,
                               const pdl_plan_collective_t *named, pdl_algorithm_t *algorithm)
{
    pdl_status_t status = PDL_OK;

    *algorithm = pdl__algorithm(oracle->system, named);
    if (algorithm->form != PDL_FORM_COUNTED) return PDL_OK;
    for (pdl_collective_t c = PDL_COLL_ALLREDUCE; c <= PDL_COLL_ALLGATHER && !status; c++) {
        pdl_plan_use_t  use = {.collective = c, .gradient = true, .ranks = query->size};
        pdl_algorithm_t one;
        bool            serves;

        status = pdl__schedule_of(oracle, query, &use, named, &serves, &one);
        /* What the plan does not have need not exist, and costs 0; what it has, pdl_plan_check() has seen. */
        if (!status) algorithm->cost[c] = one.cost[c];
    }
    return status;
}

void pdl__kept_schedules_free(pdl__kept_schedules_t *kept)
{
    free(kept);
}
