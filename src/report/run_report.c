/*
 * The live side of a training run: one line that changes on a terminal, a line now and then elsewhere, and the log.
 */
#include "report/run_log.h"

#include <inttypes.h>
#include <math.h>
#include <paradl/base/document.h>
#include <paradl/base/units.h>
#include <paradl/report/table.h>
#include <paradl/report/train_report.h>
#include <stdlib.h>

struct pdl_run_report {
    pdl_run_report_spec_t  spec;
    pdl__run_log_t         log; /* its stream is NULL where there is none */
    pdl_session_exchange_t exchange[PDL_MAX_EXCHANGES];
    int                    exchange_count;
    double                 shown_s; /* elapsed time when the line was last written */
    double                 loss;    /* smoothed */
    bool                   open;    /* the live line stands without an end */
    double                 memory_bytes;
};

#define TERMINAL_PERIOD_S 0.1
#define PLAIN_PERIOD_S    10.0

static char *format_clock(double seconds, char *buffer, size_t size)
{
    long whole = (long)llround(fmin(seconds, 359999));

    if (whole >= 3600)
        snprintf(buffer, size, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(buffer, size, "%ld:%02ld", whole / 60, whole % 60);
    return buffer;
}

static void end_line(pdl_run_report_t *r)
{
    if (r->open) fputc('\n', r->spec.talk);
    r->open = false;
}

static void on_begin(void *context, const pdl_session_t *session, double start_up_s)
{
    pdl_run_report_t    *r = context;
    pdl_session_memory_t memory;
    char                 total[PDL_FORMAT_SIZE], arena[PDL_FORMAT_SIZE], start[PDL_FORMAT_SIZE];

    r->exchange_count = pdl_session_exchanges(session, r->exchange);
    pdl_session_memory(session, &memory);
    r->memory_bytes = (double)memory.total;
    if (!r->spec.talk) return;
    fprintf(r->spec.talk,
            "%s on %s: batch %lld, %d rank%s x %d thread%s, %s a rank (%s of activations), ready in %s\n",
            r->spec.model_name, r->spec.data_name, (long long)r->spec.plan->batch, r->spec.ranks,
            r->spec.ranks == 1 ? "" : "s", r->spec.threads, r->spec.threads == 1 ? "" : "s",
            pdl_format_bytes((double)memory.total, total), pdl_format_bytes((double)memory.activations, arena),
            pdl_format_seconds(start_up_s, start));
}

/* What the mean of a round was made of. */
static void log_mean(pdl_json_t *json, const pdl_mean_parts_t *mean)
{
    pdl_json_open(json, "shares", '[');
    for (int64_t w = 0; w < mean->workers; w++) pdl_json_number(json, NULL, mean->share[w]);
    pdl_json_close(json);
    if (mean->clusters == 0) return;
    pdl_json_int(json, "clusters", mean->clusters);
    pdl_json_open(json, "cluster", '[');
    for (int64_t w = 0; w < mean->workers; w++) pdl_json_int(json, NULL, mean->cluster[w]);
    pdl_json_close(json);
    pdl_json_number(json, "similarity_least", mean->similarity[0]);
    pdl_json_number(json, "similarity_median", mean->similarity[1]);
    pdl_json_number(json, "similarity_most", mean->similarity[2]);
    pdl_json_number(json, "threshold", mean->threshold);
    pdl_json_number(json, "trust", mean->trust);
}

static void log_step(pdl_run_report_t *r, const pdl_train_step_t *step)
{
    pdl_json_t json;

    pdl_json_begin_line(&json, r->log.stream);
    pdl_json_open(&json, NULL, '{');
    pdl_json_int(&json, "step", step->update);
    pdl_json_int(&json, "epoch", step->epoch + 1);
    pdl_json_number(&json, "loss", step->result.loss);
    pdl_json_number(&json, "accuracy", step->result.accuracy);
    pdl_json_number(&json, "lr", step->result.lr);
    pdl_json_number(&json, "samples_per_s", step->samples_per_s);
    pdl_json_number(&json, "step_s", step->step_s);
    pdl_json_number(&json, "compute_s", step->result.compute_s);
    pdl_json_number(&json, "comm_s", step->result.comm_s);
    pdl_json_number(&json, "io_s", step->io_s);
    if (step->mean) log_mean(&json, step->mean);
    pdl_json_close(&json);
}

static void show_step(pdl_run_report_t *r, const pdl_train_step_t *step)
{
    char   left[32], rate[PDL_FORMAT_SIZE], memory[PDL_FORMAT_SIZE], epoch[64] = "";
    double period_s = r->spec.terminal ? TERMINAL_PERIOD_S : PLAIN_PERIOD_S;
    bool   last = step->update == step->updates;

    if (!last && step->elapsed_s - r->shown_s < period_s) return;
    r->shown_s = step->elapsed_s;
    if (step->epochs > 0)
        snprintf(epoch, sizeof(epoch), "epoch %lld/%lld  ", (long long)step->epoch + 1, (long long)step->epochs);
    fprintf(r->spec.talk, "%s%sstep %lld/%lld  loss %.4f  accuracy %.2f %%  %s samples/s  left %s  %s%s",
            r->spec.terminal ? "\r" : "", epoch, (long long)step->update, (long long)step->updates, r->loss,
            100 * step->result.accuracy, pdl_format_short(step->samples_per_s, rate),
            format_clock(step->left_s, left, sizeof(left)), pdl_format_bytes(r->memory_bytes, memory),
            r->spec.terminal ? "\033[K" : "\n");
    r->open = r->spec.terminal;
    fflush(r->spec.talk);
}

static void on_step(void *context, const pdl_train_step_t *step)
{
    pdl_run_report_t *r = context;

    r->loss = r->shown_s == 0 && r->loss == 0 ? step->result.loss : 0.9 * r->loss + 0.1 * step->result.loss;
    if (r->log.stream) log_step(r, step);
    if (r->spec.talk) show_step(r, step);
}

/* Names of the log are fixed: people's scripts read them. */
static void log_sampling(pdl_json_t *json, const pdl_train_epoch_t *epoch)
{
    pdl_json_int(json, "steps", epoch->steps);
    pdl_json_int(json, "hidden", epoch->hides ? epoch->hide.hidden : 0);
    if (epoch->hides) {
        pdl_json_number(json, "hidden_fraction", epoch->hide.fraction);
        pdl_json_number(json, "hidden_most", epoch->hide.most);
        pdl_json_int(json, "moved_back", epoch->hide.moved_back);
        pdl_json_number(json, "select_s", epoch->hide.select_s);
        pdl_json_number(json, "refresh_s", epoch->refresh_s);
    }
    if (!epoch->exchanges) return;
    pdl_json_int(json, "exchanged", epoch->shuffle.sent);
    pdl_json_bytes(json, "exchanged_bytes", epoch->shuffle.bytes);
    pdl_json_number(json, "exchange_s", epoch->shuffle.exchange_s);
    pdl_json_int(json, "stored_most", epoch->shuffle.stored_most);
    pdl_json_number(json, "partners", epoch->shuffle.partners);
    pdl_json_number(json, "score_variance", epoch->shuffle.score_variance);
    pdl_json_number(json, "label_imbalance", epoch->shuffle.imbalance);
    pdl_json_number(json, "seen", epoch->shuffle.seen);
}

/* Least, median and largest of the ranks, and which one was the slowest. */
static void log_spread(pdl_json_t *json, const pdl_train_spread_t *spread)
{
    pdl_json_open(json, "ranks", '{');
    pdl_json_int(json, "first_step", spread->first);
    pdl_json_int(json, "every", spread->every);
    pdl_json_open(json, "compute_s", '[');
    for (int64_t i = 0; i < spread->count; i++) {
        const pdl_rank_spread_t *update = &spread->update[i];

        pdl_json_open(json, NULL, '[');
        pdl_json_number(json, NULL, update->least_s);
        pdl_json_number(json, NULL, update->median_s);
        pdl_json_number(json, NULL, update->largest_s);
        pdl_json_int(json, NULL, update->slowest);
        pdl_json_close(json);
    }
    pdl_json_close(json);
    pdl_json_close(json);
}

static void log_epoch(pdl_run_report_t *r, const pdl_train_epoch_t *epoch)
{
    pdl_json_t json;

    pdl_json_begin_line(&json, r->log.stream);
    pdl_json_open(&json, NULL, '{');
    pdl_json_int(&json, "epoch", epoch->epoch + 1);
    pdl_json_number(&json, "train_loss", epoch->train_loss);
    pdl_json_number(&json, "train_accuracy", epoch->train_accuracy);
    if (epoch->validated) {
        pdl_json_number(&json, "valid_loss", epoch->valid_loss);
        pdl_json_number(&json, "valid_accuracy", epoch->valid_accuracy);
        pdl_json_number(&json, "valid_s", epoch->valid_s);
    }
    pdl_json_number(&json, "epoch_s", epoch->epoch_s);
    if (r->exchange_count > 0) pdl__exchanges_json(&json, r->exchange, r->exchange_count, false);
    log_sampling(&json, epoch);
    if (epoch->spread != NULL) log_spread(&json, epoch->spread);
    pdl_json_close(&json);
}

static void on_epoch(void *context, const pdl_train_epoch_t *epoch)
{
    pdl_run_report_t *r = context;
    char              time[PDL_FORMAT_SIZE];

    if (r->log.stream) log_epoch(r, epoch);
    if (!r->spec.talk) return;
    end_line(r);
    fprintf(r->spec.talk, "epoch %lld  %s  training loss %.4f, accuracy %.2f %%", (long long)epoch->epoch + 1,
            pdl_format_seconds(epoch->epoch_s, time), epoch->train_loss, 100 * epoch->train_accuracy);
    if (epoch->validated)
        fprintf(r->spec.talk, "  validation loss %.4f, accuracy %.2f %%", epoch->valid_loss,
                100 * epoch->valid_accuracy);
    if (epoch->hides) fprintf(r->spec.talk, "  hidden %.1f %%", 100 * epoch->hide.fraction);
    if (epoch->exchanges && epoch->shuffle.sent > 0)
        fprintf(r->spec.talk, "  exchanged %lld samples", (long long)epoch->shuffle.sent);
    fputc('\n', r->spec.talk);
}

static void on_note(void *context, const char *text)
{
    pdl_run_report_t *r = context;

    if (!r->spec.talk) return;
    end_line(r);
    fprintf(r->spec.talk, "%s\n", text);
}

/* Said whatever else is silent, and in the form of errors, so that it is looked for where they are. */
static void on_warning(void *context, const char *text)
{
    end_line(context);
    fprintf(stderr, "paradl: %s\n", text);
}

/* Every start has one: a run that goes on may do so with other ranks. */
static void log_header(pdl_run_report_t *r, int64_t updates)
{
    char       hash[24];
    pdl_json_t json;

    snprintf(hash, sizeof(hash), "%016" PRIx64, pdl_model_hash(r->spec.plan->model));
    pdl_document_begin_line(&json, r->log.stream, "run/1");
    pdl_json_string(&json, "model", r->spec.model_name);
    pdl_json_string(&json, "model_hash", hash);
    pdl_json_string(&json, "data", r->spec.data_name);
    pdl_json_string(&json, "plan", r->spec.plan_path);
    pdl_json_string(&json, "strategy", r->spec.plan->strategy);
    pdl_json_int(&json, "batch", r->spec.plan->batch);
    pdl_json_string(&json, "system", r->spec.system_name);
    pdl_json_int(&json, "ranks", r->spec.ranks);
    pdl_json_int(&json, "threads", r->spec.threads);
    pdl_json_string(&json, "device", r->spec.device);
    pdl_json_int(&json, "seed", (int64_t)r->spec.seed);
    pdl_json_int(&json, "after_step", updates);
    pdl_json_close(&json);
}

static pdl_status_t on_start(void *context, int64_t updates)
{
    pdl_run_report_t *r = context;
    char              text[512] = "";
    pdl_status_t      status = PDL_OK;

    if (r->log.stream) status = pdl__run_log_start(&r->log, updates, text, sizeof(text));
    if (!status && r->log.stream) log_header(r, updates);
    if (!status && *text) on_note(context, text);
    return status;
}

static pdl_status_t on_save(void *context)
{
    pdl_run_report_t *r = context;

    return r->log.stream ? pdl__run_log_settle(&r->log) : PDL_OK;
}

pdl_status_t pdl_run_report_create(const pdl_run_report_spec_t *spec, pdl_run_report_t **out)
{
    pdl_run_report_t *r = calloc(1, sizeof(*r));
    pdl_status_t      status = PDL_OK;

    if (!r) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    r->spec = *spec;
    if (spec->log) status = pdl__run_log_open(spec->log, spec->append, &r->log);
    if (status)
        free(r);
    else
        *out = r;
    return status;
}

void pdl_run_report_finish(pdl_run_report_t *r, const pdl_train_summary_t *summary)
{
    pdl_json_t json;

    if (r == NULL || r->log.stream == NULL) return;
    pdl_json_begin_line(&json, r->log.stream);
    pdl_json_open(&json, NULL, '{');
    pdl_json_open(&json, "summary", '{');
    pdl__summary_json(&json, &r->spec, summary);
    pdl_json_close(&json);
    pdl_json_close(&json);
}

pdl_status_t pdl_run_report_destroy(pdl_run_report_t *r)
{
    pdl_status_t status;

    if (!r) return PDL_OK;
    end_line(r);
    status = pdl__run_log_close(&r->log);
    free(r);
    return status;
}

pdl_train_observer_t pdl_run_report_observer(pdl_run_report_t *report)
{
    return (pdl_train_observer_t){.context = report,
                                  .on_start = on_start,
                                  .on_save = on_save,
                                  .on_begin = on_begin,
                                  .on_step = on_step,
                                  .on_epoch = on_epoch,
                                  .on_note = on_note,
                                  .on_warning = on_warning};
}
