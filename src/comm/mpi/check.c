/*
 * Codes and counts of MPI.
 */
#include "comm/mpi/check.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

/* The name of what was called, as users know it. */
static const char *name_of(const char *call)
{
    static const char *const ways[] = {"pdl__mpi->", "PMPI_"};

    for (int i = 0; i < 2; i++)
        if (strncmp(call, ways[i], strlen(ways[i])) == 0) return call + strlen(ways[i]);
    return call;
}

pdl_status_t pdl__mpi_status(int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int  length;

    if (code == MPI_SUCCESS) return PDL_OK;
    pdl__mpi->Error_string(code, text, &length);
    return pdl_error(PDL_ERR_IO, "MPI_%.*s failed: %s", (int)strcspn(name_of(call), "("), name_of(call), text);
}

pdl_status_t pdl__mpi_count(int64_t count, int *narrow)
{
    if (count < 0 || count > INT_MAX)
        return pdl_error(PDL_ERR_LIMIT, "%" PRId64 " elements do not fit into one message: choose smaller chunks",
                         count);
    *narrow = (int)count;
    return PDL_OK;
}
