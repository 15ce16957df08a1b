/*
 * Options that were collected, in the formats of the frameworks.
 */
#include "report/export/export.h"

#include <paradl/base/json.h>

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static pdl__export_option_t *add(pdl__exported_t *x, const char *key, pdl__option_is_t is)
{
    pdl__export_option_t *option = &x->option[x->options < PDL__MOST_OPTIONS - 1 ? x->options++ : x->options];

    snprintf(option->key, sizeof(option->key), "%s", key);
    option->is = is;
    option->value[0] = '\0';
    return option;
}

void pdl__export_number(pdl__exported_t *x, const char *key, double value)
{
    pdl__export_option_t *option = add(x, key, PDL__IS_NUMBER);
    bool                  whole = fabs(value) < 1e15 && value == floor(value);

    if (whole)
        snprintf(option->value, sizeof(option->value), "%" PRId64, (int64_t)value);
    else
        snprintf(option->value, sizeof(option->value), "%.6g", value);
}

void pdl__export_text(pdl__exported_t *x, const char *key, const char *format, ...)
{
    pdl__export_option_t *option = add(x, key, PDL__IS_TEXT);
    va_list               arguments;

    va_start(arguments, format);
    vsnprintf(option->value, sizeof(option->value), format, arguments);
    va_end(arguments);
}

void pdl__export_bool(pdl__exported_t *x, const char *key, bool value)
{
    snprintf(add(x, key, PDL__IS_BOOL)->value, 6, "%s", value ? "true" : "false");
}

void pdl__export_flag(pdl__exported_t *x, const char *key, bool wanted)
{
    if (wanted) add(x, key, PDL__IS_FLAG);
}

void pdl__export_note(pdl__exported_t *x, const char *format, ...)
{
    va_list arguments;

    if (x->notes == PDL__MOST_NOTES) return;
    va_start(arguments, format);
    vsnprintf(x->note[x->notes++], sizeof(x->note[0]), format, arguments);
    va_end(arguments);
}

void pdl__write_shell(const pdl__exported_t *x, FILE *stream)
{
    fputs("ARGS=(\n", stream);
    for (int i = 0; i < x->options; i++) {
        const pdl__export_option_t *o = &x->option[i];
        const char                 *quote = o->is == PDL__IS_TEXT ? "'" : "";

        fprintf(stream, "    --%s%s%s%s%s\n", o->key, o->is == PDL__IS_FLAG ? "" : " ", quote, o->value, quote);
    }
    fputs(")\n", stream);
}

/* Length of what the keys of two options have in common up to a dot. */
static size_t common(const char *a, const char *b)
{
    size_t length = 0;

    for (size_t i = 0; a[i] != '\0' && a[i] == b[i]; i++)
        if (a[i] == '.') length = i + 1;
    return length;
}

static void write_value(pdl_json_t *json, const char *key, const pdl__export_option_t *o)
{
    if (o->is == PDL__IS_TEXT)
        pdl_json_string(json, key, o->value);
    else if (o->is == PDL__IS_BOOL)
        pdl_json_bool(json, key, o->value[0] == 't');
    else
        pdl_json_number(json, key, strtod(o->value, NULL));
}

/* Options whose keys begin alike stand together, so that an object is opened once. */
void pdl__write_json(const pdl__exported_t *x, FILE *stream)
{
    pdl_json_t  json;
    const char *before = "";

    pdl_json_begin(&json, stream);
    pdl_json_open(&json, NULL, '{');
    for (int i = 0; i < x->options; i++) {
        const char *key = x->option[i].key, *at = key + common(before, key);
        char        name[72];

        for (const char *dot = before + (at - key); (dot = strchr(dot, '.')) != NULL; dot++) pdl_json_close(&json);
        for (const char *dot; (dot = strchr(at, '.')) != NULL; at = dot + 1) {
            snprintf(name, sizeof(name), "%.*s", (int)(dot - at), at);
            pdl_json_open(&json, name, '{');
        }
        write_value(&json, at, &x->option[i]);
        before = key;
    }
    for (const char *dot = before; (dot = strchr(dot, '.')) != NULL; dot++) pdl_json_close(&json);
    pdl_json_close(&json);
}

static void write_assignment(const pdl__export_option_t *o, const char *key, const char *between, FILE *stream)
{
    const char *quote = o->is == PDL__IS_TEXT && o->value[0] != '[' ? "\"" : "";

    fprintf(stream, "%s%s%s%s%s", key, between, quote, o->value, quote);
}

void pdl__write_toml(const pdl__exported_t *x, FILE *stream)
{
    const char *before = "";

    for (int i = 0; i < x->options; i++) {
        const char *key = x->option[i].key, *dot = strrchr(key, '.');
        size_t      section = dot != NULL ? (size_t)(dot - key) : 0;

        if (strncmp(key, before, section + 1) != 0) fprintf(stream, "\n[%.*s]\n", (int)section, key);
        write_assignment(&x->option[i], key + section + 1, " = ", stream);
        fputc('\n', stream);
        before = key;
    }
}

void pdl__write_yaml(const pdl__exported_t *x, FILE *stream)
{
    const char *before = "";

    for (int i = 0; i < x->options; i++) {
        const char *key = x->option[i].key, *dot = strchr(key, '.');

        if (dot != NULL && common(before, key) == 0) fprintf(stream, "%.*s:\n", (int)(dot - key), key);
        if (dot != NULL) fputs("  ", stream);
        write_assignment(&x->option[i], dot != NULL ? dot + 1 : key, ": ", stream);
        fputc('\n', stream);
        before = key;
    }
}

void pdl__write_python(const pdl__exported_t *x, const char *group, FILE *stream)
{
    size_t length = strlen(group);

    for (int i = 0; i < x->options; i++) {
        const pdl__export_option_t *o = &x->option[i];

        if (strncmp(o->key, group, length) != 0 || o->key[length] != '.') continue;
        if (o->is == PDL__IS_BOOL)
            fprintf(stream, "    %s=%s,\n", o->key + length + 1, o->value[0] == 't' ? "True" : "False");
        else {
            fputs("    ", stream);
            write_assignment(o, o->key + length + 1, "=", stream);
            fputs(",\n", stream);
        }
    }
}
