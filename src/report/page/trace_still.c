/*
 * A still of a timeline, also for paper: its first slices, the critical path among them, and messages between ranks. The script of
 * the page puts one that can be moved in its place.
 */
#include "report/page/trace.h"

#include <paradl/base/units.h>
#include <paradl/plan/mesh.h>

#include <stdlib.h>
#include <string.h>

#define MOST_TRACKS  24
#define MOST_CLASSES 24
#define MOST_SLICES  1500
#define MOST_BESIDE  6
#define WIDTH        900
#define LEFT         190
#define ROW          22

/* Of operations that communicate by whose tensors they move: those of the update name gradients or weights, others a layer. */
pdl__look_t pdl__trace_look(const char *name)
{
    static const struct {
        const char *begin;
        pdl__look_t look;
    } looks[] = {{"forward", PDL__LOOK_FORWARD},   {"recompute", PDL__LOOK_FORWARD},  {"dgrad", PDL__LOOK_BACKWARD},
                 {"wgrad", PDL__LOOK_BACKWARD},    {"backward", PDL__LOOK_BACKWARD},  {"update", PDL__LOOK_UPDATE},
                 {"exchange", PDL__LOOK_GRADIENT}, {"redistribute", PDL__LOOK_LAYER}, {"halo", PDL__LOOK_HALO},
                 {"send", PDL__LOOK_STAGE},        {"receive", PDL__LOOK_STAGE}};

    if (strncmp(name, "wait for ", 9) == 0) name += 9;
    for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++)
        if (strncmp(name, looks[i].begin, strlen(looks[i].begin)) == 0) return looks[i].look;
    for (int i = 0; i < PDL_PRIMITIVE_COUNT; i++)
        if (strncmp(name, pdl_primitive_names[i], strlen(pdl_primitive_names[i])) == 0)
            return strstr(name, " gradient of ") != NULL ? PDL__LOOK_LAYER : PDL__LOOK_GRADIENT;
    return PDL__LOOK_INPUT;
}

/* What is drawn: the first tracks with slices, and of them the slices that begin before `end_ns`. */
typedef struct still {
    int     track[MOST_TRACKS]; /* numbers of the timeline */
    int     tracks, all_tracks;
    int64_t slices, all_slices;
    int64_t first_ns, last_ns, end_ns;

    const char *id; /* of its patterns and its title */
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

static int by_rank(const pdl__events_t *events, int a, int b)
{
    const pdl__track_t *x = &events->track[a], *y = &events->track[b];

    if (x->process != y->process) return x->process < y->process ? -1 : 1;
    return (x->thread > y->thread) - (x->thread < y->thread);
}

/* The first of all tracks by rank and stream. */
static void take_track(still_t *still, const pdl__events_t *events, int track)
{
    int at = still->tracks;

    still->all_tracks++;
    if (at == MOST_TRACKS && by_rank(events, still->track[--at], track) < 0) return;
    for (; at > 0 && by_rank(events, still->track[at - 1], track) > 0; at--)
        still->track[at] = still->track[at - 1];
    still->track[at] = track;
    if (still->tracks < MOST_TRACKS) still->tracks++;
}

/* Of one rank only the first. */
static void take_tracks(still_t *still, const pdl__events_t *events, bool one_rank)
{
    int first = -1;

    for (int t = 0; t < events->track_count; t++)
        if (events->track[t].kind == PDL__TRACK_SLICES && (first < 0 || by_rank(events, t, first) < 0)) first = t;
    for (int t = 0; t < events->track_count; t++)
        if (events->track[t].kind == PDL__TRACK_SLICES &&
            (!one_rank || events->track[t].process == events->track[first].process))
            take_track(still, events, t);
}

/* Where there are more slices than one could see, those of the first moments, of all tracks. */
static bool find_still(pdl__page_t *page, const pdl__events_t *events, bool one_rank, still_t *still)
{
    int64_t *starts = pdl_arena_alloc(page->arena, (size_t)events->count + 1, sizeof(*starts));

    *still = (still_t){.first_ns = INT64_MAX,
                       .last_ns = INT64_MIN,
                       .end_ns = INT64_MAX,
                       .id = pdl__page_print(page, "%st%d", page->prefix, ++page->charts)};
    if (starts == NULL) return false;
    take_tracks(still, events, one_rank);
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

static double x_of(const still_t *still, int64_t at_ns)
{
    return LEFT + (double)(at_ns - still->first_ns) * (WIDTH - LEFT) / (double)(still->last_ns - still->first_ns);
}

static void draw_slice(pdl__page_t *page, const still_t *still, const pdl__events_t *events,
                       const pdl__event_t *event)
{
    const char *name = events->text[event->name];
    pdl__look_t look = pdl__trace_look(name);
    double      x = x_of(still, event->start_ns), width = x_of(still, event->start_ns + event->length) - x;
    char        text[PDL_FORMAT_SIZE];

    fprintf(page->stream, "<rect class=\"fill hue%d\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"",
            pdl__look_hue(look), x, row_of(still, event->track) * ROW + 3, width > 0.3 ? width : 0.3, ROW - 6);
    pdl__pattern_fill(pdl__look_pattern(look), still->id, (int)look, page->stream);
    fputs("><title>", page->stream);
    pdl__chart_escape(name, page->stream);
    fprintf(page->stream, ": %s</title></rect>\n", pdl_format_seconds(1e-9 * (double)event->length, text));
}

/* A line along the lower edge of what is on the critical path, and lines from sends to receives. */
static void draw_path(pdl__page_t *page, const still_t *still, const pdl__events_t *events)
{
    for (int64_t i = 0; i < events->path.arrow_count; i++) {
        const pdl__event_t *from = &events->event[events->path.arrow[i].from],
                           *to = &events->event[events->path.arrow[i].to];

        if (!is_drawn(still, events, from) || !is_drawn(still, events, to)) continue;
        fprintf(page->stream, "<path class=\"arrow\" d=\"M%.2f %dL%.2f %d\"/>\n", x_of(still, from->start_ns),
                row_of(still, from->track) * ROW + ROW / 2, x_of(still, to->start_ns + to->length),
                row_of(still, to->track) * ROW + ROW / 2);
    }
    for (int64_t i = 0; i < events->path.step_count; i++) {
        const pdl__event_t *event = &events->event[events->path.step[i].event];
        int64_t             end_ns = event->start_ns + event->length;

        if (!is_drawn(still, events, event)) continue;
        fprintf(page->stream, "<path class=\"critical\" d=\"M%.2f %dH%.2f\"/>\n",
                x_of(still, end_ns - events->path.step[i].own_ns), row_of(still, event->track) * ROW + ROW - 2,
                x_of(still, end_ns));
    }
}

/* `title` is what it is a picture of. */
static void draw_rows(pdl__page_t *page, const still_t *still, const pdl__events_t *events, const char *title)
{
    int height = still->tracks * ROW;

    fprintf(page->stream,
            "<figure class=\"timeline\"><div class=\"wide\" tabindex=\"0\">\n<svg class=\"chart\" role=\"img\" "
            "aria-labelledby=\"%s\" "
            "viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\"><title id=\"%s\">",
            still->id, WIDTH, height, WIDTH, height, still->id);
    pdl__chart_escape(title, page->stream);
    fputs("</title>\n<defs>\n", page->stream);
    for (int look = 0; look < PDL__LOOK_COUNT; look++)
        pdl__pattern_define(pdl__look_pattern((pdl__look_t)look), pdl__look_hue((pdl__look_t)look), still->id, look,
                            page->stream);
    fputs("</defs>\n", page->stream);
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
    draw_path(page, still, events);
    fputs("</svg>\n</div><figcaption>", page->stream);
    pdl__chart_escape(title, page->stream);
    fprintf(page->stream, ": a rectangle is an operation, named when it is pointed at%s%s.</figcaption></figure>\n",
            events->path.step_count > 0 ? "; the line below it is the critical path" : "",
            events->path.arrow_count > 0 ? ", lines between ranks are messages" : "");
}

/* Classes with their colours, for the still and for what moves. */
static void write_legend(pdl__page_t *page, const pdl__events_t *events)
{
    int                     count;
    const pdl__trace_sum_t *classes = pdl__trace_sums(page, events, true, &count);

    fputs("<p class=\"legend\">", page->stream);
    for (int i = 0; i < count && i < MOST_CLASSES; i++) {
        pdl__look_t look = pdl__trace_look(classes[i].name);

        fprintf(page->stream, "<span><span class=\"swatch hue%d pattern%d\"></span> ", pdl__look_hue(look),
                (int)pdl__look_pattern(look));
        pdl__chart_escape(classes[i].name, page->stream);
        fputs("</span> ", page->stream);
    }
    fputs("</p>\n", page->stream);
}

void pdl__trace_still(pdl__page_t *page, const pdl__events_t *events)
{
    const char *title = "Timeline";
    still_t     still;
    char        text[PDL_FORMAT_SIZE];

    if (page->text || !find_still(page, events, false, &still)) return;
    pdl__page_section(page, "Timeline of %d %s", still.all_tracks, still.all_tracks == 1 ? "track" : "tracks");
    write_legend(page, events);
    if (still.slices < still.all_slices || still.tracks < still.all_tracks)
        title = pdl__page_print(page, "The first %s, on %d of %d tracks",
                                pdl_format_seconds(1e-9 * (double)(still.last_ns - still.first_ns), text),
                                still.tracks, still.all_tracks);
    draw_rows(page, &still, events, title);
}

int pdl__trace_place(const pdl__document_t *trace)
{
    static const char *const sources[] = {"measured", "simulated", "projected"};
    int                      place = 0;

    while (place < 3 && strcmp(pdl__trace_source(trace), sources[place]) != 0) place++;
    return place;
}

void pdl__trace_beside(pdl__page_t *page, const pdl_documents_t *documents)
{
    still_t                still[MOST_BESIDE];
    const pdl__document_t *shown[MOST_BESIDE];
    int                    count = 0;
    int64_t                span_ns = 0;
    char                   text[PDL_FORMAT_SIZE];

    if (page->text) return;
    for (int place = 0; place <= 3; place++)
        for (int i = 0; i < documents->count && count < MOST_BESIDE; i++) {
            const pdl__document_t *trace = &documents->item[i];

            if (strcmp(trace->kind, "trace") != 0 || pdl__trace_place(trace) != place ||
                !find_still(page, trace->events, true, &still[count]))
                continue;
            if (still[count].last_ns - still[count].first_ns > span_ns)
                span_ns = still[count].last_ns - still[count].first_ns;
            shown[count++] = trace;
        }
    if (count < 2) return;
    pdl__page_section(page, "The first rank of %d timelines on one scale of time: %s wide", count,
                      pdl_format_seconds(1e-9 * (double)span_ns, text));
    write_legend(page, shown[0]->events);
    for (int i = 0; i < count; i++) {
        still[i].last_ns = still[i].first_ns + span_ns;
        draw_rows(page, &still[i], shown[i]->events,
                  pdl__page_print(page, "%s (%s)", pdl__trace_source(shown[i]), shown[i]->name));
    }
}
