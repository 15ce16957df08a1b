/*
 * What a session sends, by its program, and the memory that takes.
 */
#include "train/exec/execute.h"
#include "train/exec/shard.h"

void pdl__session_count_bytes(pdl_session_t *s)
{
    pdl_program_t *program[] = {s->forward_program, s->program};
    int            b;

    if (s->spec.algorithm == NULL) return;
    for (int p = 0; p < 2; p++)
        for (int i = 0; program[p] != NULL && i < program[p]->op_count; i++) {
            pdl_program_op_t *op = &program[p]->op[i];
            if (op->kind != PDL_OP_COLLECTIVE) continue;
            const pdl_exchange_t *exchange = pdl__exchange_of(s, program[p], op, &b);
            op->bytes = pdl_exchange_bucket_bytes(exchange, b);
        }
}

/* What all ranks together give to experts, a share of it for every rank. */
static double routed_by_all(const pdl_session_t *s, const pdl_program_op_t *op)
{
    const pdl__dispatch_t *routes = op->node < 0 ? NULL : s->graph->unit[op->node].routes;

    if (routes == NULL || op->group == 0) return 0;
    return pdl__dispatch_all_bytes(routes, op->backward) / routes->members;
}

void pdl_session_traffic(const pdl_session_t *s, pdl_session_traffic_t *traffic)
{
    const pdl_program_t *program = s->program ? s->program : s->forward_program;
    double               sent[PDL_TRAFFIC_COUNT];

    pdl_program_traffic(program, sent);
    *traffic = (pdl_session_traffic_t){.moves = sent[PDL_TRAFFIC_REDISTRIBUTION],
                                       .routed = sent[PDL_TRAFFIC_EXPERTS],
                                       .stages = sent[PDL_TRAFFIC_STAGES],
                                       .gradients = sent[PDL_TRAFFIC_GRADIENTS],
                                       .statistics = sent[PDL_TRAFFIC_STATISTICS],
                                       .results = sent[PDL_TRAFFIC_RESULTS]};
    for (int k = 0; k < PDL_TRAFFIC_COUNT; k++) traffic->total += sent[k];
    for (int i = 0; i < program->op_count; i++) traffic->routed_all += routed_by_all(s, &program->op[i]);
}

void pdl_session_routed(const pdl_session_t *s, double *sent, double *stayed)
{
    *sent = *stayed = 0;
    for (int u = 0; u < s->graph->unit_count; u++) {
        const pdl__dispatch_t *routes = s->graph->unit[u].routes;
        if (!routes) continue;
        *sent += routes->sent;
        *stayed += routes->stayed;
    }
}

static size_t edge_buffers(const pdl__edge_t *edge)
{
    size_t bytes = 0;

    for (int i = 0; edge && i < edge->move_count; i++) bytes += edge->moves[i]->buffers;
    return bytes;
}

static size_t exchange_buffers(const pdl_exchange_t *exchange)
{
    double sent;
    size_t held = 0;

    if (exchange) pdl_exchange_bytes(exchange, &sent, &held);
    return held;
}

size_t pdl__messages_bytes(const pdl_session_t *s)
{
    size_t bytes = pdl__borders_bytes(s);

    for (int u = 0; u < s->graph->unit_count; u++) {
        bytes += edge_buffers(s->graph->unit[u].edge) + pdl__halo_buffers(s->graph->unit[u].halo);
        for (int j = 0; j < PDL_MAX_INPUTS; j++) bytes += edge_buffers(s->graph->unit[u].after[j]);
    }
    for (int g = 0; g < s->exchange.bucket_groups; g++)
        bytes += exchange_buffers(s->exchange.buckets[g].exchange) +
                 exchange_buffers(s->exchange.buckets[g].gather) + exchange_buffers(s->exchange.buckets[g].rest);
    for (int i = 0; i < s->exchange.tie_count; i++) bytes += exchange_buffers(s->exchange.ties[i].exchange);
    return bytes;
}
