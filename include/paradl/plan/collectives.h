/*
 * Which collectives a plan has, and by which schedules (paradl/coll) they run.
 *
 * Every axis of the mesh has one schedule, by name. It serves all sums, scatters and gathers in groups of that axis: the exchange
 * of gradients and of sharded weights, and the redistributions inside layers. Gradients that are summed over several axes
 * at once take the schedule of the data axis, or else of the first of these axes. All-to-all and halos have no name.
 */
#ifndef PARADL_PLAN_COLLECTIVES_H
#define PARADL_PLAN_COLLECTIVES_H

#include <paradl/coll/coll.h>
#include <paradl/coll/sparse.h>
#include <paradl/plan/partition.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PDL_PLAN_COLLECTIVES 448 /* more than sets of axes, times three collectives, times gradients or not */

/* Of gradients, exchanged at once: the next ones begin while the last messages of the first arrive. */
#define PDL_BUCKETS_IN_FLIGHT 4

/* One kind of collective in all groups of a set of axes. */
typedef struct pdl_plan_use {
    unsigned         axes; /* bits */
    int              axis; /* whose schedule it has */
    pdl_collective_t collective;
    bool             gradient; /* of gradients, or of weights whose state is sharded; else inside layers */
    int64_t          ranks;    /* of a group */
    double           elements; /* of the complete vectors of one group in an update, all together */
    double           times;    /* so many vectors; of gradients 1: a trainer cuts them into buckets */
} pdl_plan_use_t;

/* The collectives of a plan with its ranks and elements, in no particular order. */
typedef struct pdl_plan_uses {
    int            count;
    pdl_plan_use_t use[PDL_PLAN_COLLECTIVES];
} pdl_plan_uses_t;
void pdl_plan_list_collectives(const pdl_partition_t *partition, pdl_plan_uses_t *uses);

/* The axis whose schedule a group over these axes has. */
int pdl_plan_collective_axis(const pdl_mesh_t *mesh, unsigned axes);
/* The schedule of a collective in such a group of `ranks` ranks; where the plan leaves it open, a ring. The name is the plan's. */
pdl_schedule_spec_t pdl_plan_schedule(const pdl_plan_t *plan, unsigned axes, pdl_collective_t collective,
                                      int64_t ranks);

/* Where sums of gradients over these axes are sparse (paradl/coll/sparse.h), the share of the elements that a rank sends; else 0. */
double pdl_plan_density(const pdl_plan_t *plan, unsigned axes);
/* The same schedule as a sparse one; the name is the plan's. */
pdl_sparse_spec_t pdl_plan_sparse(const pdl_plan_t *plan, unsigned axes, int64_t ranks);

/* Whether every schedule that the plan names exists for what it has to do; part of pdl_plan_check(). The message says what would
   be possible. */
pdl_status_t pdl_plan_check_collectives(const pdl_plan_t *plan);
/* Gives all axes that exchange gradients this schedule, checked; "" leaves them open again. */
pdl_status_t pdl_plan_name_gradients(pdl_plan_t *plan, const char *algorithm);
/* Makes sums of gradients over ranks sparse, checked; the schedules are left open. */
pdl_status_t pdl_plan_thin_gradients(pdl_plan_t *plan, double density);
/* Whether a schedule exists for a collective among `ranks` ranks; PDL_ERR_LIMIT if not. */
pdl_status_t pdl_plan_try_schedule(const pdl_plan_collective_t *named, const pdl_plan_use_t *use);
/* Whether a schedule of this name exists; if not, the message has the nearest names. */
pdl_status_t pdl_plan_check_algorithm(const char *algorithm);

/* The names of these axes as a plan file has them: "data", "data+spatial_0". Returns `text`. */
char *pdl_plan_format_axes(const pdl_mesh_t *mesh, unsigned axes, char *text, size_t size);
/* "data shd_near, tensor ring", "data sparse_ring of 1 %": what is named; "" where nothing is. Returns `text`. */
char *pdl_plan_format_collectives(const pdl_plan_t *plan, char *text, size_t size);

/* What a plan that was settled has beyond the one before: "data ring; the borders of stages", or "". Returns `text`. */
char *pdl_plan_format_settled(const pdl_plan_t *before, const pdl_plan_t *after, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
