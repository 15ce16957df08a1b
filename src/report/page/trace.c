/*
 * Pages of timelines: which class of operations takes the time, a still of the tracks, and, of timelines of one program that were
 * projected, simulated and measured, operation by operation, what is lost most first.
 */
#include "report/page/page.h"

#include <paradl/base/units.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TRACKS  24
#define MOST_SLICES  1500
#define MOST_CLASSES 24
#define MOST_ROWS    40
#define WIDTH        900
#define LEFT         190
#define ROW          22

/* Slices of one track have the same process and thread. */
typedef struct track {
    double process, thread;
} track_t;

/* All slices of one name, of the first process. */
typedef struct operation {
    const char *name;
    double      seconds;
    int         count;
} operation_t;

static bool is_slice(const pdl_json_value_t *event)
{
    const char *phase = pdl_json_text_of(event, "ph");

    return phase != NULL && strcmp(phase, "X") == 0 && pdl_json_text_of(event, "name") != NULL &&
           isfinite(pdl_json_number_of(event, "ts")) && pdl_json_number_of(event, "dur") >= 0;
}

static const pdl_json_value_t *events_of(const pdl__document_t *trace)
{
    return pdl_json_first(trace->head, "traceEvents");
}

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

static const char *verb_of(const pdl__document_t *trace)
{
    const pdl_json_value_t *word = pdl_json_first(trace->head, "command");

    word = word != NULL ? word->next : NULL;
    return word != NULL && word->kind == PDL_JSON_STRING ? word->text : "";
}

/* How the times came about. */
static const char *source_of(const pdl__document_t *trace)
{
    const char *verb = verb_of(trace);

    return strcmp(verb, "plan") == 0       ? "projected"
           : strcmp(verb, "simulate") == 0 ? "simulated"
           : strcmp(verb, "train") == 0    ? "measured"
                                           : "timeline";
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const operation_t *)a)->name, ((const operation_t *)b)->name);
}

/* Sums over names, of the first process; `length` cuts names to their class. */
static operation_t *sum_names(pdl__page_t *page, const pdl__document_t *trace, int (*length)(const char *),
                              int *count)
{
    operation_t *sums;
    double       process = NAN;
    int          slices = 0, kept = 0;

    *count = 0;
    for (const pdl_json_value_t *e = events_of(trace); e != NULL; e = e->next) slices += is_slice(e);
    sums = pdl_arena_alloc(page->arena, (size_t)slices + 1, sizeof(*sums));
    if (sums == NULL && !page->status) page->status = PDL_ERR_NOMEM;
    if (sums == NULL) return NULL;
    slices = 0;
    for (const pdl_json_value_t *e = events_of(trace); e != NULL; e = e->next) {
        const char *name = is_slice(e) ? pdl_json_text_of(e, "name") : NULL;

        if (name == NULL) continue;
        if (isnan(process)) process = pdl_json_number_of(e, "pid");
        if (pdl_json_number_of(e, "pid") != process) continue;
        if (length != NULL) name = pdl_arena_strndup(page->arena, name, (size_t)length(name));
        if (name != NULL) sums[slices++] = (operation_t){name, 1e-6 * pdl_json_number_of(e, "dur"), 1};
    }
    if (slices > 0) qsort(sums, (size_t)slices, sizeof(*sums), by_name);
    for (int i = 0; i < slices; i++) {
        if (kept > 0 && strcmp(sums[kept - 1].name, sums[i].name) == 0) {
            sums[kept - 1].seconds += sums[i].seconds;
            sums[kept - 1].count++;
        } else {
            sums[kept++] = sums[i];
        }
    }
    *count = kept;
    return sums;
}

static int longest_first(const void *a, const void *b)
{
    const operation_t *x = a, *y = b;

    if (x->seconds != y->seconds) return x->seconds > y->seconds ? -1 : 1;
    return by_name(a, b);
}

static void list_classes(pdl__page_t *page, const pdl__document_t *trace)
{
    static const pdl_column_t columns[] = {{"class", PDL_LEFT},
                                           {"operations", PDL_RIGHT},
                                           {"time", PDL_RIGHT},
                                           {"share", PDL_RIGHT}};
    int                       count;
    operation_t              *classes = sum_names(page, trace, class_length, &count);
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
        pdl__page_cell(page, "%d", classes[i].count);
        pdl__page_seconds(page, classes[i].seconds);
        pdl__page_percent(page, all > 0 ? classes[i].seconds / all : NAN);
    }
    pdl__page_table_end(page);
}

/* The name that a process or thread was given. */
static const char *track_name(pdl__page_t *page, const pdl__document_t *trace, const track_t *track)
{
    const char *process = NULL, *thread = NULL;

    for (const pdl_json_value_t *e = events_of(trace); e != NULL; e = e->next) {
        const char *phase = pdl_json_text_of(e, "ph"), *what = pdl_json_text_of(e, "name");

        if (phase == NULL || strcmp(phase, "M") != 0 || what == NULL ||
            pdl_json_number_of(e, "pid") != track->process)
            continue;
        if (strcmp(what, "process_name") == 0) process = pdl_json_text_of(e, "args.name");
        if (strcmp(what, "thread_name") == 0 && pdl_json_number_of(e, "tid") == track->thread)
            thread = pdl_json_text_of(e, "args.name");
    }
    return pdl__page_print(page, "%.20s %.30s", pdl__page_or(process, "?"), pdl__page_or(thread, ""));
}

static int find_track(track_t *tracks, int *count, const pdl_json_value_t *event)
{
    double process = pdl_json_number_of(event, "pid"), thread = pdl_json_number_of(event, "tid");
    int    t = 0;

    while (t < *count && (tracks[t].process != process || tracks[t].thread != thread)) t++;
    if (t < *count) return t;
    if (*count == MOST_TRACKS) return -1;
    tracks[*count] = (track_t){process, thread};
    return (*count)++;
}

static void draw_slice(pdl__page_t *page, const pdl_json_value_t *event, int track, double per_us, double first)
{
    const char *name = pdl_json_text_of(event, "name");
    double      x = LEFT + (pdl_json_number_of(event, "ts") - first) * per_us,
           width = pdl_json_number_of(event, "dur") * per_us;
    char text[PDL_FORMAT_SIZE];

    fprintf(page->stream, "<rect class=\"fill hue%d\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"><title>",
            pdl__look_hue(look_of(name)), x, track * ROW + 3, width > 0.3 ? width : 0.3, ROW - 6);
    pdl__chart_escape(name, page->stream);
    fprintf(page->stream, ": %s</title></rect>\n",
            pdl_format_seconds(1e-6 * pdl_json_number_of(event, "dur"), text));
}

/* A picture of the first slices, also for paper; the script of the page puts one that can be moved in its place. */
static void draw_still(pdl__page_t *page, const pdl__document_t *trace)
{
    track_t tracks[MOST_TRACKS];
    int     count = 0, slices = 0, all = 0;
    double  first = INFINITY, last = 0;
    char    text[PDL_FORMAT_SIZE];

    for (const pdl_json_value_t *e = events_of(trace); e != NULL; e = e->next) {
        if (!is_slice(e) || find_track(tracks, &count, e) < 0 || all++ >= MOST_SLICES) continue;
        first = fmin(first, pdl_json_number_of(e, "ts"));
        last = fmax(last, pdl_json_number_of(e, "ts") + pdl_json_number_of(e, "dur"));
    }
    if (all == 0 || page->text || !(last > first)) return;
    pdl__page_section(page, "Timeline: %s of %d operations on %d tracks",
                      pdl_format_seconds(1e-6 * (last - first), text), all < MOST_SLICES ? all : MOST_SLICES,
                      count);
    fprintf(page->stream,
            "<figure class=\"timeline\"><div class=\"wide\" tabindex=\"0\">\n<svg class=\"chart\" role=\"img\" "
            "aria-labelledby=\"%st%d\" "
            "viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\"><title id=\"%st%d\">timeline</title>\n",
            page->prefix, page->sections, WIDTH, count * ROW, WIDTH, count * ROW, page->prefix, page->sections);
    for (int t = 0; t < count; t++) {
        fprintf(page->stream, "<text x=\"0\" y=\"%d\">", t * ROW + 15);
        pdl__chart_escape(track_name(page, trace, &tracks[t]), page->stream);
        fputs("</text>\n", page->stream);
    }
    for (const pdl_json_value_t *e = events_of(trace); e != NULL && slices < MOST_SLICES; e = e->next) {
        int track = is_slice(e) ? find_track(tracks, &count, e) : -1;

        if (track < 0) continue;
        draw_slice(page, e, track, (WIDTH - LEFT) / (last - first), first);
        slices++;
    }
    fprintf(page->stream,
            "</svg>\n</div><figcaption>A rectangle is an operation, named when it is pointed "
            "at%s.</figcaption></figure>\n",
            all > MOST_SLICES ? "; the picture has the first 1500" : "");
}

void pdl__page_trace(pdl__page_t *page, const pdl__document_t *trace)
{
    double last = 0;
    int    slices = 0;
    char   text[PDL_FORMAT_SIZE];

    for (const pdl_json_value_t *e = events_of(trace); e != NULL; e = e->next)
        if (is_slice(e)) {
            last = fmax(last, 1e-6 * (pdl_json_number_of(e, "ts") + pdl_json_number_of(e, "dur")));
            slices++;
        }
    pdl__page_heading(page, "Timeline: %s, %s", trace->name, source_of(trace));
    pdl__page_answer(page, "%d operations in %s.", slices, pdl_format_seconds(last, text));
    list_classes(page, trace);
    draw_still(page, trace);
}

/* Seconds of one execution of an operation; NAN where the timeline has none. */
static double mean_of(const operation_t *sums, int count, const char *name)
{
    operation_t        wanted = {.name = name};
    const operation_t *found = count > 0 ? bsearch(&wanted, sums, (size_t)count, sizeof(*sums), by_name) : NULL;

    return found != NULL ? found->seconds / found->count : (double)NAN;
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
    const char  *names[2] = {source_of(base), source_of(other)};
    pdl_column_t columns[] = {{"operation", PDL_LEFT},
                              {names[0], PDL_RIGHT},
                              {names[1], PDL_RIGHT},
                              {"lost", PDL_RIGHT}};
    int          base_count, other_count, rows = 0, only[2] = {0, 0};
    operation_t *b = sum_names(page, base, NULL, &base_count), *o = sum_names(page, other, NULL, &other_count);
    lost_t      *lost = pdl_arena_alloc(page->arena, (size_t)base_count + 1, sizeof(*lost));
    char         text[PDL_FORMAT_SIZE];
    double       all = 0;

    for (int i = 0; lost != NULL && i < base_count; i++) {
        double seconds = mean_of(o, other_count, b[i].name), mean = b[i].seconds / b[i].count;

        only[0] += isnan(seconds);
        if (isnan(seconds)) continue;
        lost[rows++] = (lost_t){b[i].name, mean, seconds, (seconds - mean) * b[i].count};
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
        pdl__page_say(page, "%d operations are only %s, %d only %s.", only[0], names[0], only[1], names[1]);
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
        if (!headed) pdl__page_heading(page, "Timelines side by side");
        headed = true;
        compare_two(page, base, &documents->item[i]);
    }
    pdl__page_section_end(page);
}
