/*
 * Transports, and the one that all ranks can use.
 */
#define _POSIX_C_SOURCE 200809L /* gethostname */
#include "comm/device/carrier.h"

#include "comm/watch/watch.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOKS 200 /* after which a rank that still waits lets others have its core */

const char *const pdl_transport_names[] = {"auto", "host", "ipc", "nccl", NULL};

/* The processor's memory, where no transport is given. */
static pdl_transport_t *plain(void)
{
    static pdl_transport_t transport = {.carrier = &pdl__carrier_mpi};

    return &transport;
}

static const pdl__carrier_t *carrier_of(pdl_transport_kind_t kind)
{
    switch (kind) {
    case PDL_TRANSPORT_IPC: return &pdl__carrier_ipc;
    case PDL_TRANSPORT_NCCL: return &pdl__carrier_nccl;
    default: return &pdl__carrier_host;
    }
}

pdl_tensor_device_t *pdl_transport_device(const pdl_transport_t *transport)
{
    return transport != NULL ? transport->device : pdl_device_cpu();
}

bool pdl__transport_direct(const pdl_transport_t *transport)
{
    return pdl_transport_device(transport)->host_access;
}

static pdl_space_t space_of(const pdl_transport_t *transport)
{
    return pdl__transport_direct(transport) ? PDL_SPACE_PINNED : PDL_SPACE_DEVICE;
}

pdl_status_t pdl_transport_take(const pdl_transport_t *transport, size_t bytes, void **memory)
{
    pdl_tensor_device_t *device = pdl_transport_device(transport);

    return device->ops->alloc(device, space_of(transport), bytes, memory);
}

/* Memory that others have opened stays until they have closed it. */
void pdl_transport_give(pdl_transport_t *transport, void *memory, size_t bytes)
{
    pdl_tensor_device_t *device = pdl_transport_device(transport);
    pdl__kept_t         *kept = NULL;

    if (memory == NULL) return;
    if (transport != NULL && transport->carrier == &pdl__carrier_ipc) kept = malloc(sizeof(*kept));
    if (kept == NULL) {
        device->ops->release(device, space_of(transport), memory, bytes);
        return;
    }
    *kept = (pdl__kept_t){memory, bytes, transport->kept};
    transport->kept = kept;
}

static void release_kept(pdl_transport_t *transport)
{
    while (transport->kept != NULL) {
        pdl__kept_t *kept = transport->kept;

        transport->kept = kept->next;
        transport->device->ops->release(transport->device, PDL_SPACE_DEVICE, kept->memory, kept->bytes);
        free(kept);
    }
}

static pdl_status_t open_as(pdl_transport_t *transport, const pdl__carrier_t *carrier)
{
    pdl_status_t status = PDL_OK;

    transport->carrier = carrier;
    transport->state = NULL;
    if (carrier->open == NULL) return PDL_OK;
    status = carrier->open(transport);
    if (!status) return PDL_OK;
    carrier->close(transport);
    release_kept(transport);
    return status;
}

/* Which device a rank has. */
typedef struct place {
    char device[PDL_SHARED_HANDLE], machine[PDL_SHARED_HANDLE];
} place_t;

static pdl_status_t find_sharers(pdl_transport_t *transport)
{
    pdl_ranks_t *ranks = transport->ranks;
    place_t      mine = {.device = ""}, *all = calloc((size_t)ranks->size, sizeof(*all));
    int64_t     *sizes = calloc((size_t)ranks->size, sizeof(*sizes));
    int          first = 0;
    pdl_status_t status = all != NULL && sizes != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");

    transport->device->ops->identity(transport->device, mine.device);
    if (gethostname(mine.machine, sizeof(mine.machine) - 1) != 0) mine.machine[0] = '\0';
    status = pdl_ranks_agree(ranks, status);
    if (!status) status = pdl_ranks_gather_all(ranks, &mine, sizeof(mine), all, sizes);
    while (!status && memcmp(&all[first], &mine, sizeof(mine)) != 0) first++;
    if (!status) status = pdl_ranks_split(ranks, first, ranks->rank, &transport->sharers);
    if (!status) transport->shares = pdl_ranks_size(transport->sharers) > 1;
    free(sizes);
    free(all);
    return status;
}

pdl_ranks_t *pdl_transport_sharers(const pdl_transport_t *transport)
{
    return transport != NULL ? transport->sharers : NULL;
}

/* Where MPI can use the memory there is no other way. */
static pdl_status_t check_wanted(const pdl_tensor_device_t *device, pdl_transport_kind_t wanted)
{
    if (!device->host_access || wanted <= PDL_TRANSPORT_HOST) return PDL_OK;
    return pdl_error(PDL_ERR_UNSUPPORTED, "--transport %s is for GPUs: MPI itself sends memory of the %s; use auto",
                     pdl_transport_names[wanted], device->ops->name);
}

/* The fastest first; whether a transport can be used is found by opening it. */
static pdl_status_t choose(pdl_transport_t *transport)
{
    pdl_status_t status = open_as(transport, &pdl__carrier_nccl);

    if (status) status = open_as(transport, &pdl__carrier_ipc);
    return status ? open_as(transport, &pdl__carrier_host) : PDL_OK;
}

static pdl_status_t open_wanted(pdl_transport_t *transport, pdl_transport_kind_t wanted)
{
    pdl_status_t status = transport->device->ops->identity != NULL ? find_sharers(transport) : PDL_OK;

    if (status) return status;
    return wanted == PDL_TRANSPORT_AUTO ? choose(transport) : open_as(transport, carrier_of(wanted));
}

pdl_status_t pdl_transport_create(pdl_ranks_t *ranks, pdl_tensor_device_t *device, pdl_transport_kind_t wanted,
                                  pdl_transport_t **result)
{
    pdl_transport_t *transport = calloc(1, sizeof(*transport));
    pdl_status_t     status =
        transport != NULL ? check_wanted(device, wanted) : pdl_error(PDL_ERR_NOMEM, "out of memory");

    status = pdl_ranks_agree(ranks, status);
    if (!status) {
        transport->ranks = ranks;
        transport->device = device;
        if (device->host_access || pdl_ranks_dry(ranks) || pdl_ranks_size(ranks) == 1)
            transport->carrier = device->host_access ? &pdl__carrier_mpi : &pdl__carrier_host;
        else
            status = open_wanted(transport, wanted);
    }
    if (status) {
        if (transport != NULL) pdl_ranks_destroy(transport->sharers);
        free(transport);
        return status;
    }
    if (transport->carrier != &pdl__carrier_mpi) {
        transport->next = ranks->progress->transport;
        ranks->progress->transport = transport;
    }
    *result = transport;
    return PDL_OK;
}

pdl_status_t pdl_transport_join(pdl_transport_t *transport, pdl_ranks_t *group)
{
    if (transport->carrier->join == NULL || pdl_ranks_size(group) == 1 || pdl_ranks_dry(group)) return PDL_OK;
    return transport->carrier->join(transport, group);
}

const char *pdl_transport_name(const pdl_transport_t *transport)
{
    return (transport != NULL ? transport : plain())->carrier->name;
}

void pdl_transport_destroy(pdl_transport_t *transport)
{
    pdl_transport_t **at;

    if (transport == NULL) return;
    for (at = &transport->ranks->progress->transport; *at != NULL && *at != transport;) at = &(*at)->next;
    if (*at != NULL) *at = transport->next;
    if (transport->state != NULL && transport->carrier->close != NULL) transport->carrier->close(transport);
    release_kept(transport);
    pdl_ranks_destroy(transport->sharers);
    free(transport);
}

pdl_status_t pdl_transport_begin(pdl_transport_t *transport)
{
    if (transport == NULL || transport->carrier->group == NULL) return PDL_OK;
    return transport->carrier->group(transport, true);
}

pdl_status_t pdl_transport_end(pdl_transport_t *transport)
{
    if (transport == NULL || transport->carrier->group == NULL) return PDL_OK;
    return transport->carrier->group(transport, false);
}

pdl_status_t pdl_wire_create(pdl_transport_t *transport, pdl_ranks_t *group, pdl_sent_t kind, int64_t most_bytes,
                             pdl_wire_t **result)
{
    pdl_wire_t  *wire = calloc(1, sizeof(*wire));
    pdl_status_t status = PDL_OK;

    if (wire == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    *wire = (pdl_wire_t){.transport = transport != NULL ? transport : plain(),
                         .group = group,
                         .kind = kind,
                         .most_bytes = most_bytes};
    status = pdl_ranks_request_create(group, most_bytes, &wire->request);
    if (!status && wire->transport->carrier->make != NULL && group->size > 1 && !group->dry)
        status = wire->transport->carrier->make(wire);
    if (status) {
        pdl_wire_destroy(wire);
        return status;
    }
    *result = wire;
    return PDL_OK;
}

static void deactivate(pdl_wire_t *wire)
{
    pdl_wire_t **at = &wire->transport->active;

    if (!wire->active) return;
    while (*at != wire) at = &(*at)->next;
    *at = wire->next;
    wire->active = false;
}

void pdl__wire_activate(pdl_wire_t *wire)
{
    pdl_wire_t **at = &wire->transport->active;

    if (wire->active) return;
    while (*at != NULL) at = &(*at)->next;
    *at = wire;
    wire->active = true;
    wire->next = NULL;
}

void pdl_wire_destroy(pdl_wire_t *wire)
{
    if (wire == NULL) return;
    deactivate(wire);
    if (wire->state != NULL) wire->transport->carrier->unmake(wire);
    pdl_ranks_request_destroy(wire->request);
    free(wire);
}

static pdl_status_t start(pdl_wire_t *wire, pdl_tensor_stream_t *stream, const void *data, int64_t bytes, int peer,
                          int tag, bool sends)
{
    if (wire->group->dry)
        return pdl_error(PDL_ERR_UNSUPPORTED, "rank %d is dry: it sends and receives nothing", wire->group->rank);
    if (wire->moving)
        return pdl_error(PDL_ERR_INPUT, "a wire is used again before it was waited for: use one for each message "
                                        "in flight");
    if (bytes < 0 || bytes > wire->most_bytes)
        return pdl_error(PDL_ERR_INPUT, "a message of %" PRId64 " bytes: the wire was made for up to %" PRId64,
                         bytes, wire->most_bytes);
    wire->moving = true;
    wire->stream = stream;
    wire->data = (char *)(uintptr_t)data;
    wire->bytes = bytes;
    wire->peer = peer;
    wire->tag = tag;
    wire->sends = sends;
    if (sends) wire->group->counted[wire->kind] += (double)bytes;
    return sends ? wire->transport->carrier->send(wire) : wire->transport->carrier->receive(wire);
}

pdl_status_t pdl_wire_send(pdl_wire_t *wire, pdl_tensor_stream_t *stream, const void *data, int64_t bytes, int peer,
                           int tag)
{
    return start(wire, stream, data, bytes, peer, tag, true);
}

pdl_status_t pdl_wire_receive(pdl_wire_t *wire, pdl_tensor_stream_t *stream, void *data, int64_t bytes, int peer,
                              int tag)
{
    return start(wire, stream, data, bytes, peer, tag, false);
}

pdl_status_t pdl_wire_test(pdl_wire_t *wire, bool *done)
{
    pdl_status_t status;

    *done = true;
    if (!wire->moving) return PDL_OK;
    status = wire->transport->carrier->test(wire, done);
    if (status || !*done) return status;
    wire->moving = false;
    deactivate(wire);
    return PDL_OK;
}

/* Others may need what other wires of this rank wait for. */
pdl_status_t pdl_wire_wait(pdl_wire_t *wire)
{
    pdl__watch_t *watch = wire->group->watch;
    bool          done = false;
    pdl_status_t  status;

    if (wire->transport->carrier == &pdl__carrier_mpi) {
        status = pdl_ranks_request_wait(wire->request);
        wire->moving = false;
        return status;
    }
    status = pdl_wire_test(wire, &done);
    if (status || done) return status;
    pdl__watch_waits(watch, true);
    for (int looks = 0; !status && !done;) {
        status = pdl__watch_check(watch);
        if (!status) status = pdl__progress(wire->group->progress);
        if (!status) status = pdl_wire_test(wire, &done);
        if (looks < LOOKS)
            looks++;
        else
            sched_yield();
    }
    pdl__watch_waits(watch, false);
    return status;
}

/* A wire that is done leaves the list, which a test may shorten. */
pdl_status_t pdl_transport_poll(pdl_transport_t *transport)
{
    pdl_status_t status = PDL_OK;

    for (pdl_wire_t *wire = transport->active, *next; wire != NULL && !status; wire = next) {
        bool done;

        next = wire->next;
        status = pdl_wire_test(wire, &done);
    }
    return status;
}

pdl_status_t pdl__progress(pdl__progress_t *progress)
{
    pdl_status_t status = PDL_OK;

    if (progress == NULL || progress->busy) return PDL_OK;
    progress->busy = true;
    for (pdl_transport_t *t = progress->transport; t != NULL && !status; t = t->next)
        status = pdl_transport_poll(t);
    progress->busy = false;
    return status;
}

static pdl_status_t mpi_send(pdl_wire_t *wire)
{
    return pdl__request_send(wire->request, wire->data, wire->bytes, wire->peer, wire->tag);
}

static pdl_status_t mpi_receive(pdl_wire_t *wire)
{
    return pdl__request_receive(wire->request, wire->data, wire->bytes, wire->peer, wire->tag);
}

static pdl_status_t mpi_test(pdl_wire_t *wire, bool *done)
{
    return pdl_ranks_request_test(wire->request, done);
}

const pdl__carrier_t pdl__carrier_mpi = {.name = "mpi", .send = mpi_send, .receive = mpi_receive, .test = mpi_test};
