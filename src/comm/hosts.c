#define _POSIX_C_SOURCE 200809L /* gethostname */
#include "comm/hosts.h"

#include <paradl/comm/network.h>

#include <stdlib.h>
#include <unistd.h>

#define START UINT64_C(14695981039346656037)

static uint64_t add_to_hash(uint64_t hash, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
    return hash;
}

uint64_t pdl__host_hash(void)
{
    char name[256] = "";

    if (gethostname(name, sizeof(name)) != 0) name[0] = '\0';
    name[sizeof(name) - 1] = '\0';
    return add_to_hash(START, name, sizeof(name));
}

uint64_t pdl__host_order(const uint64_t *hashes, int ranks)
{
    uint64_t order = add_to_hash(START, hashes, (size_t)ranks * sizeof(*hashes));

    return order != 0 ? order : 1;
}

pdl_status_t pdl__host_order_check(const pdl_topology_t *network, uint64_t order)
{
    uint64_t measured = pdl_topology_get_spec(network)->messages.host_order;

    if (measured == 0 || measured == order) return PDL_OK;
    return pdl_error(
        PDL_ERR_INPUT,
        "the network was measured on other hosts, or with the ranks on these hosts in another order: start the "
        "job in the order of that calibration, or repeat paradl calibrate --network");
}

pdl_status_t pdl_network_check_hosts(pdl_ranks_t *ranks, const pdl_topology_t *network)
{
    uint64_t     mine = pdl__host_hash(), order, *all;
    int64_t     *sizes;
    int          count = pdl_ranks_size(ranks);
    pdl_status_t status = PDL_OK;

    if (count != pdl_topology_hosts(network)) return PDL_OK;
    all = malloc((size_t)count * sizeof(*all));
    sizes = malloc((size_t)count * sizeof(*sizes));
    if (all == NULL || sizes == NULL)
        status = pdl_error(PDL_ERR_NOMEM, "out of memory for the names of %d hosts", count);
    status = pdl_ranks_agree(ranks, status);
    if (!status) status = pdl_ranks_gather_all(ranks, &mine, sizeof(mine), all, sizes);
    order = status ? 0 : pdl__host_order(all, count);
    free(all);
    free(sizes);
    return status ? status : pdl__host_order_check(network, order);
}
