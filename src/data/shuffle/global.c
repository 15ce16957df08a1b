/*
 * Global shuffling: the plain order of order.c, or, where samples are hidden, drawn, or the last batch is filled up, a
 * list that begins again where it ends.
 */
#include "data/shuffle/shuffle.h"

#include <paradl/base/random.h>
#include <paradl/plan/mesh.h>

#include <stdlib.h>

static bool is_hidden(const uint64_t *hidden, int64_t id)
{
    return hidden != NULL && (hidden[id / 64] >> (id % 64) & 1) != 0;
}

/* Room for `count` samples in the list, and for a rank's share of the hidden ones. */
static pdl_status_t make_room(pdl_shuffle_t *shuffle, int64_t count)
{
    int64_t *wrapped = shuffle->wrapped, *hidden = shuffle->hidden;

    if (count > shuffle->wrapped_room) {
        wrapped = realloc(shuffle->wrapped, (size_t)count * sizeof(*wrapped));
        if (wrapped != NULL) {
            shuffle->wrapped = wrapped;
            shuffle->wrapped_room = count;
        }
    }
    if (shuffle->hidden_count > shuffle->most_hidden) {
        hidden = realloc(shuffle->hidden, (size_t)shuffle->hidden_count * sizeof(*hidden));
        if (hidden != NULL) {
            shuffle->hidden = hidden;
            shuffle->most_hidden = shuffle->hidden_count;
        }
    }
    if ((wrapped != NULL || count == 0) && (hidden != NULL || shuffle->hidden_count == 0)) return PDL_OK;
    return pdl_error(PDL_ERR_NOMEM, "out of memory for the order of %lld samples", (long long)count);
}

/* Every hidden sample to one rank, a block each. */
static void deal_hidden(pdl_shuffle_t *shuffle, const uint64_t *hidden, int64_t low)
{
    int64_t at = 0, end = low + shuffle->hidden_count;

    for (int64_t id = 0; id < shuffle->spec.samples && at < end; id++) {
        if (!is_hidden(hidden, id)) continue;
        if (at >= low) shuffle->hidden[at - low] = id;
        at++;
    }
}

/* The samples that are not hidden, in the order that the seed and the epoch give them. */
static void permute_visible(pdl_shuffle_t *shuffle, const uint64_t *hidden, int64_t visible)
{
    const uint64_t stream = pdl_random_stream("sample order", (uint64_t)shuffle->epoch, 0);
    int64_t       *permutation = shuffle->wrapped, *ids = shuffle->spare, at = 0;

    for (int64_t id = 0; id < shuffle->spec.samples; id++) {
        if (!is_hidden(hidden, id)) ids[at++] = id;
    }
    pdl_random_permutation(shuffle->spec.options.seed, stream, visible, permutation);
    for (int64_t i = 0; i < visible; i++) permutation[i] = ids[permutation[i]];
    shuffle->wrapped_count = visible;
}

static pdl_status_t take_drawn(pdl_shuffle_t *shuffle, const pdl_shuffle_epoch_t *input)
{
    for (int64_t i = 0; i < input->drawn_count; i++) {
        if (input->drawn[i] < 0 || input->drawn[i] >= shuffle->spec.samples) {
            return pdl_error(PDL_ERR_INPUT, "sample %lld was drawn, but there are %lld", (long long)input->drawn[i],
                             (long long)shuffle->spec.samples);
        }
        shuffle->wrapped[i] = input->drawn[i];
    }
    shuffle->wrapped_count = input->drawn_count;
    return PDL_OK;
}

/* The order of all samples, with the last batch dropped: that of pdl_global_order(). */
static pdl_status_t begin_plain(pdl_shuffle_t *shuffle, int64_t *steps)
{
    *steps = pdl_global_order_steps(&shuffle->order);
    if (*steps < 1) {
        return pdl_error(PDL_ERR_INPUT, "%lld samples are fewer than a batch of %lld: make the batch smaller",
                         (long long)shuffle->spec.samples, (long long)shuffle->spec.whole_batch);
    }
    return pdl_global_order(&shuffle->order, shuffle->epoch, 0, 0, NULL);
}

pdl_status_t pdl__global_begin(pdl_shuffle_t *shuffle, const pdl_shuffle_epoch_t *input, int64_t *steps)
{
    const int64_t samples = shuffle->spec.samples, batch = shuffle->spec.whole_batch;
    int64_t       hidden = 0, low, high, length;
    bool          fill;
    pdl_status_t  status;

    for (int64_t id = 0; input->hidden != NULL && id < samples; id++) hidden += is_hidden(input->hidden, id);
    pdl_block_range(hidden, pdl_ranks_size(shuffle->ranks), pdl_ranks_rank(shuffle->ranks), &low, &high);
    shuffle->hidden_count = high - low;
    shuffle->plain = hidden == 0 && input->drawn == NULL && !shuffle->spec.keep_rest;
    length = input->drawn != NULL ? input->drawn_count : samples - hidden;
    fill = shuffle->spec.keep_rest || (hidden > 0 && input->drawn == NULL);
    if (length < 1) return pdl_error(PDL_ERR_INPUT, "all %lld samples are hidden", (long long)samples);
    status = make_room(shuffle, shuffle->plain ? 0 : length);
    if (status) return status;
    deal_hidden(shuffle, input->hidden, low);
    if (shuffle->plain) return begin_plain(shuffle, steps);
    if (input->drawn != NULL) {
        status = take_drawn(shuffle, input);
    } else {
        permute_visible(shuffle, input->hidden, length);
    }
    *steps = length / batch + (fill && length % batch != 0);
    if (*steps < 1) *steps = 1;
    return status;
}

pdl_status_t pdl__global_order(pdl_shuffle_t *shuffle, int64_t step, int64_t count, int64_t *indices)
{
    const int64_t batch = shuffle->spec.whole_batch, first = shuffle->spec.first;

    if (count < 0 || count > batch - first) {
        return pdl_error(PDL_ERR_INPUT, "samples %lld to %lld are not all in a batch of %lld", (long long)first,
                         (long long)(first + count), (long long)batch);
    }
    if (shuffle->plain) return pdl_global_order(&shuffle->order, shuffle->epoch, step, count, indices);
    for (int64_t i = 0; i < count; i++) {
        indices[i] = shuffle->wrapped[(step * batch + first + i) % shuffle->wrapped_count];
    }
    return PDL_OK;
}
