/*
 * Replacing a value of a document that was read: "levels.1.bandwidth" by "25GB/s".
 */
#include "base/yaml/tree.h"

#include "base/closest.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#define MOST_NAMES 64

/* What can stand at a place of the path: keys, or names and numbers of entries. */
static size_t names_of(const pdl_yaml_t *node, const char *names[MOST_NAMES])
{
    size_t count = 0;

    for (size_t i = 0; i < node->count && count < MOST_NAMES; i++) {
        const pdl_yaml_t *name =
            node->kind == PDL_YAML_SEQUENCE ? pdl_yaml_find(node->entries[i].value, "name") : NULL;

        if (node->kind == PDL_YAML_MAPPING)
            names[count++] = node->entries[i].key;
        else if (name != NULL && name->kind == PDL_YAML_SCALAR)
            names[count++] = name->text;
    }
    return count;
}

/* The entry that `word` means; the number of entries where there is none. */
static size_t find_entry(const pdl_yaml_t *node, const char *word)
{
    char  *end;
    size_t number;

    for (size_t i = 0; i < node->count; i++) {
        const pdl_yaml_t *name =
            node->kind == PDL_YAML_SEQUENCE ? pdl_yaml_find(node->entries[i].value, "name") : NULL;
        const char *text = node->kind == PDL_YAML_MAPPING ? node->entries[i].key : name != NULL ? name->text : NULL;

        if (text != NULL && strcmp(text, word) == 0) return i;
    }
    if (node->kind != PDL_YAML_SEQUENCE || word[0] < '0' || word[0] > '9') return node->count;
    number = strtoul(word, &end, 10);
    return *end == '\0' && number < node->count ? number : node->count;
}

static pdl_status_t refuse(const pdl_yaml_t *node, const char *path, const char *word)
{
    const char *names[MOST_NAMES];
    size_t      count = node->kind == PDL_YAML_SCALAR ? 0 : names_of(node, names);
    char        text[512];

    if (node->kind == PDL_YAML_SCALAR)
        return pdl_error(PDL_ERR_INPUT, "%s: %.200s: there is a single value above \"%.60s\"", node->doc->name,
                         path, word);
    if (pdl__closest_names(word, names, count, text, sizeof(text)))
        return pdl_error(PDL_ERR_INPUT, "%s: %.200s: there is no \"%.60s\": did you mean %s?", node->doc->name,
                         path, word, text);
    pdl__join_names(names, count, text, sizeof(text));
    return pdl_error(PDL_ERR_INPUT, "%s: %.200s: there is no \"%.60s\": expected %s%s", node->doc->name, path, word,
                     text, node->kind == PDL_YAML_SEQUENCE ? ", or a number from 0" : "");
}

/* A mapping may get a key that the file leaves out; whether there is such a key is known by who reads the document. */
static pdl_status_t add_key(pdl_yaml_t *node, const char *key, const pdl_yaml_t *value)
{
    pdl__yaml_entry_t *entries = pdl_arena_alloc(node->doc->arena, node->count + 1, sizeof(*entries));

    if (entries == NULL) return PDL_ERR_NOMEM;
    if (node->count > 0) memcpy(entries, node->entries, node->count * sizeof(*entries));
    entries[node->count] = (pdl__yaml_entry_t){pdl_arena_strdup(node->doc->arena, key), value, node->line};
    if (entries[node->count].key == NULL) return PDL_ERR_NOMEM;
    node->entries = entries;
    node->count++;
    return PDL_OK;
}

static pdl_status_t put(pdl_yaml_t *node, const char *path, const char *word, const char *value)
{
    size_t      i = find_entry(node, word);
    pdl_yaml_t *made;

    if (i == node->count && node->kind != PDL_YAML_MAPPING) return refuse(node, path, word);
    if (i < node->count && node->entries[i].value->kind != PDL_YAML_SCALAR)
        return pdl_error(PDL_ERR_INPUT, "%s: %.200s has values of its own: name one of them, such as %.200s.%s",
                         node->doc->name, path, path,
                         node->entries[i].value->kind == PDL_YAML_MAPPING && node->entries[i].value->count > 0
                             ? node->entries[i].value->entries[0].key
                             : "0");
    made = pdl_arena_alloc(node->doc->arena, 1, sizeof(*made));
    if (made == NULL) return PDL_ERR_NOMEM;
    *made = (pdl_yaml_t){.doc = node->doc, .kind = PDL_YAML_SCALAR, .line = node->line};
    made->text = pdl_arena_strdup(node->doc->arena, value);
    if (made->text == NULL) return PDL_ERR_NOMEM;
    if (i == node->count) return add_key(node, word, made);
    made->line = node->entries[i].value->line;
    ((pdl__yaml_entry_t *)node->entries)[i].value = made; /* entries lie in the arena of the document */
    return PDL_OK;
}

pdl_status_t pdl_yaml_set(pdl_yaml_doc_t *doc, const char *path, const char *value)
{
    pdl_yaml_t  *node = (pdl_yaml_t *)doc->root;
    char        *words = strdup(path), *word = words, *dot;
    pdl_status_t status = words != NULL ? PDL_OK : pdl__no_memory("for a path of keys");

    while (!status && (dot = strchr(word, '.')) != NULL) {
        size_t i;

        *dot = '\0';
        i = node->kind == PDL_YAML_SCALAR ? node->count : find_entry(node, word);
        if (i == node->count)
            status = refuse(node, path, word);
        else
            node = (pdl_yaml_t *)node->entries[i].value;
        word = dot + 1;
    }
    if (!status) status = node->kind == PDL_YAML_SCALAR ? refuse(node, path, word) : put(node, path, word, value);
    free(words);
    return status;
}
