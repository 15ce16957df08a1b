/*
 * What the two files of the SimGrid engine share.
 */
#ifndef PDL_SIM_SIMGRID_H
#define PDL_SIM_SIMGRID_H

#include "sim/flow.h"

/* Writes the platform: all hosts and links, and the routes between the pairs of hosts that exchange messages.
   Counts the bytes of the links and the messages on the way. */
pdl_status_t pdl__simgrid_platform(const pdl_topology_t *topology, const pdl_sim_job_t *jobs,
                                   const pdl__job_t *sizes, int job_count, const char *path,
                                   pdl_sim_result_t *result);

#endif
