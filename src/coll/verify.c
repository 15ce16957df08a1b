/*
 * The executor on integers. Every rank starts with a pseudo-random 64-bit number for every element; a sum that
 * counts a contribution twice or not at all differs from the direct one, except with probability 2^-64. Collectives
 * that only copy need no numbers: there one bit says whether a rank holds an element.
 *
 * All sends of a step read what was there before the step. Beyond the result, the verifier checks that sends and
 * receives are the same messages, that nothing is passed on as finished before it is, and that nothing finished
 * arrives twice (a broadcast that scatters and then gathers does that).
 */
#include "coll/internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct message {
    int           peer;
    pdl_move_op_t op;
    size_t        range_first, payload_first;
    int           range_count;
} message_t;

typedef struct executor {
    const pdl_schedule_t *schedule;
    int64_t               elements;
    bool                  sums;  /* numbers, not bits */
    size_t                words; /* of one rank */
    uint64_t             *state; /* [ranks][words] */
    uint64_t             *total; /* the direct result, by element */
    pdl_moves_t          *moves;
    int                   step;

    /* All sends of the step; those of rank r are message[begin[r]] .. message[begin[r + 1] - 1]. */
    size_t           *begin;
    message_t        *message;
    pdl_block_span_t *range;
    uint64_t         *payload;
    size_t            message_count, message_room, range_count, range_room, payload_count, payload_room;
} executor_t;

typedef struct span {
    int64_t first, end;
} span_t; /* elements */

static uint64_t contribution(int rank, int64_t element)
{
    uint64_t x = (uint64_t)rank * 0x9e3779b97f4a7c15u + (uint64_t)element * 0xd1342543de82ef95u + 1;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static bool has_bit(const executor_t *run, int rank, int64_t element)
{
    return (run->state[(size_t)rank * run->words + (size_t)element / 64] >> (element % 64) & 1) != 0;
}

static void set_bit(executor_t *run, int rank, int64_t element)
{
    run->state[(size_t)rank * run->words + (size_t)element / 64] |= (uint64_t)1 << (element % 64);
}

static uint64_t *number(const executor_t *run, int rank, int64_t element)
{
    return &run->state[(size_t)rank * run->words + (size_t)element];
}

/* A cyclic range of blocks is one or two spans of elements. */
static int spans_of(const executor_t *run, pdl_block_span_t range, span_t span[2])
{
    int64_t blocks = run->schedule->blocks, end = range.first + range.count;

    span[0].first = pdl__first_element(range.first, blocks, run->elements);
    span[0].end = pdl__first_element(end < blocks ? end : blocks, blocks, run->elements);
    if (end <= blocks) return 1;
    span[1].first = 0;
    span[1].end = pdl__first_element(end - blocks, blocks, run->elements);
    return 2;
}

static pdl_status_t mistake(const executor_t *run, int rank, const char *what, int peer)
{
    return pdl_error(PDL_ERR_INPUT, "%s %s of %d ranks, step %d: rank %d %s rank %d",
                     pdl_collective_names[run->schedule->collective], run->schedule->name, run->schedule->ranks,
                     run->step, rank, what, peer);
}

/* The array with room for `needed` entries, moved if need be; NULL when there is no memory (the old one stays). */
static void *reserve(void *array, size_t *room, size_t needed, size_t size)
{
    size_t next = *room;
    void  *larger;

    if (needed <= *room && array != NULL) return array;
    while (next < needed || next == 0) next = next < 64 ? 64 : 2 * next;
    larger = realloc(array, next * size);
    if (larger == NULL) {
        pdl_error(PDL_ERR_NOMEM, "out of memory");
        return NULL;
    }
    *room = next;
    return larger;
}

static pdl_status_t reserve_payload(executor_t *run, size_t more)
{
    uint64_t *payload = reserve(run->payload, &run->payload_room, run->payload_count + more, sizeof(uint64_t));

    if (payload == NULL) return PDL_ERR_NOMEM;
    run->payload = payload;
    return PDL_OK;
}

static pdl_status_t reserve_messages(executor_t *run, const pdl_moves_t *moves)
{
    message_t        *message;
    pdl_block_span_t *range;

    message = reserve(run->message, &run->message_room, run->message_count + (size_t)moves->move_count,
                      sizeof(message_t));
    if (message == NULL) return PDL_ERR_NOMEM;
    run->message = message;
    range = reserve(run->range, &run->range_room, run->range_count + (size_t)moves->range_count,
                    sizeof(pdl_block_span_t));
    if (range == NULL) return PDL_ERR_NOMEM;
    run->range = range;
    return PDL_OK;
}

/* Checks that a rank holds what it sends, and keeps the numbers as they are now. */
static pdl_status_t read_range(executor_t *run, int rank, const pdl_coll_move_t *move, pdl_block_span_t range)
{
    span_t span[2];
    int    spans;

    if (range.first < 0 || range.first >= run->schedule->blocks || range.count < 1 ||
        range.count > run->schedule->blocks) {
        return mistake(run, rank, "names blocks that do not exist, to", move->peer);
    }
    spans = spans_of(run, range, span);
    for (int s = 0; s < spans; s++) {
        size_t length = (size_t)(span[s].end - span[s].first);

        if (run->sums && reserve_payload(run, length) != PDL_OK) return PDL_ERR_NOMEM;
        for (int64_t e = span[s].first; e < span[s].end; e++) {
            if (!run->sums) {
                if (!has_bit(run, rank, e))
                    return mistake(run, rank, "sends what it does not hold, to", move->peer);
                continue;
            }
            run->payload[run->payload_count++] = *number(run, rank, e);
            if (move->op == PDL_MOVE_COPY && *number(run, rank, e) != run->total[e]) {
                return mistake(run, rank, "passes on a block that is not complete, to", move->peer);
            }
        }
    }
    return PDL_OK;
}

static pdl_status_t collect_sends(executor_t *run, int rank)
{
    const pdl_schedule_t *schedule = run->schedule;
    pdl_moves_t          *moves = run->moves;
    pdl_status_t          status;

    schedule->emit(schedule, run->step, rank, PDL__SENDS, moves);
    run->begin[rank] = run->message_count;
    status = reserve_messages(run, moves);
    for (int m = 0; status == PDL_OK && m < moves->move_count; m++) {
        const pdl_coll_move_t *move = &moves->move[m];

        if (move->peer < 0 || move->peer >= schedule->ranks || move->peer == rank) {
            return mistake(run, rank, "sends to", move->peer);
        }
        if (move->op == PDL_MOVE_REDUCE && !run->sums) return mistake(run, rank, "asks for a sum at", move->peer);
        run->message[run->message_count++] = (message_t){.peer = move->peer,
                                                         .op = move->op,
                                                         .range_first = run->range_count,
                                                         .payload_first = run->payload_count,
                                                         .range_count = move->range_count};
        for (int r = 0; status == PDL_OK && r < move->range_count; r++) {
            run->range[run->range_count++] = moves->range[move->range_first + r];
            status = read_range(run, rank, move, moves->range[move->range_first + r]);
        }
    }
    return status;
}

static bool same_message(const executor_t *run, const message_t *sent, const pdl_coll_move_t *move)
{
    if (sent->op != move->op || sent->range_count != move->range_count) return false;
    for (int r = 0; r < move->range_count; r++) {
        pdl_block_span_t a = run->range[sent->range_first + (size_t)r],
                         b = run->moves->range[move->range_first + r];
        if (a.first != b.first || a.count != b.count) return false;
    }
    return true;
}

/* The message that the m-th receive of a rank stands for: as many sends of the peer come before as receives from
   it. */
static const message_t *matching(const executor_t *run, int rank, int m)
{
    int peer = run->moves->move[m].peer, before = 0;

    if (peer < 0 || peer >= run->schedule->ranks) return NULL;
    for (int k = 0; k < m; k++) before += run->moves->move[k].peer == peer;
    for (size_t at = run->begin[peer]; at < run->begin[peer + 1]; at++) {
        if (run->message[at].peer == rank && before-- == 0) return &run->message[at];
    }
    return NULL;
}

static pdl_status_t apply(executor_t *run, int rank, int peer, const message_t *sent)
{
    bool            strict = run->schedule->scatter_steps == 0;
    const uint64_t *payload = run->sums ? run->payload + sent->payload_first : NULL;

    for (int r = 0; r < sent->range_count; r++) {
        span_t span[2];
        int    spans = spans_of(run, run->range[sent->range_first + (size_t)r], span);

        for (int s = 0; s < spans; s++) {
            for (int64_t e = span[s].first; e < span[s].end; e++) {
                bool twice = run->sums ? sent->op == PDL_MOVE_COPY && *number(run, rank, e) == run->total[e]
                                       : has_bit(run, rank, e);
                if (twice && strict) return mistake(run, rank, "gets a block a second time, from", peer);
                if (!run->sums) {
                    set_bit(run, rank, e);
                } else if (sent->op == PDL_MOVE_COPY) {
                    *number(run, rank, e) = *payload++;
                } else {
                    *number(run, rank, e) += *payload++;
                }
            }
        }
    }
    return PDL_OK;
}

static pdl_status_t run_step(executor_t *run)
{
    const pdl_schedule_t *schedule = run->schedule;
    pdl_status_t          status = PDL_OK;
    size_t                received = 0;

    run->message_count = run->range_count = run->payload_count = 0;
    for (int rank = 0; status == PDL_OK && rank < schedule->ranks; rank++) status = collect_sends(run, rank);
    run->begin[schedule->ranks] = run->message_count;
    for (int rank = 0; status == PDL_OK && rank < schedule->ranks; rank++) {
        schedule->emit(schedule, run->step, rank, PDL__RECEIVES, run->moves);
        for (int m = 0; status == PDL_OK && m < run->moves->move_count; m++) {
            const message_t *sent = matching(run, rank, m);
            int              peer = run->moves->move[m].peer;

            if (sent == NULL || !same_message(run, sent, &run->moves->move[m])) {
                return mistake(run, rank, "expects a message that is not sent by", peer);
            }
            status = apply(run, rank, peer, sent);
            received++;
        }
    }
    if (status == PDL_OK && received != run->message_count) {
        return pdl_error(PDL_ERR_INPUT, "%s %s of %d ranks, step %d: %zu messages are sent, %zu received",
                         pdl_collective_names[schedule->collective], schedule->name, schedule->ranks, run->step,
                         run->message_count, received);
    }
    return status;
}

/* Every block has exactly one owner in reduce-scatter and allgather. */
static pdl_status_t check_owners(executor_t *run)
{
    const pdl_schedule_t *schedule = run->schedule;
    bool                 *seen = calloc((size_t)schedule->blocks, sizeof(bool));
    int64_t               owned = 0;
    bool                  good = true;

    if (seen == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (int rank = 0; rank < schedule->ranks; rank++) {
        pdl_schedule_owned(schedule, rank, run->moves);
        for (int r = 0; r < run->moves->range_count; r++) {
            for (int64_t k = 0; k < run->moves->range[r].count; k++, owned++) {
                int64_t block = (run->moves->range[r].first + k) % schedule->blocks;
                good = good && !seen[block];
                seen[block] = true;
            }
        }
    }
    free(seen);
    if (good && owned == schedule->blocks) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s %s of %d ranks: not every block has one owner",
                     pdl_collective_names[schedule->collective], schedule->name, schedule->ranks);
}

static void start(executor_t *run)
{
    const pdl_schedule_t *schedule = run->schedule;

    for (int rank = 0; rank < schedule->ranks; rank++) {
        for (int64_t e = 0; run->sums && e < run->elements; e++) {
            *number(run, rank, e) = contribution(rank, e);
            run->total[e] += contribution(rank, e);
        }
        if (run->sums) continue;
        pdl_schedule_owned(schedule, rank, run->moves);
        for (int r = 0; r < run->moves->range_count; r++) {
            span_t span[2];
            int    spans = spans_of(run, run->moves->range[r], span);
            for (int s = 0; s < spans; s++) {
                for (int64_t e = span[s].first; e < span[s].end; e++) set_bit(run, rank, e);
            }
        }
    }
}

/* Whether a rank has the result of a range of blocks. */
static pdl_status_t check_range(const executor_t *run, int rank, pdl_block_span_t range)
{
    const pdl_schedule_t *schedule = run->schedule;
    span_t                span[2];
    int                   spans = spans_of(run, range, span);

    for (int s = 0; s < spans; s++) {
        for (int64_t e = span[s].first; e < span[s].end; e++) {
            if (run->sums ? *number(run, rank, e) == run->total[e] : has_bit(run, rank, e)) continue;
            return pdl_error(PDL_ERR_INPUT, "%s %s of %d ranks: element %lld of rank %d is %s at the end",
                             pdl_collective_names[schedule->collective], schedule->name, schedule->ranks,
                             (long long)e, rank, run->sums ? "not the sum" : "missing");
        }
    }
    return PDL_OK;
}

/* A rank needs what it owns (reduce-scatter), what is meant for it (all-to-all), or everything. */
static pdl_status_t check_result(executor_t *run)
{
    const pdl_schedule_t *schedule = run->schedule;
    int64_t               pair = schedule->blocks / schedule->ranks / schedule->ranks;
    pdl_status_t          status = PDL_OK;

    for (int rank = 0; status == PDL_OK && rank < schedule->ranks; rank++) {
        if (schedule->collective == PDL_COLL_ALLTOALL) {
            for (int64_t source = 0; status == PDL_OK && source < schedule->ranks; source++) {
                status = check_range(run, rank, (pdl_block_span_t){(source * schedule->ranks + rank) * pair, pair});
            }
        } else if (schedule->collective == PDL_COLL_REDUCE_SCATTER) {
            pdl_schedule_owned(schedule, rank, run->moves);
            for (int r = 0; status == PDL_OK && r < run->moves->range_count; r++) {
                status = check_range(run, rank, run->moves->range[r]);
            }
        } else {
            status = check_range(run, rank, (pdl_block_span_t){0, schedule->blocks});
        }
    }
    return status;
}

static pdl_status_t allocate(executor_t *run)
{
    size_t ranks = (size_t)run->schedule->ranks;

    run->words = run->sums ? (size_t)run->elements : ((size_t)run->elements + 63) / 64;
    if (run->words > SIZE_MAX / sizeof(uint64_t) / ranks / 2) {
        return pdl_error(PDL_ERR_LIMIT, "%lld elements on %zu ranks are too many to verify",
                         (long long)run->elements, ranks);
    }
    run->state = calloc(ranks * run->words + 1, sizeof(uint64_t));
    run->total = calloc(run->sums ? (size_t)run->elements + 1 : 1, sizeof(uint64_t));
    run->moves = malloc(sizeof(pdl_moves_t));
    run->begin = calloc(ranks + 1, sizeof(size_t));
    if (run->state == NULL || run->total == NULL || run->moves == NULL || run->begin == NULL) {
        return pdl_error(PDL_ERR_NOMEM, "out of memory: %lld elements on %zu ranks to verify",
                         (long long)run->elements, ranks);
    }
    return PDL_OK;
}

pdl_status_t pdl_schedule_verify(const pdl_schedule_t *schedule, int64_t elements)
{
    executor_t   run = {.schedule = schedule, .elements = elements};
    pdl_status_t status;

    if (elements < 0) return pdl_error(PDL_ERR_INPUT, "cannot verify %lld elements", (long long)elements);
    run.sums = schedule->collective == PDL_COLL_ALLREDUCE || schedule->collective == PDL_COLL_REDUCE_SCATTER;
    status = allocate(&run);
    if (status == PDL_OK &&
        (schedule->collective == PDL_COLL_REDUCE_SCATTER || schedule->collective == PDL_COLL_ALLGATHER)) {
        status = check_owners(&run);
    }
    if (status == PDL_OK) start(&run);
    for (run.step = 0; status == PDL_OK && run.step < schedule->steps; run.step++) status = run_step(&run);
    if (status == PDL_OK) status = check_result(&run);
    free(run.state);
    free(run.total);
    free(run.moves);
    free(run.begin);
    free(run.message);
    free(run.range);
    free(run.payload);
    return status;
}
