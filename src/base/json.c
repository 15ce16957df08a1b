/*
 * JSON is written as it comes: only the brackets that are still open are remembered.
 */
#include <paradl/base/json.h>

#include "base/number.h"
#include "base/utf8.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void pdl_json_begin(pdl_json_t *json, FILE *stream)
{
    memset(json, 0, sizeof(*json));
    json->stream = stream;
}

void pdl_json_begin_line(pdl_json_t *json, FILE *stream)
{
    pdl_json_begin(json, stream);
    json->one_line = true;
}

int pdl__utf8_length(const unsigned char *text)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t              code;
    int                   length, i;

    if (text[0] < 0x80) return 1;
    if (text[0] < 0xc2 || text[0] > 0xf4) return 0;
    length = text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    code = text[0] & (0x7fu >> length);
    for (i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (text[i] & 0x3fu);
    }
    if (code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return 0;
    return length;
}

/* Bytes that are not UTF-8 (a file name, say) become U+FFFD: a reader must never refuse the whole document. */
static void write_text(FILE *stream, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    putc('"', stream);
    while (*at != '\0') {
        int length = pdl__utf8_length(at);

        if (length == 0) {
            fputs("\\ufffd", stream);
            length = 1;
        } else if (*at == '"' || *at == '\\') {
            fprintf(stream, "\\%c", *at);
        } else if (*at == '\n') {
            fputs("\\n", stream);
        } else if (*at == '\t') {
            fputs("\\t", stream);
        } else if (*at < 0x20 || *at == 0x7f) {
            fprintf(stream, "\\u%04x", *at);
        } else {
            fwrite(at, 1, (size_t)length, stream);
        }
        at += length;
    }
    putc('"', stream);
}

static void new_line(const pdl_json_t *json)
{
    if (!json->one_line) fprintf(json->stream, "\n%*s", 2 * json->depth, "");
}

/* Everything that comes before a value: comma, line, key. */
static void start_value(pdl_json_t *json, const char *key)
{
    if (json->depth == 0) return;
    assert((key != NULL) == (json->closer[json->depth - 1] == '}'));
    if (!json->empty[json->depth - 1]) fputs(json->one_line ? ", " : ",", json->stream);
    json->empty[json->depth - 1] = false;
    new_line(json);
    if (key == NULL) return;
    write_text(json->stream, key);
    fputs(": ", json->stream);
}

static void end_value(const pdl_json_t *json)
{
    if (json->depth == 0) putc('\n', json->stream);
}

void pdl_json_open(pdl_json_t *json, const char *key, char bracket)
{
    assert(bracket == '{' || bracket == '[');
    assert(json->depth < PDL_JSON_DEPTH);
    start_value(json, key);
    putc(bracket, json->stream);
    json->closer[json->depth] = bracket == '{' ? '}' : ']';
    json->empty[json->depth] = true;
    json->depth++;
}

void pdl_json_row(pdl_json_t *json)
{
    assert(json->depth > 0 && json->closer[json->depth - 1] == ']');
    fputs(json->empty[json->depth - 1] ? "\n" : ",\n", json->stream);
    json->empty[json->depth - 1] = true; /* its comma is written */
}

void pdl_json_close(pdl_json_t *json)
{
    assert(json->depth > 0);
    json->depth--;
    if (!json->empty[json->depth]) new_line(json);
    putc(json->closer[json->depth], json->stream);
    end_value(json);
}

void pdl_json_string(pdl_json_t *json, const char *key, const char *value)
{
    start_value(json, key);
    if (value == NULL) {
        fputs("null", json->stream);
    } else {
        write_text(json->stream, value);
    }
    end_value(json);
}

void pdl_json_number(pdl_json_t *json, const char *key, double value)
{
    char buffer[40] = "null";
    /* %g drops trailing zeros, so 15 digits are the shortest form whenever 15 or fewer are enough;
       subnormal numbers hold fewer than that. */
    int digits = fabs(value) < DBL_MIN ? 1 : 15;

    start_value(json, key);
    while (isfinite(value)) {
        const char *end;
        double      back;

        pdl__number_print(buffer, sizeof(buffer), "%.*g", digits, value);
        if (digits == 17 || (pdl__number_scan(buffer, true, &end, &back) && back == value)) break;
        digits++;
    }
    fputs(buffer, json->stream);
    end_value(json);
}

void pdl_json_int(pdl_json_t *json, const char *key, int64_t value)
{
    start_value(json, key);
    fprintf(json->stream, "%" PRId64, value);
    end_value(json);
}

/* Sizes that were modelled are not whole, but nobody has a part of a byte. */
void pdl_json_bytes(pdl_json_t *json, const char *key, double value)
{
    if (fabs(value) < 9e18)
        pdl_json_int(json, key, (int64_t)llround(value));
    else
        pdl_json_number(json, key, value);
}

void pdl_json_bool(pdl_json_t *json, const char *key, bool value)
{
    start_value(json, key);
    fputs(value ? "true" : "false", json->stream);
    end_value(json);
}

void pdl_json_raw(pdl_json_t *json, const char *key, const char *text)
{
    start_value(json, key);
    fputs(text, json->stream);
    end_value(json);
}
