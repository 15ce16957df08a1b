/*
 * 2-D DLN: R x C switches, switch (r,c) = r C + c; every row is a distributed loop network of its C switches and
 * every column one of its R. Routes go along the row first. A list of strides holds for both: each dimension
 * takes those that are at most half of its size.
 *
 * The cables of the rows come first, those of row r from r times the cables of a row on; then the columns.
 */
#include "topo/network.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct dln2d {
    pdl__loop_t row, column;
} dln2d_t;

static pdl_status_t init_loop(pdl__loop_t *loop, const pdl_topology_spec_t *spec, int64_t size)
{
    int64_t strides[32];
    int     count = 0;

    for (int k = 0; k < spec->stride_count; k++)
        if (spec->strides[k] <= size / 2) strides[count++] = spec->strides[k];
    /* No stride fits a dimension of one switch, which needs none. */
    if (spec->stride_count > 0 && count == 0 && size > 1)
        return pdl_error(PDL_ERR_INPUT, "no stride fits the %lld switches of a dimension of dln2d",
                         (long long)size);
    return pdl__loop_init(loop, spec->name, size, strides, count);
}

static void add_loop(pdl_topology_t *topology, const pdl__loop_t *loop, int first, int step)
{
    for (int k = 0; k < loop->stride_count; k++) {
        int stride = loop->stride[k], owners = 2 * stride == loop->n ? loop->n / 2 : loop->n;
        for (int i = 0; i < owners; i++)
            pdl__direct_cable(topology, first + i * step, first + (i + stride) % loop->n * step);
    }
}

static pdl_status_t create_dln2d(pdl_topology_t *topology, const pdl_topology_spec_t *spec)
{
    dln2d_t     *grid = calloc(1, sizeof(*grid));
    int64_t      rows = spec->dims[0], columns = spec->dims[1], routers;
    pdl_status_t st;

    topology->data = grid;
    if (grid == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for a dln2d");
    if (spec->dim_count != 2)
        return pdl_error(PDL_ERR_INPUT, "dln2d needs two dimensions, rows x columns, for example --dims 16x16");
    if (rows < 1 || columns < 1) return pdl_error(PDL_ERR_INPUT, "dln2d needs at least one row and one column");
    routers = pdl__product(rows, columns, PDL__MOST_VERTICES);
    if (routers < 0)
        return pdl_error(PDL_ERR_LIMIT, "dln2d of this size has more than %lld switches",
                         (long long)PDL__MOST_VERTICES);
    st = pdl__direct_routers(spec, routers, &routers);
    if (st) return st;
    st = init_loop(&grid->row, spec, columns);
    if (st) return st;
    st = init_loop(&grid->column, spec, rows);
    if (st) return st;
    st = pdl__check_route_length(spec->name, grid->row.diameter + grid->column.diameter);
    if (st) return st;
    st = pdl__direct_begin(topology, spec, routers, rows * grid->row.cables + columns * grid->column.cables);
    if (st) return st;
    topology->transitive = true;
    topology->floor_columns = (int)columns;
    for (int r = 0; r < (int)rows; r++) add_loop(topology, &grid->row, r * (int)columns, 1);
    for (int c = 0; c < (int)columns; c++) add_loop(topology, &grid->column, c, (int)columns);
    snprintf(topology->description, sizeof(topology->description),
             topology->hosts_per_router > 0 ? "%d rows x %d columns of switches with %d hosts each"
                                            : "%d rows x %d columns of nodes",
             (int)rows, (int)columns, topology->hosts_per_router);
    return PDL_OK;
}

/* Links along one loop whose first cable is `first`. */
static int route_loop(const pdl_topology_t *topology, const pdl__loop_t *loop, int first, int src, int dst,
                      int *links)
{
    int8_t hops[PDL_MAX_ROUTE];
    int    count = pdl__loop_hops(loop, src, dst, hops), at = src, reverse;

    for (int i = 0; i < count; i++) {
        int cable = pdl__loop_step(loop, hops[i], &at, &reverse);
        links[i] = pdl__router_link(topology, first + cable, reverse);
    }
    return count;
}

static int route_dln2d(const pdl_topology_t *topology, int src, int dst, int *links)
{
    const dln2d_t *grid = topology->data;
    int            columns = grid->row.n, rows = grid->column.n;
    int            ra = src / columns, ca = src % columns, rb = dst / columns, cb = dst % columns;
    int            count = route_loop(topology, &grid->row, ra * grid->row.cables, ca, cb, links);

    return count + route_loop(topology, &grid->column, rows * grid->row.cables + cb * grid->column.cables, ra, rb,
                              links + count);
}

static void destroy_dln2d(pdl_topology_t *topology)
{
    dln2d_t *grid = topology->data;

    pdl__loop_free(&grid->row);
    pdl__loop_free(&grid->column);
}

const pdl__topology_ops_t pdl__topology_dln2d = {
    .name = "dln2d",
    .summary = "rows and columns of switches, each a distributed loop network",
    .direct = true,
    .create = create_dln2d,
    .route = route_dln2d,
    .destroy = destroy_dln2d,
};
