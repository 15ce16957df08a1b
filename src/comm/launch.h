/*
 * What a rank knows of its launcher.
 */
#ifndef PDL_COMM_LAUNCH_H
#define PDL_COMM_LAUNCH_H

#include <stdbool.h>

/* How many ranks the launcher has started, by the environment; 0: not known. */
int pdl__launch_size(void);

/* Whether this rank may print why the job fails: the first one that asks in a job of ours, every one elsewhere. It
   is about to end, and SIGTERM no longer hastens that. */
bool pdl__launch_claim(void);

/* How pdl_launch_local() tells its ranks. */
#define PDL__ENV_RANKS    "PARADL_LAUNCH_RANKS"    /* their number */
#define PDL__ENV_NOTE     "PARADL_LAUNCH_NOTE"     /* a file that the rank removes which says why the job fails */
#define PDL__ENV_TERMINAL "PARADL_LAUNCH_TERMINAL" /* streams of the first process that are terminals: "12" */

#endif
