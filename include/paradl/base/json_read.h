/*
 * Reading JSON: a whole text becomes a tree in an arena. Files are untrusted: depth is limited, bytes that are not UTF-8
 * and zero characters become U+FFFD, and an error names file and line.
 *
 *     pdl_json_value_t *run;
 *     pdl_json_read(arena, text, length, "run.json", 1, &run);
 *     double seconds = pdl_json_number_of(run, "step_s");
 *     for (const pdl_json_value_t *c = pdl_json_first(run, "candidates"); c != NULL; c = c->next) ...
 *
 * Asking for what is not there is no error: numbers are NAN, texts NULL, lists empty.
 */
#ifndef PARADL_JSON_READ_H
#define PARADL_JSON_READ_H

#include <paradl/base/arena.h>
#include <paradl/base/status.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_json_kind {
    PDL_JSON_NULL,
    PDL_JSON_BOOL,
    PDL_JSON_NUMBER,
    PDL_JSON_STRING,
    PDL_JSON_ARRAY,
    PDL_JSON_OBJECT
} pdl_json_kind_t;

typedef struct pdl_json_value {
    pdl_json_kind_t              kind;
    const char                  *key;    /* in an object, else NULL */
    const char                  *text;   /* of a string */
    double                       number; /* of a number; of a bool 0 or 1 */
    const struct pdl_json_value *first, *next;
    int                          count;  /* members of an array or object */
    const char                  *source; /* its text as it was read, borrowed */
    size_t                       source_length;
} pdl_json_value_t;

/* All of `text`, which need not end with a zero byte; `line` is the number of its first line in `file`. */
pdl_status_t pdl_json_read(pdl_arena_t *arena, const char *text, size_t length, const char *file, int line,
                           pdl_json_value_t **value);

/* The member of an object; NULL where there is none, or where `object` is none. Names of members of members are joined
   by dots: "projected.step_s". */
const pdl_json_value_t *pdl_json_get(const pdl_json_value_t *object, const char *name);
double                  pdl_json_number_of(const pdl_json_value_t *object, const char *name);
const char             *pdl_json_text_of(const pdl_json_value_t *object, const char *name);
bool                    pdl_json_true(const pdl_json_value_t *object, const char *name);
const pdl_json_value_t *pdl_json_first(const pdl_json_value_t *object, const char *name);

#ifdef __cplusplus
}
#endif
#endif
