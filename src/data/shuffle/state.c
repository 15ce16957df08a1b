/*
 * The state of all workers as numbers.
 *
 *     head[HEAD_COUNT]            what the state belongs to, and where it is
 *     samples                     the partition, the samples of a worker in ascending order
 *     M x words                   bits of the workers that a worker has received from (partial and paired)
 *     M, M, M x k                 scores (bits of doubles), partners and what leaves (paired, inside an epoch)
 *
 * Workers keep their numbers, so another number of ranks can go on with it.
 */
#include "data/shuffle/shuffle.h"

#include <paradl/plan/mesh.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1

enum {
    HEAD_VERSION,
    HEAD_SAMPLES,
    HEAD_WORKERS,
    HEAD_KIND,
    HEAD_FRACTION, /* bits */
    HEAD_SEED,
    HEAD_DESTINATION,
    HEAD_PARTITION,
    HEAD_SCORE,
    HEAD_PAIR_SAMPLES,
    HEAD_RANDOM_EVERY,
    HEAD_OPTIONS, /* those before it have to be the same */
    HEAD_INSIDE = HEAD_OPTIONS,
    HEAD_EPOCH,
    HEAD_COUNT
};
static const char *const head_names[HEAD_OPTIONS] = {"version of the format",
                                                     "number of samples",
                                                     "number of workers",
                                                     "way to shuffle",
                                                     "fraction",
                                                     "seed",
                                                     "destinations",
                                                     "first partition",
                                                     "score of pairs",
                                                     "choice of pairs",
                                                     "epochs between random matchings"};

static int64_t bits_of(double value)
{
    int64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static double double_of(int64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void fill_head(const pdl_shuffle_t *shuffle, bool inside, int64_t *head)
{
    const pdl_shuffle_options_t *options = &shuffle->spec.options;

    head[HEAD_VERSION] = VERSION;
    head[HEAD_SAMPLES] = shuffle->spec.samples;
    head[HEAD_WORKERS] = shuffle->spec.workers;
    head[HEAD_KIND] = options->kind;
    head[HEAD_FRACTION] = bits_of(options->fraction);
    head[HEAD_SEED] = (int64_t)options->seed;
    head[HEAD_DESTINATION] = options->destination;
    head[HEAD_PARTITION] = options->partition;
    head[HEAD_SCORE] = options->score;
    head[HEAD_PAIR_SAMPLES] = options->pair_samples;
    head[HEAD_RANDOM_EVERY] = options->random_every;
    head[HEAD_INSIDE] = inside;
    head[HEAD_EPOCH] = shuffle->epoch;
}

/* The parts after the head; counts are over all workers. */
typedef struct layout {
    int64_t list, met, score, partner, out, count;
} layout_t;

static layout_t layout_of(const pdl_shuffle_t *shuffle, bool inside)
{
    const int64_t workers = shuffle->spec.workers;
    const bool    parts = shuffle->spec.options.kind != PDL_SHUFFLE_GLOBAL;
    const bool    pairs = shuffle->spec.options.kind == PDL_SHUFFLE_PAIRED && inside;
    layout_t      layout = {.list = HEAD_COUNT};

    layout.met = layout.list + (parts ? shuffle->spec.samples : 0);
    layout.score = layout.met + workers * shuffle->words;
    layout.partner = layout.score + (pairs ? workers : 0);
    layout.out = layout.partner + (pairs ? workers : 0);
    layout.count = layout.out + (pairs ? workers * shuffle->slots : 0);
    return layout;
}

/* Copies what this rank has to its place. */
static void fill_own(const pdl_shuffle_t *shuffle, const layout_t *layout, int64_t *numbers)
{
    int64_t *list = numbers + layout->list + shuffle->base, *met = numbers + layout->met;

    if (shuffle->list == NULL) return;
    memcpy(list, shuffle->list, (size_t)shuffle->held * sizeof(*list));
    for (int64_t i = 0; i < shuffle->count; i++) {
        int64_t count, *own = pdl__shuffle_list(shuffle, i, &count);

        pdl__partition_sort(list + (own - shuffle->list), count);
    }
    if (shuffle->words > 0) {
        memcpy(met + shuffle->first * shuffle->words, shuffle->met,
               (size_t)(shuffle->count * shuffle->words) * sizeof(*met));
    }
    if (layout->count == layout->score) return;
    for (int64_t w = 0; w < shuffle->spec.workers; w++) {
        numbers[layout->score + w] = bits_of(shuffle->score[w]);
        numbers[layout->partner + w] = shuffle->partner[w];
    }
    memcpy(numbers + layout->out + shuffle->first * shuffle->slots, shuffle->out,
           (size_t)(shuffle->count * shuffle->slots) * sizeof(*numbers));
}

/* Every rank tells the others what it has. */
static pdl_status_t gather(const pdl_shuffle_t *shuffle, const layout_t *layout, int64_t *numbers)
{
    const int    size = pdl_ranks_size(shuffle->ranks);
    pdl_status_t status = PDL_OK;

    for (int r = 0; !status && shuffle->list != NULL && r < size; r++) {
        int64_t first, end, low, high, unused;

        pdl_block_range(shuffle->spec.workers, size, r, &first, &end);
        pdl__partition_range(shuffle, first, &low, &unused);
        pdl__partition_range(shuffle, end - 1, &unused, &high);
        status = pdl_ranks_broadcast(shuffle->ranks, numbers + layout->list + low,
                                     (high - low) * (int64_t)sizeof(*numbers), r);
        if (!status)
            status = pdl_ranks_broadcast(shuffle->ranks, numbers + layout->met + first * shuffle->words,
                                         (end - first) * shuffle->words * (int64_t)sizeof(*numbers), r);
        if (!status && layout->count > layout->out)
            status = pdl_ranks_broadcast(shuffle->ranks, numbers + layout->out + first * shuffle->slots,
                                         (end - first) * shuffle->slots * (int64_t)sizeof(*numbers), r);
    }
    return status;
}

pdl_status_t pdl_shuffle_save(pdl_shuffle_t *shuffle, int64_t **result, int64_t *count)
{
    const layout_t layout = layout_of(shuffle, shuffle->open);
    int64_t       *numbers = calloc((size_t)layout.count, sizeof(*numbers));
    pdl_status_t   status = PDL_OK;

    if (numbers == NULL)
        status =
            pdl_error(PDL_ERR_NOMEM, "out of memory for the state of %" PRId64 " samples", shuffle->spec.samples);
    status = pdl_ranks_agree(shuffle->ranks, status);
    if (!status) {
        fill_head(shuffle, shuffle->open, numbers);
        fill_own(shuffle, &layout, numbers);
        status = gather(shuffle, &layout, numbers);
    }
    if (status) {
        free(numbers);
        return status;
    }
    *result = numbers;
    *count = layout.count;
    return PDL_OK;
}

/* ---- and back ---- */

/* Every sample is there once, and those of a worker are in order: a state is never believed. */
static pdl_status_t check_partition(const pdl_shuffle_t *shuffle, const int64_t *list)
{
    const int64_t samples = shuffle->spec.samples;
    uint8_t      *seen = calloc((size_t)samples, 1);
    pdl_status_t  status = PDL_OK;

    if (seen == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for %" PRId64 " samples", samples);
    for (int64_t i = 0; !status && i < samples; i++) {
        if (list[i] < 0 || list[i] >= samples || seen[list[i]]) {
            status = pdl_error(PDL_ERR_INPUT,
                               "the partition in the checkpoint is damaged: sample %" PRId64 " is in it %s",
                               list[i], list[i] < 0 || list[i] >= samples ? "and does not exist" : "twice");
        } else {
            seen[list[i]] = 1;
        }
    }
    free(seen);
    for (int64_t w = 0; !status && w < shuffle->spec.workers; w++) {
        int64_t low, high;

        pdl__partition_range(shuffle, w, &low, &high);
        for (int64_t s = low + 1; !status && s < high; s++) {
            if (list[s] < list[s - 1])
                status = pdl_error(PDL_ERR_INPUT, "the partition in the checkpoint is damaged: it is not in order");
        }
    }
    return status;
}

/* Partners are each other's, and a worker sends samples that it has, each once. */
static pdl_status_t check_pairs(pdl_shuffle_t *shuffle, const layout_t *layout, const int64_t *numbers)
{
    const int64_t  workers = shuffle->spec.workers, slots = shuffle->slots;
    const int64_t *partner = numbers + layout->partner;
    bool           good = true;

    for (int64_t w = 0; good && w < workers; w++) {
        good = partner[w] >= 0 && partner[w] < workers && partner[partner[w]] == w;
    }
    for (int64_t i = 0; good && i < shuffle->count; i++) {
        const int64_t *out = numbers + layout->out + (shuffle->first + i) * slots;
        int64_t        low, high;

        pdl__partition_range(shuffle, shuffle->first + i, &low, &high);
        memcpy(shuffle->spare, out, (size_t)slots * sizeof(*out));
        pdl__partition_sort(shuffle->spare, slots);
        for (int64_t j = 0; good && j < slots; j++) {
            good = (j == 0 || shuffle->spare[j] != shuffle->spare[j - 1]) &&
                   pdl__partition_has(numbers + layout->list + low, high - low, shuffle->spare[j]);
        }
    }
    if (good) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "the pairs in the checkpoint are damaged");
}

static pdl_status_t check_numbers(pdl_shuffle_t *shuffle, const int64_t *numbers, int64_t count, bool inside)
{
    int64_t      head[HEAD_COUNT];
    layout_t     layout;
    pdl_status_t status = PDL_OK;

    if (shuffle->open || shuffle->epoch >= 0)
        return pdl_error(PDL_ERR_INPUT, "the state of shuffling is restored after an epoch has begun");
    if (count < HEAD_COUNT) return pdl_error(PDL_ERR_INPUT, "the state of shuffling in the checkpoint is cut off");
    fill_head(shuffle, false, head);
    for (int i = 0; i < HEAD_OPTIONS; i++) {
        if (numbers[i] == head[i]) continue;
        return pdl_error(PDL_ERR_INPUT,
                         "the checkpoint was written with another %s: resume with the same shuffling",
                         head_names[i]);
    }
    if (inside && numbers[HEAD_INSIDE] != 1)
        return pdl_error(PDL_ERR_INPUT, "the state of shuffling in the checkpoint is not that inside an epoch");
    layout = layout_of(shuffle, numbers[HEAD_INSIDE] == 1);
    if (count != layout.count || numbers[HEAD_EPOCH] < -1)
        return pdl_error(PDL_ERR_INPUT,
                         "the state of shuffling in the checkpoint has %" PRId64 " numbers, expected %" PRId64,
                         count, layout.count);
    if (shuffle->list != NULL) status = check_partition(shuffle, numbers + layout.list);
    if (status || layout.count == layout.score) return status;
    return check_pairs(shuffle, &layout, numbers);
}

static void take_pairs(pdl_shuffle_t *shuffle, const layout_t *layout, const int64_t *numbers)
{
    for (int64_t w = 0; w < shuffle->spec.workers; w++) {
        shuffle->score[w] = double_of(numbers[layout->score + w]);
        shuffle->partner[w] = numbers[layout->partner + w];
    }
    memcpy(shuffle->out, numbers + layout->out + shuffle->first * shuffle->slots,
           (size_t)(shuffle->count * shuffle->slots) * sizeof(*numbers));
    shuffle->decided = true;
}

pdl_status_t pdl_shuffle_restore(pdl_shuffle_t *shuffle, const int64_t *numbers, int64_t count, bool inside)
{
    pdl_status_t status = pdl_ranks_agree(shuffle->ranks, check_numbers(shuffle, numbers, count, inside));
    layout_t     layout;

    if (status) return status;
    layout = layout_of(shuffle, numbers[HEAD_INSIDE] == 1);
    if (shuffle->list != NULL) {
        memcpy(shuffle->list, numbers + layout.list + shuffle->base, (size_t)shuffle->held * sizeof(*numbers));
    }
    if (shuffle->words > 0) {
        memcpy(shuffle->met, numbers + layout.met + shuffle->first * shuffle->words,
               (size_t)(shuffle->count * shuffle->words) * sizeof(*numbers));
    }
    if (inside && layout.count > layout.score) take_pairs(shuffle, &layout, numbers);
    if (inside) {
        shuffle->epoch = numbers[HEAD_EPOCH];
        shuffle->restored = true;
    }
    return pdl__shuffle_load(shuffle);
}
