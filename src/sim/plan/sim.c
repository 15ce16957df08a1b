/*
 * Simulation of a plan: projects it, prices its communications on the network, replays it, and says where
 * the time goes.
 */
#include "base/clock.h"
#include "sim/plan/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

pdl_plan_sim_options_t pdl_plan_sim_options_default(void)
{
    return (pdl_plan_sim_options_t){.engine = PDL_ENGINE_FLOW, .slow_factor = 1, .trace_ranks = 8};
}

static pdl_status_t report(const pdl__pricer_t *pricer, pdl_plan_sim_t *sim)
{
    sim->comms = calloc((size_t)pricer->count + 1, sizeof(*sim->comms));
    if (sim->comms == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the communications of a plan");
    for (int i = 0; i < pricer->count; i++) sim->comms[i] = pricer->prices[i].comm;
    sim->comm_count = pricer->count;
    sim->flows = pricer->flows;
    pdl__sim_links(pricer, sim);
    return PDL_OK;
}

static pdl_status_t time_stages(const pdl_plan_t *plan, pdl_slow_t slow, pdl__pricer_t *pricer, pdl_plan_sim_t *sim)
{
    pdl_stage_time_t *times = calloc((size_t)sim->stage_count, sizeof(*times));
    pdl_status_t      status;

    sim->stages = calloc((size_t)sim->stage_count, sizeof(*sim->stages));
    status = times == NULL || sim->stages == NULL
                 ? pdl_error(PDL_ERR_NOMEM, "out of memory for %d stages", sim->stage_count)
                 : pdl_oracle_time_stages(pricer->oracle, plan, &pricer->base, slow, times, &sim->simulated);
    for (int s = 0; s < sim->stage_count && !status; s++) {
        double total_s = sim->simulated.total_s, busy_s = times[s].compute_s + times[s].comm_s;

        sim->stages[s] = (pdl_stage_sim_t){.first_layer = times[s].first_layer,
                                           .last_layer = times[s].last_layer,
                                           .compute_s = times[s].compute_s,
                                           .comm_s = times[s].comm_s,
                                           .end_s = times[s].end_s,
                                           .idle_share = total_s > 0 ? fmax(0, 1 - busy_s / total_s) : 0};
        sim->gradient_total_s = fmax(sim->gradient_total_s, times[s].exchange_s);
    }
    free(times);
    return status;
}

/* What the programs of the stages do, where it is these that are timed. */
static pdl_status_t take_programs(const pdl_timeline_t *timeline, pdl_plan_sim_t *sim)
{
    pdl_status_t status = pdl_timeline_parts(timeline, &sim->simulated);

    for (int s = 0; s < timeline->count && !status; s++) {
        const pdl_replay_rank_t *rank = &timeline->ranks[s];
        pdl_stage_sim_t         *stage = &sim->stages[s];

        stage->compute_s = stage->comm_s = stage->end_s = 0;
        for (int i = 0; i < rank->program->op_count; i++) {
            const pdl_program_op_t *op = &rank->program->op[i];

            if (op->stream == PDL_STREAM_COMPUTE) stage->compute_s += rank->seconds[i];
            if (op->kind == PDL_OP_REDISTRIBUTE) stage->comm_s += rank->seconds[i];
            stage->end_s = fmax(stage->end_s, rank->end_s[i]);
        }
        stage->idle_share = fmax(0, 1 - (stage->compute_s + stage->comm_s) / timeline->total_s);
    }
    return status;
}

/* The programs that its ranks would execute, with communications as they are on the network: for a trace, and on machines where
   this library trains as the simulation itself. */
static pdl_status_t time_programs(const pdl_plan_t *plan, const pdl_plan_sim_options_t *options,
                                  pdl__pricer_t *pricer, pdl_plan_sim_t *sim)
{
    pdl_slow_t slow = {options->slow_rank, options->slow_factor};
    bool       ours = sim->projected.replayed;

    if (!ours && options->trace == NULL) return PDL_OK;
    pdl_status_t status = pdl_timeline_create(pricer->oracle, plan, &pricer->base, slow, &sim->timeline);
    if (!status && ours) status = take_programs(sim->timeline, sim);
    if (!status && options->trace != NULL)
        pdl_replay_trace(sim->timeline->ranks,
                         sim->timeline->count < options->trace_ranks ? sim->timeline->count : options->trace_ranks,
                         options->trace);
    return status;
}

static pdl_status_t simulate(pdl_oracle_t *oracle, const pdl_plan_t *plan, const pdl_plan_sim_options_t *options,
                             pdl_plan_sim_t *sim)
{
    pdl_slow_t    slow = {options->slow_rank, options->slow_factor};
    pdl__pricer_t pricer = {0};
    pdl_status_t  status = pdl__pricer_create(oracle, sim->ranks, options->engine, &pricer);

    if (!status) status = time_stages(plan, slow, &pricer, sim);
    if (!status) status = time_programs(plan, options, &pricer, sim);
    if (!status) status = report(&pricer, sim);
    pdl__pricer_free(&pricer);
    return status;
}

static pdl_status_t check_options(const pdl_plan_t *plan, const pdl_plan_sim_options_t *options)
{
    int64_t ranks = pdl_mesh_size(&plan->mesh);

    if (options->engine != PDL_ENGINE_FLOW && options->engine != PDL_ENGINE_LOADS)
        return pdl_error(PDL_ERR_INPUT, "plans are simulated by the engines flow and loads, not by %s",
                         pdl_engine_names[options->engine]);
    if (options->slow_rank < 0 || options->slow_rank >= ranks)
        return pdl_error(PDL_ERR_INPUT, "the plan has ranks 0 to %lld, not %lld", (long long)ranks - 1,
                         (long long)options->slow_rank);
    if (!(options->slow_factor > 0) || isinf(options->slow_factor))
        return pdl_error(PDL_ERR_INPUT, "a rank is slower by a factor above 0, not by %g", options->slow_factor);
    return pdl_plan_check(plan);
}

pdl_status_t pdl_sim_plan(pdl_oracle_t *oracle, pdl_plan_t *plan, const pdl_plan_sim_options_t *options,
                          pdl_plan_sim_t **out)
{
    double          begin = pdl__seconds();
    pdl_plan_sim_t *sim;
    pdl_status_t    status = check_options(plan, options);

    if (status) return status;
    sim = calloc(1, sizeof(*sim));
    if (sim == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a simulation");
    sim->ranks = pdl_mesh_size(&plan->mesh);
    sim->stage_count = (int)pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE);
    sim->engine = options->engine;
    status = pdl_oracle_settle(oracle, plan);
    if (!status) status = pdl_oracle_replay(oracle, plan, NULL, &sim->projected);
    if (!status) status = simulate(oracle, plan, options, sim);
    if (status) {
        pdl_plan_sim_destroy(sim);
        return status;
    }
    sim->wall_s = pdl__seconds() - begin;
    *out = sim;
    return PDL_OK;
}

void pdl_plan_sim_destroy(pdl_plan_sim_t *sim)
{
    if (sim == NULL) return;
    free(sim->stages);
    free(sim->comms);
    pdl_timeline_destroy(sim->timeline);
    free(sim);
}
