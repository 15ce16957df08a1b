/*
 * Frameworks as data: reading share/frameworks, laying one over a parameter set.
 */
#include "oracle/cost/parameters.h"
#include <paradl/base/share.h>
#include <paradl/oracle/framework.h>
#include <string.h>

static pdl_status_t read_defaults(const pdl_yaml_t *map, pdl_framework_t *f)
{
    static const char *const keys[] = {"sharding",    "sequence_parallel", "recompute", "dropout",
                                       "interleaved", "optimizer",         NULL};
    int                      sharding = PDL_SHARDING_NONE, recompute = PDL_RECOMPUTE_NONE, optimizer = 0;
    pdl_status_t             status = pdl_yaml_expect(map, PDL_YAML_MAPPING, "a map of policies");

    if (!status) status = pdl_yaml_check_keys(map, keys);
    if (!status)
        status =
            pdl_yaml_get_enum(map, "sharding", pdl_sharding_names, PDL_SHARDING_COUNT, PDL_OPTIONAL, &sharding);
    if (!status)
        status =
            pdl_yaml_get_enum(map, "recompute", pdl_recompute_names, PDL_RECOMPUTE_COUNT, PDL_OPTIONAL, &recompute);
    if (!status)
        status =
            pdl_yaml_get_enum(map, "optimizer", pdl_optimizer_names, PDL_OPTIMIZER_COUNT, PDL_OPTIONAL, &optimizer);
    if (!status) status = pdl_yaml_get_bool(map, "sequence_parallel", PDL_OPTIONAL, &f->sequence_parallel);
    if (!status) status = pdl_yaml_get_bool(map, "dropout", PDL_OPTIONAL, &f->dropout);
    if (!status) status = pdl_yaml_get_bool(map, "interleaved", PDL_OPTIONAL, &f->interleaved);
    f->sharding = (pdl_sharding_t)sharding;
    f->recompute = (pdl_recompute_t)recompute;
    f->recompute_given = pdl_yaml_find(map, "recompute") != NULL;
    f->optimizer = (pdl_optimizer_t)optimizer;
    f->optimizer_given = pdl_yaml_find(map, "optimizer") != NULL;
    return status;
}

static pdl_status_t read_root(const pdl_yaml_t *root, pdl_framework_t *f)
{
    static const char *const keys[] = {"paradl",     "name",     "description", "source",  "extends",
                                       "parameters", "switches", "defaults",    "machine", NULL};
    const char              *name = "", *base = "default", *machine = "";
    pdl_status_t             status = pdl_yaml_check_format(root, "framework");

    if (!status) status = pdl_yaml_check_keys(root, keys);
    if (!status) status = pdl_yaml_get_string(root, "name", PDL_REQUIRED, &name);
    if (!status) status = pdl_yaml_get_string(root, "extends", PDL_OPTIONAL, &base);
    if (!status) status = pdl_yaml_get_string(root, "machine", PDL_OPTIONAL, &machine);
    if (status) return status;
    strncpy(f->machine, machine, sizeof(f->machine) - 1);
    strncpy(f->name, name, sizeof(f->name) - 1);
    strncpy(f->base, base, sizeof(f->base) - 1);
    const pdl_yaml_t *values = pdl_yaml_find(root, "parameters"), *flags = pdl_yaml_find(root, "switches"),
                     *defaults = pdl_yaml_find(root, "defaults");
    status = pdl__parameters_read(values, flags, &f->values);
    if (!status && defaults) status = read_defaults(defaults, f);
    if (status) return status;
    for (int i = 0; values && i < pdl_parameter_count; i++)
        f->parameter_given[i] = pdl_yaml_find(values, pdl_parameter_info[i].name) != NULL;
    for (int i = 0; flags && i < pdl__switch_count; i++)
        f->switch_given[i] = pdl_yaml_find(flags, pdl__switch_info[i].name) != NULL;
    return PDL_OK;
}

pdl_status_t pdl_framework_load(const char *name_or_path, pdl_framework_t *framework)
{
    static const char *const extensions[] = {".yaml", NULL};
    char                     path[4096];
    pdl_yaml_doc_t          *doc;
    pdl_framework_t          f = {.dropout = true};
    pdl_status_t             status;

    _Static_assert((int)PDL_PARAMETER_NUMBER <= (int)PDL_FRAMEWORK_VALUES &&
                       (int)PDL_SWITCH_NUMBER <= (int)PDL_FRAMEWORK_VALUES,
                   "a framework has a flag for every parameter and switch");
    pdl_parameters_default(&f.values);
    status = pdl_share_find("frameworks", name_or_path, extensions, path, sizeof(path));
    if (!status) status = pdl_yaml_read_file(path, &doc);
    if (status) return status;
    status = read_root(pdl_yaml_root(doc), &f);
    pdl_yaml_destroy(doc);
    if (!status) *framework = f;
    return status;
}

void pdl_framework_apply(const pdl_framework_t *f, pdl_parameters_t *p)
{
    for (int i = 0; i < pdl_parameter_count; i++) {
        size_t at = pdl_parameter_info[i].offset;
        if (f->parameter_given[i]) memcpy((char *)p + at, (const char *)&f->values + at, sizeof(double));
    }
    for (int i = 0; i < pdl__switch_count; i++) {
        size_t at = pdl__switch_info[i].offset;
        if (f->switch_given[i]) memcpy((char *)p + at, (const char *)&f->values + at, sizeof(bool));
    }
    memcpy(p->framework, f->name, sizeof(p->framework));
    memcpy(p->machine, f->machine, sizeof(p->machine));
}

pdl_status_t pdl_framework_choose(const char *framework, const char *parameters, const pdl_system_t *system,
                                  pdl_parameters_t *chosen)
{
    pdl_framework_t f;
    pdl_status_t    status;

    if (framework == NULL) return pdl_parameters_choose(parameters, system, chosen);
    status = pdl_framework_load(framework, &f);
    if (!status) status = pdl_parameters_load(parameters != NULL ? parameters : f.base, chosen);
    if (!status) pdl_framework_apply(&f, chosen);
    return status;
}
