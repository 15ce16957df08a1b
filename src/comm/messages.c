/*
 * Cuts the moves of a schedule into messages.
 *
 * Both ends of a move cut it alike, in the global view, and order the messages of a step alike, by their first
 * element and then by peer; so the k-th receive from a peer meets its k-th send, and one tag per step is enough.
 * A move of one or two intervals (a cyclic range that wraps is two) is sent from its place; one of more is
 * packed, because many small messages would cost more than copying.
 *
 * A schedule means the vector as it was before the step wherever it sends. A receive whose place is also being sent
 * waits for these sends. In such a step every receive has a slot of its own: were some posted late, two ranks could
 * wait for each other's receives.
 */
#include "comm/messages.h"
#include "base/memory.h"

#include <limits.h>
#include <stdlib.h>

#define LEAST_WINDOW 4 /* enough to keep the link busy while a chunk is reduced */

/* The intervals of one move in the global view. */
typedef struct intervals {
    pdl_block_span_t *interval;
    int               count, capacity;
} intervals_t;

/* Room for one more element of `size` bytes in an array; *array stays as it is on failure. */
static pdl_status_t grow(void **array, int *capacity, int count, size_t size)
{
    int   more = *capacity > 0 ? 2 * *capacity : 64;
    void *grown;

    if (count < *capacity) return PDL_OK;
    if (*capacity > INT_MAX / 2)
        return pdl_error(PDL_ERR_LIMIT, "a collective of more than %d messages: choose larger chunks", *capacity);
    grown = realloc(*array, (size_t)more * size);
    if (grown == NULL) return pdl__no_memory("for the plan of a collective");
    *array = grown;
    *capacity = more;
    return PDL_OK;
}

static pdl_status_t add_interval(intervals_t *list, pdl_block_span_t interval)
{
    pdl_block_span_t *last = list->count > 0 ? &list->interval[list->count - 1] : NULL;
    pdl_status_t      status;

    if (interval.count == 0) return PDL_OK;
    if (last != NULL && last->first + last->count == interval.first) {
        last->count += interval.count;
        return PDL_OK;
    }
    status = grow((void **)&list->interval, &list->capacity, list->count, sizeof(*list->interval));
    if (!status) list->interval[list->count++] = interval;
    return status;
}

static pdl_status_t collect(const pdl__layout_t *layout, const pdl_moves_t *moves, const pdl_coll_move_t *move,
                            intervals_t *list)
{
    pdl_status_t status = PDL_OK;

    list->count = 0;
    for (int i = 0; i < move->range_count; i++) {
        const pdl_block_span_t *range = &moves->range[move->range_first + i];

        for (int64_t k = 0; !status && k < range->count; k++)
            status = add_interval(list, pdl__layout_block(layout, (range->first + k) % layout->blocks));
    }
    return status;
}

static pdl_status_t add_segment(pdl__messages_t *messages, pdl__message_t *message, pdl__piece_t segment)
{
    pdl__piece_t *last = message->segment_count > 0 ? &messages->segment[messages->segment_count - 1] : NULL;
    pdl_status_t  status;

    if (last != NULL && last->area == segment.area && last->first + last->count == segment.first) {
        last->count += segment.count;
        return PDL_OK;
    }
    status = grow((void **)&messages->segment, &messages->segment_capacity, messages->segment_count,
                  sizeof(*messages->segment));
    if (status) return status;
    messages->segment[messages->segment_count++] = segment;
    message->segment_count++;
    return PDL_OK;
}

/* The message of elements [begin, end) of the intervals laid end to end. */
static pdl_status_t add_message(pdl__messages_t *messages, const pdl__layout_t *layout, pdl__message_list_t *list,
                                const pdl_coll_move_t *move, const pdl_block_span_t *interval, int64_t begin,
                                int64_t end)
{
    pdl__message_t message = {.peer = move->peer,
                              .reduce = move->op == PDL_MOVE_REDUCE,
                              .count = end - begin,
                              .segment_first = messages->segment_count,
                              .pack_first = -1};
    pdl_status_t   status = grow((void **)&list->message, &list->capacity, list->count, sizeof(*list->message));

    for (; begin >= interval->count; interval++) {
        begin -= interval->count;
        end -= interval->count;
    }
    message.key = interval->first + begin;
    while (!status && begin < end) {
        int64_t      stop = end < interval->count ? end : interval->count;
        pdl__piece_t segment = pdl__layout_locate(layout, interval->first + begin, stop - begin);

        status = add_segment(messages, &message, segment);
        begin += segment.count;
        if (begin == interval->count) {
            end -= begin;
            begin = 0;
            interval++;
        }
    }
    if (!status) list->message[list->count++] = message;
    return status;
}

/* Intervals [from, to) of a move as messages of nearly equal size. */
static pdl_status_t cut_stream(pdl__messages_t *messages, const pdl__layout_t *layout, pdl__message_list_t *list,
                               const pdl_coll_move_t *move, const intervals_t *intervals, int from, int to,
                               int64_t chunk_elements)
{
    int64_t      total = 0, pieces;
    pdl_status_t status = PDL_OK;

    for (int i = from; i < to; i++) total += intervals->interval[i].count;
    pieces = (total + chunk_elements - 1) / chunk_elements;
    for (int64_t k = 0; !status && k < pieces; k++) {
        int64_t whole = total / pieces, extra = total % pieces;

        status = add_message(messages, layout, list, move, &intervals->interval[from],
                             k * whole + k * extra / pieces, (k + 1) * whole + (k + 1) * extra / pieces);
    }
    return status;
}

static pdl_status_t cut_moves(pdl__messages_t *messages, const pdl__layout_t *layout, pdl__message_list_t *list,
                              const pdl_moves_t *moves, intervals_t *intervals, int64_t chunk_elements)
{
    pdl_status_t status = PDL_OK;

    for (int m = 0; !status && m < moves->move_count; m++) {
        const pdl_coll_move_t *move = &moves->move[m];
        int                    streams;

        status = collect(layout, moves, move, intervals);
        streams = intervals->count <= 2 ? intervals->count : 1;
        for (int i = 0; !status && i < streams; i++)
            status = cut_stream(messages, layout, list, move, intervals, i, streams == 1 ? intervals->count : i + 1,
                                chunk_elements);
    }
    return status;
}

static int compare_messages(const void *a, const void *b)
{
    const pdl__message_t *x = a, *y = b;

    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->peer > y->peer) - (x->peer < y->peer);
}

static bool overlap(const pdl__piece_t *a, const pdl__piece_t *b)
{
    return a->area == b->area && a->first < b->first + b->count && b->first < a->first + a->count;
}

/* How many sends must be complete before a receive may change its place. */
static int sends_before(const pdl__messages_t *messages, const pdl__step_t *step, const pdl__message_t *receive)
{
    const pdl__message_t *sends = messages->sends.message + step->send_first;

    for (int s = step->send_count - 1; s >= 0; s--) {
        if (sends[s].segment_count > 1) continue;
        for (int i = 0; i < receive->segment_count; i++) {
            if (overlap(&messages->segment[sends[s].segment_first], &messages->segment[receive->segment_first + i]))
                return s + 1;
        }
    }
    return 0;
}

/* Contributions to the same elements from several ranks are added in the order of the ranks, this rank's own among
   them, so that all ranks get the same bits: those of lower ranks are summed before ours is added. */
static bool folds(const pdl__message_t *receive, const pdl__message_t *next, int rank)
{
    return receive->reduce && next->reduce && receive->key == next->key && receive->count == next->count &&
           receive->segment_count == 1 && next->segment_count == 1 && next->peer < rank;
}

static void place_sends(pdl__messages_t *messages, pdl__step_t *step)
{
    for (int s = 0; s < step->send_count; s++) {
        pdl__message_t *send = &messages->sends.message[step->send_first + s];

        if (send->segment_count == 1) continue;
        send->pack_first = step->pack_elements;
        step->pack_elements += send->count;
    }
}

static void place_receives(pdl__messages_t *messages, pdl__step_t *step, int rank, int move_count,
                           int64_t slot_limit)
{
    pdl__message_t *receives = messages->receives.message + step->receive_first;
    bool            conflict = false;
    int64_t         room;

    for (int r = 0; r < step->receive_count; r++) {
        pdl__message_t *receive = &receives[r];

        receive->sends_before = sends_before(messages, step, receive);
        receive->staged = receive->reduce || receive->segment_count > 1 || receive->sends_before > 0;
        receive->folds = r + 1 < step->receive_count && folds(receive, receive + 1, rank);
        if (receive->staged && receive->count > step->slot_elements) step->slot_elements = receive->count;
        conflict = conflict || receive->sends_before > 0;
    }
    room = step->slot_elements > 0 ? slot_limit / step->slot_elements : step->receive_count;
    step->window = room < 2 * move_count ? (int)room : 2 * move_count;
    if (step->window < LEAST_WINDOW) step->window = LEAST_WINDOW;
    if (conflict || step->window > step->receive_count) step->window = step->receive_count;
}

static void sort_list(pdl__message_list_t *list, int first, int count)
{
    if (count > 1) qsort(list->message + first, (size_t)count, sizeof(*list->message), compare_messages);
}

static pdl_status_t plan_step(pdl__messages_t *messages, const pdl_schedule_t *schedule,
                              const pdl__layout_t *layout, int64_t chunk_elements, int64_t slot_limit,
                              pdl_moves_t *scratch, intervals_t *intervals, int s)
{
    pdl__step_t *step = &messages->step[s];
    pdl_status_t status;

    step->send_first = messages->sends.count;
    step->receive_first = messages->receives.count;
    pdl_schedule_sends(schedule, s, layout->rank, scratch);
    status = cut_moves(messages, layout, &messages->sends, scratch, intervals, chunk_elements);
    if (status) return status;
    pdl_schedule_receives(schedule, s, layout->rank, scratch);
    status = cut_moves(messages, layout, &messages->receives, scratch, intervals, chunk_elements);
    if (status) return status;
    step->send_count = messages->sends.count - step->send_first;
    step->receive_count = messages->receives.count - step->receive_first;
    sort_list(&messages->sends, step->send_first, step->send_count);
    sort_list(&messages->receives, step->receive_first, step->receive_count);
    place_sends(messages, step);
    place_receives(messages, step, layout->rank, scratch->move_count, slot_limit);
    return PDL_OK;
}

static void note_most(pdl__messages_t *messages, const pdl__step_t *step)
{
    int64_t slots = step->window * step->slot_elements;

    if (step->send_count > messages->most_sends) messages->most_sends = step->send_count;
    if (step->window > messages->most_window) messages->most_window = step->window;
    if (slots > messages->slot_elements) messages->slot_elements = slots;
    if (step->pack_elements > messages->pack_elements) messages->pack_elements = step->pack_elements;
}

pdl_status_t pdl__messages_init(const pdl_schedule_t *schedule, const pdl__layout_t *layout, int64_t chunk_elements,
                                int64_t slot_limit, pdl_moves_t *scratch, pdl__messages_t *messages)
{
    intervals_t  intervals = {0};
    pdl_status_t status = PDL_OK;

    *messages = (pdl__messages_t){.step_count = pdl_schedule_steps(schedule)};
    messages->step = calloc((size_t)messages->step_count + 1, sizeof(*messages->step));
    if (messages->step == NULL) return pdl__no_memory("for the plan of a collective");
    for (int s = 0; !status && s < messages->step_count; s++) {
        status = plan_step(messages, schedule, layout, chunk_elements, slot_limit, scratch, &intervals, s);
        if (!status) note_most(messages, &messages->step[s]);
    }
    free(intervals.interval);
    if (status) pdl__messages_fini(messages);
    return status;
}

void pdl__messages_fini(pdl__messages_t *messages)
{
    free(messages->sends.message);
    free(messages->receives.message);
    free(messages->segment);
    free(messages->step);
    *messages = (pdl__messages_t){0};
}
