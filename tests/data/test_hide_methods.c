/*
 * The other ways to choose: random hiding of the same number, importance sampling, selective backprop, unbiased hiding;
 * and local scope, where every worker chooses among its own samples.
 */
#include <paradl/data/hide.h>

#include "hide_fixture.h"

/* After epoch 0, in which all had these losses, and every third answer was wrong. */
static pdl_hide_t *seen(const pdl_hide_options_t *options, int64_t samples, const float *loss)
{
    pdl_hide_t *hide = NULL;

    REQUIRE_OK(pdl_hide_create(options, samples, &hide));
    begin(hide, 0, 1000, 1);
    for (int64_t i = 0; i < samples; i++)
        pdl_hide_note(hide, i, &i, &loss[i], &(float){i % 3 != 0}, &(float){1}, 1);
    CHECK_OK(pdl_hide_combine(hide, ranks));
    return hide;
}

static float *uniform_losses(int64_t samples)
{
    float *loss = malloc((size_t)samples * sizeof(*loss));

    for (int64_t i = 0; i < samples; i++) loss[i] = (float)((double)(draw() >> 11) * 0x1p-53);
    return loss;
}

/* As many as by loss in every epoch, any sample as often as another. */
static void random_hides_as_many(void)
{
    enum { SAMPLES = 200, EPOCHS = 400 };
    pdl_hide_options_t options = defaults(PDL_HIDE_RANDOM), by_loss = defaults(PDL_HIDE_LOSS);
    float             *loss = uniform_losses(SAMPLES);
    pdl_hide_t        *hide, *other;
    int                times[SAMPLES] = {0}, expected;
    double             square = 0;

    options.reduce = by_loss.reduce = false;
    hide = seen(&options, SAMPLES, loss);
    other = seen(&by_loss, SAMPLES, loss);
    begin(other, 1, EPOCHS + 1, 1);
    for (int e = 1; e <= EPOCHS; e++) {
        int64_t count = 0;

        begin(hide, e, EPOCHS + 1, 1);
        for (int i = 0; i < SAMPLES; i++) {
            times[i] += is_hidden(hide, i);
            count += is_hidden(hide, i);
        }
        CHECK_INT(count, report_of(other).hidden);
        CHECK_INT(report_of(hide).moved_back, report_of(other).moved_back);
    }
    CHECK_NEAR(pdl_hide_rate(hide), pdl_hide_rate(other), 0);
    expected = (int)(EPOCHS * report_of(other).hidden / SAMPLES);
    for (int i = 0; i < SAMPLES; i++) square += (times[i] - expected) * (double)(times[i] - expected);
    /* Variance n p (1-p) of each: about 64 here; the mean of 200 squares stays within a third of it. */
    CHECK_NEAR(square / SAMPLES, EPOCHS * 0.2 * 0.8, 0.35);
    pdl_hide_destroy(hide);
    pdl_hide_destroy(other);
    free(loss);
}

/* Pearson's chi-square of the draws of many epochs against shares in proportion to the losses. */
static void importance_draws_in_proportion(void)
{
    enum { SAMPLES = 50, EPOCHS = 400 };
    pdl_hide_options_t options = defaults(PDL_HIDE_IMPORTANCE);
    float              loss[SAMPLES];
    double             sum = 0, chi = 0;
    int64_t            times[SAMPLES] = {0}, count;
    pdl_hide_t        *hide;

    for (int i = 0; i < SAMPLES; i++) sum += loss[i] = i == 7 ? 0 : i == 8 ? 100 : (float)(i % 10 + 1) / 10;
    hide = seen(&options, SAMPLES, loss);
    CHECK(pdl_hide_drawn(hide, &count) == NULL && count == 0); /* epoch 0 sees all samples */
    for (int e = 1; e <= EPOCHS; e++) {
        const int64_t *drawn;

        begin(hide, e, EPOCHS + 1, 1);
        drawn = pdl_hide_drawn(hide, &count);
        CHECK_INT(count, SAMPLES);
        for (int64_t k = 0; k < count; k++) times[drawn[k]]++;
    }
    CHECK_INT(times[7], 0);
    for (int i = 0; i < SAMPLES; i++) {
        double expected = loss[i] / sum * SAMPLES * EPOCHS;

        if (i != 7) chi += ((double)times[i] - expected) * ((double)times[i] - expected) / expected;
    }
    CHECK(chi > 20 && chi < 90); /* 48 degrees of freedom: beyond it once in ten thousand times */
    CHECK(pdl_hide_bits(hide) == NULL && !pdl_hide_refreshes(hide) && !pdl_hide_weighs(hide));
    CHECK_NEAR(pdl_hide_rate(hide), 1, 0);
    pdl_hide_destroy(hide);
}

/* Losses that are no numbers, all zero, or the same. */
static void importance_draws_of_odd_losses(void)
{
    const float        odd[][4] = {{0, 0, 0, 0}, {NAN, NAN, NAN, NAN}, {-1, -INFINITY, INFINITY, 5}, {2, 2, 2, 2}};
    pdl_hide_options_t options = defaults(PDL_HIDE_IMPORTANCE);

    for (int c = 0; c < 4; c++) {
        pdl_hide_t *hide = seen(&options, 4, odd[c]);
        int         times[4] = {0};

        for (int e = 1; e <= 200; e++) {
            int64_t        count;
            const int64_t *drawn;

            begin(hide, e, 201, 1);
            drawn = pdl_hide_drawn(hide, &count);
            for (int64_t k = 0; k < count; k++) times[drawn[k]]++;
        }
        for (int i = 0; i < 4; i++) {
            if (c == 2)
                CHECK(i < 2 ? times[i] == 0 : times[i] > 300);
            else
                CHECK(times[i] > 130 && times[i] < 270);
        }
        pdl_hide_destroy(hide);
    }
}

/* Uniform losses: the kept share is the mean of u^beta, 1 / (1 + beta). */
static void selective_keeps_shares(void)
{
    enum { SAMPLES = 100000 };
    static const double cases[][2] = {{0.25, 0.80}, {0.43, 0.70}, {1, 0.5}, {2, 0.333}, {3, 0.25}};
    float              *loss = uniform_losses(SAMPLES);

    for (int c = 0; c < 5; c++) {
        pdl_hide_options_t options = defaults(PDL_HIDE_SELECTIVE);
        pdl_hide_t        *hide;
        double             kept, low = 0, high = 0;

        options.beta = cases[c][0];
        hide = seen(&options, SAMPLES, loss);
        begin(hide, 1, 10, 64);
        kept = 1 - report_of(hide).fraction;
        CHECK_NEAR(kept, cases[c][1], 0.02);
        CHECK_NEAR(pdl_hide_rate(hide), 1 / kept, 1e-12);
        CHECK(pdl_hide_refreshes(hide));
        for (int i = 0; i < SAMPLES; i++) *(loss[i] < 0.5F ? &low : &high) += !is_hidden(hide, i);
        CHECK(high > 1.1 * low);
        pdl_hide_destroy(hide);
    }
    for (int i = 0; i < SAMPLES; i++) loss[i] = 0.25F;
    {
        pdl_hide_options_t options = defaults(PDL_HIDE_SELECTIVE);
        pdl_hide_t        *hide = seen(&options, SAMPLES, loss);

        begin(hide, 1, 10, 64);
        CHECK(pdl_hide_bits(hide) == NULL);
        pdl_hide_destroy(hide);
    }
    free(loss);
}

/* Large beta would hide nearly all: a batch stays, and what is no number is trained on. */
static void selective_leaves_a_batch(void)
{
    enum { SAMPLES = 1000 };
    pdl_hide_options_t options = defaults(PDL_HIDE_SELECTIVE);
    float             *loss = uniform_losses(SAMPLES);
    pdl_hide_t        *hide;

    options.beta = 500;
    loss[3] = NAN;
    loss[4] = INFINITY;
    hide = seen(&options, SAMPLES, loss);
    begin(hide, 1, 10, 200);
    CHECK_INT(report_of(hide).hidden, 800);
    CHECK_INT(report_of(hide).candidates, report_of(hide).hidden + report_of(hide).moved_back);
    CHECK(!is_hidden(hide, 3) && !is_hidden(hide, 4));
    pdl_hide_destroy(hide);
    free(loss);
}

/* Over many epochs the weight of every sample is 1 on average, hidden ones counting 0. */
static void unbiased_weighs_one(void)
{
    enum { SAMPLES = 400, EPOCHS = 800 };
    pdl_hide_options_t options = defaults(PDL_HIDE_UNBIASED);
    float             *loss = uniform_losses(SAMPLES);
    double             mean = 0, sum[SAMPLES] = {0}, all = 0;
    pdl_hide_t        *hide;

    loss[5] = NAN;
    for (int i = 0; i < SAMPLES; i++) mean += i == 5 ? 0 : loss[i] / (SAMPLES - 1);
    options.fraction = 0.5;
    options.until = 1;
    hide = seen(&options, SAMPLES, loss);
    CHECK(!pdl_hide_weighs(hide));
    for (int e = 1; e <= EPOCHS; e++) {
        begin(hide, e, EPOCHS + 1, 1);
        CHECK(pdl_hide_weighs(hide) && !pdl_hide_refreshes(hide));
        CHECK_NEAR(pdl_hide_rate(hide), 1, 0);
        for (int i = 0; i < SAMPLES; i++) {
            float weight = pdl_hide_weight(hide, i);

            if (loss[i] < mean) {
                CHECK(is_hidden(hide, i) ? weight == 1 : weight == 2);
            } else {
                CHECK(!is_hidden(hide, i) && weight == 1);
            }
            sum[i] += is_hidden(hide, i) ? 0 : weight;
        }
    }
    for (int i = 0; i < SAMPLES; i++) {
        all += sum[i] / EPOCHS / SAMPLES;
        CHECK_NEAR(sum[i] / EPOCHS, 1, 0.15); /* more than four deviations of 1 / sqrt(800) */
    }
    CHECK_NEAR(all, 1, 0.01);
    pdl_hide_destroy(hide);
    free(loss);
}

static void unbiased_ends_in_full_epochs(void)
{
    pdl_hide_options_t options = defaults(PDL_HIDE_UNBIASED);
    float             *loss = uniform_losses(100);
    pdl_hide_t        *hide = seen(&options, 100, loss);

    for (int e = 1; e < 16; e++) {
        begin(hide, e, 16, 1);
        CHECK_INT(pdl_hide_bits(hide) != NULL, e < 14);
        CHECK_INT(pdl_hide_weighs(hide), e < 14);
    }
    pdl_hide_destroy(hide);
    options.refresh_every = 1;
    hide = seen(&options, 100, loss);
    begin(hide, 1, 16, 1);
    CHECK(pdl_hide_refreshes(hide));
    pdl_hide_destroy(hide);
    free(loss);
}

/* Every worker hides the lowest of its own, whatever the order of its partition. */
static void workers_choose_among_their_own(void)
{
    enum { SAMPLES = 1000, WORKERS = 7 };
    float         *loss = uniform_losses(SAMPLES);
    int64_t        partition[WORKERS][SAMPLES], sizes[WORKERS] = {0};
    const int64_t *list[WORKERS];

    for (int64_t i = SAMPLES - 1; i >= 0; i--) partition[i % WORKERS][sizes[i % WORKERS]++] = i;
    for (int w = 0; w < WORKERS; w++) list[w] = partition[w];
    for (int method = PDL_HIDE_LOSS; method < PDL_HIDE_METHOD_COUNT; method++) {
        pdl_hide_options_t options = defaults((pdl_hide_method_t)method);
        pdl_hide_workers_t workers = {
            .batch = 70, .ranks = ranks, .count = WORKERS, .partition = list, .sizes = sizes, .reports = true};
        pdl_hide_t       *hide;
        pdl_hide_report_t report;
        int64_t           all = 0;

        if (method == PDL_HIDE_IMPORTANCE) continue;
        options.scope = PDL_HIDE_LOCAL;
        options.move_back = false;
        hide = seen(&options, SAMPLES, loss);
        CHECK_OK(pdl_hide_begin(hide, 1, 100, &workers));
        report = report_of(hide);
        for (int w = 0; w < WORKERS; w++) {
            int64_t count = 0;
            float   most = 0, least = INFINITY;

            for (int64_t k = 0; k < sizes[w]; k++) {
                float value = loss[partition[w][k]];

                count += is_hidden(hide, partition[w][k]);
                if (is_hidden(hide, partition[w][k]))
                    most = value > most ? value : most;
                else
                    least = value < least ? value : least;
            }
            if (method == PDL_HIDE_LOSS || method == PDL_HIDE_RANDOM)
                CHECK_INT(count, (int64_t)(0.3 * (double)sizes[w] + 1e-6));
            if (method == PDL_HIDE_LOSS) CHECK(most < least);
            CHECK(count > 0 && count <= sizes[w] - 10);
            all += count;
        }
        CHECK_INT(all, report.hidden);
        workers.batch = SAMPLES; /* a share of it is a worker's whole partition */
        CHECK_OK(pdl_hide_begin(hide, 2, 100, &workers));
        CHECK_INT(report_of(hide).hidden, 0);
        partition[2][1] = SAMPLES;
        CHECK_ERROR(pdl_hide_begin(hide, 3, 100, &workers), "worker 2 of this rank has sample 1000");
        partition[2][1] = 2 + WORKERS * (sizes[2] - 2);
        pdl_hide_destroy(hide);
    }
    free(loss);
}

/* The same seed gives the same choice, another another one. */
static void seeds_decide(void)
{
    enum { SAMPLES = 1000 };
    float *loss = uniform_losses(SAMPLES);

    for (int method = PDL_HIDE_RANDOM; method < PDL_HIDE_METHOD_COUNT; method++) {
        pdl_hide_options_t options = defaults((pdl_hide_method_t)method);
        pdl_hide_t        *hide[3];
        int64_t            differs[2] = {0}, count;

        for (int k = 0; k < 3; k++) {
            options.seed = k == 2 ? 2 : 1;
            hide[k] = seen(&options, SAMPLES, loss);
            begin(hide[k], 1, 10, 1);
        }
        for (int i = 0; i < SAMPLES; i++) {
            for (int k = 0; k < 2; k++) {
                if (method == PDL_HIDE_IMPORTANCE)
                    differs[k] += pdl_hide_drawn(hide[0], &count)[i] != pdl_hide_drawn(hide[k + 1], &count)[i];
                else
                    differs[k] += is_hidden(hide[0], i) != is_hidden(hide[k + 1], i);
            }
        }
        CHECK_INT(differs[0], 0);
        CHECK(differs[1] > SAMPLES / 10);
        for (int k = 0; k < 3; k++) pdl_hide_destroy(hide[k]);
    }
    free(loss);
}

int main(void)
{
    REQUIRE_OK(pdl_ranks_create(&ranks));
    RUN(random_hides_as_many);
    RUN(importance_draws_in_proportion);
    RUN(importance_draws_of_odd_losses);
    RUN(selective_keeps_shares);
    RUN(selective_leaves_a_batch);
    RUN(unbiased_weighs_one);
    RUN(unbiased_ends_in_full_epochs);
    RUN(workers_choose_among_their_own);
    RUN(seeds_decide);
    pdl_ranks_destroy(ranks);
    return test_done();
}
