/*
 * The choice of an algorithm, and the plans made with it. Both depend only on what is the same on every rank, so
 * all ranks choose alike without asking each other.
 */
#include "comm/choose.h"
#include "comm/interpose/interpose.h"
#include "comm/mpi/mailbox.h"

#include <paradl/base/units.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS_PER_REDUCED_BYTE 0.2e-9 /* an addition reads two streams and writes one, out of cache */

/* On one machine, MPI's messages from about this size on (Open MPI's limit, less its header) are handed over with a handshake, which
   takes as long as so many start-ups. */
#define HANDSHAKE_BYTES    4032
#define HANDSHAKE_STARTUPS 2.5

/* `bytes` 0: of no size in particular. */
static pdl_status_t make_schedule(const pdl__state_t *state, pdl_collective_t collective, const char *algorithm,
                                  double bytes, pdl_schedule_t **schedule)
{
    pdl_schedule_spec_t spec = {.collective = collective,
                                .algorithm = algorithm,
                                .ranks = state->ranks,
                                .hosts_per_switch = pdl__settings()->ranks_per_node};
    pdl_status_t        status = PDL_OK;

    if (bytes > 0) status = pdl_schedule_tune(&spec, bytes, state->latency_s, state->bytes_per_s);
    return status ? status : pdl_schedule_create(&spec, schedule);
}

/* Prices of algorithms for several ports count the busiest port; they are used where they are asked for. */
static bool is_for_any_network(const char *algorithm)
{
    return strncmp(algorithm, "kautz", 5) != 0 && strcmp(algorithm, "fc2") != 0 &&
           strcmp(algorithm, "multiport") != 0;
}

/* Per byte of the vector but for the start-ups; none where the algorithm does not support these ranks. Counting
   messages takes long for many ranks, so it is done once, for a vector in which rounding does not matter. */
static pdl_status_t find_price(const pdl__state_t *state, pdl_collective_t collective, const char *algorithm,
                               pdl_coll_price_t *price)
{
    const double    bytes = 1e12;
    pdl_schedule_t *schedule;
    pdl_status_t    status;

    price->startups = -1;
    if (!is_for_any_network(algorithm)) return PDL_OK;
    status = make_schedule(state, collective, algorithm, 0, &schedule);
    if (status) return status == PDL_ERR_NOMEM ? status : PDL_OK;
    *price = pdl_schedule_price(schedule, bytes);
    price->bytes /= bytes;
    price->reduced_bytes /= bytes;
    pdl_schedule_destroy(schedule);
    return PDL_OK;
}

static pdl_status_t find_prices(pdl__state_t *state, pdl_collective_t collective)
{
    const char *const *names = pdl_coll_algorithms(collective);
    pdl_status_t       status = PDL_OK;
    size_t             count = 0;

    while (names[count] != NULL) count++;
    state->price[collective] = calloc(count + 1, sizeof(*state->price[collective]));
    if (state->price[collective] == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (size_t i = 0; !status && i < count; i++)
        status = find_price(state, collective, names[i], &state->price[collective][i]);
    return status;
}

/* The cheapest algorithm by start-ups, bytes and reduction; NULL: none supports these ranks. */
static const char *find_cheapest(const pdl__state_t *state, pdl_collective_t collective, double bytes)
{
    const char *const *names = pdl_coll_algorithms(collective);
    const char        *cheapest = NULL;
    double             least = 0;

    for (int i = 0; names[i] != NULL; i++) {
        const pdl_coll_price_t *price = &state->price[collective][i];
        bool agrees = state->one_node && !pdl__mailbox_takes(state->mailbox, (int64_t)bytes, 1) &&
                      bytes * price->bytes > HANDSHAKE_BYTES * price->startups;
        double seconds =
            price->startups * (agrees ? 1 + HANDSHAKE_STARTUPS : 1) * state->latency_s +
            bytes * (price->bytes / state->bytes_per_s + price->reduced_bytes * SECONDS_PER_REDUCED_BYTE);

        if (price->startups < 0 || (cheapest != NULL && seconds >= least)) continue;
        least = seconds;
        cheapest = names[i];
    }
    return cheapest;
}

/* On a network that was measured, where all its hosts take part; NULL: the library's own is as fast. */
static pdl_status_t choose_on_network(const pdl__state_t *state, pdl_collective_t collective, double bytes,
                                      pdl_schedule_t **schedule)
{
    pdl_topology_t *network = state->network;
    char            text[PDL_FORMAT_SIZE];
    pdl__choice_t   choice;
    pdl_status_t    status = pdl__choose_on_network(network, collective, (int64_t)fmax(bytes, 1), &choice);

    if (status || choice.algorithm == NULL) return status == PDL_ERR_NOMEM ? status : PDL_OK;
    if (choice.library && pdl__settings()->verbose && state->rank == 0)
        fprintf(stderr,
                "paradl-mpi: %s of %s on %d ranks: left to the MPI library, which was measured to be faster\n",
                pdl_collective_names[collective], pdl_format_bytes(bytes, text), state->ranks);
    if (choice.library) return PDL_OK;
    return pdl__network_schedule(network, collective, choice.algorithm, (int64_t)fmax(bytes, 1), choice.segments,
                                 schedule);
}

pdl_status_t pdl__choose(pdl__state_t *state, pdl_collective_t collective, const char *wanted, double bytes,
                         pdl_schedule_t **schedule)
{
    pdl_status_t status = PDL_OK;

    *schedule = NULL;
    if (strcmp(wanted, "auto") == 0) {
        if (state->network != NULL) return choose_on_network(state, collective, bytes, schedule);
        if (collective == PDL_COLL_ALLREDUCE && state->one_node &&
            pdl__choose_way(state->ranks, pdl__mailbox_limit(state->mailbox), bytes) == PDL__WAY_LIBRARY)
            return PDL_OK;
        if (state->price[collective] == NULL) status = find_prices(state, collective);
        if (status) return status;
        wanted = find_cheapest(state, collective, bytes);
        if (wanted == NULL) return PDL_OK;
    }
    status = make_schedule(state, collective, wanted, bytes, schedule);
    if (status) *schedule = NULL;
    return status == PDL_ERR_NOMEM ? status : PDL_OK;
}

static bool matches(const pdl__state_t *state, const pdl__plan_t *plan, const pdl__plan_t *wanted)
{
    if (!plan->used || plan->collective != wanted->collective || plan->elements != wanted->elements ||
        plan->type != wanted->type || plan->op != wanted->op || (plan->counts == NULL) != (wanted->counts == NULL))
        return false;
    return plan->counts == NULL ||
           memcmp(plan->counts, wanted->counts, (size_t)state->ranks * sizeof(*plan->counts)) == 0;
}

static _Atomic unsigned forgotten;

unsigned pdl__plans_forgotten(void)
{
    return forgotten;
}

static void forget(pdl__plan_t *plan)
{
    forgotten++;
    pdl_executor_destroy(plan->executor);
    for (int w = 0; w < PDL__TRIED; w++) pdl_executor_destroy(plan->way[w]);
    free(plan->counts);
    *plan = (pdl__plan_t){0};
}

static void say_choice(const pdl__state_t *state, const pdl_schedule_t *schedule, double bytes)
{
    char text[PDL_FORMAT_SIZE];

    if (!pdl__settings()->verbose || state->rank != 0) return;
    fprintf(stderr, "paradl-mpi: %s of %s on %d ranks: %s\n",
            pdl_collective_names[pdl_schedule_collective(schedule)], pdl_format_bytes(bytes, text), state->ranks,
            pdl_schedule_algorithm(schedule));
}

/* Fills in the executor. What a schedule cannot do is the same on every rank, and left to the library. */
static pdl_status_t make_executor(pdl__state_t *state, pdl__plan_t *plan)
{
    const char     *wanted = pdl__settings()->algorithm[plan->collective];
    pdl_schedule_t *schedule;
    MPI_Count       size;
    double          bytes;
    pdl_status_t    status;

    PMPI_Type_size_x(plan->type, &size);
    bytes = (double)plan->elements * (double)size;
    status = pdl__choose(state, plan->collective, wanted, bytes, &schedule);
    if (status || schedule == NULL) return status;
    status = pdl_executor_create(&(pdl_executor_spec_t){.schedule = schedule,
                                                        .comm = state->comm,
                                                        .type = plan->type,
                                                        .op = plan->op,
                                                        .elements = plan->elements,
                                                        .counts = plan->counts,
                                                        .chunk_bytes = pdl__settings()->chunk_bytes,
                                                        .mailbox = state->mailbox},
                                 &plan->executor);
    if (status == PDL_OK) say_choice(state, schedule, bytes);
    pdl_schedule_destroy(schedule);
    return status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT || status == PDL_ERR_UNSUPPORTED ? PDL_OK : status;
}

pdl_status_t pdl__plan(pdl__state_t *state, const pdl__plan_t *wanted, pdl__plan_t **found)
{
    pdl__plan_t *plan;
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < PDL__PLANS; i++) {
        if (!matches(state, &state->plan[i], wanted)) continue;
        *found = &state->plan[i];
        return PDL_OK;
    }
    plan = &state->plan[state->next_plan];
    state->next_plan = (state->next_plan + 1) % PDL__PLANS;
    forget(plan);
    *plan = *wanted;
    if (wanted->counts != NULL) {
        plan->counts = malloc((size_t)state->ranks * sizeof(*plan->counts));
        if (plan->counts == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
        memcpy(plan->counts, wanted->counts, (size_t)state->ranks * sizeof(*plan->counts));
    }
    plan->executor = NULL;
    plan->tried = pdl__ways_are_tried(state, plan);
    if (!plan->tried) status = make_executor(state, plan);
    plan->used = status == PDL_OK;
    *found = plan;
    return status;
}

void pdl__plans_fini(pdl__state_t *state)
{
    for (int i = 0; i < PDL__PLANS; i++) forget(&state->plan[i]);
    for (int c = 0; c < PDL_COLL_COUNT; c++) free(state->price[c]);
    free(state->ways);
}
