/*
 * Token files: 16-bit little-endian token indices and nothing else, as many training programs write them.
 */
#include "data/text/tokens.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_WINDOW 256

void pdl__tokens_split(pdl__tokens_t *tokens, const pdl_source_options_t *options)
{
    const double  share = options->valid_share > 0 ? options->valid_share : 0.1;
    const int64_t train = (int64_t)((double)tokens->count * (1 - share));

    if (options->split == PDL_SPLIT_VALID) {
        tokens->data += train * tokens->width;
        tokens->count -= train;
    } else {
        tokens->count = train;
    }
}

pdl_status_t pdl__tokens_describe(pdl_source_t *source, pdl__tokens_t *tokens, const pdl_source_options_t *options,
                                  const char *name)
{
    const pdl_shape_t *asked = &options->shape;
    pdl_source_info_t *info = &source->info;
    char               want[96];

    tokens->window = DEFAULT_WINDOW;
    if (pdl__shape_given(asked)) {
        if (!asked->sequence || asked->rank != 1 || asked->channels != 1 || asked->extent[0] < 1) {
            return pdl_error(PDL_ERR_INPUT,
                             "%s: holds tokens, the model reads %s; choose another model or data set", name,
                             pdl__shape_text(asked, want));
        }
        tokens->window = asked->extent[0];
    }
    if (options->classes > 0 && tokens->classes > options->classes) {
        return pdl_error(PDL_ERR_INPUT,
                         "%s: has a vocabulary of %" PRId64 ", the model one of %" PRId64
                         ": write a model file with extends: MODEL and parameters: {vocabulary: %" PRId64 "}",
                         name, tokens->classes, options->classes, tokens->classes);
    }
    /* The target of the last position is one token further. */
    if (tokens->count - 1 < tokens->window) {
        return pdl_error(PDL_ERR_INPUT,
                         "%s: %" PRId64 " tokens are too few for a window of %" PRId64 " and its targets", name,
                         tokens->count, tokens->window);
    }
    info->samples = (tokens->count - 1) / tokens->window;
    info->shape = (pdl_shape_t){.channels = 1, .extent = {tokens->window, 1, 1}, .rank = 1, .sequence = true};
    info->tokens = true;
    info->classes = tokens->classes;
    info->target = PDL_TARGET_TOKENS;
    info->target_count = tokens->window;
    info->bytes_per_sample = (double)tokens->window * tokens->width;
    return PDL_OK;
}

static int32_t token_at(const pdl__tokens_t *tokens, int64_t at)
{
    const uint8_t *place = tokens->data + at * tokens->width;
    int32_t        value;

    switch (tokens->width) {
    case 1: return tokens->map != NULL ? tokens->map[*place] : *place;
    case 2: return place[0] | place[1] << 8;
    default: memcpy(&value, place, sizeof(value)); return value; /* made here, not stored */
    }
}

pdl_status_t pdl__tokens_window(const pdl_source_t *source, const pdl__tokens_t *tokens, int64_t index,
                                const pdl_sample_t *sample)
{
    int64_t first = index * tokens->window + (sample->shift > 0 ? sample->shift : 0), i;

    /* The last windows of a shifted epoch would run over the end: they end with it instead. */
    if (first > tokens->count - 1 - tokens->window) first = tokens->count - 1 - tokens->window;
    for (i = 0; i <= tokens->window; i++) {
        const int32_t token = token_at(tokens, first + i);

        if (token >= tokens->classes) {
            return pdl_error(PDL_ERR_INPUT, "%s: token %" PRId64 " is %d, not below the vocabulary of %" PRId64,
                             source->info.name, first + i, token, tokens->classes);
        }
        if (i < tokens->window) sample->tokens[i] = token;
        if (i > 0) sample->labels[i - 1] = token;
    }
    return PDL_OK;
}

typedef struct state {
    pdl__bytes_t  bytes;
    pdl__tokens_t tokens;
} state_t;

static bool claims(const char *path, bool folder)
{
    static const char *const extensions[] = {".bin", NULL};

    return folder ? pdl__path_exists_in(path, "train.bin") : pdl__has_extension(path, extensions);
}

/* The folder of a train.bin that has its val.bin beside it; NULL for any other file. */
static const char *find_pair(const char *path, char *buffer)
{
    const char  *slash = strrchr(path, '/');
    const size_t length = slash != NULL ? (size_t)(slash - path) : 1;

    if (pdl__path_is_folder(path)) return path;
    if (strcmp(slash != NULL ? slash + 1 : path, "train.bin") != 0) return NULL;
    memcpy(buffer, slash != NULL ? path : ".", length);
    buffer[length] = '\0';
    return pdl__path_exists_in(buffer, "val.bin") ? buffer : NULL;
}

static pdl_status_t open_bytes(const char *path, pdl__bytes_t *bytes)
{
    pdl_status_t st = pdl__bytes_open(path, bytes);

    if (st != PDL_OK) return st;
    if (bytes->size % 2 == 0) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: %zu bytes are not whole tokens of two bytes each", path, bytes->size);
}

static int64_t largest_token(const pdl__bytes_t *bytes)
{
    uint16_t largest = 0;
    size_t   i;

    for (i = 0; i + 1 < bytes->size; i += 2) {
        const uint16_t token = (uint16_t)(bytes->data[i] | bytes->data[i + 1] << 8);

        if (token > largest) largest = token;
    }
    return largest;
}

/* The vocabulary where nobody says it: the largest token of both splits, so that they agree. */
static pdl_status_t find_vocabulary(state_t *state, const char *other)
{
    pdl__bytes_t bytes = {0};
    int64_t      largest = largest_token(&state->bytes), more;
    pdl_status_t st;

    if (other != NULL && pdl__path_is_file(other)) {
        st = open_bytes(other, &bytes);
        more = st == PDL_OK ? largest_token(&bytes) : 0;
        pdl__bytes_close(&bytes);
        if (st != PDL_OK) return st;
        if (more > largest) largest = more;
    }
    state->tokens.classes = largest + 1;
    return PDL_OK;
}

static pdl_status_t open_tokens(pdl_source_t *source, const char *path, const pdl_source_options_t *options)
{
    const bool   valid = options->split == PDL_SPLIT_VALID;
    char         parent[PDL__PATH], file[PDL__PATH], other[PDL__PATH] = "";
    const char  *folder;
    bool         pair = false;
    state_t     *state = calloc(1, sizeof(*state));
    pdl_status_t st = PDL_OK;

    if (state == NULL) return pdl__out_of_memory(path);
    source->state = state;
    folder = find_pair(path, parent);
    if (folder != NULL) {
        pair = pdl__path_exists_in(folder, "val.bin");
        st = pdl__path_join(folder, valid && pair ? "val.bin" : "train.bin", file, sizeof(file));
        if (st == PDL_OK) st = pdl__path_join(folder, valid ? "train.bin" : "val.bin", other, sizeof(other));
        path = file;
    }
    if (st == PDL_OK) st = open_bytes(path, &state->bytes);
    if (st != PDL_OK) return st;
    state->tokens.data = state->bytes.data;
    state->tokens.width = 2;
    state->tokens.count = (int64_t)(state->bytes.size / 2);
    state->tokens.classes = options->classes;
    if (options->classes <= 0) st = find_vocabulary(state, pair ? other : NULL);
    if (st != PDL_OK) return st;
    if (!pair) pdl__tokens_split(&state->tokens, options);
    return pdl__tokens_describe(source, &state->tokens, options, path);
}

static pdl_status_t read_tokens(const pdl_source_t *source, int64_t index, const pdl_sample_t *sample)
{
    const state_t *state = source->state;

    return pdl__tokens_window(source, &state->tokens, index, sample);
}

static void close_tokens(void *opened)
{
    state_t *state = opened;

    pdl__bytes_close(&state->bytes);
    free(state);
}

const pdl__reader_t pdl__reader_tokens = {"token files", claims, open_tokens, read_tokens, close_tokens};
