/*
 * Reads the JSON that a safetensors header is made of: brackets, strings with escapes, integers. The file is
 * untrusted: nothing is read beyond `end`, and strings are UTF-8 when they come out.
 */
#include "train/checkpoint/safetensors_json.h"

#include <string.h>

pdl_status_t pdl__scan_fail(const pdl__scanner_t *s, const char *what)
{
    return pdl_error(PDL_ERR_INPUT, "%s: header, byte %zu: %s", s->file, (size_t)(s->at - s->begin), what);
}

void pdl__scan_blanks(pdl__scanner_t *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t')) s->at++;
}

bool pdl__scan_take(pdl__scanner_t *s, char wanted)
{
    pdl__scan_blanks(s);
    if (s->at == s->end || *s->at != (unsigned char)wanted) return false;
    s->at++;
    return true;
}

pdl_status_t pdl__scan_expect(pdl__scanner_t *s, char wanted)
{
    char what[] = "expected 'x'";

    if (pdl__scan_take(s, wanted)) return PDL_OK;
    what[10] = wanted;
    return pdl__scan_fail(s, what);
}

pdl_status_t pdl__scan_next(pdl__scanner_t *s, char closer, bool *more)
{
    *more = pdl__scan_take(s, ',');
    return *more ? PDL_OK : pdl__scan_expect(s, closer);
}

static pdl_status_t read_hex(pdl__scanner_t *s, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        unsigned char c = s->at < s->end ? *s->at : 0;

        if (c >= '0' && c <= '9')
            c = (unsigned char)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            c = (unsigned char)((c | 0x20) - 'a' + 10);
        else
            return pdl__scan_fail(s, "expected four hexadecimal digits after \\u");
        *code = *code << 4 | c;
    }
    return PDL_OK;
}

static void put_utf8(pdl__scanner_t *s, uint32_t code)
{
    if (code < 0x80) {
        *s->text++ = (char)code;
        return;
    }
    if (code < 0x800) {
        *s->text++ = (char)(0xc0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *s->text++ = (char)(0xe0 | code >> 12);
        } else {
            *s->text++ = (char)(0xf0 | code >> 18);
            *s->text++ = (char)(0x80 | (code >> 12 & 0x3f));
        }
        *s->text++ = (char)(0x80 | (code >> 6 & 0x3f));
    }
    *s->text++ = (char)(0x80 | (code & 0x3f));
}

/* After "\u": one code, or two that are a surrogate pair. A zero would end the string early for its users. */
static pdl_status_t read_unicode(pdl__scanner_t *s)
{
    uint32_t     code, low;
    pdl_status_t status = read_hex(s, &code);

    if (status) return status;
    if (code >= 0xd800 && code < 0xdc00) {
        if (s->end - s->at < 2 || s->at[0] != '\\' || s->at[1] != 'u')
            return pdl__scan_fail(s, "half of a surrogate pair");
        s->at += 2;
        status = read_hex(s, &low);
        if (status) return status;
        if (low < 0xdc00 || low > 0xdfff) return pdl__scan_fail(s, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
    } else if (code >= 0xdc00 && code <= 0xdfff) {
        return pdl__scan_fail(s, "half of a surrogate pair");
    }
    if (code == 0) return pdl__scan_fail(s, "a zero character in a string");
    put_utf8(s, code);
    return PDL_OK;
}

static pdl_status_t read_escape(pdl__scanner_t *s)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char       *found;

    if (s->at == s->end) return pdl__scan_fail(s, "the string does not end");
    if (*s->at == 'u') {
        s->at++;
        return read_unicode(s);
    }
    found = *s->at != 0 ? strchr(from, *s->at) : NULL;
    if (found == NULL) return pdl__scan_fail(s, "unknown escape in a string");
    s->at++;
    *s->text++ = to[found - from];
    return PDL_OK;
}

/* Copies one well-formed UTF-8 sequence of two bytes or more: shortest form, no surrogates, up to U+10FFFF. */
static pdl_status_t copy_sequence(pdl__scanner_t *s)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char         first = *s->at;
    int                   length = first < 0xc2 || first > 0xf4 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    uint32_t              code;

    if (length == 0 || s->end - s->at < length) return pdl__scan_fail(s, "the text is not UTF-8");
    code = first & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if ((s->at[i] & 0xc0) != 0x80) return pdl__scan_fail(s, "the text is not UTF-8");
        code = code << 6 | (s->at[i] & 0x3fu);
    }
    if (code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return pdl__scan_fail(s, "the text is not UTF-8");
    memcpy(s->text, s->at, (size_t)length);
    s->text += length;
    s->at += length;
    return PDL_OK;
}

/* A decoded string takes no more bytes than it has in the header, and its zero byte has the room of the quotes. */
pdl_status_t pdl__scan_string(pdl__scanner_t *s, const char **string)
{
    pdl_status_t status = pdl__scan_expect(s, '"');

    *string = s->text;
    while (!status) {
        if (s->at == s->end) return pdl__scan_fail(s, "the string does not end");
        if (*s->at == '"') {
            s->at++;
            *s->text++ = '\0';
            return PDL_OK;
        }
        if (*s->at == '\\') {
            s->at++;
            status = read_escape(s);
        } else if (*s->at < 0x20) {
            return pdl__scan_fail(s, "a control character in a string");
        } else if (*s->at >= 0x80) {
            status = copy_sequence(s);
        } else {
            *s->text++ = (char)*s->at++;
        }
    }
    return status;
}

static pdl_status_t read_integer(pdl__scanner_t *s, int64_t *value)
{
    const unsigned char *first;

    pdl__scan_blanks(s);
    *value = 0;
    for (first = s->at; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++) {
        int digit = *s->at - '0';

        if (*value > (INT64_MAX - digit) / 10) return pdl__scan_fail(s, "the number is too large");
        *value = *value * 10 + digit;
    }
    if (s->at == first) return pdl__scan_fail(s, "expected an integer that is not negative");
    if (*first == '0' && s->at - first > 1) return pdl__scan_fail(s, "a number begins with 0");
    return PDL_OK;
}

pdl_status_t pdl__scan_integers(pdl__scanner_t *s, int limit, const char *too_many, int64_t *values, int *count)
{
    pdl_status_t status = pdl__scan_expect(s, '[');
    bool         more = true;

    *count = 0;
    if (status || pdl__scan_take(s, ']')) return status;
    while (!status && more) {
        if (*count == limit) return pdl__scan_fail(s, too_many);
        status = read_integer(s, &values[*count]);
        if (!status) status = pdl__scan_next(s, ']', &more);
        *count += 1;
    }
    return status;
}
