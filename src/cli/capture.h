/*
 * Running a command of our own for what it prints.
 */
#ifndef PDL_CLI_CAPTURE_H
#define PDL_CLI_CAPTURE_H

#include <paradl/base/status.h>
#include <stddef.h>

/* Runs `words`, of which the first names the program, and takes what it writes to standard output, ended by a zero byte; the
   caller frees *text. Documents that it writes name the words that are `shown` as their command. */
pdl_status_t pdl__capture(const char *const *words, const char *const *shown, int count, char **text,
                          size_t *length);

#endif
