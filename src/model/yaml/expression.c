/*
 * A recursive-descent evaluator: sum := product (+|- product)*, product := factor (*|/ factor)*,
 * factor := number | name | sqrt(sum) | (sum) | -factor.
 */
#include "model/yaml/expression.h"

#include <paradl/base/units.h>

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 50

typedef struct parser {
    const char         *text, *cursor;
    const pdl__scope_t *scope;
    char               *message;
    size_t              size;
    int                 depth;
} parser_t;

static bool parse_sum(parser_t *parser, pdl__value_t *value);

static bool fail(const parser_t *parser, const char *what, const char *detail, size_t length)
{
    snprintf(parser->message, parser->size, "%s%.*s in \"%.60s\"", what, (int)(length < 40 ? length : 40), detail,
             parser->text);
    return false;
}

static void skip_blanks(parser_t *parser)
{
    while (*parser->cursor == ' ') parser->cursor++;
}

static bool is_name_character(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

const pdl__value_t *pdl__scope_find(const pdl__scope_t *scope, const char *name, size_t length)
{
    for (; scope != NULL; scope = scope->parent)
        for (int i = 0; i < scope->count; i++)
            if (strncmp(scope->names[i], name, length) == 0 && scope->names[i][length] == '\0')
                return &scope->values[i];
    return NULL;
}

static bool parse_number(parser_t *parser, pdl__value_t *value)
{
    const char *start = parser->cursor, *c = start;
    char        digits[64];
    size_t      length;

    while (isdigit((unsigned char)*c)) c++;
    value->whole = *c != '.' && *c != 'e' && *c != 'E';
    if (*c == '.') c++;
    while (isdigit((unsigned char)*c)) c++;
    if (*c == 'e' || *c == 'E') {
        c++;
        if (*c == '+' || *c == '-') c++;
        while (isdigit((unsigned char)*c)) c++;
    }
    length = (size_t)(c - start);
    if (length >= sizeof(digits) || is_name_character(*c)) return fail(parser, "not a number: ", start, length + 1);
    memcpy(digits, start, length);
    digits[length] = '\0';
    parser->cursor = c;
    if (!value->whole && pdl_parse_quantity(digits, PDL_UNIT_NONE, &value->number) == PDL_OK) return true;
    if (value->whole && pdl_parse_int(digits, 0, INT64_MAX, &value->integer) == PDL_OK) {
        value->number = (double)value->integer;
        return true;
    }
    return fail(parser, "not a number: ", digits, length);
}

static bool parse_parenthesis(parser_t *parser, pdl__value_t *value)
{
    if (++parser->depth > MAX_DEPTH) return fail(parser, "too many parentheses", "", 0);
    parser->cursor++;
    if (!parse_sum(parser, value)) return false;
    if (*parser->cursor != ')') return fail(parser, "a closing parenthesis is missing", "", 0);
    parser->cursor++;
    parser->depth--;
    return true;
}

static bool parse_name(parser_t *parser, pdl__value_t *value)
{
    const char         *name = parser->cursor;
    const pdl__value_t *found;
    size_t              length;

    while (is_name_character(*parser->cursor)) parser->cursor++;
    length = (size_t)(parser->cursor - name);
    skip_blanks(parser);
    if (length == 4 && strncmp(name, "sqrt", 4) == 0 && *parser->cursor == '(') {
        if (!parse_parenthesis(parser, value)) return false;
        if (value->number < 0) return fail(parser, "root of a negative number", "", 0);
        value->number = sqrt(value->number);
        value->whole = false;
        return true;
    }
    found = pdl__scope_find(parser->scope, name, length);
    if (found == NULL) return fail(parser, "unknown parameter ", name, length);
    *value = *found;
    return true;
}

static bool negate(const parser_t *parser, pdl__value_t *value)
{
    value->number = -value->number;
    if (value->whole && __builtin_sub_overflow((int64_t)0, value->integer, &value->integer))
        return fail(parser, "the result is too large", "", 0);
    return true;
}

static bool parse_factor(parser_t *parser, pdl__value_t *value)
{
    bool ok, minus = false;

    skip_blanks(parser);
    while (*parser->cursor == '-') {
        minus = !minus;
        parser->cursor++;
        skip_blanks(parser);
    }
    if (isdigit((unsigned char)*parser->cursor) || *parser->cursor == '.')
        ok = parse_number(parser, value);
    else if (*parser->cursor == '(')
        ok = parse_parenthesis(parser, value);
    else if (is_name_character(*parser->cursor))
        ok = parse_name(parser, value);
    else if (*parser->cursor == '\0')
        ok = fail(parser, "a number or parameter is missing", "", 0);
    else
        ok = fail(parser, "unexpected ", parser->cursor, 1);
    skip_blanks(parser);
    return ok && (!minus || negate(parser, value));
}

/* left = left op right, exact while both are whole. */
static bool combine(const parser_t *parser, char op, pdl__value_t *left, const pdl__value_t *right)
{
    bool whole = left->whole && right->whole, overflow = false;

    if (op == '/' && right->number == 0) return fail(parser, "division by zero", "", 0);
    if (op == '/' && whole && (left->integer == INT64_MIN || left->integer % right->integer != 0)) whole = false;
    if (whole) {
        switch (op) {
        case '+': overflow = __builtin_add_overflow(left->integer, right->integer, &left->integer); break;
        case '-': overflow = __builtin_sub_overflow(left->integer, right->integer, &left->integer); break;
        case '*': overflow = __builtin_mul_overflow(left->integer, right->integer, &left->integer); break;
        default: left->integer /= right->integer; break;
        }
        left->number = (double)left->integer;
    } else {
        switch (op) {
        case '+': left->number += right->number; break;
        case '-': left->number -= right->number; break;
        case '*': left->number *= right->number; break;
        default: left->number /= right->number; break;
        }
    }
    left->whole = whole;
    if (overflow || !isfinite(left->number)) return fail(parser, "the result is too large", "", 0);
    return true;
}

static bool parse_product(parser_t *parser, pdl__value_t *value)
{
    if (!parse_factor(parser, value)) return false;
    while (*parser->cursor == '*' || *parser->cursor == '/') {
        char         op = *parser->cursor++;
        pdl__value_t right = {0};

        if (!parse_factor(parser, &right) || !combine(parser, op, value, &right)) return false;
    }
    return true;
}

static bool parse_sum(parser_t *parser, pdl__value_t *value)
{
    if (!parse_product(parser, value)) return false;
    while (*parser->cursor == '+' || *parser->cursor == '-') {
        char         op = *parser->cursor++;
        pdl__value_t right = {0};

        if (!parse_product(parser, &right) || !combine(parser, op, value, &right)) return false;
    }
    return true;
}

bool pdl__evaluate(const char *text, const pdl__scope_t *scope, pdl__value_t *value, char *message, size_t size)
{
    parser_t parser = {.text = text, .cursor = text, .scope = scope, .message = message, .size = size};

    if (!parse_sum(&parser, value)) return false;
    if (*parser.cursor != '\0') return fail(&parser, "unexpected ", parser.cursor, 1);
    return true;
}
