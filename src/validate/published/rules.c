/*
 * Reading share/experiments/published.yaml: the words of a table of published runs.
 */
#include "validate/published/published.h"
#include <paradl/base/share.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pdl_status_t get_map(const pdl_yaml_t *root, const char *key, const pdl_yaml_t **map)
{
    *map = pdl_yaml_find(root, key);
    if (!*map) return pdl_yaml_error(root, "expected the map \"%s\"", key);
    return pdl_yaml_expect(*map, PDL_YAML_MAPPING, key);
}

/* Entries are read again for every row that uses them; here all of them are, so that a mistake shows at once. */
static pdl_status_t check_entries(const pdl_published_rules_t *rules)
{
    pdl_status_t status = PDL_OK;

    for (size_t i = 0; !status && i < pdl_yaml_size(rules->accelerators); i++)
        status = pdl_yaml_expect(pdl_yaml_value(rules->accelerators, i), PDL_YAML_SCALAR, "the name of a system");
    for (size_t i = 0; !status && i < pdl_yaml_size(rules->precisions); i++) {
        int precision;
        status = pdl_yaml_enum(pdl_yaml_value(rules->precisions, i), pdl_precision_names, PDL_PRECISION_COUNT,
                               &precision);
    }
    for (size_t i = 0; !status && i < pdl_yaml_size(rules->models); i++) {
        pdl_dimensions_t d = {0};
        const char      *file;
        int64_t          tokens = 1;
        status = pdl__published_shape(pdl_yaml_value(rules->models, i), &d, &file);
        if (!status) status = pdl__published_positions(pdl_yaml_value(rules->models, i), &tokens);
        if (!status) status = pdl__published_memory_batch(pdl_yaml_value(rules->models, i), &tokens);
    }
    return status;
}

static pdl_status_t load_frameworks(pdl_published_rules_t *rules)
{
    size_t       count = pdl_yaml_size(rules->frameworks), more = pdl_yaml_size(rules->interleaved);
    pdl_status_t status = PDL_OK;

    rules->framework = calloc(count + more + 1, sizeof(*rules->framework));
    if (!rules->framework) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < count + more && !status; i++) {
        const pdl_yaml_t *entry =
            i < count ? pdl_yaml_value(rules->frameworks, i) : pdl_yaml_value(rules->interleaved, i - count);
        status = pdl_yaml_expect(entry, PDL_YAML_SCALAR, "the name of a framework");
        if (!status) status = pdl_framework_load(pdl_yaml_text(entry), &rules->framework[i]);
    }
    return status;
}

static pdl_status_t read_root(const pdl_yaml_t *root, pdl_published_rules_t *rules)
{
    static const char *const keys[] = {"paradl",     "name",        "description",  "parameters",
                                       "prior",      "vocabulary",  "accelerators", "precisions",
                                       "frameworks", "interleaved", "models",       NULL};
    pdl_status_t             status = pdl_yaml_check_format(root, "published");

    if (!status) status = pdl_yaml_check_keys(root, keys);
    if (!status) status = pdl_yaml_get_string(root, "parameters", PDL_REQUIRED, &rules->parameters);
    if (!status) status = pdl_yaml_get_string(root, "prior", PDL_REQUIRED, &rules->prior);
    if (!status) status = pdl_yaml_get_int(root, "vocabulary", 2, 1 << 24, PDL_REQUIRED, &rules->vocabulary);
    if (!status) status = get_map(root, "accelerators", &rules->accelerators);
    if (!status) status = get_map(root, "precisions", &rules->precisions);
    if (!status) status = get_map(root, "frameworks", &rules->frameworks);
    if (!status) status = get_map(root, "interleaved", &rules->interleaved);
    if (!status) status = get_map(root, "models", &rules->models);
    if (!status) status = check_entries(rules);
    return status ? status : load_frameworks(rules);
}

pdl_status_t pdl__published_rules_load(const char *name, pdl_published_rules_t *rules)
{
    static const char *const extensions[] = {".yaml", NULL};
    char                     path[4096];

    memset(rules, 0, sizeof(*rules));
    pdl_status_t status = pdl_share_find("experiments", name, extensions, path, sizeof(path));
    if (!status) status = pdl_yaml_read_file(path, &rules->doc);
    if (status) return status;
    status = read_root(pdl_yaml_root(rules->doc), rules);
    if (status) pdl__published_rules_free(rules);
    return status;
}

void pdl__published_rules_free(pdl_published_rules_t *rules)
{
    if (rules->doc) pdl_yaml_destroy(rules->doc);
    free(rules->framework);
    memset(rules, 0, sizeof(*rules));
}

const pdl_yaml_t *pdl__published_match(const pdl_yaml_t *map, const char *text)
{
    for (size_t i = 0; i < pdl_yaml_size(map); i++) {
        const char *key = pdl_yaml_key(map, i);
        /* The empty key stands for an empty cell only. */
        if (key[0] == '\0' ? text[0] == '\0' : pdl__published_begins(text, key)) return pdl_yaml_value(map, i);
    }
    return NULL;
}

const pdl_framework_t *pdl__published_framework(const pdl_published_rules_t *rules, const char *program)
{
    const pdl_yaml_t *entry = pdl__published_match(rules->frameworks, program);

    for (size_t i = 0; entry && i < pdl_yaml_size(rules->frameworks); i++)
        if (pdl_yaml_value(rules->frameworks, i) == entry) return &rules->framework[i];
    return NULL;
}

const pdl_framework_t *pdl__published_interleaved(const pdl_published_rules_t *rules,
                                                  const pdl_framework_t       *framework)
{
    for (size_t i = 0; i < pdl_yaml_size(rules->interleaved); i++)
        if (strcmp(pdl_yaml_key(rules->interleaved, i), framework->name) == 0)
            return &rules->framework[pdl_yaml_size(rules->frameworks) + i];
    return framework;
}

pdl_status_t pdl__published_shape(const pdl_yaml_t *entry, pdl_dimensions_t *d, const char **file)
{
    static const char *const keys[] = {"file", "shape", "positions", "arguments", "memory_batch", NULL};
    static const char *const names[] = {"layers",     "hidden",          "heads",      "kv_heads", "head_dim",
                                        "ffn",        "tokens",          "vocabulary", "experts",  "top_k",
                                        "most_nodes", "expert_products", NULL};
    int64_t *const           slots[] = {&d->layers,   &d->hidden, &d->heads,      &d->kv_heads,
                                        &d->head_dim, &d->ffn,    &d->tokens,     &d->vocabulary,
                                        &d->experts,  &d->top_k,  &d->most_nodes, &d->expert_products};
    pdl_status_t             status = pdl_yaml_expect(entry, PDL_YAML_MAPPING, "the description of a model");

    *file = NULL;
    if (!status) status = pdl_yaml_check_keys(entry, keys);
    if (!status) status = pdl_yaml_get_string(entry, "file", PDL_OPTIONAL, file);
    const pdl_yaml_t *arguments = status ? NULL : pdl_yaml_find(entry, "arguments");
    if (arguments) status = pdl_yaml_expect(arguments, PDL_YAML_SEQUENCE, "names of a model's parameters");
    for (size_t i = 0; arguments && i < pdl_yaml_size(arguments) && !status; i++)
        status = pdl_yaml_expect(pdl_yaml_item(arguments, i), PDL_YAML_SCALAR, "the name of a parameter");
    const pdl_yaml_t *shape = status ? NULL : pdl_yaml_find(entry, "shape");
    if (!shape) return status;
    status = pdl_yaml_expect(shape, PDL_YAML_MAPPING, "a map of sizes");
    if (!status) status = pdl_yaml_check_keys(shape, names);
    for (int i = 0; names[i] && !status; i++) {
        int64_t value = *slots[i];
        status = pdl_yaml_get_int(shape, names[i], 1, INT64_C(1) << 30, PDL_OPTIONAL, &value);
        if (*slots[i] == 0) *slots[i] = value;
    }
    return status;
}

pdl_status_t pdl__published_memory_batch(const pdl_yaml_t *entry, int64_t *samples)
{
    return pdl_yaml_get_int(entry, "memory_batch", 1, INT64_C(1) << 20, PDL_OPTIONAL, samples);
}

pdl_status_t pdl__published_positions(const pdl_yaml_t *entry, int64_t *tokens)
{
    const pdl_yaml_t *map = pdl_yaml_find(entry, "positions");
    char              length[32];

    if (!map) return PDL_OK;
    snprintf(length, sizeof(length), "%lld", (long long)*tokens);
    pdl_status_t status = pdl_yaml_expect(map, PDL_YAML_MAPPING, "positions for a length");
    return status ? status : pdl_yaml_get_int(map, length, 1, *tokens, PDL_OPTIONAL, tokens);
}
