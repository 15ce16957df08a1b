/*
 * Runs a program of the system and waits for it. Internal to data.
 */
#ifndef PDL_DATA_PROCESS_H
#define PDL_DATA_PROCESS_H

#include <paradl/base/status.h>

/* Runs arguments[0], found in PATH, with the NULL-terminated `arguments` in `folder`; no shell is involved. What it writes to
   its standard error becomes part of the message when it fails; `package` is what to install when it is missing. */
pdl_status_t pdl__process_run(const char *const *arguments, const char *folder, const char *package);

#endif
