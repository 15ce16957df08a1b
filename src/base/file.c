#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Grows by doubling instead of asking for the size first, so that pipes can be read too. */
static pdl_status_t read_all(FILE *file, const char *path, size_t limit, char **text, size_t *length)
{
    size_t room = 16384, used = 0;
    char  *buffer = malloc(room);

    while (buffer != NULL) {
        char *larger;

        used += fread(buffer + used, 1, room - used - 1, file);
        if (ferror(file)) {
            free(buffer);
            return pdl_error(PDL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
        }
        if (used > limit) {
            free(buffer);
            return pdl_error(PDL_ERR_INPUT, "%s: larger than %zu MiB, which no file of this kind is", path,
                             limit >> 20);
        }
        if (feof(file)) {
            buffer[used] = '\0';
            *text = buffer;
            *length = used;
            return PDL_OK;
        }
        if (room - used > 1) continue;
        room *= 2;
        larger = realloc(buffer, room);
        if (larger == NULL) free(buffer);
        buffer = larger;
    }
    return pdl_error(PDL_ERR_NOMEM, "out of memory while reading %s", path);
}

pdl_status_t pdl__file_read_large(const char *path, size_t limit, char **text, size_t *length)
{
    FILE        *file = fopen(path, "rb");
    pdl_status_t st;

    if (file == NULL) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    st = read_all(file, path, limit, text, length);
    fclose(file);
    return st;
}

pdl_status_t pdl__file_read(const char *path, char **text, size_t *length)
{
    return pdl__file_read_large(path, PDL__FILE_LIMIT, text, length);
}
