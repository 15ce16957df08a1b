/*
 * Texts in YAML files that we write, such that they are read back as they were.
 */
#include "base/yaml/tree.h"

#include <stdbool.h>
#include <string.h>

void pdl_yaml_write_quoted(const char *text, FILE *stream)
{
    fputc('"', stream);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(stream, "\\%c", *c);
        else if ((unsigned char)*c < ' ' || *c == 127)
            fprintf(stream, "\\x%02x", (unsigned)(unsigned char)*c);
        else
            fputc(*c, stream);
    }
    fputc('"', stream);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

void pdl_yaml_write_name(const char *name, FILE *stream)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-/";

    if (is_letter(name[0]) && name[strspn(name, safe)] == '\0')
        fputs(name, stream);
    else
        pdl_yaml_write_quoted(name, stream);
}

static void write_string(const char *text, FILE *stream)
{
    fputc('"', stream);
    for (const char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ')
            fprintf(stream, "\\u%04x", (unsigned)*c);
        else
            fprintf(stream, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    }
    fputc('"', stream);
}

void pdl_yaml_write_json(const pdl_yaml_t *node, FILE *stream)
{
    bool mapping = node->kind == PDL_YAML_MAPPING;

    if (node->kind == PDL_YAML_SCALAR) {
        if (!node->quoted && node->text[0] == '\0')
            fputs("null", stream);
        else
            write_string(node->text, stream);
        return;
    }
    fputc(mapping ? '{' : '[', stream);
    for (size_t i = 0; i < node->count; i++) {
        if (i > 0) fputc(',', stream);
        if (mapping) {
            write_string(node->entries[i].key, stream);
            fputc(':', stream);
        }
        pdl_yaml_write_json(node->entries[i].value, stream);
    }
    fputc(mapping ? '}' : ']', stream);
}
