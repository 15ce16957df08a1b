/*
 * paradl predict: what its two ways, over a data set and from prompts, share.
 */
#ifndef PDL_CLI_PREDICT_H
#define PDL_CLI_PREDICT_H

#include "cli/options.h"
#include "cli/train/trained.h"

#include <paradl/base/json.h>
#include <paradl/plan/plan.h>

typedef struct pdl__predict_values {
    const char *data, *model, *init, *vocabulary, *output, *system, *prompt, *prompt_file, *device;
    int64_t     batch, pe, threads, loader_threads, samples, top_k, tokens, seed;
    double      stall_timeout, temperature;
    int         precision;
    bool        ema, train_split, no_normalise, no_cache, json, quiet, vocabulary_given;
} pdl__predict_values_t;

extern const pdl__option_t pdl__predict_options[];

typedef struct pdl__predict_job {
    const pdl__predict_values_t *values;
    pdl_ranks_t                 *ranks;
    pdl__trained_t               network;
    pdl_backend_t               *backend;
    char                         found[64]; /* name of the system that describes the device */
    const char                  *system;    /* the one on which a pass is projected */
} pdl__predict_job_t;

/* Seconds that a forward pass of the plan takes on the system of --system, or on that which describes the device; 0: not known. A system that was asked for has to be there. */
pdl_status_t pdl__predict_project(pdl__predict_job_t *job, pdl_plan_t *plan, double *seconds);
/* Begins the summary as a JSON document. */
void pdl__predict_begin_json(const pdl__predict_job_t *job, pdl_json_t *json);

/* text.c: goes on from prompts. */
pdl_status_t pdl__predict_text(pdl__predict_job_t *job);

#endif
