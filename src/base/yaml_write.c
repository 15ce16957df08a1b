/*
 * Texts in YAML files that we write, such that they are read back as they were.
 */
#include <paradl/base/yaml.h>

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
