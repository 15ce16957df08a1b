/*
 * The samples of a run, epoch by epoch: what was learned of them decides which are hidden, partitions decide who trains
 * on the others, and the loader is opened for exactly these.
 */
#include "base/clock.h"
#include "train/exec/input.h"
#include "train/sampling/parts.h"
#include <stdlib.h>
#include <string.h>

static bool has_partitions(const pdl_sampling_options_t *o)
{
    return o->shuffle.kind != PDL_SHUFFLE_GLOBAL;
}

/* Losses are kept where samples are hidden or paired by them. */
static bool keeps_losses(const pdl_sampling_options_t *o)
{
    return o->hide.method != PDL_HIDE_NONE || o->shuffle.kind == PDL_SHUFFLE_PAIRED;
}

static pdl_status_t check_workers(const pdl_plan_t *plan, int64_t workers, int64_t places)
{
    if (workers % places != 0)
        return pdl_error(PDL_ERR_INPUT,
                         "--workers %lld cannot be divided over %lld ranks with samples of their own: use a "
                         "multiple of %lld",
                         (long long)workers, (long long)places, (long long)places);
    if (plan->batch % workers != 0)
        return pdl_error(PDL_ERR_INPUT, "a batch of %lld cannot be shared by %lld workers: use a multiple of %lld",
                         (long long)plan->batch, (long long)workers, (long long)workers);
    return PDL_OK;
}

static int64_t worker_count(const pdl_train_options_t *o)
{
    int64_t places = pdl_mesh_extent(&o->session.plan->mesh, PDL_AXIS_DATA);

    return o->sampling.workers > 0 ? o->sampling.workers : places;
}

pdl_status_t pdl_train_prepare(const pdl_train_options_t *o, pdl_session_spec_t *spec)
{
    const pdl_sampling_options_t *sampling = &o->sampling;
    int64_t                       places = pdl_mesh_extent(&spec->plan->mesh, PDL_AXIS_DATA);
    int64_t                       workers = worker_count(o);
    pdl_status_t                  status = PDL_OK;

    if (sampling->workers > 0 || has_partitions(sampling)) status = check_workers(spec->plan, workers, places);
    if (!status && sampling->hide.method != PDL_HIDE_NONE) status = pdl_hide_check(&sampling->hide);
    if (status) return status;
    if (sampling->hide.scope == PDL_HIDE_LOCAL && sampling->hide.method != PDL_HIDE_NONE &&
        !has_partitions(sampling))
        return pdl_error(PDL_ERR_INPUT,
                         "--hide-scope local needs partitions: use --shuffle local, partial or paired");
    if (sampling->hide.method == PDL_HIDE_IMPORTANCE && has_partitions(sampling))
        return pdl_error(PDL_ERR_INPUT, "--hide-method importance draws from all samples: use --shuffle global");
    spec->workers = workers / places;
    if (sampling->batch_confidence && sampling->hide.method != PDL_HIDE_NONE) spec->logits = pdl__batch_confidence;
    return PDL_OK;
}

/* Every sample is read once for its class; only where a partition or its report depends on it. */
static pdl_status_t read_labels(pdl__sampling_t *s)
{
    const pdl_source_info_t *info = pdl_source_info(s->options->train);
    float                   *values = malloc((size_t)pdl_shape_elements(&info->shape) * sizeof(*values));
    pdl_status_t             status = PDL_OK;

    if (info->target != PDL_TARGET_CLASS) {
        free(values);
        return pdl_error(PDL_ERR_INPUT, "--partition %s needs one class a sample: %s has none",
                         pdl_partition_names[s->options->sampling.shuffle.partition], info->name);
    }
    s->labels = malloc((size_t)info->samples * sizeof(*s->labels));
    if (!values || !s->labels) status = pdl_error(PDL_ERR_NOMEM, "out of memory for the classes of all samples");
    for (int64_t i = 0; i < info->samples && !status; i++) {
        pdl_sample_t sample = {.values = values, .labels = &s->labels[i]};
        status = pdl_source_read(s->options->train, i, &sample);
    }
    free(values);
    return status;
}

/* A rank keeps its own samples when others have different ones. */
static pdl_status_t create_store(pdl__sampling_t *s, pdl_ranks_t *places)
{
    const char      *where = s->options->sampling.store;
    pdl_store_spec_t spec = {.source = s->options->train};

    if (!where) where = has_partitions(&s->options->sampling) && pdl_ranks_size(places) > 1 ? "memory" : "none";
    if (strcmp(where, "none") == 0) return PDL_OK;
    if (!has_partitions(&s->options->sampling))
        return pdl_error(PDL_ERR_INPUT, "--store needs partitions: use --shuffle local, partial or paired");
    if (strcmp(where, "memory") != 0) spec.folder = where;
    pdl_status_t status = pdl_store_create(&spec, &s->store);
    if (!status) s->source = pdl_store_source(s->store);
    return status;
}

static pdl_status_t create_shuffle(pdl__sampling_t *s)
{
    const pdl_train_options_t *o = s->options;
    const pdl_source_info_t   *info = pdl_source_info(o->train);
    pdl_shuffle_spec_t         spec = {.options = o->sampling.shuffle,
                                       .samples = info->samples,
                                       .workers = worker_count(o),
                                       .batch = s->batch / worker_count(o),
                                       .whole_batch = s->batch,
                                       .first = s->session->first,
                                       .keep_rest = o->sampling.hide.method != PDL_HIDE_NONE,
                                       .classes = info->classes};
    pdl_status_t               status = pdl_session_data_ranks(s->session, &spec.ranks);

    if (!status && o->sampling.shuffle.partition != PDL_PARTITION_RANDOM && has_partitions(&o->sampling))
        status = read_labels(s);
    if (!status) status = create_store(s, spec.ranks);
    status = pdl_ranks_agree(o->session.ranks, status);
    if (status) return status;
    spec.labels = s->labels;
    spec.store = s->store;
    return pdl_shuffle_create(&spec, &s->shuffle);
}

static float weigh(void *hide, int64_t index)
{
    return pdl_hide_weight(hide, index);
}

pdl_loader_spec_t pdl__sampling_loader(pdl__sampling_t *s)
{
    const pdl_train_options_t *o = s->options;
    pdl_loader_spec_t          spec = {.source = s->source,
                                       .steps_per_epoch = 1,
                                       .threads = o->loader_threads,
                                       .depth = o->prefetch,
                                       .normalise = o->normalise,
                                       .shift_tokens = true,
                                       .augmentation = o->augmentation,
                                       .seed = o->session.seed,
                                       .device = pdl__input_device(s->session)};
    int64_t                    first;

    pdl_session_share(s->session, &first, &spec.samples);
    spec.bytes = spec.device != NULL && pdl_source_info(s->source)->bytes;
    return spec;
}

static pdl_status_t create_loader(pdl__sampling_t *s)
{
    pdl_loader_spec_t spec = pdl__sampling_loader(s);

    spec.order = pdl_shuffle_order;
    spec.order_context = s->shuffle;
    spec.gated = true;
    if (s->options->sampling.hide.method == PDL_HIDE_UNBIASED) {
        spec.weigh = weigh;
        spec.weigh_context = s->hide;
    }
    return pdl_loader_create(&spec, &s->loader);
}

int64_t pdl__sampling_full_steps(const pdl_train_options_t *o)
{
    int64_t samples = pdl_source_info(o->train)->samples, workers = worker_count(o), all = o->session.plan->batch;
    int64_t most = (samples + workers - 1) / workers, batch = all / workers;
    bool    rest = o->sampling.hide.method != PDL_HIDE_NONE;

    if (has_partitions(&o->sampling)) return (most + batch - 1) / batch;
    return samples / all + (rest && samples % all != 0);
}

pdl_status_t pdl__sampling_create(const pdl_train_options_t *options, pdl_session_t *session, int64_t epochs,
                                  pdl__sampling_t **out)
{
    pdl__sampling_t *s = calloc(1, sizeof(*s));
    pdl_status_t     status = s ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (status) return pdl_ranks_agree(options->session.ranks, status);
    s->options = options;
    s->session = session;
    s->source = options->train;
    s->epochs = epochs;
    s->epoch = -1;
    s->batch = options->session.plan->batch;
    status = create_shuffle(s);
    if (!status && keeps_losses(&options->sampling))
        status = pdl_hide_create(&options->sampling.hide, pdl_source_info(options->train)->samples, &s->hide);
    if (!status) status = create_loader(s);
    status = pdl_ranks_agree(options->session.ranks, status);
    if (status) {
        pdl__sampling_destroy(s);
        return status;
    }
    *out = s;
    return PDL_OK;
}

void pdl__sampling_destroy(pdl__sampling_t *s)
{
    if (!s) return;
    pdl_loader_destroy(s->loader);
    pdl_shuffle_destroy(s->shuffle);
    pdl_store_destroy(s->store);
    pdl_hide_destroy(s->hide);
    free(s->labels);
    free(s);
}

/* Chooses what is hidden; for a local choice from the partitions of this rank's workers. */
static pdl_status_t begin_hiding(pdl__sampling_t *s, int64_t epoch)
{
    pdl_hide_workers_t workers = {.batch = s->batch,
                                  .ranks = s->options->session.ranks,
                                  .reports = pdl_session_reports(s->session)};
    const int64_t    **partition = NULL;
    int64_t           *sizes = NULL, first, count = 0;
    pdl_status_t       status = PDL_OK;

    if (s->options->sampling.hide.scope == PDL_HIDE_LOCAL) pdl_shuffle_workers(s->shuffle, &first, &count);
    if (count > 0) {
        partition = calloc((size_t)count, sizeof(*partition));
        sizes = calloc((size_t)count, sizeof(*sizes));
        if (!partition || !sizes) status = pdl_error(PDL_ERR_NOMEM, "out of memory");
        for (int64_t w = 0; w < count && !status; w++)
            partition[w] = pdl_shuffle_partition(s->shuffle, first + w, &sizes[w]);
        workers.count = count;
        workers.partition = partition;
        workers.sizes = sizes;
        status = pdl_ranks_agree(s->options->session.ranks, status);
    }
    if (!status) status = pdl_hide_begin(s->hide, epoch, s->epochs, &workers);
    free(partition);
    free(sizes);
    return status;
}

pdl_status_t pdl__sampling_begin(pdl__sampling_t *s, int64_t epoch, int64_t first, int64_t *steps, double *rate)
{
    pdl_shuffle_epoch_t input = {0};
    pdl_status_t        status = s->hide ? begin_hiding(s, epoch) : PDL_OK;

    *rate = 1;
    if (s->hide) {
        input.loss = pdl_hide_loss(s->hide);
        input.hidden = pdl_hide_bits(s->hide);
        input.drawn = pdl_hide_drawn(s->hide, &input.drawn_count);
        *rate = pdl_hide_rate(s->hide);
    }
    if (!status) status = pdl_shuffle_begin(s->shuffle, epoch, &input, &s->steps);
    if (!status) status = pdl_loader_epoch(s->loader, epoch, first, s->steps);
    s->epoch = epoch;
    *steps = s->steps;
    return pdl_ranks_agree(s->options->session.ranks, status);
}

pdl_status_t pdl__sampling_next(pdl__sampling_t *s, pdl_batch_t *batch)
{
    return pdl_loader_next(s->loader, batch);
}

pdl_status_t pdl__sampling_ahead(pdl__sampling_t *s)
{
    pdl_batch_t batch;

    return pdl_loader_peek(s->loader, &batch) ? pdl_session_expect(s->session, &batch) : PDL_OK;
}

pdl_status_t pdl__sampling_after(pdl__sampling_t *s, const pdl_batch_t *batch)
{
    pdl_status_t status = s->hide ? pdl__sampling_note(s, batch, batch->step * s->batch) : PDL_OK;

    return status ? status : pdl_shuffle_step(s->shuffle, batch->step);
}

pdl_status_t pdl__sampling_end(pdl__sampling_t *s, pdl_train_epoch_t *epoch)
{
    const pdl_sampling_options_t *o = &s->options->sampling;
    double                        start_s = pdl__seconds();
    pdl_status_t                  status = PDL_OK;

    if (s->hide && pdl_hide_refreshes(s->hide)) status = pdl__sampling_refresh(s);
    epoch->refresh_s = pdl__seconds() - start_s;
    if (!status && s->hide) status = pdl_hide_combine(s->hide, s->options->session.ranks);
    if (!status) status = pdl_shuffle_end(s->shuffle, o->check);
    if (status) return status;
    epoch->steps = s->steps;
    epoch->exchanges = has_partitions(o);
    epoch->hides = o->hide.method != PDL_HIDE_NONE;
    pdl_shuffle_report(s->shuffle, &epoch->shuffle);
    if (s->hide) pdl_hide_report(s->hide, &epoch->hide);
    s->epoch = -1;
    return PDL_OK;
}
