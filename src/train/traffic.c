/*
 * What a session sends, from its tape, and the memory that takes.
 */
#include "train/session.h"

#define RESULTS 4 /* sums of a step: loss, accuracy, samples, and whether to stop */

static double sum_bytes(const pdl_ranks_t *ranks, double values)
{
    return (double)(pdl_ranks_size(ranks) - 1) * values * sizeof(double);
}

/* Values that an op asks the other ranks for: batch norm two of every channel in both directions, a split loss the
   largest logit of every row and three or four sums. */
static double reduced_values(const pdl_session_t *s, const pdl__unit_t *unit, bool backward)
{
    const pdl_layer_t *layer = unit->op->spec.layer;

    if (layer->type == PDL_LAYER_BATCH_NORM)
        return s->spec.plan->sync_batch_norm ? 2 * (double)layer->in.channels : 0;
    if (layer->type != PDL_LAYER_CROSS_ENTROPY || backward) return 0;
    return (s->spec.training && s->spec.label_smoothing > 0 ? 5 : 4) * (double)s->micro_samples *
           (double)pdl_shape_positions(&layer->in);
}

void pdl__op_traffic(const pdl_session_t *s, const pdl_tape_op_t *op, pdl_session_traffic_t *traffic)
{
    const pdl__unit_t *unit = &s->graph->unit[op->node];
    bool               backward = op->kind == PDL_TAPE_BACKWARD;
    double             there, back;

    if (op->kind != PDL_TAPE_FORWARD && !backward) return;
    if (unit->kind == PDL__UNIT_EDGE) {
        pdl__edge_bytes(unit->edge, &there, &back);
        traffic->moves += backward ? back : there;
    }
    if (unit->kind == PDL__UNIT_SEND && !backward) traffic->stages += (double)pdl__channel_message(unit->there);
    if (unit->kind == PDL__UNIT_RECEIVE && backward) traffic->stages += (double)pdl__channel_message(unit->back);
    if (unit->kind != PDL__UNIT_OP) return;
    if (unit->statistics) traffic->statistics += sum_bytes(unit->statistics, reduced_values(s, unit, backward));
    for (int j = 0; j < unit->input_count && backward; j++) {
        if (!unit->after[j] || op->input_gradient[j] < 0) continue;
        pdl__edge_bytes(unit->after[j], &there, &back);
        traffic->moves += back;
    }
}

void pdl_session_traffic(const pdl_session_t *s, pdl_session_traffic_t *traffic)
{
    const pdl_tape_t *tape = s->tape ? s->tape : s->forward_tape;
    bool              norm = s->tape && s->spec.optimizer.clip_norm > 0;
    pdl_ranks_t      *ranks = s->tape ? s->replica : s->spec.ranks; /* whose results are one */
    double            sent;
    size_t            held;

    *traffic = (pdl_session_traffic_t){.results = sum_bytes(ranks, RESULTS)};
    for (int i = 0; i < tape->op_count; i++) pdl__op_traffic(s, &tape->op[i], traffic);
    for (int g = 0; g < s->bucket_groups; g++) {
        pdl_exchange_bytes(s->buckets[g].exchange, &sent, &held);
        traffic->gradients += sent;
    }
    for (int i = 0; i < s->tie_count; i++) {
        pdl_exchange_bytes(s->ties[i].exchange, &sent, &held);
        traffic->gradients += sent;
    }
    if (norm && (!s->layouts->trivial || s->layouts->stages->count > 1)) traffic->results += sum_bytes(ranks, 1);
    traffic->total = traffic->moves + traffic->stages + traffic->gradients + traffic->statistics + traffic->results;
}

static size_t edge_buffers(const pdl__edge_t *edge)
{
    size_t bytes = 0;

    for (int i = 0; edge && i < edge->move_count; i++) bytes += (size_t)pdl_move_buffer_bytes(edge->moves[i]);
    return bytes;
}

size_t pdl__messages_bytes(const pdl_session_t *s)
{
    size_t bytes = pdl__borders_bytes(s), held;
    double sent;

    for (int u = 0; u < s->graph->unit_count; u++) {
        bytes += edge_buffers(s->graph->unit[u].edge);
        for (int j = 0; j < PDL_MAX_INPUTS; j++) bytes += edge_buffers(s->graph->unit[u].after[j]);
    }
    for (int g = 0; g < s->bucket_groups; g++) {
        pdl_exchange_bytes(s->buckets[g].exchange, &sent, &held);
        bytes += held;
    }
    for (int i = 0; i < s->tie_count; i++) {
        pdl_exchange_bytes(s->ties[i].exchange, &sent, &held);
        bytes += held;
    }
    return bytes;
}
