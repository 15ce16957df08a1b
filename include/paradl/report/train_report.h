/*
 * What people and programs see of a training run: a live line, a log of JSON lines, a summary.
 */
#ifndef PARADL_TRAIN_REPORT_H
#define PARADL_TRAIN_REPORT_H

#include <paradl/oracle/oracle.h>
#include <paradl/sim/plan_sim.h>
#include <paradl/train/calibrate.h>
#include <paradl/train/train.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_run_report_spec {
    FILE                   *talk; /* progress; NULL: none */
    const char             *log;  /* file of JSON lines, or NULL; with `append` it goes on where the run does */
    bool                    append;
    bool                    terminal; /* `talk` ends up on a terminal: one line that changes */
    const pdl_plan_t       *plan;
    const char             *model_name, *data_name;
    const char             *plan_path; /* or NULL */
    uint64_t                seed;
    int                     ranks, threads;
    const char             *device;
    const pdl_projection_t *projection;  /* of the plan on this machine, or NULL */
    const double           *classes;     /* the projection class by class, or NULL */
    const pdl_plan_sim_t   *simulated;   /* the same plan simulated on the same system, or NULL */
    const char             *system_name; /* of both */
    bool                    generic;     /* a description that was not made for this machine */
    double                  launch_s;    /* least time of an operation on that system */
} pdl_run_report_spec_t;

/* The classes of a simulation; computation is that of the projection, of which `classes` has the parts. */
void pdl_run_simulated_classes(const pdl_plan_sim_t *sim, const double classes[PDL_OP_CLASS_COUNT],
                               double seconds[PDL_OP_CLASS_COUNT]);

/* Limits and bottlenecks that a run has met: shares of its time, most of it first. Without a projection only
   those that the measured times alone show. Returns how many there are. */
int pdl_run_findings(const pdl_run_report_spec_t *spec, const pdl_train_summary_t *summary,
                     pdl_finding_t findings[PDL_MAX_FINDINGS]);

typedef struct pdl_run_report pdl_run_report_t;

pdl_status_t pdl_run_report_create(const pdl_run_report_spec_t *spec, pdl_run_report_t **report);
/* Ends the live line and closes the log; an error is a log that could not be written. NULL is allowed. */
pdl_status_t         pdl_run_report_destroy(pdl_run_report_t *report);
pdl_train_observer_t pdl_run_report_observer(pdl_run_report_t *report);

/* Ends the log with the summary. */
void pdl_run_report_finish(pdl_run_report_t *report, const pdl_train_summary_t *summary);

/* Projected beside measured, and what the run came to. */
pdl_status_t pdl_report_train_summary(const pdl_run_report_spec_t *spec, const pdl_train_summary_t *summary,
                                      FILE *stream);
pdl_status_t pdl_report_train_summary_json(const pdl_run_report_spec_t *spec, const pdl_train_summary_t *summary,
                                           FILE *stream);

/* What calibration found; `path` is where the description went. */
pdl_status_t pdl_report_calibration(const pdl_calibration_t *calibration, const char *path, FILE *stream);

#ifdef __cplusplus
}
#endif
#endif
