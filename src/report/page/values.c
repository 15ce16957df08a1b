/*
 * Pages of programs, with the memory of their buffers, and of documents without a page of their own: their values.
 */
#include "report/page/page.h"

#include <paradl/base/units.h>

#include <math.h>
#include <string.h>

/* Bytes of the buffers that are alive at every operation: what begins and ends there, summed up. */
static double *alive_at(pdl__page_t *page, const pdl_json_value_t *head, int ops)
{
    double *bytes = pdl__page_numbers(page, ops);

    for (const pdl_json_value_t *b = pdl_json_first(head, "buffers"); bytes != NULL && b != NULL; b = b->next) {
        double first = pdl_json_number_of(b, "first_op"), last = pdl_json_number_of(b, "last_op");
        double size = pdl_json_number_of(b, "bytes");

        if (!(first >= 0 && first <= last && last < ops) || !isfinite(size)) continue;
        bytes[(int)first] += size;
        bytes[(int)last + 1] -= size;
    }
    for (int i = 1; bytes != NULL && i < ops; i++) bytes[i] += bytes[i - 1];
    return bytes;
}

void pdl__page_program(pdl__page_t *page, const pdl__document_t *program)
{
    const pdl_json_value_t *head = program->head, *list = pdl_json_get(head, "ops"),
                           *op = pdl_json_first(head, "ops");
    int           ops = list != NULL ? list->count : 0, peak = 0;
    double       *bytes = alive_at(page, head, ops), *x = pdl__page_numbers(page, ops);
    pdl__series_t series = {.name = "alive", .mark = PDL__MARK_AREA, .x = x, .y = bytes, .count = ops};
    pdl__chart_t  chart = {.title = "memory over operations",
                           .x = {.label = "operation"},
                           .y = {.label = "bytes", .from_zero = true, .format = pdl_format_bytes},
                           .series = &series,
                           .series_count = 1};
    char          most[PDL_FORMAT_SIZE];

    pdl__page_heading(page, "Program of rank %.0f of %.0f: %s", pdl_json_number_of(head, "rank"),
                      pdl_json_number_of(head, "ranks"), pdl__page_or(pdl_json_text_of(head, "model"), "?"));
    if (bytes == NULL || x == NULL || ops == 0) return;
    for (int i = 0; i < ops; i++) {
        x[i] = i;
        if (bytes[i] > bytes[peak]) peak = i;
    }
    for (int i = 0; i < peak; i++) op = op->next;
    pdl__page_answer(page, "%d operations; tensors take most memory, %s, at operation %d: %s.", ops,
                     pdl_format_bytes(bytes[peak], most), peak, pdl__page_or(pdl_json_text_of(op, "name"), "?"));
    pdl__page_section(page, "Memory over operations: %s at most", most);
    pdl__page_chart(page, &chart, "Bytes of the buffers that are alive at every operation.");
}

#define MOST_COLUMNS 9
#define MOST_ROWS    60

static bool is_scalar(const pdl_json_value_t *value)
{
    return value->kind != PDL_JSON_OBJECT && value->kind != PDL_JSON_ARRAY && value->kind != PDL_JSON_NULL;
}

static bool ends_in(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);

    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Keys say their unit; other numbers have six digits: the document has them all. */
static const char *number_text(pdl__page_t *page, const char *key, const pdl_json_value_t *value)
{
    char   text[PDL_FORMAT_SIZE];
    double number = value->number;

    if (ends_in(key, "bytes_per_s")) return pdl__page_print(page, "%s", pdl_format_byte_rate(number, text));
    if (ends_in(key, "bytes")) return pdl__page_print(page, "%s", pdl_format_bytes(number, text));
    if (ends_in(key, "_s") && !ends_in(key, "_per_s"))
        return pdl__page_print(page, "%s", pdl_format_seconds(number, text));
    if (number == floor(number) && fabs(number) < 1e15)
        return pdl__page_print(page, "%s", pdl_format_count((int64_t)number, text));
    return pdl__page_print(page, "%.6g", number);
}

static const char *scalar_text(pdl__page_t *page, const char *key, const pdl_json_value_t *value)
{
    if (value == NULL || !is_scalar(value)) return "-";
    if (value->kind == PDL_JSON_STRING) return value->text;
    if (value->kind == PDL_JSON_NUMBER) return number_text(page, key, value);
    return pdl__page_print(page, "%.*s", (int)value->source_length, value->source);
}

/* Below the document, with the command. */
static bool stands_elsewhere(const char *key)
{
    return strcmp(key, "command") == 0 || strcmp(key, "paradl") == 0 || strcmp(key, "version") == 0;
}

/* Members that are objects are told by their keys, lists by their length. */
static void list_values(pdl__page_t *page, const pdl_json_value_t *object, const char *before, int depth)
{
    for (const pdl_json_value_t *v = object->first; v != NULL; v = v->next) {
        const char *name = pdl__page_print(page, "%s%s", before, v->key);

        if (depth == 0 && stands_elsewhere(v->key)) continue;
        if (v->kind == PDL_JSON_OBJECT && depth < 4) {
            list_values(page, v, pdl__page_print(page, "%s.", name), depth + 1);
            continue;
        }
        pdl__page_row(page);
        pdl__page_cell(page, "%s", name);
        if (v->kind == PDL_JSON_STRING)
            pdl__page_cell(page, "%s", v->text);
        else if (v->kind == PDL_JSON_ARRAY || v->kind == PDL_JSON_OBJECT)
            pdl__page_cell(page, "%d %s", v->count, v->count == 1 ? "item" : "items");
        else if (v->kind == PDL_JSON_NULL)
            pdl__page_cell(page, "-");
        else
            pdl__page_cell(page, "%s", scalar_text(page, v->key, v));
    }
}

/* The keys of the first row that has most are the columns. */
static int find_columns(const pdl_json_value_t *list, pdl_column_t columns[MOST_COLUMNS])
{
    int most = 0;

    for (const pdl_json_value_t *row = list->first; row != NULL; row = row->next) {
        int count = 0;

        for (const pdl_json_value_t *v = row->kind == PDL_JSON_OBJECT ? row->first : NULL; v != NULL; v = v->next)
            count += is_scalar(v);
        if (count <= most) continue;
        most = count;
        count = 0;
        for (const pdl_json_value_t *v = row->first; v != NULL && count < MOST_COLUMNS; v = v->next)
            if (is_scalar(v))
                columns[count++] = (pdl_column_t){v->key, v->kind == PDL_JSON_NUMBER ? PDL_RIGHT : PDL_LEFT};
    }
    return most < MOST_COLUMNS ? most : MOST_COLUMNS;
}

/* A list of objects is a table. */
static void list_rows(pdl__page_t *page, const pdl_json_value_t *list)
{
    pdl_column_t columns[MOST_COLUMNS];
    int          count = list->kind == PDL_JSON_ARRAY ? find_columns(list, columns) : 0, rows = 0;

    if (count == 0) return;
    pdl__page_section(page, "%s: %d", list->key, list->count);
    pdl__page_table(page,
                    list->count > MOST_ROWS ? pdl__page_print(page, "The first %d of %d", MOST_ROWS, list->count)
                                            : "All of them",
                    columns, count);
    for (const pdl_json_value_t *row = list->first; row != NULL && rows < MOST_ROWS; row = row->next, rows++) {
        pdl__page_row(page);
        for (int c = 0; c < count; c++)
            pdl__page_cell(page, "%s",
                           scalar_text(page, columns[c].header,
                                       row->kind == PDL_JSON_OBJECT ? pdl_json_get(row, columns[c].header) : NULL));
    }
    pdl__page_table_end(page);
}

void pdl__page_values(pdl__page_t *page, const pdl__document_t *document)
{
    static const pdl_column_t columns[] = {{"key", PDL_LEFT}, {"value", PDL_LEFT}};

    pdl__page_heading(page, "%s: %s", document->kind,
                      pdl__page_or(pdl_json_text_of(document->head, document->kind), document->name));
    pdl__page_section(page, "Values");
    pdl__page_table(page, "All values of the document", columns, 2);
    list_values(page, document->head, "", 0);
    pdl__page_table_end(page);
    for (const pdl_json_value_t *v = document->head->first; v != NULL; v = v->next) list_rows(page, v);
}
