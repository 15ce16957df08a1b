/*
 * Inside lowering: the walk over the layers of one rank, beside those of the other classes of ranks of its stage.
 */
#ifndef PDL_PROGRAM_LOWERING_H
#define PDL_PROGRAM_LOWERING_H

#include "program/lower/graph.h"

/* The state of the walk. */
typedef struct pdl__lowering {
    const pdl__graph_spec_t *spec;
    const pdl_model_t       *model;
    pdl__graph_t            *graph;
    int                     *head;    /* as pdl__fuse_layers says */
    int                     *unit_of; /* the unit whose output is that of a layer */
    struct pdl__walks       *all;
} pdl__lowering_t;

/* The ranks of a stage are lowered side by side, one of every class, so that what they must agree upon is looked up. */
typedef struct pdl__walks {
    pdl__lowering_t *of; /* the first is this rank's */
    int              count;
    int              halo_head, halo_axis; /* what was found of one layer, for all of them */
} pdl__walks_t;

/* units.c. Appends a unit, NULL when out of memory; the pointer holds until the next one. */
pdl__unit_t *pdl__add_unit(pdl__graph_t *graph, pdl__unit_kind_t kind, int layer);
/* A whole tensor's shape cut down to what this rank has. */
pdl_shape_t pdl__local_shape(const pdl_shape_t *whole, const pdl_region_t *region);
/* The unit that holds the output of unit `from` in another format. */
pdl_status_t pdl__converted(pdl__graph_t *graph, int from, pdl_format_t format, int *result);
/* What layer `producer` of another stage writes; and the output of a layer to the stages that read it. */
pdl_status_t pdl__receive(pdl__lowering_t *l, int producer);
pdl_status_t pdl__send(pdl__lowering_t *l, int layer);
/* The format of what layer `producer` writes, on a rank of this class; what comes from another stage is plain. */
pdl_format_t pdl__format_of(const pdl__lowering_t *l, int producer);
/* The unit from which `reader` takes what layer `producer` writes, redistributed where the two lay it out differently,
   without the halo of axis `without`, or -1. */
pdl_status_t pdl__arrive(pdl__lowering_t *l, int producer, int reader, int without, int *result);

/* op.c: the unit of layers head .. tail. */
pdl_status_t pdl__lower_op(pdl__lowering_t *l, int head, int tail);

void pdl__unit_free(pdl__unit_t *unit); /* what it owns */

#endif
