/*
 * Programs that are the same object: operations, names, bytes of every group, waits, buffers and their places.
 */
#ifndef PDL_TESTS_SAME_PROGRAM_H
#define PDL_TESTS_SAME_PROGRAM_H

#include "train/exec/session.h"
#include <paradl/program/compile.h>
#include <paradl/train/dry.h>
#include <string.h>

static bool same_op(const pdl_program_t *p, const pdl_program_t *q, int i)
{
    const pdl_program_op_t *a = &p->op[i], *b = &q->op[i];
    char                    names[2][224];

    for (int w = 0; w < a->wait_count && a->wait_count == b->wait_count; w++)
        if (p->wait[a->first_wait + w] != q->wait[b->first_wait + w]) return false;
    return a->kind == b->kind && a->stream == b->stream && a->node == b->node && a->micro_batch == b->micro_batch &&
           a->backward == b->backward && a->again == b->again && a->bucket == b->bucket && a->adds == b->adds &&
           a->output == b->output && a->saved == b->saved && a->workspace == b->workspace && a->group == b->group &&
           a->primitive == b->primitive && a->role == b->role && a->bytes == b->bytes &&
           a->wait_count == b->wait_count && memcmp(a->input, b->input, sizeof(a->input)) == 0 &&
           memcmp(a->input_gradient, b->input_gradient, sizeof(a->input_gradient)) == 0 &&
           strcmp(pdl_program_op_name(p, i, names[0], sizeof(names[0])),
                  pdl_program_op_name(q, i, names[1], sizeof(names[1]))) == 0;
}

/* The first operation that differs, -1 when none does; or the number of operations where other things differ. */
static int first_difference(const pdl_program_t *a, const pdl_program_t *b)
{
    int count = a->op_count < b->op_count ? a->op_count : b->op_count;

    for (int i = 0; i < count; i++)
        if (!same_op(a, b, i)) return i;
    if (a->op_count != b->op_count || a->buffer_count != b->buffer_count || a->arena_bytes != b->arena_bytes ||
        a->host_bytes != b->host_bytes || a->bucket_count != b->bucket_count)
        return count;
    for (int k = 0; k < a->buffer_count; k++)
        if (a->buffer[k].bytes != b->buffer[k].bytes || a->buffer[k].offset != b->buffer[k].offset ||
            a->buffer[k].space != b->buffer[k].space)
            return count;
    return -1;
}

/* What the oracle prices and a run executes is the same list: operations, names, bytes of every group, waits, arena. */
static pdl_status_t check_program(const pdl_program_t *executed, const pdl_program_t *priced)
{
    char names[2][224] = {"", ""};

    if (executed == NULL && priced == NULL) return PDL_OK;
    int i = executed == NULL || priced == NULL ? 0 : first_difference(executed, priced);
    if (i < 0) return PDL_OK;
    if (executed != NULL && i < executed->op_count) pdl_program_op_name(executed, i, names[0], sizeof(names[0]));
    if (priced != NULL && i < priced->op_count) pdl_program_op_name(priced, i, names[1], sizeof(names[1]));
    return pdl_error(PDL_ERR_INPUT, "operation %d is \"%s\" when it runs and \"%s\" when it is priced", i, names[0],
                     names[1]);
}

/* The program of the plan alone. Collectives by another schedule than the plan's send what they send. */
static pdl_status_t check_compiled(const pdl_session_t *real)
{
    const pdl_session_spec_t *session = &real->spec;
    pdl_program_spec_t        spec = {.plan = session->plan,
                                      .backend = session->backend,
                                      .rank = pdl_ranks_rank(session->ranks),
                                      .training = true,
                                      .separate = session->separate,
                                      .overlap = session->overlap,
                                      .bucket_bytes = session->bucket_bytes,
                                      .smooths = session->label_smoothing > 0,
                                      .clips = session->optimizer.clip_norm > 0,
                                      .tensor_norms = session->optimizer.method == PDL_METHOD_LARS ||
                                                      session->optimizer.method == PDL_METHOD_LAMB};
    pdl_program_t            *program = NULL;

    if (!session->training || session->algorithm != NULL) return PDL_OK;
    pdl_status_t status = pdl_program_compile(&spec, &program);
    if (!status) status = check_program(pdl_session_program(real), program);
    pdl_program_destroy(program);
    return status;
}

#endif
