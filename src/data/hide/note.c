/*
 * What forward passes say of samples, and how all ranks learn of it.
 *
 * State is never summed: a sample that fills up a batch is seen by two workers, and its sum would be twice what it is.
 * What was said at the lowest position counts, on every rank; positions rise during an epoch, so that what has been
 * combined once is final until the next epoch.
 */
#include "data/hide/state.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define ROUND_ITEMS 65536 /* of all ranks together in one round, */
#define RANK_ITEMS  1024  /* and of one at least */

static uint32_t narrow(int64_t position)
{
    return position < UINT32_MAX ? (uint32_t)position : UINT32_MAX;
}

/* Not a number counts as no confidence at all. */
static float clamp_confidence(float confidence)
{
    if (!(confidence > 0)) return 0;
    return confidence < 1 ? confidence : 1;
}

static void write_sample(pdl_hide_t *hide, int64_t i, uint32_t position, float loss, bool correct, float confidence)
{
    hide->position[i] = position;
    hide->loss[i] = loss;
    hide->confidence[i] = confidence;
    hide->flags[i] = correct ? PDL__HIDE_CORRECT : 0; /* and it has been seen, so its age is 0 */
}

void pdl_hide_note(pdl_hide_t *hide, int64_t position, const int64_t *index, const float *loss,
                   const float *correct, const float *confidence, int64_t count)
{
    for (int64_t k = 0; k < count; k++) {
        const int64_t  i = index[k];
        const uint32_t place = narrow(position + k);

        if (i < 0 || i >= hide->samples || pdl__bit(hide->noted, i)) continue;
        if (!pdl__bit(hide->mine, i)) {
            pdl__bit_set(hide->mine, i);
            hide->mine_count++;
        } else if (hide->position[i] <= place) {
            continue;
        }
        write_sample(hide, i, place, loss[k], correct[k] >= 0.5F, clamp_confidence(confidence[k]));
    }
}

pdl_status_t pdl__hide_exchange(pdl_ranks_t *ranks, size_t item_bytes, pdl__hide_pack_fn_t pack,
                                pdl__hide_take_fn_t take, void *context)
{
    const int64_t size = pdl_ranks_size(ranks);
    const int64_t room = ROUND_ITEMS / size > RANK_ITEMS ? ROUND_ITEMS / size : RANK_ITEMS;
    char         *mine = malloc((size_t)room * item_bytes), *all = malloc((size_t)(room * size) * item_bytes);
    int64_t      *sizes = malloc((size_t)size * sizeof(*sizes)), bytes = 1;
    pdl_status_t  status = PDL_OK;

    if (mine == NULL || all == NULL || sizes == NULL)
        status = pdl_error(PDL_ERR_NOMEM, "out of memory for the samples of %lld ranks", (long long)size);
    status = pdl_ranks_agree(ranks, status);
    while (!status && bytes > 0) {
        int64_t packed = pack(context, room, mine);

        status = pdl_ranks_gather_all(ranks, mine, packed * (int64_t)item_bytes, all, sizes);
        bytes = 0;
        for (int64_t r = 0; !status && r < size; r++) bytes += sizes[r];
        if (!status) take(context, all, bytes / (int64_t)item_bytes);
    }
    free(mine);
    free(all);
    free(sizes);
    return status;
}

typedef struct record {
    uint32_t index, position;
    float    loss;
    uint32_t confidence; /* its bits; the sign, which it does not need, says that the answer was right */
} record_t;

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static record_t record_of(const pdl_hide_t *hide, int64_t i)
{
    record_t record = {.index = (uint32_t)i,
                       .position = hide->position[i],
                       .loss = hide->loss[i],
                       .confidence = bits_of(hide->confidence[i])};

    if (hide->flags[i] & PDL__HIDE_CORRECT) record.confidence |= UINT32_C(1) << 31;
    return record;
}

/* The lower position; for two at the same one, which is a mistake, any order that is the same on all ranks. */
static bool comes_before(const record_t *a, const record_t *b)
{
    if (a->position != b->position) return a->position < b->position;
    if (bits_of(a->loss) != bits_of(b->loss)) return bits_of(a->loss) < bits_of(b->loss);
    return a->confidence < b->confidence;
}

typedef struct combination {
    pdl_hide_t *hide;
    int64_t     word; /* of `mine`, from which on nothing has been packed */
} combination_t;

/* Whole words of bits. */
static int64_t pack_records(void *context, int64_t room, void *items)
{
    combination_t    *c = context;
    const pdl_hide_t *hide = c->hide;
    record_t         *records = items;
    int64_t           count = 0;

    for (; c->word < hide->words && count + 64 <= room; c->word++) {
        for (uint64_t bits = hide->mine[c->word]; bits != 0; bits &= bits - 1)
            records[count++] = record_of(hide, c->word * 64 + __builtin_ctzll(bits));
    }
    return count;
}

static void take_records(void *context, const void *items, int64_t count)
{
    combination_t  *c = context;
    pdl_hide_t     *hide = c->hide;
    const record_t *records = items;

    for (int64_t k = 0; k < count; k++) {
        const record_t *record = &records[k];
        const int64_t   i = record->index;
        const uint32_t  bits = record->confidence & ~(UINT32_C(1) << 31);
        record_t        present;
        float           confidence;

        if (i >= hide->samples) continue;
        if (pdl__bit(hide->mine, i) || pdl__bit(hide->noted, i)) {
            present = record_of(hide, i);
            if (!comes_before(record, &present)) continue;
        }
        memcpy(&confidence, &bits, sizeof(confidence));
        write_sample(hide, i, record->position, record->loss, record->confidence >> 31, confidence);
        pdl__bit_set(hide->noted, i);
    }
}

pdl_status_t pdl_hide_combine(pdl_hide_t *hide, pdl_ranks_t *ranks)
{
    combination_t combination = {.hide = hide};
    double        start_s = pdl__seconds();
    pdl_status_t  status = PDL_OK;

    if (pdl_ranks_size(ranks) > 1)
        status = pdl__hide_exchange(ranks, sizeof(record_t), pack_records, take_records, &combination);
    if (status) return status;
    for (int64_t w = 0; w < hide->words; w++) {
        hide->noted[w] |= hide->mine[w];
        hide->mine[w] = 0;
    }
    hide->mine_count = 0;
    hide->report.select_s += pdl__seconds() - start_s;
    return PDL_OK;
}
