/*
 * Starting ranks on this machine: `paradl train --pe 4` becomes `mpirun -n 4 paradl train --pe 4`, of which the
 * first process sees nothing but the exit status.
 *
 *     if (pdl_launch_wanted(pe)) {
 *         pdl_launch_spec_t spec = {.ranks = pe, .argv = argv};
 *         status = pdl_launch_local(&spec, &end);
 *         ...
 *     }
 *     pdl_ranks_create(&ranks);   // in each of the ranks
 *
 * What mpirun is told goes through its environment variables and gives way to those that the user has set. Ranks
 * are bound to cores of their own where there are enough; mpirun's own remarks are turned off, since a job that
 * fails is to say why in one line.
 */
#ifndef PARADL_LAUNCH_H
#define PARADL_LAUNCH_H

#include <paradl/base/status.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether mpirun, srun or pdl_launch_local() has started this process as a rank of a job. */
bool pdl_launch_active(void);
/* Whether it was pdl_launch_local(). */
bool pdl_launch_local_rank(void);
/* Whether this process should start `ranks` ranks: there are several and it is not one of them. */
bool pdl_launch_wanted(int ranks);

typedef struct pdl_launch_spec {
    int          ranks;
    int          threads;       /* of each rank; 0: OMP_NUM_THREADS, or the cores divided by the ranks */
    char *const *argv;          /* of this program, NULL at the end; argv[0] gives way to the program's own file */
    double       start_limit_s; /* after which ranks that have not found each other are ended; 0: never */
} pdl_launch_spec_t;

/* How a job ended. */
typedef struct pdl_launch_end {
    int  exit_status; /* of the ranks, one of which has said why if it is not 0 */
    bool lost;        /* a rank died, or was stopped, or hung: the job might go on from a checkpoint */
    int  lost_ranks;  /* how many, at least 1 */
} pdl_launch_end_t;

/* Runs this program again as so many ranks and waits for them. To be called before there are threads.

   SIGINT, SIGTERM and SIGHUP reach the ranks as SIGUSR1, upon which they may write a checkpoint and end; the second
   one ends them at once (mpirun itself would give them one second). SIGUSR1 and SIGUSR2 are passed on. The ranks
   read nothing from the standard input.

   PDL_OK: the ranks have ended with end->exit_status, and if that is not 0 one of them has said why. An error: they
   could not be started (PDL_ERR_UNSUPPORTED: there is no mpirun), or some were lost, which watch.h finds out. */
pdl_status_t pdl_launch_local(const pdl_launch_spec_t *spec, pdl_launch_end_t *end);

/* Whether this process is the one to print the message of a failure that all ranks may meet: true for a process by
   itself, for the first rank that asks in a job of pdl_launch_local() (and never again), for rank 0 elsewhere. */
bool pdl_launch_speaks(void);
/* Called by a rank that is about to fail and does not print why: launchers end the others when the first one fails, so it
   leaves the one that prints a moment. */
void pdl_launch_let_speak(void);

/* Whether what this process writes to standard output (1) or error (2) ends up on a terminal. isatty() in a rank
   only knows what mpirun puts between. */
bool pdl_launch_terminal(int stream);

#ifdef __cplusplus
}
#endif
#endif
