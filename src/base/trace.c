/*
 * Timelines as JSON in the format of chrome://tracing, one event a line.
 */
#include <paradl/base/document.h>
#include <paradl/base/trace.h>

#include <math.h>

void pdl_trace_begin(pdl_trace_t *trace, FILE *stream)
{
    pdl_document_begin_line(&trace->json, stream, "trace/1");
    pdl_json_string(&trace->json, "displayTimeUnit", "ms");
    pdl_json_open(&trace->json, "traceEvents", '[');
}

void pdl_trace_begin_part(pdl_trace_t *trace, FILE *stream)
{
    pdl_json_begin_line(&trace->json, stream);
    pdl_json_open(&trace->json, NULL, '[');
}

/* A part is a list: what is between its brackets goes behind what has been written. */
void pdl_trace_append(pdl_trace_t *trace, const char *part, size_t length)
{
    pdl_json_t *json = &trace->json;

    while (length > 0 && part[length - 1] != ']') length--;
    if (length <= 2) return;
    if (!json->empty[json->depth - 1]) putc(',', json->stream);
    json->empty[json->depth - 1] = false;
    fwrite(part + 1, 1, length - 2, json->stream);
}

/* Microseconds, to the nanosecond. */
static double microseconds(double seconds)
{
    return round(1e9 * seconds) / 1e3;
}

static void begin_event(pdl_trace_t *trace, const char *phase, const char *name, int64_t process)
{
    pdl_json_row(&trace->json);
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

void pdl_trace_label(pdl_trace_t *trace, int64_t process, const char *text)
{
    begin_event(trace, "M", "process_labels", process);
    pdl_json_open(&trace->json, "args", '{');
    pdl_json_string(&trace->json, "labels", text);
    pdl_json_close(&trace->json);
    pdl_json_close(&trace->json);
}

void pdl_trace_counter(pdl_trace_t *trace, int64_t process, const char *name, double at_s, double value)
{
    begin_event(trace, "C", name, process);
    pdl_json_number(&trace->json, "ts", microseconds(at_s));
    pdl_json_open(&trace->json, "args", '{');
    pdl_json_number(&trace->json, "value", value);
    pdl_json_close(&trace->json);
    pdl_json_close(&trace->json);
}

void pdl_trace_slice(pdl_trace_t *trace, const pdl_trace_slice_t *slice)
{
    begin_event(trace, "X", slice->name, slice->process);
    if (slice->category != NULL) pdl_json_string(&trace->json, "cat", slice->category);
    pdl_json_int(&trace->json, "tid", slice->thread);
    pdl_json_number(&trace->json, "ts", microseconds(slice->start_s));
    pdl_json_number(&trace->json, "dur", microseconds(slice->end_s - slice->start_s));
    if (slice->args != NULL) {
        pdl_json_raw(&trace->json, "args", slice->args);
    } else if (slice->micro_batch >= 0 || slice->fact_count > 0) {
        pdl_json_open(&trace->json, "args", '{');
        if (slice->micro_batch >= 0) pdl_json_int(&trace->json, "micro_batch", slice->micro_batch);
        for (int i = 0; i < slice->fact_count; i++)
            pdl_json_number(&trace->json, slice->facts[i].key, slice->facts[i].value);
        pdl_json_close(&trace->json);
    }
    pdl_json_close(&trace->json);
}

void pdl_trace_event(pdl_trace_t *trace, const char *text)
{
    pdl_json_row(&trace->json);
    pdl_json_raw(&trace->json, NULL, text);
}

void pdl_trace_end(pdl_trace_t *trace)
{
    while (trace->json.depth > 0) pdl_json_close(&trace->json);
}
