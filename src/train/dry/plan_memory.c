/*
 * The memory of a plan: dry sessions of the ranks that may hold most.
 */
#include "train/exec/session.h"
#include <paradl/model/dataset.h>
#include <paradl/train/dry.h>
#include <stdlib.h>
#include <string.h>

#define ALL_RANKS   16 /* so many are simply all looked at */
#define MOST_RANKS  48
#define MOST_STAGES 16

/* The coordinates on one axis that are looked at: all of a short pipeline, the first and last of a long one; of other
   axes both edges and a place between them. Of data axes the first rank has the most samples. */
static int coordinates_of(const pdl_axis_t *axis, int64_t *at)
{
    int64_t size = axis->size;
    int     count = 0;

    if (axis->kind == PDL_AXIS_PIPELINE) {
        for (int64_t i = 0; i < size; i++)
            if (size <= MOST_STAGES || i < MOST_STAGES / 2 || i >= size - MOST_STAGES / 2) at[count++] = i;
        return count;
    }
    at[count++] = 0;
    if (size > 1) at[count++] = size - 1;
    if (size > 2 && axis->kind != PDL_AXIS_DATA) at[count++] = 1;
    return count;
}

/* The ranks to look at; stages change fastest, so that none is left out when there are too many. */
static int ranks_of(const pdl_mesh_t *mesh, int64_t *rank)
{
    int64_t at[PDL_MAX_AXES][MOST_STAGES], coordinates[PDL_MAX_AXES] = {0};
    int     counts[PDL_MAX_AXES], order[PDL_MAX_AXES], used = 0, found = 0, combinations = 1;

    if (pdl_mesh_size(mesh) <= ALL_RANKS) {
        for (; found < pdl_mesh_size(mesh); found++) rank[found] = found;
        return found;
    }
    for (int pass = 0; pass < 2; pass++)
        for (int a = 0; a < mesh->axis_count; a++)
            if ((mesh->axis[a].kind == PDL_AXIS_PIPELINE) == (pass == 0)) order[used++] = a;
    for (int a = 0; a < mesh->axis_count; a++) {
        counts[a] = coordinates_of(&mesh->axis[a], at[a]);
        combinations *= counts[a];
    }
    for (; found < combinations && found < MOST_RANKS; found++) {
        int rest = found;
        for (int k = 0; k < used; k++) {
            coordinates[order[k]] = at[order[k]][rest % counts[order[k]]];
            rest /= counts[order[k]];
        }
        rank[found] = 0;
        for (int a = 0; a < mesh->axis_count; a++) rank[found] = rank[found] * mesh->axis[a].size + coordinates[a];
    }
    return found;
}

void pdl__dry_spec(const pdl_plan_t *plan, pdl_backend_t *backend, pdl_session_spec_t *spec)
{
    pdl_session_defaults(spec);
    spec->optimizer.method = plan->optimizer == PDL_OPTIMIZER_ADAM ? PDL_METHOD_ADAMW : PDL_METHOD_SGD;
    spec->optimizer.momentum = plan->optimizer == PDL_OPTIMIZER_SGD ? 0 : 0.9;
    spec->plan = plan;
    spec->backend = backend;
    spec->training = plan->run_mode == PDL_TRAINING;
}

pdl_status_t pdl_plan_memory(const pdl_plan_t *plan, pdl_backend_t *backend, pdl_plan_memory_t *out)
{
    int64_t            rank[MOST_RANKS];
    pdl_session_spec_t spec;
    pdl_status_t       status = PDL_OK;

    if (pdl_mesh_size(&plan->mesh) > INT32_MAX)
        return pdl_error(PDL_ERR_LIMIT, "a mesh of more than %d ranks cannot be looked at", INT32_MAX);
    pdl__dry_spec(plan, backend, &spec);
    *out = (pdl_plan_memory_t){.looked_at = ranks_of(&plan->mesh, rank)};
    for (int i = 0; i < out->looked_at && !status; i++) {
        pdl_session_t       *session;
        pdl_session_memory_t memory;
        status = pdl_session_create_dry(&spec, (int)rank[i], &session);
        if (status) break;
        pdl_session_memory(session, &memory);
        pdl_session_destroy(session);
        if (memory.total <= out->memory.total) continue;
        out->memory = memory;
        out->rank = rank[i];
    }
    return status;
}

/* The trainer's arena is one, so all of it counts as kept. */
void pdl_plan_take_memory(const pdl_plan_memory_t *held, pdl_projection_t *p)
{
    const pdl_session_memory_t *memory = &held->memory;

    p->memory = (pdl_memory_breakdown_t){.weights = (double)memory->weights,
                                         .gradients = (double)memory->gradients,
                                         .optimizer = (double)memory->optimizer,
                                         .saved_activations = (double)memory->activations,
                                         .buffers = (double)memory->messages};
    p->memory_bytes = (double)memory->total;
    p->host_bytes = (double)memory->host;
    p->compiled = true;
    /* Nothing is lost between buffers that have their places. */
    for (int i = 0; i < p->finding_count; i++)
        if (strcmp(p->findings[i].name, "fragmentation") == 0) p->findings[i--] = p->findings[--p->finding_count];
}

/* The backend is made when it is first asked for. */
struct pdl_memory_counter {
    pdl_backend_t  *backend;
    pdl_precision_t precision; /* of the backend */
    const char     *name;      /* of the backend */
    int             threads;   /* of a rank */
};

pdl_status_t pdl_memory_counter_create(const pdl_system_t *system, int64_t devices, pdl_memory_counter_t **out)
{
    pdl_memory_counter_t *counter = calloc(1, sizeof(*counter));

    if (counter == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    counter->name = system->backend;
    counter->threads = pdl_system_threads(system, devices);
    *out = counter;
    return PDL_OK;
}

void pdl_memory_counter_destroy(pdl_memory_counter_t *counter)
{
    if (counter == NULL) return;
    pdl_backend_destroy(counter->backend);
    free(counter);
}

static pdl_status_t prepare(pdl_memory_counter_t *counter, pdl_precision_t precision)
{
    pdl_dtype_t type = precision == PDL_BF16 ? PDL_DTYPE_BF16 : PDL_DTYPE_F32;

    if (counter->backend != NULL && counter->precision == precision) return PDL_OK;
    pdl_backend_destroy(counter->backend);
    counter->backend = NULL;
    counter->precision = precision;
    return pdl_backend_create_describing(counter->name, counter->threads, type, &counter->backend);
}

pdl_status_t pdl_memory_counter_count(void *context, const pdl_plan_t *plan, pdl_projection_t *projection)
{
    pdl_memory_counter_t *counter = context;
    pdl_plan_memory_t     memory;

    /* A model without a loss cannot be trained, but it can be projected. */
    if (pdl_model_loss(plan->model) == NULL) return PDL_OK;
    pdl_status_t status = prepare(counter, plan->precision);
    /* Another processor may have the type that this one lacks. */
    if (status == PDL_ERR_UNSUPPORTED) return PDL_OK;
    if (!status) status = pdl_plan_memory(plan, counter->backend, &memory);
    if (!status) pdl_plan_take_memory(&memory, projection);
    return status;
}
