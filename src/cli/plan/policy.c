/*
 * The data policies that paradl plan was asked about.
 */
#include "cli/plan/policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_all(const char *text)
{
    return strcmp(text, "all") == 0;
}

pdl_status_t pdl__plan_policy_check(const char *text)
{
    pdl_data_policy_t policy;

    return is_all(text) ? PDL_OK : pdl_data_policy_parse(text, &policy);
}

static pdl_policy_question_t question_of(const pdl_candidate_t *c, const pdl_request_t *request, double rate)
{
    return (pdl_policy_question_t){.dataset = request->dataset,
                                   .pe = request->pe,
                                   .workers =
                                       c->config.context > 1 ? c->config.data / c->config.context : c->config.data,
                                   .batch = c->config.batch,
                                   .projection = &c->projection,
                                   .exchange_bytes_per_s = rate};
}

static pdl_status_t project(const pdl_oracle_t *oracle, pdl_policy_question_t *question,
                            const pdl_data_policy_t *policy, pdl_policy_row_t *row)
{
    row->policy = question->policy = *policy;
    return pdl_oracle_policy(oracle, question, &row->projection);
}

/* All policies for the best candidate. */
static pdl_status_t compare(pdl__plan_policy_t *p, const pdl_oracle_t *oracle, pdl_policy_question_t *question)
{
    pdl_data_policy_t list[PDL_POLICY_LIST_COUNT];
    pdl_status_t      status = PDL_OK;

    pdl_policy_list(list);
    p->report.count = PDL_POLICY_LIST_COUNT;
    p->report.compared = true;
    for (int i = 0; i < PDL_POLICY_LIST_COUNT && !status; i++)
        status = project(oracle, question, &list[i], &p->rows[i]);
    return status;
}

/* One policy for every candidate. Of those after the best, one that leaves less than a batch stays without a time. */
static pdl_status_t project_each(pdl__plan_policy_t *p, const pdl_data_policy_t *policy, double rate,
                                 const pdl_oracle_t *oracle, const pdl_request_t *request, pdl_search_t *search)
{
    p->report.count = search->possible;
    for (int i = 0; i < search->possible; i++) {
        pdl_policy_question_t question = question_of(&search->candidates[i], request, rate);
        pdl_status_t          status = project(oracle, &question, policy, &p->rows[i]);

        if (status && i == 0) return status;
        if (status) p->rows[i].projection.epoch_s = NAN;
        if (search->candidates[i].plan != NULL) search->candidates[i].plan->data_policy = *policy;
    }
    return PDL_OK;
}

pdl_status_t pdl__plan_policy_project(pdl__plan_policy_t *p, const char *text, double rate,
                                      const pdl_oracle_t *oracle, const pdl_request_t *request,
                                      pdl_search_t *search)
{
    pdl_policy_question_t question = question_of(&search->candidates[0], request, rate);
    pdl_data_policy_t     policy = pdl_data_policy_default();
    int          count = search->possible > PDL_POLICY_LIST_COUNT ? search->possible : PDL_POLICY_LIST_COUNT;
    pdl_status_t status;

    p->rows = calloc((size_t)count, sizeof(*p->rows));
    if (p->rows == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    p->report.rows = p->rows;
    p->report.base = &p->base;
    status = project(oracle, &question, &policy, &p->base);
    if (status) return status;
    if (is_all(text)) return compare(p, oracle, &question);
    status = pdl_data_policy_parse(text, &policy);
    return status ? status : project_each(p, &policy, rate, oracle, request, search);
}

/* Of a comparison, the fastest that fits is explained. */
void pdl__plan_policy_explain(pdl__plan_policy_t *p)
{
    const pdl_policy_row_t *best = NULL;

    for (int i = 0; i < (p->report.compared ? p->report.count : 1); i++) {
        const pdl_policy_row_t *row = &p->rows[i];

        if (p->report.compared && !row->projection.fits) continue;
        if (best == NULL || row->projection.epoch_s < best->projection.epoch_s) best = row;
    }
    if (best == NULL || p->report.count == 0) return;
    pdl_policy_explain(best, &p->base, p->explanation, sizeof(p->explanation));
    p->report.explanation = p->explanation;
}

void pdl__plan_policy_free(pdl__plan_policy_t *p)
{
    free(p->rows);
}
