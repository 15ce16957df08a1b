/*
 * Lists of names for messages, and the names closest to one that was mistyped. Internal to the library and its command.
 */
#ifndef PDL_BASE_CLOSEST_H
#define PDL_BASE_CLOSEST_H

#include <stdbool.h>
#include <stddef.h>

/* Writes "a", "a or b" or "a, b or c"; a list that does not fit ends with "...". */
void pdl__join_names(const char *const *names, size_t count, char *buffer, size_t size);

/* Writes up to three names that `name` may have been meant for, in the form above; false when none is near. */
bool pdl__closest_names(const char *name, const char *const *names, size_t count, char *buffer, size_t size);

#endif
