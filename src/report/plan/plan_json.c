/*
 * The ranked candidates for programs.
 */
#include "report/device_fields.h"
#include "report/plan/measured_report.h"
#include "report/plan/ownership_report.h"
#include "report/plan/plan_cells.h"
#include "report/plan/plan_layers.h"
#include "report/plan/plan_rates.h"
#include "report/plan/sensitivity_report.h"

#include <paradl/base/document.h>
#include <paradl/plan/collectives.h>

#include <inttypes.h>
#include <math.h>

static void write_mesh(pdl_json_t *json, const pdl_config_t *config)
{
    pdl_json_open(json, "mesh", '{');
    pdl_json_int(json, "pipeline", config->pipeline);
    pdl_json_int(json, "data", config->data);
    pdl_json_int(json, "spatial", config->spatial);
    pdl_json_int(json, "tensor", config->tensor);
    pdl_json_close(json);
}

void pdl__places_json(pdl_json_t *json, const pdl_system_t *system, const pdl_config_t *config)
{
    int        order[PDL_MAX_PARTS];
    char       place[PDL_MAX_PARTS * (PDL_PART_NAME + 5)];
    pdl_mesh_t mesh;

    if (system->part_count == 0 || config->data == 0) return;
    mesh = pdl_config_mesh(config);
    pdl_system_order(system, config->part_order, order);
    pdl_json_open(json, "part_order", '[');
    for (int i = 0; i < system->part_count; i++) pdl_json_string(json, NULL, system->part[order[i]].name);
    pdl_json_close(json);
    pdl_json_open(json, "stage_devices", '[');
    for (int64_t s = 0; s < config->pipeline; s++)
        pdl_json_string(json, NULL,
                        pdl_oracle_stage_place(system, config->part_order, &mesh, s, place, sizeof(place)));
    pdl_json_close(json);
}

static void write_policies(pdl_json_t *json, const pdl_config_t *config)
{
    double replica = config->data > 0 ? (double)config->batch / (double)config->data : NAN;
    double micro = config->micro_batches > 0 ? replica / (double)config->micro_batches : replica;

    pdl_json_int(json, "batch", config->batch);
    pdl_json_number(json, "micro_batch", micro);
    pdl_json_int(json, "micro_batches", config->micro_batches > 0 ? config->micro_batches : 1);
    pdl_json_string(json, "schedule", config->pipeline > 1 ? pdl_schedule_names[config->schedule] : NULL);
    pdl_json_int(json, "virtual_stages", config->virtual_stages > 0 ? config->virtual_stages : 1);
    pdl_json_string(json, "recompute",
                    pdl_recompute_names[config->offloaded ? PDL_RECOMPUTE_NONE : config->recompute]);
    if (config->recomputed_blocks > 0)
        pdl_json_int(json, config->offloaded ? "offloaded_blocks" : "recomputed_blocks", config->recomputed_blocks);
    pdl_json_string(json, "sharding", pdl_sharding_names[config->sharding]);
    pdl_json_bool(json, "sequence_parallel", config->sequence_parallel);
    if (config->experts > 1) pdl_json_int(json, "experts_over", config->experts);
    pdl_json_string(json, "precision", pdl_precision_names[config->precision]);
    pdl_json_string(json, "optimizer", pdl_optimizer_names[config->optimizer]);
}

void pdl__config_json(pdl_json_t *json, const pdl_config_t *config)
{
    write_mesh(json, config);
    write_policies(json, config);
}

/* Schedules by axis; the best plan has them. */
static void write_collectives(pdl_json_t *json, const pdl_plan_t *plan)
{
    pdl_json_open(json, "collectives", '{');
    for (int a = 0; plan != NULL && a < plan->mesh.axis_count; a++) {
        char axis[64];

        if (plan->mesh.axis[a].size == 1 || plan->collective[a].algorithm[0] == '\0') continue;
        pdl_json_string(json, pdl_plan_format_axes(&plan->mesh, 1u << a, axis, sizeof(axis)),
                        plan->collective[a].algorithm);
    }
    pdl_json_close(json);
}

/* The original formulas know the sum only. */
static void write_memory(pdl_json_t *json, const pdl_memory_breakdown_t *memory)
{
    pdl_json_open(json, "memory", '{');
    if (memory->weights <= 0) {
        pdl_json_close(json);
        return;
    }
    pdl_json_bytes(json, "weights", memory->weights);
    pdl_json_bytes(json, "gradients", memory->gradients);
    pdl_json_bytes(json, "optimizer", memory->optimizer);
    pdl_json_bytes(json, "saved_activations", memory->saved_activations);
    pdl_json_bytes(json, "transient", memory->transient);
    pdl_json_bytes(json, "buffers", memory->buffers);
    pdl_json_bytes(json, "workspace", memory->workspace);
    pdl_json_bytes(json, "context", memory->context);
    pdl_json_bytes(json, "margin", memory->margin);
    pdl_json_close(json);
}

static void write_limits(pdl_json_t *json, const pdl_projection_t *p)
{
    pdl_json_open(json, "limits", '[');
    for (int i = 0; i < p->finding_count; i++) {
        pdl_json_open(json, NULL, '{');
        pdl_json_string(json, "name", p->findings[i].name);
        pdl_json_string(json, "kind", p->findings[i].limit ? "limit" : "bottleneck");
        pdl_json_number(json, "share", p->findings[i].share);
        pdl_json_string(json, "hint", p->findings[i].hint);
        pdl_json_close(json);
    }
    pdl_json_close(json);
}

/* What cannot be zero is unknown when it is. */
static double or_unknown(double value)
{
    return value > 0 ? value : NAN;
}

static void write_comm(pdl_json_t *json, const pdl_projection_t *p, double known)
{
    static const char *const names[PDL_COMM_CLASS_COUNT] = {[PDL_COMM_LAYER] = "layer_s",
                                                            [PDL_COMM_HALO] = "halo_s",
                                                            [PDL_COMM_STAGE] = "stage_s",
                                                            [PDL_COMM_GRADIENT] = "gradient_s"};

    pdl_json_open(json, "comm", '{');
    for (int i = 0; i < PDL_COMM_CLASS_COUNT; i++) pdl_json_number(json, names[i], p->comm[i] * known);
    pdl_json_close(json);
}

static void write_rates(pdl_json_t *json, const pdl_plan_report_t *report, const pdl_candidate_t *c)
{
    pdl__rates_t rates = pdl__plan_rates(report, c);

    pdl_json_number(json, "samples_per_s", rates.samples_per_s);
    if (pdl__sample_tokens(report->model) > 0) pdl_json_number(json, "tokens_per_s", rates.tokens_per_s);
    pdl_json_number(json, "tflops_per_device", rates.flop_per_s / 1e12);
    pdl_json_number(json, "mfu", rates.mfu);
}

/* Times of one iteration; null where a limit of the strategy leaves nothing to project. */
static void write_times(pdl_json_t *json, const pdl_plan_report_t *report, const pdl_candidate_t *c)
{
    const pdl_projection_t *p = &c->projection;
    double                  known = p->total_s > 0 ? 1 : NAN;
    double                  iterations = c->epoch_s > 0 ? round(c->epoch_s / p->total_s) : NAN;

    pdl_json_number(json, "compute_s", p->compute_s * known);
    pdl_json_number(json, "comm_s", p->comm_s * known);
    pdl_json_number(json, "io_s", p->io_s * known);
    pdl_json_number(json, "bubble_s", p->bubble_s * known);
    pdl_json_number(json, "total_s", p->total_s * known);
    pdl_json_number(json, "low_s", p->low_s * known);
    pdl_json_number(json, "high_s", p->high_s * known);
    pdl_json_string(json, "interval", p->estimated ? "estimated" : "measured");
    pdl_json_string(json, "per", "iteration");
    pdl_json_number(json, "forward_s", or_unknown(p->forward_s));
    pdl_json_number(json, "backward_s", or_unknown(p->backward_s));
    pdl_json_number(json, "update_s", or_unknown(p->update_s));
    write_comm(json, p, known);
    pdl_json_number(json, "congested_s", p->congested_s * known);
    pdl_json_number(json, "iterations", iterations);
    pdl_json_number(json, "epoch_s", or_unknown(c->epoch_s));
    pdl_json_number(json, "largest_batch", or_unknown((double)c->largest_batch));
    write_rates(json, report, c);
    pdl_json_number(json, "energy_j", or_unknown(p->energy_j));
    pdl_json_bytes(json, "memory_bytes", or_unknown(p->memory_bytes));
}

/* Rows stand beside the possible candidates, which come first. */
static void write_policy(pdl_json_t *json, const pdl_policy_report_t *policy, int candidate)
{
    if (policy == NULL || policy->compared || candidate >= policy->count) return;
    pdl_report_policy_json(json, "data_policy", &policy->rows[candidate], candidate == 0 ? policy->base : NULL);
}

static void write_policies_compared(pdl_json_t *json, const pdl_policy_report_t *policy)
{
    if (policy == NULL) return;
    if (policy->compared) {
        pdl_json_open(json, "data_policies", '[');
        for (int i = 0; i < policy->count; i++) pdl_report_policy_json(json, NULL, &policy->rows[i], policy->base);
        pdl_json_close(json);
    }
    if (policy->explanation != NULL) pdl_json_string(json, "data_policy_explanation", policy->explanation);
}

void pdl__candidate_json(pdl_json_t *json, const char *key, const pdl_plan_report_t *report,
                         const pdl_candidate_t *c, int rank)
{
    pdl_json_open(json, key, '{');
    pdl_json_number(json, "rank", c->possible ? (double)rank : (double)NAN);
    pdl_json_string(json, "strategy", c->config.strategy->name);
    write_mesh(json, &c->config);
    pdl__places_json(json, report->system, &c->config);
    write_policies(json, &c->config);
    write_collectives(json, c->plan);
    write_times(json, report, c);
    write_memory(json, &c->projection.memory);
    pdl_json_string(json, "memory_from", c->projection.compiled ? "compiled" : "modelled");
    pdl_json_bool(json, "fits", c->projection.fits);
    pdl_json_bool(json, "feasible", c->possible);
    pdl_json_string(json, "reason", c->possible ? NULL : c->reason);
    if (c->same_as != NULL) pdl_json_string(json, "same_as", c->same_as->name);
    pdl_json_bool(json, "ties_with_best",
                  c->possible && rank > 1 && pdl_candidates_tie(c, &report->search->candidates[0]));
    write_limits(json, &c->projection);
    write_policy(json, report->policy, rank - 1);
    pdl_json_close(json);
}

static void write_lora(pdl_json_t *json, const pdl_model_t *model)
{
    pdl_lora_t         lora = pdl_model_lora(model);
    pdl_model_totals_t totals;

    pdl_model_totals(model, &totals);
    pdl_json_int(json, "model_parameters", totals.weights);
    pdl_json_int(json, "trained_parameters", totals.trained);
    if (lora.rank == 0) return;
    pdl_json_open(json, "lora", '{');
    pdl_json_int(json, "rank", lora.rank);
    pdl_json_string(json, "layers", pdl_lora_layers_names[lora.layers]);
    pdl_json_close(json);
}

static void write_request(pdl_json_t *json, const pdl_plan_report_t *report)
{
    const pdl_search_t *search = report->search;
    char                hash[24];

    snprintf(hash, sizeof(hash), "%016" PRIx64, pdl_model_hash(report->model));
    pdl_json_string(json, "model", report->model_name);
    pdl_json_string(json, "model_hash", hash);
    write_lora(json, report->model);
    pdl_json_string(json, "system", report->system->name);
    pdl__device_fields(json, &report->system->device);
    pdl__system_part_fields(json, report->system);
    pdl_json_string(json, "data", report->dataset != NULL ? report->dataset->name : NULL);
    pdl_json_int(json, "pe", report->request->pe);
    pdl_json_int(json, "batch",
                 search->batch > 0 || search->possible == 0 ? search->batch : search->candidates[0].config.batch);
    if (search->batch_reason[0] != '\0') pdl_json_string(json, "batch_reason", search->batch_reason);
    pdl_json_string(json, "goal", pdl_goal_names[report->request->goal]);
    pdl_json_string(json, "formulas", report->formulas);
    pdl_json_string(json, "parameters", report->parameters);
    pdl_json_string(json, "framework", report->framework != NULL && *report->framework ? report->framework : NULL);
}

pdl_status_t pdl_report_plan_json(const pdl_plan_report_t *report, FILE *stream)
{
    const pdl_search_t *search = report->search;
    pdl_json_t          json;
    pdl_status_t        status = PDL_OK;

    pdl_document_begin(&json, stream, "plan-result/1");
    write_request(&json, report);
    pdl_json_open(&json, "candidates", '[');
    for (int i = 0; i < search->count; i++) {
        if (search->candidates[i].possible && report->top > 0 && i >= report->top) continue;
        pdl__candidate_json(&json, NULL, report, &search->candidates[i], i + 1);
    }
    pdl_json_close(&json);
    pdl__precisions_json(&json, report);
    pdl_json_open(&json, "search", '{');
    pdl_json_int(&json, "configurations", search->configurations);
    pdl_json_number(&json, "seconds", search->seconds);
    pdl_json_bool(&json, "certified", search->certified);
    pdl_json_string(&json, "not_certified", search->certified ? NULL : search->not_certified);
    pdl_json_int(&json, "not_replayed", search->not_replayed);
    pdl__exact_json(&json, report);
    pdl_json_close(&json);
    write_policies_compared(&json, report->policy);
    pdl__report_ownership_json(&json, report);
    pdl__report_sensitivity_json(&json, report);
    pdl__report_measured_json(&json, report);
    if (report->explanation != NULL) pdl_json_string(&json, "explanation", report->explanation);
    if (report->plan_path != NULL) pdl_json_string(&json, "plan", report->plan_path);
    if (report->timeline != NULL)
        status = pdl__plan_layers_json(&json, search->candidates[0].plan, report->timeline);
    pdl_json_close(&json);
    return status;
}
