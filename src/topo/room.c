/*
 * Cables in a machine room: cabinets stand on a grid, cables run along its rows and columns.
 *
 * Switches fill cabinets in the order of their numbers, hosts stand with their switch. A network with a natural
 * row (a row of dln2d, a group of a dragonfly) gets one row of cabinets for each; the others a grid that is
 * nearly square in metres. The prices of the default room are round numbers for comparing networks, not offers.
 */
#include "topo/metrics.h"

#include <math.h>
#include <stdlib.h>

typedef struct floor_plan {
    const pdl_topology_t *topology;
    int                  *switch_of; /* of a host: the switch it stands with; NULL: hosts stand by themselves */
    int64_t               per_cabinet, columns;
} floor_plan_t;

pdl_room_t pdl_room_default(void)
{
    return (pdl_room_t){
        .switches_per_cabinet = 1,
        .pitch_x_m = 0.6,
        .pitch_y_m = 2.1,
        .slack_m = 2,
        .copper_m = 5,
        .copper_cost = 60,
        .copper_cost_per_m = 20,
        .optical_cost = 400,
        .optical_cost_per_m = 5,
        .switch_cost_per_port = 250,
    };
}

static pdl_status_t check_room(const pdl_room_t *room)
{
    const double values[] = {room->pitch_x_m,    room->pitch_y_m,          room->slack_m,
                             room->copper_m,     room->copper_cost,        room->copper_cost_per_m,
                             room->optical_cost, room->optical_cost_per_m, room->switch_cost_per_port};

    if (room->switches_per_cabinet < 1)
        return pdl_error(PDL_ERR_INPUT, "a cabinet holds at least one switch, not %lld",
                         (long long)room->switches_per_cabinet);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        if (!(values[i] >= 0 && values[i] <= 1e12))
            return pdl_error(PDL_ERR_INPUT, "lengths and prices of the machine room are numbers from 0 on");
    return PDL_OK;
}

static int64_t cabinet_of(const floor_plan_t *plan, int vertex)
{
    const pdl_topology_t *topology = plan->topology;

    if (topology->ops->cabinet != NULL) return topology->ops->cabinet(topology, vertex);
    if (vertex < topology->hosts) {
        if (plan->switch_of == NULL) return vertex / plan->per_cabinet;
        vertex = plan->switch_of[vertex];
        if (vertex < topology->hosts) return 0; /* a host of a graph that no switch stands with */
    }
    return (vertex - (plan->switch_of != NULL ? topology->hosts : 0)) / plan->per_cabinet;
}

static pdl_status_t place_hosts(floor_plan_t *plan)
{
    const pdl_topology_t *topology = plan->topology;

    if (topology->vertices == topology->hosts) return PDL_OK;
    plan->switch_of = calloc((size_t)topology->hosts, sizeof(*plan->switch_of));
    if (plan->switch_of == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for metrics");
    for (int i = topology->link_count - 1; i >= 0; i--) {
        const pdl_link_t *link = &topology->links[i];
        if (link->kind == PDL_LINK_OPTICAL) continue;
        if (link->src < topology->hosts && link->dst >= topology->hosts) plan->switch_of[link->src] = link->dst;
        if (link->dst < topology->hosts && link->src >= topology->hosts) plan->switch_of[link->dst] = link->src;
    }
    return PDL_OK;
}

static void choose_columns(floor_plan_t *plan, const pdl_room_t *room)
{
    const pdl_topology_t *topology = plan->topology;
    int64_t               last = 0, cabinets;

    if (topology->floor_columns > 0) {
        plan->columns = (topology->floor_columns + plan->per_cabinet - 1) / plan->per_cabinet;
        return;
    }
    for (int v = 0; v < topology->vertices; v++)
        if (cabinet_of(plan, v) > last) last = cabinet_of(plan, v);
    cabinets = last + 1;
    plan->columns = cabinets;
    if (room->pitch_x_m > 0 && room->pitch_y_m > 0)
        plan->columns =
            (int64_t)ceil(fmin(sqrt((double)cabinets * room->pitch_y_m / room->pitch_x_m), (double)cabinets));
    if (plan->columns < 1) plan->columns = 1;
}

static double length_between(const floor_plan_t *plan, const pdl_room_t *room, int a, int b)
{
    int64_t from = cabinet_of(plan, a), to = cabinet_of(plan, b);
    int64_t x = llabs(from % plan->columns - to % plan->columns),
            y = llabs(from / plan->columns - to / plan->columns);

    return (double)x * room->pitch_x_m + (double)y * room->pitch_y_m + room->slack_m;
}

/* A node that relays for others has a router of its own, whose ports cost what those of a switch do. */
static bool has_router_port(const pdl_topology_t *topology, int vertex)
{
    return vertex >= topology->hosts || topology->relay;
}

static void price_cable(const floor_plan_t *plan, const pdl_room_t *room, const pdl_link_t *link,
                        pdl_topology_metrics_t *metrics)
{
    double length = length_between(plan, room, link->src, link->dst);
    bool   copper = length <= room->copper_m && link->kind != PDL_LINK_OPTICAL;
    double cost = copper ? room->copper_cost + room->copper_cost_per_m * length
                         : room->optical_cost + room->optical_cost_per_m * length;
    int    ports = has_router_port(plan->topology, link->src) + has_router_port(plan->topology, link->dst);

    metrics->cable_m += length * link->cables;
    metrics->cost += (cost + ports * room->switch_cost_per_port) * link->cables;
    if (length > metrics->longest_cable_m) metrics->longest_cable_m = length;
}

pdl_status_t pdl__lay_cables(const pdl_topology_t *topology, const pdl_room_t *room,
                             pdl_topology_metrics_t *metrics)
{
    floor_plan_t plan = {.topology = topology, .per_cabinet = room->switches_per_cabinet};
    pdl_status_t st = check_room(room);

    if (st == PDL_OK) st = place_hosts(&plan);
    if (st) return st;
    choose_columns(&plan, room);
    for (int i = 0; i < topology->link_count; i++)
        if (pdl__is_cable(topology, i)) price_cable(&plan, room, &topology->links[i], metrics);
    free(plan.switch_of);
    return PDL_OK;
}
