/*
 * Rows from every rank to every other: a message each, all in flight at once.
 */
#include <paradl/comm/route.h>

#include "comm/device/carrier.h"

#include <stdlib.h>

struct pdl_route {
    int              rank, size;
    pdl_transport_t *transport;
    pdl_wire_t     **sends, **receives; /* one for each rank; NULL for this one */
};

static pdl_status_t make_wires(pdl_ranks_t *group, int64_t most_bytes, pdl_route_t *route)
{
    pdl_status_t status = PDL_OK;

    route->rank = pdl_ranks_rank(group);
    route->size = pdl_ranks_size(group);
    route->sends = calloc((size_t)route->size, sizeof(*route->sends));
    route->receives = calloc((size_t)route->size, sizeof(*route->receives));
    if (route->sends == NULL || route->receives == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (int r = 0; r < route->size && !status; r++) {
        if (r == route->rank) continue;
        status = pdl_wire_create(route->transport, group, PDL_SENT_MOVES, most_bytes, &route->sends[r]);
        if (!status)
            status = pdl_wire_create(route->transport, group, PDL_SENT_MOVES, most_bytes, &route->receives[r]);
    }
    return status;
}

pdl_status_t pdl_route_create(pdl_transport_t *transport, pdl_ranks_t *group, int64_t most_bytes,
                              pdl_route_t **result)
{
    pdl_route_t *route = calloc(1, sizeof(*route));
    pdl_status_t status;

    if (route == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    route->transport = transport;
    status = make_wires(group, most_bytes, route);
    if (status) {
        pdl_route_destroy(route);
        return status;
    }
    *result = route;
    return PDL_OK;
}

void pdl_route_destroy(pdl_route_t *route)
{
    if (route == NULL) return;
    for (int r = 0; r < route->size; r++) {
        if (route->sends != NULL) pdl_wire_destroy(route->sends[r]);
        if (route->receives != NULL) pdl_wire_destroy(route->receives[r]);
    }
    free(route->sends);
    free(route->receives);
    free(route);
}

static pdl_status_t start(pdl_route_t *route, pdl_tensor_stream_t *stream, const char *send, const int64_t *to,
                          char *receive, const int64_t *from)
{
    pdl_tensor_device_t *device = pdl_transport_device(route->transport);
    const char          *own = NULL;
    char                *place = NULL;
    pdl_status_t         status = pdl_transport_begin(route->transport);

    for (int r = 0; r < route->size && !status; receive += from[r++]) {
        if (r == route->rank) place = receive;
        if (r == route->rank || from[r] == 0) continue;
        status = pdl_wire_receive(route->receives[r], stream, receive, from[r], r, PDL__ROUTE_TAG);
    }
    for (int r = 0; r < route->size && !status; send += to[r++]) {
        if (r == route->rank) own = send;
        if (r == route->rank || to[r] == 0) continue;
        status = pdl_wire_send(route->sends[r], stream, send, to[r], r, PDL__ROUTE_TAG);
    }
    if (!status) status = pdl_transport_end(route->transport);
    if (status || to[route->rank] == 0) return status;
    return device->ops->copy(device, stream, place, own, (size_t)to[route->rank]);
}

pdl_status_t pdl_route_run(pdl_route_t *route, pdl_tensor_stream_t *stream, const void *send, const int64_t *to,
                           void *receive, const int64_t *from)
{
    pdl_status_t status = start(route, stream, send, to, receive, from);

    for (int r = 0; r < route->size && !status; r++) {
        if (r == route->rank) continue;
        status = pdl_wire_wait(route->receives[r]);
        if (!status) status = pdl_wire_wait(route->sends[r]);
    }
    return status;
}
