/*
 * From text to tokens and back, as data sets of text are read: bytes, the characters of a text, or byte pairs of GPT-2's kind.
 *
 *     pdl_vocabulary_t *vocabulary;
 *     pdl_vocabulary_open("gpt2/vocab.json", NULL, &vocabulary);
 *     pdl_vocabulary_encode(vocabulary, text, length, "the prompt", &tokens, &count);     // free(tokens)
 *     pdl_vocabulary_decode(vocabulary, tokens, count, &bytes, &size);                    // free(bytes)
 */
#ifndef PARADL_VOCABULARY_H
#define PARADL_VOCABULARY_H

#include <paradl/base/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_vocabulary pdl_vocabulary_t;

/* `name`: "byte"; "char", the characters of `text`, a data set of text by its name or path; or the path of byte pairs: a tokenizer.json, a
   vocab.json with merges.txt beside it, or a folder of either. */
pdl_status_t pdl_vocabulary_open(const char *name, const char *text, pdl_vocabulary_t **vocabulary);
void         pdl_vocabulary_close(pdl_vocabulary_t *vocabulary); /* NULL is allowed */
/* One more than the largest token. */
int64_t pdl_vocabulary_size(const pdl_vocabulary_t *vocabulary);
/* The token <|endoftext|>, or -1. */
int32_t pdl_vocabulary_end(const pdl_vocabulary_t *vocabulary);

/* The caller frees what comes back. `name` is that of the text, for messages. */
pdl_status_t pdl_vocabulary_encode(const pdl_vocabulary_t *vocabulary, const char *text, size_t length,
                                   const char *name, int32_t **tokens, int64_t *count);
/* Ends with a zero that *length does not count; tokens that stand for nothing are left out. */
pdl_status_t pdl_vocabulary_decode(const pdl_vocabulary_t *vocabulary, const int32_t *tokens, int64_t count,
                                   char **text, size_t *length);

#ifdef __cplusplus
}
#endif
#endif
