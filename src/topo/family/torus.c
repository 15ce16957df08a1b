/*
 * Torus(k_1..k_D): router x = x_1 + k_1 (x_2 + k_2 (x_3 + ...)), x_j <-> x_j +- 1 mod k_j. A dimension of size 2
 * has one cable between its two routers, a dimension of size 1 none.
 *
 * Routes go dimension by dimension, the shorter way round; at distance exactly k_j / 2 upward from an even
 * coordinate and downward from an odd one. The cable upward from router x in dimension j is number first[j] + x;
 * in a dimension of size 2 only routers with coordinate 0 own one, and they are counted without gaps.
 */
#include "topo/network.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct torus {
    int count;
    int size[PDL_MAX_DIMS], stride[PDL_MAX_DIMS], first[PDL_MAX_DIMS];
} torus_t;

static int owned_cable(const torus_t *torus, int j, int x)
{
    int stride = torus->stride[j];

    if (torus->size[j] > 2) return torus->first[j] + x;
    return torus->first[j] + x / (2 * stride) * stride + x % stride;
}

static void describe(pdl_topology_t *topology, const torus_t *torus)
{
    int length = 0;

    for (int j = 0; j < torus->count; j++)
        length += snprintf(topology->description + length, sizeof(topology->description) - (size_t)length, "%s%d",
                           j == 0 ? "" : "x", torus->size[j]);
    snprintf(topology->description + length, sizeof(topology->description) - (size_t)length,
             topology->hosts_per_router > 0 ? " switches with %d hosts each" : " nodes",
             topology->hosts_per_router);
}

pdl_status_t pdl__torus_build(pdl_topology_t *topology, const pdl_topology_spec_t *spec, const int64_t *dims,
                              int count)
{
    torus_t     *torus = calloc(1, sizeof(*torus));
    int64_t      routers = 1, hops = 0, cables = 0;
    pdl_status_t st;

    topology->data = torus;
    if (torus == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for a torus");
    for (int j = 0; j < count; j++) {
        int64_t next = dims[j] < 1 ? -1 : pdl__product(routers, dims[j], PDL__MOST_VERTICES);
        if (dims[j] < 1)
            return pdl_error(PDL_ERR_INPUT, "a dimension of %lld switches is not possible", (long long)dims[j]);
        if (next < 0)
            return pdl_error(PDL_ERR_LIMIT, "a %s of this size has more than %lld switches", spec->name,
                             (long long)PDL__MOST_VERTICES);
        torus->size[j] = (int)dims[j];
        torus->stride[j] = (int)routers;
        routers = next;
        hops += dims[j] / 2;
    }
    torus->count = count;
    st = pdl__check_route_length(spec->name, hops);
    if (st) return st;
    st = pdl__direct_routers(spec, routers, &routers);
    if (st) return st;
    for (int j = 0; j < count; j++) {
        torus->first[j] = (int)cables;
        cables += torus->size[j] > 2 ? routers : torus->size[j] == 2 ? routers / 2 : 0;
    }
    st = pdl__direct_begin(topology, spec, routers, cables);
    if (st) return st;
    topology->transitive = true;
    topology->floor_columns = count > 1 ? torus->size[0] : 0;
    for (int j = 0; j < count; j++) {
        int stride = torus->stride[j], size = torus->size[j];
        for (int x = 0; size > 1 && x < topology->routers; x++) {
            int at = x / stride % size;
            if (size > 2 || at == 0) pdl__direct_cable(topology, x, at + 1 < size ? x + stride : x - at * stride);
        }
    }
    describe(topology, torus);
    return PDL_OK;
}

static pdl_status_t create_torus(pdl_topology_t *topology, const pdl_topology_spec_t *spec)
{
    if (spec->dim_count == 0)
        return pdl_error(PDL_ERR_INPUT, "a torus needs its dimensions, for example --dims 4x4x4");
    return pdl__torus_build(topology, spec, spec->dims, spec->dim_count);
}

int pdl__torus_route(const pdl_topology_t *topology, int src, int dst, int *links)
{
    const torus_t *torus = topology->data;
    int            count = 0, x = src, rest_a = src, rest_b = dst;

    for (int j = 0; j < torus->count; j++) {
        int  size = torus->size[j], stride = torus->stride[j];
        int  a = rest_a % size, b = rest_b % size;
        int  up = b - a < 0 ? b - a + size : b - a, hops;
        bool upward = 2 * up < size || (2 * up == size && a % 2 == 0);

        rest_a /= size;
        rest_b /= size;
        if (up == 0) continue;
        for (hops = upward ? up : size - up; hops > 0; hops--) {
            int next = upward ? (a + 1 < size ? a + 1 : 0) : (a > 0 ? a - 1 : size - 1);
            int y = x + (next - a) * stride;
            /* The lower end of a cable in a dimension of two is coordinate 0, whichever way it is used. */
            bool forward = size > 2 ? upward : a == 0;
            links[count++] = pdl__router_link(topology, owned_cable(torus, j, forward ? x : y), !forward);
            a = next;
            x = y;
        }
    }
    return count;
}

const pdl__topology_ops_t pdl__topology_torus = {
    .name = "torus",
    .summary = "a grid of any dimensions, closed round in each",
    .direct = true,
    .create = create_torus,
    .route = pdl__torus_route,
};
