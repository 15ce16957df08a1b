/* Where samples go: a bijection of the workers in every slot, whose inverse says where they come from. */
#include "data/shuffle/shuffle.h"

#include "test.h"

#include <stdlib.h>

enum { MOST = 4096 };

static int64_t target[MOST], origin[MOST], scratch[MOST];

/* Every worker is the target of one, and all three ways to ask agree. */
static int wrong_in_slot(const pdl_shuffle_options_t *options, int64_t workers, int64_t epoch, int64_t slot,
                         int64_t stride)
{
    int wrong = 0;

    memset(target, -1, sizeof(target));
    memset(origin, -1, sizeof(origin));
    pdl__destinations(options, workers, epoch, slot, 0, workers, scratch, target, origin);
    for (int64_t w = 0; w < workers; w++) {
        wrong += target[w] < 0 || target[w] >= workers || origin[target[w]] != w;
        wrong += options->destination == PDL_DESTINATION_SHIFT && workers > 1 && target[w] == w;
    }
    for (int64_t w = 0; w < workers; w += stride) {
        wrong += pdl_shuffle_target(options, workers, epoch, slot, w) != target[w];
        wrong += pdl_shuffle_origin(options, workers, epoch, slot, w) != origin[w];
    }
    return wrong;
}

static void every_slot_is_a_bijection(void)
{
    static const int64_t  large[] = {100, 1000, 2048, 4096};
    pdl_shuffle_options_t options;

    pdl_shuffle_defaults(&options);
    for (options.destination = 0; options.destination < PDL_DESTINATION_COUNT; options.destination++) {
        for (int64_t workers = 1; workers <= 70; workers++) {
            for (int64_t slot = 0; slot < 5; slot++)
                CHECK_INT(wrong_in_slot(&options, workers, workers % 3, slot, 1), 0);
        }
        for (int i = 0; i < 4; i++) {
            for (int64_t slot = 0; slot < 3; slot++)
                CHECK_INT(wrong_in_slot(&options, large[i], 7, slot * 1000, large[i] / 16), 0);
        }
    }
}

/* k = 10^4 slots: one evaluation does not depend on the number of workers. */
static void many_slots_are_cheap(void)
{
    pdl_shuffle_options_t options;
    int                   wrong = 0;

    pdl_shuffle_defaults(&options);
    for (options.destination = PDL_DESTINATION_FEISTEL; options.destination < PDL_DESTINATION_COUNT;
         options.destination++) {
        for (int64_t slot = 0; slot < 10000; slot++) {
            const int64_t worker = slot % 2048, to = pdl_shuffle_target(&options, 2048, 3, slot, worker);

            wrong += to < 0 || to >= 2048 || pdl_shuffle_origin(&options, 2048, 3, slot, to) != worker;
        }
    }
    CHECK_INT(wrong, 0);
}

/* A part of the workers gets what all of them get. */
static void parts_agree_with_the_whole(void)
{
    pdl_shuffle_options_t options;
    int64_t               part_target[64], part_origin[64];

    pdl_shuffle_defaults(&options);
    for (options.destination = 0; options.destination < PDL_DESTINATION_COUNT; options.destination++) {
        pdl__destinations(&options, 61, 2, 9, 0, 61, scratch, target, origin);
        for (int64_t first = 0; first < 61; first += 7) {
            const int64_t count = 61 - first < 7 ? 61 - first : 7;

            pdl__destinations(&options, 61, 2, 9, first, count, scratch, part_target, part_origin);
            CHECK(memcmp(part_target, target + first, (size_t)count * sizeof(*target)) == 0);
            CHECK(memcmp(part_origin, origin + first, (size_t)count * sizeof(*origin)) == 0);
        }
    }
}

/* Seed, epoch and slot each make a difference, and all targets are about equally frequent. */
static void draws_differ(void)
{
    enum { WORKERS = 16, SLOTS = 4000 };
    pdl_shuffle_options_t options;

    pdl_shuffle_defaults(&options);
    for (options.destination = 0; options.destination < PDL_DESTINATION_COUNT; options.destination++) {
        int    hits[WORKERS] = {0}, by_epoch = 0, by_seed = 0;
        double chi = 0;
        int    cells = options.destination == PDL_DESTINATION_SHIFT ? WORKERS - 1 : WORKERS;

        for (int64_t slot = 0; slot < SLOTS; slot++) {
            const int64_t         to = pdl_shuffle_target(&options, WORKERS, 0, slot, 5);
            pdl_shuffle_options_t other = options;

            other.seed++;
            hits[to]++;
            by_epoch += to != pdl_shuffle_target(&options, WORKERS, 1, slot, 5);
            by_seed += to != pdl_shuffle_target(&other, WORKERS, 0, slot, 5);
        }
        for (int w = 0; w < WORKERS; w++) {
            const double expected = (double)SLOTS / cells;

            if (cells < WORKERS && w == 5) continue;
            chi += (hits[w] - expected) * (hits[w] - expected) / expected;
        }
        /* Fifteen degrees of freedom exceed 45 once in ten thousand times. */
        CHECK(chi < 45);
        CHECK(by_epoch > SLOTS * 8 / 10 && by_seed > SLOTS * 8 / 10);
    }
}

int main(void)
{
    RUN(every_slot_is_a_bijection);
    RUN(many_slots_are_cheap);
    RUN(parts_agree_with_the_whole);
    RUN(draws_differ);
    return test_done();
}
