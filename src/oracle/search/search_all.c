/*
 * All strategies, each by one thread with an oracle of its own: what one finds does not depend on the others.
 */
#include "base/memory.h"
#include "oracle/search/searcher.h"
#include <paradl/topo/topo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_HELPERS = 15 };

/* The search of one strategy. */
typedef struct task {
    const pdl_strategy_t *strategy;
    pdl_candidate_t       found;
    int64_t               configurations, not_replayed;
    pdl_status_t          status;
    char                  message[256];
} task_t;

typedef struct team {
    const pdl__searcher_t *like;
    task_t                *task;
    int                    count;
    atomic_int             left;
} team_t;

/* A mixed plan that is one of the named strategies does not stand beside it. */
static void leave_out_twin(const pdl_strategy_t *asked, pdl_candidate_t *found)
{
    const pdl_strategy_t *name = found->config.strategy;

    if (!found->possible || name == asked) return;
    pdl_plan_destroy(found->plan);
    *found = (pdl_candidate_t){.same_as = name, .config = {.strategy = asked}};
    snprintf(found->reason, sizeof(found->reason), "same as %s: no layer gains from a layout of its own",
             name->name);
}

/* From the last one down: these have the most configurations. */
static void work(team_t *team, pdl_oracle_t *oracle, bool asks)
{
    for (int k; (k = atomic_fetch_sub(&team->left, 1) - 1) >= 0;) {
        task_t         *task = &team->task[k];
        pdl__searcher_t s = {.oracle = oracle,
                             .request = team->like->request,
                             .patience = team->like->patience,
                             .asks = asks};

        if (asks) s.patience->share = (double)(team->count - 1 - k) / (double)(2 * team->count);

        task->status = pdl__search_strategy(&s, task->strategy, &task->found);
        if (task->status)
            snprintf(task->message, sizeof(task->message), "%s", pdl_error_message());
        else
            leave_out_twin(task->strategy, &task->found);
        task->configurations = s.configurations;
        task->not_replayed = s.not_replayed;
        pdl__shortlist_free(&s.shortlist);
    }
}

static void *help(void *argument)
{
    team_t       *team = argument;
    pdl_oracle_t *own = NULL, *like = team->like->oracle;

    /* Without one of its own the others do its share. */
    if (pdl_oracle_create(like->model, like->system, &like->p, &own)) return NULL;
    own->memory_cap = like->memory_cap;
    work(team, own, false);
    pdl_oracle_destroy(own);
    return NULL;
}

/* How many threads besides the caller's are of use. A backend is asked by one alone; a network is there before it is shared. */
static int helpers_for(const team_t *team)
{
    const pdl_system_t   *system = team->like->oracle->system;
    const pdl_topology_t *network;
    long                  cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (system->backend != NULL || pdl_topology_network(system, &network)) return 0;
    if (cores > team->count) cores = team->count;
    return cores - 1 < MOST_HELPERS ? (int)cores - 1 : MOST_HELPERS;
}

static void work_together(team_t *team)
{
    pthread_t thread[MOST_HELPERS];
    int       helpers = 0, most = helpers_for(team);

    while (helpers < most && pthread_create(&thread[helpers], NULL, help, team) == 0) helpers++;
    work(team, team->like->oracle, true);
    for (int i = 0; i < helpers; i++) pthread_join(thread[i], NULL);
}

static int list_tasks(const pdl_request_t *request, task_t *task)
{
    const pdl_strategy_t *strategy;
    int                   count = 0;

    for (int i = 0; (strategy = pdl_strategy_at(i)) != NULL; i++)
        if ((request->pe == 1) == (strategy->axes == 0) && !(request->named && strategy->per_layer))
            task[count++].strategy = strategy;
    return count;
}

pdl_status_t pdl__search_all(pdl__searcher_t *s, pdl_search_t *search, int rows)
{
    team_t       team = {.like = s, .task = calloc((size_t)rows, sizeof(*team.task))};
    pdl_status_t status = PDL_OK;

    if (team.task == NULL) return pdl__no_memory("for a search");
    team.count = list_tasks(s->request, team.task);
    atomic_init(&team.left, team.count);
    work_together(&team);
    for (int k = 0; k < team.count; k++) {
        const task_t *task = &team.task[k];

        search->candidates[search->count++] = task->found;
        s->configurations += task->configurations;
        s->not_replayed += task->not_replayed;
        if (task->status && !status) status = pdl_error(task->status, "%s", task->message);
    }
    free(team.task);
    return status;
}
