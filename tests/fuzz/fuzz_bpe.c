/*
 * Any vocabulary and merges encode any text into tokens of the vocabulary, or give an error. The input is the
 * vocabulary, the merges and the text, with zero bytes between them.
 */
#include "data/text/bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *cut(const uint8_t *from, const uint8_t *end, const uint8_t **next)
{
    const uint8_t *zero = from < end ? memchr(from, 0, (size_t)(end - from)) : NULL;

    *next = zero != NULL ? zero + 1 : end;
    return zero != NULL ? zero : end;
}

static void encode(const pdl__bpe_t *bpe, const uint8_t *text, size_t length)
{
    int32_t *tokens = NULL;
    int64_t  count = 0, i;

    if (pdl__bpe_encode(bpe, text, length, "text", &tokens, &count) != PDL_OK) {
        assert(tokens == NULL && strncmp(pdl_error_message(), "text", 4) == 0);
        return;
    }
    assert(count <= (int64_t)length && (count > 0 || length == 0));
    for (i = 0; i < count; i++) assert(tokens[i] >= 0 && tokens[i] < pdl__bpe_size(bpe));
    free(tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = data + size, *merges, *text;
    const uint8_t *vocabulary_end = cut(data, end, &merges), *merges_end = cut(merges, end, &text);
    pdl__bpe_t    *bpe = NULL;

    if (pdl__bpe_read_memory((const char *)data, (size_t)(vocabulary_end - data), "input", (const char *)merges,
                             (size_t)(merges_end - merges), "input", &bpe) != PDL_OK) {
        assert(bpe == NULL && strncmp(pdl_error_message(), "input", 5) == 0);
        return 0;
    }
    encode(bpe, text, (size_t)(end - text));
    pdl__bpe_free(bpe);
    return 0;
}
