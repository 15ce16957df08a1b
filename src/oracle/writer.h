/*
 * Explanations, sentence by sentence into a text of fixed size; what does not fit is left out.
 */
#ifndef PDL_ORACLE_WRITER_H
#define PDL_ORACLE_WRITER_H

#include <paradl/base/status.h>
#include <stddef.h>

typedef struct pdl__writer {
    char  *text;
    size_t size, used;
} pdl__writer_t;

void pdl__say(pdl__writer_t *writer, const char *format, ...) PDL_PRINTF(2, 3);

#endif
