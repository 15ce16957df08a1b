/*
 * The events of a trace, read one by one: a tree of all of them would take several times the file.
 */
#include "report/page/events.h"

#include "base/memory.h"

#include <paradl/base/trace.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TEXTS  (1 << 24)
#define MOST_THREAD 2000000000
#define SCRATCH     512 /* events that are parsed into one arena */

void pdl__events_free(pdl__events_t *events)
{
    free(events->event);
    free(events->track);
    free(events->track_place);
    free(events->text);
    free(events->place);
    pdl__path_free(&events->path);
}

pdl__event_t *pdl__events_grow(pdl__events_t *events)
{
    if (events->count == events->capacity) {
        int64_t       capacity = events->capacity > 0 ? 2 * events->capacity : 256;
        pdl__event_t *grown = realloc(events->event, (size_t)capacity * sizeof(*grown));

        if (grown == NULL) return NULL;
        events->event = grown;
        events->capacity = capacity;
    }
    return &events->event[events->count++];
}

static uint64_t hash_of(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (; *text != '\0'; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

/* Twice as many places as texts may come before the next growth; -1 is empty. */
static bool make_places(pdl__events_t *events)
{
    int    capacity = events->text_capacity > 0 ? 2 * events->text_capacity : 64;
    size_t mask = 2 * (size_t)capacity - 1;

    if (capacity > MOST_TEXTS) return false;
    const char **text = realloc(events->text, (size_t)capacity * sizeof(*text));
    int         *place = malloc(2 * (size_t)capacity * sizeof(*place));

    if (text != NULL) events->text = text;
    if (text == NULL || place == NULL) {
        free(place);
        return false;
    }
    memset(place, -1, 2 * (size_t)capacity * sizeof(*place));
    for (int i = 0; i < events->text_count; i++) {
        size_t at = hash_of(text[i]) & mask;

        while (place[at] >= 0) at = (at + 1) & mask;
        place[at] = i;
    }
    free(events->place);
    events->place = place;
    events->text_capacity = capacity;
    return true;
}

int pdl__events_text(pdl__events_t *events, const char *text)
{
    if (events->text_count == events->text_capacity && !make_places(events)) return -1;
    size_t mask = 2 * (size_t)events->text_capacity - 1, at = hash_of(text) & mask;

    for (; events->place[at] >= 0; at = (at + 1) & mask)
        if (strcmp(events->text[events->place[at]], text) == 0) return events->place[at];
    text = pdl_arena_strdup(events->arena, text);
    if (text == NULL) return -1;
    events->text[events->text_count] = text;
    events->place[at] = events->text_count;
    return events->text_count++;
}

static size_t track_hash(int64_t kind, int64_t process, int64_t thread)
{
    uint64_t hash =
        ((uint64_t)process * 0x9e3779b97f4a7c15u ^ (uint64_t)thread) * 0x9e3779b97f4a7c15u + (uint64_t)kind;

    return (size_t)(hash ^ hash >> 32);
}

static size_t find_track(const pdl__events_t *events, int64_t kind, int64_t process, int64_t thread)
{
    size_t mask = 2 * (size_t)events->track_capacity - 1, at = track_hash(kind, process, thread) & mask;

    for (; events->track_place[at] >= 0; at = (at + 1) & mask) {
        const pdl__track_t *track = &events->track[events->track_place[at]];

        if (track->kind == kind && track->process == process && track->thread == thread) break;
    }
    return at;
}

static bool make_tracks(pdl__events_t *events)
{
    int           capacity = events->track_capacity > 0 ? 2 * events->track_capacity : 16;
    pdl__track_t *track = realloc(events->track, (size_t)capacity * sizeof(*track));
    int          *place = malloc(2 * (size_t)capacity * sizeof(*place));

    if (track != NULL) events->track = track;
    if (track == NULL || place == NULL) {
        free(place);
        return false;
    }
    memset(place, -1, 2 * (size_t)capacity * sizeof(*place));
    free(events->track_place);
    events->track_place = place;
    events->track_capacity = capacity;
    for (int t = 0; t < events->track_count; t++)
        place[find_track(events, track[t].kind, track[t].process, track[t].thread)] = t;
    return true;
}

int pdl__events_track(pdl__events_t *events, int64_t kind, int64_t process, int64_t thread)
{
    if (events->track_count == events->track_capacity && !make_tracks(events)) return -1;
    size_t at = find_track(events, kind, process, thread);

    if (events->track_place[at] >= 0) return events->track_place[at];
    events->track[events->track_count] = (pdl__track_t){.kind = kind, .process = process, .thread = thread};
    events->track_place[at] = events->track_count;
    return events->track_count++;
}

/* Whole nanoseconds, or values: integers up to 2^53 are exact in both ways. */
static bool whole(double value, int64_t *result)
{
    if (!(fabs(value) < 9e15)) return false;
    *result = llround(value);
    return true;
}

static bool is_phase(const pdl_json_value_t *value, const char *phase)
{
    const char *text = pdl_json_text_of(value, "ph");

    return text != NULL && strcmp(text, phase) == 0;
}

static pdl_status_t no_room(void)
{
    return pdl__no_memory("for a timeline");
}

/* The number of a text; -1 where it is NULL. */
static pdl_status_t note_text(pdl__events_t *events, const char *text, int32_t *number)
{
    *number = text != NULL ? pdl__events_text(events, text) : -1;
    return text != NULL && *number < 0 ? no_room() : PDL_OK;
}

/* A text ends at a zero byte, which no JSON needs. */
static pdl_status_t note_source(pdl__events_t *events, const pdl_json_value_t *value, int32_t *number)
{
    char        *text = value != NULL ? malloc(value->source_length + 1) : NULL;
    pdl_status_t status;

    for (size_t i = 0; text != NULL && i < value->source_length; i++)
        text[i] = value->source[i] != '\0' ? value->source[i] : ' ';
    if (text != NULL) text[value->source_length] = '\0';
    status = value != NULL && text == NULL ? no_room() : note_text(events, text, number);
    free(text);
    return status;
}

/* What `event` is on which track; one that is neither a slice nor a counter as ours are is kept as it is. */
static pdl_status_t take_event(pdl__events_t *events, const pdl_json_value_t *value)
{
    const pdl_json_value_t *args = pdl_json_get(value, "args");
    const char             *name = pdl_json_text_of(value, "name");
    pdl__event_t            event = {.category = -1, .args = -1};
    int64_t                 process = 0, thread = 0, kind = PDL__TRACK_OTHER;
    pdl_status_t            status = PDL_OK;
    bool                    placed = name != NULL && whole(pdl_json_number_of(value, "pid"), &process) &&
                  whole(1e3 * pdl_json_number_of(value, "ts"), &event.start_ns);

    if (placed && is_phase(value, "X") && whole(pdl_json_number_of(value, "tid"), &thread) &&
        llabs(thread) < MOST_THREAD && whole(1e3 * pdl_json_number_of(value, "dur"), &event.length) &&
        event.length >= 0)
        kind = PDL__TRACK_SLICES;
    else if (placed && is_phase(value, "C") && whole(pdl_json_number_of(args, "value"), &event.length))
        kind = PDL__TRACK_COUNTER;
    if (kind == PDL__TRACK_OTHER) {
        event.start_ns = event.length = process = thread = 0;
        status = note_source(events, value, &event.name);
    } else {
        status = note_text(events, name, &event.name);
    }
    if (!status && kind == PDL__TRACK_COUNTER) thread = event.name;
    if (!status && kind == PDL__TRACK_SLICES) {
        status = note_text(events, pdl_json_text_of(value, "cat"), &event.category);
        if (!status) status = note_source(events, args, &event.args);
    }
    if (status) return status;
    event.track = pdl__events_track(events, kind, process, thread);
    pdl__event_t *place = event.track >= 0 ? pdl__events_grow(events) : NULL;

    if (place == NULL) return no_room();
    *place = event;
    return PDL_OK;
}

/* Where a value of JSON ends that begins at `at`; brackets in strings do not count. Mistakes are told by who reads it. */
static const char *end_of_value(const char *at, const char *end)
{
    int  depth = 0;
    bool text = false;

    for (; at < end; at++) {
        if (text) {
            if (*at == '\\')
                at++;
            else if (*at == '"')
                text = false;
        } else if (*at == '"') {
            text = true;
        } else if (*at == '{' || *at == '[') {
            depth++;
        } else if (*at == '}' || *at == ']') {
            if (depth == 0) return at;
            if (--depth == 0) return at + 1;
        } else if (*at == ',' && depth == 0) {
            return at;
        }
    }
    return end;
}

static const char *skip_blanks(const char *at, const char *end, int *line)
{
    for (; at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n'); at++) *line += *at == '\n';
    return at;
}

pdl_status_t pdl__events_read(pdl__events_t *events, const char *text, size_t length, const char *path, int line,
                              const char **end)
{
    const char       *last = text + length, *at = skip_blanks(text + 1, last, &line);
    pdl_arena_t      *scratch = NULL;
    pdl_json_value_t *value;
    pdl_status_t      status = PDL_OK;
    bool              more = at < last && *at != ']';

    for (int64_t i = 0; !status && more; i++) {
        const char *stop = end_of_value(at, last);

        if (i % SCRATCH == 0) {
            pdl_arena_destroy(scratch);
            scratch = pdl_arena_create();
            if (scratch == NULL) return PDL_ERR_NOMEM;
        }
        status = pdl_json_read(scratch, at, (size_t)(stop - at), path, line, &value);
        if (!status) status = take_event(events, value);
        for (; at < stop; at++) line += *at == '\n';
        at = skip_blanks(at, last, &line);
        more = at < last && *at == ',';
        if (more) at = skip_blanks(at + 1, last, &line);
    }
    pdl_arena_destroy(scratch);
    if (!status && (at >= last || *at != ']'))
        status = pdl_error(PDL_ERR_INPUT, "%s:%d: no JSON: the list of events does not end", path, line);
    *end = at + 1;
    return status ? status : pdl__events_name_tracks(events, path);
}

/* One event that is kept as it is: the name of a process or of a thread. */
static void name_tracks(pdl__events_t *events, const pdl_json_value_t *value)
{
    const char *what = pdl_json_text_of(value, "name"), *name = pdl_json_text_of(value, "args.name");
    double      process = pdl_json_number_of(value, "pid"), thread = pdl_json_number_of(value, "tid");

    if (what == NULL || name == NULL || !is_phase(value, "M")) return;
    for (int t = 0; t < events->track_count; t++) {
        pdl__track_t *track = &events->track[t];

        if ((double)track->process != process || track->kind == PDL__TRACK_OTHER) continue;
        if (strcmp(what, "process_name") == 0) track->process_name = name;
        if (strcmp(what, "thread_name") == 0 && (double)track->thread == thread && track->kind == PDL__TRACK_SLICES)
            track->thread_name = name;
    }
}

pdl_status_t pdl__events_name_tracks(pdl__events_t *events, const char *path)
{
    pdl_status_t status = PDL_OK;

    for (int64_t i = 0; i < events->count && !status; i++) {
        const char       *text = events->text[events->event[i].name];
        pdl_json_value_t *value;

        if (events->track[events->event[i].track].kind != PDL__TRACK_OTHER) continue;
        status = pdl_json_read(events->arena, text, strlen(text), path, 1, &value);
        if (!status) name_tracks(events, value);
    }
    for (int t = 0; t < events->track_count; t++)
        if (events->track[t].kind == PDL__TRACK_COUNTER)
            events->track[t].thread_name = events->text[events->track[t].thread];
    return status;
}

static int earlier_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The latest end of an update before `at`; `at` where there is none. */
static int64_t end_of_update(const pdl__events_t *events, int64_t at_ns)
{
    int64_t found = -1;

    for (int64_t i = 0; i < events->count; i++) {
        const pdl__event_t *event = &events->event[i];
        int64_t             end = event->start_ns + event->length;

        if (pdl__event_is_slice(events, event) && end <= at_ns && end > found &&
            strncmp(events->text[event->name], "update", 6) == 0)
            found = end;
    }
    return found >= 0 ? found : at_ns;
}

void pdl__events_limit(pdl__events_t *events, int64_t most)
{
    int64_t *starts = malloc(((size_t)events->count + 1) * sizeof(*starts)), slices = 0, kept = 0, last;

    for (int64_t i = 0; starts != NULL && i < events->count; i++)
        if (pdl__event_is_slice(events, &events->event[i])) starts[slices++] = events->event[i].start_ns;
    if (slices > most && most > 0) {
        qsort(starts, (size_t)slices, sizeof(*starts), earlier_first);
        last = end_of_update(events, starts[most]);
        for (int64_t i = 0; i < events->count; i++) {
            const pdl__event_t *event = &events->event[i];

            if (event->start_ns < last || events->track[event->track].kind == PDL__TRACK_OTHER)
                events->event[kept++] = *event;
            else
                events->left_out += pdl__event_is_slice(events, event);
        }
        events->count = kept;
    }
    free(starts);
}

void pdl__events_write(const pdl__events_t *events, FILE *stream)
{
    pdl_trace_t trace;

    pdl_trace_begin_part(&trace, stream);
    for (int64_t i = 0; i < events->count; i++) {
        const pdl__event_t *event = &events->event[i];
        const pdl__track_t *track = &events->track[event->track];
        const char         *name = events->text[event->name];
        double              start_s = 1e-9 * (double)event->start_ns;

        if (track->kind == PDL__TRACK_OTHER)
            pdl_trace_event(&trace, name);
        else if (track->kind == PDL__TRACK_COUNTER)
            pdl_trace_counter(&trace, track->process, name, start_s, (double)event->length);
        else
            pdl_trace_slice(&trace,
                            &(pdl_trace_slice_t){.process = track->process,
                                                 .thread = (int)track->thread,
                                                 .name = name,
                                                 .category =
                                                     event->category >= 0 ? events->text[event->category] : NULL,
                                                 .start_s = start_s,
                                                 .end_s = 1e-9 * (double)(event->start_ns + event->length),
                                                 .micro_batch = -1,
                                                 .args = event->args >= 0 ? events->text[event->args] : NULL});
    }
}
