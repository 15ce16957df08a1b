/*
 * Optimizer state that is kept on the host or on disk passes through the device piece by piece: while one is updated the next ones
 * are copied in and those before are copied out. Where nothing but the gradients of a piece is needed for its update, that follows
 * them, summed over ranks where there are several, beside the rest of backward; else all pieces come behind it, where activations
 * were.
 * Weights that are on the host are updated in the same way: theirs is one more array of a piece.
 *
 * Or the host updates what it has: gradients of a piece are copied to it, and processors there update weights and state beside
 * the rest of backward. The update of a piece is given to them when the gradients of the next one are in flight, so that nobody
 * waits for the copy.
 */
#include "program/builder.h"
#include <stdlib.h>

enum { AHEAD = 2 }; /* pieces that are copied in before they are updated */

/* Elements of a piece: 32 MiB in 32 bits, which the link copies at its full speed; less where there would be few of them. */
enum { MOST = 8 << 20, LEAST = 1024, FEW = 8 };

static int64_t piece_elements(int64_t elements)
{
    int64_t piece = (elements / FEW + LEAST - 1) / LEAST * LEAST;

    return piece < LEAST ? LEAST : piece < MOST ? piece : MOST;
}

static size_t bytes_of(const pdl_program_update_t *u, int64_t elements)
{
    return (size_t)u->state_arrays * (size_t)elements * u->state_item;
}

/* Between the host and the device. */
static void copy_piece(pdl__builder_t *b, pdl_op_kind_t kind, int piece, int buffer)
{
    const pdl_program_update_t *u = b->options->update;
    pdl_program_op_t            op = pdl__program_blank(kind, -1, false);
    const pdl_program_piece_t  *at = &b->program->piece[piece];

    op.piece = piece;
    op.stream = kind == PDL_OP_COPY_OUT ? PDL_STREAM_COPY_OUT : PDL_STREAM_COPY_IN;
    if (kind == PDL_OP_COPY_OUT)
        op.input[0] = buffer;
    else
        op.output = buffer;
    op.bytes = (double)bytes_of(u, at->high - at->low);
    pdl__program_emit(b, &op);
}

void pdl__state_begin(pdl__builder_t *b, const int *order, pdl__state_pieces_t *state)
{
    const pdl_program_update_t *u = b->options->update;
    pdl_program_t              *program = b->program;
    int64_t                     all = 0;

    *state = (pdl__state_pieces_t){0};
    if (u->state_arrays == 0) return;
    for (int k = 0; k < u->bucket_count; k++) all += u->bucket[k].state_high - u->bucket[k].state_low;
    int64_t most = piece_elements(all);
    program->piece = calloc((size_t)(all / most) + (size_t)u->bucket_count + 1, sizeof(*program->piece));
    if (program->piece == NULL) {
        b->status = pdl__program_no_memory();
        return;
    }
    for (int k = 0; k < u->bucket_count; k++) {
        int64_t end = u->bucket[order[k]].state_high;
        for (int64_t at = u->bucket[order[k]].state_low, next; at < end; at = next) {
            next = at + most < end ? at + most : end;
            program->piece[program->piece_count++] = (pdl_program_piece_t){at, next, order[k]};
            if (next - at > program->piece_most) program->piece_most = next - at;
        }
    }
    state->count = program->piece_count;
}

void pdl__state_prefetch(pdl__builder_t *b, pdl__state_pieces_t *state)
{
    if (b->options->update->by_host) return;
    while (state->issued < state->count && state->issued <= state->updated + AHEAD && !b->status) {
        int slot = state->issued % PDL__STATE_SLOTS;
        /* The memory of the piece before it in this slot is released. */
        if (state->issued >= PDL__STATE_SLOTS) b->program->op[state->out[slot]].until = b->program->op_count;
        state->buffer[slot] = pdl__program_buffer(b, -1, bytes_of(b->options->update, b->program->piece_most));
        copy_piece(b, PDL_OP_COPY_IN, state->issued++, state->buffer[slot]);
    }
}

/* The next piece whose gradients are there. */
static void update_by_host(pdl__builder_t *b, pdl__state_pieces_t *state)
{
    pdl_program_op_t op = pdl__program_blank(PDL_OP_UPDATE, -1, false);
    int              slot = state->issued % PDL__STATE_SLOTS;

    op.stream = PDL_STREAM_HOST;
    op.piece = state->issued++;
    op.bucket = b->program->piece[op.piece].bucket;
    op.input[0] = state->buffer[slot];
    state->out[slot] = b->program->op_count;
    pdl__program_emit(b, &op);
}

void pdl__state_finish(pdl__builder_t *b, pdl__state_pieces_t *state)
{
    while (b->options->update->by_host && state->issued < state->updated && !b->status) update_by_host(b, state);
}

static void send_gradients(pdl__builder_t *b, pdl__state_pieces_t *state, int gradients)
{
    pdl_program_op_t           op = pdl__program_blank(PDL_OP_COPY_OUT, -1, true);
    const pdl_program_piece_t *piece = &b->program->piece[state->updated];
    size_t                     item = b->options->update->state_item;
    int                        slot = state->updated % PDL__STATE_SLOTS, earlier = state->updated;

    if (state->updated >= PDL__STATE_SLOTS) b->program->op[state->out[slot]].until = b->program->op_count;
    op.output = pdl__program_buffer(b, 0, (size_t)b->program->piece_most * item);
    if (b->status) return;
    b->program->buffer[op.output].space = PDL_SPACE_PINNED;
    op.piece = state->updated++;
    op.bucket = piece->bucket;
    op.stream = PDL_STREAM_COPY_OUT;
    op.input[0] = gradients;
    op.bytes = (double)((size_t)(piece->high - piece->low) * item);
    state->buffer[slot] = op.output;
    pdl__program_emit(b, &op);
    while (state->issued < earlier && !b->status) update_by_host(b, state);
}

void pdl__state_update(pdl__builder_t *b, pdl__state_pieces_t *state, int gradients)
{
    if (b->options->update->by_host) {
        send_gradients(b, state, gradients);
        return;
    }
    pdl_program_op_t op = pdl__program_blank(PDL_OP_UPDATE, -1, false);
    int              slot = state->updated % PDL__STATE_SLOTS;

    pdl__state_prefetch(b, state);
    op.piece = state->updated++;
    op.bucket = b->program->piece[op.piece].bucket;
    op.input[0] = gradients;
    op.output = state->buffer[slot];
    pdl__program_emit(b, &op);
    state->out[slot] = b->program->op_count;
    if (!b->status) copy_piece(b, PDL_OP_COPY_OUT, op.piece, op.output);
}
