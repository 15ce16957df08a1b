/* Measured runs: numbers of logs, traces and texts are the right ones, what is missing is said with how to record it, and
   differences come with the largest loss first. */
#include <paradl/validate/measured_run.h>

#include "test.h"

#include <math.h>

#define KERNEL(name, stream, ts, dur)                                                                  \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" name "\",\"pid\":0,\"tid\":" #stream ",\"ts\":" #ts \
    ",\"dur\":" #dur "},"
#define STEP(ts, dur)                                                                              \
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#7\",\"pid\":99,\"ts\":" #ts \
    ",\"dur\":" #dur "}"

/* Two steps of a second, of which the second only says where the first ends: in each a product of 0.4 s, 0.2 s of others, and 0.3 s of communication, of which 0.1 s is
   overlapped; one kernel of another device. */
static const char trace[] = "{\"schemaVersion\": 1, \"traceEvents\": [" KERNEL("sm90_xmma_gemm_f16", 7, 1000000,
                                                                               400000)
    KERNEL("vectorized_elementwise_kernel", 7, 1400000, 200000) KERNEL(
        "ncclDevKernel_AllReduce", 9, 1500000,
        300000) "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"x\",\"pid\":1,\"ts\":1900000,\"dur\":50000},"
                "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":99,\"ts\":1000000,\"dur\":900000},"
                "{\"ph\":\"i\",\"name\":\"mark\"}," KERNEL("ampere_gemm", 7, 2000000, 400000)
                    KERNEL("layer_norm", 7, 2400000, 200000) KERNEL("ncclKernel_AllGather", 9, 2500000, 300000)
                        KERNEL("late", 7, 3000000, 500000) STEP(1000000, 1000000) "," STEP(2000000, 1000000) "]}";

static pdl_measured_run_t read(const char *text)
{
    pdl_measured_run_t run;

    REQUIRE_OK(pdl_measured_run_read_memory(text, strlen(text), "log", &run));
    return run;
}

static void a_trace_tells_kernels_apart(void)
{
    pdl_measured_run_t run = read(trace);

    CHECK_INT(run.iterations, 1);
    CHECK_NEAR(run.iteration_s, 1, 1e-9);
    CHECK_NEAR(run.compute_s, 0.6, 1e-9);
    CHECK_NEAR(run.product_s, 0.4, 1e-9);
    CHECK_NEAR(run.comm_s, 0.2, 1e-9);
    CHECK_NEAR(run.overlapped_s, 0.1, 1e-9);
    CHECK_NEAR(run.idle_s, 0.2, 1e-9);
    CHECK(isnan(run.io_s));
}

/* The host is 100 s ahead; without the device's own steps nothing would run in them. */
static void steps_of_the_device_come_first(void)
{
    pdl_measured_run_t run = read("{\"traceEvents\": [" STEP(0, 1000000) "," STEP(
        1000000, 1000000) ","
                          "{\"cat\":\"gpu_user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":0,\"ts\":100000000,"
                          "\"dur\":1},"
                          "{\"cat\":\"gpu_user_annotation\",\"name\":\"ProfilerStep#2\",\"pid\":0,\"ts\":102000000,"
                          "\"dur\":1}," KERNEL("gemm", 7, 100500000, 500000) "{}]}");

    CHECK_NEAR(run.iteration_s, 2, 1e-9);
    CHECK_NEAR(run.product_s, 0.5, 1e-9);
    CHECK_NEAR(run.idle_s, 1.5, 1e-9);
}

static void a_log_has_the_middle_update(void)
{
    pdl_measured_run_t run =
        read("{\"paradl\": \"run/1\", \"model\": \"lenet\"}\n"
             "{\"step\": 1, \"step_s\": 9, \"compute_s\": 8, \"comm_s\": 1, \"io_s\": 0}\n"
             "{\"step\": 2, \"step_s\": 2, \"compute_s\": 1.5, \"comm_s\": 0.3, \"io_s\": 0.1}\n"
             "{\"step\": 3, \"step_s\": 4, \"compute_s\": 3, \"comm_s\": 0.5, \"io_s\": 0.2}\n"
             "{\"step\": 4, \"step_s\": 3, \"compute_s\": 2, \"comm_s\": 0.4, \"io_s\": 0.3}\n"
             "{\"epoch\": 1, \"train_loss\": 2}\n{\"step\": 5, \"st");

    CHECK_INT(run.iterations, 3);
    CHECK_NEAR(run.iteration_s, 3, 0);
    CHECK_NEAR(run.compute_s, 2, 0);
    CHECK_NEAR(run.comm_s, 0.4, 0);
    CHECK_NEAR(run.io_s, 0.2, 0);
    CHECK(isnan(run.product_s) && isnan(run.idle_s));
}

static void numbers_may_be_given_by_hand(void)
{
    pdl_measured_run_t run;

    CHECK_OK(pdl_measured_run_read("iteration_s=2.5,comm_s=400ms,memory=1GiB", &run));
    CHECK_NEAR(run.iteration_s, 2.5, 0);
    CHECK_NEAR(run.comm_s, 0.4, 1e-12);
    CHECK_NEAR(run.memory_bytes, 1073741824, 0);
    CHECK_INT(pdl_measured_run_read("comm_s=1", &run), PDL_ERR_INPUT);
    CHECK(strstr(pdl_error_message(), "add iteration_s=SECONDS") != NULL);
    CHECK_INT(pdl_measured_run_read("iteration_s=fast", &run), PDL_ERR_INPUT);
    CHECK_INT(pdl_measured_run_read("iteration_s=1,speed=2", &run), PDL_ERR_INPUT);
    CHECK(strstr(pdl_error_message(), "\"speed=2\"") != NULL);
    CHECK_INT(pdl_measured_run_read("iteration_s=1,iteration_s=2", &run), PDL_ERR_INPUT);
    CHECK(strstr(pdl_error_message(), "twice") != NULL);
    CHECK_INT(pdl_measured_run_read("iteration_s=1,compute_s=0.8,comm_s=0.4", &run), PDL_ERR_INPUT);
    CHECK(strstr(pdl_error_message(), "the parts take 1.2 s") != NULL);
    CHECK_INT(pdl_measured_run_read("iteration_s=1,memory=70", &run), PDL_ERR_INPUT);
    CHECK(strstr(pdl_error_message(), "memory=70GiB") != NULL);
}

static void what_is_missing_is_said(void)
{
    static const char *const wrong[][2] = {
        {"{\"traceEvents\": [" KERNEL("k", 7, 1, 1) STEP(1, 0) "]", "no JSON"},
        {"{\"traceEvents\": [{\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":2}]}", "no ProfilerStep"},
        {"{\"traceEvents\": [" STEP(1, 5) "]}", "no kernels of a device"},
        {"{\"model_type\": \"gpt2\"}", "no traceEvents and no step_s"},
        {"{\"loss\": 3}\n{\"loss\": 2}\n", "no line has step_s"},
        {"", "no JSON"},
        {"[]", "no traceEvents"},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        pdl_measured_run_t run;

        CHECK_INT(pdl_measured_run_read_memory(wrong[i][0], strlen(wrong[i][0]), "log", &run), PDL_ERR_INPUT);
        if (strstr(pdl_error_message(), wrong[i][1]) == NULL) CHECK_STR(pdl_error_message(), wrong[i][1]);
    }
}

static void the_largest_loss_comes_first(void)
{
    pdl_projection_t p = {
        .total_s = 0.8, .low_s = 0.7, .high_s = 0.9, .compute_s = 0.62, .matrix_s = 0.42, .comm_s = 0.05};
    pdl_measured_run_t run = read(trace);
    pdl_difference_t   d;

    pdl_measured_compare(&run, &p, &d);
    CHECK_INT(d.count, 4);
    CHECK(!d.within);
    CHECK_STR(d.missing, "");
    CHECK_STR(d.row[0].name, "device idle: host, samples, bubble");
    CHECK_STR(d.row[1].name, "exposed communication");
    CHECK_NEAR(d.row[1].measured - d.row[1].projected, 0.15, 1e-9);
    CHECK_STR(d.row[3].name, "products and convolutions");

    CHECK_OK(pdl_measured_run_read("iteration_s=0.75", &run));
    pdl_measured_compare(&run, &p, &d);
    CHECK(d.within);
    CHECK_STR(d.missing, "idle_s, io_s, compute_s, comm_s");
}

int main(void)
{
    RUN(a_trace_tells_kernels_apart);
    RUN(steps_of_the_device_come_first);
    RUN(a_log_has_the_middle_update);
    RUN(numbers_may_be_given_by_hand);
    RUN(what_is_missing_is_said);
    RUN(the_largest_loss_comes_first);
    return test_done();
}
