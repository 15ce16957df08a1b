/*
 * Starting the ranks of --pe.
 */
#ifndef PDL_CLI_START_RANKS_H
#define PDL_CLI_START_RANKS_H

#include <paradl/base/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a job goes on after ranks were lost. */
typedef struct pdl__restarts {
    int64_t most;    /* times at most */
    bool    elastic; /* on the ranks that are left */
    /* Whether the job can run on so many ranks: `how` is what they do then; an error says why not. */
    pdl_status_t (*fits)(void *context, int64_t ranks, char *how, size_t size);
    void *context;
} pdl__restarts_t;

/* Whether this process is to start so many ranks: there are several and it is not one of them. */
bool pdl__start_wanted(int64_t ranks);

/* Whether this process is one of those that pdl__start_ranks() has started. */
bool pdl__start_done(void);

/* Starts this command again as so many ranks and waits for them, as pdl_launch_local() does. More than there are cores
   are warned of, more than this machine can bear are refused. A job that has lost ranks is started again, with --resume;
   `restarts` may be NULL. Ranks that do not find each other within `limit_s`, and in half a minute at least, are ended;
   0: never. */
pdl_status_t pdl__start_ranks(int64_t ranks, int64_t threads, double limit_s, const pdl__restarts_t *restarts);

#endif
