/*
 * Hiding by loss: the worked example, every switch, epochs, refreshes and what goes wrong; against a slow and plain
 * reference on random states; and its state as bytes.
 */
#include <paradl/data/hide.h>

#include "hide_fixture.h"

static pdl_hide_t *made(const pdl_hide_options_t *options, int64_t samples)
{
    pdl_hide_t *hide = NULL;

    REQUIRE_OK(pdl_hide_create(options, samples, &hide));
    return hide;
}

static void note_all(pdl_hide_t *hide, int64_t count, const float *loss, const float *correct,
                     const float *confidence)
{
    int64_t *index = malloc((size_t)count * sizeof(*index));

    for (int64_t i = 0; i < count; i++) index[i] = i;
    pdl_hide_note(hide, 0, index, loss, correct, confidence, count);
    CHECK_OK(pdl_hide_combine(hide, ranks));
    free(index);
}

static int64_t hidden_count(const pdl_hide_t *hide, int64_t samples)
{
    int64_t count = 0;

    for (int64_t i = 0; i < samples; i++) count += is_hidden(hide, i);
    return count;
}

#define N 10
static const float example_loss[N] = {.90F, .05F, .30F, .02F, 1.2F, .04F, .80F, .03F, .50F, .60F};
static const float example_correct[N] = {0, 1, 1, 1, 0, 0, 1, 1, 1, 1};
static const float example_confidence[N] = {.4F, .95F, .6F, .99F, .3F, .8F, .5F, .65F, .7F, .7F};

/* After an epoch that saw the example, in epoch 1 of 10. */
static pdl_hide_t *example(const pdl_hide_options_t *options)
{
    pdl_hide_t *hide = made(options, N);

    begin(hide, 0, 10, 1);
    CHECK(pdl_hide_bits(hide) == NULL);
    CHECK_NEAR(pdl_hide_rate(hide), 1, 0);
    CHECK(!pdl_hide_refreshes(hide));
    note_all(hide, N, example_loss, example_correct, example_confidence);
    begin(hide, 1, 10, 1);
    return hide;
}

static void worked_example(void)
{
    pdl_hide_options_t options = defaults(PDL_HIDE_LOSS);
    pdl_hide_t        *hide;
    pdl_hide_report_t  report;

    options.fraction = 0.4;
    hide = example(&options);
    for (int i = 0; i < N; i++) CHECK_INT(is_hidden(hide, i), i == 1 || i == 3);
    report = report_of(hide);
    CHECK_INT(report.candidates, 4);
    CHECK_INT(report.moved_back, 2);
    CHECK_INT(report.hidden, 2);
    CHECK_NEAR(report.most, 0.4, 0);
    CHECK_NEAR(report.fraction, 0.2, 0);
    CHECK_NEAR(report.threshold_loss, .05F, 0);
    CHECK_NEAR(pdl_hide_rate(hide), 1.25, 1e-12);
    CHECK(pdl_hide_refreshes(hide) && !pdl_hide_weighs(hide));
    CHECK_NEAR(pdl_hide_weight(hide, 1), 1, 0);
    CHECK_NEAR(pdl_hide_loss(hide)[4], 1.2F, 0);
    pdl_hide_destroy(hide);
    options.rate_from_most = true;
    hide = example(&options);
    CHECK_NEAR(pdl_hide_rate(hide), 1 / 0.6, 1e-12);
    pdl_hide_destroy(hide);
    pdl_hide_destroy(NULL);
}

static void each_component_can_be_off(void)
{
    pdl_hide_options_t options = defaults(PDL_HIDE_LOSS);
    pdl_hide_t        *hide;

    options.fraction = 0.4;
    options.move_back = false;
    hide = example(&options);
    for (int i = 0; i < N; i++) CHECK_INT(is_hidden(hide, i), i == 1 || i == 3 || i == 5 || i == 7);
    CHECK_NEAR(pdl_hide_rate(hide), 1 / 0.6, 1e-12);
    pdl_hide_destroy(hide);
    options.rate = false;
    hide = example(&options);
    CHECK_NEAR(pdl_hide_rate(hide), 1, 0);
    pdl_hide_destroy(hide);
    options.lowest = false;
    hide = example(&options);
    CHECK(pdl_hide_bits(hide) == NULL);
    CHECK(!pdl_hide_refreshes(hide)); /* nothing to refresh */
    CHECK_NEAR(report_of(hide).threshold_loss, 0, 0);
    pdl_hide_destroy(hide);
    options = defaults(PDL_HIDE_NONE);
    hide = example(&options);
    CHECK(pdl_hide_bits(hide) == NULL);
    CHECK_NEAR(pdl_hide_rate(hide), 1, 0);
    CHECK_NEAR(pdl_hide_loss(hide)[4], 1.2F, 0);
    pdl_hide_destroy(hide);
}

static double most_in(const pdl_hide_options_t *options, int64_t epoch, int64_t epochs)
{
    pdl_hide_t *hide = made(options, 1000);
    double      most;

    begin(hide, epoch, epochs, 1);
    most = report_of(hide).most;
    pdl_hide_destroy(hide);
    return most;
}

/* The published schedules: mean F_e of section 4 of the description. */
static void fraction_falls_at_milestones(void)
{
    static const struct {
        int64_t epochs, milestone[3];
        double  mean;
    } published[] = {{90, {30, 60, 80}, 0.2333},
                     {200, {60, 120, 160}, 0.2220},
                     {600, {200, 400, 600}, 0.24},
                     {80, {30, 60, 80}, 0.2475}};
    pdl_hide_options_t options = defaults(PDL_HIDE_LOSS);

    CHECK_NEAR(most_in(&options, 2, 10), 0.3, 1e-12);
    CHECK_NEAR(most_in(&options, 3, 10), 0.24, 1e-12);
    CHECK_NEAR(most_in(&options, 6, 10), 0.18, 1e-12);
    CHECK_NEAR(most_in(&options, 8, 10), 0.12, 1e-12);
    CHECK_NEAR(most_in(&options, 1, 5), 0.3, 1e-12); /* 1.5 becomes 2 */
    CHECK_NEAR(most_in(&options, 2, 5), 0.24, 1e-12);
    for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
        double sum = 0;

        options.milestone_count = 3;
        memcpy(options.milestone, published[i].milestone, sizeof(published[i].milestone));
        for (int64_t e = 0; e < published[i].epochs; e++) sum += most_in(&options, e, published[i].epochs);
        CHECK_NEAR(sum / (double)published[i].epochs, published[i].mean, 5e-4);
    }
    options.reduce = false;
    CHECK_NEAR(most_in(&options, 79, 80), 0.3, 0);
}

/* 0.3 * 0.8 * 100 is a little less than 24 in binary. */
static void whole_shares_are_whole(void)
{
    pdl_hide_options_t options = defaults(PDL_HIDE_LOSS);
    pdl_hide_t        *hide;

    options.move_back = false;
    hide = made(&options, 100);
    begin(hide, 4, 10, 1);
    CHECK_INT(report_of(hide).hidden, 24);
    pdl_hide_destroy(hide);
}

/* Saturated losses: no more than there is room for, lower indices first. */
static void ties_do_not_hide_more(void)
{
    enum { MANY = 1000 };
    pdl_hide_options_t options = defaults(PDL_HIDE_LOSS);
    pdl_hide_t        *hide = made(&options, MANY);
    float              zero[MANY] = {0}, one[MANY];

    for (int i = 0; i < MANY; i++) one[i] = 1;
    begin(hide, 0, 100, 10);
    note_all(hide, MANY, zero, one, one);
    begin(hide, 1, 100, 10);
    for (int i = 0; i < MANY; i++) CHECK_INT(is_hidden(hide, i), i < 300);
    pdl_hide_destroy(hide);
}

static void not_a_number_is_never_hidden(void)
{
    pdl_hide_options_t options = defaults(PDL_HIDE_LOSS);
    float              loss[N] = {NAN, 1, NAN, NAN, NAN, 2, NAN, -NAN, NAN, NAN}, one[N];
    pdl_hide_t        *hide;

    options.fraction = 0.9;
    options.trim = 0.1;
    options.move_back = false;
    hide = made(&options, N);
    for (int i = 0; i < N; i++) one[i] = 1;
    begin(hide, 0, 10, 1);
    note_all(hide, N, loss, one, one);
    begin(hide, 1, 10, 1);
    for (int i = 0; i < N; i++) CHECK_INT(is_hidden(hide, i), i == 1 || i == 5);
    CHECK_NEAR(report_of(hide).threshold_loss, 2, 0);
    pdl_hide_destroy(hide);
}

/* A confidence that is no number moves back, one above 1 counts as 1; half of the positions right is right; and 0.7 as a
   float, which is below 0.7, reaches a threshold of 0.7. */
static void odd_results_are_taken(void)
{
    pdl_hide_options_t options = defaults(PDL_HIDE_LOSS);
    const float loss[4] = {1, 1, 1, 1}, correct[4] = {0.5F, 0.49F, 1, 1}, confidence[4] = {0.7F, 1, NAN, 1.001F};
    pdl_hide_t *hide;

    options.fraction = 1;
    hide = made(&options, 5);
    begin(hide, 0, 100, 1);
    note_all(hide, 4, loss, correct, confidence);
    begin(hide, 1, 100, 1);
    for (int i = 0; i < 5; i++) CHECK_INT(is_hidden(hide, i), i == 0 || i == 3);
    pdl_hide_destroy(hide);
}

static void one_batch_always_stays(void)
{
    pdl_hide_options_t options = defaults(PDL_HIDE_LOSS);
    pdl_hide_t        *hide;

    options.fraction = 0.9;
    options.move_back = false;
    hide = made(&options, 100);
    begin(hide, 1, 100, 64);
    CHECK_INT(report_of(hide).hidden, 36);
    CHECK_NEAR(report_of(hide).most, 0.36, 1e-12);
    begin(hide, 1, 100, 100);
    CHECK_INT(report_of(hide).hidden, 0);
    CHECK(!pdl_hide_refreshes(hide));
    CHECK_ERROR(pdl_hide_begin(hide, 2, 100, &(pdl_hide_workers_t){.batch = 101, .ranks = ranks}),
                "100 samples are less than one batch of 101");
    CHECK_ERROR(pdl_hide_begin(hide, 3, 3, &(pdl_hide_workers_t){.batch = 1, .ranks = ranks}), "no such epoch");
    pdl_hide_destroy(hide);
}

static void trims_the_highest(void)
{
    pdl_hide_options_t options = defaults(PDL_HIDE_LOSS);
    pdl_hide_t        *hide;

    options.fraction = 0.4;
    options.trim = 0.2;
    hide = example(&options);
    for (int i = 0; i < N; i++) CHECK_INT(is_hidden(hide, i), i == 1 || i == 3 || i == 4 || i == 0);
    CHECK_INT(report_of(hide).candidates, 6);
    CHECK_NEAR(report_of(hide).most, 0.6, 1e-12);
    CHECK_NEAR(report_of(hide).threshold_loss, .05F, 0);
    pdl_hide_destroy(hide);
}

/* A sample that fills up batches comes twice; its state is what the first said, not the sum. */
static void the_lower_position_counts(void)
{
    pdl_hide_options_t options = defaults(PDL_HIDE_LOSS);
    pdl_hide_t        *hide = made(&options, N);
    const int64_t      index[] = {3, -1, 4, 3, N}, again[] = {4, 3, 5};
    const float        loss[] = {1, 2, 3, 4, 5}, lower[] = {6, 7, 8}, one[] = {1, 1, 1, 1, 1};

    begin(hide, 0, 10, 1);
    pdl_hide_note(hide, 100, index, loss, one, one, 5);
    CHECK_NEAR(pdl_hide_loss(hide)[3], 1, 0);
    pdl_hide_note(hide, 101, again, lower, one, one, 3); /* 4 at 101 instead of 102; 3 at 102 instead of 100 */
    CHECK_NEAR(pdl_hide_loss(hide)[3], 1, 0);
    CHECK_NEAR(pdl_hide_loss(hide)[4], 6, 0);
    CHECK_NEAR(pdl_hide_loss(hide)[5], 8, 0);
    CHECK_OK(pdl_hide_combine(hide, ranks));
    pdl_hide_note(hide, 200, again, loss, one, one, 3); /* in the same epoch: too late */
    CHECK_NEAR(pdl_hide_loss(hide)[5], 8, 0);
    begin(hide, 1, 10, 1);
    pdl_hide_note(hide, 200, again, loss, one, one, 3);
    CHECK_NEAR(pdl_hide_loss(hide)[4], 1, 0);
    pdl_hide_destroy(hide);
}

/* Every third epoch refreshes. A sample that was hidden for three epochs and not seen comes back; those seen do not. */
static void returns_when_not_refreshed(void)
{
    pdl_hide_options_t options = defaults(PDL_HIDE_LOSS);
    float              loss[N] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, one[N];
    const int64_t      refreshed[] = {0};
    pdl_hide_t        *hide;

    options.refresh_every = 3;
    options.reduce = false;
    hide = made(&options, N);
    for (int i = 0; i < N; i++) one[i] = 1;
    begin(hide, 0, 10, 1);
    note_all(hide, N, loss, one, one);
    for (int epoch = 1; epoch <= 5; epoch++) {
        begin(hide, epoch, 10, 1);
        CHECK_INT(pdl_hide_refreshes(hide), epoch == 2 || epoch == 5);
        CHECK_INT(report_of(hide).candidates, 3);
        for (int i = 0; i < 3; i++) CHECK_INT(is_hidden(hide, i), epoch != 4 || i == 0);
        if (epoch == 2) pdl_hide_note(hide, 0, refreshed, loss, one, one, 1);
    }
    pdl_hide_destroy(hide);
    options.refresh_every = 0;
    hide = made(&options, N);
    begin(hide, 0, 10, 1);
    note_all(hide, N, loss, one, one);
    for (int epoch = 1; epoch <= 4; epoch++) {
        begin(hide, epoch, 10, 1);
        CHECK(!pdl_hide_refreshes(hide));
        CHECK_INT(report_of(hide).hidden, epoch % 2 ? 3 : 0);
    }
    pdl_hide_destroy(hide);
}

static void wrong_options_are_named(void)
{
    static const struct {
        pdl_hide_options_t options;
        const char        *part;
    } cases[] = {
        {{.fraction = -0.1}, "--hide -0.1: expected 0 .. 1"},
        {{.fraction = 1.1}, "--hide 1.1"},
        {{.fraction = NAN}, "--hide nan"},
        {{.threshold = 2}, "--hide-threshold 2: expected 0 .. 1"},
        {{.trim = 2}, "--hide-trim 2"},
        {{.until = -1}, "--hide-until -1"},
        {{.fraction = 0.7, .trim = 0.7}, "no more than 1 together"},
        {{.fraction = 1, .method = PDL_HIDE_UNBIASED}, "expected less than 1"},
        {{.beta = -1}, "--hide-beta -1"},
        {{.refresh_every = 101}, "--refresh-every 101: expected 0 .. 100"},
        {{.method = PDL_HIDE_IMPORTANCE, .scope = PDL_HIDE_LOCAL}, "--hide-scope"},
        {{.method = PDL_HIDE_METHOD_COUNT}, "--hide-method 6"},
        {{.scope = PDL_HIDE_SCOPE_COUNT}, "--hide-scope 2"},
        {{.milestone_count = 9}, "--hide-milestones has 9"},
        {{.milestone_count = 2, .milestone = {5, 5}}, "epoch 5 after 5"},
        {{.factor = {1, 2}}, "--hide-factors: 2: expected 0 .. 1"},
    };
    pdl_hide_t *hide = NULL;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CHECK_ERROR(pdl_hide_create(&cases[i].options, 10, &hide), cases[i].part);
    CHECK_ERROR(pdl_hide_create(&(pdl_hide_options_t){0}, 0, &hide), "expected 1 ..");
    CHECK(hide == NULL);
}

static const float *sorted_by;

static int by_loss(const void *a, const void *b)
{
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    float   x = isnan(sorted_by[i]) ? INFINITY : sorted_by[i], y = isnan(sorted_by[j]) ? INFINITY : sorted_by[j];

    if (x != y) return x < y ? -1 : 1;
    return (i > j) - (i < j);
}

/* What is to be hidden, as the description says it: sort, take, move back. No infinite losses, no trim. */
static void reference(const pdl_hide_options_t *options, int64_t count, const float *loss, const float *correct,
                      const float *confidence, int64_t batch, bool *hidden)
{
    int32_t *order = malloc((size_t)count * sizeof(*order));
    int64_t  most = (int64_t)(options->fraction * (double)count + 1e-6);

    if (most > count - batch) most = count - batch;
    for (int64_t i = 0; i < count; i++) {
        order[i] = (int32_t)i;
        hidden[i] = false;
    }
    sorted_by = loss;
    qsort(order, (size_t)count, sizeof(*order), by_loss);
    for (int64_t k = 0; k < most; k++) {
        int32_t i = order[k];

        hidden[i] = !isnan(loss[i]) &&
                    (!options->move_back || (correct[i] >= 0.5F && confidence[i] >= (float)options->threshold));
    }
    free(order);
}

static void random_states_as_the_reference(void)
{
    enum { MOST = 500 };
    float loss[MOST], correct[MOST], confidence[MOST];
    bool  expected[MOST];

    for (int turn = 0; turn < 300; turn++) {
        pdl_hide_options_t options = defaults(PDL_HIDE_LOSS);
        int64_t            count = between(1, MOST), batch = between(1, count), wrong = 0, all = 0;
        pdl_hide_t        *hide;

        options.fraction = (double)between(0, 100) / 100;
        options.move_back = turn % 3 != 0;
        options.reduce = false;
        hide = made(&options, count);
        for (int64_t i = 0; i < count; i++) {
            loss[i] = make_loss(turn % MIXED, i, count);
            correct[i] = (float)between(0, 4) / 4;
            confidence[i] = (float)between(50, 100) / 100;
        }
        begin(hide, 0, 9, batch);
        note_all(hide, count, loss, correct, confidence);
        begin(hide, 1, 9, batch);
        reference(&options, count, loss, correct, confidence, batch, expected);
        for (int64_t i = 0; i < count; i++) {
            wrong += is_hidden(hide, i) != expected[i];
            all += expected[i];
        }
        CHECK_INT(wrong, 0);
        CHECK_INT(report_of(hide).hidden, all);
        CHECK(report_of(hide).fraction <= report_of(hide).most + 1e-9);
        CHECK_INT(hidden_count(hide, count), all);
        CHECK(count - all >= batch);
        pdl_hide_destroy(hide);
    }
}

/* Some of a random epoch: what is noted depends on the epoch and the sample only. */
static void train_some(pdl_hide_t *hide, int64_t samples, int64_t epoch, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        int64_t index = i * 7 % samples;
        float   loss = (float)((index * 31 + epoch * 17) % 101), correct = (index + epoch) % 5 != 0,
              confidence = 0.5F + (float)((index + epoch) % 10) / 20;

        if (!is_hidden(hide, index) || pdl_hide_refreshes(hide))
            pdl_hide_note(hide, i, &index, &loss, &correct, &confidence, 1);
    }
    CHECK_OK(pdl_hide_combine(hide, ranks));
}

static void *saved(const pdl_hide_t *hide)
{
    void *bytes = malloc((size_t)pdl_hide_state_bytes(hide));

    pdl_hide_save(hide, bytes);
    return bytes;
}

static bool same_choice(const pdl_hide_t *a, const pdl_hide_t *b, int64_t samples)
{
    int64_t        n, m;
    const int64_t *drawn = pdl_hide_drawn(a, &n), *other = pdl_hide_drawn(b, &m);
    bool same = n == m && pdl_hide_rate(a) == pdl_hide_rate(b) && pdl_hide_weighs(a) == pdl_hide_weighs(b);

    for (int64_t i = 0; i < samples; i++) {
        same &= is_hidden(a, i) == is_hidden(b, i) && pdl_hide_weight(a, i) == pdl_hide_weight(b, i);
        same &= drawn == NULL || drawn[i] == other[i];
    }
    return same && pdl_hide_refreshes(a) == pdl_hide_refreshes(b) && report_of(a).most == report_of(b).most &&
           report_of(a).moved_back == report_of(b).moved_back;
}

/* Restarted in the middle of epoch 3 and between epochs 3 and 4, and then the same as one that was not. */
static void resumes_bit_by_bit(void)
{
    enum { SAMPLES = 333 };

    for (int method = 0; method < PDL_HIDE_METHOD_COUNT; method++) {
        pdl_hide_options_t options = defaults((pdl_hide_method_t)method);
        pdl_hide_t        *hide = made(&options, SAMPLES), *other = made(&options, SAMPLES);
        int64_t            bytes = pdl_hide_state_bytes(hide);
        void              *state, *theirs;

        for (int epoch = 0; epoch < 3; epoch++) {
            begin(hide, epoch, 6, 10);
            train_some(hide, SAMPLES, epoch, 0, SAMPLES);
        }
        begin(hide, 3, 6, 10);
        train_some(hide, SAMPLES, 3, 0, 100);
        state = saved(hide);
        CHECK_OK(pdl_hide_restore(other, state, bytes, true));
        CHECK_ERROR(pdl_hide_begin(other, 4, 6, &(pdl_hide_workers_t){.batch = 10, .ranks = ranks}), "epoch 3");
        begin(other, 3, 6, 10);
        CHECK(same_choice(hide, other, SAMPLES));
        for (int k = 0; k < 2; k++) train_some(k ? other : hide, SAMPLES, 3, 90, SAMPLES);
        free(state);
        state = saved(hide);
        theirs = saved(other);
        CHECK(memcmp(state, theirs, (size_t)bytes) == 0);
        pdl_hide_destroy(other);
        other = made(&options, SAMPLES);
        CHECK_OK(pdl_hide_restore(other, state, bytes, false));
        begin(other, 4, 6, 10);
        begin(hide, 4, 6, 10);
        CHECK(same_choice(hide, other, SAMPLES));
        CHECK(method == PDL_HIDE_NONE || method == PDL_HIDE_IMPORTANCE || report_of(hide).hidden > 0);
        free(state);
        free(theirs);
        pdl_hide_destroy(hide);
        pdl_hide_destroy(other);
    }
}

static void damaged_states_are_refused(void)
{
    pdl_hide_options_t options = defaults(PDL_HIDE_LOSS);
    pdl_hide_t        *hide = example(&options), *other = made(&options, N + 1);
    int64_t            bytes = pdl_hide_state_bytes(hide);
    char              *state = saved(hide);

    CHECK_ERROR(pdl_hide_restore(hide, state, bytes - 1, true), "its size");
    CHECK_ERROR(pdl_hide_restore(hide, state, 3, true), "too short");
    CHECK_ERROR(pdl_hide_restore(other, state, bytes, true), "of 10 samples, and there are 11");
    pdl_hide_destroy(other);
    options.method = PDL_HIDE_RANDOM;
    other = made(&options, N);
    CHECK_ERROR(pdl_hide_restore(other, state, bytes, true), "--hide-method loss");
    state[0] ^= 1;
    CHECK_ERROR(pdl_hide_restore(hide, state, bytes, true), "does not begin");
    state[0] ^= 1;
    state[bytes - 9] = 1; /* the upper end of the hidden bits */
    CHECK_ERROR(pdl_hide_restore(hide, state, bytes, true), "samples there are not");
    state[bytes - 9] = 0;
    state[bytes - 16] ^= 1; /* one bit more or less */
    CHECK_ERROR(pdl_hide_restore(hide, state, bytes, true), "number of hidden");
    pdl_hide_destroy(hide);
    pdl_hide_destroy(other);
    hide = made(&(pdl_hide_options_t){.method = PDL_HIDE_LOSS}, N);
    pdl_hide_save(hide, state);
    CHECK_ERROR(pdl_hide_restore(hide, state, bytes, true), "no epoch was at hand");
    CHECK_OK(pdl_hide_restore(hide, state, bytes, false));
    pdl_hide_destroy(hide);
    free(state);
}

int main(void)
{
    REQUIRE_OK(pdl_ranks_create(&ranks));
    RUN(worked_example);
    RUN(each_component_can_be_off);
    RUN(fraction_falls_at_milestones);
    RUN(whole_shares_are_whole);
    RUN(ties_do_not_hide_more);
    RUN(not_a_number_is_never_hidden);
    RUN(odd_results_are_taken);
    RUN(one_batch_always_stays);
    RUN(trims_the_highest);
    RUN(the_lower_position_counts);
    RUN(returns_when_not_refreshed);
    RUN(wrong_options_are_named);
    RUN(random_states_as_the_reference);
    RUN(resumes_bit_by_bit);
    RUN(damaged_states_are_refused);
    pdl_ranks_destroy(ranks);
    return test_done();
}
