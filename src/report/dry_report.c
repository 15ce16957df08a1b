/*
 * What a rank will do, hold and send.
 */
#include <paradl/base/document.h>
#include <paradl/base/output.h>
#include <paradl/base/units.h>
#include <paradl/report/dry_report.h>
#include <paradl/report/table.h>
#include <stdlib.h>

static double seconds_of(const pdl_dry_report_t *report, int i)
{
    return report->seconds != NULL ? report->seconds[i] : 0;
}

static double total_of(const pdl_dry_report_t *report)
{
    double total = 0;

    for (int i = 0; i < pdl_session_op_count(report->session); i++) total += seconds_of(report, i);
    return total;
}

static void add_op(pdl_table_t *table, const pdl_dry_report_t *report, int i, const pdl_session_op_t *op)
{
    char text[64], number[PDL_FORMAT_SIZE];

    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%d", i);
    pdl_table_cell(table, "%s", op->name);
    pdl_table_cell(table, "%s", pdl_op_class_names[op->op_class]);
    pdl_table_cell(table, "%s", op->layer[0] != '\0' ? pdl_shape_format(&op->shape, text, sizeof(text)) : "");
    if (op->layer[0] != '\0')
        pdl_table_cell(table, "%d", op->micro_batch);
    else
        pdl_table_cell(table, "%s", "");
    if (op->offset >= 0)
        pdl_table_cell(table, "%lld", (long long)op->offset);
    else
        pdl_table_cell(table, "%s", "");
    pdl_table_cell(table, "%s", op->bytes > 0 ? pdl_format_bytes((double)op->bytes, number) : "");
    pdl_table_cell(table, "%s", op->sent_bytes > 0 ? pdl_format_bytes(op->sent_bytes, number) : "");
    pdl_table_cell(table, "%s", report->seconds != NULL ? pdl_format_seconds(seconds_of(report, i), number) : "");
}

static pdl_status_t print_ops(const pdl_dry_report_t *report, FILE *stream)
{
    const pdl_column_t columns[] = {{"op", PDL_RIGHT},    {"", PDL_LEFT},       {"class", PDL_LEFT},
                                    {"shape", PDL_LEFT},  {"micro", PDL_RIGHT}, {"offset", PDL_RIGHT},
                                    {"bytes", PDL_RIGHT}, {"sent", PDL_RIGHT},  {"seconds", PDL_RIGHT}};
    pdl_table_t       *table = pdl_table_create(columns, sizeof(columns) / sizeof(columns[0]));
    pdl_session_op_t   op;

    for (int i = 0; i < pdl_session_op_count(report->session); i++) {
        pdl_session_op(report->session, i, &op);
        add_op(table, report, i, &op);
    }
    pdl_status_t status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

static void print_part(FILE *stream, const char *before, const char *name, double bytes)
{
    char text[PDL_FORMAT_SIZE];

    if (bytes > 0) fprintf(stream, "%s%s %s", before, name, pdl_format_bytes(bytes, text));
}

pdl_status_t pdl_report_dry(const pdl_dry_report_t *report, FILE *stream)
{
    pdl_session_memory_t  memory;
    pdl_session_traffic_t traffic;
    char                  mesh[128], text[PDL_FORMAT_SIZE];
    pdl_status_t          status;

    fprintf(stream, "%s   rank %d of %lld: %s, %s\n\n", report->model_name, report->rank,
            (long long)pdl_mesh_size(&report->plan->mesh), report->plan->strategy,
            pdl_mesh_format(&report->plan->mesh, mesh, sizeof(mesh)));
    status = print_ops(report, stream);
    if (status) return status;
    pdl_session_memory(report->session, &memory);
    pdl_session_traffic(report->session, &traffic);
    fprintf(stream, "\nholds %s", pdl_format_bytes((double)memory.total, text));
    print_part(stream, ": ", "weights", (double)memory.weights);
    print_part(stream, ", ", "gradients", (double)memory.gradients);
    print_part(stream, ", ", "optimizer", (double)memory.optimizer);
    print_part(stream, ", ", "activations", (double)memory.activations);
    print_part(stream, ", ", "messages", (double)memory.messages);
    fprintf(stream, "\nsends %s an update", pdl_format_bytes(traffic.total, text));
    print_part(stream, ": ", "redistribution", traffic.moves);
    print_part(stream, ", ", "to experts", traffic.routed);
    print_part(stream, ", ", "stages", traffic.stages);
    print_part(stream, ", ", "gradients", traffic.gradients);
    print_part(stream, ", ", "statistics", traffic.statistics);
    print_part(stream, ", ", "results", traffic.results);
    fputs("\n", stream);
    if (report->seconds != NULL)
        fprintf(stream, "takes %s on %s, one operation after the other, without waiting for other ranks\n",
                pdl_format_seconds(total_of(report), text), report->system_name);
    return PDL_OK;
}

static void write_op(pdl_json_t *json, const pdl_dry_report_t *report, int i, const pdl_session_op_t *op)
{
    char shape[64];

    pdl_json_open(json, NULL, '{');
    pdl_json_int(json, "op", i);
    pdl_json_string(json, "name", op->name);
    pdl_json_string(json, "kind", op->kind);
    pdl_json_string(json, "layer", op->layer);
    pdl_json_string(json, "class", pdl_op_class_names[op->op_class]);
    if (op->layer[0] != '\0') {
        pdl_json_string(json, "shape", pdl_shape_format(&op->shape, shape, sizeof(shape)));
        pdl_json_int(json, "samples", op->samples);
        pdl_json_int(json, "micro_batch", op->micro_batch);
    }
    if (op->offset >= 0) {
        pdl_json_int(json, "offset", op->offset);
        pdl_json_int(json, "bytes", op->bytes);
    }
    if (op->workspace_offset >= 0) {
        pdl_json_int(json, "workspace_offset", op->workspace_offset);
        pdl_json_int(json, "workspace_bytes", op->workspace_bytes);
    }
    pdl_json_bytes(json, "sent_bytes", op->sent_bytes);
    if (report->seconds != NULL) pdl_json_number(json, "seconds", report->seconds[i]);
    pdl_json_close(json);
}

static void write_totals(pdl_json_t *json, const pdl_dry_report_t *report)
{
    pdl_session_memory_t  memory;
    pdl_session_traffic_t traffic;

    pdl_session_memory(report->session, &memory);
    pdl_session_traffic(report->session, &traffic);
    pdl_json_int(json, "memory_bytes", (int64_t)memory.total);
    pdl_json_open(json, "memory", '{');
    pdl_json_int(json, "weights", (int64_t)memory.weights);
    pdl_json_int(json, "gradients", (int64_t)memory.gradients);
    pdl_json_int(json, "optimizer", (int64_t)memory.optimizer);
    pdl_json_int(json, "activations", (int64_t)memory.activations);
    pdl_json_int(json, "messages", (int64_t)memory.messages);
    pdl_json_close(json);
    pdl_json_bytes(json, "sent_bytes", traffic.total);
    pdl_json_open(json, "sent", '{');
    pdl_json_number(json, "moves", traffic.moves);
    pdl_json_number(json, "experts", traffic.routed);
    pdl_json_number(json, "stages", traffic.stages);
    pdl_json_number(json, "gradients", traffic.gradients);
    pdl_json_number(json, "statistics", traffic.statistics);
    pdl_json_number(json, "results", traffic.results);
    pdl_json_close(json);
    if (report->seconds != NULL) pdl_json_number(json, "seconds", total_of(report));
}

/* When every buffer lives: the operations that use it first and last. */
static void write_buffers(pdl_json_t *json, const pdl_program_t *program)
{
    pdl_json_int(json, "arena_bytes", (int64_t)program->arena_bytes);
    pdl_json_open(json, "buffers", '[');
    for (int i = 0; i < program->buffer_count; i++) {
        const pdl_program_buffer_t *b = &program->buffer[i];
        int                         layer = b->node >= 0 ? program->node[b->node].layer : -1;

        pdl_json_open(json, NULL, '{');
        pdl_json_int(json, "first_op", b->first);
        pdl_json_int(json, "last_op", b->last);
        pdl_json_int(json, "bytes", (int64_t)b->bytes);
        pdl_json_int(json, "offset", (int64_t)b->offset);
        pdl_json_string(json, "space", b->space == PDL_SPACE_DEVICE ? "device" : "host");
        if (layer >= 0 && program->model != NULL)
            pdl_json_string(json, "layer", pdl_model_layer(program->model, layer)->name);
        pdl_json_close(json);
    }
    pdl_json_close(json);
}

pdl_status_t pdl_report_dry_json(const pdl_dry_report_t *report, FILE *stream)
{
    pdl_session_op_t op;
    pdl_json_t       json;

    pdl_document_begin(&json, stream, "program/1");
    pdl_json_string(&json, "model", report->model_name);
    pdl_json_string(&json, "strategy", report->plan->strategy);
    pdl_json_int(&json, "rank", report->rank);
    pdl_json_int(&json, "ranks", pdl_mesh_size(&report->plan->mesh));
    write_totals(&json, report);
    pdl_json_open(&json, "ops", '[');
    for (int i = 0; i < pdl_session_op_count(report->session); i++) {
        pdl_session_op(report->session, i, &op);
        write_op(&json, report, i, &op);
    }
    pdl_json_close(&json);
    write_buffers(&json, pdl_session_program(report->session));
    pdl_json_close(&json);
    return PDL_OK;
}

pdl_status_t pdl_report_dry_trace(const pdl_dry_report_t *report, const char *path)
{
    const pdl_program_t *program = pdl_session_program(report->session);
    double              *times = calloc(2 * (size_t)program->op_count + 1, sizeof(*times)), total_s;
    pdl_replay_rank_t    rank = {.rank = report->rank,
                                 .program = program,
                                 .seconds = report->seconds,
                                 .start_s = times,
                                 .end_s = times + program->op_count};
    pdl_output_t        *output;
    pdl_status_t         status = times == NULL ? pdl_error(PDL_ERR_NOMEM, "out of memory for a timeline") : PDL_OK;

    if (!status) status = pdl_program_replay(&rank, 1, &total_s);
    if (!status) status = pdl_output_open(path, &output);
    if (!status) {
        pdl_replay_trace(&rank, 1, pdl_output_stream(output));
        status = pdl_output_close(output);
    }
    free(times);
    return status;
}
