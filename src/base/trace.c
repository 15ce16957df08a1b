/*
 * Timelines as JSON in the format of chrome://tracing, one event a line.
 */
#include <paradl/base/document.h>
#include <paradl/base/trace.h>

void pdl_trace_begin(pdl_trace_t *trace, FILE *stream)
{
    pdl_document_begin_line(&trace->json, stream, "trace/1");
    pdl_json_string(&trace->json, "displayTimeUnit", "ms");
    pdl_json_open(&trace->json, "traceEvents", '[');
}

static void begin_event(pdl_trace_t *trace, const char *phase, const char *name, int64_t process)
{
    pdl_json_open(&trace->json, NULL, '{');
    pdl_json_string(&trace->json, "ph", phase);
    pdl_json_string(&trace->json, "name", name);
    pdl_json_int(&trace->json, "pid", process);
}

void pdl_trace_name(pdl_trace_t *trace, int64_t process, int thread, const char *name)
{
    begin_event(trace, "M", thread < 0 ? "process_name" : "thread_name", process);
    if (thread >= 0) pdl_json_int(&trace->json, "tid", thread);
    pdl_json_open(&trace->json, "args", '{');
    pdl_json_string(&trace->json, "name", name);
    pdl_json_close(&trace->json);
    pdl_json_close(&trace->json);
}

void pdl_trace_slice(pdl_trace_t *trace, const pdl_trace_slice_t *slice)
{
    begin_event(trace, "X", slice->name, slice->process);
    if (slice->category != NULL) pdl_json_string(&trace->json, "cat", slice->category);
    pdl_json_int(&trace->json, "tid", slice->thread);
    pdl_json_number(&trace->json, "ts", 1e6 * slice->start_s);
    pdl_json_number(&trace->json, "dur", 1e6 * (slice->end_s - slice->start_s));
    if (slice->micro_batch >= 0 || slice->fact_count > 0) {
        pdl_json_open(&trace->json, "args", '{');
        if (slice->micro_batch >= 0) pdl_json_int(&trace->json, "micro_batch", slice->micro_batch);
        for (int i = 0; i < slice->fact_count; i++)
            pdl_json_number(&trace->json, slice->facts[i].key, slice->facts[i].value);
        pdl_json_close(&trace->json);
    }
    pdl_json_close(&trace->json);
}

void pdl_trace_end(pdl_trace_t *trace)
{
    pdl_json_close(&trace->json);
    pdl_json_close(&trace->json);
}
