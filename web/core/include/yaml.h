/*
 * The part of libyaml that base/yaml/read.c calls, for descriptions in JSON, which is YAML too: the page has them so.
 */
#ifndef PDL_CORE_YAML_H
#define PDL_CORE_YAML_H

typedef enum yaml_event_type {
    YAML_NO_EVENT,
    YAML_STREAM_START_EVENT,
    YAML_STREAM_END_EVENT,
    YAML_DOCUMENT_START_EVENT,
    YAML_DOCUMENT_END_EVENT,
    YAML_ALIAS_EVENT,
    YAML_SCALAR_EVENT,
    YAML_SEQUENCE_START_EVENT,
    YAML_SEQUENCE_END_EVENT,
    YAML_MAPPING_START_EVENT,
    YAML_MAPPING_END_EVENT
} yaml_event_type_t;
typedef enum yaml_error_type {
    YAML_NO_ERROR,
    YAML_MEMORY_ERROR,
    YAML_READER_ERROR,
    YAML_PARSER_ERROR
} yaml_error_type_t;
typedef enum yaml_scalar_style { YAML_PLAIN_SCALAR_STYLE = 1, YAML_DOUBLE_QUOTED_SCALAR_STYLE } yaml_scalar_style_t;

typedef struct yaml_mark {
    size_t index, line, column;
} yaml_mark_t;

typedef struct yaml_event {
    yaml_event_type_t type;
    union {
        struct {
            char               *anchor, *tag, *value;
            size_t              length;
            yaml_scalar_style_t style;
        } scalar;
        struct {
            char *anchor, *tag;
        } sequence_start, mapping_start;
    } data;
    yaml_mark_t start_mark;
} yaml_event_t;

#define PDL_CORE_DEPTH 80 /* base/yaml/read.c refuses less */

typedef struct yaml_parser {
    yaml_error_type_t error;
    const char       *problem, *context;
    size_t            problem_offset;
    yaml_mark_t       problem_mark, context_mark;
    const char       *text, *end;
    size_t            line;
    int               state, depth;
    bool              mapping[PDL_CORE_DEPTH];
} yaml_parser_t;

int  yaml_parser_initialize(yaml_parser_t *parser);
void yaml_parser_set_input_string(yaml_parser_t *parser, const unsigned char *text, size_t length);
int  yaml_parser_parse(yaml_parser_t *parser, yaml_event_t *event);
void yaml_parser_delete(yaml_parser_t *parser);
void yaml_event_delete(yaml_event_t *event);

#endif
