/*
 * Groups of ranks by the axes of the mesh.
 */
#include "train/make/groups.h"
#include <stdlib.h>

static pdl_status_t create_group(pdl__groups_t *groups, const pdl_mesh_t *mesh, pdl_ranks_t *world,
                                 pdl_transport_t *transport, unsigned axes)
{
    int64_t coordinates[PDL_MAX_AXES];
    int     colour = 0, key = 0, members = 1;

    pdl_mesh_coordinates(mesh, pdl_ranks_rank(world), coordinates);
    for (int a = 0; a < mesh->axis_count; a++) {
        int size = (int)mesh->axis[a].size, at = (int)coordinates[a];
        if (axes >> a & 1) {
            key = key * size + at;
            members *= size;
        } else {
            colour = colour * size + at;
        }
    }
    if (pdl_ranks_dry(world)) return pdl_ranks_create_dry(key, members, &groups->of[axes]);
    pdl_status_t status = pdl_ranks_split(world, colour, key, &groups->of[axes]);
    return status ? status : pdl_transport_join(transport, groups->of[axes]);
}

pdl_status_t pdl__groups_create(const pdl_mesh_t *mesh, pdl_ranks_t *world, pdl_transport_t *transport,
                                pdl__groups_t **out)
{
    pdl__groups_t *groups = calloc(1, sizeof(*groups));
    unsigned       all = 0, pipeline = 0;
    pdl_status_t   status = groups ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory while preparing to train");

    for (int a = 0; a < mesh->axis_count; a++) {
        if (mesh->axis[a].size == 1) continue;
        if (mesh->axis[a].kind == PDL_AXIS_PIPELINE)
            pipeline = 1u << a;
        else
            all |= 1u << a;
    }
    for (unsigned axes = 0; axes <= all && !status; axes++)
        if ((axes & all) == axes) status = create_group(groups, mesh, world, transport, axes);
    if (pipeline && !status) status = create_group(groups, mesh, world, transport, pipeline);
    if (status) {
        pdl__groups_destroy(groups);
        return status;
    }
    groups->stage = groups->of[all];
    groups->stages = groups->of[pipeline];
    *out = groups;
    return PDL_OK;
}

void pdl__groups_destroy(pdl__groups_t *groups)
{
    if (!groups) return;
    for (unsigned mask = 0; mask < 1u << PDL_MAX_AXES; mask++) pdl_ranks_destroy(groups->of[mask]);
    free(groups);
}

pdl_status_t pdl__groups_get(const pdl__groups_t *groups, unsigned axes, pdl_ranks_t **group)
{
    *group = groups->of[axes];
    if (!*group) return pdl_error(PDL_ERR_LIMIT, "the plan has no group of ranks over these axes");
    return PDL_OK;
}
