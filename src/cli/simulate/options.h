/*
 * Values of `paradl simulate` that are more than a number or a name.
 */
#ifndef PDL_CLI_SIMULATE_OPTIONS_H
#define PDL_CLI_SIMULATE_OPTIONS_H

#include <paradl/base/units.h>
#include <paradl/sim/sim.h>

#define PDL__MAX_FACTORS 32
#define PDL__MAX_POINTS  256
#define PDL__MAX_CHOSEN  32

/* Names with commas between them, cut up in `copy`; *count is 0 for "all". */
typedef struct pdl__names {
    char        copy[512];
    const char *name[PDL__MAX_CHOSEN];
    int         count;
} pdl__names_t;
pdl_status_t pdl__parse_names(const char *option, const char *text, pdl__names_t *names);

/* A number, or "auto": 0. */
pdl_status_t pdl__parse_segments(const char *text, int64_t *segments);

/* FROM:TO:FACTOR: values from FROM by FACTOR as long as they are not beyond TO. */
pdl_status_t pdl__parse_sweep(const char *option, const char *text, pdl_unit_t unit,
                              int64_t points[PDL__MAX_POINTS], int *count);

/* SIZE:FACTOR,SIZE:FACTOR.. */
pdl_status_t pdl__parse_factors(const char *option, const char *text, pdl_factor_t factors[PDL__MAX_FACTORS],
                                int *count);

/* HOST:TIME,HOST:TIME.. into a new array of one start per host. */
pdl_status_t pdl__parse_stragglers(const char *text, int hosts, double **start_s);

/* RANK:FACTOR: one rank of a plan and how many times as long its computation takes. */
pdl_status_t pdl__parse_slow(const char *text, int64_t ranks, int64_t *rank, double *factor);

/* random[:SEED], or a file (index_sets.c): what each of so many ranks keeps of the vector of the case, to be freed. */
pdl_status_t pdl__read_index_sets(const char *text, const pdl_sim_case_t *asked, int ranks,
                                  struct pdl_stream **supports);
void         pdl__free_index_sets(struct pdl_stream *supports, int ranks); /* NULL is allowed */

/* A,B..: takes these switches out. */
pdl_status_t pdl__fail_switches(const char *text, pdl_topology_t *topology);

/* A-B,C-D..: takes the cables between these vertices out. */
pdl_status_t pdl__fail_links(const char *text, pdl_topology_t *topology);

#endif
