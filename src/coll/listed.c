/*
 * Schedules of messages whose sizes are known, without a vector cut into blocks: sparse sums, whose sizes depend on the data.
 * Either all messages are listed, and message m is block m; or only the steps are, where all messages of a step are alike, and
 * the message to rank r in step s is block s * ranks + r.
 */
#include "coll/internal.h"

#include <paradl/coll/sparse.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct pdl__list {
    int64_t              *bytes; /* of each message */
    pdl_sparse_message_t *message;
    /* Of rank r in step s, in each view: entries first[s * ranks + r] to the next of `order`. */
    int32_t *first[2], *order[2];
    /* Instead of all of these. */
    pdl_sparse_step_t *step;
    int                ranks;
};

void pdl__list_destroy(pdl__list_t *list)
{
    if (list == NULL) return;
    for (int view = 0; view < 2; view++) {
        free(list->first[view]);
        free(list->order[view]);
    }
    free(list->bytes);
    free(list->message);
    free(list->step);
    free(list);
}

int64_t pdl__list_bytes(const pdl__list_t *list, const pdl_block_span_t *range)
{
    int64_t sum = 0;

    for (int64_t b = range->first; b < range->first + range->count; b++)
        sum += list->step != NULL ? llrint(list->step[b / list->ranks].bytes) : list->bytes[b];
    return sum;
}

static void emit(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    const pdl__list_t *list = schedule->list;
    int64_t            at = (int64_t)step * schedule->ranks + rank;

    pdl__clear(moves);
    for (int32_t i = list->first[view][at]; i < list->first[view][at + 1]; i++) {
        const pdl_sparse_message_t *message = &list->message[list->order[view][i]];

        pdl__add_move(moves, view == PDL__SENDS ? message->to : message->from,
                      message->reduced ? PDL_MOVE_REDUCE : PDL_MOVE_COPY);
        pdl__add_range(moves, list->order[view][i], 1);
    }
}

static void emit_step(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    const pdl_sparse_step_t *now = &schedule->list->step[step];
    int                      to = view == PDL__SENDS ? pdl_sparse_peer(rank, now, -now->back) : rank;
    int                      from = view == PDL__SENDS ? rank : pdl_sparse_peer(rank, now, now->back);

    pdl__clear(moves);
    pdl__add_move(moves, view == PDL__SENDS ? to : from, now->reduced ? PDL_MOVE_REDUCE : PDL_MOVE_COPY);
    pdl__add_range(moves, (int64_t)step * schedule->ranks + to, 1);
}

static pdl_status_t sort(pdl__list_t *list, const pdl_sparse_run_t *run, int ranks, pdl__view_t view)
{
    size_t   places = (size_t)run->steps * (size_t)ranks, count = (size_t)run->message_count;
    int32_t *first = list->first[view] = calloc(places + 2, sizeof(*first));
    int32_t *order = list->order[view] = calloc(count + 1, sizeof(*order));

    if (first == NULL || order == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a list of messages");
    for (int pass = 0; pass < 2; pass++) {
        for (size_t m = 0; m < count; m++) {
            const pdl_sparse_message_t *message = &run->message[m];
            int                         rank = view == PDL__SENDS ? message->from : message->to;
            int32_t                    *at = &first[(size_t)message->step * (size_t)ranks + (size_t)rank + 1];

            if (pass == 0)
                at[1]++;
            else
                order[(*at)++] = (int32_t)m;
        }
        for (size_t i = 0; pass == 0 && i < places; i++) first[i + 2] += first[i + 1];
    }
    return PDL_OK;
}

static pdl_status_t fill(pdl_schedule_t *schedule, const pdl_sparse_run_t *run)
{
    pdl__list_t *list = schedule->list;
    size_t       count = (size_t)run->message_count;
    pdl_status_t status = PDL_OK;

    if (list != NULL) {
        list->bytes = calloc(count + 1, sizeof(*list->bytes));
        list->message = calloc(count + 1, sizeof(*list->message));
    }
    if (list == NULL || list->bytes == NULL || list->message == NULL)
        return pdl_error(PDL_ERR_NOMEM, "out of memory for a list of messages");
    for (size_t m = 0; m < count; m++) list->bytes[m] = llrint(run->message[m].bytes);
    if (count > 0) memcpy(list->message, run->message, count * sizeof(*list->message));
    for (int view = 0; !status && view < 2; view++) status = sort(list, run, schedule->ranks, (pdl__view_t)view);
    return status;
}

static pdl_schedule_t *make(const char *name, int64_t ranks, int steps, int64_t messages)
{
    pdl_schedule_t *schedule = calloc(1, sizeof(*schedule));

    if (schedule == NULL) return NULL;
    strncpy(schedule->name, name, sizeof(schedule->name) - 1);
    schedule->collective = PDL_COLL_ALLREDUCE;
    schedule->ranks = (int)ranks;
    schedule->steps = steps;
    schedule->blocks = messages > 0 ? messages : 1;
    schedule->segments = 1;
    schedule->emit = emit;
    schedule->list = calloc(1, sizeof(*schedule->list));
    return schedule;
}

pdl_status_t pdl_sparse_expected(const pdl_sparse_spec_t *spec, double elements, double density, double common,
                                 pdl_schedule_t **result)
{
    pdl_sparse_step_t *step;
    int                steps;
    pdl_status_t       status = pdl_sparse_steps(spec, elements, density, common, &step, &steps);

    if (status) return status;
    pdl_schedule_t *schedule = make(spec->algorithm, spec->ranks, steps, steps * spec->ranks);
    if (schedule == NULL || schedule->list == NULL) {
        free(step);
        pdl_schedule_destroy(schedule);
        return pdl_error(PDL_ERR_NOMEM, "out of memory for a schedule");
    }
    schedule->emit = emit_step;
    *schedule->list = (pdl__list_t){.step = step, .ranks = (int)spec->ranks};
    *result = schedule;
    return PDL_OK;
}

pdl_status_t pdl_sparse_schedule(const pdl_sparse_run_t *run, const char *name, int64_t ranks,
                                 pdl_schedule_t **result)
{
    pdl_schedule_t *schedule;
    pdl_status_t    status;

    if (run->message_count > INT32_MAX / 2)
        return pdl_error(PDL_ERR_LIMIT, "%lld messages are too many to be listed", (long long)run->message_count);
    schedule = make(name, ranks, run->steps, run->message_count);
    if (schedule == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a schedule");
    status = fill(schedule, run);
    if (status) {
        pdl_schedule_destroy(schedule);
        return status;
    }
    *result = schedule;
    return PDL_OK;
}
