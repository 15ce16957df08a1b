#define _POSIX_C_SOURCE 200809L /* gethostname */
#include "comm/mpi/hosts.h"

#include "comm/mpi/check.h"

#include <stdlib.h>
#include <unistd.h>

static uint64_t add_to_hash(uint64_t hash, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
    return hash;
}

static uint64_t hash_of_name(void)
{
    char name[256] = "";

    if (gethostname(name, sizeof(name)) != 0) name[0] = '\0';
    name[sizeof(name) - 1] = '\0';
    return add_to_hash(UINT64_C(14695981039346656037), name, sizeof(name));
}

pdl_status_t pdl__host_order(MPI_Comm comm, uint64_t *order)
{
    uint64_t     mine = hash_of_name(), *all;
    int          ranks = 0;
    pdl_status_t status = PDL_MPI(pdl__mpi->Comm_size(comm, &ranks));

    if (status) return status;
    all = malloc((size_t)ranks * sizeof(*all));
    if (all == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the names of %d hosts", ranks);
    status =
        PDL_MPI(pdl__mpi->Allgather(&mine, sizeof(mine), pdl__mpi->byte, all, sizeof(mine), pdl__mpi->byte, comm));
    *order = add_to_hash(UINT64_C(14695981039346656037), all, (size_t)ranks * sizeof(*all));
    if (*order == 0) *order = 1;
    free(all);
    return status;
}

pdl_status_t pdl__host_order_check(MPI_Comm comm, const pdl_topology_t *network)
{
    uint64_t     measured = pdl_topology_get_spec(network)->messages.host_order, now = 0;
    pdl_status_t status = measured != 0 ? pdl__host_order(comm, &now) : PDL_OK;

    if (status || now == measured) return status;
    return pdl_error(
        PDL_ERR_INPUT,
        "the network was measured on other hosts, or with the ranks on these hosts in another order: start the "
        "job in the order of that calibration, or repeat paradl calibrate --network");
}
