/*
 * Vocabularies of GPT-2's kind. vocab.json is one object, {"token": index, ...}; merges.txt has one pair of tokens a
 * line, the first to merge first. In both a byte is written as a character that can be printed: those that can stand
 * for themselves, the others for 256, 257, ... in their order.
 */
#include "data/text/bpe.h"

#include "data/source/source.h"

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

typedef struct cursor {
    const char *name, *begin, *at, *end;
} cursor_t;

static pdl_status_t refuse(const cursor_t *cursor, const char *what)
{
    int         line = 1;
    const char *p;

    for (p = cursor->begin; p < cursor->at && p < cursor->end; p++) line += *p == '\n';
    return pdl_error(PDL_ERR_INPUT, "%s:%d: %s", cursor->name, line, what);
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

static void skip_blanks(cursor_t *cursor)
{
    while (cursor->at < cursor->end && strchr(" \t\r\n", *cursor->at) != NULL && *cursor->at != '\0') cursor->at++;
}

static bool take(cursor_t *cursor, char wanted)
{
    skip_blanks(cursor);
    if (cursor->at == cursor->end || *cursor->at != wanted) return false;
    cursor->at++;
    return true;
}

static bool read_hex(cursor_t *cursor, uint32_t *value)
{
    int i;

    *value = 0;
    if (cursor->end - cursor->at < 4) return false;
    for (i = 0; i < 4; i++) {
        const char  c = *cursor->at++;
        const char *digits = "0123456789abcdef",
                   *found = c == '\0' ? NULL : strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c);

        if (found == NULL) return false;
        *value = *value << 4 | (uint32_t)(found - digits);
    }
    return true;
}

/* What follows a backslash. */
static pdl_status_t read_escape(cursor_t *cursor, uint32_t *character)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char       *found;
    uint32_t          low;
    char              c;

    if (cursor->at == cursor->end) return refuse(cursor, "the string does not end");
    c = *cursor->at++;
    found = c == '\0' ? NULL : strchr(from, c);
    if (found != NULL) {
        *character = (uint8_t)to[found - from];
        return PDL_OK;
    }
    if (c != 'u' || !read_hex(cursor, character)) return refuse(cursor, "an escape that JSON does not have");
    if (*character < 0xd800 || *character > 0xdbff) return PDL_OK;
    if (cursor->end - cursor->at < 2 || cursor->at[0] != '\\' || cursor->at[1] != 'u') {
        return refuse(cursor, "half a surrogate pair");
    }
    cursor->at += 2;
    if (!read_hex(cursor, &low) || low < 0xdc00 || low > 0xdfff) return refuse(cursor, "half a surrogate pair");
    *character = 0x10000 + ((*character - 0xd800) << 10) + (low - 0xdc00);
    return PDL_OK;
}

/* Adds one character's byte behind the strings; *plain turns false for a character outside the alphabet. */
static void add_character(pdl__bpe_t *bpe, uint32_t character, size_t *length, bool *plain)
{
    if (character >= 512 || !bpe->known[character]) {
        *plain = false;
        return;
    }
    bpe->strings[bpe->used + (*length)++] = bpe->alphabet[character];
}

/* Reads a string to behind the bytes used so far. Every character takes at least one byte of the file, so the room of
   the size of the file is enough. */
static pdl_status_t read_string(pdl__bpe_t *bpe, cursor_t *cursor, size_t *length, bool *plain)
{
    *length = 0;
    *plain = true;
    if (!take(cursor, '"')) return refuse(cursor, "expected a token in double quotes");
    while (cursor->at < cursor->end && *cursor->at != '"') {
        uint32_t     character;
        pdl_status_t st;

        if (*cursor->at == '\\') {
            cursor->at++;
            st = read_escape(cursor, &character);
            if (st != PDL_OK) return st;
        } else {
            cursor->at +=
                pdl__utf8_decode((const uint8_t *)cursor->at, (size_t)(cursor->end - cursor->at), &character);
        }
        add_character(bpe, character, length, plain);
    }
    return take(cursor, '"') ? PDL_OK : refuse(cursor, "the string does not end");
}

static pdl_status_t read_index(cursor_t *cursor, int32_t *index)
{
    int32_t value = 0;
    bool    digits = false;

    skip_blanks(cursor);
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
        value = value * 10 + (*cursor->at++ - '0');
        digits = true;
        if (value > MAX_TOKEN) return refuse(cursor, "the index of a token is too large");
    }
    if (!digits) return refuse(cursor, "expected the index of a token");
    *index = value;
    return PDL_OK;
}

/* Special tokens may have characters outside the alphabet, or none: no text becomes them, so they only count. */
static pdl_status_t read_token(pdl__bpe_t *bpe, cursor_t *cursor)
{
    size_t       length;
    bool         plain;
    int32_t      token = 0;
    entry_t     *entry;
    pdl_status_t st = read_string(bpe, cursor, &length, &plain);

    if (st != PDL_OK) return st;
    if (!take(cursor, ':')) return refuse(cursor, "expected a colon after the token");
    st = read_index(cursor, &token);
    if (st != PDL_OK) return st;
    if (token >= bpe->size) bpe->size = (int64_t)token + 1;
    if (!plain || length == 0) return PDL_OK;
    entry = find_entry(bpe, bpe->strings + bpe->used, length);
    if (entry->length > 0) return refuse(cursor, "the token is there twice");
    *entry = (entry_t){bpe->used, length, token};
    if (length == 1) bpe->byte[bpe->strings[bpe->used]] = token;
    bpe->used += length;
    return PDL_OK;
}

static pdl_status_t read_vocabulary(pdl__bpe_t *bpe, cursor_t *cursor)
{
    if (!take(cursor, '{')) return refuse(cursor, "expected an object, {\"token\": index, ...}");
    if (take(cursor, '}')) return refuse(cursor, "there are no tokens in it");
    do {
        pdl_status_t st = read_token(bpe, cursor);

        if (st != PDL_OK) return st;
    } while (take(cursor, ','));
    if (!take(cursor, '}')) return refuse(cursor, "expected a comma or the end of the object");
    skip_blanks(cursor);
    return cursor->at == cursor->end ? PDL_OK : refuse(cursor, "something follows the object");
}

/* The bytes of a token of a line, to behind those used so far, from `length` on. */
static bool read_part(pdl__bpe_t *bpe, const char *begin, const char *end, size_t *length)
{
    const size_t before = *length;
    bool         plain = true;

    while (begin < end && plain) {
        uint32_t character;

        begin += pdl__utf8_decode((const uint8_t *)begin, (size_t)(end - begin), &character);
        add_character(bpe, character, length, &plain);
    }
    return plain && *length > before;
}

static pdl_status_t read_merge(pdl__bpe_t *bpe, cursor_t *cursor, const char *end, int32_t rank)
{
    const char    *space = memchr(cursor->at, ' ', (size_t)(end - cursor->at));
    const entry_t *left, *right, *merged;
    size_t         first = 0, length;
    pair_t        *pair;

    if (space == NULL || !read_part(bpe, cursor->at, space, &first)) return refuse(cursor, "expected two tokens");
    length = first;
    if (!read_part(bpe, space + 1, end, &length)) return refuse(cursor, "expected two tokens");
    left = find_entry(bpe, bpe->strings + bpe->used, first);
    right = find_entry(bpe, bpe->strings + bpe->used + first, length - first);
    merged = find_entry(bpe, bpe->strings + bpe->used, length);
    if (left->length == 0 || right->length == 0 || merged->length == 0) {
        return refuse(cursor, "the vocabulary does not have both tokens and what they become");
    }
    pair = find_pair(bpe, (uint64_t)(uint32_t)left->token << 32 | (uint32_t)right->token);
    if (!pair->used) {
        *pair = (pair_t){.key = (uint64_t)(uint32_t)left->token << 32 | (uint32_t)right->token,
                         .rank = rank,
                         .merged = merged->token,
                         .used = true};
    }
    return PDL_OK;
}

static pdl_status_t read_merges(pdl__bpe_t *bpe, cursor_t *cursor)
{
    static const char version[] = "#version";
    int32_t           rank = 0;

    while (cursor->at < cursor->end) {
        const char *newline = memchr(cursor->at, '\n', (size_t)(cursor->end - cursor->at));
        const char *end = newline != NULL ? newline : cursor->end, *last = end;
        const bool  title = cursor->at == cursor->begin && (size_t)(end - cursor->at) >= sizeof(version) - 1 &&
                           memcmp(cursor->at, version, sizeof(version) - 1) == 0;
        pdl_status_t st;

        if (last > cursor->at && last[-1] == '\r') last--;
        if (!title && last > cursor->at) {
            st = read_merge(bpe, cursor, last, rank++);
            if (st != PDL_OK) return st;
        }
        cursor->at = newline != NULL ? newline + 1 : cursor->end;
    }
    return PDL_OK;
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

pdl_status_t pdl__bpe_read_memory(const char *vocabulary, size_t vocabulary_size, const char *vocabulary_name,
                                  const char *merges, size_t merges_size, const char *merges_name, pdl__bpe_t **bpe)
{
    cursor_t     tokens = {vocabulary_name, vocabulary, vocabulary, vocabulary + vocabulary_size};
    cursor_t     lines = {merges_name, merges, merges, merges + merges_size};
    pdl__bpe_t  *made = calloc(1, sizeof(*made));
    pdl_status_t st;

    if (made == NULL) return pdl__out_of_memory(vocabulary_name);
    make_alphabet(made);
    memset(made->byte, 0xff, sizeof(made->byte));
    /* An entry has a colon and a merge a line, so these bound their numbers. */
    made->entry_mask = mask_for(count_of(vocabulary, vocabulary_size, ':') + 1);
    made->pair_mask = mask_for(count_of(merges, merges_size, '\n') + 1);
    made->strings = malloc(vocabulary_size + merges_size + 1);
    made->entries = calloc(made->entry_mask + 1, sizeof(*made->entries));
    made->pairs = calloc(made->pair_mask + 1, sizeof(*made->pairs));
    st = made->strings == NULL || made->entries == NULL || made->pairs == NULL ? pdl__out_of_memory(vocabulary_name)
                                                                               : read_vocabulary(made, &tokens);
    if (st == PDL_OK) st = read_merges(made, &lines);
    if (st == PDL_OK) st = list_texts(made, vocabulary_name);
    if (st != PDL_OK) {
        pdl__bpe_free(made);
        return st;
    }
    *bpe = made;
    return PDL_OK;
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
