/*
 * Synchronised batch norm: two ranks with a part of the batch each, who add up their sums, compute what one rank
 * with the whole batch computes. The ranks are threads here.
 */
#include "op_cases.h"
#include "op_meeting.h"
#include "tensor/cuda_device.h"
#include "test.h"

#define PARTS 2

typedef struct part {
    op_case_t      c;
    pdl_backend_t *backend;
    meeting_t     *meeting;
    op_result_t    result;
    pdl_status_t   status;
} part_t;

static void *run_part(void *argument)
{
    part_t *part = argument;

    part->status = op_case_run(part->backend, &part->c, &part->result);
    if (part->status) printf("a part failed: %s\n", pdl_error_message());
    meeting_leave(part->meeting);
    return NULL;
}

/* Elements `first`.. of the whole are those of the part, or its values are summands of the whole. */
static void check_parts(part_t parts[PARTS], const op_result_t *whole, double bound)
{
    int64_t first = 0;

    for (int i = 0; i < PARTS; i++) {
        const op_result_t *result = &parts[i].result;

        CHECK(op_difference(result->output, whole->output + first, result->out_count) <= bound);
        CHECK(op_difference(result->input_gradient[0], whole->input_gradient[0] + first, result->out_count) <=
              bound);
        for (int k = 0; k < whole->weights; k++)
            CHECK(op_difference(result->weight[k], whole->weight[k], whole->weight_count[k]) <= bound);
        first += result->out_count;
    }
    for (int k = 0; k < whole->weights; k++) {
        double *sum = parts[0].result.weight_gradient[k];

        if (sum == NULL) continue;
        for (int64_t i = 0; i < whole->weight_count[k]; i++) sum[i] += parts[1].result.weight_gradient[k][i];
        CHECK(op_difference(sum, whole->weight_gradient[k], whole->weight_count[k]) <= bound);
    }
}

static void check(pdl_backend_t *backends[PARTS], pdl_backend_t *reference, const op_case_t *c, double bound)
{
    static const int64_t samples[PARTS] = {2, 3};

    meeting_t   meeting = MEETING_OF(PARTS);
    part_t      parts[PARTS];
    pthread_t   threads[PARTS];
    op_result_t whole;
    op_case_t   all = *c;

    all.samples = samples[0] + samples[1];
    CHECK_OK(op_case_run(reference, &all, &whole));
    for (int i = 0; i < PARTS; i++) {
        parts[i] = (part_t){.c = *c, .backend = backends[i], .meeting = &meeting};
        parts[i].c.samples = samples[i];
        parts[i].c.first_sample = i * samples[0];
        parts[i].c.total_samples = all.samples;
        parts[i].c.meeting = &meeting;
        CHECK_INT(pthread_create(&threads[i], NULL, run_part, &parts[i]), 0);
    }
    for (int i = 0; i < PARTS; i++) pthread_join(threads[i], NULL);
    CHECK_OK(parts[0].status);
    CHECK_OK(parts[1].status);
    if (!parts[0].status && !parts[1].status) check_parts(parts, &whole, bound);
    for (int i = 0; i < PARTS; i++) op_result_free(&parts[i].result);
    op_result_free(&whole);
}

static const op_case_t cases[] = {
    {.text = IMAGE("5", batch_norm
                   : {})},
    {.text = IMAGE("17, size: [3, 5]", batch_norm
                   : {momentum : 0.3})},
    {.text = IMAGE("17, size: [3, 5]", batch_norm
                   : {}),
     .fusion = {false, PDL_LAYER_RELU},
     .blocked = true},
    {.text = IMAGE("16, size: [2, 3, 2]", batch_norm
                   : {bias : false}),
     .fusion = {true, PDL_LAYER_RELU},
     .blocked = true},
};

static pdl_backend_t *reference, *cpus[PARTS], *gpus[PARTS];

static void parts_of_the_reference_make_the_whole(void)
{
    pdl_backend_t *backends[PARTS] = {reference, reference};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) check(backends, reference, &cases[i], 1e-12);
}

static void parts_on_cpus_make_the_whole(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) check(cpus, reference, &cases[i], 1e-5);
}

static void parts_on_gpus_make_the_whole(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) check(gpus, reference, &cases[i], 1e-5);
}

int main(int count, char **arguments)
{
    pdl_cuda_options_t gpu = cuda_options(count, arguments, PDL_DTYPE_F32);

    pdl_cpu_options_t options = {.threads = 1, .precision = PDL_DTYPE_F32};

    if (pdl_backend_create_reference(&reference) || pdl_backend_create_cpu(&options, &cpus[0]) ||
        pdl_backend_create_cpu(&options, &cpus[1])) {
        printf("no backend: %s\n", pdl_error_message());
        return 1;
    }
    RUN(parts_of_the_reference_make_the_whole);
    RUN(parts_on_cpus_make_the_whole);
    if (pdl_backend_create_cuda(&gpu, &gpus[0]) == PDL_OK && pdl_backend_create_cuda(&gpu, &gpus[1]) == PDL_OK)
        RUN(parts_on_gpus_make_the_whole);
    else
        printf("     without GPUs: %s\n", pdl_error_message());
    pdl_backend_destroy(reference);
    for (int i = 0; i < PARTS; i++) {
        pdl_backend_destroy(cpus[i]);
        pdl_backend_destroy(gpus[i]);
    }
    return test_done();
}
