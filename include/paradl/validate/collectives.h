/*
 * Measured collectives inside a node (share/measured/published_collectives.csv) beside their prices, and beside those of a fit that
 * has not seen the number of devices.
 *
 *     pdl_measured_collectives_t *table;
 *     pdl_measured_collectives_read("published_collectives.csv", "collectives", &table);
 *     printf("mean error %g\n", pdl_measured_collectives_score(table, NULL, 0).error);
 *     pdl_measured_collectives_destroy(table);
 */
#ifndef PARADL_VALIDATE_COLLECTIVES_H
#define PARADL_VALIDATE_COLLECTIVES_H

#include <paradl/system/fabric.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_collective_row {
    const char *accelerator, *system;
    int         devices;
    double      bytes, measured_s;
    double      projected_s; /* as the system file has it */
    double      unseen_s;    /* fitted to the rows of the accelerator with other numbers of devices; 0: too few */
} pdl_collective_row_t;

typedef struct pdl_measured_collectives pdl_measured_collectives_t;

/* Reads, prices and fits. `rules` (share/experiments/NAME.yaml) says which system an accelerator stands for. */
pdl_status_t pdl_measured_collectives_read(const char *csv_path, const char *rules,
                                           pdl_measured_collectives_t **table);
void         pdl_measured_collectives_destroy(pdl_measured_collectives_t *table);

size_t                      pdl_measured_collectives_count(const pdl_measured_collectives_t *table);
const pdl_collective_row_t *pdl_measured_collectives_row(const pdl_measured_collectives_t *table, size_t i);
/* Fitted to all rows of the accelerator of a row. */
pdl_status_t pdl_measured_collectives_fit(const pdl_measured_collectives_t *table, size_t row,
                                          pdl_fabric_t *fabric);

/* Errors are |projected - measured| / measured. */
typedef struct pdl_collective_score {
    int    rows, unseen_rows;
    double error, bias; /* bias: mean of ln(projected / measured) */
    double unseen_error;
} pdl_collective_score_t;
/* Of an accelerator (NULL: all) with so many devices (0: any). */
pdl_collective_score_t pdl_measured_collectives_score(const pdl_measured_collectives_t *table,
                                                      const char *accelerator, int devices);

#ifdef __cplusplus
}
#endif
#endif
