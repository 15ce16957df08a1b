#include "comm/mpi/host_order.h"

#include "comm/hosts.h"
#include "comm/mpi/check.h"

#include <stdlib.h>

pdl_status_t pdl__host_order_find(MPI_Comm comm, uint64_t *order)
{
    uint64_t     mine = pdl__host_hash(), *all;
    int          ranks = 0;
    pdl_status_t status = PDL_MPI(pdl__mpi->Comm_size(comm, &ranks));

    if (status) return status;
    all = malloc((size_t)ranks * sizeof(*all));
    if (all == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the names of %d hosts", ranks);
    status =
        PDL_MPI(pdl__mpi->Allgather(&mine, sizeof(mine), pdl__mpi->byte, all, sizeof(mine), pdl__mpi->byte, comm));
    *order = status ? 0 : pdl__host_order(all, ranks);
    free(all);
    return status;
}
