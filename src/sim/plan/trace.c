/*
 * The timeline of a plan as Chrome/Perfetto JSON: a process for one rank of each stage shown, with threads for
 * computation, communication inside layers, transfers between stages, and gradient exchange.
 */
#include "sim/plan/plan.h"

#include <paradl/base/trace.h>
#include <paradl/program/program.h>

#include <stdlib.h>

/* Passes are broken down into layers as long as that makes no more slices than this. */
#define MOST_LAYER_SLICES 400000

enum { THREAD_COMPUTE, THREAD_LAYER, THREAD_SEND, THREAD_EXCHANGE, THREAD_COUNT };
static const char *const thread_names[THREAD_COUNT] = {"computation", "layer communication", "stage transfer",
                                                       "gradient exchange"};

typedef struct trace {
    const pdl__cut_t *cut;
    const pdl_plan_t *plan;
    pdl_trace_t       trace;
    int               stages; /* shown */
    bool              layers; /* shown */
} trace_t;

static int64_t rank_of(const trace_t *trace, int stage)
{
    return stage * trace->cut->c.pipeline_stride;
}

static void add_slice(trace_t *trace, const char *name, const pdl__slice_t *slice, int thread, double start_s,
                      double seconds)
{
    pdl_trace_slice(&trace->trace, &(pdl_trace_slice_t){.process = rank_of(trace, slice->stage),
                                                        .thread = thread,
                                                        .name = name,
                                                        .start_s = start_s,
                                                        .end_s = start_s + seconds,
                                                        .micro_batch = (int)slice->op.micro_batch});
}

/* The layers of a pass share its time in proportion; what a layer waits for comes before it computes. */
static void add_layers(trace_t *trace, const pdl__slice_t *slice, int first, int last, double nominal_s)
{
    double scale = (slice->end_s - slice->start_s) / nominal_s, t = slice->start_s;

    for (int k = first; k < last; k++) {
        int                     i = slice->op.backward ? first + last - 1 - k : k;
        const pdl__pass_time_t *time = &trace->cut->layers[i];
        const double           *part = time->part[slice->op.backward];
        const char             *layer = pdl_model_layer(trace->plan->model, i)->name;
        char                    name[224];
        double                  moved = scale * (part[PDL__PART_LAYER] + part[PDL__PART_HALO]);
        double                  computed = scale * part[PDL__PART_COMPUTE];

        /* As pdl_program_op_name() calls what a run does. */
        snprintf(name, sizeof(name), "%s %s",
                 pdl_op_kind_names[slice->op.backward ? PDL_OP_BACKWARD : PDL_OP_FORWARD], layer);
        if (moved > 0) add_slice(trace, name, slice, THREAD_LAYER, t, moved);
        if (computed > 0) add_slice(trace, name, slice, THREAD_COMPUTE, t + moved, computed);
        t += moved + computed;
    }
}

static void add_pass(trace_t *trace, const pdl__slice_t *slice)
{
    const pdl__cut_t       *cut = trace->cut;
    const pdl__chunk_t     *chunk = &cut->chunks[slice->stage * cut->pipeline.chunks + slice->op.chunk];
    const pdl__segment_t   *segment = slice->segment >= 0 ? &cut->segments[slice->segment] : NULL;
    const pdl__pass_time_t *time = segment != NULL ? &segment->time : &chunk->time;
    double                  nominal_s = pdl__pass_seconds(time, slice->op.backward);

    if (trace->layers && nominal_s > 0)
        add_layers(trace, slice, segment != NULL ? segment->first : chunk->first,
                   segment != NULL ? segment->last : chunk->last, nominal_s);
}

static void on_slice(void *context, const pdl__slice_t *slice)
{
    static const int threads[] = {[PDL__STREAM_COMPUTE] = THREAD_COMPUTE,
                                  [PDL__STREAM_SEND] = THREAD_SEND,
                                  [PDL__STREAM_EXCHANGE] = THREAD_EXCHANGE};
    trace_t         *trace = context;

    if (slice->stage >= trace->stages) return;
    add_slice(trace, slice->name, slice, threads[slice->stream], slice->start_s, slice->end_s - slice->start_s);
    if (slice->pass) add_pass(trace, slice);
}

static void name_processes(trace_t *trace)
{
    for (int s = 0; s < trace->stages; s++) {
        char name[64];

        snprintf(name, sizeof(name), "rank %lld, stage %d", (long long)rank_of(trace, s), s);
        pdl_trace_name(&trace->trace, rank_of(trace, s), -1, name);
        for (int t = 0; t < THREAD_COUNT; t++) pdl_trace_name(&trace->trace, rank_of(trace, s), t, thread_names[t]);
    }
}

pdl_status_t pdl__trace_plan(const pdl__cut_t *cut, const pdl_plan_t *plan, const pdl_plan_sim_options_t *options)
{
    trace_t trace = {.cut = cut, .plan = plan, .stages = cut->pipeline.stages};
    double  passes = (double)pdl_pipeline_op_count(&cut->pipeline) / cut->pipeline.chunks, total_s;

    if (options->trace_ranks < trace.stages) trace.stages = options->trace_ranks;
    trace.layers =
        passes * cut->profile->partition->layer_count * trace.stages / cut->pipeline.stages <= MOST_LAYER_SLICES;
    pdl__played_stage_t *played = calloc((size_t)cut->pipeline.stages, sizeof(*played));
    if (played == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a timeline");
    pdl_trace_begin(&trace.trace, options->trace);
    name_processes(&trace);
    pdl__play_options_t play = {true, true, on_slice, &trace};
    pdl_status_t        status = pdl__play(cut, &play, played, &total_s);
    pdl_trace_end(&trace.trace);
    free(played);
    return status;
}
