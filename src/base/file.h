/*
 * Whole files in memory. Internal to base.
 */
#ifndef PDL_BASE_FILE_H
#define PDL_BASE_FILE_H

#include <paradl/base/status.h>
#include <stddef.h>

/* Descriptions and tables are small; a file beyond this is a mistake and not a description. */
#define PDL__FILE_LIMIT ((size_t)64 << 20)

/* Reads all of `path` and ends it with a zero byte that `length` does not count. The caller frees *text. */
pdl_status_t pdl__file_read(const char *path, char **text, size_t *length);
/* The same with another limit, for what programs record. */
pdl_status_t pdl__file_read_large(const char *path, size_t limit, char **text, size_t *length);

#endif
