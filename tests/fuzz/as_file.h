/*
 * Bytes as a file that exists in memory only, for readers that take a path.
 */
#ifndef PDL_FUZZ_AS_FILE_H
#define PDL_FUZZ_AS_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct fuzz_file {
    int  descriptor;
    char path[64];
} fuzz_file_t;

static inline fuzz_file_t fuzz_file_make(const uint8_t *data, size_t size)
{
    fuzz_file_t file = {.descriptor = memfd_create("input", 0)};

    if (file.descriptor < 0 || write(file.descriptor, data, size) != (ssize_t)size) abort();
    snprintf(file.path, sizeof(file.path), "/proc/self/fd/%d", file.descriptor);
    return file;
}

static inline void fuzz_file_close(const fuzz_file_t *file)
{
    close(file->descriptor);
}

#endif
