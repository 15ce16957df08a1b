/*
 * Events of JSON, as libyaml gives them of YAML. A null is nothing, as it is in our descriptions when a value is left out.
 */
#include <stdbool.h>
#include <yaml.h>

enum { BEGIN, DOCUMENT, VALUE, FIRST, NEXT, COLON, ROOT_DONE, STREAM_DONE };

int yaml_parser_initialize(yaml_parser_t *parser)
{
    *parser = (yaml_parser_t){.line = 0};
    return 1;
}

void yaml_parser_set_input_string(yaml_parser_t *parser, const unsigned char *text, size_t length)
{
    parser->text = (const char *)text;
    parser->end = parser->text + length;
}

void yaml_parser_delete(yaml_parser_t *parser)
{
    (void)parser;
}

void yaml_event_delete(yaml_event_t *event)
{
    if (event->type == YAML_SCALAR_EVENT) free(event->data.scalar.value);
    event->type = YAML_NO_EVENT;
}

static int refuse(yaml_parser_t *parser, const char *problem)
{
    parser->error = YAML_PARSER_ERROR;
    parser->problem = problem;
    parser->problem_mark.line = parser->line;
    return 0;
}

static void skip_blanks(yaml_parser_t *parser)
{
    for (; parser->text < parser->end && strchr(" \t\r\n", *parser->text) != NULL; parser->text++)
        if (*parser->text == '\n') parser->line++;
}

static char *put_utf8(char *to, unsigned code)
{
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    if (code >= 0x800) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
    } else {
        *to++ = (char)(0xc0 | code >> 6);
    }
    *to++ = (char)(0x80 | (code & 0x3f));
    return to;
}

/* The text after a backslash; NULL: there is no such escape. */
static char *unescape(yaml_parser_t *parser, char *to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    const char       *found = *parser->text != '\0' ? strchr(from, *parser->text) : NULL;

    if (found != NULL) {
        *to = into[found - from];
        parser->text++;
        return to + 1;
    }
    if (*parser->text == 'u' && parser->end - parser->text >= 5) {
        char digits[5] = {parser->text[1], parser->text[2], parser->text[3], parser->text[4]};

        parser->text += 5;
        return put_utf8(to, (unsigned)strtoul(digits, NULL, 16));
    }
    return NULL;
}

static int read_string(yaml_parser_t *parser, yaml_event_t *event)
{
    const char *end = ++parser->text;
    char       *value, *to;

    while (end < parser->end && *end != '"') end += *end == '\\' ? 2 : 1;
    if (end >= parser->end) return refuse(parser, "a text without its end");
    value = malloc((size_t)(end - parser->text) + 1);
    if (value == NULL) {
        parser->error = YAML_MEMORY_ERROR;
        return 0;
    }
    event->type = YAML_SCALAR_EVENT; /* now the event has the memory */
    event->data.scalar.value = to = value;
    event->data.scalar.style = YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    while (parser->text < end) {
        if (*parser->text != '\\') {
            *to++ = *parser->text++;
            continue;
        }
        parser->text++;
        to = unescape(parser, to);
        if (to == NULL) {
            yaml_event_delete(event);
            return refuse(parser, "an unknown escape in a text");
        }
    }
    *to = '\0';
    parser->text = end + 1;
    event->data.scalar.length = (size_t)(to - value);
    return 1;
}

/* Numbers, true, false and null. */
static int read_word(yaml_parser_t *parser, yaml_event_t *event)
{
    const char *begin = parser->text;
    size_t      length;

    while (parser->text < parser->end && strchr(" \t\r\n,:]}[{\"", *parser->text) == NULL) parser->text++;
    length = (size_t)(parser->text - begin);
    if (length == 0) return refuse(parser, "a value is missing: descriptions in a page are JSON");
    if (length == 4 && strncmp(begin, "null", 4) == 0) length = 0;
    event->data.scalar.value = strndup(begin, length);
    if (event->data.scalar.value == NULL) {
        parser->error = YAML_MEMORY_ERROR;
        return 0;
    }
    event->type = YAML_SCALAR_EVENT;
    event->data.scalar.length = length;
    event->data.scalar.style = YAML_PLAIN_SCALAR_STYLE;
    return 1;
}

static int scalar(yaml_parser_t *parser, yaml_event_t *event)
{
    return *parser->text == '"' ? read_string(parser, event) : read_word(parser, event);
}

static int begin_value(yaml_parser_t *parser, yaml_event_t *event)
{
    if (*parser->text == '{' || *parser->text == '[') {
        if (parser->depth == PDL_CORE_DEPTH) return refuse(parser, "too many levels of nesting");
        parser->mapping[parser->depth++] = *parser->text == '{';
        event->type = *parser->text++ == '{' ? YAML_MAPPING_START_EVENT : YAML_SEQUENCE_START_EVENT;
        parser->state = FIRST;
        return 1;
    }
    parser->state = parser->depth == 0 ? ROOT_DONE : NEXT;
    return scalar(parser, event);
}

static int end_collection(yaml_parser_t *parser, yaml_event_t *event)
{
    bool mapping = parser->mapping[--parser->depth];

    if (*parser->text++ != (mapping ? '}' : ']')) return refuse(parser, "the wrong bracket closes here");
    event->type = mapping ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    parser->state = parser->depth == 0 ? ROOT_DONE : NEXT;
    return 1;
}

static int next_entry(yaml_parser_t *parser, yaml_event_t *event)
{
    if (*parser->text == '}' || *parser->text == ']') return end_collection(parser, event);
    if (parser->state == NEXT) {
        if (*parser->text++ != ',') return refuse(parser, "a comma is missing");
        skip_blanks(parser);
        if (parser->text == parser->end) return refuse(parser, "the file ends too early");
    }
    if (!parser->mapping[parser->depth - 1]) return begin_value(parser, event);
    parser->state = COLON;
    return scalar(parser, event);
}

int yaml_parser_parse(yaml_parser_t *parser, yaml_event_t *event)
{
    *event = (yaml_event_t){.type = YAML_NO_EVENT};
    if (parser->state == BEGIN) {
        event->type = YAML_STREAM_START_EVENT;
        parser->state = DOCUMENT;
        return 1;
    }
    skip_blanks(parser);
    event->start_mark.line = parser->line;
    if (parser->text == parser->end) {
        if (parser->state != DOCUMENT && parser->state != ROOT_DONE && parser->state != STREAM_DONE)
            return refuse(parser, "the file ends too early");
        event->type = parser->state == ROOT_DONE ? YAML_DOCUMENT_END_EVENT : YAML_STREAM_END_EVENT;
        parser->state = STREAM_DONE;
        return 1;
    }
    switch (parser->state) {
    case DOCUMENT:
        event->type = YAML_DOCUMENT_START_EVENT;
        parser->state = VALUE;
        return 1;
    case VALUE: return begin_value(parser, event);
    case FIRST:
    case NEXT: return next_entry(parser, event);
    case COLON:
        if (*parser->text++ != ':') return refuse(parser, "a colon is missing");
        skip_blanks(parser);
        if (parser->text == parser->end) return refuse(parser, "the file ends too early");
        return begin_value(parser, event);
    default: return refuse(parser, "something follows after the end");
    }
}
