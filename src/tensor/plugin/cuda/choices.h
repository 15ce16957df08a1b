/*
 * Which of a library's ways of computing something was found fastest here: chosen once by timing, then kept, because a
 * choice made anew may differ from run to run and with it the last digits of results. A choice is a line of text under a
 * key; both are without tabs and ends of lines. In a file:
 *
 *     paradl kernel choices/1
 *     NVIDIA H200
 *     KEY<tab>CHOICE
 *     ...
 *
 * Keys name the version of the library.
 */
#ifndef PDL_TENSOR_CUDA_CHOICES_H
#define PDL_TENSOR_CUDA_CHOICES_H

#include <paradl/base/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl__choices pdl__choices_t;

/* What a file at `path` says is taken over when it is of the same kind of device; a file of another one is replaced when
   something is added. `path` NULL: nothing is read or written. */
pdl_status_t pdl__choices_open(const char *path, const char *device, pdl__choices_t **choices);
/* Those of this process: made once for a file and a kind of device, and not to be closed, so that whatever is computed again has the
   same bits. Not for several threads at once. */
pdl_status_t pdl__choices_share(const char *path, const char *device, pdl__choices_t **choices);
/* NULL: nothing has been chosen yet. The text is valid until the next call that adds. */
const char *pdl__choices_find(const pdl__choices_t *choices, const char *key);
/* Keeps a choice instead of what was there, and writes the file: readers see the old one or the new one. */
pdl_status_t pdl__choices_add(pdl__choices_t *choices, const char *key, const char *choice);
/* All of them as lines like those of the file, behind that of the device; to be freed. */
pdl_status_t pdl__choices_text(const pdl__choices_t *choices, char **text);
/* Keeps what such a text says, of the same kind of device, instead of what was there; the file stays. */
pdl_status_t pdl__choices_learn(pdl__choices_t *choices, const char *text);
void         pdl__choices_close(pdl__choices_t *choices); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
