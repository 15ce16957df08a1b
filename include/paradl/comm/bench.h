/*
 * Measures collective algorithms on the ranks of this job, beside the MPI library's own collective.
 *
 *     pdl_bench_options_t options = {.collective = PDL_COLL_ALLREDUCE, .min_bytes = 8, .max_bytes = 1 << 22,
 *                                    .iterations = 20};
 *     pdl_bench_t *bench;
 *     if (pdl_bench_run(&options, &bench)) ...      // under mpirun, on every rank
 *     if (bench->rank == 0) pdl_report_bench(bench, stdout);   // bench_report.h
 *     pdl_bench_destroy(bench);
 *
 * An error of one rank is the result on all of them, with the same message.
 */
#ifndef PARADL_BENCH_H
#define PARADL_BENCH_H

#include <paradl/base/status.h>
#include <paradl/coll/coll.h>
#include <paradl/topo/topo.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_bench_options {
    pdl_collective_t collective;
    const char      *algorithm; /* NULL: every one that supports the ranks of the job */
    int64_t          min_bytes; /* of the vector, from here in steps of a factor of four */
    int64_t          max_bytes;
    int64_t          iterations;     /* timed, after a quarter as many to warm up */
    int64_t          chunk_bytes;    /* 0: default */
    int64_t          ranks_per_node; /* for the hierarchical algorithms; 0: 1 */
    pdl_topology_t  *network; /* schedules are made for it and simulated on it, rank r on host r; NULL: not known */
} pdl_bench_options_t;

/* One algorithm at one size. Times are of the slowest rank in each iteration. */
typedef struct pdl_bench_row {
    const char *algorithm; /* as in the options or in pdl_coll_algorithms(); "mpi": the library's own */
    int64_t     bytes;     /* of the whole vector; all-to-all: of what one rank sends to all */
    double      median_s, min_s;
    double      algorithm_bytes_per_s; /* bytes / median */
    double      bus_bytes_per_s;       /* times the share of the bytes that the busiest link must carry */
    double      simulated_s;           /* on the network; 0: not */
    bool        chosen;                /* by auto, from the simulated times */
    int64_t     wrong;                 /* elements that differ from the right result, all ranks together */
} pdl_bench_row_t;

typedef struct pdl_bench {
    pdl_collective_t collective;
    int              rank, ranks;
    const char      *library; /* version of the MPI library */
    pdl_bench_row_t *row;     /* the same on every rank */
    int              row_count;
} pdl_bench_t;

/* Collective over all ranks of the job. Starts MPI where it is not running, and ends what it has started. */
pdl_status_t pdl_bench_run(const pdl_bench_options_t *options, pdl_bench_t **bench);
void         pdl_bench_destroy(pdl_bench_t *bench); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
