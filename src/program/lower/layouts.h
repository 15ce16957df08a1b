/*
 * The layouts of a plan on one rank: which part of every tensor it reads and writes, what its layers look like when only
 * that part is computed, and which part of every weight it holds.
 */
#ifndef PDL_PROGRAM_LAYOUTS_H
#define PDL_PROGRAM_LAYOUTS_H

#include "program/lower/pipe.h"
#include <paradl/plan/layout.h>
#include <paradl/plan/partition.h>

/* One layer: its output, what it reads of each input (all alike), and the gradient it leaves of them. */
typedef struct pdl__layer_layout {
    pdl_layout_t out, reads, dx;
} pdl__layer_layout_t;

typedef struct pdl__known_moves pdl__known_moves_t;
pdl_status_t                    pdl__known_moves_create(pdl__known_moves_t **known);
void                            pdl__known_moves_destroy(pdl__known_moves_t *known);

typedef struct pdl__layouts {
    const pdl_plan_t    *plan;
    pdl_partition_t     *partition;
    pdl__layer_layout_t *layer;
    int64_t              samples; /* of one micro-batch, over all ranks */
    int64_t              first;   /* of them: where the samples of this rank's data-parallel replica begin */
    int64_t              coordinates[PDL_MAX_AXES]; /* of this rank */
    bool                 trivial;                   /* no axis but data axes splits anything */
    unsigned             stage_axes; /* all but the pipeline: ranks that differ in them have the same layers */
    pdl__pipe_t         *stages;
    pdl__known_moves_t  *moves; /* that were found (planned_move.h) */
} pdl__layouts_t;

pdl_status_t pdl__layouts_create(const pdl_plan_t *plan, int64_t rank, int64_t samples, pdl__layouts_t **layouts);
void         pdl__layouts_destroy(pdl__layouts_t *layouts);

/* The ranks of the stage that do not do the same: one of each class, this rank's own among them, as layouts that share
   everything but coordinates with `layouts`. `agree`: only this rank's where there is nothing that ranks must agree
   upon. To be freed. */
pdl_status_t pdl__layouts_classes(const pdl__layouts_t *layouts, bool agree, pdl__layouts_t **classes, int *count);

/* The ranks that differ from this one in these axes only form a group: how many they are, and this rank's place. */
int pdl__layouts_members(const pdl__layouts_t *layouts, unsigned axes);
int pdl__layouts_place(const pdl__layouts_t *layouts, unsigned axes);
/* The coordinates of a member of such a group. */
void pdl__layouts_member(const pdl__layouts_t *layouts, unsigned axes, int member, int64_t *coordinates);

/* What the rank with coordinate `at` on `axis`, otherwise this one, holds of a tensor; axis -1: this rank. */
pdl_status_t pdl__layouts_region(const pdl__layouts_t *layouts, const pdl_layout_t *layout,
                                 const pdl_shape_t *shape, int axis, int64_t at, pdl_region_t *region);

/* Samples of a tensor of which this rank has a region, and how many of its replica's samples come before them. */
int64_t pdl__region_samples(const pdl_region_t *region);
int64_t pdl__region_first(const pdl__layouts_t *layouts, const pdl_region_t *region);

/* The axes on which a layer runs in a mode, as bits. */
unsigned pdl__layouts_axes(const pdl__layouts_t *layouts, int layer, pdl_mode_t mode);

/* The data axes of a mesh that have more than one rank, as bits. */
unsigned pdl__data_axes(const pdl_mesh_t *mesh);

/* Convolution and pooling: an output depends on a window of inputs. */
bool pdl__is_window(const pdl_layer_t *layer);

/* The rows of input along extent `dim` that are needed for the rows [out.low, out.high) of output; *low and *high are the rows of
   padding among them. */
pdl_range_t pdl__window_needs(const pdl_layer_t *layer, int dim, pdl_range_t out, int64_t *low, int64_t *high);

/* The layer as this rank computes it, `in` and `out` being what it reads (halo included) and writes. */
pdl_status_t pdl__local_layer(const pdl__layouts_t *layouts, int layer, const pdl_region_t *in,
                              const pdl_region_t *out, pdl_layer_t *local);

/* The rows of an embedding's table that the rank with these coordinates holds. */
pdl_range_t pdl__vocabulary_rows(const pdl__layouts_t *layouts, int layer, const int64_t *coordinates);

/* The experts of a mixture that the rank with these coordinates holds. */
pdl_range_t pdl__experts(const pdl__layouts_t *layouts, int layer, const int64_t *coordinates);

bool pdl__same_region(const pdl_region_t *a, const pdl_region_t *b);

/* Refuses a layer that uses the weight of another one but would need another part of it on this rank. */
pdl_status_t pdl__check_tied(const pdl__layouts_t *layouts, int layer);

/* Whole dimensions of a weight from those of this rank's op. */
void pdl__weight_whole(const pdl__layouts_t *layouts, int layer, int rank, const int64_t *local, int64_t *whole);
/* The part of a weight with these whole dimensions that the rank with these coordinates holds. */
pdl_status_t pdl__weight_region(const pdl__layouts_t *layouts, int layer, int rank, const int64_t *dims,
                                const int64_t *coordinates, pdl_region_t *region);

#endif
