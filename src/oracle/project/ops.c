/*
 * What the operations of a program take.
 */
#include "oracle/internal.h"
#include <paradl/oracle/replay.h>
#include <paradl/plan/collectives.h>

typedef struct pricer {
    pdl_oracle_t        *oracle;
    const pdl_plan_t    *plan;
    const pdl_program_t *program;
    pdl_profile_t       *profile;
    /* Schedules of groups, which take a while to count; by masks of axes. */
    pdl__algorithm_t algorithm[1 << PDL_MAX_AXES];
    bool             known[1 << PDL_MAX_AXES];
} pricer_t;

/* The layer behind `at` on the way to `head`. */
static int layer_before(const pdl_model_t *model, int at, int head)
{
    const pdl_layer_t *layer = pdl_model_layer(model, at);
    int                before = -1;

    for (int j = 0; j < layer->input_count; j++)
        if (layer->inputs[j] >= head && (before < 0 || layer->inputs[j] < before)) before = layer->inputs[j];
    return before < 0 ? head : before;
}

/* Of backward, what makes the gradients of weights. */
static double weight_share(const pdl_layer_t *layer, const pdl_local_t *local)
{
    double weight = (double)layer->flop_backward_weight * local->share_backward_weight;
    double data = layer->needs_input_gradient ? (double)layer->flop_backward_data * local->share_backward_data : 0;

    return weight > 0 ? weight / (weight + data) : 0;
}

/* A node takes what the layers fused into it take. */
static double node_seconds(const pricer_t *pr, const pdl_program_op_t *op)
{
    const pdl_program_node_t *node = &pr->program->node[op->node];
    const pdl_model_t        *model = pr->plan->model;
    double                    seconds = 0;

    if (node->kind != PDL_NODE_COMPUTE || op->part > 0) return 0; /* boundaries are priced with the interior */
    for (int at = node->tail;; at = layer_before(model, at, node->layer)) {
        const pdl_sums_t *sums = &pr->profile->prefix[at];
        double forward = sums[1].forward - sums[0].forward, backward = sums[1].backward - sums[0].backward;
        double share = weight_share(pdl_model_layer(model, at), &pr->profile->partition->local[at]);

        seconds += !op->backward              ? forward
                   : op->kind == PDL_OP_DGRAD ? backward * (1 - share)
                   : op->kind == PDL_OP_WGRAD ? backward * share
                                              : backward;
        if (at <= node->layer) return seconds;
    }
}

/* Ranks of a group over these axes, and the distance of neighbours in it. */
static void shape_group(const pdl_mesh_t *mesh, unsigned axes, int64_t *size, int64_t *stride)
{
    *size = 1;
    *stride = 1;
    for (int a = mesh->axis_count - 1; a >= 0; a--) {
        if (!(axes >> a & 1) || mesh->axis[a].size == 1) continue;
        if (*size == 1) *stride = pdl_mesh_stride(mesh, a);
        *size *= mesh->axis[a].size;
    }
}

/* The complete vector of a group, of which a rank sends so many bytes in a ring. */
static double vector_bytes(pdl_primitive_t primitive, double ranks, double sent)
{
    switch (primitive) {
    case PDL_ALLREDUCE: return sent * ranks / (2 * (ranks - 1));
    case PDL_ALLGATHER:
    case PDL_REDUCE_SCATTER:
    case PDL_ALLTOALL: return sent * ranks / (ranks - 1);
    default: return sent;
    }
}

static pdl_status_t find_algorithm(pricer_t *pr, unsigned axes, const pdl_group_query_t *query)
{
    const pdl_plan_collective_t *named = &pr->plan->collective[pdl_plan_collective_axis(&pr->plan->mesh, axes)];

    if (pr->known[axes]) return PDL_OK;
    pr->known[axes] = true;
    return pdl__algorithm(pr->oracle->system, &pr->oracle->p, query, named, PDL__ALL_COLLECTIVES,
                          &pr->algorithm[axes]);
}

static pdl_status_t comm_seconds(pricer_t *pr, const pdl_program_op_t *op, double *seconds)
{
    const pdl_mesh_t *mesh = &pr->plan->mesh;
    bool              halo = op->primitive == PDL_HALO || op->primitive == PDL_LOCAL;
    pdl_group_query_t query = {.pe_count = pdl_mesh_size(mesh),
                               .pattern = op->primitive == PDL_ALLTOALL ? PDL_PATTERN_PAIRWISE
                                          : halo                        ? PDL_PATTERN_NEIGHBOURS
                                                                        : PDL_PATTERN_RING};
    pdl_group_t       group;

    shape_group(mesh, op->group, &query.size, &query.stride);
    if (query.size == 1) return PDL_OK;
    if (!pr->oracle->p.asynchronous) *seconds += pr->oracle->p.call_s;
    pdl_status_t status = pdl__oracle_group(pr->oracle, &query, &group);
    if (!status) status = find_algorithm(pr, op->group, &query);
    if (status) return status;
    const pdl__algorithm_t *algorithm = &pr->algorithm[op->group];
    double                  bytes = vector_bytes(op->primitive, (double)query.size, op->bytes);
    /* Sums inside layers are scattered and gathered, which a schedule for whole sums cannot do. */
    bool named = algorithm->form != PDL__FORM_COUNTED || pdl__counted_seconds(algorithm, op->primitive, bytes) > 0;
    *seconds += pdl__collective_seconds(&group, halo ? PDL_HALO : op->primitive, named ? algorithm : &pdl__ring,
                                        pr->oracle->p.ring_only, bytes);
    return PDL_OK;
}

/* A message to the next stage. */
static pdl_status_t send_seconds(const pricer_t *pr, const pdl_program_op_t *op, double *seconds)
{
    const pdl_mesh_t *mesh = &pr->plan->mesh;
    int               axis = pdl_mesh_find(mesh, PDL_AXIS_PIPELINE);
    pdl_group_query_t query = {pdl_mesh_size(mesh), mesh->axis[axis].size, pdl_mesh_stride(mesh, axis), false,
                               PDL_PATTERN_RING};
    pdl_group_t       group;
    pdl_status_t      status = pdl__oracle_group(pr->oracle, &query, &group);

    if (!status) *seconds += group.step_s + op->bytes * group.seconds_per_byte;
    return status;
}

/* Elements that this rank updates: all of a layer's weights once, however many nodes it has. */
static double update_seconds(const pricer_t *pr)
{
    double weights = 0, tensors = 0, ranks = 1;

    for (int n = 0; n < pr->program->node_count; n++) {
        const pdl_program_node_t *node = &pr->program->node[n];
        for (int at = node->tail; node->kind == PDL_NODE_COMPUTE;
             at = layer_before(pr->plan->model, at, node->layer)) {
            const pdl_layer_t *layer = pdl_model_layer(pr->plan->model, at);
            if (layer->weights > 0) weights += pr->profile->partition->local[at].weights;
            if (layer->weights > 0) tensors += pdl_layer_weight_tensors(layer);
            if (at <= node->layer) break;
        }
    }
    if (pr->plan->sharding != PDL_SHARDING_NONE) ranks = (double)pdl_mesh_extent(&pr->plan->mesh, PDL_AXIS_DATA);
    return pdl__update_seconds(&pr->oracle->p, &pr->profile->compute, pr->plan->optimizer, weights / ranks,
                               tensors);
}

static pdl_status_t price(pricer_t *pr, const pdl_program_op_t *op, double *seconds)
{
    int output = pdl_program_op_output(op);

    *seconds = 0;
    switch (op->kind) {
    case PDL_OP_FORWARD:
    case PDL_OP_RECOMPUTE:
    case PDL_OP_BACKWARD:
    case PDL_OP_DGRAD:
    case PDL_OP_WGRAD:
        *seconds = node_seconds(pr, op);
        /* Halos, routes and statistics are still part of the operation. */
        return op->bytes > 0 ? comm_seconds(pr, op, seconds) : PDL_OK;
    case PDL_OP_SUM:
    case PDL_OP_CONVERT:
    case PDL_OP_COPY:
        /* two streams read or written, one written */
        if (output >= 0)
            *seconds = 3 * (double)pr->program->buffer[output].bytes / pr->profile->compute.bytes_per_s;
        return PDL_OK;
    case PDL_OP_REDISTRIBUTE:
    case PDL_OP_COLLECTIVE: return comm_seconds(pr, op, seconds);
    case PDL_OP_SEND: return send_seconds(pr, op, seconds);
    case PDL_OP_UPDATE: *seconds = update_seconds(pr); return PDL_OK;
    default: return PDL_OK;
    }
}

pdl_status_t pdl_oracle_price_program(pdl_oracle_t *oracle, const pdl_plan_t *plan, const pdl_program_t *program,
                                      double *seconds)
{
    pricer_t   pr = {.oracle = oracle, .plan = plan, .program = program};
    pdl_case_t c;

    pdl_status_t status = pdl__case_of_plan(oracle, plan, NULL, &c);
    if (!status) status = pdl__profile_create(oracle->system, &oracle->p, plan, c.micro_batch, &pr.profile);
    if (status) return status;
    for (int i = 0; i < program->op_count && !status; i++) status = price(&pr, &program->op[i], &seconds[i]);
    pdl__profile_destroy(pr.profile);
    return status;
}
