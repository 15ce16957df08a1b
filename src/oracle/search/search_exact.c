/*
 * The best of an exact search beside the candidates of the strategies: the closed form has chosen them, replaying them decides.
 */
#include "oracle/search/searcher.h"
#include <paradl/oracle/exact.h>

static pdl_candidate_t *candidate_of(const pdl_search_t *search, const pdl_strategy_t *strategy)
{
    for (int i = 0; i < search->count; i++)
        if (search->candidates[i].config.strategy == strategy && search->candidates[i].same_as == NULL)
            return &search->candidates[i];
    return NULL;
}

/* The candidate as configurations are compared, before schedules of collectives are settled. */
static pdl_status_t reopen(pdl__searcher_t *s, pdl_candidate_t *candidate)
{
    if (!candidate->possible) return PDL_OK;
    pdl_status_t status =
        pdl__evaluate_replayed(s->oracle, &candidate->config, s->request->dataset, &candidate->projection);
    if (!status) pdl__score_candidate(s, candidate);
    return status;
}

static pdl_status_t improve(pdl__searcher_t *s, const pdl_config_t *config, pdl_candidate_t *candidate)
{
    pdl_candidate_t trial = *candidate;
    pdl_status_t    status = reopen(s, &trial);
    double          before = trial.score;

    if (status) return status;
    s->best = &trial;
    s->status = PDL_OK;
    pdl__replay_config(s, config);
    if (s->status || !trial.possible || (candidate->possible && trial.score == before)) return s->status;
    trial.plan = NULL;
    trial.reason[0] = '\0';
    status = pdl__finish_candidate(s);
    /* The whole plan is timed more exactly, and decides. */
    bool better = !status && (!candidate->possible || trial.score < candidate->score);
    pdl_plan_destroy(better ? candidate->plan : trial.plan);
    if (better) *candidate = trial;
    return status;
}

/* The second half of what is shown as progress. */
static bool stop_later(void *context, double share)
{
    pdl__searcher_t           *s = context;
    const pdl_exact_options_t *asked = s->request->exact;

    s->patience->share = 0.5 + share / 2;
    if (asked->stop(asked->context, s->patience->share)) atomic_store(&s->patience->stopped, true);
    return atomic_load(&s->patience->stopped);
}

pdl_status_t pdl__search_exactly(pdl__searcher_t *s, pdl_search_t *search)
{
    const pdl_strategy_t *asked = s->request->strategy;
    pdl_exact_options_t   options = *s->request->exact;
    pdl_status_t          status = PDL_OK;

    /* Elsewhere the trainer's own memory decides, or every layer for itself. */
    if (s->oracle->system->backend != NULL || (asked != NULL && asked->per_layer)) return PDL_OK;
    if (options.stop != NULL) {
        options.stop = stop_later;
        options.context = s;
    }
    status = pdl_exact_search(s->oracle, s->request, &options, &search->exact);
    for (int i = 0; !status && i < search->exact->count; i++) {
        const pdl_config_t *config = &search->exact->best[i].config;
        pdl_candidate_t    *candidate = candidate_of(search, config->strategy);
        /* What the rules find too large may fit with state on the host. */
        if (candidate != NULL) status = improve(s, config, candidate);
    }
    return status;
}
