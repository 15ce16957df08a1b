/*
 * Reading documents. Files are known by what they begin with: an object with "paradl" is a document or the first line of a
 * log, "<!DOCTYPE html>" is a page, whose documents are taken out of it.
 */
#include "report/page/documents.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <paradl/base/json.h>
#include <paradl/base/version.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct known {
    const char *kind;
    int         version;
} known[] = {{"plan-result", 1}, {"plan-simulation", 1}, {"collective", 1},       {"sweep", 1},
             {"run", 1},         {"validation", 1},      {"published", 1},        {"bench", 1},
             {"topology", 1},    {"model", 1},           {"system", 1},           {"program", 1},
             {"dataset", 1},     {"evaluation", 1},      {"prediction", 1},       {"trace", 1},
             {"scaling", 1},     {"verification", 1},    {"device-validation", 1}};

pdl_status_t pdl_documents_create(pdl_documents_t **documents)
{
    pdl_documents_t *d = calloc(1, sizeof(*d));

    if (d != NULL) d->arena = pdl_arena_create();
    if (d == NULL || d->arena == NULL) {
        free(d);
        return pdl__no_memory("for documents");
    }
    *documents = d;
    return PDL_OK;
}

void pdl_documents_destroy(pdl_documents_t *d)
{
    if (d == NULL) return;
    for (int i = 0; i < d->text_count; i++) free(d->texts[i]);
    free(d->texts);
    free(d->item);
    pdl_arena_destroy(d->arena);
    free(d);
}

/* "plan-result/1" is a kind that is known, of a version that is. */
static pdl_status_t check_kind(const char *path, const char *text, char kind[32])
{
    const char *slash = text != NULL ? strrchr(text, '/') : NULL;
    char       *end;
    long        version;

    if (slash == NULL || slash - text >= 32 || slash[1] < '1' || slash[1] > '9')
        return pdl_error(PDL_ERR_INPUT,
                         "%s: no document: it does not begin with \"paradl\": a kind and a version, as --json and "
                         "--log write it",
                         path);
    snprintf(kind, 32, "%.*s", (int)(slash - text), text);
    version = strtol(slash + 1, &end, 10);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i].kind, kind) != 0) continue;
        if (*end == '\0' && version <= known[i].version) return PDL_OK;
        return pdl_error(PDL_ERR_INPUT,
                         "%s: %.40s is newer than this program, which reads %s/%d: use a newer paradl", path, text,
                         kind, known[i].version);
    }
    return pdl_error(
        PDL_ERR_UNSUPPORTED,
        "%s: there is no report of %.40s: give a plan-result, plan-simulation, run, sweep, validation, ...", path,
        text);
}

static pdl_status_t append(pdl_documents_t *d, const pdl__document_t *document)
{
    if (d->count == d->capacity) {
        int              capacity = d->capacity > 0 ? 2 * d->capacity : 8;
        pdl__document_t *grown = realloc(d->item, (size_t)capacity * sizeof(*grown));

        if (grown == NULL) return pdl__no_memory("for documents");
        d->item = grown;
        d->capacity = capacity;
    }
    d->item[d->count++] = *document;
    return PDL_OK;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

/* The last line of a log may be torn, by a kill; torn lines before others are what no writer leaves. */
static pdl_status_t read_log(pdl_documents_t *d, const char *path, const char *text, size_t length,
                             pdl_json_value_t *head)
{
    pdl__document_t   log = {.name = base_name(path), .head = head, .lines = head};
    const char       *end = text + length;
    pdl_json_value_t *last = head;
    pdl_status_t      status = check_kind(path, pdl_json_text_of(head, "paradl"), log.kind);
    int               line = 1;

    while (!status && text < end) {
        const char       *stop = memchr(text, '\n', (size_t)(end - text));
        const char       *next = stop != NULL ? stop + 1 : end;
        pdl_json_value_t *value = NULL;

        if (line > 1 && (size_t)(next - text) > 1) {
            status =
                pdl_json_read(d->arena, text, (size_t)((stop != NULL ? stop : end) - text), path, line, &value);
            if (status == PDL_ERR_INPUT && next == end) {
                status = PDL_OK;
                log.left_out = 1;
                break;
            }
        }
        if (value != NULL) {
            last->next = value;
            last = value;
        }
        text = next;
        line++;
    }
    return status ? status : append(d, &log);
}

static pdl_status_t read_page(pdl_documents_t *d, const char *path, const char *text);

/* `name` is that of its file, `path` of the file that holds it, which may be a page. */
static pdl_status_t take_value(pdl_documents_t *d, const char *path, const char *name,
                               const pdl_json_value_t *value)
{
    pdl__document_t         document = {.name = base_name(name), .head = value};
    const pdl_json_value_t *log = pdl_json_first(value, "log");
    pdl_status_t            status;

    if (log != NULL && pdl_json_text_of(value, "paradl") == NULL) { /* a log, as a page keeps it */
        document.head = document.lines = log;
        document.left_out = pdl_json_number_of(value, "left_out") > 0;
    }
    status = check_kind(path, pdl_json_text_of(document.head, "paradl"), document.kind);
    return status ? status : append(d, &document);
}

static pdl_status_t read_text(pdl_documents_t *d, const char *path, const char *text, size_t length)
{
    const char       *stop = memchr(text, '\n', length);
    size_t            first = stop != NULL ? (size_t)(stop - text) : length;
    pdl_json_value_t *value;
    pdl_status_t      status = PDL_ERR_INPUT;

    if (length > 14 && (strncmp(text, "<!DOCTYPE html", 14) == 0)) return read_page(d, path, text);
    if (length == 0 || text[0] != '{') return check_kind(path, NULL, NULL);
    /* A log has whole objects in its lines, a document is one over many. */
    if (first > 1 && text[first - 1] == '}') status = pdl_json_read(d->arena, text, first, path, 1, &value);
    if (!status && pdl_json_get(value, "after_step") != NULL) return read_log(d, path, text, length, value);
    status = pdl_json_read(d->arena, text, length, path, 1, &value);
    return status ? status : take_value(d, path, path, value);
}

/* Keeps the text, which values point into. */
static pdl_status_t take_text(pdl_documents_t *d, const char *path, char *text, size_t length)
{
    char **texts = realloc(d->texts, ((size_t)d->text_count + 1) * sizeof(*texts));

    if (texts == NULL) {
        free(text);
        return pdl__no_memory("for documents");
    }
    d->texts = texts;
    d->texts[d->text_count++] = text;
    path = pdl_arena_strdup(d->arena, path);
    return path != NULL ? read_text(d, path, text, length) : PDL_ERR_NOMEM;
}

pdl_status_t pdl_documents_add(pdl_documents_t *d, const char *path)
{
    char        *text;
    size_t       length;
    pdl_status_t status = pdl__file_read(path, &text, &length);

    return status ? status : take_text(d, path, text, length);
}

pdl_status_t pdl_documents_add_text(pdl_documents_t *d, const char *name, const char *text, size_t length)
{
    char *copy = malloc(length + 1);

    if (copy == NULL) return pdl__no_memory("for documents");
    memcpy(copy, text, length);
    copy[length] = '\0';
    return take_text(d, name, copy, length);
}

#define ELEMENT "<script type=\"application/json\" id=\"paradl-documents\">"

static pdl_status_t read_page(pdl_documents_t *d, const char *path, const char *text)
{
    const char       *begin = strstr(text, ELEMENT), *end = begin != NULL ? strstr(begin, "</script>") : NULL;
    pdl_json_value_t *page;
    pdl_status_t      status;

    if (end == NULL)
        return pdl_error(PDL_ERR_INPUT, "%s: a page without documents: paradl report has not written it", path);
    begin += strlen(ELEMENT);
    status = pdl_json_read(d->arena, begin, (size_t)(end - begin), path, 1, &page);
    if (status) return status;
    if (pdl_json_text_of(page, "paradl") == NULL || strcmp(pdl_json_text_of(page, "paradl"), "page/1") != 0)
        return pdl_error(PDL_ERR_INPUT, "%s: this program reads pages of version page/1: use a newer paradl", path);
    for (const pdl_json_value_t *v = pdl_json_first(page, "documents"); !status && v != NULL; v = v->next) {
        const char *name = pdl_json_text_of(v, "name");

        status = take_value(d, path, name != NULL ? name : path, pdl_json_get(v, "document"));
    }
    return status;
}

const pdl_json_value_t *pdl__document_summary(const pdl__document_t *run)
{
    const pdl_json_value_t *summary = NULL;

    if (run->lines == NULL) return run->head;
    for (const pdl_json_value_t *line = run->lines; line != NULL; line = line->next)
        if (pdl_json_get(line, "summary") != NULL) summary = pdl_json_get(line, "summary");
    return summary;
}

/* `<`, and bytes that are not UTF-8, stand only in strings, where they may be written so. */
static void embed_source(const pdl_json_value_t *value, FILE *stream)
{
    int length;

    for (size_t i = 0; i < value->source_length; i += (size_t)length) {
        length = pdl__utf8_length((const unsigned char *)value->source + i); /* texts end with a zero byte */
        if (value->source[i] == '<')
            fputs("\\u003c", stream);
        else if (length == 0)
            fputs("\\ufffd", stream);
        else
            fwrite(value->source + i, 1, (size_t)length, stream);
        if (length == 0) length = 1;
    }
}

static void embed_text(const char *text, FILE *stream)
{
    pdl_json_t json;
    char      *line = NULL;
    size_t     length;
    FILE      *memory = open_memstream(&line, &length);

    if (memory == NULL) return;
    pdl_json_begin_line(&json, memory);
    pdl_json_string(&json, NULL, text);
    fclose(memory);
    embed_source(&(pdl_json_value_t){.source = line, .source_length = length - 1}, stream);
    free(line);
}

void pdl__documents_embed(const pdl_documents_t *d, const char *title, FILE *stream)
{
    fputs(ELEMENT "\n{\"paradl\": \"page/1\", \"version\": ", stream);
    embed_text(pdl_version(), stream);
    fputs(", \"title\": ", stream);
    embed_text(title, stream);
    fputs(", \"baseline\": 0, \"documents\": [", stream);
    for (int i = 0; i < d->count; i++) {
        const pdl__document_t *item = &d->item[i];

        fputs(i > 0 ? ",\n{\"name\": " : "\n{\"name\": ", stream);
        embed_text(item->name, stream);
        fputs(", \"document\": ", stream);
        if (item->lines == NULL) {
            embed_source(item->head, stream);
        } else {
            fprintf(stream, "{\"left_out\": %lld, \"log\": [\n", (long long)item->left_out);
            for (const pdl_json_value_t *line = item->lines; line != NULL; line = line->next) {
                embed_source(line, stream);
                fputs(line->next != NULL ? ",\n" : "]}", stream);
            }
        }
        fputs("}", stream);
    }
    fputs("]}\n</script>\n", stream);
}

int pdl_documents_count(const pdl_documents_t *d)
{
    return d->count;
}

/* A number and what is harmless of the name it had. */
const char *pdl_documents_file(const pdl_documents_t *d, int i, char *name, size_t size)
{
    const char *from = d->item[i].name;
    int         at = snprintf(name, size, "%d-", i + 1);

    for (; *from != '\0' && (size_t)at + 1 < size && at < 100; from++) {
        bool harmless = isalnum((unsigned char)*from) || *from == '-' || *from == '_' ||
                        (*from == '.' && from != d->item[i].name);

        name[at++] = harmless ? *from : '_';
    }
    name[at] = '\0';
    return name;
}

static void write_source(const pdl_json_value_t *value, FILE *stream)
{
    static const char escaped[] = "\\u003c";

    for (size_t i = 0; i < value->source_length; i++) {
        if (value->source_length - i >= 6 && memcmp(value->source + i, escaped, 6) == 0) {
            fputc('<', stream);
            i += 5;
        } else if (value->source[i] == '\\' && i + 1 < value->source_length) {
            fputc(value->source[i++], stream);
            fputc(value->source[i], stream);
        } else {
            fputc(value->source[i], stream);
        }
    }
    fputc('\n', stream);
}

pdl_status_t pdl_documents_write(const pdl_documents_t *d, int i, FILE *stream)
{
    if (d->item[i].lines == NULL) write_source(d->item[i].head, stream);
    for (const pdl_json_value_t *line = d->item[i].lines; line != NULL; line = line->next)
        write_source(line, stream);
    return PDL_OK;
}
