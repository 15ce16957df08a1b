/*
 * YAML files as a tree that remembers where everything stood.
 *
 * Models, systems, plans and parameters are YAML. Readers walk the tree with the functions below; every
 * one of them reports a mistake as "FILE:LINE: what was expected", so that a reader of a format contains no
 * error texts of its own but those about meaning. Unknown keys are mistakes too: a reader ends a mapping
 * with pdl_yaml_check_keys().
 *
 *     pdl_yaml_doc_t *doc;
 *     if (pdl_yaml_read_file("machine.yaml", &doc)) return ...;
 *     const pdl_yaml_t *root = pdl_yaml_root(doc);
 *     double bw;
 *     if (pdl_yaml_get_number(root, "bandwidth", PDL_UNIT_BYTE_RATE, PDL_REQUIRED, &bw)) ...
 *     pdl_yaml_destroy(doc);
 *
 * Anchors, aliases, tags and multiple documents are refused; depth is limited. JSON is read as well.
 */
#ifndef PARADL_YAML_H
#define PARADL_YAML_H

#include <paradl/base/status.h>
#include <paradl/base/units.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_yaml_doc pdl_yaml_doc_t;
typedef struct pdl_yaml     pdl_yaml_t; /* a node: scalar, sequence or mapping */

typedef enum pdl_yaml_kind { PDL_YAML_SCALAR, PDL_YAML_SEQUENCE, PDL_YAML_MAPPING } pdl_yaml_kind_t;
typedef enum pdl_need { PDL_OPTIONAL, PDL_REQUIRED } pdl_need_t;

pdl_status_t pdl_yaml_read_file(const char *path, pdl_yaml_doc_t **doc);
/* `name` stands for the file in messages. */
pdl_status_t pdl_yaml_read_memory(const char *text, size_t length, const char *name, pdl_yaml_doc_t **doc);
void         pdl_yaml_destroy(pdl_yaml_doc_t *doc);

/* Replaces the single value at a path of keys, and names or numbers (from 0) of the entries of lists: "levels.node.bandwidth",
   "levels.1.latency". The last key may be one that the document leaves out. The message for others names what is close. */
pdl_status_t pdl_yaml_set(pdl_yaml_doc_t *doc, const char *path, const char *value);

const pdl_yaml_t *pdl_yaml_root(const pdl_yaml_doc_t *doc);
pdl_yaml_kind_t   pdl_yaml_kind(const pdl_yaml_t *node);
size_t            pdl_yaml_size(const pdl_yaml_t *node); /* entries of a sequence or mapping; 0 for a scalar */
const pdl_yaml_t *pdl_yaml_item(const pdl_yaml_t *sequence, size_t i);
const char       *pdl_yaml_key(const pdl_yaml_t *mapping, size_t i);
const pdl_yaml_t *pdl_yaml_value(const pdl_yaml_t *mapping, size_t i);
const pdl_yaml_t *pdl_yaml_find(const pdl_yaml_t *mapping, const char *key); /* NULL when absent */
const char       *pdl_yaml_text(const pdl_yaml_t *scalar);                   /* NULL when not a scalar */

/* "FILE:LINE: " and the message. The only way a reader reports a mistake. */
pdl_status_t pdl_yaml_error(const pdl_yaml_t *node, const char *format, ...) PDL_PRINTF(2, 3);

/* PDL_ERR_INPUT unless the node has the kind (`what` names it in the message, e.g. "a list of layers"). */
pdl_status_t pdl_yaml_expect(const pdl_yaml_t *node, pdl_yaml_kind_t kind, const char *what);

/* A scalar node as a value. */
pdl_status_t pdl_yaml_number(const pdl_yaml_t *node, pdl_unit_t unit, double *value);
pdl_status_t pdl_yaml_int(const pdl_yaml_t *node, int64_t min, int64_t max, int64_t *value);
pdl_status_t pdl_yaml_bool(const pdl_yaml_t *node, bool *value);
pdl_status_t pdl_yaml_string(const pdl_yaml_t *node, const char **value); /* lives as long as the document */
/* Index of the scalar among `count` names; the message lists them. */
pdl_status_t pdl_yaml_enum(const pdl_yaml_t *node, const char *const *names, int count, int *index);

/* The value under a key. When the key is absent: an error if PDL_REQUIRED, else *value is left alone. */
pdl_status_t pdl_yaml_get_number(const pdl_yaml_t *mapping, const char *key, pdl_unit_t unit, pdl_need_t need,
                                 double *value);
pdl_status_t pdl_yaml_get_int(const pdl_yaml_t *mapping, const char *key, int64_t min, int64_t max, pdl_need_t need,
                              int64_t *value);
pdl_status_t pdl_yaml_get_bool(const pdl_yaml_t *mapping, const char *key, pdl_need_t need, bool *value);
pdl_status_t pdl_yaml_get_string(const pdl_yaml_t *mapping, const char *key, pdl_need_t need, const char **value);
pdl_status_t pdl_yaml_get_enum(const pdl_yaml_t *mapping, const char *key, const char *const *names, int count,
                               pdl_need_t need, int *index);

/* An error naming the first key that is not in the NULL-terminated list. */
pdl_status_t pdl_yaml_check_keys(const pdl_yaml_t *mapping, const char *const *known);

/* Checks the "paradl: KIND/1" line that opens every file of ours; the message names the kind found. */
pdl_status_t pdl_yaml_check_format(const pdl_yaml_t *root, const char *kind);

/* Writes a text in quotes; a name goes without where no reader of YAML would take it for anything but a text. */
void pdl_yaml_write_quoted(const char *text, FILE *stream);
void pdl_yaml_write_name(const char *name, FILE *stream);
/* Writes what was read as JSON, which is read as the same. Values are strings; nothing at all is null. */
void pdl_yaml_write_json(const pdl_yaml_t *node, FILE *stream);

#ifdef __cplusplus
}
#endif
#endif
