/* Shuffling with all workers in one process: every sample is trained on, and is with one worker, in every epoch. */
#include <paradl/base/random.h>
#include <paradl/data/data.h>
#include <paradl/data/shuffle.h>
#include <paradl/oracle/data_policy.h>
#include <paradl/plan/mesh.h>

#include "test.h"

#include <stdlib.h>

static pdl_ranks_t *ranks;

static pdl_shuffle_spec_t spec_of(pdl_shuffle_kind_t kind, double fraction, int64_t samples, int64_t workers,
                                  int64_t batch)
{
    pdl_shuffle_spec_t spec = {.samples = samples, .workers = workers, .batch = batch, .ranks = ranks};

    pdl_shuffle_defaults(&spec.options);
    spec.options.kind = kind;
    spec.options.fraction = fraction;
    spec.whole_batch = batch * workers;
    return spec;
}

static pdl_shuffle_t *create(const pdl_shuffle_spec_t *spec)
{
    pdl_shuffle_t *shuffle = NULL;

    REQUIRE_OK(pdl_shuffle_create(spec, &shuffle));
    return shuffle;
}

/* One whole epoch. */
static int64_t run_epoch(pdl_shuffle_t *shuffle, int64_t epoch, const pdl_shuffle_epoch_t *input)
{
    int64_t steps = 0;

    CHECK_OK(pdl_shuffle_begin(shuffle, epoch, input, &steps));
    for (int64_t step = 0; step < steps; step++) CHECK_OK(pdl_shuffle_step(shuffle, step));
    CHECK_OK(pdl_shuffle_end(shuffle, true));
    return steps;
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Samples that are not with exactly one worker. */
static int64_t misplaced(const pdl_shuffle_t *shuffle, int64_t samples, int64_t workers)
{
    int    *held = calloc((size_t)samples, sizeof(*held));
    int64_t wrong = 0;

    for (int64_t w = 0; w < workers; w++) {
        int64_t        count, low, high;
        const int64_t *list = pdl_shuffle_partition(shuffle, w, &count);

        pdl_block_range(samples, workers, w, &low, &high);
        wrong += count != high - low;
        for (int64_t i = 0; i < count; i++) held[list[i]]++;
    }
    for (int64_t i = 0; i < samples; i++) wrong += held[i] != 1;
    free(held);
    return wrong;
}

/* ---- invariants ---- */

static void check_case(pdl_shuffle_kind_t kind, pdl_destination_t destination, int64_t samples, int64_t workers,
                       double fraction, int64_t batch)
{
    pdl_shuffle_spec_t   spec = spec_of(kind, fraction, samples, workers, batch);
    const int64_t        most = pdl_block_max(samples, workers), steps = (most + batch - 1) / batch;
    const int64_t        slots = kind == PDL_SHUFFLE_LOCAL ? 0 : llround(fraction * (double)(samples / workers));
    pdl_shuffle_report_t report;
    pdl_shuffle_t       *shuffle;
    int64_t             *indices = malloc((size_t)(batch * workers) * sizeof(*indices));
    int                 *seen = malloc((size_t)samples * sizeof(*seen));
    float               *loss = malloc((size_t)samples * sizeof(*loss));

    spec.options.destination = destination;
    for (int64_t i = 0; i < samples; i++) loss[i] = (float)pdl_random_uniform(3, 4, (uint64_t)i);
    shuffle = create(&spec);
    for (int64_t epoch = 0; epoch < 5; epoch++) {
        const pdl_shuffle_epoch_t input = {.loss = loss};
        int64_t                   got = 0, unseen = 0;

        memset(seen, 0, (size_t)samples * sizeof(*seen));
        CHECK_OK(pdl_shuffle_begin(shuffle, epoch, &input, &got));
        CHECK_INT(got, steps);
        for (int64_t step = 0; step < steps; step++) {
            CHECK_OK(pdl_shuffle_order(shuffle, epoch, step, batch * workers, indices));
            for (int64_t i = 0; i < batch * workers; i++) seen[indices[i]]++;
            CHECK_OK(pdl_shuffle_step(shuffle, step));
        }
        CHECK_OK(pdl_shuffle_end(shuffle, true));
        for (int64_t i = 0; i < samples; i++) unseen += seen[i] == 0;
        CHECK_INT(unseen, 0);
        CHECK_INT(misplaced(shuffle, samples, workers), 0);
        pdl_shuffle_report(shuffle, &report);
        CHECK_INT(report.sent + report.skipped, slots * workers);
        CHECK(report.stored_most <= most + slots && report.stored_most >= most);
        CHECK_NEAR(report.bytes, 0, 0);
    }
    pdl_shuffle_destroy(shuffle);
    free(indices);
    free(seen);
    free(loss);
}

static void every_sample_is_with_one_worker(void)
{
    static const struct {
        int64_t samples, workers, batch;
    } sizes[] = {{1, 1, 1},  {5, 5, 2},   {7, 5, 1},     {100, 1, 8},  {100, 7, 3}, {64, 8, 8},
                 {97, 8, 5}, {97, 96, 1}, {1000, 13, 9}, {500, 70, 2}, {60, 2, 50}};
    static const double fractions[] = {0, 0.1, 0.37, 1};

    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        check_case(PDL_SHUFFLE_LOCAL, 0, sizes[s].samples, sizes[s].workers, 0, sizes[s].batch);
        for (int f = 0; f < 4; f++) {
            for (pdl_destination_t d = 0; d < PDL_DESTINATION_COUNT; d++)
                check_case(PDL_SHUFFLE_PARTIAL, d, sizes[s].samples, sizes[s].workers, fractions[f],
                           sizes[s].batch);
            check_case(PDL_SHUFFLE_PAIRED, 0, sizes[s].samples, sizes[s].workers, fractions[f], sizes[s].batch);
        }
    }
}

static void wrong_input_is_refused(void)
{
    pdl_shuffle_spec_t    spec = spec_of(PDL_SHUFFLE_PARTIAL, 0.1, 10, 11, 2);
    pdl_shuffle_t        *shuffle = NULL;
    pdl_shuffle_options_t options;
    int64_t               steps;
    int32_t               labels[11] = {0};

    CHECK_ERROR(pdl_shuffle_create(&spec, &shuffle), "10 samples cannot be shared by 11 workers");
    spec = spec_of(PDL_SHUFFLE_PARTIAL, 1.1, 10, 2, 2);
    CHECK_ERROR(pdl_shuffle_create(&spec, &shuffle), "expected 0 to 1");
    spec = spec_of(PDL_SHUFFLE_PARTIAL, 0.5, 10, 2, 0);
    CHECK_ERROR(pdl_shuffle_create(&spec, &shuffle), "a batch of 0");
    spec = spec_of(PDL_SHUFFLE_PARTIAL, 0.5, 10, 2, 1);
    spec.options.partition = PDL_PARTITION_SORTED;
    CHECK_ERROR(pdl_shuffle_create(&spec, &shuffle), "needs samples with one class");
    labels[3] = 4;
    spec.labels = labels;
    spec.classes = 4;
    CHECK_ERROR(pdl_shuffle_create(&spec, &shuffle), "sample 3 has class 4");
    spec.options.random_every = -1;
    CHECK_ERROR(pdl_shuffle_create(&spec, &shuffle), "every -1 epochs");
    spec = spec_of(PDL_SHUFFLE_GLOBAL, 0, 10, 1, 20);
    shuffle = create(&spec);
    CHECK_ERROR(pdl_shuffle_begin(shuffle, 0, NULL, &steps), "fewer than a batch of 20");
    CHECK_ERROR(pdl_shuffle_step(shuffle, 0), "no epoch has begun");
    CHECK_ERROR(pdl_shuffle_end(shuffle, true), "no epoch has begun");
    pdl_shuffle_destroy(shuffle);
    spec = spec_of(PDL_SHUFFLE_LOCAL, 0, 10, 2, 2);
    shuffle = create(&spec);
    CHECK_OK(pdl_shuffle_begin(shuffle, 0, NULL, &steps));
    CHECK_ERROR(pdl_shuffle_begin(shuffle, 1, NULL, &steps), "before epoch 0 has ended");
    CHECK_ERROR(pdl_shuffle_order(shuffle, 0, 0, 3, &steps), "not 3 samples");
    CHECK_ERROR(pdl_shuffle_order(shuffle, 0, steps, 4, &steps), "no step 3");
    pdl_shuffle_destroy(shuffle);

    pdl_shuffle_defaults(&options);
    CHECK_OK(pdl_shuffle_parse("partial:0.25", &options));
    CHECK_INT(options.kind, PDL_SHUFFLE_PARTIAL);
    CHECK_NEAR(options.fraction, 0.25, 0);
    CHECK_OK(pdl_shuffle_parse("paired:1", &options));
    CHECK_INT(options.kind, PDL_SHUFFLE_PAIRED);
    CHECK_OK(pdl_shuffle_parse("local", &options));
    CHECK_INT(options.kind, PDL_SHUFFLE_LOCAL);
    CHECK_OK(pdl_shuffle_parse("global", &options));
    CHECK_ERROR(pdl_shuffle_parse("partial", &options), "such as partial:0.1");
    CHECK_ERROR(pdl_shuffle_parse("partial:1.5", &options), "0 to 1");
    CHECK_ERROR(pdl_shuffle_parse("paired:x", &options), "0 to 1");
    CHECK_ERROR(pdl_shuffle_parse("local:0.1", &options), "exchanges no fraction");
    CHECK_ERROR(pdl_shuffle_parse("partal:0.1", &options), "did you mean partial");
    CHECK_ERROR(pdl_shuffle_parse("", &options), "expected global");
}

/* ---- mixing ---- */

/* After one epoch with Q = 1 a sample is with any worker alike. */
static void full_exchange_is_uniform(void)
{
    enum { SAMPLES = 16000, WORKERS = 16 };
    pdl_shuffle_spec_t spec = spec_of(PDL_SHUFFLE_PARTIAL, 1, SAMPLES, WORKERS, 100);
    pdl_shuffle_t     *shuffle = create(&spec);
    int               *before = malloc(SAMPLES * sizeof(*before));
    static int         moved[WORKERS][WORKERS];
    double             chi = 0;

    memset(moved, 0, sizeof(moved));
    for (int after = 0; after < 2; after++) {
        if (after) run_epoch(shuffle, 0, NULL);
        for (int w = 0; w < WORKERS; w++) {
            int64_t        count;
            const int64_t *list = pdl_shuffle_partition(shuffle, w, &count);

            for (int64_t i = 0; i < count; i++) {
                if (after)
                    moved[before[list[i]]][w]++;
                else
                    before[list[i]] = w;
            }
        }
    }
    for (int a = 0; a < WORKERS; a++) {
        for (int b = 0; b < WORKERS; b++) {
            const double expected = (double)SAMPLES / (WORKERS * WORKERS);

            chi += (moved[a][b] - expected) * (moved[a][b] - expected) / expected;
        }
    }
    /* 225 degrees of freedom: mean 225, deviation 21. */
    CHECK(chi > 130 && chi < 320);
    pdl_shuffle_destroy(shuffle);
    free(before);
}

static int32_t *make_labels(int64_t samples, int32_t classes)
{
    int32_t *labels = malloc((size_t)samples * sizeof(*labels));

    for (int64_t i = 0; i < samples; i++)
        labels[i] = (int32_t)pdl_random_below(8, 9, (uint64_t)i, (uint64_t)classes);
    return labels;
}

static void exchange_repairs_a_sorted_partition(void)
{
    pdl_shuffle_spec_t   spec = spec_of(PDL_SHUFFLE_PARTIAL, 0.3, 4000, 20, 20);
    int32_t             *labels = make_labels(4000, 10);
    pdl_shuffle_report_t report;
    double               first, last = 1;

    spec.labels = labels;
    spec.classes = 10;
    for (int sorted = 0; sorted < 2; sorted++) {
        pdl_shuffle_t *shuffle;

        spec.options.partition = sorted ? PDL_PARTITION_SORTED : PDL_PARTITION_RANDOM;
        shuffle = create(&spec);
        for (int64_t w = 0; sorted && w < 20; w++) {
            int64_t        count;
            const int64_t *list = pdl_shuffle_partition(shuffle, w, &count);
            int            classes = 0, has[10] = {0};

            for (int64_t i = 0; i < count; i++) has[labels[list[i]]] = 1;
            for (int c = 0; c < 10; c++) classes += has[c];
            CHECK(classes <= 2);
        }
        run_epoch(shuffle, 0, NULL);
        pdl_shuffle_report(shuffle, &report);
        first = report.imbalance;
        for (int64_t epoch = 1; epoch < 12; epoch++) run_epoch(shuffle, epoch, NULL);
        pdl_shuffle_report(shuffle, &report);
        last = report.imbalance;
        if (sorted) {
            CHECK(first > 0.8);
        } else {
            CHECK(first < 0.25);
        }
        CHECK(last < 0.25);
        CHECK_NEAR(report.seen, pdl_policy_seen(0.3, 20, 12), 0);
        CHECK_NEAR(report.partners, 19, 0.01);
        pdl_shuffle_destroy(shuffle);
    }
    free(labels);
}

/* Shards: every worker has two pieces of the sorted samples, which are others for another seed. */
static void shards_have_few_classes(void)
{
    pdl_shuffle_spec_t spec = spec_of(PDL_SHUFFLE_LOCAL, 0, 4003, 20, 20);
    int32_t           *labels = make_labels(4003, 10);
    int64_t            first[2], apart = 0;

    spec.labels = labels;
    spec.classes = 10;
    spec.options.partition = PDL_PARTITION_SHARDS;
    for (int seed = 0; seed < 2; seed++) {
        spec.options.seed = (uint64_t)seed;
        pdl_shuffle_t *shuffle = create(&spec);
        int64_t        all = 0;
        for (int64_t w = 0; w < 20; w++) {
            int64_t        count;
            const int64_t *list = pdl_shuffle_partition(shuffle, w, &count);
            int            most = 0, has[10] = {0};
            for (int64_t i = 0; i < count; i++) has[labels[list[i]]]++;
            for (int c = 0; c < 10; c++) most += has[c] > 5;
            CHECK(most <= 4); /* a shard may have the end of one class and the beginning of the next */
            apart += most > 1;
            all += count;
            if (w == 0) first[seed] = list[0];
        }
        CHECK_INT(all, 4003);
        run_epoch(shuffle, 0, NULL);
        pdl_shuffle_destroy(shuffle);
    }
    CHECK(apart > 20); /* not one class each, as when they are only sorted */
    CHECK(first[0] != first[1]);
    free(labels);
}

static void closed_forms_are_those_of_the_text(void)
{
    CHECK_NEAR(pdl_policy_seen(0.1, 512, 90), 0.0192, 0.005);
    CHECK_NEAR(pdl_policy_seen(0, 8, 50), 0.125, 1e-12);
    CHECK_NEAR(pdl_policy_seen(1, 8, 3), 1 - pow(7 / 8.0, 3), 1e-12);
    CHECK_NEAR(pdl_policy_never_left(0.1, 11), pow(0.9, 10), 1e-12);
}

/* ---- hiding ---- */

static void hidden_samples_are_left_out(void)
{
    enum { SAMPLES = 103, WORKERS = 5, BATCH = 4 };
    uint64_t           hidden[2] = {0};
    pdl_shuffle_spec_t spec = spec_of(PDL_SHUFFLE_PARTIAL, 0.5, SAMPLES, WORKERS, BATCH);
    pdl_shuffle_t     *shuffle = create(&spec);
    int64_t            indices[WORKERS * BATCH], steps, count, most = 1;
    const int64_t     *list;
    int                seen[SAMPLES] = {0};

    /* Worker 2 has nothing left to train on, the others have lost every fifth. */
    list = pdl_shuffle_partition(shuffle, 2, &count);
    for (int64_t i = 0; i < count; i++) hidden[list[i] / 64] |= (uint64_t)1 << list[i] % 64;
    for (int64_t i = 0; i < SAMPLES; i += 5) hidden[i / 64] |= (uint64_t)1 << i % 64;
    CHECK_OK(pdl_shuffle_begin(shuffle, 0, &(pdl_shuffle_epoch_t){.hidden = hidden}, &steps));
    for (int64_t step = 0; step < steps; step++) {
        CHECK_OK(pdl_shuffle_order(shuffle, 0, step, WORKERS * BATCH, indices));
        for (int i = 0; i < WORKERS * BATCH; i++) {
            seen[indices[i]]++;
            CHECK((hidden[indices[i] / 64] >> indices[i] % 64 & 1) == (i / BATCH == 2));
        }
    }
    for (int64_t w = 0; w < WORKERS; w++) {
        int64_t trains = 0;

        list = pdl_shuffle_partition(shuffle, w, &count);
        for (int64_t i = 0; i < count; i++) trains += w == 2 || !(hidden[list[i] / 64] >> list[i] % 64 & 1);
        if ((trains + BATCH - 1) / BATCH > most) most = (trains + BATCH - 1) / BATCH;
    }
    CHECK_INT(steps, most);
    list = pdl_shuffle_hidden(shuffle, &count);
    for (int64_t i = 0; i < count; i++) {
        CHECK((hidden[list[i] / 64] >> list[i] % 64 & 1) == 1);
        seen[list[i]] += 100;
    }
    for (int i = 0; i < SAMPLES; i++) CHECK(seen[i] > 0 && seen[i] < 200);
    CHECK_OK(pdl_shuffle_end(shuffle, true)); /* with no step at all: everything is exchanged here */
    CHECK_INT(misplaced(shuffle, SAMPLES, WORKERS), 0);
    pdl_shuffle_destroy(shuffle);
}

/* ---- global ---- */

static void global_is_the_ordinary_order(void)
{
    enum { SAMPLES = 1003, BATCH = 64 };
    pdl_shuffle_spec_t spec = spec_of(PDL_SHUFFLE_GLOBAL, 0, SAMPLES, 3, 0);
    pdl_global_order_t order = {.samples = SAMPLES, .batch = BATCH, .seed = 1, .shuffle = true, .epoch = -1};
    int64_t            mine[BATCH], theirs[BATCH], steps, first[] = {0, 22, 43, 64};
    uint64_t           none[SAMPLES / 64 + 1] = {0};

    spec.whole_batch = BATCH;
    for (int part = 0; part < 3; part++) {
        pdl_shuffle_t *shuffle;

        spec.first = order.first = first[part];
        shuffle = create(&spec);
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            CHECK_OK(pdl_shuffle_begin(shuffle, epoch, &(pdl_shuffle_epoch_t){.hidden = none}, &steps));
            CHECK_INT(steps, pdl_global_order_steps(&order));
            for (int64_t step = 0; step < steps; step++) {
                const int64_t count = first[part + 1] - first[part];

                CHECK_OK(pdl_shuffle_order(shuffle, epoch, step, count, mine));
                CHECK_OK(pdl_global_order(&order, epoch, step, count, theirs));
                CHECK(memcmp(mine, theirs, (size_t)count * sizeof(*mine)) == 0);
                CHECK_OK(pdl_shuffle_step(shuffle, step));
            }
            CHECK_OK(pdl_shuffle_end(shuffle, true));
        }
        CHECK_ERROR(pdl_shuffle_order(shuffle, 2, 0, BATCH + 1, mine), "not all in a batch");
        pdl_shuffle_destroy(shuffle);
    }
    pdl_global_order_free(&order);
}

static void global_leaves_hidden_samples_out(void)
{
    enum { SAMPLES = 1003, BATCH = 64 };
    pdl_shuffle_spec_t spec = spec_of(PDL_SHUFFLE_GLOBAL, 0, SAMPLES, 1, 0);
    uint64_t           hidden[SAMPLES / 64 + 1] = {0};
    int64_t            drawn[130], indices[BATCH], steps, count;
    int                seen[SAMPLES] = {0}, wrong = 0;
    const int64_t     *list;
    pdl_shuffle_t     *shuffle;

    spec.whole_batch = BATCH;
    shuffle = create(&spec);
    for (int i = 0; i < SAMPLES; i += 3) hidden[i / 64] |= (uint64_t)1 << i % 64;
    CHECK_OK(pdl_shuffle_begin(shuffle, 4, &(pdl_shuffle_epoch_t){.hidden = hidden}, &steps));
    CHECK_INT(steps, (SAMPLES - 335 + BATCH - 1) / BATCH);
    for (int64_t step = 0; step < steps; step++) {
        CHECK_OK(pdl_shuffle_order(shuffle, 4, step, BATCH, indices));
        for (int i = 0; i < BATCH; i++) seen[indices[i]]++;
    }
    list = pdl_shuffle_hidden(shuffle, &count);
    CHECK_INT(count, 335);
    for (int64_t i = 0; i < count; i++) seen[list[i]] += 100;
    for (int i = 0; i < SAMPLES; i++) wrong += i % 3 == 0 ? seen[i] != 100 : seen[i] < 1 || seen[i] > 2;
    CHECK_INT(wrong, 0);
    CHECK_OK(pdl_shuffle_end(shuffle, true));

    for (int i = 0; i < 130; i++) drawn[i] = i % 7;
    CHECK_OK(pdl_shuffle_begin(shuffle, 5, &(pdl_shuffle_epoch_t){.drawn = drawn, .drawn_count = 130}, &steps));
    CHECK_INT(steps, 2);
    CHECK_OK(pdl_shuffle_order(shuffle, 5, 1, BATCH, indices));
    CHECK_INT(indices[5], (64 + 5) % 7);
    CHECK_OK(pdl_shuffle_end(shuffle, true));
    drawn[9] = SAMPLES;
    CHECK_ERROR(pdl_shuffle_begin(shuffle, 6, &(pdl_shuffle_epoch_t){.drawn = drawn, .drawn_count = 130}, &steps),
                "sample 1003 was drawn");
    memset(hidden, 0xff, sizeof(hidden));
    CHECK_ERROR(pdl_shuffle_begin(shuffle, 6, &(pdl_shuffle_epoch_t){.hidden = hidden}, &steps), "are hidden");
    pdl_shuffle_destroy(shuffle);

    spec.keep_rest = true;
    shuffle = create(&spec);
    CHECK_OK(pdl_shuffle_begin(shuffle, 0, NULL, &steps));
    CHECK_INT(steps, 16);
    CHECK_OK(pdl_shuffle_order(shuffle, 0, 15, BATCH, indices));
    drawn[0] = indices[SAMPLES % BATCH];
    CHECK_OK(pdl_shuffle_order(shuffle, 0, 0, BATCH, indices));
    CHECK_INT(drawn[0], indices[0]);
    pdl_shuffle_destroy(shuffle);
}

/* ---- pairs ---- */

/* Losses that stay as they are, and differ between the first partitions. */
static float *static_losses(const pdl_shuffle_t *shuffle, int64_t samples, int64_t workers)
{
    float *loss = malloc((size_t)samples * sizeof(*loss));

    for (int64_t w = 0; w < workers; w++) {
        int64_t        count;
        const int64_t *list = pdl_shuffle_partition(shuffle, w, &count);

        for (int64_t i = 0; i < count; i++)
            loss[list[i]] =
                (float)((double)w / (double)workers + 0.1 * pdl_random_uniform(1, 2, (uint64_t)list[i]));
    }
    return loss;
}

static void random_matchings_bring_new_partners(void)
{
    enum { SAMPLES = 640, WORKERS = 16, EPOCHS = 40 };
    double partners[2][EPOCHS];

    for (int every = 0; every < 2; every++) {
        pdl_shuffle_spec_t spec = spec_of(PDL_SHUFFLE_PAIRED, 0.1, SAMPLES, WORKERS, 8);
        pdl_shuffle_t     *shuffle;
        float             *loss;

        spec.options.random_every = every ? 4 : 0;
        spec.options.pair_samples = PDL_PAIR_RANDOM;
        spec.options.score = PDL_SCORE_MAX;
        shuffle = create(&spec);
        loss = malloc(SAMPLES * sizeof(*loss));
        for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
            pdl_shuffle_report_t report;

            /* The score order never changes: the loss belongs to the worker, whatever it holds. */
            for (int64_t w = 0; w < WORKERS; w++) {
                int64_t        count;
                const int64_t *list = pdl_shuffle_partition(shuffle, w, &count);

                for (int64_t i = 0; i < count; i++) loss[list[i]] = (float)w;
            }
            run_epoch(shuffle, epoch, &(pdl_shuffle_epoch_t){.loss = loss});
            pdl_shuffle_report(shuffle, &report);
            partners[every][epoch] = report.partners;
        }
        free(loss);
        pdl_shuffle_destroy(shuffle);
    }
    CHECK_NEAR(partners[0][0], 1, 0);
    CHECK_NEAR(partners[0][EPOCHS - 1], 1, 0);
    CHECK(partners[1][EPOCHS / 4] > partners[1][0]);
    CHECK(partners[1][EPOCHS / 2] > partners[1][EPOCHS / 4]);
    CHECK(partners[1][EPOCHS - 1] > 4);
}

static void score_variance_falls(void)
{
    for (pdl_pair_score_t score = 0; score < PDL_SCORE_COUNT; score++) {
        for (pdl_pair_samples_t which = 0; which < PDL_PAIR_COUNT; which++) {
            pdl_shuffle_spec_t   spec = spec_of(PDL_SHUFFLE_PAIRED, 0.1, 905, 9, 8);
            pdl_shuffle_report_t report;
            pdl_shuffle_t       *shuffle;
            float               *loss;
            double               first = 0;

            spec.options.score = score;
            spec.options.pair_samples = which;
            shuffle = create(&spec);
            loss = static_losses(shuffle, 905, 9);
            for (int64_t epoch = 0; epoch < 16; epoch++) {
                run_epoch(shuffle, epoch, &(pdl_shuffle_epoch_t){.loss = loss});
                pdl_shuffle_report(shuffle, &report);
                if (epoch == 0) first = report.score_variance;
                /* Of nine one keeps its samples. */
                CHECK_INT(report.sent, 8 * 10);
                CHECK_INT(report.skipped, 10);
            }
            /* The largest loss of a worker changes hands, which does not make workers alike. */
            if (score != PDL_SCORE_MAX) CHECK(report.score_variance < 0.6 * first);
            CHECK(first > 0 && report.score_mean > 0);
            free(loss);
            pdl_shuffle_destroy(shuffle);
        }
    }
}

/* The higher of a pair sends its highest losses, the lower its lowest. */
static void extremes_are_exchanged(void)
{
    pdl_shuffle_spec_t spec = spec_of(PDL_SHUFFLE_PAIRED, 0.25, 16, 2, 2);
    pdl_shuffle_t     *shuffle = create(&spec);
    float              loss[16];
    int64_t            count, was[2][8], sum[2] = {0};

    for (int64_t w = 0; w < 2; w++) {
        const int64_t *list = pdl_shuffle_partition(shuffle, w, &count);

        CHECK_INT(count, 8);
        memcpy(was[w], list, sizeof(was[w]));
        for (int64_t i = 0; i < 8; i++) loss[list[i]] = (float)(10 * w + i);
    }
    loss[was[1][7]] = NAN; /* counts as highest */
    run_epoch(shuffle, 0, &(pdl_shuffle_epoch_t){.loss = loss});
    for (int64_t w = 0; w < 2; w++) {
        int64_t expected[8], at = 0;

        for (int64_t i = 0; i < 8; i++) {
            if (w == 0 ? i >= 2 : i < 6) expected[at++] = was[w][i];
        }
        expected[at++] = w == 0 ? was[1][6] : was[0][0];
        expected[at++] = w == 0 ? was[1][7] : was[0][1];
        qsort(expected, 8, sizeof(*expected), compare);
        CHECK(memcmp(pdl_shuffle_partition(shuffle, w, &count), expected, sizeof(expected)) == 0);
        sum[w] = count;
    }
    CHECK_INT(sum[0] + sum[1], 16);
    pdl_shuffle_destroy(shuffle);
}

/* ---- restart ---- */

enum { RESTART_SAMPLES = 211, RESTART_WORKERS = 7, RESTART_BATCH = 5 };

static void fill_losses(float *loss, int64_t epoch)
{
    for (int64_t i = 0; i < RESTART_SAMPLES; i++)
        loss[i] = (float)pdl_random_uniform(11, (uint64_t)epoch, (uint64_t)i);
}

/* The order of an epoch from step `from` on, as one number. */
static uint64_t trace_epoch(pdl_shuffle_t *shuffle, int64_t epoch, int64_t from, const float *loss, int64_t save_at,
                            int64_t **numbers, int64_t *count)
{
    int64_t  indices[RESTART_WORKERS * RESTART_BATCH], steps;
    uint64_t trace = 7;

    CHECK_OK(pdl_shuffle_begin(shuffle, epoch, &(pdl_shuffle_epoch_t){.loss = loss}, &steps));
    for (int64_t step = 0; step < steps; step++) {
        if (step == save_at) {
            CHECK_OK(pdl_shuffle_save(shuffle, numbers, count));
        }
        CHECK_OK(pdl_shuffle_order(shuffle, epoch, step, RESTART_WORKERS * RESTART_BATCH, indices));
        for (size_t i = 0; i < sizeof(indices) / sizeof(indices[0]); i++)
            if (step >= from && step >= save_at) trace = trace * 1000003 + (uint64_t)indices[i];
        if (step >= from) CHECK_OK(pdl_shuffle_step(shuffle, step));
    }
    CHECK_OK(pdl_shuffle_end(shuffle, true));
    return trace;
}

static void restart_goes_on_as_if_nothing_had_happened(void)
{
    for (pdl_shuffle_kind_t kind = PDL_SHUFFLE_LOCAL; kind < PDL_SHUFFLE_COUNT; kind++) {
        for (int inside = 0; inside < 2; inside++) {
            pdl_shuffle_spec_t spec = spec_of(kind, 0.4, RESTART_SAMPLES, RESTART_WORKERS, RESTART_BATCH);
            pdl_shuffle_t     *one = create(&spec), *two = create(&spec);
            int64_t           *numbers = NULL, count = 0;
            float              loss[RESTART_SAMPLES], later[RESTART_SAMPLES];
            uint64_t           trace[4];

            fill_losses(later, 77);
            for (int64_t epoch = 0; epoch < 3; epoch++) {
                fill_losses(loss, epoch);
                trace_epoch(one, epoch, 0, loss, -1, NULL, NULL);
            }
            if (!inside) CHECK_OK(pdl_shuffle_save(one, &numbers, &count));
            fill_losses(loss, 3);
            trace[0] = trace_epoch(one, 3, 0, loss, inside ? 2 : -1, &numbers, &count);
            trace[1] = trace_epoch(one, 4, 0, later, -1, NULL, NULL);
            CHECK_OK(pdl_shuffle_restore(two, numbers, count, inside));
            /* Inside an epoch the losses have changed since it began: what was decided then stands. */
            trace[2] = trace_epoch(two, 3, inside ? 2 : 0, inside ? later : loss, -1, NULL, NULL);
            trace[3] = trace_epoch(two, 4, 0, later, -1, NULL, NULL);
            CHECK(trace[0] == trace[2] && trace[1] == trace[3]);
            free(numbers);
            pdl_shuffle_destroy(one);
            pdl_shuffle_destroy(two);
        }
    }
}

static void wrong_states_are_refused(void)
{
    pdl_shuffle_spec_t spec = spec_of(PDL_SHUFFLE_PAIRED, 0.4, RESTART_SAMPLES, RESTART_WORKERS, RESTART_BATCH);
    pdl_shuffle_t     *one = create(&spec), *two;
    int64_t           *numbers = NULL, count = 0, steps, kept;

    CHECK_OK(pdl_shuffle_save(one, &numbers, &count));
    CHECK_ERROR(pdl_shuffle_restore(one, numbers, count, true), "not that inside an epoch");
    CHECK_ERROR(pdl_shuffle_restore(one, numbers, count - 1, false), "numbers, expected");
    CHECK_ERROR(pdl_shuffle_restore(one, numbers, 3, false), "cut off");
    numbers[20]++;
    CHECK_ERROR(pdl_shuffle_restore(one, numbers, count, false), "damaged");
    numbers[20]--;
    spec.options.seed = 9;
    two = create(&spec);
    CHECK_ERROR(pdl_shuffle_restore(two, numbers, count, false), "another seed");
    pdl_shuffle_destroy(two);
    free(numbers);
    CHECK_OK(pdl_shuffle_begin(one, 2, NULL, &steps));
    CHECK_OK(pdl_shuffle_save(one, &numbers, &count));
    spec.options.seed = 1;
    two = create(&spec);
    kept = numbers[count - 1];
    numbers[count - 1] = numbers[count - 2];
    CHECK_ERROR(pdl_shuffle_restore(two, numbers, count, true), "pairs in the checkpoint are damaged");
    numbers[count - 1] = kept;
    CHECK_OK(pdl_shuffle_restore(two, numbers, count, true));
    CHECK_ERROR(pdl_shuffle_begin(two, 3, NULL, &steps), "inside epoch 2");
    CHECK_OK(pdl_shuffle_begin(two, 2, NULL, &steps));
    CHECK_ERROR(pdl_shuffle_restore(two, numbers, count, true), "after an epoch has begun");
    free(numbers);
    pdl_shuffle_destroy(one);
    pdl_shuffle_destroy(two);
}

int main(void)
{
    REQUIRE_OK(pdl_ranks_create(&ranks));
    RUN(every_sample_is_with_one_worker);
    RUN(wrong_input_is_refused);
    RUN(full_exchange_is_uniform);
    RUN(exchange_repairs_a_sorted_partition);
    RUN(shards_have_few_classes);
    RUN(closed_forms_are_those_of_the_text);
    RUN(hidden_samples_are_left_out);
    RUN(global_is_the_ordinary_order);
    RUN(global_leaves_hidden_samples_out);
    RUN(random_matchings_bring_new_partners);
    RUN(score_variance_falls);
    RUN(extremes_are_exchanged);
    RUN(restart_goes_on_as_if_nothing_had_happened);
    RUN(wrong_states_are_refused);
    pdl_ranks_destroy(ranks);
    return test_done();
}
