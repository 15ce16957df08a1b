/*
 * What waits for what. An operation that communicates is in flight behind its place; the first one that reads what it
 * makes, or writes what it reads or makes, waits for it.
 */
#include "program/builder.h"
#include <stdlib.h>

bool pdl_program_op_in_flight(const pdl_program_op_t *op)
{
    return op->kind == PDL_OP_RECV || op->kind == PDL_OP_COLLECTIVE || op->kind == PDL_OP_COPY_OUT ||
           op->kind == PDL_OP_COPY_IN || (op->kind == PDL_OP_REDISTRIBUTE && op->group != 0) ||
           (op->kind == PDL_OP_UPDATE && op->stream == PDL_STREAM_HOST);
}

bool pdl_program_op_needs_host(const pdl_program_op_t *op, bool alone)
{
    if (op->stream != PDL_STREAM_COMPUTE || op->wait_count > 0 || op->whole_count > 0 || op->bucket >= 0)
        return true;
    return op->kind == PDL_OP_RESULT || op->kind == PDL_OP_UPDATE ? !alone : op->group != 0;
}

int pdl_program_replayable(const pdl_program_t *program, bool alone)
{
    int count = 0;

    while (count < program->op_count && !pdl_program_op_needs_host(&program->op[count], alone)) count++;
    return count;
}

/* Whether backward leaves the gradient of an input where the gradient of the output is. */
static bool is_passed(const pdl_program_t *program, const pdl_program_op_t *op, int j)
{
    return op->node >= 0 && program->node[op->node].gradient[j] == PDL_GRADIENT_PASSED;
}

void pdl__program_visit(const pdl_program_t *program, const pdl_program_op_t           *op,
                        void (*visit)(void *context, int buffer, pdl__use_t use), void *context)
{
    bool       kept = op->kind == PDL_OP_BACKWARD || op->kind == PDL_OP_DGRAD || op->kind == PDL_OP_WGRAD;
    pdl__use_t made = kept ? PDL__READS : PDL__WRITES;

    for (int j = 0; j < PDL_PROGRAM_INPUTS; j++) {
        if (op->input[j] >= 0) visit(context, op->input[j], op->kind == PDL_OP_LOAD ? PDL__WRITES : PDL__READS);
        if (op->input_gradient[j] >= 0)
            visit(context, op->input_gradient[j], is_passed(program, op, j) ? PDL__READS : PDL__WRITES);
    }
    for (int g = 0; g < 2; g++)
        if (op->gradient[g] >= 0) visit(context, op->gradient[g], PDL__READS);
    if (op->output >= 0) visit(context, op->output, made);
    if (op->saved >= 0) visit(context, op->saved, made);
    if (op->workspace >= 0) visit(context, op->workspace, PDL__WRITES);
    for (int k = 0; k < op->whole_count; k++) {
        int buffer = program->whole[op->first_whole + k];
        visit(context, buffer, program->buffer[buffer].weights ? PDL__READS : PDL__WRITES);
    }
}

/* Of the operations in flight, who uses a buffer. */
typedef struct flight {
    pdl__builder_t *builder;
    int            *op;
    int             count, capacity;
    int (*uses)[2];       /* of every buffer by those in flight, reading and writing */
    int        change;    /* of the uses */
    int        at;        /* the operation that is looked at */
    int        candidate; /* the one in flight that it is compared with */
    int        buffer;
    pdl__use_t use;
    bool       collides;
} flight_t;

/* An operation takes off or lands. */
static void count_use(void *context, int buffer, pdl__use_t use)
{
    flight_t *f = context;

    f->uses[buffer][use == PDL__WRITES] += f->change;
}

static void count_uses(flight_t *f, int op, int change)
{
    f->change = change;
    pdl__program_visit(f->builder->program, &f->builder->program->op[op], count_use, f);
}

/* Whether anything in flight is in the way of a use. */
static void meet(void *context, int buffer, pdl__use_t use)
{
    flight_t *f = context;

    f->collides |= f->uses[buffer][1] > 0 || (use == PDL__WRITES && f->uses[buffer][0] > 0);
}

static void compare(void *context, int buffer, pdl__use_t use)
{
    flight_t *f = context;

    f->collides |= buffer == f->buffer && (use == PDL__WRITES || f->use == PDL__WRITES);
}

/* A buffer of the operation at hand against those of one in flight. */
static void look_at(void *context, int buffer, pdl__use_t use)
{
    flight_t            *f = context;
    const pdl_program_t *program = f->builder->program;

    f->buffer = buffer;
    f->use = use;
    if (!f->collides) pdl__program_visit(program, &program->op[f->candidate], compare, f);
}

/* What follows though no buffer says it: moves of a redistribution, also where this rank has no part of the tensor; sums of
   parts behind those of the bucket, layers behind the halos of the one before, of which a rank may give without getting any, sums over stages behind all; and an update and its end behind everything. */
static bool follows(const pdl_program_op_t *op, const pdl_program_op_t *before)
{
    if (before->part > 0 && op->node != before->node) return true;
    switch (op->kind) {
    case PDL_OP_REDISTRIBUTE:
        return before->kind == PDL_OP_REDISTRIBUTE && op->node == before->node && op->sums == before->sums &&
               op->part == before->part;
    case PDL_OP_COLLECTIVE:
        if (before->kind != PDL_OP_COLLECTIVE || op->role < before->role) return false;
        return op->role == PDL_ROLE_TIED ? before->role != PDL_ROLE_TIED
                                         : op->role == PDL_ROLE_PARTS && before->role == PDL_ROLE_GRADIENTS &&
                                               op->bucket == before->bucket;
    case PDL_OP_RESULT: return true;
    case PDL_OP_UPDATE: /* a piece needs its state and the gradients of its bucket */
        return op->piece < 0 || (before->kind == PDL_OP_COLLECTIVE && before->role == PDL_ROLE_GRADIENTS &&
                                 op->bucket == before->bucket);
    case PDL_OP_COPY_OUT: /* gradients of a piece */
        return op->bucket >= 0 && before->kind == PDL_OP_COLLECTIVE && before->role == PDL_ROLE_GRADIENTS &&
               op->bucket == before->bucket;
    case PDL_OP_CONVERT: return op->node < 0;
    default: return false;
    }
}

/* Memory of what is copied out, or of gradients on the host, is released at its time. */
static bool is_due(const pdl_program_op_t *before, int at)
{
    return before->until > 0 && before->until <= at;
}

static pdl_status_t add_wait(flight_t *f, int k)
{
    pdl_program_t *program = f->builder->program;
    pdl_status_t   status = pdl__program_grow((void **)&program->wait, program->wait_count,
                                              &f->builder->wait_capacity, sizeof(*program->wait));

    if (status) return status;
    program->wait[program->wait_count++] = f->op[k];
    program->op[f->at].wait_count++;
    return PDL_OK;
}

/* The operation at hand waits for those in flight that it depends on, in the order in which they were issued. */
static pdl_status_t wait_for_flights(flight_t *f)
{
    pdl_program_t *program = f->builder->program;
    int            left = 0;
    pdl_status_t   status = PDL_OK;

    program->op[f->at].first_wait = program->wait_count;
    f->collides = false;
    pdl__program_visit(program, &program->op[f->at], meet, f);
    bool meets = f->collides;
    for (int k = 0; k < f->count && !status; k++) {
        f->candidate = f->op[k];
        f->collides = !f->builder->options->overlap || follows(&program->op[f->at], &program->op[f->candidate]) ||
                      is_due(&program->op[f->candidate], f->at);
        if (!f->collides && meets) pdl__program_visit(program, &program->op[f->at], look_at, f);
        if (!f->collides) {
            f->op[left++] = f->op[k];
            continue;
        }
        status = add_wait(f, k);
        count_uses(f, f->op[k], -1);
    }
    f->count = left;
    return status;
}

pdl_status_t pdl__program_wait(pdl__builder_t *b)
{
    flight_t     f = {.builder = b, .uses = calloc((size_t)b->program->buffer_count + 1, sizeof(*f.uses))};
    pdl_status_t status = f.uses != NULL ? PDL_OK : pdl__program_no_memory();

    for (f.at = 0; f.at < b->program->op_count && !status; f.at++) {
        status = wait_for_flights(&f);
        if (status || !pdl_program_op_in_flight(&b->program->op[f.at])) continue;
        status = pdl__program_grow((void **)&f.op, f.count, &f.capacity, sizeof(*f.op));
        if (status) break;
        f.op[f.count++] = f.at;
        count_uses(&f, f.at, 1);
    }
    free(f.uses);
    free(f.op);
    return status;
}
