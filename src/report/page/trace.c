/*
 * Pages of timelines: which class of operations takes the time, all of it and on the critical path, and memory over time.
 */
#include "report/page/trace.h"

#include <paradl/base/units.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CLASSES 24
#define MOST_CURVES  8

/* "forward" of "forward conv1". */
static int class_length(const char *name)
{
    return (int)strcspn(name, " ");
}

int pdl__trace_by_name(const void *a, const void *b)
{
    return strcmp(((const pdl__trace_sum_t *)a)->name, ((const pdl__trace_sum_t *)b)->name);
}

/* Sums over the numbers of names, of the first process. */
static pdl__trace_sum_t *sum_texts(pdl__page_t *page, const pdl__events_t *events, int *count)
{
    pdl__trace_sum_t *sums = pdl_arena_alloc(page->arena, (size_t)events->text_count + 1, sizeof(*sums));
    int64_t           process = 0;
    bool              any = false;

    *count = 0;
    if (sums == NULL && !page->status) page->status = PDL_ERR_NOMEM;
    for (int64_t i = 0; sums != NULL && i < events->count; i++) {
        const pdl__event_t *event = &events->event[i];

        if (!pdl__event_is_slice(events, event)) continue;
        if (!any) process = events->track[event->track].process;
        any = true;
        if (events->track[event->track].process != process) continue;
        sums[event->name].name = events->text[event->name];
        sums[event->name].seconds += 1e-9 * (double)event->length;
        sums[event->name].count++;
    }
    for (int i = 0; sums != NULL && i < events->text_count; i++)
        if (sums[i].count > 0) sums[(*count)++] = sums[i];
    return sums;
}

/* Those of one name become one; of classes, those whose names begin alike. */
static void merge(pdl__page_t *page, pdl__trace_sum_t *sums, bool classes, int *count)
{
    int kept = 0;

    if (*count == 0) return;
    for (int i = 0; i < *count && classes; i++) {
        sums[i].name = pdl_arena_strndup(page->arena, sums[i].name, (size_t)class_length(sums[i].name));
        if (sums[i].name == NULL) sums[i].name = "";
    }
    qsort(sums, (size_t)*count, sizeof(*sums), pdl__trace_by_name);
    for (int i = 0; i < *count; i++) {
        if (kept > 0 && strcmp(sums[kept - 1].name, sums[i].name) == 0) {
            sums[kept - 1].seconds += sums[i].seconds;
            sums[kept - 1].count += sums[i].count;
        } else {
            sums[kept++] = sums[i];
        }
    }
    *count = kept;
}

pdl__trace_sum_t *pdl__trace_sums(pdl__page_t *page, const pdl__events_t *events, bool classes, int *count)
{
    pdl__trace_sum_t *sums = sum_texts(page, events, count);

    merge(page, sums, classes, count);
    return sums;
}

static int longest_first(const void *a, const void *b)
{
    const pdl__trace_sum_t *x = a, *y = b;

    if (x->seconds != y->seconds) return x->seconds > y->seconds ? -1 : 1;
    return pdl__trace_by_name(a, b);
}

static const pdl_column_t class_columns[] = {{"class", PDL_LEFT},
                                             {"operations", PDL_RIGHT},
                                             {"time", PDL_RIGHT},
                                             {"share", PDL_RIGHT}};

static double sum_of(pdl__trace_sum_t *classes, int count)
{
    double all = 0;

    if (count > 0) qsort(classes, (size_t)count, sizeof(*classes), longest_first);
    for (int i = 0; i < count; i++) all += classes[i].seconds;
    return all;
}

static void write_classes(pdl__page_t *page, const char *caption, const pdl__trace_sum_t *classes, int count,
                          double all)
{
    pdl__page_table(page, caption, class_columns, 4);
    for (int i = 0; i < count && i < MOST_CLASSES; i++) {
        pdl__page_row(page);
        pdl__page_cell(page, "%s", classes[i].name);
        pdl__page_cell(page, "%lld", (long long)classes[i].count);
        pdl__page_seconds(page, classes[i].seconds);
        pdl__page_percent(page, all > 0 ? classes[i].seconds / all : NAN);
    }
    pdl__page_table_end(page);
}

static void list_classes(pdl__page_t *page, const pdl__events_t *events)
{
    int               count;
    pdl__trace_sum_t *classes = pdl__trace_sums(page, events, true, &count);
    double            all = sum_of(classes, count);

    if (count == 0) return;
    pdl__page_section(page, "Classes of operations: %s takes %.0f %%", classes[0].name,
                      all > 0 ? 100 * classes[0].seconds / all : 0);
    write_classes(page, "Time of the first rank by class of operation", classes, count, all);
}

/* What the steps of the path add to its length, by class, and what lies between them. */
static pdl__trace_sum_t *sum_path(pdl__page_t *page, const pdl__events_t *events, int *count, int *changes)
{
    const pdl__path_t *path = &events->path;
    pdl__trace_sum_t  *sums = pdl_arena_alloc(page->arena, (size_t)path->step_count + 1, sizeof(*sums));
    pdl__trace_sum_t   idle = {.name = "between operations"};
    int64_t            process = 0;

    *count = *changes = 0;
    if (sums == NULL && !page->status) page->status = PDL_ERR_NOMEM;
    for (int64_t i = 0; sums != NULL && i < path->step_count; i++) {
        const pdl__event_t *event = &events->event[path->step[i].event];

        sums[i] = (pdl__trace_sum_t){events->text[event->name], 1e-9 * (double)path->step[i].own_ns, 1};
        idle.seconds += 1e-9 * (double)path->step[i].idle_ns;
        idle.count += path->step[i].idle_ns > 0;
        *changes += i > 0 && events->track[event->track].process != process;
        process = events->track[event->track].process;
        *count = (int)i + 1;
    }
    merge(page, sums, true, count);
    if (idle.count > 0) sums[(*count)++] = idle;
    return sums;
}

/* On one track everything is on the path. */
static void say_path(pdl__page_t *page, pdl__events_t *events)
{
    int               count, changes, tracks = 0;
    pdl__trace_sum_t *classes;
    double            all;
    char              text[PDL_FORMAT_SIZE];

    for (int t = 0; t < events->track_count; t++) tracks += events->track[t].kind == PDL__TRACK_SLICES;
    if (tracks < 2) return;
    if (pdl__events_path(events)) {
        if (!page->status) page->status = PDL_ERR_NOMEM;
        return;
    }
    classes = sum_path(page, events, &count, &changes);
    all = sum_of(classes, count);
    if (count == 0) return;
    pdl__page_section(page, "Critical path: %s takes %.0f %%", classes[0].name,
                      all > 0 ? 100 * classes[0].seconds / all : 0);
    pdl__page_say(page,
                  "The chain of %lld operations behind the one that ends last takes %s and changes ranks %d %s. "
                  "What is not on it "
                  "can become slower without delay, as long as it stays beside it.",
                  (long long)events->path.step_count, pdl_format_seconds(all, text), changes,
                  changes == 1 ? "time" : "times");
    write_classes(page, "Time on the critical path by class of operation", classes, count, all);
}

/* The slice of a process that is computed at a moment; NULL: none. */
static const char *slice_at(const pdl__events_t *events, int64_t process, int64_t at_ns)
{
    for (int64_t i = 0; i < events->count; i++) {
        const pdl__event_t *event = &events->event[i];

        if (pdl__event_is_slice(events, event) && events->track[event->track].process == process &&
            event->start_ns <= at_ns && at_ns < event->start_ns + event->length)
            return events->text[event->name];
    }
    return NULL;
}

static int counter_points(pdl__page_t *page, const pdl__events_t *events, int track, pdl__series_t *series)
{
    double *x, *y;
    int     count = 0;

    for (int64_t i = 0; i < events->count; i++) count += events->event[i].track == track;
    x = pdl__page_numbers(page, count);
    y = pdl__page_numbers(page, count);
    if (x == NULL || y == NULL) return 0;
    *series = (pdl__series_t){.name = pdl__page_or(events->track[track].process_name, "?"),
                              .mark = PDL__MARK_STEP,
                              .x = x,
                              .y = y};
    for (int64_t i = 0; i < events->count && series->count < PDL__MOST_POINTS; i++) {
        if (events->event[i].track != track) continue;
        x[series->count] = 1e-9 * (double)events->event[i].start_ns;
        y[series->count++] = (double)events->event[i].length;
    }
    return series->count > 1;
}

static const pdl__event_t *highest(const pdl__events_t *events)
{
    const pdl__event_t *most = NULL;

    for (int64_t i = 0; i < events->count; i++) {
        const pdl__event_t *event = &events->event[i];

        if (events->track[event->track].kind == PDL__TRACK_COUNTER &&
            (most == NULL || event->length > most->length))
            most = event;
    }
    return most;
}

static void draw_memory(pdl__page_t *page, const pdl__events_t *events)
{
    const pdl__event_t *most = highest(events);
    pdl__series_t       series[MOST_CURVES + 1];
    double              at[2], peak[2];
    pdl__chart_t        chart = {.title = "memory of tensors over time",
                                 .x = {.label = "time", .format = pdl_format_seconds},
                                 .y = {.label = "bytes", .from_zero = true, .format = pdl_format_bytes},
                                 .series = series};
    char                bytes[PDL_FORMAT_SIZE], when[PDL_FORMAT_SIZE];

    if (most == NULL) return;
    for (int t = 0; t < events->track_count && chart.series_count < MOST_CURVES; t++)
        if (events->track[t].kind == PDL__TRACK_COUNTER)
            chart.series_count += counter_points(page, events, t, &series[chart.series_count]);
    if (chart.series_count == 0) return;
    at[0] = 1e-9 * (double)most->start_ns;
    peak[0] = (double)most->length;
    series[chart.series_count++] =
        (pdl__series_t){.name = "peak", .mark = PDL__MARK_POINT, .x = at, .y = peak, .count = 1};
    pdl__page_section(page, "Memory over time: %s at most, at %s in %s",
                      pdl_format_bytes((double)most->length, bytes), pdl_format_seconds(at[0], when),
                      pdl__page_or(slice_at(events, events->track[most->track].process, most->start_ns),
                                   "no operation"));
    pdl__page_chart(page, &chart,
                    "Bytes of the tensors that are alive when an operation begins; weights, gradients and the "
                    "state of the optimizer "
                    "come on top.");
}

/* What is to be known of clocks, and what is left out. */
static void say_labels(pdl__page_t *page, const pdl__events_t *events)
{
    int said = 0;

    for (int64_t i = 0; i < events->count && said < 8; i++) {
        const char       *text = events->text[events->event[i].name], *label;
        pdl_json_value_t *value;

        if (events->track[events->event[i].track].kind != PDL__TRACK_OTHER ||
            strstr(text, "process_labels") == NULL)
            continue;
        if (pdl_json_read(page->arena, text, strlen(text), "an event", 1, &value)) continue;
        label = pdl_json_text_of(value, "args.labels");
        if (label == NULL) continue;
        pdl__page_say(page, "Rank %.0f: %s.", pdl_json_number_of(value, "pid"), label);
        said++;
    }
    if (events->left_out > 0)
        pdl__page_say(page, "%lld later operations are left out: --max-events shows more.",
                      (long long)events->left_out);
}

/* How the times came about. */
const char *pdl__trace_source(const pdl__document_t *trace)
{
    const pdl_json_value_t *word = pdl_json_first(trace->head, "command");
    const char             *verb;

    word = word != NULL ? word->next : NULL;
    verb = word != NULL && word->kind == PDL_JSON_STRING ? word->text : "";
    return strcmp(verb, "plan") == 0       ? "projected"
           : strcmp(verb, "simulate") == 0 ? "simulated"
           : strcmp(verb, "train") == 0    ? "measured"
                                           : "timeline";
}

void pdl__page_trace(pdl__page_t *page, const pdl__document_t *trace)
{
    pdl__events_t *events = trace->events;
    int64_t        slices = 0, last_ns = 0;
    char           text[PDL_FORMAT_SIZE];

    for (int64_t i = 0; i < events->count; i++) {
        const pdl__event_t *event = &events->event[i];

        if (!pdl__event_is_slice(events, event)) continue;
        slices++;
        if (event->start_ns + event->length > last_ns) last_ns = event->start_ns + event->length;
    }
    pdl__page_heading(page, "Timeline: %s, %s", trace->name, pdl__trace_source(trace));
    pdl__page_answer(page, "%lld operations in %s.", (long long)slices,
                     pdl_format_seconds(1e-9 * (double)last_ns, text));
    say_labels(page, events);
    list_classes(page, events);
    say_path(page, events);
    pdl__trace_still(page, events);
    draw_memory(page, events);
}
