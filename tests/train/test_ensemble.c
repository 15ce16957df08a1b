/*
 * An ensemble of narrow nets: it learns, its common loss brings the nets together, its inference is the mean of
 * logits, and mixing changes what it should.
 */
#include "test.h"
#include "train/rounds/ensemble.h"
#include "train/rounds/ensemble_views.h"
#include <stdlib.h>

static const char network[] =
    "paradl: model/1\nname: small\ninput: {channels: 1, size: [8, 8]}\nlayers:\n"
    "  - conv: {name: c1, out: 8, kernel: 3, pad: 1, bias: false}\n"
    "  - batch_norm: {name: bn}\n  - relu: {name: r}\n  - max_pool: {name: pool, kernel: 2}\n"
    "  - conv: {name: c2, out: 16, kernel: 3, pad: 1}\n  - relu: {name: r2}\n"
    "  - flatten: {name: flat}\n  - linear: {name: fc, out: 4}\n"
    "  - cross_entropy: {name: loss}\n";

#define WORKERS 6
#define EACH    48

typedef struct bench {
    pdl_ranks_t        *ranks;
    pdl_model_t        *model;
    pdl_plan_t         *plan;
    pdl_backend_t      *backend;
    pdl_source_t       *train, *valid;
    pdl__view_source_t *views;
    pdl__ensemble_t    *ensemble;
    int64_t             ids[WORKERS][EACH], count[WORKERS], steps;
    const int64_t      *list[WORKERS];
} bench_t;

static void open_bench(bench_t *b, const pdl_aggregate_options_t *options, double lr)
{
    pdl_mesh_t           mesh = {{{PDL_AXIS_DATA, 1, 0}}, 1};
    pdl_cpu_options_t    cpu = {.threads = 1};
    pdl__ensemble_spec_t spec = {.options = *options, .workers = WORKERS};
    pdl_source_options_t source = {.samples = WORKERS * EACH, .classes = 4};

    memset(b, 0, sizeof(*b));
    REQUIRE_OK(pdl_ranks_create(&b->ranks));
    CHECK_OK(pdl_model_read_yaml_memory(network, strlen(network), "test", &b->model));
    REQUIRE_OK(pdl_plan_create(b->model, &mesh, 16, &b->plan));
    CHECK_OK(pdl_plan_apply_preset(b->plan, "data", NULL));
    REQUIRE_OK(pdl_backend_create_cpu(&cpu, &b->backend));
    source.shape = pdl_model_input(b->model);
    REQUIRE_OK(pdl_source_open("synthetic", &source, &b->train));
    source.split = PDL_SPLIT_VALID;
    source.samples = 1000;
    REQUIRE_OK(pdl_source_open("synthetic", &source, &b->valid));
    pdl__view_source_spec_t views = {.loader = {.source = b->train,
                                                .samples = 16,
                                                .threads = 1,
                                                .depth = 2,
                                                .augmentation = {.crop_pad = 1},
                                                .seed = 4},
                                     .nets = (int)options->nets,
                                     .workers = WORKERS,
                                     .seed = 4};
    REQUIRE_OK(pdl__view_source_create(&views, &b->views));
    for (int w = 0; w < WORKERS; w++) {
        b->count[w] = EACH;
        b->list[w] = b->ids[w];
        for (int i = 0; i < EACH; i++) b->ids[w][i] = w * EACH + i;
    }
    pdl_session_defaults(&spec.session);
    spec.session.plan = b->plan;
    spec.session.backend = b->backend;
    spec.session.ranks = b->ranks;
    spec.session.optimizer.lr = lr;
    spec.views = pdl__view_source_views(b->views);
    REQUIRE_OK(pdl__ensemble_create(&spec, &b->ensemble));
    CHECK_OK(pdl__ensemble_begin(b->ensemble, b->count, &b->steps));
    CHECK_INT(b->steps, 3);
}

static void close_bench(bench_t *b)
{
    pdl__ensemble_destroy(b->ensemble);
    pdl__view_source_destroy(b->views);
    pdl_source_close(b->train);
    pdl_source_close(b->valid);
    pdl_backend_destroy(b->backend);
    pdl_plan_destroy(b->plan);
    pdl_model_destroy(b->model);
    pdl_ranks_destroy(b->ranks);
}

static pdl__ensemble_result_t run(bench_t *b, int rounds)
{
    pdl__ensemble_result_t result = {0};

    for (int r = 0; r < rounds; r++) {
        CHECK_OK(pdl__view_source_begin(b->views, r, 1, b->steps, b->list, b->count));
        CHECK_OK(pdl__ensemble_run(b->ensemble, &result));
    }
    return result;
}

static pdl_aggregate_options_t options_of(int64_t nets)
{
    pdl_aggregate_options_t options;

    pdl_aggregate_defaults(&options);
    options.kind = PDL_AGGREGATE_FEDDCT;
    options.nets = nets;
    options.agreement_warmup = 0;
    return options;
}

static void an_ensemble_learns(void)
{
    bench_t                 b;
    pdl_aggregate_options_t options = options_of(4); /* a cluster of 4 and one of the 2 that are left */
    pdl_score_t             before, after, alone;
    pdl__ensemble_report_t  report;

    open_bench(&b, &options, 0.05);
    CHECK_OK(pdl__ensemble_score(b.ensemble, b.valid, 1, false, &before));
    pdl__ensemble_result_t result = run(&b, 6);
    CHECK_OK(pdl__ensemble_score(b.ensemble, b.valid, 1, false, &after));
    CHECK_OK(pdl_evaluate(pdl__ensemble_net(b.ensemble, 2), b.valid, 1, false, &alone));
    printf("     loss %.3f, accuracy %.3f, before %.3f; one net %.3f; JS %.4f\n", after.loss, after.accuracy,
           before.accuracy, alone.accuracy, result.agreement);
    CHECK(after.accuracy > before.accuracy + 0.3);
    CHECK(after.accuracy >= alone.accuracy - 0.05);
    CHECK_NEAR(result.samples, WORKERS * EACH, 0);
    CHECK_INT(result.updates, 4 * 3);
    CHECK_OK(pdl__ensemble_report(b.ensemble, &report));
    CHECK_STR(report.cut, "pool");
    CHECK_NEAR(report.cut_bytes, 2.0 * 3 * 16 * (4 * 4 * 4) * 4, 0); /* three nets, 4 channels of 4 x 4 */
    CHECK_NEAR(report.logit_bytes, 4.0 * 16 * 4 * 4, 0);
    CHECK(4 * report.net_weights < 2 * report.whole_weights);
    close_bench(&b);
}

/* Someone who stops a run does not wait for its validation. */
static void scoring_stops(void)
{
    bench_t                 b;
    pdl_aggregate_options_t options = options_of(2);
    pdl_score_t             whole, part;

    open_bench(&b, &options, 0.05);
    pdl_session_t *first = pdl__ensemble_net(b.ensemble, 0);
    CHECK_OK(pdl__ensemble_score(b.ensemble, b.valid, 1, false, &whole));
    CHECK(!whole.stopped);
    pdl_session_request_stop(first);
    CHECK_OK(pdl__ensemble_score(b.ensemble, b.valid, 1, false, &part));
    CHECK(part.stopped && part.samples > 0 && part.samples < whole.samples);
    CHECK_OK(pdl_evaluate(first, b.valid, 1, false, &part));
    CHECK(part.stopped && part.samples > 0 && part.samples < whole.samples);
    close_bench(&b);
}

/* Where the common loss outweighs the labels, nets come to say the same. */
static void agreement_brings_nets_together(void)
{
    bench_t                 b;
    pdl_aggregate_options_t options = options_of(2);

    options.agreement = 1000;
    open_bench(&b, &options, 1e-4);
    double before = run(&b, 1).agreement, after = run(&b, 4).agreement;
    printf("     JS %.5f, then %.5f\n", before, after);
    CHECK(after < 0.5 * before);
    close_bench(&b);
}

static void mixing_trains(void)
{
    bench_t                 b;
    pdl_aggregate_options_t options = options_of(2);
    pdl_score_t             score;

    options.mixup = 0.2;
    open_bench(&b, &options, 0.05);
    run(&b, 6);
    CHECK_OK(pdl__ensemble_score(b.ensemble, b.valid, 1, false, &score));
    CHECK(score.accuracy > 0.5);
    close_bench(&b);
}

static void the_weight_warms_up(void)
{
    pdl_aggregate_options_t options;

    pdl_aggregate_defaults(&options);
    CHECK_NEAR(pdl__ensemble_weight(&options, 0), 0.005, 1e-12);
    CHECK_NEAR(pdl__ensemble_weight(&options, 20), 0.25, 1e-12);
    CHECK_NEAR(pdl__ensemble_weight(&options, 400), 0.5, 1e-12);
    options.published_warmup = true;
    CHECK_NEAR(pdl__ensemble_weight(&options, 400), 0.0125, 1e-12);
    options.agreement = 0;
    CHECK_NEAR(pdl__ensemble_weight(&options, 5), 0, 0);
}

int main(void)
{
    RUN(an_ensemble_learns);
    RUN(scoring_stops);
    RUN(agreement_brings_nets_together);
    RUN(mixing_trains);
    RUN(the_weight_warms_up);
    return test_done();
}
