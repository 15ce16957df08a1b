/*
 * FC2(n1,n2): n2 rows of n1 columns; router (r,c) = r n1 + c has a cable to every other router of its row and of
 * its column. Diameter 2. A pair that differs in both goes along the row first, along the column first, or (by
 * halves) row first from even sources and column first from odd ones.
 */
#include "topo/network.h"

#include <stdio.h>

static pdl_status_t create_fc2(pdl_topology_t *topology, const pdl_topology_spec_t *spec)
{
    int64_t      columns = spec->dims[0], rows = spec->dims[1], routers, per_row, per_column;
    pdl_status_t st;

    if (spec->dim_count != 2)
        return pdl_error(PDL_ERR_INPUT, "fc2 needs two dimensions, columns x rows, for example --dims 8x8");
    if (columns < 1 || rows < 1) return pdl_error(PDL_ERR_INPUT, "fc2 needs at least one column and one row");
    if (spec->fc2_routing < 0 || spec->fc2_routing > 2)
        return pdl_error(PDL_ERR_INPUT, "routing %d of fc2 is unknown; 0 row first, 1 column first, 2 by halves",
                         spec->fc2_routing);
    routers = pdl__product(columns, rows, PDL__MOST_VERTICES);
    if (routers < 0)
        return pdl_error(PDL_ERR_LIMIT, "fc2 of this size has more than %lld switches",
                         (long long)PDL__MOST_VERTICES);
    st = pdl__direct_routers(spec, routers, &routers);
    if (st) return st;
    per_row = columns * (columns - 1) / 2;
    per_column = rows * (rows - 1) / 2;
    st = pdl__direct_begin(topology, spec, routers, rows * per_row + columns * per_column);
    if (st) return st;
    topology->transitive = true;
    topology->floor_columns = (int)columns;
    for (int r = 0; r < rows; r++)
        for (int b = 1; b < columns; b++)
            for (int a = 0; a < b; a++) pdl__direct_cable(topology, r * (int)columns + a, r * (int)columns + b);
    for (int c = 0; c < columns; c++)
        for (int b = 1; b < rows; b++)
            for (int a = 0; a < b; a++) pdl__direct_cable(topology, a * (int)columns + c, b * (int)columns + c);
    snprintf(topology->description, sizeof(topology->description),
             topology->hosts_per_router > 0 ? "%d columns x %d rows of switches with %d hosts each"
                                            : "%d columns x %d rows of nodes",
             (int)columns, (int)rows, topology->hosts_per_router);
    return PDL_OK;
}

static int row_link(const pdl_topology_t *topology, int r, int from, int to)
{
    int columns = (int)topology->spec.dims[0];
    int pair = from < to ? pdl__pair(from, to) : pdl__pair(to, from);

    return pdl__router_link(topology, r * (columns * (columns - 1) / 2) + pair, from > to);
}

static int column_link(const pdl_topology_t *topology, int c, int from, int to)
{
    int columns = (int)topology->spec.dims[0], rows = (int)topology->spec.dims[1];
    int pair = from < to ? pdl__pair(from, to) : pdl__pair(to, from);

    return pdl__router_link(topology, rows * (columns * (columns - 1) / 2) + c * (rows * (rows - 1) / 2) + pair,
                            from > to);
}

static int route_fc2(const pdl_topology_t *topology, int src, int dst, int *links)
{
    int  columns = (int)topology->spec.dims[0], count = 0;
    int  ra = src / columns, ca = src % columns, rb = dst / columns, cb = dst % columns;
    bool column_first = topology->spec.fc2_routing == 1 || (topology->spec.fc2_routing == 2 && src % 2 == 1);

    if (column_first && ra != rb) links[count++] = column_link(topology, ca, ra, rb);
    if (ca != cb) links[count++] = row_link(topology, column_first ? rb : ra, ca, cb);
    if (!column_first && ra != rb) links[count++] = column_link(topology, cb, ra, rb);
    return count;
}

const pdl__topology_ops_t pdl__topology_fc2 = {
    .name = "fc2",
    .summary = "rows and columns of switches, each fully connected (2-D HyperX)",
    .direct = true,
    .create = create_fc2,
    .route = route_fc2,
};
