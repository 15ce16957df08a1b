/*
 * Any bytes given to the YAML reader yield a tree that can be walked with every accessor, or an error.
 */
#include <paradl/base/yaml.h>

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"paradl", "layers", "a", NULL};

static void read_scalar(const pdl_yaml_t *node)
{
    const char *text = NULL;
    double      number = 0;
    int64_t     integer = 0;
    bool        truth = false;
    int         index = 0, unit;

    for (unit = PDL_UNIT_NONE; unit <= PDL_UNIT_WATT; unit++) {
        if (pdl_yaml_number(node, (pdl_unit_t)unit, &number) == PDL_OK) assert(number >= 0);
    }
    if (pdl_yaml_int(node, -5, 1000000, &integer) == PDL_OK) assert(integer >= -5 && integer <= 1000000);
    if (pdl_yaml_string(node, &text) == PDL_OK) assert(text == pdl_yaml_text(node));
    if (pdl_yaml_enum(node, names, 3, &index) == PDL_OK) assert(index >= 0 && index < 3);
    (void)pdl_yaml_bool(node, &truth);
}

static void read_mapping(const pdl_yaml_t *node)
{
    const char *text;
    double      number;
    int64_t     integer;
    bool        truth;
    int         index;
    size_t      i;

    for (i = 0; i < pdl_yaml_size(node) && i < 8; i++) {
        const char *key = pdl_yaml_key(node, i);

        assert(pdl_yaml_find(node, key) == pdl_yaml_value(node, i));
        (void)pdl_yaml_get_number(node, key, PDL_UNIT_BYTES, PDL_REQUIRED, &number);
        (void)pdl_yaml_get_int(node, key, 0, INT64_MAX, PDL_REQUIRED, &integer);
        (void)pdl_yaml_get_bool(node, key, PDL_OPTIONAL, &truth);
        (void)pdl_yaml_get_string(node, key, PDL_REQUIRED, &text);
        (void)pdl_yaml_get_enum(node, key, names, 3, PDL_OPTIONAL, &index);
    }
    (void)pdl_yaml_check_keys(node, names);
}

static void walk(const pdl_yaml_t *node, int depth)
{
    size_t i;

    assert(depth <= 64);
    read_scalar(node);
    (void)pdl_yaml_expect(node, PDL_YAML_SEQUENCE, "a list");
    (void)pdl_yaml_check_format(node, "model");
    if (pdl_yaml_kind(node) == PDL_YAML_MAPPING) read_mapping(node);
    for (i = 0; i < pdl_yaml_size(node); i++) {
        walk(pdl_yaml_kind(node) == PDL_YAML_MAPPING ? pdl_yaml_value(node, i) : pdl_yaml_item(node, i), depth + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_yaml_doc_t *doc = NULL;

    if (pdl_yaml_read_memory((const char *)data, size, "input", &doc) != PDL_OK) {
        assert(doc == NULL);
        assert(strncmp(pdl_error_message(), "input", 5) == 0);
        return 0;
    }
    walk(pdl_yaml_root(doc), 0);
    pdl_yaml_destroy(doc);
    return 0;
}
