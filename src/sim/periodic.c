/*
 * The shortcut for long rings. In the repeating steps of a schedule the network is a machine without input: when
 * the whole state (steps of the ranks relative to rank 0, times of all events relative to now, bytes left and
 * rates of all flows) is the same at two instants at which rank 0 enters a step, and messages have the same sizes
 * from there on, everything in between repeats.
 * The time between them is then added as often as whole periods fit, and the rest is simulated. Times are
 * integers, so that the states are equal to the bit or not at all; they are compared by a hash of 128 bits, summed
 * over ranks and flows because the order in which these are stored differs.
 */
#include "sim/flow.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY 4096 /* states that are remembered */

typedef struct state {
    uint64_t    hash[2];
    pdl__tick_t now;
    int32_t     step;
    int64_t     events;
} state_t;

struct pdl__periodic {
    int     first[PDL_MAX_PERIODS], last[PDL_MAX_PERIODS];
    int64_t sizes[PDL_MAX_PERIODS]; /* steps after which sizes repeat; 0: they do not */
    int     groups, group;
    int     seen;
    state_t state[MEMORY];
};

/* Stragglers and reductions are part of the state; early messages and the order of several jobs are not. */
pdl_status_t pdl__periodic_create(pdl__engine_t *engine)
{
    pdl__periodic_t *periodic;

    if (engine->jobs < 1 || !pdl__flow_repeats(engine->job[0].schedule, engine->options, engine->jobs))
        return PDL_OK;
    periodic = calloc(1, sizeof(*periodic));
    if (periodic == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the simulation");
    periodic->groups = pdl_schedule_period(engine->job[0].schedule, periodic->first, periodic->last);
    for (int g = 0; g < periodic->groups; g++) {
        const pdl__job_t *job = &engine->job[0];

        periodic->sizes[g] = job->block_bytes > 0 ? 1 : pdl_schedule_size_period(job->schedule, g, job->elements);
    }
    engine->periodic = periodic;
    return PDL_OK;
}

void pdl__periodic_destroy(pdl__engine_t *engine)
{
    free(engine->periodic);
    engine->periodic = NULL;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Adds one rank or flow; the second half of the hash goes another way. */
static void add(uint64_t sum[2], uint64_t hash)
{
    sum[0] += mix(hash, 0x2545F4914F6CDD1Du);
    sum[1] += mix(hash ^ 0xD6E8FEB86659FD93u, hash >> 32);
}

static void add_ranks(const pdl__engine_t *engine, uint64_t sum[2])
{
    int32_t leader = engine->rank[0].step;

    for (int32_t r = 0; r < engine->ranks; r++) {
        const pdl__rank_t *rank = &engine->rank[r];
        uint64_t           hash = mix((uint64_t)r + 1, (uint64_t)(int64_t)(rank->step - leader));

        hash = mix(hash, (uint64_t)rank->pending);
        if (engine->queue.entity[r].bucket >= 0)
            hash = mix(hash, (uint64_t)(pdl__queue_tick(&engine->queue, r) - engine->now));
        add(sum, hash);
    }
}

static void add_flows(const pdl__engine_t *engine, uint64_t sum[2])
{
    for (int32_t i = 0; i < engine->net.flows; i++) {
        const pdl__flow_t *f = &engine->net.flow[i];
        int32_t            entity = engine->net.first_entity + i;
        pdl__motion_t      now = pdl__network_motion(&engine->net, i);
        uint64_t           hash;

        if (!f->active && engine->queue.entity[entity].bucket < 0) continue;
        hash = mix((uint64_t)f->src << 32 | (uint64_t)f->dst, bits_of(now.left));
        hash = mix(hash, (uint64_t)((f->active ? now.end : pdl__queue_tick(&engine->queue, entity)) - engine->now));
        if (f->active) hash = mix(mix(hash, bits_of(now.rate)), (uint64_t)(engine->now - now.since));
        add(sum, hash);
    }
}

/* True when every rank is inside the repeating steps; the furthest of them. */
static bool inside(const pdl__engine_t *engine, int first, int last, int32_t *furthest)
{
    *furthest = 0;
    for (int32_t r = 0; r < engine->ranks; r++) {
        int32_t step = engine->rank[r].step;

        if (step < first || step >= last) return false;
        if (step > *furthest) *furthest = step;
    }
    return true;
}

/* Every message of one repeating step, `times` over: bytes of the links, and the number of flows. */
static void count_steps(pdl__engine_t *engine, int32_t step, int64_t times)
{
    const pdl__job_t *job = &engine->job[0];

    for (int32_t r = 0; r < engine->ranks; r++) {
        pdl_schedule_sends(job->schedule, step, r, &engine->sends);
        for (int i = 0; i < engine->sends.move_count; i++) {
            const pdl_coll_move_t *move = &engine->sends.move[i];
            double                 bytes = pdl__flow_bytes(job, &engine->sends, move);
            const pdl__route_t    *route;

            engine->flows += times;
            if (engine->rank[r].host == engine->rank[move->peer].host) continue;
            route = pdl__routes_find(&engine->routes, engine->rank[r].host, engine->rank[move->peer].host, bytes);
            for (int h = 0; h < route->hops; h++) engine->net.bytes[route->links[h]] += bytes * (double)times;
        }
    }
}

/* Repeats what happened since `seen` as often as the furthest rank stays inside the group. */
static pdl_status_t jump(pdl__engine_t *engine, const state_t *seen, int32_t furthest)
{
    int32_t     leader = engine->rank[0].step, period = leader - seen->step;
    int64_t     times = (engine->periodic->last[engine->periodic->group] - 1 - furthest) / period;
    int64_t     sizes = engine->periodic->sizes[engine->periodic->group], steps = times * period;
    pdl__tick_t ticks = engine->now - seen->now;

    if (times <= 0) return PDL_OK;
    if (ticks > 0 && times > PDL__NEVER / 4 / ticks) return PDL_ERR_LIMIT;
    ticks *= times;
    engine->events += times * (engine->events - seen->events);
    engine->now += ticks;
    pdl__queue_shift(&engine->queue, ticks);
    for (int32_t r = 0; r < engine->ranks; r++) engine->rank[r].step += (int32_t)steps;
    for (int32_t i = 0; i < engine->net.flows; i++) engine->net.flow[i].step += (int32_t)steps;
    pdl__network_shift(&engine->net, ticks);
    for (int32_t s = 0; s < sizes; s++) count_steps(engine, leader + s, steps / sizes);
    return PDL_OK;
}

pdl_status_t pdl__periodic_look(pdl__engine_t *engine)
{
    pdl__periodic_t *p = engine->periodic;
    int32_t          step = engine->rank[0].step, furthest;
    state_t          now = {.now = engine->now, .step = step, .events = engine->events};

    while (p->group < p->groups && step >= p->last[p->group]) {
        p->group++;
        p->seen = 0;
    }
    if (p->group == p->groups || step < p->first[p->group] || p->seen == MEMORY) return PDL_OK;
    if (p->sizes[p->group] == 0 || (step - p->first[p->group]) % p->sizes[p->group] != 0) return PDL_OK;
    if (!inside(engine, p->first[p->group], p->last[p->group], &furthest)) return PDL_OK;
    add_ranks(engine, now.hash);
    add_flows(engine, now.hash);
    for (int i = p->seen - 1; i >= 0; i--) {
        if (memcmp(p->state[i].hash, now.hash, sizeof(now.hash)) != 0) continue;
        p->seen = MEMORY; /* the rest of the group is shorter than a period */
        return jump(engine, &p->state[i], furthest);
    }
    p->state[p->seen++] = now;
    return PDL_OK;
}
