/*
 * Files of text, and the characters in them. Internal to the module.
 */
#ifndef PDL_DATA_TEXT_H
#define PDL_DATA_TEXT_H

#include "data/source/source.h"

/* All of a text; `path` is its file, or a folder that has one. */
pdl_status_t pdl__text_load(const char *path, pdl__bytes_t *text);

/* Bytes as tokens. */
typedef struct pdl__characters {
    uint8_t token[256];
    bool    present[256];
    int64_t count;
} pdl__characters_t;
void pdl__characters_all(pdl__characters_t *characters);
/* Those that occur, in the order of their values. */
void pdl__characters_of(const uint8_t *text, size_t length, pdl__characters_t *characters);

#endif
