/*
 * A command in this process whose standard output is a temporary file meanwhile.
 */
#include "cli/capture.h"

#include "base/memory.h"
#include "cli/commands.h"

#include <paradl/base/document.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Standard output goes to `descriptor`; returns what it was, or -1. */
static int divert(int descriptor)
{
    int before = dup(STDOUT_FILENO);

    fflush(stdout);
    if (before >= 0 && dup2(descriptor, STDOUT_FILENO) >= 0) return before;
    if (before >= 0) close(before);
    return -1;
}

static pdl_status_t restore(int before)
{
    pdl_status_t status = pdl_output_flush(stdout, "a temporary file");

    dup2(before, STDOUT_FILENO);
    close(before);
    return status;
}

static pdl_status_t read_all(FILE *file, char **text, size_t *length)
{
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;

    *text = size >= 0 ? malloc((size_t)size + 1) : NULL;
    if (*text == NULL) return pdl__no_memory("for a document");
    rewind(file);
    *length = fread(*text, 1, (size_t)size, file);
    (*text)[*length] = '\0';
    return PDL_OK;
}

pdl_status_t pdl__capture(const char *const *words, const char *const *shown, int count, char **text,
                          size_t *length)
{
    FILE        *file = tmpfile();
    char       **moved = calloc((size_t)count + 1, sizeof(*moved)); /* parsing moves operands */
    int          before = file != NULL && moved != NULL ? divert(fileno(file)) : -1;
    pdl_status_t status;

    if (before < 0) {
        status = pdl_error(PDL_ERR_IO, "cannot write a temporary file: %s", strerror(errno));
    } else {
        pdl_status_t written;

        memcpy(moved, words, (size_t)count * sizeof(*moved));
        pdl_document_set_command(shown);
        status = pdl__run(count - 1, moved + 1);
        written = restore(before);
        pdl_document_set_command((const char *const *)pdl__arguments);
        if (!status) status = written;
        if (!status) status = read_all(file, text, length);
    }
    free(moved);
    if (file != NULL) fclose(file);
    return status;
}
