/*
 * program_launch RANKS MODE: starts itself as so many ranks, which then do what the mode says. The shell test looks
 * at what is printed and at the exit status.
 */
#include <paradl/comm/launch.h>
#include <paradl/comm/ranks.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
}

/* As the command does it. */
static int fail(pdl_status_t status)
{
    if (pdl_launch_speaks()) fprintf(stderr, "paradl: %s\n", pdl_error_message());
    return status == PDL_ERR_INPUT || status == PDL_ERR_LIMIT ? 2 : 1;
}

/* The others wait for a rank that will never come, as in the middle of a step. */
static void wait_for_others(pdl_ranks_t *ranks)
{
    pdl_ranks_barrier(ranks);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* All ranks get the signal but not at the same moment, hence the greatest. */
static void run_until_stopped(pdl_ranks_t *ranks)
{
    double end = 0;

    signal(SIGUSR1, stop);
    pdl_ranks_barrier(ranks);
    if (pdl_ranks_rank(ranks) == 0) {
        printf("running\n");
        fflush(stdout);
    }
    while (end == 0) {
        nap();
        end = stopped;
        pdl_ranks_max(ranks, &end, 1);
    }
    if (pdl_ranks_rank(ranks) == 0) printf("checkpoint\n");
}

static pdl_status_t run_mode(pdl_ranks_t *ranks, const char *mode)
{
    int  rank = pdl_ranks_rank(ranks), size = pdl_ranks_size(ranks);
    bool last = rank == size - 1;

    if (strcmp(mode, "sum") == 0) {
        double one = 1;
        char   byte;

        pdl_ranks_sum(ranks, &one, 1);
        if (rank == 0)
            printf("sum %g, terminal %d%d, input %zd, threads %s\n", one, pdl_launch_terminal(1),
                   pdl_launch_terminal(2), read(STDIN_FILENO, &byte, 1), getenv("OMP_NUM_THREADS"));
    } else if (strcmp(mode, "agree") == 0) {
        return pdl_ranks_agree(ranks, last ? pdl_error(PDL_ERR_INPUT, "train.bin: cut short") : PDL_OK);
    } else if (strcmp(mode, "all") == 0) {
        return pdl_ranks_agree(ranks, pdl_error(PDL_ERR_IO, "train.bin: not there"));
    } else if (strcmp(mode, "early") == 0) {
        return pdl_error(PDL_ERR_INPUT, "everyone sees this");
    } else if (strcmp(mode, "stop") == 0) {
        run_until_stopped(ranks);
    } else {
        if (last && strcmp(mode, "abort") == 0) pdl_ranks_abort(ranks, pdl_error(PDL_ERR_IO, "disk full"));
        if (strcmp(mode, "abort-all") == 0) pdl_ranks_abort(ranks, pdl_error(PDL_ERR_LIMIT, "no memory"));
        if (last && strcmp(mode, "kill") == 0) raise(SIGKILL);
        if (last && strcmp(mode, "crash") == 0) abort();
        if (last && strcmp(mode, "exit") == 0) exit(7);
        if (last && strcmp(mode, "leave") == 0) exit(0);
        wait_for_others(ranks);
    }
    return PDL_OK;
}

int main(int argc, char **argv)
{
    pdl_launch_spec_t spec = {.argv = argv, .start_limit_s = 30};
    pdl_ranks_t      *ranks;
    pdl_status_t      status;
    pdl_launch_end_t  end;
    int               exit_status;

    if (argc != 3) return 2;
    if (strcmp(argv[2], "late") == 0) spec.start_limit_s = 1;
    spec.ranks = atoi(argv[1]);
    if (pdl_launch_wanted(spec.ranks) || strcmp(argv[2], "bad") == 0) {
        status = pdl_launch_local(&spec, &end);
        return status ? fail(status) : end.exit_status;
    }
    status = pdl_ranks_create(&ranks);
    if (status) return fail(status);
    status = run_mode(ranks, argv[2]);
    exit_status = status ? fail(status) : 0;
    pdl_ranks_destroy(ranks);
    return exit_status;
}
