/*
 * tokenizer.json, in which Hugging Face keeps everything about a tokenizer: its byte pairs are "vocab" and "merges" of "model", which are
 * handed to the reader of vocab.json and merges.txt.
 */
#include "data/text/bpe.h"

#include "data/source/source.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH 64

typedef struct cursor {
    const char *name, *begin, *at, *end;
} cursor_t;

static pdl_status_t refuse(const cursor_t *cursor, const char *what)
{
    int line = 1;

    for (const char *p = cursor->begin; p < cursor->at && p < cursor->end; p++) line += *p == '\n';
    return pdl_error(PDL_ERR_INPUT, "%s:%d: %s", cursor->name, line, what);
}

static void skip_blanks(cursor_t *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\r' || *c->at == '\n')) c->at++;
}

static bool take(cursor_t *c, char wanted)
{
    skip_blanks(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

/* A string with its quotes; *text is what stands between them, escapes included. */
static pdl_status_t read_string(cursor_t *c, const char **text, size_t *length)
{
    if (!take(c, '"')) return refuse(c, "expected a string in double quotes");
    *text = c->at;
    while (c->at < c->end && *c->at != '"') c->at += *c->at == '\\' && c->at + 1 < c->end ? 2 : 1;
    *length = (size_t)(c->at - *text);
    return take(c, '"') ? PDL_OK : refuse(c, "the string does not end");
}

/* Any value, which nobody wants. */
static pdl_status_t skip_value(cursor_t *c)
{
    const char *text;
    size_t      length;
    int         depth = 0;

    do {
        skip_blanks(c);
        if (c->at == c->end) return refuse(c, "the file ends too early");
        if (*c->at == '"') {
            pdl_status_t status = read_string(c, &text, &length);
            if (status != PDL_OK) return status;
        } else if (*c->at == '{' || *c->at == '[') {
            if (++depth > DEPTH) return refuse(c, "nested too deeply");
            c->at++;
        } else if (*c->at == '}' || *c->at == ']') {
            if (--depth < 0) return refuse(c, "a bracket that nobody opened");
            c->at++;
        } else if (depth > 0 && (*c->at == ',' || *c->at == ':')) {
            c->at++;
        } else {
            const char *before = c->at;

            while (c->at < c->end && strchr(",:{}[]\" \t\r\n", *c->at) == NULL) c->at++;
            if (c->at == before) return refuse(c, "expected a value");
        }
    } while (depth > 0);
    return PDL_OK;
}

/* Goes to the value of a key of the object at the cursor. */
static pdl_status_t find_key(cursor_t *c, const char *key)
{
    const char  *text;
    size_t       length;
    pdl_status_t status;

    if (!take(c, '{')) return refuse(c, "expected an object");
    while (!take(c, '}')) {
        status = read_string(c, &text, &length);
        if (status != PDL_OK) return status;
        if (!take(c, ':')) return refuse(c, "expected a colon after a key");
        if (length == strlen(key) && memcmp(text, key, length) == 0) return PDL_OK;
        status = skip_value(c);
        if (status != PDL_OK) return status;
        (void)take(c, ',');
    }
    return pdl_error(PDL_ERR_INPUT,
                     "%s: it has no \"%s\": only byte pairs can be read (model: {type: BPE, vocab, merges})",
                     c->name, key);
}

/* The text of a string without its escapes: those that tokens have. Others are of no token and stay. */
static size_t unescape(const char *text, size_t length, char *to)
{
    size_t used = 0;

    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\\' && i + 1 < length && (text[i + 1] == '"' || text[i + 1] == '\\' || text[i + 1] == '/'))
            i++;
        to[used++] = text[i];
    }
    return used;
}

/* "a b" or ["a", "b"] as a line. */
static pdl_status_t add_merge(cursor_t *c, char *lines, size_t *used)
{
    bool         pair = take(c, '[');
    const char  *text;
    size_t       length;
    pdl_status_t status = read_string(c, &text, &length);

    if (status != PDL_OK) return status;
    *used += unescape(text, length, lines + *used);
    if (pair) {
        if (!take(c, ',')) return refuse(c, "expected two tokens");
        status = read_string(c, &text, &length);
        if (status != PDL_OK) return status;
        lines[(*used)++] = ' ';
        *used += unescape(text, length, lines + *used);
        if (!take(c, ']')) return refuse(c, "expected two tokens");
    }
    lines[(*used)++] = '\n';
    return PDL_OK;
}

static pdl_status_t read_merges(cursor_t *c, char *lines, size_t *used)
{
    pdl_status_t status = PDL_OK;

    *used = 0;
    if (!take(c, '[')) return refuse(c, "expected a list of merges");
    if (take(c, ']')) return PDL_OK;
    do status = add_merge(c, lines, used);
    while (status == PDL_OK && take(c, ','));
    if (status == PDL_OK && !take(c, ']')) status = refuse(c, "expected a comma or the end of the list");
    return status;
}

pdl_status_t pdl__bpe_read_json(const char *json, size_t size, const char *name, pdl__bpe_t **bpe)
{
    cursor_t     model = {name, json, json, json + size}, vocabulary, merges;
    char        *lines = malloc(size + 1); /* a merge is shorter as a line than as JSON */
    size_t       used = 0;
    const char  *begin;
    pdl_status_t status = lines != NULL ? find_key(&model, "model") : pdl__out_of_memory(name);

    vocabulary = merges = model;
    if (status == PDL_OK) status = find_key(&vocabulary, "vocab");
    skip_blanks(&vocabulary);
    begin = vocabulary.at;
    if (status == PDL_OK) status = skip_value(&vocabulary);
    if (status == PDL_OK) status = find_key(&merges, "merges");
    if (status == PDL_OK) status = read_merges(&merges, lines, &used);
    if (status == PDL_OK)
        status = pdl__bpe_read_memory(begin, (size_t)(vocabulary.at - begin), name, lines, used, name, bpe);
    free(lines);
    return status;
}
