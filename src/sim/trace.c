/*
 * The timeline of a simulation for Perfetto: one process per job, one track per sending rank, one slice per message from the
 * moment both sides were ready.
 */
#include "sim/flow.h"

void pdl__trace_begin(pdl__engine_t *engine)
{
    char name[160];

    pdl_trace_begin(&engine->trace, engine->options->trace);
    for (int32_t j = 0; j < engine->jobs; j++) {
        snprintf(name, sizeof(name), "%s %s, job %d",
                 pdl_collective_names[pdl_schedule_collective(engine->job[j].schedule)],
                 pdl_schedule_algorithm(engine->job[j].schedule), (int)j);
        pdl_trace_name(&engine->trace, j, -1, name);
    }
}

void pdl__trace_flow(pdl__engine_t *engine, const pdl__flow_t *flow)
{
    int                    job = engine->rank[flow->src].job, base = engine->job[job].base;
    const pdl_trace_fact_t facts[] = {{"step", flow->step}, {"bytes", flow->bytes}, {"hops", flow->forward}};
    char                   name[32], category[32];

    snprintf(name, sizeof(name), "to %d", (int)(flow->dst - base));
    snprintf(category, sizeof(category), "step %d", (int)flow->step);
    pdl_trace_slice(&engine->trace, &(pdl_trace_slice_t){.process = job,
                                                         .thread = (int)(flow->src - base),
                                                         .name = name,
                                                         .category = category,
                                                         .start_s = (double)flow->begin * engine->tick_s,
                                                         .end_s = (double)engine->now * engine->tick_s,
                                                         .micro_batch = -1,
                                                         .facts = facts,
                                                         .fact_count = 3});
}

void pdl__trace_end(pdl__engine_t *engine)
{
    pdl_trace_end(&engine->trace);
}
