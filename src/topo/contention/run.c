/*
 * Messages in flight over the machine tree: fair rates, the first completion, new rates, and so on.
 */
#include "topo/contention/tree.h"

#include <paradl/topo/contention.h>

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Messages that would end this close together end together; rounding is far below, physics far above. */
#define SAME_TIME 1e-12

/* The used links get small numbers in the order of their first use, by way of a hash table of their names. */
typedef struct link_names {
    pdl__hop_t *hop;    /* [capacity] */
    int        *number; /* [capacity], -1: free */
    size_t      mask;
    int         count;
} link_names_t;

typedef struct flight {
    int     count, links;
    int    *start, *route; /* of all messages */
    double *capacity;      /* of links */
    int    *active;        /* messages still in flight, and the same compressed for the rates */
    int    *active_start, *active_route;
    double *left, *rates; /* bytes; bytes per second */
    int     active_count;
} flight_t;

static size_t hash_hop(const pdl__hop_t *hop)
{
    uint64_t h = (uint64_t)hop->span * 0x9E3779B97F4A7C15u;

    h ^= ((uint64_t)hop->link << 8) + ((uint64_t)hop->level << 1) + (uint64_t)hop->down;
    h *= 0xD6E8FEB86659FD93u;
    return (size_t)(h ^ (h >> 32));
}

static bool same_hop(const pdl__hop_t *a, const pdl__hop_t *b)
{
    return a->level == b->level && a->down == b->down && a->span == b->span && a->link == b->link;
}

static int number_of(link_names_t *names, const pdl__hop_t *hop)
{
    size_t at = hash_hop(hop) & names->mask;

    while (names->number[at] >= 0 && !same_hop(&names->hop[at], hop)) at = (at + 1) & names->mask;
    if (names->number[at] < 0) {
        names->hop[at] = *hop;
        names->number[at] = names->count++;
    }
    return names->number[at];
}

static pdl_status_t lay_routes(const pdl__tree_t *tree, const pdl_message_t *messages, flight_t *flight)
{
    size_t       entries = (size_t)flight->start[flight->count], size = 16;
    link_names_t names = {0};
    pdl_status_t st = PDL_OK;

    while (size < 2 * entries) size *= 2;
    names.mask = size - 1;
    names.hop = calloc(size, sizeof(*names.hop));
    names.number = malloc(size * sizeof(*names.number));
    if (names.hop == NULL || names.number == NULL) {
        st = pdl_error(PDL_ERR_NOMEM, "out of memory for the routes of %d messages", flight->count);
        goto free_names;
    }
    memset(names.number, -1, size * sizeof(*names.number));
    for (int m = 0; m < flight->count; m++) {
        pdl__hop_t hops[PDL__ROUTE_MAX];
        int        links[PDL_MAX_ROUTE], at = flight->start[m];
        int        length = pdl__tree_route(tree, messages[m].from, messages[m].to, hops);
        int        across = pdl__tree_network(tree, messages[m].from, messages[m].to, links);
        for (int i = 0; i < length; i++) {
            int link = number_of(&names, &hops[i]);
            flight->route[at++] = link;
            flight->capacity[link] = tree->level[hops[i].level].capacity;
        }
        for (int i = 0; i < across; i++) {
            int link = number_of(&names, &(pdl__hop_t){tree->level_count, false, 0, links[i]});
            flight->route[at++] = link;
            flight->capacity[link] = pdl__tree_network_capacity(tree, links[i]);
        }
    }
    flight->links = names.count;

free_names:
    free(names.hop);
    free(names.number);
    return st;
}

static void free_flight(flight_t *flight)
{
    free(flight->start);
    free(flight->route);
    free(flight->capacity);
    free(flight->active);
    free(flight->active_start);
    free(flight->active_route);
    free(flight->left);
    free(flight->rates);
}

/* Where the route of every message begins and, at the end, how many entries they have; at least one, to have some memory. */
static pdl_status_t set_starts(const pdl__tree_t *tree, const pdl_message_t *messages, flight_t *flight)
{
    int64_t entries = 0;

    for (int m = 0; m < flight->count; m++) {
        pdl__hop_t hops[PDL__ROUTE_MAX];
        int        links[PDL_MAX_ROUTE];

        entries += pdl__tree_route(tree, messages[m].from, messages[m].to, hops) +
                   pdl__tree_network(tree, messages[m].from, messages[m].to, links);
        if (entries > INT_MAX / 4)
            return pdl_error(PDL_ERR_LIMIT, "%d messages at once are too many", flight->count);
        flight->start[m + 1] = (int)entries;
    }
    return PDL_OK;
}

static pdl_status_t create_flight(const pdl__tree_t *tree, const pdl_message_t *messages, int count,
                                  flight_t *flight)
{
    size_t n = (size_t)count + 1, entries;

    *flight = (flight_t){.count = count, .start = calloc(n, sizeof(int))};
    if (flight->start == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for %d messages", count);
    pdl_status_t status = set_starts(tree, messages, flight);
    if (status) {
        free_flight(flight);
        return status;
    }
    entries = (size_t)flight->start[count] + 1;
    *flight = (flight_t){
        .count = count,
        .start = flight->start,
        .route = malloc(entries * sizeof(int)),
        .capacity = malloc(entries * sizeof(double)),
        .active = malloc(n * sizeof(int)),
        .active_start = calloc(n, sizeof(int)),
        .active_route = malloc(entries * sizeof(int)),
        .left = malloc(n * sizeof(double)),
        .rates = malloc(n * sizeof(double)),
    };
    if (flight->start == NULL || flight->route == NULL || flight->capacity == NULL || flight->active == NULL ||
        flight->active_start == NULL || flight->active_route == NULL || flight->left == NULL ||
        flight->rates == NULL) {
        free_flight(flight);
        return pdl_error(PDL_ERR_NOMEM, "out of memory for %d messages", count);
    }
    return PDL_OK;
}

static void compress_routes(flight_t *flight)
{
    int end = 0;

    for (int i = 0; i < flight->active_count; i++) {
        int m = flight->active[i], length = flight->start[m + 1] - flight->start[m];
        memcpy(flight->active_route + end, flight->route + flight->start[m], (size_t)length * sizeof(int));
        end += length;
        flight->active_start[i + 1] = end;
    }
}

/* Lets all rates hold until the first completion and takes out what is through by then. */
static void advance(flight_t *flight, double *now_s, double *finish_s)
{
    double step_s = INFINITY;
    int    kept = 0;

    for (int i = 0; i < flight->active_count; i++)
        step_s = fmin(step_s, flight->left[flight->active[i]] / flight->rates[i]);
    *now_s += step_s;
    for (int i = 0; i < flight->active_count; i++) {
        int    m = flight->active[i];
        double needed = flight->left[m] / flight->rates[i];
        if (needed <= step_s || needed - step_s <= SAME_TIME * *now_s) {
            if (finish_s) finish_s[m] = *now_s;
        } else {
            flight->left[m] -= flight->rates[i] * step_s;
            flight->active[kept++] = m;
        }
    }
    flight->active_count = kept;
}

static pdl_status_t check_messages(const pdl_system_t *system, const pdl_message_t *messages, int count)
{
    if (count < 0 || count > INT_MAX / (4 * PDL_MAX_LEVELS))
        return pdl_error(PDL_ERR_LIMIT, "%d messages at once are too many", count);
    for (int m = 0; m < count; m++) {
        if (messages[m].from < 0 || messages[m].from >= system->pe_count || messages[m].to < 0 ||
            messages[m].to >= system->pe_count)
            return pdl_error(PDL_ERR_INPUT, "message %d leaves the machine: %s has %lld devices", m, system->name,
                             (long long)system->pe_count);
        if (!(messages[m].bytes >= 0) || isinf(messages[m].bytes))
            return pdl_error(PDL_ERR_INPUT, "size of message %d must be finite and not negative", m);
    }
    return PDL_OK;
}

pdl_status_t pdl_contention_run(const pdl_system_t *system, bool host_path, const pdl_message_t *messages,
                                int count, double *finish_s, double *last_s)
{
    pdl__tree_t  tree;
    flight_t     flight;
    double       now_s = 0;
    pdl_status_t st = check_messages(system, messages, count);

    if (st) return st;
    st = pdl__tree_init(&tree, system, host_path);
    if (st) return st;
    st = create_flight(&tree, messages, count, &flight);
    if (st) return st;
    st = lay_routes(&tree, messages, &flight);
    if (st) goto free_flight;
    for (int m = 0; m < count; m++) {
        flight.left[m] = messages[m].bytes;
        if (finish_s) finish_s[m] = 0;
        /* Messages to oneself and empty ones are through at once. */
        if (messages[m].from != messages[m].to && messages[m].bytes > 0) flight.active[flight.active_count++] = m;
    }
    while (flight.active_count > 0) {
        compress_routes(&flight);
        st = pdl_maxmin_rates(flight.links, flight.capacity, flight.active_count, flight.active_start,
                              flight.active_route, flight.rates);
        if (st) goto free_flight;
        advance(&flight, &now_s, finish_s);
    }
    if (last_s) *last_s = now_s;

free_flight:
    free_flight(&flight);
    return st;
}
