/*
 * The subset of JSON that a safetensors header uses. Internal to train.
 */
#ifndef PDL_TRAIN_SAFETENSORS_JSON_H
#define PDL_TRAIN_SAFETENSORS_JSON_H

#include <paradl/base/status.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct pdl__scanner {
    const char          *file; /* for messages */
    const unsigned char *begin, *at, *end;
    char                *text; /* where the next string goes; as many bytes as the header has are enough for all */
} pdl__scanner_t;

/* The message names the file and the byte of the header. */
pdl_status_t pdl__scan_fail(const pdl__scanner_t *s, const char *what);

void pdl__scan_blanks(pdl__scanner_t *s);
/* Takes `wanted` if it comes next, after blanks. */
bool         pdl__scan_take(pdl__scanner_t *s, char wanted);
pdl_status_t pdl__scan_expect(pdl__scanner_t *s, char wanted);
/* Between the members of an object or array: past a comma (*more) or past the closing bracket. */
pdl_status_t pdl__scan_next(pdl__scanner_t *s, char closer, bool *more);
/* *string is in the scanner's text and ends with a zero byte; it holds no other. */
pdl_status_t pdl__scan_string(pdl__scanner_t *s, const char **string);
/* "[a, b, ...]" of at most `limit` integers, none of them negative. */
pdl_status_t pdl__scan_integers(pdl__scanner_t *s, int limit, const char *too_many, int64_t *values, int *count);

#endif
