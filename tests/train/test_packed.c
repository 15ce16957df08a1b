/*
 * Packed copies of weights, on the emulated GPU: those that an update writes are what making them anew gives.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "test.h"
#include "train/exec/session.h"

#define SAMPLES 2
#define TOKENS  4

/* The head has the weight of the table: its copy is written by the update of that. */
static const char text[] = "paradl: model/1\nname: tokens\ninput: {tokens: 4, vocabulary: 8}\nlayers:\n"
                           "  - embedding: {name: wte, out: 8, init: normal, std: 0.5}\n"
                           "  - linear: {name: up, out: 16}\n"
                           "  - gelu: {name: gelu}\n"
                           "  - linear: {name: down, out: 8}\n"
                           "  - layer_norm: {name: ln}\n"
                           "  - linear: {name: head, out: 8, bias: false, tied: wte}\n"
                           "  - cross_entropy: {name: loss}\n";

static pdl_backend_t *backend;

static void *fetch(const pdl_session_t *s)
{
    void *bytes = malloc(s->weights.packed_bytes);

    CHECK_OK(pdl__session_await(s));
    CHECK_OK(
        s->executor.device->ops->copy(s->executor.device, NULL, bytes, s->weights.packed, s->weights.packed_bytes));
    return bytes;
}

static void updates_write_copies(void)
{
    pdl_model_t       *model = NULL;
    pdl_plan_t        *plan = NULL;
    pdl_ranks_t       *ranks = NULL;
    pdl_session_t     *session = NULL;
    pdl_session_spec_t spec;
    pdl_step_result_t  result;
    int32_t            tokens[SAMPLES * TOKENS], labels[SAMPLES * TOKENS];
    float              weight[SAMPLES] = {1, 1};
    int                written = 0, linear = 0;

    for (int i = 0; i < SAMPLES * TOKENS; i++) tokens[i] = labels[i] = (int32_t)between(0, 7);
    REQUIRE_OK(pdl_model_read_yaml_memory(text, strlen(text), "test", &model));
    REQUIRE_OK(pdl_plan_create(model, &(pdl_mesh_t){.axis_count = 0}, SAMPLES, &plan));
    plan->precision = PDL_BF16;
    REQUIRE_OK(pdl_ranks_create(&ranks));
    pdl_session_defaults(&spec);
    spec.plan = plan;
    spec.backend = backend;
    spec.ranks = ranks;
    REQUIRE_OK(pdl_session_create(&spec, &session));
    pdl_batch_t batch = {.tokens = tokens, .labels = labels, .weight = weight};
    void       *initial = fetch(session);
    CHECK_OK(pdl_session_step(session, &batch, &result));
    for (int u = 0; u < session->graph->unit_count; u++) {
        linear += session->graph->unit[u].description.packed_bytes > 0;
        written += session->weights.updated[u];
    }
    CHECK(linear >= 3 && written == linear);
    void *updated = fetch(session);
    CHECK_OK(pdl__session_refresh(session, false));
    void *refreshed = fetch(session);
    CHECK(memcmp(updated, initial, session->weights.packed_bytes) != 0);
    CHECK(memcmp(updated, refreshed, session->weights.packed_bytes) == 0);
    free(initial);
    free(updated);
    free(refreshed);
    pdl_session_destroy(session);
    pdl_ranks_destroy(ranks);
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

int main(void)
{
    pdl_cuda_options_t options = {.precision = PDL_DTYPE_BF16, .emulated = true};

    if (pdl_backend_create_cuda(&options, &backend) != PDL_OK) {
        printf("skipped: %s\n", pdl_error_message());
        return 77;
    }
    RUN(updates_write_copies);
    pdl_backend_destroy(backend);
    return test_done();
}
