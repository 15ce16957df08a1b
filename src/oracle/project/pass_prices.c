/*
 * What the passes of a plan take: layers with their communication, virtual stages, and segments whose gradients are
 * exchanged together. The terms of fitted parameters and frameworks (packing, skew, host paths) are part of these prices.
 */
#include "base/memory.h"
#include "oracle/project/passes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static pdl_status_t price(const pdl__pass_prices_t *pp, const pdl_comm_query_t *query, int stage, double times,
                          double *seconds)
{
    return pp->prices->comm(pp->prices, query, stage, times, seconds);
}

/* What layers take on the devices of a stage. */
static const pdl_profile_t *profile_of(const pdl__pass_prices_t *pp, int stage)
{
    return pdl__profile_on(pp->profile, pp->runs, stage);
}

/* Sums of the layers [first, last); the struct is doubles throughout. */
static pdl_sums_t sums_of(const pdl_profile_t *profile, int first, int last)
{
    pdl_sums_t    sums;
    const double *x = (const double *)&profile->prefix[first], *y = (const double *)&profile->prefix[last];
    double       *z = (double *)&sums;

    for (size_t i = 0; i < sizeof(sums) / sizeof(double); i++) z[i] = y[i] - x[i];
    return sums;
}

static void add_times(pdl__pass_time_t *sum, const pdl__pass_time_t *time)
{
    for (int d = 0; d < PDL__PASS_COUNT; d++) {
        for (int i = 0; i < PDL__PART_COUNT; i++) sum->part[d][i] += time->part[d][i];
        sum->queue[d] += time->queue[d];
    }
}

/* Transfers that are staged through host memory keep their closed form: the network does not have that path. */
static bool through_host(const pdl_pricing_t *pr, const pdl_transfer_t *t)
{
    bool spatial = pr->profile->plan->mesh.axis[t->axis].kind == PDL_AXIS_SPATIAL;

    return pr->p->host_halo && (t->primitive == PDL_HALO || (spatial && t->primitive == PDL_ALLGATHER));
}

static pdl_status_t add_transfer(const pdl__pass_prices_t *pp, const pdl_pricing_t *pr, const pdl_transfer_t *t,
                                 int stage, pdl__pass_time_t *time)
{
    const pdl_plan_t *plan = pr->profile->plan;
    pdl_sums_t        closed;
    int               direction = t->phase == PDL_PHASE_FORWARD ? 0 : 1;
    double            times = (double)pp->c.micro_batches, seconds;
    pdl_comm_query_t  query = {t->primitive, &pr->algorithm[t->axis], plan->mesh.axis[t->axis].size,
                               pdl_mesh_stride(&plan->mesh, t->axis), pdl__transfer_bytes(pr->profile, t)};

    memset(&closed, 0, sizeof(closed));
    pdl__price_transfer(pr, t, &closed);
    if (through_host(pr, t)) {
        time->part[direction][PDL__PART_HALO] += closed.halo_forward + closed.halo_backward;
        return PDL_OK;
    }
    if (pdl__to_experts(pp->profile, t)) {
        time->part[direction][PDL__PART_LAYER] += closed.layer_forward + closed.layer_backward;
        return PDL_OK;
    }
    if (direction == 0 && pdl__recomputes(&pp->c, pp->profile, t->layer)) times *= 2;
    if (pdl__transfer_skipped(pr, t)) query.bytes = 0;
    pdl_status_t status = price(pp, &query, stage, times, &seconds);
    if (query.bytes > 0) seconds += pdl__copy_seconds(pr, t);
    if (t->primitive == PDL_HALO)
        time->part[direction][PDL__PART_HALO] += seconds;
    else
        time->part[direction][PDL__PART_LAYER] += seconds + (pr->p->asynchronous ? 0 : pr->p->call_s);
    return status;
}

/* What is repeated belongs to the backward pass: at the prices of the profile. */
static void add_repeated(const pdl__pass_prices_t *pp, const pdl_sums_t *sums, pdl__pass_time_t *time)
{
    pdl__repeated_t again = pdl__repeated(&pp->c, sums);

    time->part[1][PDL__PART_COMPUTE] += again.forward;
    time->part[1][PDL__PART_LAYER] += again.layer;
    time->part[1][PDL__PART_HALO] += again.halo;
    time->queue[1] += again.queue;
}

/* The same at the prices of this network. */
static void repeat_forward(pdl__pass_time_t *time)
{
    for (int i = 0; i < PDL__PART_COUNT; i++) time->part[1][i] += time->part[0][i];
    time->queue[1] += time->queue[0];
}

/* Of backward, what a later pass does where passes are divided. */
static void divide_backward(const pdl__pass_prices_t *pp, const pdl_sums_t *sums, pdl__pass_time_t *time)
{
    if (!pp->divided) return;
    time->part[PDL__PASS_WEIGHTS][PDL__PART_COMPUTE] = sums->later;
    time->part[PDL__PASS_BACKWARD][PDL__PART_COMPUTE] -= sums->later;
    time->queue[PDL__PASS_WEIGHTS] = sums->later_queue;
    time->queue[PDL__PASS_BACKWARD] -= sums->later_queue;
}

static pdl_status_t time_layer(pdl__pass_prices_t *pp, const pdl_pricing_t *pr, int index, int stage)
{
    const pdl_partition_t *partition = pp->profile->partition;
    const pdl_local_t     *local = &partition->local[index];
    pdl_sums_t             sums = sums_of(profile_of(pp, stage), index, index + 1);
    pdl__pass_time_t      *time = &pp->layers[index];
    double                 slow = pp->slow[stage];

    *time = (pdl__pass_time_t){.part = {{sums.forward}, {sums.backward}},
                               .queue = {sums.queue_forward, sums.queue_backward}};
    for (int i = 0; i < local->transfer_count; i++) {
        const pdl_transfer_t *t = &partition->transfers[local->first_transfer + i];

        if (t->axis < 0) continue;
        pdl_status_t status = add_transfer(pp, pr, t, stage, time);
        if (status) return status;
    }
    if (pdl__recomputes(&pp->c, pp->profile, index))
        repeat_forward(time);
    else
        add_repeated(pp, &sums, time);
    divide_backward(pp, &sums, time);
    for (int d = 0; d < PDL__PASS_COUNT; d++) time->part[d][PDL__PART_COMPUTE] *= slow;
    return PDL_OK;
}

static pdl_status_t time_layers(pdl__pass_prices_t *pp)
{
    pdl_pricing_t pr = {.oracle = pp->oracle,
                        .system = pp->oracle->system,
                        .p = &pp->oracle->p,
                        .profile = pp->profile};
    pdl_status_t  status = pdl__price_groups(&pr);

    pp->layers = calloc((size_t)pp->profile->partition->layer_count, sizeof(*pp->layers));
    if (pp->layers == NULL) return pdl__no_memory("for the parts of a plan");
    for (int k = 0; k < pp->pipeline.stages * pp->pipeline.chunks && !status; k++)
        for (int i = pp->chunks[k].first; i < pp->chunks[k].last && !status; i++)
            status = time_layer(pp, &pr, i, k / pp->pipeline.chunks);
    return status;
}

/* Times of the layers [first, last). */
static pdl__pass_time_t time_run(const pdl__pass_prices_t *pp, int first, int last, int stage)
{
    pdl__pass_time_t time = {.queue = {0, 0}};

    if (!pp->prices->of_profile) {
        for (int i = first; i < last; i++) add_times(&time, &pp->layers[i]);
        return time;
    }
    pdl_sums_t s = sums_of(profile_of(pp, stage), first, last);
    time = (pdl__pass_time_t){.part = {{s.forward, s.layer_forward, s.halo_forward},
                                       {s.backward, s.layer_backward, s.halo_backward}},
                              .queue = {s.queue_forward, s.queue_backward}};
    add_repeated(pp, &s, &time);
    divide_backward(pp, &s, &time);
    for (int d = 0; d < PDL__PASS_COUNT; d++) time.part[d][PDL__PART_COMPUTE] *= pp->slow[stage];
    return time;
}

/* The collective of the replicas, or of one of `over` neighbours each: an allreduce, or with sharded state a reduce-scatter now and a gather later. */
static pdl_status_t price_replicas(const pdl__pass_prices_t *pp, int64_t over, double bytes, int stage,
                                   double *exchange_s, double *gather_s)
{
    const pdl_case_t *c = &pp->c;
    double            width = pdl__gradient_width(&pp->oracle->p, c->precision);
    pdl_comm_query_t  query = {PDL_ALLREDUCE, &c->data_algorithm, c->data / over, c->data_stride * over,
                               width * bytes};
    double            gathers = c->sharding == PDL_SHARDING_ZERO3 ? 2.0 * (double)c->micro_batches : 1.0, seconds;

    if (c->sharding != PDL_SHARDING_NONE) query.primitive = PDL_REDUCE_SCATTER;
    pdl_status_t status = price(pp, &query, stage, 1, &seconds);
    *exchange_s += seconds;
    if (status || c->sharding == PDL_SHARDING_NONE) return status;
    query.primitive = PDL_ALLGATHER;
    query.bytes = bytes;
    status = price(pp, &query, stage, gathers, &seconds);
    *gather_s += seconds;
    return status;
}

static double packing_seconds(const pdl_parameters_t *p, double tensors, double bytes)
{
    return tensors * p->pack_tensor_s + (p->pack_bytes_per_s > 0 ? bytes / p->pack_bytes_per_s : 0);
}

/* Tensor by tensor: as many collectives of their mean size. */
static pdl_status_t price_tensors(const pdl__pass_prices_t *pp, double tensors, double bytes, int stage,
                                  double *exchange_s)
{
    pdl_comm_query_t query = {PDL_ALLREDUCE, &pdl_algorithm_ring, pp->c.data, pp->c.data_stride, bytes / tensors};
    double           seconds;
    pdl_status_t     status = price(pp, &query, stage, tensors, &seconds);

    *exchange_s += tensors * (pp->oracle->p.tensor_exchange_s + seconds);
    return status;
}

/* Gradients that are partial over an inner axis too, or `across` the groups of a tensor axis over a spatial one, are summed inside the
   group first; then every rank exchanges its share with the replicas. Where these share state out, they exchange all, and of that a
   share is summed inside. What is left to exchange is added to *bytes. */
static pdl_status_t price_inside(const pdl__pass_prices_t *pp, bool across, double weights, double tensors,
                                 int64_t replicas, int stage, double *exchange_s, double *bytes)
{
    const pdl_case_t *c = &pp->c;
    double            all = weights * pp->profile->compute.item_bytes, seconds, left;
    bool              shared = c->sharding != PDL_SHARDING_NONE && c->data > 1;
    pdl_comm_query_t  inside = {PDL_ALLREDUCE, across ? &c->outer_algorithm : &c->inner_algorithm,
                               across ? c->outer : c->inner, across ? c->outer_stride : c->inner_stride,
                               shared ? all / (double)replicas : all};

    if (weights <= 0) return PDL_OK;
    pdl_status_t status = price(pp, &inside, stage, 1, &seconds);
    left = shared ? all : all / (double)inside.size;
    *exchange_s += seconds + packing_seconds(&pp->oracle->p, tensors, left);
    *bytes += left;
    return status;
}

/* Those of experts that replicas share out: over the ranks of a context axis where they have the same ones, then over replicas. */
static pdl_status_t price_experts(const pdl__pass_prices_t *pp, const pdl_sums_t *sums, int stage,
                                  double *exchange_s, double *gather_s)
{
    const pdl_case_t *c = &pp->c;
    double            item = pp->profile->compute.item_bytes, inner = sums->inner_expert_weights;
    double            tensors = sums->expert_tensors - sums->inner_expert_tensors;
    double            left = (sums->expert_weights - inner) * item;
    pdl_status_t status = price_inside(pp, c->outer > 1, inner, sums->inner_expert_tensors, c->data / c->experts,
                                       stage, exchange_s, &left);

    if (status || c->data == c->experts) return status;
    *exchange_s += packing_seconds(&pp->oracle->p, tensors, (sums->expert_weights - inner) * item);
    return price_replicas(pp, c->experts, left, stage, exchange_s, gather_s);
}

/* Exchange and gather of a run of layers. What passes through host memory keeps its closed form. A bucket is one
   collective of the replicas; without overlap, as in the closed form, there are two when some gradients are summed
   inside groups first. */
static pdl_status_t price_gradients(const pdl__pass_prices_t *pp, const pdl_sums_t *sums, int stage,
                                    double *exchange_s, double *gather_s)
{
    const pdl_case_t       *c = &pp->c;
    const pdl_parameters_t *p = &pp->oracle->p;
    bool                    full = c->hybrid && !c->spatial && p->full_gradients;
    double narrow = (full ? sums->full_weights : sums->data_weights) * pp->profile->compute.item_bytes, wide = 0;
    pdl_status_t status = PDL_OK;

    *exchange_s = *gather_s = 0;
    if (pdl__gradients_by_host(pp->oracle, &pp->c)) {
        pdl__gradient_cost_t closed = {0};

        status = pdl__gradient_total(pp->oracle, c, sums, pp->profile->compute.item_bytes, &closed);
        *exchange_s = closed.total_s;
        return status;
    }
    status = price_inside(pp, false, pdl__inner_weights(sums), sums->wide_tensors - sums->outer_tensors, c->data,
                          stage, exchange_s, &wide);
    if (!status)
        status =
            price_inside(pp, true, sums->outer_weights, sums->outer_tensors, c->data, stage, exchange_s, &wide);
    if (status || c->data == 1) return status;
    if (narrow > 0 && !(c->hybrid ? p->pack_hybrid_gradients : p->pack_gradients)) {
        status = price_tensors(pp, sums->data_tensors, narrow, stage, exchange_s);
        narrow = 0;
    }
    *exchange_s += narrow > 0 ? packing_seconds(p, sums->data_tensors, narrow) : 0;
    if (pp->overlap) {
        narrow += wide;
        wide = 0;
    }
    if (!status) status = price_replicas(pp, 1, narrow, stage, exchange_s, gather_s);
    if (!status) status = price_replicas(pp, 1, wide, stage, exchange_s, gather_s);
    return status || sums->expert_weights <= 0 ? status : price_experts(pp, sums, stage, exchange_s, gather_s);
}

static pdl_status_t add_segment(pdl__pass_prices_t *pp, int stage, int first, int last)
{
    pdl__segment_t *segment = &pp->segments[pp->segment_count++];
    pdl_sums_t      sums = sums_of(pp->profile, first, last);

    *segment = (pdl__segment_t){.first = first, .last = last, .time = time_run(pp, first, last, stage)};
    if (!pp->pipeline.training || (!pp->overlap && pp->c.sharding != PDL_SHARDING_ZERO3)) return PDL_OK;
    return price_gradients(pp, &sums, stage, &segment->exchange_s, &segment->gather_s);
}

/* What blocks of a chunk keep of a micro-batch on the host. */
static double swapped_bytes(const pdl__pass_prices_t *pp, const pdl__chunk_t *chunk)
{
    const pdl_plan_t *plan = pp->profile->plan;
    double            bytes = 0;

    for (int k = 0, first = 0; k < plan->block_count; first = plan->block[k++].last + 1) {
        pdl_activation_memory_t m;
        if (plan->block[k].policy != PDL_MEMORY_SWAP || first < chunk->first || first >= chunk->last) continue;
        pdl_partition_memory(pp->profile->partition, first, plan->block[k].last + 1, &m);
        bytes += m.saved * pp->profile->compute.item_bytes;
    }
    return bytes;
}

/* Devices that share a way to their host copy all at once. */
static double devices_on_link(const pdl_system_t *system)
{
    const pdl_level_t *host = &system->host_level[0];

    return host->shared_medium ? fmax(1, (double)host->fanout / host->ports) : 1;
}

/* A pass is no shorter than the copies beside it: to the host in forward, back in backward. */
static void wait_for_copies(pdl__pass_prices_t *pp, int stage, pdl__chunk_t *chunk)
{
    static const pdl_host_way_t ways[] = {PDL_HOST_TO_HOST, PDL_HOST_TO_DEVICE};
    const pdl_device_t         *device = profile_of(pp, stage)->device;
    double                      bytes = swapped_bytes(pp, chunk);

    for (int d = PDL__PASS_FORWARD; d <= PDL__PASS_BACKWARD && bytes > 0; d++) {
        double pass = pdl__pass_seconds(&chunk->time, d);
        double share = PDL__LINK_SHARE / devices_on_link(pp->oracle->system);
        double more = fmax(0, pdl_host_link_seconds(&device->host_link, ways[d], bytes) / share - pass) / pass;
        chunk->time.part[d][PDL__PART_COMPUTE] += more * pass;
        for (int g = 0; g < chunk->segment_count; g++) {
            pdl__pass_time_t *time = &pp->segments[chunk->segment_first + g].time;
            time->part[d][PDL__PART_COMPUTE] += more * pdl__pass_seconds(time, d);
        }
    }
}

/* From the last layer down, as backward goes: a segment is full when its gradients fill a bucket. */
static pdl_status_t cut_segments(pdl__pass_prices_t *pp, int stage, pdl__chunk_t *chunk)
{
    double item = pp->profile->compute.item_bytes;
    int    last = chunk->last;

    chunk->segment_first = pp->segment_count;
    for (int i = chunk->last - 1; i >= chunk->first; i--) {
        double bytes = (pp->profile->prefix[last].weights - pp->profile->prefix[i].weights) * item;

        if (i > chunk->first && (!pp->overlap || bytes < pp->oracle->p.bucket_bytes)) continue;
        pdl_status_t status = add_segment(pp, stage, i, last);
        if (status) return status;
        last = i;
    }
    chunk->segment_count = pp->segment_count - chunk->segment_first;
    chunk->time = time_run(pp, chunk->first, chunk->last, stage);
    wait_for_copies(pp, stage, chunk);
    return PDL_OK;
}

/* Waiting for late ranks: once for each packed collective of the replicas, once for all buckets together. */
static double skew_seconds(const pdl__pass_prices_t *pp, const pdl_sums_t *sums)
{
    const pdl_parameters_t *p = &pp->oracle->p;
    bool                    pack = pp->c.hybrid ? p->pack_hybrid_gradients : p->pack_gradients;
    int                     waits = (pack && sums->data_weights > 0) + (sums->wide_weights > 0);

    if (pp->c.data == 1 || pdl__gradients_by_host(pp->oracle, &pp->c)) return 0;
    if (pp->overlap && waits > 1) waits = 1;
    return waits * p->skew_s_per_rank * (double)pp->c.data;
}

/* The update of a stage, and its exchange when nothing overlaps. */
static pdl_status_t finish_stage(pdl__pass_prices_t *pp, int stage)
{
    pdl_sums_t sums;

    memset(&sums, 0, sizeof(sums));
    for (int c = 0; c < pp->pipeline.chunks; c++) {
        const pdl__chunk_t *chunk = &pp->chunks[stage * pp->pipeline.chunks + c];
        pdl_sums_t          more = sums_of(profile_of(pp, stage), chunk->first, chunk->last);

        for (size_t i = 0; i < sizeof(sums) / sizeof(double); i++) ((double *)&sums)[i] += ((double *)&more)[i];
    }
    if (!pp->pipeline.training) return PDL_OK;
    pp->update_s[stage] =
        pp->slow[stage] * pdl__stage_update_seconds(pp->oracle, &pp->c, profile_of(pp, stage), &sums);
    pp->tail_s[stage] = skew_seconds(pp, &sums) + pdl__checkpoint_seconds(pp->oracle, &pp->c, pp->profile, &sums);
    if (pp->overlap || pp->c.sharding == PDL_SHARDING_ZERO3) return PDL_OK;
    double       exchange_s, gather_s;
    pdl_status_t status = price_gradients(pp, &sums, stage, &exchange_s, &gather_s);
    pp->tail_s[stage] += exchange_s;
    pp->gather_s[stage] = gather_s;
    return status;
}

/* Bytes that cross the border in front of a run of layers. */
static double border_bytes(const pdl__pass_prices_t *pp, int run)
{
    int p = pp->pipeline.stages;

    return pdl__sent_elements(pp->profile, pp->chunks[run % p * pp->pipeline.chunks + run / p].first) *
           pp->profile->compute.item_bytes;
}

/* Transfers between stages: of one chunk, one direction, all stages at once. */
static pdl_status_t price_sends(pdl__pass_prices_t *pp, int chunk, int direction)
{
    int          p = pp->pipeline.stages, runs = p * pp->pipeline.chunks;
    int         *to = calloc((size_t)p, sizeof(*to));
    double      *bytes = calloc((size_t)p, sizeof(*bytes)), *seconds = calloc((size_t)p, sizeof(*seconds));
    pdl_status_t status =
        to == NULL || bytes == NULL || seconds == NULL ? pdl__no_memory("for the parts of a plan") : PDL_OK;

    for (int s = 0; s < p && !status; s++) {
        int run = chunk * p + s, next = run + (direction == 0 ? 1 : -1);

        to[s] = next < 0 || next >= runs ? -1 : next % p;
        if (to[s] >= 0) bytes[s] = border_bytes(pp, direction == 0 ? next : run);
    }
    if (!status)
        status = pp->prices->stages(pp->prices, p, pp->c.pipeline_stride, to, bytes, (double)pp->c.micro_batches,
                                    seconds);
    for (int s = 0; s < p && !status; s++)
        pp->chunks[s * pp->pipeline.chunks + chunk].send_s[direction] = seconds[s];
    free(to);
    free(bytes);
    free(seconds);
    return status;
}

static int stage_of_layer(const pdl__pass_prices_t *pp, int layer)
{
    int count = pp->pipeline.stages * pp->pipeline.chunks;

    for (int i = 0; i < count; i++)
        if (layer >= pp->chunks[i].first && layer < pp->chunks[i].last) return i / pp->pipeline.chunks;
    return 0;
}

/* An allreduce between two: half of the vector each way, twice. */
static pdl_status_t price_tie(pdl__pass_prices_t *pp, int owner, pdl__stage_tie_t *tie)
{
    int          p = pp->pipeline.stages;
    int         *to = calloc((size_t)p, sizeof(*to));
    double      *bytes = calloc((size_t)p, sizeof(*bytes)), *seconds = calloc((size_t)p, sizeof(*seconds));
    double       half = pp->profile->partition->local[owner].weights * pp->profile->compute.item_bytes / 2;
    pdl_status_t status =
        to == NULL || bytes == NULL || seconds == NULL ? pdl__no_memory("for the parts of a plan") : PDL_OK;

    for (int s = 0; s < p && !status; s++) to[s] = -1;
    if (!status) {
        to[tie->a] = tie->b;
        to[tie->b] = tie->a;
        bytes[tie->a] = bytes[tie->b] = half;
        status = pp->prices->stages(pp->prices, p, pp->c.pipeline_stride, to, bytes, 2, seconds);
    }
    if (!status) tie->seconds = 2 * fmax(seconds[tie->a], seconds[tie->b]);
    free(to);
    free(bytes);
    free(seconds);
    return status;
}

static pdl_status_t find_ties(pdl__pass_prices_t *pp)
{
    const pdl_model_t *model = pp->profile->plan->model;
    int                layers = pp->profile->partition->layer_count;

    pp->ties = calloc((size_t)layers, sizeof(*pp->ties));
    if (pp->ties == NULL) return pdl__no_memory("for the parts of a plan");
    for (int i = 0; i < layers && pp->pipeline.training; i++) {
        int              owner = pdl_model_layer(model, i)->tied_to;
        pdl__stage_tie_t tie = {owner >= 0 ? stage_of_layer(pp, owner) : 0, stage_of_layer(pp, i), 0};

        if (owner < 0 || tie.a == tie.b || pdl_model_layer(pp->profile->plan->model, owner)->frozen) continue;
        pdl_status_t status = price_tie(pp, owner, &tie);
        if (status) return status;
        pp->ties[pp->tie_count++] = tie;
    }
    return PDL_OK;
}

static pdl_status_t allocate(pdl__pass_prices_t *pp)
{
    size_t stages = (size_t)pp->pipeline.stages, layers = (size_t)pp->profile->partition->layer_count;

    pp->chunks = calloc(stages * (size_t)pp->pipeline.chunks, sizeof(*pp->chunks));
    pp->segments = calloc(layers, sizeof(*pp->segments));
    pp->update_s = calloc(stages, sizeof(double));
    pp->tail_s = calloc(stages, sizeof(double));
    pp->gather_s = calloc(stages, sizeof(double));
    pp->slow = calloc(stages, sizeof(double));
    if (pp->chunks == NULL || pp->segments == NULL || pp->update_s == NULL || pp->tail_s == NULL ||
        pp->gather_s == NULL || pp->slow == NULL)
        return pdl__no_memory("for the parts of a plan");
    return PDL_OK;
}

/* The virtual stages of the plan, or such that take equally long. */
static pdl_status_t find_runs(pdl__pass_prices_t *pp, const int *stage_first)
{
    int                 p = pp->pipeline.stages, v = pp->pipeline.chunks;
    const pdl_stages_t *runs;
    pdl_status_t        status = pdl__profile_runs(&pp->c, pp->profile, (int64_t)p * v, stage_first, &runs);

    pp->runs = status ? NULL : runs;
    for (int k = 0; k < p * v && !status; k++) {
        pp->chunks[k % p * v + k / p].first = runs->first[k];
        pp->chunks[k % p * v + k / p].last = runs->first[k + 1];
    }
    return status;
}

pdl_status_t pdl__price_passes(pdl_oracle_t *oracle, const pdl__pass_spec_t *spec, pdl__pass_prices_t *pp)
{
    *pp = (pdl__pass_prices_t){.oracle = oracle,
                               .prices = spec->prices,
                               .profile = spec->profile,
                               .c = spec->c,
                               .pipeline = {.schedule = spec->c.schedule,
                                            .stages = (int)spec->c.pipeline,
                                            .chunks = spec->c.virtual_stages,
                                            .micro_batches = spec->c.micro_batches,
                                            .training = spec->c.run_mode == PDL_TRAINING},
                               .overlap = oracle->p.overlap_gradients,
                               .divided = pdl__divides_passes(&spec->c)};
    int          p = pp->pipeline.stages, v = pp->pipeline.chunks;
    pdl_status_t status = allocate(pp);

    if (status) return status;
    for (int s = 0; s < p; s++) pp->slow[s] = 1;
    if (spec->slow.factor > 0) pp->slow[spec->slow.rank / pp->c.pipeline_stride % p] = spec->slow.factor;
    status = find_runs(pp, spec->stage_first);
    if (!status && !pp->prices->of_profile) status = time_layers(pp);
    for (int s = 0; s < p && !status; s++) {
        for (int c = 0; c < v && !status; c++) status = cut_segments(pp, s, &pp->chunks[s * v + c]);
        if (!status) status = finish_stage(pp, s);
    }
    for (int c = 0; c < v && p > 1 && !status; c++) {
        status = price_sends(pp, c, 0);
        if (!status && pp->pipeline.training) status = price_sends(pp, c, 1);
    }
    return !status && p > 1 ? find_ties(pp) : status;
}

void pdl__pass_prices_free(pdl__pass_prices_t *pp)
{
    free(pp->chunks);
    free(pp->segments);
    free(pp->layers);
    free(pp->update_s);
    free(pp->tail_s);
    free(pp->gather_s);
    free(pp->slow);
    free(pp->ties);
    memset(pp, 0, sizeof(*pp));
}
