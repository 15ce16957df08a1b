/*
 * The memory of a plan: dry sessions of one rank of every class, with as many micro-batches as tell.
 */
#include "base/memory.h"
#include "train/exec/session.h"
#include <paradl/model/dataset.h>
#include <paradl/plan/pipeline.h>
#include <paradl/program/compile.h>
#include <paradl/train/dry.h>
#include <stdlib.h>
#include <string.h>

/* One after the other, they share their memory, and a later one has nothing that the earlier ones have not. */
#define ENOUGH_MICRO_BATCHES 4
/* Stages are looked at that hold more than this share of the most, by the estimate from one micro-batch. */
#define NEAR 0.5

/* The stage of a rank. */
static int64_t stage_of(const pdl_mesh_t *mesh, int64_t rank)
{
    int axis = pdl_mesh_find(mesh, PDL_AXIS_PIPELINE);

    return axis < 0 ? 0 : rank / pdl_mesh_stride(mesh, axis) % mesh->axis[axis].size;
}

/* Whether a stage has the layers of the one before it once more, neither being the first or the last: then fewer micro-batches
   are in flight in it. */
static bool repeats_stage(const pdl_plan_t *plan, int64_t stage)
{
    const int *first = plan->stage_first + stage;
    int        layers = first[1] - first[0];

    if (plan->virtual_stages > 1 || plan->block_count > 0 || stage < 2 || stage + 1 >= pdl_plan_stage_count(plan) ||
        first[0] - first[-1] != layers)
        return false;
    for (int i = first[0]; i < first[1]; i++) {
        const pdl_layer_t *layer = pdl_model_layer(plan->model, i);
        const pdl_layer_t *before = pdl_model_layer(plan->model, i - layers);
        if (layer->class_id != before->class_id || layer->tied_to >= 0 ||
            memcmp(&plan->modes[i], &plan->modes[i - layers], sizeof(*plan->modes)) != 0)
            return false;
    }
    return true;
}

/* Passes that a stage has between forward and backward at once. */
static pdl_status_t in_flight(const pdl_plan_t *plan, int64_t stage, int64_t *passes)
{
    pdl_pipeline_t     pipeline = pdl_pipeline_of_plan(plan);
    int64_t            count = pdl_pipeline_op_count(&pipeline);
    pdl_pipeline_op_t *ops = calloc((size_t)count, sizeof(*ops));

    if (ops == NULL) return pdl__no_memory("for the passes of a stage");
    pdl_pipeline_order(&pipeline, (int)stage, ops);
    *passes = pdl_pipeline_in_flight(ops, count);
    free(ops);
    return PDL_OK;
}

/* Micro-batches whose program takes as much memory as that of all; 0: all. In flight together they come to lie elsewhere when
   there are more of them, and blocks are copied whenever the link is free. */
static int64_t enough_micro_batches(const pdl_plan_t *plan)
{
    bool together = pdl_plan_stage_count(plan) > 1 || plan->block_count > 0;

    return together || plan->micro_batches < ENOUGH_MICRO_BATCHES ? 0 : ENOUGH_MICRO_BATCHES;
}

/* The rank to look at for a class: blocks of a data axis are largest at its end. Ranks that have the same extents differ by a
   little at the first place of an axis (`alone`: the stage has no other class). */
static int64_t largest_of(const pdl_mesh_t *mesh, int64_t rank, bool alone)
{
    int inner = -1;

    for (int a = 0; a < mesh->axis_count; a++) {
        int64_t stride = pdl_mesh_stride(mesh, a), size = mesh->axis[a].size;
        if (mesh->axis[a].kind == PDL_AXIS_DATA) rank += (size - 1 - rank / stride % size) * stride;
        if (mesh->axis[a].kind > PDL_AXIS_DATA && size > 1) inner = a;
    }
    return inner >= 0 && alone ? rank + pdl_mesh_stride(mesh, inner) : rank;
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

/* A rank that is looked at. */
typedef struct place {
    int64_t rank, passes;
    double  estimate;
} place_t;

static pdl_status_t look_at(pdl_session_spec_t *spec, const place_t *at, pdl_plan_memory_t *out)
{
    pdl_session_t       *session;
    pdl_session_memory_t memory;

    spec->program_micro_batches = enough_micro_batches(spec->plan);
    pdl_status_t status = pdl_session_create_dry(spec, (int)at->rank, &session);
    if (status) return status;
    pdl_session_memory(session, &memory);
    pdl_session_destroy(session);
    out->looked_at++;
    if (memory.total <= out->memory.total) return PDL_OK;
    out->memory = memory;
    out->rank = at->rank;
    return PDL_OK;
}

/* What a stage takes, by what one micro-batch does: the others in flight add what they have saved, and their messages. */
static pdl_status_t estimate(pdl_session_spec_t *spec, place_t *at)
{
    pdl_session_t       *session;
    pdl_session_memory_t memory;
    const pdl_program_t *program;
    double               more = (double)at->passes - 1;

    spec->program_micro_batches = 1;
    pdl_status_t status = pdl_session_create_dry(spec, (int)at->rank, &session);
    if (status) return status;
    pdl_session_memory(session, &memory);
    program = pdl_session_program(session);
    at->estimate = (double)memory.total + more * (program != NULL ? (double)pdl_program_saved_bytes(program) : 0) +
                   (spec->plan->virtual_stages > 1 ? more : 1) * (double)memory.messages;
    pdl_session_destroy(session);
    return PDL_OK;
}

/* One rank of every class; a stage that is the one before it once more is left out. */
static pdl_status_t choose_places(const pdl_plan_t *plan, place_t **places, int *count)
{
    int64_t     *rank;
    int          ranks;
    pdl_status_t status = pdl_program_ranks(plan, &rank, &ranks);

    *places = status ? NULL : calloc((size_t)ranks, sizeof(**places));
    *count = 0;
    if (status) return status;
    if (*places == NULL) status = pdl__no_memory("for the ranks of a plan");
    for (int i = 0; i < ranks && !status; i++) {
        int64_t stage = stage_of(&plan->mesh, rank[i]);
        bool    alone = (i == 0 || stage_of(&plan->mesh, rank[i - 1]) != stage) &&
                     (i + 1 == ranks || stage_of(&plan->mesh, rank[i + 1]) != stage);
        place_t place = {.rank = largest_of(&plan->mesh, rank[i], alone)};
        if (repeats_stage(plan, stage) || (*count > 0 && (*places)[*count - 1].rank == place.rank)) continue;
        status = in_flight(plan, stage, &place.passes);
        (*places)[(*count)++] = place;
    }
    free(rank);
    return status;
}

pdl_status_t pdl_plan_memory(const pdl_plan_t *plan, pdl_backend_t *backend, pdl_plan_memory_t *out)
{
    place_t           *places = NULL;
    int                count = 0;
    double             most = 0;
    pdl_session_spec_t spec;

    *out = (pdl_plan_memory_t){.rank = 0};
    if (pdl_mesh_size(&plan->mesh) > INT32_MAX)
        return pdl_error(PDL_ERR_LIMIT, "a mesh of more than %d ranks cannot be looked at", INT32_MAX);
    pdl__dry_spec(plan, backend, &spec);
    pdl_status_t status = choose_places(plan, &places, &count);
    for (int i = 0; i < count && pdl_plan_stage_count(plan) > 1 && !status; i++) {
        status = estimate(&spec, &places[i]);
        if (places[i].estimate > most) most = places[i].estimate;
    }
    for (int i = 0; i < count && !status; i++)
        if (places[i].estimate >= NEAR * most) status = look_at(&spec, &places[i], out);
    free(places);
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
