/*
 * What held a run up, from made-up times: every rule fires on its own cause and on no other.
 */
#include "test.h"

#include <paradl/report/train_report.h>

#include <math.h>
#include <string.h>

static pdl_plan_t           *plan;
static pdl_projection_t      projection;
static double                classes[PDL_OP_CLASS_COUNT];
static pdl_train_summary_t   summary;
static pdl_run_report_spec_t spec;
static pdl_finding_t         findings[PDL_MAX_FINDINGS];

/* A run of 100 ms on four replicas that went as projected. */
static void as_projected(pdl_axis_kind_t kind)
{
    static const double seconds[PDL_OP_CLASS_COUNT] = {.03, .05, .005, .004, .001, .002, .003, .005, 0};

    for (int i = 0; i < plan->mesh.axis_count; i++) plan->mesh.axis[i].kind = kind;
    plan->micro_batches = 1;
    projection = (pdl_projection_t){.total_s = .1};
    summary = (pdl_train_summary_t){.updates = 10,
                                    .step_s = .1,
                                    .work_s = .092,
                                    .most_work_s = .093,
                                    .comm_s = .008,
                                    .least_comm_s = .007,
                                    .operations = 100,
                                    .memory = {.weights = 10, .activations = 90, .total = 100}};
    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) summary.class_s[i] = classes[i] = seconds[i];
    spec = (pdl_run_report_spec_t){
        .plan = plan, .ranks = 4, .projection = &projection, .classes = classes, .launch_s = 1e-6};
}

static void expect_one(const char *name, double share)
{
    int count = pdl_run_findings(&spec, &summary, findings);

    CHECK_INT(count, 1);
    if (count < 1) return;
    CHECK_STR(findings[0].name, name);
    CHECK_NEAR(findings[0].share, share, 1e-6);
    CHECK(findings[0].hint[0] != '\0');
}

static void nothing_to_say(void)
{
    as_projected(PDL_AXIS_DATA);
    CHECK_INT(pdl_run_findings(&spec, &summary, findings), 0);
    spec.projection = NULL;
    spec.classes = NULL;
    CHECK_INT(pdl_run_findings(&spec, &summary, findings), 0);
    summary.updates = 0;
    CHECK_INT(pdl_run_findings(&spec, &summary, findings), 0);
}

static void each_cause_is_found(void)
{
    as_projected(PDL_AXIS_DATA);
    summary.class_s[PDL_CLASS_INPUT] = .03;
    expect_one("input and staging", .3);
    projection.io_s = .03; /* it was expected to wait that long */
    CHECK_INT(pdl_run_findings(&spec, &summary, findings), 0);

    as_projected(PDL_AXIS_DATA);
    summary.class_s[PDL_CLASS_GRADIENT] = .025;
    expect_one("gradient exchange", .25);

    as_projected(PDL_AXIS_DATA);
    summary.most_work_s = .115;
    summary.busiest_rank = 3;
    expect_one("load balance", .23);
    CHECK(strstr(findings[0].hint, "rank 3 computes 1.25 times") != NULL);

    as_projected(PDL_AXIS_DATA);
    summary.comm_s = .03;
    expect_one("congestion", .23);

    as_projected(PDL_AXIS_DATA);
    summary.class_s[PDL_CLASS_UPDATE] = .012;
    expect_one("weight update", .12);

    as_projected(PDL_AXIS_DATA);
    spec.device = "cuda:1";
    expect_one("fp32 without tensor cores", .8);
    plan->precision = PDL_TF32;
    CHECK_INT(pdl_run_findings(&spec, &summary, findings), 0);
    plan->precision = PDL_FP32;

    as_projected(PDL_AXIS_DATA);
    summary.operations = 20000;
    expect_one("small kernels", .2);
    summary.operations = 200000; /* an estimate, of a system that may be another */
    expect_one("small kernels", 1);

    as_projected(PDL_AXIS_DATA);
    summary.class_s[PDL_CLASS_PRODUCT_BACKWARD] = .07;
    expect_one("slow computation", .2);
    CHECK(strstr(findings[0].hint, "products, backward") != NULL);
    spec.generic = true; /* then it says nothing about this machine */
    CHECK_INT(pdl_run_findings(&spec, &summary, findings), 0);

    as_projected(PDL_AXIS_DATA);
    summary.memory.optimizer = 70;
    expect_one("redundant copies", .8);
}

static void causes_of_split_layers(void)
{
    as_projected(PDL_AXIS_TENSOR);
    summary.class_s[PDL_CLASS_MOVE] = .03;
    expect_one("collectives in every layer", .3);

    as_projected(PDL_AXIS_SPATIAL);
    summary.class_s[PDL_CLASS_MOVE] = .033;
    expect_one("point-to-point transport", .3);
    CHECK(strstr(findings[0].hint, "11.0 times") != NULL);

    as_projected(PDL_AXIS_SPATIAL);
    summary.class_s[PDL_CLASS_CONVERT] = .011;
    expect_one("conversions", .11);
    CHECK(strstr(findings[0].hint, "split fewer layers") != NULL);

    /* Where no layer is split, fewer cannot be. */
    as_projected(PDL_AXIS_DATA);
    summary.class_s[PDL_CLASS_CONVERT] = .011;
    expect_one("conversions", .11);
    CHECK(strstr(findings[0].hint, "split") == NULL);

    spec.ranks = 1; /* where nothing is split there is nothing to split less */
    CHECK_INT(pdl_run_findings(&spec, &summary, findings), 0);

    as_projected(PDL_AXIS_TENSOR);
    projection.replicated_share = .5;
    expect_one("redundant computation", .46);

    as_projected(PDL_AXIS_PIPELINE);
    summary.class_s[PDL_CLASS_MOVE] = classes[PDL_CLASS_MOVE] = .02;
    expect_one("pipeline bubble", .2);
}

static void the_largest_comes_first(void)
{
    as_projected(PDL_AXIS_DATA);
    summary.class_s[PDL_CLASS_INPUT] = .06;
    summary.class_s[PDL_CLASS_GRADIENT] = .3;
    CHECK_INT(pdl_run_findings(&spec, &summary, findings), 2);
    CHECK_STR(findings[0].name, "gradient exchange");
    CHECK_STR(findings[1].name, "input and staging");
}

/* Everything but the exchanges is that of the projection, and all of it is the simulated time. */
static void simulated_classes_add_up(void)
{
    pdl_plan_sim_t sim = {.simulated = {.total_s = .12, .comm = {[PDL_COMM_GRADIENT] = .01}}};
    double         seconds[PDL_OP_CLASS_COUNT], sum = 0;

    as_projected(PDL_AXIS_DATA);
    pdl_run_simulated_classes(&sim, classes, seconds);
    CHECK(isnan(seconds[PDL_CLASS_INPUT]));
    for (int i = 0; i < PDL_CLASS_INPUT; i++) sum += seconds[i];
    CHECK_NEAR(sum, .12, 1e-12);
    CHECK_NEAR(seconds[PDL_CLASS_GRADIENT], .01, 1e-12);
    CHECK_NEAR(seconds[PDL_CLASS_PRODUCT_FORWARD], .03, 1e-12);
}

int main(void)
{
    pdl_model_t *model;
    pdl_mesh_t   mesh = {{{PDL_AXIS_DATA, 4, 0}}, 1};

    REQUIRE_OK(pdl_model_load("lenet", &model));
    REQUIRE_OK(pdl_plan_create(model, &mesh, 16, &plan));
    RUN(nothing_to_say);
    RUN(each_cause_is_found);
    RUN(causes_of_split_layers);
    RUN(the_largest_comes_first);
    RUN(simulated_classes_add_up);
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
    return test_done();
}
