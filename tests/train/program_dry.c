/*
 * Under mpirun on 4 ranks: named strategies with all that makes a rank hold or send something. What a dry session says
 * of a rank is what the real one holds and what is counted on the wire.
 */
#include "dry_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UPDATES 2

static const struct trial {
    const char             *model, *strategy;
    pdl_mesh_t              mesh;
    int                     micro_batches;
    pdl_pipeline_schedule_t schedule;
    int                     chunks;
    pdl_recompute_t         recompute;
    double                  clip, smoothing;
} trials[] = {
    {"resnet-tiny", "data", {{{PDL_AXIS_DATA, 4, 0}}, 1}, 1, 0, 1, 0, 0, 0},
    {"resnet-tiny", "data", {{{PDL_AXIS_DATA, 4, 0}}, 1}, 2, 0, 1, PDL_RECOMPUTE_FULL, 1, 0.1},
    {"resnet-tiny", "spatial", {{{PDL_AXIS_SPATIAL, 4, 0}}, 1}, 1, 0, 1, PDL_RECOMPUTE_FULL, 1, 0},
    {"resnet-tiny", "data+spatial", {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_SPATIAL, 2, 1}}, 2}, 2, 0, 1, 0, 0, 0.1},
    {"resnet-tiny", "filter", {{{PDL_AXIS_TENSOR, 4, 0}}, 1}, 1, 0, 1, PDL_RECOMPUTE_FULL, 0, 0},
    {"resnet-tiny", "data+channel", {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 2}, 1, 0, 1, 0, 1, 0},
    {"resnet-tiny", "pipeline", {{{PDL_AXIS_PIPELINE, 4, 0}}, 1}, 4, PDL_SCHEDULE_1F1B, 1, 0, 1, 0},
    {"resnet-tiny",
     "pipeline",
     {{{PDL_AXIS_PIPELINE, 4, 0}}, 1},
     4,
     PDL_SCHEDULE_GPIPE,
     1,
     PDL_RECOMPUTE_FULL,
     0,
     0},
    {"gpt-char-small", "pipeline", {{{PDL_AXIS_PIPELINE, 4, 0}}, 1}, 4, PDL_SCHEDULE_INTERLEAVED, 2, 0, 1, 0},
    {"gpt-char-small", "tensor", {{{PDL_AXIS_TENSOR, 4, 0}}, 1}, 1, 0, 1, 0, 1, 0.1},
    {"gpt-char-small",
     "3d",
     {{{PDL_AXIS_PIPELINE, 2, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 2},
     2,
     PDL_SCHEDULE_1F1B,
     1,
     0,
     1,
     0},
    {"gpt-char-small",
     "data+pipeline",
     {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_PIPELINE, 2, 0}}, 2},
     2,
     PDL_SCHEDULE_1F1B,
     1,
     PDL_RECOMPUTE_FULL,
     0,
     0},
    /* All tokens are the same and choose the same experts: as many come to one rank as ever can. */
    {"experts", "tensor", {{{PDL_AXIS_TENSOR, 4, 0}}, 1}, 2, 0, 1, PDL_RECOMPUTE_FULL, 0, 0},
    {"experts", "data+tensor", {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 2}, 1, 0, 1, 0, 1, 0},
};
#define TRIALS ((int)(sizeof(trials) / sizeof(*trials)))

/* One of the tests' own models, or one of the zoo. */
static pdl_status_t load(const char *name, pdl_model_t **model)
{
    const char *source = getenv("SOURCE");
    char        path[4096];

    snprintf(path, sizeof(path), "%s/tests/train/models/%s.yaml", source ? source : ".", name);
    return pdl_model_load(access(path, R_OK) == 0 ? path : name, model);
}

static pdl_status_t make_plan(const struct trial *trial, pdl_model_t **model, pdl_plan_t **plan)
{
    pdl_status_t status = load(trial->model, model);

    if (!status) status = pdl_plan_create(*model, &trial->mesh, 8, plan);
    if (!status) status = pdl_plan_apply_preset(*plan, trial->strategy, NULL);
    if (status) return status;
    (*plan)->micro_batches = trial->micro_batches;
    (*plan)->schedule = trial->schedule;
    (*plan)->recompute = trial->recompute;
    (*plan)->sync_batch_norm = true;
    status = pdl_plan_set_virtual_stages(*plan, trial->chunks);
    return status ? status : pdl_plan_check(*plan);
}

/* Samples of zeros: what is counted does not depend on them. */
static pdl_status_t update(pdl_session_t *session, const pdl_model_t *model)
{
    int64_t           first, count;
    pdl_shape_t       input = pdl_model_input(model);
    pdl_step_result_t result;
    pdl_status_t      status = PDL_OK;

    pdl_session_share(session, &first, &count);
    size_t      elements = (size_t)(count * pdl_shape_elements(&input)) * 16 + 16;
    float      *values = calloc(elements, sizeof(*values)), *weight = calloc((size_t)count, sizeof(*weight));
    int32_t    *classes = calloc(elements, sizeof(*classes));
    pdl_batch_t batch = {.values = values, .tokens = classes, .labels = classes, .weight = weight};
    for (int64_t i = 0; i < count; i++) weight[i] = 1;
    for (int i = 0; i < UPDATES && !status; i++) status = pdl_session_step(session, &batch, &result);
    free(values);
    free(weight);
    free(classes);
    return status;
}

static pdl_status_t run_trial(const struct trial *trial, pdl_ranks_t *ranks, pdl_backend_t *backend)
{
    pdl_model_t          *model = NULL;
    pdl_plan_t           *plan = NULL;
    pdl_session_t        *session = NULL;
    pdl_session_traffic_t traffic;
    double                before[PDL_SENT_KINDS];
    size_t                held = pdl_memory_held();
    pdl_session_spec_t    spec;
    pdl_status_t          status = make_plan(trial, &model, &plan);

    pdl_session_defaults(&spec);
    spec.plan = plan;
    spec.backend = backend;
    spec.ranks = ranks;
    spec.optimizer.clip_norm = trial->clip;
    spec.label_smoothing = trial->smoothing;
    spec.bucket_bytes = 1 << 16;
    spec.max_memory = (size_t)1 << 40;
    if (!status) status = pdl_session_create(&spec, &session);
    if (!status) status = pdl_ranks_agree(ranks, check_dry(&spec, session, pdl_memory_held() - held, &traffic));
    for (int k = 0; k < PDL_SENT_KINDS; k++) before[k] = pdl_ranks_sent(ranks, (pdl_sent_t)k);
    if (!status) status = update(session, model);
    if (!status) status = pdl_ranks_agree(ranks, check_sent(session, ranks, before, UPDATES, &traffic));
    if (!status && pdl_ranks_rank(ranks) == 0)
        printf("%-14s %-13s moves %.0f, stages %.0f, gradients %.0f, statistics %.0f, results %.0f\n", trial->model,
               trial->strategy, traffic.moves, traffic.stages, traffic.gradients, traffic.statistics,
               traffic.results);
    pdl_session_destroy(session);
    if (plan) pdl_plan_destroy(plan);
    pdl_model_destroy(model);
    return status;
}

int main(void)
{
    pdl_cpu_options_t cpu = {.threads = 1};
    pdl_ranks_t      *ranks;
    pdl_backend_t    *backend = NULL;
    int               failed = 0;

    if (pdl_ranks_create(&ranks) || pdl_backend_create_cpu(&cpu, &backend)) return 1;
    for (int i = 0; i < TRIALS; i++) {
        if (run_trial(&trials[i], ranks, backend) == PDL_OK) continue;
        failed++;
        if (pdl_ranks_rank(ranks) == 0)
            printf("FAILED: %s %s: %s\n", trials[i].model, trials[i].strategy, pdl_error_message());
    }
    pdl_backend_destroy(backend);
    pdl_ranks_destroy(ranks);
    return failed > 0;
}
