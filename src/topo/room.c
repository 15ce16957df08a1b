/*
 * Cables in a machine room: cabinets stand on a grid, cables run along its rows and columns.
 *
 * Switches fill cabinets in the order of their numbers, hosts stand with their switch. A network with a natural
 * row (a row of dln2d, a group of a dragonfly) gets one row of cabinets for each; the others a grid that is
 * nearly square in metres. Prices and powers of the default room are round numbers for comparing networks, not offers.
 */
#include "topo/metrics.h"

#include <paradl/base/units.h>

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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
        .port_w = 5,
        .optical_w = 4,
    };
}

/* What can be given of a room, in the unit that it is in. */
static const struct {
    const char *key;
    pdl_unit_t  unit;
    size_t      offset;
} fields[] = {
    {"pitch-x", PDL_UNIT_NONE, offsetof(pdl_room_t, pitch_x_m)},
    {"pitch-y", PDL_UNIT_NONE, offsetof(pdl_room_t, pitch_y_m)},
    {"slack", PDL_UNIT_NONE, offsetof(pdl_room_t, slack_m)},
    {"copper-length", PDL_UNIT_NONE, offsetof(pdl_room_t, copper_m)},
    {"copper-cost", PDL_UNIT_NONE, offsetof(pdl_room_t, copper_cost)},
    {"copper-cost-per-m", PDL_UNIT_NONE, offsetof(pdl_room_t, copper_cost_per_m)},
    {"optical-cost", PDL_UNIT_NONE, offsetof(pdl_room_t, optical_cost)},
    {"optical-cost-per-m", PDL_UNIT_NONE, offsetof(pdl_room_t, optical_cost_per_m)},
    {"port-cost", PDL_UNIT_NONE, offsetof(pdl_room_t, switch_cost_per_port)},
    {"switch-cost", PDL_UNIT_NONE, offsetof(pdl_room_t, switch_cost)},
    {"host-cost", PDL_UNIT_NONE, offsetof(pdl_room_t, host_cost)},
    {"switch-power", PDL_UNIT_WATT, offsetof(pdl_room_t, switch_w)},
    {"port-power", PDL_UNIT_WATT, offsetof(pdl_room_t, port_w)},
    {"host-power", PDL_UNIT_WATT, offsetof(pdl_room_t, host_w)},
    {"copper-power", PDL_UNIT_WATT, offsetof(pdl_room_t, copper_w)},
    {"optical-power", PDL_UNIT_WATT, offsetof(pdl_room_t, optical_w)},
};
#define FIELDS ((int)(sizeof(fields) / sizeof(fields[0])))

static double *field_of(pdl_room_t *room, int field)
{
    return (double *)((char *)room + fields[field].offset);
}

pdl_status_t pdl_room_set(pdl_room_t *room, const char *setting)
{
    size_t length = strcspn(setting, "=");
    char   known[400] = "";
    size_t used = 0;

    for (int f = 0; f < FIELDS; f++) {
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", f > 0 ? ", " : "", fields[f].key);
        if (strlen(fields[f].key) != length || strncmp(fields[f].key, setting, length) != 0) continue;
        if (setting[length] == '\0' || pdl_parse_quantity(setting + length + 1, fields[f].unit, field_of(room, f)))
            return pdl_error(PDL_ERR_INPUT, "%s: expected a number from 0 on, as in %s=100, found \"%.60s\"",
                             fields[f].key, fields[f].key, setting);
        return PDL_OK;
    }
    return pdl_error(PDL_ERR_INPUT, "a machine room has no \"%.40s\"; it has %s", setting, known);
}

static pdl_status_t check_room(const pdl_room_t *room)
{
    pdl_room_t copy = *room;

    if (room->switches_per_cabinet < 1)
        return pdl_error(PDL_ERR_INPUT, "a cabinet holds at least one switch, not %lld",
                         (long long)room->switches_per_cabinet);
    for (int f = 0; f < FIELDS; f++)
        if (!(*field_of(&copy, f) >= 0 && *field_of(&copy, f) <= 1e12))
            return pdl_error(PDL_ERR_INPUT, "lengths, prices and powers of the machine room are numbers from 0 on");
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

static void price_cable(const floor_plan_t *plan, const pdl_room_t *room, int at, pdl_topology_metrics_t *metrics)
{
    const pdl_link_t *link = &plan->topology->links[at];
    bool              pair = at + 1 < plan->topology->link_count && link[1].way_back;
    double            length = length_between(plan, room, link->src, link->dst);
    bool              copper = length <= room->copper_m && link->kind != PDL_LINK_OPTICAL;
    double            cost = copper ? room->copper_cost + room->copper_cost_per_m * length
                                    : room->optical_cost + room->optical_cost_per_m * length;
    double            power_w =
        link->peak_w > 0 ? link->peak_w * (1 + pair) : (copper ? room->copper_w : room->optical_w) * link->cables;
    int ports = has_router_port(plan->topology, link->src) + has_router_port(plan->topology, link->dst);

    metrics->power_w += power_w + ports * room->port_w * link->cables;
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
    metrics->cost = metrics->switches * room->switch_cost + topology->hosts * room->host_cost;
    metrics->power_w = metrics->switches * room->switch_w + topology->hosts * room->host_w;
    for (int i = 0; i < topology->link_count; i++)
        if (pdl__is_cable(topology, i)) price_cable(&plan, room, i, metrics);
    free(plan.switch_of);
    return PDL_OK;
}
