/*
 * Tables of runs on one device: rules and rows.
 */
#ifndef PDL_VALIDATE_DEVICE_H
#define PDL_VALIDATE_DEVICE_H

#include <paradl/base/csv.h>
#include <paradl/base/yaml.h>
#include <paradl/validate/device.h>

struct pdl_device_runs {
    pdl_csv_t          *csv;
    pdl_yaml_doc_t     *doc; /* rules */
    const pdl_yaml_t   *modes, *models;
    const char         *operations; /* framework of single operations */
    const pdl_system_t *system;
    bool                single; /* a table of operations */
    pdl_device_row_t   *rows;
    size_t              count;
};

/* Fills in one row, or leaves it with the reason why not; errors are those of memory and of files. */
pdl_status_t pdl__device_step(const pdl_device_runs_t *runs, const char *parameters, pdl_device_row_t *row);
pdl_status_t pdl__device_operation(const pdl_device_runs_t *runs, const char *parameters, pdl_device_row_t *row);

#endif
