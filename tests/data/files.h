/*
 * Small files for the tests of readers: a scratch folder that goes away at the end, and samples to read into.
 */
#ifndef PDL_TEST_FILES_H
#define PDL_TEST_FILES_H

#include "test.h"

#include <paradl/data/data.h>

#include <ftw.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static char files_folder[512];

__attribute__((unused)) static int files_remove(const char *path, const struct stat *info, int type,
                                                struct FTW *walk)
{
    (void)info;
    (void)type;
    (void)walk;
    return remove(path);
}

__attribute__((unused)) static void files_end(void)
{
    nftw(files_folder, files_remove, 16, FTW_DEPTH | FTW_PHYS);
}

__attribute__((unused)) static void files_begin(void)
{
    const char *parent = getenv("TMPDIR");

    snprintf(files_folder, sizeof(files_folder), "%s/paradl-data-XXXXXX", parent != NULL ? parent : ".");
    if (mkdtemp(files_folder) == NULL) {
        perror(files_folder);
        exit(1);
    }
    atexit(files_end);
}

/* A path in the scratch folder; the eight latest are kept. */
__attribute__((unused, format(printf, 1, 2))) static const char *in_scratch(const char *format, ...)
{
    static char paths[8][1024];
    static int  next;
    char       *path = paths[next++ % 8];
    int         length = snprintf(path, sizeof(paths[0]), "%s/", files_folder);
    va_list     arguments;

    va_start(arguments, format);
    vsnprintf(path + length, sizeof(paths[0]) - (size_t)length, format, arguments);
    va_end(arguments);
    return path;
}

__attribute__((unused)) static void make_folder(const char *path)
{
    if (mkdir(path, 0777) != 0) perror(path);
}

__attribute__((unused)) static void write_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");

    if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

__attribute__((unused)) static void write_gzip(const char *path, const void *data, size_t size)
{
    gzFile file = gzopen(path, "wb");

    if (file == NULL || gzwrite(file, data, (unsigned)size) != (int)size || gzclose(file) != Z_OK) {
        perror(path);
        exit(1);
    }
}

__attribute__((unused)) static pdl_status_t open_with(const char *path, pdl_split_t split, pdl_shape_t shape,
                                                      pdl_source_t **source)
{
    pdl_source_options_t options = {.split = split, .shape = shape};

    *source = NULL;
    return pdl_source_open(path, &options, source);
}

__attribute__((unused)) static pdl_status_t open_plain(const char *path, pdl_source_t **source)
{
    return open_with(path, PDL_SPLIT_TRAIN, (pdl_shape_t){0}, source);
}

#define IMAGE(c, h, w) ((pdl_shape_t){.channels = (c), .extent = {(h), (w), 1}, .rank = 2})
#define SEQUENCE(n)    ((pdl_shape_t){.channels = 1, .extent = {(n), 1, 1}, .rank = 1, .sequence = true})

/* Opening has to fail with a message of one line that has `part` in it. */
#define CHECK_REFUSED(path, part)                           \
    do {                                                    \
        pdl_source_t *refused_;                             \
        CHECK_ERROR(open_plain((path), &refused_), (part)); \
        CHECK(strchr(pdl_error_message(), '\n') == NULL);   \
        CHECK(strstr(pdl_error_message(), "  ") == NULL);   \
        pdl_source_close(refused_);                         \
    } while (0)

#endif
