/*
 * A reader of JSON by descent. Values keep where they stand in the text, so that a part of a document can be copied as it
 * was written.
 */
#include <paradl/base/json_read.h>

#include "base/number.h"
#include "base/utf8.h"

#include <math.h>
#include <string.h>

#define MOST_DEPTH 64
#define NUMBER     64 /* longer numbers are refused */

typedef struct reader {
    pdl_arena_t *arena;
    const char  *file, *begin, *at, *end;
    int          line;
} reader_t;

static pdl_status_t refuse(const reader_t *r, const char *what)
{
    int line = r->line;

    for (const char *p = r->begin; p < r->at && p < r->end; p++) line += *p == '\n';
    return pdl_error(PDL_ERR_INPUT, "%s:%d: no JSON: %s", r->file, line, what);
}

static void skip_blanks(reader_t *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r' || *r->at == '\n')) r->at++;
}

static bool take(reader_t *r, char wanted)
{
    skip_blanks(r);
    if (r->at == r->end || *r->at != wanted) return false;
    r->at++;
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_hex(reader_t *r, unsigned *code)
{
    *code = 0;
    if (r->end - r->at < 4) return false;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(*r->at++);

        if (digit < 0) return false;
        *code = *code << 4 | (unsigned)digit;
    }
    return true;
}

static char *put_code(char *to, unsigned code)
{
    if (code == 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) code = 0xfffd;
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

/* \uD83D\uDE00 is one character. */
static pdl_status_t take_code(reader_t *r, char **to)
{
    unsigned code, low;

    if (!take_hex(r, &code)) return refuse(r, "expected four hexadecimal digits after \\u");
    if (code >= 0xd800 && code < 0xdc00 && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u') {
        const char *before = r->at;

        r->at += 2;
        if (!take_hex(r, &low)) return refuse(r, "expected four hexadecimal digits after \\u");
        if (low >= 0xdc00 && low < 0xe000)
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        else
            r->at = before;
    }
    *to = put_code(*to, code);
    return PDL_OK;
}

static pdl_status_t take_escape(reader_t *r, char **to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    const char       *found;

    if (r->at == r->end) return refuse(r, "a string does not end");
    if (*r->at == 'u') {
        r->at++;
        return take_code(r, to);
    }
    found = *r->at != '\0' ? strchr(from, *r->at) : NULL;
    if (found == NULL) return refuse(r, "an unknown escape in a string");
    r->at++;
    *(*to)++ = into[found - from];
    return PDL_OK;
}

/* After the opening quote. No character takes more than three times the bytes it has in the text. */
static pdl_status_t read_string(reader_t *r, const char **text)
{
    const char  *close = r->at;
    char        *to;
    pdl_status_t status = PDL_OK;

    while (close < r->end && *close != '"') close += *close == '\\' ? 2 : 1;
    if (close >= r->end) return refuse(r, "a string does not end");
    *text = to = pdl_arena_alloc(r->arena, 3 * (size_t)(close - r->at) + 1, 1);
    if (to == NULL) return PDL_ERR_NOMEM;
    while (!status && r->at < r->end && *r->at != '"') {
        int length = pdl__utf8_length((const unsigned char *)r->at); /* the quote ends it at the latest */

        if (*r->at == '\\') {
            r->at++;
            status = take_escape(r, &to);
        } else if (length == 0 || *r->at == '\0') {
            to = put_code(to, 0xfffd);
            r->at++;
        } else {
            memcpy(to, r->at, (size_t)length);
            to += length;
            r->at += length;
        }
    }
    if (status) return status;
    *to = '\0';
    return take(r, '"') ? PDL_OK : refuse(r, "a string does not end");
}

static pdl_status_t read_number(reader_t *r, double *number)
{
    char        text[NUMBER];
    size_t      length = 0;
    const char *end;

    while (r->at + length < r->end && length + 1 < sizeof(text) &&
           strchr("+-.0123456789eE", r->at[length]) != NULL && r->at[length] != '\0') {
        text[length] = r->at[length];
        length++;
    }
    text[length] = '\0';
    if (length == 0 || text[0] == '+' || !pdl__number_scan(text, true, &end, number) || *end != '\0')
        return refuse(r, "expected a value");
    r->at += length;
    return PDL_OK;
}

static bool take_word(reader_t *r, const char *word)
{
    size_t length = strlen(word);

    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0) return false;
    r->at += length;
    return true;
}

static pdl_status_t read_value(reader_t *r, int depth, pdl_json_value_t *value);

/* After the opening bracket. */
static pdl_status_t read_members(reader_t *r, int depth, pdl_json_value_t *value)
{
    bool                     object = value->kind == PDL_JSON_OBJECT;
    char                     closer = object ? '}' : ']';
    const pdl_json_value_t **next = &value->first;

    if (depth >= MOST_DEPTH) return refuse(r, "brackets are nested too deeply");
    if (take(r, closer)) return PDL_OK;
    do {
        pdl_json_value_t *member = pdl_arena_alloc(r->arena, 1, sizeof(*member));
        pdl_status_t      status = PDL_OK;

        if (member == NULL) return PDL_ERR_NOMEM;
        if (object && !take(r, '"')) return refuse(r, "expected a key in double quotes");
        if (object) status = read_string(r, &member->key);
        if (!status && object && !take(r, ':')) status = refuse(r, "expected a colon after a key");
        if (!status) status = read_value(r, depth + 1, member);
        if (status) return status;
        *next = member;
        next = &member->next;
        value->count++;
    } while (take(r, ','));
    return take(r, closer) ? PDL_OK : refuse(r, object ? "expected , or }" : "expected , or ]");
}

static pdl_status_t read_scalar(reader_t *r, pdl_json_value_t *value)
{
    if (take(r, '"')) {
        value->kind = PDL_JSON_STRING;
        return read_string(r, &value->text);
    }
    if (take_word(r, "null")) return PDL_OK;
    value->kind = PDL_JSON_BOOL;
    value->number = 1;
    if (take_word(r, "true")) return PDL_OK;
    value->number = 0;
    if (take_word(r, "false")) return PDL_OK;
    value->kind = PDL_JSON_NUMBER;
    return read_number(r, &value->number);
}

static pdl_status_t read_value(reader_t *r, int depth, pdl_json_value_t *value)
{
    pdl_status_t status;

    skip_blanks(r);
    value->source = r->at;
    if (r->at == r->end) return refuse(r, "the text ends too early");
    if (*r->at == '{' || *r->at == '[') {
        value->kind = *r->at++ == '{' ? PDL_JSON_OBJECT : PDL_JSON_ARRAY;
        status = read_members(r, depth, value);
    } else {
        status = read_scalar(r, value);
    }
    value->source_length = (size_t)(r->at - value->source);
    return status;
}

pdl_status_t pdl_json_read(pdl_arena_t *arena, const char *text, size_t length, const char *file, int line,
                           pdl_json_value_t **value)
{
    reader_t r = {.arena = arena, .file = file, .begin = text, .at = text, .end = text + length, .line = line};
    pdl_json_value_t *read = pdl_arena_alloc(arena, 1, sizeof(*read));
    pdl_status_t      status = read != NULL ? read_value(&r, 0, read) : PDL_ERR_NOMEM;

    if (status) return status;
    skip_blanks(&r);
    if (r.at != r.end) return refuse(&r, "something follows the value");
    *value = read;
    return PDL_OK;
}

const pdl_json_value_t *pdl_json_get(const pdl_json_value_t *object, const char *name)
{
    const char             *dot = strchr(name, '.');
    size_t                  length = dot != NULL ? (size_t)(dot - name) : strlen(name);
    const pdl_json_value_t *member;

    if (object == NULL || object->kind != PDL_JSON_OBJECT) return NULL;
    for (member = object->first; member != NULL; member = member->next)
        if (strncmp(member->key, name, length) == 0 && member->key[length] == '\0') break;
    return dot != NULL ? pdl_json_get(member, dot + 1) : member;
}

double pdl_json_number_of(const pdl_json_value_t *object, const char *name)
{
    const pdl_json_value_t *value = pdl_json_get(object, name);

    return value != NULL && value->kind == PDL_JSON_NUMBER ? value->number : NAN;
}

const char *pdl_json_text_of(const pdl_json_value_t *object, const char *name)
{
    const pdl_json_value_t *value = pdl_json_get(object, name);

    return value != NULL && value->kind == PDL_JSON_STRING ? value->text : NULL;
}

bool pdl_json_true(const pdl_json_value_t *object, const char *name)
{
    const pdl_json_value_t *value = pdl_json_get(object, name);

    return value != NULL && value->kind == PDL_JSON_BOOL && value->number != 0;
}

const pdl_json_value_t *pdl_json_first(const pdl_json_value_t *object, const char *name)
{
    const pdl_json_value_t *value = pdl_json_get(object, name);

    return value != NULL && (value->kind == PDL_JSON_ARRAY || value->kind == PDL_JSON_OBJECT) ? value->first : NULL;
}
