/*
 * A step of one rank gives everything to the device and waits once, at its end; an evaluation too. What is decided on the
 * device meanwhile is what the host decides on the CPU.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/exec/session.h"

#define STEPS 3
#define BATCH 4
#define ROOM  4096
#include "batch_fixture.h"

typedef struct setting {
    const char  *model;
    pdl_method_t method;
    double       clip, ema;
    int          micro_batches;
} setting_t;

static const setting_t settings[] = {
    {"lenet", PDL_METHOD_SGD, 0, 0, 1},
    {"lenet", PDL_METHOD_LARS, 1, 0.9, 2},
    {"lenet", PDL_METHOD_LAMB, 0.1, 0, 1},
    {"resnet-tiny", PDL_METHOD_SGD, 0.5, 0, 2},
    {"gpt-char-small", PDL_METHOD_ADAMW, 1, 0.5, 1},
};

static int waits;

static pdl_status_t (*synchronise)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream);

static pdl_status_t count_waits(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream)
{
    waits++;
    return synchronise(device, stream);
}

static int         uploads;
static const void *uploaded;

static pdl_status_t (*copy)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, void *to, const void *from,
                            size_t bytes);

static pdl_status_t count_uploads(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, void *to,
                                  const void *from, size_t bytes)
{
    uploads += from == uploaded;
    return copy(device, stream, to, from, bytes);
}

typedef struct run {
    pdl_model_t     *model;
    pdl_plan_t      *plan;
    pdl_backend_t   *backend;
    pdl_ranks_t     *ranks;
    pdl_session_t   *session;
    pdl_device_ops_t counting;
    pdl_batch_t      batch;
} run_t;

static void begin(run_t *run, const setting_t *setting, bool guard)
{
    pdl_cpu_options_t  cpu = {.threads = 1};
    pdl_session_spec_t spec;

    *run = (run_t){0};
    REQUIRE_OK(pdl_model_load(setting->model, &run->model));
    REQUIRE_OK(pdl_plan_create(run->model, &(pdl_mesh_t){.axis_count = 0}, BATCH, &run->plan));
    run->plan->micro_batches = setting->micro_batches;
    CHECK_OK(pdl_plan_check(run->plan));
    REQUIRE_OK(pdl_ranks_create(&run->ranks));
    REQUIRE_OK(guard ? pdl_backend_create_guard(&cpu, true, &run->backend)
                     : pdl_backend_create("cpu", &cpu, &run->backend));
    if (guard) {
        run->counting = *run->backend->device->ops;
        synchronise = run->counting.synchronise;
        run->counting.synchronise = count_waits;
        copy = run->counting.copy;
        run->counting.copy = count_uploads;
        run->backend->device->ops = &run->counting;
    }
    pdl_session_defaults(&spec);
    spec.plan = run->plan;
    spec.backend = run->backend;
    spec.ranks = run->ranks;
    spec.optimizer.method = setting->method;
    spec.optimizer.weight_decay = 0.01;
    spec.optimizer.clip_norm = setting->clip;
    spec.optimizer.ema = setting->ema;
    spec.optimizer.lr = 1e-3;
    spec.timeline = setting->micro_batches > 1;
    REQUIRE_OK(pdl_session_create(&spec, &run->session));
    run->batch = part_of_batch(run->plan, run->session);
}

static void end(run_t *run)
{
    pdl_session_destroy(run->session);
    pdl_backend_destroy(run->backend);
    pdl_ranks_destroy(run->ranks);
    pdl_plan_destroy(run->plan);
    pdl_model_destroy(run->model);
}

static void steps_wait_once(void)
{
    fill_batch(2);
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
        run_t             cpu, guard;
        pdl_step_result_t expected, found;

        begin(&cpu, &settings[i], false);
        begin(&guard, &settings[i], true);
        for (int step = 0; step <= STEPS; step++) {
            bool trains = step < STEPS;

            CHECK_OK((trains ? pdl_session_step : pdl_session_evaluate)(cpu.session, &cpu.batch, &expected));
            waits = 0;
            CHECK_OK((trains ? pdl_session_step : pdl_session_evaluate)(guard.session, &guard.batch, &found));
            CHECK_INT(waits, 1);
            CHECK_NEAR(found.loss, expected.loss, 0);
            CHECK_NEAR(found.gradient_norm, expected.gradient_norm, 0);
            CHECK(!trains || (settings[i].clip > 0) == (found.gradient_norm > 0));
        }
        CHECK_NEAR(sum_weights(guard.session), sum_weights(cpu.session), 0);
        end(&cpu);
        end(&guard);
    }
}

/* The host learns of a bad loss when the update has been given to the device, which left the weights alone. */
static void bad_steps_change_nothing(void)
{
    for (int guard = 0; guard < 2; guard++)
        for (int clips = 0; clips < 2; clips++) {
            const setting_t   setting = {"lenet", PDL_METHOD_SGD, clips, 0, 2};
            pdl_step_result_t result;
            run_t             run;

            fill_batch(2);
            begin(&run, &setting, guard);
            CHECK_OK(pdl_session_step(run.session, &run.batch, &result));
            double before = sum_weights(run.session);
            values[17] = INFINITY;
            CHECK_ERROR(pdl_session_step(run.session, &run.batch, &result),
                        "sample 0 of the batch (the first is 0) holds a value that is not finite");
            CHECK_NEAR(sum_weights(run.session), before, 0);
            end(&run);
        }
}

/* Of a sample without weight only the gradients speak. */
static void samples_without_weight_do_not_count(void)
{
    const setting_t   setting = {"lenet", PDL_METHOD_SGD, 0, 0, 1};
    pdl_step_result_t result;
    run_t             run;

    fill_batch(2);
    begin(&run, &setting, true);
    weight[1] = 0;
    CHECK_OK(pdl_session_step(run.session, &run.batch, &result));
    CHECK_NEAR(result.samples, BATCH - 1, 0);
    end(&run);
}

/* Batches that come to the device while the one before is trained on, and others between. */
static void batches_come_ahead(void)
{
    static float      other[BATCH * ROOM];
    const setting_t   setting = {"lenet", PDL_METHOD_SGD, 0, 0, 2};
    pdl_step_result_t expected = {0}, found = {0};
    run_t             cpu, guard;

    fill_batch(2);
    for (int i = 0; i < BATCH * ROOM; i++) other[i] = -values[i];
    begin(&cpu, &setting, false);
    begin(&guard, &setting, true);
    for (int step = 0; step < 2 * STEPS; step++) {
        pdl_batch_t now = guard.batch, next = guard.batch;

        now.step = step;
        next.step = step + 1;
        if (step % 2) now.values = other;
        if (step % 2 == 0) next.values = other;
        if (step % 3 < 2) CHECK_OK(pdl_session_expect(guard.session, &next));
        if (step == 3) CHECK_OK(pdl_session_evaluate(guard.session, &cpu.batch, &found));
        if (step == 3) CHECK_OK(pdl_session_evaluate(cpu.session, &cpu.batch, &expected));
        CHECK_NEAR(found.loss, expected.loss, step == 3 ? 0 : INFINITY);
        CHECK_OK(pdl_session_step(cpu.session, &now, &expected));
        waits = 0;
        CHECK_OK(pdl_session_step(guard.session, &now, &found));
        CHECK_INT(waits, 1);
        CHECK_NEAR(found.loss, expected.loss, 0);
    }
    end(&cpu);
    end(&guard);
}

/* As a run of training does it: the next batch is expected before the step at hand. */
static void batches_come_once(void)
{
    const setting_t   setting = {"lenet", PDL_METHOD_SGD, 0, 0, 1};
    pdl_step_result_t result;
    run_t             run;

    fill_batch(2);
    begin(&run, &setting, true);
    uploads = 0;
    uploaded = run.batch.values;
    for (int step = 0; step < STEPS; step++) {
        pdl_batch_t now = run.batch, next = run.batch;

        now.step = step;
        next.step = step + 1;
        CHECK_OK(pdl_session_expect(run.session, &next));
        CHECK_OK(pdl_session_step(run.session, &now, &result));
    }
    CHECK_INT(uploads, STEPS + 1);
    end(&run);
}

/* Images that come as bytes are the same to the network as the floats that a loader makes of them. */
static void bytes_are_as_good_as_floats(void)
{
    static uint8_t            bytes[BATCH * ROOM];
    static pdl_image_change_t changes[BATCH];
    const setting_t           setting = {"lenet", PDL_METHOD_SGD, 0, 0, 2};
    pdl_image_scale_t         scale = {.shift = {0.25f}, .factor = {3}};
    pdl_step_result_t         expected, found;
    run_t                     cpu, guard;

    fill_batch(2);
    begin(&cpu, &setting, false);
    begin(&guard, &setting, true);
    pdl_shape_t shape = pdl_model_input(cpu.model);
    int64_t     elements = pdl_shape_elements(&shape);
    for (int64_t i = 0; i < BATCH * elements; i++) bytes[i] = (uint8_t)between(0, 255);
    for (int n = 0; n < BATCH; n++) {
        static float stored[ROOM];
        float       *to = values + n * elements;
        changes[n] = (pdl_image_change_t){.move = {0, n - 2, 1}, .flip = n % 2};
        for (int64_t i = 0; i < elements; i++) stored[i] = (float)bytes[n * elements + i] / 255.0f;
        pdl_image_move(&changes[n], &shape, stored, to);
        pdl_image_finish(&changes[n], &scale, &shape, 0, to);
    }
    guard.batch.values = NULL;
    guard.batch.bytes = bytes;
    guard.batch.changes = changes;
    guard.batch.scale = &scale;
    for (int step = 0; step < STEPS; step++) {
        CHECK_OK(pdl_session_step(cpu.session, &cpu.batch, &expected));
        CHECK_OK(pdl_session_step(guard.session, &guard.batch, &found));
        CHECK_NEAR(found.loss, expected.loss, 0);
    }
    guard.batch.changes = NULL;
    CHECK_ERROR(pdl_session_step(guard.session, &guard.batch, &found), "a batch has no changes");
    end(&cpu);
    end(&guard);
}

/* Of every operation that computes one moment, in the order of the program and one behind the other. */
static void times_are_those_of_the_device(void)
{
    const setting_t   setting = {"lenet", PDL_METHOD_SGD, 0, 0, 2};
    pdl_step_result_t result;
    double            class_s[PDL_OP_CLASS_COUNT], before_s = 0, sum_s = 0, classes_s = 0;
    run_t             run;
    int               moment = 0;

    fill_batch(2);
    begin(&run, &setting, true);
    CHECK_OK(pdl_session_step(run.session, &run.batch, &result));
    const pdl_program_t *program = run.session->program;
    for (int i = 0; i < program->op_count; i++) {
        if (program->op[i].kind == PDL_OP_LOAD || program->op[i].kind == PDL_OP_RESULT) continue;
        const pdl__moment_t *at = &run.session->observer.timeline[moment++];
        CHECK_INT(at->op, i);
        CHECK(at->start_s >= before_s && at->end_s >= at->start_s);
        before_s = at->end_s;
        sum_s += at->end_s - at->start_s;
    }
    CHECK_INT(run.session->observer.timeline_count, moment);
    pdl_session_classes(run.session, class_s);
    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) classes_s += class_s[i];
    CHECK(sum_s > 0 && sum_s < result.step_s);
    CHECK_NEAR(classes_s, sum_s, 1e-9);
    end(&run);
}

int main(void)
{
    RUN(times_are_those_of_the_device);
    RUN(batches_come_ahead);
    RUN(batches_come_once);
    RUN(bytes_are_as_good_as_floats);
    RUN(steps_wait_once);
    RUN(bad_steps_change_nothing);
    RUN(samples_without_weight_do_not_count);
    return test_done();
}
