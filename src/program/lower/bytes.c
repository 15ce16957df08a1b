/*
 * What operations send: sums by the schedules that the plan names, statistics and tokens as ops exchange them. What
 * redistributions and stages send is known when they are made.
 */
#include "program/builder.h"
#include "program/lower/graph.h"
#include <paradl/plan/collectives.h>
#include <stdlib.h>

/* A vector of elements by the schedule of these axes, in a group of `ranks` in which this rank has a place. */
typedef struct vector {
    pdl_collective_t collective;
    unsigned         axes;
    int              ranks, place;
    int64_t          elements;
    bool             in_parts; /* those of a bucket */
    double           density;  /* of sparse sums; else 0 */
} vector_t;

/* A schedule whose steps were gone through. */
typedef struct walked {
    pdl_collective_t collective;
    unsigned         axes;
    int              ranks, place;
    int64_t          blocks;
    pdl_sends_t     *sends;
} walked_t;

typedef struct counter {
    const pdl__graph_spec_t *spec;
    const pdl__graph_t      *graph;
    pdl_program_t           *program;
    walked_t                *walked;
    int                      walked_count, walked_capacity;
} counter_t;

/* Numbers of 64 bits that all ranks of a group send to each other. */
static double sum_bytes(int ranks, double values)
{
    return (double)(ranks - 1) * values * sizeof(double);
}

/* Ranks that update the same weights. */
static int replica_ranks(const counter_t *c)
{
    int ranks = (int)pdl_mesh_size(&c->spec->plan->mesh);

    return c->spec->separate ? ranks / (int)pdl_mesh_extent(&c->spec->plan->mesh, PDL_AXIS_DATA) : ranks;
}

/* Values that an op asks the other ranks for: batch norm two of every channel in both directions, a split loss the
   largest logit of every row and three or four sums. */
static double reduced_values(const counter_t *c, const pdl__unit_t *unit, bool backward)
{
    const pdl_layer_t  *layer = unit->spec.layer;
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    bool                smooths = c->spec->training && c->spec->smooths;

    if (traits->statistics) return c->spec->plan->sync_batch_norm ? 2 * (double)layer->in.channels : 0;
    if (traits->loss != PDL_LOSS_CLASSES || backward) return 0;
    return (smooths ? 5 : 4) * (double)pdl__region_samples(&unit->region) * (double)pdl_shape_positions(&layer->in);
}

/* What an op of a layer sends beside the redistributions that are operations of their own. */
static void count_layer(const counter_t *c, pdl_program_op_t *op)
{
    const pdl__unit_t    *unit = &c->graph->unit[op->node];
    const pdl__layouts_t *l = c->spec->layouts;

    if (unit->kind != PDL__UNIT_OP || op->kind == PDL_OP_WGRAD || op->part > 0) return;
    if (unit->routes != NULL) {
        op->group = unit->routes->axes;
        op->primitive = PDL_ALLTOALL;
        op->bytes = pdl__dispatch_even_bytes(unit->routes, op->backward);
    } else if (unit->statistic_axes != 0) {
        op->group = unit->statistic_axes;
        op->primitive = PDL_ALLREDUCE;
        op->bytes = sum_bytes(pdl__layouts_members(l, unit->statistic_axes), reduced_values(c, unit, op->backward));
    }
}

/* Sums of squares for the norms of all gradients and of every tensor. */
static double norm_bytes(const counter_t *c)
{
    const pdl__layouts_t      *l = c->spec->layouts;
    const pdl__rank_weights_t *w = c->graph->weights;
    bool                       in_parts = !l->trivial || w->sharding != PDL_SHARDING_NONE;
    double                     bytes = 0;

    if (c->spec->clips && (in_parts || l->stages->count > 1)) bytes += sum_bytes(replica_ranks(c), 1);
    if (c->spec->tensor_norms && in_parts)
        bytes += sum_bytes(pdl__layouts_members(l, l->stage_axes), 2 * (double)w->count);
    return bytes;
}

/* How often this rank sends the blocks of a vector: the same for all sizes that the schedule cuts alike. */
static pdl_status_t find_sends(counter_t *c, const vector_t *v, const pdl_sends_t **sends)
{
    pdl_schedule_spec_t spec = pdl_plan_schedule(c->spec->plan, v->axes, v->collective, v->ranks);
    pdl_schedule_t     *schedule = NULL;
    pdl_status_t        status = pdl_schedule_create_sized(&spec, (double)v->elements * sizeof(float), &schedule);

    if (status) return status;
    for (int i = 0; i < c->walked_count; i++) {
        const walked_t *known = &c->walked[i];
        if (known->collective == v->collective && known->axes == v->axes && known->ranks == v->ranks &&
            known->place == v->place && known->blocks == pdl_schedule_blocks(schedule)) {
            *sends = known->sends;
            pdl_schedule_destroy(schedule);
            return PDL_OK;
        }
    }
    status = pdl__program_grow((void **)&c->walked, c->walked_count, &c->walked_capacity, sizeof(*c->walked));
    if (!status) {
        walked_t *walked = &c->walked[c->walked_count];
        *walked = (walked_t){v->collective, v->axes, v->ranks, v->place, pdl_schedule_blocks(schedule), NULL};
        status = pdl_sends_create(schedule, v->place, &walked->sends);
        *sends = walked->sends;
        c->walked_count += !status;
    }
    pdl_schedule_destroy(schedule);
    return status;
}

static int64_t part_of_bucket(const void *context, int rank)
{
    const vector_t *v = context;
    int64_t         low, high;

    pdl__bucket_part(v->elements, v->ranks, rank, &low, &high);
    return high - low;
}

static pdl_status_t count_vector(counter_t *c, const vector_t *v, double *bytes)
{
    const pdl_sends_t *sends;

    *bytes = 0;
    if (v->ranks == 1 || v->elements == 0) return PDL_OK;
    if (v->density > 0) {
        pdl_sparse_spec_t spec = pdl_plan_sparse(c->spec->plan, v->axes, v->ranks);
        return pdl_sparse_sent(&spec, (double)v->elements, v->density, bytes);
    }
    pdl_status_t status = find_sends(c, v, &sends);
    if (!status)
        *bytes =
            (double)pdl_sends_elements(sends, v->elements, v->in_parts ? part_of_bucket : NULL, v) * sizeof(float);
    return status;
}

/* Of a bucket, what this rank keeps. */
static int64_t part_elements(const counter_t *c, const pdl_program_bucket_t *bucket)
{
    const pdl__layouts_t *l = c->spec->layouts;
    int64_t               low, high;

    pdl__bucket_part((int64_t)(bucket->bytes / sizeof(float)), pdl__layouts_members(l, bucket->sharded),
                     pdl__layouts_place(l, bucket->sharded), &low, &high);
    return high - low;
}

/* The gradient of a weight that other stages hold too, or this rank's part of it: then it is alone in its bucket. */
static vector_t tied_vector(const counter_t *c, const pdl_program_op_t *op)
{
    const pdl__rank_weights_t  *w = c->graph->weights;
    const pdl__rank_weight_t   *weight = &w->weight[w->tie[op->bucket]];
    const pdl__pipe_t          *stages = c->spec->layouts->stages;
    const pdl_program_bucket_t *bucket = weight->bucket < 0 ? NULL : &w->bucket[weight->bucket];
    vector_t                    v = {.collective = PDL_COLL_ALLREDUCE,
                                     .axes = op->group,
                                     .ranks = pdl__pipe_holders(stages, weight->owner),
                                     .elements = weight->storage};

    for (int k = 0; k < stages->at; k++) v.place += pdl__pipe_holds(stages, weight->owner, k);
    if (bucket != NULL && bucket->sharded != 0) v.elements = part_elements(c, bucket);
    return v;
}

static pdl_status_t count_collective(counter_t *c, pdl_program_op_t *op)
{
    static const pdl_collective_t collectives[PDL_PRIMITIVE_COUNT] = {
        [PDL_ALLREDUCE] = PDL_COLL_ALLREDUCE,
        [PDL_REDUCE_SCATTER] = PDL_COLL_REDUCE_SCATTER,
        [PDL_ALLGATHER] = PDL_COLL_ALLGATHER,
    };
    const pdl__layouts_t *l = c->spec->layouts;

    if (op->role == PDL_ROLE_TIED) {
        vector_t tied = tied_vector(c, op);
        return count_vector(c, &tied, &op->bytes);
    }
    const pdl_program_bucket_t *bucket = &c->program->bucket[op->bucket];
    vector_t                    v = {.collective = collectives[op->primitive],
                                     .axes = op->group,
                                     .ranks = pdl__layouts_members(l, op->group),
                                     .place = pdl__layouts_place(l, op->group),
                                     .elements = (int64_t)(bucket->bytes / sizeof(float)),
                                     .in_parts = op->primitive != PDL_ALLREDUCE};
    if (op->role == PDL_ROLE_PARTS) v.elements = part_elements(c, bucket);
    if (op->role == PDL_ROLE_GRADIENTS) v.density = pdl_plan_density(c->spec->plan, op->group);
    return count_vector(c, &v, &op->bytes);
}

pdl_status_t pdl__graph_count_bytes(const pdl__graph_spec_t *spec, const pdl__graph_t *graph, bool training,
                                    pdl_program_t *program)
{
    counter_t    c = {.spec = spec, .graph = graph, .program = program};
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < program->op_count && !status; i++) {
        pdl_program_op_t *op = &program->op[i];

        if (op->kind == PDL_OP_COLLECTIVE)
            status = count_collective(&c, op);
        else if (op->kind == PDL_OP_RESULT)
            op->bytes =
                sum_bytes(training ? replica_ranks(&c) : (int)pdl_mesh_size(&spec->plan->mesh), PDL_RESULT_SUMS);
        else if (op->kind == PDL_OP_UPDATE)
            op->bytes = op->piece <= 0 ? norm_bytes(&c) : 0; /* norms are found once */
        else if (op->kind == PDL_OP_FORWARD || (op->kind == PDL_OP_RECOMPUTE && !op->from_saved) ||
                 op->kind == PDL_OP_BACKWARD || op->kind == PDL_OP_DGRAD)
            count_layer(&c, op);
    }
    for (int i = 0; i < c.walked_count; i++) pdl_sends_destroy(c.walked[i].sends);
    free(c.walked);
    return status;
}
