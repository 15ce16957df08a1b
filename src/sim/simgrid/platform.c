/*
 * The platform file for SimGrid. Only pairs that communicate get a route: with all pairs the file of 1,024 hosts
 * would have a million.
 */
#include "sim/simgrid/simgrid.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Pairs of hosts that have a route already: open addressing, 0 is free. */
typedef struct pairs {
    uint64_t *slot;
    size_t    mask, count;
} pairs_t;

static pdl_status_t grow(pairs_t *pairs)
{
    size_t    mask = pairs->slot != NULL ? 2 * pairs->mask + 1 : 1023;
    uint64_t *slot = calloc(mask + 1, sizeof(*slot));

    if (slot == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the routes of the SimGrid platform");
    for (size_t i = 0; pairs->slot != NULL && i <= pairs->mask; i++) {
        size_t at = (size_t)(pairs->slot[i] * 0x9E3779B97F4A7C15u >> 20) & mask;

        if (pairs->slot[i] == 0) continue;
        while (slot[at] != 0) at = (at + 1) & mask;
        slot[at] = pairs->slot[i];
    }
    free(pairs->slot);
    pairs->slot = slot;
    pairs->mask = mask;
    return PDL_OK;
}

/* True in *added when the pair is new. */
static pdl_status_t add_pair(pairs_t *pairs, int src, int dst, bool *added)
{
    uint64_t key = ((uint64_t)src << 32 | (uint64_t)dst) + 1;
    size_t   at;

    if (2 * pairs->count >= pairs->mask && grow(pairs)) return PDL_ERR_NOMEM;
    at = (size_t)(key * 0x9E3779B97F4A7C15u >> 20) & pairs->mask;
    while (pairs->slot[at] != 0 && pairs->slot[at] != key) at = (at + 1) & pairs->mask;
    *added = pairs->slot[at] == 0;
    if (*added) pairs->count++;
    pairs->slot[at] = key;
    return PDL_OK;
}

static pdl_status_t add_message(const pdl_topology_t *topology, pairs_t *pairs, int src, int dst, double bytes,
                                FILE *file, pdl_sim_result_t *result)
{
    int  links[PDL_MAX_ROUTE], hops = pdl_topology_route_sized(topology, src, dst, bytes, links);
    bool added;

    if (hops <= 0) return pdl_error(PDL_ERR_INPUT, "no route from host %d to host %d", src, dst);
    result->flows++;
    for (int h = 0; h < hops; h++) result->link_bytes[links[h]] += bytes;
    if (add_pair(pairs, src, dst, &added)) return PDL_ERR_NOMEM;
    if (!added) return PDL_OK;
    fprintf(file, "<route src=\"h%d\" dst=\"h%d\" symmetrical=\"NO\">", src, dst);
    for (int h = 0; h < hops; h++) fprintf(file, "<link_ctn id=\"l%d\"/>", links[h]);
    fprintf(file, "</route>\n");
    return PDL_OK;
}

static pdl_status_t write_routes(const pdl_topology_t *topology, const pdl_sim_job_t *job, const pdl__job_t *sizes,
                                 pairs_t *pairs, pdl_moves_t *moves, FILE *file, pdl_sim_result_t *result)
{
    for (int step = 0; step < sizes->steps; step++) {
        for (int r = 0; r < sizes->ranks; r++) {
            int src = job->hosts != NULL ? job->hosts[r] : r;

            pdl_schedule_sends(job->schedule, step, r, moves);
            for (int i = 0; i < moves->move_count; i++) {
                int          dst = job->hosts != NULL ? job->hosts[moves->move[i].peer] : moves->move[i].peer;
                pdl_status_t status;

                if (src == dst) continue;
                status = add_message(topology, pairs, src, dst, pdl__flow_bytes(sizes, moves, &moves->move[i]),
                                     file, result);
                if (status) return status;
            }
        }
    }
    return PDL_OK;
}

pdl_status_t pdl__simgrid_platform(const pdl_topology_t *topology, const pdl_sim_job_t *jobs,
                                   const pdl__job_t *sizes, int job_count, const char *path,
                                   pdl_sim_result_t *result)
{
    const pdl_link_t *links = pdl_topology_links(topology);
    pairs_t           pairs = {0};
    pdl_moves_t      *moves = malloc(sizeof(*moves));
    FILE             *file = fopen(path, "w");
    pdl_status_t      status = PDL_OK;

    if (file == NULL || moves == NULL) {
        status = pdl_error(PDL_ERR_IO, "%s: %s", path, strerror(errno));
        goto free_moves;
    }
    fprintf(file, "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                  "<platform version=\"4.1\"><zone id=\"net\" routing=\"Full\">\n");
    for (int i = 0; i < pdl_topology_hosts(topology); i++) fprintf(file, "<host id=\"h%d\" speed=\"1Gf\"/>\n", i);
    for (int i = 0; i < pdl_topology_link_count(topology); i++)
        fprintf(file, "<link id=\"l%d\" bandwidth=\"%.17gBps\" latency=\"%.17gs\"/>\n", i, links[i].bytes_per_s,
                links[i].latency_s);
    for (int j = 0; j < job_count && !status; j++)
        status = write_routes(topology, &jobs[j], &sizes[j], &pairs, moves, file, result);
    fprintf(file, "</zone></platform>\n");
    if (ferror(file) && !status) status = pdl_error(PDL_ERR_IO, "%s: the platform could not be written", path);
free_moves:
    if (file != NULL && fclose(file) != 0 && !status)
        status = pdl_error(PDL_ERR_IO, "%s: the platform could not be written", path);
    free(pairs.slot);
    free(moves);
    return status;
}
