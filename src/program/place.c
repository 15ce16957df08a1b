/*
 * How long buffers live, and where. An operation that waits takes two steps of time: what it waits for is there until the
 * first, what it uses from the second on, so that its result may take the place of what was in flight.
 */
#include "program/builder.h"
#include <limits.h>
#include <stdlib.h>

typedef struct life {
    pdl_program_t *program;
    int            now;
} life_t;

static void touch(void *context, int buffer, pdl__use_t use)
{
    life_t               *life = context;
    pdl_program_buffer_t *entry = &life->program->buffer[buffer];

    (void)use;
    if (entry->first < 0) entry->first = life->now;
    entry->last = life->now;
}

/* In steps; returns how many there are. op_of[step]: the operation. */
static int find_lives(pdl_program_t *program, int *op_of)
{
    life_t life = {.program = program};

    for (int i = 0; i < program->op_count; i++) {
        const pdl_program_op_t *op = &program->op[i];
        for (int w = 0; w < op->wait_count; w++)
            pdl__program_visit(program, &program->op[program->wait[op->first_wait + w]], touch, &life);
        if (op->wait_count > 0) op_of[life.now++] = i;
        pdl__program_visit(program, op, touch, &life);
        op_of[life.now++] = i;
    }
    for (int k = 0; k < program->buffer_count; k++)
        if (program->buffer[k].first < 0) program->buffer[k].first = program->buffer[k].last = 0;
    return life.now;
}

/* What buffers are of, and with it what they share memory with. */
typedef enum kind { OF_LAYERS, OF_STATE, OF_GRADIENTS, OF_WEIGHTS } kind_t;

static kind_t kind_of(const pdl_program_buffer_t *buffer)
{
    if (buffer->bucket >= 0) return buffer->weights ? OF_WEIGHTS : OF_GRADIENTS;
    return buffer->node >= 0 ? OF_LAYERS : OF_STATE;
}

/* On the device. */
static pdl_status_t most_alive(const pdl_program_t *program, int steps, size_t *most)
{
    size_t *change = calloc((size_t)steps + 1, 2 * sizeof(*change)), *ends = change, alive = 0;

    *most = 0;
    if (change == NULL) return pdl__program_no_memory();
    ends += steps + 1;
    for (int k = 0; k < program->buffer_count; k++) {
        if (program->buffer[k].space != PDL_SPACE_DEVICE || kind_of(&program->buffer[k]) != OF_LAYERS) continue;
        change[program->buffer[k].first] += program->buffer[k].bytes;
        ends[program->buffer[k].last] += program->buffer[k].bytes;
    }
    for (int i = 0; i < steps; i++) {
        alive += change[i];
        if (alive > *most) *most = alive;
        alive -= ends[i];
    }
    free(change);
    return PDL_OK;
}

#define ALIGNMENT 64

/* Whether block `k` of `count` buffers is the one before it once more: as large, and alive after it. */
static bool repeats(const pdl_program_buffer_t *buffers, int count, int k)
{
    const pdl_program_buffer_t *block = buffers + (size_t)k * (size_t)count, *before = block - count;
    int                         end = -1, begin = INT_MAX;

    for (int i = 0; i < count; i++) {
        if (block[i].bytes != before[i].bytes) return false;
        if (before[i].last > end) end = before[i].last;
        if (block[i].first < begin) begin = block[i].first;
    }
    return end < begin;
}

/* Notes that what is at step `from` of a block is at step `to` of the next; false: it was elsewhere. */
static bool note_step(int *step, int from, int to)
{
    if (step[from] < 0) step[from] = to;
    return step[from] == to;
}

/* Whether lives begin and end in the same order as in the block before: then those that meet are the same. `step` is memory for
   all steps up to the last of the block before. */
static bool same_order(const pdl_program_buffer_t *block, int count, int *step)
{
    const pdl_program_buffer_t *before = block - count;
    int                         begin = INT_MAX, end = -1, latest = -1;

    for (int i = 0; i < count; i++) {
        if (before[i].first < begin) begin = before[i].first;
        if (before[i].last > end) end = before[i].last;
    }
    for (int t = begin; t <= end; t++) step[t] = -1;
    for (int i = 0; i < count; i++)
        if (!note_step(step, before[i].first, block[i].first) || !note_step(step, before[i].last, block[i].last))
            return false;
    for (int t = begin; t <= end; t++) {
        if (step[t] >= 0 && step[t] <= latest) return false;
        if (step[t] >= 0) latest = step[t];
    }
    return true;
}

static bool alive_together(const pdl_program_buffer_t *a, const pdl_program_buffer_t *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Whether two buffers of a block that are alive together share memory. */
static bool collides(const pdl_program_buffer_t *block, int count)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (block[i].offset < block[j].offset + block[j].bytes &&
                block[j].offset < block[i].offset + block[i].bytes && alive_together(&block[i], &block[j]))
                return true;
    return false;
}

/* The places of the first block for all; *same is false where they cannot be had. */
static pdl_status_t copy_places(pdl_program_buffer_t *buffers, int count, int blocks, bool *same)
{
    int steps = 0;

    for (int i = 0; i < count * blocks; i++)
        if (buffers[i].last >= steps) steps = buffers[i].last + 1;
    int *step = malloc(((size_t)steps + 1) * sizeof(*step));
    if (step == NULL) return pdl__program_no_memory();
    for (int k = 1; k < blocks && *same; k++) {
        pdl_program_buffer_t *block = buffers + (size_t)k * (size_t)count;
        for (int i = 0; i < count; i++) block[i].offset = buffers[i].offset;
        *same = same_order(block, count, step) || !collides(block, count);
    }
    free(step);
    return PDL_OK;
}

/* Micro-batches, unless a pipeline has several in flight, need the same buffers one after the other. Those are placed
   once. */
static pdl_status_t place_alike(pdl_program_buffer_t *buffers, int total, int micro_batches, size_t *arena_bytes)
{
    int          count = total / micro_batches;
    bool         same = micro_batches > 1 && total % micro_batches == 0;
    pdl_status_t status = PDL_OK;

    for (int k = 1; k < micro_batches && same; k++) same = repeats(buffers, count, k);
    if (same) status = pdl_colour_intervals(buffers, count, ALIGNMENT, arena_bytes);
    if (same && !status) status = copy_places(buffers, count, micro_batches, &same);
    if (same || status) return status;
    return pdl_colour_intervals(buffers, total, ALIGNMENT, arena_bytes);
}

/* Those of one kind and space, from `base` on; `bytes` is what they take. */
static pdl_status_t place_kind(pdl_program_t *program, kind_t kind, pdl_space_t space, int micro_batches,
                               size_t base, size_t *bytes)
{
    pdl_program_buffer_t *chosen = malloc(((size_t)program->buffer_count + 1) * sizeof(*chosen));
    int                   count = 0;

    *bytes = 0;
    if (chosen == NULL) return pdl__program_no_memory();
    for (int k = 0; k < program->buffer_count; k++)
        if (program->buffer[k].space == space && kind_of(&program->buffer[k]) == kind)
            chosen[count++] = program->buffer[k];
    pdl_status_t status = count > 0 ? place_alike(chosen, count, micro_batches, bytes) : PDL_OK;
    count = 0;
    for (int k = 0; k < program->buffer_count && !status; k++)
        if (program->buffer[k].space == space && kind_of(&program->buffer[k]) == kind)
            program->buffer[k].offset = base + chosen[count++].offset;
    free(chosen);
    return status;
}

/* State that passes while layers are computed is placed with theirs. */
static void join_state(pdl_program_t *program)
{
    int begin = INT_MAX, end = -1;

    for (int k = 0; k < program->buffer_count; k++) {
        const pdl_program_buffer_t *buffer = &program->buffer[k];
        if (kind_of(buffer) == OF_STATE && buffer->first < begin) begin = buffer->first;
        if (kind_of(buffer) == OF_LAYERS && buffer->last > end) end = buffer->last;
    }
    for (int k = 0; k < program->buffer_count && begin <= end; k++)
        if (kind_of(&program->buffer[k]) == OF_STATE) program->buffer[k].node = 0;
}

/* State takes the place of what layers have left; whole buckets are behind it, gradients first. */
static pdl_status_t place_all(pdl_program_t *program, int micro_batches)
{
    size_t *whole = program->whole_bytes, state;

    join_state(program);
    pdl_status_t status = place_kind(program, OF_LAYERS, PDL_SPACE_DEVICE, micro_batches, 0, &program->arena_bytes);

    if (!status) status = place_kind(program, OF_LAYERS, PDL_SPACE_PINNED, micro_batches, 0, &program->host_bytes);
    if (!status) status = place_kind(program, OF_STATE, PDL_SPACE_DEVICE, 1, 0, &state);
    if (!status && state > program->arena_bytes) program->arena_bytes = state;
    for (int weights = 0; weights < 2 && !status; weights++) {
        status = place_kind(program, weights ? OF_WEIGHTS : OF_GRADIENTS, PDL_SPACE_DEVICE, 1, program->arena_bytes,
                            &whole[weights]);
        program->arena_bytes += whole[weights];
    }
    return status;
}

pdl_status_t pdl__program_place(pdl_program_t *program, int micro_batches, bool unplaced)
{
    int         *op_of = malloc((2 * (size_t)program->op_count + 1) * sizeof(*op_of));
    pdl_status_t status = op_of != NULL ? PDL_OK : pdl__program_no_memory();
    int          steps = status ? 0 : find_lives(program, op_of);

    if (!status && !unplaced) status = place_all(program, micro_batches);
    if (!status) status = most_alive(program, steps, &program->live_bytes);
    if (unplaced) program->arena_bytes = program->live_bytes;
    for (int k = 0; k < program->buffer_count && !status; k++) {
        program->buffer[k].first = op_of[program->buffer[k].first];
        program->buffer[k].last = op_of[program->buffer[k].last];
    }
    free(op_of);
    return status;
}
