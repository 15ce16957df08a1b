/*
 * Arithmetic in model files: "4*hidden", "(heads + 2*kv_heads)*head_dim", "0.02/sqrt(2*layers)". Whole numbers
 * stay exact and are checked for overflow; a quotient that is not whole becomes a decimal number, which an
 * integer field then refuses.
 */
#ifndef PDL_MODEL_EXPRESSION_H
#define PDL_MODEL_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pdl__value {
    double  number;
    int64_t integer; /* when whole */
    bool    whole;
} pdl__value_t;

#define PDL__MAX_PARAMETERS 64

/* Named values; names not found here are looked for in the parent. */
typedef struct pdl__scope {
    const struct pdl__scope *parent; /* or NULL */
    int                      count;
    const char              *names[PDL__MAX_PARAMETERS]; /* borrowed */
    pdl__value_t             values[PDL__MAX_PARAMETERS];
} pdl__scope_t;

const pdl__value_t *pdl__scope_find(const pdl__scope_t *scope, const char *name, size_t length);

/* False, with what is wrong in `message`, when the text is not an expression over the scope. */
bool pdl__evaluate(const char *text, const pdl__scope_t *scope, pdl__value_t *value, char *message, size_t size);

#endif
