/*
 * Projecting published runs: what a row leaves open is chosen first, then the oracle is asked.
 */
#include "validate/published/published.h"
#include <math.h>
#include <paradl/oracle/prices.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the source does not state them: the largest micro-batch, a power of two and at most this, ... */
enum { LARGEST_MICRO_BATCH = 8, LARGEST_BATCH = 1024 };
/* Of a weight: a copy and two moments in 32 bits. */
static const double STATE_BYTES = 12;

static int64_t replicas_of(const pdl_config_t *c)
{
    return c->data / (c->context > 1 ? c->context : 1);
}

static pdl_status_t evaluate(pdl_oracle_t *oracle, pdl_config_t *c, int64_t micro, pdl_projection_t *out)
{
    int64_t samples = (c->batch + replicas_of(c) - 1) / replicas_of(c);

    c->micro_batches = samples > micro ? (samples + micro - 1) / micro : 1;
    return pdl_oracle_evaluate(oracle, c, NULL, out);
}

/* ... that divides the samples of a replica, leaves a pipeline four micro-batches a stage, and fits. */
static bool micro_batch_possible(const pdl_config_t *c, int64_t micro)
{
    int64_t samples = c->batch / replicas_of(c);

    if (samples % micro != 0) return false;
    return c->pipeline == 1 || samples / micro >= 4 * c->pipeline;
}

static pdl_status_t choose_micro_batch(pdl_oracle_t *oracle, pdl_recipe_t *r, pdl_projection_t *out)
{
    pdl_status_t status;

    for (r->micro_batch = LARGEST_MICRO_BATCH; r->micro_batch > 1; r->micro_batch /= 2) {
        if (!micro_batch_possible(&r->config, r->micro_batch)) continue;
        status = evaluate(oracle, &r->config, r->micro_batch, out);
        if (status || out->fits) return status;
    }
    return evaluate(oracle, &r->config, 1, out);
}

/* A source that gives samples per second but no batch has filled the memory. */
static pdl_status_t choose_batch(pdl_oracle_t *oracle, pdl_recipe_t *r, pdl_projection_t *out)
{
    pdl_config_t *c = &r->config;
    int64_t       replicas = replicas_of(c);
    int64_t       parts = r->steps > 0 ? r->steps : c->pipeline > 1 ? 4 * c->pipeline : 1;
    pdl_status_t  status = PDL_OK;

    for (c->batch = LARGEST_BATCH * replicas; c->batch >= replicas; c->batch /= 2) {
        c->micro_batches = parts < c->batch / replicas ? parts : c->batch / replicas;
        status = pdl_oracle_evaluate(oracle, c, NULL, out);
        if (status || out->fits || c->batch == replicas) return status;
    }
    return status;
}

static pdl_status_t evaluate_open(pdl_oracle_t *oracle, pdl_recipe_t *r, pdl_projection_t *out)
{
    if (r->choose_batch) return choose_batch(oracle, r, out);
    if (r->choose_micro_batch) return choose_micro_batch(oracle, r, out);
    return evaluate(oracle, &r->config, r->micro_batch, out);
}

/* Tokens go to their experts and come back, forward and backward: four all-to-alls in every layer. */
static void expert_exchange(const pdl_machine_t *m, const pdl_parameters_t *p, const pdl_recipe_t *r,
                            pdl_projection_t *out)
{
    const pdl_config_t *c = &r->config;
    double              tokens = (double)c->batch * (double)r->size.tokens / (double)(c->data * c->tensor);
    pdl_expert_route_t  route = {.ranks = (double)r->experts_over,
                                 .stride = 1,
                                 .bytes = tokens * (double)r->size.hidden * pdl_precision_bytes(PDL_BF16),
                                 .chosen = (double)r->size.top_k,
                                 .most_nodes = (double)r->size.most_nodes};

    if (r->experts_over <= 1) return;
    double seconds = pdl_expert_route_seconds(&m->system, p, &route);
    seconds *= 4 * (double)r->size.layers / (double)c->pipeline;
    double grow = (out->total_s + seconds) / out->total_s;
    out->comm_s += seconds;
    out->total_s *= grow;
    out->low_s *= grow;
    out->high_s *= grow;
}

/* Replicas of an expert are fewer than those of other weights, so its optimizer state is shared out among fewer. */
static void expert_states(const pdl_recipe_t *r, double memory_bytes, pdl_projection_t *out)
{
    const pdl_config_t *c = &r->config;
    double              data = (double)c->data, replicas = fmax(1, data / (double)r->experts_over);
    double weights = (double)(r->size.expert_products * r->size.hidden * r->size.ffn) * (double)r->size.experts /
                     (double)r->experts_over * (double)r->size.layers / (double)(c->pipeline * c->tensor);

    if (r->size.experts == 0 || c->sharding == PDL_SHARDING_NONE) return;
    out->memory_bytes += STATE_BYTES * weights * (1 / replicas - 1 / data);
    out->fits = out->memory_bytes <= memory_bytes;
}

/* Where the source does not say what is recomputed it is little: the time is that of none, the memory that of the
   lightest policy that fits. */
static pdl_status_t lighten(pdl_oracle_t *oracle, const pdl_recipe_t *r, double memory_bytes, pdl_projection_t *out)
{
    pdl_recipe_t     trial = *r;
    pdl_projection_t lighter;

    while (!out->fits && trial.config.recompute < PDL_RECOMPUTE_FULL) {
        trial.config.recompute++;
        pdl_status_t status = pdl_oracle_evaluate(oracle, &trial.config, NULL, &lighter);
        if (status) return status;
        out->memory_bytes = lighter.memory_bytes;
        out->memory = lighter.memory;
        out->fits = lighter.fits;
        expert_states(r, memory_bytes, out);
    }
    return PDL_OK;
}

/* Of what a block keeps when nothing is recomputed: every other product and attention. */
static const double KEPT_PRODUCTS = 0.35;

static pdl_status_t add_products(pdl_oracle_t *oracle, const pdl_recipe_t *r, double memory_bytes,
                                 pdl_projection_t *out)
{
    pdl_recipe_t     all = *r;
    pdl_projection_t kept;

    all.config.recompute = PDL_RECOMPUTE_NONE;
    pdl_status_t status = pdl_oracle_evaluate(oracle, &all.config, NULL, &kept);
    if (status) return status;
    out->memory_bytes += KEPT_PRODUCTS * fmax(0, kept.memory_bytes - out->memory_bytes);
    out->fits = out->memory_bytes <= memory_bytes;
    return PDL_OK;
}

/* Shares of the weights that are with the host come over its link for forward, for the repeated one and for backward, beside
   computation that is longer everywhere but in tiny runs; gradients go there. */
static void move_weights(const pdl_machine_t *m, const pdl_recipe_t *r, pdl_projection_t *out)
{
    double passes = (r->config.recompute == PDL_RECOMPUTE_NONE ? 2 : 3) * (double)r->config.micro_batches;
    double seconds =
        pdl_host_link_seconds(&m->system.device.host_link, PDL_HOST_TO_DEVICE, passes * out->memory.weights);
    double grow = 1 + fmax(0, seconds - out->compute_s) / out->total_s;

    out->total_s *= grow;
    out->low_s *= grow;
    out->high_s *= grow;
    out->memory_bytes -= out->memory.weights + out->memory.gradients;
    out->fits = out->memory_bytes <= m->system.device.memory_bytes;
}

static pdl_status_t project_line(pdl_machine_t *m, const pdl_parameters_t *p, pdl_published_line_t *line)
{
    pdl_recipe_t trial = line->recipe;

    if (trial.stage_blocks[0] > 0 && trial.config.virtual_stages == 1)
        trial.config.stage_blocks = line->recipe.stage_blocks;
    pdl_status_t status = evaluate_open(m->oracle, &trial, &line->projection);

    if (!status) expert_states(&trial, m->system.device.memory_bytes, &line->projection);
    if (!status && trial.choose_recompute)
        status = lighten(m->oracle, &trial, m->system.device.memory_bytes, &line->projection);
    if (!status && trial.keeps_products)
        status = add_products(m->oracle, &trial, m->system.device.memory_bytes, &line->projection);
    if (!status) expert_exchange(m, p, &trial, &line->projection);
    if (!status && trial.weights_on_host) move_weights(m, &trial, &line->projection);
    line->batch = trial.config.batch;
    return status;
}

/* What was measured as a time for the projected batch. */
static void fill_row(pdl_published_line_t *line)
{
    pdl_published_row_t    *row = &line->row;
    const pdl_projection_t *p = &line->projection;

    row->projected_s = p->total_s;
    row->low_s = p->low_s;
    row->high_s = p->high_s;
    row->projected_gb = (p->memory_bytes - (line->recipe.tensors_only ? p->memory.context : 0)) / 1e9;
    row->projected_oom = !p->fits;
    if (line->timed) return;
    if (line->rate > 0)
        row->measured_s = (double)line->batch / line->rate;
    else if (line->tflops > 0)
        row->measured_s = p->flop / (line->tflops * 1e12 * (double)row->devices);
}

static pdl_parameters_t parameters_of(const pdl_machine_t *m, const pdl_parameters_t *parameters)
{
    pdl_parameters_t p = *parameters;

    pdl_framework_apply(m->recipe->framework, &p);
    if (m->recipe->wide_sums) p.gradient_bytes = 6;
    return p;
}

pdl_status_t pdl__published_run(pdl_published_t *runs, const pdl_parameters_t *parameters, const bool *use)
{
    pdl_parameters_t p;

    for (int m = 0; m < runs->machine_count; m++) {
        p = parameters_of(&runs->machines[m], parameters);
        pdl_oracle_set_parameters(runs->machines[m].oracle, &p);
    }
    for (size_t i = 0; i < runs->line_count; i++) {
        pdl_published_line_t *line = &runs->lines[i];
        if (line->machine < 0 || (use && !use[i])) continue;
        p = parameters_of(&runs->machines[line->machine], parameters);
        pdl_status_t refused = project_line(&runs->machines[line->machine], &p, line);
        if (refused == PDL_ERR_NOMEM) return refused;
        line->row.expressed = !refused;
        if (refused)
            snprintf(line->row.reason, sizeof(line->row.reason), "%.120s", pdl_error_message());
        else
            fill_row(line);
    }
    return PDL_OK;
}

pdl_status_t pdl_published_project(pdl_published_t *runs, const pdl_parameters_t *parameters)
{
    return pdl__published_run(runs, parameters, NULL);
}
