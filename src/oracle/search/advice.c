/*
 * What is left to advise after a search. It has tried every mesh of a strategy, its memory policies and numbers of
 * micro-batches at one batch: hints that name those would send people where the search has been.
 */
#include "oracle/search/searcher.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SAY(f, ...) snprintf((f)->hint, sizeof((f)->hint), __VA_ARGS__)

static bool is(const pdl_finding_t *f, const char *name)
{
    return strcmp(f->name, name) == 0;
}

/* What sharding the optimizer state would have changed, and why it was not taken. */
static pdl_status_t say_zero1(pdl__searcher_t *s, pdl_finding_t *f)
{
    pdl_config_t     config = s->best->config;
    pdl_projection_t sharded;
    char             saved[PDL_FORMAT_SIZE];

    config.sharding = PDL_SHARDING_ZERO1;
    pdl_status_t status = pdl__evaluate_replayed(s->oracle, &config, s->request->dataset, &sharded);
    if (status) return status;
    double change = 100 * (sharded.total_s / s->best->projection.total_s - 1);
    SAY(f, "memory suffices; zero1 would save %s and be %.1f %% %s",
        pdl_format_bytes(fmax(0, s->best->projection.memory_bytes - sharded.memory_bytes), saved), fabs(change),
        change > 0 ? "slower" : "faster, less than the 2 % that a policy must gain");
    return PDL_OK;
}

static void say_gradients(const pdl_projection_t *p, pdl_finding_t *f)
{
    if (p->contention > 1.01)
        SAY(f, "%.2g exchanges share each port: pack them into one; or use a larger batch", p->contention);
    else
        SAY(f, "a larger batch shares it out over more samples");
}

static void say_layers(const pdl_projection_t *p, pdl_finding_t *f)
{
    if (p->layer_startup_s <= 0.5 * p->comm[PDL_COMM_LAYER])
        SAY(f, "other sizes of the group were tried: a faster network inside it would help");
}

static void say_update(const pdl_config_t *config, pdl_finding_t *f)
{
    bool tried = config->data > 1 && config->sharding == PDL_SHARDING_NONE;

    SAY(f, "%sa larger batch shares it out over more samples",
        tried ? "zero1 was tried and gains less than 2 %; " : "");
}

pdl_status_t pdl__advise(pdl__searcher_t *s)
{
    const pdl_config_t *config = &s->best->config;
    pdl_projection_t   *p = &s->best->projection;
    bool         free_mesh = pdl_strategy_is_hybrid(config->strategy), training = config->run_mode == PDL_TRAINING;
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < p->finding_count && !status; i++) {
        pdl_finding_t *f = &p->findings[i];
        if (is(f, "gradient exchange")) say_gradients(p, f);
        if (is(f, "collectives in every layer") && free_mesh) say_layers(p, f);
        if (is(f, "weight update")) say_update(config, f);
        if (is(f, "load balance") && free_mesh)
            SAY(f, "other numbers of stages were tried: split the heavy layers");
        if (is(f, "pipeline bubble"))
            SAY(f, "more micro-batches and interleaved chunks were tried: a larger batch allows more");
        if (is(f, "redundant copies") && training) status = say_zero1(s, f);
    }
    return status;
}
