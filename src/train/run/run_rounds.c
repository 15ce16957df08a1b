/*
 * A run in rounds: the loop over cycles and rounds of the workers.
 */
#include "train/run/run_rounds.h"
#include "base/clock.h"
#include "train/checkpoint/rescue.h"
#include "train/exec/finite.h"
#include "train/exec/session.h"
#include "train/rounds/round_workers.h"
#include "train/run/outputs.h"
#include "train/run/run_summary.h"
#include "train/run/signals.h"
#include <stdio.h>
#include <string.h>

typedef struct run {
    const pdl_train_options_t *options;
    pdl_train_summary_t       *summary;
    pdl__round_workers_t      *workers;
    int64_t                    cycles, updates_each, total; /* of the run; of a worker in a cycle, and in all */
    int64_t                    cycle, round;                /* where the run stands */
    int64_t                    first_update, saved;         /* the latest checkpoint's; -1: none */
    double                     begun_s, part_s, train_s, exchange_s; /* part: since the last report of an epoch */
    double                     sums[3];
} run_t;

static void note(const run_t *run, const char *text)
{
    const pdl_train_observer_t *observer = &run->options->observer;

    if (observer->on_note) observer->on_note(observer->context, text);
}

static bool is_over(const run_t *run)
{
    return run->cycle >= run->cycles || pdl_session_updates(pdl__round_workers_session(run->workers)) >= run->total;
}

static void summarise_clusters(const pdl_mean_parts_t *mean, pdl_cluster_summary_t *summary)
{
    *summary =
        (pdl_cluster_summary_t){.clusters = mean->clusters, .threshold = mean->threshold, .trust = mean->trust};
    memcpy(summary->similarity, mean->similarity, sizeof(summary->similarity));
    for (int64_t w = 0; w < mean->workers && mean->clusters > 0; w++)
        if (mean->cluster[w] < PDL_SHOWN_CLUSTERS) summary->workers[mean->cluster[w]]++;
}

/* A round is reported as one step: means of its updates. */
static void tell_round(run_t *run, const pdl__round_result_t *round)
{
    const pdl_train_observer_t *observer = &run->options->observer;
    int64_t                     update = pdl_session_updates(pdl__round_workers_session(run->workers));
    double  elapsed_s = pdl__seconds() - run->begun_s, all_s = round->train_s + round->exchange_s;
    int64_t made = update - run->first_update;

    run->train_s += round->train_s;
    run->exchange_s += round->exchange_s;
    if (round->updates < 1) return; /* it was stopped, and will be made again */
    run->sums[0] += round->loss * round->samples;
    run->sums[1] += round->accuracy * round->samples;
    run->sums[2] += round->samples;
    summarise_clusters(&round->mean, &run->summary->clusters);
    if (!observer->on_step) return;
    pdl_train_step_t step = {.update = update,
                             .updates = run->total,
                             .epoch = run->cycle,
                             .epochs = run->cycles,
                             .result = {.loss = round->loss,
                                        .accuracy = round->accuracy,
                                        .samples = round->samples,
                                        .step_s = all_s / (double)round->updates,
                                        .compute_s = round->train_s / (double)round->updates,
                                        .comm_s = round->exchange_s / (double)round->updates},
                             .step_s = all_s / (double)round->updates,
                             .samples_per_s = round->samples / all_s,
                             .elapsed_s = elapsed_s,
                             .left_s = elapsed_s / (double)made * (double)(run->total - update),
                             .mean = round->mean.workers > 0 ? &round->mean : NULL};
    step.result.lr =
        pdl_learning_rate(&pdl__round_workers_session(run->workers)->spec.optimizer, (double)update - 1);
    observer->on_step(observer->context, &step);
}

/* Reports the training since the last report. */
static pdl_status_t tell_epoch(run_t *run, pdl_train_epoch_t *epoch, bool with_validation)
{
    pdl_score_t  score;
    pdl_status_t status = PDL_OK;

    epoch->epoch_s = pdl__seconds() - run->part_s;
    if (with_validation) status = pdl__round_workers_score(run->workers, &score);
    if (status) return status;
    pdl__report_epoch(&run->options->observer, run->sums, with_validation ? &score : NULL, epoch, run->summary);
    run->part_s = pdl__seconds();
    return PDL_OK;
}

/* Skipped where the latest checkpoint is of this update: a run stopped in a round goes back to its beginning. */
static pdl_status_t save(run_t *run)
{
    char    text[512];
    int64_t update = pdl_session_updates(pdl__round_workers_session(run->workers));

    if (!run->options->checkpoint || run->saved == update) return PDL_OK;
    pdl_status_t status = pdl__outputs_settle(run->options);
    if (!status) status = pdl__round_workers_save(run->workers, run->cycle, run->round, run->sums);
    snprintf(text, sizeof(text), "checkpoint of update %lld written to %s", (long long)update,
             run->options->checkpoint);
    if (!status) note(run, text);
    run->saved = update;
    return status;
}

/* Whether a round reaches a multiple of so many updates; 0: whether it is the last of a cycle. */
static bool due(int64_t every, int64_t before, int64_t update, bool cycle_ends)
{
    return every > 0 ? update / every > before / every : cycle_ends;
}

static pdl_status_t after_round(run_t *run, const pdl__round_result_t *round, int64_t rounds)
{
    const pdl_train_options_t *o = run->options;
    int64_t                    update = pdl_session_updates(pdl__round_workers_session(run->workers));
    int64_t                    before = update - round->updates;
    bool                       cycle_ends = run->round == rounds, over = is_over(run);
    int64_t                    steps = update - run->cycle * run->updates_each;
    pdl_train_epoch_t          epoch = {.epoch = run->cycle};
    pdl_status_t               status = PDL_OK;

    if (cycle_ends) {
        status = pdl__round_workers_end(run->workers, &epoch);
        run->cycle++;
        run->round = 0;
    }
    if (status) return status;
    epoch.steps = steps;
    bool validates = o->valid && (over || due(o->valid_every, before, update, cycle_ends));
    if (validates || cycle_ends || over) status = tell_epoch(run, &epoch, validates);
    if (!status && (over || run->summary->stopped || due(o->checkpoint_every, before, update, cycle_ends)))
        status = save(run);
    return status;
}

static pdl_status_t run_cycle(run_t *run)
{
    int64_t             rounds, cycle = run->cycle;
    pdl__round_result_t round;
    pdl_status_t        status = pdl__round_workers_begin(run->workers, cycle, run->round, &rounds);

    run->part_s = pdl__seconds();
    while (!status && run->cycle == cycle && !run->summary->stopped && !is_over(run)) {
        status = pdl__round_workers_run(run->workers, &round);
        if (status) break;
        run->summary->stopped = round.stop;
        run->round += !round.stop;
        tell_round(run, &round);
        status = round.stop ? save(run) : after_round(run, &round, rounds);
    }
    return status;
}

static pdl_status_t prepare(run_t *run)
{
    const pdl_train_options_t *o = run->options;
    char                       text[512];
    bool                       found = false;
    pdl_status_t               status = pdl_check_data(o->session.plan->model, pdl_source_info(o->train));

    if (!status && o->valid) status = pdl_check_data(o->session.plan->model, pdl_source_info(o->valid));
    status = pdl_ranks_agree(o->session.ranks, status);
    if (!status) status = pdl__round_workers_create(o, &run->workers);
    if (status) return status;
    pdl__round_workers_length(run->workers, &run->cycles, &run->updates_each, &run->total);
    status = pdl__round_workers_describe(run->workers, text, sizeof(text));
    if (status) return status;
    note(run, text);
    if (!o->checkpoint || !o->resume) return pdl__outputs_begin(o, 0);
    status = pdl__round_workers_restore(run->workers, &run->cycle, &run->round, run->sums, &found);
    snprintf(text, sizeof(text), "resumed from %s", o->checkpoint);
    if (!status && found) note(run, text);
    run->first_update = pdl_session_updates(pdl__round_workers_session(run->workers));
    if (found) run->saved = run->first_update;
    return status ? status : pdl__outputs_begin(o, run->first_update);
}

static pdl_status_t summarise(run_t *run)
{
    pdl_train_summary_t *summary = run->summary;
    pdl_session_t       *session = pdl__round_workers_session(run->workers);

    summary->updates = pdl_session_updates(session) - run->first_update;
    summary->samples = run->options->session.plan->batch;
    summary->elapsed_s = pdl__seconds() - run->begun_s;
    if (summary->updates > 0) {
        summary->work_s = run->train_s / (double)summary->updates;
        summary->comm_s = run->exchange_s / (double)summary->updates;
        summary->step_s = summary->work_s + summary->comm_s;
    }
    pdl_session_classes(session, summary->class_s);
    for (int i = 0; i < PDL_OP_CLASS_COUNT && summary->updates > 0; i++)
        summary->class_s[i] /= (double)summary->updates;
    return pdl__summarise_memory(session, run->options->session.ranks, summary);
}

pdl_status_t pdl__run_rounds(const pdl_train_options_t *options, pdl_train_summary_t *summary)
{
    run_t        run = {.options = options, .summary = summary, .saved = -1};
    double       start_s = pdl__seconds();
    pdl_status_t status = prepare(&run);

    if (!status) {
        const pdl_train_observer_t *observer = &options->observer;
        summary->start_up_s = pdl__seconds() - start_s;
        if (observer->on_begin)
            observer->on_begin(observer->context, pdl__round_workers_session(run.workers), summary->start_up_s);
        pdl__signals_catch(pdl__round_workers_session(run.workers));
        run.begun_s = pdl__seconds();
        while (!status && !is_over(&run) && !summary->stopped) status = run_cycle(&run);
        pdl__signals_release();
        status = pdl__finite_name_checkpoint(status, options->checkpoint);
        if (status) pdl__rescue(options, pdl__round_workers_session(run.workers), NULL);
        /* Other ranks may already wait in the next mean, which this rank never joins. */
        if (status && pdl_ranks_size(options->session.ranks) > 1) pdl_ranks_abort(options->session.ranks, status);
    }
    if (!status) status = summarise(&run);
    if (!status && options->trace) status = pdl__round_workers_trace(run.workers);
    pdl__round_workers_destroy(run.workers);
    return status;
}
