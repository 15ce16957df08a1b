/*
 * Where downloaded data sets are kept: each in a folder of its own name.
 */
#include "data/source/source.h"

#include <stdio.h>
#include <stdlib.h>

char *pdl_data_folder(char *buffer, size_t size)
{
    const char *chosen = getenv("PARADL_DATA"), *home = getenv("HOME");

    if (chosen != NULL && chosen[0] != '\0') {
        snprintf(buffer, size, "%s", chosen);
    } else {
        snprintf(buffer, size, "%s/.cache/paradl", home != NULL ? home : ".");
    }
    return buffer;
}

pdl_data_state_t pdl_data_find(const char *name, const char *folder, char *path, size_t size)
{
    const pdl__known_t *known = pdl__known_find(name);

    if (known == NULL || known->reader == NULL) return PDL_DATA_BY_PATH;
    if (pdl__known_path(known, folder, path, size) == PDL_OK) return PDL_DATA_HERE;
    return known->get ? PDL_DATA_TO_GET : PDL_DATA_BY_PATH;
}
