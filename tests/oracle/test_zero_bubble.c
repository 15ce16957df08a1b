/*
 * Pipelines whose backward passes are divided: their replay against lists of passes that are followed here one by one, the closed
 * form below it and equal to it where stages are even, memory, and what the search makes of them.
 */
#include "oracle/bench.h"
#include "oracle/project/passes.h"
#include "oracle/project/pipeline_time.h"
#include "random.h"

#include <math.h>
#include <paradl/oracle/exact.h>
#include <paradl/oracle/search.h>
#include <stdlib.h>

enum { MOST_STAGES = 8, MOST_MICRO_BATCHES = 64 };

static const pdl_system_t *selene;

static const char even_layers[] =
    "paradl: model/1\nname: equal\ninput: {channels: 128, size: [96, 96]}\n"
    "blocks:\n  same:\n    layers:\n      - conv: {name: conv, out: 128, kernel: 5, pad: 2, bias: false}\n"
    "layers:\n  - {block: same, name: body, repeat: 16}\n";

/* A pipeline and its prices. */
typedef struct line {
    pdl__closed_prices_t closed;
    pdl__pass_spec_t     spec;
    pdl__pass_prices_t   prices;
} line_t;

static void price(bench_t *b, const pdl_config_t *config, line_t *line)
{
    *line = (line_t){.closed = pdl__closed_prices(b->oracle, config->pipeline, true)};
    line->spec.prices = &line->closed.prices;
    pdl__case_of_config(b->oracle, config, NULL, &line->spec.c);
    REQUIRE_OK(pdl__config_profile(b->oracle, config, &line->spec.c, &line->spec.profile));
    REQUIRE_OK(pdl__price_passes(b->oracle, &line->spec, &line->prices));
    for (int s = 0; s < line->prices.pipeline.stages; s++) line->prices.update_s[s] = 0;
}

static double replayed(const line_t *line, bool send)
{
    pdl__replay_options_t options = {.send = send};
    pdl__stage_replay_t   stages[MOST_STAGES];
    double                total_s = 0;

    CHECK_OK(pdl__replay_passes(&line->prices, &options, stages, &total_s));
    return total_s;
}

/* When the passes of the stages, in the order of their lists, are over. */
typedef struct follower {
    const pdl__pass_prices_t *prices;
    bool                      send;
    double                    free_s[MOST_STAGES], track_s[MOST_STAGES][2];
    double                    arrival[2][MOST_STAGES][MOST_MICRO_BATCHES]; /* of inputs; negative: not yet */
} follower_t;

static bool step(follower_t *f, int s, const pdl_pipeline_op_t *op)
{
    const pdl__chunk_t *chunk = &f->prices->chunks[s];
    int                 kind = op->gradients == PDL_GRADIENTS_OF_WEIGHTS ? PDL__PASS_WEIGHTS : op->backward, to, c;
    double              now = f->free_s[s];

    if (kind != PDL__PASS_WEIGHTS && pdl_pipeline_source(&f->prices->pipeline, s, op, &to, &c)) {
        if (f->arrival[kind][s][op->micro_batch] < 0) return false;
        now = fmax(now, f->arrival[kind][s][op->micro_batch]);
    }
    f->free_s[s] = now + pdl__pass_seconds(&chunk->time, kind);
    if (kind == PDL__PASS_WEIGHTS || !pdl_pipeline_target(&f->prices->pipeline, s, op, &to, &c)) return true;
    double *track_s = &f->track_s[s][kind];
    *track_s = fmax(*track_s, f->free_s[s]) + (f->send ? chunk->send_s[kind] : 0);
    f->arrival[kind][to][op->micro_batch] = *track_s;
    if (!f->prices->oracle->p.overlap_stages) f->free_s[s] = *track_s;
    return true;
}

static double followed(const line_t *line, bool send)
{
    const pdl_pipeline_t *p = &line->prices.pipeline;
    int64_t               count = pdl_pipeline_op_count(p), at[MOST_STAGES] = {0}, left = count * p->stages;
    pdl_pipeline_op_t    *ops = calloc((size_t)left, sizeof(*ops));
    follower_t            f = {.prices = &line->prices, .send = send};
    double                end_s = 0;

    for (int s = 0; s < p->stages; s++) {
        pdl_pipeline_order(p, s, ops + s * count);
        for (int m = 0; m < MOST_MICRO_BATCHES; m++) f.arrival[0][s][m] = f.arrival[1][s][m] = -1;
    }
    while (left > 0)
        for (int s = 0; s < p->stages; s++)
            for (; at[s] < count && step(&f, s, &ops[s * count + at[s]]); at[s]++) left--;
    for (int s = 0; s < p->stages; s++) end_s = fmax(end_s, f.free_s[s]);
    free(ops);
    return end_s;
}

static double closed_s(bench_t *b, const pdl_config_t *config, const line_t *line)
{
    pdl__runs_t runs = {.c = &line->spec.c, .profile = line->spec.profile};
    double      seconds = 0;

    CHECK_OK(pdl__profile_runs(&line->spec.c, line->spec.profile, config->pipeline, NULL, &runs.cut));
    CHECK_OK(pdl__sum_passes(&line->spec.c, line->spec.profile));
    CHECK_OK(pdl__pipeline_seconds(&runs, &seconds, NULL));
    (void)b;
    return seconds;
}

static pdl_config_t divided(int64_t stages, int64_t micro_batches)
{
    pdl_config_t config = pdl_config_default("pipeline");

    config.pipeline = stages;
    config.micro_batches = micro_batches;
    config.batch = 4 * micro_batches;
    config.schedule = PDL_SCHEDULE_ZERO_BUBBLE;
    return config;
}

static void replay_follows_the_lists(void)
{
    static const char *const models[] = {"gpt2-124m", "resnet50", "vgg16", even_layers};

    for (int seed = 1; seed <= 60; seed++) {
        pdl_parameters_t p;
        line_t           line;

        random_seed = (uint64_t)seed * 7919;
        pdl_parameters_default(&p);
        p.overlap_stages = between(0, 2) > 0;
        bench_t      b = begin(models[between(0, 3)], selene, p);
        pdl_config_t config = divided(between(2, MOST_STAGES), between(1, MOST_MICRO_BATCHES));
        config.recompute = between(0, 2) ? PDL_RECOMPUTE_NONE : PDL_RECOMPUTE_FULL;
        price(&b, &config, &line);
        CHECK_NEAR(replayed(&line, true), followed(&line, true), 1e-9);
        CHECK_NEAR(replayed(&line, false), followed(&line, false), 1e-9);
        CHECK(closed_s(&b, &config, &line) <= followed(&line, false) * (1 + 1e-9));
        config.schedule = PDL_SCHEDULE_1F1B;
        double both_s = followed(&line, true);
        pdl__pass_prices_free(&line.prices);
        price(&b, &config, &line);
        CHECK(both_s <= followed(&line, true) * (1 + 1e-9));
        pdl__pass_prices_free(&line.prices);
        end(&b);
    }
}

/* Stages that are all alike: q - 1 times what a micro-batch takes forward and backward, less the gradients of weights that are made
   meanwhile, at least those of inputs. */
static void even_stages_wait_for_less(void)
{
    bench_t b = begin(even_layers, selene, simple());

    for (int64_t q = 2; q <= 8; q *= 2)
        for (int64_t m = q; m <= 32; m *= 2) {
            pdl_config_t config = divided(q, m);
            line_t       line;

            price(&b, &config, &line);
            const pdl__pass_time_t *time = &line.prices.chunks[1].time;
            double                  forward = pdl__pass_seconds(time, PDL__PASS_FORWARD),
                   inputs = pdl__pass_seconds(time, PDL__PASS_BACKWARD);
            double weights = pdl__pass_seconds(time, PDL__PASS_WEIGHTS);
            double bubble = (double)(q - 1) * fmax(forward + inputs - weights, inputs);
            CHECK(weights > 0.9 * inputs);
            CHECK_NEAR(followed(&line, false), (double)m * (forward + inputs + weights) + bubble, 0.02);
            CHECK_NEAR(closed_s(&b, &config, &line), followed(&line, false), 0.02);
            pdl__pass_prices_free(&line.prices);
        }
    end(&b);
}

/* As many micro-batches as 1f1b holds in its first stage, which needs the most; and more where recomputation leaves 1f1b little to
   hold. */
static void memory_is_that_of_the_schedule(void)
{
    bench_t      b = begin("gpt2-124m", selene, simple());
    pdl_config_t config = divided(4, 16), plain = config;

    plain.schedule = PDL_SCHEDULE_1F1B;
    double held = evaluate(&b, &config).memory_bytes, before = evaluate(&b, &plain).memory_bytes;
    CHECK(held >= before && held <= 1.25 * before);
    config.recompute = plain.recompute = PDL_RECOMPUTE_FULL;
    CHECK(evaluate(&b, &config).memory_bytes > evaluate(&b, &plain).memory_bytes);
    end(&b);
}

static pdl_pipeline_schedule_t chosen(bool allowed, pdl_run_mode_t mode)
{
    pdl_request_t    request = pdl_request_default();
    pdl_parameters_t p;
    pdl_search_t    *search = NULL;

    pdl_parameters_default(&p);
    p.zero_bubble = allowed;
    bench_t b = begin("gpt2-124m", selene, p);
    request.pe = 8;
    request.batch = 16;
    request.run_mode = mode;
    request.strategy = pdl_strategy_find("pipeline");
    REQUIRE_OK(pdl_search_run(b.oracle, &request, &search));
    CHECK_INT(search->possible, 1);
    pdl_pipeline_schedule_t schedule = search->candidates[0].config.schedule;
    pdl_search_destroy(search);
    end(&b);
    return schedule;
}

/* Eight stages of twelve blocks cannot be interleaved. What the framework does not have is not proposed. */
static void search_proposes_what_there_is(void)
{
    CHECK_INT(chosen(true, PDL_TRAINING), PDL_SCHEDULE_ZERO_BUBBLE);
    CHECK_INT(chosen(false, PDL_TRAINING), PDL_SCHEDULE_1F1B);
    CHECK(chosen(true, PDL_INFERENCE) != PDL_SCHEDULE_ZERO_BUBBLE);
}

int main(void)
{
    REQUIRE_OK(pdl_system_load("selene", &selene));
    RUN(replay_follows_the_lists);
    RUN(even_stages_wait_for_less);
    RUN(memory_is_that_of_the_schedule);
    RUN(search_proposes_what_there_is);
    pdl_system_destroy(selene);
    return test_done();
}
