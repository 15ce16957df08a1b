/*
 * How ranks walk through their schedules: rendezvous, sizes, and what a rank waits for.
 *
 * Of the two sides of a message the one that enters the step later starts it; the other one is found there by its
 * step number, so nothing is stored for a message before it moves. A rank cannot leave a step before its messages
 * are complete, so the step number tells exactly. Eager messages are the exception: the sender starts them, and
 * one that comes early waits in a list of the receiver.
 */
#include "sim/flow.h"

#include <math.h>

bool pdl__flow_repeats(const pdl_schedule_t *schedule, const pdl_sim_options_t *options, int job_count)
{
    int first[PDL_MAX_PERIODS], last[PDL_MAX_PERIODS];

    if (!options->periodic || options->trace != NULL || options->eager_bytes > 0 || job_count != 1) return false;
    return pdl_schedule_period(schedule, first, last) > 0;
}

/* Of a ring with more messages than this (and a shortcut for equal ones) blocks have their mean size when they differ by
   an element, and the result says so: to follow them all would take from seconds to days. */
#define MOST_UNEVEN (INT64_C(1) << 22)

void pdl__flow_size_job(pdl__job_t *job, const pdl_schedule_t *schedule, int64_t bytes, bool repeats)
{
    int64_t blocks = pdl_schedule_blocks(schedule);
    bool    even;

    job->schedule = schedule;
    job->ranks = pdl_schedule_ranks(schedule);
    job->steps = pdl_schedule_steps(schedule);
    job->element_bytes = bytes % 4 == 0 ? 4 : 1;
    job->elements = bytes / job->element_bytes;
    even = job->elements % blocks == 0 && !pdl_schedule_listed(schedule);
    job->mean_blocks = repeats && !even && (int64_t)job->ranks * job->steps > MOST_UNEVEN;
    job->block_bytes = even || job->mean_blocks ? (double)bytes / (double)blocks : 0;
}

double pdl__flow_bytes(const pdl__job_t *job, const pdl_moves_t *moves, const pdl_coll_move_t *move)
{
    const pdl_block_span_t *range = moves->range + move->range_first;
    int64_t                 sum = 0;

    if (job->block_bytes > 0) {
        for (int i = 0; i < move->range_count; i++) sum += range[i].count;
        return (double)sum * job->block_bytes;
    }
    for (int i = 0; i < move->range_count; i++)
        sum += pdl_range_bytes(job->schedule, &range[i], job->elements, job->element_bytes);
    return (double)sum;
}

double pdl__flow_factor(const pdl_factor_t *factors, int count, double bytes)
{
    double factor = 1;

    for (int i = 0; i < count && factors[i].bytes <= bytes; i++) factor = factors[i].factor;
    return factor;
}

/* Appends the links of the way back, on which acknowledgements take their share. */
static bool add_reverse(pdl__engine_t *engine, pdl__flow_t *flow, int32_t *links, int32_t src, int32_t dst)
{
    const pdl__route_t *back = pdl__routes_find(&engine->routes, dst, src, flow->bytes);

    if (flow->hops + back->hops > engine->stride) return false;
    for (int h = 0; h < back->hops; h++) links[flow->hops + h] = back->links[h];
    flow->hops = (int16_t)(flow->hops + back->hops);
    return true;
}

/* The weight of a flow: whole, or one microsecond over the latency of its route. SimGrid treats a route without
   latency as one of a second. */
static void set_weight(const pdl__engine_t *engine, pdl__flow_t *flow, double latency_s)
{
    double whole = (double)PDL__WHOLE;

    flow->weight = PDL__WHOLE;
    if (engine->options->latency_share)
        flow->weight = llrint(whole * 1e-6 / (latency_s > 0 ? fmax(latency_s, 1e-12) : 1));
    flow->back = llrint((double)flow->weight * engine->reverse);
}

/* Finds the links of a flow; the latency of its route in ticks. */
static pdl_status_t find_way(pdl__engine_t *engine, int32_t id, pdl__tick_t *latency)
{
    const pdl_sim_options_t *options = engine->options;
    pdl__flow_t             *flow = &engine->net.flow[id];
    int32_t                 *links = engine->net.links + (size_t)id * (size_t)engine->stride;
    int32_t                  src = engine->rank[flow->src].host, dst = engine->rank[flow->dst].host;
    const pdl__route_t      *route;
    double                   latency_s;

    *latency = 0;
    flow->forward = flow->hops = 0;
    flow->weight = flow->back = PDL__WHOLE;
    if (src == dst) return PDL_OK;
    route = pdl__routes_find(&engine->routes, src, dst, flow->bytes);
    if (route->hops <= 0) return pdl_error(PDL_ERR_INPUT, "no route from host %d to host %d", src, dst);
    if (route->hops > engine->stride) {
        engine->too_long = true;
        return PDL_ERR_LIMIT;
    }
    for (int h = 0; h < route->hops; h++) links[h] = route->links[h];
    flow->forward = flow->hops = (int16_t)route->hops;
    latency_s = route->latency_s;
    if (options->latency_factors > 0)
        latency_s *= pdl__flow_factor(options->latency_factor, options->latency_factors, flow->bytes);
    set_weight(engine, flow, latency_s);
    *latency = (pdl__tick_t)llrint(latency_s / engine->tick_s);
    if (engine->reverse > 0 && !add_reverse(engine, flow, links, src, dst)) {
        engine->too_long = true;
        return PDL_ERR_LIMIT;
    }
    return PDL_OK;
}

bool pdl__flow_returns(const pdl_moves_t *moves, int peer)
{
    for (int i = 0; i < moves->move_count; i++)
        if (moves->move[i].peer == peer) return true;
    return false;
}

/* Joins the messages of its sender; true when one to the same receiver moves, behind which this one waits. */
static bool queue_behind(pdl__engine_t *engine, int32_t id)
{
    pdl__flow_t *flow = engine->net.flow, *mine = &flow[id];
    int32_t      last = engine->rank[mine->src].sent;

    while (last >= 0 && flow[last].dst != mine->dst) last = flow[last].beside;
    mine->behind = -1;
    mine->beside = -1;
    if (last < 0) {
        mine->beside = engine->rank[mine->src].sent;
        engine->rank[mine->src].sent = id;
        return false;
    }
    while (flow[last].behind >= 0) last = flow[last].behind;
    flow[last].behind = id;
    return true;
}

/* The message that waited behind one that has arrived takes its place and moves: its first byte follows the last one. */
static void move_next(pdl__engine_t *engine, int32_t id)
{
    pdl__flow_t *flow = engine->net.flow;
    int32_t     *at = &engine->rank[flow[id].src].sent;

    while (*at != id) at = &flow[*at].beside;
    *at = flow[id].beside;
    if (flow[id].behind < 0) return;
    flow[flow[id].behind].beside = *at;
    *at = flow[id].behind;
    pdl__network_begin(&engine->net, *at);
}

/* A message between two ranks; `returns`: the receiver sends one to the sender in the same step. */
static pdl_status_t start_flow(pdl__engine_t *engine, int32_t src, int32_t dst, double bytes, bool eager,
                               bool returns)
{
    const pdl_message_layer_t *layer = &pdl_topology_get_spec(engine->topology)->messages;
    const pdl_sim_options_t   *options = engine->options;
    int32_t                    id = pdl__network_take(&engine->net);
    pdl__flow_t               *flow;
    pdl__tick_t                latency;
    pdl_status_t               status;

    if (id < 0) return PDL_ERR_NOMEM;
    flow = &engine->net.flow[id];
    flow->src = src;
    flow->dst = dst;
    flow->step = engine->rank[src].step;
    flow->bytes = flow->motion.left = bytes;
    flow->motion.rate = 0;
    flow->begin = flow->motion.since = engine->now;
    flow->active = false;
    flow->eager = eager;
    if (options->bandwidth_factors > 0)
        flow->motion.left /= pdl__flow_factor(options->bandwidth_factor, options->bandwidth_factors, bytes);
    if (returns && layer->exchange > 0 && bytes >= layer->exchange_bytes) flow->motion.left /= layer->exchange;
    status = find_way(engine, id, &latency);
    if (status) return status;
    engine->flows++;
    if (engine->buffered && queue_behind(engine, id)) return PDL_OK;
    if (latency > 0) return pdl__queue_add(&engine->queue, engine->net.first_entity + id, engine->now + latency);
    pdl__network_begin(&engine->net, id);
    return PDL_OK;
}

static bool is_eager(const pdl__engine_t *engine, double bytes)
{
    return engine->buffered || (engine->options->eager_bytes > 0 && bytes <= engine->options->eager_bytes);
}

/* Takes the eager messages of this step that came early off the list of a rank, and counts them. */
static void claim_arrived(pdl__engine_t *engine, int32_t id)
{
    pdl__rank_t *rank = &engine->rank[id];
    int32_t     *at = &rank->arrived;

    while (*at >= 0) {
        int32_t      flow = *at;
        pdl__flow_t *f = &engine->net.flow[flow];

        if (f->step == rank->step) {
            *at = f->order;
            rank->pending--;
            pdl__network_release(&engine->net, flow);
        } else {
            at = &f->order;
        }
    }
}

static void complete_one(pdl__engine_t *engine, int32_t id)
{
    if (--engine->rank[id].pending == 0) engine->ready[engine->readies++] = id;
}

void pdl__flow_arrive(pdl__engine_t *engine, int32_t flow)
{
    pdl__flow_t *f = &engine->net.flow[flow];
    pdl__rank_t *dst = &engine->rank[f->dst];

    if (engine->buffered)
        move_next(engine, flow);
    else
        complete_one(engine, f->src);
    if (dst->step == f->step) {
        complete_one(engine, f->dst);
        pdl__network_release(&engine->net, flow);
    } else {
        f->order = dst->arrived;
        dst->arrived = flow;
    }
}

static pdl_status_t start_messages(pdl__engine_t *engine, int32_t id)
{
    pdl__rank_t      *rank = &engine->rank[id];
    const pdl__job_t *job = &engine->job[rank->job];
    pdl_status_t      status;

    for (int i = 0; i < engine->sends.move_count; i++) {
        const pdl_coll_move_t *move = &engine->sends.move[i];
        int32_t                peer = job->base + move->peer;
        double                 bytes = pdl__flow_bytes(job, &engine->sends, move);
        bool                   eager = is_eager(engine, bytes);

        if (!eager && engine->rank[peer].step != rank->step) continue;
        status = start_flow(engine, id, peer, bytes, eager, pdl__flow_returns(&engine->receives, move->peer));
        if (status) return status;
    }
    for (int i = 0; i < engine->receives.move_count; i++) {
        const pdl_coll_move_t *move = &engine->receives.move[i];
        int32_t                peer = job->base + move->peer;
        double                 bytes = pdl__flow_bytes(job, &engine->receives, move);

        if (move->op == PDL_MOVE_REDUCE) rank->reduced += bytes;
        if (engine->rank[peer].step != rank->step || peer == id || is_eager(engine, bytes)) continue;
        status = start_flow(engine, peer, id, bytes, false, pdl__flow_returns(&engine->sends, move->peer));
        if (status) return status;
    }
    return PDL_OK;
}

/* Enters the next step; the rank waits in it while `pending` is not 0. */
static pdl_status_t enter_step(pdl__engine_t *engine, int32_t id)
{
    pdl__rank_t *rank = &engine->rank[id];
    pdl__job_t  *job = &engine->job[rank->job];
    pdl_status_t status;

    rank->step++;
    if (rank->step >= job->steps) {
        job->left--;
        if (engine->now > job->end) job->end = engine->now;
        return PDL_OK;
    }
    pdl_schedule_sends(job->schedule, rank->step, id - job->base, &engine->sends);
    pdl_schedule_receives(job->schedule, rank->step, id - job->base, &engine->receives);
    rank->pending = engine->receives.move_count + (engine->buffered ? 0 : engine->sends.move_count);
    status = start_messages(engine, id);
    if (!status && rank->arrived >= 0) claim_arrived(engine, id);
    return status;
}

pdl_status_t pdl__flow_advance(pdl__engine_t *engine, int32_t id)
{
    pdl__rank_t *rank = &engine->rank[id];
    int32_t      steps = engine->job[rank->job].steps;
    double       gamma = engine->options->gamma_s_per_byte;

    if (id == 0) engine->leader_moved = true;
    while (rank->step < steps) {
        double       ticks = gamma * rank->reduced / engine->tick_s;
        pdl_status_t status;

        rank->reduced = 0;
        if (ticks >= (double)(PDL__NEVER / 4)) return PDL_ERR_LIMIT;
        if (ticks > 0) return pdl__queue_add(&engine->queue, id, engine->now + (pdl__tick_t)llrint(ticks));
        status = enter_step(engine, id);
        if (status || rank->pending > 0) return status;
    }
    return PDL_OK;
}
