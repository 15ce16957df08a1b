/*
 * The timeline of a simulation as Chrome/Perfetto JSON: one process per job, one track per sending rank, one slice
 * per message from the moment both sides were ready.
 */
#include "sim/flow.h"

void pdl__trace_begin(const pdl__engine_t *engine)
{
    fprintf(engine->options->trace, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    for (int32_t j = 0; j < engine->jobs; j++)
        fprintf(engine->options->trace,
                "%s\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"%s %s, job %d\"}}",
                j > 0 ? "," : "", (int)j, pdl_collective_names[pdl_schedule_collective(engine->job[j].schedule)],
                pdl_schedule_algorithm(engine->job[j].schedule), (int)j);
}

void pdl__trace_flow(pdl__engine_t *engine, const pdl__flow_t *flow)
{
    int    job = engine->rank[flow->src].job;
    int    base = engine->job[job].base;
    double us = engine->tick_s * 1e6;
    double begin = (double)flow->begin * us, duration = (double)(engine->now - flow->begin) * us;

    fprintf(
        engine->options->trace,
        ",\n{\"ph\":\"X\",\"name\":\"to %d\",\"cat\":\"step %d\",\"pid\":%d,\"tid\":%d,\"ts\":%.9g,\"dur\":%.9g,"
        "\"args\":{\"step\":%d,\"bytes\":%.17g,\"hops\":%d}}",
        flow->dst - base, flow->step, job, flow->src - base, begin, duration, flow->step, flow->bytes,
        flow->forward);
}

void pdl__trace_end(const pdl__engine_t *engine)
{
    fprintf(engine->options->trace, "\n]}\n");
}
