/*
 * Laws that hold for all plans, tried on random ones: the fast path gives what the slow one gives, faster links and
 * overlap do no harm, limits are errors.
 */
#include "oracle/bench.h"
#include "oracle/internal.h"
#include "random.h"
#include "test.h"

#include <stdlib.h>

static const pdl_system_t *abci, *selene;

static const char *const names[] = {"serial",       "data",        "spatial",
                                    "filter",       "channel",     "tensor",
                                    "pipeline",     "data+filter", "data+channel",
                                    "data+spatial", "data+tensor", "data+pipeline",
                                    "3d",           "context",     "data+context",
                                    "3d-context",   "4d",          "data+tensor+context"};

static pdl_config_t random_config(void)
{
    pdl_config_t c = pdl_config_default(names[between(0, (int)(sizeof(names) / sizeof(*names)) - 1)]);

    if (pdl_strategy_has(c.strategy, PDL_AXIS_DATA))
        c.data = between(0, 3) ? INT64_C(1) << between(0, 5) : between(1, 9);
    if (pdl_strategy_has(c.strategy, PDL_AXIS_SPATIAL)) c.spatial = between(1, 4);
    if (pdl_strategy_has(c.strategy, PDL_AXIS_TENSOR))
        c.tensor = between(0, 3) ? INT64_C(1) << between(0, 4) : between(1, 12);
    if (pdl_strategy_has(c.strategy, PDL_AXIS_PIPELINE)) c.pipeline = between(1, 8);
    c.order = (pdl_order_t)between(0, PDL_ORDER_COUNT - 1);
    c.micro_batches = between(1, 6);
    c.batch = c.data * c.micro_batches * between(1, 4) + between(0, 2);
    /* Plans refuse micro-batches that would be empty. */
    int64_t samples = (c.batch + c.data - 1) / c.data, size = (samples + c.micro_batches - 1) / c.micro_batches;
    c.micro_batches = (samples + size - 1) / size;
    c.schedule = (pdl_pipeline_schedule_t)between(0, PDL_SCHEDULE_COUNT - 1);
    c.virtual_stages = c.schedule == PDL_SCHEDULE_INTERLEAVED ? (int)between(1, 3) : 1;
    c.recompute = (pdl_recompute_t)between(0, PDL_RECOMPUTE_COUNT - 1);
    c.sharding = (pdl_sharding_t)between(0, PDL_SHARDING_COUNT - 1);
    c.optimizer_tier = between(0, 3) ? PDL_TIER_DEVICE : PDL_TIER_HOST;
    c.sequence_parallel = between(0, 1);
    c.optimizer = (pdl_optimizer_t)between(0, PDL_OPTIMIZER_COUNT - 1);
    c.precision = between(0, 1) ? PDL_FP32 : PDL_FP16;
    c.run_mode = between(0, 4) ? PDL_TRAINING : PDL_INFERENCE;
    return c;
}

static void check_equal(const pdl_projection_t *a, const pdl_projection_t *b)
{
    CHECK_NEAR(a->total_s, b->total_s, 1e-12);
    CHECK_NEAR(a->low_s, b->low_s, 1e-12);
    CHECK_NEAR(a->high_s, b->high_s, 1e-12);
    CHECK_NEAR(a->congested_s, b->congested_s, 1e-12);
    CHECK_NEAR(a->compute_s, b->compute_s, 1e-12);
    CHECK_NEAR(a->bubble_s, b->bubble_s, 1e-9);
    CHECK_NEAR(a->io_s, b->io_s, 1e-12);
    for (int i = 0; i < PDL_COMM_CLASS_COUNT; i++) {
        CHECK_NEAR(a->comm[i], b->comm[i], 1e-12);
    }
    CHECK_NEAR(a->gradient_total_s, b->gradient_total_s, 1e-12);
    CHECK_NEAR(a->contention, b->contention, 1e-12);
    CHECK_NEAR(a->memory_bytes, b->memory_bytes, 1e-12);
    CHECK_NEAR(a->energy_j, b->energy_j, 1e-12);
    CHECK_NEAR(a->flop, b->flop, 0);
    CHECK_INT(a->fits, b->fits);
}

/* What holds for every projection. */
static void check_sane(const pdl_projection_t *r)
{
    double comm = 0;

    for (int i = 0; i < PDL_COMM_CLASS_COUNT; i++) {
        CHECK(r->comm[i] >= 0);
        comm += r->comm[i];
    }
    CHECK_NEAR(r->comm_s, comm, 1e-12);
    CHECK_NEAR(r->compute_s, r->forward_s + r->backward_s + r->update_s, 1e-9);
    CHECK_NEAR(r->total_s, r->compute_s + r->comm_s + r->bubble_s + r->io_s, 1e-12);
    CHECK(r->low_s <= r->total_s && r->total_s <= r->high_s && r->congested_s >= r->total_s);
    CHECK(r->comm[PDL_COMM_GRADIENT] <= r->gradient_total_s);
    CHECK(r->bubble_s >= -1e-12 * r->total_s && r->contention >= 1 && r->memory_bytes > 0);
    CHECK(r->replicated_share >= 0 && r->replicated_share <= 1 + 1e-12 && r->stage_imbalance >= 1 - 1e-12);
    CHECK(r->layer_startup_s <= r->comm[PDL_COMM_LAYER] * (1 + 1e-12));
}

/* Kept costs and small meshes change nothing: evaluate() is project() on the plan, errors included. */
static void check_both_ways(bench_t *b, const pdl_dataset_t *dataset, const pdl_config_t *c, int *compared)
{
    pdl_projection_t fast, slow;
    pdl_plan_t      *plan = NULL;
    pdl_status_t     planned = pdl_oracle_plan(b->oracle, c, &plan), evaluated;
    int              before = test_failures;

    if (!planned) planned = pdl_oracle_project(b->oracle, plan, dataset, &slow);
    evaluated = pdl_oracle_evaluate(b->oracle, c, dataset, &fast);
    CHECK_INT(evaluated, planned);
    if (!evaluated && !planned) {
        check_equal(&fast, &slow);
        check_sane(&fast);
        ++*compared;
    }
    if (test_failures != before)
        printf("  (%s, %s, order %d: pipeline %lld data %lld spatial %lld tensor %lld experts %lld, batch %lld in "
               "%lld; %s)\n",
               pdl_model_name(b->model), c->strategy->name, c->order, (long long)c->pipeline, (long long)c->data,
               (long long)c->spatial, (long long)c->tensor, (long long)c->experts, (long long)c->batch,
               (long long)c->micro_batches, evaluated || planned ? pdl_error_message() : "both succeed");
    pdl_plan_destroy(plan);
}

static void evaluate_equals_project(void)
{
    static const char *const models[] = {"resnet50", "vgg16",     "gpt2-124m",    "unet",
                                         "vit-b16",  "lenet",     "mixtral-8x7b", "cosmoflow-128",
                                         "deepcam",  "llama2-7b", "alexnet",      "wrn-28-10"};
    pdl_dataset_t            dataset;
    int                      compared = 0;

    REQUIRE_OK(pdl_dataset_load("imagenet", &dataset));
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        for (int s = 0; s < 2; s++) {
            pdl_parameters_t p;
            pdl_parameters_default(&p);
            p.overlap_gradients = between(0, 1);
            p.published_forms = between(0, 3) == 0;
            bench_t b = begin(models[i], s ? selene : abci, p);
            for (int times = 0; times < 16; times++) {
                pdl_config_t c = random_config();
                check_both_ways(&b, between(0, 1) ? &dataset : NULL, &c, &compared);
            }
            end(&b);
        }
    CHECK(compared > 100);
}

/* The same where replicas share experts out, in every order of axes, and of the exact search's steps no more than of all. */
static void experts_of_replicas_too(void)
{
    static const char *const with_experts[] = {"data",         "data+pipeline", "data+tensor",         "3d",
                                               "data+context", "3d-context",    "data+tensor+context", "4d"};
    pdl_parameters_t         p;
    int                      compared = 0;

    pdl_parameters_default(&p);
    for (int times = 0; times < 200; times++) {
        p.overlap_gradients = between(0, 1);
        p.shaped_kernels = between(0, 1);
        bench_t      b = begin("mixtral-8x7b", times % 2 ? selene : abci, p);
        pdl_config_t c = random_config();
        c.strategy = pdl_strategy_find(with_experts[between(0, 7)]);
        if (!pdl_strategy_has(c.strategy, PDL_AXIS_PIPELINE)) c.pipeline = 1;
        c.tensor = pdl_strategy_has(c.strategy, PDL_AXIS_TENSOR) ? INT64_C(1) << between(0, 2) : 1;
        c.spatial = pdl_strategy_has(c.strategy, PDL_AXIS_SPATIAL) ? INT64_C(1) << between(0, 2) : 1;
        int64_t replicas = INT64_C(1) << between(c.spatial == 1, 3);
        c.experts = c.spatial * replicas;
        c.data = replicas * between(1, 3);
        c.batch = c.data * c.micro_batches * between(1, 3);
        check_both_ways(&b, NULL, &c, &compared);
        end(&b);
    }
    CHECK(compared > 100);
}

/* Two replicas of two that share experts out, beside two ranks with the tokens of each, which share them out too or have the same ones. */
static void experts_beside_a_context_axis(void)
{
    pdl_config_t     c = pdl_config_default("data+tensor+context");
    pdl_parameters_t p;
    pdl_projection_t out[2], played[2];
    double           experts = 0;

    pdl_parameters_default(&p);
    p.overlap_gradients = false;
    p.memory_margin = 1;
    for (int same = 0; same < 2; same++) {
        bench_t     b = begin("mixtral-8x7b", selene, p);
        pdl_plan_t *plan = NULL;
        c.data = 4;
        c.spatial = 2;
        c.tensor = 2;
        c.experts = 4;
        c.batch = 8;
        c.optimizer = PDL_OPTIMIZER_ADAM;
        c.precision = PDL_BF16;
        c.sharding = PDL_SHARDING_ZERO1;
        REQUIRE_OK(pdl_oracle_plan(b.oracle, &c, &plan));
        int spatial = pdl_mesh_find(&plan->mesh, PDL_AXIS_SPATIAL);
        experts = 0;
        for (int i = 0; i < pdl_model_layer_count(b.model); i++) {
            const pdl_layer_t *layer = pdl_model_layer(b.model, i);
            if (layer->type != PDL_LAYER_MOE) continue;
            CHECK_INT(plan->modes[i].on[spatial], PDL_MODE_EXPERT);
            if (same) plan->modes[i].on[spatial] = PDL_MODE_SPACE;
            experts += (double)layer->weights;
        }
        CHECK_OK(pdl_plan_check(plan));
        CHECK_OK(pdl_oracle_project(b.oracle, plan, NULL, &out[same]));
        CHECK_OK(pdl_oracle_replay(b.oracle, plan, NULL, &played[same]));
        CHECK_NEAR(played[same].gradient_total_s, out[same].gradient_total_s, 0.02);
        pdl_plan_destroy(plan);
        end(&b);
    }
    /* 2 bytes of a weight and 4 of its gradient; 12 of state, of which each of the two replicas has half. A rank has an eighth of the
       experts, or a quarter. */
    CHECK_NEAR(out[1].memory.weights - out[0].memory.weights, 2 * experts / 8, 1e-6);
    CHECK_NEAR(out[1].memory.optimizer - out[0].memory.optimizer, 12 * experts / 8 / 2, 1e-6);
    CHECK(out[1].gradient_total_s > out[0].gradient_total_s);
}

/* The search plays quickly, and drops what cannot win by a bound: neither may differ from what the plan is said to take. */
static void bounds_hold_and_quick_plays_agree(void)
{
    static const char *const models[] = {"resnet50", "gpt2-124m", "vgg16"};
    int                      compared = 0;

    for (int times = 0; times < 200; times++) {
        pdl_parameters_t p;
        pdl_config_t     c = random_config();
        pdl_projection_t quick, played;
        pdl_plan_t      *plan = NULL;
        double           bound;

        pdl_parameters_default(&p);
        p.overlap_gradients = between(0, 1);
        p.overlap_stages = between(0, 1);
        bench_t b = begin(models[between(0, 2)], between(0, 1) ? selene : abci, p);
        if (pdl_oracle_plan(b.oracle, &c, &plan) == PDL_OK &&
            pdl__evaluate_replayed(b.oracle, &c, NULL, &quick) == PDL_OK) {
            CHECK_OK(pdl_oracle_replay(b.oracle, plan, NULL, &played));
            CHECK_NEAR(quick.total_s, played.total_s, 0.01);
            CHECK_OK(pdl__replay_bound(b.oracle, &c, 0, &bound));
            CHECK(bound <= quick.total_s * (1 + 1e-9));
            compared++;
        }
        pdl_plan_destroy(plan);
        end(&b);
    }
    CHECK(compared > 50);
}

/* More bandwidth is never slower, and overlap never worse than none. */
static void faster_links_are_never_slower(void)
{
    for (int times = 0; times < 150; times++) {
        static const char *const models[] = {"resnet50", "gpt2-124m", "vgg16"};
        pdl_system_t             fast = *abci;
        pdl_parameters_t         p;
        pdl_config_t             c = random_config();
        pdl_projection_t         slow_r, fast_r, hidden_r;

        for (int l = 0; l < fast.level_count; l++) fast.level[l].bandwidth_bytes_per_s *= between(0, 1) ? 2 : 1;
        pdl_parameters_default(&p);
        p.overlap_gradients = p.overlap_stages = false;
        const char *name = models[between(0, 2)];
        bench_t     slow = begin(name, abci, p), quick = begin(name, &fast, p);
        if (pdl_oracle_evaluate(slow.oracle, &c, NULL, &slow_r) == PDL_OK) {
            fast_r = evaluate(&quick, &c);
            /* Stages are cut by time: faster links may move a cut to where larger tensors cross. */
            if (c.pipeline == 1) CHECK(fast_r.total_s <= slow_r.total_s * (1 + 1e-12));
            p.overlap_gradients = p.overlap_stages = true;
            pdl_oracle_set_parameters(slow.oracle, &p);
            hidden_r = evaluate(&slow, &c);
            CHECK(hidden_r.total_s <= slow_r.total_s * (1 + 1e-12));
            CHECK_NEAR(hidden_r.gradient_total_s, slow_r.gradient_total_s, 1e-12);
        }
        end(&slow);
        end(&quick);
    }
}

/* Every strategy on one device is serial. */
static void one_pe_is_serial(void)
{
    bench_t          b = begin("resnet50", abci, simple());
    pdl_config_t     serial = pdl_config_default("serial");
    pdl_projection_t s;

    serial.batch = 16;
    s = evaluate(&b, &serial);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        pdl_config_t c = serial;
        c.strategy = pdl_strategy_find(names[i]);
        pdl_projection_t r = evaluate(&b, &c);
        check_equal(&r, &s);
    }
    end(&b);
}

/* With one bucket nothing can be hidden; the last bucket never can. */
static void overlap_hides_all_but_the_last_bucket(void)
{
    pdl_parameters_t p = simple();

    p.overlap_gradients = true;
    bench_t      b = begin("vgg16", abci, p);
    pdl_config_t config = pdl_config_default("data");
    config.data = 16;
    config.batch = 16 * 32;
    pdl_projection_t r = evaluate(&b, &config);
    CHECK(r.comm[PDL_COMM_GRADIENT] > 0 && r.comm[PDL_COMM_GRADIENT] < r.gradient_total_s);
    /* Long after all weights but those of the first layers are exchanged, their own remain. */
    config.batch = 16 * 4096;
    r = evaluate(&b, &config);
    CHECK(r.comm[PDL_COMM_GRADIENT] > 0 && r.comm[PDL_COMM_GRADIENT] < 0.2 * r.gradient_total_s);
    end(&b);
}

static void limits_are_errors(void)
{
    bench_t          b = begin("vgg16", abci, simple());
    pdl_projection_t r;
    pdl_config_t     c = pdl_config_default("data");

    c.data = 8, c.batch = 4;
    CHECK_ERROR(pdl_oracle_evaluate(b.oracle, &c, NULL, &r), "a batch of 4 is too small for 8 replicas");
    c.batch = 16, c.micro_batches = 3;
    CHECK_ERROR(pdl_oracle_evaluate(b.oracle, &c, NULL, &r), "3 micro-batches");
    c = pdl_config_default("filter");
    c.tensor = 128, c.batch = 4;
    CHECK_ERROR(pdl_oracle_evaluate(b.oracle, &c, NULL, &r), "has 64 filters");
    c = pdl_config_default("pipeline");
    c.pipeline = 64, c.batch = 64, c.micro_batches = 64;
    CHECK_ERROR(pdl_oracle_evaluate(b.oracle, &c, NULL, &r), "64 pipeline stages");
    c = pdl_config_default("spatial");
    c.spatial = 300, c.batch = 4;
    CHECK_ERROR(pdl_oracle_evaluate(b.oracle, &c, NULL, &r), "features.0");
    c = pdl_config_default("data");
    c.data = c.batch = 8192;
    CHECK_ERROR(pdl_oracle_evaluate(b.oracle, &c, NULL, &r), "has only 4352");
    c = pdl_config_default("data");
    c.tensor = 2, c.batch = 8;
    CHECK_ERROR(pdl_oracle_evaluate(b.oracle, &c, NULL, &r), "no tensor axis");
    c = pdl_config_default("everything");
    CHECK_ERROR(pdl_oracle_evaluate(b.oracle, &c, NULL, &r), "needs a strategy");
    c = pdl_config_default("pipeline");
    c.pipeline = 2, c.batch = 4, c.virtual_stages = 2;
    CHECK_ERROR(pdl_oracle_evaluate(b.oracle, &c, NULL, &r), "interleaved");
    end(&b);
}

static void largest_batch_is_the_border(void)
{
    bench_t          b = begin("resnet50", abci, simple());
    pdl_config_t     c = pdl_config_default("data");
    pdl_projection_t r;
    int64_t          batch = 0;

    c.data = 4;
    CHECK_OK(pdl_oracle_largest_batch(b.oracle, &c, &batch));
    CHECK(batch > 4 && batch % 4 == 0);
    c.batch = batch;
    r = evaluate(&b, &c);
    CHECK(r.fits && r.memory_bytes <= 16e9);
    c.batch = batch + 4;
    r = evaluate(&b, &c);
    CHECK(!r.fits);
    pdl_oracle_set_memory_cap(b.oracle, 1e6);
    CHECK_OK(pdl_oracle_largest_batch(b.oracle, &c, &batch));
    CHECK_INT(batch, 0);
    end(&b);
}

int main(void)
{
    if (pdl_system_load("abci-v", &abci) || pdl_system_load("selene", &selene)) return 1;
    RUN(one_pe_is_serial);
    RUN(evaluate_equals_project);
    RUN(bounds_hold_and_quick_plays_agree);
    RUN(faster_links_are_never_slower);
    RUN(overlap_hides_all_but_the_last_bucket);
    RUN(limits_are_errors);
    RUN(largest_batch_is_the_border);
    RUN(experts_of_replicas_too);
    RUN(experts_beside_a_context_axis);
    pdl_system_destroy(abci);
    pdl_system_destroy(selene);
    return test_done();
}
