/*
 * What the parts of the search share.
 */
#ifndef PDL_ORACLE_SEARCHER_H
#define PDL_ORACLE_SEARCHER_H

#include "oracle/internal.h"
#include "oracle/search/shortlist.h"
#include <paradl/oracle/exact.h>
#include <paradl/oracle/search.h>
#include <stdatomic.h>

/* Policies cost people something too: a heavier one must take no more than this share of what a plainer one does. */
#define PDL__HEAVIER 0.98

/* Whether to go on: asked by the caller's thread, known to all. */
typedef struct pdl__patience {
    atomic_bool stopped;
    double      asked_s, share; /* when it was asked, and how much of the search is done */
} pdl__patience_t;

typedef struct pdl__searcher {
    pdl_oracle_t        *oracle;
    const pdl_request_t *request;   /* with the batch that was chosen */
    pdl_candidate_t     *best;      /* of the strategy at hand */
    pdl_candidate_t      leanest;   /* the one nearest to fitting, when none fits */
    bool                 any;       /* some configuration respected the limits */
    pdl__shortlist_t     shortlist; /* configurations that fit and have not been replayed */
    double               likely;    /* score by the formulas of the latest that was replayed */
    int                  replays;
    int64_t              passes;       /* replayed */
    int64_t              not_replayed; /* that might have won */
    int64_t              configurations;
    pdl_status_t         status; /* a failure other than "not possible" */
    pdl__patience_t     *patience;
    bool                 asks; /* is the caller's thread */
} pdl__searcher_t;

/* A search in request->precision, and one in each of several, whose answers become one: of every strategy the best. */
pdl_status_t pdl__search_precision(pdl_oracle_t *oracle, const pdl_request_t *request, pdl_search_t **search);
pdl_status_t pdl__search_precisions(pdl_oracle_t *oracle, const pdl_request_t *request, pdl_search_t **search);
/* What exact searches of two parts of a space have found becomes that of one of both; `other` is destroyed. */
pdl_status_t pdl__exact_join(pdl_exact_t *exact, pdl_exact_t *other, int top);

/* The best of one strategy. */
pdl_status_t pdl__search_strategy(pdl__searcher_t *s, const pdl_strategy_t *strategy, pdl_candidate_t *candidate);
/* The best of each, of at most so many `rows`, into the candidates of `search`. */
pdl_status_t pdl__search_all(pdl__searcher_t *s, pdl_search_t *search, int rows);

/* Replaces the memory of the candidates that are shown by what request->memory says, ranks them again. */
pdl_status_t pdl__count_memory(const pdl__searcher_t *s, pdl_search_t *search);

/* Whether the same samples take no less time in more micro-batches. */
bool pdl__parts_take_longer(const pdl_oracle_t *oracle, pdl_precision_t precision);

/* Whether the search is to end with the best so far. */
bool pdl__search_stopped(const pdl__searcher_t *s);

/* The seconds that replaying a configuration gives at the least, 0 where that is not known; what the goal minimises with so many seconds at
   the least, and whether that is not below the best. */
double pdl__least_seconds(const pdl__searcher_t *s, const pdl_config_t *config);
double pdl__least_score(const pdl__searcher_t *s, const pdl_config_t *config, double seconds);
bool   pdl__is_beaten(const pdl__searcher_t *s, const pdl_config_t *config, double seconds);
/* Evaluates a configuration, which takes `least_s` at the least, and lists it if it may be the best; true when it fits in memory. */
bool pdl__consider(pdl__searcher_t *s, const pdl_config_t *config, double least_s);
/* Replays those that were listed, until none is left that may win. */
void pdl__replay_shortlist(pdl__searcher_t *s);

/* Devices, of several kinds in money where their prices are known; what the goal minimises with so many of these. */
double pdl__devices_of(const pdl_system_t *system, const pdl_request_t *request, const pdl_config_t *config);
double pdl__goal_score(const pdl_request_t *request, const pdl_config_t *config, double devices, double seconds,
                       double memory, double energy);
/* Times of a sample and an epoch, and what the goal minimises, from the projection. */
void pdl__score_candidate(const pdl__searcher_t *s, pdl_candidate_t *c);

/* The batch at which all strategies are compared, and where it comes from ("" when it was given). */
pdl_status_t pdl__choose_batch(const pdl_oracle_t *oracle, const pdl_request_t *request, int64_t *batch, char *why,
                               size_t size);

/* Puts into s->best why no mesh of its strategy respects the limits; a reason that names more than the last refused
   configuration's where there is one. */
void pdl__describe_refusal(pdl__searcher_t *s);

/* Leaves out of the hints of s->best, a named strategy that is possible, what the search has tried. */
pdl_status_t pdl__advise(pdl__searcher_t *s);

/* Compares the best of an exact search with the candidates, replayed, and takes those that are better. */
pdl_status_t pdl__search_exactly(pdl__searcher_t *s, pdl_search_t *search);
/* Plays a configuration for s->best; what is better replaces it. */
void pdl__replay_config(pdl__searcher_t *s, const pdl_config_t *config);
/* Settles the plan of a candidate, and takes its time and score from what it is then: the time that is shown is that of the plan that is
   written. */
pdl_status_t pdl__time_candidate(const pdl__searcher_t *s, pdl_candidate_t *c);
/* Of a candidate that recomputes everything, fewer blocks where these suffice and that is faster. */
pdl_status_t pdl__relax_recompute(const pdl__searcher_t *s, pdl_candidate_t *c);
/* Plan, largest batch, time and advice of s->best. */
pdl_status_t pdl__finish_candidate(pdl__searcher_t *s);

/* The best layouts of single layers on every mesh data x inner; s->best is the candidate, and gets the name
   of the named strategy that the best plan is, if it is one. */
void pdl__search_mixed(pdl__searcher_t *s);

#endif
