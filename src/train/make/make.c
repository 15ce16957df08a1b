/*
 * Makes what a graph describes.
 */
#include "train/make/make.h"
#include "base/memory.h"
#include "train/make/channel.h"
#include <paradl/comm/regions.h>
#include <paradl/comm/route.h>
#include <stdlib.h>
#include <string.h>

/* Whose kernels and memory, and whose ranks. */
typedef struct maker {
    pdl_backend_t       *backend;
    const pdl__groups_t *groups;
    pdl_transport_t     *transport;
} maker_t;

static pdl_status_t make_move(const maker_t *m, pdl__planned_move_t *move)
{
    pdl_move_spec_t spec = {.own = move->own, .need = move->need, .type = move->type, .transport = m->transport};
    pdl_status_t    status = pdl__groups_get(m->groups, move->axes, &spec.group);

    return status ? status : pdl_move_create(&spec, &move->made);
}

static pdl_status_t make_edge(const maker_t *m, pdl__edge_t *edge)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; edge && i < edge->move_count && !status; i++) status = make_move(m, edge->moves[i]);
    return status;
}

static pdl_status_t make_halo(const maker_t *m, const pdl__unit_t *unit)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < 2 && unit->halo && !status; i++)
        if (unit->halo->side[i].move) status = make_move(m, unit->halo->side[i].move);
    return status;
}

static pdl_status_t make_channel(const maker_t *m, const pdl__stage_link_t *link, pdl__channel_t **channel)
{
    pdl__channel_spec_t spec = {.ranks = m->groups->stages,
                                .transport = m->transport,
                                .peer = link->peer,
                                .tag = link->tag % PDL_RANKS_TAGS,
                                .bytes = link->bytes,
                                .slots = link->slots};

    return link->bytes > 0 ? pdl__channel_create(&spec, channel) : PDL_OK;
}

static pdl_status_t make_routes(const maker_t *m, pdl__dispatch_t *routes)
{
    pdl_ranks_t *group;
    pdl_status_t status = pdl__groups_get(m->groups, routes->axes, &group);

    return status ? status : pdl_route_create(m->transport, group, routes->bytes, &routes->route);
}

static pdl_status_t make_unit(const maker_t *m, pdl__unit_t *unit)
{
    pdl_status_t status = make_edge(m, unit->edge);

    if (!status) status = make_halo(m, unit);
    for (int j = 0; j < PDL_MAX_INPUTS && !status; j++) status = make_edge(m, unit->after[j]);
    if (!status && unit->routes) status = make_routes(m, unit->routes);
    if (!status && unit->statistic_axes)
        status = pdl__groups_get(m->groups, unit->statistic_axes, &unit->statistics);
    if (!status) status = make_channel(m, &unit->there, &unit->there_channel);
    if (!status) status = make_channel(m, &unit->back, &unit->back_channel);
    return status;
}

/* The op of a unit, and those of its sides. */
static pdl_status_t make_kernels(pdl_backend_t *backend, pdl__unit_t *unit)
{
    pdl_op_spec_t spec = pdl__unit_spec(unit);
    pdl_status_t  status = PDL_OK;

    if (unit->kind == PDL__UNIT_OP) status = backend->ops->op_create(backend, &spec, &unit->op);
    for (int i = 0; i < 2 && unit->halo && !status; i++) {
        pdl__halo_side_t *side = &unit->halo->side[i];
        if (!side->local) continue;
        pdl_op_spec_t part = pdl__halo_side_spec(side, &spec, &unit->description);
        status = backend->ops->op_create(backend, &part, &side->op);
    }
    return status;
}

static pdl_status_t make_all_kernels(pdl__graph_t *graph)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < graph->unit_count && !status; i++) status = make_kernels(graph->backend, &graph->unit[i]);
    return status;
}

/* The choices of the first rank to all; empty where it has none. */
static pdl_status_t spread_choices(pdl_backend_t *backend, pdl_ranks_t *ranks)
{
    char        *text = NULL;
    bool         first = pdl_ranks_rank(ranks) == 0;
    pdl_status_t local = first ? backend->ops->choices(backend, &text) : PDL_OK;
    int64_t      bytes = text ? (int64_t)strlen(text) + 1 : 0;
    pdl_status_t status = pdl_ranks_broadcast(ranks, &bytes, sizeof(bytes), 0);

    if (!status && !local && !first && bytes > 0) {
        text = malloc((size_t)bytes);
        if (!text) local = pdl__no_memory("while kernels are chosen");
    }
    if (!status) status = pdl_ranks_agree(ranks, local);
    if (!status && bytes > 0) status = pdl_ranks_broadcast(ranks, text, bytes, 0);
    if (!status && !first && text) status = backend->ops->learn(backend, text);
    free(text);
    return status;
}

pdl_status_t pdl__graph_make_kernels(pdl__graph_t *graph, pdl_ranks_t *ranks)
{
    bool         chooses = graph->backend->ops->choices && pdl_ranks_size(ranks) > 1;
    bool         first = !chooses || pdl_ranks_rank(ranks) == 0;
    pdl_status_t made = first ? make_all_kernels(graph) : PDL_OK;
    pdl_status_t status = chooses ? pdl_ranks_agree(ranks, made) : made;

    if (!status && chooses) status = spread_choices(graph->backend, ranks);
    return status || first ? status : make_all_kernels(graph);
}

pdl_status_t pdl__graph_make(pdl__graph_t *graph, const pdl__groups_t *groups, pdl_transport_t *transport)
{
    maker_t      m = {graph->backend, groups, transport};
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < graph->unit_count && !status; i++) status = make_unit(&m, &graph->unit[i]);
    return status;
}

static void unmake_move(pdl__planned_move_t *move)
{
    pdl_move_destroy(move->made);
    move->made = NULL;
}

static void unmake_edge(pdl__edge_t *edge)
{
    for (int i = 0; edge && i < edge->move_count; i++) unmake_move(edge->moves[i]);
}

static void unmake_halo(pdl_backend_t *backend, pdl__halo_t *halo)
{
    for (int i = 0; halo && i < 2; i++) {
        if (halo->side[i].move) unmake_move(halo->side[i].move);
        backend->ops->op_destroy(halo->side[i].op);
        halo->side[i].op = NULL;
    }
}

void pdl__graph_unmake(pdl__graph_t *graph)
{
    for (int i = 0; graph && i < graph->unit_count; i++) {
        pdl__unit_t *unit = &graph->unit[i];
        graph->backend->ops->op_destroy(unit->op);
        unit->op = NULL;
        unmake_halo(graph->backend, unit->halo);
        unmake_edge(unit->edge);
        for (int j = 0; j < PDL_MAX_INPUTS; j++) unmake_edge(unit->after[j]);
        if (unit->routes) {
            pdl_route_destroy(unit->routes->route);
            unit->routes->route = NULL;
        }
        pdl__channel_destroy(unit->there_channel);
        pdl__channel_destroy(unit->back_channel);
        unit->there_channel = unit->back_channel = NULL;
    }
}

pdl_status_t pdl__dispatch_run(pdl__dispatch_t *routes, pdl_tensor_stream_t *stream, const void *send,
                               const int64_t *to, void *receive, const int64_t *from)
{
    for (int m = 0; m < routes->members; m++)
        *(m == routes->member ? &routes->stayed : &routes->sent) += (double)to[m];
    return pdl_route_run(routes->route, stream, send, to, receive, from);
}
