/*
 * Under mpirun: workers spread over ranks have the samples, in the order, that they have in one process, and the samples
 * arrive whole.
 */
#include <paradl/base/random.h>
#include <paradl/data/data.h>
#include <paradl/data/shuffle.h>

#include "ranks.h"

#include <stdlib.h>
#include <unistd.h>

enum { SAMPLES = 241, BATCH = 3, EPOCHS = 5, ELEMENTS = 2 * 6 * 5 };

static pdl_ranks_t  *self;
static pdl_source_t *source;

/* A run on all ranks, and the same on this one alone. */
typedef struct run {
    pdl_shuffle_t *shuffle;
    pdl_store_t   *store; /* NULL: ids only */
    int64_t        first, count;
} run_t;

static void open_run(run_t *run, pdl_shuffle_spec_t spec, pdl_ranks_t *of, bool store, const char *folder)
{
    *run = (run_t){0};
    spec.ranks = of;
    if (store) {
        REQUIRE_OK(pdl_store_create(&(pdl_store_spec_t){.source = source, .folder = folder}, &run->store));
    }
    spec.store = run->store;
    REQUIRE_OK(pdl_shuffle_create(&spec, &run->shuffle));
    pdl_shuffle_workers(run->shuffle, &run->first, &run->count);
}

static void close_run(run_t *run)
{
    pdl_shuffle_destroy(run->shuffle);
    pdl_store_destroy(run->store);
}

static void make_input(int64_t epoch, float *loss, uint64_t *hidden)
{
    for (int64_t i = 0; i < SAMPLES; i++) {
        loss[i] = (float)pdl_random_uniform(21, (uint64_t)epoch, (uint64_t)i);
        hidden[i / 64] &= ~((uint64_t)1 << i % 64);
        if (epoch % 2 == 1 && loss[i] < 0.3f) hidden[i / 64] |= (uint64_t)1 << i % 64;
    }
}

/* Samples of this rank that the store does not give as the source does. */
static int64_t count_damaged(const run_t *run)
{
    int64_t wrong = 0;

    for (int64_t w = run->first; run->store != NULL && w < run->first + run->count; w++) {
        int64_t        count;
        const int64_t *list = pdl_shuffle_partition(run->shuffle, w, &count);

        for (int64_t i = 0; i < count; i++) {
            float        a[ELEMENTS], b[ELEMENTS];
            int32_t      x = -1, y = -2;
            pdl_sample_t from = {.values = a, .labels = &x}, to = {.values = b, .labels = &y};

            wrong += pdl_source_read(source, list[i], &from) != PDL_OK ||
                     pdl_source_read(pdl_store_source(run->store), list[i], &to) != PDL_OK ||
                     memcmp(a, b, sizeof(a)) != 0 || x != y;
        }
    }
    return wrong;
}

/* Workers of this rank that have other samples than in one process. */
static int64_t count_other(const run_t *run, const run_t *alone)
{
    int64_t wrong = 0;

    for (int64_t w = run->first; w < run->first + run->count; w++) {
        int64_t        count, expected;
        const int64_t *a = pdl_shuffle_partition(run->shuffle, w, &count);
        const int64_t *b = pdl_shuffle_partition(alone->shuffle, w, &expected);

        wrong += count != expected || memcmp(a, b, (size_t)count * sizeof(*a)) != 0;
    }
    return wrong;
}

static int rank_with[SAMPLES];

static int rank_of(int64_t worker, int64_t workers)
{
    return (int)(((worker + 1) * size - 1) / workers);
}

/* Which rank has each sample; the samples that another one has now. */
static void remember(const run_t *alone, int64_t workers)
{
    for (int64_t w = 0; w < workers; w++) {
        int64_t        count;
        const int64_t *list = pdl_shuffle_partition(alone->shuffle, w, &count);

        for (int64_t i = 0; i < count; i++) rank_with[list[i]] = rank_of(w, workers);
    }
}

static int64_t count_crossings(const run_t *alone, int64_t workers)
{
    int64_t crossings = 0;

    for (int64_t w = 0; w < workers; w++) {
        int64_t        count;
        const int64_t *list = pdl_shuffle_partition(alone->shuffle, w, &count);

        for (int64_t i = 0; i < count; i++) crossings += rank_with[list[i]] != rank_of(w, workers);
    }
    return crossings;
}

static void compare_states(const run_t *run, const run_t *alone)
{
    int64_t *a = NULL, *b = NULL, count = 0, expected = 0;

    CHECK_OK(pdl_shuffle_save(run->shuffle, &a, &count));
    CHECK_OK(pdl_shuffle_save(alone->shuffle, &b, &expected));
    CHECK_INT(count, expected);
    CHECK(memcmp(a, b, (size_t)count * sizeof(*a)) == 0);
    free(a);
    free(b);
}

static void compare_epoch(const run_t *run, const run_t *alone, int64_t epoch, int64_t workers)
{
    float                     loss[SAMPLES];
    uint64_t                  hidden[SAMPLES / 64 + 1] = {0};
    const pdl_shuffle_epoch_t input = {.loss = epoch > 0 ? loss : NULL, .hidden = hidden};
    pdl_shuffle_report_t      report, reference;
    int64_t                   steps = 0, expected = 0, here = run->count * BATCH;
    int64_t                   mine[64], all[64], crossings;

    make_input(epoch, loss, hidden);
    remember(alone, workers);
    CHECK_OK(pdl_shuffle_begin(run->shuffle, epoch, &input, &steps));
    CHECK_OK(pdl_shuffle_begin(alone->shuffle, epoch, &input, &expected));
    CHECK_INT(steps, expected);
    for (int64_t step = 0; step < steps; step++) {
        CHECK_OK(pdl_shuffle_order(run->shuffle, epoch, step, here, mine));
        CHECK_OK(pdl_shuffle_order(alone->shuffle, epoch, step, workers * BATCH, all));
        CHECK(memcmp(mine, all + run->first * BATCH, (size_t)here * sizeof(*mine)) == 0);
        CHECK_OK(pdl_shuffle_step(run->shuffle, step));
        CHECK_OK(pdl_shuffle_step(alone->shuffle, step));
        if (epoch == 2 && step == steps / 2) compare_states(run, alone);
    }
    CHECK_OK(pdl_shuffle_end(run->shuffle, true));
    CHECK_OK(pdl_shuffle_end(alone->shuffle, true));
    CHECK_INT(count_other(run, alone), 0);
    crossings = count_crossings(alone, workers);
    pdl_shuffle_report(run->shuffle, &report);
    pdl_shuffle_report(alone->shuffle, &reference);
    CHECK_INT(report.sent, reference.sent);
    CHECK_INT(report.skipped, reference.skipped);
    CHECK_NEAR(report.partners, reference.partners, 0);
    CHECK_NEAR(report.imbalance, reference.imbalance, 0);
    CHECK_NEAR(report.score_variance, reference.score_variance, 1e-12);
    if (run->store == NULL) CHECK_NEAR(report.bytes, 8.0 * (double)crossings, 0);
    CHECK((report.bytes > 0) == (crossings > 0));
}

static void compare_runs(pdl_shuffle_spec_t spec, bool store, const char *folder)
{
    run_t run, alone;

    open_run(&run, spec, ranks, store, folder);
    open_run(&alone, spec, self, false, NULL);
    CHECK_INT(count_other(&run, &alone), 0);
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) compare_epoch(&run, &alone, epoch, spec.workers);
    CHECK_INT(count_damaged(&run), 0);
    compare_states(&run, &alone);
    close_run(&run);
    close_run(&alone);
}

static int32_t labels[SAMPLES];

static pdl_shuffle_spec_t spec_of(pdl_shuffle_kind_t kind, double fraction, int64_t workers)
{
    pdl_shuffle_spec_t spec = {.samples = SAMPLES, .workers = workers, .batch = BATCH};

    pdl_shuffle_defaults(&spec.options);
    spec.options.kind = kind;
    spec.options.fraction = fraction;
    spec.options.destination = workers % 3;
    spec.options.random_every = 2;
    spec.labels = labels;
    spec.classes = 10;
    return spec;
}

static void ranks_have_what_one_process_has(void)
{
    static const int64_t workers[] = {4, 6, 12};
    static const double  fractions[] = {0.1, 0.5, 1};

    for (int w = 0; w < 3; w++) {
        for (int f = 0; f < 3; f++) {
            compare_runs(spec_of(PDL_SHUFFLE_PARTIAL, fractions[f], workers[w]), true, NULL);
            compare_runs(spec_of(PDL_SHUFFLE_PAIRED, fractions[f], workers[w]), true, NULL);
            compare_runs(spec_of(PDL_SHUFFLE_PARTIAL, fractions[f], workers[w]), false, NULL);
        }
        compare_runs(spec_of(PDL_SHUFFLE_PARTIAL, 0.3, workers[w]), true, "store");
        compare_runs(spec_of(PDL_SHUFFLE_LOCAL, 0, workers[w]), true, NULL);
    }
}

/* A rank that posts its slices late, or only at the end, gets the same. */
static void late_ranks_get_the_same(void)
{
    pdl_shuffle_spec_t spec = spec_of(PDL_SHUFFLE_PARTIAL, 1, 4);
    run_t              run, alone;

    spec.batch = 1;
    open_run(&run, spec, ranks, true, NULL);
    open_run(&alone, spec, self, false, NULL);
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        int64_t steps;

        CHECK_OK(pdl_shuffle_begin(alone.shuffle, epoch, NULL, &steps));
        CHECK_OK(pdl_shuffle_end(alone.shuffle, true));
        CHECK_OK(pdl_shuffle_begin(run.shuffle, epoch, NULL, &steps));
        for (int64_t step = 0; step < steps; step++) {
            if (epoch % size != rank || step > steps / 2) CHECK_OK(pdl_shuffle_step(run.shuffle, step));
        }
        CHECK_OK(pdl_shuffle_end(run.shuffle, true));
        CHECK_INT(count_other(&run, &alone), 0);
    }
    CHECK_INT(count_damaged(&run), 0);
    close_run(&run);
    close_run(&alone);
}

/* A job ends inside an exchange: what had arrived is forgotten, and the checkpoint has every sample once. It goes on on
   any number of ranks as if nothing had happened. */
static void a_lost_exchange_loses_no_sample(void)
{
    for (pdl_shuffle_kind_t kind = PDL_SHUFFLE_PARTIAL; kind <= PDL_SHUFFLE_PAIRED; kind++) {
        const pdl_shuffle_spec_t spec = spec_of(kind, 0.5, 6);
        float                    loss[SAMPLES];
        uint64_t                 hidden[SAMPLES / 64 + 1] = {0};
        run_t                    run, alone;
        int64_t                  steps, count = 0, *numbers = NULL;

        open_run(&run, spec, ranks, true, NULL);
        open_run(&alone, spec, self, false, NULL);
        for (int64_t epoch = 0; epoch < 2; epoch++) compare_epoch(&run, &alone, epoch, 6);
        make_input(2, loss, hidden);
        CHECK_OK(pdl_shuffle_begin(alone.shuffle, 2, &(pdl_shuffle_epoch_t){.loss = loss}, &steps));
        CHECK_OK(pdl_shuffle_begin(run.shuffle, 2, &(pdl_shuffle_epoch_t){.loss = loss}, &steps));
        for (int64_t step = 0; step < steps / 2; step++) CHECK_OK(pdl_shuffle_step(run.shuffle, step));
        CHECK_OK(pdl_shuffle_save(run.shuffle, &numbers, &count));
        /* The store outlives the run that is given up: it still holds what the partition says. */
        pdl_shuffle_destroy(run.shuffle);
        CHECK_INT(pdl_store_count(run.store), (run.first + run.count) * SAMPLES / 6 - run.first * SAMPLES / 6);
        pdl_store_destroy(run.store);

        open_run(&run, spec, ranks, true, NULL);
        CHECK_OK(pdl_shuffle_restore(run.shuffle, numbers, count, true));
        CHECK_INT(count_damaged(&run), 0);
        make_input(9, loss, hidden); /* losses have changed: what was decided stands */
        CHECK_OK(pdl_shuffle_begin(run.shuffle, 2, &(pdl_shuffle_epoch_t){.loss = loss}, &steps));
        for (int64_t step = steps / 2; step < steps; step++) CHECK_OK(pdl_shuffle_step(run.shuffle, step));
        CHECK_OK(pdl_shuffle_end(run.shuffle, true));
        CHECK_OK(pdl_shuffle_end(alone.shuffle, true));
        CHECK_INT(count_other(&run, &alone), 0);
        CHECK_INT(count_damaged(&run), 0);
        compare_epoch(&run, &alone, 3, 6);
        close_run(&alone);

        /* The state of all ranks goes on on one. */
        open_run(&alone, spec, self, true, NULL);
        CHECK_OK(pdl_shuffle_restore(alone.shuffle, numbers, count, true));
        CHECK_OK(pdl_shuffle_begin(alone.shuffle, 2, &(pdl_shuffle_epoch_t){.loss = loss}, &steps));
        CHECK_OK(pdl_shuffle_end(alone.shuffle, true));
        CHECK_INT(count_damaged(&alone), 0);
        free(numbers);
        close_run(&run);
        close_run(&alone);
    }
}

static void few_workers_are_refused_everywhere(void)
{
    pdl_shuffle_spec_t spec = spec_of(PDL_SHUFFLE_PARTIAL, 0.5, size - 1);
    pdl_shuffle_t     *shuffle = NULL;

    if (size == 1) return;
    spec.ranks = ranks;
    CHECK_ERROR(pdl_shuffle_create(&spec, &shuffle), "every rank has at least one");
    spec = spec_of(PDL_SHUFFLE_PARTIAL, rank == 1 ? 2 : 0.5, 12);
    spec.ranks = ranks;
    CHECK_ERROR(pdl_shuffle_create(&spec, &shuffle), "rank 1: the fraction");
}

/* Hidden samples are dealt to the ranks, every one to one. */
static void global_deals_hidden_samples(void)
{
    pdl_shuffle_spec_t spec = spec_of(PDL_SHUFFLE_GLOBAL, 0, size);
    pdl_shuffle_t     *shuffle = NULL;
    uint64_t           hidden[SAMPLES / 64 + 1] = {0};
    double             seen[SAMPLES] = {0};
    const int64_t     *list;
    int64_t            count, steps;
    int                wrong = 0;

    spec.ranks = ranks;
    spec.whole_batch = 10;
    for (int i = 0; i < SAMPLES; i += 3) hidden[i / 64] |= (uint64_t)1 << i % 64;
    REQUIRE_OK(pdl_shuffle_create(&spec, &shuffle));
    CHECK_OK(pdl_shuffle_begin(shuffle, 0, &(pdl_shuffle_epoch_t){.hidden = hidden}, &steps));
    list = pdl_shuffle_hidden(shuffle, &count);
    for (int64_t i = 0; i < count; i++) seen[list[i]]++;
    CHECK_OK(pdl_ranks_sum(ranks, seen, SAMPLES));
    for (int i = 0; i < SAMPLES; i++) wrong += seen[i] != (i % 3 == 0);
    CHECK_INT(wrong, 0);
    CHECK_OK(pdl_shuffle_end(shuffle, true));
    pdl_shuffle_destroy(shuffle);
}

/* A message is looked at while it is under way. */
static void requests_can_be_tested(void)
{
    pdl_ranks_request_t *send = NULL, *receive = NULL;
    double               value = rank, got = -1;
    bool                 done = false;

    REQUIRE_OK(pdl_ranks_request_create(ranks, 8, &send));
    REQUIRE_OK(pdl_ranks_request_create(ranks, 8, &receive));
    CHECK_OK(pdl_ranks_request_test(send, &done));
    CHECK(done);
    if (size > 1) {
        CHECK_OK(pdl_ranks_receive_start(receive, &got, 8, (rank + size - 1) % size, 3));
        CHECK_OK(pdl_ranks_request_test(receive, &done));
        CHECK(!done || got >= 0);
        CHECK_OK(pdl_ranks_send_start(send, &value, 8, (rank + 1) % size, 3));
        for (done = false; !done;) CHECK_OK(pdl_ranks_request_test(receive, &done));
        CHECK_NEAR(got, (rank + size - 1) % size, 0);
        for (done = false; !done;) CHECK_OK(pdl_ranks_request_test(send, &done));
        CHECK_OK(pdl_ranks_request_wait(send));
    }
    pdl_ranks_request_destroy(send);
    pdl_ranks_request_destroy(receive);
}

int main(void)
{
    const pdl_source_options_t options = {.samples = SAMPLES,
                                          .shape = {.channels = 2, .extent = {6, 5, 1}, .rank = 2}};

    if (!begin_ranks()) return 1;
    REQUIRE_OK(pdl_source_open("synthetic", &options, &source));
    CHECK_OK(pdl_ranks_split(ranks, rank, 0, &self));
    for (int i = 0; i < SAMPLES; i++) labels[i] = (int32_t)(i * 7 % 10);
    RUN(requests_can_be_tested);
    RUN(ranks_have_what_one_process_has);
    RUN(late_ranks_get_the_same);
    RUN(a_lost_exchange_loses_no_sample);
    RUN(few_workers_are_refused_everywhere);
    RUN(global_deals_hidden_samples);
    pdl_source_close(source);
    pdl_ranks_destroy(self);
    return end_ranks();
}
