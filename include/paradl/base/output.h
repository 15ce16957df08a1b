/*
 * Files that are either complete or not there at all.
 *
 *     pdl_output_t *output;
 *     if (pdl_output_open("plan.yaml", &output)) return ...;
 *     fprintf(pdl_output_stream(output), "...");
 *     if (pdl_output_close(output)) return ...;      // now plan.yaml exists; a full disk is an error here
 *
 * What is written goes to a temporary file beside the target, which replaces it when all of it has reached the
 * disk. A target that is no ordinary file (a pipe, a device, /dev/fd/3) is written directly; "-" and /dev/stdout are
 * standard output.
 */
#ifndef PARADL_OUTPUT_H
#define PARADL_OUTPUT_H

#include <paradl/base/status.h>
#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_output pdl_output_t;

pdl_status_t pdl_output_open(const char *path, pdl_output_t **output);
FILE        *pdl_output_stream(const pdl_output_t *output);

/* Completes the file; on failure the target is as it was. Frees `output` in any case. */
pdl_status_t pdl_output_close(pdl_output_t *output);
/* Gives up: the target is as it was. NULL is allowed. */
void pdl_output_discard(pdl_output_t *output);

/* For programs: from now on SIGINT, SIGTERM and SIGHUP remove temporary files before they end the program. Signals that
   are ignored or caught stay so. */
void pdl_output_clean_up_on_signals(void);

/* Whether a path stands for standard output. */
bool pdl_output_is_stdout(const char *path);
/* A new stream to standard output, the reserved one if there is one; NULL with errno when there is none. */
FILE *pdl_output_stdout(void);
/* Keeps standard output for what is written to "-": until it is released, what others print to stdout goes to standard
   error, so that a reader finds the file alone. */
pdl_status_t pdl_output_reserve_stdout(void);
void         pdl_output_release_stdout(void);

/* What a stream such as stdout has taken so far has arrived; `name` stands for it in the message. */
pdl_status_t pdl_output_flush(FILE *stream, const char *name);

#ifdef __cplusplus
}
#endif
#endif
