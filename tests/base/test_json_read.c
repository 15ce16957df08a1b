/*
 * Reading JSON: values, escapes, texts that are no UTF-8, depth, and errors that name their line.
 */
#include <paradl/base/json_read.h>

#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const pdl_json_value_t *read_text(pdl_arena_t *arena, const char *text, pdl_status_t *status)
{
    pdl_json_value_t *value = NULL;
    size_t            length = strlen(text);
    char             *copy = malloc(length + 1); /* of exactly its length, for the sanitizer */

    memcpy(copy, text, length);
    *status = pdl_json_read(arena, copy, length, "in.json", 1, &value);
    free(copy);
    return value;
}

static void test_values(void)
{
    static const char text[] =
        " {\"a\": [1, -2.5e3, true, null, \"x\\u00e9\\n\\ud83d\\ude00\\u0000\"], \"b\": {\"c\": {}, \"d\": 7}} ";
    pdl_arena_t            *arena = pdl_arena_create();
    pdl_json_value_t       *value = NULL;
    const pdl_json_value_t *item;

    CHECK_OK(pdl_json_read(arena, text, strlen(text), "in.json", 1, &value));
    item = pdl_json_first(value, "a");
    CHECK(pdl_json_get(value, "a")->count == 5 && item->number == 1 && item->next->number == -2500);
    CHECK(item->next->next->kind == PDL_JSON_BOOL && item->next->next->next->kind == PDL_JSON_NULL);
    CHECK_STR(item->next->next->next->next->text, "x\xc3\xa9\n\xf0\x9f\x98\x80\xef\xbf\xbd");
    CHECK(pdl_json_number_of(value, "b.d") == 7 && isnan(pdl_json_number_of(value, "b.x")) &&
          isnan(pdl_json_number_of(value, "a.d")));
    CHECK(pdl_json_text_of(value, "b") == NULL && pdl_json_first(value, "b.c") == NULL &&
          !pdl_json_true(value, "a"));
    CHECK(strncmp(pdl_json_get(value, "b.c")->source, "{}", 2) == 0 &&
          pdl_json_get(value, "b")->source_length == 17);
    pdl_arena_destroy(arena);
}

static void test_refused(void)
{
    static const char *const wrong[] = {"",      "{",   "[1,",     "[1,]",      "{\"a\"}", "{\"a\":}",
                                        "{a:1}", "\"x", "\"\\q\"", "\"\\u12\"", "nul",     "+1",
                                        "1 2",   "[1}", "--1",     "\"\\"};
    char                     deep[256];
    pdl_status_t             status;
    pdl_arena_t             *arena = pdl_arena_create();

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        read_text(arena, wrong[i], &status);
        CHECK(status == PDL_ERR_INPUT);
    }
    memset(deep, '[', sizeof(deep));
    deep[sizeof(deep) - 1] = '\0';
    read_text(arena, deep, &status);
    CHECK(status == PDL_ERR_INPUT && strstr(pdl_error_message(), "too deeply") != NULL);
    read_text(arena, "[1,\n2,\nx]", &status);
    CHECK(strstr(pdl_error_message(), "in.json:3:") != NULL);
    read_text(arena, "\"\xff\xc3\"", &status);
    CHECK_OK(status);
    pdl_arena_destroy(arena);
}

int main(void)
{
    RUN(test_values);
    RUN(test_refused);
    return test_done();
}
