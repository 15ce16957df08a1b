/*
 * Events of a timeline as columns: a trace of a million of them takes 32 bytes each, in memory and, packed, a few in a page. What is
 * no slice and no number of a counter, names of tracks among them, is kept as it was written. Internal to report/page.
 */
#ifndef PDL_REPORT_PAGE_EVENTS_H
#define PDL_REPORT_PAGE_EVENTS_H

#include <paradl/base/json_read.h>
#include <stdint.h>
#include <stdio.h>

typedef enum pdl__track_kind { PDL__TRACK_SLICES, PDL__TRACK_COUNTER, PDL__TRACK_OTHER } pdl__track_kind_t;

/* Slices of one track have the same process and thread, values of a counter the same process and name. */
typedef struct pdl__track {
    int64_t     kind, process, thread; /* of a counter the number of its name */
    const char *process_name, *thread_name;
} pdl__track_t;

/* Texts are numbers in the list of them; -1: none. */
typedef struct pdl__event {
    int64_t start_ns;
    int64_t length;                      /* of a slice in ns; of a counter its value */
    int32_t track, name, category, args; /* `args` as it was written; an event of another kind is its name */
} pdl__event_t;

/* What held up what: messages between ranks, from the send to what waited for it, and the critical path, the chain of slices behind the
   one that ends last. Of a step, what it adds to the length of the path, and how long nothing of its rank ran before it. */
typedef struct pdl__arrow {
    int64_t from, to; /* events */
} pdl__arrow_t;
typedef struct pdl__path_step {
    int64_t event, own_ns, idle_ns;
} pdl__path_step_t;
typedef struct pdl__path {
    pdl__arrow_t     *arrow;
    pdl__path_step_t *step; /* the first one first; NULL: nobody has looked for it */
    int64_t           arrow_count, step_count;
} pdl__path_t;

typedef struct pdl__events {
    pdl_arena_t  *arena; /* of texts, borrowed */
    pdl__event_t *event;
    int64_t       count, capacity;
    pdl__track_t *track;
    int          *track_place; /* by their hash */
    int           track_count, track_capacity;
    const char  **text;
    int           text_count, text_capacity;
    int          *place; /* of texts, by their hash */
    int64_t       left_out;
    pdl__path_t   path;
} pdl__events_t;

void pdl__events_free(pdl__events_t *events); /* what it holds */

/* The events of a list in a text; `end` is set behind its bracket. */
pdl_status_t pdl__events_read(pdl__events_t *events, const char *text, size_t length, const char *path, int line,
                              const char **end);
/* They are kept up to the end of an update such that no more than `most` slices are left, where there is one. */
void pdl__events_limit(pdl__events_t *events, int64_t most);
/* Finds the path, once. */
pdl_status_t pdl__events_path(pdl__events_t *events);
void         pdl__path_free(pdl__path_t *path);
/* As they were written: a list, without its end. */
void pdl__events_write(const pdl__events_t *events, FILE *stream);

/* A header of JSON, a line, and columns of integers of variable length (docs/report_format.md). */
pdl_status_t pdl__events_pack(const pdl__events_t *events, char **bytes, size_t *length);
pdl_status_t pdl__events_unpack(pdl__events_t *events, const char *bytes, size_t length, const char *path);

/* For readers: room for one more event, a text by its number, and names of tracks once all events are there. */
pdl__event_t *pdl__events_grow(pdl__events_t *events);
int           pdl__events_text(pdl__events_t *events, const char *text);
int           pdl__events_track(pdl__events_t *events, int64_t kind, int64_t process, int64_t thread);
pdl_status_t  pdl__events_name_tracks(pdl__events_t *events, const char *path);

static inline bool pdl__event_is_slice(const pdl__events_t *events, const pdl__event_t *event)
{
    return events->track[event->track].kind == PDL__TRACK_SLICES;
}

#endif
