/*
 * Byte-pair encoding with a vocabulary of GPT-2's kind. Internal to the module.
 */
#ifndef PDL_DATA_BPE_H
#define PDL_DATA_BPE_H

#include <paradl/base/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pdl__bpe pdl__bpe_t;

/* `path` is a tokenizer.json, a vocab.json with a merges.txt beside it, or the folder of either. */
pdl_status_t pdl__bpe_load(const char *path, pdl__bpe_t **bpe);
pdl_status_t pdl__bpe_read_memory(const char *vocabulary, size_t vocabulary_size, const char *vocabulary_name,
                                  const char *merges, size_t merges_size, const char *merges_name,
                                  pdl__bpe_t **bpe);
/* A tokenizer.json. */
pdl_status_t pdl__bpe_read_json(const char *json, size_t size, const char *name, pdl__bpe_t **bpe);
void         pdl__bpe_free(pdl__bpe_t *bpe); /* NULL is allowed */

/* One more than the largest index. */
int64_t pdl__bpe_size(const pdl__bpe_t *bpe);
/* The bytes of a token; *length is 0 where no text becomes it. */
const uint8_t *pdl__bpe_text(const pdl__bpe_t *bpe, int32_t token, size_t *length);
/* The token of so many bytes, or -1. */
int32_t pdl__bpe_find(const pdl__bpe_t *bpe, const char *text);

/* The caller frees *tokens. `name` is that of the text, for messages. */
pdl_status_t pdl__bpe_encode(const pdl__bpe_t *bpe, const uint8_t *text, size_t length, const char *name,
                             int32_t **tokens, int64_t *count);

/* ---- between the files of the encoder ---- */

/* The token that two become, and how early: smaller ranks merge first. False when they do not merge. */
bool pdl__bpe_merge(const pdl__bpe_t *bpe, int32_t left, int32_t right, int32_t *rank, int32_t *merged);
/* The token of a single byte, or -1. */
int32_t pdl__bpe_byte(const pdl__bpe_t *bpe, uint8_t byte);

/* The bytes of the word with which the text begins, cut as GPT-2 cuts: a contraction; an optional space and letters,
   digits, or other signs; blanks. At least 1 for a text that is not empty. */
size_t pdl__bpe_word(const uint8_t *text, size_t length);

/* One character of UTF-8; a byte that begins none stands for itself. */
size_t pdl__utf8_decode(const uint8_t *text, size_t length, uint32_t *character);
bool   pdl__unicode_is_letter(uint32_t character);
bool   pdl__unicode_is_number(uint32_t character);
bool   pdl__unicode_is_space(uint32_t character);

#endif
