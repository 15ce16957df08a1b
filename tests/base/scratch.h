/*
 * Small files for tests, in a folder of their own.
 */
#ifndef PDL_TEST_SCRATCH_H
#define PDL_TEST_SCRATCH_H

#include "test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch_folder[256];

/* Makes the folder; false ends a test program that cannot run. */
static int scratch_begin(void)
{
    const char *parent = getenv("TMPDIR");

    snprintf(scratch_folder, sizeof(scratch_folder), "%s/paradl-test-XXXXXX", parent != NULL ? parent : P_tmpdir);
    return mkdtemp(scratch_folder) != NULL;
}

static const char *scratch_path(const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", scratch_folder, name);
    return path;
}

__attribute__((unused)) static const char *scratch_file(const char *name, const char *text, size_t length)
{
    const char *path = scratch_path(name);
    FILE       *file = fopen(path, "wb");

    CHECK(file != NULL);
    if (file == NULL) return path;
    CHECK_INT(fwrite(text, 1, length, file), length);
    fclose(file);
    return path;
}

static void scratch_end(void)
{
    char command[512];

    snprintf(command, sizeof(command), "rm -rf '%s'", scratch_folder);
    CHECK_INT(system(command), 0);
}

#endif
