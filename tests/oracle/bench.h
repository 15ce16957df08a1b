/*
 * A model, a system and parameters to ask about: what tests of the oracle begin with.
 */
#ifndef PDL_TEST_BENCH_H
#define PDL_TEST_BENCH_H

#include "test.h"

#include <paradl/oracle/oracle.h>

/* Nothing but operations, bytes and rings. */
__attribute__((unused)) static pdl_parameters_t simple(void)
{
    pdl_parameters_t p;

    pdl_parameters_default(&p);
    p.call_s = p.update_tensor_s = p.tensor_exchange_s = p.workspace_bytes = 0;
    p.kernel_s = 1e-30;
    p.narrow_tile = 1;
    p.fabric_efficiency = p.network_efficiency = p.overlap_slowdown = p.memory_margin = 1;
    p.ring_only = true;
    p.overlap_gradients = p.overlap_stages = p.multi_rail = false;
    return p;
}

typedef struct bench {
    pdl_model_t     *model;
    pdl_oracle_t    *oracle;
    pdl_parameters_t p;
} bench_t;

static bench_t begin(const char *name, const pdl_system_t *system, pdl_parameters_t p)
{
    bench_t b = {.p = p};

    if (strncmp(name, "paradl:", 7) == 0)
        CHECK_OK(pdl_model_read_yaml_memory(name, strlen(name), "model", &b.model));
    else
        REQUIRE_OK(pdl_model_load(name, &b.model));
    REQUIRE_OK(pdl_oracle_create(b.model, system, &b.p, &b.oracle));
    return b;
}

static void end(bench_t *b)
{
    pdl_oracle_destroy(b->oracle);
    pdl_model_destroy(b->model);
}

__attribute__((unused)) static pdl_projection_t evaluate(bench_t *b, const pdl_config_t *config)
{
    pdl_projection_t out;

    memset(&out, 0, sizeof(out));
    CHECK_OK(pdl_oracle_evaluate(b->oracle, config, NULL, &out));
    return out;
}

#endif
