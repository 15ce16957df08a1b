/*
 * Measures the network of a job: rates and latencies of the links of a known shape, and what moving messages over MPI adds.
 *
 *     mpirun -n 8 ... paradl calibrate --network shape.yaml -o network.yaml
 *
 * A rank is on every host, rank r on host r.
 */
#ifndef PARADL_NETWORK_H
#define PARADL_NETWORK_H

#include <paradl/base/status.h>
#include <paradl/comm/ranks.h>
#include <paradl/topo/topo.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_network_options {
    int64_t chunk_bytes; /* of a message of a collective; 0: 48 KiB, below the limit of handshakes */
    FILE   *talk;        /* what is being measured; NULL: nothing */
} pdl_network_options_t;

/* Collective over all ranks of the job; starts MPI where it is not running. `spec` is what the shape was made from, and gets the rates,
   latencies and message layer that were measured, the same on every rank. */
pdl_status_t pdl_network_measure(const pdl_topology_t *shape, const pdl_network_options_t *options,
                                 pdl_topology_spec_t *spec, int *rank);

/* Collective. Refuses a network that was measured with as many hosts, but others or with the ranks on these in another order. */
pdl_status_t pdl_network_check_hosts(pdl_ranks_t *ranks, const pdl_topology_t *network);

#ifdef __cplusplus
}
#endif
#endif
