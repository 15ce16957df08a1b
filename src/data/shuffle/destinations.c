/*
 * Where samples go: for every slot of an epoch a bijection of the workers that all of them derive from the seed.
 *
 * Fisher-Yates is the permutation of pdl_random_permutation(). One value of it, or the place of one, is found by
 * following only the exchanges that touch it, so that neither needs memory. Feistel is a network of four rounds on
 * just enough bits, applied again while the result is not a worker (cycle walking), which keeps it a bijection. Shift
 * moves all workers by the same distance.
 */
#include "data/shuffle/shuffle.h"

#include <paradl/base/random.h>

#define ROUNDS 4

static uint64_t slot_stream(int64_t epoch, int64_t slot)
{
    return pdl_random_stream("exchange slot", (uint64_t)epoch, (uint64_t)slot);
}

/* ---- Fisher-Yates ---- */

/* Step i of the permutation puts i at place j and moves what was there to place i. */
static int64_t place_drawn(uint64_t seed, uint64_t stream, int64_t i)
{
    return (int64_t)pdl_random_below(seed, stream, (uint64_t)i, (uint64_t)i + 1);
}

/* What is at `place` at the end: the last later step that put something there, or what step `place` moved there, which
   was at another place before that step. */
static int64_t permuted(uint64_t seed, uint64_t stream, int64_t count, int64_t place)
{
    int64_t end = count;

    for (;;) {
        int64_t from;

        for (int64_t i = end - 1; i > place; i--) {
            if (place_drawn(seed, stream, i) == place) return i;
        }
        from = place_drawn(seed, stream, place);
        if (from == place) return place;
        end = place;
        place = from;
    }
}

static int64_t place_of(uint64_t seed, uint64_t stream, int64_t count, int64_t value)
{
    int64_t place = place_drawn(seed, stream, value);

    for (int64_t i = value + 1; i < count; i++) {
        if (place_drawn(seed, stream, i) == place) place = i;
    }
    return place;
}

/* ---- Feistel ---- */

typedef struct feistel {
    int      low_bits, high_bits;
    uint32_t key[ROUNDS];
} feistel_t;

static feistel_t feistel_of(uint64_t seed, uint64_t stream, int64_t workers)
{
    feistel_t network = {0};
    int       bits = 0;

    while (((int64_t)1 << bits) < workers) bits++;
    network.high_bits = bits / 2;
    network.low_bits = bits - bits / 2;
    pdl_random_block(seed, stream, 0, network.key);
    return network;
}

/* Spreads the bits of x, differently for every key (the finaliser of SplitMix64). */
static uint64_t scramble(uint64_t x, uint32_t key)
{
    x += (uint64_t)key << 32 | UINT64_C(0x9E3779B9);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/* Rounds change the lower and the upper half in turn by what the other one is, so the same rounds undo it. */
static uint64_t feistel_round(const feistel_t *network, int round, uint64_t x)
{
    const uint64_t low_mask = ((uint64_t)1 << network->low_bits) - 1;
    const uint64_t high_mask = ((uint64_t)1 << network->high_bits) - 1;
    uint64_t       low = x & low_mask, high = x >> network->low_bits;

    if (round % 2 == 0) {
        low ^= scramble(high, network->key[round]) & low_mask;
    } else {
        high ^= scramble(low, network->key[round]) & high_mask;
    }
    return high << network->low_bits | low;
}

static int64_t feistel_walk(uint64_t seed, uint64_t stream, int64_t workers, int64_t worker, bool back)
{
    const feistel_t network = feistel_of(seed, stream, workers);
    uint64_t        x = (uint64_t)worker;

    do {
        for (int i = 0; i < ROUNDS; i++) x = feistel_round(&network, back ? ROUNDS - 1 - i : i, x);
    } while (x >= (uint64_t)workers);
    return (int64_t)x;
}

/* ---- all ---- */

static int64_t shift_of(uint64_t seed, uint64_t stream, int64_t workers)
{
    return 1 + (int64_t)pdl_random_below(seed, stream, 0, (uint64_t)workers - 1);
}

static int64_t partner(const pdl_shuffle_options_t *options, int64_t workers, uint64_t stream, int64_t worker,
                       bool back)
{
    const uint64_t seed = options->seed;

    if (workers == 1) return 0;
    switch (options->destination) {
    case PDL_DESTINATION_FEISTEL: return feistel_walk(seed, stream, workers, worker, back);
    case PDL_DESTINATION_SHIFT: {
        const int64_t shift = shift_of(seed, stream, workers);
        return (worker + (back ? workers - shift : shift)) % workers;
    }
    default: return (back ? place_of : permuted)(seed, stream, workers, worker);
    }
}

int64_t pdl_shuffle_target(const pdl_shuffle_options_t *options, int64_t workers, int64_t epoch, int64_t slot,
                           int64_t worker)
{
    return partner(options, workers, slot_stream(epoch, slot), worker, false);
}

int64_t pdl_shuffle_origin(const pdl_shuffle_options_t *options, int64_t workers, int64_t epoch, int64_t slot,
                           int64_t worker)
{
    return partner(options, workers, slot_stream(epoch, slot), worker, true);
}

void pdl__destinations(const pdl_shuffle_options_t *options, int64_t workers, int64_t epoch, int64_t slot,
                       int64_t first, int64_t count, int64_t *scratch, int64_t *target, int64_t *origin)
{
    if (options->destination != PDL_DESTINATION_FISHER_YATES || workers == 1) {
        for (int64_t i = 0; i < count; i++) {
            target[i] = pdl_shuffle_target(options, workers, epoch, slot, first + i);
            origin[i] = pdl_shuffle_origin(options, workers, epoch, slot, first + i);
        }
        return;
    }
    pdl_random_permutation(options->seed, slot_stream(epoch, slot), workers, scratch);
    for (int64_t w = 0; w < workers; w++) {
        if (w >= first && w < first + count) target[w - first] = scratch[w];
        if (scratch[w] >= first && scratch[w] < first + count) origin[scratch[w] - first] = w;
    }
}
