/*
 * Schedules that plans leave open: prices of the real ones on the links of a machine, and what is chosen.
 */
#include "oracle/internal.h"
#include "test.h"

#include <math.h>
#include <paradl/plan/collectives.h>
#include <string.h>

static const pdl_system_t *load(const char *text)
{
    const pdl_system_t *system = NULL;

    REQUIRE_OK(pdl_system_read_memory(text, strlen(text), "system", &system));
    return system;
}

#define DEVICE                                                                                             \
    "paradl: system/1\nname: s\ndevice: {name: d, memory: 80GB, memory_bandwidth: 1e15GB/s, peak: {fp32: " \
    "10TFLOP/s}}\n"
static const char flat[] =
    DEVICE "levels:\n  - {name: switch, transport: any, fanout: 64, bandwidth: 10GB/s, latency: 5us}\n";
/* Nodes of four that share one port. */
static const char nodes[] =
    DEVICE "levels:\n  - {name: node, transport: any, fanout: 4, bandwidth: 100GB/s, latency: 1us}\n"
           "  - {name: machine, transport: any, fanout: 16, bandwidth: 10GB/s, latency: 10us}\n";

static pdl_parameters_t plain(void)
{
    pdl_parameters_t p;

    pdl_parameters_default(&p);
    p.fabric_efficiency = p.network_efficiency = 1;
    p.fabric_step_s = p.network_step_s = 0;
    return p;
}

static double price(const pdl_system_t *system, const char *name, int64_t ranks, int64_t stride,
                    pdl_primitive_t primitive, double bytes)
{
    pdl_parameters_t      p = plain();
    pdl_plan_collective_t named = {.ranks_per_node = 0};
    pdl_group_query_t     query = {ranks * stride, ranks, stride, false, PDL_PATTERN_RING};
    pdl_collective_t      collective = primitive == PDL_ALLREDUCE ? PDL_COLL_ALLREDUCE : PDL_COLL_ALLGATHER;
    pdl_algorithm_t       algorithm;
    pdl_group_t           group;

    snprintf(named.algorithm, sizeof(named.algorithm), "%s", name);
    CHECK_OK(pdl__group(system, &p, &query, &group));
    algorithm = pdl__algorithm(system, &named);
    if (algorithm.form == PDL_FORM_COUNTED)
        REQUIRE_OK(pdl__count_collective(system, &p, &query, &named, collective, &algorithm.cost[collective]));
    return pdl_collective_seconds(&group, primitive, &algorithm, false, bytes);
}

/* On one switch every schedule costs what is known of it. */
static void counted_on_one_switch(void)
{
    const pdl_system_t *system = load(flat);
    const double        a = 5e-6, b = 1e-10, m = 1e6;

    CHECK_NEAR(price(system, "hd_near", 16, 1, PDL_ALLREDUCE, m), 8 * a + 2 * m * 15 / 16 * b, 1e-9);
    CHECK_NEAR(price(system, "circulant", 12, 1, PDL_ALLREDUCE, m), 8 * a + 2 * m * 11 / 12 * b, 1e-9);
    CHECK_NEAR(price(system, "circulant", 12, 1, PDL_ALLGATHER, m), 4 * a + m * 11 / 12 * b, 1e-9);
    CHECK_NEAR(price(system, "rdb", 16, 1, PDL_ALLREDUCE, 1), 4 * a, 1e-4);
    CHECK_NEAR(price(system, "ring", 16, 1, PDL_ALLREDUCE, m), 30 * a + 2 * m * 15 / 16 * b, 1e-9);
    pdl_system_destroy(system);
}

/* On nodes that share a port, what leaves the node counts four times where all four send. */
static void counted_on_nodes(void)
{
    const pdl_system_t *system = load(nodes);
    const double        m = 1e9, inside = 1e-11, outside = 1e-10;
    /* Halving: a half and a quarter inside the node; then an eighth and a sixteenth of each of four through one port. */
    double near = 2 * m * (0.5 + 0.25) * inside + 2 * m * 4 * (0.125 + 0.0625) * outside;
    /* The other way round the halves go through the port. */
    double far = 2 * m * 4 * (0.5 + 0.25) * outside + 2 * m * (0.125 + 0.0625) * inside;

    CHECK_NEAR(price(system, "hd_near", 16, 1, PDL_ALLREDUCE, m), near, 1e-3);
    CHECK_NEAR(price(system, "hd_far", 16, 1, PDL_ALLREDUCE, m), far, 1e-3);
    /* One rank per node and group, four groups at once. */
    CHECK_NEAR(price(system, "hd_near", 16, 4, PDL_ALLREDUCE, m), 2 * m * 4 * 15 / 16 * outside, 1e-3);
    pdl_system_destroy(system);
}

/* What a rings-inside-rings schedule gathers is half of what it sums, not what one ring takes. */
static void nested_rings_gather_in_two_levels(void)
{
    const pdl_system_t *system = NULL;
    double              m = 1 << 28;

    REQUIRE_OK(pdl_system_load("frontier", &system));
    double sum = price(system, "ring_ring", 24, 1, PDL_ALLREDUCE, m);
    CHECK_NEAR(price(system, "ring_ring", 24, 1, PDL_ALLGATHER, m), sum / 2, 1e-9);
    CHECK_NEAR(price(system, "ring_ring", 24, 1, PDL_REDUCE_SCATTER, m), sum / 2, 1e-9);
    CHECK(sum / 2 > 1.2 * price(system, "ring", 24, 1, PDL_ALLGATHER, m));
    pdl_system_destroy(system);
}

static const char *settled(const char *system_name, const char *model_name, const pdl_mesh_t *mesh,
                           const char *preset, pdl_plan_t **out)
{
    static pdl_model_t *model;
    const pdl_system_t *system = NULL;
    pdl_oracle_t       *oracle = NULL;
    pdl_parameters_t    p;
    static char         text[128];

    if (model) pdl_model_destroy(model);
    REQUIRE_OK(pdl_model_load(model_name, &model));
    REQUIRE_OK(pdl_system_load(system_name, &system));
    CHECK_OK(pdl_parameters_choose(NULL, system, &p));
    REQUIRE_OK(pdl_oracle_create(model, system, &p, &oracle));
    REQUIRE_OK(pdl_plan_create(model, mesh, 4 * pdl_mesh_size(mesh), out));
    CHECK_OK(pdl_plan_apply_preset(*out, preset, NULL));
    CHECK_OK(pdl_oracle_settle(oracle, *out));
    CHECK_OK(pdl_plan_check(*out));
    pdl_oracle_destroy(oracle);
    pdl_system_destroy(system);
    return pdl_plan_format_collectives(*out, text, sizeof(text));
}

static void plans_are_settled(void)
{
    pdl_plan_t *plan = NULL;
    pdl_mesh_t  data = {{{PDL_AXIS_DATA, 2, 0}}, 1}, hybrid = {{{PDL_AXIS_DATA, 8, 0}, {PDL_AXIS_TENSOR, 4, 0}}, 2};

    CHECK_STR(settled("local", "resnet50", &data, "data", &plan), "data ring");
    pdl_plan_destroy(plan);
    data.axis[0].size = 512;
    CHECK_STR(settled("abci-v", "resnet50", &data, "data", &plan), "data ring"); /* where everything is a ring */
    pdl_plan_destroy(plan);
    CHECK(strncmp(settled("dgx-h100", "resnet50", &data, "data", &plan), "data ring", 9) != 0);
    pdl_plan_destroy(plan);
    /* Every axis with something to exchange has a name. */
    const char *both = settled("dgx-v100", "gpt2-124m", &hybrid, "data+tensor", &plan);
    CHECK(strstr(both, "data ") != NULL && strstr(both, "tensor ") != NULL);
    pdl_plan_destroy(plan);
}

/* The first and the last of three stages share weights: a group of two on an axis of three. */
static void stages_that_share_weights(void)
{
    pdl_plan_t *plan = NULL;
    pdl_mesh_t  mesh = {{{PDL_AXIS_PIPELINE, 3, 0}, {PDL_AXIS_DATA, 8, 0}}, 2};

    CHECK_STR(settled("selene", "gpt2-124m", &mesh, "data+pipeline", &plan), "pipeline ring, data ring");
    pdl_plan_destroy(plan);
}

/* What a plan says stays, whatever it costs. */
static void names_stay(void)
{
    const pdl_system_t *system = NULL;
    pdl_model_t        *model = NULL;
    pdl_oracle_t       *oracle = NULL;
    pdl_plan_t         *plan = NULL;
    pdl_parameters_t    p;
    pdl_projection_t    open, slow;
    pdl_mesh_t          mesh = {{{PDL_AXIS_DATA, 64, 0}}, 1};

    REQUIRE_OK(pdl_model_load("resnet50", &model));
    REQUIRE_OK(pdl_system_load("dgx-v100", &system));
    CHECK_OK(pdl_parameters_choose(NULL, system, &p));
    p.overlap_gradients = false;
    REQUIRE_OK(pdl_oracle_create(model, system, &p, &oracle));
    REQUIRE_OK(pdl_plan_create(model, &mesh, 256, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, "data", NULL));
    CHECK_OK(pdl_oracle_project(oracle, plan, NULL, &open));
    strcpy(plan->collective[0].algorithm, "rdb");
    CHECK_OK(pdl_oracle_settle(oracle, plan));
    CHECK_STR(plan->collective[0].algorithm, "rdb");
    CHECK_OK(pdl_oracle_project(oracle, plan, NULL, &slow));
    CHECK(slow.comm[PDL_COMM_GRADIENT] > 2 * open.comm[PDL_COMM_GRADIENT]);
    pdl_plan_destroy(plan);
    pdl_oracle_destroy(oracle);
    pdl_system_destroy(system);
    pdl_model_destroy(model);
}

int main(void)
{
    RUN(counted_on_one_switch);
    RUN(counted_on_nodes);
    RUN(nested_rings_gather_in_two_levels);
    RUN(plans_are_settled);
    RUN(stages_that_share_weights);
    RUN(names_stay);
    return test_done();
}
