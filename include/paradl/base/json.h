/*
 * Writing JSON to a stream, token by token; commas and indentation are kept by the writer.
 *
 *     pdl_json_t json;
 *     pdl_json_begin(&json, stdout);
 *     pdl_json_open(&json, NULL, '{');
 *     pdl_json_string(&json, "model", "resnet50");
 *     pdl_json_open(&json, "candidates", '[');
 *     ...
 *     pdl_json_close(&json);
 *     pdl_json_close(&json);
 *
 * `key` is NULL inside an array. Numbers that are not finite are written as null.
 */
#ifndef PARADL_JSON_H
#define PARADL_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PDL_JSON_DEPTH 32

typedef struct pdl_json {
    FILE *stream;
    int   depth;
    char  closer[PDL_JSON_DEPTH]; /* '}' or ']' of each open level */
    bool  empty[PDL_JSON_DEPTH];  /* nothing written at this level yet */
    bool  one_line;
} pdl_json_t;

void pdl_json_begin(pdl_json_t *json, FILE *stream);
/* The same, with everything on one line: a log of one document a line. */
void pdl_json_begin_line(pdl_json_t *json, FILE *stream);
void pdl_json_open(pdl_json_t *json, const char *key, char bracket); /* '{' or '[' */
/* The next member of an array is on a line of its own, also where everything is on one. */
void pdl_json_row(pdl_json_t *json);
void pdl_json_close(pdl_json_t *json); /* ends the innermost; a newline after the last */
void pdl_json_string(pdl_json_t *json, const char *key, const char *value); /* NULL is written as null */
void pdl_json_number(pdl_json_t *json, const char *key, double value); /* shortest form that reads back exactly */
void pdl_json_bytes(pdl_json_t *json, const char *key, double value);  /* a whole number */
void pdl_json_int(pdl_json_t *json, const char *key, int64_t value);
void pdl_json_bool(pdl_json_t *json, const char *key, bool value);
void pdl_json_raw(pdl_json_t *json, const char *key, const char *text); /* what is JSON already */

#ifdef __cplusplus
}
#endif
#endif
