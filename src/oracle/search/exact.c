/*
 * Exact search: chains of groups of configurations, each by one thread. What is removed by a bound depends on a threshold
 * that is found before, and on what the same chain has found: the counts are the same whoever does the work.
 */
#include "oracle/search/exact.h"
#include "base/clock.h"
#include "base/memory.h"
#include "oracle/search/exact_walk.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const pdl_exact_bound_names[PDL_BOUND_COUNT] = {"compute", "bubble", "communication", "memory"};

#define ASK_S 0.1 /* between two questions whether to stop */

/* All that the threads share. */
typedef struct team {
    const pdl_exact_options_t *options;
    const pdl__exact_list_t   *list;
    pdl__exact_walk_t          model;  /* what a walk begins with */
    pdl__exact_walk_t         *result; /* of every chain */
    atomic_int                 next;   /* chain */
    atomic_int                 done;   /* nodes */
    atomic_bool                stopped;
    double                     asked_s;
} team_t;

static bool ask(team_t *team)
{
    const pdl_exact_options_t *o = team->options;
    double                     now = pdl__seconds();

    if (o->stop == NULL || now - team->asked_s < ASK_S) return false;
    team->asked_s = now;
    return o->stop(o->context, (double)atomic_load(&team->done) / (double)(team->list->count + 1));
}

/* Chains one after the other; the caller's thread also asks whether to stop. */
static void work(team_t *team, pdl_oracle_t *oracle, bool asks)
{
    for (int k; (k = atomic_fetch_add(&team->next, 1)) < team->list->chains;) {
        pdl__exact_walk_t *walk = &team->result[k];

        *walk = team->model;
        walk->oracle = oracle;
        walk->status = pdl__exact_begin(walk);
        for (int i = 0; i < team->list->chain[k].count && !walk->status && !atomic_load(&team->stopped); i++) {
            pdl__exact_visit(walk, team->list->chain[k].first + i);
            atomic_fetch_add(&team->done, 1);
            if (asks && ask(team)) atomic_store(&team->stopped, true);
        }
        if (walk->status) snprintf(walk->message, sizeof(walk->message), "%s", pdl_error_message());
    }
}

static void *help(void *argument)
{
    team_t       *team = argument;
    pdl_oracle_t *own = NULL, *like = team->model.oracle;

    /* Without one of its own the others do its share. */
    if (pdl_oracle_create(like->model, like->system, &like->p, &own)) return NULL;
    own->memory_cap = like->memory_cap;
    work(team, own, false);
    pdl_oracle_destroy(own);
    return NULL;
}

static void work_together(team_t *team, pdl_oracle_t *oracle)
{
    enum { MOST = 64 };
    pthread_t thread[MOST];
    long      cores = team->options->threads > 0 ? team->options->threads : sysconf(_SC_NPROCESSORS_ONLN);
    int       helpers = 0, most = cores - 1 < MOST ? (int)cores - 1 : MOST;

    while (helpers < most && helpers < team->list->chains - 1 &&
           pthread_create(&thread[helpers], NULL, help, team) == 0)
        helpers++;
    work(team, oracle, true);
    for (int i = 0; i < helpers; i++) pthread_join(thread[i], NULL);
}

static void lower_threshold(team_t *team, const pdl__exact_walk_t *walk)
{
    if (walk->count == walk->top) team->model.threshold = walk->best[walk->top - 1].score;
}

/* All configurations of the nodes that some of the best belong to, each node once. */
static pdl_status_t look_closer(team_t *team, const pdl__exact_walk_t *glanced)
{
    pdl__exact_walk_t walk = team->model;

    walk.oracle = glanced->oracle;
    pdl_status_t status = pdl__exact_begin(&walk);
    for (int i = 0; i < glanced->count && !status; i++) {
        bool seen = false;
        for (int k = 0; k < i; k++) seen = seen || glanced->best[k].node == glanced->best[i].node;
        walk.anywhere = (pdl__exact_rate_t){.sample_s = 0};
        walk.rates = 0;
        if (!seen) pdl__exact_visit(&walk, glanced->best[i].node);
        status = walk.status;
    }
    lower_threshold(team, &walk);
    pdl__exact_end(&walk);
    return status;
}

/* Some that are likely: the best of them are what all others have to beat. */
static pdl_status_t scout(team_t *team, pdl_oracle_t *oracle)
{
    pdl__exact_walk_t walk = team->model;

    walk.oracle = oracle;
    pdl_status_t status = pdl__exact_begin(&walk);
    for (int k = 0; k < team->list->chains && !status; k++) {
        pdl__chain_t chain = team->list->chain[k];
        for (int i = chain.first; i < chain.first + chain.count && !walk.status; i++)
            if (pdl__exact_likely(&walk, i)) pdl__exact_glance(&walk, i);
        status = walk.status;
    }
    lower_threshold(team, &walk);
    if (!status) status = look_closer(team, &walk);
    pdl__exact_end(&walk);
    return status;
}

static void add_counts(const pdl__exact_walk_t *walk, pdl_exact_t *exact)
{
    exact->evaluated += walk->evaluated;
    exact->too_large += walk->too_large;
    exact->impossible += walk->impossible;
    exact->broken += walk->broken;
    for (int b = 0; b < PDL_BOUND_COUNT; b++) exact->removed[b] += walk->removed[b];
}

/* The answers of the chains as one. */
static pdl_status_t gather(team_t *team, pdl_exact_t *exact)
{
    pdl__exact_walk_t all = team->model;
    pdl_status_t      status = pdl__exact_begin(&all);

    for (int k = 0; k < team->list->chains && !status; k++) {
        pdl__exact_walk_t *walk = &team->result[k];
        add_counts(walk, exact);
        if (walk->status) status = pdl_error(walk->status, "%s", walk->message);
        for (int i = 0; i < walk->count && !status; i++) pdl__exact_keep(&all, &walk->best[i]);
        for (int i = 0; i < walk->front_count && !status; i++) status = pdl__exact_offer(&all, &walk->front[i]);
    }
    if (!status) status = pdl__exact_take(&all, exact);
    pdl__exact_end(&all);
    return status;
}

static pdl_status_t search(team_t *team, pdl_oracle_t *oracle, pdl_exact_t *exact)
{
    pdl_status_t status = PDL_OK;

    team->asked_s = pdl__seconds();
    team->result = calloc((size_t)team->list->chains + 1, sizeof(*team->result));
    if (team->result == NULL) return pdl__no_memory("for the chains of a search");
    if (!team->options->exhaustive) status = scout(team, oracle);
    if (!status) work_together(team, oracle);
    if (!status) status = gather(team, exact);
    exact->certified = !atomic_load(&team->stopped);
    for (int k = 0; k < team->list->chains; k++) pdl__exact_end(&team->result[k]);
    free(team->result);
    return status;
}

static pdl_status_t check_request(const pdl_oracle_t *oracle, const pdl_request_t *request)
{
    if (request->pe < 1 || request->pe > oracle->system->pe_count)
        return pdl_error(PDL_ERR_INPUT, "%lld devices, but system %s has %lld", (long long)request->pe,
                         oracle->system->name, (long long)oracle->system->pe_count);
    if (request->strategy != NULL && request->strategy->per_layer)
        return pdl_error(PDL_ERR_INPUT, "layouts of single layers are no part of an exact search");
    if (oracle->system->backend != NULL)
        return pdl_error(PDL_ERR_UNSUPPORTED,
                         "memory of plans for the backend %s is counted by compiling them, "
                         "which an exact search cannot do for all",
                         oracle->system->backend);
    return PDL_OK;
}

pdl_status_t pdl_exact_search(pdl_oracle_t *oracle, const pdl_request_t *request,
                              const pdl_exact_options_t *options, pdl_exact_t **out)
{
    char              why[160];
    double            begin = pdl__seconds(), cap = oracle->memory_cap;
    pdl_request_t     chosen = *request;
    pdl__exact_list_t list;
    pdl_exact_t      *exact = NULL;
    pdl_status_t      status = check_request(oracle, request);

    if (!status) status = pdl__choose_batch(oracle, request, &chosen.batch, why, sizeof(why));
    if (!status) status = pdl__exact_list(oracle, &chosen, &list);
    if (status) return status;
    exact = calloc(1, sizeof(*exact));
    if (exact == NULL) status = pdl__no_memory("for a search");
    team_t team = {.options = options,
                   .list = &list,
                   .model = {.oracle = oracle,
                             .request = &chosen,
                             .list = &list,
                             .exhaustive = options->exhaustive,
                             .checks = options->exhaustive && options->checks,
                             .top = options->top > 0 ? options->top : 1,
                             .threshold = INFINITY}};
    if (request->max_memory > 0) oracle->memory_cap = request->max_memory;
    if (!status) status = search(&team, oracle, exact);
    oracle->memory_cap = cap;
    if (!status) {
        exact->batch = chosen.batch;
        exact->configurations = list.configurations;
        exact->seconds = pdl__seconds() - begin;
        *out = exact;
    }
    pdl__exact_list_free(&list);
    if (status) pdl_exact_destroy(exact);
    return status;
}

void pdl_exact_destroy(pdl_exact_t *exact)
{
    if (exact == NULL) return;
    free(exact->best);
    free(exact->front);
    free(exact);
}
