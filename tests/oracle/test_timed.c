/* Operations that were timed by themselves: programs take these times, on a line between numbers of samples, and wait for the host. */
#include "test.h"
#include <paradl/oracle/replay.h>
#include <string.h>

static const char machine[] =
    "paradl: system/1\n"
    "name: here\n"
    "device: {name: a core, memory: 1GB, memory_bandwidth: 10GB/s, peak: {fp32: 10GFLOP/s}, compute_units: 1, "
    "launch: 1us, "
    "matrix_efficiency: 1, memory_efficiency: 1%s}\n"
    "levels:\n  - {name: node, transport: none, fanout: 1, bandwidth: 1GB/s, latency: 1us}\n"
    "storage: {node_bandwidth: 100GB/s, decode_samples_per_s: 1}\n"
    "backend: cpu\n"
    "operations:\n"
    "  - {op: \"linear 84 to 10 bias\", samples: 16, seconds: [3, 6]}\n"
    "  - {op: \"linear 84 to 10 bias\", samples: 8, seconds: [1, 4], replayed: [0.9, 3.6], "
    "queue: [0.5, 0.5]}\n"
    "  - {op: \"linear 84 to 10 bias\", precision: bf16, samples: 8, seconds: [100]}\n";

static double project_data(const char *of_device, int64_t batch, const pdl_dataset_t *data,
                           pdl_projection_t *projection)
{
    char                text[2048];
    const pdl_system_t *system = NULL;
    pdl_model_t        *model = NULL;
    pdl_oracle_t       *oracle = NULL;
    pdl_plan_t         *plan = NULL;
    pdl_parameters_t    parameters;
    pdl_mesh_t          mesh = {{{PDL_AXIS_DATA, 1, 0}}, 1};

    snprintf(text, sizeof(text), machine, of_device);
    pdl_parameters_default(&parameters);
    REQUIRE_OK(pdl_system_read_memory(text, strlen(text), "here.yaml", &system));
    REQUIRE_OK(pdl_model_load("lenet", &model));
    REQUIRE_OK(pdl_plan_create(model, &mesh, batch, &plan));
    REQUIRE_OK(pdl_plan_apply_preset(plan, "serial", NULL));
    REQUIRE_OK(pdl_oracle_create(model, system, &parameters, &oracle));
    REQUIRE_OK(pdl_oracle_replay(oracle, plan, data, projection));
    pdl_oracle_destroy(oracle);
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
    pdl_system_destroy(system);
    return projection->total_s;
}

static double project(const char *of_device, int64_t batch, pdl_projection_t *projection)
{
    return project_data(of_device, batch, NULL, projection);
}

/* All but the one layer takes milliseconds. */
static void operations_take_what_was_timed(void)
{
    pdl_projection_t p;

    CHECK_NEAR(project("", 8, &p), 5, 0.01);
    CHECK(p.replayed);
    CHECK_NEAR(p.compute_s + p.bubble_s + p.comm_s, p.total_s, 1e-9);
    CHECK_NEAR(project("", 12, &p), 7, 0.01);
    CHECK_NEAR(project("", 16, &p), 9, 0.01);
    CHECK_NEAR(project("", 24, &p), 13, 0.01); /* and so on: 2 s and 2 s for 8 samples */
    CHECK_NEAR(project("", 4, &p), 2.5, 0.01); /* half of what 8 take */
}

/* Where the device replays what it was given once, they take what they took so. */
static void replayed_operations_take_less(void)
{
    pdl_projection_t p;

    CHECK_NEAR(project(", graphs: true", 8, &p), 4.5, 0.01);
    CHECK_NEAR(project(", graphs: true", 12, &p), 6.75, 0.01); /* of 16 samples that is not known */
    CHECK_NEAR(project(", graphs: true", 4, &p), 2.25, 0.01);
}

/* A host that is slower than its device: 21 operations, and what an update takes besides. */
static void a_device_waits_for_its_host(void)
{
    pdl_projection_t fast, slow;

    project(", queue: 1us", 16, &fast);
    project(", queue: 3s", 16, &slow);
    CHECK_NEAR(fast.total_s, 9, 0.01);
    CHECK(slow.total_s > 40);
    CHECK_NEAR(slow.compute_s, slow.total_s, 1e-9);
}

/* Samples that come too late are copied to the device when they have come: that is waiting for input too. */
static void late_samples_are_waited_for(void)
{
    pdl_dataset_t    data = {.bytes_per_sample = 1e9, .decode_s_per_sample = 1};
    pdl_projection_t p;

    /* 16 samples at 1 a second, then 16 GB over the link. */
    CHECK_NEAR(project_data(", host_link: {h2d: 2GB/s}", 16, &data, &p), 16 + 8, 0.01);
    CHECK_NEAR(p.total_s - p.io_s, 9, 0.01);
    CHECK_NEAR(p.compute_s + p.bubble_s + p.comm_s, 9, 0.01);
    /* 8 samples of 1 GB from storage of 100 GB/s are there in time. */
    data.decode_s_per_sample = 0;
    CHECK_NEAR(project_data(", host_link: {h2d: 2GB/s}", 8, &data, &p), 5, 0.01);
    CHECK_NEAR(p.io_s, 0, 0);
}

static void mistakes_are_named(void)
{
    static const struct {
        const char *line, *message;
    } cases[] = {{"{op: \"x\", samples: 0, seconds: [1]}", "samples must be positive"},
                 {"{op: \"x\", samples: 1}", "seconds is missing"},
                 {"{op: \"x\", samples: 1, seconds: [1, 1, 1, 1, 1]}", "one to 4 times"},
                 {"{op: \"x\", samples: 1, seconds: [-1]}", "not below zero"},
                 {"{op: \"x\", samples: 1, seconds: [1], extra: 1}", "extra"},
                 {"{samples: 1, seconds: [1]}", "op"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char                text[2048];
        const pdl_system_t *system = NULL;

        snprintf(text, sizeof(text), machine, "");
        strcpy(strstr(text, "operations:"), "operations:\n  - ");
        strcat(text, cases[i].line);
        CHECK_INT(pdl_system_read_memory(text, strlen(text), "here.yaml", &system), PDL_ERR_INPUT);
        CHECK(strstr(pdl_error_message(), cases[i].message) != NULL &&
              strstr(pdl_error_message(), "here.yaml:") != NULL);
    }
}

int main(void)
{
    RUN(operations_take_what_was_timed);
    RUN(replayed_operations_take_less);
    RUN(a_device_waits_for_its_host);
    RUN(late_samples_are_waited_for);
    RUN(mistakes_are_named);
    return test_done();
}
