/*
 * What people and programs are shown: tables and JSON of models, systems, plans and validations, with the
 * same numbers in both.
 */
#ifndef PARADL_REPORT_H
#define PARADL_REPORT_H

#include <paradl/base/json.h>
#include <paradl/base/status.h>
#include <paradl/model/dataset.h>
#include <paradl/model/model.h>
#include <paradl/oracle/data_policy.h>
#include <paradl/oracle/ownership.h>
#include <paradl/oracle/replay.h>
#include <paradl/oracle/search.h>
#include <paradl/oracle/sensitivity.h>
#include <paradl/system/system.h>
#include <paradl/validate/collectives.h>
#include <paradl/validate/device.h>
#include <paradl/validate/measured_run.h>
#include <paradl/validate/published.h>
#include <paradl/validate/validate.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Layers with shapes, parameters, operations and activations for `batch` samples, and the totals. */
pdl_status_t pdl_report_model(const pdl_model_t *model, int64_t batch, FILE *stream);
pdl_status_t pdl_report_model_json(const pdl_model_t *model, int64_t batch, FILE *stream);
/* One line a built-in model, system or data set: its name and what it is. */
pdl_status_t pdl_report_model_list(FILE *stream);
pdl_status_t pdl_report_system_list(FILE *stream);
pdl_status_t pdl_report_dataset_list(FILE *stream);
pdl_status_t pdl_report_model_list_json(FILE *stream);
pdl_status_t pdl_report_system_list_json(FILE *stream);
pdl_status_t pdl_report_dataset_list_json(FILE *stream);

pdl_status_t pdl_report_system(const pdl_system_t *system, FILE *stream);
pdl_status_t pdl_report_system_json(const pdl_system_t *system, FILE *stream);

pdl_status_t pdl_report_dataset(const pdl_dataset_t *dataset, FILE *stream);
pdl_status_t pdl_report_dataset_json(const pdl_dataset_t *dataset, FILE *stream);

/* Data policies of a plan report: one for every possible candidate, or several for the best of them. */
typedef struct pdl_policy_report {
    const pdl_policy_row_t *rows;
    int                     count;
    bool                    compared;    /* rows are policies for the best candidate */
    const pdl_policy_row_t *base;        /* global without hiding, for the best candidate */
    const char             *explanation; /* or NULL */
} pdl_policy_report_t;

/* What a plan report is about; everything is borrowed. */
typedef struct pdl_plan_report {
    const pdl_model_t         *model;
    const char                *model_name; /* as the user wrote it */
    const pdl_system_t        *system;
    const pdl_dataset_t       *dataset; /* or NULL */
    const pdl_request_t       *request;
    const pdl_search_t        *search;
    const char                *formulas;    /* "paradl" or "orig" */
    const char                *parameters;  /* name of the parameter set; NULL for the original formulas */
    const char                *framework;   /* that is laid over it; NULL or "": none */
    const char                *explanation; /* or NULL */
    const char                *plan_path;   /* of the file the best plan was written to, or NULL */
    int64_t                    top;         /* possible candidates to show; 0: all */
    const pdl_policy_report_t *policy;      /* or NULL */
    const pdl_timeline_t      *timeline;    /* of the best plan, for the costs of its layers; or NULL */
    const pdl_ownership_t     *ownership;   /* of a whole training with the best plan; or NULL */
    const char                *training;    /* what that is, "15 T tokens" */
    const pdl_sensitivity_t   *sensitivity; /* of the best plan; or NULL */
    const pdl_measured_run_t  *measured;    /* a run to compare the best plan with; or NULL */
} pdl_plan_report_t;

pdl_status_t pdl_report_plan(const pdl_plan_report_t *report, FILE *stream);
pdl_status_t pdl_report_plan_json(const pdl_plan_report_t *report, FILE *stream);

/* The part of it about data policies; one policy in JSON as an object of this key. */
pdl_status_t pdl_report_policy(const pdl_policy_report_t *report, FILE *stream);
void         pdl_report_policy_json(pdl_json_t *json, const char *key, const pdl_policy_row_t *row,
                                    const pdl_policy_row_t *base);

/* Accuracy per source, strategy, model and quantity, the ranking, and the rows that cannot be expressed.
   `cross` holds `cross_count` results of cross-validation by pdl_leave_out_t, or is NULL. */
pdl_status_t pdl_report_validation(const pdl_validation_t *validation, const char *parameters,
                                   const pdl_cross_validation_t *cross, int cross_count, FILE *stream);
pdl_status_t pdl_report_validation_json(const pdl_validation_t *validation, const char *parameters,
                                        const pdl_cross_validation_t *cross, int cross_count, FILE *stream);
/* id,seconds,low,high of every row that can be expressed. */
pdl_status_t pdl_report_predictions(const pdl_validation_t *validation, FILE *stream);

/* Errors per source and over sources, memory, order, and the rows that cannot be expressed. `left_out` is the error
   with sources left out of the fit, or NULL. */
/* Steps or operations on one device: scores by model or operation; predictions with the columns of the table. */
pdl_status_t pdl_report_device(const pdl_device_runs_t *runs, FILE *stream);
pdl_status_t pdl_report_device_json(const pdl_device_runs_t *runs, FILE *stream);
pdl_status_t pdl_report_device_predictions(const pdl_device_runs_t *runs, FILE *stream);
/* Measured collectives: scores by accelerator and number of devices; `fit`: with what all rows fit best. */
pdl_status_t pdl_report_collectives(const pdl_measured_collectives_t *rows, bool fit, FILE *stream);
pdl_status_t pdl_report_collectives_json(const pdl_measured_collectives_t *rows, FILE *stream);
pdl_status_t pdl_report_collectives_predictions(const pdl_measured_collectives_t *rows, FILE *stream);

pdl_status_t pdl_report_published(const pdl_published_t *runs, const char *parameters,
                                  const pdl_published_cross_t *cross, FILE *stream);
pdl_status_t pdl_report_published_json(const pdl_published_t *runs, const char *parameters,
                                       const pdl_published_cross_t *cross, FILE *stream);
/* run_id,iter_time_s,low,high,mem_gb,outcome of every row that can be expressed. */
pdl_status_t pdl_report_published_predictions(const pdl_published_t *runs, FILE *stream);

#ifdef __cplusplus
}
#endif
#endif
