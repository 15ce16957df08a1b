/*
 * Fat trees XGFT(L; m_1..m_L; w_1..w_L; q_1..q_L) with D-mod-K routes, and FT(P, leaf, uplinks), which is
 * XGFT(2; leaf, P/leaf; 1, uplinks; 1, 1).
 *
 * Vertex (s, b) of level l, s the number of its sub-tree (host / hosts below) and b < W_l = w_1..w_l, has number
 * s W_l + b on its level. Its parent p is (s / m_{l+1}, b + W_l p). A message for host d climbs by p = (d / W_l)
 * mod w_{l+1}, so that b = d mod W_l on every level, on the way up and on the way down alike. The cable of vertex
 * v to its parent p, number j of q, is (v w_{l+1} + p) q_{l+1} + j among those of the level.
 */
#include "topo/network.h"

#include <stdio.h>
#include <stdlib.h>

pdl_status_t pdl__xgft_shape(const int64_t *m, const int64_t *w, const int64_t *q, int levels, pdl__xgft_t *tree)
{
    int64_t below = 1, ways = 1, vertices, hosts = 1;

    if (levels < 1 || levels > PDL_MAX_DIMS)
        return pdl_error(PDL_ERR_INPUT, "a fat tree has 1 to %d levels, not %d", PDL_MAX_DIMS, levels);
    *tree = (pdl__xgft_t){.levels = levels};
    for (int l = 0; l < levels; l++) {
        if (m[l] < 1 || w[l] < 1 || q[l] < 1)
            return pdl_error(PDL_ERR_INPUT,
                             "level %d of the fat tree: children, parents and cables must be at least 1", l + 1);
        hosts = pdl__product(hosts, m[l], PDL__MOST_VERTICES);
        if (hosts < 0)
            return pdl_error(PDL_ERR_LIMIT, "the fat tree has more than %lld hosts", (long long)PDL__MOST_VERTICES);
    }
    vertices = hosts; /* of the level, then of the next */
    for (int l = 0; l < levels; l++) {
        int64_t cables = pdl__product(pdl__product(vertices, w[l], PDL__MOST_LINKS), q[l], PDL__MOST_LINKS);

        if (cables < 0 || tree->cables + cables > PDL__MOST_LINKS)
            return pdl_error(PDL_ERR_LIMIT, "the fat tree has more than %lld links", (long long)PDL__MOST_LINKS);
        tree->m[l] = (int)m[l];
        tree->w[l] = (int)w[l];
        tree->q[l] = (int)q[l];
        tree->below[l] = (int)below;
        tree->ways[l] = (int)ways;
        tree->first_cable[l] = (int)tree->cables;
        tree->first_vertex[l] = l == 0 ? 0 : (int)(hosts + tree->switches - vertices);
        below *= m[l];
        ways *= w[l];
        vertices = hosts / below * ways;
        tree->cables += cables;
        tree->switches += vertices;
    }
    tree->below[levels] = (int)below;
    tree->ways[levels] = (int)ways;
    tree->first_vertex[levels] = (int)(hosts + tree->switches - vertices);
    return PDL_OK;
}

pdl_status_t pdl__fat_tree_shape(const pdl_topology_spec_t *spec, pdl__xgft_t *tree)
{
    int64_t leaf = spec->leaf_hosts, m[2], w[2] = {1, spec->uplinks}, q[2] = {1, 1};

    if (spec->hosts == 0) return pdl_error(PDL_ERR_INPUT, "a %s needs a number of hosts", spec->name);
    if (leaf < 1)
        return pdl_error(PDL_ERR_INPUT, "a leaf switch needs at least one host, not %lld", (long long)leaf);
    if (spec->uplinks < 0)
        return pdl_error(PDL_ERR_INPUT, "a leaf switch cannot have %lld uplinks", (long long)spec->uplinks);
    if (w[1] == 0) w[1] = leaf;
    if (spec->hosts < leaf) leaf = spec->hosts; /* one leaf that is not full */
    if (spec->hosts % leaf != 0)
        return pdl_error(
            PDL_ERR_INPUT,
            "%lld hosts do not fill leaf switches of %lld: not a multiple; take %lld or %lld hosts, or leaf "
            "switches of another size",
            (long long)spec->hosts, (long long)leaf, (long long)(spec->hosts / leaf * leaf),
            (long long)((spec->hosts / leaf + 1) * leaf));
    m[0] = leaf;
    m[1] = spec->hosts / leaf;
    return pdl__xgft_shape(m, w, q, 2, tree);
}

/* Switches must have been reserved from the end of the hosts on, cables must be the first. */
void pdl__xgft_add(pdl_topology_t *topology, const pdl__xgft_t *tree)
{
    const pdl_topology_spec_t *spec = &topology->spec;

    for (int l = 0; l < tree->levels; l++) {
        int ways = tree->ways[l], vertices = topology->hosts / tree->below[l] * ways;
        for (int v = 0; v < vertices; v++) {
            int parent = tree->first_vertex[l + 1] + v / ways / tree->m[l] * tree->ways[l + 1] + v % ways;
            for (int i = 0; i < tree->w[l] * tree->q[l]; i++)
                pdl__add_cable(topology, tree->first_vertex[l] + v, parent + i / tree->q[l] * ways,
                               l == 0 ? PDL_LINK_HOST : PDL_LINK_SWITCH,
                               l == 0 ? spec->host_link_bytes_per_s : spec->link_bytes_per_s,
                               l == 0 ? spec->host_link_latency_s : spec->link_latency_s);
        }
    }
}

/* Cable by which sub-tree `s` of level l is joined to the level above for messages to `dst`. */
static int tree_cable(const pdl__xgft_t *tree, int l, int s, int dst)
{
    int ways = tree->ways[l], w = tree->w[l], q = tree->q[l], up = dst / ways;

    return tree->first_cable[l] + ((s * ways + dst % ways) * w + up % w) * q + (q == 1 ? 0 : up / w % q);
}

int pdl__xgft_route(const pdl_topology_t *topology, const pdl__xgft_t *tree, int src, int dst, int *links)
{
    int a = src, b = dst, count = 0, down[PDL_MAX_DIMS], l;

    for (l = 0; a != b; l++) {
        links[count++] = pdl__cable_link(topology, tree_cable(tree, l, a, dst), 0);
        down[l] = pdl__cable_link(topology, tree_cable(tree, l, b, dst), 1);
        a /= tree->m[l];
        b /= tree->m[l];
    }
    while (l > 0) links[count++] = down[--l];
    return count;
}

static pdl_status_t build(pdl_topology_t *topology, const pdl__xgft_t *shape)
{
    pdl__xgft_t *tree = malloc(sizeof(*tree));
    pdl_status_t st;

    topology->data = tree;
    if (tree == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for a fat tree");
    *tree = *shape;
    st = pdl__topology_reserve(topology, tree->below[tree->levels], tree->switches, tree->cables << topology->full);
    if (st) return st;
    topology->group = tree->m[0];
    pdl__xgft_add(topology, tree);
    return PDL_OK;
}

/* "32 x 32 hosts, ... over-subscription" of every level that has one. */
static void describe(pdl_topology_t *topology, const pdl__xgft_t *tree)
{
    int    length = snprintf(topology->description, sizeof(topology->description),
                             "%d levels of switches, hosts per switch "
                                "and links up",
                             tree->levels);
    size_t size = sizeof(topology->description);

    for (int l = 0; l < tree->levels && length < (int)size; l++) {
        int up = l + 1 < tree->levels ? tree->ways[l + 1] * tree->w[l + 1] * tree->q[l + 1] : 0;
        length += snprintf(topology->description + length, size - (size_t)length, "%s %d:%d", l == 0 ? "" : ",",
                           tree->below[l + 1], up);
    }
}

static pdl_status_t create_fat_tree(pdl_topology_t *topology, const pdl_topology_spec_t *spec)
{
    pdl__xgft_t  tree;
    pdl_status_t st = pdl__fat_tree_shape(spec, &tree);

    if (st) return st;
    snprintf(topology->description, sizeof(topology->description),
             "%d leaf switches with %d hosts and %d uplinks each, %d spines", tree.m[1], tree.m[0], tree.w[1],
             tree.w[1]);
    return build(topology, &tree);
}

static pdl_status_t create_xgft(pdl_topology_t *topology, const pdl_topology_spec_t *spec)
{
    int64_t      q[PDL_MAX_DIMS];
    pdl__xgft_t  tree;
    pdl_status_t st;

    if (spec->xgft_levels < 1 || spec->xgft_levels > PDL_MAX_DIMS)
        return pdl_error(PDL_ERR_INPUT, "xgft needs the children m and parents w of 1 to %d levels", PDL_MAX_DIMS);
    for (int l = 0; l < spec->xgft_levels; l++) q[l] = spec->xgft_q[l] == 0 ? 1 : spec->xgft_q[l];
    st = pdl__xgft_shape(spec->xgft_m, spec->xgft_w, q, spec->xgft_levels, &tree);
    if (st) return st;
    if (spec->hosts != 0 && spec->hosts != tree.below[tree.levels])
        return pdl_error(PDL_ERR_INPUT, "this xgft has %d hosts, not %lld", tree.below[tree.levels],
                         (long long)spec->hosts);
    st = build(topology, &tree);
    if (st == PDL_OK) describe(topology, &tree);
    return st;
}

static int route_tree(const pdl_topology_t *topology, int src, int dst, int *links)
{
    return pdl__xgft_route(topology, topology->data, src, dst, links);
}

const pdl__topology_ops_t pdl__topology_fat_tree = {
    .name = "fat-tree",
    .summary = "leaf switches and spines, one cable from each leaf to each spine",
    .create = create_fat_tree,
    .route = route_tree,
};

const pdl__topology_ops_t pdl__topology_xgft = {
    .name = "xgft",
    .summary = "fat tree of any levels, children, parents and parallel cables",
    .create = create_xgft,
    .route = route_tree,
};
