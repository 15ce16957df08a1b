/*
 * Where built-in descriptions live: models, systems, data sets and parameters are files under share/.
 */
#ifndef PARADL_SHARE_H
#define PARADL_SHARE_H

#include <paradl/base/status.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Turns what a user typed into the path of a readable file: `name` itself when it contains a '/' or ends in
   one of `extensions` (NULL-terminated, with the dot), else SHARE/`folder`/`name`+extension. SHARE is
   $PARADL_SHARE, the folder of the source tree this was built from, or the installed one, whichever exists
   first. The error for an unknown name lists the closest built-in names. */
pdl_status_t pdl_share_find(const char *folder, const char *name, const char *const *extensions, char *path,
                            size_t size);

/* Sorted names (without extension) of the built-in descriptions in a folder. Free with pdl_share_free_list(). */
pdl_status_t pdl_share_list(const char *folder, const char *const *extensions, char ***names, size_t *count);
void         pdl_share_free_list(char **names, size_t count);

#ifdef __cplusplus
}
#endif
#endif
