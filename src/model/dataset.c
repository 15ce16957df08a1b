/*
 * Data set descriptions, `paradl: data/1`:
 *
 *     paradl: data/1
 *     name: cifar10
 *     samples: 50000               # or unlimited
 *     shape: {channels: 3, size: [32, 32]}   # or {tokens: 256, vocabulary: 65}
 *     targets: {classes: 10}                 # or {classes: 3, per: position}, or {values: 4}
 *     bytes_per_sample: 3073
 *     decode: 0s
 */
#include "model/internal.h"

#include <paradl/base/share.h>
#include <paradl/base/yaml.h>
#include <paradl/model/dataset.h>

#include <stdlib.h>
#include <string.h>

/* Every position has the token after it as its target. */
static pdl_status_t read_tokens(const pdl_yaml_t *mapping, const pdl_yaml_t *tokens, pdl_dataset_t *dataset)
{
    pdl_shape_t *shape = &dataset->shape;
    pdl_status_t status = pdl_yaml_int(tokens, 1, PDL_MAX_ATTRIBUTE, &shape->extent[0]);

    if (status) return status;
    shape->rank = 1;
    shape->sequence = true;
    dataset->tokens = shape->channels == 1;
    if (!dataset->tokens) return PDL_OK;
    dataset->target = PDL_TARGET_TOKENS;
    dataset->target_count = shape->extent[0];
    return pdl_yaml_get_int(mapping, "vocabulary", 1, PDL_MAX_ATTRIBUTE, PDL_OPTIONAL, &dataset->classes);
}

static pdl_status_t read_shape(const pdl_yaml_t *mapping, pdl_dataset_t *dataset)
{
    static const char *const keys[] = {"channels", "size", "tokens", "vocabulary", NULL};

    pdl_shape_t *shape = &dataset->shape;

    const pdl_yaml_t *size, *tokens;
    pdl_status_t      status = pdl_yaml_expect(mapping, PDL_YAML_MAPPING, "channels and size, or tokens");

    if (!status) status = pdl_yaml_check_keys(mapping, keys);
    if (status) return status;
    size = pdl_yaml_find(mapping, "size");
    tokens = pdl_yaml_find(mapping, "tokens");
    if (size != NULL && tokens != NULL) return pdl_yaml_error(tokens, "a sample has either a size or tokens");
    shape->channels = 1;
    status = pdl_yaml_get_int(mapping, "channels", 1, PDL_MAX_ATTRIBUTE, tokens ? PDL_OPTIONAL : PDL_REQUIRED,
                              &shape->channels);
    if (!status && tokens == NULL && pdl_yaml_find(mapping, "vocabulary") != NULL)
        return pdl_yaml_error(pdl_yaml_find(mapping, "vocabulary"), "a vocabulary is for samples of tokens");
    if (!status && tokens != NULL) status = read_tokens(mapping, tokens, dataset);
    if (status || size == NULL) return status;
    status = pdl_yaml_expect(size, PDL_YAML_SEQUENCE, "a list of 1 to 3 extents");
    if (status) return status;
    if (pdl_yaml_size(size) < 1 || pdl_yaml_size(size) > PDL_MAX_SPACE)
        return pdl_yaml_error(size, "expected a list of 1 to 3 extents");
    shape->rank = (int)pdl_yaml_size(size);
    for (int d = 0; d < shape->rank && !status; d++)
        status = pdl_yaml_int(pdl_yaml_item(size, (size_t)d), 1, PDL_MAX_ATTRIBUTE, &shape->extent[d]);
    return status;
}

static pdl_status_t read_targets(const pdl_yaml_t *mapping, pdl_dataset_t *dataset)
{
    static const char *const keys[] = {"classes", "per", "values", NULL}, *const pers[] = {"sample", "position"};

    const pdl_yaml_t *classes, *per, *values;
    int               which = 0;
    pdl_status_t      status = pdl_yaml_expect(mapping, PDL_YAML_MAPPING, "classes or values");

    if (!status) status = pdl_yaml_check_keys(mapping, keys);
    if (status) return status;
    if (dataset->tokens) return pdl_yaml_error(mapping, "the target of a token is the next one: leave out targets");
    classes = pdl_yaml_find(mapping, "classes");
    per = pdl_yaml_find(mapping, "per");
    values = pdl_yaml_find(mapping, "values");
    if ((classes == NULL) == (values == NULL)) return pdl_yaml_error(mapping, "expected either classes or values");
    if (values != NULL) {
        dataset->target = PDL_TARGET_VALUES;
        return pdl_yaml_int(values, 1, PDL_MAX_ATTRIBUTE, &dataset->target_count);
    }
    if (per != NULL) status = pdl_yaml_enum(per, pers, 2, &which);
    dataset->target = which == 0 ? PDL_TARGET_CLASS : PDL_TARGET_MASK;
    dataset->target_count = which == 0 ? 1 : pdl_shape_positions(&dataset->shape);
    return status ? status : pdl_yaml_int(classes, 1, PDL_MAX_ATTRIBUTE, &dataset->classes);
}

static pdl_status_t read_samples(const pdl_yaml_t *root, int64_t *samples)
{
    const pdl_yaml_t *node = pdl_yaml_find(root, "samples");

    if (node != NULL && pdl_yaml_text(node) != NULL && strcmp(pdl_yaml_text(node), "unlimited") == 0) {
        *samples = 0;
        return PDL_OK;
    }
    return pdl_yaml_get_int(root, "samples", 1, INT64_MAX, PDL_REQUIRED, samples);
}

static pdl_status_t read_description(const pdl_yaml_t *root, pdl_dataset_t *dataset)
{
    static const char *const keys[] = {"paradl", "name",    "description", "source",           "samples",
                                       "shape",  "targets", "decode",      "bytes_per_sample", NULL};

    const pdl_yaml_t *shape, *targets;
    const char       *name = "", *unused;
    pdl_status_t      status = pdl_yaml_check_format(root, "data");

    if (!status) status = pdl_yaml_check_keys(root, keys);
    if (!status) status = pdl_yaml_get_string(root, "name", PDL_REQUIRED, &name);
    if (!status) status = pdl_yaml_get_string(root, "description", PDL_OPTIONAL, &unused);
    if (!status) status = pdl_yaml_get_string(root, "source", PDL_OPTIONAL, &unused);
    if (status) return status;
    if (strlen(name) >= sizeof(dataset->name))
        return pdl_yaml_error(pdl_yaml_find(root, "name"), "a name has at most %zu characters",
                              sizeof(dataset->name) - 1);
    memcpy(dataset->name, name, strlen(name) + 1);
    status = read_samples(root, &dataset->samples);
    shape = pdl_yaml_find(root, "shape");
    if (!status && shape != NULL) status = read_shape(shape, dataset);
    targets = pdl_yaml_find(root, "targets");
    if (!status && targets != NULL) status = read_targets(targets, dataset);
    if (!status)
        status =
            pdl_yaml_get_number(root, "bytes_per_sample", PDL_UNIT_BYTES, PDL_OPTIONAL, &dataset->bytes_per_sample);
    if (!status)
        status = pdl_yaml_get_number(root, "decode", PDL_UNIT_SECONDS, PDL_OPTIONAL, &dataset->decode_s_per_sample);
    return status;
}

pdl_status_t pdl_dataset_read_memory(const char *text, size_t length, const char *name, pdl_dataset_t *dataset)
{
    pdl_dataset_t   read = {.shape = {.extent = {1, 1, 1}}};
    pdl_yaml_doc_t *doc;
    pdl_status_t    status = pdl_yaml_read_memory(text, length, name, &doc);

    if (status) return status;
    status = read_description(pdl_yaml_root(doc), &read);
    pdl_yaml_destroy(doc);
    if (!status) *dataset = read;
    return status;
}

pdl_status_t pdl_dataset_load(const char *name_or_path, pdl_dataset_t *dataset)
{
    static const char *const extensions[] = {".yaml", NULL};

    char         path[4096], *text;
    size_t       length;
    pdl_status_t status = pdl_share_find("data", name_or_path, extensions, path, sizeof(path));

    if (!status) status = pdl__read_file(path, &text, &length);
    if (status) return status;
    status = pdl_dataset_read_memory(text, length, path, dataset);
    free(text);
    return status;
}
