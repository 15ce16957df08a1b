/*
 * Fields of comma-separated files.
 */
#ifndef PDL_REPORT_CSV_FIELD_H
#define PDL_REPORT_CSV_FIELD_H

#include <stdio.h>

/* A field that holds a comma, quote or line end is quoted. */
void pdl__write_csv_field(const char *text, FILE *stream);

#endif
