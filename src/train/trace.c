/*
 * Times of a session: by class, and its timeline for Perfetto and chrome://tracing.
 */
#include "train/session.h"
#include <paradl/json.h>
#include <paradl/output.h>
#include <stdio.h>

static const char *event_name(const pdl_session_t *s, int op, char *buffer, size_t size)
{
    static const char *const verbs[] = {"load", "forward", "sum", "backward", "done", "finish", "finish backward"};

    if (op < 0) return op == -1 ? "wait for gradients" : "update";
    const pdl_tape_op_t *entry = &s->tape->op[op];
    const char          *layer = pdl_model_layer(s->spec.plan->model, s->graph->unit[entry->node].layer)->name;
    pdl__unit_kind_t     kind = s->graph->unit[entry->node].kind;
    const char          *note = kind == PDL__UNIT_CONVERT   ? " (convert)"
                                : kind == PDL__UNIT_EDGE    ? " (redistribute)"
                                : kind == PDL__UNIT_RECEIVE ? " (from another stage)"
                                : kind == PDL__UNIT_SEND    ? " (to another stage)"
                                                            : "";
    snprintf(buffer, size, "%s%s %s%s", entry->again ? "again " : "", verbs[entry->kind], layer, note);
    return buffer;
}

void pdl_session_classes(const pdl_session_t *s, double seconds[PDL_OP_CLASS_COUNT])
{
    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) seconds[i] = s->class_s[i];
}

pdl_status_t pdl_session_trace(const pdl_session_t *s, const char *path)
{
    pdl_output_t *output;
    pdl_json_t    json;
    char          name[256];

    if (!s->timeline) return pdl_error(PDL_ERR_INPUT, "%s: the session kept no times", path);
    pdl_status_t status = pdl_output_open(path, &output);
    if (status) return status;
    pdl_json_begin(&json, pdl_output_stream(output));
    pdl_json_open(&json, NULL, '{');
    pdl_json_open(&json, "traceEvents", '[');
    for (int i = 0; i < s->timeline_count; i++) {
        const pdl__moment_t *moment = &s->timeline[i];
        if (moment->op >= 0 && s->tape->op[moment->op].kind == PDL_TAPE_GRADIENT_DONE) continue;
        pdl_json_open(&json, NULL, '{');
        pdl_json_string(&json, "name", event_name(s, moment->op, name, sizeof(name)));
        pdl_json_string(&json, "cat", moment->op == -1 ? "communication" : "compute");
        pdl_json_string(&json, "ph", "X");
        pdl_json_int(&json, "pid", pdl_ranks_rank(s->spec.ranks));
        pdl_json_int(&json, "tid", moment->op == -1);
        pdl_json_number(&json, "ts", 1e6 * (moment->start_s - s->timeline_zero_s));
        pdl_json_number(&json, "dur", 1e6 * (moment->end_s - moment->start_s));
        pdl_json_close(&json);
    }
    pdl_json_close(&json);
    pdl_json_close(&json);
    return pdl_output_close(output);
}
