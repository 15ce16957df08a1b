/*
 * What the files that compare algorithms share.
 */
#ifndef PDL_SIM_CASE_H
#define PDL_SIM_CASE_H

#include <paradl/coll/sparse.h>
#include <paradl/sim/sim.h>

/* Ranks of one group, and the hosts of group g: rank r is on pdl__case_host(). */
int pdl__case_ranks(const pdl_sim_case_t *asked);
int pdl__case_host(const pdl_sim_case_t *asked, int group, int rank);

/* Bytes of all blocks of a schedule together. */
int64_t pdl__case_bytes(const pdl_sim_case_t *asked);

/* The schedule of an algorithm for one group, as far as the case and its topology say. */
pdl_schedule_spec_t pdl__case_spec(const pdl_sim_case_t *asked, const char *algorithm);

/* segments.c: the number given, or the best one for a pipelined algorithm; 0 for others. */
pdl_status_t pdl__sim_choose_segments(const pdl_sim_case_t *asked, const char *algorithm, int64_t *segments);

/* parts.c: latency, bandwidth and reduction of the first group alone, by counting. */
pdl_status_t pdl__sim_parts(const pdl_sim_case_t *asked, const pdl_schedule_t *schedule,
                            double part_s[PDL_PART_COUNT]);

/* circuits.c: switches the circuits of a hybrid network that carry most of the bytes of a schedule, and counts
   them. */
pdl_status_t pdl__sim_switch_circuits(const pdl_sim_case_t *asked, const pdl_schedule_t *schedule, int *circuits);

/* sparse.c: the messages of a sparse allreduce of one group, and latency, bandwidth and reduction of the first group alone. */
bool         pdl__is_sparse(const char *algorithm);
pdl_status_t pdl__check_sparse(const pdl_sim_case_t *asked, const char *algorithm);
pdl_status_t pdl__sparse_messages(const pdl_sim_case_t *asked, const char *algorithm, pdl_sparse_run_t *run);
pdl_status_t pdl__sparse_parts(const pdl_sim_case_t *asked, const pdl_sparse_run_t *run,
                               double part_s[PDL_PART_COUNT]);

#endif
