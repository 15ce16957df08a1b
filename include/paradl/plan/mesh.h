/*
 * Mesh, layouts and redistribution: the algebra behind every parallel strategy (docs/layouts.md).
 *
 * The processing elements form a mesh of named axes; a rank is a tuple of coordinates, last axis fastest, so
 * that the last axis sits inside a node first. On every axis a tensor is replicated, split along one of its
 * dimensions, or a partial sum. Going from one to another is a redistribution, and there are only a handful.
 */
#ifndef PARADL_MESH_H
#define PARADL_MESH_H

#include <paradl/base/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_axis_kind {
    PDL_AXIS_PIPELINE, /* chooses which layers a rank runs; the others may split tensors */
    PDL_AXIS_DATA,
    PDL_AXIS_SPATIAL,
    PDL_AXIS_TENSOR,
    PDL_AXIS_KIND_COUNT
} pdl_axis_kind_t;
extern const char *const pdl_axis_names[PDL_AXIS_KIND_COUNT];

typedef struct pdl_axis {
    pdl_axis_kind_t kind;
    int64_t         size;
    int             dim; /* PDL_AXIS_SPATIAL: the extent it cuts, 0 .. 2 */
} pdl_axis_t;

#define PDL_MAX_AXES 6

typedef struct pdl_mesh {
    pdl_axis_t axis[PDL_MAX_AXES];
    int        axis_count;
} pdl_mesh_t;

/* Product of the sizes. */
int64_t pdl_mesh_size(const pdl_mesh_t *mesh);
/* Distance in ranks between neighbours along an axis: the product of the sizes of all later axes. */
int64_t pdl_mesh_stride(const pdl_mesh_t *mesh, int axis);
/* Product of the sizes of all axes of a kind; 1 when there is none. */
int64_t pdl_mesh_extent(const pdl_mesh_t *mesh, pdl_axis_kind_t kind);
/* First axis of a kind, or -1. */
int  pdl_mesh_find(const pdl_mesh_t *mesh, pdl_axis_kind_t kind);
void pdl_mesh_coordinates(const pdl_mesh_t *mesh, int64_t rank, int64_t coordinates[PDL_MAX_AXES]);
/* "data 128 x tensor 4"; axes of size 1 are left out, "1" when nothing is left. */
char *pdl_mesh_format(const pdl_mesh_t *mesh, char *buffer, size_t size);

/* What a tensor is on one axis. */
typedef enum pdl_placement {
    PDL_REPLICATED,
    PDL_PARTIAL, /* the true tensor is the sum over the group */
    PDL_SPLIT_N, /* samples */
    PDL_SPLIT_C, /* channels or features; of a weight: outputs or inputs by its mode */
    PDL_SPLIT_S0,
    PDL_SPLIT_S1,
    PDL_SPLIT_S2, /* space; S0 is also the sequence */
    PDL_PLACEMENT_COUNT
} pdl_placement_t;
extern const char *const pdl_placement_names[PDL_PLACEMENT_COUNT];

typedef enum pdl_primitive {
    PDL_LOCAL, /* nothing moves: equal layouts, or a slice of what is held */
    PDL_ALLGATHER,
    PDL_REDUCE_SCATTER,
    PDL_ALLREDUCE,
    PDL_ALLTOALL,
    PDL_HALO,     /* range exchange with neighbours */
    PDL_SENDRECV, /* point to point between pipeline stages */
    PDL_PRIMITIVE_COUNT
} pdl_primitive_t;
extern const char *const pdl_primitive_names[PDL_PRIMITIVE_COUNT];

/* The movement that turns one placement into another on an axis. */
pdl_primitive_t pdl_redistribution(pdl_placement_t from, pdl_placement_t to);

/* Whether an axis may split the tensors of one replica and stage. */
bool pdl_axis_splits(const pdl_axis_t *axis);

/* What stands between two layouts of a tensor: one step for every axis that splits tensors, in the order in which they
   are taken: slices first, then what shrinks a tensor, what keeps its size, what grows it. Returns the number of steps;
   PDL_LOCAL ones are among them. */
typedef struct pdl_redistribution_step {
    int             axis;
    pdl_primitive_t primitive;
} pdl_redistribution_step_t;
int pdl_redistribution_steps(const pdl_mesh_t *mesh, const pdl_placement_t *from, const pdl_placement_t *to,
                             pdl_redistribution_step_t steps[PDL_MAX_AXES]);
/* The placement of a gradient that the writer of a tensor wants: partial sums are complete. */
pdl_placement_t pdl_gradient_placement(pdl_placement_t written);

/* Block b of `blocks` over n elements is [*low, *high): balanced, sizes differ by at most one. */
void pdl_block_range(int64_t n, int64_t blocks, int64_t b, int64_t *low, int64_t *high);
/* Largest block: ceil(n / blocks). */
int64_t pdl_block_max(int64_t n, int64_t blocks);

/* Rows along one extent that the busiest piece must receive from its neighbours (low plus high side) so
   that it can compute its block of `out` outputs from its block of `in` inputs. `neighbours` is the number of ranks
   it receives from. */
typedef struct pdl_window {
    int64_t in, out, kernel, stride, dilation, pad;
} pdl_window_t;
int64_t pdl_halo_rows(const pdl_window_t *window, int64_t pieces, int *neighbours);

#ifdef __cplusplus
}
#endif
#endif
