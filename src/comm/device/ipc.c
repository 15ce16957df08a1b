/*
 * Messages between ranks of one machine: the receiver copies from the memory of the sender. What goes over MPI is small and
 * never waits for a device: where the data is and by which event it is ready, and back the event by which it has been copied.
 */
#include "comm/device/carrier.h"

#include <stdlib.h>
#include <string.h>

/* An event that was recorded. */
typedef struct point {
    int64_t  rank;  /* of the job */
    int64_t  event; /* the rank's number for it */
    uint64_t count;
    char     handle[PDL_SHARED_HANDLE];
} point_t;

typedef struct announcement {
    point_t             ready;
    pdl_shared_memory_t memory;
} announcement_t;

typedef struct mapping {
    uint64_t id;
    void    *address;
} mapping_t;

/* What this rank has imported from another. */
typedef struct peer {
    mapping_t           *mapping;
    int                  mappings;
    pdl_tensor_event_t **event; /* by number; NULL: not seen yet */
    int64_t              events;
} peer_t;

typedef struct shared {
    peer_t *peer; /* of every rank of the job */
    int     peers;
    int64_t events; /* numbers given */
} shared_t;

typedef struct link {
    pdl_tensor_event_t  *event;
    point_t              point; /* of that event, when it was recorded last */
    announcement_t       announced;
    point_t              copied;
    pdl_ranks_request_t *reply;
    bool                 arrived; /* what was announced is being copied */
} link_t;

static const pdl_sharing_ops_t *sharing_of(const pdl_transport_t *transport)
{
    return transport->device->ops->sharing;
}

static pdl_status_t import_event(pdl_transport_t *transport, const point_t *point, pdl_tensor_event_t **event)
{
    peer_t      *peer = &((shared_t *)transport->state)->peer[point->rank];
    pdl_status_t status = PDL_OK;

    if (point->event >= peer->events) {
        int64_t              count = 2 * point->event + 16;
        pdl_tensor_event_t **grown = realloc(peer->event, (size_t)count * sizeof(pdl_tensor_event_t *));

        if (grown == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
        memset(grown + peer->events, 0, (size_t)(count - peer->events) * sizeof(pdl_tensor_event_t *));
        peer->event = grown;
        peer->events = count;
    }
    if (peer->event[point->event] == NULL)
        status = sharing_of(transport)->import_event(transport->device, point->handle, &peer->event[point->event]);
    *event = peer->event[point->event];
    return status;
}

static pdl_status_t import_memory(pdl_transport_t *transport, int64_t rank, const pdl_shared_memory_t *memory,
                                  char **address)
{
    peer_t      *peer = &((shared_t *)transport->state)->peer[rank];
    mapping_t   *grown;
    pdl_status_t status;

    for (int i = 0; i < peer->mappings; i++) {
        *address = (char *)peer->mapping[i].address + memory->offset;
        if (peer->mapping[i].id == memory->id) return PDL_OK;
    }
    grown = realloc(peer->mapping, (size_t)(peer->mappings + 1) * sizeof(*grown));
    if (grown == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    peer->mapping = grown;
    grown += peer->mappings;
    grown->id = memory->id;
    status = sharing_of(transport)->import_memory(transport->device, memory, &grown->address);
    if (status) return status;
    peer->mappings++;
    *address = (char *)grown->address + memory->offset;
    return PDL_OK;
}

static pdl_status_t wait_for(pdl_wire_t *wire, const point_t *point)
{
    pdl_tensor_event_t *event;
    pdl_status_t        status = import_event(wire->transport, point, &event);

    if (status) return status;
    return sharing_of(wire->transport)->wait(wire->transport->device, wire->stream, event, point->count);
}

/* The next number of an event of this rank; the event is there. */
static point_t name_event(pdl_transport_t *transport)
{
    return (point_t){.rank = transport->ranks->job_rank, .event = ((shared_t *)transport->state)->events++};
}

static pdl_status_t ipc_make(pdl_wire_t *wire)
{
    link_t      *link = calloc(1, sizeof(*link));
    pdl_status_t status;

    if (link == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    wire->state = link;
    link->point = name_event(wire->transport);
    status = sharing_of(wire->transport)->export_event(wire->transport->device, &link->event, link->point.handle);
    return status ? status : pdl_ranks_request_create(wire->group, sizeof(point_t), &link->reply);
}

/* MPI may still use the messages after a failure: they are left alone. */
static void ipc_unmake(pdl_wire_t *wire)
{
    link_t *link = wire->state;

    wire->transport->device->ops->event_destroy(wire->transport->device, link->event);
    pdl_ranks_request_destroy(link->reply);
    if (!wire->moving) free(link);
}

static pdl_status_t record(pdl_wire_t *wire)
{
    link_t *link = wire->state;

    return sharing_of(wire->transport)
        ->record(wire->transport->device, wire->stream, link->event, &link->point.count);
}

/* Replies find their wire by the number of its event: among the messages in flight between two ranks it is the only one. */
static int reply_tag(const point_t *ready)
{
    return (int)(PDL__REPLY_TAGS + ready->event % PDL__REPLY_TAGS);
}

static pdl_status_t ipc_send(pdl_wire_t *wire)
{
    link_t      *link = wire->state;
    pdl_status_t status =
        sharing_of(wire->transport)->export_memory(wire->transport->device, wire->data, &link->announced.memory);

    if (!status) status = record(wire);
    if (status) return status;
    pdl__wire_activate(wire);
    link->announced.ready = link->point;
    status =
        pdl__request_receive(link->reply, &link->copied, sizeof(link->copied), wire->peer, reply_tag(&link->point));
    if (status) return status;
    return pdl__request_send(wire->request, &link->announced, sizeof(link->announced), wire->peer, wire->tag);
}

static pdl_status_t ipc_receive(pdl_wire_t *wire)
{
    link_t *link = wire->state;

    link->arrived = false;
    pdl__wire_activate(wire);
    return pdl__request_receive(wire->request, &link->announced, sizeof(link->announced), wire->peer, wire->tag);
}

static pdl_status_t take(pdl_wire_t *wire)
{
    pdl_transport_t *transport = wire->transport;
    link_t          *link = wire->state;
    char            *from;
    pdl_status_t     status = wait_for(wire, &link->announced.ready);

    link->arrived = true;
    if (!status) status = import_memory(transport, link->announced.ready.rank, &link->announced.memory, &from);
    if (!status)
        status =
            transport->device->ops->copy(transport->device, wire->stream, wire->data, from, (size_t)wire->bytes);
    if (!status) status = record(wire);
    if (status) return status;
    link->copied = link->point;
    return pdl__request_send(link->reply, &link->copied, sizeof(link->copied), wire->peer,
                             reply_tag(&link->announced.ready));
}

static pdl_status_t ipc_test(pdl_wire_t *wire, bool *done)
{
    link_t      *link = wire->state;
    pdl_status_t status = pdl_ranks_request_test(wire->request, done);

    if (status || !*done) return status;
    if (!wire->sends && !link->arrived) status = take(wire);
    if (!status) status = pdl_ranks_request_test(link->reply, done);
    if (status || !*done || !wire->sends) return status;
    return wait_for(wire, &link->copied);
}

/* Whether this rank can use what the others export. */
typedef struct trial {
    pdl_shared_memory_t memory;
    point_t             point;
} trial_t;

static pdl_status_t try_peers(pdl_transport_t *transport, const trial_t *all)
{
    pdl_status_t status = PDL_OK;

    for (int r = 0; !status && r < transport->ranks->size; r++) {
        pdl_tensor_event_t *event;
        char               *address;

        if (r == transport->ranks->rank) continue;
        status = import_memory(transport, r, &all[r].memory, &address);
        if (!status) status = import_event(transport, &all[r].point, &event);
    }
    return status;
}

static pdl_status_t check_place(const pdl_transport_t *transport)
{
    const pdl_ranks_t *ranks = transport->ranks;

    if (sharing_of(transport) == NULL)
        return pdl_error(PDL_ERR_UNSUPPORTED,
                         "memory of the device %s is not shared between processes: use "
                         "--transport host",
                         transport->device->ops->name);
    if (ranks->node_size < ranks->size)
        return pdl_error(PDL_ERR_UNSUPPORTED,
                         "--transport ipc is for ranks of one machine, and %d of %d are on this "
                         "one: use --transport auto",
                         ranks->node_size, ranks->size);
    return PDL_OK;
}

static pdl_status_t prepare(pdl_transport_t *transport, trial_t *mine, void **memory, pdl_tensor_event_t **event,
                            trial_t **all)
{
    pdl_tensor_device_t *device = transport->device;
    shared_t            *shared = calloc(1, sizeof(*shared));
    size_t               ranks = (size_t)transport->ranks->size;
    pdl_status_t         status = check_place(transport);

    transport->state = shared;
    *all = calloc(ranks, sizeof(**all));
    if (shared != NULL) shared->peer = calloc(ranks, sizeof(*shared->peer));
    if (*all == NULL || shared == NULL || shared->peer == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    shared->peers = (int)ranks;
    if (status) return status;
    mine->point = name_event(transport);
    status = device->ops->alloc(device, PDL_SPACE_DEVICE, 1, memory);
    if (!status) status = sharing_of(transport)->export_memory(device, *memory, &mine->memory);
    return status ? status : sharing_of(transport)->export_event(device, event, mine->point.handle);
}

static void forget_peers(pdl_transport_t *transport)
{
    shared_t *shared = transport->state;

    for (int r = 0; r < shared->peers; r++) {
        peer_t *peer = &shared->peer[r];

        for (int i = 0; i < peer->mappings; i++)
            sharing_of(transport)->forget_memory(transport->device, peer->mapping[i].address);
        for (int64_t i = 0; i < peer->events; i++)
            if (peer->event[i] != NULL) transport->device->ops->event_destroy(transport->device, peer->event[i]);
        free(peer->mapping);
        free(peer->event);
        *peer = (peer_t){0};
    }
}

/* Who exports memory keeps it until nobody has it any more. */
static void ipc_close(pdl_transport_t *transport)
{
    shared_t *shared = transport->state;

    if (shared == NULL) return;
    if (shared->peer != NULL) forget_peers(transport);
    (void)pdl_ranks_barrier(transport->ranks);
    free(shared->peer);
    free(shared);
    transport->state = NULL;
}

static pdl_status_t ipc_open(pdl_transport_t *transport)
{
    pdl_tensor_device_t *device = transport->device;
    trial_t              mine = {.memory = {0}}, *all = NULL;
    void                *memory = NULL;
    pdl_tensor_event_t  *event = NULL;
    int64_t             *sizes = calloc((size_t)transport->ranks->size, sizeof(*sizes));
    pdl_status_t         status = prepare(transport, &mine, &memory, &event, &all);

    if (sizes == NULL) status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    status = pdl_ranks_agree(transport->ranks, status);
    if (!status) status = pdl_ranks_gather_all(transport->ranks, &mine, sizeof(mine), all, sizes);
    if (!status) status = pdl_ranks_agree(transport->ranks, try_peers(transport, all));
    if (!status) forget_peers(transport);
    if (!status) status = pdl_ranks_barrier(transport->ranks);
    if (event != NULL) device->ops->event_destroy(device, event);
    device->ops->release(device, PDL_SPACE_DEVICE, memory, 1);
    free(sizes);
    free(all);
    return status;
}

const pdl__carrier_t pdl__carrier_ipc = {.name = "ipc",
                                         .open = ipc_open,
                                         .close = ipc_close,
                                         .make = ipc_make,
                                         .unmake = ipc_unmake,
                                         .send = ipc_send,
                                         .receive = ipc_receive,
                                         .test = ipc_test};
