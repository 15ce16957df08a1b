/*
 * Layouts made concrete: which part of a tensor a rank holds, by its coordinates in the mesh.
 */
#ifndef PARADL_LAYOUT_H
#define PARADL_LAYOUT_H

#include <paradl/base/status.h>
#include <paradl/model/model.h>
#include <paradl/plan/mesh.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PDL_REGION_DIMS     5
#define PDL_REGION_SEGMENTS 4

typedef struct pdl_range {
    int64_t low, high; /* [low, high) */
} pdl_range_t;

/* The product of one set of indices per dimension; a set is a few ranges one after the other (the queries, keys and
   values of some heads). An empty range makes the region empty. */
typedef struct pdl_region {
    int         rank; /* dimensions */
    int         segments[PDL_REGION_DIMS];
    pdl_range_t range[PDL_REGION_DIMS][PDL_REGION_SEGMENTS];
} pdl_region_t;

int64_t pdl_region_elements(const pdl_region_t *region);

/* A stretch of channels that is cut by itself, in whole units: the queries, keys and values of attention by heads, the
   channels of a flattened image by what one channel became. */
typedef struct pdl_segment {
    int64_t low, high, unit;
} pdl_segment_t;

typedef struct pdl_layout {
    pdl_placement_t on[PDL_MAX_AXES]; /* entries of the pipeline axis are not looked at */
    int             segments;
    pdl_segment_t   segment[PDL_REGION_SEGMENTS]; /* of the channels */
} pdl_layout_t;

/* Dimensions of the region of an activation, in this order whatever the order in memory. */
enum { PDL_DIM_SAMPLE, PDL_DIM_CHANNEL, PDL_DIM_SPACE, PDL_DIM_COUNT = PDL_DIM_SPACE + PDL_MAX_SPACE };

/* One stretch of all channels, cut anywhere, replicated on every axis. */
void pdl_layout_plain(const pdl_shape_t *shape, pdl_layout_t *layout);

/* Axes that may cut a dimension, outermost first; returns their number. Data axes come before all others, as a batch is shared out to
   replicas first; then those that are made for the dimension: tensor axes of channels, spatial ones of anything else; each in mesh
   order. So what goes from tokens to heads on a spatial axis stays among its ranks, and so does what a tensor axis gathers of tokens. */
int pdl_layout_nesting(const pdl_mesh_t *mesh, bool channels, int axis[PDL_MAX_AXES]);

/* What the rank with these coordinates holds of a tensor of `samples` samples. Splits of one dimension over several axes nest. PDL_ERR_LIMIT
   when a piece would be empty. */
pdl_status_t pdl_layout_region(const pdl_layout_t *layout, const pdl_mesh_t *mesh, const pdl_shape_t *shape,
                               int64_t samples, const int64_t coordinates[PDL_MAX_AXES], pdl_region_t *region);

/* Elements that a region has along one dimension. */
int64_t pdl_region_extent(const pdl_region_t *region, int dim);
/* The same region with its dimensions in another order: dimension d of the result is order[d] of the given. */
pdl_region_t pdl_region_permute(const pdl_region_t *region, const int *order, int rank);

#ifdef __cplusplus
}
#endif
#endif
