/*
 * Plain text: bytes, characters, or the tokens of a GPT-2 vocabulary. Characters are the distinct bytes of the text in
 * the order of their values; all of the text makes the vocabulary, and the last tenth is for validation.
 */
#include "data/text/text.h"
#include "data/text/bpe.h"
#include "data/text/tokens.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_LIMIT ((size_t)4 << 30)

typedef struct state {
    pdl__bytes_t      bytes;
    pdl__characters_t characters;
    int32_t          *encoded;
    pdl__tokens_t     tokens;
} state_t;

static const char *const extensions[] = {".txt", ".txt.gz", NULL};
static const char *const files[] = {"input.txt", "input.txt.gz", NULL};

static bool claims(const char *path, bool folder)
{
    const char *const *file;

    if (!folder) return pdl__has_extension(path, extensions);
    for (file = files; *file != NULL; file++) {
        if (pdl__path_exists_in(path, *file)) return true;
    }
    return false;
}

/* The file of a text, which may be in a folder. */
static pdl_status_t find_file(const char **path, char file[PDL__PATH])
{
    pdl_status_t st;

    if (!pdl__path_is_folder(*path)) return PDL_OK;
    st = pdl__path_join(*path, files[!pdl__path_exists_in(*path, files[0])], file, PDL__PATH);
    if (st == PDL_OK) *path = file;
    return st;
}

pdl_status_t pdl__text_load(const char *path, pdl__bytes_t *text)
{
    pdl__bytes_t raw = {0};
    uint8_t     *data;
    size_t       length;
    char         file[PDL__PATH];
    pdl_status_t st = find_file(&path, file);

    if (st == PDL_OK) st = pdl__bytes_open(path, &raw);
    if (st != PDL_OK) return st;
    if (!pdl__gzip_is(raw.data, raw.size)) {
        *text = raw;
        return PDL_OK;
    }
    st = pdl__gzip_expand(raw.data, raw.size, path, TEXT_LIMIT, &data, &length);
    pdl__bytes_close(&raw);
    if (st == PDL_OK) *text = (pdl__bytes_t){.data = data, .size = length, .owned = data};
    return st;
}

static void use_bytes(state_t *state)
{
    state->tokens.data = state->bytes.data;
    state->tokens.count = (int64_t)state->bytes.size;
    state->tokens.width = 1;
    state->tokens.classes = 256;
}

static void use_characters(state_t *state)
{
    use_bytes(state);
    pdl__characters_of(state->bytes.data, state->bytes.size, &state->characters);
    state->tokens.map = state->characters.token;
    state->tokens.classes = state->characters.count;
}

static pdl_status_t use_vocabulary(state_t *state, const char *vocabulary, const char *name)
{
    pdl__bpe_t  *bpe;
    pdl_status_t st = pdl__bpe_load(vocabulary, &bpe);

    if (st != PDL_OK) return st;
    st = pdl__bpe_encode(bpe, state->bytes.data, state->bytes.size, name, &state->encoded, &state->tokens.count);
    state->tokens.data = (const uint8_t *)state->encoded;
    state->tokens.width = 4;
    state->tokens.classes = pdl__bpe_size(bpe);
    pdl__bpe_free(bpe);
    pdl__bytes_close(&state->bytes);
    return st;
}

static pdl_status_t open_text(pdl_source_t *source, const char *path, const pdl_source_options_t *options)
{
    const char  *vocabulary = options->vocabulary;
    char         file[PDL__PATH];
    state_t     *state = calloc(1, sizeof(*state));
    pdl_status_t st;

    if (state == NULL) return pdl__out_of_memory(path);
    source->state = state;
    st = find_file(&path, file);
    if (st == PDL_OK) st = pdl__text_load(path, &state->bytes);
    if (st != PDL_OK) return st;
    if (vocabulary == NULL || strcmp(vocabulary, "char") == 0) {
        use_characters(state);
    } else if (strcmp(vocabulary, "byte") == 0) {
        use_bytes(state);
    } else {
        st = use_vocabulary(state, vocabulary, path);
        if (st != PDL_OK) return st;
    }
    pdl__tokens_split(&state->tokens, options);
    return pdl__tokens_describe(source, &state->tokens, options, path);
}

static pdl_status_t read_text(const pdl_source_t *source, int64_t index, const pdl_sample_t *sample)
{
    const state_t *state = source->state;

    return pdl__tokens_window(source, &state->tokens, index, sample);
}

static void close_text(void *opened)
{
    state_t *state = opened;

    pdl__bytes_close(&state->bytes);
    free(state->encoded);
    free(state);
}

const pdl__reader_t pdl__reader_text = {"text", claims, open_text, read_text, close_text};
