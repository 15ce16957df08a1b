/*
 * Models exchanged between workers. On one rank weight sets only change hands; between ranks weights are sent, into
 * weight sets that hold no model. All ranks go through the groups in the same order. Inside a group all messages are
 * started before one is waited for, so ranks cannot wait for each other in a circle.
 */
#include "train/rounds/inside.h"
#include <stdlib.h>
#include <string.h>

#define ARRAYS 3 /* most that a weight set has */

/* In a group, at most every second worker of a rank gets its model from another rank. */
int pdl__model_exchange_spares(const pdl_aggregate_options_t *o, int ranks)
{
    if (o->kind != PDL_AGGREGATE_SEM || ranks == 1) return 0;
    return o->hops < 4 ? 1 : (int)(o->hops / 2);
}

pdl_status_t pdl__model_exchange_create(pdl__rounds_t *r, int first_spare)
{
    pdl__model_exchange_t *t = &r->exchange;
    pdl_session_t         *s = r->session;
    int64_t                bytes = s->weights.elements * (int64_t)pdl_dtype_bytes(s->spec.backend->weight_type);
    pdl_status_t           status = PDL_OK;

    t->slots = pdl__model_exchange_spares(&r->spec.options, pdl_ranks_size(r->ranks));
    t->wire = calloc((size_t)t->slots * 2 * ARRAYS, sizeof(pdl_wire_t *));
    t->spare = calloc((size_t)t->slots * 2, sizeof(*t->spare));
    if (!t->wire || !t->spare) return pdl_error(PDL_ERR_NOMEM, "out of memory for models in flight");
    for (int i = 0; i < t->slots; i++) t->spare[i] = first_spare + i;
    for (int i = 0; i < t->slots * 2 * ARRAYS && !status; i++)
        status = pdl_wire_create(s->executor.transport, r->ranks, PDL_SENT_MESSAGES, bytes, &t->wire[i]);
    return status;
}

void pdl__model_exchange_destroy(pdl__rounds_t *r)
{
    for (int i = 0; r->exchange.wire && i < r->exchange.slots * 2 * ARRAYS; i++)
        pdl_wire_destroy(r->exchange.wire[i]);
    free(r->exchange.wire);
    free(r->exchange.spare);
}

static int rank_of(const pdl__rounds_t *r, int64_t worker)
{
    int64_t low, high;

    for (int k = 0;; k++) {
        pdl_block_range(r->workers, pdl_ranks_size(r->ranks), k, &low, &high);
        if (worker < high) return k;
    }
}

/* Starts the message of every array of a weight set. Both sides tag the message with the worker that gets the model. */
static pdl_status_t start(pdl__rounds_t *r, int slot, bool sends, int set, int peer, int64_t worker)
{
    pdl_session_t       *s = r->session;
    pdl_tensor_stream_t *stream = s->executor.stream[PDL_STREAM_COMPUTE];
    pdl_status_t         status = PDL_OK;

    for (int i = 0, a; !status && (a = pdl__weight_set_array(s, i, r->spec.options.keep_moments)) >= 0; i++) {
        pdl_wire_t *wire = r->exchange.wire[(slot * 2 + sends) * ARRAYS + i];
        int64_t     bytes = pdl__weight_set_elements(s, a) * (int64_t)pdl_dtype_bytes(s->spec.backend->weight_type);
        int         tag = (int)(worker % PDL_RANKS_TAGS);
        if (sends) r->bytes += (double)bytes;
        status = sends ? pdl_wire_send(wire, stream, s->weights.weight_set[set].array[a], bytes, peer, tag)
                       : pdl_wire_receive(wire, stream, s->weights.weight_set[set].array[a], bytes, peer, tag);
    }
    return status;
}

static pdl_status_t wait_all(pdl__rounds_t *r)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < r->exchange.slots * 2 * ARRAYS && !status; i++) status = pdl_wire_wait(r->exchange.wire[i]);
    return status;
}

/* The workers at places [first, last) are a group: each gets the model of the one before. A rank receives as many models
   as it sends, so the sets that it sent are its spare ones afterwards. */
static pdl_status_t exchange_group(pdl__rounds_t *r, int64_t first, int64_t last)
{
    int         *spare = r->exchange.spare, slots = r->exchange.slots;
    int          here = pdl_ranks_rank(r->ranks), received = 0, sent = 0;
    pdl_status_t status = PDL_OK;

    for (int64_t p = first; p < last && !status; p++) {
        int64_t to = r->groups.order[p], from = pdl__worker_groups_after(&r->groups, to, -1);
        int     source = rank_of(r, from), target = rank_of(r, to);
        if (source == here && target == here) {
            r->weight_set[to - r->first] = r->before[from - r->first];
        } else if (target == here) {
            r->weight_set[to - r->first] = spare[received];
            status = start(r, received, false, spare[received], source, to);
            received++;
        } else if (source == here) {
            spare[slots + sent] = r->before[from - r->first];
            status = start(r, sent, true, spare[slots + sent], target, to);
            sent++;
        }
    }
    if (!status && sent > 0) status = wait_all(r);
    for (int i = 0; i < sent; i++) spare[i] = spare[slots + i];
    return status;
}

pdl_status_t pdl__model_exchange_run(pdl__rounds_t *r)
{
    pdl_status_t status = PDL_OK;

    memcpy(r->before, r->weight_set, (size_t)r->count * sizeof(*r->weight_set));
    for (int64_t first = 0; first < r->workers && !status; first += r->groups.hops) {
        int64_t last = first + r->groups.hops;
        status = exchange_group(r, first, last < r->workers ? last : r->workers);
    }
    return status;
}
