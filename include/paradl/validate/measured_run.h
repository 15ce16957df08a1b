/*
 * A run that was measured, beside what was projected for it: where the time differs, and what to look at.
 *
 *     pdl_measured_run_t run;
 *     pdl_measured_run_read("trace.json", &run);
 *     pdl_measured_compare(&run, &candidate->projection, &difference);
 *
 * Numbers come from the log of paradl train (--log), from a trace of PyTorch's profiler (Kineto, Chrome format), or as text:
 * "iteration_s=2.1,comm_s=0.4". What a source does not have is NAN.
 */
#ifndef PARADL_MEASURED_RUN_H
#define PARADL_MEASURED_RUN_H

#include <paradl/oracle/oracle.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Seconds of one iteration. */
typedef struct pdl_measured_run {
    char   source[160];  /* where it is from, in words */
    int    iterations;   /* that were looked at */
    double iteration_s;  /* the middle one */
    double compute_s;    /* kernels that are no communication */
    double product_s;    /* of these, products and convolutions */
    double comm_s;       /* communication that nothing overlaps */
    double overlapped_s; /* and the rest of it */
    double idle_s;       /* nothing runs on the device */
    double io_s;         /* waiting for samples */
    double memory_bytes; /* of a device */
} pdl_measured_run_t;

/* A path, or numbers as text. Refuses what is none of the three, and a source without the time of an iteration: the message says
   what is missing and how to record it. */
pdl_status_t pdl_measured_run_read(const char *path_or_numbers, pdl_measured_run_t *run);
pdl_status_t pdl_measured_run_read_memory(const char *text, size_t length, const char *name,
                                          pdl_measured_run_t *run);

#define PDL_MOST_DIFFERENCES 8

typedef struct pdl_difference_row {
    const char *name;
    double      projected, measured; /* seconds; NAN: not known */
    const char *advice; /* what to look at where more was measured; NULL where there is nothing to do */
} pdl_difference_row_t;

typedef struct pdl_difference {
    pdl_difference_row_t row[PDL_MOST_DIFFERENCES]; /* what was lost most first; unknown ones last */
    int                  count;
    bool                 within;       /* the iteration is in the interval */
    char                 missing[200]; /* what the source does not tell apart, or "" */
} pdl_difference_t;

void pdl_measured_compare(const pdl_measured_run_t *run, const pdl_projection_t *projection,
                          pdl_difference_t *difference);

#ifdef __cplusplus
}
#endif
#endif
