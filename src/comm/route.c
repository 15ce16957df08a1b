/*
 * Rows from every rank to every other: a message each, all in flight at once.
 */
#include <paradl/comm/route.h>

#include "comm/requests.h"

#include <stdlib.h>
#include <string.h>

struct pdl_route {
    int                   rank, size;
    pdl_ranks_request_t **sends, **receives; /* one for each rank; NULL for this one */
};

static pdl_status_t make_requests(pdl_ranks_t *group, int64_t most_bytes, pdl_route_t *route)
{
    pdl_status_t status = PDL_OK;

    route->rank = pdl_ranks_rank(group);
    route->size = pdl_ranks_size(group);
    route->sends = calloc((size_t)route->size, sizeof(*route->sends));
    route->receives = calloc((size_t)route->size, sizeof(*route->receives));
    if (route->sends == NULL || route->receives == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (int r = 0; r < route->size && !status; r++) {
        if (r == route->rank) continue;
        status = pdl_ranks_request_create(group, most_bytes, &route->sends[r]);
        if (!status) status = pdl_ranks_request_create(group, most_bytes, &route->receives[r]);
    }
    return status;
}

pdl_status_t pdl_route_create(pdl_ranks_t *group, int64_t most_bytes, pdl_route_t **result)
{
    pdl_route_t *route = calloc(1, sizeof(*route));
    pdl_status_t status;

    if (route == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    status = make_requests(group, most_bytes, route);
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
        if (route->sends != NULL) pdl_ranks_request_destroy(route->sends[r]);
        if (route->receives != NULL) pdl_ranks_request_destroy(route->receives[r]);
    }
    free(route->sends);
    free(route->receives);
    free(route);
}

static pdl_status_t start(pdl_route_t *route, const char *send, const int64_t *to, char *receive,
                          const int64_t *from)
{
    const char  *own = NULL;
    char        *place = NULL;
    pdl_status_t status = PDL_OK;

    for (int r = 0; r < route->size && !status; receive += from[r++]) {
        if (r == route->rank) place = receive;
        if (r == route->rank || from[r] == 0) continue;
        status = pdl__request_receive(route->receives[r], receive, from[r], r, PDL__ROUTE_TAG);
    }
    for (int r = 0; r < route->size && !status; send += to[r++]) {
        if (r == route->rank) own = send;
        if (r == route->rank || to[r] == 0) continue;
        status = pdl__request_send(route->sends[r], send, to[r], r, PDL__ROUTE_TAG);
    }
    if (!status && to[route->rank] > 0) memcpy(place, own, (size_t)to[route->rank]);
    return status;
}

pdl_status_t pdl_route_run(pdl_route_t *route, const void *send, const int64_t *to, void *receive,
                           const int64_t *from)
{
    pdl_status_t status = start(route, send, to, receive, from);

    for (int r = 0; r < route->size && !status; r++) {
        if (r == route->rank) continue;
        status = pdl_ranks_request_wait(route->receives[r]);
        if (!status) status = pdl_ranks_request_wait(route->sends[r]);
    }
    return status;
}
