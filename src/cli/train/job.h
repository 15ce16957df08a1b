/*
 * A run of paradl train.
 */
#ifndef PDL_CLI_TRAIN_JOB_H
#define PDL_CLI_TRAIN_JOB_H

#include "cli/commands.h"
#include "cli/train/options.h"

#include <paradl/oracle/oracle.h>
#include <paradl/sim/plan_sim.h>

/* Everything a run holds. */
typedef struct pdl__train_job {
    const pdl__train_values_t *values;
    pdl_ranks_t               *ranks;
    pdl_model_t               *model; /* NULL when a plan file owns it */
    pdl_plan_t                *own_plan;
    pdl_plan_file_t            file;
    const char                *plan_path; /* of that file, or NULL */
    const pdl_plan_t          *plan;
    pdl_backend_t             *backend;
    pdl_source_t              *train, *valid;
    pdl_initial_file_t        *initial; /* NULL: weights are drawn */
    pdl_projection_t           projection;
    double                     classes[PDL_OP_CLASS_COUNT];
    bool                       projected;
    pdl_plan_sim_t            *simulated; /* on the rank that reports; NULL where it cannot be */
    double                     launch_s;
    char                       found[64]; /* name of the system that describes the device */
    const char                *system;    /* the one on which the plan is settled and projected */
    bool                       described; /* its times are comparable with those of the device */
    char                       said[512]; /* of the plan, before the run */
    pdl_train_options_t        options;
} pdl__train_job_t;

const char *pdl__job_model_name(const pdl__train_job_t *job);
const char *pdl__job_data_name(const pdl__train_job_t *job);
/* The plan of the command or of the file that it names. */
pdl_status_t pdl__job_load_plan(pdl__train_job_t *job, const pdl__operands_t *operands);
pdl_status_t pdl__job_create_backend(pdl__train_job_t *job, int threads);
/* Everything that pdl_train_run() needs. */
pdl_status_t pdl__job_prepare(pdl__train_job_t *job, const pdl__operands_t *operands);
/* Nodes may describe themselves differently, but all ranks must do the same. */
pdl_status_t pdl__job_share_plan(pdl__train_job_t *job);
void         pdl__job_release(pdl__train_job_t *job);

/* Of --workers, those that share this rank's samples. */
int64_t pdl__job_workers(const pdl__train_job_t *job);
/* Decides what the plan leaves open, and projects what the run will take. The comparison at the end is a service: a system that
   cannot be projected does not stop the run, but one that was asked for has to be there. */
pdl_status_t pdl__job_project(pdl__train_job_t *job);

/* What the plan says of samples holds unless the command says something else. */
void pdl__train_apply_policy(const pdl_plan_t *plan, pdl_sampling_options_t *options);

#endif
