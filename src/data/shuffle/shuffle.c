/*
 * Shuffling: the epoch procedure of Nguyen and others, "Why globally re-shuffle?", IPDPS 2022.
 *
 * Every worker shuffles its samples with a generator of its own, trains on them in that order, and sends the last k of
 * them away meanwhile. Until the epoch ends the partition is that of its beginning.
 */
#include "data/shuffle/shuffle.h"

#include "base/clock.h"

#include <paradl/base/random.h>
#include <paradl/plan/mesh.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t *pdl__shuffle_list(const pdl_shuffle_t *shuffle, int64_t i, int64_t *count)
{
    int64_t low, high;

    pdl__partition_range(shuffle, shuffle->first + i, &low, &high);
    *count = high - low;
    return shuffle->list + (low - shuffle->base);
}

static bool is_global(const pdl_shuffle_t *shuffle)
{
    return shuffle->spec.options.kind == PDL_SHUFFLE_GLOBAL;
}

static bool exchanges(const pdl_shuffle_t *shuffle)
{
    return shuffle->spec.options.kind == PDL_SHUFFLE_PARTIAL || shuffle->spec.options.kind == PDL_SHUFFLE_PAIRED;
}

/* ---- creation ---- */

static pdl_status_t check_labels(const pdl_shuffle_spec_t *spec)
{
    if (spec->labels == NULL) {
        if (spec->options.kind == PDL_SHUFFLE_GLOBAL || spec->options.partition == PDL_PARTITION_RANDOM)
            return PDL_OK;
        return pdl_error(PDL_ERR_INPUT, "a partition by class needs samples with one class each");
    }
    for (int64_t i = 0; i < spec->samples; i++) {
        if (spec->labels[i] >= 0 && spec->labels[i] < spec->classes) continue;
        return pdl_error(PDL_ERR_INPUT, "sample %" PRId64 " has class %d, but there are %" PRId64 " classes", i,
                         (int)spec->labels[i], spec->classes);
    }
    return PDL_OK;
}

static pdl_status_t check_spec(const pdl_shuffle_spec_t *spec)
{
    const pdl_shuffle_options_t *options = &spec->options;
    const bool                   global = options->kind == PDL_SHUFFLE_GLOBAL;

    if (!(options->fraction >= 0 && options->fraction <= 1)) {
        return pdl_error(PDL_ERR_INPUT, "the fraction of samples to exchange is %g: expected 0 to 1",
                         options->fraction);
    }
    if (spec->workers < 1 || spec->samples < spec->workers) {
        return pdl_error(PDL_ERR_INPUT,
                         "%" PRId64 " samples cannot be shared by %" PRId64 " workers: use fewer workers",
                         spec->samples, spec->workers);
    }
    if (!global && spec->workers < pdl_ranks_size(spec->ranks)) {
        return pdl_error(PDL_ERR_INPUT, "%" PRId64 " workers are fewer than %d ranks: every rank has at least one",
                         spec->workers, pdl_ranks_size(spec->ranks));
    }
    if (global ? spec->whole_batch < 1 || spec->first < 0 || spec->first > spec->whole_batch : spec->batch < 1) {
        return pdl_error(PDL_ERR_INPUT, "a batch of %" PRId64 " samples: expected 1 or more",
                         global ? spec->whole_batch : spec->batch);
    }
    if (options->random_every < 0) {
        return pdl_error(PDL_ERR_INPUT, "a random matching every %d epochs: expected 0 (never) or more",
                         options->random_every);
    }
    return check_labels(spec);
}

static void *room(int64_t count, size_t size)
{
    return calloc(count > 0 ? (size_t)count : 1, size);
}

static pdl_status_t out_of_memory(const pdl_shuffle_t *shuffle)
{
    return pdl_error(PDL_ERR_NOMEM, "out of memory for %" PRId64 " samples of %" PRId64 " workers",
                     shuffle->spec.samples, shuffle->spec.workers);
}

/* Everything whose size the partition gives. */
static pdl_status_t make_room(pdl_shuffle_t *shuffle)
{
    const int64_t samples = shuffle->spec.samples, workers = shuffle->spec.workers, count = shuffle->count;

    if (is_global(shuffle)) {
        shuffle->spare = room(samples, sizeof(*shuffle->spare));
        return shuffle->spare != NULL ? PDL_OK : out_of_memory(shuffle);
    }
    shuffle->list = room(shuffle->held, sizeof(*shuffle->list));
    shuffle->spare = room(shuffle->held, sizeof(*shuffle->spare));
    shuffle->training = room(shuffle->held, sizeof(*shuffle->training));
    shuffle->hidden = room(shuffle->held, sizeof(*shuffle->hidden));
    shuffle->trains = room(count, sizeof(*shuffle->trains));
    if (shuffle->list == NULL || shuffle->spare == NULL || shuffle->training == NULL || shuffle->hidden == NULL ||
        shuffle->trains == NULL)
        return out_of_memory(shuffle);
    if (!exchanges(shuffle)) return PDL_OK;
    shuffle->words = (workers + 63) / 64;
    shuffle->out = room(count * shuffle->slots, sizeof(*shuffle->out));
    shuffle->received = room(count * shuffle->slots, sizeof(*shuffle->received));
    shuffle->target = room(count, sizeof(*shuffle->target));
    shuffle->origin = room(count, sizeof(*shuffle->origin));
    shuffle->scratch = room(workers, sizeof(*shuffle->scratch));
    shuffle->score = room(workers, sizeof(*shuffle->score));
    shuffle->partner = room(workers, sizeof(*shuffle->partner));
    shuffle->key = room(samples / workers + 1, sizeof(*shuffle->key));
    shuffle->met = room(count * shuffle->words, sizeof(*shuffle->met));
    if (shuffle->out == NULL || shuffle->received == NULL || shuffle->target == NULL || shuffle->origin == NULL ||
        shuffle->scratch == NULL || shuffle->score == NULL || shuffle->partner == NULL || shuffle->key == NULL ||
        shuffle->met == NULL)
        return out_of_memory(shuffle);
    return pdl__exchange_create(shuffle, &shuffle->exchange);
}

pdl_status_t pdl__shuffle_load(pdl_shuffle_t *shuffle)
{
    pdl_status_t status = PDL_OK;

    if (shuffle->spec.store != NULL) {
        if (is_global(shuffle)) {
            for (int64_t i = 0; i < shuffle->spec.samples; i++) shuffle->spare[i] = i;
        }
        status = pdl_store_load(shuffle->spec.store, is_global(shuffle) ? shuffle->spare : shuffle->list,
                                is_global(shuffle) ? shuffle->spec.samples : shuffle->held);
    }
    return pdl_ranks_agree(shuffle->ranks, status);
}

/* This rank's part of the first partition. */
static pdl_status_t divide(pdl_shuffle_t *shuffle)
{
    int64_t     *all = malloc((size_t)shuffle->spec.samples * sizeof(*all));
    pdl_status_t status = all != NULL ? pdl__partition_make(&shuffle->spec, all) : out_of_memory(shuffle);

    if (!status) memcpy(shuffle->list, all + shuffle->base, (size_t)shuffle->held * sizeof(*all));
    free(all);
    for (int64_t i = 0; !status && i < shuffle->count; i++) {
        int64_t count, *list = pdl__shuffle_list(shuffle, i, &count);

        pdl__partition_sort(list, count);
    }
    return status;
}

/* Which workers are here, and how many samples they exchange. */
static void find_place(pdl_shuffle_t *shuffle)
{
    const int64_t per_worker = shuffle->spec.samples / shuffle->spec.workers;
    int64_t       end, unused;

    pdl_block_range(shuffle->spec.workers, pdl_ranks_size(shuffle->ranks), pdl_ranks_rank(shuffle->ranks),
                    &shuffle->first, &end);
    shuffle->count = end - shuffle->first;
    if (shuffle->count > 0) {
        pdl__partition_range(shuffle, shuffle->first, &shuffle->base, &unused);
        pdl__partition_range(shuffle, end - 1, &unused, &shuffle->held);
        shuffle->held -= shuffle->base;
    }
    if (exchanges(shuffle)) shuffle->slots = llround(shuffle->spec.options.fraction * (double)per_worker);
    shuffle->order = (pdl_global_order_t){.samples = shuffle->spec.samples,
                                          .batch = shuffle->spec.whole_batch,
                                          .first = shuffle->spec.first,
                                          .seed = shuffle->spec.options.seed,
                                          .shuffle = true,
                                          .epoch = -1};
}

pdl_status_t pdl_shuffle_create(const pdl_shuffle_spec_t *spec, pdl_shuffle_t **result)
{
    pdl_status_t   status = pdl_ranks_agree(spec->ranks, check_spec(spec));
    pdl_shuffle_t *shuffle;

    if (status) return status;
    shuffle = calloc(1, sizeof(*shuffle));
    status = pdl_ranks_agree(spec->ranks, shuffle != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory"));
    if (!status) status = pdl_ranks_split(spec->ranks, 0, pdl_ranks_rank(spec->ranks), &shuffle->ranks);
    if (status) {
        free(shuffle);
        return status;
    }
    shuffle->spec = *spec;
    shuffle->epoch = -1;
    find_place(shuffle);
    status = make_room(shuffle);
    if (!status && !is_global(shuffle)) status = divide(shuffle);
    status = pdl_ranks_agree(shuffle->ranks, status);
    if (!status) status = pdl__shuffle_load(shuffle);
    if (status) {
        pdl_shuffle_destroy(shuffle);
        return status;
    }
    *result = shuffle;
    return PDL_OK;
}

void pdl_shuffle_destroy(pdl_shuffle_t *shuffle)
{
    if (shuffle == NULL) return;
    /* Messages in flight use our memory; where something has failed, nobody may be there to complete them. */
    if (shuffle->open && shuffle->exchange != NULL && !shuffle->failed)
        (void)pdl__exchange_complete(shuffle->exchange);
    if (shuffle->open && shuffle->spec.store != NULL) pdl_store_discard(shuffle->spec.store);
    pdl__exchange_destroy(shuffle->exchange);
    pdl_global_order_free(&shuffle->order);
    free(shuffle->list);
    free(shuffle->spare);
    free(shuffle->training);
    free(shuffle->trains);
    free(shuffle->hidden);
    free(shuffle->wrapped);
    free(shuffle->out);
    free(shuffle->received);
    free(shuffle->target);
    free(shuffle->origin);
    free(shuffle->scratch);
    free(shuffle->score);
    free(shuffle->partner);
    free(shuffle->key);
    free(shuffle->met);
    pdl_ranks_destroy(shuffle->ranks);
    free(shuffle);
}

void pdl_shuffle_workers(const pdl_shuffle_t *shuffle, int64_t *first, int64_t *count)
{
    *first = shuffle->first;
    *count = shuffle->count;
}

const int64_t *pdl_shuffle_partition(const pdl_shuffle_t *shuffle, int64_t worker, int64_t *count)
{
    *count = 0;
    if (is_global(shuffle) || worker < shuffle->first || worker >= shuffle->first + shuffle->count) return NULL;
    return pdl__shuffle_list(shuffle, worker - shuffle->first, count);
}

const int64_t *pdl_shuffle_hidden(const pdl_shuffle_t *shuffle, int64_t *count)
{
    *count = shuffle->hidden_count;
    return shuffle->hidden;
}

/* ---- an epoch ---- */

/* The order of this epoch; it depends on the samples, the seed, the epoch and the worker. */
static void permute(pdl_shuffle_t *shuffle, int64_t i)
{
    const uint64_t stream =
        pdl_random_stream("local order", (uint64_t)shuffle->epoch, (uint64_t)(shuffle->first + i));
    int64_t count, *list = pdl__shuffle_list(shuffle, i, &count), *permutation = shuffle->training;

    memcpy(shuffle->spare, list, (size_t)count * sizeof(*list));
    pdl_random_permutation(shuffle->spec.options.seed, stream, count, permutation);
    for (int64_t s = 0; s < count; s++) list[s] = shuffle->spare[permutation[s]];
}

/* What a worker trains on: all but the hidden samples, or those too where there are no others. */
static void select_training(pdl_shuffle_t *shuffle, int64_t i, const uint64_t *hidden)
{
    int64_t count, *list = pdl__shuffle_list(shuffle, i, &count),
                   *training = shuffle->training + (list - shuffle->list);
    int64_t trains = 0;

    for (int64_t s = 0; s < count; s++) {
        if (hidden != NULL && (hidden[list[s] / 64] >> (list[s] % 64) & 1) != 0) {
            shuffle->hidden[shuffle->hidden_count++] = list[s];
        } else {
            training[trains++] = list[s];
        }
    }
    if (trains == 0) {
        memcpy(training, list, (size_t)count * sizeof(*list));
        trains = count;
    }
    shuffle->trains[i] = trains;
}

/* Which samples leave: the last of the shuffled list, or what the pairs say. */
static pdl_status_t select_leaving(pdl_shuffle_t *shuffle, const float *loss)
{
    const int64_t slots = shuffle->slots;

    if (shuffle->spec.options.kind == PDL_SHUFFLE_PAIRED) {
        if (!shuffle->decided) return pdl__pairs_decide(shuffle, loss);
        pdl__pairs_note(shuffle);
        return PDL_OK;
    }
    for (int64_t i = 0; i < shuffle->count; i++) {
        int64_t count, *list = pdl__shuffle_list(shuffle, i, &count);

        memcpy(shuffle->out + i * slots, list + count - slots, (size_t)slots * sizeof(*list));
    }
    return PDL_OK;
}

static pdl_status_t begin_partitioned(pdl_shuffle_t *shuffle, const pdl_shuffle_epoch_t *input, int64_t *steps)
{
    const int64_t batch = shuffle->spec.batch;
    double        most = 1;
    pdl_status_t  status = PDL_OK;

    for (int64_t i = 0; i < shuffle->count; i++) permute(shuffle, i);
    shuffle->hidden_count = 0;
    for (int64_t i = 0; i < shuffle->count; i++) {
        double needed;

        select_training(shuffle, i, input->hidden);
        needed = (double)((shuffle->trains[i] + batch - 1) / batch);
        if (needed > most) most = needed;
    }
    if (exchanges(shuffle)) status = select_leaving(shuffle, input->loss);
    if (!status) status = pdl_ranks_max(shuffle->ranks, &most, 1);
    *steps = (int64_t)most;
    return status;
}

static pdl_status_t check_begin(const pdl_shuffle_t *shuffle, int64_t epoch)
{
    if (shuffle->open) {
        return pdl_error(PDL_ERR_INPUT, "epoch %" PRId64 " begins before epoch %" PRId64 " has ended", epoch,
                         shuffle->epoch);
    }
    if (epoch < 0) return pdl_error(PDL_ERR_INPUT, "epoch %" PRId64 ": expected 0 or more", epoch);
    if (shuffle->restored && epoch != shuffle->epoch) {
        return pdl_error(PDL_ERR_INPUT, "epoch %" PRId64 " cannot begin: the checkpoint was inside epoch %" PRId64,
                         epoch, shuffle->epoch);
    }
    return PDL_OK;
}

pdl_status_t pdl_shuffle_begin(pdl_shuffle_t *shuffle, int64_t epoch, const pdl_shuffle_epoch_t *input,
                               int64_t *steps)
{
    static const pdl_shuffle_epoch_t nothing;
    pdl_status_t                     status = check_begin(shuffle, epoch);

    if (input == NULL) input = &nothing;
    if (status) return status;
    shuffle->epoch = epoch;
    shuffle->exchange_s = 0;
    shuffle->making = (pdl_shuffle_report_t){0};
    status = is_global(shuffle) ? pdl__global_begin(shuffle, input, &shuffle->steps)
                                : begin_partitioned(shuffle, input, &shuffle->steps);
    shuffle->restored = shuffle->decided = false;
    if (!status && shuffle->exchange != NULL) {
        for (int64_t i = 0; i < shuffle->count * shuffle->slots; i++) shuffle->received[i] = -1;
        status = pdl__exchange_begin(shuffle->exchange);
    }
    status = pdl_ranks_agree(shuffle->ranks, status);
    if (status) return status;
    shuffle->open = true;
    *steps = shuffle->steps;
    return PDL_OK;
}

pdl_status_t pdl_shuffle_order(void *context, int64_t epoch, int64_t step, int64_t count, int64_t *indices)
{
    pdl_shuffle_t *shuffle = context;
    const int64_t  batch = shuffle->spec.batch;

    if (epoch != shuffle->epoch || step < 0 || step >= shuffle->steps) {
        return pdl_error(PDL_ERR_INPUT,
                         "there is no step %" PRId64 " of epoch %" PRId64 ": epoch %" PRId64 " with %" PRId64
                         " steps is at hand",
                         step, epoch, shuffle->epoch, shuffle->steps);
    }
    if (is_global(shuffle)) return pdl__global_order(shuffle, step, count, indices);
    if (count != batch * shuffle->count) {
        return pdl_error(PDL_ERR_INPUT,
                         "%" PRId64 " workers with %" PRId64 " samples each are here, not %" PRId64 " samples",
                         shuffle->count, batch, count);
    }
    for (int64_t i = 0; i < shuffle->count; i++) {
        int64_t        unused;
        const int64_t *training = shuffle->training + (pdl__shuffle_list(shuffle, i, &unused) - shuffle->list);

        for (int64_t s = 0; s < batch; s++) *indices++ = training[(step * batch + s) % shuffle->trains[i]];
    }
    return PDL_OK;
}

static pdl_status_t check_open(const pdl_shuffle_t *shuffle)
{
    return shuffle->open ? PDL_OK : pdl_error(PDL_ERR_INPUT, "no epoch has begun whose samples could be exchanged");
}

pdl_status_t pdl_shuffle_step(pdl_shuffle_t *shuffle, int64_t step)
{
    const double start = pdl__seconds();
    pdl_status_t status = check_open(shuffle);

    if (status || shuffle->exchange == NULL) return status;
    status = pdl__exchange_advance(shuffle->exchange, step + 1);
    if (status) shuffle->failed = true;
    shuffle->exchange_s += pdl__seconds() - start;
    return status;
}

/* Takes what has left out of a worker's samples, and puts what has arrived in its place. */
static pdl_status_t replace(pdl_shuffle_t *shuffle, int64_t i)
{
    const int64_t *out = shuffle->out, *in = shuffle->received;
    int64_t        count, *list = pdl__shuffle_list(shuffle, i, &count), kept = 0;

    pdl__partition_sort(list, count);
    if (shuffle->exchange == NULL) return PDL_OK;
    out += i * shuffle->slots;
    in += i * shuffle->slots;
    memcpy(shuffle->spare, out, (size_t)shuffle->slots * sizeof(*out));
    pdl__partition_sort(shuffle->spare, shuffle->slots);
    for (int64_t s = 0, j = 0; s < count; s++) {
        if (j < shuffle->slots && list[s] == shuffle->spare[j]) {
            j++;
        } else {
            list[kept++] = list[s];
        }
    }
    if (kept + shuffle->slots != count) {
        return pdl_error(PDL_ERR_LIMIT, "worker %" PRId64 " sent samples that it does not have",
                         shuffle->first + i);
    }
    memcpy(list + kept, in, (size_t)shuffle->slots * sizeof(*in));
    pdl__partition_sort(list, count);
    return PDL_OK;
}

/* The new partition becomes valid, here and in the store. */
static pdl_status_t commit(pdl_shuffle_t *shuffle)
{
    const int64_t *gone;
    int64_t        count;
    pdl_status_t   status = PDL_OK;

    if (shuffle->exchange != NULL && shuffle->spec.store != NULL) {
        gone = pdl__exchange_gone(shuffle->exchange, &count);
        status = pdl_store_commit(shuffle->spec.store, gone, count);
    }
    for (int64_t i = 0; !status && !is_global(shuffle) && i < shuffle->count; i++) status = replace(shuffle, i);
    return pdl_ranks_agree(shuffle->ranks, status);
}

pdl_status_t pdl_shuffle_end(pdl_shuffle_t *shuffle, bool check)
{
    const double start = pdl__seconds();
    pdl_status_t status = check_open(shuffle);

    if (status) return status;
    if (shuffle->exchange != NULL) status = pdl__exchange_complete(shuffle->exchange);
    if (status) shuffle->failed = true;
    /* From here on all ranks have what they are to have, or none goes on. */
    status = pdl_ranks_agree(shuffle->ranks, status);
    if (!status) status = pdl__report_make(shuffle);
    if (!status) status = commit(shuffle);
    if (status) {
        shuffle->failed = true;
        return status;
    }
    shuffle->open = false;
    shuffle->making.exchange_s = shuffle->exchange_s + (pdl__seconds() - start);
    shuffle->report = shuffle->making;
    return check && !is_global(shuffle) ? pdl__report_check(shuffle) : PDL_OK;
}
