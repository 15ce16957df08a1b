/*
 * Published runs: reading the table, projecting its rows.
 */
#include "validate/published/published.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pdl_status_t load_system(pdl_published_t *runs, const char *name, const pdl_system_t **system)
{
    enum { MOST = sizeof(runs->systems) / sizeof(runs->systems[0]) };

    for (int i = 0; i < runs->system_count; i++)
        if (strcmp(runs->systems[i].name, name) == 0) {
            *system = runs->systems[i].system;
            return PDL_OK;
        }
    if (runs->system_count == MOST) return pdl_error(PDL_ERR_LIMIT, "at most %d systems in the rules", (int)MOST);
    pdl_status_t status = pdl_system_load(name, system);
    if (!status) runs->systems[runs->system_count++] = (pdl_loaded_system_t){name, *system};
    return status;
}

/* The system of the rules with the nodes, the network and the memory that the row describes, and large enough. */
static void adapt_system(const pdl_recipe_t *r, pdl_system_t *s)
{
    pdl_level_t *top = &s->level[s->level_count - 1];
    int64_t      below;

    if (r->memory_bytes > 0) s->device.memory_bytes = r->memory_bytes;
    if (r->per_node > 0) s->level[0].fanout = s->host_level[0].fanout = r->per_node;
    if (r->ports > 0 && s->level_count > 1) {
        s->level[1].ports = r->ports;
        for (int i = 1; i < s->level_count; i++) s->level[i].bandwidth_bytes_per_s = r->port_bytes_per_s;
    }
    below = 1;
    for (int i = 0; i + 1 < s->level_count; i++) below *= s->level[i].fanout;
    if (below * top->fanout < r->devices)
        top->fanout = s->host_level[s->level_count - 1].fanout = (r->devices + below - 1) / below;
    s->pe_count = below * top->fanout;
}

static bool same_machine(const pdl_recipe_t *a, const pdl_recipe_t *b)
{
    return strcmp(a->yaml, b->yaml) == 0 && strcmp(a->system, b->system) == 0 && a->per_node == b->per_node &&
           a->ports == b->ports && a->port_bytes_per_s == b->port_bytes_per_s &&
           a->memory_bytes == b->memory_bytes && a->wide_sums == b->wide_sums && a->adapters == b->adapters &&
           a->framework == b->framework && a->part_count == b->part_count &&
           memcmp(a->part, b->part, sizeof(a->part)) == 0 &&
           (a->devices == b->devices || (a->devices <= 512 && b->devices <= 512));
}

/* Fine-tuning of small matrices beside frozen weights. Rows do not say how small, or beside which layers; the recipes of Megatron
   Bridge and NeMo with which such runs are measured have rank 16 at the projection to queries, keys and values. */
static pdl_status_t adapt_model(pdl_model_t **model)
{
    static const pdl_lora_t lora = {16, PDL_LORA_QKV};
    pdl_model_t            *adapted = NULL;
    pdl_status_t            status = pdl_model_adapt(*model, &lora, &adapted);

    pdl_model_destroy(*model);
    *model = adapted;
    return status;
}

static pdl_status_t build_machine(pdl_published_t *runs, const pdl_recipe_t *r, pdl_machine_t *m)
{
    const pdl_system_t *loaded = NULL;
    pdl_parameters_t    p;
    pdl_recipe_t        large = *r;
    pdl_status_t        status = load_system(runs, r->system, &loaded);

    if (!status) status = pdl_model_read_yaml_memory(r->yaml, strlen(r->yaml), "published run", &m->model);
    if (!status && r->adapters) status = adapt_model(&m->model);
    if (status) return status;
    m->system = *loaded;
    m->recipe = r;
    /* Rows of up to 512 devices share a machine. */
    if (large.devices < 512 && m->system.level_count > 1) large.devices = 512;
    if (r->part_count > 0)
        status = pdl__published_take_parts(r, &m->system);
    else
        adapt_system(&large, &m->system);
    if (status) return status;
    pdl_parameters_default(&p);
    return pdl_oracle_create(m->model, &m->system, &p, &m->oracle);
}

/* A model that cannot be built makes its row one that cannot be expressed, not an error of the table. */
static pdl_status_t find_machine(pdl_published_t *runs, pdl_published_line_t *line)
{
    for (int i = 0; i < runs->machine_count; i++)
        if (same_machine(runs->machines[i].recipe, &line->recipe)) {
            line->machine = i;
            return PDL_OK;
        }
    pdl_machine_t *m = &runs->machines[runs->machine_count];
    pdl_status_t   status = build_machine(runs, &line->recipe, m);
    if (status == PDL_ERR_NOMEM) return status;
    if (status) {
        pdl_model_destroy(m->model);
        memset(m, 0, sizeof(*m));
        line->row.expressed = false;
        snprintf(line->row.reason, sizeof(line->row.reason), "%.120s", pdl_error_message());
        return PDL_OK;
    }
    line->machine = runs->machine_count++;
    return PDL_OK;
}

static pdl_status_t check_columns(const pdl_csv_t *csv, const char *path)
{
    static const char *const names[] = {"run_id",      "source",       "family",    "model",       "accelerator",
                                        "gpus",        "precision",    "tp",        "pp",          "dp",
                                        "micro_batch", "global_batch", "framework", "iter_time_s", "outcome"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (pdl_csv_column(csv, names[i]) < 0)
            return pdl_error(PDL_ERR_INPUT,
                             "%s:1: column \"%s\" is missing; expected the columns of published_runs.csv", path,
                             names[i]);
    return PDL_OK;
}

pdl_status_t pdl_published_read(const char *path, const char *rules, pdl_published_t **out)
{
    pdl_published_t *runs = calloc(1, sizeof(*runs));

    if (!runs) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    pdl_status_t status = pdl_csv_read_file(path, &runs->csv);
    if (!status) status = check_columns(runs->csv, path);
    if (!status) status = pdl__published_rules_load(rules, &runs->rules);
    if (!status) {
        runs->line_count = pdl_csv_rows(runs->csv);
        runs->lines = calloc(runs->line_count + 1, sizeof(*runs->lines));
        runs->machines = calloc(runs->line_count + 1, sizeof(*runs->machines));
        if (!runs->lines || !runs->machines) status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; !status && i < runs->line_count; i++) {
        status = pdl__published_cells(runs, i, &runs->lines[i]);
        if (!status && runs->lines[i].row.expressed) status = find_machine(runs, &runs->lines[i]);
    }
    if (status) {
        pdl_published_destroy(runs);
        return status;
    }
    *out = runs;
    return PDL_OK;
}

void pdl_published_destroy(pdl_published_t *runs)
{
    if (!runs) return;
    for (int i = 0; i < runs->machine_count; i++) {
        pdl_oracle_destroy(runs->machines[i].oracle);
        pdl_model_destroy(runs->machines[i].model);
    }
    for (int i = 0; i < runs->system_count; i++) pdl_system_destroy(runs->systems[i].system);
    free(runs->machines);
    free(runs->lines);
    pdl__published_rules_free(&runs->rules);
    pdl_csv_destroy(runs->csv);
    free(runs);
}

const char *pdl_published_parameters(const pdl_published_t *runs)
{
    return runs->rules.parameters;
}

size_t pdl_published_count(const pdl_published_t *runs)
{
    return runs->line_count;
}

const pdl_published_row_t *pdl_published_row(const pdl_published_t *runs, size_t i)
{
    return &runs->lines[i].row;
}
