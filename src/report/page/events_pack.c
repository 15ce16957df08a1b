/*
 * Columns of events as bytes. Of one track the next start is near the last one, lengths repeat, and names come in the same order in
 * every update: what follows in a column is alike, and packs well.
 */
#include "report/page/trace.h"

#include "base/memory.h"

#include <paradl/base/json.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TRACK, START, LENGTH, NAME, CATEGORY, ARGS, COLUMNS };

/* Seven bits a byte, the lowest first; the eighth says that more follow. The sign is the lowest bit. */
static void put(FILE *stream, int64_t value)
{
    uint64_t bits = (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);

    for (; bits >= 0x80; bits >>= 7) putc((int)(bits & 0x7f) | 0x80, stream);
    putc((int)bits, stream);
}

static void write_header(const pdl__events_t *events, FILE *stream)
{
    pdl_json_t json;

    pdl_json_begin_line(&json, stream);
    pdl_json_open(&json, NULL, '{');
    pdl_json_int(&json, "events", events->count);
    pdl_json_int(&json, "left_out", events->left_out);
    pdl_json_open(&json, "tracks", '[');
    for (int t = 0; t < events->track_count; t++) {
        pdl_json_open(&json, NULL, '[');
        pdl_json_int(&json, NULL, events->track[t].kind);
        pdl_json_int(&json, NULL, events->track[t].process);
        pdl_json_int(&json, NULL, events->track[t].thread);
        pdl_json_close(&json);
    }
    pdl_json_close(&json);
    pdl_json_open(&json, "texts", '[');
    for (int i = 0; i < events->text_count; i++) pdl_json_string(&json, NULL, events->text[i]);
    pdl_json_close(&json);
    pdl_json_open(&json, "hues", '[');
    for (int i = 0; i < events->text_count; i++)
        pdl_json_int(&json, NULL, pdl__look_hue(pdl__trace_look(events->text[i])));
    pdl_json_close(&json);
    pdl_json_open(&json, "patterns", '[');
    for (int i = 0; i < events->text_count; i++)
        pdl_json_int(&json, NULL, pdl__look_pattern(pdl__trace_look(events->text[i])));
    pdl_json_close(&json);
    pdl_json_int(&json, "path", events->path.step_count);
    pdl_json_int(&json, "arrows", events->path.arrow_count);
    pdl_json_close(&json);
}

/* Events by their places, less the place before; of a step of the path what it adds to it, of an arrow how far its end is. */
static void write_path(const pdl__path_t *path, FILE *stream)
{
    int64_t last = 0;

    for (int64_t i = 0; i < path->step_count; i++) {
        put(stream, path->step[i].event - last);
        put(stream, path->step[i].own_ns);
        last = path->step[i].event;
    }
    last = 0;
    for (int64_t i = 0; i < path->arrow_count; i++) {
        put(stream, path->arrow[i].from - last);
        put(stream, path->arrow[i].to - path->arrow[i].from);
        last = path->arrow[i].from;
    }
}

/* `last` has the start before on every track. */
static void write_column(const pdl__events_t *events, int column, int64_t *last, FILE *stream)
{
    for (int64_t i = 0; i < events->count; i++) {
        const pdl__event_t *event = &events->event[i];
        const int64_t       value[COLUMNS] = {event->track,    event->start_ns - last[event->track],
                                              event->length,   event->name,
                                              event->category, event->args};

        put(stream, value[column]);
        if (column == START) last[event->track] = event->start_ns;
    }
}

pdl_status_t pdl__events_pack(const pdl__events_t *events, char **bytes, size_t *length)
{
    int64_t *last = calloc((size_t)events->track_count + 1, sizeof(*last));
    FILE    *stream = open_memstream(bytes, length);

    if (stream != NULL && last != NULL) {
        write_header(events, stream);
        for (int column = 0; column < COLUMNS; column++) write_column(events, column, last, stream);
        write_path(&events->path, stream);
    }
    free(last);
    if (stream == NULL || fclose(stream) != 0 || last == NULL) return pdl__no_memory("for a timeline");
    return PDL_OK;
}

typedef struct columns {
    const unsigned char *at, *end;
} columns_t;

static bool get(columns_t *columns, int64_t *value)
{
    uint64_t bits = 0;

    for (int shift = 0; shift < 64; shift += 7) {
        if (columns->at == columns->end) return false;
        bits |= (uint64_t)(*columns->at & 0x7f) << shift;
        if ((*columns->at++ & 0x80) == 0) {
            *value = (int64_t)(bits >> 1 ^ (bits & 1 ? UINT64_MAX : 0));
            return true;
        }
    }
    return false;
}

static pdl_status_t refuse(const char *path)
{
    return pdl_error(PDL_ERR_INPUT, "%s: the events of a timeline in this page are damaged", path);
}

static pdl_status_t read_header(pdl__events_t *events, const char *text, size_t length, const char *path,
                                int64_t *count)
{
    pdl_json_value_t *header;
    pdl_status_t      status = pdl_json_read(events->arena, text, length, path, 1, &header);
    double            all, left_out;

    if (status) return status;
    all = pdl_json_number_of(header, "events");
    left_out = pdl_json_number_of(header, "left_out");
    if (!(all >= 0 && all <= 1e9 && left_out >= 0 && left_out <= 1e15)) return refuse(path);
    *count = (int64_t)all;
    events->left_out = (int64_t)left_out;
    for (const pdl_json_value_t *v = pdl_json_first(header, "texts"); v != NULL; v = v->next) {
        int before = events->text_count;

        if (v->kind != PDL_JSON_STRING || pdl__events_text(events, v->text) != before) return refuse(path);
    }
    for (const pdl_json_value_t *v = pdl_json_first(header, "tracks"); v != NULL; v = v->next) {
        double number[3] = {NAN, NAN, NAN};
        int    n = 0, before = events->track_count;

        for (const pdl_json_value_t *k = v->first; k != NULL && n < 3; k = k->next) number[n++] = k->number;
        if (!(number[0] >= 0 && number[0] <= PDL__TRACK_OTHER && fabs(number[1]) < 9e15 && fabs(number[2]) < 2e9) ||
            (number[0] == PDL__TRACK_COUNTER && !(number[2] >= 0 && number[2] < events->text_count)) ||
            pdl__events_track(events, (int64_t)number[0], (int64_t)number[1], (int64_t)number[2]) != before)
            return refuse(path);
    }
    return PDL_OK;
}

/* A number of a text, or -1; events that name another are damaged. */
static bool in_range(int64_t value, int64_t low, int64_t end)
{
    return value >= low && value < end;
}

static bool store(const pdl__events_t *events, pdl__event_t *event, int column, int64_t value, int64_t *last)
{
    switch (column) {
    case TRACK: event->track = (int32_t)value; return in_range(value, 0, events->track_count);
    case START:
        if (!in_range(value, -(int64_t)9e15, (int64_t)9e15)) return false;
        event->start_ns = last[event->track] += value;
        return in_range(event->start_ns, -(int64_t)9e15, (int64_t)9e15);
    case LENGTH:
        event->length = value;
        return in_range(value, pdl__event_is_slice(events, event) ? 0 : -(int64_t)9e15, (int64_t)9e15);
    case NAME: event->name = (int32_t)value; return in_range(value, 0, events->text_count);
    case CATEGORY: event->category = (int32_t)value; return in_range(value, -1, events->text_count);
    default: event->args = (int32_t)value; return in_range(value, -1, events->text_count);
    }
}

/* Texts that are written as they are must be JSON, or what is made of the page would be none. */
static pdl_status_t check_args(const pdl__events_t *events, const char *path)
{
    bool             *seen = calloc((size_t)events->text_count + 1, 1);
    pdl_json_value_t *value;
    pdl_status_t      status = seen != NULL ? PDL_OK : pdl__no_memory("for a timeline");

    for (int64_t i = 0; i < events->count && !status; i++) {
        int args = events->event[i].args;

        if (args < 0 || seen[args]) continue;
        seen[args] = true;
        status = pdl_json_read(events->arena, events->text[args], strlen(events->text[args]), path, 1, &value);
    }
    free(seen);
    return status;
}

pdl_status_t pdl__events_unpack(pdl__events_t *events, const char *bytes, size_t length, const char *path)
{
    const char  *stop = memchr(bytes, '\n', length);
    columns_t    columns = {.end = (const unsigned char *)bytes + length};
    int64_t      count = 0, value, *last;
    pdl_status_t status =
        stop != NULL ? read_header(events, bytes, (size_t)(stop - bytes), path, &count) : refuse(path);

    if (status) return status;
    columns.at = (const unsigned char *)stop + 1;
    if (count > (columns.end - columns.at) / COLUMNS) return refuse(path); /* a byte each, at least */
    last = calloc((size_t)events->track_count + 1, sizeof(*last));
    if (last == NULL) return pdl__no_memory("for a timeline");
    for (int64_t i = 0; i < count && !status; i++)
        if (pdl__events_grow(events) == NULL) status = pdl__no_memory("for a timeline");
    for (int column = 0; column < COLUMNS && !status; column++)
        for (int64_t i = 0; i < count && !status; i++)
            if (!get(&columns, &value) || !store(events, &events->event[i], column, value, last))
                status = refuse(path);
    free(last);
    if (!status) status = check_args(events, path);
    return status ? status : pdl__events_name_tracks(events, path);
}
