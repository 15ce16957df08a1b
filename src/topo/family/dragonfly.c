/*
 * Dragonfly DF(p,a,h,g) with g = a h + 1: g groups of a routers, fully connected inside; h global cables per
 * router, one per pair of groups. Seen from group G, the cable to group H leaves from router o / h, o = (H - G -
 * 1) mod g.
 *
 * Minimal routes: to the router that owns the cable, over it, to the destination. Valiant routes between groups go
 * minimally to another group, drawn from the seed and the pair of routers, and minimally on from where they
 * arrive. With p = 1 the router is the node, unless hosts_per_switch = 1 asks for a host of its own.
 */
#include "topo/network.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct dragonfly {
    int a, h, g, local; /* cables inside a group */
} dragonfly_t;

static pdl_status_t check_shape(const int64_t shape[4], int64_t *groups)
{
    int64_t p = shape[0], a = shape[1], h = shape[2], g = shape[3];
    int64_t balanced = pdl__product(a, h, PDL__MOST_VERTICES);

    if (p < 1 || a < 1 || h < 1 || g < 0)
        return pdl_error(
            PDL_ERR_INPUT,
            "a dragonfly needs hosts, routers and global cables of at least 1: --shape 2,4,2,9 (72 hosts), "
            "3,6,3,19 (342), 4,8,4,33 (1,056), 5,10,5,51 (2,550) or another");
    if (balanced < 0)
        return pdl_error(PDL_ERR_LIMIT, "the dragonfly has more than %lld groups", (long long)PDL__MOST_VERTICES);
    if (g != 0 && g != balanced + 1)
        return pdl_error(PDL_ERR_INPUT,
                         "a dragonfly of %lld routers with %lld global cables has %lld groups, not %lld",
                         (long long)a, (long long)h, (long long)balanced + 1, (long long)g);
    *groups = balanced + 1;
    return PDL_OK;
}

static int router_of(const dragonfly_t *shape, int group, int to)
{
    int o = to - group - 1;

    return group * shape->a + (o < 0 ? o + shape->g : o) / shape->h;
}

static pdl_status_t create_dragonfly(pdl_topology_t *topology, const pdl_topology_spec_t *spec)
{
    dragonfly_t        *shape = calloc(1, sizeof(*shape));
    pdl_topology_spec_t with = *spec;
    int64_t             groups = 0, routers, cables;
    pdl_status_t        st;

    topology->data = shape;
    if (shape == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for a dragonfly");
    st = check_shape(spec->shape, &groups);
    if (st) return st;
    with.hosts_per_switch = spec->shape[0] > 1 || spec->hosts_per_switch == 1 ? spec->shape[0] : 0;
    routers = pdl__product(spec->shape[1], groups, PDL__MOST_VERTICES);
    if (routers < 0)
        return pdl_error(PDL_ERR_LIMIT, "the dragonfly has more than %lld routers", (long long)PDL__MOST_VERTICES);
    st = pdl__direct_routers(&with, routers, &routers);
    if (st) return st;
    *shape = (dragonfly_t){.a = (int)spec->shape[1], .h = (int)spec->shape[2], .g = (int)groups};
    cables = routers * (shape->a - 1) / 2 + groups * (groups - 1) / 2;
    st = pdl__direct_begin(topology, &with, routers, cables);
    if (st) return st;
    shape->local = shape->a * (shape->a - 1) / 2;
    for (int group = 0; group < shape->g; group++)
        for (int b = 1; b < shape->a; b++)
            for (int a = 0; a < b; a++) pdl__direct_cable(topology, group * shape->a + a, group * shape->a + b);
    for (int b = 1; b < shape->g; b++)
        for (int a = 0; a < b; a++) pdl__direct_cable(topology, router_of(shape, a, b), router_of(shape, b, a));
    topology->floor_columns = shape->a;
    topology->spec.shape[3] = groups;
    snprintf(topology->description, sizeof(topology->description),
             topology->hosts_per_router > 0 ? "%d groups of %d routers, %d global cables and %d hosts each"
                                            : "%d groups of %d nodes with %d global cables each",
             shape->g, shape->a, shape->h, topology->hosts_per_router);
    return PDL_OK;
}

/* Link from router a to router b of one group; adds nothing when they are the same. */
static int local_hop(const pdl_topology_t *topology, const dragonfly_t *shape, int a, int b, int *links)
{
    int group = a / shape->a, i = a - group * shape->a, j = b - group * shape->a;
    int pair = i < j ? pdl__pair(i, j) : pdl__pair(j, i);

    if (a == b) return 0;
    links[0] = pdl__router_link(topology, group * shape->local + pair, i > j);
    return 1;
}

/* From router `at` to the first router of another group; *at becomes that router. */
static int group_hop(const pdl_topology_t *topology, const dragonfly_t *shape, int *at, int to, int *links)
{
    int from = *at / shape->a, count = local_hop(topology, shape, *at, router_of(shape, from, to), links);
    int pair = from < to ? pdl__pair(from, to) : pdl__pair(to, from);

    links[count++] = pdl__router_link(topology, shape->g * shape->local + pair, from > to);
    *at = router_of(shape, to, from);
    return count;
}

/* A number that depends on nothing but the seed and the pair (splitmix64). */
static uint64_t draw(uint64_t seed, int src, int dst)
{
    uint64_t z = seed * UINT64_C(0x9e3779b97f4a7c15) + ((uint64_t)(unsigned)src << 32 | (unsigned)dst);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int route_dragonfly(const pdl_topology_t *topology, int src, int dst, int *links)
{
    const dragonfly_t *shape = topology->data;
    int                at = src, count = 0, from = src / shape->a, to = dst / shape->a;

    if (from != to && topology->spec.valiant && shape->g > 2) {
        int low = from < to ? from : to, high = from < to ? to : from;
        int via = (int)(draw(topology->spec.seed, src, dst) % (uint64_t)(shape->g - 2));
        if (via >= low) via++;
        if (via >= high) via++;
        count += group_hop(topology, shape, &at, via, links);
    }
    if (from != to) count += group_hop(topology, shape, &at, to, links + count);
    return count + local_hop(topology, shape, at, dst, links + count);
}

const pdl__topology_ops_t pdl__topology_dragonfly = {
    .name = "dragonfly",
    .summary = "fully connected groups of routers, one cable between every two groups",
    .direct = true,
    .create = create_dragonfly,
    .route = route_dragonfly,
};
