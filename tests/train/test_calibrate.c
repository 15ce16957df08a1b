/* Calibration of a device that the host queues work for, on the guard device: what is measured, and the description of it. */
#include "test.h"

#include <paradl/train/calibrate.h>

#include <stdlib.h>
#include <string.h>

static pdl_status_t create_guard(const pdl_calibration_device_t *device, pdl_dtype_t precision,
                                 pdl_backend_t **backend)
{
    pdl_cpu_options_t options = {.threads = 1, .precision = precision};

    (void)device;
    return pdl_backend_create_guard(&options, false, backend);
}

static pdl_calibration_t *calibrate(pdl_ranks_t *ranks)
{
    pdl_calibration_device_t  device = {.backend = "cuda",
                                        .name = "guard: a [device]",
                                        .versions = "none",
                                        .memory_bytes = 1e9,
                                        .units = 2,
                                        .count = 1,
                                        .create = create_guard};
    pdl_calibration_options_t options = {.ranks = ranks, .threads = 1, .device = &device, .quick = true};
    pdl_calibration_t        *c = NULL;

    REQUIRE_OK(pdl_calibrate(&options, &c));
    return c;
}

static void what_is_measured_makes_sense(const pdl_calibration_t *c)
{
    CHECK_STR(c->backend, "cuda");
    CHECK_INT(c->devices, 1);
    CHECK(c->flop_per_s > 1e8 && c->bytes_per_s > 1e8 && c->kernel_queue_s > 0 && c->kernel_gap_s > 0);
    CHECK(c->host_count >= 5);
    for (int i = 0; i < c->host_count; i++)
        for (int w = 0; w < PDL_HOST_WAYS; w++) CHECK(c->host[i].bytes_per_s[w] > 1e6);
    CHECK(c->row_count > 8 && c->sharing == 0 && c->link_bytes_per_s == 0);
    CHECK(c->queue_s >= 0 && c->step_s >= 0);
    REQUIRE(c->operation_count >= 10);
    for (int i = 0; i < c->operation_count; i++)
        CHECK(c->operation[i].seconds[PDL_TIMED_FORWARD] > 0 &&
              (c->operation[i].replayed_s[PDL_TIMED_FORWARD] > 0) == c->graphs &&
              c->operation[i].hash == pdl_timed_hash(c->operation[i].key));
}

static int rows_of(const pdl_system_t *system, int layer, pdl_precision_t precision)
{
    int count = 0;

    for (int i = 0; i < system->measured_count; i++)
        count += system->measured[i].layer == layer && system->measured[i].precision == (int)precision &&
                 system->measured[i].seconds[0] > 0;
    return count;
}

/* The first operation of this kind in training, fp32. */
static const pdl_timed_op_t *operation_of(const pdl_system_t *system, const char *kind)
{
    for (int i = 0; i < system->operation_count; i++)
        if (strncmp(system->operation[i].key, kind, strlen(kind)) == 0 &&
            system->operation[i].precision == PDL_FP32 && strstr(system->operation[i].key, " forward") == NULL)
            return &system->operation[i];
    return NULL;
}

static void its_operations_can_be_read(const pdl_calibration_t *c, const pdl_system_t *system)
{
    const pdl_timed_op_t *linear = operation_of(system, "linear 400 to 120"),
                         *load = operation_of(system, "load 1x28x28");

    CHECK_INT(system->operation_count, c->operation_count);
    for (int i = 1; i < system->operation_count; i++)
        CHECK(pdl_timed_compare(&system->operation[i - 1], &system->operation[i]) < 0);
    REQUIRE(linear != NULL && load != NULL);
    CHECK_NEAR(linear->samples, 8, 0);
    for (int pass = 0; pass < PDL_TIMED_PASSES; pass++)
        CHECK(linear->seconds[pass] > 0 && (linear->replayed_s[pass] > 0) == system->device.graphs);
    CHECK(load->seconds[PDL_TIMED_BACKWARD] == 0);
}

static void its_description_can_be_read(const pdl_calibration_t *c)
{
    char               *text = NULL;
    size_t              length = 0;
    FILE               *stream = open_memstream(&text, &length);
    const pdl_system_t *system = NULL;

    REQUIRE(stream != NULL);
    CHECK_OK(pdl_calibration_write(c, "guard", stream));
    fclose(stream);
    REQUIRE_OK(pdl_system_read_memory(text, length, "guard.yaml", &system));
    CHECK_STR(system->backend, "cuda");
    CHECK_STR(system->parameters, "cuda");
    CHECK_INT(system->device.compute_units, 2);
    CHECK_NEAR(system->device.memory_bytes, 1e9, 0);
    CHECK_NEAR(system->device.host_link.bytes_per_s[PDL_HOST_BOTH],
               c->host[c->host_count - 1].bytes_per_s[PDL_HOST_BOTH], 1e-3);
    CHECK_INT(system->device.host_link.size_count, c->host_count);
    CHECK_NEAR(system->device.queue_s, c->queue_s, 1e-2);
    CHECK(rows_of(system, PDL_LAYER_CONV, PDL_FP32) >= 2);
    its_operations_can_be_read(c, system);
    CHECK(rows_of(system, PDL_MEASURED_UPDATE, PDL_FP32) == 1);
    if (c->half_flop_per_s > 0) CHECK(rows_of(system, PDL_LAYER_CONV, PDL_BF16) >= 2);
    pdl_system_destroy(system);
    free(text);
}

static void a_device_is_calibrated(void)
{
    pdl_ranks_t *ranks = NULL;

    REQUIRE_OK(pdl_ranks_create(&ranks));
    pdl_calibration_t *c = calibrate(ranks);
    what_is_measured_makes_sense(c);
    its_description_can_be_read(c);
    pdl_calibration_destroy(c);
    pdl_ranks_destroy(ranks);
}

int main(void)
{
    RUN(a_device_is_calibrated);
    return test_done();
}
