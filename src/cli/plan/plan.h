/*
 * Options of paradl plan, and what its files share.
 */
#ifndef PDL_CLI_PLAN_H
#define PDL_CLI_PLAN_H

#include "cli/commands.h"

#include <paradl/oracle/exact.h>
#include <paradl/report/report.h>

enum { PDL__FORMULAS_PARADL, PDL__FORMULAS_ORIG, PDL__FORMULAS_COUNT };

typedef struct pdl__plan_asked {
    const char *model, *system, *data, *strategy, *framework, *parameters, *spatial_until, *output, *trace,
        *data_policy, *export_name, *plot, *measured;
    pdl__texts_t set, with;
    int64_t      range[2]; /* --devices */
    int64_t      pe, batch, samples_per_pe, micro_batches, top, groups, sequence;
    double       max_memory, divisor, exchange_bandwidth, tokens, epochs;
    int          goal, formulas, mode, optimizer;

    pdl__chosen_t      precision;
    pdl__lora_values_t lora;

    bool explain, exhaustive, json, layers;
} pdl__plan_asked_t;

/* What was loaded for one request. */
typedef struct pdl__plan_question {
    pdl_model_t        *model;
    const pdl_system_t *system;
    pdl_dataset_t       dataset;
    pdl_parameters_t    parameters;
    pdl_request_t       request;
    pdl_precision_t     precisions[PDL__MOST_CHOSEN]; /* several, of which the search chooses */
    double              samples;                      /* of the whole training; 0: not asked */
    char                training[100];                /* the same in words */
    pdl_measured_run_t  run;                          /* of --measured */
} pdl__plan_question_t;

extern const pdl__option_t pdl__plan_options[];
/* Options that exclude or need each other. */
pdl_status_t pdl__plan_check(const pdl__plan_asked_t *v);

/* pdl_search_run() with an exact search, which shows its progress and ends at Ctrl-C with the best so far. */
pdl_status_t pdl__plan_search(const pdl__plan_asked_t *v, const pdl_system_t *system, pdl_oracle_t *oracle,
                              pdl_request_t *request, pdl_exact_options_t *exact, pdl_search_t **search);

/* The best plan as a file, the timeline of its ranks, and what another framework needs to run it. */
pdl_status_t pdl__plan_write(const pdl__plan_asked_t *v, const pdl_candidate_t *best, const char *path);
pdl_status_t pdl__plan_write_trace(const char *path, const pdl_timeline_t *timeline);
pdl_status_t pdl__plan_export(const pdl__plan_asked_t *v, const pdl_system_t *system,
                              const pdl_parameters_t *parameters, const pdl_candidate_t *best);

/* How many samples a training has, by --tokens or --epochs; and what it takes with the best plan, NULL where nobody asked. */
pdl_status_t           pdl__plan_training(const pdl__plan_asked_t *v, pdl__plan_question_t *q);
const pdl_ownership_t *pdl__plan_own(const pdl__plan_question_t *q, const pdl_search_t *search,
                                     pdl_ownership_t *cost);

/* The best plan for every number of devices of a range. */
pdl_status_t pdl__plan_sweep(const pdl__plan_asked_t *v, pdl__plan_question_t *q);

#endif
