/*
 * Hiding in local scope: each worker chooses among its own samples, which are copied together in ascending order so that
 * the methods see no difference to all samples. Ranks tell each other what is hidden only because a checkpoint, which
 * one of them writes, is to have all of it.
 */
#include "data/hide/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEAVY (UINT32_C(1) << 31) /* beside an index: not hidden, but weighed */

void pdl__hide_room_free(pdl__hide_room_t *room)
{
    free(room->loss);
    free(room->confidence);
    free(room->draws);
    free(room->flags);
    free(room->hidden);
    free(room->heavy);
    free(room->ids);
    *room = (pdl__hide_room_t){0};
}

static pdl_status_t make_room(pdl__hide_room_t *room, int64_t count)
{
    const size_t n = (size_t)count, words = (n + 63) / 64;
    bool         made = true;

    if (count <= room->count) return PDL_OK;
    pdl__hide_room_free(room);
    made &= (room->loss = malloc(n * sizeof(*room->loss))) != NULL;
    made &= (room->confidence = malloc(n * sizeof(*room->confidence))) != NULL;
    made &= (room->draws = malloc(n * sizeof(*room->draws))) != NULL;
    made &= (room->flags = malloc(n * sizeof(*room->flags))) != NULL;
    made &= (room->hidden = malloc(words * sizeof(*room->hidden))) != NULL;
    made &= (room->heavy = malloc(words * sizeof(*room->heavy))) != NULL;
    made &= (room->ids = malloc(n * sizeof(*room->ids))) != NULL;
    if (!made) {
        pdl__hide_room_free(room);
        return pdl_error(PDL_ERR_NOMEM, "out of memory for the %lld samples of a worker", (long long)count);
    }
    room->count = count;
    return PDL_OK;
}

static pdl_status_t check_workers(const pdl_hide_t *hide, const pdl_hide_workers_t *workers, int64_t *most)
{
    *most = 0;
    for (int64_t w = 0; w < workers->count; w++) {
        if (workers->sizes[w] > *most) *most = workers->sizes[w];
        for (int64_t k = 0; k < workers->sizes[w]; k++) {
            int64_t i = workers->partition[w][k];

            if (i >= 0 && i < hide->samples) continue;
            return pdl_error(PDL_ERR_INPUT, "worker %lld of this rank has sample %lld: there are %lld",
                             (long long)w, (long long)i, (long long)hide->samples);
        }
    }
    return PDL_OK;
}

/* The samples of a worker in ascending order: marked, and met again word by word, so that nothing is sorted. */
static int64_t gather(pdl_hide_t *hide, const int64_t *partition, int64_t size)
{
    pdl__hide_room_t *room = &hide->room;
    int64_t           count = 0;

    for (int64_t k = 0; k < size; k++) pdl__bit_set(hide->members, partition[k]);
    for (int64_t w = 0; w < hide->words; w++) {
        for (uint64_t bits = hide->members[w]; bits != 0; bits &= bits - 1) {
            int64_t i = w * 64 + __builtin_ctzll(bits);

            room->ids[count] = i;
            room->loss[count] = hide->loss[i];
            room->confidence[count] = hide->confidence[i];
            room->flags[count] = hide->flags[i];
            if (hide->draws != NULL) room->draws[count] = hide->draws[i];
            count++;
        }
        hide->members[w] = 0;
    }
    memset(room->hidden, 0, (size_t)(count + 63) / 64 * sizeof(*room->hidden));
    memset(room->heavy, 0, (size_t)(count + 63) / 64 * sizeof(*room->heavy));
    return count;
}

static pdl_status_t choose_for(pdl_hide_t *hide, double fraction, const int64_t *partition, int64_t size,
                               int64_t batch, pdl__hide_tally_t *tally)
{
    pdl__hide_room_t *room = &hide->room;
    pdl__hide_view_t  view = {.count = gather(hide, partition, size),
                              .loss = room->loss,
                              .confidence = room->confidence,
                              .draws = room->draws,
                              .flags = room->flags,
                              .hidden = room->hidden,
                              .heavy = room->heavy};
    pdl_status_t      status;

    if (view.count == 0) return PDL_OK;
    view.most_hidden = view.count > batch ? view.count - batch : 0;
    status = pdl__hide_choose(hide, fraction, &view, tally);
    for (int64_t k = 0; !status && k < view.count; k++) {
        if (pdl__bit(room->hidden, k)) pdl__bit_set(hide->hidden, room->ids[k]);
        if (hide->heavy != NULL && pdl__bit(room->heavy, k)) pdl__bit_set(hide->heavy, room->ids[k]);
    }
    return status;
}

typedef struct telling {
    pdl_hide_t *hide;
    int64_t     word;
} telling_t;

static int64_t pack_bits(void *context, int64_t room, void *items)
{
    telling_t        *t = context;
    const pdl_hide_t *hide = t->hide;
    uint32_t         *indices = items;
    int64_t           count = 0;

    for (; t->word < hide->words && count + 64 <= room; t->word++) {
        uint64_t heavy = hide->heavy != NULL ? hide->members[t->word] : 0, any = hide->hidden[t->word] | heavy;

        for (; any != 0; any &= any - 1) {
            int      bit = __builtin_ctzll(any);
            uint32_t index = (uint32_t)(t->word * 64 + bit);

            indices[count++] = heavy >> bit & 1 ? index | HEAVY : index;
        }
    }
    return count;
}

static void take_bits(void *context, const void *items, int64_t count)
{
    pdl_hide_t     *hide = ((telling_t *)context)->hide;
    const uint32_t *indices = items;

    for (int64_t k = 0; k < count; k++) {
        if ((indices[k] & HEAVY) == 0)
            pdl__bit_set(hide->hidden_all, indices[k]);
        else
            pdl__bit_set(hide->heavy, indices[k] & ~HEAVY);
    }
}

/* Of ranks that have the same workers, one speaks. */
static pdl_status_t tell(pdl_hide_t *hide, const pdl_hide_workers_t *workers, pdl__hide_tally_t *tally)
{
    const size_t bytes = (size_t)hide->words * sizeof(uint64_t);
    telling_t    telling = {.hide = hide, .word = workers->reports ? 0 : hide->words};
    double       sums[2] = {0, 0}, most = tally->threshold_loss;
    pdl_status_t status;

    if (workers->reports) {
        sums[0] = (double)tally->candidates;
        sums[1] = (double)tally->hidden;
    }
    status = pdl_ranks_sum(workers->ranks, sums, 2);
    if (!status) status = pdl_ranks_max(workers->ranks, &most, 1);
    /* What arrives of others is kept apart from what is still to be sent. */
    if (hide->heavy != NULL) memcpy(hide->members, hide->heavy, bytes);
    if (!status) status = pdl__hide_exchange(workers->ranks, sizeof(uint32_t), pack_bits, take_bits, &telling);
    memset(hide->members, 0, bytes);
    *tally = (pdl__hide_tally_t){(int64_t)sums[0], (int64_t)sums[1], most};
    return status;
}

pdl_status_t pdl__hide_local(pdl_hide_t *hide, double fraction, const pdl_hide_workers_t *workers,
                             pdl__hide_tally_t *tally)
{
    double       all = workers->reports ? (double)workers->count : 0;
    int64_t      most, batch;
    pdl_status_t status = check_workers(hide, workers, &most);

    if (!status) status = make_room(&hide->room, most);
    status = pdl_ranks_agree(workers->ranks, status);
    if (!status) status = pdl_ranks_sum(workers->ranks, &all, 1);
    /* A worker keeps its part of a batch. */
    batch = all > 0 ? (int64_t)ceil((double)workers->batch / all) : workers->batch;
    for (int64_t w = 0; !status && w < workers->count; w++)
        status = choose_for(hide, fraction, workers->partition[w], workers->sizes[w], batch, tally);
    return status ? status : tell(hide, workers, tally);
}

pdl_status_t pdl__hide_local_resume(pdl_hide_t *hide, const pdl_hide_workers_t *workers)
{
    int64_t      most;
    pdl_status_t status = pdl_ranks_agree(workers->ranks, check_workers(hide, workers, &most));

    if (status) return status;
    memset(hide->hidden, 0, (size_t)hide->words * sizeof(*hide->hidden));
    for (int64_t w = 0; w < workers->count; w++) {
        for (int64_t k = 0; k < workers->sizes[w]; k++) {
            int64_t i = workers->partition[w][k];

            if (pdl__bit(hide->hidden_all, i)) pdl__bit_set(hide->hidden, i);
        }
    }
    return PDL_OK;
}
