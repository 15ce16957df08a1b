/*
 * Timelines of one program that were projected, simulated and measured: operation by operation, what is lost most first.
 */
#include "report/page/trace.h"

#include <paradl/base/units.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ROWS 40

/* Seconds of one execution of an operation; NAN where the timeline has none. */
static double mean_of(const pdl__trace_sum_t *sums, int count, const char *name)
{
    pdl__trace_sum_t        wanted = {.name = name};
    const pdl__trace_sum_t *found =
        count > 0 ? bsearch(&wanted, sums, (size_t)count, sizeof(*sums), pdl__trace_by_name) : NULL;

    return found != NULL ? found->seconds / (double)found->count : (double)NAN;
}

typedef struct lost {
    const char *name;
    double      base, other, seconds; /* means, and what is lost over all executions of the first timeline */
} lost_t;

static int most_lost_first(const void *a, const void *b)
{
    const lost_t *x = a, *y = b;

    if (x->seconds != y->seconds) return x->seconds > y->seconds ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void compare_two(pdl__page_t *page, const pdl__document_t *base, const pdl__document_t *other)
{
    const char       *names[2] = {pdl__trace_source(base), pdl__trace_source(other)};
    pdl_column_t      columns[] = {{"operation", PDL_LEFT},
                                   {names[0], PDL_RIGHT},
                                   {names[1], PDL_RIGHT},
                                   {"lost", PDL_RIGHT}};
    int               base_count, other_count, rows = 0, only[2] = {0, 0};
    pdl__trace_sum_t *b = pdl__trace_sums(page, base->events, false, &base_count),
                     *o = pdl__trace_sums(page, other->events, false, &other_count);
    lost_t *lost = pdl_arena_alloc(page->arena, (size_t)base_count + 1, sizeof(*lost));
    char    text[PDL_FORMAT_SIZE];
    double  all = 0;

    for (int i = 0; lost != NULL && i < base_count; i++) {
        double seconds = mean_of(o, other_count, b[i].name), mean = b[i].seconds / (double)b[i].count;

        only[0] += isnan(seconds);
        if (isnan(seconds)) continue;
        lost[rows++] = (lost_t){b[i].name, mean, seconds, (seconds - mean) * (double)b[i].count};
        all += lost[rows - 1].seconds;
    }
    for (int i = 0; i < other_count; i++) only[1] += isnan(mean_of(b, base_count, o[i].name));
    if (rows == 0) return;
    qsort(lost, (size_t)rows, sizeof(*lost), most_lost_first);
    pdl__page_section(page, "%s beside %s: %s%s over all, most in %s", names[1], names[0], all < 0 ? "-" : "",
                      pdl_format_seconds(fabs(all), text), lost[0].name);
    pdl__page_table(page,
                    "One execution of an operation by the first rank; seconds lost over an iteration, most first",
                    columns, 4);
    for (int i = 0; i < rows && i < MOST_ROWS; i++) {
        pdl__page_row(page);
        pdl__page_cell(page, "%s", lost[i].name);
        pdl__page_seconds(page, lost[i].base);
        pdl__page_seconds(page, lost[i].other);
        pdl__page_cell(page, "%s%s", lost[i].seconds < 0 ? "-" : "",
                       pdl_format_seconds(fabs(lost[i].seconds), text));
    }
    pdl__page_table_end(page);
    if (only[0] + only[1] > 0)
        pdl__page_say(page, "Only %s: %d; only %s: %d.", names[0], only[0], names[1], only[1]);
}

void pdl__page_compare_traces(pdl__page_t *page, const pdl_documents_t *documents)
{
    const pdl__document_t *base = NULL;
    bool                   headed = false;

    for (int i = 0; i < documents->count; i++) {
        if (strcmp(documents->item[i].kind, "trace") != 0) continue;
        if (base == NULL) {
            base = &documents->item[i];
            continue;
        }
        if (!headed) {
            pdl__page_heading(page, "Timelines side by side");
            pdl__trace_beside(page, documents);
        }
        headed = true;
        compare_two(page, base, &documents->item[i]);
    }
    pdl__page_section_end(page);
}
