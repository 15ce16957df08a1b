/*
 * Max-min fair rates: small cases by hand, and random ones against water-filling done the slow way and against
 * the property that defines them.
 */
#include "test.h"

#include <paradl/topo/contention.h>

#include <stdlib.h>

#define MOST_LINKS 12
#define MOST_FLOWS 40
#define MOST_HOPS  5

typedef struct network {
    int    links, flows;
    double capacity[MOST_LINKS];
    int    start[MOST_FLOWS + 1], route[MOST_FLOWS * MOST_HOPS];
} network_t;

static uint64_t random_state = 1;

static int draw(int below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((random_state >> 33) % (uint64_t)below);
}

static void draw_network(network_t *net)
{
    net->links = 1 + draw(MOST_LINKS);
    net->flows = 1 + draw(MOST_FLOWS);
    net->start[0] = 0;
    for (int e = 0; e < net->links; e++) net->capacity[e] = draw(2) ? 1 + draw(5) : (1 + draw(1000)) / 7.0;
    for (int f = 0; f < net->flows; f++) {
        int hops = draw(MOST_HOPS + 1), end = net->start[f];
        for (int h = 0; h < hops; h++) {
            int link = draw(net->links), used = 0;
            for (int i = net->start[f]; i < end; i++) used |= net->route[i] == link;
            if (!used) net->route[end++] = link;
        }
        net->start[f + 1] = end;
    }
}

static int crosses(const network_t *net, int flow, int link)
{
    for (int i = net->start[flow]; i < net->start[flow + 1]; i++)
        if (net->route[i] == link) return 1;
    return 0;
}

/* All open flows rise by what the tightest link still allows; those on links that are then full are closed. */
static void pour(const network_t *net, double *rates)
{
    int open[MOST_FLOWS], left = 0;

    for (int f = 0; f < net->flows; f++) {
        open[f] = net->start[f] < net->start[f + 1];
        rates[f] = open[f] ? 0 : INFINITY;
        left += open[f];
    }
    while (left > 0) {
        double room[MOST_LINKS], rise = INFINITY;
        int    count[MOST_LINKS];
        for (int e = 0; e < net->links; e++) {
            room[e] = net->capacity[e];
            count[e] = 0;
            for (int f = 0; f < net->flows; f++) {
                if (!crosses(net, f, e)) continue;
                room[e] -= rates[f];
                count[e] += open[f];
            }
            if (count[e] > 0) rise = fmin(rise, room[e] / count[e]);
        }
        for (int f = 0; f < net->flows; f++)
            if (open[f]) rates[f] += rise;
        for (int e = 0; e < net->links; e++)
            for (int f = 0; count[e] > 0 && room[e] / count[e] <= rise + 1e-9 && f < net->flows; f++)
                if (open[f] && crosses(net, f, e)) {
                    open[f] = 0;
                    left--;
                }
    }
}

/* No link carries more than it can, and each flow has a full link on which no other flow is faster. */
static void check_fair(const network_t *net, const double *rates)
{
    double load[MOST_LINKS] = {0}, fastest[MOST_LINKS] = {0};

    for (int f = 0; f < net->flows; f++)
        for (int i = net->start[f]; i < net->start[f + 1]; i++) {
            load[net->route[i]] += rates[f];
            fastest[net->route[i]] = fmax(fastest[net->route[i]], rates[f]);
        }
    for (int e = 0; e < net->links; e++) CHECK(load[e] <= net->capacity[e] * (1 + 1e-12));
    for (int f = 0; f < net->flows; f++) {
        int held = net->start[f] == net->start[f + 1];
        for (int i = net->start[f]; i < net->start[f + 1]; i++) {
            int e = net->route[i];
            held |= load[e] >= net->capacity[e] * (1 - 1e-12) && rates[f] >= fastest[e] * (1 - 1e-12);
        }
        CHECK(held);
    }
}

static void random_networks_are_fair(void)
{
    for (int i = 0; i < 4000; i++) {
        network_t net;
        double    rates[MOST_FLOWS], expected[MOST_FLOWS];
        draw_network(&net);
        CHECK_OK(pdl_maxmin_rates(net.links, net.capacity, net.flows, net.start, net.route, NULL, rates));
        pour(&net, expected);
        for (int f = 0; f < net.flows; f++) CHECK_NEAR(rates[f], expected[f], 1e-8);
        check_fair(&net, rates);
    }
}

static void flows_share_a_chain_of_links(void)
{
    /* One long flow over both links, two short ones on the second. */
    const double capacity[] = {10, 12};
    const int    start[] = {0, 2, 3, 4, 5, 5}, route[] = {0, 1, 1, 1, 0};
    double       rates[5];

    CHECK_OK(pdl_maxmin_rates(2, capacity, 5, start, route, NULL, rates));
    CHECK_NEAR(rates[0], 4, 0);
    CHECK_NEAR(rates[1], 4, 0);
    CHECK_NEAR(rates[2], 4, 0);
    CHECK_NEAR(rates[3], 6, 0);
    CHECK(isinf(rates[4]));
}

/* Flows that are alike may be given as one. */
static void flows_may_stand_for_several(void)
{
    const double capacity[] = {10, 12};
    const int    start[] = {0, 2, 3, 4}, route[] = {0, 1, 1, 0}, times[] = {1, 2, 1};
    double       rates[3];

    CHECK_OK(pdl_maxmin_rates(2, capacity, 3, start, route, times, rates));
    CHECK_NEAR(rates[0], 4, 0);
    CHECK_NEAR(rates[1], 4, 0);
    CHECK_NEAR(rates[2], 6, 0);
}

static void wrong_networks_are_refused(void)
{
    const double capacity[] = {1}, negative[] = {-1};
    const int    start[] = {0, 1}, back[] = {1, 0}, route[] = {0}, beyond[] = {1};
    double       rate;

    CHECK_ERROR(pdl_maxmin_rates(1, negative, 1, start, route, NULL, &rate), "capacity of link 0");
    CHECK_ERROR(pdl_maxmin_rates(1, capacity, 1, back, route, NULL, &rate), "ends before it starts");
    CHECK_ERROR(pdl_maxmin_rates(1, capacity, 1, start, beyond, NULL, &rate), "link 1 of 1");
    CHECK_OK(pdl_maxmin_rates(0, NULL, 0, NULL, NULL, NULL, NULL));
}

/* Rings of many flows on equal links fill in one round; the time must not grow with the square. */
static void many_flows_are_solved(void)
{
    enum { FLOWS = 100000 };
    double *capacity = malloc(FLOWS * sizeof *capacity), *rates = malloc(FLOWS * sizeof *rates);
    int    *start = malloc((FLOWS + 1) * sizeof *start), *route = malloc(2 * FLOWS * sizeof *route);

    CHECK(capacity && rates && start && route);
    for (int f = 0; f < FLOWS; f++) {
        capacity[f] = 1 + f % 1000;
        start[f] = 2 * f;
        route[2 * f] = f;
        route[2 * f + 1] = (f + 1) % FLOWS;
    }
    start[FLOWS] = 2 * FLOWS;
    CHECK_OK(pdl_maxmin_rates(FLOWS, capacity, FLOWS, start, route, NULL, rates));
    CHECK_NEAR(rates[0], 0.5, 0);
    CHECK_NEAR(rates[1], 1.5, 0);
    free(capacity);
    free(rates);
    free(start);
    free(route);
}

int main(void)
{
    RUN(flows_share_a_chain_of_links);
    RUN(flows_may_stand_for_several);
    RUN(random_networks_are_fair);
    RUN(wrong_networks_are_refused);
    RUN(many_flows_are_solved);
    return test_done();
}
