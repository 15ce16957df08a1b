/*
 * Sections, charts and tables in HTML or text. All that comes from documents is escaped here, and nowhere else.
 */
#include "report/page/page.h"

#include <paradl/base/output.h>
#include <paradl/base/units.h>

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void escape(const pdl__page_t *page, const char *text)
{
    if (!page->text) {
        pdl__chart_escape(text, page->stream);
        return;
    }
    /* A terminal obeys control characters. */
    for (; *text != '\0'; text++) fputc((unsigned char)*text >= 0x20 || *text == '\n' ? *text : ' ', page->stream);
}

const char *pdl__page_or(const char *text, const char *otherwise)
{
    return text != NULL && *text != '\0' ? text : otherwise;
}

static bool is_part_of_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* A document may lack numbers, or have such as overflow: sentences then say "?", and no "-nan". */
static void hide_unknown(char *text)
{
    for (char *at = text; *at != '\0'; at++) {
        char *word = at + (*at == '-' || *at == '+');

        if ((at > text && is_part_of_word(at[-1])) ||
            (strncmp(word, "nan", 3) != 0 && strncmp(word, "inf", 3) != 0) || is_part_of_word(word[3]))
            continue;
        *at = '?';
        memmove(at + 1, word + 3, strlen(word + 3) + 1);
    }
}

static const char *print_list(pdl__page_t *page, const char *format, va_list list)
{
    va_list again;
    char   *text;
    int     length;

    va_copy(again, list);
    length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    text = length >= 0 ? pdl_arena_alloc(page->arena, (size_t)length + 1, 1) : NULL;
    if (text == NULL) {
        if (!page->status) page->status = PDL_ERR_NOMEM;
        return "";
    }
    vsnprintf(text, (size_t)length + 1, format, list);
    hide_unknown(text);
    return text;
}

const char *pdl__page_print(pdl__page_t *page, const char *format, ...)
{
    va_list     list;
    const char *text;

    va_start(list, format);
    text = print_list(page, format, list);
    va_end(list);
    return text;
}

static void element(pdl__page_t *page, const char *open, const char *text, const char *close)
{
    if (!page->text) fputs(open, page->stream);
    escape(page, text);
    fputs(page->text ? "\n" : close, page->stream);
}

#define PRINTED(page, format, text)               \
    do {                                          \
        va_list list_;                            \
        va_start(list_, format);                  \
        (text) = print_list(page, format, list_); \
        va_end(list_);                            \
    } while (0)

void pdl__page_section_end(pdl__page_t *page)
{
    if (page->in_section) fputs(page->text ? "\n" : "</section>\n", page->stream);
    page->in_section = false;
}

void pdl__page_heading(pdl__page_t *page, const char *format, ...)
{
    const char *text;

    PRINTED(page, format, text);
    pdl__page_section_end(page);
    if (page->text) fputs("== ", page->stream);
    element(page, "<h2>", text, "</h2>\n");
}

void pdl__page_section(pdl__page_t *page, const char *format, ...)
{
    const char *text;

    PRINTED(page, format, text);
    pdl__page_section_end(page);
    page->in_section = true;
    page->sections++;
    if (page->text)
        fputs("-- ", page->stream);
    else
        fprintf(page->stream, "<section id=\"%ss%d\">\n", page->prefix, page->sections);
    element(page, "<h3>", text, "</h3>\n");
}

void pdl__page_answer(pdl__page_t *page, const char *format, ...)
{
    const char *text;

    PRINTED(page, format, text);
    element(page, "<p class=\"answer\">", text, "</p>\n");
}

void pdl__page_say(pdl__page_t *page, const char *format, ...)
{
    const char *text;

    PRINTED(page, format, text);
    element(page, "<p>", text, "</p>\n");
}

void pdl__page_note(pdl__page_t *page, const char *format, ...)
{
    const char *text;

    PRINTED(page, format, text);
    element(page, "<p class=\"meta\">", text, "</p>\n");
}

void pdl__page_list(pdl__page_t *page, const char *text)
{
    if (!page->text) fputs("<ul class=\"why\">\n", page->stream);
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");

        if (length > 0) element(page, "<li>", pdl__page_print(page, "%.*s", (int)length, text), "</li>\n");
        text += length + (text[length] == '\n');
    }
    if (!page->text) fputs("</ul>\n", page->stream);
}

/* A file of its own, for papers and slides. */
static pdl_status_t write_chart(pdl__page_t *page, const pdl__chart_t *chart)
{
    pdl_output_t *output;
    pdl_status_t  status = pdl_output_open(pdl__page_print(page, "%s/%s.svg", page->folder, chart->id), &output);

    if (status) return status;
    status = pdl__chart_svg(chart, true, pdl_output_stream(output));
    if (!status) return pdl_output_close(output);
    pdl_output_discard(output);
    return status;
}

void pdl__page_chart(pdl__page_t *page, pdl__chart_t *chart, const char *how)
{
    pdl_status_t status;

    chart->id = pdl__page_print(page, "%sc%d", page->prefix, ++page->charts);
    if (page->status) return;
    if (!page->text) fputs("<figure>\n<div class=\"wide\">\n", page->stream);
    status = page->text ? pdl__chart_terminal(chart, page->stream) : pdl__chart_svg(chart, false, page->stream);
    if (!page->text) fputs("</div>\n", page->stream);
    if (status == PDL_ERR_LIMIT)
        how = "There is nothing to draw.";
    else if (!status && page->folder != NULL)
        status = write_chart(page, chart);
    if (status && status != PDL_ERR_LIMIT && !page->status) page->status = status;
    element(page, "<figcaption>", how, "</figcaption>\n");
    if (!page->text) fputs("</figure>\n", page->stream);
}

void pdl__page_table(pdl__page_t *page, const char *caption, const pdl_column_t *columns, int count)
{
    page->columns = columns;
    page->column_count = count;
    page->column = -1;
    if (page->text) {
        fprintf(page->stream, "\n%s:\n", caption);
        page->table = pdl_table_create(columns, count);
        return;
    }
    fputs("<div class=\"wide\">\n<table>\n<caption>", page->stream);
    escape(page, caption);
    fputs("</caption>\n<thead><tr>", page->stream);
    for (int c = 0; c < count; c++) {
        fprintf(page->stream, "<th scope=\"col\"%s>", columns[c].align == PDL_RIGHT ? " class=\"n\"" : "");
        escape(page, columns[c].header);
        fputs("</th>", page->stream);
    }
    fputs("</tr></thead>\n<tbody>\n", page->stream);
}

/* Cells that were not given are empty. */
static void end_row(pdl__page_t *page)
{
    if (page->column < 0 || page->text) return;
    for (; page->column < page->column_count; page->column++) fputs("<td></td>", page->stream);
    fputs("</tr>\n", page->stream);
}

static void begin_row(pdl__page_t *page, const char *tag)
{
    if (page->text) {
        pdl_table_row(page->table, PDL_ROW_PLAIN);
        return;
    }
    end_row(page);
    page->column = 0;
    fputs(tag, page->stream);
}

void pdl__page_row(pdl__page_t *page)
{
    begin_row(page, "<tr>");
}

void pdl__page_row_faint(pdl__page_t *page)
{
    begin_row(page, "<tr class=\"not\">");
}

void pdl__page_cell(pdl__page_t *page, const char *format, ...)
{
    const char *text;
    bool        first = page->column == 0;

    PRINTED(page, format, text);
    if (page->text) {
        pdl_table_cell(page->table, "%s", text);
        return;
    }
    if (page->column >= page->column_count) return;
    fputs(first ? "<th scope=\"row\"" : "<td", page->stream);
    fputs(page->columns[page->column].align == PDL_RIGHT ? " class=\"n\">" : ">", page->stream);
    escape(page, text);
    fputs(first ? "</th>" : "</td>", page->stream);
    page->column++;
}

void pdl__page_seconds(pdl__page_t *page, double seconds)
{
    char text[PDL_FORMAT_SIZE];

    if (fabs(seconds) < 1e-12) seconds = 0; /* what rounding leaves of a difference */
    pdl__page_cell(page, "%s", isfinite(seconds) ? pdl_format_seconds(seconds, text) : "-");
}

void pdl__page_bytes(pdl__page_t *page, double bytes)
{
    char text[PDL_FORMAT_SIZE];

    pdl__page_cell(page, "%s", isfinite(bytes) ? pdl_format_bytes(bytes, text) : "-");
}

void pdl__page_percent(pdl__page_t *page, double share)
{
    if (isfinite(share))
        pdl__page_cell(page, "%.1f %%", 100 * share);
    else
        pdl__page_cell(page, "-");
}

void pdl__page_table_end(pdl__page_t *page)
{
    if (!page->text) {
        end_row(page);
        fputs("</tbody>\n</table>\n</div>\n", page->stream);
        return;
    }
    pdl_status_t status = pdl_table_print(page->table, page->stream);

    if (status && !page->status) page->status = status;
    pdl_table_destroy(page->table);
    page->table = NULL;
    fputc('\n', page->stream);
}

double *pdl__page_numbers(pdl__page_t *page, int count)
{
    double *numbers = pdl_arena_alloc(page->arena, (size_t)count + 1, sizeof(*numbers));

    if (numbers == NULL && !page->status) page->status = PDL_ERR_NOMEM;
    return numbers;
}

double *pdl__page_column(pdl__page_t *page, const pdl_json_value_t *list, const char *name, int count)
{
    double *numbers = pdl__page_numbers(page, count);
    int     i = 0;

    for (const pdl_json_value_t *v = list; numbers != NULL && v != NULL && i < count; v = v->next)
        numbers[i++] = pdl_json_number_of(v, name);
    return numbers;
}

static int higher_first(const void *a, const void *b)
{
    const pdl__ranked_t *one = a, *other = b;

    if (one->score != other->score) return one->score > other->score ? -1 : 1;
    return one->place - other->place;
}

pdl__ranked_t *pdl__page_rank(pdl__page_t *page, const pdl_json_value_t      *list,
                              double (*score)(const pdl_json_value_t *), int *count)
{
    pdl__ranked_t *ranked;
    int            members = 0;

    *count = 0;
    for (const pdl_json_value_t *v = list; v != NULL; v = v->next) members++;
    ranked = pdl_arena_alloc(page->arena, (size_t)members + 1, sizeof(*ranked));
    if (ranked == NULL && !page->status) page->status = PDL_ERR_NOMEM;
    for (const pdl_json_value_t *v = list; ranked != NULL && v != NULL; v = v->next)
        if (isfinite(score(v))) {
            ranked[*count] = (pdl__ranked_t){v, score(v), *count};
            (*count)++;
        }
    if (*count > 0) qsort(ranked, (size_t)*count, sizeof(*ranked), higher_first);
    return ranked;
}

int pdl__page_thin(double *values, int count)
{
    int width = (count + PDL__MOST_POINTS - 1) / PDL__MOST_POINTS, kept = 0;

    if (width <= 1) return count;
    for (int i = 0; i < count; i += width) {
        double sum = 0;
        int    known = 0;

        for (int j = i; j < count && j < i + width; j++) {
            if (!isfinite(values[j])) continue;
            sum += values[j];
            known++;
        }
        values[kept++] = known > 0 ? sum / known : (double)NAN;
    }
    return kept;
}
