/*
 * What held up what in a timeline. Timelines of others have no waits in them, so the path is found by times alone: backwards from the
 * slice that ends last, each time to the one of this rank that ended last before it began, to the send that a receive waited for, or, of a
 * collective, to what its last rank did before it came.
 */
#include "report/page/events.h"

#include "base/memory.h"

#include <paradl/plan/mesh.h>

#include <stdlib.h>
#include <string.h>

#define NEAR_NS 2 /* starts and lengths are rounded, each to a nanosecond */
#define LOOK    8 /* slices that end at one moment, among which one of the same track is preferred */

/* A slice that sends or receives, by what goes between ranks. */
typedef struct message {
    const char *tensor;
    int64_t     process, start_ns, end_ns, event;
    int32_t     args;
    bool        waits;
} message_t;

/* Slices of a process in the order of their ends. */
typedef struct ended {
    int64_t process, end_ns, start_ns, event;
} ended_t;

void pdl__path_free(pdl__path_t *path)
{
    free(path->arrow);
    free(path->step);
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_tensor(const message_t *a, const message_t *b)
{
    int order = strcmp(a->tensor, b->tensor);

    return order != 0 ? order : compare(a->args, b->args);
}

static int by_message(const void *x, const void *y)
{
    const message_t *a = x, *b = y;
    int              order = by_tensor(a, b);

    if (order == 0) order = compare(a->process, b->process);
    if (order == 0) order = compare(a->start_ns, b->start_ns);
    return order != 0 ? order : compare(a->event, b->event);
}

static int by_end(const void *x, const void *y)
{
    const ended_t *a = x, *b = y;
    int            order = compare(a->process, b->process);

    if (order == 0) order = compare(a->end_ns, b->end_ns);
    if (order == 0) order = compare(a->start_ns, b->start_ns);
    return order != 0 ? order : compare(a->event, b->event);
}

static const char *behind(const char *name, const char *begin)
{
    size_t length = strlen(begin);

    return strncmp(name, begin, length) == 0 ? name + length : NULL;
}

/* The messages of one direction, in order; returns how many. `list` may be NULL. */
static int64_t list_messages(const pdl__events_t *events, bool sent, message_t *list)
{
    int64_t count = 0;

    for (int64_t i = 0; i < events->count; i++) {
        const pdl__event_t *event = &events->event[i];
        const char *name = events->text[event->name], *waited = sent ? NULL : behind(name, "wait for receive ");
        const char *tensor = waited != NULL ? waited : behind(name, sent ? "send " : "receive ");

        if (tensor == NULL || !pdl__event_is_slice(events, event)) continue;
        count++;
        if (list == NULL) continue;
        list[count - 1] = (message_t){.tensor = tensor,
                                      .process = events->track[event->track].process,
                                      .start_ns = event->start_ns,
                                      .end_ns = event->start_ns + event->length,
                                      .event = i,
                                      .args = event->args,
                                      .waits = waited != NULL};
    }
    if (list != NULL && count > 0) qsort(list, (size_t)count, sizeof(*list), by_message);
    return count;
}

/* Behind the last message from `at` on with the tensor of the first, and its process where `one` is set. */
static int64_t end_of_run(const message_t *list, int64_t at, int64_t count, bool one)
{
    int64_t end = at + 1;

    while (end < count && by_tensor(&list[at], &list[end]) == 0 && (!one || list[end].process == list[at].process))
        end++;
    return end;
}

static int count_processes(const message_t *list, int64_t at, int64_t end)
{
    int count = 0;

    for (; at < end; at = end_of_run(list, at, end, true)) count++;
    return count;
}

/* One rank receives what another sends, update after update: a receive belongs to the last send that began before it ended. Where
   a rank waits for what it receives, the wait is what ends with the message. */
static void join_ranks(pdl__path_t *path, const message_t *sent, int64_t sends, const message_t *got, int64_t gets)
{
    int64_t next = 0;
    bool    waits = false;

    for (int64_t g = 0; g < gets; g++) waits = waits || got[g].waits;
    for (int64_t g = 0; g < gets; g++) {
        int64_t found = -1;

        if (waits && !got[g].waits) continue;
        for (; next < sends && sent[next].start_ns < got[g].end_ns; next++) found = next;
        if (found >= 0) path->arrow[path->arrow_count++] = (pdl__arrow_t){sent[found].event, got[g].event};
    }
}

/* Ranks of one stage send to those of another in their order; other patterns have no arrows. */
static void join_tensor(pdl__path_t *path, const message_t *sent, int64_t sends, const message_t *got, int64_t gets)
{
    if (count_processes(sent, 0, sends) != count_processes(got, 0, gets)) return;
    for (int64_t s = 0, g = 0; s < sends && g < gets;) {
        int64_t s_end = end_of_run(sent, s, sends, true), g_end = end_of_run(got, g, gets, true);

        join_ranks(path, sent + s, s_end - s, got + g, g_end - g);
        s = s_end;
        g = g_end;
    }
}

static pdl_status_t find_arrows(const pdl__events_t *events, pdl__path_t *path)
{
    int64_t    sends = list_messages(events, true, NULL), gets = list_messages(events, false, NULL);
    message_t *sent = malloc((size_t)(sends + gets + 1) * sizeof(*sent)), *got;

    path->arrow = malloc((size_t)(gets + 1) * sizeof(*path->arrow));
    if (sent == NULL || path->arrow == NULL) {
        free(sent);
        return pdl__no_memory("for a timeline");
    }
    got = sent + sends;
    list_messages(events, true, sent);
    list_messages(events, false, got);
    for (int64_t s = 0, g = 0; s < sends && g < gets;) {
        int order = by_tensor(&sent[s], &got[g]);

        if (order != 0) {
            *(order < 0 ? &s : &g) += 1;
            continue;
        }
        int64_t s_end = end_of_run(sent, s, sends, false), g_end = end_of_run(got, g, gets, false);
        join_tensor(path, sent + s, s_end - s, got + g, g_end - g);
        s = s_end;
        g = g_end;
    }
    free(sent);
    return PDL_OK;
}

static bool is_collective(const char *name)
{
    if (behind(name, "exchange ") != NULL) return true;
    for (int i = 0; i < PDL_PRIMITIVE_COUNT; i++) {
        const char *rest = behind(name, pdl_primitive_names[i]);

        if (rest != NULL && (*rest == ' ' || *rest == '\0')) return true;
    }
    return false;
}

static int64_t list_collectives(const pdl__events_t *events, message_t *list)
{
    int64_t count = 0;

    for (int64_t i = 0; i < events->count; i++) {
        const pdl__event_t *event = &events->event[i];

        if (!pdl__event_is_slice(events, event) || !is_collective(events->text[event->name])) continue;
        list[count++] = (message_t){.tensor = events->text[event->name],
                                    .process = events->track[event->track].process,
                                    .start_ns = event->start_ns,
                                    .end_ns = event->start_ns + event->length,
                                    .event = i,
                                    .args = event->args};
    }
    if (count > 0) qsort(list, (size_t)count, sizeof(*list), by_message);
    return count;
}

/* One collective over `ranks` ranks, `times` times: `list` has those of a rank one after the other. Ranks that had ended before the last
   one came were not in one group with it. */
static void join_collective(const message_t *list, int64_t ranks, int64_t times, int64_t *late)
{
    for (int64_t k = 0; k < times; k++) {
        const message_t *last = &list[k];

        for (int64_t r = 1; r < ranks; r++)
            if (list[r * times + k].start_ns > last->start_ns) last = &list[r * times + k];
        for (int64_t r = 0; r < ranks; r++) {
            const message_t *one = &list[r * times + k];

            if (one->start_ns + NEAR_NS < last->start_ns && last->start_ns < one->end_ns)
                late[one->event] = last->event;
        }
    }
}

/* For every slice of a collective the one of the rank that came last, where another one waited for it; -1 for all others. */
static pdl_status_t find_late(const pdl__events_t *events, int64_t *late)
{
    message_t *list = malloc((size_t)(events->count + 1) * sizeof(*list));
    int64_t    count;

    if (list == NULL) return pdl__no_memory("for a timeline");
    for (int64_t i = 0; i < events->count; i++) late[i] = -1;
    count = list_collectives(events, list);
    for (int64_t at = 0, end; at < count; at = end) {
        int64_t times = end_of_run(list, at, count, true) - at, ranks;
        bool    alike = true;

        end = end_of_run(list, at, count, false);
        ranks = count_processes(list, at, end);
        for (int64_t r = at; r < end; r = end_of_run(list, r, end, true))
            alike = alike && end_of_run(list, r, end, true) - r == times;
        if (alike && ranks > 1) join_collective(list + at, ranks, times, late);
    }
    free(list);
    return PDL_OK;
}

static int64_t end_of(const pdl__events_t *events, int64_t i)
{
    return events->event[i].start_ns + events->event[i].length;
}

/* The place in `list` behind the slices of a rank that end by `at_ns` and stand before `slice`. */
static int64_t place_behind(const ended_t *list, int64_t count, const ended_t *slice, int64_t at_ns)
{
    int64_t low = 0, high = count;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        bool    early = list[middle].process < slice->process || list[middle].end_ns <= at_ns;

        if (early && by_end(&list[middle], slice) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The slice of its rank that ended last before this one began; -1: none. */
static int64_t before(const pdl__events_t *events, const ended_t *list, int64_t count, int64_t event)
{
    const pdl__event_t *slice = &events->event[event];
    ended_t             key = {events->track[slice->track].process, end_of(events, event), slice->start_ns, event};
    int64_t             at = place_behind(list, count, &key, slice->start_ns + NEAR_NS) - 1;

    if (at < 0 || list[at].process != key.process) return -1;
    for (int64_t k = at; k >= 0 && k > at - LOOK && list[k].process == key.process; k--)
        if (list[k].end_ns >= list[at].end_ns - NEAR_NS && events->event[list[k].event].track == slice->track)
            return list[k].event;
    return list[at].event;
}

static void reverse(pdl__path_t *path)
{
    for (int64_t i = 0; i < path->step_count / 2; i++) {
        pdl__path_step_t other = path->step[i];

        path->step[i] = path->step[path->step_count - 1 - i];
        path->step[path->step_count - 1 - i] = other;
    }
}

/* Steps are found from the last to the first. `from` has the send of every receive, or -1, `late` the last rank of a collective. A send may
   end behind the message. */
static void walk(const pdl__events_t *events, pdl__path_t *path, const ended_t *list, int64_t count,
                 const int64_t *from, const int64_t *late, bool *seen)
{
    int64_t event = -1, end_ns, next;

    for (int64_t i = 0; i < count; i++)
        if (event < 0 || list[i].end_ns > end_of(events, event)) event = list[i].event;
    for (end_ns = event >= 0 ? end_of(events, event) : 0; event >= 0 && !seen[event]; event = next) {
        int64_t           send = from[event], came = late[event] >= 0 ? late[event] : event;
        int64_t           start_ns = events->event[came].start_ns;
        pdl__path_step_t *step = &path->step[path->step_count++];
        bool              waited = send >= 0 && end_of(events, send) > start_ns;
        int64_t           before_ns;

        seen[event] = true;
        next = waited ? send : before(events, list, count, came);
        before_ns = next >= 0 ? end_of(events, next) : start_ns;
        if (before_ns > end_ns) before_ns = end_ns;
        *step = (pdl__path_step_t){.event = event, .own_ns = end_ns - (waited ? before_ns : start_ns)};
        if (!waited && start_ns > before_ns + NEAR_NS) step->idle_ns = start_ns - before_ns;
        end_ns = before_ns;
    }
    reverse(path);
}

static int64_t list_ends(const pdl__events_t *events, ended_t *list)
{
    int64_t count = 0;

    for (int64_t i = 0; i < events->count; i++)
        if (pdl__event_is_slice(events, &events->event[i]))
            list[count++] = (ended_t){events->track[events->event[i].track].process, end_of(events, i),
                                      events->event[i].start_ns, i};
    if (count > 0) qsort(list, (size_t)count, sizeof(*list), by_end);
    return count;
}

pdl_status_t pdl__events_path(pdl__events_t *events)
{
    pdl__path_t *path = &events->path;
    size_t       count = (size_t)events->count + 1;

    if (path->step != NULL) return PDL_OK;
    ended_t     *list = malloc(count * sizeof(*list));
    int64_t     *from = malloc(count * sizeof(*from)), *late = malloc(count * sizeof(*late));
    bool        *seen = calloc(count, sizeof(*seen));
    pdl_status_t status = find_arrows(events, path);

    path->step = malloc(count * sizeof(*path->step));
    if (list == NULL || from == NULL || late == NULL || seen == NULL || path->step == NULL)
        status = pdl__no_memory("for a timeline");
    for (size_t i = 0; i < count && !status; i++) from[i] = -1;
    for (int64_t i = 0; i < path->arrow_count && !status; i++) from[path->arrow[i].to] = path->arrow[i].from;
    if (!status) status = find_late(events, late);
    if (!status) walk(events, path, list, list_ends(events, list), from, late, seen);
    free(list);
    free(from);
    free(late);
    free(seen);
    return status;
}
