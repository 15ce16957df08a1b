/*
 * Pages of timelines: which class of operations takes the time, a still of the tracks, and memory over time.
 */
#include "report/page/trace.h"

#include <paradl/base/units.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TRACKS  24
#define MOST_SLICES  1500
#define MOST_CLASSES 24
#define MOST_CURVES  8
#define WIDTH        900
#define LEFT         190
#define ROW          22

/* "forward" of "forward conv1". */
static int class_length(const char *name)
{
    return (int)strcspn(name, " ");
}

static pdl__look_t look_of(const char *name)
{
    static const struct {
        const char *begin;
        pdl__look_t look;
    } looks[] = {{"forward", PDL__LOOK_FORWARD},     {"recompute", PDL__LOOK_FORWARD},
                 {"dgrad", PDL__LOOK_BACKWARD},      {"wgrad", PDL__LOOK_BACKWARD},
                 {"backward", PDL__LOOK_BACKWARD},   {"update", PDL__LOOK_UPDATE},
                 {"collective", PDL__LOOK_GRADIENT}, {"exchange", PDL__LOOK_GRADIENT},
                 {"redistribute", PDL__LOOK_LAYER},  {"halo", PDL__LOOK_HALO},
                 {"send", PDL__LOOK_STAGE},          {"recv", PDL__LOOK_STAGE}};

    for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++)
        if (strncmp(name, looks[i].begin, strlen(looks[i].begin)) == 0) return looks[i].look;
    return PDL__LOOK_INPUT;
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

pdl__trace_sum_t *pdl__trace_sums(pdl__page_t *page, const pdl__events_t *events, bool classes, int *count)
{
    pdl__trace_sum_t *sums = sum_texts(page, events, count);
    int               kept = 0;

    if (*count == 0) return sums;
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
    return sums;
}

static int longest_first(const void *a, const void *b)
{
    const pdl__trace_sum_t *x = a, *y = b;

    if (x->seconds != y->seconds) return x->seconds > y->seconds ? -1 : 1;
    return pdl__trace_by_name(a, b);
}

static void list_classes(pdl__page_t *page, const pdl__events_t *events)
{
    static const pdl_column_t columns[] = {{"class", PDL_LEFT},
                                           {"operations", PDL_RIGHT},
                                           {"time", PDL_RIGHT},
                                           {"share", PDL_RIGHT}};
    int                       count;
    pdl__trace_sum_t         *classes = pdl__trace_sums(page, events, true, &count);
    double                    all = 0;

    if (count == 0) return;
    qsort(classes, (size_t)count, sizeof(*classes), longest_first);
    for (int i = 0; i < count; i++) all += classes[i].seconds;
    pdl__page_section(page, "Classes of operations: %s takes %.0f %%", classes[0].name,
                      all > 0 ? 100 * classes[0].seconds / all : 0);
    pdl__page_table(page, "Time of the first rank by class of operation", columns, 4);
    for (int i = 0; i < count && i < MOST_CLASSES; i++) {
        pdl__page_row(page);
        pdl__page_cell(page, "%s", classes[i].name);
        pdl__page_cell(page, "%lld", (long long)classes[i].count);
        pdl__page_seconds(page, classes[i].seconds);
        pdl__page_percent(page, all > 0 ? classes[i].seconds / all : NAN);
    }
    pdl__page_table_end(page);
}

/* What is drawn: the first tracks with slices, and of them the slices that begin before `end_ns`. */
typedef struct still {
    int     track[MOST_TRACKS]; /* numbers of the timeline */
    int     tracks, all_tracks;
    int64_t slices, all_slices;
    int64_t first_ns, last_ns, end_ns;
} still_t;

static int row_of(const still_t *still, int track)
{
    int row = 0;

    while (row < still->tracks && still->track[row] != track) row++;
    return row < still->tracks ? row : -1;
}

static int earlier_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static bool is_drawn(const still_t *still, const pdl__events_t *events, const pdl__event_t *event)
{
    return pdl__event_is_slice(events, event) && event->start_ns < still->end_ns &&
           row_of(still, event->track) >= 0;
}

/* Where there are more slices than one could see, those of the first moments, of all tracks. */
static bool find_still(pdl__page_t *page, const pdl__events_t *events, still_t *still)
{
    int64_t *starts = pdl_arena_alloc(page->arena, (size_t)events->count + 1, sizeof(*starts));

    *still = (still_t){.first_ns = INT64_MAX, .last_ns = INT64_MIN, .end_ns = INT64_MAX};
    if (starts == NULL) return false;
    for (int t = 0; t < events->track_count; t++) {
        if (events->track[t].kind != PDL__TRACK_SLICES) continue;
        still->all_tracks++;
        if (still->tracks < MOST_TRACKS) still->track[still->tracks++] = t;
    }
    for (int64_t i = 0; i < events->count; i++)
        if (is_drawn(still, events, &events->event[i])) starts[still->all_slices++] = events->event[i].start_ns;
    qsort(starts, (size_t)still->all_slices, sizeof(*starts), earlier_first);
    if (still->all_slices > MOST_SLICES) still->end_ns = starts[MOST_SLICES];
    for (int64_t i = 0; i < events->count; i++) {
        const pdl__event_t *event = &events->event[i];

        if (!is_drawn(still, events, event)) continue;
        still->slices++;
        if (event->start_ns < still->first_ns) still->first_ns = event->start_ns;
        if (event->start_ns + event->length > still->last_ns) still->last_ns = event->start_ns + event->length;
    }
    return still->slices > 0 && still->last_ns > still->first_ns;
}

static void draw_slice(pdl__page_t *page, const still_t *still, const pdl__events_t *events,
                       const pdl__event_t *event)
{
    const char *name = events->text[event->name];
    double      per_ns = (double)(WIDTH - LEFT) / (double)(still->last_ns - still->first_ns);
    double x = LEFT + (double)(event->start_ns - still->first_ns) * per_ns, width = (double)event->length * per_ns;
    char   text[PDL_FORMAT_SIZE];

    fprintf(page->stream, "<rect class=\"fill hue%d\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"><title>",
            pdl__look_hue(look_of(name)), x, row_of(still, event->track) * ROW + 3, width > 0.3 ? width : 0.3,
            ROW - 6);
    pdl__chart_escape(name, page->stream);
    fprintf(page->stream, ": %s</title></rect>\n", pdl_format_seconds(1e-9 * (double)event->length, text));
}

static void draw_rows(pdl__page_t *page, const still_t *still, const pdl__events_t *events)
{
    int height = still->tracks * ROW;

    fprintf(page->stream,
            "<figure class=\"timeline\"><div class=\"wide\" tabindex=\"0\">\n<svg class=\"chart\" role=\"img\" "
            "aria-labelledby=\"%st%d\" "
            "viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\"><title id=\"%st%d\">timeline</title>\n",
            page->prefix, page->sections, WIDTH, height, WIDTH, height, page->prefix, page->sections);
    for (int row = 0; row < still->tracks; row++) {
        const pdl__track_t *track = &events->track[still->track[row]];

        fprintf(page->stream, "<text x=\"0\" y=\"%d\">", row * ROW + 15);
        pdl__chart_escape(pdl__page_print(page, "%.20s %.30s", pdl__page_or(track->process_name, "?"),
                                          pdl__page_or(track->thread_name, "")),
                          page->stream);
        fputs("</text>\n", page->stream);
    }
    for (int64_t i = 0; i < events->count; i++)
        if (is_drawn(still, events, &events->event[i])) draw_slice(page, still, events, &events->event[i]);
    fprintf(page->stream,
            "</svg>\n</div><figcaption>A rectangle is an operation, named when it is pointed "
            "at%s.</figcaption></figure>\n",
            still->slices < still->all_slices ? "; the picture shows the first moments" : "");
}

/* A picture of the first slices, also for paper; the script of the page puts one that can be moved in its place. */
static void draw_still(pdl__page_t *page, const pdl__events_t *events)
{
    still_t still;
    char    text[PDL_FORMAT_SIZE];

    if (page->text || !find_still(page, events, &still)) return;
    pdl__page_section(page, "Timeline: %s of %lld %s on %s%d %s",
                      pdl_format_seconds(1e-9 * (double)(still.last_ns - still.first_ns), text),
                      (long long)still.slices, still.slices == 1 ? "operation" : "operations",
                      still.tracks < still.all_tracks ? "the first of " : "", still.all_tracks,
                      still.all_tracks == 1 ? "track" : "tracks");
    draw_rows(page, &still, events);
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
    const pdl__events_t *events = trace->events;
    int64_t              slices = 0, last_ns = 0;
    char                 text[PDL_FORMAT_SIZE];

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
    draw_still(page, events);
    draw_memory(page, events);
}
