/*
 * The main loop of the flow-level engine: one instant after the other, all events of an instant together.
 */
#include "sim/flow.h"
#include "base/clock.h"

#include <math.h>
#include <stdlib.h>

static pdl_status_t create_jobs(pdl__engine_t *engine, const pdl_sim_job_t *jobs, int job_count)
{
    int64_t ranks = 0;

    for (int j = 0; j < job_count; j++) ranks += pdl_schedule_ranks(jobs[j].schedule);
    if (ranks > INT32_MAX / 4)
        return pdl_error(PDL_ERR_NOMEM, "too many ranks to simulate: %lld", (long long)ranks);
    engine->ranks = (int32_t)ranks;
    engine->jobs = job_count;
    engine->rank = calloc((size_t)ranks + 1, sizeof(*engine->rank));
    engine->ready = calloc((size_t)ranks + 1, sizeof(*engine->ready));
    engine->job = calloc((size_t)job_count + 1, sizeof(*engine->job));
    if (engine->rank == NULL || engine->ready == NULL || engine->job == NULL)
        return pdl_error(PDL_ERR_NOMEM, "out of memory for %lld simulated ranks", (long long)ranks);
    ranks = 0;
    for (int j = 0; j < job_count; j++) {
        pdl__job_t *job = &engine->job[j];

        pdl__flow_size_job(job, jobs[j].schedule, jobs[j].bytes,
                           pdl__flow_repeats(jobs[j].schedule, engine->options, job_count));
        job->base = (int32_t)ranks;
        job->left = job->ranks;
        for (int r = 0; r < job->ranks; r++)
            engine->rank[ranks + r] = (pdl__rank_t){.job = j,
                                                    .step = -1,
                                                    .arrived = -1,
                                                    .sent = -1,
                                                    .host = jobs[j].hosts != NULL ? jobs[j].hosts[r] : r};
        ranks += job->ranks;
    }
    return PDL_OK;
}

static pdl_status_t queue_starts(pdl__engine_t *engine, const pdl_sim_job_t *jobs)
{
    for (int32_t r = 0; r < engine->ranks; r++) {
        const pdl__job_t *job = &engine->job[engine->rank[r].job];
        const double     *start = jobs[engine->rank[r].job].start_s;
        double            ticks = start != NULL ? start[r - job->base] / engine->tick_s : 0;

        if (ticks >= (double)(PDL__NEVER / 4)) return PDL_ERR_LIMIT;
        if (pdl__queue_add(&engine->queue, r, (pdl__tick_t)llrint(ticks))) return PDL_ERR_NOMEM;
    }
    return PDL_OK;
}

static void end_flow(pdl__engine_t *engine, int32_t flow)
{
    pdl__network_end(&engine->net, flow);
    if (engine->options->trace != NULL) pdl__trace_flow(engine, &engine->net.flow[flow]);
    pdl__flow_arrive(engine, flow);
}

/* The flows that a link holds and that end now. */
static void end_flows_of(pdl__engine_t *engine, int32_t link)
{
    int32_t        count;
    const int32_t *due = pdl__network_due(&engine->net, link, engine->now, &count);

    for (int32_t i = 0; i < count; i++) end_flow(engine, due[i]);
    engine->events += count;
}

/* Sorts the events of an instant: messages that arrive, flows that have waited their latency, ranks that wake. */
static void take_events(pdl__engine_t *engine, int32_t entity)
{
    while (entity >= 0) {
        int32_t next = engine->queue.entity[entity].next;
        int32_t link = entity - engine->net.first_link, flow = entity - engine->net.first_entity;

        engine->events++;
        if (link < 0) {
            engine->ready[engine->readies++] = entity;
        } else if (flow < 0) {
            engine->events--; /* those of its flows count */
            end_flows_of(engine, link);
        } else if (engine->net.flow[flow].active) {
            end_flow(engine, flow);
        } else {
            pdl__network_begin(&engine->net, flow);
        }
        entity = next;
    }
}

static pdl_status_t move_ranks(pdl__engine_t *engine)
{
    for (int32_t i = 0; i < engine->readies; i++) {
        pdl_status_t status = pdl__flow_advance(engine, engine->ready[i]);

        if (status) return status;
    }
    engine->readies = 0;
    return PDL_OK;
}

/* A line of progress, written over the one before, when a second has passed. */
static void tell_progress(pdl__engine_t *engine, double *told)
{
    if (engine->options->progress == NULL || pdl__seconds() - *told < 1) return;
    *told = pdl__seconds();
    engine->told = true;
    fprintf(engine->options->progress, "\rsimulate %s: step %d of %d, %.6g s simulated, %lld flows\033[K",
            pdl_schedule_algorithm(engine->job[0].schedule), engine->rank[0].step + 1, engine->job[0].steps,
            (double)engine->now * engine->tick_s, (long long)engine->flows);
    fflush(engine->options->progress);
}

/* Results follow on a clean line. */
static void end_progress(const pdl__engine_t *engine)
{
    if (!engine->told) return;
    fputs("\r\033[K", engine->options->progress);
    fflush(engine->options->progress);
}

static pdl_status_t run_events(pdl__engine_t *engine)
{
    double told = pdl__seconds();

    for (;;) {
        int32_t      first = pdl__queue_pop(&engine->queue, &engine->now);
        pdl_status_t status;

        if (engine->now == PDL__NEVER) return PDL_OK;
        if (engine->now > PDL__NEVER / 4) return PDL_ERR_LIMIT;
        take_events(engine, first);
        status = move_ranks(engine);
        if (!status) status = pdl__network_settle(&engine->net, engine->now);
        if (!status && engine->leader_moved && engine->periodic != NULL) status = pdl__periodic_look(engine);
        if (status) return status;
        engine->leader_moved = false;
        tell_progress(engine, &told);
    }
}

static pdl_status_t deliver(const pdl__engine_t *engine, pdl_sim_result_t *result)
{
    for (int32_t j = 0; j < engine->jobs; j++) {
        const pdl__job_t *job = &engine->job[j];

        if (job->left > 0)
            return pdl_error(PDL_ERR_INPUT, "algorithm %s: %d of %d ranks wait for messages that nobody sends",
                             pdl_schedule_algorithm(job->schedule), job->left, job->ranks);
        result->job_s[j] = (double)job->end * engine->tick_s;
        if (result->job_s[j] > result->time_s) result->time_s = result->job_s[j];
        if (job->steps > result->steps) result->steps = job->steps;
        if (job->mean_blocks) result->mean_blocks = true;
    }
    for (int32_t i = 0; i < engine->net.wires; i++) result->link_bytes[i] = engine->net.bytes[i];
    result->flows = engine->flows;
    result->events = engine->events;
    return PDL_OK;
}

static void destroy_engine(pdl__engine_t *engine)
{
    pdl__periodic_destroy(engine);
    pdl__queue_destroy(&engine->queue);
    pdl__network_destroy(&engine->net);
    pdl__routes_destroy(&engine->routes);
    free(engine->rank);
    free(engine->ready);
    free(engine->job);
}

/* Partners stay the same in the rings of a schedule. */
static bool has_rings(const pdl_sim_job_t *jobs, int job_count)
{
    int first[PDL_MAX_PERIODS], last[PDL_MAX_PERIODS];

    for (int j = 0; j < job_count; j++)
        if (pdl_schedule_period(jobs[j].schedule, first, last) > 0) return true;
    return false;
}

static pdl_status_t run_engine(pdl__engine_t *engine, const pdl_sim_job_t *jobs, int job_count,
                               pdl_sim_result_t *result)
{
    pdl_status_t status = create_jobs(engine, jobs, job_count);

    if (status) return status;
    if (pdl__queue_create(&engine->queue, engine->ranks) ||
        pdl__network_create(&engine->net, engine->topology, engine->tick_s, engine->stride, &engine->queue,
                            engine->ranks) ||
        pdl__routes_create(&engine->routes, engine->topology, engine->stride, has_rings(jobs, job_count)))
        return PDL_ERR_NOMEM;
    status = pdl__periodic_create(engine);
    if (!status) status = queue_starts(engine, jobs);
    if (!status && engine->options->trace != NULL) pdl__trace_begin(engine);
    if (!status) status = run_events(engine);
    end_progress(engine);
    if (!status && engine->options->trace != NULL) pdl__trace_end(engine);
    return status ? status : deliver(engine, result);
}

/* Starts with the finest tick and short routes; what does not fit is run again with what it needs. */
static pdl_status_t run_until_it_fits(pdl__engine_t *engine, const pdl_sim_job_t *jobs, int job_count,
                                      pdl_sim_result_t *result)
{
    pdl__engine_t start = *engine;

    for (;;) {
        pdl_status_t status = run_engine(engine, jobs, job_count, result);
        bool         too_long = engine->too_long;

        destroy_engine(engine);
        if (status != PDL_ERR_LIMIT) return status;
        if (too_long) {
            start.stride *= 2;
        } else if (start.tick_s < 0x1p-20) {
            start.tick_s *= 0x1p10;
        } else {
            return pdl_error(PDL_ERR_LIMIT, "the simulated time is too long: use fewer bytes or faster links");
        }
        *engine = start;
    }
}

pdl_status_t pdl__sim_flow(const pdl_topology_t *topology, const pdl_sim_job_t *jobs, int job_count,
                           const pdl_sim_options_t *options, pdl_sim_result_t *result)
{
    const pdl_message_layer_t *messages = &pdl_topology_get_spec(topology)->messages;
    pdl__engine_t             *engine = calloc(1, sizeof(*engine));
    pdl_sim_options_t          silent = *options;
    pdl_status_t               status;

    if (engine == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the simulation");
    silent.trace = NULL;
    engine->topology = topology;
    engine->options = &silent;
    engine->buffered = messages->buffered;
    engine->reverse = options->reverse_share > 0 ? options->reverse_share : messages->reverse;
    if (engine->buffered) silent.periodic = false;
    engine->tick_s = 0x1p-50;
    engine->stride = 8;
    status = run_until_it_fits(engine, jobs, job_count, result);
    if (!status && options->trace != NULL) {
        /* A trace is written once, when it is known what fits. */
        pdl__engine_t again = {.topology = topology,
                               .options = options,
                               .buffered = engine->buffered,
                               .reverse = engine->reverse,
                               .tick_s = engine->tick_s,
                               .stride = engine->stride};

        *engine = again;
        result->time_s = 0;
        status = run_engine(engine, jobs, job_count, result);
        destroy_engine(engine);
    }
    free(engine);
    return status;
}
