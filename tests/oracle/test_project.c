/*
 * Projections against the formulas they stand for: with simple parameters every strategy equals its closed form.
 */
#include "oracle/bench.h"
#include "test.h"

#include "oracle/cost/cost.h"

#include <paradl/system/fabric.h>
#include <stdlib.h>

static const pdl_system_t *abci, *selene;

static double ring(double ranks, double alpha, double bytes, double beta)
{
    return (ranks - 1) * (alpha + bytes / ranks * beta);
}

/* Seconds of one layer in forward and backward, `pieces` ranks sharing its filters or channels. */
static void layer_time(const bench_t *b, const pdl_layer_t *layer, double samples, double pieces, bool filters,
                       double *forward, double *backward)
{
    pdl_compute_cost_t cost;
    double             x = (double)layer->x_elements, y = (double)layer->y_elements, w = (double)layer->weights;
    double             bias = (double)layer->bias_weights;
    pdl_local_t        local = {.samples = samples,
                                .share_forward = 1 / pieces,
                                .share_backward_data = 1 / pieces,
                                .share_backward_weight = 1 / pieces,
                                .x_elements = filters ? x : x / pieces,
                                .y_elements = filters ? y / pieces : y,
                                .weights = filters ? w / pieces : (w - bias) / pieces + bias,
                                .out_channels = (double)layer->out.channels,
                                .in_channels = (double)layer->in.channels};

    pdl__compute_cost(abci, &abci->device, &b->p, PDL_FP32, &cost);
    pdl__layer_seconds(&cost, layer, &local, forward, backward);
}

static void serial_is_the_sum_of_its_layers(void)
{
    bench_t            b = begin("resnet50", abci, simple());
    pdl_config_t       config = pdl_config_default("serial");
    double             forward = 0, backward = 0;
    pdl_model_totals_t totals;

    config.batch = 32;
    pdl_projection_t r = evaluate(&b, &config);
    for (int i = 0; i < pdl_model_layer_count(b.model); i++) {
        double f, k;
        layer_time(&b, pdl_model_layer(b.model, i), 32, 1, true, &f, &k);
        forward += f;
        backward += k;
    }
    pdl_model_totals(b.model, &totals);
    CHECK_NEAR(r.forward_s, forward, 1e-12);
    CHECK_NEAR(r.backward_s, backward, 1e-12);
    /* SGD with momentum touches five 32-bit values per weight. */
    CHECK_NEAR(r.update_s, (double)totals.weights * 20 / (900e9 * 0.85), 1e-12);
    CHECK_NEAR(r.compute_s, forward + backward + r.update_s, 1e-12);
    CHECK_NEAR(r.total_s, r.compute_s, 1e-12);
    CHECK_NEAR(r.comm_s + r.bubble_s + r.io_s, 0, 0);
    CHECK_NEAR(r.flop, 32 * (double)(totals.flop_forward + totals.flop_backward), 1e-12);
    CHECK_NEAR(r.stage_imbalance, 1, 1e-12);
    end(&b);
}

/* comp = serial on B / p samples; comm = 2 (p-1)(alpha + sum|w| delta beta / p). */
static void data_follows_its_formula(void)
{
    bench_t            b = begin("vgg16", abci, simple());
    pdl_config_t       data = pdl_config_default("data"), serial = pdl_config_default("serial");
    pdl_model_totals_t totals;

    pdl_model_totals(b.model, &totals);
    serial.batch = 32;
    pdl_projection_t s = evaluate(&b, &serial);
    for (int64_t p = 2; p <= 64; p *= 2) {
        data.data = p;
        data.batch = 32 * p;
        pdl_projection_t r = evaluate(&b, &data);
        double alpha = p <= 4 ? 9e-6 : 40.31e-6, beta = p <= 4 ? 1 / (50e9 * fmin(3, (double)p - 1)) : 1 / 12.5e9;
        CHECK_NEAR(r.compute_s, s.compute_s, 1e-12);
        CHECK_NEAR(r.comm_s, 2 * ring((double)p, alpha, (double)totals.weights * 4, beta), 1e-9);
        CHECK_NEAR(r.total_s, r.compute_s + r.comm_s, 1e-12);
    }
    end(&b);
}

typedef struct parts {
    double forward, backward, comm, weights, replicated_weights, startup;
} parts_t;

/* Filter or channel parallelism of VGG-16 in the published form, `samples` in a group of p with alpha and beta. */
static parts_t published(const bench_t *b, bool filter, double samples, double p, double alpha, double beta)
{
    parts_t sum = {0};
    bool    first = true;

    for (int i = 0; i < pdl_model_layer_count(b->model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(b->model, i);
        bool               conv = layer->type == PDL_LAYER_CONV, split = conv && (filter || !first);
        double f, k, y = samples * (double)layer->y_elements * 4, x = samples * (double)layer->x_elements * 4;
        layer_time(b, layer, samples, split ? p : 1, filter, &f, &k);
        sum.forward += f;
        sum.backward += k;
        if (split) {
            double gathered = filter ? y : x, reduced = filter ? x : y;
            if (filter || !first)
                sum.comm += (filter || layer->needs_input_gradient) ? ring(p, alpha, gathered, beta) : 0;
            if (!first) sum.comm += 2 * ring(p, alpha, reduced, beta);
            sum.weights += filter
                               ? (double)layer->weights / p
                               : (double)(layer->weights - layer->bias_weights) / p + (double)layer->bias_weights;
        } else
            sum.replicated_weights += (double)layer->weights;
        if (conv) first = false;
    }
    return sum;
}

static void check_width(const char *strategy, bool filter)
{
    pdl_parameters_t p = simple();

    p.published_forms = true;
    bench_t      b = begin("vgg16", abci, p);
    pdl_config_t config = pdl_config_default(strategy);
    config.tensor = 4;
    config.batch = 32;
    pdl_projection_t r = evaluate(&b, &config);
    parts_t          e = published(&b, filter, 32, 4, 9e-6, 1 / 150e9);
    CHECK_NEAR(r.forward_s, e.forward, 1e-12);
    CHECK_NEAR(r.backward_s, e.backward, 1e-12);
    CHECK_NEAR(r.comm[PDL_COMM_LAYER], e.comm, 1e-12);
    CHECK_NEAR(r.comm_s, e.comm, 1e-12);
    CHECK_NEAR(r.update_s, (e.weights + e.replicated_weights) * 20 / (900e9 * 0.85), 1e-12);
    end(&b);
}

static void filter_and_channel_follow_their_formulas(void)
{
    check_width("filter", true);
    check_width("channel", false);
}

/* Four simultaneous rings over two ports: phi = 2. */
static void data_filter_follows_its_formula(void)
{
    pdl_parameters_t p = simple();

    p.published_forms = true;
    bench_t      b = begin("vgg16", abci, p);
    pdl_config_t config = pdl_config_default("data+filter");
    config.tensor = 4;
    config.data = 8;
    config.batch = 8 * 32;
    pdl_projection_t r = evaluate(&b, &config);
    parts_t          e = published(&b, true, 32, 4, 9e-6, 1 / 150e9);
    double           bytes = (e.weights + e.replicated_weights) * 4;
    CHECK_NEAR(r.contention, 2, 1e-12);
    CHECK_NEAR(r.comm[PDL_COMM_LAYER], e.comm, 1e-12);
    CHECK_NEAR(r.comm[PDL_COMM_GRADIENT], 2 * ring(8, 40.31e-6, bytes, 2 / 12.5e9), 1e-9);
    CHECK_NEAR(r.forward_s + r.backward_s, e.forward + e.backward, 1e-12);
    end(&b);
}

/* Halo of x forward and of its gradient backward, gather where the split ends, gradients inside and across. */
static void data_spatial_follows_its_formula(void)
{
    bench_t      b = begin("vgg16", abci, simple());
    pdl_config_t config = pdl_config_default("data+spatial");
    double       halo = 0, alpha = 9e-6, weights = 0, linear = 0;
    pdl_group_t  group;

    config.spatial = 2;
    config.data = 8;
    config.batch = 8 * 16;
    pdl_projection_t r = evaluate(&b, &config);
    CHECK_OK(pdl__group(abci, &b.p, &(pdl_group_query_t){16, 2, 1, false, PDL_PATTERN_NEIGHBOURS}, &group));
    for (int i = 0; i < pdl_model_layer_count(b.model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(b.model, i);
        /* One row of a 3x3 window crosses the only border; pooling 7 rows of 14 needs one row as well. */
        bool   shifted = layer->type == PDL_LAYER_MAX_POOL && layer->in.extent[0] == 14;
        double bytes = 16.0 * (double)(layer->in.channels * layer->in.extent[1]) * 4;
        if (layer->type == PDL_LAYER_CONV || shifted)
            halo += (layer->needs_input_gradient ? 2 : 1) * (alpha + bytes * group.seconds_per_byte);
        *(layer->type == PDL_LAYER_LINEAR ? &linear : &weights) += (double)layer->weights;
    }
    CHECK_NEAR(r.comm[PDL_COMM_HALO], halo, 1e-12);
    CHECK_NEAR(r.comm[PDL_COMM_LAYER], ring(2, alpha, 16.0 * 512 * 49 * 4, 1 / 50e9), 1e-12);
    CHECK_OK(pdl__group(abci, &b.p, &(pdl_group_query_t){16, 8, 2, false, PDL_PATTERN_RING}, &group));
    double inside = 2 * ring(2, alpha, weights * 4, 1 / 50e9);
    double across = 2 * ring(8, 40.31e-6, weights * 4 / 2, group.seconds_per_byte);
    double whole = 2 * ring(8, 40.31e-6, linear * 4, group.seconds_per_byte);
    CHECK_NEAR(r.comm[PDL_COMM_GRADIENT], inside + across + whole, 1e-12);
    end(&b);
}

static const char equal_layers[] =
    "paradl: model/1\nname: equal\ninput: {channels: 1, size: [96, 96]}\n"
    "blocks:\n  same:\n    layers:\n      - conv: {name: conv, out: 128, kernel: 5, pad: 2, bias: false}\n"
    "layers:\n  - conv: {name: first, out: 128, kernel: 1, bias: false}\n  - {block: same, name: body, repeat: "
    "16}\n";

static pdl_config_t pipeline(int64_t stages, int64_t micro_batches)
{
    pdl_config_t config = pdl_config_default("pipeline");
    config.pipeline = stages;
    config.micro_batches = micro_batches;
    config.batch = 4 * micro_batches;
    return config;
}

/* (m + p - 1) passes of a stage, bubble share (p-1)/(p+m-1), with v virtual stages a v-th of that, if every stage has a micro-batch; with
   one micro-batch stages wait for each other however they are cut. */
static void pipeline_follows_its_formula(void)
{
    bench_t b = begin(equal_layers, abci, simple());

    for (int64_t p = 2; p <= 8; p *= 2)
        for (int64_t m = 1; m <= 32; m *= 4) {
            pdl_config_t     config = pipeline(p, m), one = pipeline(1, 1);
            pdl_projection_t r = evaluate(&b, &config), s = evaluate(&b, &one);
            double           stage = (s.forward_s + s.backward_s) / (double)p, bubble = r.bubble_s;
            double           passes = r.forward_s + r.backward_s;
            CHECK_NEAR(passes + bubble, (double)(m + p - 1) * stage, 0.01);
            CHECK_NEAR(bubble / (passes + bubble), (double)(p - 1) / (double)(p + m - 1), 0.01);
            config.schedule = PDL_SCHEDULE_GPIPE;
            CHECK_NEAR(evaluate(&b, &config).bubble_s, bubble, 0.01);
            config.schedule = PDL_SCHEDULE_INTERLEAVED;
            config.virtual_stages = 2;
            pdl_projection_t v = evaluate(&b, &config);
            if (m >= p) CHECK_NEAR(v.bubble_s / passes, (double)(p - 1) / (double)(2 * m), 0.03);
            if (m == 1) CHECK_NEAR(v.bubble_s / passes, (double)(p - 1), 0.03);
        }
    end(&b);
}

static pdl_projection_t played(bench_t *b, const pdl_config_t *config)
{
    pdl_projection_t projection = {.total_s = 0};
    pdl_plan_t      *plan = NULL;

    CHECK_OK(pdl_oracle_plan(b->oracle, config, &plan));
    CHECK_OK(pdl_oracle_replay(b->oracle, plan, NULL, &projection));
    pdl_plan_destroy(plan);
    return projection;
}

/* Even stages and transfers that take their time: the closed form is what comes out when every pass is played. Two stages, or
   links that are all alike. */
static void even_pipelines_are_exact(void)
{
    static const pdl_pipeline_schedule_t schedules[] = {PDL_SCHEDULE_GPIPE, PDL_SCHEDULE_1F1B};
    int                                  held = 0;

    for (; held < 2; held++) {
        pdl_parameters_t p = simple();
        p.overlap_stages = held == 0;
        bench_t b = begin(equal_layers, selene, p);

        for (int64_t q = 2; q <= 8; q *= 2)
            for (int64_t m = 1; m <= 40; m = 2 * m + 1)
                for (int s = 0; s < 2; s++) {
                    pdl_config_t config = pipeline(q, m);

                    config.schedule = schedules[s];
                    CHECK_NEAR(evaluate(&b, &config).total_s, played(&b, &config).total_s, 0.01);
                }
        end(&b);
    }
}

/* The word table is used by the first and the last stage: both hold it, and sum its gradients. */
/* Two ranks on one device take twice the time, and what is lost; stages take turns on it. */
static void ranks_that_share_a_device_take_longer(void)
{
    pdl_system_t     one = *abci, two;
    pdl_parameters_t p = simple();
    pdl_config_t     config = pdl_config_default("data");
    double           alone;

    one.level[0].fanout = one.level[1].fanout = one.level_count = (int)(one.pe_count = 1);
    one.device.sharing = 0.8;
    one.device.step_s = 0.01;
    two = pdl_system_widen(&one, 2);
    CHECK_NEAR(two.device.sharers, 2, 0);
    bench_t b = begin("alexnet", &one, p);
    config.batch = 32;
    alone = evaluate(&b, &config).compute_s - one.device.step_s;
    end(&b);
    b = begin("alexnet", &two, p);
    config.data = 2;
    config.batch = 64;
    CHECK_NEAR(evaluate(&b, &config).compute_s, alone * 2 / 0.8 + one.device.step_s, 1e-6);
    end(&b);
}

/* A device that is faster than its host waits for it: a pass that it has nothing to do for takes none of the host's time. */
static void the_host_takes_its_time_for_every_pass(void)
{
    pdl_system_t     slow = *abci;
    pdl_parameters_t p = simple();
    pdl_config_t     config = pdl_config_default("serial");

    slow.device.queue_s = 1;
    bench_t b = begin("paradl: model/1\nname: two\ninput: {channels: 8}\nlayers:\n  - linear: 8\n  - linear: 8\n"
                      "  - cross_entropy\n",
                      &slow, p);
    CHECK_NEAR(evaluate(&b, &config).compute_s, 6, 0.01);
    config.run_mode = PDL_INFERENCE;
    CHECK_NEAR(evaluate(&b, &config).compute_s, 3, 0.01);
    end(&b);
}

static void tied_embeddings_are_summed(void)
{
    bench_t          b = begin("gpt2-124m", abci, simple());
    pdl_config_t     c = pipeline(4, 8), one = pipeline(1, 8);
    pdl_projection_t r = evaluate(&b, &c), s = evaluate(&b, &one);
    double           table = 50257.0 * 768 * 4;

    CHECK_NEAR(r.comm[PDL_COMM_GRADIENT], 2 * ring(2, 9e-6, table, 1 / 150e9), 1e-12);
    CHECK_NEAR(s.comm[PDL_COMM_GRADIENT], 0, 0);
    CHECK(r.memory.weights >= table);
    c.run_mode = PDL_INFERENCE;
    r = evaluate(&b, &c);
    CHECK_NEAR(r.comm[PDL_COMM_GRADIENT], 0, 0);
    end(&b);
}

/* Between decoders b s h cross, before the loss fifty times as much: no stage begins there, nor with the input
   alone. */
static void stages_are_cut_where_little_crosses(void)
{
    bench_t b = begin("gpt2-124m", abci, simple());

    for (int64_t p = 2; p <= 24; p++) {
        pdl_config_t     c = pipeline(p, 4);
        pdl_plan_t      *plan;
        pdl_projection_t r;
        CHECK_OK(pdl_oracle_plan(b.oracle, &c, &plan));
        CHECK_OK(pdl_oracle_project(b.oracle, plan, NULL, &r));
        CHECK_OK(pdl_plan_check(plan));
        CHECK(plan->stage_first[1] > 1);
        CHECK(plan->stage_first[p - 1] < pdl_model_find_layer(b.model, "loss"));
        pdl_plan_destroy(plan);
    }
    end(&b);
}

/* GPipe keeps all micro-batches of a stage, 1F1B no more than stages that follow. */
static void micro_batches_in_flight(void)
{
    bench_t b = begin(equal_layers, selene, simple());

    for (int64_t m = 1; m <= 16; m *= 2) {
        pdl_config_t     config = pipeline(4, m), one = pipeline(4, 1);
        pdl_projection_t alone = evaluate(&b, &one), r = evaluate(&b, &config);
        CHECK_NEAR(r.memory.saved_activations, fmin((double)m, 4) * alone.memory.saved_activations, 0.02);
        config.schedule = PDL_SCHEDULE_GPIPE;
        r = evaluate(&b, &config);
        CHECK_NEAR(r.memory.saved_activations, (double)m * alone.memory.saved_activations, 0.02);
    }
    end(&b);
}

/* Bytes per weight with Adam: 16 in 32 bits, 2 + 2 + 12 mixed; sharding divides them by the replicas in turn. */
static void sharded_states(void)
{
    static const double kept[][3] = {{4, 4, 8}, {2, 2, 12}};
    bench_t             b = begin("gpt2-124m", selene, simple());
    pdl_model_totals_t  totals;

    pdl_model_totals(b.model, &totals);
    double w = (double)totals.weights;
    for (int mixed = 0; mixed < 2; mixed++) {
        double plain = 0;
        for (int sharding = 0; sharding < PDL_SHARDING_COUNT; sharding++) {
            pdl_config_t config = pdl_config_default("data");
            double       d = 8;
            config.data = 8;
            config.batch = 16;
            config.optimizer = PDL_OPTIMIZER_ADAM;
            config.precision = mixed ? PDL_BF16 : PDL_FP32;
            config.sharding = (pdl_sharding_t)sharding;
            pdl_projection_t r = evaluate(&b, &config);
            CHECK_NEAR(r.memory.weights, w * kept[mixed][0] / (sharding >= PDL_SHARDING_ZERO3 ? d : 1), 1e-12);
            CHECK_NEAR(r.memory.gradients, w * kept[mixed][1] / (sharding >= PDL_SHARDING_ZERO2 ? d : 1), 1e-12);
            CHECK_NEAR(r.memory.optimizer, w * kept[mixed][2] / (sharding >= PDL_SHARDING_ZERO1 ? d : 1), 1e-12);
            /* One allreduce, or two or three collectives of half its bytes, with a start-up each. */
            double startup = selene->fabric->value[PDL_FABRIC_STARTUP],
                   calls = sharding == PDL_SHARDING_ZERO3 ? 3 : 2;
            if (sharding == 0) plain = r.comm_s;
            CHECK_NEAR(r.comm_s, sharding == 0 ? plain : calls * startup + calls / 2 * (plain - startup), 1e-9);
            CHECK_NEAR(r.update_s,
                       w * 28 / (sharding ? d : 1) /
                           (selene->device.memory_efficiency * selene->device.memory_bandwidth_bytes_per_s),
                       1e-12);
        }
    }
    end(&b);
}

static void recompute_adds_a_forward(void)
{
    bench_t      b = begin("gpt2-124m", selene, simple());
    pdl_config_t config = pdl_config_default("data+tensor");

    config.tensor = 4;
    config.data = 2;
    config.batch = 16;
    pdl_projection_t none = evaluate(&b, &config);
    config.recompute = PDL_RECOMPUTE_FULL;
    pdl_projection_t full = evaluate(&b, &config);
    CHECK_NEAR(full.backward_s - none.backward_s, none.forward_s, 1e-9);
    CHECK_NEAR(full.forward_s, none.forward_s, 0);
    CHECK(full.memory.saved_activations < 0.5 * none.memory.saved_activations);
    CHECK(full.memory_bytes < none.memory_bytes);
    CHECK(full.comm[PDL_COMM_LAYER] > none.comm[PDL_COMM_LAYER]);
    config.recompute = PDL_RECOMPUTE_SELECTIVE;
    pdl_projection_t selective = evaluate(&b, &config);
    CHECK(selective.backward_s > none.backward_s && selective.backward_s < full.backward_s);
    /* Inference repeats nothing. */
    config.run_mode = PDL_INFERENCE;
    config.recompute = PDL_RECOMPUTE_NONE;
    none = evaluate(&b, &config);
    config.recompute = PDL_RECOMPUTE_FULL;
    full = evaluate(&b, &config);
    CHECK_NEAR(full.total_s, none.total_s, 0);
    CHECK_NEAR(full.memory_bytes, none.memory_bytes, 0);
    end(&b);
}

static void inference_has_forward_only(void)
{
    bench_t      b = begin("gpt2-124m", selene, simple());
    pdl_config_t config = pdl_config_default("3d");

    config.tensor = config.data = config.pipeline = 2;
    config.batch = 32;
    config.micro_batches = 4;
    pdl_projection_t training = evaluate(&b, &config);
    config.run_mode = PDL_INFERENCE;
    pdl_projection_t r = evaluate(&b, &config);
    CHECK_NEAR(r.backward_s + r.update_s + r.comm[PDL_COMM_GRADIENT] + r.gradient_total_s, 0, 0);
    CHECK_NEAR(r.memory.gradients + r.memory.optimizer + r.memory.saved_activations, 0, 0);
    CHECK(r.total_s < 0.5 * training.total_s && r.memory_bytes < training.memory_bytes);
    CHECK_NEAR(r.compute_s, r.forward_s, 0);
    end(&b);
}

/* 2C values forward and 2C backward, for every norm and replica. */
static void synchronised_norms_cost_their_statistics(void)
{
    bench_t          b = begin("resnet18", abci, simple());
    pdl_config_t     c = pdl_config_default("data");
    pdl_plan_t      *plan;
    pdl_projection_t r;
    double           expected = 0;

    c.data = 8, c.batch = 64;
    CHECK_OK(pdl_oracle_plan(b.oracle, &c, &plan));
    plan->sync_batch_norm = true;
    CHECK_OK(pdl_oracle_project(b.oracle, plan, NULL, &r));
    for (int i = 0; i < pdl_model_layer_count(b.model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(b.model, i);
        if (layer->type == PDL_LAYER_BATCH_NORM)
            expected += 2 * 2 * ring(8, 40.31e-6, 2.0 * (double)layer->in.channels * 4, 1 / 12.5e9);
    }
    CHECK_NEAR(r.comm[PDL_COMM_LAYER], expected, 1e-9);
    pdl_plan_destroy(plan);
    end(&b);
}

/* 12 h^2 + 13 h weights a layer; 24 b s h^2 + 4 b s^2 h operations forward, 2 b s h V for the logits. */
static void transformers_have_the_known_counts(void)
{
    static const struct {
        const char *name;
        double      layers, hidden, tokens, words;
    } known[] = {{"megatron-1.7b", 24, 2304, 2048, 51200},
                 {"megatron-2.5b", 54, 1920, 1024, 51200},
                 {"gpt2-124m", 12, 768, 1024, 50257}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        pdl_model_t       *model = NULL;
        pdl_model_totals_t totals;
        double             l = known[i].layers, h = known[i].hidden, s = known[i].tokens, v = known[i].words;
        REQUIRE_OK(pdl_model_load(known[i].name, &model));
        pdl_model_totals(model, &totals);
        CHECK_NEAR((double)totals.weights, l * (12 * h * h + 13 * h) + v * h + s * h + 2 * h, 0);
        CHECK_NEAR(2 * (double)totals.macs, l * (24 * s * h * h + 4 * s * s * h) + 2 * s * h * v, 0);
        /* Norms, activations and sums add less than one percent. */
        CHECK_NEAR((double)totals.flop_forward, 2 * (double)totals.macs, 0.01);
        CHECK_NEAR((double)totals.flop_backward, 2 * (double)totals.flop_forward, 0.01);
        pdl_model_destroy(model);
    }
}

/* Bytes that a decoder layer keeps in 16 bits, in units of s b h: 34 whole, 10 + 24/t with tensors split, 34/t with
   the sequence split as well. Exact, because the same tensors are counted: two inputs and two outputs of norms (8),
   q k v (6), the context (2), the inner layer twice (16), two masks of a byte (2). Scores (5 a s / h) are not kept
   by fused kernels. */
static void decoder_activations(void)
{
    static const struct {
        int64_t t;
        bool    sequence;
        double  expected;
    } known[] = {{1, false, 34},
                 {4, false, 10 + 24.0 / 4},
                 {8, false, 10 + 24.0 / 8},
                 {4, true, 34.0 / 4},
                 {8, true, 34.0 / 8}};
    pdl_model_t *model = NULL;

    REQUIRE_OK(pdl_model_load("megatron-1.7b", &model));
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const pdl_mesh_t        mesh = {{{PDL_AXIS_TENSOR, known[i].t, 0}}, 1};
        pdl_plan_t             *plan;
        pdl_partition_t        *partition;
        pdl_activation_memory_t memory;

        REQUIRE_OK(pdl_plan_create(model, &mesh, 4, &plan));
        plan->precision = PDL_BF16;
        plan->sequence_parallel = known[i].sequence;
        CHECK_OK(pdl_plan_apply_preset(plan, "tensor", NULL));
        REQUIRE_OK(pdl_partition_create(plan, 4, &partition));
        pdl_partition_memory(partition, pdl_model_find_layer(model, "h.1.ln_1"),
                             pdl_model_find_layer(model, "h.2.ln_1"), &memory);
        CHECK_NEAR(memory.saved * 2 / (2048.0 * 4 * 2304), known[i].expected, 1e-12);
        CHECK_NEAR(memory.input * 2 / (2048.0 * 4 * 2304), known[i].sequence ? 2.0 / (double)known[i].t : 2, 1e-12);
        pdl_partition_destroy(partition);
        pdl_plan_destroy(plan);
    }
    pdl_model_destroy(model);
}

int main(void)
{
    if (pdl_system_load("abci-v", &abci) || pdl_system_load("selene", &selene)) return 1;
    RUN(serial_is_the_sum_of_its_layers);
    RUN(data_follows_its_formula);
    RUN(filter_and_channel_follow_their_formulas);
    RUN(data_filter_follows_its_formula);
    RUN(data_spatial_follows_its_formula);
    RUN(pipeline_follows_its_formula);
    RUN(even_pipelines_are_exact);
    RUN(tied_embeddings_are_summed);
    RUN(ranks_that_share_a_device_take_longer);
    RUN(the_host_takes_its_time_for_every_pass);
    RUN(stages_are_cut_where_little_crosses);
    RUN(micro_batches_in_flight);
    RUN(sharded_states);
    RUN(recompute_adds_a_forward);
    RUN(inference_has_forward_only);
    RUN(synchronised_norms_cost_their_statistics);
    RUN(transformers_have_the_known_counts);
    RUN(decoder_activations);
    pdl_system_destroy(abci);
    pdl_system_destroy(selene);
    return test_done();
}
