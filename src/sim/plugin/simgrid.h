/*
 * SimGrid behind a table. Internal to the module.
 */
#ifndef PDL_SIM_PLUGIN_SIMGRID_H
#define PDL_SIM_PLUGIN_SIMGRID_H

#include "sim/flow.h"

/* A message that a rank sends or receives in a step. */
typedef struct pdl__simgrid_message {
    int    peer;
    double bytes;
    bool   send;
} pdl__simgrid_message_t;

typedef struct pdl__simgrid_step {
    pdl__simgrid_message_t *list; /* grows by realloc() */
    int                     count, room;
    double                  reduced; /* bytes received for reduction */
} pdl__simgrid_step_t;

typedef struct pdl__simgrid_run {
    const char          *platform; /* a file */
    const pdl_sim_job_t *jobs;
    const pdl__job_t    *sizes;
    int                  job_count;
    double               gamma_s_per_byte;
    double              *job_s;
    /* Adds the messages of a rank in a step; false when memory is short. Messages to the same host take no time and are
       left out on both sides. */
    bool (*step)(const pdl_sim_job_t *job, const pdl__job_t *size, int step, int rank,
                 pdl__simgrid_step_t *messages);
} pdl__simgrid_run_t;

typedef struct pdl__simgrid {
    /* Once in a process, which SimGrid does not leave as it was; leaves the process when memory is short. */
    void (*run)(const pdl__simgrid_run_t *run);
} pdl__simgrid_t;

#endif
