/*
 * The head of documents. The command line belongs to the process, so it is kept here once instead of in every report.
 */
#include <paradl/base/document.h>

#include <paradl/base/version.h>

static const char *const *command;

void pdl_document_set_command(const char *const *words)
{
    command = words;
}

static void write_head(pdl_json_t *json, const char *kind)
{
    pdl_json_open(json, NULL, '{');
    pdl_json_string(json, "paradl", kind);
    pdl_json_string(json, "version", pdl_version());
    pdl_json_open(json, "command", '[');
    if (command != NULL && command[0] != NULL) {
        pdl_json_string(json, NULL, "paradl");
        for (const char *const *word = command + 1; *word != NULL; word++) pdl_json_string(json, NULL, *word);
    }
    pdl_json_close(json);
}

void pdl_document_begin(pdl_json_t *json, FILE *stream, const char *kind)
{
    pdl_json_begin(json, stream);
    write_head(json, kind);
}

void pdl_document_begin_line(pdl_json_t *json, FILE *stream, const char *kind)
{
    pdl_json_begin_line(json, stream);
    write_head(json, kind);
}
