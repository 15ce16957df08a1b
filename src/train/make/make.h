/*
 * What a rank needs to execute its graph: kernels, moves, channels and routes, from what the graph says of them.
 */
#ifndef PDL_TRAIN_MAKE_H
#define PDL_TRAIN_MAKE_H

#include "program/lower/graph.h"
#include "train/make/groups.h"

/* Collective, first: kernels. Where they are chosen by timing the first rank chooses, and the others do what it found. */
pdl_status_t pdl__graph_make_kernels(pdl__graph_t *graph, pdl_ranks_t *ranks);
/* Local, but for the groups: the same graph makes the same moves on all ranks. */
pdl_status_t pdl__graph_make(pdl__graph_t *graph, const pdl__groups_t *groups, pdl_transport_t *transport);
/* Gives back what was made; the graph stays. NULL is allowed. */
void pdl__graph_unmake(pdl__graph_t *graph);

/* Collective: as pdl_route_run(), counted. */
pdl_status_t pdl__dispatch_run(pdl__dispatch_t *routes, pdl_tensor_stream_t *stream, const void *send,
                               const int64_t *to, void *receive, const int64_t *from);

#endif
