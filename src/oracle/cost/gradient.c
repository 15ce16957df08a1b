/*
 * Gradient exchange over the data axis, alone or together with an inner axis on which a layer splits samples
 * or space: packed or tensor by tensor, overlapped with backward or after it (docs/oracle.md, "Gradient exchange").
 */
#include "oracle/internal.h"
#include <math.h>

typedef struct volume {
    double weights, tensors; /* elements and tensors exchanged by one rank */
} volume_t;

/* Whether replicas share state out. */
static bool is_shared(const pdl_case_t *c)
{
    return c->sharding != PDL_SHARDING_NONE && c->data > 1;
}

double pdl__gradient_width(const pdl_parameters_t *p, pdl_precision_t precision)
{
    /* FP16 is scaled and exchanged as it is, unless weights have 32 bits. */
    if (!p->wide_gradients || (precision == PDL_FP16 && !p->autocast)) return 1;
    return pdl_precision_bytes(precision) < 4 ? 2 : 1;
}

static double gather_seconds(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_group_t *group,
                             double bytes)
{
    return pdl_collective_seconds(group, PDL_ALLGATHER, &c->data_algorithm, oracle->p.ring_only, bytes);
}

/* Differences of sums may be off in their last digits. */
double pdl__inner_weights(const pdl_sums_t *s)
{
    double weights = s->wide_weights - s->outer_weights;

    return weights > 1e-9 * s->wide_weights ? weights : 0;
}

/* One allreduce or, with sharded state, reduce-scatter and allgather; stage 3 gathers twice, per micro-batch. */
static double exchange_seconds(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_group_t *group,
                               double bytes)
{
    double width = pdl__gradient_width(&oracle->p, c->precision);

    if (c->sharding == PDL_SHARDING_NONE)
        return pdl_collective_seconds(group, PDL_ALLREDUCE, &c->data_algorithm, oracle->p.ring_only, width * bytes);
    double gathers = c->sharding == PDL_SHARDING_ZERO3 ? 2.0 * (double)c->micro_batches : 1.0;
    return pdl_collective_seconds(group, PDL_REDUCE_SCATTER, &c->data_algorithm, oracle->p.ring_only,
                                  width * bytes) +
           gathers * gather_seconds(oracle, c, group, bytes);
}

/* The part of an exchange that every bucket pays again, whichever algorithm is used: what is left when the part
   that grows with the volume is taken away. */
static double startup_seconds(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_group_t *group,
                              double bytes)
{
    double once = exchange_seconds(oracle, c, group, bytes), twice = exchange_seconds(oracle, c, group, 2 * bytes);

    return fmax(0, 2 * once - twice);
}

/* Updated weights are gathered at once: no bucket starts that. */
static void add_gather(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_group_t *group, double bytes,
                       double *startup_s, pdl__gradient_cost_t *e)
{
    double once = gather_seconds(oracle, c, group, bytes);

    e->gather_s += once;
    *startup_s -= fmax(0, 2 * once - gather_seconds(oracle, c, group, 2 * bytes));
}

static double tensor_by_tensor(const pdl_oracle_t *oracle, const pdl_group_t *group, const volume_t *v,
                               double bytes)
{
    return v->tensors * (oracle->p.tensor_exchange_s + pdl__collective_startup(group, PDL_ALLREDUCE)) +
           2 * (group->ranks - 1) / group->ranks * bytes * group->seconds_per_byte;
}

static double packed(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_group_t *group, const volume_t *v,
                     double bytes)
{
    double seconds = exchange_seconds(oracle, c, group, bytes) + v->tensors * oracle->p.pack_tensor_s +
                     oracle->p.skew_s_per_rank * group->ranks;

    if (oracle->p.pack_bytes_per_s > 0) seconds += bytes / oracle->p.pack_bytes_per_s;
    return seconds;
}

/* Ranks of which each has a part of the sum of a gradient, besides replicas. */
typedef struct pieces {
    pdl_group_t            group;
    const pdl_algorithm_t *algorithm;
} pieces_t;

/* Pieces sum their gradients inside the group first; then every rank, or in the published study of spatial
   splits a leader through host memory, exchanges over the replicas. Where state is shared out over the replicas, these reduce and
   gather all of it, and pieces sum what a rank has a share of. */
static double wide_exchange(const pdl_oracle_t *oracle, const pdl_case_t *c, const pieces_t *pieces,
                            const pdl_group_t *outer, const volume_t *v, const pdl_sums_t *sums, double bytes)
{
    const pdl_group_t *inner = &pieces->group;
    bool               shared = is_shared(c);
    double             inside = pdl_collective_seconds(inner, PDL_ALLREDUCE, pieces->algorithm, oracle->p.ring_only,
                                           shared ? bytes / outer->ranks : bytes);

    if (c->spatial && oracle->p.host_spatial_gradients) {
        double ring = 2 * (outer->ranks - 1) / outer->ranks;
        return inside + v->tensors * (oracle->p.tensor_exchange_s + pdl__collective_startup(outer, PDL_ALLREDUCE)) +
               ring * sums->host_gradients;
    }
    /* Reduce-scatter inside, the replicas' share of every rank, allgather inside. */
    return inside + packed(oracle, c, outer, v, shared ? bytes : bytes / inner->ranks);
}

static double share_of(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

/* The exchange of a bucket may begin when its gradients are ready: the last one ends at the latest of
   "ready at r, then everything that remains" over all points. Interleaved stages go through their virtual stages with as many
   micro-batches as there are stages, so gradients are ready in the last so many; where passes are divided, in the last one that
   makes those of weights. Updated weights are gathered while the next forward pass runs. */
static double exposed_part(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_stages_t *st,
                           const pdl__gradient_cost_t *e, double item_bytes)
{
    const pdl_sums_t *s = &st->sums[st->heaviest_stage];
    double            passes =
        c->virtual_stages > 1 ? (double)(c->pipeline < c->micro_batches ? c->pipeline : c->micro_batches) : 1;
    double both = s->backward + s->layer_backward + s->halo_backward, end = 0;
    if (pdl__divides_passes(c) && both > 0) passes = s->later / both;
    double backward = passes * both;
    double forward = passes * (s->forward + s->layer_forward + s->halo_forward);
    double buckets = ceil(s->weights * item_bytes / oracle->p.bucket_bytes);
    double total = e->total_s - e->gather_s;
    double startup = fmin(e->startup_s, total), volume = 1 - startup / total;
    double wide = e->wide_s * volume, narrow = (total - e->wide_s) * volume;

    for (int k = 0; k < st->points; k++) {
        double share = share_of(st->remaining[k], s->weights);
        double here = passes * st->ready[k] + startup * ceil(buckets * share) +
                      wide * share_of(st->remaining_wide[k], s->wide_weights) +
                      narrow * share_of(st->remaining[k] - st->remaining_wide[k], s->weights - s->wide_weights);
        if (here > end) end = here;
    }
    return fmax(0, end - backward) + fmax(0, e->gather_s - forward);
}

/* Stage 3 gathers the weights of a layer while the one before it computes, in forward and in backward of every
   micro-batch, and reduces gradients in the last; what computation cannot hide remains. */
static double exposed_gathers(const pdl_case_t *c, const pdl_stages_t *st, const pdl__gradient_cost_t *e)
{
    const pdl_sums_t *s = &st->sums[st->heaviest_stage];
    double            m = (double)c->micro_batches, once = e->total_s / (1 + 2 * m);
    double            forward = s->forward + s->layer_forward + s->halo_forward;
    double            backward = s->backward + s->layer_backward + s->halo_backward;
    pdl__repeated_t   again = pdl__repeated(c, s);

    backward += pdl__repeated_seconds(&again);
    return m * fmax(0, once - forward) + (m - 1) * fmax(0, once - backward) + fmax(0, 2 * once - backward);
}

/* Gradients that are summed over all inner axes, or over the spatial one across the groups of a tensor axis. `own`: elements of those that
   are wide, where others take the same way. */
static pdl_status_t add_wide(pdl_oracle_t *oracle, const pdl_case_t *c, bool across, const pdl_group_t *outer,
                             const volume_t *v, const pdl_sums_t *s, double item, double own,
                             pdl__gradient_cost_t *e)
{
    bool              host = c->spatial && oracle->p.host_spatial_gradients;
    int64_t           ranks = across ? c->outer : c->inner;
    pdl_group_query_t query = {c->pe, ranks, across ? c->outer_stride : c->inner_stride, false, PDL_PATTERN_RING};
    pieces_t          pieces = {{.ranks = 1}, across ? &c->outer_algorithm : &c->inner_algorithm};
    pdl_status_t      status = ranks > 1 ? pdl_oracle_group(oracle, &query, &pieces.group) : PDL_OK;

    if (status) return status;
    double bytes = v->weights * item, seconds = wide_exchange(oracle, c, &pieces, outer, v, s, bytes);
    double before = e->gather_s;
    double startup = startup_seconds(oracle, c, &pieces.group, is_shared(c) ? bytes / outer->ranks : bytes);
    e->total_s += seconds;
    if (is_shared(c) && c->sharding != PDL_SHARDING_ZERO3 && !host)
        add_gather(oracle, c, outer, bytes, &startup, e);
    e->wide_s += (seconds - (e->gather_s - before)) * own / v->weights;
    startup += startup_seconds(oracle, c, outer, is_shared(c) ? bytes : bytes / pieces.group.ranks);
    e->startup_s = fmax(e->startup_s, startup);
    return PDL_OK;
}

/* Gradients of experts that replicas share out: over those of every such group, and before over the context axis where its ranks have
   the same experts. */
static pdl_status_t add_experts(pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_sums_t *s, double item,
                                bool pack, pdl__gradient_cost_t *e)
{
    pdl_group_query_t query = {c->pe, c->data / c->experts, c->data_stride * c->experts, false, PDL_PATTERN_RING};
    volume_t          inner = {s->inner_expert_weights, s->inner_expert_tensors};
    volume_t          v = {s->expert_weights - inner.weights, s->expert_tensors - inner.tensors};
    double            bytes = v.weights * item;
    pdl_group_t       group;
    pdl_status_t      status = pdl_oracle_group(oracle, &query, &group);

    if (!status && inner.weights > 0) status = add_wide(oracle, c, c->outer > 1, &group, &inner, s, item, 0, e);
    if (status || v.weights <= 1e-9 * s->expert_weights || group.ranks <= 1) return status;
    double startup = startup_seconds(oracle, c, &group, bytes);
    e->total_s += pack ? packed(oracle, c, &group, &v, bytes) : tensor_by_tensor(oracle, &group, &v, bytes);
    if (pack && is_shared(c) && c->sharding != PDL_SHARDING_ZERO3)
        add_gather(oracle, c, &group, bytes, &startup, e);
    e->startup_s = fmax(e->startup_s, startup);
    return PDL_OK;
}

pdl_status_t pdl__gradient_total(pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_sums_t *s, double item,
                                 pdl__gradient_cost_t *e)
{
    bool              pack = c->hybrid ? oracle->p.pack_hybrid_gradients : oracle->p.pack_gradients;
    bool              full = c->hybrid && !c->spatial && oracle->p.full_gradients;
    bool              host = c->spatial && oracle->p.host_spatial_gradients;
    volume_t          narrow = {full ? s->full_weights : s->data_weights, s->data_tensors};
    volume_t          wide = {pdl__inner_weights(s), s->wide_tensors - s->outer_tensors};
    volume_t          across = {s->outer_weights, s->outer_tensors};
    pdl_group_query_t query = {c->pe, c->data, c->data_stride, false, PDL_PATTERN_RING};
    pdl_group_t       outer;

    *e = (pdl__gradient_cost_t){.phi = 1, .kappa = 1};
    pdl_status_t status = pdl_oracle_group(oracle, &query, &outer);
    if (host) {
        wide.weights += s->data_weights;
        wide.tensors += s->data_tensors;
    }
    if (status) return status;
    if (!c->hybrid && c->inner > 1 && oracle->p.host_replicated_gradients) e->total_s += s->host_replicated;
    if (c->data > 1 && narrow.weights > 0 && !host) {
        double bytes = narrow.weights * item;
        e->total_s +=
            pack ? packed(oracle, c, &outer, &narrow, bytes) : tensor_by_tensor(oracle, &outer, &narrow, bytes);
        e->startup_s = startup_seconds(oracle, c, &outer, bytes);
        if (pack && is_shared(c) && c->sharding != PDL_SHARDING_ZERO3)
            add_gather(oracle, c, &outer, bytes, &e->startup_s, e);
    }
    if (s->expert_weights > 0 && !host) status = add_experts(oracle, c, s, item, pack, e);
    if (!status && wide.weights > 0)
        status = add_wide(oracle, c, false, &outer, &wide, s, item, host ? s->wide_weights : wide.weights, e);
    if (!status && across.weights > 0)
        status = add_wide(oracle, c, true, &outer, &across, s, item, across.weights, e);
    e->phi = outer.phi;
    e->kappa = outer.kappa;
    return status;
}

bool pdl__gradients_by_host(const pdl_oracle_t *oracle, const pdl_case_t *c)
{
    return (c->spatial && oracle->p.host_spatial_gradients) ||
           (!c->hybrid && c->inner > 1 && oracle->p.host_replicated_gradients);
}

/* A stage has at least its even share of the weights, and many small gathers take no less than one. */
pdl_status_t pdl__least_gathers(pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                                double *seconds)
{
    const pdl_sums_t *all = &profile->prefix[profile->partition->layer_count];
    pdl_group_query_t query = {c->pe, c->data, c->data_stride, false, PDL_PATTERN_RING};
    double            bytes = all->data_weights / (double)c->pipeline * profile->compute.item_bytes;
    pdl_group_t       group;

    *seconds = 0;
    if (c->sharding != PDL_SHARDING_ZERO3 || c->run_mode == PDL_INFERENCE || c->data == 1 || bytes <= 0 ||
        all->expert_weights > 0 || /* the heaviest stage may be one of experts */
        pdl__gradients_by_host(oracle, c) ||
        !(c->hybrid ? oracle->p.pack_hybrid_gradients : oracle->p.pack_gradients))
        return PDL_OK;
    pdl_status_t status = pdl_oracle_group(oracle, &query, &group);
    if (!status) *seconds = 2 * (double)c->micro_batches * gather_seconds(oracle, c, &group, bytes);
    return status;
}

bool pdl__checkpoints_on_host(const pdl_oracle_t *oracle, const pdl_case_t *c)
{
    return oracle->p.host_checkpoints && c->sharding == PDL_SHARDING_ZERO3 && c->recompute == PDL_RECOMPUTE_FULL &&
           c->run_mode == PDL_TRAINING;
}

double pdl__checkpoint_elements(const pdl_sums_t *s)
{
    return 0.5 * s->norm_inputs;
}

/* Inputs of recomputed blocks go to memory of the host that is not pinned and come back, and the device waits. Tensor ranks that
   send a part each keep a part each. */
double pdl__checkpoint_seconds(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                               const pdl_sums_t *s)
{
    double rate = oracle->p.pageable_bytes_per_s, parts = 1;

    if (!pdl__checkpoints_on_host(oracle, c) || s->attentions == 0 || !(rate > 0)) return 0;
    if (oracle->p.scattered_sends) parts = (double)pdl_mesh_extent(&profile->plan->mesh, PDL_AXIS_TENSOR);
    return 2 * (double)c->micro_batches * pdl__checkpoint_elements(s) * profile->compute.item_bytes /
           (parts * rate);
}

pdl_status_t pdl__gradient_exchange(pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                                    const pdl_stages_t *st, pdl__gradient_cost_t *e)
{
    const pdl_sums_t *s = &st->sums[st->heaviest_stage];
    double            item = profile->compute.item_bytes;

    *e = (pdl__gradient_cost_t){.phi = 1, .kappa = 1};
    if (c->run_mode == PDL_INFERENCE) return PDL_OK;
    pdl_status_t status = pdl__gradient_total(oracle, c, s, item, e);
    if (status) return status;
    e->exposed_s = e->total_s;
    if (oracle->p.overlap_gradients && e->total_s > 0)
        e->exposed_s = fmin(e->total_s, c->sharding == PDL_SHARDING_ZERO3 ? exposed_gathers(c, st, e)
                                                                          : exposed_part(oracle, c, st, e, item));
    double checkpoints = pdl__checkpoint_seconds(oracle, c, profile, s);
    e->total_s += checkpoints;
    e->exposed_s += checkpoints;
    return PDL_OK;
}
