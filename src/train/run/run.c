/*
 * A training run: the loop around the session.
 */
#include "base/clock.h"
#include "train/checkpoint/rescue.h"
#include "train/checkpoint/resume.h"
#include "train/exec/finite.h"
#include "train/exec/session.h"
#include "train/run/outputs.h"
#include "train/run/run_rounds.h"
#include "train/run/run_summary.h"
#include "train/run/signals.h"
#include "train/sampling/sampling.h"
#include <math.h>
#include <paradl/comm/watch.h>
#include <paradl/train/train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct run {
    const pdl_train_options_t *options;
    pdl_train_summary_t       *summary;
    pdl_session_t             *session;
    pdl__sampling_t           *sampling;
    int64_t                    epochs, total;            /* of the run; updates if nothing is hidden */
    int64_t                    full_steps;               /* updates of an epoch if nothing is hidden */
    int64_t                    first_update;             /* made before this run */
    int64_t                    epoch, step;              /* where the next update is */
    int64_t                    placed;                   /* updates after which that is so */
    double                     start_s, begun_s, last_s; /* created; first update began; the latest ended */
    double                     epoch_start_s;
    double                     sums[3]; /* loss, accuracy, samples of the epoch */
    pdl__times_t               times;
    double                     classes[PDL_OP_CLASS_COUNT]; /* of the session before the update at hand */
    pdl__identity_t           *identity;                    /* NULL without checkpoints */
} run_t;

void pdl_train_defaults(pdl_train_options_t *options)
{
    *options =
        (pdl_train_options_t){.loader_threads = 1, .prefetch = 3, .normalise = true, .keep = PDL_CHECKPOINT_KEEP};
    pdl_session_defaults(&options->session);
    pdl_shuffle_defaults(&options->sampling.shuffle);
    pdl_hide_defaults(&options->sampling.hide);
    pdl_aggregate_defaults(&options->aggregate);
}

static void note(const run_t *run, const char *text)
{
    const pdl_train_observer_t *observer = &run->options->observer;

    if (observer->on_note) observer->on_note(observer->context, text);
}

/* How long the run is, and with it the schedule of the learning rate. */
static pdl_status_t plan_length(run_t *run, pdl_session_spec_t *spec)
{
    const pdl_train_options_t *o = run->options;
    const pdl_source_info_t   *info = pdl_source_info(o->train);

    pdl_status_t status = pdl_dataset_check_batch(info->name, info->samples, o->session.plan->batch);
    if (status) return status;
    if (o->epochs < 1 && o->updates < 1 && !o->only_initial)
        return pdl_error(PDL_ERR_INPUT, "say how long to train: --epochs or --steps");
    run->full_steps = pdl__sampling_full_steps(o);
    run->total = o->epochs > 0 ? o->epochs * run->full_steps : o->updates;
    if (o->updates > 0 && o->updates < run->total) run->total = o->updates;
    run->epochs = o->epochs > 0 ? o->epochs : (run->total + run->full_steps - 1) / run->full_steps;
    if (spec->optimizer.total_steps == 0) spec->optimizer.total_steps = (double)run->total;
    return PDL_OK;
}

static pdl_status_t resume(run_t *run)
{
    pdl__place_t      place = {0};
    pdl_checkpoint_t *checkpoint;
    bool              found = false;
    char              text[512];
    pdl_status_t      status =
        pdl__resume_open(run->options, run->identity, &run->options->checkpoint, 1, &checkpoint, &found);

    if (!status && found) status = pdl__session_restore(run->session, checkpoint, true, &place);
    if (!status && found) status = pdl__sampling_restore(run->sampling, checkpoint, place.step_in_epoch > 0);
    if (!status && found) {
        run->epoch = place.epoch;
        run->step = place.step_in_epoch;
        memcpy(run->sums, place.sums, sizeof(run->sums));
        snprintf(text, sizeof(text), "resumed from %s", pdl_checkpoint_path(checkpoint));
        note(run, text);
    }
    pdl_checkpoint_close(checkpoint);
    run->first_update = pdl_session_updates(run->session);
    return status;
}

static pdl__place_t place_of(const run_t *run)
{
    const pdl_train_options_t *o = run->options;

    pdl__place_t place = {.epoch = run->epoch,
                          .step_in_epoch = run->step,
                          .model_name = o->model_name,
                          .model_hash = pdl_model_hash(o->session.plan->model),
                          .identity = run->identity};
    memcpy(place.sums, run->sums, sizeof(place.sums));
    return place;
}

static pdl_status_t save(run_t *run)
{
    const pdl_train_options_t *o = run->options;
    pdl__extras_t              extras;
    char                       text[512];
    pdl__place_t               place = place_of(run);
    pdl_status_t               status = pdl__outputs_settle(o);

    if (!status) status = pdl__sampling_save(run->sampling, &extras);
    if (status) return status;
    place.extras = &extras;
    status = pdl__session_save(run->session, o->checkpoint, &place, o->keep);
    pdl__extras_free(&extras);
    snprintf(text, sizeof(text), "checkpoint of update %lld written to %s",
             (long long)pdl_session_updates(run->session), o->checkpoint);
    if (!status) note(run, text);
    return status;
}

/* Updates that the run would have taken to get here if nothing were hidden, the one at hand included. */
static double way_gone(const run_t *run, const pdl_batch_t *batch, int64_t steps)
{
    return ((double)batch->epoch + (double)(batch->step + 1) / (double)steps) * (double)run->full_steps;
}

static void tell_step(run_t *run, const pdl_batch_t *batch, const pdl_step_result_t *result, int64_t steps)
{
    double  now_s = pdl__seconds(), step_s = now_s - run->last_s;
    int64_t update = pdl_session_updates(run->session), made = update - run->first_update;

    pdl__times_add(&run->times, run->session, run->classes, step_s, batch->waited_s);
    run->sums[0] += result->loss * result->samples;
    run->sums[1] += result->accuracy * result->samples;
    run->sums[2] += result->samples;
    run->last_s = now_s;
    const pdl_train_observer_t *observer = &run->options->observer;
    if (!observer->on_step) return;
    double           elapsed_s = now_s - run->begun_s, gone = way_gone(run, batch, steps);
    double           begun = gone - (double)made * gone / (double)update;
    pdl_train_step_t step = {.update = update,
                             .updates = run->total,
                             .epoch = batch->epoch,
                             .epochs = run->options->epochs,
                             .result = *result,
                             .step_s = step_s,
                             .io_s = batch->waited_s,
                             .samples_per_s = result->samples / step_s,
                             .elapsed_s = elapsed_s,
                             .left_s = elapsed_s / fmax(gone - begun, 1e-9) * fmax((double)run->total - gone, 0)};
    observer->on_step(observer->context, &step);
}

static pdl_status_t validate(run_t *run, pdl_score_t *score)
{
    const pdl_train_options_t *o = run->options;
    pdl_status_t               status = pdl_session_mean_statistics(run->session, true);
    if (!status) status = pdl_session_swap_ema(run->session);
    if (status) return status;
    status = pdl_evaluate(run->session, o->valid, o->loader_threads, o->normalise, score);
    /* Also after a failure: what may still be saved are the weights. */
    pdl_status_t swapped = pdl_session_swap_ema(run->session);
    if (!status) status = swapped;
    if (!status) status = pdl_session_mean_statistics(run->session, false);
    return status;
}

/* At the end of an epoch, and of the run. */
static pdl_status_t end_epoch(run_t *run, pdl_train_epoch_t *epoch, bool with_validation)
{
    pdl_score_t        score;
    pdl_train_spread_t spread;
    pdl_status_t       status;

    epoch->epoch_s = pdl__seconds() - run->epoch_start_s;
    status = pdl__times_spread(&run->times, run->session, epoch->steps, &spread);
    if (!status && with_validation) status = validate(run, &score);
    if (!status) {
        epoch->spread = spread.count > 0 ? &spread : NULL;
        pdl__report_epoch(&run->options->observer, run->sums, with_validation ? &score : NULL, epoch, run->summary);
        run->summary->last.spread = NULL;
    }
    free(spread.update);
    run->last_s = run->epoch_start_s = pdl__seconds();
    return status;
}

/* A run that is stopped will go on with the epoch: the log gets its line when it is complete. */
static void break_epoch(run_t *run, pdl_train_epoch_t *epoch)
{
    epoch->epoch_s = pdl__seconds() - run->epoch_start_s;
    pdl__summarise_epoch(run->sums, NULL, epoch);
    run->summary->last = *epoch;
}

/* Whether something is to be done after an update: every so many, else at the end of every epoch. */
static bool due(int64_t every, int64_t update, bool epoch_ends)
{
    return every > 0 ? update % every == 0 : epoch_ends;
}

static pdl_status_t after_update(run_t *run, const pdl_batch_t *batch, int64_t steps, bool *last)
{
    const pdl_train_options_t *o = run->options;
    int64_t                    update = pdl_session_updates(run->session);
    bool                       epoch_ends = batch->step + 1 == steps;
    pdl_train_epoch_t          epoch = {.epoch = batch->epoch, .steps = batch->step + 1};
    pdl_status_t               status = pdl__sampling_after(run->sampling, batch);

    if (!status && epoch_ends) status = pdl__sampling_end(run->sampling, &epoch);
    if (status) return status;
    run->epoch = batch->epoch + epoch_ends;
    run->step = epoch_ends ? 0 : batch->step + 1;
    bool complete = run->epoch == run->epochs || (o->updates > 0 && update == o->updates), over = *last || complete;
    *last = over;
    /* Someone who stops a run wants it to stop now, with a checkpoint but without a validation. */
    bool stopped = run->summary->stopped;
    bool validates = o->valid && !stopped && (over || due(o->valid_every, update, epoch_ends));
    bool saves = o->checkpoint && (over || due(o->checkpoint_every, update, epoch_ends));
    if (validates || epoch_ends || saves || over) status = pdl__finite_agree(run->session, o->session.ranks);
    if (status) return status;
    if (validates || epoch_ends || complete)
        status = end_epoch(run, &epoch, validates);
    else if (over)
        break_epoch(run, &epoch);
    over = *last = over || run->summary->stopped;
    if (!status) run->placed = update;
    if (!status && o->checkpoint && (over || due(o->checkpoint_every, update, epoch_ends))) status = save(run);
    run->last_s = pdl__seconds();
    return status;
}

/* From the place at hand to the end of the epoch, or of the run. */
static pdl_status_t run_epoch(run_t *run, bool *last)
{
    int64_t      epoch = run->epoch, steps;
    double       rate;
    pdl_status_t status = pdl__sampling_begin(run->sampling, epoch, run->step, &steps, &rate);

    while (!status && !*last && run->epoch == epoch) {
        pdl_batch_t       batch;
        pdl_step_result_t result;
        pdl_watch_at(run->options->session.ranks,
                     &(pdl_watch_place_t){.update = pdl_session_updates(run->session) + 1,
                                          .doing = "waiting for samples"});
        status = pdl__sampling_next(run->sampling, &batch);
        if (status) break;
        double position = way_gone(run, &batch, steps) - (double)run->full_steps / (double)steps;
        pdl_session_set_rate(run->session, position, rate);
        pdl_session_classes(run->session, run->classes);
        status = pdl__sampling_ahead(run->sampling);
        if (!status) status = pdl_session_step(run->session, &batch, &result);
        if (status) break;
        tell_step(run, &batch, &result, steps);
        run->summary->stopped = *last = result.stop;
        status = after_update(run, &batch, steps, last);
    }
    return status;
}

/* Ranks are lost. What was finished on all of them is written where no other rank is needed for it. */
static void rescue(run_t *run)
{
    pdl__place_t place = place_of(run);
    bool         whole = run->placed == pdl_session_updates(run->session) && pdl__sampling_plain(run->sampling);

    pdl__rescue(run->options, run->session, whole ? &place : NULL);
}

static pdl_status_t loop(run_t *run)
{
    int64_t      most = run->options->updates;
    bool         last = run->epoch >= run->epochs || (most > 0 && pdl_session_updates(run->session) >= most);
    pdl_status_t status = PDL_OK;

    if (run->options->only_initial) return save(run);

    run->begun_s = run->last_s = run->epoch_start_s = pdl__seconds();
    run->placed = pdl_session_updates(run->session);
    while (!last && !status) status = run_epoch(run, &last);
    status = pdl__finite_name_checkpoint(status, run->options->checkpoint);
    if (status) rescue(run);
    /* Other ranks may already wait in the next exchange, which this rank never joins. */
    if (status && pdl_ranks_size(run->options->session.ranks) > 1)
        pdl_ranks_abort(run->options->session.ranks, status);
    return status;
}

static pdl_status_t summarise(run_t *run)
{
    pdl_train_summary_t *summary = run->summary;

    summary->updates = pdl_session_updates(run->session) - run->first_update;
    summary->samples = run->options->session.plan->batch;
    summary->elapsed_s = pdl__seconds() - run->begun_s;
    pdl_status_t status = pdl__summarise_times(&run->times, run->session, summary);
    return status ? status : pdl__summarise_memory(run->session, run->options->session.ranks, summary);
}

static pdl_status_t prepare(run_t *run)
{
    const pdl_train_options_t *o = run->options;
    pdl_session_spec_t         spec = o->session;
    pdl_status_t               status = pdl_check_data(spec.plan->model, pdl_source_info(o->train));

    if (!status && o->valid) status = pdl_check_data(spec.plan->model, pdl_source_info(o->valid));
    if (!status) status = pdl_train_prepare(o, &spec);
    if (!status) status = plan_length(run, &spec);
    spec.timeline = o->trace != NULL;
    status = pdl_ranks_agree(spec.ranks, status);
    if (!status) status = pdl_session_create(&spec, &run->session);
    if (!status) run->session->observer.source = o->train;
    if (!status) status = pdl__sampling_create(o, run->session, run->epochs, &run->sampling);
    if (!status && o->checkpoint) status = pdl__identity_create(o, &run->identity);
    if (!status && o->checkpoint && o->resume) status = resume(run);
    if (!status) status = pdl__outputs_begin(o, run->first_update);
    if (!status) status = pdl__times_create(run->total, &run->times);
    return status;
}

static pdl_status_t run_steps(const pdl_train_options_t *options, pdl_train_summary_t *summary)
{
    run_t        run = {.options = options, .summary = summary, .start_s = pdl__seconds()};
    pdl_status_t status = prepare(&run);

    if (!status) {
        summary->start_up_s = pdl__seconds() - run.start_s;
        const pdl_train_observer_t *observer = &options->observer;
        if (observer->on_begin) observer->on_begin(observer->context, run.session, summary->start_up_s);
        pdl__signals_catch(run.session);
        status = loop(&run);
        pdl__signals_release();
    }
    if (!status) status = summarise(&run);
    const pdl_session_t *const session = run.session;
    if (!status && options->trace) status = pdl__trace_write(&session, 1, options->trace);
    pdl__identity_destroy(run.identity);
    if (run.session) (void)pdl__session_await(run.session); /* a batch may still go to the device */
    pdl__sampling_destroy(run.sampling);
    pdl__times_destroy(&run.times);
    pdl_session_destroy(run.session);
    return status;
}

pdl_status_t pdl_train_run(const pdl_train_options_t *options, pdl_train_summary_t *summary)
{
    bool         rounds = options->aggregate.kind != PDL_AGGREGATE_STEP;
    pdl_status_t status;

    *summary = (pdl_train_summary_t){.initial = options->only_initial};
    if (rounds && options->only_initial)
        return pdl_error(PDL_ERR_INPUT, "the initial weights do not depend on rounds: leave out --aggregate");
    status = pdl__outputs_check(options);
    if (!status) status = rounds ? pdl__run_rounds(options, summary) : run_steps(options, summary);
    pdl__outputs_release();
    return status;
}
