/*
 * Builds the tree from the events of libyaml.
 *
 * Entries of the collections that are still open lie on one stack, the innermost on top; when a collection
 * ends, its entries move into the arena. So every node is allocated once and at its final size.
 */
#include "base/yaml/tree.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define MAX_DEPTH  64
#define MAX_VALUES 1000000 /* a value of two bytes takes a hundred in memory */

typedef struct reader {
    yaml_parser_t      parser;
    pdl_yaml_doc_t    *doc;
    const char        *text; /* the whole input, for the line of a byte that cannot be decoded */
    size_t             length;
    pdl__yaml_entry_t *stack;
    size_t             used, room;
    size_t             values; /* nodes made so far */
} reader_t;

static pdl_status_t read_node(reader_t *reader, const yaml_event_t *event, int depth, const pdl_yaml_t **node);

static size_t line_of(yaml_mark_t mark)
{
    return mark.line + 1;
}

static pdl_status_t refuse(const reader_t *reader, size_t line, const char *what)
{
    return pdl_error(PDL_ERR_INPUT, "%s:%zu: %s", reader->doc->name, line, what);
}

static size_t line_of_offset(const reader_t *reader, size_t offset)
{
    size_t line = 1, i;

    for (i = 0; i < offset && i < reader->length; i++) line += reader->text[i] == '\n';
    return line;
}

static pdl_status_t refuse_syntax(const reader_t *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    const char          *problem = parser->problem != NULL ? parser->problem : "syntax error";

    switch (parser->error) {
    case YAML_MEMORY_ERROR: return pdl_error(PDL_ERR_NOMEM, "out of memory while reading %s", reader->doc->name);
    case YAML_READER_ERROR: return refuse(reader, line_of_offset(reader, parser->problem_offset), problem);
    default: break;
    }
    if (parser->context == NULL) return refuse(reader, line_of(parser->problem_mark), problem);
    return pdl_error(PDL_ERR_INPUT, "%s:%zu: %s, %s (which began in line %zu)", reader->doc->name,
                     line_of(parser->problem_mark), problem, parser->context, line_of(parser->context_mark));
}

static pdl_status_t next_event(reader_t *reader, yaml_event_t *event)
{
    return yaml_parser_parse(&reader->parser, event) ? PDL_OK : refuse_syntax(reader);
}

static pdl_status_t push(reader_t *reader, pdl__yaml_entry_t entry)
{
    if (reader->used == reader->room) {
        size_t             room = reader->room == 0 ? 64 : 2 * reader->room;
        pdl__yaml_entry_t *stack = realloc(reader->stack, room * sizeof(*stack));

        if (stack == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory while reading %s", reader->doc->name);
        reader->stack = stack;
        reader->room = room;
    }
    reader->stack[reader->used++] = entry;
    return PDL_OK;
}

/* Copies the text of a scalar event into the arena. */
static pdl_status_t take_text(reader_t *reader, const yaml_event_t *event, const char **text)
{
    const char *value = (const char *)event->data.scalar.value;
    size_t      length = event->data.scalar.length;

    if (memchr(value, '\0', length) != NULL) {
        return refuse(reader, line_of(event->start_mark), "a text must not contain a zero byte");
    }
    *text = pdl_arena_strndup(reader->doc->arena, value, length);
    return *text == NULL ? PDL_ERR_NOMEM : PDL_OK;
}

static int compare_keys(const void *a, const void *b)
{
    const pdl__yaml_entry_t *x = *(const pdl__yaml_entry_t *const *)a;
    const pdl__yaml_entry_t *y = *(const pdl__yaml_entry_t *const *)b;
    int                      order = strcmp(x->key, y->key);

    return order != 0 ? order : (x > y) - (x < y);
}

/* Sorting keeps this fast for a mapping of millions of keys, which a broken or hostile file may hold. */
static pdl_status_t check_duplicates(const reader_t *reader, const pdl__yaml_entry_t *entries, size_t count)
{
    const pdl__yaml_entry_t **sorted;
    pdl_status_t              st = PDL_OK;
    size_t                    i;

    if (count < 2) return PDL_OK;
    sorted = malloc(count * sizeof(*sorted));
    if (sorted == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory while reading %s", reader->doc->name);
    for (i = 0; i < count; i++) sorted[i] = &entries[i];
    qsort(sorted, count, sizeof(*sorted), compare_keys);
    for (i = 1; i < count && st == PDL_OK; i++) {
        if (strcmp(sorted[i - 1]->key, sorted[i]->key) != 0) continue;
        st = pdl_error(PDL_ERR_INPUT, "%s:%zu: key \"%.60s\" is given twice, first in line %zu", reader->doc->name,
                       sorted[i]->key_line, sorted[i]->key, sorted[i - 1]->key_line);
    }
    free(sorted);
    return st;
}

/* Moves the entries above `base` from the stack into `node`. */
static pdl_status_t take_entries(reader_t *reader, size_t base, pdl_yaml_t *node)
{
    size_t             count = reader->used - base;
    pdl__yaml_entry_t *entries = pdl_arena_alloc(reader->doc->arena, count, sizeof(*entries));

    if (entries == NULL) return PDL_ERR_NOMEM;
    if (count > 0) memcpy(entries, reader->stack + base, count * sizeof(*entries));
    reader->used = base;
    node->entries = entries;
    node->count = count;
    return node->kind == PDL_YAML_MAPPING ? check_duplicates(reader, entries, count) : PDL_OK;
}

static pdl_status_t read_key(reader_t *reader, const yaml_event_t *event, pdl__yaml_entry_t *entry)
{
    entry->key_line = line_of(event->start_mark);
    if (event->type != YAML_SCALAR_EVENT) return refuse(reader, entry->key_line, "a key must be a plain name");
    if (event->data.scalar.anchor != NULL || event->data.scalar.tag != NULL) {
        return refuse(reader, entry->key_line, "anchors and tags are not allowed");
    }
    return take_text(reader, event, &entry->key);
}

/* Reads one value, with its key in a mapping, or finds the end of the collection. */
static pdl_status_t read_entry(reader_t *reader, const pdl_yaml_t *node, int depth, bool *end)
{
    pdl__yaml_entry_t entry = {NULL, NULL, 0};
    yaml_event_t      event;
    pdl_status_t      st = next_event(reader, &event);

    if (st != PDL_OK) return st;
    *end = event.type == YAML_MAPPING_END_EVENT || event.type == YAML_SEQUENCE_END_EVENT;
    if (!*end && node->kind == PDL_YAML_MAPPING) {
        st = read_key(reader, &event, &entry);
        yaml_event_delete(&event);
        if (st == PDL_OK) st = next_event(reader, &event);
        if (st != PDL_OK) return st;
    }
    if (!*end) st = read_node(reader, &event, depth, &entry.value);
    yaml_event_delete(&event);
    if (*end || st != PDL_OK) return st;
    return push(reader, entry);
}

static pdl_status_t read_entries(reader_t *reader, int depth, pdl_yaml_t *node)
{
    size_t base = reader->used;
    bool   end = false;

    if (depth >= MAX_DEPTH) return refuse(reader, node->line, "more than 64 levels of nesting");
    while (!end) {
        pdl_status_t st = read_entry(reader, node, depth + 1, &end);

        if (st != PDL_OK) return st;
    }
    return take_entries(reader, base, node);
}

static bool has_anchor_or_tag(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT: return event->data.scalar.anchor != NULL || event->data.scalar.tag != NULL;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor != NULL || event->data.sequence_start.tag != NULL;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor != NULL || event->data.mapping_start.tag != NULL;
    default: return false;
    }
}

/* Builds the node that `event` starts. The event stays with the caller. */
static pdl_status_t read_node(reader_t *reader, const yaml_event_t *event, int depth, const pdl_yaml_t **node)
{
    pdl_yaml_t  *made;
    pdl_status_t st;

    if (event->type == YAML_ALIAS_EVENT) {
        return refuse(reader, line_of(event->start_mark), "aliases (*name) are not allowed: write the value out");
    }
    if (has_anchor_or_tag(event)) {
        return refuse(reader, line_of(event->start_mark), "anchors (&name) and tags (!name) are not allowed");
    }
    if (++reader->values > MAX_VALUES) {
        return refuse(reader, line_of(event->start_mark), "more than a million values, which no description holds");
    }
    made = pdl_arena_alloc(reader->doc->arena, 1, sizeof(*made));
    if (made == NULL) return PDL_ERR_NOMEM;
    made->doc = reader->doc;
    made->line = line_of(event->start_mark);
    if (event->type == YAML_SCALAR_EVENT) {
        made->kind = PDL_YAML_SCALAR;
        made->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        st = take_text(reader, event, &made->text);
    } else {
        made->kind = event->type == YAML_MAPPING_START_EVENT ? PDL_YAML_MAPPING : PDL_YAML_SEQUENCE;
        st = read_entries(reader, depth, made);
    }
    if (st == PDL_OK) *node = made;
    return st;
}

/* Fetches the next event and passes it over if it is of this type; *found says so. Otherwise it is left in
   *event, and the caller deletes it. */
static pdl_status_t skip_event(reader_t *reader, yaml_event_type_t type, yaml_event_t *event, bool *found)
{
    pdl_status_t st = next_event(reader, event);

    if (st != PDL_OK) return st;
    *found = event->type == type;
    if (*found) yaml_event_delete(event);
    return PDL_OK;
}

/* After the root only the end of the document and of the stream may follow. */
static pdl_status_t read_end(reader_t *reader)
{
    yaml_event_t event;
    bool         found;
    pdl_status_t st = skip_event(reader, YAML_DOCUMENT_END_EVENT, &event, &found);

    if (st == PDL_OK && found) st = skip_event(reader, YAML_STREAM_END_EVENT, &event, &found);
    if (st == PDL_OK && !found) {
        st = refuse(reader, line_of(event.start_mark), "a second document begins here, only one is allowed");
        yaml_event_delete(&event);
    }
    return st;
}

static pdl_status_t read_document(reader_t *reader)
{
    yaml_event_t event;
    bool         found;
    pdl_status_t st = skip_event(reader, YAML_STREAM_START_EVENT, &event, &found);

    if (st == PDL_OK && found) st = skip_event(reader, YAML_DOCUMENT_START_EVENT, &event, &found);
    if (st != PDL_OK) return st;
    if (!found) {
        yaml_event_delete(&event);
        return pdl_error(PDL_ERR_INPUT, "%s: the file is empty", reader->doc->name);
    }
    st = next_event(reader, &event);
    if (st != PDL_OK) return st;
    st = read_node(reader, &event, 0, &reader->doc->root);
    yaml_event_delete(&event);
    return st == PDL_OK ? read_end(reader) : st;
}

static pdl_status_t create_doc(const char *name, pdl_yaml_doc_t **doc)
{
    pdl_arena_t    *arena = pdl_arena_create();
    pdl_yaml_doc_t *made = NULL;

    if (arena == NULL) return PDL_ERR_NOMEM;
    made = pdl_arena_alloc(arena, 1, sizeof(*made));
    if (made == NULL) goto destroy_arena;
    made->arena = arena;
    made->name = pdl_arena_strdup(arena, name);
    if (made->name == NULL) goto destroy_arena;
    *doc = made;
    return PDL_OK;

destroy_arena:
    pdl_arena_destroy(arena);
    return PDL_ERR_NOMEM;
}

pdl_status_t pdl_yaml_read_memory(const char *text, size_t length, const char *name, pdl_yaml_doc_t **doc)
{
    reader_t     reader = {.text = text, .length = length};
    pdl_status_t st;

    if (length > PDL__FILE_LIMIT) {
        return pdl_error(PDL_ERR_INPUT, "%s: larger than %zu MiB, which no description is", name,
                         PDL__FILE_LIMIT >> 20);
    }
    st = create_doc(name, &reader.doc);
    if (st != PDL_OK) return st;
    if (!yaml_parser_initialize(&reader.parser)) {
        st = pdl_error(PDL_ERR_NOMEM, "out of memory while reading %s", name);
        goto destroy_doc;
    }
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, length);
    st = read_document(&reader);
    yaml_parser_delete(&reader.parser);
    free(reader.stack);
    if (st != PDL_OK) goto destroy_doc;
    *doc = reader.doc;
    return PDL_OK;

destroy_doc:
    pdl_yaml_destroy(reader.doc);
    return st;
}

pdl_status_t pdl_yaml_read_file(const char *path, pdl_yaml_doc_t **doc)
{
    char        *text;
    size_t       length;
    pdl_status_t st = pdl__file_read(path, &text, &length);

    if (st != PDL_OK) return st;
    st = pdl_yaml_read_memory(text, length, path, doc);
    free(text);
    return st;
}

void pdl_yaml_destroy(pdl_yaml_doc_t *doc)
{
    if (doc != NULL) pdl_arena_destroy(doc->arena);
}
