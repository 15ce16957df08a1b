/*
 * Optimizer state that is kept on the host or on disk: behind backward it passes through the device piece by piece. While one
 * is updated the next is copied in and the one before is copied out; the arena has room for them where activations were.
 */
#include "program/builder.h"

enum { AT_ONCE = 3 }; /* pieces: one copied in, one updated, one copied out */

/* Elements of a piece: 32 MiB in 32 bits, which the link copies at its full speed; less where there would be few of them. */
enum { MOST = 8 << 20, LEAST = 1024, FEW = 8 };

static int64_t piece_elements(int64_t elements)
{
    int64_t piece = (elements / FEW + LEAST - 1) / LEAST * LEAST;

    return piece < LEAST ? LEAST : piece < MOST ? piece : MOST;
}

static size_t piece_bytes(const pdl_program_update_t *u, int64_t elements)
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
    op.bytes = (double)piece_bytes(u, rest < most ? rest : most);
    pdl__program_emit(b, &op);
}

void pdl__program_update_pieces(pdl__builder_t *b)
{
    const pdl_program_update_t *u = b->options->update;
    int64_t                     elements = piece_elements(u->state_elements);
    int pieces = (int)((u->state_elements + elements - 1) / elements), buffer[AT_ONCE], out[AT_ONCE];

    b->program->state_piece = elements;
    for (int k = -1; k < pieces && !b->status; k++) {
        int next = k + 1, slot = next % AT_ONCE;
        if (next < pieces) {
            /* The memory of the piece before it in this slot is released. */
            if (next >= AT_ONCE) b->program->op[out[slot]].until = b->program->op_count;
            buffer[slot] = pdl__program_buffer(b, -1, piece_bytes(u, elements));
            copy(b, PDL_OP_COPY_IN, next, buffer[slot]);
        }
        if (k < 0) continue;
        pdl_program_op_t op = pdl__program_blank(PDL_OP_UPDATE, -1, false);
        op.piece = k;
        op.output = buffer[k % AT_ONCE];
        pdl__program_emit(b, &op);
        out[k % AT_ONCE] = b->program->op_count;
        copy(b, PDL_OP_COPY_OUT, k, op.output);
    }
}
