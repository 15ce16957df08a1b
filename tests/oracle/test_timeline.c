/*
 * The two lists that are replayed, programs and passes, against each other: the same layers in the same stages, the same bytes of
 * gradients and between stages, the same computation and exchanges, and totals of programs that are no longer. They are shorter
 * where programs overlap redistributions, which passes do not.
 */
#include "oracle/project/passes.h"
#include "test.h"
#include <math.h>
#include <paradl/oracle/replay.h>
#include <paradl/oracle/search.h>
#include <paradl/system/fabric.h>

static const pdl_system_t *selene;

typedef struct busy {
    double compute_s, redistribution_s;
    double calls;
} busy_t;

static busy_t sum_streams(const pdl_replay_rank_t *rank)
{
    busy_t busy = {0};

    for (int i = 0; i < rank->program->op_count; i++) {
        pdl_op_stream_t stream = rank->program->op[i].stream;
        if (stream == PDL_STREAM_COMPUTE) busy.compute_s += rank->seconds[i];
        if (stream != PDL_STREAM_REDISTRIBUTION) continue;
        busy.redistribution_s += rank->seconds[i];
        busy.calls++;
    }
    return busy;
}

/* Of gradients that are exchanged over the data axis alone, and of tensors that go to other stages, in one update. */
typedef struct bytes {
    double gradients, stages;
} bytes_t;

static bytes_t program_bytes(const pdl_program_t *program)
{
    double  sent[PDL_TRAFFIC_COUNT];
    bytes_t bytes = {0};

    pdl_program_traffic(program, sent);
    bytes.stages = sent[PDL_TRAFFIC_STAGES];
    for (int i = 0; i < program->op_count; i++)
        if (program->op[i].kind == PDL_OP_COLLECTIVE && program->op[i].role != PDL_ROLE_TIED)
            bytes.gradients += (double)program->bucket[program->op[i].bucket].bytes;
    return bytes;
}

/* What crosses the border in front of a run of layers. */
static double border_bytes(const pdl__pass_prices_t *prices, int run)
{
    int p = prices->pipeline.stages, v = prices->pipeline.chunks;

    if (run <= 0 || run >= p * v) return 0;
    return pdl__sent_elements(prices->profile, prices->chunks[run % p * v + run / p].first) *
           prices->profile->compute.item_bytes * (double)prices->pipeline.micro_batches;
}

static bytes_t pass_bytes(const pdl__pass_prices_t *prices, int stage, bool *wide)
{
    bytes_t bytes = {0};

    for (int c = 0; c < prices->pipeline.chunks; c++) {
        const pdl__chunk_t *chunk = &prices->chunks[stage * prices->pipeline.chunks + c];
        const pdl_sums_t   *a = &prices->profile->prefix[chunk->first], *b = &prices->profile->prefix[chunk->last];
        int                 run = c * prices->pipeline.stages + stage;

        if (prices->c.data > 1)
            bytes.gradients += (b->data_weights - a->data_weights) * prices->profile->compute.item_bytes;
        if (b->wide_weights > a->wide_weights) *wide = true;
        bytes.stages += border_bytes(prices, run + 1) + border_bytes(prices, run);
    }
    return bytes;
}

static void check_layers(const pdl__pass_prices_t *prices, int stage, const pdl_program_t *program)
{
    for (int n = 0; n < program->node_count; n++) {
        const pdl_program_node_t *node = &program->node[n];
        const pdl__chunk_t       *chunk = &prices->chunks[stage * prices->pipeline.chunks + node->chunk];

        if (node->kind == PDL_NODE_COMPUTE) CHECK(node->layer >= chunk->first && node->tail < chunk->last);
    }
}

/* Whether a stage has a copy of weights of another, whose gradients only programs exchange with the replicas. */
static bool has_copies(const pdl_model_t *model, const pdl__pass_prices_t *prices, int stage)
{
    for (int c = 0; c < prices->pipeline.chunks; c++) {
        const pdl__chunk_t *chunk = &prices->chunks[stage * prices->pipeline.chunks + c];
        for (int i = chunk->first; i < chunk->last; i++)
            if (pdl_model_layer(model, i)->tied_to >= 0) return true;
    }
    return false;
}

/* Stage by stage. */
static void compare_lists(pdl_oracle_t *oracle, const pdl_plan_t *plan, const pdl_timeline_t *timeline)
{
    pdl__closed_prices_t  closed = pdl__closed_prices(oracle, pdl_mesh_size(&plan->mesh), false);
    pdl__pass_spec_t      spec = {.stage_first = plan->stage_first, .prices = &closed.prices};
    pdl__pass_prices_t    prices = {0};
    pdl__stage_replay_t   stages[8];
    pdl__replay_options_t everything = {.send = true, .exchange = true};
    double                total_s;

    REQUIRE_OK(pdl__case_of_plan(oracle, plan, NULL, &spec.c));
    REQUIRE_OK(pdl__profile_create(oracle, plan, spec.c.micro_batch, &spec.profile));
    REQUIRE_OK(pdl__price_passes(oracle, &spec, &prices));
    CHECK_OK(pdl__replay_passes(&prices, &everything, stages, &total_s));
    for (int k = 0; k < timeline->count; k++) {
        const pdl_program_t *program = timeline->ranks[k].program;
        bool                 wide = false;
        bytes_t              ours = program_bytes(program), theirs = pass_bytes(&prices, k, &wide);
        double               compute_s = sum_streams(&timeline->ranks[k]).compute_s;

        check_layers(&prices, k, program);
        CHECK_NEAR(ours.stages, theirs.stages, 1e-12);
        if (!wide && !has_copies(plan->model, &prices, k)) CHECK_NEAR(ours.gradients, theirs.gradients, 1e-4);
        /* Programs convert formats and add up gradients besides. */
        CHECK(compute_s >= 0.999 * stages[k].part[PDL__PART_COMPUTE]);
        CHECK(compute_s <= 1.06 * stages[k].part[PDL__PART_COMPUTE]);
    }
    pdl__pass_prices_free(&prices);
    pdl__profile_destroy(spec.profile);
}

static void compare(pdl_oracle_t *oracle, pdl_plan_t *plan, const pdl_config_t *config)
{
    pdl_timeline_t  *timeline = NULL;
    pdl_projection_t p;
    double           exchanges = 0;
    busy_t           busy = {0};

    CHECK_OK(pdl_oracle_settle(oracle, plan));
    CHECK_OK(pdl_oracle_replay(oracle, plan, NULL, &p));
    pdl_status_t status = pdl_oracle_timeline(oracle, plan, &timeline);
    if (status) {
        CHECK(status == PDL_ERR_LIMIT || status == PDL_ERR_UNSUPPORTED);
        return;
    }
    CHECK_INT(timeline->count, config->pipeline);
    compare_lists(oracle, plan, timeline);
    for (int k = 0; k < timeline->count; k++) {
        busy = sum_streams(&timeline->ranks[k]);
        CHECK(busy.compute_s <= timeline->total_s * (1 + 1e-12));
    }
    exchanges = p.comm[PDL_COMM_LAYER] + p.comm[PDL_COMM_HALO];
    /* A program may reduce and scatter at one place and gather at another what is projected as one collective: two start-ups. */
    double more_s = busy.calls / 2 * selene->fabric->value[PDL_FABRIC_STARTUP];
    CHECK(timeline->total_s <= 1.03 * p.total_s + more_s && timeline->total_s >= 0.8 * p.total_s);
    if (config->pipeline == 1 && config->spatial == 1 && exchanges > 0)
        CHECK(fabs(busy.redistribution_s - exchanges) <= 0.06 * exchanges + more_s);
    pdl_timeline_destroy(timeline);
}

static void programs_take_what_is_projected(void)
{
    static const char *const models[] = {"resnet50", "gpt2-124m"};

    for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++) {
        pdl_model_t          *model = NULL;
        pdl_oracle_t         *oracle = NULL;
        pdl_parameters_t      parameters;
        const pdl_strategy_t *row;
        int                   compared = 0;

        pdl_parameters_default(&parameters);
        REQUIRE_OK(pdl_model_load(models[m], &model));
        REQUIRE_OK(pdl_oracle_create(model, selene, &parameters, &oracle));
        for (int i = 0; (row = pdl_strategy_at(i)) != NULL; i++) {
            pdl_strategy_mesh_t mesh = {0};

            while (!row->per_layer &&
                   pdl_strategy_next_mesh(row, row->axes == 0 ? 1 : 8, pdl_model_layer_count(model), &mesh)) {
                pdl_config_t config = pdl_config_on(row, &mesh);
                pdl_plan_t  *plan;

                config.batch = 64;
                config.micro_batches = config.pipeline > 1 ? 8 : 1;
                if (pdl_oracle_plan(oracle, &config, &plan)) continue;
                compare(oracle, plan, &config);
                compared++;
                plan->schedule = config.schedule = PDL_SCHEDULE_ZERO_BUBBLE;
                if (config.pipeline == 8) compare(oracle, plan, &config);
                pdl_plan_destroy(plan);
            }
        }
        CHECK(compared > 10);
        pdl_oracle_destroy(oracle);
        pdl_model_destroy(model);
    }
}

/* Micro-batches that a timeline would be too long for are refused, with what to do. */
static void too_long(void)
{
    pdl_model_t     *model = NULL;
    pdl_oracle_t    *oracle = NULL;
    pdl_plan_t      *plan = NULL;
    pdl_timeline_t  *timeline = NULL;
    pdl_parameters_t parameters;
    pdl_mesh_t       mesh = {{{PDL_AXIS_PIPELINE, 4, 0}}, 1};

    pdl_parameters_default(&parameters);
    REQUIRE_OK(pdl_model_load("gpt2-124m", &model));
    REQUIRE_OK(pdl_oracle_create(model, selene, &parameters, &oracle));
    REQUIRE_OK(pdl_plan_create(model, &mesh, 100000, &plan));
    plan->micro_batches = 100000;
    CHECK_OK(pdl_plan_apply_preset(plan, "pipeline", NULL));
    CHECK_INT(pdl_oracle_timeline(oracle, plan, &timeline), PDL_ERR_LIMIT);
    CHECK(strstr(pdl_error_message(), "too long a timeline") != NULL);
    pdl_plan_destroy(plan);
    pdl_oracle_destroy(oracle);
    pdl_model_destroy(model);
}

int main(void)
{
    REQUIRE_OK(pdl_system_load("selene", &selene));
    RUN(programs_take_what_is_projected);
    RUN(too_long);
    pdl_system_destroy(selene);
    return test_done();
}
