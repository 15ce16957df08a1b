/*
 * What a session sends, from its program, and the memory that takes.
 */
#include "train/exec/session.h"
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

void pdl__op_traffic(const pdl_session_t *s, const pdl_program_op_t *op, pdl_session_traffic_t *traffic)
{
    const pdl__unit_t *unit = &s->graph->unit[op->node];
    bool               backward = op->kind == PDL_OP_BACKWARD;
    double             there, back;

    if (op->kind != PDL_OP_FORWARD && !backward) return;
    if (unit->kind == PDL__UNIT_EDGE) {
        pdl__edge_bytes(unit->edge, &there, &back);
        add_moves(s, backward ? back : there, unit, traffic);
    }
    if (unit->kind == PDL__UNIT_SEND && !backward) traffic->stages += (double)unit->there.bytes;
    if (unit->kind == PDL__UNIT_RECEIVE && backward) traffic->stages += (double)unit->back.bytes;
    if (unit->kind != PDL__UNIT_OP) return;
    if (unit->routes) {
        traffic->routed += pdl__dispatch_even_bytes(unit->routes, backward);
        traffic->routed_all += pdl__dispatch_all_bytes(unit->routes, backward) / unit->routes->members;
    }
    if (unit->halo && (!backward || op->input_gradient[0] >= 0))
        add_moves(s, pdl__halo_bytes(unit->halo, backward), &s->graph->unit[unit->input[0]], traffic);
    if (unit->statistic_axes)
        traffic->statistics += sum_bytes(s->groups->of[unit->statistic_axes], reduced_values(s, unit, backward));
    for (int j = 0; j < unit->input_count && backward; j++) {
        if (!unit->after[j] || op->input_gradient[j] < 0) continue;
        pdl__edge_bytes(unit->after[j], &there, &back);
        add_moves(s, back, &s->graph->unit[unit->input[j]], traffic);
    }
}

/* What kernels want beside the elements of weights, of those of a bucket. */
static double padding_of(const pdl_session_t *s, const pdl__bucket_t *bucket)
{
    double padding = 0;

    for (int i = bucket->first; i < bucket->last; i++)
        padding += (double)(s->entry[i].storage - pdl_region_elements(&s->entry[i].region));
    return padding / (double)(bucket->high - bucket->low);
}

static void add_bucket(const pdl_session_t *s, const pdl_exchange_t *exchange, const pdl__buckets_t *group, int b,
                       pdl_session_traffic_t *traffic)
{
    double bytes = pdl_exchange_bucket_bytes(exchange, b);

    traffic->gradients += bytes;
    traffic->gradients_padding += bytes * padding_of(s, &group->bucket[b]);
}

/* When every bucket travels once. */
static void add_exchange(const pdl_session_t *s, const pdl_exchange_t *exchange, const pdl__buckets_t *group,
                         pdl_session_traffic_t *traffic)
{
    for (int b = 0; b < group->count && exchange; b++) add_bucket(s, exchange, group, b, traffic);
}

/* Buckets that are there for a while only travel each time. */
static void add_stays(const pdl_session_t *s, const pdl__stays_t *stays, bool gradients,
                      pdl_session_traffic_t *traffic)
{
    for (int j = 0; j < stays->count; j++) {
        const pdl__buckets_t *group = &s->buckets[stays->stay[j].group];
        add_bucket(s, gradients ? group->exchange : group->gather, group, stays->stay[j].bucket, traffic);
    }
}

/* Sums of gradients and, where they are sharded, weights. */
static void add_exchanges(const pdl_session_t *s, pdl_session_traffic_t *traffic)
{
    double sent;
    size_t held;

    for (int g = 0; g < s->bucket_groups; g++) {
        const pdl__buckets_t *group = &s->buckets[g];
        if (!group->shard_ranks || !pdl__shard_divides(s, PDL_ARRAY_GRADIENT))
            add_exchange(s, group->exchange, group, traffic);
        if (!pdl__shard_divides(s, PDL_ARRAY_WEIGHT)) add_exchange(s, group->gather, group, traffic);
        add_exchange(s, group->rest, group, traffic);
    }
    for (int i = 0; i < s->tie_count; i++) {
        pdl_exchange_bytes(s->ties[i].exchange, &sent, &held);
        traffic->gradients += sent;
    }
    if (!s->shard) return;
    add_stays(s, &s->shard->gradients, true, traffic);
    add_stays(s, &s->shard->weights[1], false, traffic);
}

/* Sums of squares for the norms of all gradients and of every tensor. */
static double norm_bytes(const pdl_session_t *s)
{
    const pdl_optimizer_options_t *o = &s->spec.optimizer;
    const pdl__layouts_t          *l = s->layouts;
    bool                           in_parts = !l->trivial || s->shard;
    double                         bytes = 0;

    if (o->clip_norm > 0 && (in_parts || l->stages->count > 1)) bytes += sum_bytes(s->replica, 1);
    if (in_parts && (o->method == PDL_METHOD_LARS || o->method == PDL_METHOD_LAMB))
        bytes += sum_bytes(s->groups->stage, 2 * (double)s->entry_count);
    return bytes;
}

void pdl_session_traffic(const pdl_session_t *s, pdl_session_traffic_t *traffic)
{
    const pdl_program_t *program = s->program ? s->program : s->forward_program;
    pdl_ranks_t         *ranks = s->program ? s->replica : s->spec.ranks; /* whose results are one */

    *traffic = (pdl_session_traffic_t){.results = sum_bytes(ranks, PDL__RESULT_SUMS)};
    for (int i = 0; i < program->op_count; i++) pdl__op_traffic(s, &program->op[i], traffic);
    add_exchanges(s, traffic);
    if (s->program) traffic->results += norm_bytes(s);
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
    for (int g = 0; g < s->bucket_groups; g++)
        bytes += exchange_buffers(s->buckets[g].exchange) + exchange_buffers(s->buckets[g].gather) +
                 exchange_buffers(s->buckets[g].rest);
    for (int i = 0; i < s->tie_count; i++) bytes += exchange_buffers(s->ties[i].exchange);
    return bytes;
}
