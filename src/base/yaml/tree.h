/*
 * The tree behind paradl/yaml.h. Internal to base.
 */
#ifndef PDL_BASE_YAML_TREE_H
#define PDL_BASE_YAML_TREE_H

#include <paradl/base/arena.h>
#include <paradl/base/yaml.h>

typedef struct pdl__yaml_entry {
    const char       *key; /* NULL in a sequence */
    const pdl_yaml_t *value;
    size_t            key_line;
} pdl__yaml_entry_t;

struct pdl_yaml {
    const pdl_yaml_doc_t    *doc;
    pdl_yaml_kind_t          kind;
    bool                     quoted; /* a scalar in quotes: "" is a text, while nothing at all is not */
    size_t                   line;   /* from 1 */
    const char              *text;   /* of a scalar */
    const pdl__yaml_entry_t *entries;
    size_t                   count;
};

struct pdl_yaml_doc {
    pdl_arena_t      *arena;
    const char       *name;
    const pdl_yaml_t *root;
};

#endif
