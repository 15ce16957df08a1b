/*
 * Reading share/experiments/NAME.yaml.
 */
#include "validate/fit/experiment.h"
#include <paradl/base/share.h>
#include <string.h>

static pdl_status_t read_model(const char *name, const pdl_yaml_t *map, pdl_experiment_model_t *m)
{
    static const char *const keys[] = {"file",      "spatial_until",     "precision",
                                       "optimizer", "samples_per_group", NULL};
    const char              *file = NULL;
    int                      precision = PDL_FP32, optimizer = PDL_OPTIMIZER_MOMENTUM;
    pdl_status_t             status = pdl_yaml_expect(map, PDL_YAML_MAPPING, "the description of a model");

    m->name = name;
    if (!status) status = pdl_yaml_check_keys(map, keys);
    if (!status) status = pdl_yaml_get_string(map, "file", PDL_REQUIRED, &file);
    if (!status) status = pdl_yaml_get_string(map, "spatial_until", PDL_OPTIONAL, &m->spatial_until);
    if (!status)
        status =
            pdl_yaml_get_enum(map, "precision", pdl_precision_names, PDL_PRECISION_COUNT, PDL_OPTIONAL, &precision);
    if (!status)
        status =
            pdl_yaml_get_enum(map, "optimizer", pdl_optimizer_names, PDL_OPTIMIZER_COUNT, PDL_OPTIONAL, &optimizer);
    if (!status)
        status = pdl_yaml_get_int(map, "samples_per_group", 1, 1 << 20, PDL_OPTIONAL, &m->samples_per_group);
    m->precision = (pdl_precision_t)precision;
    m->optimizer = (pdl_optimizer_t)optimizer;
    return status ? status : pdl_model_load(file, &m->model);
}

static pdl_status_t read_strategy(const char *name, const pdl_yaml_t *map, pdl_experiment_strategy_t *s)
{
    static const char *const keys[] = {"preset", "micro_batches", "schedule", "recompute", "switches", NULL};
    int                      schedule = PDL_SCHEDULE_1F1B, recompute = PDL_RECOMPUTE_NONE;
    const char              *preset = NULL;
    pdl_parameters_t         probe;
    pdl_status_t             status = pdl_yaml_expect(map, PDL_YAML_MAPPING, "the description of a strategy");

    s->name = name;
    s->micro_batches = 1;
    if (!status) status = pdl_yaml_check_keys(map, keys);
    if (!status) status = pdl_yaml_get_string(map, "preset", PDL_REQUIRED, &preset);
    if (!status) s->strategy = pdl_strategy_find(preset);
    if (!status && s->strategy == NULL)
        status = pdl_yaml_error(pdl_yaml_find(map, "preset"), "%s", pdl_error_message());
    if (!status) status = pdl_yaml_get_int(map, "micro_batches", 1, 1 << 20, PDL_OPTIONAL, &s->micro_batches);
    if (!status)
        status =
            pdl_yaml_get_enum(map, "schedule", pdl_schedule_names, PDL_SCHEDULE_COUNT, PDL_OPTIONAL, &schedule);
    if (!status)
        status =
            pdl_yaml_get_enum(map, "recompute", pdl_recompute_names, PDL_RECOMPUTE_COUNT, PDL_OPTIONAL, &recompute);
    if (status) return status;
    s->schedule = (pdl_pipeline_schedule_t)schedule;
    s->recompute = (pdl_recompute_t)recompute;
    s->switches = pdl_yaml_find(map, "switches");
    pdl_parameters_default(&probe);
    return s->switches ? pdl_parameters_read_switches(s->switches, &probe) : PDL_OK;
}

static pdl_status_t read_dataset(const char *name, const pdl_yaml_t *map, pdl_experiment_dataset_t *d)
{
    static const char *const keys[] = {"file", "samples", NULL};
    const char              *file = NULL;
    pdl_status_t             status = pdl_yaml_expect(map, PDL_YAML_MAPPING, "the description of a data set");

    d->name = name;
    if (!status) status = pdl_yaml_check_keys(map, keys);
    if (!status) status = pdl_yaml_get_string(map, "file", PDL_REQUIRED, &file);
    if (!status) status = pdl_dataset_load(file, &d->dataset);
    return status ? status : pdl_yaml_get_int(map, "samples", 1, INT64_MAX, PDL_OPTIONAL, &d->dataset.samples);
}

static pdl_status_t read_datasets(const pdl_yaml_t *root, pdl_experiment_t *e)
{
    const pdl_yaml_t *map = pdl_yaml_find(root, "datasets");

    if (!map) return PDL_OK;
    pdl_status_t status = pdl_yaml_expect(map, PDL_YAML_MAPPING, "a map of data sets");
    if (!status && pdl_yaml_size(map) > PDL_EXPERIMENT_DATASETS)
        status = pdl_yaml_error(map, "at most %d data sets", PDL_EXPERIMENT_DATASETS);
    for (size_t i = 0; !status && i < pdl_yaml_size(map); i++)
        status = read_dataset(pdl_yaml_key(map, i), pdl_yaml_value(map, i), &e->dataset[e->dataset_count++]);
    return status;
}

static pdl_status_t read_maps(const pdl_yaml_t *root, pdl_experiment_t *e)
{
    const pdl_yaml_t *models = pdl_yaml_find(root, "models"), *strategies = pdl_yaml_find(root, "strategies");

    if (!models || !strategies) return pdl_yaml_error(root, "expected the maps \"models\" and \"strategies\"");
    pdl_status_t status = pdl_yaml_expect(models, PDL_YAML_MAPPING, "a map of models");
    if (!status) status = pdl_yaml_expect(strategies, PDL_YAML_MAPPING, "a map of strategies");
    if (!status && pdl_yaml_size(models) > PDL_EXPERIMENT_MODELS)
        status = pdl_yaml_error(models, "at most %d models", PDL_EXPERIMENT_MODELS);
    if (!status && pdl_yaml_size(strategies) > PDL_EXPERIMENT_STRATEGIES)
        status = pdl_yaml_error(strategies, "at most %d strategies", PDL_EXPERIMENT_STRATEGIES);
    for (size_t i = 0; !status && i < pdl_yaml_size(models); i++)
        status = read_model(pdl_yaml_key(models, i), pdl_yaml_value(models, i), &e->model[e->model_count++]);
    for (size_t i = 0; !status && i < pdl_yaml_size(strategies); i++)
        status = read_strategy(pdl_yaml_key(strategies, i), pdl_yaml_value(strategies, i),
                               &e->strategy[e->strategy_count++]);
    return status;
}

static pdl_status_t read_root(const pdl_yaml_t *root, pdl_experiment_t *e)
{
    static const char *const keys[] = {"paradl",         "name", "description", "system",   "parameters", "prior",
                                       "shared_storage", "core", "models",      "datasets", "strategies", NULL};
    static const char *const core_keys[] = {"sources", "qualities", NULL};
    const char              *system = NULL;
    pdl_status_t             status = pdl_yaml_check_format(root, "experiment");

    if (!status) status = pdl_yaml_check_keys(root, keys);
    if (!status) status = pdl_yaml_get_string(root, "name", PDL_REQUIRED, &e->name);
    if (!status) status = pdl_yaml_get_string(root, "system", PDL_REQUIRED, &system);
    if (!status) status = pdl_yaml_get_string(root, "parameters", PDL_REQUIRED, &e->parameters);
    if (!status) status = pdl_yaml_get_string(root, "prior", PDL_REQUIRED, &e->prior);
    if (status) return status;
    const pdl_yaml_t *core = pdl_yaml_find(root, "core");
    if (core) {
        status = pdl_yaml_expect(core, PDL_YAML_MAPPING, "a map with sources and qualities");
        if (!status) status = pdl_yaml_check_keys(core, core_keys);
        if (status) return status;
        e->core_sources = pdl_yaml_find(core, "sources");
        e->core_qualities = pdl_yaml_find(core, "qualities");
    }
    status = read_datasets(root, e);
    if (!status) status = pdl_system_load(system, &e->loaded_system);
    if (status) return status;
    e->system = *e->loaded_system;
    status = pdl_yaml_get_number(root, "shared_storage", PDL_UNIT_BYTE_RATE, PDL_OPTIONAL,
                                 &e->system.storage.total_bandwidth_bytes_per_s);
    return status ? status : read_maps(root, e);
}

pdl_status_t pdl__experiment_load(const char *name, pdl_experiment_t *e)
{
    static const char *const extensions[] = {".yaml", NULL};
    char                     path[4096];

    memset(e, 0, sizeof(*e));
    pdl_status_t status = pdl_share_find("experiments", name, extensions, path, sizeof(path));
    if (!status) status = pdl_yaml_read_file(path, &e->doc);
    if (status) return status;
    status = read_root(pdl_yaml_root(e->doc), e);
    if (status) pdl__experiment_free(e);
    return status;
}

void pdl__experiment_free(pdl_experiment_t *e)
{
    for (int i = 0; i < e->model_count; i++) pdl_model_destroy(e->model[i].model);
    if (e->loaded_system) pdl_system_destroy(e->loaded_system);
    if (e->doc) pdl_yaml_destroy(e->doc);
    memset(e, 0, sizeof(*e));
}

const pdl_experiment_model_t *pdl__experiment_model(const pdl_experiment_t *e, const char *name)
{
    for (int i = 0; i < e->model_count; i++)
        if (strcmp(e->model[i].name, name) == 0) return &e->model[i];
    return NULL;
}

const pdl_experiment_strategy_t *pdl__experiment_strategy(const pdl_experiment_t *e, const char *name)
{
    for (int i = 0; i < e->strategy_count; i++)
        if (strcmp(e->strategy[i].name, name) == 0) return &e->strategy[i];
    return NULL;
}

const pdl_dataset_t *pdl__experiment_dataset(const pdl_experiment_t *e, const char *name)
{
    for (int i = 0; i < e->dataset_count; i++)
        if (strcmp(e->dataset[i].name, name) == 0) return &e->dataset[i].dataset;
    return NULL;
}

static bool listed(const pdl_yaml_t *list, const char *text)
{
    for (size_t i = 0; list && i < pdl_yaml_size(list); i++) {
        const char *item = pdl_yaml_text(pdl_yaml_item(list, i));
        if (item && strcmp(item, text) == 0) return true;
    }
    return false;
}

bool pdl__experiment_core(const pdl_experiment_t *e, const char *source, const char *quality)
{
    return listed(e->core_sources, source) && listed(e->core_qualities, quality);
}
