/*
 * Reading documents. Files are known by what they begin with: an object with "paradl" is a document or the first line of a
 * log, "<!DOCTYPE html>" is a page, whose documents are taken out of it.
 */
#include "report/page/documents.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "report/page/pack.h"

#include <paradl/base/json.h>
#include <paradl/base/version.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST ((size_t)1 << 30) /* of a file: a timeline of some million operations */

static const struct known {
    const char *kind;
    int         version;
} known[] = {{"plan-result", 1},
             {"plan-simulation", 1},
             {"collective", 1},
             {"sweep", 1},
             {"run", 1},
             {"validation", 1},
             {"published", 1},
             {"bench", 1},
             {"topology", 1},
             {"model", 1},
             {"system", 1},
             {"program", 1},
             {"dataset", 1},
             {"evaluation", 1},
             {"prediction", 1},
             {"trace", 1},
             {"scaling", 1},
             {"verification", 1},
             {"device-validation", 1},
             {"predictions", 1},
             {"texts", 1},
             {"collective-validation", 1},
             {"checkpoint", 1},
             {"networks", 1},
             {"collective-prices", 1},
             {"model-list", 1},
             {"system-list", 1},
             {"topology-list", 1},
             {"dataset-list", 1},
             {"algorithm-list", 1}};

static void drop_events(const pdl__document_t *trace)
{
    if (trace->events == NULL) return;
    pdl__events_free(trace->events);
    free(trace->events);
}

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
    for (int i = 0; i < d->count; i++) drop_events(&d->item[i]);
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

/* Only runs have logs. */
static pdl_status_t check_log(const char *path, const pdl_json_value_t *head, char kind[32])
{
    pdl_status_t status = check_kind(path, pdl_json_text_of(head, "paradl"), kind);

    if (status || strcmp(kind, "run") == 0) return status;
    return pdl_error(PDL_ERR_INPUT, "%s: a log of a %s: only runs have logs", path, kind);
}

/* The last line of a log may be torn, by a kill; torn lines before others are what no writer leaves. */
static pdl_status_t read_log(pdl_documents_t *d, const char *path, const char *text, size_t length,
                             pdl_json_value_t *head)
{
    pdl__document_t   log = {.name = base_name(path), .head = head, .lines = head};
    const char       *end = text + length;
    pdl_json_value_t *last = head;
    pdl_status_t      status = check_log(path, head, log.kind);
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

static pdl_status_t make_events(const pdl_documents_t *d, pdl__document_t *trace)
{
    trace->events = calloc(1, sizeof(*trace->events));
    if (trace->events == NULL) return pdl__no_memory("for a timeline");
    trace->events->arena = d->arena;
    return PDL_OK;
}

/* A timeline in `text`, whose list of events begins at `list`: they become columns, and the head is what is around them. */
static pdl_status_t read_trace(const pdl_documents_t *d, const char *path, const char *text, size_t length,
                               const char *list, pdl__document_t *trace)
{
    const char       *end = text + length, *after = end;
    size_t            before = (size_t)(list - text);
    char             *around;
    pdl_json_value_t *head;
    int               line = 1;
    pdl_status_t      status = make_events(d, trace);

    for (const char *c = text; c < list; c++) line += *c == '\n';
    if (!status) status = pdl__events_read(trace->events, list, (size_t)(end - list), path, line, &after);
    if (status) return status;
    around = pdl_arena_alloc(d->arena, before + (size_t)(end - after) + 3, 1);
    if (around == NULL) return PDL_ERR_NOMEM;
    memcpy(around, text, before);
    memcpy(around + before, "[]", 2);
    memcpy(around + before + 2, after, (size_t)(end - after));
    status = pdl_json_read(d->arena, around, before + 2 + (size_t)(end - after), path, 1, &head);
    trace->head = head;
    return status;
}

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
        status = check_log(path, log, document.kind);
    } else {
        status = check_kind(path, pdl_json_text_of(value, "paradl"), document.kind);
    }
    if (!status && strcmp(document.kind, "trace") == 0) {
        const pdl_json_value_t *list = pdl_json_get(value, "traceEvents");

        if (list != NULL && list->kind == PDL_JSON_ARRAY && list->count > 0)
            status = read_trace(d, path, value->source, value->source_length, list->source, &document);
        else
            status = make_events(d, &document);
    }
    if (!status) status = append(d, &document);
    if (status) drop_events(&document);
    return status;
}

/* A timeline of ours may have millions of events, of which there is never a tree. */
static pdl_status_t read_large(pdl_documents_t *d, const char *path, const char *text, size_t length,
                               const char *list)
{
    pdl__document_t trace = {.name = base_name(path)};
    pdl_status_t    status = read_trace(d, path, text, length, list, &trace);

    if (!status) status = check_kind(path, pdl_json_text_of(trace.head, "paradl"), trace.kind);
    if (!status && strcmp(trace.kind, "trace") != 0) status = check_kind(path, NULL, NULL);
    if (!status) status = append(d, &trace);
    if (status) drop_events(&trace);
    return status;
}

#define TRACE "{\"paradl\": \"trace/"
#define LIST  "\"traceEvents\": [" /* inside of a text its quotes would be escaped */

static pdl_status_t read_text(pdl_documents_t *d, const char *path, const char *text, size_t length)
{
    const char       *stop = memchr(text, '\n', length);
    size_t            first = stop != NULL ? (size_t)(stop - text) : length;
    pdl_json_value_t *value;
    pdl_status_t      status = PDL_ERR_INPUT;

    if (length > 14 && (strncmp(text, "<!DOCTYPE html", 14) == 0)) return read_page(d, path, text);
    if (length == 0 || text[0] != '{') return check_kind(path, NULL, NULL);
    if (strncmp(text, TRACE, strlen(TRACE)) == 0 && strstr(text, LIST) != NULL)
        return read_large(d, path, text, length, strstr(text, LIST) + strlen(LIST) - 1);
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
    pdl_status_t status = pdl__file_read_large(path, LARGEST, &text, &length);

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

#define PACKED  "<script type=\"application/octet-stream\" id=\"paradl-trace-"
#define ELEMENT "<script type=\"application/json\" id=\"paradl-documents\">"

/* The events of a timeline are in an element of their own. */
static pdl_status_t unpack_events(const pdl__document_t *document, const char *path, const char *text, int place)
{
    char         id[80];
    const char  *begin, *end;
    void        *bytes;
    size_t       length;
    pdl_status_t status;

    if (document->events == NULL || document->events->count > 0) return PDL_OK;
    snprintf(id, sizeof(id), PACKED "%d\">", place);
    begin = strstr(text, id);
    end = begin != NULL ? strchr(begin + 1, '<') : NULL;
    if (end == NULL) return PDL_OK; /* a timeline without events */
    begin += strlen(id);
    status = pdl__unpack(begin, (size_t)(end - begin), path, &bytes, &length);
    if (status) return status;
    status = pdl__events_unpack(document->events, bytes, length, path);
    free(bytes);
    return status;
}

static pdl_status_t read_page(pdl_documents_t *d, const char *path, const char *text)
{
    const char       *begin = strstr(text, ELEMENT), *end = begin != NULL ? strstr(begin, "</script>") : NULL;
    pdl_json_value_t *page;
    pdl_status_t      status;
    int               place = 0;

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
        if (!status) status = unpack_events(&d->item[d->count - 1], path, text, place);
        place++;
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

static pdl_status_t embed_events(const pdl__events_t *events, int place, FILE *stream)
{
    char        *bytes = NULL, id[32];
    void        *packed;
    size_t       length, packed_length;
    pdl_status_t status = pdl__events_pack(events, &bytes, &length);

    if (!status) status = pdl__pack(bytes, length, &packed, &packed_length);
    free(bytes);
    if (status) return status;
    snprintf(id, sizeof(id), "paradl-trace-%d", place);
    pdl__pack_element(id, packed, packed_length, stream);
    free(packed);
    return PDL_OK;
}

pdl_status_t pdl__documents_embed(const pdl_documents_t *d, const char *title, FILE *stream)
{
    pdl_status_t status = PDL_OK;

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
    for (int i = 0; i < d->count && !status; i++)
        if (d->item[i].events != NULL) status = embed_events(d->item[i].events, i, stream);
    return status;
}

void pdl_documents_limit_events(pdl_documents_t *d, int64_t most)
{
    for (int i = 0; i < d->count; i++)
        if (d->item[i].events != NULL) pdl__events_limit(d->item[i].events, most);
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

static void write_source(const char *source, size_t length, FILE *stream)
{
    static const char escaped[] = "\\u003c";

    for (size_t i = 0; i < length; i++) {
        if (length - i >= 6 && memcmp(source + i, escaped, 6) == 0) {
            fputc('<', stream);
            i += 5;
        } else if (source[i] == '\\' && i + 1 < length) {
            fputc(source[i++], stream);
            fputc(source[i], stream);
        } else {
            fputc(source[i], stream);
        }
    }
}

static void write_value(const pdl_json_value_t *value, FILE *stream)
{
    write_source(value->source, value->source_length, stream);
    fputc('\n', stream);
}

pdl_status_t pdl_documents_write(const pdl_documents_t *d, int i, FILE *stream)
{
    const pdl__document_t  *item = &d->item[i];
    const pdl_json_value_t *list = item->events != NULL ? pdl_json_get(item->head, "traceEvents") : NULL;

    if (list != NULL && list->kind == PDL_JSON_ARRAY) {
        size_t before = (size_t)(list->source - item->head->source), after = before + list->source_length;

        write_source(item->head->source, before, stream);
        pdl__events_write(item->events, stream);
        fputc(']', stream);
        write_source(item->head->source + after, item->head->source_length - after, stream);
        fputc('\n', stream);
        return PDL_OK;
    }
    if (item->lines == NULL) write_value(item->head, stream);
    for (const pdl_json_value_t *line = d->item[i].lines; line != NULL; line = line->next)
        write_value(line, stream);
    return PDL_OK;
}
