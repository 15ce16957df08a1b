/*
 * What a rank of a plan would hold, send and do, found out without running it: no MPI, no weights, no samples, and
 * any rank of a plan for thousands.
 *
 *     pdl_session_defaults(&spec);
 *     spec.plan = plan;
 *     spec.backend = backend;
 *     pdl_session_create_dry(&spec, 17, &session);
 *     pdl_session_memory(session, &memory);
 *     pdl_session_traffic(session, &traffic);
 *     for (int i = 0; i < pdl_session_op_count(session); i++) pdl_session_op(session, i, &op);
 *     pdl_session_destroy(session);
 */
#ifndef PARADL_DRY_H
#define PARADL_DRY_H

#include <paradl/oracle/replay.h>
#include <paradl/train/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Local. The session of one rank of the plan's mesh; spec->ranks is not looked at. It answers queries, and refuses to
   run. */
pdl_status_t pdl_session_create_dry(const pdl_session_spec_t *spec, int rank, pdl_session_t **session);

/* One operation of an update, in the order in which the rank does them. */
typedef struct pdl_session_op {
    char           name[160]; /* as pdl_program_op_name() says */
    const char    *kind;      /* one of pdl_op_kind_names */
    const char    *layer;     /* its name; "" where it is of none */
    pdl_op_class_t op_class;
    int            micro_batch;
    pdl_shape_t    shape;         /* of one sample of what the layer writes, on this rank */
    int64_t        samples;       /* of a micro-batch on this rank */
    int64_t        offset, bytes; /* in the arena, of what the operation writes; offset -1: nothing */
    int64_t        workspace_offset, workspace_bytes;
    double         sent_bytes;
} pdl_session_op_t;
/* Of sessions that train. */
int  pdl_session_op_count(const pdl_session_t *session);
void pdl_session_op(const pdl_session_t *session, int i, pdl_session_op_t *op);
/* The list itself, as it is executed; NULL where the session does not train. */
const pdl_program_t *pdl_session_program(const pdl_session_t *session);

/* The memory of the rank that holds most: of ranks that have the same extents one is looked at, of stages those that an
   estimate finds to be near the most, with as many micro-batches as tell. */
typedef struct pdl_plan_memory {
    pdl_session_memory_t memory;
    int64_t              rank;
    int                  looked_at;
} pdl_plan_memory_t;
/* Trained with the plan's optimizer. Fails as a session of the plan would. */
pdl_status_t pdl_plan_memory(const pdl_plan_t *plan, pdl_backend_t *backend, pdl_plan_memory_t *memory);
/* Puts it in place of what the model says. */
void pdl_plan_take_memory(const pdl_plan_memory_t *memory, pdl_projection_t *projection);

/* The same for a search (search.h): of plans for so many devices of a system, by the backend that it names.
       request.memory = pdl_memory_counter_count, request.memory_context = counter; */
typedef struct pdl_memory_counter pdl_memory_counter_t;
pdl_status_t pdl_memory_counter_create(const pdl_system_t *system, int64_t devices, pdl_memory_counter_t **counter);
void         pdl_memory_counter_destroy(pdl_memory_counter_t *counter);
pdl_status_t pdl_memory_counter_count(void *counter, const pdl_plan_t *plan, pdl_projection_t *projection);

#ifdef __cplusplus
}
#endif
#endif
