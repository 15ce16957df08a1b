/*
 * What JSON says about a data set, alone or in a list. Internal to report.
 */
#ifndef PDL_REPORT_DATASET_FIELDS_H
#define PDL_REPORT_DATASET_FIELDS_H

#include <paradl/base/json.h>
#include <paradl/model/dataset.h>

/* samples (0: unlimited), shape, tokens, target and sizes, into the object that is open. */
void pdl__dataset_fields(pdl_json_t *json, const pdl_dataset_t *dataset);

#endif
