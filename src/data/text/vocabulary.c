/*
 * Vocabularies of text.
 */
#include "data/text/bpe.h"
#include "data/text/text.h"

#include <paradl/data/vocabulary.h>

#include <stdlib.h>
#include <string.h>

struct pdl_vocabulary {
    pdl__bpe_t       *bpe; /* NULL: tokens are characters */
    pdl__characters_t characters;
};

void pdl__characters_all(pdl__characters_t *characters)
{
    *characters = (pdl__characters_t){.count = 256};
    for (int i = 0; i < 256; i++) {
        characters->token[i] = (uint8_t)i;
        characters->present[i] = true;
    }
}

void pdl__characters_of(const uint8_t *text, size_t length, pdl__characters_t *characters)
{
    *characters = (pdl__characters_t){.count = 0};
    for (size_t at = 0; at < length; at++) characters->present[text[at]] = true;
    for (int i = 0; i < 256; i++)
        if (characters->present[i]) characters->token[i] = (uint8_t)characters->count++;
}

/* The characters of a data set of text. */
static pdl_status_t open_characters(const char *text, pdl__characters_t *characters)
{
    const pdl__known_t *known = text != NULL ? pdl__known_find(text) : NULL;
    char                path[PDL__PATH];
    pdl__bytes_t        bytes = {0};
    pdl_status_t        status;

    if (text == NULL)
        return pdl_error(PDL_ERR_INPUT,
                         "the vocabulary char is that of a text: name it with --data D, or another --vocabulary");
    if (known != NULL) {
        status = pdl__known_path(known, NULL, path, sizeof(path));
        if (status != PDL_OK) return status;
        text = path;
    }
    status = pdl__text_load(text, &bytes);
    if (status != PDL_OK) return status;
    pdl__characters_of(bytes.data, bytes.size, characters);
    pdl__bytes_close(&bytes);
    return PDL_OK;
}

pdl_status_t pdl_vocabulary_open(const char *name, const char *text, pdl_vocabulary_t **vocabulary)
{
    pdl_vocabulary_t *made = calloc(1, sizeof(*made));
    pdl_status_t      status = PDL_OK;

    if (made == NULL) return pdl__out_of_memory(name);
    if (strcmp(name, "byte") == 0)
        pdl__characters_all(&made->characters);
    else if (strcmp(name, "char") == 0)
        status = open_characters(text, &made->characters);
    else
        status = pdl__bpe_load(name, &made->bpe);
    if (status != PDL_OK)
        free(made);
    else
        *vocabulary = made;
    return status;
}

void pdl_vocabulary_close(pdl_vocabulary_t *vocabulary)
{
    if (vocabulary == NULL) return;
    pdl__bpe_free(vocabulary->bpe);
    free(vocabulary);
}

int64_t pdl_vocabulary_size(const pdl_vocabulary_t *vocabulary)
{
    return vocabulary->bpe != NULL ? pdl__bpe_size(vocabulary->bpe) : vocabulary->characters.count;
}

int32_t pdl_vocabulary_end(const pdl_vocabulary_t *vocabulary)
{
    return vocabulary->bpe != NULL ? pdl__bpe_find(vocabulary->bpe, "<|endoftext|>") : -1;
}

pdl_status_t pdl_vocabulary_encode(const pdl_vocabulary_t *vocabulary, const char *text, size_t length,
                                   const char *name, int32_t **tokens, int64_t *count)
{
    const pdl__characters_t *characters = &vocabulary->characters;
    int32_t                 *made;

    if (vocabulary->bpe != NULL)
        return pdl__bpe_encode(vocabulary->bpe, (const uint8_t *)text, length, name, tokens, count);
    made = malloc(length * sizeof(*made) + 1);
    if (made == NULL) return pdl__out_of_memory(name);
    for (size_t i = 0; i < length; i++) {
        uint8_t byte = (uint8_t)text[i];

        if (!characters->present[byte]) {
            free(made);
            return pdl_error(PDL_ERR_INPUT, "%s: the character 0x%02x is not in the text that gives the vocabulary",
                             name, byte);
        }
        made[i] = characters->token[byte];
    }
    *tokens = made;
    *count = (int64_t)length;
    return PDL_OK;
}

/* What a token stands for; *length 0: nothing. */
static const uint8_t *text_of(const pdl_vocabulary_t *vocabulary, int32_t token, uint8_t *byte, size_t *length)
{
    *length = 0;
    if (vocabulary->bpe != NULL) return pdl__bpe_text(vocabulary->bpe, token, length);
    for (int i = 0; i < 256; i++) {
        if (!vocabulary->characters.present[i] || vocabulary->characters.token[i] != token) continue;
        *byte = (uint8_t)i;
        *length = 1;
        break;
    }
    return byte;
}

pdl_status_t pdl_vocabulary_decode(const pdl_vocabulary_t *vocabulary, const int32_t *tokens, int64_t count,
                                   char **text, size_t *length)
{
    size_t  size = 0, used = 0, part;
    uint8_t byte;
    char   *made;

    for (int64_t i = 0; i < count; i++) {
        text_of(vocabulary, tokens[i], &byte, &part);
        size += part;
    }
    made = malloc(size + 1);
    if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a text");
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *from = text_of(vocabulary, tokens[i], &byte, &part);

        if (part > 0) memcpy(made + used, from, part);
        used += part;
    }
    made[used] = '\0';
    *text = made;
    *length = used;
    return PDL_OK;
}
