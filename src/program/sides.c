/*
 * A convolution over a part in space, as operations: rows that others lack are copied out and sent, the interior is computed,
 * and when the halo has come the boundary is, on a strip of its own. Backward, the interior gives what own rows
 * contribute to the gradients of weights and what all outputs contribute to those of own rows; the strip, with zeros for own
 * rows, gives what the halo does.
 */
#include "program/builder.h"

static const pdl_program_side_t *side_of(const pdl__builder_t *b, const pdl_program_op_t *op, int k)
{
    return &b->nodes[op->node].side[k];
}

static pdl_program_op_t like(const pdl_program_op_t *interior, pdl_op_kind_t kind, int k)
{
    pdl_program_op_t op = pdl__program_blank(kind, interior->node, interior->backward);

    op.micro_batch = interior->micro_batch;
    op.again = interior->again;
    op.part = k + 1;
    return op;
}

static void copy(pdl__builder_t *b, const pdl_program_op_t *interior, int k, pdl_side_boxes_t boxes, bool reverse,
                 int from, int to)
{
    pdl_program_op_t op = like(interior, PDL_OP_COPY, k);

    op.boxes = boxes;
    op.reverse = reverse;
    op.input[0] = from;
    op.output = to;
    if (to >= 0) pdl__program_emit(b, &op);
}

static void move(pdl__builder_t *b, const pdl_program_op_t *interior, int k, int direction, int from, int to)
{
    const pdl_program_move_t *said = &side_of(b, interior, k)->move[direction];
    pdl_program_op_t          op = like(interior, PDL_OP_REDISTRIBUTE, k);

    op.stream = PDL_STREAM_REDISTRIBUTION;
    op.group = said->group;
    op.primitive = said->primitive;
    op.bytes = said->sent;
    op.input[0] = from;
    op.output = to;
    pdl__program_emit(b, &op);
}

static int take(pdl__builder_t *b, const pdl_program_op_t *interior, size_t bytes)
{
    return pdl__program_buffer(b, interior->node, bytes);
}

void pdl__program_sides_forward(pdl__builder_t *b, const pdl_program_op_t *interior, int halo[2])
{
    for (int k = 0; k < 2; k++) {
        const pdl_program_side_t *side = side_of(b, interior, k);
        halo[k] = -1;
        if (side->move[PDL_FORWARD].group == 0) continue;
        int gives = take(b, interior, side->gives);
        copy(b, interior, k, PDL_BOXES_GIVES, false, interior->input[0], gives);
        halo[k] = take(b, interior, side->move[PDL_FORWARD].bytes);
        move(b, interior, k, PDL_FORWARD, gives, halo[k]);
    }
    pdl__program_emit(b, interior);
    for (int k = 0; k < 2; k++) {
        const pdl_program_side_t *side = side_of(b, interior, k);
        pdl_program_op_t          op = like(interior, interior->kind, k);
        if (!side->computes) continue;
        op.input[0] = take(b, interior, side->strip);
        op.output = take(b, interior, side->border);
        op.workspace = take(b, interior, side->workspace);
        copy(b, interior, k, PDL_BOXES_OWN, false, interior->input[0], op.input[0]);
        copy(b, interior, k, PDL_BOXES_HALO, true, halo[k], op.input[0]);
        pdl__program_emit(b, &op);
        copy(b, interior, k, PDL_BOXES_BORDER, true, op.output, interior->output);
    }
}

/* Backward on a strip, with the rows of the boundary of what it reads. */
static pdl_program_op_t on_strip(pdl__builder_t *b, const pdl_program_op_t *interior, pdl_op_kind_t kind, int k)
{
    const pdl_program_side_t *side = side_of(b, interior, k);
    pdl_program_op_t          op = like(interior, kind, k);

    for (int g = 0; g < 2; g++) {
        if (interior->gradient[g] < 0) continue;
        op.gradient[g] = take(b, interior, side->border);
        copy(b, interior, k, PDL_BOXES_BORDER, false, interior->gradient[g], op.gradient[g]);
    }
    if (side->keeps_output) {
        op.output = take(b, interior, side->border);
        copy(b, interior, k, PDL_BOXES_BORDER, false, interior->output, op.output);
    }
    op.workspace = take(b, interior, side->workspace);
    return op;
}

void pdl__program_sides_dgrad(pdl__builder_t *b, const pdl_program_op_t *interior, int back[2])
{
    int sum[2] = {-1, -1};

    for (int k = 0; k < 2; k++) {
        const pdl_program_side_t *side = side_of(b, interior, k);
        if (!side->computes) continue;
        pdl_program_op_t op = on_strip(b, interior, PDL_OP_DGRAD, k);
        op.input_gradient[0] = take(b, interior, side->strip);
        pdl__program_emit(b, &op);
        sum[k] = take(b, interior, side->move[PDL_FORWARD].bytes);
        copy(b, interior, k, PDL_BOXES_HALO, false, op.input_gradient[0], sum[k]);
    }
    for (int k = 0; k < 2; k++) {
        back[k] = -1;
        if (side_of(b, interior, k)->move[PDL_BACKWARD].group == 0) continue;
        back[k] = take(b, interior, side_of(b, interior, k)->gives);
        move(b, interior, k, PDL_BACKWARD, sum[k], back[k]);
    }
}

void pdl__program_sides_wgrad(pdl__builder_t *b, const pdl_program_op_t *interior, const int halo[2])
{
    for (int k = 0; k < 2; k++) {
        if (!side_of(b, interior, k)->computes) continue;
        pdl_program_op_t op = on_strip(b, interior, PDL_OP_WGRAD, k);
        op.input[0] = take(b, interior, side_of(b, interior, k)->strip);
        copy(b, interior, k, PDL_BOXES_OWN, false, -1, op.input[0]);
        copy(b, interior, k, PDL_BOXES_HALO, true, halo[k], op.input[0]);
        pdl__program_emit(b, &op);
    }
}

void pdl__program_sides_add(pdl__builder_t *b, const pdl_program_op_t *interior, const int back[2])
{
    for (int k = 0; k < 2; k++) {
        pdl_program_op_t op = like(interior, PDL_OP_SUM, k);
        if (back[k] < 0) continue;
        op.input[0] = op.output = take(b, interior, side_of(b, interior, k)->gives);
        op.input[1] = back[k];
        copy(b, interior, k, PDL_BOXES_GIVES, false, interior->input_gradient[0], op.output);
        pdl__program_emit(b, &op);
        copy(b, interior, k, PDL_BOXES_GIVES, true, op.output, interior->input_gradient[0]);
    }
}
