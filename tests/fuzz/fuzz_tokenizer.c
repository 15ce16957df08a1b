/*
 * Any tokenizer.json encodes any text into tokens that decode to the same text, or gives an error. The input is the JSON and the text, with a
 * zero byte between them.
 */
#include "data/text/bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = memchr(data, 0, size), *text = zero != NULL ? zero + 1 : data + size;
    size_t json = zero != NULL ? (size_t)(zero - data) : size, length = (size_t)(data + size - text), at = 0, part;
    pdl__bpe_t *bpe = NULL;
    int32_t    *tokens = NULL;
    int64_t     count = 0;

    if (pdl__bpe_read_json((const char *)data, json, "input", &bpe) != PDL_OK) {
        assert(bpe == NULL && strncmp(pdl_error_message(), "input", 5) == 0);
        return 0;
    }
    if (pdl__bpe_encode(bpe, text, length, "text", &tokens, &count) == PDL_OK) {
        for (int64_t i = 0; i < count; i++, at += part) {
            const uint8_t *bytes = pdl__bpe_text(bpe, tokens[i], &part);

            assert(part > 0 && part <= length - at && memcmp(bytes, text + at, part) == 0);
        }
        assert(at == length);
        free(tokens);
    }
    (void)pdl__bpe_find(bpe, "<|endoftext|>");
    pdl__bpe_free(bpe);
    return 0;
}
