/*
 * Text tables for people: columns line up, numbers stand to the right, and on a terminal the last cell of a row
 * goes on below itself where the line ends.
 *
 *     static const pdl_column_t columns[] = {{"layer", PDL_LEFT}, {"parameters", PDL_RIGHT}};
 *     pdl_table_t *table = pdl_table_create(columns, 2);
 *     pdl_table_row(table, PDL_ROW_PLAIN);
 *     pdl_table_cell(table, "%s", "conv1");
 *     pdl_table_cell(table, "%d", 9408);
 *     pdl_status_t status = pdl_table_print(table, stdout);
 *     pdl_table_destroy(table);
 *
 * Memory that runs out while cells are added is reported once, by pdl_table_print(); NULL is a table that ran
 * out at once.
 */
#ifndef PARADL_TABLE_H
#define PARADL_TABLE_H

#include <paradl/base/status.h>
#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_align { PDL_LEFT, PDL_RIGHT } pdl_align_t;

typedef struct pdl_column {
    const char *header; /* "" for none; a table whose columns have none gets no line of headers */
    pdl_align_t align;
} pdl_column_t;

/* How a row looks where colours are allowed; nothing depends on it. */
typedef enum pdl_row_style { PDL_ROW_PLAIN, PDL_ROW_STRONG, PDL_ROW_FAINT } pdl_row_style_t;

typedef struct pdl_table pdl_table_t;

/* Borrows `columns`. */
pdl_table_t *pdl_table_create(const pdl_column_t *columns, int count);
void         pdl_table_destroy(pdl_table_t *table);

/* Starts a row; cells that are not given stay empty. */
void pdl_table_row(pdl_table_t *table, pdl_row_style_t style);
void pdl_table_cell(pdl_table_t *table, const char *format, ...) PDL_PRINTF(2, 3);
/* A last cell that runs over all further columns and does not widen them. */
void pdl_table_span(pdl_table_t *table, const char *format, ...) PDL_PRINTF(2, 3);

pdl_status_t pdl_table_print(const pdl_table_t *table, FILE *stream);

/* Columns of the terminal behind a stream; 0 when it is none. */
int pdl_terminal_width(FILE *stream);
/* A terminal, and the user has not asked for plain text (NO_COLOR, TERM=dumb). */
bool pdl_terminal_colour(FILE *stream);

#ifdef __cplusplus
}
#endif
#endif
