/*
 * Messages as work of streams, by the library of the device: the host never waits for them. Messages to higher ranks and those
 * to lower ranks have communicators and a stream of their own, because those of one of them go one after the other, and stages
 * of a pipeline send in both directions.
 *
 * The library knows no tags: the receives of a rank from another have to be in the order of the sends. Messages that begin together
 * are. Of others the sender tells the tag over MPI, and the receiver asks for what was sent before as well, wherever it is expected.
 */
#include "comm/device/carrier.h"

#include "base/clock.h"
#include "comm/watch/watch.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define JOIN_S 120.0 /* in which all ranks of a group have to come */

typedef struct member {
    pdl_ranks_t *group;
    void        *communicator[2]; /* to higher ranks, and to lower ones */
} member_t;

typedef struct members {
    member_t            *member;
    int                  count;
    pdl_tensor_stream_t *stream[2];
    bool                 grouping;
    pdl_wire_t          *grouped;  /* begin together, when the group ends */
    pdl_wire_t          *expected; /* receives that have not been asked for */
} members_t;

typedef struct turn {
    pdl_tensor_event_t *ready, *done;
    int                 tag; /* as told over MPI */
} turn_t;

static const pdl_library_ops_t *library_of(const pdl_transport_t *transport)
{
    return transport->device->ops->library;
}

static pdl_status_t await_ready(pdl_transport_t *transport, const pdl_ranks_t *group, void *communicator)
{
    double       begin_s = pdl__seconds();
    bool         ready = false;
    pdl_status_t status = PDL_OK;

    while (!status && !ready) {
        status = library_of(transport)->ready(transport->device, communicator, &ready);
        if (!status && !ready) status = pdl__watch_check(group->watch);
        if (!status && !ready && pdl__seconds() - begin_s > JOIN_S)
            status = pdl_error(PDL_ERR_IO,
                               "%s: a group of %d ranks has not come together in %.0f s: is one of them stopped?",
                               library_of(transport)->name, group->size, JOIN_S);
        if (!ready) sched_yield();
    }
    return status;
}

static pdl_status_t join_one(pdl_transport_t *transport, pdl_ranks_t *group, void **communicator)
{
    char         id[PDL_LIBRARY_ID] = {0};
    pdl_status_t status = group->rank == 0 ? library_of(transport)->identify(transport->device, id) : PDL_OK;

    status = pdl_ranks_agree(group, status);
    if (!status) status = pdl_ranks_broadcast(group, id, sizeof(id), 0);
    if (!status)
        status = library_of(transport)->join(transport->device, id, group->rank, group->size, communicator);
    if (!status) status = await_ready(transport, group, *communicator);
    return pdl_ranks_agree(group, status);
}

static pdl_status_t nccl_join(pdl_transport_t *transport, pdl_ranks_t *group)
{
    members_t   *members = transport->state;
    member_t    *grown = realloc(members->member, (size_t)(members->count + 1) * sizeof(*grown)), *member;
    pdl_status_t status =
        pdl_ranks_agree(group, grown != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory"));

    if (grown != NULL) members->member = grown;
    if (status) return status;
    member = &members->member[members->count++];
    *member = (member_t){.group = group};
    for (int i = 0; !status && i < 2; i++) status = join_one(transport, group, &member->communicator[i]);
    return status;
}

/* A device of its own for every rank: the library itself refuses two ranks on one, but late and at length. */
static pdl_status_t check_devices(pdl_transport_t *transport)
{
    double       most = transport->sharers != NULL ? transport->sharers->size : 1;
    pdl_status_t status = pdl_ranks_max(transport->ranks, &most, 1);

    if (status || most < 2) return status;
    return pdl_error(PDL_ERR_UNSUPPORTED,
                     "--transport nccl needs a GPU for every rank, and %d ranks share one: use --transport auto",
                     (int)most);
}

static pdl_status_t check_library(const pdl_transport_t *transport)
{
    if (library_of(transport) == NULL || transport->device->ops->identity == NULL)
        return pdl_error(PDL_ERR_UNSUPPORTED, "--transport nccl is for NVIDIA GPUs: use --transport auto");
    return library_of(transport)->available(transport->device);
}

static pdl_status_t nccl_open(pdl_transport_t *transport)
{
    pdl_status_t status = check_library(transport);

    transport->state = calloc(1, sizeof(members_t));
    if (transport->state == NULL) status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (int i = 0; !status && i < 2; i++)
        status =
            transport->device->ops->stream_create(transport->device, &((members_t *)transport->state)->stream[i]);
    status = pdl_ranks_agree(transport->ranks, status);
    if (!status) status = check_devices(transport);
    return status ? status : nccl_join(transport, transport->ranks);
}

static void nccl_close(pdl_transport_t *transport)
{
    members_t *members = transport->state;

    if (members == NULL) return;
    for (int i = 0; i < members->count; i++)
        for (int k = 0; k < 2; k++)
            if (members->member[i].communicator[k] != NULL)
                library_of(transport)->leave(transport->device, members->member[i].communicator[k]);
    for (int k = 0; k < 2; k++) transport->device->ops->stream_destroy(transport->device, members->stream[k]);
    free(members->member);
    free(members);
    transport->state = NULL;
}

/* The communicator by which messages go one way in a group. */
static void *communicator_of(const pdl_transport_t *transport, const pdl_ranks_t *group, int way)
{
    const members_t *members = transport->state;

    for (int i = 0; i < members->count; i++)
        if (members->member[i].group == group) return members->member[i].communicator[way];
    return NULL;
}

static pdl_status_t no_group(const pdl_transport_t *transport)
{
    return pdl_error(PDL_ERR_INPUT, "%s: a message between ranks of a group that has not joined",
                     library_of(transport)->name);
}

pdl_status_t pdl__nccl_collective(pdl_transport_t *transport, pdl_ranks_t *group, pdl_tensor_stream_t *stream,
                                  pdl_library_collective_t collective, float *data, int64_t count)
{
    void *communicator = communicator_of(transport, group, 0);

    if (communicator == NULL) return no_group(transport);
    return library_of(transport)->collective(transport->device, stream, communicator, collective, data, count);
}

static pdl_status_t nccl_make(pdl_wire_t *wire)
{
    pdl_tensor_device_t *device = wire->transport->device;
    turn_t              *turn = calloc(1, sizeof(*turn));
    pdl_status_t         status;

    if (turn == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    wire->state = turn;
    status = device->ops->event_create(device, &turn->ready);
    return status ? status : device->ops->event_create(device, &turn->done);
}

static void nccl_unmake(pdl_wire_t *wire)
{
    pdl_wire_t **at = &((members_t *)wire->transport->state)->expected;
    turn_t      *turn = wire->state;

    /* After a failure it may still be expected. */
    while (*at != NULL && *at != wire) at = &(*at)->next;
    if (*at != NULL) *at = wire->next;
    wire->transport->device->ops->event_destroy(wire->transport->device, turn->ready);
    wire->transport->device->ops->event_destroy(wire->transport->device, turn->done);
    free(turn);
}

/* Which way a message goes: 0 to higher ranks, 1 to lower ones. */
static int way_of(const pdl_wire_t *wire)
{
    return (wire->group->rank > wire->peer) == wire->sends;
}

static pdl_status_t mark_done(pdl_wire_t *wire)
{
    pdl_tensor_device_t *device = wire->transport->device;
    members_t           *members = wire->transport->state;

    return device->ops->record(device, members->stream[way_of(wire)], ((turn_t *)wire->state)->done);
}

static pdl_status_t enqueue(pdl_wire_t *wire)
{
    pdl_transport_t     *transport = wire->transport;
    members_t           *members = transport->state;
    int                  way = way_of(wire);
    pdl_tensor_stream_t *stream = members->stream[way];
    void                *communicator = communicator_of(transport, wire->group, way);
    pdl_status_t         status = communicator != NULL ? pdl_device_order(transport->device, wire->stream, stream,
                                                                          ((turn_t *)wire->state)->ready)
                                                       : no_group(transport);

    if (!status && wire->sends)
        status = library_of(transport)->send(transport->device, stream, communicator, wire->data,
                                             (size_t)wire->bytes, wire->peer);
    else if (!status)
        status = library_of(transport)->receive(transport->device, stream, communicator, wire->data,
                                                (size_t)wire->bytes, wire->peer);
    if (status || !members->grouping) return status ? status : mark_done(wire);
    wire->next = members->grouped;
    members->grouped = wire;
    return PDL_OK;
}

/* Alone, or one of several that begin together. */
static pdl_status_t nccl_send(pdl_wire_t *wire)
{
    turn_t      *turn = wire->state;
    pdl_status_t status = enqueue(wire);

    if (status || ((members_t *)wire->transport->state)->grouping) return status;
    status = pdl_ranks_request_wait(wire->request); /* of the message before */
    turn->tag = wire->tag;
    return status ? status
                  : pdl__request_send(wire->request, &turn->tag, sizeof(turn->tag), wire->peer, PDL__REPLY_TAGS);
}

/* A message that comes alone is asked for when somebody waits for it: others would wait behind it. */
static pdl_status_t nccl_receive(pdl_wire_t *wire)
{
    members_t *members = wire->transport->state;

    if (members->grouping) return enqueue(wire);
    wire->deferred = true;
    wire->next = members->expected;
    members->expected = wire;
    return PDL_OK;
}

/* The receive that was expected first with a tag from the peer of another. */
static pdl_wire_t **find_expected(const pdl_wire_t *other, int tag)
{
    members_t   *members = other->transport->state;
    pdl_wire_t **found = NULL;

    for (pdl_wire_t **at = &members->expected; *at != NULL; at = &(*at)->next)
        if ((*at)->group == other->group && (*at)->peer == other->peer && (*at)->tag == tag) found = at;
    return found;
}

/* Asks for the next message that the peer of a wire has sent. */
static pdl_status_t ask_next(pdl_wire_t *wire)
{
    turn_t      *turn = wire->state;
    pdl_wire_t **at, *next;
    pdl_status_t status =
        pdl__request_receive(wire->request, &turn->tag, sizeof(turn->tag), wire->peer, PDL__REPLY_TAGS);

    if (!status) status = pdl_ranks_request_wait(wire->request);
    if (status) return status;
    at = find_expected(wire, turn->tag);
    if (at == NULL)
        return pdl_error(PDL_ERR_INPUT, "%s: rank %d sends a message with tag %d before it is expected",
                         library_of(wire->transport)->name, wire->peer, turn->tag);
    next = *at;
    *at = next->next;
    next->deferred = false;
    return enqueue(next);
}

static pdl_status_t nccl_test(pdl_wire_t *wire, bool *done)
{
    pdl_tensor_device_t *device = wire->transport->device;
    pdl_status_t         status = PDL_OK;

    *done = true;
    while (!status && wire->deferred) status = ask_next(wire);
    return status ? status : device->ops->wait(device, wire->stream, ((turn_t *)wire->state)->done);
}

static pdl_status_t nccl_group(pdl_transport_t *transport, bool begin)
{
    members_t   *members = transport->state;
    pdl_status_t status =
        begin ? library_of(transport)->begin(transport->device) : library_of(transport)->end(transport->device);

    members->grouping = begin;
    for (; members->grouped != NULL && !status; members->grouped = members->grouped->next)
        status = mark_done(members->grouped);
    return status;
}

const pdl__carrier_t pdl__carrier_nccl = {.name = "nccl",
                                          .open = nccl_open,
                                          .close = nccl_close,
                                          .join = nccl_join,
                                          .make = nccl_make,
                                          .unmake = nccl_unmake,
                                          .send = nccl_send,
                                          .receive = nccl_receive,
                                          .test = nccl_test,
                                          .group = nccl_group};
