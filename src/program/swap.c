/*
 * Copies to the host and back. A tensor is copied out behind its last reader of the forward pass, and its memory is
 * released some blocks later: the first operation there waits for the copy. Copying back begins some blocks before
 * backward wants it, or where it is wanted.
 */
#include "program/builder.h"

/* Which of a node's buffers backward reads: the value is copied where it is kept, saved state always. */
enum { VALUE, SAVED, PARTS };

static bool swaps(const pdl__builder_t *b, int i, int part)
{
    const pdl_program_node_t *node = &b->nodes[i];

    if (!b->options->training || !node->swap) return false;
    return part == VALUE ? b->kept[i] : node->backward && node->saved_bytes > 0;
}

bool pdl__program_leaves(const pdl__builder_t *b, int i)
{
    return swaps(b, i, VALUE) || swaps(b, i, SAVED);
}

static int *held_part(pdl__builder_t *b, int i, int part)
{
    return part == VALUE ? &b->held[i].value : &b->held[i].saved;
}

static size_t bytes_of(const pdl__builder_t *b, int buffer)
{
    return b->program->buffer[buffer].bytes;
}

/* One copy; the tensors are those of forward, whichever pass it stands in. */
static void emit_copy(pdl__builder_t *b, pdl_op_kind_t kind, int node, int from, int to)
{
    pdl_program_op_t op = pdl__program_blank(kind, node, false);

    op.micro_batch = b->micro_batch;
    op.stream = kind == PDL_OP_COPY_OUT ? PDL_STREAM_COPY_OUT : PDL_STREAM_COPY_IN;
    op.input[0] = from;
    op.output = to;
    op.bytes = (double)bytes_of(b, from);
    pdl__program_emit(b, &op);
}

static void note_leaving(pdl__builder_t *b, int blocks)
{
    if (!b->status)
        b->status =
            pdl__program_grow((void **)&b->leaving, b->leaving_count, &b->leaving_capacity, sizeof(*b->leaving));
    if (b->status) return;
    b->leaving[b->leaving_count++] = (pdl__leaving_t){b->program->op_count - 1, b->micro_batch, blocks};
}

static void send_out(pdl__builder_t *b, int i)
{
    for (int part = 0; part < PARTS && !b->status; part++) {
        int buffer = *held_part(b, i, part);
        b->held[i].host[part] = -1;
        if (!swaps(b, i, part) || buffer < 0) continue;
        int host = pdl__program_buffer(b, i, bytes_of(b, buffer));
        if (b->status) return;
        b->program->buffer[host].space = PDL_SPACE_PINNED;
        b->held[i].host[part] = host;
        emit_copy(b, PDL_OP_COPY_OUT, i, buffer, host);
        note_leaving(b, b->nodes[i].release_after);
    }
}

void pdl__program_copy_out(pdl__builder_t *b, int i)
{
    for (int j = 0; j < b->nodes[i].input_count; j++) {
        int owner = b->root[b->nodes[i].input[j]], earlier = 0;
        while (earlier < j && b->root[b->nodes[i].input[earlier]] != owner) earlier++;
        if (earlier == j && b->last_reader[owner] == i && pdl__program_leaves(b, owner)) send_out(b, owner);
    }
    if (b->last_reader[i] == i && pdl__program_leaves(b, i)) send_out(b, i);
}

void pdl__program_copy_in(pdl__builder_t *b, int i)
{
    b->held[i].there = true;
    for (int part = 0; part < PARTS && !b->status; part++) {
        int host = b->held[i].host[part];
        if (!swaps(b, i, part) || host < 0) continue;
        int buffer = pdl__program_buffer(b, i, bytes_of(b, host));
        *held_part(b, i, part) = buffer;
        if (!b->status) emit_copy(b, PDL_OP_COPY_IN, i, host, buffer);
    }
}

/* One block more is computed: copies whose turn it is are waited for by the next operation. */
static void release(pdl__builder_t *b)
{
    int left = 0;

    for (int k = 0; k < b->leaving_count; k++) {
        pdl__leaving_t *leaving = &b->leaving[k];
        if (leaving->micro_batch == b->micro_batch && --leaving->blocks <= 0)
            b->program->op[leaving->op].until = b->program->op_count;
        else
            b->leaving[left++] = *leaving;
    }
    b->leaving_count = left;
}

/* Copies back what blocks from `block` down want that are near enough. */
static void prefetch(pdl__builder_t *b, int block)
{
    for (int i = b->node_count - 1; i >= 0 && !b->status; i--) {
        const pdl_program_node_t *node = &b->nodes[i];
        if (!pdl__program_leaves(b, i) || b->held[i].there || node->wanted_by < 0) continue;
        if (block - node->wanted_by <= node->prefetch) pdl__program_copy_in(b, i);
    }
}

void pdl__program_enter_block(pdl__builder_t *b, int i, bool backward)
{
    int block = b->nodes[i].block;

    if (block == b->block) return;
    if (b->block >= 0) release(b);
    b->block = block;
    if (backward) prefetch(b, block);
}
