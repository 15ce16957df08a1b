/*
 * Timelines for Perfetto and chrome://tracing: processes with threads, on which slices lie.
 *
 *     pdl_trace_t trace;
 *     pdl_trace_begin(&trace, stream);
 *     pdl_trace_name(&trace, 0, -1, "rank 0");
 *     pdl_trace_name(&trace, 0, 1, "communication");
 *     pdl_trace_slice(&trace, &(pdl_trace_slice_t){.thread = 1, .name = "send", .start_s = 0.5, .end_s = 1, .micro_batch = 0});
 *     pdl_trace_end(&trace);
 *
 * Times are written to the nanosecond. Processes may write their events apart and put them together:
 *
 *     pdl_trace_begin_part(&part, memory);   ...   pdl_trace_end(&part);
 *     pdl_trace_append(&trace, text, length);
 */
#ifndef PARADL_TRACE_H
#define PARADL_TRACE_H

#include <paradl/base/json.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_trace {
    pdl_json_t json;
} pdl_trace_t;

/* More that is known of a slice. */
typedef struct pdl_trace_fact {
    const char *key;
    double      value;
} pdl_trace_fact_t;

typedef struct pdl_trace_slice {
    int64_t     process;
    int         thread;
    const char *name;
    const char *category; /* or NULL */
    double      start_s, end_s;
    int         micro_batch; /* -1: of none */

    const pdl_trace_fact_t *facts;
    int                     fact_count;

    const char *args; /* JSON that is in place of micro-batch and facts; or NULL */
} pdl_trace_slice_t;

void pdl_trace_begin(pdl_trace_t *trace, FILE *stream);
/* Events without the head of a document, for pdl_trace_append(). */
void pdl_trace_begin_part(pdl_trace_t *trace, FILE *stream);
void pdl_trace_append(pdl_trace_t *trace, const char *part, size_t length);
/* Of a process, or of one of its threads. */
void pdl_trace_name(pdl_trace_t *trace, int64_t process, int thread, const char *name);
/* What else is to be known of a process. */
void pdl_trace_label(pdl_trace_t *trace, int64_t process, const char *text);
/* A number that keeps its value up to the next one of this name. */
void pdl_trace_counter(pdl_trace_t *trace, int64_t process, const char *name, double at_s, double value);
void pdl_trace_slice(pdl_trace_t *trace, const pdl_trace_slice_t *slice);
/* Any event, as JSON. */
void pdl_trace_event(pdl_trace_t *trace, const char *text);
void pdl_trace_end(pdl_trace_t *trace);

#ifdef __cplusplus
}
#endif
#endif
