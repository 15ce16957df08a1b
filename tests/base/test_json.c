/* JSON comes out well formed and exact. */
#include <paradl/base/json.h>

#include "test.h"

#include <float.h>
#include <stdlib.h>

static char  *written;
static size_t written_size;

static FILE *open_buffer(pdl_json_t *json)
{
    FILE *stream = open_memstream(&written, &written_size);

    CHECK(stream != NULL);
    pdl_json_begin(json, stream);
    return stream;
}

static void check_written(FILE *stream, const char *expected)
{
    fclose(stream);
    CHECK_STR(written, expected);
    free(written);
    written = NULL;
}

static void writes_nested_values(void)
{
    pdl_json_t json;
    FILE      *stream = open_buffer(&json);

    pdl_json_open(&json, NULL, '{');
    pdl_json_string(&json, "model", "resnet50");
    pdl_json_int(&json, "pe", 512);
    pdl_json_open(&json, "candidates", '[');
    pdl_json_open(&json, NULL, '{');
    pdl_json_number(&json, "total_s", 0.271);
    pdl_json_bool(&json, "feasible", true);
    pdl_json_close(&json);
    pdl_json_number(&json, NULL, 2);
    pdl_json_string(&json, NULL, NULL);
    pdl_json_close(&json);
    pdl_json_open(&json, "none", '[');
    pdl_json_close(&json);
    pdl_json_open(&json, "empty", '{');
    pdl_json_close(&json);
    pdl_json_bool(&json, "last", false);
    pdl_json_close(&json);
    check_written(stream, "{\n"
                          "  \"model\": \"resnet50\",\n"
                          "  \"pe\": 512,\n"
                          "  \"candidates\": [\n"
                          "    {\n"
                          "      \"total_s\": 0.271,\n"
                          "      \"feasible\": true\n"
                          "    },\n"
                          "    2,\n"
                          "    null\n"
                          "  ],\n"
                          "  \"none\": [],\n"
                          "  \"empty\": {},\n"
                          "  \"last\": false\n"
                          "}\n");
}

static void check_string(const char *value, const char *expected)
{
    pdl_json_t json;
    FILE      *stream = open_buffer(&json);

    pdl_json_string(&json, NULL, value);
    check_written(stream, expected);
}

static void escapes_texts(void)
{
    check_string("a\"b\\c/d", "\"a\\\"b\\\\c/d\"\n");
    check_string("a\nb\tc\rd\x01"
                 "e\x7f",
                 "\"a\\nb\\tc\\u000dd\\u0001e\\u007f\"\n");
    check_string("", "\"\"\n");
    check_string("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"\n");
}

static void replaces_what_is_not_utf8(void)
{
    check_string("a\xff"
                 "b",
                 "\"a\\ufffdb\"\n");
    check_string("\xc3", "\"\\ufffd\"\n");
    check_string("\xc3(", "\"\\ufffd(\"\n");
    check_string("\xe2\x82", "\"\\ufffd\\ufffd\"\n");
    check_string("\xc0\xaf", "\"\\ufffd\\ufffd\"\n");
    check_string("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"\n");
    check_string("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"\n");
}

static void check_number(double value, const char *expected)
{
    pdl_json_t json;
    FILE      *stream = open_buffer(&json);

    pdl_json_number(&json, NULL, value);
    check_written(stream, expected);
}

static void writes_the_shortest_number(void)
{
    check_number(0, "0\n");
    check_number(0.1, "0.1\n");
    check_number(1.0 / 3, "0.3333333333333333\n");
    check_number(0.1 + 0.2, "0.30000000000000004\n");
    check_number(15139340288.0, "15139340288\n");
    check_number(1e300, "1e+300\n");
    check_number(-2.5e-7, "-2.5e-07\n");
    check_number(DBL_MAX, "1.7976931348623157e+308\n");
    check_number(DBL_MIN, "2.2250738585072014e-308\n");
    check_number(4.9406564584124654e-324, "5e-324\n");
}

static void writes_null_for_what_is_not_finite(void)
{
    check_number(NAN, "null\n");
    check_number(INFINITY, "null\n");
    check_number(-INFINITY, "null\n");
}

/* Random bit patterns read back as they were. */
static void numbers_read_back(void)
{
    uint64_t bits = 88172645463325252u;
    int      i, wrong = 0;

    for (i = 0; i < 20000; i++) {
        pdl_json_t json;
        FILE      *stream;
        double     value;

        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value)) continue;
        stream = open_buffer(&json);
        pdl_json_number(&json, NULL, value);
        fclose(stream);
        wrong += strtod(written, NULL) != value;
        free(written);
    }
    CHECK_INT(wrong, 0);
}

int main(void)
{
    RUN(writes_nested_values);
    RUN(escapes_texts);
    RUN(replaces_what_is_not_utf8);
    RUN(writes_the_shortest_number);
    RUN(writes_null_for_what_is_not_finite);
    RUN(numbers_read_back);
    return test_done();
}
