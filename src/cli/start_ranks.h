/*
 * Starting the ranks of --pe.
 */
#ifndef PDL_CLI_START_RANKS_H
#define PDL_CLI_START_RANKS_H

#include <paradl/status.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether this process is to start so many ranks: there are several and it is not one of them. */
bool pdl__start_wanted(int64_t ranks);

/* Starts this command again as so many ranks and waits for them, as pdl_launch_local() does. More than there are cores
   are warned of, more than this machine can bear are refused. */
pdl_status_t pdl__start_ranks(int64_t ranks, int64_t threads);

#endif
