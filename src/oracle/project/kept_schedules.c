#include "oracle/project/kept_schedules.h"

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
    question_t      question;
    bool            used, serves;
    pdl_algorithm_t algorithm;
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
    *found = (kept_t){.question = *q, .used = true};
    found->serves = pdl_plan_try_schedule(&q->named, use) == PDL_OK;
    if (!found->serves) return PDL_OK;
    return pdl__algorithm(oracle->system, &oracle->p, &q->query, &q->named, 1u << q->collective, &found->algorithm);
}

pdl_status_t pdl__schedule_of(pdl_oracle_t *oracle, const pdl_group_query_t *query, const pdl_plan_use_t *use,
                              const pdl_plan_collective_t *named, bool *serves, pdl_algorithm_t *algorithm)
{
    question_t   q = {*query, use->collective, use->gradient, *named};
    kept_t       found, *place = &found;
    pdl_status_t status = PDL_OK;

    if (oracle->schedules == NULL) oracle->schedules = calloc(1, sizeof(*oracle->schedules));
    /* Without memory nothing is kept. */
    if (oracle->schedules != NULL) place = &oracle->schedules->kept[key_of(&q) % KEPT];
    if (place == &found || !place->used || !same(&place->question, &q)) status = answer(oracle, &q, use, place);
    if (status) place->used = false;
    *serves = place->serves;
    *algorithm = place->algorithm;
    algorithm->named = named;
    return status;
}

void pdl__kept_schedules_free(pdl__kept_schedules_t *kept)
{
    free(kept);
}
