/*
 * In place of src/comm/mpi/ in a build without MPI. Only pdl_bench_run(), pdl_network_measure() and, by a process that a
 * launcher has started, pdl__world_start() are ever called: one rank alone needs none of the others.
 */
#include "comm/inside.h"

#include "base/plugin.h"

#include <paradl/comm/bench.h>
#include <paradl/comm/network.h>

/* There is no such plugin, which is the message. */
static pdl_status_t missing(void)
{
    const void *table;

    return pdl__plugin_load(PDL__PLUGIN_MPI, "a run on several ranks", 0, &table);
}

bool pdl__world_running(void)
{
    return false;
}

pdl_status_t pdl__world_start(pdl_ranks_t *ranks)
{
    (void)ranks;
    return missing();
}

void pdl__world_stop(pdl__world_t *world)
{
    (void)world;
}

pdl_status_t pdl__world_reserve(pdl_ranks_t *group)
{
    (void)group;
    return missing();
}

pdl_status_t pdl__world_split(const pdl_ranks_t *ranks, int colour, int key, pdl_ranks_t *group)
{
    (void)ranks, (void)colour, (void)key, (void)group;
    return missing();
}

pdl_status_t pdl__world_gather(pdl__world_t *world, const void *mine, void *all, int bytes)
{
    (void)world, (void)mine, (void)all, (void)bytes;
    return missing();
}

pdl_status_t pdl__world_gather_some(pdl__world_t *world, const void *mine, void *all, const int *bytes,
                                    const int *first, int rank)
{
    (void)world, (void)mine, (void)all, (void)bytes, (void)first, (void)rank;
    return missing();
}

pdl_status_t pdl__world_broadcast(pdl__world_t *world, void *data, int bytes, int root)
{
    (void)world, (void)data, (void)bytes, (void)root;
    return missing();
}

pdl_status_t pdl__world_barrier(pdl__world_t *world)
{
    (void)world;
    return missing();
}

void pdl__world_progress(pdl__world_t *world, pdl__progress_t *progress)
{
    (void)world, (void)progress;
}

void pdl__world_watch(pdl__world_t *world, pdl__watch_t *watch)
{
    (void)world, (void)watch;
}

void pdl__world_abort(int exit_status)
{
    (void)exit_status;
}

pdl_status_t pdl__pieces_create(int64_t most_bytes, pdl__pieces_t **pieces)
{
    (void)most_bytes, (void)pieces;
    return missing();
}

void pdl__pieces_destroy(pdl__pieces_t *pieces)
{
    (void)pieces;
}

pdl_status_t pdl__pieces_send(pdl__pieces_t *pieces, pdl__world_t *world, const void *data, int64_t bytes, int peer,
                              int tag)
{
    (void)pieces, (void)world, (void)data, (void)bytes, (void)peer, (void)tag;
    return missing();
}

pdl_status_t pdl__pieces_receive(pdl__pieces_t *pieces, pdl__world_t *world, void *data, int64_t bytes, int peer,
                                 int tag)
{
    (void)pieces, (void)world, (void)data, (void)bytes, (void)peer, (void)tag;
    return missing();
}

pdl_status_t pdl__pieces_wait(pdl__pieces_t *pieces)
{
    (void)pieces;
    return missing();
}

pdl_status_t pdl__pieces_test(pdl__pieces_t *pieces, bool *done)
{
    (void)pieces, (void)done;
    return missing();
}

pdl_status_t pdl__lanes_create(const pdl_ranks_t *ranks, int count, pdl__lanes_t **lanes)
{
    (void)ranks, (void)count, (void)lanes;
    return missing();
}

void pdl__lanes_destroy(pdl__lanes_t *lanes)
{
    (void)lanes;
}

size_t pdl__lanes_bytes(const pdl__lanes_t *lanes)
{
    (void)lanes;
    return 0;
}

pdl_status_t pdl__reduction_create(const pdl__lanes_t *lanes, const pdl__reduction_spec_t *spec,
                                   pdl__reduction_t **reduction)
{
    (void)lanes, (void)spec, (void)reduction;
    return missing();
}

pdl_status_t pdl_bench_run(const pdl_bench_options_t *options, pdl_bench_t **bench)
{
    (void)options, (void)bench;
    return missing();
}

pdl_status_t pdl_network_measure(const pdl_topology_t *shape, const pdl_network_options_t *options,
                                 pdl_topology_spec_t *spec, int *rank)
{
    (void)shape, (void)options, (void)spec, (void)rank;
    return missing();
}

void pdl_bench_destroy(pdl_bench_t *bench)
{
    (void)bench;
}
