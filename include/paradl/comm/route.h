/*
 * Rows of which every rank of a group has some for each of the others, as many as the data says: the tokens of a
 * mixture of experts.
 *
 *     pdl_route_create(transport, group, most_bytes, &route);
 *     pdl_route_run(route, stream, there, to, here, from);   // to[r] bytes for rank r, from[r] bytes from it
 *     pdl_route_destroy(route);
 *
 * How many bytes come is known on both sides before: where it is not, numbers of known size are sent first.
 */
#ifndef PARADL_ROUTE_H
#define PARADL_ROUTE_H

#include <paradl/base/status.h>
#include <paradl/comm/transport.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_route pdl_route_t;

/* Local. The rows are in memory of the device of a transport, which the group has joined, or with NULL of the CPU. Up to
   `most_bytes` from one rank of the group, which is borrowed, to another. */
pdl_status_t pdl_route_create(pdl_transport_t *transport, pdl_ranks_t *group, int64_t most_bytes,
                              pdl_route_t **route);
/* Local, before the group is destroyed. NULL is allowed. */
void pdl_route_destroy(pdl_route_t *route);

/* Collective over the group. Parts follow one another in the order of the ranks, those of this rank itself
   too. `send` and `receive` do not overlap; `to` and `from` are the host's. Does not allocate. */
pdl_status_t pdl_route_run(pdl_route_t *route, pdl_tensor_stream_t *stream, const void *send, const int64_t *to,
                           void *receive, const int64_t *from);

#ifdef __cplusplus
}
#endif
#endif
