/*
 * Timelines for Perfetto and chrome://tracing: processes with threads, on which slices lie.
 *
 *     pdl_trace_t trace;
 *     pdl_trace_begin(&trace, stream);
 *     pdl_trace_name(&trace, 0, -1, "rank 0");
 *     pdl_trace_name(&trace, 0, 1, "communication");
 *     pdl_trace_slice(&trace, &(pdl_trace_slice_t){.thread = 1, .name = "send", .start_s = 0.5, .end_s = 1, .micro_batch = 0});
 *     pdl_trace_end(&trace);
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
} pdl_trace_slice_t;

void pdl_trace_begin(pdl_trace_t *trace, FILE *stream);
/* Of a process, or of one of its threads. */
void pdl_trace_name(pdl_trace_t *trace, int64_t process, int thread, const char *name);
void pdl_trace_slice(pdl_trace_t *trace, const pdl_trace_slice_t *slice);
void pdl_trace_end(pdl_trace_t *trace);

#ifdef __cplusplus
}
#endif
#endif
