/*
 * A session against a dry one of the same rank: bytes held, and bytes counted on the wire.
 */
#ifndef PDL_TESTS_DRY_CHECK_H
#define PDL_TESTS_DRY_CHECK_H

#include "train/exec/session.h"
#include <math.h>
#include <paradl/program/compile.h>
#include <paradl/train/dry.h>
#include <string.h>

static bool same_memory(const pdl_session_memory_t *a, const pdl_session_memory_t *b)
{
    return a->weights == b->weights && a->gradients == b->gradients && a->optimizer == b->optimizer &&
           a->activations == b->activations && a->messages == b->messages && a->live == b->live &&
           a->total == b->total;
}

static bool same_traffic(const pdl_session_traffic_t *a, const pdl_session_traffic_t *b)
{
    return a->moves == b->moves && a->routed == b->routed && a->stages == b->stages &&
           a->gradients == b->gradients && a->statistics == b->statistics && a->results == b->results;
}

static bool same_op(const pdl_program_t *p, const pdl_program_t *q, int i)
{
    const pdl_program_op_t *a = &p->op[i], *b = &q->op[i];
    char                    names[2][224];

    for (int w = 0; w < a->wait_count && a->wait_count == b->wait_count; w++)
        if (p->wait[a->first_wait + w] != q->wait[b->first_wait + w]) return false;
    return a->kind == b->kind && a->stream == b->stream && a->node == b->node && a->micro_batch == b->micro_batch &&
           a->output == b->output && a->saved == b->saved && a->workspace == b->workspace && a->group == b->group &&
           a->primitive == b->primitive && a->bytes == b->bytes && a->wait_count == b->wait_count &&
           strcmp(pdl_program_op_name(p, i, names[0], sizeof(names[0])),
                  pdl_program_op_name(q, i, names[1], sizeof(names[1]))) == 0;
}

/* The first operation that differs, -1 when none does; or the number of operations where other things differ. */
static int first_difference(const pdl_program_t *a, const pdl_program_t *b)
{
    int count = a->op_count < b->op_count ? a->op_count : b->op_count;

    for (int i = 0; i < count; i++)
        if (!same_op(a, b, i)) return i;
    if (a->op_count != b->op_count || a->buffer_count != b->buffer_count || a->arena_bytes != b->arena_bytes)
        return count;
    for (int k = 0; k < a->buffer_count; k++)
        if (a->buffer[k].bytes != b->buffer[k].bytes || a->buffer[k].offset != b->buffer[k].offset) return count;
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

/* What a dry session of this rank says against what the real one holds: `taken` bytes of tensors, besides messages. */
static pdl_status_t check_dry(const pdl_session_spec_t *spec, const pdl_session_t *real, size_t taken,
                              pdl_session_traffic_t *traffic)
{
    pdl_session_memory_t  holds, would_hold;
    pdl_session_traffic_t sends;
    pdl_session_t        *dry;
    size_t                before = pdl_memory_held();
    pdl_status_t          status = pdl_session_create_dry(spec, pdl_ranks_rank(spec->ranks), &dry);

    if (status) return status;
    pdl_session_memory(real, &holds);
    pdl_session_memory(dry, &would_hold);
    pdl_session_traffic(real, &sends);
    pdl_session_traffic(dry, traffic);
    if (!same_memory(&holds, &would_hold) || would_hold.total - would_hold.messages != taken)
        status =
            pdl_error(PDL_ERR_INPUT, "rank %d holds %zu bytes and %zu of messages (%zu taken), dry %zu and %zu",
                      pdl_ranks_rank(spec->ranks), holds.total, holds.messages, taken, would_hold.total,
                      would_hold.messages);
    else if (!same_traffic(&sends, traffic) || pdl_memory_held() != before)
        status = pdl_error(PDL_ERR_INPUT, "rank %d sends %g bytes, dry %g", pdl_ranks_rank(spec->ranks),
                           sends.total, traffic->total);
    if (!status) status = check_program(pdl_session_program(real), pdl_session_program(dry));
    if (!status) status = check_compiled(real);
    pdl_session_destroy(dry);
    return status;
}

/* Bytes counted on the wire since `before`, when the session was new, against what was said of an update. How many
   of them went to experts of other ranks is up to the data; what went to experts of all ranks is not. */
static pdl_status_t check_sent(const pdl_session_t *session, pdl_ranks_t *ranks, const double *before, int updates,
                               const pdl_session_traffic_t *traffic)
{
    double said[PDL_SENT_KINDS] = {[PDL_SENT_MESSAGES] = traffic->stages,
                                   [PDL_SENT_MOVES] = traffic->moves,
                                   [PDL_SENT_SUMS] = traffic->statistics + traffic->results,
                                   [PDL_SENT_EXCHANGE] = traffic->gradients};
    double sent[PDL_SENT_KINDS], routed, stayed;

    for (int k = 0; k < PDL_SENT_KINDS; k++) sent[k] = pdl_ranks_sent(ranks, (pdl_sent_t)k) - before[k];
    pdl_session_routed(session, &routed, &stayed);
    sent[PDL_SENT_MOVES] -= routed;
    double       all[2] = {routed + stayed, updates * traffic->routed_all};
    pdl_status_t status = pdl_ranks_sum(ranks, all, 2);
    if (!status && fabs(all[0] - all[1]) > 0.5)
        return pdl_error(PDL_ERR_INPUT, "%.0f bytes went to experts, not %.0f", all[0], all[1]);
    for (int k = 0; k < PDL_SENT_KINDS && !status; k++)
        if (sent[k] != updates * said[k])
            status = pdl_error(PDL_ERR_INPUT, "rank %d sent %g bytes of kind %d in %d updates, not %g",
                               pdl_ranks_rank(ranks), sent[k], k, updates, updates * said[k]);
    return status;
}

#endif
