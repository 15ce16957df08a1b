/*
 * What decides between configurations of a strategy: their score by the closed form, what replaying them can give at the least, and the
 * replay of those that may win.
 */
#include "base/clock.h"
#include "oracle/search/searcher.h"
#include <math.h>
#include <paradl/oracle/exact.h>
#include <stdio.h>

/* Of one strategy, besides its likeliest configuration, where nobody asks for a certificate. */
enum { MOST_PASSES = 400000, MOST_REPLAYS = 16 };

/* By how much a configuration must look better than the latest that was replayed to be replayed before the others are known. */
#define NOTABLY 0.9

#define ASK_S 0.1 /* between two questions whether to stop */

bool pdl__search_stopped(const pdl__searcher_t *s)
{
    pdl__patience_t           *patience = s->patience;
    const pdl_exact_options_t *asked = s->request->exact;

    if (patience == NULL || asked == NULL || asked->stop == NULL) return false;
    if (!s->asks || atomic_load(&patience->stopped)) return atomic_load(&patience->stopped);
    double now = pdl__seconds();
    if (now - patience->asked_s < ASK_S) return false;
    patience->asked_s = now;
    if (asked->stop(asked->context, patience->share)) atomic_store(&patience->stopped, true);
    return atomic_load(&patience->stopped);
}

double pdl__devices_of(const pdl_system_t *system, const pdl_request_t *request, const pdl_config_t *config)
{
    double price = system->part_count > 0 ? pdl_system_price(system, config->part_order, request->pe) : 0;

    return (double)request->pe * (price > 0 ? price : 1);
}

double pdl__goal_score(const pdl_request_t *request, const pdl_config_t *config, double devices, double seconds,
                       double memory, double energy)
{
    const pdl_dataset_t *data = request->dataset;
    double               batch = (double)config->batch;
    bool                 epochs = data && data->samples > 0;
    double               time = seconds * ((epochs ? (double)data->samples : 1) / batch);

    switch (request->goal) {
    case PDL_GOAL_MEMORY: return memory;
    case PDL_GOAL_COST: return epochs ? devices * ceil(time / 60) : devices * time;
    case PDL_GOAL_ENERGY: return energy / batch;
    default: return time;
    }
}

static double score_of(const pdl__searcher_t *s, const pdl_config_t *config, double seconds, double memory,
                       double energy)
{
    return pdl__goal_score(s->request, config, pdl__devices_of(s->oracle->system, s->request, config), seconds,
                           memory, energy);
}

void pdl__score_candidate(const pdl__searcher_t *s, pdl_candidate_t *c)
{
    const pdl_dataset_t    *data = s->request->dataset;
    const pdl_projection_t *p = &c->projection;

    c->sample_s = p->total_s / (double)c->config.batch;
    c->epoch_s = data && data->samples > 0 ? (double)data->samples * c->sample_s : 0;
    c->score = score_of(s, &c->config, p->total_s, p->memory_bytes, p->energy_j);
}

double pdl__least_score(const pdl__searcher_t *s, const pdl_config_t *config, double seconds)
{
    return score_of(s, config, seconds, 0, 0);
}

/* The same where the closed form is known: memory is, and computation, which takes more power than waiting. */
static double least_of(const pdl__searcher_t *s, const pdl_candidate_t *trial, double seconds)
{
    const pdl_projection_t *p = &trial->projection;
    double                  idle_s = fmax(0, seconds - p->compute_s);
    double                  energy_j =
        pdl__energy(s->oracle->system, trial->config.part_order, s->request->pe, p->compute_s, idle_s);

    return score_of(s, &trial->config, seconds, p->memory_bytes, energy_j);
}

static int weight_of(const pdl_candidate_t *c)
{
    return (int)c->config.sharding + (int)c->config.recompute + (c->config.schedule == PDL_SCHEDULE_ZERO_BUBBLE);
}

static bool better_than(const pdl_candidate_t *trial, const pdl_candidate_t *best)
{
    return !best->possible ||
           trial->score < best->score * (weight_of(trial) > weight_of(best) ? PDL__HEAVIER : 1.0);
}

static bool is_refusal(pdl_status_t status)
{
    return status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT;
}

static void keep(pdl_candidate_t *target, const pdl_candidate_t *trial)
{
    target->possible = trial->projection.fits;
    target->config = trial->config;
    target->projection = trial->projection;
    target->epoch_s = trial->epoch_s;
    target->sample_s = trial->sample_s;
    target->score = trial->score;
}

static int64_t passes_of(const pdl_config_t *config)
{
    return 2 * config->pipeline * config->virtual_stages * config->micro_batches;
}

/* Configurations are ranked by what they take when they are replayed. */
void pdl__replay_config(pdl__searcher_t *s, const pdl_config_t *config)
{
    pdl_candidate_t trial = {.config = *config};
    pdl_status_t    status = pdl__evaluate_replayed(s->oracle, config, s->request->dataset, &trial.projection);

    s->replays++;
    s->passes += passes_of(config);
    if (status) {
        s->status = status;
        return;
    }
    pdl__score_candidate(s, &trial);
    if (better_than(&trial, s->best)) keep(s->best, &trial);
}

double pdl__least_seconds(const pdl__searcher_t *s, const pdl_config_t *config)
{
    /* Where a step takes longer, its time alone makes it worse than the best. */
    double enough_s = s->best->possible && s->request->goal == PDL_GOAL_TIME
                          ? s->best->score / pdl__least_score(s, config, 1) * (1 + 1e-9)
                          : 0;
    double seconds;

    return pdl__replay_bound(s->oracle, config, enough_s, &seconds) ? 0 : seconds;
}

bool pdl__is_beaten(const pdl__searcher_t *s, const pdl_config_t *config, double seconds)
{
    return s->best->possible && pdl__least_score(s, config, seconds) >= s->best->score;
}

/* What fits is replayed at once if the formulas say that it is notably better than what was, so that there is something to
   beat; if its bound leaves it a chance, its turn comes later. */
static void shortlist(pdl__searcher_t *s, const pdl_candidate_t *trial, double least)
{
    pdl__short_t entry = {.config = trial->config, .likely = trial->score, .least = least};

    if (entry.likely < NOTABLY * s->likely) {
        s->likely = entry.likely;
        pdl__replay_config(s, &trial->config);
        return;
    }
    pdl_status_t status = pdl__shortlist_add(&s->shortlist, &entry);
    if (status) s->status = status;
}

/* Where a certificate is asked for, all that may win are replayed. */
static bool has_to_do(const pdl__searcher_t *s, const pdl_config_t *config)
{
    if (s->request->exact != NULL) return pdl__search_stopped(s);
    return s->replays >= MOST_REPLAYS || s->passes + passes_of(config) > MOST_PASSES;
}

void pdl__replay_shortlist(pdl__searcher_t *s)
{
    pdl__shortlist_sort(&s->shortlist);
    for (int i = 0; i < s->shortlist.count && !s->status; i++) {
        const pdl__short_t *entry = &s->shortlist.entries[i];

        if (s->best->possible && entry->least >= s->best->score) continue;
        if (i > 0 && has_to_do(s, &entry->config))
            s->not_replayed++;
        else
            pdl__replay_config(s, &entry->config);
    }
    s->shortlist.count = 0;
}

/* The least seconds of this sharding, given those of all. */
static double with_gathers(const pdl__searcher_t *s, const pdl_config_t *config, double least_s)
{
    double seconds;

    if (least_s <= 0 || config->sharding != PDL_SHARDING_ZERO3 || pdl__gather_bound(s->oracle, config, &seconds))
        return least_s;
    return fmax(least_s, seconds);
}

bool pdl__consider(pdl__searcher_t *s, const pdl_config_t *config, double least_s)
{
    pdl_candidate_t trial = {.config = *config};

    s->configurations++;
    least_s = with_gathers(s, config, least_s);
    if (pdl__is_beaten(s, config, least_s)) return false;
    /* What does not fit is of interest only as long as nothing does. */
    bool fits = true;
    if (s->best->possible && (pdl__fits(s->oracle, config, &fits) || !fits)) return false;
    pdl_status_t status = pdl_oracle_evaluate(s->oracle, config, s->request->dataset, &trial.projection);
    if (is_refusal(status)) {
        if (!s->any) snprintf(s->best->reason, sizeof(s->best->reason), "%s", pdl_error_message());
        return false;
    }
    if (status) {
        s->status = status;
        return false;
    }
    s->any = true;
    pdl__score_candidate(s, &trial);
    if (trial.projection.fits)
        shortlist(s, &trial, least_of(s, &trial, least_s));
    else if (s->leanest.config.batch == 0 || trial.projection.memory_bytes < s->leanest.projection.memory_bytes)
        keep(&s->leanest, &trial);
    return trial.projection.fits;
}
