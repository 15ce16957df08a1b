/*
 * Bytes in a page: packed by gzip and written in base 85, which is 6 % shorter than base64. Internal to report/page.
 */
#ifndef PDL_REPORT_PAGE_PACK_H
#define PDL_REPORT_PAGE_PACK_H

#include <paradl/base/status.h>
#include <stddef.h>
#include <stdio.h>

void pdl__base64(const void *data, size_t size, FILE *stream);
/* <script type="application/octet-stream" id="ID">, which browsers keep and never run. */
void pdl__pack_element(const char *id, const void *data, size_t size, FILE *stream);
/* What pdl__pack() made, from its digits; the caller frees *data. `path` is the file that it is in. */
pdl_status_t pdl__unpack(const char *text, size_t size, const char *path, void **data, size_t *length);
/* gzip of `data`, the same bytes each time; the caller frees *packed. */
pdl_status_t pdl__pack(const void *data, size_t size, void **packed, size_t *length);

#endif
