/*
 * Writes a plan file, such that reading it gives an equal plan, but for axes of size 1, which are left out.
 */
#include "plan/blocks.h"
#include "plan/file.h"

#include <paradl/base/output.h>
#include <paradl/base/yaml.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void pdl__plan_write_number(double value, FILE *stream)
{
    char  text[40];
    char *comma;

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    comma = strchr(text, ',');
    if (comma != NULL) *comma = '.';
    fputs(text, stream);
}

static void write_head(const pdl_plan_t *plan, const char *model_name, const char *system_name,
                       const char *data_name, FILE *stream)
{
    pdl_lora_t lora = pdl_model_lora(plan->model);

    fputs("paradl: plan/1\nmodel: ", stream);
    pdl_yaml_write_name(model_name, stream);
    fprintf(stream, "\nmodel_hash: \"%016" PRIx64 "\"\n", pdl_model_hash(plan->model));
    if (lora.rank > 0)
        fprintf(stream, "lora: {rank: %" PRId64 ", layers: %s}\n", lora.rank, pdl_lora_layers_names[lora.layers]);
    if (system_name != NULL) {
        fputs("system: ", stream);
        pdl_yaml_write_name(system_name, stream);
        fputc('\n', stream);
    }
    fputs("data: {", stream);
    if (data_name != NULL) {
        fputs("set: ", stream);
        pdl_yaml_write_name(data_name, stream);
        fputs(", ", stream);
    }
    fprintf(stream, "batch: %" PRId64 "}\n", plan->batch);
    if (plan->strategy[0] != '\0') {
        fputs("strategy: ", stream);
        pdl_yaml_write_name(plan->strategy, stream);
        fputc('\n', stream);
    }
}

static void write_mesh(const pdl_mesh_t *mesh, FILE *stream)
{
    char name[PDL__AXIS_NAME_SIZE];

    fputs("mesh: [", stream);
    for (int a = 0; a < mesh->axis_count; a++) {
        pdl__axis_name(mesh, a, name);
        fprintf(stream, "%s{%s: %" PRId64 "}", a > 0 ? ", " : "", name, mesh->axis[a].size);
    }
    fputs("]\n", stream);
}

static void write_parts(const pdl_plan_t *plan, FILE *stream)
{
    if (plan->part_count == 0) return;
    fputs("parts: [", stream);
    for (int i = 0; i < plan->part_count; i++) {
        fputs(i > 0 ? ", " : "", stream);
        pdl_yaml_write_quoted(plan->part[i], stream);
    }
    fputs("]", stream);
    if (plan->stage_devices[0] != '\0') fprintf(stream, " # %s", plan->stage_devices);
    fputs("\n", stream);
}

static void write_mode(const pdl_mesh_t *mesh, int axis, const pdl_modes_t *modes, FILE *stream)
{
    char name[PDL__AXIS_NAME_SIZE];

    pdl__axis_name(mesh, axis, name);
    fprintf(stream, "%s: %s", name, pdl_mode_names[modes->on[axis]]);
}

static pdl_status_t write_modes(const pdl_plan_t *plan, FILE *stream)
{
    const pdl_mesh_t *mesh = &plan->mesh;
    pdl__mode_rules_t rules;
    pdl_status_t      st = pdl__mode_rules_create(plan, &rules);
    bool              first = true;

    if (st != PDL_OK) return st;
    fputs("modes:\n  default: {", stream);
    for (int a = 0; a < mesh->axis_count; a++) {
        if (!pdl__axis_has_modes(&mesh->axis[a])) continue;
        if (!first) fputs(", ", stream);
        first = false;
        write_mode(mesh, a, &rules.everywhere, stream);
    }
    fputs(rules.count > 0 ? "}\n  layers:\n" : "}\n", stream);
    for (int i = 0; i < rules.count; i++) {
        const pdl__mode_rule_t *rule = &rules.rules[i];

        fputs("    - {match: ", stream);
        pdl_yaml_write_quoted(rule->match, stream);
        for (int a = 0; a < mesh->axis_count; a++) {
            if (!rule->given[a]) continue;
            fputs(", ", stream);
            write_mode(mesh, a, &rule->modes, stream);
        }
        fputs("}\n", stream);
    }
    pdl__mode_rules_free(&rules);
    return PDL_OK;
}

static void write_pipeline(const pdl_plan_t *plan, FILE *stream)
{
    fprintf(stream, "pipeline: {schedule: %s, micro_batches: %" PRId64 ", virtual_stages: %d, stages: ",
            pdl_schedule_names[plan->schedule], plan->micro_batches, plan->virtual_stages);
    if (!plan->stages_given) {
        fputs("auto}\n", stream);
        return;
    }
    for (int64_t s = 0; s < pdl_plan_stage_count(plan); s++) {
        fputs(s > 0 ? ", " : "[", stream);
        pdl_yaml_write_quoted(pdl_model_layer(plan->model, plan->stage_first[s])->name, stream);
    }
    fputs("]}\n", stream);
}

static const char *yes_or_no(bool value)
{
    return value ? "true" : "false";
}

static void write_collective(const pdl_plan_collective_t *collective, FILE *stream)
{
    bool shaped = collective->ranks_per_node > 0 || collective->density > 0;

    if (shaped) fputs("{algorithm: ", stream);
    if (strchr(collective->algorithm, ':') != NULL) /* levels:ring/4,hd_far/8 */
        pdl_yaml_write_quoted(collective->algorithm, stream);
    else
        fputs(collective->algorithm[0] != '\0' ? collective->algorithm : "auto", stream);
    if (collective->ranks_per_node > 0) fprintf(stream, ", ranks_per_node: %" PRId64, collective->ranks_per_node);
    if (collective->density > 0) {
        fputs(", density: ", stream);
        pdl__plan_write_number(collective->density, stream);
    }
    if (shaped) fputs("}", stream);
}

static void write_memory(const pdl_plan_t *plan, FILE *stream)
{
    const char *sharding = pdl_sharding_names[plan->sharding], *sequence = yes_or_no(plan->sequence_parallel);
    const char *separator = plan->block_count == 0 ? ", " : "\n  ";

    if (plan->block_count == 0)
        fprintf(stream, "memory: {recompute: %s", pdl_recompute_names[plan->recompute]);
    else
        fputs("memory:", stream);
    fprintf(stream, "%ssharding: %s%ssequence_parallel: %s", separator, sharding, separator, sequence);
    if (plan->optimizer_tier != PDL_TIER_DEVICE)
        fprintf(stream, "%soptimizer: %s", separator, pdl_tier_names[plan->optimizer_tier]);
    if (plan->weights_tier != PDL_TIER_DEVICE)
        fprintf(stream, "%sweights: %s", separator, pdl_tier_names[plan->weights_tier]);
    if (plan->update_tier != PDL_TIER_DEVICE)
        fprintf(stream, "%supdate: %s", separator, pdl_tier_names[plan->update_tier]);
    fputs(plan->block_count == 0 ? "}\n" : "\n", stream);
    if (plan->block_count == 0) return;
    pdl__blocks_write(plan, stream);
}

static void write_policies(const pdl_plan_t *plan, FILE *stream)
{
    char name[PDL__AXIS_NAME_SIZE];

    write_memory(plan, stream);
    fputs("collectives: {", stream);
    for (int a = 0; a < plan->mesh.axis_count; a++) {
        pdl__axis_name(&plan->mesh, a, name);
        fprintf(stream, "%s%s: ", a > 0 ? ", " : "", name);
        write_collective(&plan->collective[a], stream);
    }
    fprintf(stream, "}\nprecision: %s\noptimizer: %s\nsync_batch_norm: %s\nmode: %s\n",
            pdl_precision_names[plan->precision], pdl_optimizer_names[plan->optimizer],
            yes_or_no(plan->sync_batch_norm), pdl__run_mode_names[plan->run_mode]);
}

static double projected(const pdl_plan_projection_t *projection, const pdl__projection_key_t *key)
{
    return *(const double *)((const char *)projection + key->offset);
}

static void write_projection(const pdl_plan_projection_t *projection, FILE *stream)
{
    fputs("projected: {", stream);
    for (const pdl__projection_key_t *k = pdl__projection_keys; k->key != NULL; k++) {
        fprintf(stream, "%s%s: ", k != pdl__projection_keys ? ", " : "", k->key);
        pdl__plan_write_number(fabs(projected(projection, k)), stream); /* of a zero, the sign would not be read */
    }
    fputs("}\n", stream);
}

static pdl_status_t check_name(const char *name, const char *what)
{
    if (name == NULL) return PDL_OK;
    if (name[0] == '\0')
        return pdl_error(PDL_ERR_INPUT, "the plan cannot be written: the name of its %s is empty", what);
    if (strlen(name) >= sizeof(((pdl_plan_file_t *)0)->model_name)) {
        return pdl_error(PDL_ERR_INPUT, "the plan cannot be written: the name of its %s is too long: %.60s...",
                         what, name);
    }
    return PDL_OK;
}

/* Nothing is written that could not be read again. */
static pdl_status_t check_arguments(const pdl_plan_t *plan, const char *model_name, const char *system_name,
                                    const char *data_name, const pdl_plan_projection_t *projection)
{
    pdl_status_t st = check_name(model_name, "model");

    if (st == PDL_OK) st = check_name(system_name, "system");
    if (st == PDL_OK) st = check_name(data_name, "data set");
    if (st != PDL_OK) return st;
    if (plan->batch < 1 || plan->batch > PDL__PLAN_MAX_BATCH) {
        return pdl_error(PDL_ERR_INPUT, "the plan cannot be written: its batch is %" PRId64 ", expected 1 to %d",
                         plan->batch, PDL__PLAN_MAX_BATCH);
    }
    st = pdl_data_policy_check(&plan->data_policy);
    if (st != PDL_OK) return st;
    for (const pdl__projection_key_t *k = pdl__projection_keys; projection != NULL && k->key != NULL; k++) {
        double value = projected(projection, k);

        if (isfinite(value) && value >= 0) continue;
        return pdl_error(PDL_ERR_INPUT, "the plan cannot be written: %s is projected to be %g", k->key, value);
    }
    return PDL_OK;
}

static pdl_status_t write_cut(const pdl_plan_t *plan, FILE *stream)
{
    pdl_plan_t  *brief;
    pdl_status_t st = pdl_plan_copy(plan, &brief);

    if (st != PDL_OK) return st;
    pdl_plan_drop_unit_axes(brief);
    write_mesh(&brief->mesh, stream);
    write_parts(brief, stream);
    st = write_modes(brief, stream);
    if (st == PDL_OK) {
        write_pipeline(brief, stream);
        write_policies(brief, stream);
    }
    pdl_plan_destroy(brief);
    return st;
}

pdl_status_t pdl_plan_write(const pdl_plan_t *plan, const char *model_name, const char *system_name,
                            const char *data_name, const pdl_plan_projection_t *projection, FILE *stream)
{
    pdl_status_t st;

    if (model_name == NULL) model_name = pdl_model_name(plan->model);
    st = check_arguments(plan, model_name, system_name, data_name, projection);
    if (st != PDL_OK) return st;
    write_head(plan, model_name, system_name, data_name, stream);
    st = write_cut(plan, stream);
    if (st != PDL_OK) return st;
    pdl__data_policy_write(&plan->data_policy, stream);
    if (projection != NULL) write_projection(projection, stream);
    return pdl_output_flush(stream, "the plan");
}
