/*
 * Training in rounds: what must equal ordinary training does, models change places as they should, clusters have
 * equal weight, and the extra losses have the gradients they should.
 */
#include "test.h"
#include "train/rounds/agreement.h"
#include "train/rounds/clusters.h"
#include "train/rounds/source.h"
#include "train/rounds/worker_groups.h"
#include "train/rounds_fixture.h"
#include <paradl/base/random.h>

static pdl_ranks_t *ranks;

static const int64_t samples4[] = {24, 24, 24, 24};
static const int32_t all4[] = {15, 15, 15, 15};

static pdl_session_spec_t session_with(double momentum)
{
    pdl_session_spec_t spec;

    pdl_session_defaults(&spec);
    spec.optimizer.lr = 0.05;
    spec.optimizer.momentum = momentum;
    return spec;
}

static pdl_aggregate_options_t options_of(const char *text)
{
    pdl_aggregate_options_t options;

    pdl_aggregate_defaults(&options);
    CHECK_OK(pdl_aggregate_parse(text, &options));
    return options;
}

static void run_rounds(fixture_t *f, int rounds, pdl__round_result_t *result)
{
    for (int i = 0; i < rounds; i++) CHECK_OK(run_round(f, result));
}

static void reads_options(void)
{
    pdl_aggregate_options_t o;

    pdl_aggregate_defaults(&o);
    CHECK_OK(pdl_aggregate_parse("local:8", &o));
    CHECK(o.kind == PDL_AGGREGATE_LOCAL && o.steps == 8);
    CHECK_OK(pdl_aggregate_parse("local", &o));
    CHECK_INT(o.steps, 0);
    CHECK_OK(pdl_aggregate_parse("cadis", &o));
    CHECK_INT(o.kind, PDL_AGGREGATE_CADIS);
    CHECK_ERROR(pdl_aggregate_parse("sem:3", &o), "only local takes a number");
    CHECK_ERROR(pdl_aggregate_parse("local:0", &o), "only local takes a number");
    CHECK_ERROR(pdl_aggregate_parse("locale", &o), "is unknown");
    CHECK_OK(pdl_aggregate_check(&o));
    o.hops = 1;
    CHECK_ERROR(pdl_aggregate_check(&o), "--hops");
    CHECK_OK(pdl_aggregate_parse_threshold("-0.25", &o));
    CHECK(o.fixed_threshold && o.threshold == -0.25);
    CHECK_ERROR(pdl_aggregate_parse_threshold("high", &o), "auto, or a number");
    CHECK_ERROR(pdl_aggregate_parse_threshold("", &o), "auto, or a number");
    CHECK_OK(pdl_aggregate_parse_threshold("2", &o));
    o.hops = 2;
    CHECK_ERROR(pdl_aggregate_check(&o), "--cluster-threshold 2 is out of range");
    CHECK_OK(pdl_aggregate_parse_threshold("auto", &o));
    CHECK_OK(pdl_aggregate_check(&o));
    o.temperature = 0;
    CHECK_ERROR(pdl_aggregate_check(&o), "--temperature");
}

/* Rounds of a single worker change nothing: the numbers of plain training, bit for bit. */
static void one_worker_is_plain_training(void)
{
    const int64_t           samples[] = {24};
    const int32_t           classes[] = {15};
    pdl_session_spec_t      session = session_with(0.9);
    pdl_aggregate_options_t options = options_of("local");
    fixture_t               f = {.ranks = ranks, .batch = 8, .workers = 1, .samples = samples, .classes = classes};
    fixture_t               plain = f;
    pdl__round_result_t     round;
    pdl_step_result_t       step;
    pdl_batch_t             batch;

    options.keep_moments = true;
    options.epochs[1] = 0;
    CHECK_OK(open_rounds(&f, norm_network, &session, &options, false));
    CHECK_OK(open_session(&plain, norm_network, &session, 8, false));
    plain.cycle = f.cycle;
    run_rounds(&f, 2, &round);
    for (int i = 0; i < 6; i++) {
        CHECK_OK(next_points(&plain, 0, &batch));
        CHECK_OK(pdl_session_step(plain.session, &batch, &step));
    }
    CHECK_INT(round.updates, 3);
    CHECK_INT(pdl_session_updates(f.session), 6);
    CHECK(weights_apart(f.session, plain.session) == 0);
    close_fixture(&f);
    close_fixture(&plain);
}

/* A mean after every update is data parallelism: with momentum too when it is averaged with the weights. */
static void one_local_step_is_data_parallel(void)
{
    for (int momentum = 0; momentum < 2; momentum++) {
        pdl_session_spec_t      session = session_with(momentum ? 0.9 : 0);
        pdl_aggregate_options_t options = options_of("local:1");
        fixture_t           f = {.ranks = ranks, .batch = 4, .workers = 4, .samples = samples4, .classes = all4};
        fixture_t           plain = f;
        pdl__round_result_t round;
        options.keep_moments = momentum;
        CHECK_OK(open_rounds(&f, rounds_network, &session, &options, true));
        CHECK_OK(open_session(&plain, rounds_network, &session, 16, true));
        CHECK_INT(f.cycle.rounds, 6);
        run_rounds(&f, 6, &round);
        for (int i = 0; i < 6; i++) {
            float             values[16 * ELEMENTS], weight[16];
            int32_t           labels[16];
            pdl_step_result_t step;
            pdl_batch_t       batch = {.values = values, .labels = labels, .weight = weight};
            for (int w = 0; w < 4; w++) fill(&plain, w, i * 4, values + w * 4 * ELEMENTS, labels + w * 4);
            for (int k = 0; k < 16; k++) weight[k] = 1;
            CHECK_OK(pdl_session_step(plain.session, &batch, &step));
            if (i == 5) CHECK_NEAR(round.loss, step.loss, 1e-6);
        }
        CHECK(weights_apart(f.session, plain.session) < 1e-6);
        close_fixture(&f);
        close_fixture(&plain);
    }
}

static void groups_of_two_are_pairs(void)
{
    for (int64_t workers = 1; workers <= 9; workers++)
        for (int64_t hops = 2; hops <= 4; hops++) {
            pdl__worker_groups_t groups;
            int64_t              alone = 0, changed = 0, first[9];
            CHECK_OK(pdl__worker_groups_init(&groups, workers, hops));
            for (int round = 0; round < 20; round++) {
                bool seen[9] = {false};
                pdl__worker_groups_draw(&groups, 3, round);
                alone = 0;
                for (int64_t w = 0; w < workers; w++) {
                    int64_t next = pdl__worker_groups_after(&groups, w, 1);
                    CHECK(next >= 0 && next < workers && !seen[next]); /* a bijection */
                    seen[next] = true;
                    CHECK_INT(pdl__worker_groups_after(&groups, next, -1), w);
                    if (hops == 2) CHECK_INT(pdl__worker_groups_after(&groups, next, 1), w); /* an involution */
                    alone += next == w;
                    if (round > 0) changed += next != first[w];
                    if (round == 0) first[w] = next;
                }
                CHECK_INT(alone, workers % hops == 1);
            }
            if (workers > 2 * hops) CHECK(changed > 0);
            pdl__worker_groups_fini(&groups);
        }
}

/* Of two workers with one class each, a model of SEM has seen both; with a worker alone the round still runs. */
static void models_visit_two_workers(void)
{
    const int64_t           samples[] = {16, 8, 24};
    const int32_t           classes[] = {15, 15, 15};
    pdl_session_spec_t      session = session_with(0.9);
    pdl_aggregate_options_t options = options_of("sem");
    fixture_t               f = {.ranks = ranks, .batch = 8, .workers = 3, .samples = samples, .classes = classes};
    pdl__round_result_t     round;
    pdl__worker_groups_t    groups;

    CHECK_OK(open_rounds(&f, norm_network, &session, &options, false));
    CHECK_INT(f.cycle.epochs, 2);
    CHECK_INT(f.cycle.steps, 3);
    CHECK_OK(pdl__worker_groups_init(&groups, 3, 2));
    for (int i = 0; i < 4; i++) {
        double seen[3], all = 0;
        pdl__worker_groups_draw(&groups, options.seed, i);
        CHECK_OK(run_round(&f, &round));
        for (int w = 0; w < 3; w++)
            all += seen[w] = (double)(samples[w] + samples[pdl__worker_groups_after(&groups, w, 1)]);
        for (int w = 0; w < 3; w++) CHECK_NEAR(round.mean.share[w], seen[w] / all, 1e-12);
    }
    CHECK_ERROR(pdl__rounds_run(f.rounds, &round), "no more than 1 rounds");
    CHECK_INT(pdl_session_updates(f.session), 4 * 6);
    CHECK_INT(f.asked, 4 * 3 * 6);
    pdl__worker_groups_fini(&groups);
    close_fixture(&f);
}

/* Nine workers that are alike and one that is not: by samples the nine have 0.9 of the mean, by clusters half. */
static void clusters_have_equal_weight(void)
{
    int64_t             samples[10];
    int32_t             classes[10];
    pdl_session_spec_t  session = session_with(0);
    pdl__round_result_t round;
    const char *const   kinds[] = {"local", "cadis"};

    for (int w = 0; w < 10; w++) {
        samples[w] = 32;
        classes[w] = w < 9 ? 3 : 12;
    }
    for (int k = 0; k < 2; k++) {
        pdl_aggregate_options_t options = options_of(kinds[k]);
        fixture_t f = {.ranks = ranks, .batch = 8, .workers = 10, .samples = samples, .classes = classes};
        double    most = 0, one, all = 0;
        CHECK_OK(open_rounds(&f, rounds_network, &session, &options, true));
        run_rounds(&f, 3, &round);
        const double *share = round.mean.share;
        for (int w = 0; w < 9; w++) most += share[w];
        one = share[9];
        all = most + one;
        CHECK_NEAR(all, 1, 1e-12);
        CHECK_NEAR(most, k ? 0.5 : 0.9, 1e-12);
        CHECK_INT(round.mean.clusters, k ? 2 : 0);
        close_fixture(&f);
    }
}

static void components_are_found(void)
{
    double  similarity[25] = {0};
    int64_t cluster[5];
    double  share[5], samples[] = {1, 2, 3, 4, 5};

    similarity[0 * 5 + 3] = similarity[3 * 5 + 0] = 0.9;
    similarity[3 * 5 + 1] = similarity[1 * 5 + 3] = 0.6; /* 0 and 1 are alike through 3 */
    similarity[2 * 5 + 4] = similarity[4 * 5 + 2] = 0.5; /* not above */
    CHECK_INT(pdl__find_clusters(5, similarity, 0.5, cluster), 3);
    CHECK(cluster[0] == 0 && cluster[1] == 0 && cluster[3] == 0 && cluster[2] == 1 && cluster[4] == 2);
    pdl__cluster_shares(5, 3, cluster, samples, share);
    CHECK_NEAR(share[3], 4.0 / 7 / 3, 1e-12);
    CHECK_NEAR(share[4], 1.0 / 3, 1e-12);
    /* The widest gap among the joints 0.9, 0.6, 0.5, 0 and the ends 0 and 1 is the last; without the chain through 3
       the one between 0.9 and 0.2. */
    double work[10];
    CHECK_NEAR(pdl__widest_gap(5, similarity, work), 0.25, 1e-12);
    similarity[3 * 5 + 1] = similarity[1 * 5 + 3] = similarity[2 * 5 + 4] = similarity[4 * 5 + 2] = 0.2;
    CHECK_NEAR(pdl__widest_gap(5, similarity, work), 0.55, 1e-12);
    CHECK_NEAR(pdl__widest_gap(1, similarity, work), 0.5, 1e-12);
}

/* The likeness of two workers after one round. */
static double likeness(int64_t classes, int64_t features, const float *a, const float *a_bias, const float *b,
                       const float *b_bias)
{
    pdl__update_t  x = {a, a_bias}, y = {b, b_bias};
    pdl__overlap_t of_x = {0}, of_y = {0};

    pdl__add_overlap(classes, features, &x, &y, &of_x, &of_y);
    return pdl__likeness(&of_x, &of_y);
}

static void rows_nobody_has_do_not_count(void)
{
    const float a[] = {1, 0, 0, 2, 5, 5}, b[] = {-2, 0, 0, 1, 5, 5}, none[6] = {0};
    const float first[] = {1, -1, -1}, second[] = {-1, 1, -1}, third[] = {-1, -1, 1}, no[] = {-1, -1, -1};

    CHECK_NEAR(likeness(3, 2, a, first, b, second), 0, 1e-12); /* -2 and 2 */
    CHECK_NEAR(likeness(3, 2, a, first, b, first), -1, 1e-12);
    CHECK_NEAR(likeness(3, 2, a, third, b, third), 1, 1e-12);
    CHECK_NEAR(likeness(3, 2, a, NULL, b, NULL), 50 / sqrt(55.0 * 55), 1e-12);
    CHECK_NEAR(likeness(3, 2, a, first, a, second), 1, 1e-12);
    CHECK_NEAR(likeness(3, 2, none, first, none, second), 1, 0);
    CHECK_NEAR(likeness(3, 2, a, first, none, first), 0, 0);
    CHECK_NEAR(likeness(3, 2, a, no, b, no), 1, 0); /* nothing to tell them apart by */
}

/* Workers with disjoint classes are apart and those with the same ones together, however many classes there are that
   neither has, and also where the common model takes everything for a class that neither has. */
static void clusters_are_those_of_the_classes(void)
{
    enum { WORKERS = 6, FEATURES = 5, MOST = 100 };
    static float  weight[WORKERS][MOST * FEATURES], bias[WORKERS][MOST];
    const int64_t sizes[] = {8, 10, 100};

    for (int trial = 0; trial < 6; trial++) {
        int64_t classes = sizes[trial / 2], each = 2, cluster[WORKERS];
        double  similarity[WORKERS * WORKERS] = {0}, work[2 * WORKERS];
        for (int w = 0; w < WORKERS; w++)
            for (int64_t c = 0; c < classes; c++) {
                bool   has = c / each == w % 3;
                double said = trial % 2 ? c == classes - 1 : 1.0 / (double)classes;
                bias[w][c] = (float)((has ? 1.0 / (double)each : 0) - said);
                for (int f = 0; f < FEATURES; f++)
                    weight[w][c * FEATURES + f] =
                        bias[w][c] *
                        (float)(1 + 0.2 * pdl_random_normal(3, (uint64_t)w, (uint64_t)(c * FEATURES + f)));
            }
        for (int u = 0; u < WORKERS; u++)
            for (int v = 0; v < WORKERS; v++)
                similarity[u * WORKERS + v] = likeness(classes, FEATURES, weight[u], bias[u], weight[v], bias[v]);
        double threshold = pdl__widest_gap(WORKERS, similarity, work);
        CHECK_INT(pdl__find_clusters(WORKERS, similarity, threshold, cluster), 3);
        for (int w = 0; w < WORKERS; w++) CHECK_INT(cluster[w], w % 3);
    }
}

/* A teacher that is worse on a sample than the student does not hold it back; one that is better pulls it up. */
static void only_better_teachers_are_trusted(void)
{
    const float good[] = {2, 0, 0, -1}, poor[] = {0, 1, 3, 0};
    double      work[8], all[2] = {0};
    float       gradient[4] = {0};

    for (int c = 0; c < 4; c++) {
        all[0] += exp((double)good[c]);
        all[1] += exp((double)poor[c]);
    }
    double p = exp(2) / all[0], q = 1 / all[1];
    CHECK_NEAR(pdl__trust(4, good, poor, 0, work), 1 - q / p, 1e-12);
    CHECK_NEAR(pdl__trust(4, poor, good, 0, work), 0, 0);
    CHECK_NEAR(pdl__trust(4, good, good, 0, work), 0, 0);
    pdl__distill(4, good, poor, 1, pdl__trust(4, good, poor, 0, work), work, gradient);
    CHECK(gradient[0] < 0);
}

/* Central differences of the divergences by every logit. */
static void divergences_have_their_gradients(void)
{
    float        z[3][5], gradient[3][5] = {{0}}, unused[3][5];
    double       work[20];
    const float *logits[] = {z[0], z[1], z[2]};
    float       *to[] = {gradient[0], gradient[1], gradient[2]}, *nowhere[] = {unused[0], unused[1], unused[2]};
    const double h = 1.0 / 256;

    for (int i = 0; i < 15; i++) z[i / 5][i % 5] = (float)(2 * pdl_random_normal(3, 1, (uint64_t)i));
    CHECK(pdl__agree(3, 5, logits, 2, work, to) > 0);
    for (int i = 0; i < 15; i++) {
        float  before = z[i / 5][i % 5];
        double side[2];
        for (int k = 0; k < 2; k++) {
            z[i / 5][i % 5] = before + (float)(k ? h : -h);
            side[k] = 2 * pdl__agree(3, 5, logits, 0, work, nowhere);
        }
        z[i / 5][i % 5] = before;
        CHECK(fabs((side[1] - side[0]) / (2 * h) - (double)gradient[i / 5][i % 5]) < 1e-5);
    }
    memset(gradient, 0, sizeof(gradient));
    pdl__distill(5, z[0], z[1], 1.7, 3, work, gradient[1]);
    for (int i = 0; i < 5; i++) {
        float  before = z[1][i];
        double side[2];
        for (int k = 0; k < 2; k++) {
            z[1][i] = before + (float)(k ? h : -h);
            side[k] = 3 * pdl__distill(5, z[0], z[1], 1.7, 0, work, unused[0]);
        }
        z[1][i] = before;
        CHECK(fabs((side[1] - side[0]) / (2 * h) - (double)gradient[1][i]) < 1e-5);
    }
}

/* The hook: logits are those of the network, confidence goes to the results, and `extra` into the gradients. */
typedef struct watch {
    double pull, sum; /* what is added to the gradient of every first logit; the sum of these */
    int    calls;
} watch_t;

static void watch(void *context, const pdl_logits_t *logits)
{
    watch_t *w = context;

    w->calls++;
    w->sum = 0;
    for (int64_t i = 0; i < logits->samples; i++) {
        logits->confidence[i] = 0.125f;
        w->sum += logits->scale * (double)logits->values[i * logits->classes];
        if (logits->extra) logits->extra[i * logits->classes] = (float)(w->pull * logits->scale);
    }
}

static void extra_gradients_arrive(void)
{
    for (int reference = 0; reference < 2; reference++) {
        watch_t            w = {.pull = 0.7};
        pdl_session_spec_t session = session_with(0);
        fixture_t          f = {.ranks = ranks, .batch = 8, .workers = 4, .samples = samples4, .classes = all4};
        pdl_batch_t        batch;
        pdl_step_result_t  step;
        float              weight[48], gradient[48];
        const double       h = 1.0 / 512;
        session.optimizer.lr = 1e-30;
        session.logits = watch;
        session.logits_context = &w;
        f.cycle.steps = 1;
        CHECK_OK(open_session(&f, rounds_network, &session, 8, reference));
        CHECK_OK(next_points(&f, 0, &batch));
        CHECK_OK(pdl_session_step(f.session, &batch, &step));
        CHECK_INT(w.calls, 1);
        CHECK_NEAR(pdl_session_samples(f.session).confidence[3], 0.125, 0);
        int at = pdl_session_find(f.session, "fc2.weight");
        CHECK_OK(pdl_session_get(f.session, at, PDL_ARRAY_GRADIENT, gradient));
        CHECK_OK(pdl_session_get(f.session, at, PDL_ARRAY_WEIGHT, weight));
        for (int i = 0; i < 48; i += 5) {
            float  before = weight[i];
            double side[2];
            for (int k = 0; k < 2; k++) {
                weight[i] = before + (float)(k ? h : -h);
                CHECK_OK(pdl_session_set(f.session, at, PDL_ARRAY_WEIGHT, weight));
                CHECK_OK(pdl_session_step(f.session, &batch, &step));
                side[k] = step.loss + w.pull * w.sum;
            }
            weight[i] = before;
            CHECK_OK(pdl_session_set(f.session, at, PDL_ARRAY_WEIGHT, weight));
            CHECK(fabs((side[1] - side[0]) / (2 * h) - (double)gradient[i]) < (reference ? 1e-4 : 1e-3));
        }
        close_fixture(&f);
    }
}

/* A step in two halves is the step. */
static void a_step_may_halt(void)
{
    watch_t            w = {0};
    pdl_session_spec_t session = session_with(0.9);
    fixture_t          a = {.ranks = ranks, .batch = 8, .workers = 4, .samples = samples4, .classes = all4}, b = a;
    pdl_batch_t        batch;
    pdl_step_result_t  step;

    session.logits = watch;
    session.logits_context = &w;
    a.cycle.steps = 3;
    CHECK_OK(open_session(&a, norm_network, &session, 8, false));
    CHECK_OK(open_session(&b, norm_network, &session, 8, false));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(next_points(&a, 0, &batch));
        CHECK_OK(pdl_session_step(a.session, &batch, &step));
        double loss = step.loss;
        CHECK_OK(pdl_session_step_begin(b.session, &batch));
        CHECK_OK(pdl_session_step_finish(b.session, &batch, &step));
        CHECK(step.loss == loss);
    }
    CHECK(weights_apart(a.session, b.session) == 0);
    close_fixture(&a);
    close_fixture(&b);
}

/* The score of the common weights on samples of all classes. */
static double score(fixture_t *f)
{
    double            right = 0;
    const int32_t     all[] = {15};
    const int64_t     samples[] = {512};
    fixture_t         test = *f;
    pdl_step_result_t result;

    test.classes = all;
    test.samples = samples;
    for (int i = 0; i < 32; i++) {
        fill(&test, 0, i * f->batch, f->values, f->labels);
        pdl_batch_t batch = {.values = f->values, .labels = f->labels, .weight = f->weight};
        for (int64_t k = 0; k < f->batch; k++) f->weight[k] = 1;
        CHECK_OK(pdl_session_evaluate(f->session, &batch, &result));
        right += result.accuracy / 32;
    }
    return right;
}

/* The same of training, round by round, and what the clusters are good for: without them what few workers have is
   drowned. Workers with all classes are one cluster. */
static void training_finds_the_clusters(void)
{
    const int64_t samples[] = {64, 64, 64, 64, 64, 64, 64, 64};
    const int32_t skewed[] = {1, 1, 1, 2, 2, 2, 4, 8}, even[] = {15, 15, 15, 15, 15, 15, 15, 15};
    const int64_t expected[] = {0, 0, 0, 1, 1, 1, 2, 3};
    double        right[3];

    for (int run = 0; run < 3; run++) {
        pdl_session_spec_t      session = session_with(0);
        pdl_aggregate_options_t options = options_of("cadis");
        fixture_t               f = {
                          .ranks = ranks, .batch = 16, .workers = 8, .samples = samples, .classes = run == 2 ? even : skewed};
        if (run == 1) CHECK_OK(pdl_aggregate_parse_threshold("-1", &options));
        CHECK_OK(open_rounds(&f, wide_network, &session, &options, true));
        for (int i = 0; i < 8; i++) {
            pdl__round_result_t round;
            CHECK_OK(run_round(&f, &round));
            CHECK_INT(round.mean.clusters, run == 0 ? 4 : 1);
            for (int w = 0; w < 8 && run == 0; w++) CHECK_INT(round.mean.cluster[w], expected[w]);
            for (int w = 0; w < 8; w++)
                CHECK_NEAR(round.mean.share[w], run > 0 ? 0.125 : w < 6 ? 0.25 / 3 : 0.25, 1e-12);
            CHECK(round.mean.similarity[0] <= round.mean.similarity[1] &&
                  round.mean.similarity[1] <= round.mean.similarity[2]);
            CHECK(run == 2 ? round.mean.similarity[0] > 0.5 : round.mean.similarity[0] < 0.1);
            if (run == 2) CHECK_INT(round.mean.trust > 0, i > 0);
            CHECK(round.mean.trust >= 0 && round.mean.trust < 0.5);
        }
        right[run] = score(&f);
        close_fixture(&f);
    }
    printf("     clusters by class: %.3f right, one cluster: %.3f\n", right[0], right[1]);
    CHECK(right[0] >= right[1] + 0.1);
}

/* Accuracy of a kind after some rounds, mean of three seeds. */
static double learn(const char *kind, const int32_t *classes, double lr)
{
    const int64_t samples[] = {64, 64, 64, 64, 64, 64, 64, 64};
    double        accuracy = 0;

    for (int seed = 1; seed <= 3; seed++) {
        pdl_session_spec_t      session = session_with(0);
        pdl_aggregate_options_t options = options_of(kind);
        pdl__round_result_t     round;
        fixture_t f = {.ranks = ranks, .batch = 16, .workers = 8, .samples = samples, .classes = classes};
        session.optimizer.lr = lr;
        session.seed = options.seed = (uint64_t)seed;
        CHECK_OK(open_rounds(&f, rounds_network, &session, &options, false));
        CHECK_INT(f.cycle.epochs, 2); /* the same work for all */
        run_rounds(&f, 6, &round);
        accuracy += score(&f) / 3;
        close_fixture(&f);
    }
    return accuracy;
}

/* One class a worker: models that change places are not worse than models that stay. Most workers alike: clusters
   of equal weight are better than the mean. */
static void label_skew(void)
{
    const int32_t sorted[] = {1, 2, 4, 8, 1, 2, 4, 8}, alike[] = {3, 3, 3, 3, 3, 3, 4, 8};
    double        local = learn("local", sorted, 0.2), sem = learn("sem", sorted, 0.2);

    printf("     one class a worker: local %.3f sem %.3f\n", local, sem);
    CHECK(sem >= local);
    local = learn("local", alike, 0.05);
    double cadis = learn("cadis", alike, 0.05);
    printf("     six of eight alike: local %.3f cadis %.3f\n", local, cadis);
    CHECK(cadis >= local + 0.05);
}

/* Rounds go on from kept numbers as if nothing had happened. */
static void rounds_resume(void)
{
    pdl_session_spec_t      session = session_with(0.9);
    pdl_aggregate_options_t options = options_of("cadis");
    fixture_t               a = {.ranks = ranks, .batch = 8, .workers = 4, .samples = samples4, .classes = all4};
    fixture_t               b = a;
    pdl__round_result_t     round;
    int64_t                 count;

    CHECK_OK(open_rounds(&a, norm_network, &session, &options, false));
    CHECK_OK(open_rounds(&b, norm_network, &session, &options, false));
    run_rounds(&a, 2, &round);
    const double *state = pdl__rounds_state(a.rounds, &count);
    CHECK_INT(count, 1 + 2 * 4 * 4);
    for (int i = 0; i < pdl_session_tensor_count(a.session); i++) {
        float *plain = calloc((size_t)pdl_session_tensor(a.session, i)->elements, sizeof(*plain));
        CHECK_OK(pdl_session_get(a.session, i, PDL_ARRAY_WEIGHT, plain));
        CHECK_OK(pdl_session_set(b.session, i, PDL_ARRAY_WEIGHT, plain));
        free(plain);
    }
    pdl_session_set_updates(b.session, pdl_session_updates(a.session));
    CHECK_OK(pdl__rounds_restore(b.rounds, state, count));
    CHECK_ERROR(pdl__rounds_restore(b.rounds, state, 4), "other workers");
    run_rounds(&a, 2, &round);
    run_rounds(&b, 2, &round);
    CHECK(weights_apart(a.session, b.session) == 0);
    close_fixture(&a);
    close_fixture(&b);
}

/* Batches come in the order of the rounds, from the worker's own samples, each of them once an epoch before any
   comes again. */
static void batches_are_the_workers(void)
{
    const int64_t            a[] = {3, 9, 4, 20, 11, 30, 31, 17, 2, 8}, b[] = {1, 5, 6, 7, 12};
    const int64_t *const     ids[] = {a, b};
    const int64_t            count[] = {10, 5};
    pdl_source_options_t     options = {.samples = 40, .shape = {.channels = 1, .extent = {4, 4, 1}, .rank = 2}};
    pdl__round_source_spec_t spec = {.loader = {.samples = 4, .threads = 2, .depth = 2}, .workers = 2, .seed = 3};
    pdl_aggregate_options_t  local = options_of("local:2"), epochs = options_of("local");
    pdl__rounds_plan_t       plan;
    pdl__round_source_t     *source = NULL;
    pdl_batch_t              batch;

    REQUIRE_OK(pdl_source_open("synthetic", &options, &spec.loader.source));
    REQUIRE_OK(pdl__round_source_create(&spec, &source));
    pdl__rounds_plan(&local, 10, 4, &plan);
    CHECK(plan.steps == 3 && plan.segment == 2 && plan.rounds == 2 && plan.epochs == 1);
    for (int skip = 0; skip < 2; skip++) {
        CHECK_OK(pdl__round_source_begin(source, skip, &plan, skip, ids, count));
        for (int round = skip; round < 2; round++)
            for (int w = 0; w < 2; w++)
                for (int step = 2 * round; step < (round ? 3 : 2); step++) {
                    CHECK_OK(pdl__round_source_next(source, w, &batch));
                    for (int i = 0; i < 4; i++) CHECK_INT(batch.index[i], ids[w][(step * 4 + i) % count[w]]);
                }
    }
    pdl__rounds_plan(&epochs, 10, 4, &plan);
    CHECK(plan.steps == 3 && plan.segment == 3 && plan.rounds == 1 && plan.epochs == 2);
    CHECK_OK(pdl__round_source_begin(source, 1, &plan, 0, ids, count));
    for (int epoch = 0; epoch < 2; epoch++)
        for (int w = 0; w < 2; w++) {
            int seen[40] = {0}, moved = 0;
            for (int step = 0; step < 3; step++) {
                CHECK_OK(pdl__round_source_next(source, w, &batch));
                for (int i = 0; i < 4; i++) {
                    seen[batch.index[i]]++;
                    moved += batch.index[i] != ids[w][(step * 4 + i) % count[w]];
                }
            }
            for (int i = 0; i < count[w]; i++) CHECK(seen[ids[w][i]] >= 12 / count[w]);
            CHECK_INT(moved > 0, epoch > 0);
        }
    pdl__round_source_destroy(source);
    pdl_source_close(spec.loader.source);
}

static void wrong_sessions_are_refused(void)
{
    pdl_session_spec_t      session = session_with(0.9);
    pdl_aggregate_options_t options = options_of("local");
    fixture_t               f = {.ranks = ranks, .batch = 8, .workers = 0, .samples = samples4, .classes = all4};

    CHECK_ERROR(open_rounds(&f, rounds_network, &session, &options, false), "--workers 1 or more");
    close_fixture(&f);
    f = (fixture_t){.ranks = ranks, .batch = 8, .workers = 4, .samples = samples4, .classes = all4};
    session.optimizer.ema = 0.9;
    CHECK_ERROR(open_rounds(&f, rounds_network, &session, &options, false), "--ema");
    close_fixture(&f);
}

int main(void)
{
    REQUIRE_OK(pdl_ranks_create(&ranks));
    RUN(reads_options);
    RUN(one_worker_is_plain_training);
    RUN(one_local_step_is_data_parallel);
    RUN(groups_of_two_are_pairs);
    RUN(models_visit_two_workers);
    RUN(components_are_found);
    RUN(rows_nobody_has_do_not_count);
    RUN(clusters_are_those_of_the_classes);
    RUN(clusters_have_equal_weight);
    RUN(divergences_have_their_gradients);
    RUN(only_better_teachers_are_trusted);
    RUN(extra_gradients_arrive);
    RUN(a_step_may_halt);
    RUN(training_finds_the_clusters);
    RUN(label_skew);
    RUN(rounds_resume);
    RUN(batches_are_the_workers);
    RUN(wrong_sessions_are_refused);
    pdl_ranks_destroy(ranks);
    return test_done();
}
