/*
 * Sums over the ranks, and exchanges of parts, in memory of a device: the steps of a schedule over wires with sums by the device,
 * or the collective of a library, which is the transport's own or else MPI's, through pinned memory. Sparse sums are made in memory
 * of the host as well: residuals and messages are there and count as no memory of the device.
 */
#ifndef PDL_COMM_DEVICE_REDUCTION_H
#define PDL_COMM_DEVICE_REDUCTION_H

#include "comm/device/carrier.h"
#include "comm/inside.h"

typedef struct pdl__device_lanes pdl__device_lanes_t;

/* Collective. As pdl__lanes_create(); what the device does is done in `stream`. */
pdl_status_t pdl__device_lanes_create(pdl_transport_t *transport, pdl_tensor_stream_t *stream, pdl_ranks_t *ranks,
                                      int count, pdl__device_lanes_t **lanes);
void         pdl__device_lanes_destroy(pdl__device_lanes_t *lanes); /* collective; NULL is allowed */
/* Bytes of the device where messages arrive. */
size_t       pdl__device_lanes_bytes(const pdl__device_lanes_t *lanes);
pdl_status_t pdl__device_reduction_create(pdl__device_lanes_t *lanes, const pdl__reduction_spec_t *spec,
                                          pdl__reduction_t **reduction);

#endif
