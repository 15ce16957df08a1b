/*
 * Bytes, links and stalls of the copies of an update.
 */
#include "program/builder.h"
#include <math.h>
#include <paradl/program/copies.h>
#include <stdlib.h>

static bool is_copy(const pdl_program_op_t *op)
{
    return op->kind == PDL_OP_COPY_OUT || op->kind == PDL_OP_COPY_IN;
}

static void count_bytes(const pdl_program_t *program, pdl_program_copies_t *copies)
{
    for (int i = 0; i < program->op_count; i++) {
        const pdl_program_op_t *op = &program->op[i];
        if (op->kind == PDL_OP_COPY_OUT)
            *(op->bucket >= 0  ? &copies->gradient_bytes
              : op->piece >= 0 ? &copies->state_bytes
                               : &copies->swapped_bytes) += op->bytes;
        if (op->kind == PDL_OP_COPY_IN && op->bucket >= 0) copies->weight_bytes += op->bytes;
        if (op->kind == PDL_OP_RECOMPUTE && op->output >= 0)
            copies->recomputed_bytes += (double)program->buffer[op->output].bytes;
    }
}

/* Of the copies that an operation waits for, the one that is complete last; -1: it waits for none. */
static int last_copy(const pdl_program_t *program, const pdl_program_op_t *op, const double *end_s)
{
    int last = -1;

    for (int k = 0; k < op->wait_count; k++) {
        int w = program->wait[op->first_wait + k];
        if (is_copy(&program->op[w]) && (last < 0 || end_s[w] > end_s[last])) last = w;
    }
    return last;
}

/* A copy begins when its stream is free and what was computed before it is there. */
static void follow(const pdl_program_t *program, const double *end_s, double *block_s, pdl_program_copies_t *copies)
{
    double computed = 0, link[2] = {0, 0};

    for (int i = 0; i < program->op_count; i++) {
        const pdl_program_op_t *op = &program->op[i];
        if (is_copy(op)) {
            bool in = op->kind == PDL_OP_COPY_IN;
            *(in ? &copies->in_s : &copies->out_s) += fmax(0, end_s[i] - fmax(link[in], computed));
            link[in] = fmax(link[in], end_s[i]);
        }
        if (op->stream != PDL_STREAM_COMPUTE) continue;
        int    w = last_copy(program, op, end_s);
        double stall = w < 0 ? 0 : fmin(fmax(0, end_s[w] - computed), fmax(0, end_s[i] - computed));
        copies->stall_s += stall;
        if (stall > 0 && program->op[w].node >= 0)
            block_s[program->node[program->op[w].node].policy_block] += stall;
        computed = fmax(computed, end_s[i]);
    }
}

/* The last layer of a block that has nodes here. */
static int layer_of(const pdl_program_t *program, int block)
{
    int last = -1;

    for (int i = 0; i < program->node_count; i++)
        if (program->node[i].block == block && program->node[i].tail > last) last = program->node[i].tail;
    return last;
}

pdl_status_t pdl_program_count_copies(const pdl_program_t *program, const double *end_s,
                                      pdl_program_copies_t *copies)
{
    int blocks = 0, worst = -1;

    *copies = (pdl_program_copies_t){.worst_layer = -1};
    count_bytes(program, copies);
    if (end_s == NULL || copies->swapped_bytes + copies->state_bytes + copies->gradient_bytes <= 0) return PDL_OK;
    for (int i = 0; i < program->node_count; i++)
        if (program->node[i].policy_block >= blocks) blocks = program->node[i].policy_block + 1;
    double *block_s = calloc((size_t)blocks + 1, sizeof(*block_s));
    if (block_s == NULL) return pdl__program_no_memory();
    follow(program, end_s, block_s, copies);
    for (int b = 0; b < blocks; b++)
        if (block_s[b] > (worst < 0 ? 0 : block_s[worst])) worst = b;
    if (worst >= 0) {
        copies->worst_s = block_s[worst];
        copies->worst_layer = layer_of(program, worst);
    }
    free(block_s);
    return PDL_OK;
}
