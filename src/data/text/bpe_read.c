/*
 * Vocabularies of GPT-2's kind. vocab.json is one object, {"token": index, ...}; merges.txt has one pair of tokens a
 * line, the first to merge first. In both a byte is written as a character that can be printed: those that can stand
 * for themselves, the others for 256, 257, ... in their order. A tokenizer.json of Hugging Face has both, as "vocab" and "merges" of
 * "model".
 */
#include "data/text/bpe.h"

#include "data/source/source.h"

#include <math.h>
#include <paradl/base/json_read.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TOKEN 0xffffff /* indices beyond this are a mistake */

typedef struct entry {
    size_t  offset;
    size_t  length; /* 0: a free place */
    int32_t token;
} entry_t;

typedef struct pair {
    uint64_t key; /* left and right token */
    int32_t  rank, merged;
    bool     used;
} pair_t;

struct pdl__bpe {
    uint8_t *strings; /* the bytes of all tokens */
    size_t   used;
    entry_t *entries; /* hash tables with open addressing; the number of places is a power of two */
    size_t   entry_mask;
    pair_t  *pairs;
    size_t   pair_mask;
    int32_t  byte[256];
    int64_t  size;
    entry_t *text;          /* [size]: the bytes of every token; length 0: of none */
    uint8_t  alphabet[512]; /* character to byte */
    bool     known[512];
};

/* Where in which text a message points. */
typedef struct place {
    const char *name, *begin, *at;
} place_t;

static pdl_status_t refuse(const place_t *place, const char *what)
{
    int line = 1;

    for (const char *p = place->begin; p < place->at; p++) line += *p == '\n';
    return pdl_error(PDL_ERR_INPUT, "%s:%d: %s", place->name, line, what);
}

static void make_alphabet(pdl__bpe_t *bpe)
{
    int byte, next = 256;

    for (byte = 0; byte < 256; byte++) {
        const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
        const int  character = itself ? byte : next++;

        bpe->alphabet[character] = (uint8_t)byte;
        bpe->known[character] = true;
    }
}

static uint64_t hash_bytes(const uint8_t *bytes, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    size_t   i;

    for (i = 0; i < length; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash ^ hash >> 29;
}

static uint64_t hash_pair(uint64_t key)
{
    key *= 0x9e3779b97f4a7c15u;
    return key ^ key >> 32;
}

/* The place of a string, or the free one where it belongs. */
static entry_t *find_entry(const pdl__bpe_t *bpe, const uint8_t *bytes, size_t length)
{
    size_t at = hash_bytes(bytes, length) & bpe->entry_mask;

    while (bpe->entries[at].length > 0 && (bpe->entries[at].length != length ||
                                           memcmp(bpe->strings + bpe->entries[at].offset, bytes, length) != 0)) {
        at = (at + 1) & bpe->entry_mask;
    }
    return &bpe->entries[at];
}

static pair_t *find_pair(const pdl__bpe_t *bpe, uint64_t key)
{
    size_t at = hash_pair(key) & bpe->pair_mask;

    while (bpe->pairs[at].used && bpe->pairs[at].key != key) at = (at + 1) & bpe->pair_mask;
    return &bpe->pairs[at];
}

bool pdl__bpe_merge(const pdl__bpe_t *bpe, int32_t left, int32_t right, int32_t *rank, int32_t *merged)
{
    const pair_t *pair = find_pair(bpe, (uint64_t)(uint32_t)left << 32 | (uint32_t)right);

    if (!pair->used) return false;
    *rank = pair->rank;
    *merged = pair->merged;
    return true;
}

int32_t pdl__bpe_byte(const pdl__bpe_t *bpe, uint8_t byte)
{
    return bpe->byte[byte];
}

int64_t pdl__bpe_size(const pdl__bpe_t *bpe)
{
    return bpe->size;
}

const uint8_t *pdl__bpe_text(const pdl__bpe_t *bpe, int32_t token, size_t *length)
{
    *length = token >= 0 && token < bpe->size ? bpe->text[token].length : 0;
    return *length > 0 ? bpe->strings + bpe->text[token].offset : bpe->strings;
}

int32_t pdl__bpe_find(const pdl__bpe_t *bpe, const char *text)
{
    const entry_t *entry = find_entry(bpe, (const uint8_t *)text, strlen(text));

    return entry->length > 0 ? entry->token : -1;
}

/* Adds a token's bytes behind the strings, from `*length` on. False for one that has a character outside the alphabet, or none. The
   room of the strings is the size of the texts: a character takes at least one byte there. */
static bool add_bytes(pdl__bpe_t *bpe, const char *text, size_t size, size_t *length)
{
    const size_t before = *length;

    while (size > 0) {
        uint32_t     character;
        const size_t taken = pdl__utf8_decode((const uint8_t *)text, size, &character);

        if (character >= 512 || !bpe->known[character]) return false;
        bpe->strings[bpe->used + (*length)++] = bpe->alphabet[character];
        text += taken;
        size -= taken;
    }
    return *length > before;
}

/* Special tokens may have characters outside the alphabet, or none: no text becomes them, so they only count. */
static pdl_status_t add_token(pdl__bpe_t *bpe, const pdl_json_value_t *index, place_t *place)
{
    size_t   length = 0;
    int32_t  token;
    entry_t *entry;

    place->at = index->source;
    if (index->kind != PDL_JSON_NUMBER || index->number < 0 || index->number != floor(index->number))
        return refuse(place, "expected the index of a token");
    if (index->number > MAX_TOKEN) return refuse(place, "the index of a token is too large");
    token = (int32_t)index->number;
    if (token >= bpe->size) bpe->size = (int64_t)token + 1;
    if (!add_bytes(bpe, index->key, strlen(index->key), &length)) return PDL_OK;
    entry = find_entry(bpe, bpe->strings + bpe->used, length);
    if (entry->length > 0) return refuse(place, "the token is there twice");
    *entry = (entry_t){bpe->used, length, token};
    if (length == 1) bpe->byte[bpe->strings[bpe->used]] = token;
    bpe->used += length;
    return PDL_OK;
}

static pdl_status_t add_vocabulary(pdl__bpe_t *bpe, const pdl_json_value_t *vocabulary, place_t *place)
{
    pdl_status_t st = PDL_OK;

    place->at = vocabulary->source;
    if (vocabulary->kind != PDL_JSON_OBJECT) return refuse(place, "expected an object, {\"token\": index, ...}");
    if (vocabulary->count == 0) return refuse(place, "there are no tokens in it");
    for (const pdl_json_value_t *v = vocabulary->first; v != NULL && st == PDL_OK; v = v->next)
        st = add_token(bpe, v, place);
    return st;
}

static pdl_status_t add_merge(pdl__bpe_t *bpe, const char *left, size_t left_size, const char *right,
                              size_t right_size, int32_t rank, const place_t *place)
{
    const entry_t *first, *second, *merged;
    size_t         length = 0, whole;
    uint64_t       key;
    pair_t        *pair;

    if (!add_bytes(bpe, left, left_size, &length)) return refuse(place, "expected two tokens");
    whole = length;
    if (!add_bytes(bpe, right, right_size, &whole)) return refuse(place, "expected two tokens");
    first = find_entry(bpe, bpe->strings + bpe->used, length);
    second = find_entry(bpe, bpe->strings + bpe->used + length, whole - length);
    merged = find_entry(bpe, bpe->strings + bpe->used, whole);
    if (first->length == 0 || second->length == 0 || merged->length == 0)
        return refuse(place, "the vocabulary does not have both tokens and what they become");
    key = (uint64_t)(uint32_t)first->token << 32 | (uint32_t)second->token;
    pair = find_pair(bpe, key);
    if (!pair->used) *pair = (pair_t){.key = key, .rank = rank, .merged = merged->token, .used = true};
    return PDL_OK;
}

/* "left right" */
static pdl_status_t add_joined(pdl__bpe_t *bpe, const char *text, size_t size, int32_t rank, const place_t *place)
{
    const char *space = memchr(text, ' ', size);

    if (space == NULL) return refuse(place, "expected two tokens");
    return add_merge(bpe, text, (size_t)(space - text), space + 1, size - (size_t)(space + 1 - text), rank, place);
}

static pdl_status_t add_lines(pdl__bpe_t *bpe, const char *text, size_t size, place_t *place)
{
    static const char version[] = "#version";
    const char       *end = text + size;
    int32_t           rank = 0;
    pdl_status_t      st = PDL_OK;

    for (const char *line = text, *next; line < end && st == PDL_OK; line = next) {
        const char *newline = memchr(line, '\n', (size_t)(end - line)), *last = newline != NULL ? newline : end;
        const bool  title = line == text && (size_t)(last - line) >= sizeof(version) - 1 &&
                           memcmp(line, version, sizeof(version) - 1) == 0;

        next = newline != NULL ? newline + 1 : end;
        if (last > line && last[-1] == '\r') last--;
        place->at = line;
        if (!title && last > line) st = add_joined(bpe, line, (size_t)(last - line), rank++, place);
    }
    return st;
}

/* "left right" or ["left", "right"]: tokenizers write either. */
static pdl_status_t add_merges(pdl__bpe_t *bpe, const pdl_json_value_t *merges, place_t *place)
{
    int32_t      rank = 0;
    pdl_status_t st = PDL_OK;

    place->at = merges->source;
    if (merges->kind != PDL_JSON_ARRAY) return refuse(place, "expected a list of merges");
    for (const pdl_json_value_t *m = merges->first; m != NULL && st == PDL_OK; m = m->next) {
        const pdl_json_value_t *left = m->first, *right = left != NULL ? left->next : NULL;

        place->at = m->source;
        if (m->kind == PDL_JSON_STRING)
            st = add_joined(bpe, m->text, strlen(m->text), rank++, place);
        else if (m->kind == PDL_JSON_ARRAY && m->count == 2 && left->text != NULL && right->text != NULL)
            st = add_merge(bpe, left->text, strlen(left->text), right->text, strlen(right->text), rank++, place);
        else
            st = refuse(place, "expected two tokens");
    }
    return st;
}

static pdl_status_t list_texts(pdl__bpe_t *bpe, const char *name)
{
    bpe->text = calloc((size_t)bpe->size + 1, sizeof(*bpe->text));
    if (bpe->text == NULL) return pdl__out_of_memory(name);
    for (size_t i = 0; i <= bpe->entry_mask; i++)
        if (bpe->entries[i].length > 0) bpe->text[bpe->entries[i].token] = bpe->entries[i];
    return PDL_OK;
}

/* Places for `count` entries at most half full. */
static size_t mask_for(size_t count)
{
    size_t places = 16;

    while (places < count * 2) places *= 2;
    return places - 1;
}

static size_t count_of(const char *text, size_t size, char wanted)
{
    size_t count = 0, i;

    for (i = 0; i < size; i++) count += text[i] == wanted;
    return count;
}

/* Tables for so many tokens and merges, whose texts have so many bytes in all. */
static pdl_status_t create(size_t tokens, size_t merges, size_t bytes, const char *name, pdl__bpe_t **bpe)
{
    pdl__bpe_t *made = calloc(1, sizeof(*made));

    if (made == NULL) return pdl__out_of_memory(name);
    make_alphabet(made);
    memset(made->byte, 0xff, sizeof(made->byte));
    made->entry_mask = mask_for(tokens + 1);
    made->pair_mask = mask_for(merges + 1);
    made->strings = malloc(bytes + 1);
    made->entries = calloc(made->entry_mask + 1, sizeof(*made->entries));
    made->pairs = calloc(made->pair_mask + 1, sizeof(*made->pairs));
    *bpe = made;
    return made->strings == NULL || made->entries == NULL || made->pairs == NULL ? pdl__out_of_memory(name)
                                                                                 : PDL_OK;
}

static pdl_status_t finish(pdl__bpe_t *made, const char *name, pdl_status_t st, pdl__bpe_t **bpe)
{
    if (st == PDL_OK) st = list_texts(made, name);
    if (st == PDL_OK)
        *bpe = made;
    else
        pdl__bpe_free(made);
    return st;
}

pdl_status_t pdl__bpe_read_memory(const char *vocabulary, size_t vocabulary_size, const char *vocabulary_name,
                                  const char *merges, size_t merges_size, const char *merges_name, pdl__bpe_t **bpe)
{
    place_t           tokens = {vocabulary_name, vocabulary, vocabulary}, lines = {merges_name, merges, merges};
    pdl_arena_t      *arena = pdl_arena_create();
    pdl_json_value_t *read = NULL;
    pdl__bpe_t       *made = NULL;
    pdl_status_t st = arena != NULL ? pdl_json_read(arena, vocabulary, vocabulary_size, vocabulary_name, 1, &read)
                                    : pdl__out_of_memory(vocabulary_name);

    if (st == PDL_OK)
        st = create((size_t)read->count, count_of(merges, merges_size, '\n') + 1, vocabulary_size + merges_size,
                    vocabulary_name, &made);
    if (st == PDL_OK) st = add_vocabulary(made, read, &tokens);
    if (st == PDL_OK) st = add_lines(made, merges, merges_size, &lines);
    pdl_arena_destroy(arena);
    return finish(made, vocabulary_name, st, bpe);
}

/* A part of "model" of a tokenizer.json. */
static pdl_status_t find_part(const pdl_json_value_t *json, const char *part, const char *name,
                              const pdl_json_value_t **value)
{
    const pdl_json_value_t *model = pdl_json_get(json, "model");

    *value = pdl_json_get(model, part);
    if (*value != NULL) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT,
                     "%s: it has no \"%s\": only byte pairs can be read (model: {type: BPE, vocab, merges})", name,
                     model != NULL ? part : "model");
}

pdl_status_t pdl__bpe_read_json(const char *json, size_t size, const char *name, pdl__bpe_t **bpe)
{
    place_t                 place = {name, json, json};
    pdl_arena_t            *arena = pdl_arena_create();
    pdl_json_value_t       *read = NULL;
    const pdl_json_value_t *vocabulary = NULL, *merges = NULL;
    pdl__bpe_t             *made = NULL;
    pdl_status_t st = arena != NULL ? pdl_json_read(arena, json, size, name, 1, &read) : pdl__out_of_memory(name);

    if (st == PDL_OK) st = find_part(read, "vocab", name, &vocabulary);
    if (st == PDL_OK) st = find_part(read, "merges", name, &merges);
    if (st == PDL_OK) st = create((size_t)vocabulary->count, (size_t)merges->count, size, name, &made);
    if (st == PDL_OK) st = add_vocabulary(made, vocabulary, &place);
    if (st == PDL_OK) st = add_merges(made, merges, &place);
    pdl_arena_destroy(arena);
    return finish(made, name, st, bpe);
}

void pdl__bpe_free(pdl__bpe_t *bpe)
{
    if (bpe == NULL) return;
    free(bpe->strings);
    free(bpe->entries);
    free(bpe->pairs);
    free(bpe->text);
    free(bpe);
}

/* Whether a path is that of a tokenizer.json, or of a folder that has one and no vocab.json. */
static bool is_tokenizer(const char *path, bool folder, char file[PDL__PATH])
{
    const char *slash = strrchr(path, '/');

    if (!folder) {
        snprintf(file, PDL__PATH, "%s", path);
        return strcmp(slash != NULL ? slash + 1 : path, "tokenizer.json") == 0;
    }
    return !pdl__path_exists_in(path, "vocab.json") && pdl__path_exists_in(path, "tokenizer.json") &&
           pdl__path_join(path, "tokenizer.json", file, PDL__PATH) == PDL_OK;
}

static pdl_status_t load_tokenizer(const char *path, pdl__bpe_t **bpe)
{
    pdl__bytes_t json = {0};
    pdl_status_t st = pdl__bytes_open(path, &json);

    if (st == PDL_OK) st = pdl__bpe_read_json((const char *)json.data, json.size, path, bpe);
    pdl__bytes_close(&json);
    return st;
}

pdl_status_t pdl__bpe_load(const char *path, pdl__bpe_t **bpe)
{
    const char  *slash = strrchr(path, '/');
    const bool   folder = pdl__path_is_folder(path);
    char         parent[PDL__PATH], vocabulary[PDL__PATH], merges[PDL__PATH];
    pdl__bytes_t tokens = {0}, lines = {0};
    pdl_status_t st;

    if (!folder && !pdl__path_is_file(path)) {
        return pdl_error(
            PDL_ERR_INPUT,
            "%s: no vocabulary there: expected char, byte, or a vocab.json with a merges.txt beside it", path);
    }
    if (is_tokenizer(path, folder, parent)) return load_tokenizer(parent, bpe);
    if (strlen(path) >= sizeof(parent)) return pdl_error(PDL_ERR_INPUT, "the path of the vocabulary is too long");
    snprintf(parent, sizeof(parent), "%.*s",
             folder          ? (int)strlen(path)
             : slash != NULL ? (int)(slash - path)
                             : 1,
             folder || slash != NULL ? path : ".");
    st = pdl__path_join(parent, "merges.txt", merges, sizeof(merges));
    if (st == PDL_OK && folder) st = pdl__path_join(parent, "vocab.json", vocabulary, sizeof(vocabulary));
    if (st == PDL_OK && !folder) snprintf(vocabulary, sizeof(vocabulary), "%s", path);
    if (st == PDL_OK) st = pdl__bytes_open(vocabulary, &tokens);
    if (st == PDL_OK) st = pdl__bytes_open(merges, &lines);
    if (st == PDL_OK) {
        st = pdl__bpe_read_memory((const char *)tokens.data, tokens.size, vocabulary, (const char *)lines.data,
                                  lines.size, merges, bpe);
    }
    pdl__bytes_close(&tokens);
    pdl__bytes_close(&lines);
    return st;
}
