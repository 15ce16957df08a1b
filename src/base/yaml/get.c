/*
 * Walking the tree and turning its scalars into values.
 */
#include "base/yaml/tree.h"

#include "base/closest.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const pdl_yaml_t *pdl_yaml_root(const pdl_yaml_doc_t *doc)
{
    return doc->root;
}

pdl_yaml_kind_t pdl_yaml_kind(const pdl_yaml_t *node)
{
    return node->kind;
}

size_t pdl_yaml_size(const pdl_yaml_t *node)
{
    return node->count;
}

const pdl_yaml_t *pdl_yaml_item(const pdl_yaml_t *sequence, size_t i)
{
    assert(sequence->kind == PDL_YAML_SEQUENCE && i < sequence->count);
    return sequence->entries[i].value;
}

const char *pdl_yaml_key(const pdl_yaml_t *mapping, size_t i)
{
    assert(mapping->kind == PDL_YAML_MAPPING && i < mapping->count);
    return mapping->entries[i].key;
}

const pdl_yaml_t *pdl_yaml_value(const pdl_yaml_t *mapping, size_t i)
{
    assert(mapping->kind == PDL_YAML_MAPPING && i < mapping->count);
    return mapping->entries[i].value;
}

const pdl_yaml_t *pdl_yaml_find(const pdl_yaml_t *mapping, const char *key)
{
    size_t i;

    if (mapping->kind != PDL_YAML_MAPPING) return NULL;
    for (i = 0; i < mapping->count; i++) {
        if (strcmp(mapping->entries[i].key, key) == 0) return mapping->entries[i].value;
    }
    return NULL;
}

const char *pdl_yaml_text(const pdl_yaml_t *scalar)
{
    return scalar->text;
}

pdl_status_t pdl_yaml_error(const pdl_yaml_t *node, const char *format, ...)
{
    char    text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return pdl_error(PDL_ERR_INPUT, "%s:%zu: %s", node->doc->name, node->line, text);
}

static const char *kind_text(const pdl_yaml_t *node)
{
    switch (node->kind) {
    case PDL_YAML_SEQUENCE: return "a list";
    case PDL_YAML_MAPPING: return "a mapping";
    default: return node->quoted || node->text[0] != '\0' ? "a single value" : "nothing";
    }
}

pdl_status_t pdl_yaml_expect(const pdl_yaml_t *node, pdl_yaml_kind_t kind, const char *what)
{
    if (node->kind == kind) return PDL_OK;
    if (node->kind == PDL_YAML_SCALAR && node->text[0] != '\0') {
        return pdl_yaml_error(node, "expected %s, found \"%.60s\"", what, node->text);
    }
    return pdl_yaml_error(node, "expected %s, found %s", what, kind_text(node));
}

/*
 * The readers of values below leave a message without a place; add_place() puts the place in front, and the
 * key where there is one.
 */
static pdl_status_t add_place(const pdl_yaml_t *node, const char *key, pdl_status_t st)
{
    if (st == PDL_OK) return PDL_OK;
    if (key == NULL) return pdl_yaml_error(node, "%s", pdl_error_message());
    return pdl_yaml_error(node, "%s: %s", key, pdl_error_message());
}

static pdl_status_t expect_value(const pdl_yaml_t *node, const char *what)
{
    if (node->kind == PDL_YAML_SCALAR && (node->quoted || node->text[0] != '\0')) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "expected %s, found %s", what, kind_text(node));
}

static pdl_status_t read_number(const pdl_yaml_t *node, pdl_unit_t unit, double *value)
{
    pdl_status_t st = expect_value(node, "a number");

    return st != PDL_OK ? st : pdl_parse_quantity(node->text, unit, value);
}

static pdl_status_t read_int(const pdl_yaml_t *node, int64_t min, int64_t max, int64_t *value)
{
    pdl_status_t st = expect_value(node, "a whole number");

    return st != PDL_OK ? st : pdl_parse_int(node->text, min, max, value);
}

static pdl_status_t read_bool(const pdl_yaml_t *node, bool *value)
{
    pdl_status_t st = expect_value(node, "true or false");

    if (st != PDL_OK) return st;
    if (strcmp(node->text, "true") == 0) {
        *value = true;
    } else if (strcmp(node->text, "false") == 0) {
        *value = false;
    } else {
        return pdl_error(PDL_ERR_INPUT, "expected true or false, found \"%.60s\"", node->text);
    }
    return PDL_OK;
}

static pdl_status_t read_string(const pdl_yaml_t *node, const char **value)
{
    pdl_status_t st = expect_value(node, "a text");

    if (st == PDL_OK) *value = node->text;
    return st;
}

static pdl_status_t read_enum(const pdl_yaml_t *node, const char *const *names, int count, int *index)
{
    char         list[512];
    pdl_status_t st;
    int          i;

    pdl__join_names(names, (size_t)count, list, sizeof(list));
    st = expect_value(node, list);
    if (st != PDL_OK) return st;
    for (i = 0; i < count; i++) {
        if (strcmp(node->text, names[i]) == 0) {
            *index = i;
            return PDL_OK;
        }
    }
    return pdl_error(PDL_ERR_INPUT, "expected %s, found \"%.60s\"", list, node->text);
}

pdl_status_t pdl_yaml_number(const pdl_yaml_t *node, pdl_unit_t unit, double *value)
{
    return add_place(node, NULL, read_number(node, unit, value));
}

pdl_status_t pdl_yaml_int(const pdl_yaml_t *node, int64_t min, int64_t max, int64_t *value)
{
    return add_place(node, NULL, read_int(node, min, max, value));
}

pdl_status_t pdl_yaml_bool(const pdl_yaml_t *node, bool *value)
{
    return add_place(node, NULL, read_bool(node, value));
}

pdl_status_t pdl_yaml_string(const pdl_yaml_t *node, const char **value)
{
    return add_place(node, NULL, read_string(node, value));
}

pdl_status_t pdl_yaml_enum(const pdl_yaml_t *node, const char *const *names, int count, int *index)
{
    return add_place(node, NULL, read_enum(node, names, count, index));
}

/* *node is NULL when an optional key is absent. */
static pdl_status_t find_key(const pdl_yaml_t *mapping, const char *key, pdl_need_t need, const pdl_yaml_t **node)
{
    *node = NULL;
    if (mapping->kind != PDL_YAML_MAPPING) {
        return pdl_yaml_error(mapping, "expected a mapping with the key \"%s\", found %s", key, kind_text(mapping));
    }
    *node = pdl_yaml_find(mapping, key);
    if (*node == NULL && need == PDL_REQUIRED) return pdl_yaml_error(mapping, "key \"%s\" is missing", key);
    return PDL_OK;
}

pdl_status_t pdl_yaml_get_number(const pdl_yaml_t *mapping, const char *key, pdl_unit_t unit, pdl_need_t need,
                                 double *value)
{
    const pdl_yaml_t *node;
    pdl_status_t      st = find_key(mapping, key, need, &node);

    if (st != PDL_OK || node == NULL) return st;
    return add_place(node, key, read_number(node, unit, value));
}

pdl_status_t pdl_yaml_get_int(const pdl_yaml_t *mapping, const char *key, int64_t min, int64_t max, pdl_need_t need,
                              int64_t *value)
{
    const pdl_yaml_t *node;
    pdl_status_t      st = find_key(mapping, key, need, &node);

    if (st != PDL_OK || node == NULL) return st;
    return add_place(node, key, read_int(node, min, max, value));
}

pdl_status_t pdl_yaml_get_bool(const pdl_yaml_t *mapping, const char *key, pdl_need_t need, bool *value)
{
    const pdl_yaml_t *node;
    pdl_status_t      st = find_key(mapping, key, need, &node);

    if (st != PDL_OK || node == NULL) return st;
    return add_place(node, key, read_bool(node, value));
}

pdl_status_t pdl_yaml_get_string(const pdl_yaml_t *mapping, const char *key, pdl_need_t need, const char **value)
{
    const pdl_yaml_t *node;
    pdl_status_t      st = find_key(mapping, key, need, &node);

    if (st != PDL_OK || node == NULL) return st;
    return add_place(node, key, read_string(node, value));
}

pdl_status_t pdl_yaml_get_enum(const pdl_yaml_t *mapping, const char *key, const char *const *names, int count,
                               pdl_need_t need, int *index)
{
    const pdl_yaml_t *node;
    pdl_status_t      st = find_key(mapping, key, need, &node);

    if (st != PDL_OK || node == NULL) return st;
    return add_place(node, key, read_enum(node, names, count, index));
}

static pdl_status_t refuse_key(const pdl_yaml_t *mapping, const pdl__yaml_entry_t *entry, const char *const *known)
{
    char   list[512];
    size_t count = 0;
    bool   close;

    while (known[count] != NULL) count++;
    close = pdl__closest_names(entry->key, known, count, list, sizeof(list));
    if (!close) pdl__join_names(known, count, list, sizeof(list));
    return pdl_error(PDL_ERR_INPUT, "%s:%zu: unknown key \"%.60s\": %s %s%s", mapping->doc->name, entry->key_line,
                     entry->key, close ? "did you mean" : "expected", list, close ? "?" : "");
}

pdl_status_t pdl_yaml_check_keys(const pdl_yaml_t *mapping, const char *const *known)
{
    pdl_status_t st = pdl_yaml_expect(mapping, PDL_YAML_MAPPING, "a mapping");
    size_t       i, k;

    if (st != PDL_OK) return st;
    for (i = 0; i < mapping->count; i++) {
        for (k = 0; known[k] != NULL && strcmp(known[k], mapping->entries[i].key) != 0; k++) continue;
        if (known[k] == NULL) return refuse_key(mapping, &mapping->entries[i], known);
    }
    return PDL_OK;
}

pdl_status_t pdl_yaml_check_format(const pdl_yaml_t *root, const char *kind)
{
    const pdl_yaml_t *node = pdl_yaml_find(root, "paradl");
    size_t            length = strlen(kind);

    if (node == NULL || node->kind != PDL_YAML_SCALAR) {
        return pdl_yaml_error(root, "expected the line \"paradl: %s/1\", which opens every %s file", kind, kind);
    }
    if (strncmp(node->text, kind, length) != 0 || node->text[length] != '/') {
        return pdl_yaml_error(node, "expected a %s file (paradl: %s/1), found \"%.60s\"", kind, kind, node->text);
    }
    if (strcmp(node->text + length, "/1") != 0) {
        return pdl_yaml_error(node, "this version reads %s/1, found \"%.60s\"", kind, node->text);
    }
    return PDL_OK;
}
