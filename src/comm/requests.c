/*
 * Messages between two ranks.
 */
#include "comm/requests.h"
#include "comm/inside.h"
#include "comm/watch/watch.h"

#include <inttypes.h>
#include <stdlib.h>

struct pdl_ranks_request {
    pdl_ranks_t   *ranks;
    int64_t        most_bytes;
    bool           moving;
    pdl__pieces_t *pieces; /* NULL: there is no other rank, or only in pretence */
};

pdl_status_t pdl_ranks_request_create(pdl_ranks_t *ranks, int64_t most_bytes, pdl_ranks_request_t **result)
{
    pdl_ranks_request_t *request;
    pdl_status_t         status = PDL_OK;

    if (most_bytes < 0)
        return pdl_error(PDL_ERR_INPUT, "messages of up to %" PRId64 " bytes: expected 0 or more", most_bytes);
    request = calloc(1, sizeof(*request));
    if (request == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    request->ranks = ranks;
    request->most_bytes = most_bytes;
    if (ranks->size > 1 && !ranks->dry) status = pdl__pieces_create(most_bytes, &request->pieces);
    if (status) {
        free(request);
        return status;
    }
    *result = request;
    return PDL_OK;
}

void pdl_ranks_request_destroy(pdl_ranks_request_t *request)
{
    if (request == NULL) return;
    /* MPI may still use the memory of a message in flight: it is left alone. */
    if (!request->moving) pdl__pieces_destroy(request->pieces);
    free(request);
}

static pdl_status_t check(const pdl_ranks_request_t *request, int64_t bytes, int peer, int tag)
{
    const pdl_ranks_t *ranks = request->ranks;

    if (ranks->dry)
        return pdl_error(PDL_ERR_UNSUPPORTED, "rank %d is dry: it sends and receives nothing", ranks->rank);
    if (request->moving)
        return pdl_error(PDL_ERR_INPUT, "a request is started again before it was waited for: use one for each "
                                        "message in flight");
    if (bytes < 0 || bytes > request->most_bytes)
        return pdl_error(PDL_ERR_INPUT, "a message of %" PRId64 " bytes: the request was made for up to %" PRId64,
                         bytes, request->most_bytes);
    if (peer < 0 || peer >= ranks->size || peer == ranks->rank)
        return pdl_error(PDL_ERR_INPUT, "a message between rank %d and rank %d: expected another of %d ranks",
                         ranks->rank, peer, ranks->size);
    if (tag < 0 || tag >= PDL_RANKS_TAGS)
        return pdl_error(PDL_ERR_INPUT, "tag %d of a message: expected 0 to %d", tag, PDL_RANKS_TAGS - 1);
    return PDL_OK;
}

pdl_status_t pdl__request_send(pdl_ranks_request_t *request, const void *data, int64_t bytes, int peer, int tag)
{
    request->moving = true;
    return pdl__pieces_send(request->pieces, request->ranks->world, data, bytes, peer, tag);
}

pdl_status_t pdl__request_receive(pdl_ranks_request_t *request, void *data, int64_t bytes, int peer, int tag)
{
    request->moving = true;
    return pdl__pieces_receive(request->pieces, request->ranks->world, data, bytes, peer, tag);
}

pdl_status_t pdl_ranks_send_start(pdl_ranks_request_t *request, const void *data, int64_t bytes, int peer, int tag)
{
    pdl_status_t status = check(request, bytes, peer, tag);

    if (status) return status;
    request->ranks->counted[PDL_SENT_MESSAGES] += (double)bytes;
    return pdl__request_send(request, data, bytes, peer, tag);
}

pdl_status_t pdl_ranks_receive_start(pdl_ranks_request_t *request, void *data, int64_t bytes, int peer, int tag)
{
    pdl_status_t status = check(request, bytes, peer, tag);

    return status ? status : pdl__request_receive(request, data, bytes, peer, tag);
}

pdl_status_t pdl_ranks_request_wait(pdl_ranks_request_t *request)
{
    pdl_status_t status;

    if (!request->moving) return PDL_OK;
    status = pdl__pieces_wait(request->pieces);
    /* MPI may still use what belongs to a message of a rank that is lost. */
    request->moving = status && pdl_watch_failed(request->ranks);
    return status;
}

pdl_status_t pdl_ranks_request_test(pdl_ranks_request_t *request, bool *done)
{
    pdl_status_t status = PDL_OK;

    *done = true;
    if (!request->moving) return PDL_OK;
    status = pdl__pieces_test(request->pieces, done);
    if (*done) request->moving = false;
    return status || *done ? status : pdl__watch_check(request->ranks->watch);
}
