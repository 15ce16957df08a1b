/*
 * An experiment says how the runs of a table of measurements were made, so that each row becomes a
 * configuration that the oracle can project: share/experiments/NAME.yaml.
 */
#ifndef PDL_VALIDATE_EXPERIMENT_H
#define PDL_VALIDATE_EXPERIMENT_H

#include <paradl/base/yaml.h>
#include <paradl/oracle/oracle.h>

enum { PDL_EXPERIMENT_MODELS = 32, PDL_EXPERIMENT_STRATEGIES = 32, PDL_EXPERIMENT_DATASETS = 16 };

typedef struct pdl_experiment_model {
    const char     *name, *spatial_until;
    pdl_model_t    *model;
    pdl_precision_t precision;
    pdl_optimizer_t optimizer;
    int64_t         samples_per_group; /* 0: as the row says */
} pdl_experiment_model_t;

typedef struct pdl_experiment_strategy {
    const char             *name;
    const pdl_strategy_t   *strategy;
    int64_t                 micro_batches;
    pdl_pipeline_schedule_t schedule;
    pdl_recompute_t         recompute;
    const pdl_yaml_t       *switches; /* NULL, or what this program did differently */
} pdl_experiment_strategy_t;

typedef struct pdl_experiment_dataset {
    const char   *name;
    pdl_dataset_t dataset; /* with the samples as the study counts them */
} pdl_experiment_dataset_t;

typedef struct pdl_experiment {
    pdl_yaml_doc_t        *doc;
    const char            *name, *parameters, *prior; /* names of parameter sets: fitted, and where a fit starts */
    const pdl_system_t    *loaded_system;
    pdl_system_t           system; /* the same, with the storage of the experiment */
    pdl_experiment_model_t model[PDL_EXPERIMENT_MODELS];
    pdl_experiment_strategy_t strategy[PDL_EXPERIMENT_STRATEGIES];
    pdl_experiment_dataset_t  dataset[PDL_EXPERIMENT_DATASETS];
    int                       model_count, strategy_count, dataset_count;
    const pdl_yaml_t         *core_sources, *core_qualities;
} pdl_experiment_t;

pdl_status_t pdl__experiment_load(const char *name, pdl_experiment_t *experiment);
void         pdl__experiment_free(pdl_experiment_t *experiment);

const pdl_experiment_model_t    *pdl__experiment_model(const pdl_experiment_t *e, const char *name);
const pdl_experiment_strategy_t *pdl__experiment_strategy(const pdl_experiment_t *e, const char *name);
/* NULL when the data set is not listed. */
const pdl_dataset_t *pdl__experiment_dataset(const pdl_experiment_t *e, const char *name);
/* The row's source and quality count for the headline numbers. */
bool pdl__experiment_core(const pdl_experiment_t *e, const char *source, const char *quality);

#endif
