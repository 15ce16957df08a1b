/*
 * The program that libparadl-mpi.so is loaded into has MPI: nothing is left to load.
 */
#include "comm/mpi/check.h"

const pdl__mpi_t *pdl__mpi = &pdl__mpi_functions;

pdl_status_t pdl__mpi_load(void)
{
    return PDL_OK;
}
