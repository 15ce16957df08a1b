/*
 * Optimizer state that is kept on the host or on disk passes through the device piece by piece: while one is updated the next ones
 * are copied in and those before are copied out. Where nothing but the gradients of a piece is needed for its update, that follows
 * the operation that completes them, beside the rest of backward; else all pieces come behind it, where activations were.
 */
#include "program/builder.h"

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
static void copy(pdl__builder_t *b, pdl_op_kind_t kind, int piece, int buffer)
{
    const pdl_program_update_t *u = b->options->update;
    pdl_program_op_t            op = pdl__program_blank(kind, -1, false);
    int64_t                     most = b->program->state_piece, rest = u->state_elements - piece * most;

    op.piece = piece;
    op.stream = kind == PDL_OP_COPY_OUT ? PDL_STREAM_COPY_OUT : PDL_STREAM_COPY_IN;
    if (kind == PDL_OP_COPY_OUT)
        op.input[0] = buffer;
    else
        op.output = buffer;
    op.bytes = (double)bytes_of(u, rest < most ? rest : most);
    pdl__program_emit(b, &op);
}

void pdl__state_begin(pdl__builder_t *b, pdl__state_pieces_t *state)
{
    const pdl_program_update_t *u = b->options->update;

    *state = (pdl__state_pieces_t){0};
    if (u->state_arrays == 0) return;
    b->program->state_piece = piece_elements(u->state_elements);
    state->count = (int)((u->state_elements + b->program->state_piece - 1) / b->program->state_piece);
}

void pdl__state_prefetch(pdl__builder_t *b, pdl__state_pieces_t *state)
{
    while (state->issued < state->count && state->issued <= state->updated + AHEAD && !b->status) {
        int slot = state->issued % PDL__STATE_SLOTS;
        /* The memory of the piece before it in this slot is released. */
        if (state->issued >= PDL__STATE_SLOTS) b->program->op[state->out[slot]].until = b->program->op_count;
        state->buffer[slot] = pdl__program_buffer(b, -1, bytes_of(b->options->update, b->program->state_piece));
        copy(b, PDL_OP_COPY_IN, state->issued++, state->buffer[slot]);
    }
}

void pdl__state_update(pdl__builder_t *b, pdl__state_pieces_t *state)
{
    pdl_program_op_t op = pdl__program_blank(PDL_OP_UPDATE, -1, false);
    int              slot = state->updated % PDL__STATE_SLOTS;

    pdl__state_prefetch(b, state);
    op.piece = state->updated++;
    op.output = state->buffer[slot];
    pdl__program_emit(b, &op);
    state->out[slot] = b->program->op_count;
    if (!b->status) copy(b, PDL_OP_COPY_OUT, op.piece, op.output);
}
