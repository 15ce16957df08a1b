/*
 * Codes and counts of MPI.
 */
#include "comm/mpi/check.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

pdl_status_t pdl__mpi_status(int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int  length;

    if (code == MPI_SUCCESS) return PDL_OK;
    PMPI_Error_string(code, text, &length);
    return pdl_error(PDL_ERR_IO, "%.*s failed: %s", (int)strcspn(call, "("), call, text);
}

pdl_status_t pdl__mpi_count(int64_t count, int *narrow)
{
    if (count < 0 || count > INT_MAX)
        return pdl_error(PDL_ERR_LIMIT, "%" PRId64 " elements do not fit into one message: choose smaller chunks",
                         count);
    *narrow = (int)count;
    return PDL_OK;
}
