/*
 * Starting the ranks of --pe, alike for every command that has it, and starting them again where some were lost.
 */
#include "cli/train/start_ranks.h"

#include "cli/commands.h"
#include <paradl/tensor/threads.h>

#include <paradl/comm/launch.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_START_S 30.0 /* many ranks on a busy machine take their time */

bool pdl__start_wanted(int64_t ranks)
{
    return ranks > INT32_MAX || pdl_launch_wanted((int)ranks);
}

bool pdl__start_done(void)
{
    return pdl_launch_local_rank();
}

/* More ranks than a machine can start would bring it to a standstill before any of them could say so. */
static pdl_status_t check_count(int64_t ranks, int64_t cores)
{
    enum { RANKS_A_CORE = 32 };

    if (ranks > RANKS_A_CORE * cores)
        return pdl_error(
            PDL_ERR_LIMIT,
            "%lld ranks are too many to start on %lld core%s: use mpirun or srun on more machines, or a plan "
            "or --pe of %lld ranks at most",
            (long long)ranks, (long long)cores, cores == 1 ? "" : "s", (long long)(RANKS_A_CORE * cores));
    if (ranks > cores)
        fprintf(stderr,
                "paradl: %lld ranks share %lld core%s: what they compute is right, their times say nothing about "
                "speed\n",
                (long long)ranks, (long long)cores, cores == 1 ? "" : "s");
    return PDL_OK;
}

/* The command with --resume, which goes before what may end the options, and without --overwrite; to be freed. */
static char **resuming_arguments(char *const *argv)
{
    size_t count = 0, next = 0;

    while (argv[count] != NULL) count++;
    char **made = calloc(count + 2, sizeof(*made));
    if (made == NULL) return NULL;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(argv[i], "--overwrite") != 0 && strcmp(argv[i], "--resume") != 0) made[next++] = argv[i];
        /* After the program and the verb; execvp() leaves its arguments alone. */
        if (i == 1) made[next++] = (char *)(uintptr_t) "--resume";
    }
    return made;
}

/* The ranks that a job goes on with after a loss; 0: it does not, and the message says why. */
static int64_t next_count(const pdl__restarts_t *restarts, int64_t ranks, int lost, char *how, size_t size)
{
    char loss[1024], reason[1024] = "no rank is left";

    *how = '\0';
    if (!restarts->elastic) return ranks;
    snprintf(loss, sizeof(loss), "%s", pdl_error_message());
    for (int64_t left = ranks - lost; left > 0; left--) {
        if (restarts->fits(restarts->context, left, how, size) == PDL_OK) return left;
        if (left == ranks - lost) snprintf(reason, sizeof(reason), "%s", pdl_error_message());
    }
    pdl_error(PDL_ERR_IO, "%s; it cannot go on with fewer ranks: %s", loss, reason);
    return 0;
}

/* The line that says so. */
static void announce(const char *loss, int64_t made, int64_t most, int64_t ranks, const char *how)
{
    fprintf(stderr, "paradl: %s: restart %lld of %lld on %lld rank%s%s%s%s\n", loss, (long long)made,
            (long long)most, (long long)ranks, ranks == 1 ? "" : "s", *how != '\0' ? " (" : "", how,
            *how != '\0' ? ")" : "");
}

pdl_status_t pdl__start_ranks(int64_t ranks, int64_t threads, double limit_s, const pdl__restarts_t *restarts)
{
    char           **resuming = NULL, loss[1024], how[128];
    pdl_status_t     status = check_count(ranks, pdl_threads_allowed());
    pdl_launch_end_t end;

    if (status) return status;
    pdl_launch_spec_t spec = {.ranks = (int)ranks,
                              .threads = (int)threads,
                              .argv = pdl__arguments,
                              .start_limit_s = limit_s > 0 ? fmax(limit_s, LEAST_START_S) : 0};
    for (int64_t made = 1;; made++) {
        status = pdl_launch_local(&spec, &end);
        pdl__exit_status = end.exit_status;
        if (!end.lost || restarts == NULL || made > restarts->most) break;
        /* Where a rank has spoken itself there is no message here. */
        snprintf(loss, sizeof(loss), "%s", status ? pdl_error_message() : "ranks were lost");
        int64_t left = next_count(restarts, spec.ranks, end.lost_ranks, how, sizeof(how));
        if (left > 0 && resuming == NULL) resuming = resuming_arguments(pdl__arguments);
        if (left == 0 || resuming == NULL) break;
        announce(loss, made, restarts->most, left, how);
        spec.ranks = (int)left;
        spec.argv = resuming;
    }
    free(resuming);
    return status;
}
