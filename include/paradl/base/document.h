/*
 * The head of every JSON document: kind and version of its format, the program that wrote it and the command line.
 *
 *     {"paradl": "plan-result/1", "version": "0.2.0", "command": ["paradl", "plan", ...], ...
 *
 * Readers refuse a higher number after the slash and ignore keys that they do not know.
 */
#ifndef PARADL_DOCUMENT_H
#define PARADL_DOCUMENT_H

#include <paradl/base/json.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opens the object of a document and writes its head; the caller writes the rest and closes it. */
void pdl_document_begin(pdl_json_t *json, FILE *stream, const char *kind);
/* The same on one line, for a log. */
void pdl_document_begin_line(pdl_json_t *json, FILE *stream, const char *kind);

/* For programs, before threads start: the words of the command line, ended by NULL and borrowed, the name of the program
   first. Documents name the program "paradl" wherever it is. Without it `command` is empty. */
void pdl_document_set_command(const char *const *words);

#ifdef __cplusplus
}
#endif
#endif
