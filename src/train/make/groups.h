/*
 * The groups of ranks that a plan speaks of: all that differ from this one in the same axes of the mesh.
 */
#ifndef PDL_TRAIN_GROUPS_H
#define PDL_TRAIN_GROUPS_H

#include <paradl/comm/transport.h>
#include <paradl/plan/mesh.h>

typedef struct pdl__groups {
    pdl_ranks_t *of[1 << PDL_MAX_AXES]; /* by the axes; all that the mesh allows without the pipeline */
    pdl_ranks_t *stage;                 /* all ranks of this one's stage */
    pdl_ranks_t *stages;                /* one rank of every stage, by stage */
} pdl__groups_t;

/* Collective: all groups that may be asked for are made at once, and join the transport. */
pdl_status_t pdl__groups_create(const pdl_mesh_t *mesh, pdl_ranks_t *world, pdl_transport_t *transport,
                                pdl__groups_t **groups);
void         pdl__groups_destroy(pdl__groups_t *groups); /* NULL is allowed */

pdl_status_t pdl__groups_get(const pdl__groups_t *groups, unsigned axes, pdl_ranks_t **group);

#endif
