/*
 * The workers of a run in rounds: their sessions, samples and checkpoints.
 */
#include "train/rounds/round_workers.h"
#include "base/memory.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/clean.h"
#include "train/checkpoint/resume.h"
#include "train/rounds/agreement.h"
#include "train/rounds/ensemble.h"
#include "train/rounds/ensemble_views.h"
#include "train/rounds/source.h"
#include "train/sampling/parts.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct pdl__round_workers {
    pdl_train_options_t  options; /* with partitions whatever was asked for */
    pdl_plan_t          *plan;    /* of one worker on every rank */
    int64_t              workers, batch, passes;
    pdl_session_t       *session; /* NULL of an ensemble */
    pdl__rounds_t       *rounds;
    pdl__round_source_t *source;
    pdl__ensemble_t     *ensemble;
    pdl__view_source_t  *views;
    pdl__sampling_t     *sampling;
    pdl_ranks_t         *ranks;    /* those with other workers */
    const int64_t      **ids;      /* [workers]: lists of this rank's, of an ensemble those of all */
    int64_t             *count;    /* [workers] */
    int64_t             *all;      /* ensemble: the samples of all workers */
    pdl__rounds_plan_t   cycle;    /* at most */
    pdl__identity_t     *identity; /* NULL without checkpoints */
};

static bool is_ensemble(const pdl__round_workers_t *t)
{
    return t->options.aggregate.kind == PDL_AGGREGATE_FEDDCT;
}

static int nets_of(const pdl__round_workers_t *t)
{
    return is_ensemble(t) ? (int)t->options.aggregate.nets : 1;
}

static pdl_session_t *session_of(const pdl__round_workers_t *t, int net)
{
    return t->ensemble ? pdl__ensemble_net(t->ensemble, net) : t->session;
}

pdl_session_t *pdl__round_workers_session(const pdl__round_workers_t *t)
{
    return session_of(t, 0);
}

/* Options that rounds refuse. */
static pdl_status_t check(const pdl__round_workers_t *t)
{
    const pdl_train_options_t *o = &t->options;
    const char                *kind = pdl_aggregation_names[o->aggregate.kind];
    pdl_status_t               status = pdl_aggregate_check(&o->aggregate);

    if (status) return status;
    if (o->sampling.hide.method != PDL_HIDE_NONE || o->sampling.shuffle.kind == PDL_SHUFFLE_PAIRED)
        return pdl_error(
            PDL_ERR_INPUT,
            "--aggregate %s keeps no losses of samples: leave out --hide and --shuffle paired, here and in "
            "the plan",
            kind);
    if (o->session.plan->sync_batch_norm)
        return pdl_error(
            PDL_ERR_INPUT,
            "--aggregate %s: workers train apart and have no common batch: leave out --sync-batch-norm, "
            "or sync_batch_norm in the plan",
            kind);
    if (o->session.first_statistics)
        return pdl_error(PDL_ERR_INPUT,
                         "--aggregate %s averages batch norm's statistics like weights: leave out --statistics",
                         kind);
    if (pdl_source_info(o->train)->samples < o->session.plan->batch)
        return pdl_error(PDL_ERR_INPUT, "%s has %lld samples, fewer than a batch of %lld: lower --batch",
                         pdl_source_info(o->train)->name, (long long)pdl_source_info(o->train)->samples,
                         (long long)o->session.plan->batch);
    if (o->session.plan->batch % t->workers != 0)
        return pdl_error(PDL_ERR_INPUT, "a batch of %lld cannot be shared by %lld workers: use a multiple of %lld",
                         (long long)o->session.plan->batch, (long long)t->workers, (long long)t->workers);
    if (is_ensemble(t) && o->sampling.store && strcmp(o->sampling.store, "none") != 0)
        return pdl_error(PDL_ERR_INPUT, "--aggregate feddct reads the samples of any worker: leave out --store");
    if (o->epochs < 1 && o->updates < 1)
        return pdl_error(PDL_ERR_INPUT, "say how long to train: --epochs or --steps");
    return PDL_OK;
}

/* Batches of one worker, and what a cycle is made of. */
static pdl_status_t plan_workers(pdl__round_workers_t *t)
{
    pdl_train_options_t *o = &t->options;
    int64_t              places = pdl_mesh_extent(&o->session.plan->mesh, PDL_AXIS_DATA);
    int64_t              samples = pdl_source_info(o->train)->samples;

    t->workers = o->sampling.workers > 0 ? o->sampling.workers : places;
    if (o->sampling.shuffle.kind == PDL_SHUFFLE_GLOBAL) o->sampling.shuffle.kind = PDL_SHUFFLE_LOCAL;
    if (is_ensemble(t) && !o->sampling.store) o->sampling.store = "none";
    pdl_status_t status = check(t);
    if (!status) status = pdl_plan_copy(o->session.plan, &t->plan);
    if (status) return status;
    t->batch = o->session.plan->batch / t->workers;
    t->plan->batch = t->batch * places;
    pdl__rounds_plan(&o->aggregate, (samples + t->workers - 1) / t->workers, t->batch, &t->cycle);
    t->passes = is_ensemble(t) ? o->aggregate.epochs[0] : t->cycle.epochs;
    return PDL_OK;
}

/* At least `wanted` updates of a worker, in whole rounds of one cycle. */
static int64_t whole_rounds(const pdl__round_workers_t *t, int64_t wanted, int64_t updates)
{
    int64_t round = t->cycle.rounds > 1 ? t->cycle.segment : updates;
    int64_t made = (wanted + round - 1) / round * round;

    return made < updates ? made : updates;
}

void pdl__round_workers_length(const pdl__round_workers_t *t, int64_t *cycles, int64_t *updates, int64_t *total)
{
    const pdl_train_options_t *o = &t->options;

    *updates = t->cycle.steps * t->passes * (is_ensemble(t) ? o->aggregate.nets : 1);
    *cycles = o->epochs > 0 ? (o->epochs + t->passes - 1) / t->passes : INT64_MAX / *updates;
    *total = *cycles * *updates;
    if (o->updates < 1 || o->updates >= *total) return;
    *cycles = (o->updates + *updates - 1) / *updates;
    *total = (*cycles - 1) * *updates + whole_rounds(t, o->updates - (*cycles - 1) * *updates, *updates);
}

static pdl_status_t create_rounds(pdl__round_workers_t *t, const pdl_session_spec_t *whole)
{
    pdl_session_spec_t spec = *whole;

    spec.plan = t->plan;
    spec.separate = true;
    pdl_status_t status = pdl_session_create(&spec, &t->session);
    if (!status) t->session->observer.source = t->options.train;
    if (!status) status = pdl__sampling_create(&t->options, t->session, 1, &t->sampling);
    if (status) return status;
    pdl__round_source_spec_t source = {.loader = pdl__sampling_loader(t->sampling), .seed = whole->seed};
    pdl_shuffle_workers(t->sampling->shuffle, &source.first, &source.workers);
    status = pdl_ranks_agree(whole->ranks, pdl__round_source_create(&source, &t->source));
    pdl__rounds_spec_t rounds = {.options = t->options.aggregate,
                                 .session = t->session,
                                 .workers = t->workers,
                                 .next = pdl__round_source_next,
                                 .next_context = t->source};
    return status ? status : pdl__rounds_create(&rounds, &t->rounds);
}

static pdl_status_t create_ensemble(pdl__round_workers_t *t, const pdl_session_spec_t *whole)
{
    const pdl_train_options_t *o = &t->options;
    pdl__view_source_spec_t    views = {.loader = {.source = o->train,
                                                   .samples = t->batch,
                                                   .threads = o->loader_threads,
                                                   .depth = o->prefetch,
                                                   .normalise = o->normalise,
                                                   .augmentation = o->augmentation,
                                                   .seed = o->session.seed},
                                        .nets = (int)o->aggregate.nets,
                                        .workers = t->workers,
                                        .seed = o->session.seed};
    pdl_status_t               status = pdl_ranks_agree(whole->ranks, pdl__view_source_create(&views, &t->views));

    if (status) return status;
    pdl__ensemble_spec_t spec = {.options = o->aggregate,
                                 .session = *whole,
                                 .workers = t->workers,
                                 .views = pdl__view_source_views(t->views)};
    spec.session.plan = t->plan;
    status = pdl__ensemble_create(&spec, &t->ensemble);
    for (int i = 0; i < nets_of(t) && !status; i++) session_of(t, i)->observer.source = o->train;
    if (!status) status = pdl__sampling_create(o, session_of(t, 0), 1, &t->sampling);
    return status;
}

pdl_status_t pdl__round_workers_create(const pdl_train_options_t *options, pdl__round_workers_t **out)
{
    pdl__round_workers_t *t = calloc(1, sizeof(*t));
    int64_t               cycles, updates, total;

    if (!t) return pdl__no_memory("for the workers");
    t->options = *options;
    pdl_session_spec_t spec = options->session;
    pdl_status_t       status = plan_workers(t);
    if (!status) {
        pdl__round_workers_length(t, &cycles, &updates, &total);
        if (spec.optimizer.total_steps == 0) spec.optimizer.total_steps = (double)total;
        spec.timeline = options->trace != NULL;
        t->ids = calloc((size_t)t->workers, sizeof(*t->ids));
        t->count = calloc((size_t)t->workers, sizeof(*t->count));
        if (is_ensemble(t)) t->all = calloc((size_t)pdl_source_info(options->train)->samples, sizeof(*t->all));
        if (!t->ids || !t->count || (is_ensemble(t) && !t->all)) status = pdl__no_memory("for the workers");
    }
    status = pdl_ranks_agree(spec.ranks, status);
    if (!status) status = is_ensemble(t) ? create_ensemble(t, &spec) : create_rounds(t, &spec);
    if (!status) status = pdl_session_data_ranks(pdl__round_workers_session(t), &t->ranks);
    if (!status && options->checkpoint) status = pdl__identity_create(&t->options, &t->identity);
    if (!status && t->identity && t->ensemble) { /* nets are narrower than the model that was described */
        free(t->identity->model);
        t->identity->model = NULL;
    }
    if (status) {
        pdl__round_workers_destroy(t);
        return status;
    }
    *out = t;
    return PDL_OK;
}

void pdl__round_workers_destroy(pdl__round_workers_t *t)
{
    if (!t) return;
    pdl__round_source_destroy(t->source);
    pdl__view_source_destroy(t->views);
    pdl__rounds_destroy(t->rounds);
    pdl__sampling_destroy(t->sampling);
    pdl__ensemble_destroy(t->ensemble);
    pdl_session_destroy(t->session);
    if (t->plan) pdl_plan_destroy(t->plan);
    pdl__identity_destroy(t->identity);
    free(t->ids);
    free(t->count);
    free(t->all);
    free(t);
}

/* Sends the partitions of all workers to all ranks. */
static pdl_status_t share_partitions(pdl__round_workers_t *t, int64_t first, int64_t here)
{
    double      *counts = calloc((size_t)t->workers, sizeof(*counts));
    int64_t      at = 0, low, high;
    pdl_status_t status = counts ? PDL_OK : pdl__no_memory("for the workers");

    status = pdl_ranks_agree(t->ranks, status);
    for (int64_t w = first; w < first + here && !status; w++) counts[w] = (double)t->count[w];
    if (!status) status = pdl_ranks_sum(t->ranks, counts, t->workers);
    for (int64_t w = 0; w < t->workers && !status; w++) {
        t->count[w] = (int64_t)counts[w];
        if (w >= first && w < first + here) memcpy(t->all + at, t->ids[w], (size_t)t->count[w] * sizeof(*t->all));
        t->ids[w] = t->all + at;
        at += t->count[w];
    }
    for (int k = 0; k < pdl_ranks_size(t->ranks) && !status; k++) {
        int64_t samples = 0;
        pdl_block_range(t->workers, pdl_ranks_size(t->ranks), k, &low, &high);
        for (int64_t w = low; w < high; w++) samples += t->count[w];
        status =
            pdl_ranks_broadcast(t->ranks, t->all + (t->ids[low] - t->all), samples * (int64_t)sizeof(*t->all), k);
    }
    free(counts);
    return status;
}

pdl_status_t pdl__round_workers_begin(pdl__round_workers_t *t, int64_t cycle, int64_t skip, int64_t *rounds)
{
    pdl_shuffle_epoch_t input = {0};
    int64_t             steps, first, here;
    pdl__rounds_plan_t  plan;
    pdl_status_t        status = pdl_shuffle_begin(t->sampling->shuffle, cycle, &input, &steps);

    if (status) return status;
    pdl_shuffle_workers(t->sampling->shuffle, &first, &here);
    for (int64_t w = first; w < first + here; w++)
        t->ids[w] = pdl_shuffle_partition(t->sampling->shuffle, w, &t->count[w]);
    *rounds = 1;
    if (t->ensemble) {
        status = share_partitions(t, first, here);
        if (!status) status = pdl__ensemble_begin(t->ensemble, t->count, &steps);
        if (!status)
            status =
                pdl__view_source_begin(t->views, cycle, t->options.aggregate.epochs[0], steps, t->ids, t->count);
        return status;
    }
    status = pdl__rounds_begin(t->rounds, t->count + first, &plan);
    if (status) return status;
    pdl__rounds_skip(t->rounds, skip);
    *rounds = plan.rounds;
    return pdl__round_source_begin(t->source, cycle, &plan, skip, t->ids + first, t->count + first);
}

pdl_status_t pdl__round_workers_run(pdl__round_workers_t *t, pdl__round_result_t *result)
{
    pdl__ensemble_result_t e;

    if (!t->ensemble) return pdl__rounds_run(t->rounds, result);
    pdl_status_t status = pdl__ensemble_run(t->ensemble, &e);
    *result = (pdl__round_result_t){.round = e.round,
                                    .updates = e.updates,
                                    .loss = e.loss,
                                    .accuracy = e.accuracy,
                                    .samples = e.samples,
                                    .train_s = e.train_s,
                                    .exchange_s = e.exchange_s,
                                    .stop = e.stop};
    return status;
}

pdl_status_t pdl__round_workers_end(pdl__round_workers_t *t, pdl_train_epoch_t *epoch)
{
    return pdl__sampling_end(t->sampling, epoch);
}

pdl_status_t pdl__round_workers_score(pdl__round_workers_t *t, pdl_score_t *score)
{
    const pdl_train_options_t *o = &t->options;

    return t->ensemble ? pdl__ensemble_score(t->ensemble, o->valid, o->loader_threads, o->normalise, score)
                       : pdl_evaluate(t->session, o->valid, o->loader_threads, o->normalise, score);
}

pdl_status_t pdl__round_workers_describe(const pdl__round_workers_t *t, char *text, size_t size)
{
    pdl__ensemble_report_t report;

    if (!t->ensemble) {
        snprintf(text, size, "%lld workers of %lld samples a step, %s: %lld updates between two means",
                 (long long)t->workers, (long long)t->batch, pdl_aggregation_names[t->options.aggregate.kind],
                 (long long)(t->cycle.rounds > 1 ? t->cycle.segment : t->cycle.steps * t->cycle.epochs));
        return PDL_OK;
    }
    pdl_status_t status = pdl__ensemble_report(t->ensemble, &report);
    if (report.sent_bytes > 0) {
        snprintf(text, size,
                 "%lld workers in clusters of %lld: nets of %lld weights in place of one of %lld; the rank of the "
                 "stems, up "
                 "to %s, holds %.2f MiB and that of the bodies %.2f MiB, and a step sends %.3f MiB between them",
                 (long long)t->workers, (long long)t->options.aggregate.nets, (long long)report.net_weights,
                 (long long)report.whole_weights, report.cut, report.stem_bytes / (1 << 20),
                 report.body_bytes / (1 << 20), report.sent_bytes / (1 << 20));
        return status;
    }
    snprintf(text, size,
             "%lld workers in clusters of %lld: nets of %lld weights in place of one of %lld; a device holds %.1f "
             "MiB, and "
             "a step sends %.2f MiB over the cut after %s",
             (long long)t->workers, (long long)t->options.aggregate.nets, (long long)report.net_weights,
             (long long)report.whole_weights, (double)report.net.total / (1 << 20),
             (report.cut_bytes + report.logit_bytes) / (1 << 20), report.cut);
    return status;
}

/* Where net i is kept; the run's folder itself where there is one network. */
static char *folder_of(const pdl__round_workers_t *t, int i, char *path, size_t size)
{
    if (t->ensemble)
        snprintf(path, size, "%s/" PDL__NET "%d", t->options.checkpoint, i);
    else
        snprintf(path, size, "%s", t->options.checkpoint);
    return path;
}

static const char rounds_name[] = PDL__EXTRA "rounds";

/* The numbers of the rounds join those of the samples. */
static pdl_status_t gather_extras(pdl__round_workers_t *t, pdl__extras_t *extras)
{
    int64_t       count = 0;
    pdl_status_t  status = pdl__sampling_save(t->sampling, extras);
    const double *state = t->rounds && !status ? pdl__rounds_state(t->rounds, &count) : NULL;

    if (!state) return status;
    void *copy = malloc((size_t)count * sizeof(*state));
    status = pdl_ranks_agree(t->options.session.ranks, copy ? PDL_OK : pdl__no_memory("for the workers"));
    if (status) {
        free(copy);
        pdl__extras_free(extras);
        return status;
    }
    memcpy(copy, state, (size_t)count * sizeof(*state));
    extras->extra[extras->count++] = (pdl__extra_t){rounds_name, true, count * (int64_t)sizeof(*state), copy};
    return PDL_OK;
}

pdl_status_t pdl__round_workers_save(pdl__round_workers_t *t, int64_t cycle, int64_t round, const double sums[3])
{
    const pdl_train_options_t *o = &t->options;
    const pdl_model_t         *model = pdl__round_workers_session(t)->spec.plan->model; /* one net's */
    pdl__extras_t              extras = {0};
    pdl__place_t               place = {.epoch = cycle,
                                        .step_in_epoch = round,
                                        .sums = {sums[0], sums[1], sums[2]},
                                        .model_name = t->ensemble ? pdl_model_name(model) : o->model_name,
                                        .model_hash = pdl_model_hash(model),
                                        .identity = t->identity,
                                        .extras = &extras};
    int                        nets = nets_of(t);
    bool                       writes_folder = t->ensemble && pdl_ranks_rank(o->session.ranks) == 0;
    char                       path[4096];
    pdl_status_t               status = gather_extras(t, &extras);

    if (writes_folder) mkdir(o->checkpoint, 0777); /* errors show below */
    /* Old checkpoints of a net go when all nets have the new one: there is a common step at every moment. */
    for (int i = 0; i < nets && !status; i++)
        status = pdl__session_save(session_of(t, i), folder_of(t, i, path, sizeof(path)), &place,
                                   t->ensemble ? INT_MAX : o->keep);
    if (writes_folder && !status) {
        for (int i = 0; i < nets; i++)
            pdl__checkpoint_tidy(folder_of(t, i, path, sizeof(path)), pdl_session_updates(session_of(t, 0)),
                                 o->keep);
        pdl__checkpoint_tidy(o->checkpoint, 0, INT_MAX);
    }
    pdl__extras_free(&extras);
    return status;
}

static pdl_status_t restore_rounds(pdl__round_workers_t *t, const pdl_checkpoint_t *checkpoint)
{
    const pdl_stored_t *stored = pdl_safetensors_find(pdl_checkpoint_state(checkpoint), rounds_name);

    if (stored->type != PDL_STORED_U8 || stored->rank != 1 || stored->dims[0] % (int64_t)sizeof(double))
        return pdl_error(PDL_ERR_INPUT, "%s: %s is not what a run has written", pdl_checkpoint_path(checkpoint),
                         rounds_name);
    double *numbers = malloc((size_t)stored->dims[0] + 1);
    if (!numbers) return pdl__no_memory("for the workers");
    memcpy(numbers, stored->data, (size_t)stored->dims[0]);
    pdl_status_t status = pdl__rounds_restore(t->rounds, numbers, stored->dims[0] / (int64_t)sizeof(double));
    free(numbers);
    return status;
}

/* Whether the checkpoint is of rounds like these, before its numbers are taken. */
static pdl_status_t check_kind(const pdl__round_workers_t *t, const pdl_checkpoint_t *checkpoint)
{
    const pdl_checkpoint_info_t *info = pdl_checkpoint_info(checkpoint);
    const pdl_safetensors_t     *state = pdl_checkpoint_state(checkpoint);
    int64_t                      batch = pdl__round_workers_session(t)->batch;

    if (!info || !state) return PDL_OK; /* pdl__session_restore() refuses it */
    if (t->rounds && !pdl_safetensors_find(state, rounds_name))
        return pdl_error(PDL_ERR_INPUT, "%s was written without --aggregate: resume with the same options",
                         pdl_checkpoint_path(checkpoint));
    if (info->batch != batch)
        return pdl_error(
            PDL_ERR_INPUT,
            "%s was written with %lld samples a step, one worker on each rank, this run has %lld: resume "
            "with the same --batch, --workers and --pe",
            pdl_checkpoint_path(checkpoint), (long long)info->batch, (long long)batch);
    return PDL_OK;
}

static pdl_status_t restore_one(pdl__round_workers_t *t, int i, const pdl_checkpoint_t *checkpoint,
                                pdl__place_t *place)
{
    pdl_ranks_t *ranks = t->options.session.ranks;
    pdl_status_t status = pdl_ranks_agree(ranks, check_kind(t, checkpoint));

    if (!status) status = pdl__session_restore(session_of(t, i), checkpoint, true, place);
    if (!status && i == 0) status = pdl__sampling_restore(t->sampling, checkpoint, place->step_in_epoch > 0);
    if (!status && t->rounds) status = pdl_ranks_agree(ranks, restore_rounds(t, checkpoint));
    return status;
}

pdl_status_t pdl__round_workers_restore(pdl__round_workers_t *t, int64_t *cycle, int64_t *round, double sums[3],
                                        bool *found)
{
    int               nets = nets_of(t);
    char              path[PDL__MAX_NETS][4096];
    const char       *folders[PDL__MAX_NETS] = {NULL};
    pdl_checkpoint_t *checkpoints[PDL__MAX_NETS];
    pdl__place_t      place = {0};

    for (int i = 0; i < nets; i++) folders[i] = folder_of(t, i, path[i], sizeof(path[i]));
    pdl_status_t status = pdl__resume_open(&t->options, t->identity, folders, nets, checkpoints, found);
    for (int i = 0; i < nets && *found && !status; i++) status = restore_one(t, i, checkpoints[i], &place);
    if (t->ensemble && !status) pdl__ensemble_restore(t->ensemble, place.epoch);
    for (int i = 0; i < nets; i++) pdl_checkpoint_close(checkpoints[i]);
    *cycle = place.epoch;
    *round = place.step_in_epoch;
    memcpy(sums, place.sums, sizeof(place.sums));
    return status;
}

pdl_status_t pdl__round_workers_trace(const pdl__round_workers_t *t)
{
    const pdl_session_t *session[PDL__MAX_NETS];

    for (int i = 0; i < nets_of(t); i++) session[i] = session_of(t, i);
    return pdl__trace_write(session, nets_of(t), t->options.trace);
}
