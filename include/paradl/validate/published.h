/*
 * Published runs: tables of training runs that others measured, with the columns of
 * share/measured/published_runs.csv, projected with one set of parameters.
 *
 *     pdl_published_t *runs;
 *     pdl_published_read("published_runs.csv", "published", &runs);
 *     pdl_published_project(runs, &parameters);
 *     printf("mean error %g\n", pdl_published_summary(runs).source_mean);
 *     pdl_published_destroy(runs);
 */
#ifndef PARADL_PUBLISHED_H
#define PARADL_PUBLISHED_H

#include <paradl/base/status.h>
#include <paradl/oracle/oracle.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_published_row {
    const char *id, *source, *model; /* as in the file */
    int64_t     devices;
    double      measured_s;   /* seconds per iteration, from the throughput where no time is given; 0: none */
    double      measured_gb;  /* memory of the busiest device, 10^9 bytes; 0: none comparable */
    bool        measured_oom; /* the source reports that memory ran out */
    double      projected_s, low_s, high_s;
    double      projected_gb;
    bool        projected_oom;
    bool        expressed;
    bool        contradicts; /* itself: projected as its cells say, but not scored */
    char        reason[128]; /* why it is not expressed, or what contradicts what */
} pdl_published_row_t;

typedef struct pdl_published pdl_published_t;

/* `rules` (share/experiments/NAME.yaml) says which system, model and framework the words of the table stand for. */
pdl_status_t pdl_published_read(const char *csv_path, const char *rules, pdl_published_t **runs);
void         pdl_published_destroy(pdl_published_t *runs);
/* Name of the parameter set that belongs to the rules. */
const char *pdl_published_parameters(const pdl_published_t *runs);

/* Projects all rows; one that the oracle refuses is no longer expressed and says why. */
pdl_status_t pdl_published_project(pdl_published_t *runs, const pdl_parameters_t *parameters);

size_t                     pdl_published_count(const pdl_published_t *runs);
const pdl_published_row_t *pdl_published_row(const pdl_published_t *runs, size_t i);

/* Errors are |projected - measured| / measured, means over the rows that have both. */
typedef struct pdl_published_score {
    const char *source; /* NULL: of all rows */
    int         rows, expressed, timed;
    double      error, bias; /* mean error of the time; mean of ln(projected / measured) */
    double      covered;     /* share of times inside their 90 % interval */
    double      width;       /* mean half-width of that interval, in ln */
    int         memory_rows;
    double      memory_error;
    int         oom_rows, oom_found; /* reported out of memory, and projected so */
    int         false_oom;           /* ran, but were projected not to fit */
} pdl_published_score_t;

/* `source` NULL: over all rows. */
pdl_published_score_t pdl_published_score(const pdl_published_t *runs, const char *source);

typedef struct pdl_published_summary {
    int    sources;
    double source_mean;      /* error of the time, unweighted mean over sources */
    double memory_mean;      /* the same of memory */
    double covered_mean;     /* share of times inside their interval, likewise */
    double width_mean;       /* half-width of the interval in ln, likewise */
    int    groups;           /* of equal source, model and devices with at least 3 different times */
    double rank_correlation; /* Spearman's, mean over the groups */
} pdl_published_summary_t;
pdl_published_summary_t pdl_published_summary(const pdl_published_t *runs);

/* Mean error over sources of rows that the fit has not seen: of a source left out, and of groups (source, model and number of
   devices), a tenth of them at a time. */
typedef struct pdl_published_cross {
    double sources, groups;
} pdl_published_cross_t;

/* Fits the parameters that a published run can tell something about and that no framework sets, every source with the same
   weight, from the prior of the rules, and the interval to the residuals of groups left out in turn. One line of
   progress per round to `progress` (NULL: silent). */
pdl_status_t pdl_published_fit(pdl_published_t *runs, pdl_parameters_t *parameters, pdl_published_cross_t *cross,
                               FILE *progress);

#ifdef __cplusplus
}
#endif
#endif
