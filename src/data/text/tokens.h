/*
 * Long sequences of tokens, read in windows. Internal to the module.
 */
#ifndef PDL_DATA_TOKENS_H
#define PDL_DATA_TOKENS_H

#include "data/source/source.h"

typedef struct pdl__tokens {
    const uint8_t *data;
    int64_t        count;
    int            width;   /* bytes a token: 1; 2, little-endian; or 4, as the machine has them */
    const uint8_t *map;     /* of 256 entries, or NULL: what the stored bytes stand for, where width is 1 */
    int64_t        window;  /* tokens of a sample */
    int64_t        classes; /* tokens from here on are refused */
} pdl__tokens_t;

/* Keeps one split: the last part is for validation. */
void pdl__tokens_split(pdl__tokens_t *tokens, const pdl_source_options_t *options);
/* Sets the window and the info of the source; `tokens` has all else. */
pdl_status_t pdl__tokens_describe(pdl_source_t *source, pdl__tokens_t *tokens, const pdl_source_options_t *options,
                                  const char *name);
/* Window `index`, moved by sample->shift, as far as there are tokens. */
pdl_status_t pdl__tokens_window(const pdl_source_t *source, const pdl__tokens_t *tokens, int64_t index,
                                const pdl_sample_t *sample);

#endif
