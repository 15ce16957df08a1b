/*
 * Timelines of one program that were projected, simulated and measured: operation by operation, what is lost most first.
 */
#include "report/page/trace.h"

#include <paradl/base/units.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ROWS      40
#define MOST_TIMELINES 3 /* projected, simulated, measured */

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
    pdl__page_section(page, "Operations, %s beside %s: %s %s over all%s%s", names[1], names[0],
                      pdl_format_seconds(fabs(all), text), all < 0 ? "gained" : "lost",
                      lost[0].seconds > 0 ? ", most lost in " : "", lost[0].seconds > 0 ? lost[0].name : "");
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

/* What a layer takes in each timeline; NAN where it has none of its operations. */
typedef struct layer {
    const char *name;
    double      seconds[MOST_TIMELINES], lost; /* from the first timeline to the last */
} layer_t;

/* "conv1" of "forward conv1"; NULL of what no layer computes. */
static const char *layer_of(const char *operation)
{
    pdl__look_t look = pdl__trace_look(operation);
    const char *blank = look == PDL__LOOK_FORWARD || look == PDL__LOOK_BACKWARD ? strchr(operation, ' ') : NULL;

    return blank != NULL && strncmp(operation, "wait ", 5) != 0 ? blank + 1 : NULL;
}

static int layer_by_name(const void *a, const void *b)
{
    return strcmp(((const layer_t *)a)->name, ((const layer_t *)b)->name);
}

static int layer_by_loss(const void *a, const void *b)
{
    const layer_t *x = a, *y = b;

    if (x->lost != y->lost) return x->lost > y->lost ? -1 : 1;
    return layer_by_name(a, b);
}

/* Operations of the first timeline in all of them, as often as there; then those of one layer become one. */
static layer_t *sum_layers(pdl__page_t *page, const pdl__document_t *const *trace, int count, int *layers)
{
    pdl__trace_sum_t *sums[MOST_TIMELINES];
    int               ops[MOST_TIMELINES], found = 0;
    layer_t          *list;

    for (int t = 0; t < count; t++) sums[t] = pdl__trace_sums(page, trace[t]->events, false, &ops[t]);
    list = pdl_arena_alloc(page->arena, (size_t)ops[0] + 1, sizeof(*list));
    *layers = 0;
    if (list == NULL) return NULL;
    for (int i = 0; i < ops[0]; i++) {
        layer_t layer = {.name = layer_of(sums[0][i].name)};

        if (layer.name == NULL) continue;
        for (int t = 0; t < count; t++)
            layer.seconds[t] = mean_of(sums[t], ops[t], sums[0][i].name) * (double)sums[0][i].count;
        list[found++] = layer;
    }
    if (found > 0) qsort(list, (size_t)found, sizeof(*list), layer_by_name);
    for (int i = 0; i < found; i++) {
        if (*layers == 0 || strcmp(list[*layers - 1].name, list[i].name) != 0)
            list[(*layers)++] = list[i];
        else
            for (int t = 0; t < count; t++) list[*layers - 1].seconds[t] += list[i].seconds[t];
    }
    return list;
}

/* Layers as they were projected, simulated and measured. */
static void compare_layers(pdl__page_t *page, const pdl__document_t *const *trace, int count)
{
    pdl_column_t columns[MOST_TIMELINES + 2] = {{"layer", PDL_LEFT}};
    int          layers, rows = 0;
    layer_t     *list = sum_layers(page, trace, count, &layers);
    char         text[PDL_FORMAT_SIZE];

    for (int i = 0; list != NULL && i < layers; i++) {
        list[i].lost = list[i].seconds[count - 1] - list[i].seconds[0];
        if (isfinite(list[i].lost)) list[rows++] = list[i];
    }
    if (rows == 0) return;
    qsort(list, (size_t)rows, sizeof(*list), layer_by_loss);
    for (int t = 0; t < count; t++) columns[t + 1] = (pdl_column_t){pdl__trace_source(trace[t]), PDL_RIGHT};
    columns[count + 1] = (pdl_column_t){"lost", PDL_RIGHT};
    if (list[0].lost > 0)
        pdl__page_section(page, "Layers: %s loses most, %s of an iteration", list[0].name,
                          pdl_format_seconds(list[0].lost, text));
    else
        pdl__page_section(page, "Layers: none is slower than %s", pdl__trace_source(trace[0]));
    pdl__page_table(page, "Layers of the first rank in an iteration, forward and backward, most lost first",
                    columns, count + 2);
    for (int i = 0; i < rows && i < MOST_ROWS; i++) {
        pdl__page_row(page);
        pdl__page_cell(page, "%s", list[i].name);
        for (int t = 0; t < count; t++) pdl__page_seconds(page, list[i].seconds[t]);
        pdl__page_cell(page, "%s%s", list[i].lost < 0 ? "-" : "", pdl_format_seconds(fabs(list[i].lost), text));
    }
    pdl__page_table_end(page);
    if (rows > MOST_ROWS) pdl__page_say(page, "%d more layers lose less.", rows - MOST_ROWS);
}

/* Projected first, measured last; one timeline of each source. */
static int take_sources(const pdl_documents_t *documents, const pdl__document_t *taken[MOST_TIMELINES])
{
    int count = 0;

    for (int place = MOST_TIMELINES - 1; place >= 0; place--)
        for (int i = 0; i < documents->count; i++)
            if (strcmp(documents->item[i].kind, "trace") == 0 && pdl__trace_place(&documents->item[i]) == place) {
                taken[count++] = &documents->item[i];
                break;
            }
    return count;
}

void pdl__page_compare_traces(pdl__page_t *page, const pdl_documents_t *documents)
{
    const pdl__document_t *base = NULL, *sources[MOST_TIMELINES];
    int                    count = take_sources(documents, sources);
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
            if (count > 1) compare_layers(page, sources, count);
        }
        headed = true;
        compare_two(page, base, &documents->item[i]);
    }
    pdl__page_section_end(page);
}
