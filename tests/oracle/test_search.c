/*
 * The ranking: one batch for all, the simplest name for a plan, ties, and reasons that are true of the model.
 */
#include "test.h"

#include <paradl/oracle/exact.h>
#include <paradl/oracle/search.h>

#include <string.h>

typedef struct bench {
    pdl_model_t        *model;
    const pdl_system_t *system;
    pdl_oracle_t       *oracle;
    pdl_request_t       request;
} bench_t;

/* Without a fit, so that the answers depend on the rules alone. */
static bench_t begin(const char *model, const char *system, int64_t pe)
{
    bench_t          b = {.request = pdl_request_default()};
    pdl_parameters_t parameters;

    pdl_parameters_default(&parameters);
    REQUIRE_OK(pdl_model_load(model, &b.model));
    REQUIRE_OK(pdl_system_load(system, &b.system));
    REQUIRE_OK(pdl_oracle_create(b.model, b.system, &parameters, &b.oracle));
    b.request.pe = pe;
    b.request.precision = PDL_BF16;
    b.request.optimizer = PDL_OPTIMIZER_ADAM;
    return b;
}

static void end(bench_t *b)
{
    pdl_oracle_destroy(b->oracle);
    pdl_system_destroy(b->system);
    pdl_model_destroy(b->model);
}

static pdl_search_t *search(bench_t *b)
{
    pdl_search_t *result = NULL;

    CHECK_OK(pdl_search_run(b->oracle, &b->request, &result));
    return result;
}

static const pdl_candidate_t *find(const pdl_search_t *search, const char *strategy)
{
    for (int i = 0; i < search->count; i++)
        if (strcmp(search->candidates[i].config.strategy->name, strategy) == 0) return &search->candidates[i];
    return NULL;
}

static void check_one_batch(const pdl_search_t *search, int64_t batch)
{
    CHECK_INT(search->batch, batch);
    CHECK(search->possible > 3);
    for (int i = 0; i < search->possible; i++) {
        CHECK_INT(search->candidates[i].config.batch, batch);
        CHECK_INT(search->candidates[i].plan->batch, batch);
    }
}

/* The order of the default is that of the same batch when it is given: nothing wins by its batch. */
static void all_have_one_batch(void)
{
    static const struct {
        const char *model, *system;
        int64_t     pe, batch;
    } cases[] = {{"llama2-7b", "selene", 64, 128},
                 {"resnet50", "abci-v", 32, 2048},
                 {"gpt2-124m", "selene", 12, 96}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bench_t       b = begin(cases[i].model, cases[i].system, cases[i].pe);
        pdl_search_t *chosen = search(&b);
        check_one_batch(chosen, cases[i].batch);
        CHECK(chosen->batch_reason[0] != '\0');
        b.request.batch = cases[i].batch;
        pdl_search_t *given = search(&b);
        check_one_batch(given, cases[i].batch);
        CHECK_STR(given->batch_reason, "");
        for (int k = 0; k < chosen->count; k++)
            CHECK_STR(given->candidates[k].config.strategy->name, chosen->candidates[k].config.strategy->name);
        b.request.batch = 0;
        b.request.samples_per_pe = 3;
        pdl_search_t *per_pe = search(&b);
        check_one_batch(per_pe, 3 * cases[i].pe);
        pdl_search_destroy(per_pe);
        pdl_search_destroy(given);
        pdl_search_destroy(chosen);
        end(&b);
    }
}

static int64_t usual_batch(const char *model, int64_t pe, int64_t samples)
{
    bench_t       b = begin(model, "selene", pe);
    pdl_dataset_t data = {.name = "some", .samples = samples};

    b.request.strategy = pdl_strategy_find("data");
    if (samples > 0) b.request.dataset = &data;
    pdl_search_t *result = search(&b);
    int64_t       batch = result ? result->batch : 0;
    pdl_search_destroy(result);
    end(&b);
    return batch;
}

static void the_usual_batch_goes_by_the_size_of_a_sample(void)
{
    CHECK_INT(usual_batch("lenet", 4, 0), 64 * 4);
    CHECK_INT(usual_batch("cosmoflow-512", 4, 0), 4);
    CHECK_INT(usual_batch("llama2-7b", 8, 0), 2 * 8);
    CHECK_INT(usual_batch("llama3-8b", 8, 0), 8);
    /* never more samples than there are */
    CHECK_INT(usual_batch("lenet", 512, 20000), 32 * 512);
    CHECK_INT(usual_batch("lenet", 512, 300), 256);
}

/* Where a whole batch does not fit, it is accumulated instead of made smaller. */
static void memory_makes_micro_batches(void)
{
    bench_t b = begin("resnet50", "abci-v", 8);

    pdl_oracle_set_memory_cap(b.oracle, 2e9);
    pdl_search_t          *result = search(&b);
    const pdl_candidate_t *data = find(result, "data");
    check_one_batch(result, 8 * 64);
    CHECK(data && data->possible && data->config.micro_batches > 1);
    b.request.strategy = pdl_strategy_find("mixed");
    pdl_search_t *mixed = search(&b);
    CHECK_INT(mixed->possible, 1);
    CHECK_INT(mixed->candidates[0].config.batch, 8 * 64);
    CHECK(mixed->candidates[0].config.micro_batches > 1);
    pdl_search_destroy(mixed);
    pdl_search_destroy(result);
    end(&b);
}

/* A count of memory: so many bytes for every sample of a micro-batch, half with recomputation; pipelines are refused. */
typedef struct count {
    double bytes;
    int    calls;
    bool   silent;
} count_t;

static pdl_status_t count_memory(void *context, const pdl_plan_t *plan, pdl_projection_t *projection)
{
    count_t *count = context;
    double   samples = (double)(plan->batch / pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA) / plan->micro_batches);

    count->calls++;
    if (count->silent) return PDL_OK;
    if (pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE) > 1)
        return pdl_error(PDL_ERR_UNSUPPORTED, "no pipelines here");
    projection->memory_bytes = samples * count->bytes / (plan->recompute == PDL_RECOMPUTE_FULL ? 2 : 1);
    projection->compiled = true;
    return PDL_OK;
}

static pdl_search_t *search_counted(bench_t *b, count_t *count, double max_memory)
{
    b->request.memory = count_memory;
    b->request.memory_context = count;
    b->request.max_memory = max_memory;
    return search(b);
}

/* The count decides what fits: more micro-batches, then recomputation, then refusal. */
static void memory_is_counted_in_the_search(void)
{
    bench_t b = begin("lenet", "local", 2);
    count_t count = {.bytes = 1e6};

    b.request.batch = 32;
    pdl_search_t          *result = search_counted(&b, &count, 4e6);
    const pdl_candidate_t *data = find(result, "data"), *pipeline = find(result, "pipeline");
    CHECK(data->possible && data->projection.compiled && data->projection.memory_bytes == 4e6);
    CHECK(data->plan->micro_batches == 4 && data->plan->recompute == PDL_RECOMPUTE_NONE);
    CHECK_INT(data->config.micro_batches, 4);
    CHECK(!pipeline->possible && strstr(pipeline->reason, "no pipelines here") != NULL);
    pdl_search_destroy(result);
    result = search_counted(&b, &count, 0.6e6);
    data = find(result, "data");
    CHECK(data->possible && data->plan->micro_batches == 16 && data->plan->recompute == PDL_RECOMPUTE_FULL);
    pdl_search_destroy(result);
    result = search_counted(&b, &count, 0.4e6);
    CHECK_INT(result->possible, 0);
    CHECK(strstr(find(result, "data")->reason, "at the least (compiled)") != NULL);
    pdl_search_destroy(result);
    /* One that cannot say, and one that is not asked, leave the model's figures. */
    count = (count_t){.silent = true};
    result = search_counted(&b, &count, 0);
    CHECK(result->possible > 0 && !result->candidates[0].projection.compiled && count.calls == 1);
    pdl_search_destroy(result);
    end(&b);
    b = begin("lenet", "abci-v", 2);
    b.request.batch = 32;
    result = search_counted(&b, &count, 0);
    CHECK(result->possible > 0 && count.calls == 1);
    pdl_search_destroy(result);
    end(&b);
}

static void too_small_a_batch_says_what_works(void)
{
    bench_t b = begin("resnet50", "abci-v", 64);

    b.request.batch = 16;
    b.request.strategy = pdl_strategy_find("data");
    pdl_search_t *result = search(&b);
    CHECK_INT(result->possible, 0);
    CHECK(strstr(result->candidates[0].reason, "batch of 16 is too small for 64 replicas") != NULL);
    pdl_search_destroy(result);
    end(&b);
}

/* Samples split over both axes are data parallelism, and are called so. */
static void mixed_is_named_after_what_it_is(void)
{
    bench_t                b = begin("unet", "selene", 8);
    pdl_search_t          *result = search(&b);
    const pdl_candidate_t *mixed = find(result, "mixed");

    CHECK(mixed && !mixed->possible);
    CHECK(mixed->same_as == pdl_strategy_find("data"));
    CHECK(strstr(mixed->reason, "same as data") != NULL);
    pdl_search_destroy(result);
    b.request.strategy = pdl_strategy_find("mixed");
    result = search(&b);
    CHECK_INT(result->possible, 1);
    CHECK_STR(result->candidates[0].config.strategy->name, "data");
    CHECK_INT(result->candidates[0].config.data, 8);
    CHECK_STR(result->candidates[0].plan->strategy, "data");
    pdl_search_destroy(result);
    b.request.pe = 1;
    result = search(&b);
    CHECK_INT(result->possible, 1);
    CHECK_STR(result->candidates[0].config.strategy->name, "serial");
    pdl_search_destroy(result);
    end(&b);
}

/* A layer that differs makes it mixed. */
static void mixed_stays_where_a_layer_differs(void)
{
    bench_t                b = begin("gpt2-355m", "selene", 8);
    pdl_search_t          *result = search(&b);
    const pdl_candidate_t *mixed = find(result, "mixed");

    CHECK(mixed && mixed->possible && mixed->same_as == NULL);
    pdl_search_destroy(result);
    end(&b);
}

static void simpler_plans_come_first_in_a_tie(void)
{
    pdl_candidate_t candidates[] = {
        {.possible = true,
         .score = 1.0,
         .config = {.strategy = pdl_strategy_find("mixed"), .data = 2, .tensor = 2}},
        {.possible = true,
         .score = 1.001,
         .config = {.strategy = pdl_strategy_find("data+pipeline"), .data = 2, .pipeline = 2}},
        {.possible = true,
         .score = 1.006,
         .config = {.strategy = pdl_strategy_find("3d"), .data = 2, .pipeline = 2, .tensor = 2}},
        {.possible = true, .score = 1.004, .config = {.strategy = pdl_strategy_find("data"), .data = 4}},
        {.possible = false, .config = {.strategy = pdl_strategy_find("filter")}},
        {.possible = true, .score = 0.5, .config = {.strategy = pdl_strategy_find("tensor"), .tensor = 4}}};
    static const char *const order[] = {"tensor", "data", "data+pipeline", "mixed", "3d", "filter"};
    pdl_search_t             s = {.candidates = candidates, .count = 6};

    pdl_search_rank(&s);
    CHECK_INT(s.possible, 5);
    for (int i = 0; i < 6; i++) CHECK_STR(candidates[i].config.strategy->name, order[i]);
    CHECK(pdl_candidates_tie(&candidates[1], &candidates[3]));
    CHECK(!pdl_candidates_tie(&candidates[3], &candidates[4]));
}

/* What cannot be told apart is not told apart, and nothing is said that the numbers do not show. */
static void explanations_are_not_about_nothing(void)
{
    static const char *const models[] = {"gpt2-355m", "resnet50", "llama2-7b", "unet"};

    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        bench_t       b = begin(models[i], "selene", 16);
        pdl_search_t *result = search(&b);
        char          text[4096], *place;
        CHECK_OK(pdl_search_explain(b.oracle, &b.request, result, text, sizeof(text)));
        bool tie = pdl_candidates_tie(&result->candidates[0], &result->candidates[1]);
        CHECK((strstr(text, " ties with ") != NULL) == tie);
        CHECK((strstr(text, " beats ") != NULL) == !tie);
        CHECK(strstr(text, "by 0 %") == NULL && strstr(text, "by 0.0 %") == NULL);
        place = strstr(text, "bandwidth between nodes");
        if (place) {
            char then[32], now[32];
            CHECK_INT(sscanf(place, "bandwidth between nodes %*s %*s %31s GB/s per port (it is %31s", then, now),
                      2);
            CHECK(strcmp(then, now) != 0);
        }
        pdl_search_destroy(result);
        end(&b);
    }
}

/* What the search has tried and rejected is no advice. */
static void advice_is_new(void)
{
    bench_t b = begin("llama2-7b", "selene", 16);

    b.request.batch = 512;
    pdl_search_t *result = search(&b);
    for (int i = 0; i < result->possible; i++) {
        const pdl_candidate_t *c = &result->candidates[i];
        for (int k = 0; k < c->projection.finding_count && strcmp(c->config.strategy->name, "mixed") != 0; k++) {
            const char *hint = c->projection.findings[k].hint;
            CHECK(strstr(hint, "shard optimizer state") == NULL && strstr(hint, "accumulate") == NULL);
            CHECK(strncmp(hint, "more micro-batches, or", 22) != 0);
        }
    }
    pdl_search_destroy(result);
    end(&b);
}

/* Whether a layer has so many of what a reason says. */
static bool has(const pdl_layer_t *l, int64_t count, const char *what)
{
    if (strncmp(what, "filters", 7) == 0) return l->out.channels == count;
    if (strncmp(what, "input channels", 14) == 0) return l->in.channels == count;
    if (strncmp(what, "convolution groups", 18) == 0) return l->groups == count;
    if (strncmp(what, "key-value heads", 15) == 0) return l->kv_heads == count && l->heads > count;
    if (strncmp(what, "heads", 5) == 0) return l->heads == count && l->kv_heads == count;
    if (strncmp(what, "experts", 7) == 0) return l->experts == count;
    if (strncmp(what, "rows of output", 14) == 0) return l->out.extent[0] == count;
    if (strncmp(what, "rows", 4) == 0) return l->in.extent[0] == count;
    return false;
}

/* "at most 74 devices (layer conv1 has 224 rows, ...": what the layer has, and where the limit lies. */
static void check_reason(const bench_t *b, const pdl_candidate_t *c)
{
    const char *layer = strstr(c->reason, "layer "), *at_most = strstr(c->reason, "at most ");
    char        name[128], what[64];
    long long   count, limit;

    if (!layer) return;
    CHECK_INT(sscanf(layer, "layer %127s has %lld %63[a-z -]", name, &count, what), 3);
    name[strcspn(name, ":")] = '\0';
    int index = pdl_model_find_layer(b->model, name);
    CHECK(index >= 0);
    if (index < 0) return;
    const pdl_layer_t *l = pdl_model_layer(b->model, index);
    if (!has(l, count, what)) printf("%s: %s\n", c->config.strategy->name, c->reason);
    CHECK(has(l, count, what));
    if (!at_most || sscanf(at_most, "at most %lld", &limit) != 1 || strncmp(what, "rows", 4) != 0) return;
    pdl_axis_t axis = {PDL_AXIS_SPATIAL, limit, 0};
    CHECK(pdl_mode_allowed(l, PDL_MODE_SPACE, &axis, NULL, 0));
    axis.size++;
    CHECK(!pdl_mode_allowed(l, PDL_MODE_SPACE, &axis, NULL, 0));
}

static void reasons_are_true(void)
{
    static const char *const models[] = {"resnet50",   "vgg16",     "cosmoflow-128",
                                         "llama2-70b", "gpt2-1.5b", "mixtral-8x7b"};
    static const char *const strategies[] = {"spatial",     "filter",      "channel", "tensor",
                                             "data+tensor", "data+filter", "3d"};
    static const int64_t     pes[] = {7, 64, 509, 4096};
    int                      layers = 0;

    for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++) {
        bench_t b = begin(models[m], "frontier", 1);
        for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]) * 4; i++) {
            b.request.strategy = pdl_strategy_find(strategies[i / 4]);
            b.request.pe = pes[i % 4];
            b.request.batch = pes[i % 4];
            b.request.precision = PDL_FP32;
            pdl_search_t *result = search(&b);
            if (result->possible == 0) {
                layers += strstr(result->candidates[0].reason, "layer ") != NULL;
                check_reason(&b, &result->candidates[0]);
            }
            pdl_search_destroy(result);
        }
        end(&b);
    }
    CHECK(layers > 20);
}

static void expect_reason(const char *model, const char *strategy, int64_t pe, const char *words)
{
    bench_t b = begin(model, "frontier", pe);

    b.request.strategy = pdl_strategy_find(strategy);
    pdl_search_t *result = search(&b);
    CHECK_INT(result->possible, 0);
    CHECK_STR(result->candidates[0].reason, words);
    pdl_search_destroy(result);
    end(&b);
}

static void reasons_name_what_is_in_the_way(void)
{
    expect_reason("llama2-70b", "tensor", 64,
                  "at most 8 devices (layer layers.0.self_attn has 8 key-value heads for its 64 heads)");
    expect_reason("gpt2-1.5b", "data+tensor", 64,
                  "layer h.0.attn has 25 heads: no divisor of the number of devices divides them");
    expect_reason("gpt2-1.5b", "tensor", 8,
                  "layer h.0.attn has 25 heads: the number of devices does not divide them");
    expect_reason("resnet50", "spatial", 512,
                  "at most 74 devices (layer conv1 has 224 rows, of which a piece needs 3 for the halo)");
    expect_reason("resnet50", "data+filter", 2, "two axes need at least 4 devices");
    expect_reason("resnet50", "3d", 13, "13 devices are no product of two axes: the number is prime");
    expect_reason("gpt2-124m", "4d", 4, "4 devices are no product of 3 axes");
    expect_reason("gpt2-124m", "data+tensor+context", 26,
                  "layer h.0.attn has 12 heads: no divisor of the number of devices divides them");
}

/* Strategies are searched side by side: each comes out as it does alone, to the last bit. */
static void strategies_do_not_depend_on_each_other(void)
{
    bench_t b = begin("gpt2-124m", "selene", 32);
    b.request.named = true;
    pdl_search_t *together = search(&b);
    int64_t       configurations = 0;

    for (int i = 0; (b.request.strategy = pdl_strategy_at(i)) != NULL; i++) {
        if (b.request.strategy->axes == 0 || b.request.strategy->per_layer) continue;
        pdl_search_t          *alone = search(&b);
        const pdl_candidate_t *x = &alone->candidates[0], *y = find(together, b.request.strategy->name);

        CHECK_INT(x->possible, y->possible);
        CHECK_STR(x->reason, y->reason);
        CHECK_NEAR(x->score, y->score, 0);
        CHECK_NEAR(x->projection.memory_bytes, y->projection.memory_bytes, 0);
        configurations += alone->configurations;
        pdl_search_destroy(alone);
    }
    CHECK_INT(together->configurations, configurations);
    CHECK(find(together, "mixed") == NULL);
    pdl_search_destroy(together);
    end(&b);
}

/* What leaves no plan is named, and by how much the closest misses it. */
/* 93 GB of weights, of which 90 are experts, on devices of 80: replicas have to share them out. */
static void mixtures_fit_by_their_experts(void)
{
    const pdl_system_t *dgx = NULL;
    pdl_request_t       request = pdl_request_default();
    pdl_search_t       *search = NULL;
    pdl_parameters_t    p;
    pdl_projection_t    whole;

    REQUIRE_OK(pdl_system_load("dgx-h100", &dgx));
    pdl_parameters_default(&p);
    pdl_model_t  *model = NULL;
    pdl_oracle_t *oracle = NULL;
    REQUIRE_OK(pdl_model_load("mixtral-8x7b", &model));
    REQUIRE_OK(pdl_oracle_create(model, dgx, &p, &oracle));
    request.strategy = pdl_strategy_find("data");
    request.pe = request.batch = 8;
    request.precision = PDL_BF16;
    request.run_mode = PDL_INFERENCE;
    REQUIRE_OK(pdl_search_run(oracle, &request, &search));
    const pdl_candidate_t *found = &search->candidates[0];
    CHECK(found->possible && found->config.experts > 1);
    pdl_config_t config = found->config;
    config.experts = 1;
    CHECK_OK(pdl_oracle_evaluate(oracle, &config, NULL, &whole));
    CHECK(!whole.fits && whole.memory_bytes > 1.2 * found->projection.memory_bytes);
    /* The plan says so, and is what was searched. */
    CHECK(pdl_plan_expert_axis(found->plan) >= 0);
    pdl_search_destroy(search);
    pdl_oracle_destroy(oracle);
    pdl_model_destroy(model);
    pdl_system_destroy(dgx);
}

static void closest_plans(void)
{
    static const struct {
        const char *strategy;
        int64_t     pe, batch, micro_batches;
        const char *said;
    } asked[] = {{"tensor", 4, 4, 16, "--micro-batches 16 leaves no plan: 4 has one, 12 fewer"},
                 {"data", 16, 4, 0, "--batch 4 leaves no plan: 16 has one, 12 more"},
                 {"tensor", 5, 4, 0, "--devices 5 leaves no plan: 6 has one, 1 more"},
                 {"spatial", 4, 4, 0, "--strategy spatial leaves no plan: others have one"}};
    bench_t b = begin("gpt2-124m", "selene", 4);
    char    text[160];

    for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
        pdl_request_t r = b.request;
        r.strategy = pdl_strategy_find(asked[i].strategy);
        r.pe = asked[i].pe;
        r.batch = asked[i].batch;
        r.micro_batches = asked[i].micro_batches;
        CHECK_OK(pdl_search_closest(b.oracle, &r, text, sizeof(text)));
        CHECK_STR(text, asked[i].said);
    }
    end(&b);
}

/* Of any size: pipelines had micro-batches of 1, 2, 4, 8 and 16 samples only, whatever was asked for. */
static void pipelines_have_the_micro_batches_asked_for(void)
{
    static const int64_t asked[] = {1, 3, 12};
    bench_t              b = begin("gpt2-124m", "selene", 4);

    b.request.strategy = pdl_strategy_find("pipeline");
    b.request.batch = 36;
    for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
        pdl_search_t *search;
        b.request.micro_batches = asked[i];
        REQUIRE_OK(pdl_search_run(b.oracle, &b.request, &search));
        CHECK_INT(search->possible, 1);
        CHECK_INT(search->candidates[0].config.micro_batches, asked[i]);
        pdl_search_destroy(search);
    }
    end(&b);
}

static bool stop_at_once(void *context, double share)
{
    (void)context;
    (void)share;
    return true;
}

/* Nothing that may win is left out where a certificate is asked for; where something is, nothing is certified and the reason is said. */
static void what_is_not_replayed_is_said(void)
{
    pdl_exact_options_t all = {.top = 3, .threads = 1}, none = {.top = 3, .threads = 1, .stop = stop_at_once};
    bench_t             b = begin("resnet50", "abci-v", 64);
    char                text[4096];

    b.request.precision = PDL_FP32;
    for (int goal = 0; goal < PDL_GOAL_COUNT; goal++) {
        b.request.goal = (pdl_goal_t)goal;
        b.request.exact = NULL;
        pdl_search_t *some = search(&b);
        CHECK(some->certified == (some->not_replayed == 0) && some->certified == (some->not_certified[0] == '\0'));
        CHECK(goal != PDL_GOAL_TIME || strstr(some->not_certified, "were not replayed") != NULL);
        CHECK_OK(pdl_search_explain(b.oracle, &b.request, some, text, sizeof(text)));
        CHECK(some->certified || strstr(text, some->not_certified) != NULL);
        b.request.exact = &all;
        pdl_search_t *complete = search(&b);
        CHECK(complete->certified && complete->not_replayed == 0 && complete->not_certified[0] == '\0');
        CHECK(complete->candidates[0].score <= some->candidates[0].score * (1 + PDL_TIE));
        pdl_search_destroy(some);
        pdl_search_destroy(complete);
    }
    b.request.exact = &none;
    pdl_search_t *ended = search(&b);
    CHECK(ended->stopped == !ended->certified);
    CHECK(!ended->stopped || strstr(ended->not_certified, "ended") != NULL);
    pdl_search_destroy(ended);
    end(&b);
}

int main(void)
{
    RUN(all_have_one_batch);
    RUN(the_usual_batch_goes_by_the_size_of_a_sample);
    RUN(memory_makes_micro_batches);
    RUN(memory_is_counted_in_the_search);
    RUN(too_small_a_batch_says_what_works);
    RUN(mixed_is_named_after_what_it_is);
    RUN(mixed_stays_where_a_layer_differs);
    RUN(simpler_plans_come_first_in_a_tie);
    RUN(explanations_are_not_about_nothing);
    RUN(advice_is_new);
    RUN(reasons_are_true);
    RUN(reasons_name_what_is_in_the_way);
    RUN(strategies_do_not_depend_on_each_other);
    RUN(closest_plans);
    RUN(pipelines_have_the_micro_batches_asked_for);
    RUN(mixtures_fit_by_their_experts);
    RUN(what_is_not_replayed_is_said);
    return test_done();
}
