/*
 * Programs in time: what is priced is what a run would execute, waits are respected, and stages wait for each other.
 */
#include "test.h"

#include <paradl/oracle/search.h>
#include <paradl/train/dry.h>

#include <math.h>
#include <stdlib.h>

enum { MOST_RANKS = 8 };

typedef struct bench {
    pdl_model_t        *model;
    const pdl_system_t *system;
    pdl_oracle_t       *oracle;
    pdl_backend_t      *backend;
} bench_t;

static bench_t begin(const char *model)
{
    bench_t           b = {0};
    pdl_parameters_t  parameters;
    pdl_cpu_options_t cpu = {.threads = 1, .describes = true};

    pdl_parameters_default(&parameters);
    REQUIRE_OK(pdl_model_load(model, &b.model));
    REQUIRE_OK(pdl_system_load("abci-v", &b.system));
    REQUIRE_OK(pdl_oracle_create(b.model, b.system, &parameters, &b.oracle));
    REQUIRE_OK(pdl_backend_create_cpu(&cpu, &b.backend));
    return b;
}

static void end(bench_t *b)
{
    pdl_backend_destroy(b->backend);
    pdl_oracle_destroy(b->oracle);
    pdl_system_destroy(b->system);
    pdl_model_destroy(b->model);
}

/* Every operation takes its time, behind those of its stream and those that it waits for. */
static double check_times(const pdl_replay_rank_t *rank)
{
    double free_s[PDL_STREAM_COUNT] = {0}, computed = 0;

    for (int i = 0; i < rank->program->op_count; i++) {
        const pdl_program_op_t *op = &rank->program->op[i];

        CHECK(rank->seconds[i] >= 0 && isfinite(rank->seconds[i]));
        CHECK(rank->start_s[i] >= free_s[PDL_STREAM_COMPUTE]);
        if (op->stream != PDL_STREAM_STAGE) CHECK(rank->start_s[i] >= free_s[op->stream]);
        CHECK(rank->end_s[i] >= rank->start_s[i] + rank->seconds[i]);
        for (int w = 0; w < op->wait_count; w++)
            CHECK(rank->start_s[i] >= rank->end_s[rank->program->wait[op->first_wait + w]]);
        if (op->group != 0 && op->bytes > 0) CHECK(rank->seconds[i] > 0);
        free_s[op->stream] = rank->end_s[i];
        if (op->stream == PDL_STREAM_COMPUTE) computed += rank->seconds[i];
    }
    return computed;
}

static void replay_plan(bench_t *b, const pdl_plan_t *plan)
{
    int64_t            ranks = pdl_mesh_size(&plan->mesh);
    pdl_session_t     *sessions[MOST_RANKS] = {NULL};
    pdl_replay_rank_t  rank[MOST_RANKS];
    pdl_session_spec_t spec;
    double             total_s = 0, computed = 0;
    bool               whole = true;

    pdl_session_defaults(&spec);
    spec.plan = plan;
    spec.backend = b->backend;
    spec.training = true;
    for (int r = 0; r < ranks; r++) {
        pdl_status_t status = pdl_session_create_dry(&spec, r, &sessions[r]);
        whole &= status == PDL_OK;
        if (status) CHECK(status == PDL_ERR_UNSUPPORTED || status == PDL_ERR_LIMIT);
        if (!whole) break;
        rank[r] = (pdl_replay_rank_t){.rank = r, .program = pdl_session_program(sessions[r])};
        size_t  count = (size_t)rank[r].program->op_count;
        double *times = calloc(3 * count, sizeof(*times));
        CHECK_OK(pdl_oracle_price_program(b->oracle, plan, rank[r].program, times));
        rank[r].seconds = times;
        rank[r].start_s = times + count;
        rank[r].end_s = times + 2 * count;
    }
    if (whole) CHECK_OK(pdl_program_replay(rank, (int)ranks, &total_s));
    for (int r = 0; r < ranks && sessions[r] != NULL; r++) {
        if (whole) computed = fmax(computed, check_times(&rank[r]));
        if (whole) free((double *)rank[r].seconds);
        pdl_session_destroy(sessions[r]);
    }
    if (!whole) return;
    CHECK(total_s >= computed);
    if (ranks == 1) CHECK_NEAR(total_s, computed, 1e-12 * computed);
}

/* All ranks of every named strategy, with one and with several micro-batches. */
static void named_strategies(void)
{
    static const char *const models[] = {"lenet", "resnet-tiny", "gpt-char-small"};

    for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++) {
        bench_t               b = begin(models[m]);
        const pdl_strategy_t *row;
        int                   replayed = 0;

        for (int i = 0; (row = pdl_strategy_at(i)) != NULL; i++) {
            pdl_strategy_mesh_t mesh = {0};
            int64_t             layers = pdl_model_layer_count(b.model);

            while (!row->per_layer && pdl_strategy_next_mesh(row, row->axes == 0 ? 1 : 4, layers, &mesh))
                for (int64_t parts = 1; parts <= 4; parts += 3) {
                    pdl_config_t config = pdl_config_on(row, &mesh);
                    pdl_plan_t  *plan;

                    config.batch = 16;
                    config.micro_batches = parts;
                    config.sharding = parts > 1 && config.data > 1 ? PDL_SHARDING_ZERO3 : PDL_SHARDING_NONE;
                    if (pdl_oracle_plan(b.oracle, &config, &plan)) continue;
                    CHECK_OK(pdl_oracle_settle(b.oracle, plan));
                    replay_plan(&b, plan);
                    replayed++;
                    pdl_plan_destroy(plan);
                }
        }
        CHECK(replayed > 10);
        end(&b);
    }
}

int main(void)
{
    RUN(named_strategies);
    return test_done();
}
