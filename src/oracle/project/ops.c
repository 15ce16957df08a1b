/*
 * What the operations of a program take.
 */
#include "oracle/cost/kept_schedules.h"
#include "oracle/project/passes.h"
#include <math.h>
#include <paradl/oracle/replay.h>
#include <paradl/plan/collectives.h>
#include <stdlib.h>

typedef struct pricer {
    pdl_oracle_t        *oracle;
    const pdl_plan_t    *plan;
    const pdl_program_t *program;
    int                  stage;
    const pdl_profile_t *profile; /* of the stage */
    pdl_prices_t        *prices;
    /* Schedules of groups, which take a while to count; by masks of axes. */
    pdl_algorithm_t algorithm[1 << PDL_MAX_AXES];
    bool            known[1 << PDL_MAX_AXES];
    /* Of a message between stages, by virtual stage and direction: its bytes, and its seconds. */
    double *border_bytes[PDL_DIRECTIONS], *border_s[PDL_DIRECTIONS];
    int     stages, chunks;
    int     replayed; /* operations at the beginning of the program that the device replays */
    double  update_s; /* of each update of the program */
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

static pdl_timed_pass_t pass_of(const pdl_program_op_t *op)
{
    return op->kind == PDL_OP_DGRAD   ? PDL_TIMED_DGRAD
           : op->kind == PDL_OP_WGRAD ? PDL_TIMED_WGRAD
           : op->backward             ? PDL_TIMED_BACKWARD
                                      : PDL_TIMED_FORWARD;
}

/* An operation that calibration has timed by itself; with the time to queue it. */
static bool find_timed(const pricer_t *pr, const pdl_program_op_t *op, double *seconds, double *queue_s)
{
    const pdl_program_node_t *node = &pr->program->node[op->node < 0 ? 0 : op->node];
    pdl_timed_pass_t          pass = pass_of(op);
    pdl_timed_op_t            timed;

    if (op->node < 0 || op->part > 0 ||
        !pdl__timed(pr->oracle->system, node->key, pr->plan->precision, (double)node->samples, &timed))
        return false;
    if (timed.seconds[pass] <= 0 && pass != PDL_TIMED_FORWARD && pass != PDL_TIMED_BACKWARD) return false;
    *seconds = op - pr->program->op < pr->replayed ? timed.replayed_s[pass] : timed.seconds[pass];
    *seconds *= pr->profile->compute.dilation;
    *queue_s = timed.queue_s[pass] + pr->oracle->system->device.issue_s;
    return true;
}

/* The least that a kernel takes; other machines have this in what their layers take. */
static double kernel_seconds(const pricer_t *pr)
{
    return pr->oracle->system->backend != NULL ? pr->profile->compute.kernel_s : 0;
}

/* A node takes what the layers fused into it take. */
static double node_seconds(const pricer_t *pr, const pdl_program_op_t *op)
{
    const pdl_program_node_t *node = &pr->program->node[op->node];
    const pdl_model_t        *model = pr->plan->model;
    double                    seconds = 0;

    if (node->kind != PDL_NODE_COMPUTE) return 0;
    if (op->part > 0) return kernel_seconds(pr); /* the work of boundaries is priced with the interior */
    for (int at = node->tail;; at = layer_before(model, at, node->layer)) {
        const pdl_sums_t *sums = &pr->profile->prefix[at];
        double forward = sums[1].forward - sums[0].forward, backward = sums[1].backward - sums[0].backward;
        double share = pdl__weight_share(pdl_model_layer(model, at), &pr->profile->partition->local[at]);

        seconds += !op->backward              ? forward
                   : op->kind == PDL_OP_DGRAD ? backward * (1 - share)
                   : op->kind == PDL_OP_WGRAD ? backward * share
                                              : backward;
        if (at <= node->layer) return seconds;
    }
}

/* Repeated from what was saved: inputs are read and the output is written, once. */
static double from_saved_seconds(const pricer_t *pr, const pdl_program_op_t *op)
{
    double bytes = (double)pr->program->buffer[op->output].bytes;

    for (int j = 0; j < PDL_PROGRAM_INPUTS; j++)
        if (op->input[j] >= 0) bytes += (double)pr->program->buffer[op->input[j]].bytes;
    return bytes / pdl__slowest_memory(pr->profile);
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
    return pdl__schedules_of(pr->oracle, query, named, &pr->algorithm[axes]);
}

/* The vector of a collective of gradients or weights: a bucket, or this rank's part of one. */
static double collective_bytes(const pricer_t *pr, const pdl_program_op_t *op)
{
    const pdl_program_bucket_t *bucket = &pr->program->bucket[op->bucket];
    int64_t                     parts = 1, stride;

    if (op->role == PDL_ROLE_PARTS) shape_group(&pr->plan->mesh, bucket->sharded, &parts, &stride);
    return (double)bucket->bytes / (double)parts;
}

/* Rows for the neighbours of a rank go to both sides at once; each side of a convolution is an operation of its own. */
static double halo_bytes(const pdl_program_op_t *op, int64_t ranks)
{
    return op->part == 0 && ranks > 2 ? op->bytes / 2 : op->bytes;
}

/* Buckets that are exchanged at the same time, on the mean: ranks that have a device in turns wait for these together. */
static double in_flight(const pricer_t *pr, const pdl_program_op_t *op)
{
    const pdl_program_bucket_t *bucket = pr->program->bucket;
    int                         count = 0;

    if (op->bucket < 0 || !pdl_device_in_turns(&pr->oracle->system->device)) return 1;
    for (int b = 0; b < pr->program->bucket_count; b++) count += bucket[b].set == bucket[op->bucket].set;
    return count / ceil((double)count / PDL_BUCKETS_IN_FLIGHT);
}

static pdl_status_t comm_seconds(pricer_t *pr, const pdl_program_op_t *op, double *seconds)
{
    const pdl_mesh_t *mesh = &pr->plan->mesh;
    bool              halo = op->primitive == PDL_HALO || op->primitive == PDL_LOCAL;
    pdl_comm_query_t  query = {.primitive = halo ? PDL_HALO : op->primitive};
    double            once;

    shape_group(mesh, op->group, &query.size, &query.stride);
    if (query.size == 1 || op->bytes <= 0) return PDL_OK;
    pdl_group_query_t group = {pdl_mesh_size(mesh), query.size, query.stride, false, PDL_PATTERN_RING};
    pdl_status_t      status = find_algorithm(pr, op->group, &group);
    if (status) return status;
    query.bytes = halo                            ? halo_bytes(op, query.size)
                  : op->kind == PDL_OP_COLLECTIVE ? collective_bytes(pr, op)
                                                  : vector_bytes(op->primitive, (double)query.size, op->bytes);
    double together = op->kind == PDL_OP_COLLECTIVE ? in_flight(pr, op) : 1;
    query.bytes *= together;
    query.algorithm = &pr->algorithm[op->group];
    /* Sums inside layers are scattered and gathered, which a schedule for whole sums cannot do. */
    if (query.algorithm->form == PDL_FORM_COUNTED &&
        pdl__counted_seconds(query.algorithm, op->primitive, query.bytes) <= 0)
        query.algorithm = &pdl_algorithm_ring;
    status = pr->prices->comm(pr->prices, &query, pr->stage, 0, &once);
    *seconds += (op->part > 0 ? once / 2 : once) / together;
    if (!halo && !pr->oracle->p.asynchronous) *seconds += pr->oracle->p.call_s;
    return status;
}

/* What stays on a rank is copied into what a redistribution makes, where that takes time. Where the host queues work for a device, so is what arrives:
   elsewhere the messages that were measured have that. */
static double copied_seconds(const pricer_t *pr, const pdl_program_op_t *op)
{
    const pdl_device_t *device = &pr->oracle->system->device;
    bool                keeps = op->sums < 0 && op->part == 0 && op->output >= 0 && op->output != op->input[0];
    double              bytes = device->queue_s > 0 ? op->bytes : 0;

    if (!(device->copy_bytes_per_s > 0)) return 0;
    if (keeps) bytes += fmax(0, (double)pr->program->buffer[op->output].bytes - op->bytes);
    return pr->profile->compute.dilation * bytes / device->copy_bytes_per_s;
}

/* Gradients of a weight that the first and the last stage hold, half of it each way, twice. */
static pdl_status_t tied_seconds(const pricer_t *pr, const pdl_program_op_t *op, double *seconds)
{
    int          axis = pdl_mesh_find(&pr->plan->mesh, PDL_AXIS_PIPELINE), last = pr->stages - 1;
    size_t       stages = (size_t)pr->stages;
    int         *to = malloc(stages * sizeof(*to));
    double      *room = calloc(2 * stages, sizeof(*room));
    pdl_status_t status =
        to == NULL || room == NULL ? pdl_error(PDL_ERR_NOMEM, "out of memory for a timeline") : PDL_OK;

    for (int s = 0; s < pr->stages && !status; s++) to[s] = s == 0 ? last : s == last ? 0 : -1;
    if (!status) {
        room[0] = room[last] = op->bytes / 2;
        status = pr->prices->stages(pr->prices, pr->stages, pdl_mesh_stride(&pr->plan->mesh, axis), to, room, 0,
                                    room + stages);
    }
    if (!status) *seconds = 2 * fmax(room[stages], room[stages + (size_t)last]);
    free(to);
    free(room);
    return status;
}

static size_t border_of(const pricer_t *pr, const pdl_program_op_t *op)
{
    return (size_t)pr->program->node[op->node].chunk * (size_t)pr->stages + (size_t)pr->stage;
}

/* Its share of what crosses the border together. */
static double send_seconds(const pricer_t *pr, const pdl_program_op_t *op)
{
    size_t border = border_of(pr, op);
    double all = pr->border_bytes[op->backward][border];

    return all > 0 ? pr->border_s[op->backward][border] * op->bytes / all : 0;
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
            if (pdl_layer_trained(layer) > 0) weights += pr->profile->partition->local[at].weights;
            if (pdl_layer_trained(layer) > 0) tensors += pdl_layer_weight_tensors(layer);
            if (at <= node->layer) break;
        }
    }
    if (pr->plan->sharding != PDL_SHARDING_NONE) ranks = (double)pdl_mesh_extent(&pr->plan->mesh, PDL_AXIS_DATA);
    return pdl__slowest_update(&pr->oracle->p, pr->profile, pr->plan->optimizer, weights / ranks, tensors);
}

/* Of one of the updates: there is one, or as many as the optimizer's state has pieces, nearly all of the same size. */
static double share_of_update(const pricer_t *pr)
{
    double updates = 0;

    for (int i = 0; i < pr->program->op_count; i++) updates += pr->program->op[i].kind == PDL_OP_UPDATE;
    return updates > 0 ? update_seconds(pr) / updates : 0;
}

/* By processors of the host, which ranks that share a device share too: weights and moments are read and written, gradients read. Where
   their rate is not known they keep up with the link. */
static double host_update_seconds(const pricer_t *pr, const pdl_program_op_t *op)
{
    const pdl_device_t        *device = &pr->oracle->system->device;
    const pdl_program_piece_t *piece = &pr->program->piece[op->piece];
    double                     rate = device->host_update_bytes_per_s;

    if (!(rate > 0)) rate = device->host_link.bytes_per_s[PDL_HOST_BOTH];
    if (!(rate > 0)) return 0;
    return fmax(1, device->sharers) * pdl_update_bytes(pr->plan->optimizer, (double)(piece->high - piece->low)) /
           rate;
}

/* Sums and conversions read two streams or write them slowly, and write one; boxes are as large as the smaller side. */
static double pass_seconds(const pricer_t *pr, const pdl_program_op_t *op)
{
    const pdl_program_buffer_t *buffer = pr->program->buffer;
    int                         output = pdl_program_op_output(op);
    double                      bytes = output >= 0 ? (double)buffer[output].bytes : 0;

    if (op->kind == PDL_OP_COPY && output >= 0 && op->input[0] >= 0)
        bytes = fmin(bytes, (double)buffer[op->input[0]].bytes);
    return kernel_seconds(pr) + 3 * bytes / pdl__slowest_memory(pr->profile);
}

/* A piece of state that is on disk: it is read and written, and devices of a node share that. */
static double disk_seconds(const pricer_t *pr, const pdl_program_op_t *op)
{
    const pdl_system_t *system = pr->oracle->system;
    double              rate = system->storage.local_bandwidth_bytes_per_s;

    if (op->piece < 0 || pr->plan->optimizer_tier != PDL_TIER_DISK) return 0;
    if (!(rate > 0)) rate = system->storage.node_bandwidth_bytes_per_s;
    double devices = fmin((double)pdl_mesh_size(&pr->plan->mesh), (double)system->level[0].fanout);
    return rate > 0 ? 2 * devices * op->bytes / rate : 0;
}

static pdl_status_t price(pricer_t *pr, const pdl_program_op_t *op, double *seconds, double *queue_s)
{
    *seconds = 0;
    *queue_s = pr->oracle->system->device.queue_s;
    switch (op->kind) {
    case PDL_OP_FORWARD:
    case PDL_OP_RECOMPUTE:
    case PDL_OP_BACKWARD:
    case PDL_OP_DGRAD:
    case PDL_OP_WGRAD:
        if (op->from_saved)
            *seconds = from_saved_seconds(pr, op);
        else if (!find_timed(pr, op, seconds, queue_s))
            *seconds = node_seconds(pr, op);
        /* Routes and statistics are part of the operation. */
        return comm_seconds(pr, op, seconds);
    case PDL_OP_LOAD: find_timed(pr, op, seconds, queue_s); return PDL_OK;
    case PDL_OP_CONVERT:
        if (find_timed(pr, op, seconds, queue_s)) return PDL_OK;
        *seconds = pass_seconds(pr, op);
        return PDL_OK;
    case PDL_OP_SUM:
    case PDL_OP_COPY: *seconds = pass_seconds(pr, op); return PDL_OK;
    case PDL_OP_REDISTRIBUTE: *seconds = copied_seconds(pr, op); return comm_seconds(pr, op, seconds);
    case PDL_OP_COLLECTIVE:
        return op->role == PDL_ROLE_TIED ? tied_seconds(pr, op, seconds) : comm_seconds(pr, op, seconds);
    case PDL_OP_SEND: *seconds = send_seconds(pr, op); return PDL_OK;
    case PDL_OP_COPY_OUT:
    case PDL_OP_COPY_IN:
        /* Forward copies out and backward in: most have the link to themselves. */
        *seconds = fmax(pdl_host_link_seconds(&pr->oracle->system->device.host_link,
                                              op->kind == PDL_OP_COPY_OUT ? PDL_HOST_TO_HOST : PDL_HOST_TO_DEVICE,
                                              op->bytes),
                        disk_seconds(pr, op));
        return PDL_OK;
    case PDL_OP_UPDATE:
        *seconds = op->stream == PDL_STREAM_HOST ? host_update_seconds(pr, op) : pr->update_s;
        return PDL_OK;
    default: return PDL_OK;
    }
}

/* What one micro-batch sends over the borders of a stage. */
static void add_borders(pricer_t *pr)
{
    for (int i = 0; i < pr->program->op_count; i++) {
        const pdl_program_op_t *op = &pr->program->op[i];
        if (op->kind == PDL_OP_SEND && op->micro_batch == 0)
            pr->border_bytes[op->backward][border_of(pr, op)] += op->bytes;
    }
}

/* Messages of one virtual stage of every stage in one direction, all at once. Stages whose program is not known send as much as
   the one that sends most. */
static pdl_status_t price_border(pricer_t *pr, int chunk, int way)
{
    int          p = pr->stages, runs = p * pr->chunks, axis = pdl_mesh_find(&pr->plan->mesh, PDL_AXIS_PIPELINE);
    double      *bytes = pr->border_bytes[way] + (size_t)chunk * (size_t)p, most = 0;
    int         *to = calloc((size_t)p, sizeof(*to));
    pdl_status_t status = PDL_OK;

    if (to == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a timeline");
    for (int s = 0; s < p; s++) most = fmax(most, bytes[s]);
    for (int s = 0; s < p; s++) {
        int next = chunk * p + s + (way == PDL_FORWARD ? 1 : -1);

        to[s] = next < 0 || next >= runs ? -1 : next % p;
        if (to[s] >= 0 && bytes[s] == 0) bytes[s] = most;
    }
    if (most > 0)
        status = pr->prices->stages(pr->prices, p, pdl_mesh_stride(&pr->plan->mesh, axis), to, bytes, 0,
                                    pr->border_s[way] + (size_t)chunk * (size_t)p);
    free(to);
    return status;
}

static pdl_status_t price_borders(pricer_t *pr, const pdl_replay_rank_t *ranks, const int *stage, int count)
{
    size_t       borders = (size_t)pr->stages * (size_t)pr->chunks;
    double      *room = calloc(4 * borders, sizeof(*room));
    pdl_status_t status = room == NULL ? pdl_error(PDL_ERR_NOMEM, "out of memory for a timeline") : PDL_OK;

    for (int way = 0; way < PDL_DIRECTIONS && !status; way++) {
        pr->border_bytes[way] = room + (size_t)way * borders;
        pr->border_s[way] = room + (size_t)(2 + way) * borders;
    }
    for (int k = 0; k < count && pr->stages > 1 && !status; k++) {
        pr->program = ranks[k].program;
        pr->stage = stage[k];
        add_borders(pr);
    }
    for (int c = 0; c < pr->chunks && pr->stages > 1; c++)
        for (int way = 0; way < PDL_DIRECTIONS && !status; way++) status = price_border(pr, c, way);
    return status;
}

/* The stage whose layers a program has. */
static int stage_of(const pdl_plan_t *plan, int stages, int chunks, const pdl_program_t *program)
{
    int layer = -1;

    for (int n = 0; n < program->node_count && layer < 0; n++)
        if (program->node[n].kind == PDL_NODE_COMPUTE) layer = program->node[n].layer;
    for (int k = 0; k < stages * chunks && stages > 1; k++)
        if (layer >= plan->stage_first[k] && layer < plan->stage_first[k + 1]) return k % stages;
    return 0;
}

enum { LEAST_REPLAYED = 4 }; /* operations that are worth it */

static int count_replayed(const pricer_t *pr)
{
    bool alone = pdl_mesh_size(&pr->plan->mesh) == 1;
    int  count = pr->oracle->system->device.graphs ? pdl_program_replayable(pr->program, alone) : 0;

    return count < LEAST_REPLAYED ? 0 : count;
}

/* Operations that the device replays are queued together with the first. */
static void join_queues(const pricer_t *pr, double *queue_s)
{
    if (pr->replayed > 0) queue_s[0] = pr->oracle->system->device.queue_s;
    for (int i = 1; i < pr->replayed; i++) queue_s[i] = 0;
}

static pdl_status_t price_all(pricer_t *pr, const pdl_stages_t *runs, const pdl_replay_rank_t *ranks, int count,
                              double *const *seconds, double *const *queue_s)
{
    const pdl_profile_t *first = pr->profile;
    double               unused;
    int                 *stage = calloc((size_t)count + 1, sizeof(*stage));
    pdl_status_t         status = stage == NULL ? pdl_error(PDL_ERR_NOMEM, "out of memory for a timeline") : PDL_OK;

    for (int k = 0; k < count && !status; k++)
        stage[k] = stage_of(pr->plan, pr->stages, pr->chunks, ranks[k].program);
    if (!status) status = price_borders(pr, ranks, stage, count);
    for (int k = 0; k < count && !status; k++) {
        pr->program = ranks[k].program;
        pr->stage = stage[k];
        pr->profile = pdl__profile_on(first, runs, stage[k]);
        pr->replayed = count_replayed(pr);
        pr->update_s = share_of_update(pr);
        for (int i = 0; i < pr->program->op_count && !status; i++)
            status = price(pr, &pr->program->op[i], &seconds[k][i], queue_s != NULL ? &queue_s[k][i] : &unused);
        if (queue_s != NULL) join_queues(pr, queue_s[k]);
    }
    free(pr->border_bytes[0]);
    free(stage);
    return status;
}

pdl_status_t pdl__price_programs(pdl_oracle_t *oracle, const pdl_plan_t *plan, pdl_prices_t *prices,
                                 const pdl_replay_rank_t *ranks, int count, double *const *seconds,
                                 double *const *queue_s)
{
    pdl_case_t          c;
    pdl_profile_t      *profile;
    const pdl_stages_t *runs = NULL;
    pricer_t            pr = {.oracle = oracle, .plan = plan, .prices = prices};
    pdl_status_t        status = pdl__case_of_plan(oracle, plan, NULL, &c);

    if (!status) status = pdl__profile_create(oracle, plan, c.micro_batch, &profile);
    if (status) return status;
    pr.profile = profile;
    pr.stages = (int)c.pipeline;
    pr.chunks = c.pipeline > 1 ? c.virtual_stages : 1;
    status = pdl__profile_runs(&c, profile, (int64_t)pr.stages * pr.chunks, plan->stage_first, &runs);
    if (!status) status = price_all(&pr, runs, ranks, count, seconds, queue_s);
    pdl__profile_destroy(profile);
    return status;
}

pdl_status_t pdl_oracle_price_program(pdl_oracle_t *oracle, const pdl_plan_t *plan, const pdl_program_t *program,
                                      double *seconds)
{
    pdl__closed_prices_t prices = pdl__closed_prices(oracle, pdl_mesh_size(&plan->mesh), false);
    pdl_replay_rank_t    rank = {.program = program};

    return pdl__price_programs(oracle, plan, &prices.prices, &rank, 1, &seconds, NULL);
}
