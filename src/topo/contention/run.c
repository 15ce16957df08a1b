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

/* Messages that follow one another over the same links, and are as long, are one flow. */
typedef struct flow {
    int    message, times;
    double left; /* bytes of each */
} flow_t;

typedef struct flight {
    int     count, links;
    flow_t *flow;
    int    *start, *route; /* of all flows */
    double *capacity;      /* of links */
    int    *active;        /* flows still in flight, and the same compressed for the rates */
    int    *active_start, *active_route, *active_times;
    double *rates; /* bytes per second */
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

static pdl_status_t no_memory(int count)
{
    return pdl_error(PDL_ERR_NOMEM, "out of memory for the routes of %d messages", count);
}

static void add_link(link_names_t *names, flight_t *flight, int *at, const pdl__hop_t *hop, double capacity)
{
    int link = number_of(names, hop);

    flight->route[(*at)++] = link;
    flight->capacity[link] = capacity;
}

static void lay_routes(const pdl__tree_t *tree, const pdl_message_t *messages, link_names_t *names,
                       flight_t *flight)
{
    int at = 0;

    for (int f = 0; f < flight->count; f++) {
        const pdl_message_t *message = &messages[flight->flow[f].message];
        pdl__hop_t           hops[PDL__ROUTE_MAX];
        int                  links[PDL_MAX_ROUTE];
        int                  length = pdl__tree_route(tree, message->from, message->to, hops);
        int                  across = pdl__tree_network(tree, message->from, message->to, links);

        flight->start[f] = at;
        for (int i = 0; i < length; i++)
            add_link(names, flight, &at, &hops[i], tree->level[hops[i].level].capacity);
        for (int i = 0; i < across; i++)
            add_link(names, flight, &at, &(pdl__hop_t){tree->level_count, false, 0, links[i]},
                     pdl__tree_network_capacity(tree, links[i]));
    }
    flight->start[flight->count] = at;
    flight->links = names->count;
}

static void free_flight(flight_t *flight)
{
    free(flight->flow);
    free(flight->start);
    free(flight->route);
    free(flight->capacity);
    free(flight->active);
    free(flight->active_start);
    free(flight->active_route);
    free(flight->active_times);
    free(flight->rates);
}

/* The most links that all routes together can have. */
static int64_t most_entries(const pdl__tree_t *tree, const pdl_message_t *messages, const flight_t *flight)
{
    int64_t entries = 2 * (int64_t)tree->level_count * flight->count;

    for (int f = 0; f < flight->count && tree->network != NULL; f++) {
        const pdl_message_t *message = &messages[flight->flow[f].message];
        int                  links[PDL_MAX_ROUTE];
        entries += pdl__tree_network(tree, message->from, message->to, links);
    }
    return entries;
}

static pdl_status_t find_routes(const pdl__tree_t *tree, const pdl_message_t *messages, flight_t *flight)
{
    int64_t entries = most_entries(tree, messages, flight);
    size_t  n = (size_t)entries + 1, size = 16;

    if (entries > INT_MAX / 4) return pdl_error(PDL_ERR_LIMIT, "%d messages at once are too many", flight->count);
    while (size < 2 * n) size *= 2;
    link_names_t names = {.hop = malloc(size * sizeof(*names.hop)),
                          .number = malloc(size * sizeof(*names.number)),
                          .mask = size - 1};
    flight->route = malloc(n * sizeof(int));
    flight->active_route = malloc(n * sizeof(int));
    flight->capacity = malloc(n * sizeof(double));
    bool there = names.hop != NULL && names.number != NULL && flight->route != NULL &&
                 flight->active_route != NULL && flight->capacity != NULL;
    if (there) {
        memset(names.number, -1, size * sizeof(*names.number));
        lay_routes(tree, messages, &names, flight);
    }
    free(names.hop);
    free(names.number);
    return there ? PDL_OK : no_memory(flight->count);
}

static pdl_status_t create_flight(const pdl__tree_t *tree, const pdl_message_t *messages, int count,
                                  flight_t *flight)
{
    size_t n = (size_t)count + 1;

    *flight = (flight_t){
        .flow = malloc(n * sizeof(flow_t)),
        .start = malloc(n * sizeof(int)),
        .active = malloc(n * sizeof(int)),
        .active_start = calloc(n, sizeof(int)),
        .active_times = malloc(n * sizeof(int)),
        .rates = malloc(n * sizeof(double)),
    };
    pdl_status_t status;
    if (flight->flow != NULL && flight->start != NULL && flight->active != NULL && flight->active_start != NULL &&
        flight->active_times != NULL && flight->rates != NULL) {
        /* Messages to oneself and empty ones are through at once. */
        for (int m = 0; m < count; m++)
            if (messages[m].from != messages[m].to && messages[m].bytes > 0)
                flight->flow[flight->count++] = (flow_t){m, 1, messages[m].bytes};
        status = find_routes(tree, messages, flight);
    } else {
        status = no_memory(count);
    }
    if (status) free_flight(flight);
    return status;
}

/* The first of the slowest links of a route. */
static int slowest_link(const flight_t *flight, int flow)
{
    int slowest = flight->route[flight->start[flow]];

    for (int i = flight->start[flow] + 1; i < flight->start[flow + 1]; i++)
        if (flight->capacity[flight->route[i]] < flight->capacity[slowest]) slowest = flight->route[i];
    return slowest;
}

/* Links that can carry all that the slowest links of their flows let through hold back nobody: number[link] is -1 for them,
   others are counted. load: of all links, zeros. */
static int count_narrow(flight_t *flight, double *load, int *number)
{
    int count = 0;

    for (int e = 0; e < flight->links; e++) number[e] = -1;
    for (int f = 0; f < flight->count; f++) {
        int slowest = slowest_link(flight, f);
        for (int i = flight->start[f]; i < flight->start[f + 1]; i++)
            load[flight->route[i]] += flight->capacity[slowest];
        number[slowest] = 0;
    }
    for (int e = 0; e < flight->links; e++)
        if (number[e] == 0 || load[e] > flight->capacity[e]) {
            flight->capacity[count] = flight->capacity[e];
            number[e] = count++;
        }
    return count;
}

static bool continues(const flight_t *flight, const flow_t *before, const flow_t *flow, int route, int length)
{
    const int *start = &flight->start[before - flight->flow];

    return flow->message == before->message + before->times && flow->left == before->left &&
           start[1] - start[0] == length &&
           memcmp(&flight->route[start[0]], &flight->route[route], (size_t)length * sizeof(int)) == 0;
}

/* Leaves out such links, and puts together what has the same way then. */
static pdl_status_t simplify(flight_t *flight)
{
    double *load = calloc((size_t)flight->links + 1, sizeof(*load));
    int    *number = malloc(((size_t)flight->links + 1) * sizeof(*number)), flows = 0, at = 0;

    if (load == NULL || number == NULL) {
        free(load);
        free(number);
        return no_memory(flight->count);
    }
    flight->links = count_narrow(flight, load, number);
    for (int f = 0; f < flight->count; f++) {
        int begin = at, i = flight->start[f], end = flight->start[f + 1];

        for (; i < end; i++)
            if (number[flight->route[i]] >= 0) flight->route[at++] = number[flight->route[i]];
        flight->start[flows] = begin;
        if (flows > 0 && continues(flight, &flight->flow[flows - 1], &flight->flow[f], begin, at - begin)) {
            flight->flow[flows - 1].times++;
            at = begin;
        } else {
            flight->flow[flows++] = flight->flow[f];
        }
    }
    flight->start[flows] = at;
    flight->count = flows;
    free(load);
    free(number);
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
        flight->active_times[i] = flight->flow[m].times;
    }
}

/* Lets all rates hold until the first completion and takes out what is through by then. */
static void advance(flight_t *flight, double *now_s, double *finish_s)
{
    double step_s = INFINITY;
    int    kept = 0;

    for (int i = 0; i < flight->active_count; i++)
        step_s = fmin(step_s, flight->flow[flight->active[i]].left / flight->rates[i]);
    *now_s += step_s;
    for (int i = 0; i < flight->active_count; i++) {
        flow_t *flow = &flight->flow[flight->active[i]];
        double  needed = flow->left / flight->rates[i];
        if (needed <= step_s || needed - step_s <= SAME_TIME * *now_s) {
            for (int k = 0; k < flow->times && finish_s; k++) finish_s[flow->message + k] = *now_s;
        } else {
            flow->left -= flight->rates[i] * step_s;
            flight->active[kept++] = flight->active[i];
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
    st = simplify(&flight);
    if (st) goto free_flight;
    for (int m = 0; m < count && finish_s; m++) finish_s[m] = 0;
    while (flight.active_count < flight.count) {
        flight.active[flight.active_count] = flight.active_count;
        flight.active_count++;
    }
    while (flight.active_count > 0) {
        compress_routes(&flight);
        st = pdl_maxmin_rates(flight.links, flight.capacity, flight.active_count, flight.active_start,
                              flight.active_route, flight.active_times, flight.rates);
        if (st) goto free_flight;
        advance(&flight, &now_s, finish_s);
    }
    if (last_s) *last_s = now_s;

free_flight:
    free_flight(&flight);
    return st;
}
