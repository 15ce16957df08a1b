/*
 * MPI is loaded by whoever needs it first. libparadl-mpi.so has MPI inside (src/comm/interpose/table.c).
 */
#include "comm/mpi/check.h"

#include "base/plugin.h"

const pdl__mpi_t *pdl__mpi;

pdl_status_t pdl__mpi_load(void)
{
    const void  *table;
    pdl_status_t status;

    if (pdl__mpi != NULL) return PDL_OK;
    status = pdl__plugin_load(PDL__PLUGIN_MPI, "a run on several ranks", sizeof(pdl__mpi_t), &table);
    if (status == PDL_OK) pdl__mpi = table;
    return status;
}
