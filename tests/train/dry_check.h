/*
 * A session against a dry one of the same rank: bytes held, and bytes counted on the wire.
 */
#ifndef PDL_TESTS_DRY_CHECK_H
#define PDL_TESTS_DRY_CHECK_H

#include "same_program.h"
#include <math.h>

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
