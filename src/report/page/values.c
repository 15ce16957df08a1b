/*
 * Pages of programs, with the memory of their buffers, and of documents without a page of their own: their values.
 */
#include "report/page/page.h"

#include <paradl/base/units.h>

#include <math.h>

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

/* Members that are objects are told by their keys, lists by their length. */
static void list_values(pdl__page_t *page, const pdl_json_value_t *object, const char *before, int depth)
{
    for (const pdl_json_value_t *v = object->first; v != NULL; v = v->next) {
        const char *name = pdl__page_print(page, "%s%s", before, v->key);

        if (v->kind == PDL_JSON_OBJECT && depth < 4) {
            list_values(page, v, pdl__page_print(page, "%s.", name), depth + 1);
            continue;
        }
        pdl__page_row(page);
        pdl__page_cell(page, "%s", name);
        if (v->kind == PDL_JSON_STRING)
            pdl__page_cell(page, "%s", v->text);
        else if (v->kind == PDL_JSON_ARRAY || v->kind == PDL_JSON_OBJECT)
            pdl__page_cell(page, "%d items", v->count);
        else
            pdl__page_cell(page, "%.*s", (int)v->source_length, v->source);
    }
}

void pdl__page_values(pdl__page_t *page, const pdl__document_t *document)
{
    static const pdl_column_t columns[] = {{"key", PDL_LEFT}, {"value", PDL_LEFT}};

    pdl__page_heading(page, "%s: %s", document->kind, document->name);
    pdl__page_section(page, "Values");
    pdl__page_table(page, "All values of the document", columns, 2);
    list_values(page, document->head, "", 0);
    pdl__page_table_end(page);
}
