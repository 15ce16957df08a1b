/*
 * Replicas that update each for itself: gradients, statistics and the sums of a step stay among the ranks that hold
 * one copy of the weights.
 */
#include "train/exec/session.h"

pdl_status_t pdl__separate_create(pdl_session_t *s)
{
    const pdl_mesh_t *mesh = &s->spec.plan->mesh;
    int64_t           coordinates[PDL_MAX_AXES];
    int               place = 0, rank = pdl_ranks_rank(s->spec.ranks), within = 0, members = 1;

    s->replica = s->spec.ranks;
    if (s->spec.separate && s->spec.plan->sharding != PDL_SHARDING_NONE)
        return pdl_error(
            PDL_ERR_INPUT,
            "--sharding %s spreads one copy of the weights over workers, and those of --aggregate have "
            "weights of their own: use none",
            pdl_sharding_names[s->spec.plan->sharding]);
    if (!s->spec.separate || pdl_ranks_size(s->spec.ranks) == 1) return PDL_OK;
    pdl_mesh_coordinates(mesh, rank, coordinates);
    for (int a = 0; a < mesh->axis_count; a++) {
        int size = (int)mesh->axis[a].size, at = (int)coordinates[a];
        if (mesh->axis[a].kind == PDL_AXIS_DATA) {
            place = place * size + at;
        } else {
            within = within * size + at;
            members *= size;
        }
    }
    s->replica = NULL;
    if (s->dry) return pdl_ranks_create_dry(within, members, &s->replica);
    return pdl_ranks_split(s->spec.ranks, place, rank, &s->replica);
}

void pdl__separate_destroy(pdl_session_t *s)
{
    if (s->replica != s->spec.ranks) pdl_ranks_destroy(s->replica);
}
