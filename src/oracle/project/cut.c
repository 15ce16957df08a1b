/*
 * The model cut for the player: times of layers with their communication, chunks of pipeline stages, and segments
 * whose gradients are exchanged together.
 */
#include "base/memory.h"
#include "oracle/project/play.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static pdl_status_t price(const pdl__cut_t *cut, const pdl_comm_query_t *query, int stage, double times,
                          double *seconds)
{
    return cut->prices->comm(cut->prices, query, stage, times, seconds);
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
    for (int d = 0; d < 2; d++) {
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

static pdl_status_t add_transfer(const pdl__cut_t *cut, const pdl_pricing_t *pr, const pdl_transfer_t *t, int stage,
                                 pdl__pass_time_t *time)
{
    const pdl_plan_t *plan = pr->profile->plan;
    pdl_sums_t        closed;
    int               direction = t->phase == PDL_PHASE_FORWARD ? 0 : 1;
    double            times = (double)cut->c.micro_batches, seconds;
    pdl_comm_query_t  query = {t->primitive, &pr->algorithm[t->axis], plan->mesh.axis[t->axis].size,
                               pdl_mesh_stride(&plan->mesh, t->axis), pdl__transfer_bytes(pr->profile, t)};

    memset(&closed, 0, sizeof(closed));
    pdl__price_transfer(pr, t, &closed);
    if (through_host(pr, t)) {
        time->part[direction][PDL__PART_HALO] += closed.halo_forward + closed.halo_backward;
        return PDL_OK;
    }
    if (direction == 0 && pdl__recomputes(&cut->c, cut->profile, t->layer)) times *= 2;
    if (pdl__transfer_skipped(pr, t)) query.bytes = 0;
    pdl_status_t status = price(cut, &query, stage, times, &seconds);
    if (query.bytes > 0) seconds += pdl__copy_seconds(pr, t);
    if (t->primitive == PDL_HALO)
        time->part[direction][PDL__PART_HALO] += seconds;
    else
        time->part[direction][PDL__PART_LAYER] += seconds + (pr->p->asynchronous ? 0 : pr->p->call_s);
    return status;
}

/* What is repeated belongs to the backward pass: at the prices of the profile. */
static void add_repeated(const pdl__cut_t *cut, const pdl_sums_t *sums, pdl__pass_time_t *time)
{
    pdl__repeated_t again = pdl__repeated(&cut->c, sums);

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

static pdl_status_t time_layer(pdl__cut_t *cut, const pdl_pricing_t *pr, int index, int stage)
{
    const pdl_partition_t *partition = cut->profile->partition;
    const pdl_local_t     *local = &partition->local[index];
    pdl_sums_t             sums = sums_of(cut->profile, index, index + 1);
    pdl__pass_time_t      *time = &cut->layers[index];
    double                 slow = cut->slow[stage];

    *time = (pdl__pass_time_t){.part = {{sums.forward}, {sums.backward}},
                               .queue = {sums.queue_forward, sums.queue_backward}};
    for (int i = 0; i < local->transfer_count; i++) {
        const pdl_transfer_t *t = &partition->transfers[local->first_transfer + i];

        if (t->axis < 0) continue;
        pdl_status_t status = add_transfer(cut, pr, t, stage, time);
        if (status) return status;
    }
    if (pdl__recomputes(&cut->c, cut->profile, index))
        repeat_forward(time);
    else
        add_repeated(cut, &sums, time);
    time->part[0][PDL__PART_COMPUTE] *= slow;
    time->part[1][PDL__PART_COMPUTE] *= slow;
    return PDL_OK;
}

static pdl_status_t time_layers(pdl__cut_t *cut)
{
    pdl_pricing_t pr = {.oracle = cut->oracle,
                        .system = cut->oracle->system,
                        .p = &cut->oracle->p,
                        .profile = cut->profile};
    pdl_status_t  status = pdl__price_groups(&pr);

    cut->layers = calloc((size_t)cut->profile->partition->layer_count, sizeof(*cut->layers));
    if (cut->layers == NULL) return pdl__no_memory("for the parts of a plan");
    for (int k = 0; k < cut->pipeline.stages * cut->pipeline.chunks && !status; k++)
        for (int i = cut->chunks[k].first; i < cut->chunks[k].last && !status; i++)
            status = time_layer(cut, &pr, i, k / cut->pipeline.chunks);
    return status;
}

/* Times of the layers [first, last). */
static pdl__pass_time_t time_run(const pdl__cut_t *cut, int first, int last, int stage)
{
    pdl__pass_time_t time = {.queue = {0, 0}};

    if (!cut->prices->of_profile) {
        for (int i = first; i < last; i++) add_times(&time, &cut->layers[i]);
        return time;
    }
    pdl_sums_t s = sums_of(cut->profile, first, last);
    time = (pdl__pass_time_t){.part = {{s.forward, s.layer_forward, s.halo_forward},
                                       {s.backward, s.layer_backward, s.halo_backward}},
                              .queue = {s.queue_forward, s.queue_backward}};
    add_repeated(cut, &s, &time);
    for (int d = 0; d < 2; d++) time.part[d][PDL__PART_COMPUTE] *= cut->slow[stage];
    return time;
}

/* The collective of the replicas: an allreduce, or with sharded state a reduce-scatter now and a gather later. */
static pdl_status_t price_replicas(const pdl__cut_t *cut, double bytes, int stage, double *exchange_s,
                                   double *gather_s)
{
    const pdl_case_t *c = &cut->c;
    double            width = pdl__gradient_width(&cut->oracle->p, c->precision);
    pdl_comm_query_t  query = {PDL_ALLREDUCE, &c->data_algorithm, c->data, c->data_stride, width * bytes};
    double            gathers = c->sharding == PDL_SHARDING_ZERO3 ? 2.0 * (double)c->micro_batches : 1.0, seconds;

    if (c->sharding != PDL_SHARDING_NONE) query.primitive = PDL_REDUCE_SCATTER;
    pdl_status_t status = price(cut, &query, stage, 1, &seconds);
    *exchange_s += seconds;
    if (status || c->sharding == PDL_SHARDING_NONE) return status;
    query.primitive = PDL_ALLGATHER;
    query.bytes = bytes;
    status = price(cut, &query, stage, gathers, &seconds);
    *gather_s += seconds;
    return status;
}

static double packing_seconds(const pdl_parameters_t *p, double tensors, double bytes)
{
    return tensors * p->pack_tensor_s + (p->pack_bytes_per_s > 0 ? bytes / p->pack_bytes_per_s : 0);
}

/* Tensor by tensor: as many collectives of their mean size. */
static pdl_status_t price_tensors(const pdl__cut_t *cut, double tensors, double bytes, int stage,
                                  double *exchange_s)
{
    pdl_comm_query_t query = {PDL_ALLREDUCE, &pdl_algorithm_ring, cut->c.data, cut->c.data_stride, bytes / tensors};
    double           seconds;
    pdl_status_t     status = price(cut, &query, stage, tensors, &seconds);

    *exchange_s += tensors * (cut->oracle->p.tensor_exchange_s + seconds);
    return status;
}

/* Gradients that are partial over an inner axis too are summed inside the group first; then every rank exchanges
   its share, *bytes, with the replicas. */
static pdl_status_t price_inside(const pdl__cut_t *cut, const pdl_sums_t *sums, int stage, double *exchange_s,
                                 double *bytes)
{
    const pdl_case_t *c = &cut->c;
    double            all = sums->wide_weights * cut->profile->compute.item_bytes, seconds;
    pdl_comm_query_t  inside = {PDL_ALLREDUCE, &c->inner_algorithm, c->inner, c->inner_stride, all};
    pdl_status_t      status = price(cut, &inside, stage, 1, &seconds);

    *bytes = all / (double)c->inner;
    *exchange_s += seconds + packing_seconds(&cut->oracle->p, sums->wide_tensors, *bytes);
    return status;
}

static bool closed_form_only(const pdl__cut_t *cut)
{
    const pdl_case_t       *c = &cut->c;
    const pdl_parameters_t *p = &cut->oracle->p;

    return (c->spatial && p->host_spatial_gradients) ||
           (!c->hybrid && c->inner > 1 && p->host_replicated_gradients);
}

/* Exchange and gather of a run of layers. What passes through host memory keeps its closed form. A bucket is one
   collective of the replicas; without overlap, as in the closed form, there are two when some gradients are summed
   inside groups first. */
static pdl_status_t price_gradients(const pdl__cut_t *cut, const pdl_sums_t *sums, int stage, double *exchange_s,
                                    double *gather_s)
{
    const pdl_case_t       *c = &cut->c;
    const pdl_parameters_t *p = &cut->oracle->p;
    bool                    full = c->hybrid && !c->spatial && p->full_gradients;
    double narrow = (full ? sums->full_weights : sums->data_weights) * cut->profile->compute.item_bytes, wide = 0;
    pdl_status_t status = PDL_OK;

    *exchange_s = *gather_s = 0;
    if (closed_form_only(cut)) {
        pdl__gradient_cost_t closed = {0};

        status = pdl__gradient_total(cut->oracle, c, sums, cut->profile->compute.item_bytes, &closed);
        *exchange_s = closed.total_s;
        return status;
    }
    if (sums->wide_weights > 0) status = price_inside(cut, sums, stage, exchange_s, &wide);
    if (status || c->data == 1) return status;
    if (narrow > 0 && !(c->hybrid ? p->pack_hybrid_gradients : p->pack_gradients)) {
        status = price_tensors(cut, sums->data_tensors, narrow, stage, exchange_s);
        narrow = 0;
    }
    *exchange_s += narrow > 0 ? packing_seconds(p, sums->data_tensors, narrow) : 0;
    if (cut->overlap) {
        narrow += wide;
        wide = 0;
    }
    if (!status) status = price_replicas(cut, narrow, stage, exchange_s, gather_s);
    if (!status) status = price_replicas(cut, wide, stage, exchange_s, gather_s);
    return status;
}

static pdl_status_t add_segment(pdl__cut_t *cut, int stage, int first, int last)
{
    pdl__segment_t *segment = &cut->segments[cut->segment_count++];
    pdl_sums_t      sums = sums_of(cut->profile, first, last);

    *segment = (pdl__segment_t){.first = first, .last = last, .time = time_run(cut, first, last, stage)};
    if (!cut->pipeline.training || (!cut->overlap && cut->c.sharding != PDL_SHARDING_ZERO3)) return PDL_OK;
    return price_gradients(cut, &sums, stage, &segment->exchange_s, &segment->gather_s);
}

/* From the last layer down, as backward goes: a segment is full when its gradients fill a bucket. */
static pdl_status_t cut_segments(pdl__cut_t *cut, int stage, pdl__chunk_t *chunk)
{
    double item = cut->profile->compute.item_bytes;
    int    last = chunk->last;

    chunk->segment_first = cut->segment_count;
    for (int i = chunk->last - 1; i >= chunk->first; i--) {
        double bytes = (cut->profile->prefix[last].weights - cut->profile->prefix[i].weights) * item;

        if (i > chunk->first && (!cut->overlap || bytes < cut->oracle->p.bucket_bytes)) continue;
        pdl_status_t status = add_segment(cut, stage, i, last);
        if (status) return status;
        last = i;
    }
    chunk->segment_count = cut->segment_count - chunk->segment_first;
    chunk->time = time_run(cut, chunk->first, chunk->last, stage);
    return PDL_OK;
}

/* Waiting for late ranks: once for each packed collective of the replicas, once for all buckets together. */
static double skew_seconds(const pdl__cut_t *cut, const pdl_sums_t *sums)
{
    const pdl_parameters_t *p = &cut->oracle->p;
    bool                    pack = cut->c.hybrid ? p->pack_hybrid_gradients : p->pack_gradients;
    int                     waits = (pack && sums->data_weights > 0) + (sums->wide_weights > 0);

    if (cut->c.data == 1 || closed_form_only(cut)) return 0;
    if (cut->overlap && waits > 1) waits = 1;
    return waits * p->skew_s_per_rank * (double)cut->c.data;
}

/* The update of a stage, and its exchange when nothing overlaps. */
static pdl_status_t finish_stage(pdl__cut_t *cut, int stage)
{
    const pdl_parameters_t *p = &cut->oracle->p;
    pdl_sums_t              sums;
    double                  shards = cut->c.sharding >= PDL_SHARDING_ZERO1 ? (double)cut->c.data : 1;

    memset(&sums, 0, sizeof(sums));
    for (int c = 0; c < cut->pipeline.chunks; c++) {
        const pdl__chunk_t *chunk = &cut->chunks[stage * cut->pipeline.chunks + c];
        pdl_sums_t          more = sums_of(cut->profile, chunk->first, chunk->last);

        for (size_t i = 0; i < sizeof(sums) / sizeof(double); i++) ((double *)&sums)[i] += ((double *)&more)[i];
    }
    if (!cut->pipeline.training) return PDL_OK;
    cut->update_s[stage] = cut->slow[stage] * pdl__update_seconds(p, &cut->profile->compute, cut->c.optimizer,
                                                                  sums.weights / shards, sums.tensors);
    cut->tail_s[stage] = skew_seconds(cut, &sums);
    if (cut->overlap || cut->c.sharding == PDL_SHARDING_ZERO3) return PDL_OK;
    double       exchange_s, gather_s;
    pdl_status_t status = price_gradients(cut, &sums, stage, &exchange_s, &gather_s);
    cut->tail_s[stage] += exchange_s;
    cut->gather_s[stage] = gather_s;
    return status;
}

/* Bytes that cross the border in front of a run of layers. */
static double border_bytes(const pdl__cut_t *cut, int run)
{
    int p = cut->pipeline.stages;

    return pdl__sent_elements(cut->profile, cut->chunks[run % p * cut->pipeline.chunks + run / p].first) *
           cut->profile->compute.item_bytes;
}

/* Transfers between stages: of one chunk, one direction, all stages at once. */
static pdl_status_t price_sends(pdl__cut_t *cut, int chunk, int direction)
{
    int          p = cut->pipeline.stages, runs = p * cut->pipeline.chunks;
    int         *to = calloc((size_t)p, sizeof(*to));
    double      *bytes = calloc((size_t)p, sizeof(*bytes)), *seconds = calloc((size_t)p, sizeof(*seconds));
    pdl_status_t status =
        to == NULL || bytes == NULL || seconds == NULL ? pdl__no_memory("for the parts of a plan") : PDL_OK;

    for (int s = 0; s < p && !status; s++) {
        int run = chunk * p + s, next = run + (direction == 0 ? 1 : -1);

        to[s] = next < 0 || next >= runs ? -1 : next % p;
        if (to[s] >= 0) bytes[s] = border_bytes(cut, direction == 0 ? next : run);
    }
    if (!status)
        status = cut->prices->stages(cut->prices, p, cut->c.pipeline_stride, to, bytes,
                                     (double)cut->c.micro_batches, seconds);
    for (int s = 0; s < p && !status; s++)
        cut->chunks[s * cut->pipeline.chunks + chunk].send_s[direction] = seconds[s];
    free(to);
    free(bytes);
    free(seconds);
    return status;
}

static int stage_of_layer(const pdl__cut_t *cut, int layer)
{
    int count = cut->pipeline.stages * cut->pipeline.chunks;

    for (int i = 0; i < count; i++)
        if (layer >= cut->chunks[i].first && layer < cut->chunks[i].last) return i / cut->pipeline.chunks;
    return 0;
}

/* An allreduce between two: half of the vector each way, twice. */
static pdl_status_t price_tie(pdl__cut_t *cut, int owner, pdl__stage_tie_t *tie)
{
    int          p = cut->pipeline.stages;
    int         *to = calloc((size_t)p, sizeof(*to));
    double      *bytes = calloc((size_t)p, sizeof(*bytes)), *seconds = calloc((size_t)p, sizeof(*seconds));
    double       half = cut->profile->partition->local[owner].weights * cut->profile->compute.item_bytes / 2;
    pdl_status_t status =
        to == NULL || bytes == NULL || seconds == NULL ? pdl__no_memory("for the parts of a plan") : PDL_OK;

    for (int s = 0; s < p && !status; s++) to[s] = -1;
    if (!status) {
        to[tie->a] = tie->b;
        to[tie->b] = tie->a;
        bytes[tie->a] = bytes[tie->b] = half;
        status = cut->prices->stages(cut->prices, p, cut->c.pipeline_stride, to, bytes, 2, seconds);
    }
    if (!status) tie->seconds = 2 * fmax(seconds[tie->a], seconds[tie->b]);
    free(to);
    free(bytes);
    free(seconds);
    return status;
}

static pdl_status_t find_ties(pdl__cut_t *cut)
{
    const pdl_model_t *model = cut->profile->plan->model;
    int                layers = cut->profile->partition->layer_count;

    cut->ties = calloc((size_t)layers, sizeof(*cut->ties));
    if (cut->ties == NULL) return pdl__no_memory("for the parts of a plan");
    for (int i = 0; i < layers && cut->pipeline.training; i++) {
        int              owner = pdl_model_layer(model, i)->tied_to;
        pdl__stage_tie_t tie = {owner >= 0 ? stage_of_layer(cut, owner) : 0, stage_of_layer(cut, i), 0};

        if (owner < 0 || tie.a == tie.b) continue;
        pdl_status_t status = price_tie(cut, owner, &tie);
        if (status) return status;
        cut->ties[cut->tie_count++] = tie;
    }
    return PDL_OK;
}

static pdl_status_t allocate(pdl__cut_t *cut)
{
    size_t stages = (size_t)cut->pipeline.stages, layers = (size_t)cut->profile->partition->layer_count;

    cut->chunks = calloc(stages * (size_t)cut->pipeline.chunks, sizeof(*cut->chunks));
    cut->segments = calloc(layers, sizeof(*cut->segments));
    cut->update_s = calloc(stages, sizeof(double));
    cut->tail_s = calloc(stages, sizeof(double));
    cut->gather_s = calloc(stages, sizeof(double));
    cut->slow = calloc(stages, sizeof(double));
    if (cut->chunks == NULL || cut->segments == NULL || cut->update_s == NULL || cut->tail_s == NULL ||
        cut->gather_s == NULL || cut->slow == NULL)
        return pdl__no_memory("for the parts of a plan");
    return PDL_OK;
}

/* The virtual stages of the plan, or cut to take equally long. */
static pdl_status_t find_runs(pdl__cut_t *cut, const int *stage_first)
{
    int                 p = cut->pipeline.stages, v = cut->pipeline.chunks;
    const pdl_stages_t *runs;
    pdl_status_t        status = pdl__profile_runs(cut->profile, (int64_t)p * v, stage_first, &runs);

    for (int k = 0; k < p * v && !status; k++) {
        cut->chunks[k % p * v + k / p].first = runs->first[k];
        cut->chunks[k % p * v + k / p].last = runs->first[k + 1];
    }
    return status;
}

pdl_status_t pdl__cut_create(pdl_oracle_t *oracle, const pdl__cut_spec_t *spec, pdl__cut_t *cut)
{
    *cut = (pdl__cut_t){.oracle = oracle,
                        .prices = spec->prices,
                        .profile = spec->profile,
                        .c = spec->c,
                        .pipeline = {.schedule = spec->c.schedule,
                                     .stages = (int)spec->c.pipeline,
                                     .chunks = spec->c.virtual_stages,
                                     .micro_batches = spec->c.micro_batches,
                                     .training = spec->c.run_mode == PDL_TRAINING},
                        .overlap = oracle->p.overlap_gradients};
    int          p = cut->pipeline.stages, v = cut->pipeline.chunks;
    pdl_status_t status = allocate(cut);

    if (status) return status;
    for (int s = 0; s < p; s++) cut->slow[s] = 1;
    if (spec->slow.factor > 0) cut->slow[spec->slow.rank / cut->c.pipeline_stride % p] = spec->slow.factor;
    status = find_runs(cut, spec->stage_first);
    if (!status && !cut->prices->of_profile) status = time_layers(cut);
    for (int s = 0; s < p && !status; s++) {
        for (int c = 0; c < v && !status; c++) status = cut_segments(cut, s, &cut->chunks[s * v + c]);
        if (!status) status = finish_stage(cut, s);
    }
    for (int c = 0; c < v && p > 1 && !status; c++) {
        status = price_sends(cut, c, 0);
        if (!status && cut->pipeline.training) status = price_sends(cut, c, 1);
    }
    return !status && p > 1 ? find_ties(cut) : status;
}

void pdl__cut_free(pdl__cut_t *cut)
{
    free(cut->chunks);
    free(cut->segments);
    free(cut->layers);
    free(cut->update_s);
    free(cut->tail_s);
    free(cut->gather_s);
    free(cut->slow);
    free(cut->ties);
    memset(cut, 0, sizeof(*cut));
}
