/*
 * Messages of the library itself, which have a tag that no caller can use.
 */
#ifndef PDL_COMM_REQUESTS_H
#define PDL_COMM_REQUESTS_H

#include <paradl/comm/ranks.h>

#define PDL__ROUTE_TAG PDL_RANKS_TAGS
#define PDL__MOVE_TAG \
    (PDL_RANKS_TAGS + 1) /* MPI knows it, and as many again: tags up to 32767 are there in every MPI */

/* As the public functions, without their checks, and not counted. */
pdl_status_t pdl__request_send(pdl_ranks_request_t *request, const void *data, int64_t bytes, int peer, int tag);
pdl_status_t pdl__request_receive(pdl_ranks_request_t *request, void *data, int64_t bytes, int peer, int tag);

#endif
