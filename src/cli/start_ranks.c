/*
 * Starting the ranks of --pe, alike for every command that has it.
 */
#include "cli/start_ranks.h"

#include "cli/commands.h"
#include "tensor/cpu/threads.h"

#include <paradl/launch.h>

#include <stdio.h>

bool pdl__start_wanted(int64_t ranks)
{
    return ranks > INT32_MAX || pdl_launch_wanted((int)ranks);
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

pdl_status_t pdl__start_ranks(int64_t ranks, int64_t threads)
{
    pdl_status_t status = check_count(ranks, pdl__threads_allowed());

    if (status) return status;
    pdl_launch_spec_t spec = {.ranks = (int)ranks, .threads = (int)threads, .argv = pdl__arguments};
    pdl_launch_end_t  end;
    status = pdl_launch_local(&spec, &end);
    pdl__exit_status = end.exit_status;
    return status;
}
