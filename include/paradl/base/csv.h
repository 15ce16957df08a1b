/*
 * Tables in comma-separated files: a header line, quoted fields, any column order.
 */
#ifndef PARADL_CSV_H
#define PARADL_CSV_H

#include <paradl/base/status.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_csv pdl_csv_t;

/* Every row must have as many fields as the header; a mistake is reported as "FILE:LINE: ...". */
pdl_status_t pdl_csv_read_file(const char *path, pdl_csv_t **table);
void         pdl_csv_destroy(pdl_csv_t *table);

size_t      pdl_csv_rows(const pdl_csv_t *table);
int         pdl_csv_columns(const pdl_csv_t *table);
const char *pdl_csv_name(const pdl_csv_t *table, int column);             /* in the header */
int         pdl_csv_column(const pdl_csv_t *table, const char *name);     /* -1 when absent */
const char *pdl_csv_cell(const pdl_csv_t *table, size_t row, int column); /* "" when empty or column < 0 */
size_t      pdl_csv_line(const pdl_csv_t *table, size_t row); /* line of the file where the row starts */

/* The cell as a number: an error unless it is a finite decimal number; empty leaves *value alone and returns PDL_OK. */
pdl_status_t pdl_csv_number(const pdl_csv_t *table, size_t row, int column, double *value);

#ifdef __cplusplus
}
#endif
#endif
