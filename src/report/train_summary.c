/*
 * The end of a training run: what came out, and what was projected beside what was measured.
 */
#include "report/run_log.h"
#include <math.h>
#include <paradl/base/document.h>
#include <paradl/base/units.h>
#include <paradl/oracle/replay.h>
#include <paradl/report/table.h>
#include <paradl/report/train_report.h>
#include <string.h>

/* The table, and whether differences are worth a column: not from a description that was not made for this machine. */
typedef struct comparison {
    pdl_table_t *table;
    bool         differences;
} comparison_t;

/* One quantity: what was expected of it in two ways, and what it came to. */
static void compare_row(const comparison_t *c, const char *what, double projected, double simulated,
                        double measured, char *(*format)(double, char *))
{
    char first[PDL_FORMAT_SIZE], second[PDL_FORMAT_SIZE], third[PDL_FORMAT_SIZE];

    pdl_table_row(c->table, PDL_ROW_PLAIN);
    pdl_table_cell(c->table, "%s", what);
    pdl_table_cell(c->table, "%s", isfinite(projected) ? format(projected, first) : "-");
    pdl_table_cell(c->table, "%s", isfinite(simulated) ? format(simulated, second) : "-");
    pdl_table_cell(c->table, "%s", format(measured, third));
    if (c->differences && isfinite(projected) && measured > 0)
        pdl_table_cell(c->table, "%+.0f %%", 100 * (projected - measured) / measured);
}

/* Communication of a simulation that is not hidden; NAN without one. */
static double simulated_comm(const pdl_plan_sim_t *sim)
{
    double sum = 0;

    for (int i = 0; sim && i < PDL_COMM_CLASS_COUNT; i++) sum += sim->simulated.comm[i];
    return sim ? sum : NAN;
}

/* Measured time that is none of the parts: between operations and updates. */
static double other_of(const pdl_train_summary_t *s)
{
    return fmax(0, s->step_s - s->work_s - s->comm_s - s->io_s);
}

/* What the programs of a projection take besides their operations; NAN without them. */
static double projected_rest(const pdl_run_report_spec_t *spec)
{
    double rest = spec->projection != NULL ? spec->projection->total_s : 0;

    if (spec->classes == NULL || spec->projection == NULL || !spec->projection->replayed) return NAN;
    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) rest -= spec->classes[i];
    return rest > 1e-9 * spec->projection->total_s ? rest : 0; /* else it is rounding */
}

/* The classes that make up one of the parts. */
static void compare_classes(const comparison_t *c, const pdl_run_report_spec_t *spec, const pdl_train_summary_t *s,
                            bool communication)
{
    double simulated[PDL_OP_CLASS_COUNT];

    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) simulated[i] = NAN;
    if (spec->simulated && spec->classes) pdl_run_simulated_classes(spec->simulated, spec->classes, simulated);
    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) {
        double projected = spec->classes ? spec->classes[i] : NAN;
        char   name[64];

        if (i == PDL_CLASS_INPUT || pdl_op_class_waits((pdl_op_class_t)i) != communication) continue;
        if (!(projected > 0) && s->class_s[i] <= 0) continue;
        snprintf(name, sizeof(name), "  %s", pdl_op_class_names[i]);
        compare_row(c, name, projected, simulated[i], s->class_s[i], pdl_format_seconds);
    }
}

static void compare_times(const comparison_t *c, const pdl_run_report_spec_t *spec, const pdl_train_summary_t *s)
{
    const pdl_projection_t *p = spec->projection;
    const pdl_plan_sim_t   *sim = spec->simulated;
    double                  waits = spec->classes ? spec->classes[PDL_CLASS_INPUT] : NAN;

    compare_row(c, "time", p ? p->total_s : NAN, sim ? sim->simulated.total_s : NAN, s->step_s, pdl_format_seconds);
    compare_row(c, "computation", p ? p->compute_s : NAN, sim ? sim->simulated.compute_s : NAN, s->work_s,
                pdl_format_seconds);
    compare_classes(c, spec, s, false);
    compare_row(c, "exposed communication", p ? p->comm_s : NAN, simulated_comm(sim), s->comm_s,
                pdl_format_seconds);
    compare_classes(c, spec, s, true);
    compare_row(c, pdl_op_class_names[PDL_CLASS_INPUT], waits, NAN, s->io_s, pdl_format_seconds);
    compare_row(c, "between operations", projected_rest(spec), NAN, other_of(s), pdl_format_seconds);
}

static pdl_status_t compare(const pdl_run_report_spec_t *spec, const pdl_train_summary_t *s, FILE *stream)
{
    static const pdl_column_t columns[] = {{"per update", PDL_LEFT},
                                           {"projected", PDL_RIGHT},
                                           {"simulated", PDL_RIGHT},
                                           {"measured", PDL_RIGHT},
                                           {"difference", PDL_RIGHT}};
    const pdl_projection_t   *p = spec->projection;
    comparison_t              c = {.differences = !spec->generic};

    c.table = pdl_table_create(columns, c.differences ? 5 : 4);
    compare_times(&c, spec, s);
    compare_row(&c, "memory of a rank", p ? p->memory_bytes : NAN, NAN, s->most_memory_bytes, pdl_format_bytes);
    pdl_status_t status = pdl_table_print(c.table, stream);
    pdl_table_destroy(c.table);
    if (p && spec->generic)
        fprintf(stream,
                "%s describes a generic processor, not this one, so its times are no forecast: paradl calibrate "
                "measures this machine\n",
                spec->system_name);
    else if (p)
        fprintf(stream, "projected for system %s\n", spec->system_name);
    return status;
}

/* "gradients over data (4 ranks): allreduce by ring" */
static void show_exchanges(const pdl_run_report_spec_t *spec, const pdl_train_summary_t *s, FILE *stream)
{
    char text[2][PDL_FORMAT_SIZE];

    if (s->replayed > 0)
        fprintf(stream, "passes over the network replayed as a graph of kernels: %lld\n", (long long)s->replayed);
    /* MPI itself sends memory of the processor. */
    if (spec->ranks > 1 && s->transport != NULL && strcmp(s->transport, "mpi") != 0)
        fprintf(stream, "memory of GPUs goes between ranks by %s\n", s->transport);
    if (s->turns > 1)
        fprintf(stream,
                "%d ranks share a GPU and have it in turns; with NVIDIA MPS they would not: start it with "
                "nvidia-cuda-mps-control -d\n",
                s->turns);
    for (int i = 0; i < s->exchange_count; i++) {
        const pdl_session_exchange_t *e = &s->exchange[i];

        fprintf(stream, "%s over %s (%d ranks): %s by %s",
                e->collective == PDL_COLL_ALLGATHER ? "weights" : "gradients", e->axes, e->ranks,
                pdl_collective_names[e->collective], e->algorithm);
        if (e->density > 0)
            fprintf(stream, " of %.3g %% of the elements; rank 0 sent %s, a dense ring sends %s", 100 * e->density,
                    pdl_format_bytes(e->sent, text[0]), pdl_format_bytes(e->ring, text[1]));
        fputc('\n', stream);
    }
}

/* "swapped 2.1 GiB and recomputed 4.0 GiB an update, 1.1 GiB of state on the host; links busy 40 ms out, 41 ms in; 3.2 ms waited
   for, 1.1 ms of it for the block to h.3.add_2" */
static void show_copies(const pdl_run_report_spec_t *spec, const pdl_train_summary_t *s, FILE *stream)
{
    const pdl_program_copies_t *c = &s->copies;
    char                        text[3][PDL_FORMAT_SIZE];

    if (c->swapped_bytes + c->state_bytes + c->gradient_bytes + c->recomputed_bytes <= 0) return;
    fprintf(stream, "swapped %s and recomputed %s an update", pdl_format_bytes(c->swapped_bytes, text[0]),
            pdl_format_bytes(c->recomputed_bytes, text[1]));
    if (c->state_bytes > 0)
        fprintf(stream, ", %s of optimizer state through the device", pdl_format_bytes(c->state_bytes, text[0]));
    if (c->gradient_bytes > 0)
        fprintf(stream, ", %s of gradients to the host, which updates weights there",
                pdl_format_bytes(c->gradient_bytes, text[0]));
    if (c->weight_bytes > 0)
        fprintf(stream, ", %s of weights from the host", pdl_format_bytes(c->weight_bytes, text[0]));
    if (c->out_s + c->in_s > 0)
        fprintf(stream, "; links busy %s out, %s in; %s waited for", pdl_format_seconds(c->out_s, text[0]),
                pdl_format_seconds(c->in_s, text[1]), pdl_format_seconds(c->stall_s, text[2]));
    if (c->worst_layer >= 0)
        fprintf(stream, ", %s of it for the block to %s", pdl_format_seconds(c->worst_s, text[0]),
                pdl_model_layer(spec->plan->model, c->worst_layer)->name);
    fputs("\n", stream);
}

static void copies_json(pdl_json_t *json, const pdl_program_copies_t *c)
{
    pdl_json_open(json, "copies", '{');
    pdl_json_bytes(json, "swapped_bytes", c->swapped_bytes);
    pdl_json_bytes(json, "state_bytes", c->state_bytes);
    pdl_json_bytes(json, "gradient_bytes", c->gradient_bytes);
    pdl_json_bytes(json, "weight_bytes", c->weight_bytes);
    pdl_json_bytes(json, "recomputed_bytes", c->recomputed_bytes);
    pdl_json_number(json, "out_s", c->out_s);
    pdl_json_number(json, "in_s", c->in_s);
    pdl_json_number(json, "stall_s", c->stall_s);
    pdl_json_close(json);
}

/* "4 clusters of 4, 4, 1, 1 workers, ..." */
static void show_clusters(const pdl_cluster_summary_t *c, FILE *stream)
{
    int64_t shown = c->clusters < PDL_SHOWN_CLUSTERS ? c->clusters : PDL_SHOWN_CLUSTERS;

    if (c->clusters == 0) return;
    fprintf(stream, "\n%lld cluster%s of ", (long long)c->clusters, c->clusters == 1 ? "" : "s");
    for (int64_t i = 0; i < shown; i++) fprintf(stream, "%s%lld", i > 0 ? ", " : "", (long long)c->workers[i]);
    fprintf(stream,
            "%s workers, each with %.1f %% of the mean; similarity %.2f to %.2f, median %.2f, threshold %.2f; "
            "distillation at %.0f %% of its weight\n",
            c->clusters > shown ? ", ..." : "", 100 / (double)c->clusters, c->similarity[0], c->similarity[2],
            c->similarity[1], c->threshold, 100 * c->trust);
}

static void clusters_json(pdl_json_t *json, const pdl_cluster_summary_t *c)
{
    pdl_json_open(json, "clusters", '{');
    pdl_json_int(json, "count", c->clusters);
    pdl_json_number(json, "share", 1 / (double)c->clusters);
    pdl_json_open(json, "workers", '[');
    for (int64_t i = 0; i < c->clusters && i < PDL_SHOWN_CLUSTERS; i++) pdl_json_int(json, NULL, c->workers[i]);
    pdl_json_close(json);
    pdl_json_number(json, "similarity_least", c->similarity[0]);
    pdl_json_number(json, "similarity_median", c->similarity[1]);
    pdl_json_number(json, "similarity_most", c->similarity[2]);
    pdl_json_number(json, "threshold", c->threshold);
    pdl_json_number(json, "trust", c->trust);
    pdl_json_close(json);
}

static void show_findings(const pdl_run_report_spec_t *spec, const pdl_train_summary_t *s, FILE *stream)
{
    pdl_finding_t findings[PDL_MAX_FINDINGS];
    int           count = pdl_run_findings(spec, s, findings);

    if (count > 0) fputs("\nbottlenecks and limits, as share of the time:\n", stream);
    for (int i = 0; i < count; i++)
        fprintf(stream, "  %3.0f %%  %s (%s): %s\n", 100 * findings[i].share, findings[i].name,
                findings[i].limit ? "limit" : "bottleneck", findings[i].hint);
}

pdl_status_t pdl_report_train_summary(const pdl_run_report_spec_t *spec, const pdl_train_summary_t *s, FILE *stream)
{
    char time[PDL_FORMAT_SIZE], count[PDL_FORMAT_SIZE], rate[PDL_FORMAT_SIZE];

    if (s->updates == 0) {
        fputs(s->initial   ? "no updates: the checkpoint has the initial weights\n"
              : s->stopped ? "stopped before the first round was complete: nothing has changed\n"
                           : "nothing left to do: the run was complete\n",
              stream);
        return PDL_OK;
    }
    fprintf(stream, "%s %s updates in %s, %s samples/s",
            s->stopped ? "stopped after" : "done:", pdl_format_count(s->updates, count),
            pdl_format_seconds(s->elapsed_s, time), pdl_format_short((double)s->samples / s->step_s, rate));
    if (s->last.validated)
        fprintf(stream, "; validation loss %.4f, accuracy %.2f %%", s->last.valid_loss,
                100 * s->last.valid_accuracy);
    fputs("\n\n", stream);
    pdl_status_t status = compare(spec, s, stream);
    if (!status) show_exchanges(spec, s, stream);
    if (!status) show_copies(spec, s, stream);
    if (!status) show_clusters(&s->clusters, stream);
    if (!status) show_findings(spec, s, stream);
    return status;
}

static void class_json(pdl_json_t *json, const double *seconds)
{
    pdl_json_open(json, "classes", '{');
    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) pdl_json_number(json, pdl_op_class_names[i], seconds[i]);
    pdl_json_close(json);
}

static void simulated_json(pdl_json_t *json, const pdl_run_report_spec_t *spec)
{
    double classes[PDL_OP_CLASS_COUNT];

    pdl_json_open(json, "simulated", '{');
    pdl_json_number(json, "step_s", spec->simulated->simulated.total_s);
    pdl_json_number(json, "compute_s", spec->simulated->simulated.compute_s);
    pdl_json_number(json, "comm_s", simulated_comm(spec->simulated));
    if (spec->classes) {
        pdl_run_simulated_classes(spec->simulated, spec->classes, classes);
        class_json(json, classes);
    }
    pdl_json_close(json);
}

static void findings_json(pdl_json_t *json, const pdl_run_report_spec_t *spec, const pdl_train_summary_t *s)
{
    pdl_finding_t findings[PDL_MAX_FINDINGS];
    int           count = pdl_run_findings(spec, s, findings);

    pdl_json_open(json, "findings", '[');
    for (int i = 0; i < count; i++) {
        pdl_json_open(json, NULL, '{');
        pdl_json_string(json, "name", findings[i].name);
        pdl_json_bool(json, "limit", findings[i].limit);
        pdl_json_number(json, "share", findings[i].share);
        pdl_json_string(json, "hint", findings[i].hint);
        pdl_json_close(json);
    }
    pdl_json_close(json);
}

void pdl__exchanges_json(pdl_json_t *json, const pdl_session_exchange_t *exchanges, int count, bool messages)
{
    pdl_json_open(json, "collectives", '[');
    for (int i = 0; i < count; i++) {
        pdl_json_open(json, NULL, '{');
        pdl_json_string(json, "axes", exchanges[i].axes);
        pdl_json_string(json, "collective", pdl_collective_names[exchanges[i].collective]);
        pdl_json_string(json, "algorithm", exchanges[i].algorithm);
        pdl_json_int(json, "ranks", exchanges[i].ranks);
        if (exchanges[i].density > 0) pdl_json_number(json, "density", exchanges[i].density);
        if (messages) pdl_json_int(json, "messages", exchanges[i].messages);
        if (messages) pdl_json_bytes(json, "sent_bytes", exchanges[i].sent);
        pdl_json_close(json);
    }
    pdl_json_close(json);
}

void pdl__summary_json(pdl_json_t *json, const pdl_run_report_spec_t *spec, const pdl_train_summary_t *s)
{
    pdl_json_string(json, "model", spec->model_name);
    pdl_json_string(json, "data", spec->data_name);
    pdl_json_int(json, "batch", spec->plan->batch);
    pdl_json_int(json, "ranks", spec->ranks);
    pdl_json_int(json, "threads", spec->threads);
    pdl_json_string(json, "device", spec->device);
    pdl_json_int(json, "updates", s->updates);
    pdl_json_bool(json, "stopped", s->stopped);
    pdl_json_number(json, "elapsed_s", s->elapsed_s);
    pdl_json_number(json, "start_up_s", s->start_up_s);
    pdl_json_number(json, "step_s", s->step_s);
    pdl_json_number(json, "compute_s", s->work_s);
    pdl_json_number(json, "comm_s", s->comm_s);
    pdl_json_number(json, "io_s", s->io_s);
    pdl_json_number(json, "other_s", other_of(s));
    pdl_json_number(json, "train_loss", s->last.train_loss);
    pdl_json_number(json, "valid_loss", s->last.validated ? s->last.valid_loss : NAN);
    pdl_json_number(json, "valid_accuracy", s->last.validated ? s->last.valid_accuracy : NAN);
    pdl_json_bytes(json, "memory_bytes", s->most_memory_bytes);
    pdl_json_bytes(json, "activation_bytes", (double)s->memory.activations);
    class_json(json, s->class_s);
    copies_json(json, &s->copies);
    if (s->transport != NULL) pdl_json_string(json, "transport", s->transport);
    if (s->turns > 1) pdl_json_int(json, "ranks_in_turns", s->turns);
    if (s->replayed > 0) pdl_json_int(json, "replayed", s->replayed);
    pdl__exchanges_json(json, s->exchange, s->exchange_count, true);
    pdl_json_open(json, "projected", '{');
    pdl_json_bool(json, "generic", spec->generic);
    pdl_json_number(json, "step_s", spec->projection ? spec->projection->total_s : NAN);
    pdl_json_number(json, "compute_s", spec->projection ? spec->projection->compute_s : NAN);
    pdl_json_number(json, "comm_s", spec->projection ? spec->projection->comm_s : NAN);
    pdl_json_number(json, "io_s", spec->classes ? spec->classes[PDL_CLASS_INPUT] : NAN);
    pdl_json_bytes(json, "memory_bytes", spec->projection ? spec->projection->memory_bytes : NAN);
    if (spec->classes) class_json(json, spec->classes);
    pdl_json_close(json);
    if (spec->simulated) simulated_json(json, spec);
    pdl_json_number(json, "work_s", s->work_s);
    pdl_json_number(json, "most_work_s", s->most_work_s);
    pdl_json_int(json, "busiest_rank", s->busiest_rank);
    if (s->clusters.clusters > 0) clusters_json(json, &s->clusters);
    findings_json(json, spec, s);
}

pdl_status_t pdl_report_train_summary_json(const pdl_run_report_spec_t *spec, const pdl_train_summary_t *s,
                                           FILE *stream)
{
    pdl_json_t json;

    pdl_document_begin(&json, stream, "run/1");
    pdl__summary_json(&json, spec, s);
    pdl_json_close(&json);
    return PDL_OK;
}
