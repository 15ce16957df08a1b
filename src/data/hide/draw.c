/*
 * Importance sampling: as many draws as there are samples, with replacement, each sample in proportion to its loss. The
 * alias method (Walker 1977; Vose 1991) makes a draw from two random numbers, whatever the losses are: every sample has
 * a place of the same size, of which a share is its own and the rest belongs to one other sample.
 */
#include "data/hide/state.h"

#include <paradl/base/random.h>

#include <math.h>

/* Weight of a loss: none below zero, and for what is not finite as much as for the largest that is. */
static double weight(float loss, double largest)
{
    if (!isfinite(loss)) return loss < 0 ? 0 : largest;
    return loss > 0 ? loss : 0;
}

/* Weights whose mean is 1, in the room that the draws will take. */
static double *make_weights(pdl_hide_t *hide)
{
    double *scaled = (double *)(void *)hide->drawn, largest = 0, sum = 0;

    for (int64_t i = 0; i < hide->samples; i++) {
        if (isfinite(hide->loss[i]) && hide->loss[i] > largest) largest = hide->loss[i];
    }
    if (!(largest > 0)) largest = 1;
    for (int64_t i = 0; i < hide->samples; i++) sum += scaled[i] = weight(hide->loss[i], largest);
    for (int64_t i = 0; i < hide->samples; i++) {
        scaled[i] = sum > 0 ? scaled[i] / sum * (double)hide->samples : 1;
    }
    return scaled;
}

static int64_t next_large(const double *scaled, int64_t from, int64_t count)
{
    while (from < count && !(scaled[from] >= 1)) from++;
    return from;
}

/* Small ones get what they lack from the next large one. That becomes small in the end: when the sweep has passed it
   already it is looked after at once, otherwise the sweep will come to it. */
static void make_aliases(pdl_hide_t *hide, double *scaled)
{
    const int64_t count = hide->samples;
    int64_t       large = next_large(scaled, 0, count);

    for (int64_t i = 0; i < count; i++) {
        hide->share[i] = 1;
        hide->alias[i] = (uint32_t)i;
    }
    for (int64_t i = 0; i < count && large < count; i++) {
        int64_t small = i;

        while (scaled[small] < 1 && large < count) {
            int64_t giver = large;

            hide->share[small] = (float)scaled[small];
            hide->alias[small] = (uint32_t)giver;
            scaled[giver] -= 1 - scaled[small];
            if (scaled[giver] >= 1) break;
            large = next_large(scaled, giver + 1, count);
            if (giver > i) break;
            small = giver;
        }
    }
}

void pdl__hide_draw(pdl_hide_t *hide, int64_t epoch)
{
    const uint64_t stream = pdl_random_stream("importance draws", (uint64_t)epoch, 0);

    make_aliases(hide, make_weights(hide));
    for (int64_t i = 0; i < hide->samples; i++) {
        uint32_t block[4];
        double   place, coin;
        int64_t  sample;

        pdl_random_block(hide->options.seed, stream, (uint64_t)i, block);
        place = (double)(((uint64_t)block[1] << 32 | block[0]) >> 11) * 0x1p-53 * (double)hide->samples;
        coin = (double)(((uint64_t)block[3] << 32 | block[2]) >> 11) * 0x1p-53;
        sample = place < (double)(hide->samples - 1) ? (int64_t)place : hide->samples - 1;
        hide->drawn[i] = coin < hide->share[sample] ? sample : (int64_t)hide->alias[sample];
    }
}
