/*
 * Models on their way between workers. On one rank they only change names; between ranks weights are sent, into
 * weight sets that hold no model. Groups of the tour are gone through in the same order on every rank, and inside a group
 * everything is started before anything is waited for, so nobody waits in a circle.
 */
#include "train/rounds/inside.h"
#include <stdlib.h>
#include <string.h>

#define ARRAYS 3 /* most that a weight set has */

/* In a group of u, at most every second worker of a rank gets its model from another. */
int pdl__travel_spares(const pdl_aggregate_options_t *o, int ranks)
{
    if (o->kind != PDL_AGGREGATE_SEM || ranks == 1) return 0;
    return o->hops < 4 ? 1 : (int)(o->hops / 2);
}

pdl_status_t pdl__travel_create(pdl__rounds_t *r, int first_spare)
{
    pdl__travel_t *t = &r->travel;
    pdl_session_t *s = r->session;
    int64_t        bytes = s->elements * (int64_t)pdl_dtype_bytes(s->spec.backend->weight_type);
    pdl_status_t   status = PDL_OK;

    t->slots = pdl__travel_spares(&r->spec.options, pdl_ranks_size(r->ranks));
    t->request = calloc((size_t)t->slots * 2 * ARRAYS, sizeof(pdl_ranks_request_t *));
    t->spare = calloc((size_t)t->slots, sizeof(*t->spare));
    if (!t->request || !t->spare) return pdl_error(PDL_ERR_NOMEM, "out of memory for models under way");
    for (int i = 0; i < t->slots; i++) t->spare[i] = first_spare + i;
    for (int i = 0; i < t->slots * 2 * ARRAYS && !status; i++)
        status = pdl_ranks_request_create(r->ranks, bytes, &t->request[i]);
    return status;
}

void pdl__travel_destroy(pdl__rounds_t *r)
{
    for (int i = 0; r->travel.request && i < r->travel.slots * 2 * ARRAYS; i++)
        pdl_ranks_request_destroy(r->travel.request[i]);
    free(r->travel.request);
    free(r->travel.spare);
}

static int rank_of(const pdl__rounds_t *r, int64_t worker)
{
    int64_t low, high;

    for (int k = 0;; k++) {
        pdl_block_range(r->workers, pdl_ranks_size(r->ranks), k, &low, &high);
        if (worker < high) return k;
    }
}

/* Starts the message of every array of a weight set. Both sides name it by the worker that gets the model. */
static pdl_status_t start(pdl__rounds_t *r, int slot, bool sends, int set, int peer, int64_t worker)
{
    pdl_session_t *s = r->session;
    pdl_status_t   status = pdl__session_await(s);

    if (!s->device->host_access)
        return pdl_error(PDL_ERR_UNSUPPORTED,
                         "models move between ranks in memory of the host only; use --device cpu");
    for (int i = 0, a; !status && (a = pdl__weight_set_array(s, i, r->spec.options.keep_moments)) >= 0; i++) {
        pdl_ranks_request_t *request = r->travel.request[(slot * 2 + sends) * ARRAYS + i];
        int64_t bytes = pdl__weight_set_elements(s, a) * (int64_t)pdl_dtype_bytes(s->spec.backend->weight_type);
        int     tag = (int)(worker % PDL_RANKS_TAGS);
        if (sends) r->bytes += (double)bytes;
        status = sends ? pdl_ranks_send_start(request, s->weight_set[set].array[a], bytes, peer, tag)
                       : pdl_ranks_receive_start(request, s->weight_set[set].array[a], bytes, peer, tag);
    }
    return status;
}

static pdl_status_t wait_all(pdl__rounds_t *r)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < r->travel.slots * 2 * ARRAYS && !status; i++)
        status = pdl_ranks_request_wait(r->travel.request[i]);
    return status;
}

/* Weight sets by the workers that the models are at now: before[] has them as they were. */
static void rename_group(pdl__rounds_t *r, int64_t first, int64_t last, const int *before)
{
    pdl__travel_t *t = &r->travel;
    int            here = pdl_ranks_rank(r->ranks), received = 0, sent = 0;

    for (int64_t p = first; p < last; p++) {
        int64_t to = r->tour.order[p], from = pdl__tour_after(&r->tour, to, -1);
        if (rank_of(r, to) != here) continue;
        r->weight_set[to - r->first] = rank_of(r, from) == here ? before[from - r->first] : t->spare[received++];
    }
    for (int64_t p = first; p < last; p++) {
        int64_t to = r->tour.order[p], from = pdl__tour_after(&r->tour, to, -1);
        if (rank_of(r, to) != here && rank_of(r, from) == here) t->spare[sent++] = before[from - r->first];
    }
}

/* The places [first, last) of the tour: whoever is at one gets the model of the one before. */
static pdl_status_t move_group(pdl__rounds_t *r, int64_t first, int64_t last)
{
    int          here = pdl_ranks_rank(r->ranks), received = 0, sent = 0;
    pdl_status_t status = PDL_OK;

    for (int64_t p = first; p < last && !status; p++) {
        int64_t to = r->tour.order[p], from = pdl__tour_after(&r->tour, to, -1);
        int     source = rank_of(r, from), target = rank_of(r, to);
        if (source == target) continue;
        if (target == here) {
            status = start(r, received, false, r->travel.spare[received], source, to);
            received++;
        } else if (source == here) {
            status = start(r, sent, true, r->before[from - r->first], target, to);
            sent++;
        }
    }
    if (!status && received + sent > 0) status = wait_all(r);
    if (!status) rename_group(r, first, last, r->before);
    return status;
}

pdl_status_t pdl__travel_move(pdl__rounds_t *r)
{
    pdl_status_t status = PDL_OK;

    memcpy(r->before, r->weight_set, (size_t)r->count * sizeof(*r->weight_set));
    for (int64_t first = 0; first < r->workers && !status; first += r->tour.hops) {
        int64_t last = first + r->tour.hops;
        status = move_group(r, first, last < r->workers ? last : r->workers);
    }
    return status;
}
