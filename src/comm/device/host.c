/*
 * Messages through pinned memory: the device copies there, MPI sends, the other device copies from there. The host has to see
 * that a copy is complete before MPI may send it, so a message goes on when somebody looks at it.
 */
#include "comm/device/carrier.h"

#include <stdlib.h>

typedef enum place { EMPTY, LEAVING, MOVING } place_t;

typedef struct staging {
    char               *memory;
    pdl_tensor_event_t *copied; /* what was sent is in the memory, or what was received has left it */
    bool                used;   /* by a copy of which only `copied` says whether it is complete */
    place_t             place;
} staging_t;

static pdl_status_t host_make(pdl_wire_t *wire)
{
    pdl_tensor_device_t *device = wire->transport->device;
    staging_t           *staging = calloc(1, sizeof(*staging));
    void                *memory = NULL;
    pdl_status_t         status;

    if (staging == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    wire->state = staging;
    status = device->ops->alloc(device, PDL_SPACE_PINNED, (size_t)wire->most_bytes, &memory);
    staging->memory = memory;
    return status ? status : device->ops->event_create(device, &staging->copied);
}

/* MPI may still use the memory after a failure: it is left alone. */
static void host_unmake(pdl_wire_t *wire)
{
    pdl_tensor_device_t *device = wire->transport->device;
    staging_t           *staging = wire->state;

    if (!wire->moving) device->ops->release(device, PDL_SPACE_PINNED, staging->memory, (size_t)wire->most_bytes);
    device->ops->event_destroy(device, staging->copied);
    free(staging);
}

static pdl_status_t copy(pdl_wire_t *wire, void *to, const void *from)
{
    pdl_tensor_device_t *device = wire->transport->device;
    staging_t           *staging = wire->state;
    pdl_status_t         status = device->ops->copy(device, wire->stream, to, from, (size_t)wire->bytes);

    staging->used = true;
    return status ? status : device->ops->record(device, wire->stream, staging->copied);
}

static pdl_status_t host_send(pdl_wire_t *wire)
{
    pdl_tensor_device_t *device = wire->transport->device;
    staging_t           *staging = wire->state;
    pdl_status_t         status = staging->used ? device->ops->wait(device, wire->stream, staging->copied) : PDL_OK;

    staging->place = LEAVING;
    pdl__wire_activate(wire);
    return status ? status : copy(wire, staging->memory, wire->data);
}

/* From the staging memory, or into it, once no copy uses it. */
static pdl_status_t move_on(pdl_wire_t *wire)
{
    pdl_tensor_device_t *device = wire->transport->device;
    staging_t           *staging = wire->state;
    bool                 complete = true;
    pdl_status_t         status = staging->used ? device->ops->query(device, staging->copied, &complete) : PDL_OK;

    if (status || !complete) return status;
    staging->used = false;
    staging->place = MOVING;
    return wire->sends ? pdl__request_send(wire->request, staging->memory, wire->bytes, wire->peer, wire->tag)
                       : pdl__request_receive(wire->request, staging->memory, wire->bytes, wire->peer, wire->tag);
}

/* Receives of two wires that are started in this order must be posted in this order: the host waits for an earlier copy, which
   is long complete. */
static pdl_status_t host_receive(pdl_wire_t *wire)
{
    staging_t   *staging = wire->state;
    pdl_status_t status = PDL_OK;

    staging->place = EMPTY;
    while (!status && staging->place == EMPTY) status = move_on(wire);
    return status;
}

/* Messages of the same ranks and tag leave in their order, whoever looks at them. */
static bool is_first(const pdl_wire_t *wire)
{
    for (const pdl_wire_t *w = wire->transport->active; w != wire; w = w->next)
        if (w->group == wire->group && w->peer == wire->peer && w->tag == wire->tag && w->moving &&
            ((const staging_t *)w->state)->place == LEAVING)
            return false;
    return true;
}

static pdl_status_t host_test(pdl_wire_t *wire, bool *done)
{
    staging_t   *staging = wire->state;
    pdl_status_t status = PDL_OK;

    *done = false;
    if (staging->place == LEAVING && is_first(wire)) status = move_on(wire);
    if (status || staging->place != MOVING) return status;
    status = pdl_ranks_request_test(wire->request, done);
    if (status || !*done) return status;
    staging->place = EMPTY;
    return wire->sends ? PDL_OK : copy(wire, wire->data, staging->memory);
}

const pdl__carrier_t pdl__carrier_host = {.name = "host",
                                          .make = host_make,
                                          .unmake = host_unmake,
                                          .send = host_send,
                                          .receive = host_receive,
                                          .test = host_test};
