/*
 * Several precisions as choices: each is answered as if it were the only one, the best of every strategy stands, certificates and
 * counts are those of all, and a precision that the device lacks is left out.
 */
#include "test.h"

#include <paradl/oracle/exact.h>
#include <paradl/oracle/search.h>

#include <math.h>
#include <string.h>

typedef struct bench {
    pdl_model_t        *model;
    const pdl_system_t *system;
    pdl_parameters_t    parameters;
} bench_t;

static bench_t begin(const char *model, const char *system)
{
    bench_t b;

    pdl_parameters_default(&b.parameters);
    REQUIRE_OK(pdl_model_load(model, &b.model));
    REQUIRE_OK(pdl_system_load(system, &b.system));
    return b;
}

static void end(bench_t *b)
{
    pdl_system_destroy(b->system);
    pdl_model_destroy(b->model);
}

/* By an oracle of its own: nothing is known from the search before. */
static pdl_status_t run(const bench_t *b, const pdl_request_t *request, pdl_search_t **search)
{
    pdl_oracle_t *oracle;

    REQUIRE_OK(pdl_oracle_create(b->model, b->system, &b->parameters, &oracle));
    pdl_status_t status = pdl_search_run(oracle, request, search);
    pdl_oracle_destroy(oracle);
    return status;
}

static pdl_request_t request_of(int64_t pe, int64_t batch)
{
    pdl_request_t r = pdl_request_default();

    r.pe = pe;
    r.batch = batch;
    r.optimizer = PDL_OPTIMIZER_ADAM;
    return r;
}

static const pdl_candidate_t *find(const pdl_search_t *search, const pdl_strategy_t *strategy)
{
    for (int i = 0; i < search->count; i++)
        if (search->candidates[i].config.strategy == strategy) return &search->candidates[i];
    return NULL;
}

static const pdl_precision_answer_t *answer_of(const pdl_search_t *search, pdl_precision_t precision)
{
    for (int i = 0; i < search->precision_count; i++)
        if (search->precisions[i].precision == precision) return &search->precisions[i];
    return NULL;
}

#define COUNT 3
static const pdl_precision_t several[COUNT] = {PDL_BF16, PDL_FP8, PDL_TF32};

static void check_answers(const pdl_search_t *joint, pdl_search_t *alone[COUNT])
{
    CHECK_INT(joint->precision_count, COUNT);
    for (int k = 0; k < COUNT; k++) {
        const pdl_precision_answer_t *a = answer_of(joint, several[k]);
        REQUIRE(a != NULL);
        CHECK(a->computed && a->best.possible && a->best.plan == NULL);
        CHECK(a->best.score == alone[k]->candidates[0].score);
        CHECK(a->best.projection.total_s == alone[k]->candidates[0].projection.total_s);
        CHECK(a->best.config.strategy == alone[k]->candidates[0].config.strategy);
        CHECK_INT(a->best.config.precision, several[k]);
    }
    for (int k = 1; k < COUNT; k++) CHECK(joint->precisions[k - 1].best.score <= joint->precisions[k].best.score);
    CHECK_INT(joint->candidates[0].config.precision, joint->precisions[0].precision);
    CHECK_INT(joint->candidates[0].plan->precision, joint->precisions[0].precision);
}

/* Of every strategy none of the precisions has a better one, but for ties. */
static void check_candidates(const pdl_search_t *joint, pdl_search_t *alone[COUNT])
{
    CHECK_INT(joint->count, alone[0]->count);
    for (int i = 0; i < joint->possible; i++) {
        const pdl_candidate_t *c = &joint->candidates[i];
        double                 least = INFINITY;
        bool                   found = false;
        for (int k = 0; k < COUNT; k++) {
            const pdl_candidate_t *of = find(alone[k], c->config.strategy);
            if (!of->possible) continue;
            least = fmin(least, of->score);
            found = found || (of->score == c->score && of->config.precision == c->config.precision);
        }
        CHECK(found && c->score <= least * (1 + PDL_TIE));
        REQUIRE(c->plan != NULL);
        CHECK_INT(c->plan->precision, c->config.precision);
    }
}

static void check_exact(const pdl_search_t *joint, pdl_search_t *alone[COUNT], bool exhaustive)
{
    const pdl_exact_t *e = joint->exact;
    pdl_exact_t        sum = {.count = 0};
    double             least = INFINITY;

    CHECK(joint->certified && e->certified);
    for (int k = 0; k < COUNT; k++) {
        sum.configurations += alone[k]->exact->configurations;
        sum.evaluated += alone[k]->exact->evaluated;
        for (int b = 0; b < PDL_BOUND_COUNT; b++) sum.removed[b] += alone[k]->exact->removed[b];
        least = fmin(least, alone[k]->exact->best[0].score);
    }
    CHECK_INT(e->configurations, sum.configurations);
    CHECK_INT(e->evaluated, sum.evaluated);
    for (int b = 0; b < PDL_BOUND_COUNT; b++) CHECK_INT(e->removed[b], sum.removed[b]);
    CHECK_INT(e->count, 5);
    CHECK(e->best[0].score == least);
    for (int i = 1; i < e->count; i++) CHECK(e->best[i - 1].score <= e->best[i].score);
    CHECK_INT(e->front_count > 0, exhaustive);
    /* Along the front time grows and at least one of the others shrinks; and it begins with the fastest. */
    for (int i = 1; i < e->front_count; i++) {
        const pdl_projection_t *a = &e->front[i - 1].projection, *b = &e->front[i].projection;
        CHECK(a->total_s <= b->total_s);
        CHECK(b->memory_bytes < a->memory_bytes || b->energy_j < a->energy_j || i > 1);
    }
    for (int i = 0; i < e->front_count; i++)
        for (int k = 0; k < e->front_count; k++) {
            const pdl_projection_t *a = &e->front[i].projection, *b = &e->front[k].projection;
            CHECK(i == k || a->total_s < b->total_s || a->memory_bytes < b->memory_bytes ||
                  a->energy_j < b->energy_j);
        }
}

static void compare(const char *model, int64_t pe, int64_t batch, bool exhaustive)
{
    bench_t             b = begin(model, "dgx-h100");
    pdl_exact_options_t exact = {.exhaustive = exhaustive, .top = 5};
    pdl_request_t       r = request_of(pe, batch);
    pdl_search_t       *joint, *alone[COUNT];

    r.exact = &exact;
    for (int k = 0; k < COUNT; k++) {
        r.precision = several[k];
        REQUIRE_OK(run(&b, &r, &alone[k]));
        CHECK_INT(alone[k]->precision_count, 0);
    }
    r.precisions = several;
    r.precision_count = COUNT;
    REQUIRE_OK(run(&b, &r, &joint));
    check_answers(joint, alone);
    check_candidates(joint, alone);
    check_exact(joint, alone, exhaustive);
    pdl_search_destroy(joint);
    for (int k = 0; k < COUNT; k++) pdl_search_destroy(alone[k]);
    end(&b);
}

static void every_precision_is_answered_as_if_alone(void)
{
    compare("gpt2-124m", 8, 64, false);
    compare("gpt2-124m", 4, 16, true);
    compare("resnet50", 16, 1024, false);
}

/* A strategy that was asked for is one candidate, whatever its plan is called. */
static void one_strategy_has_one_candidate(void)
{
    bench_t       b = begin("gpt2-124m", "dgx-h100");
    pdl_request_t r = request_of(8, 64);
    pdl_search_t *search;

    r.precisions = several;
    r.precision_count = COUNT;
    r.strategy = pdl_strategy_find("mixed");
    REQUIRE_OK(run(&b, &r, &search));
    CHECK_INT(search->count, 1);
    CHECK_INT(search->precision_count, COUNT);
    pdl_search_destroy(search);
    end(&b);
}

/* What differs by less than a tie is no reason to take another than the first. */
static void of_those_that_tie_the_first_stands(void)
{
    static const pdl_precision_t orders[2][2] = {{PDL_BF16, PDL_FP16}, {PDL_FP16, PDL_BF16}};
    bench_t                      b = begin("gpt2-124m", "dgx-h100");
    pdl_request_t                r = request_of(8, 64);

    for (int i = 0; i < 2; i++) {
        pdl_search_t *search;
        r.precisions = orders[i];
        r.precision_count = 2;
        REQUIRE_OK(run(&b, &r, &search));
        for (int k = 0; k < search->possible; k++) CHECK_INT(search->candidates[k].config.precision, orders[i][0]);
        CHECK_INT(search->precisions[0].precision, orders[i][0]);
        pdl_search_destroy(search);
    }
    end(&b);
}

static void a_precision_that_the_device_lacks_is_left_out(void)
{
    static const pdl_precision_t  mixed[2] = {PDL_FP8, PDL_FP16}, none[2] = {PDL_FP8, PDL_BF16};
    bench_t                       b = begin("resnet50", "abci-v");
    pdl_request_t                 r = request_of(8, 256);
    pdl_search_t                 *search;
    const pdl_precision_answer_t *left_out;

    r.precisions = mixed;
    r.precision_count = 2;
    REQUIRE_OK(run(&b, &r, &search));
    CHECK_INT(search->candidates[0].config.precision, PDL_FP16);
    left_out = answer_of(search, PDL_FP8);
    REQUIRE(left_out != NULL);
    CHECK(!left_out->computed && !left_out->best.possible);
    CHECK(strstr(left_out->best.reason, "does not compute in fp8: it has ") != NULL);
    pdl_search_destroy(search);
    r.precisions = none;
    CHECK_INT(run(&b, &r, &search), PDL_ERR_INPUT);
    CHECK(strstr(pdl_error_message(), "it has ") != NULL);
    end(&b);
}

/* What one has no memory for another may have; what no precision fits says how much the closest needs. */
static void memory_may_decide(void)
{
    static const pdl_precision_t two[2] = {PDL_FP32, PDL_BF16};
    bench_t                      b = begin("gpt2-1.5b", "dgx-h100");
    pdl_request_t                r = request_of(4, 4);
    pdl_search_t                *search;

    r.strategy = pdl_strategy_find("pipeline");
    r.precisions = two;
    r.precision_count = 2;
    r.max_memory = 1e9;
    REQUIRE_OK(run(&b, &r, &search));
    CHECK_INT(search->possible, 0);
    CHECK_INT(search->precision_count, 2);
    CHECK_INT(search->candidates[0].config.precision, PDL_BF16);
    CHECK(strstr(search->candidates[0].reason, "needs ") != NULL);
    pdl_search_destroy(search);
    end(&b);
}

/* The first question is answered by yes: what was found stands, and nothing is certified. Who is done by then is not asked. */
static bool stop_at_once(void *context, double share)
{
    (void)share;
    ++*(int *)context;
    return true;
}

static void who_has_enough_gets_the_best_so_far(void)
{
    bench_t             b = begin("gpt3-175b", "dgx-h100");
    int                 asked = 0;
    pdl_exact_options_t exact = {.top = 5, .stop = stop_at_once, .context = &asked};
    pdl_request_t       r = request_of(1024, 1536);
    pdl_search_t       *search;

    r.precisions = several;
    r.precision_count = COUNT;
    r.exact = &exact;
    REQUIRE_OK(run(&b, &r, &search));
    CHECK(asked == 0 || (search->stopped && !search->certified && search->not_certified[0] != '\0'));
    CHECK(asked == 0 || search->precision_count < COUNT);
    CHECK(asked > 0 || search->precision_count == COUNT);
    pdl_search_destroy(search);
    end(&b);
}

int main(void)
{
    RUN(every_precision_is_answered_as_if_alone);
    RUN(one_strategy_has_one_candidate);
    RUN(of_those_that_tie_the_first_stands);
    RUN(a_precision_that_the_device_lacks_is_left_out);
    RUN(memory_may_decide);
    RUN(who_has_enough_gets_the_best_so_far);
    return test_done();
}
