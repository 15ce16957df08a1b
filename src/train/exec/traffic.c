/*
 * What a session sends, from its program, and the memory that takes.
 */
#include "train/exec/execute.h"
#include "train/exec/shard.h"

static double sum_bytes(const pdl_ranks_t *ranks, double values)
{
    return (double)(pdl_ranks_size(ranks) - 1) * values * sizeof(double);
}

/* Values that an op asks the other ranks for: batch norm two of every channel in both directions, a split loss the
   largest logit of every row and three or four sums. */
static double reduced_values(const pdl_session_t *s, const pdl__unit_t *unit, bool backward)
{
    const pdl_layer_t  *layer = unit->spec.layer;
    const pdl_traits_t *traits = pdl_layer_traits(layer);

    if (traits->statistics) return s->spec.plan->sync_batch_norm ? 2 * (double)layer->in.channels : 0;
    if (traits->loss != PDL_LOSS_CLASSES || backward) return 0;
    return (s->spec.training && s->spec.label_smoothing > 0 ? 5 : 4) * (double)pdl__region_samples(&unit->region) *
           (double)pdl_shape_positions(&layer->in);
}

/* Of a tensor as it lies, what fills up its last block of channels. */
static double padded_share(const pdl_session_t *s, const pdl__unit_t *tensor)
{
    pdl_backend_t *backend = s->spec.backend;

    if (tensor->format != PDL_FORMAT_BLOCKED) return 0;
    return 1 - (double)backend->ops->tensor_bytes(backend, &tensor->shape, 1, PDL_FORMAT_PLAIN) /
                   (double)backend->ops->tensor_bytes(backend, &tensor->shape, 1, PDL_FORMAT_BLOCKED);
}

static void add_moves(const pdl_session_t *s, double bytes, const pdl__unit_t *tensor,
                      pdl_session_traffic_t *traffic)
{
    traffic->moves += bytes;
    traffic->moves_padding += bytes * padded_share(s, tensor);
}

/* What an operation of a layer sends beside the redistributions that are operations of their own. */
static void add_layer(const pdl_session_t *s, const pdl_program_op_t *op, pdl_session_traffic_t *traffic)
{
    const pdl__unit_t *unit = &s->graph->unit[op->node];
    bool               backward = op->backward;

    if (op->kind == PDL_OP_WGRAD || op->part > 0) return;
    if (unit->routes) {
        traffic->routed += pdl__dispatch_even_bytes(unit->routes, backward);
        traffic->routed_all += pdl__dispatch_all_bytes(unit->routes, backward) / unit->routes->members;
    }
    if (unit->statistic_axes)
        traffic->statistics += sum_bytes(s->groups->of[unit->statistic_axes], reduced_values(s, unit, backward));
}

/* What kernels want beside the elements of weights, of those of a bucket. */
static double padding_of(const pdl_session_t *s, const pdl_program_bucket_t *bucket)
{
    double padding = 0;

    for (int i = bucket->first; i < bucket->last; i++)
        padding += (double)(s->weights.entry[i].storage - pdl_region_elements(&s->weights.entry[i].region));
    return padding * sizeof(float) / (double)bucket->bytes;
}

static void add_op(const pdl_session_t *s, const pdl_program_t *program, const pdl_program_op_t *op,
                   pdl_session_traffic_t *traffic)
{
    const pdl__unit_t *unit = op->node < 0 ? NULL : &s->graph->unit[op->node];

    switch (op->kind) {
    case PDL_OP_REDISTRIBUTE:
        if (op->sums >= 0 || op->part > 0) unit = &s->graph->unit[unit->input[op->part > 0 ? 0 : op->sums]];
        add_moves(s, op->bytes, unit, traffic);
        break;
    case PDL_OP_SEND: traffic->stages += op->bytes; break;
    case PDL_OP_COLLECTIVE:
        traffic->gradients += op->bytes;
        if (op->role != PDL_ROLE_TIED)
            traffic->gradients_padding += op->bytes * padding_of(s, &program->bucket[op->bucket]);
        break;
    case PDL_OP_RESULT:
    case PDL_OP_UPDATE: traffic->results += op->bytes; break;
    default:
        if (unit != NULL && unit->kind == PDL__UNIT_OP && op->kind != PDL_OP_SUM && op->kind != PDL_OP_COPY)
            add_layer(s, op, traffic);
        break;
    }
}

/* Sums of squares for the norms of all gradients and of every tensor. */
static double norm_bytes(const pdl_session_t *s)
{
    const pdl_optimizer_options_t *o = &s->spec.optimizer;
    const pdl__layouts_t          *l = s->layouts;
    bool                           in_parts = !l->trivial || s->weights.sharding != PDL_SHARDING_NONE;
    double                         bytes = 0;

    if (o->clip_norm > 0 && (in_parts || l->stages->count > 1)) bytes += sum_bytes(s->replica, 1);
    if (in_parts && (o->method == PDL_METHOD_LARS || o->method == PDL_METHOD_LAMB))
        bytes += sum_bytes(s->groups->stage, 2 * (double)s->weights.entry_count);
    return bytes;
}

static void count_bytes(const pdl_session_t *s, pdl_program_t *program, pdl_ranks_t *ranks)
{
    for (int i = 0; i < program->op_count; i++) {
        pdl_program_op_t     *op = &program->op[i];
        pdl_session_traffic_t traffic = {0};
        int                   b;
        if (op->kind == PDL_OP_COLLECTIVE) {
            const pdl_exchange_t *exchange = pdl__exchange_of(s, program, op, &b);
            op->bytes = pdl_exchange_bucket_bytes(exchange, b);
        } else if (op->kind == PDL_OP_RESULT)
            op->bytes = sum_bytes(ranks, PDL__RESULT_SUMS);
        else if (op->kind == PDL_OP_UPDATE)
            op->bytes = norm_bytes(s);
        else if (op->node >= 0 && op->bytes == 0) {
            add_op(s, program, op, &traffic);
            op->bytes = traffic.moves + traffic.routed + traffic.statistics;
        }
    }
}

void pdl__session_count_bytes(pdl_session_t *s)
{
    count_bytes(s, s->forward_program, s->spec.ranks);
    if (s->program) count_bytes(s, s->program, s->replica);
}

void pdl_session_traffic(const pdl_session_t *s, pdl_session_traffic_t *traffic)
{
    const pdl_program_t *program = s->program ? s->program : s->forward_program;

    *traffic = (pdl_session_traffic_t){0};
    for (int i = 0; i < program->op_count; i++) add_op(s, program, &program->op[i], traffic);
    traffic->total = traffic->moves + traffic->routed + traffic->stages + traffic->gradients + traffic->statistics +
                     traffic->results;
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
