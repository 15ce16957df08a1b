/*
 * Parameters of the cost model: one table drives defaults, reading, writing and fitting.
 */
#include "oracle/cost/parameters.h"
#include "base/closest.h"
#include <paradl/base/output.h>
#include <paradl/base/share.h>
#include <paradl/base/yaml.h>
#include <paradl/oracle/oracle.h>
#include <stdlib.h>
#include <string.h>

const pdl_parameter_info_t pdl_parameter_info[] = {
#define PDL_PARAMETER_ROW(field, standard, low, high, fitted, unit, meaning) \
    {#field, meaning, standard, low, high, fitted, PDL_UNIT_##unit, offsetof(pdl_parameters_t, field)},
    PDL_PARAMETER_MAP(PDL_PARAMETER_ROW)
#undef PDL_PARAMETER_ROW
};
const int pdl_parameter_count = (int)(sizeof(pdl_parameter_info) / sizeof(pdl_parameter_info[0]));

const pdl__switch_info_t pdl__switch_info[] = {
#define PDL_SWITCH_ROW(field, standard, meaning) {#field, meaning, standard, offsetof(pdl_parameters_t, field)},
    PDL_SWITCH_MAP(PDL_SWITCH_ROW)
#undef PDL_SWITCH_ROW
};
const int pdl__switch_count = (int)(sizeof(pdl__switch_info) / sizeof(pdl__switch_info[0]));

static double *value_at(pdl_parameters_t *p, size_t offset)
{
    return (double *)(void *)((char *)p + offset);
}

static bool *switch_at(pdl_parameters_t *p, size_t offset)
{
    return (bool *)((char *)p + offset);
}

void pdl_parameters_default(pdl_parameters_t *p)
{
    memset(p, 0, sizeof(*p));
    strcpy(p->name, "default");
    for (int i = 0; i < pdl_parameter_count; i++)
        *value_at(p, pdl_parameter_info[i].offset) = pdl_parameter_info[i].standard;
    for (int i = 0; i < pdl__switch_count; i++)
        *switch_at(p, pdl__switch_info[i].offset) = pdl__switch_info[i].standard;
}

/* Shares, factors and sizes divide or multiply; only times and rates have a meaning for nothing. */
static bool needs_value(const pdl_parameter_info_t *info)
{
    return info->standard > 0 && info->low > 0 && (info->unit == PDL_UNIT_NONE || info->unit == PDL_UNIT_BYTES);
}

static pdl_status_t read_values(const pdl_yaml_t *map, pdl_parameters_t *p)
{
    for (size_t i = 0; i < pdl_yaml_size(map); i++) {
        const char  *key = pdl_yaml_key(map, i);
        int          k = 0;
        pdl_status_t status;
        while (k < pdl_parameter_count && strcmp(pdl_parameter_info[k].name, key) != 0) k++;
        if (k == pdl_parameter_count)
            return pdl_yaml_error(pdl_yaml_value(map, i), "unknown parameter \"%s\"", key);
        status = pdl_yaml_number(pdl_yaml_value(map, i), pdl_parameter_info[k].unit,
                                 value_at(p, pdl_parameter_info[k].offset));
        if (status) return status;
        if (needs_value(&pdl_parameter_info[k]) && *value_at(p, pdl_parameter_info[k].offset) == 0)
            return pdl_yaml_error(pdl_yaml_value(map, i), "%s must be larger than 0", key);
    }
    return PDL_OK;
}

pdl_status_t pdl_parameters_read_switches(const pdl_yaml_t *map, pdl_parameters_t *p)
{
    for (size_t i = 0; i < pdl_yaml_size(map); i++) {
        const char *key = pdl_yaml_key(map, i);
        int         k = 0;
        while (k < pdl__switch_count && strcmp(pdl__switch_info[k].name, key) != 0) k++;
        /* Systems name the backend now; sets that earlier versions wrote still have the switch. */
        if (k == pdl__switch_count && strcmp(key, "own_runtime") == 0) continue;
        if (k == pdl__switch_count) return pdl_yaml_error(pdl_yaml_value(map, i), "unknown switch \"%s\"", key);
        pdl_status_t status = pdl_yaml_bool(pdl_yaml_value(map, i), switch_at(p, pdl__switch_info[k].offset));
        if (status) return status;
    }
    return PDL_OK;
}

pdl_status_t pdl__parameters_read(const pdl_yaml_t *values, const pdl_yaml_t *flags, pdl_parameters_t *p)
{
    pdl_status_t status = PDL_OK;

    if (values) status = pdl_yaml_expect(values, PDL_YAML_MAPPING, "a map of parameters");
    if (!status && values) status = read_values(values, p);
    if (!status && flags) status = pdl_yaml_expect(flags, PDL_YAML_MAPPING, "a map of switches");
    if (!status && flags) status = pdl_parameters_read_switches(flags, p);
    return status;
}

static pdl_status_t read_root(const pdl_yaml_t *root, pdl_parameters_t *p)
{
    static const char *const keys[] = {"paradl", "name", "description", "parameters", "switches", NULL};
    const char              *name = p->name;
    pdl_status_t             status = pdl_yaml_check_format(root, "parameters");

    if (!status) status = pdl_yaml_check_keys(root, keys);
    if (!status) status = pdl_yaml_get_string(root, "name", PDL_REQUIRED, &name);
    if (status) return status;
    strncpy(p->name, name, sizeof(p->name) - 1);
    return pdl__parameters_read(pdl_yaml_find(root, "parameters"), pdl_yaml_find(root, "switches"), p);
}
static const char *const extensions[] = {".yaml", NULL};

pdl_status_t pdl_parameters_load(const char *name_or_path, pdl_parameters_t *parameters)
{
    char             path[4096];
    pdl_yaml_doc_t  *doc;
    pdl_parameters_t p;

    pdl_parameters_default(&p);
    pdl_status_t status = pdl_share_find("parameters", name_or_path, extensions, path, sizeof(path));
    if (!status) status = pdl_yaml_read_file(path, &doc);
    if (status) return status;
    memset(p.name, 0, sizeof(p.name));
    status = read_root(pdl_yaml_root(doc), &p);
    pdl_yaml_destroy(doc);
    if (!status) *parameters = p;
    return status;
}

static bool is_built_in(const char *name)
{
    char path[4096];

    return name != NULL && pdl_share_find("parameters", name, extensions, path, sizeof(path)) == PDL_OK;
}

pdl_status_t pdl_parameters_choose(const char *name_or_path, const pdl_system_t *system,
                                   pdl_parameters_t *parameters)
{
    if (name_or_path == NULL && is_built_in(system->parameters)) name_or_path = system->parameters;
    if (name_or_path == NULL && is_built_in("default")) name_or_path = "default";
    if (name_or_path != NULL) return pdl_parameters_load(name_or_path, parameters);
    pdl_parameters_default(parameters);
    return PDL_OK;
}

/* The closest names among parameters and switches. */
static pdl_status_t unknown_name(const char *name)
{
    const char *names[PDL_PARAMETER_NUMBER + PDL_SWITCH_NUMBER];
    char        closest[256];

    for (int i = 0; i < pdl_parameter_count; i++) names[i] = pdl_parameter_info[i].name;
    for (int i = 0; i < pdl__switch_count; i++) names[pdl_parameter_count + i] = pdl__switch_info[i].name;
    bool near = pdl__closest_names(name, names, sizeof(names) / sizeof(names[0]), closest, sizeof(closest));
    return pdl_error(PDL_ERR_INPUT,
                     "no parameter or switch is called \"%.60s\"%s%s%s (docs/parameters_format.md has all)", name,
                     near ? ": did you mean " : "", near ? closest : "", near ? "?" : "");
}

/* Files say what was fitted or measured; what is tried by hand has to be possible. */
static pdl_status_t check_range(const char *name, pdl_parameters_t *p)
{
    int k = 0;

    while (strcmp(pdl_parameter_info[k].name, name) != 0) k++;
    const pdl_parameter_info_t *info = &pdl_parameter_info[k];
    double                      value = *value_at(p, info->offset);
    if (value == info->standard || value == 0 || (value >= info->low && value <= info->high)) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s=%g is not from %g to %g", name, value, info->low, info->high);
}

static pdl_status_t change(const char *text, pdl_parameters_t *p)
{
    const char       *value = strchr(text, '=');
    char              line[256], name[64] = {0};
    pdl_yaml_doc_t   *doc;
    bool              parameter = false, known = false;
    const pdl_yaml_t *map;

    if (value == NULL || value == text || value[1] == '\0' || value - text >= (ptrdiff_t)sizeof(name) ||
        strchr(text, '\n') != NULL)
        return pdl_error(PDL_ERR_INPUT, "\"%.60s\" is not NAME=VALUE, such as overlap_gradients=false", text);
    memcpy(name, text, (size_t)(value - text));
    for (int i = 0; i < pdl_parameter_count; i++) parameter |= strcmp(pdl_parameter_info[i].name, name) == 0;
    for (int i = 0; i < pdl__switch_count; i++) known |= strcmp(pdl__switch_info[i].name, name) == 0;
    if (!parameter && !known) return unknown_name(name);
    snprintf(line, sizeof(line), "%s: %s\n", name, value + 1);
    pdl_status_t status = pdl_yaml_read_memory(line, strlen(line), text, &doc);
    if (status) return status;
    map = pdl_yaml_root(doc);
    status = pdl__parameters_read(parameter ? map : NULL, parameter ? NULL : map, p);
    pdl_yaml_destroy(doc);
    return status || !parameter ? status : check_range(name, p);
}

pdl_status_t pdl_parameters_change(const char *const *changes, size_t count, pdl_parameters_t *p)
{
    pdl_status_t status = PDL_OK;

    for (size_t i = 0; i < count && !status; i++) {
        size_t used = strlen(p->name);
        status = change(changes[i], p);
        snprintf(p->name + used, sizeof(p->name) - used, "%s%s", i == 0 ? " with " : ", ", changes[i]);
    }
    return status;
}

/* The shortest decimal that reads back as the same number. */
static const char *shortest(double value, char text[32])
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    return text;
}

pdl_status_t pdl_parameters_write(const pdl_parameters_t *parameters, const char *comment, FILE *stream)
{
    pdl_parameters_t p = *parameters;
    char             text[32];

    fputs("paradl: parameters/1\nname: ", stream);
    pdl_yaml_write_name(p.name, stream);
    fputc('\n', stream);
    if (comment) fprintf(stream, "description: >-\n  %s\n", comment);
    fprintf(stream, "parameters:\n");
    for (int i = 0; i < pdl_parameter_count; i++)
        fprintf(stream, "  %s: %s  # %s\n", pdl_parameter_info[i].name,
                shortest(*value_at(&p, pdl_parameter_info[i].offset), text), pdl_parameter_info[i].meaning);
    fprintf(stream, "switches:\n");
    for (int i = 0; i < pdl__switch_count; i++)
        fprintf(stream, "  %s: %s  # %s\n", pdl__switch_info[i].name,
                *switch_at(&p, pdl__switch_info[i].offset) ? "true" : "false", pdl__switch_info[i].meaning);
    return pdl_output_flush(stream, "the parameters");
}
