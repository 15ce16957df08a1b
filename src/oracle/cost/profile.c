/*
 * Prices every layer and transfer of a program once and keeps prefix sums, so that any run of layers costs two
 * look-ups.
 */
#include "oracle/cost/profile.h"
#include "oracle/cost/kept_schedules.h"
#include <math.h>
#include <paradl/plan/border.h>
#include <paradl/plan/rules.h>
#include <stdlib.h>
#include <string.h>

static pdl_status_t price_axis(pdl_pricing_t *pr, int a)
{
    const pdl_mesh_t *mesh = &pr->profile->plan->mesh;
    pdl_group_query_t query = {pdl_mesh_size(mesh), mesh->axis[a].size, pdl_mesh_stride(mesh, a), false,
                               PDL_PATTERN_RING};
    pdl_status_t      status;

    status = pdl_oracle_group(pr->oracle, &query, &pr->group[a]);
    if (!status)
        status = pdl__schedules_of(pr->oracle, &query, &pr->profile->plan->collective[a], &pr->algorithm[a]);
    if (status || pr->rings_only) return status;
    query.pattern = PDL_PATTERN_PAIRWISE;
    status = pdl_oracle_group(pr->oracle, &query, &pr->pairwise[a]);
    query.pattern = PDL_PATTERN_NEIGHBOURS;
    query.host_path = pr->p->host_halo;
    if (!status) status = pdl_oracle_group(pr->oracle, &query, &pr->halo[a]);
    query.pattern = PDL_PATTERN_RING;
    query.host_path = true;
    if (!status) status = pdl_oracle_group(pr->oracle, &query, &pr->staged[a]);
    return status;
}

pdl_status_t pdl__price_groups(pdl_pricing_t *pr)
{
    const pdl_mesh_t *mesh = &pr->profile->plan->mesh;
    int64_t           node = pdl_system_group_size(pr->system, 0);
    pdl_group_query_t leaders = {2 * node, 2, node, true, PDL_PATTERN_RING};

    for (int a = 0; a < mesh->axis_count; a++) {
        if (mesh->axis[a].size == 1 || mesh->axis[a].kind == PDL_AXIS_PIPELINE) continue;
        /* Inside layers, replicas exchange nothing but the statistics of synchronised norms. */
        if (mesh->axis[a].kind == PDL_AXIS_DATA && !pr->profile->plan->sync_batch_norm) continue;
        pdl_status_t status = price_axis(pr, a);
        if (status) return status;
    }
    if (leaders.pe_count > pr->system->pe_count) return PDL_OK;
    /* One message per node: leaders do not contend with each other. */
    leaders.stride = node;
    pdl_status_t status = pdl_oracle_group(pr->oracle, &leaders, &pr->leaders);
    if (!status && pr->leaders.phi > 0) pr->leaders.seconds_per_byte /= pr->leaders.phi;
    return status;
}

/* Filter parallelism of the published study reduces the input gradient of windowed convolutions only. */
bool pdl__transfer_skipped(const pdl_pricing_t *pr, const pdl_transfer_t *t)
{
    const pdl_layer_t *layer = pdl_model_layer(pr->profile->plan->model, t->layer);

    return pr->p->pointwise_gradients_skipped && t->input_gradient && pdl_layer_is_convolution(layer) &&
           layer->kernel[0] == 1;
}

static double halo_seconds(const pdl_pricing_t *pr, const pdl_transfer_t *t, double bytes)
{
    const pdl_group_t *g = &pr->halo[t->axis];

    /* phi of the neighbour pattern covers both directions at once. */
    if (pr->p->host_halo) return t->neighbours * g->step_s + pdl__host_seconds(pr->p, g, bytes);
    return g->step_s + bytes * g->seconds_per_byte;
}

static bool is_spatial_gather(const pdl_pricing_t *pr, const pdl_transfer_t *t)
{
    return pr->profile->plan->mesh.axis[t->axis].kind == PDL_AXIS_SPATIAL && t->primitive == PDL_ALLGATHER;
}

/* The end of a spatial split, staged through the host in the published study, there and back. */
static double gather_seconds(const pdl_pricing_t *pr, const pdl_transfer_t *t, double bytes)
{
    const pdl_group_t *g = &pr->staged[t->axis];
    double             once = (g->ranks - 1) * (g->step_s + pdl__host_seconds(pr->p, g, bytes / g->ranks));

    return pr->p->gather_returns ? 2 * once : once;
}

/* Whether the runtime gives a convolution this halo apart from the rest, of which it then copies nothing: the halo
   of the last axis, if borders are thin enough. */
static bool is_apart(const pdl_pricing_t *pr, const pdl_transfer_t *t)
{
    const pdl_plan_t  *plan = pr->profile->plan;
    const pdl_layer_t *layer = pdl_model_layer(plan->model, t->layer);
    const pdl_local_t *local = &pr->profile->partition->local[t->layer];

    if (!pdl_layer_is_convolution(layer)) return false;
    for (int a = t->axis + 1; a < plan->mesh.axis_count; a++)
        if (plan->mesh.axis[a].size > 1 && local->mode[a] == PDL_MODE_SPACE) return false;
    pdl_window_t window = pdl_layer_window(layer, (int)(local->reads[t->axis] - PDL_SPLIT_S0));
    return pdl_borders_apart(&window, plan->mesh.axis[t->axis].size, pdl_border_part(layer));
}

double pdl__copy_seconds(const pdl_pricing_t *pr, const pdl_transfer_t *t)
{
    const pdl_local_t *local = &pr->profile->partition->local[t->layer];
    double             bytes = t->elements * pr->profile->compute.item_bytes;

    if (pr->system->backend == NULL || pr->system->device.copy_bytes_per_s <= 0) return 0;
    switch (t->primitive) {
    case PDL_HALO:
        if (is_apart(pr, t)) return 0;
        bytes = local->samples * local->x_elements * pr->profile->compute.item_bytes;
        break;
    case PDL_ALLGATHER:
    case PDL_REDUCE_SCATTER:
    case PDL_ALLTOALL: bytes /= (double)pr->profile->plan->mesh.axis[t->axis].size; break;
    default: return 0;
    }
    return bytes / pr->system->device.copy_bytes_per_s;
}

double pdl__transfer_bytes(const pdl_profile_t *profile, const pdl_transfer_t *t)
{
    double bytes = t->elements * profile->compute.item_bytes;

    return t->primitive == PDL_ALLTOALL ? bytes / (double)profile->plan->mesh.axis[t->axis].size : bytes;
}

void pdl__price_transfer(const pdl_pricing_t *pr, const pdl_transfer_t *t, pdl_sums_t *s)
{
    double             bytes = pdl__transfer_bytes(pr->profile, t), seconds, startup;
    const pdl_group_t *g = t->primitive == PDL_ALLTOALL ? &pr->pairwise[t->axis] : &pr->group[t->axis];

    if (pr->p->asynchronous)
        *(t->phase == PDL_PHASE_FORWARD ? &s->queue_forward : &s->queue_backward) += pr->p->queue_call_s;
    if (bytes > pr->profile->largest_transfer) pr->profile->largest_transfer = bytes;
    if (t->primitive == PDL_HALO || (pr->p->host_halo && is_spatial_gather(pr, t))) {
        seconds = t->primitive == PDL_HALO ? halo_seconds(pr, t, bytes) : gather_seconds(pr, t, bytes);
        seconds += pdl__copy_seconds(pr, t);
        *(t->phase == PDL_PHASE_FORWARD ? &s->halo_forward : &s->halo_backward) += seconds;
        return;
    }
    if (pdl__to_experts(pr->profile, t)) {
        *(t->phase == PDL_PHASE_FORWARD ? &s->layer_forward : &s->layer_backward) += pdl__route_seconds(pr, t);
        return;
    }
    if (pdl__transfer_skipped(pr, t)) bytes = 0;
    seconds = pr->p->asynchronous ? 0 : pr->p->call_s;
    startup = seconds;
    seconds += bytes > 0 ? pdl__copy_seconds(pr, t) : 0;
    if (bytes > 0) {
        const pdl_algorithm_t *algorithm = &pr->algorithm[t->axis];
        startup += pdl_collective_seconds(g, t->primitive, algorithm, pr->p->ring_only, 0);
        seconds += pdl_collective_seconds(g, t->primitive, algorithm, pr->p->ring_only,
                                          bytes * (1 - pr->p->layer_overlap));
    }
    *(t->phase == PDL_PHASE_FORWARD ? &s->layer_forward : &s->layer_backward) += seconds;
    if (t->primitive == PDL_ALLREDUCE) s->allreduce += seconds;
    s->startup += startup;
}

/* Framework time of a layer, a third of it in forward. */
static double framework_seconds(const pdl_pricing_t *pr, const pdl_layer_t *layer, int index,
                                const pdl_local_t *local)
{
    const pdl_plan_t *plan = pr->profile->plan;
    double            seconds = pr->p->layer_s;

    if (pdl_layer_traits(layer)->source || pr->p->asynchronous) return 0;
    if (local->split && pdl_layer_is_matrix(layer)) {
        seconds += pr->p->split_layer_s;
        for (int a = 0; a < plan->mesh.axis_count; a++)
            if (plan->modes[index].on[a] == PDL_MODE_FILTER && plan->mesh.axis[a].size > 1)
                seconds += pr->p->split_piece_s * (double)plan->mesh.axis[a].size;
    }
    return seconds;
}

/* Host time to queue a layer. Where it was measured, every pass takes it that the device has something to do for. Otherwise a
   mixture of experts is eight steps: router, choice, sorting, the product before the activation, the activation, the product
   after it, sorting back, the weighted sum. */
static void add_queue(const pdl_pricing_t *pr, const pdl_layer_t *layer, const pdl_local_t *local, double forward,
                      double backward, pdl_sums_t *s)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    double              pass_s = pr->profile->device->queue_s, layer_s = pr->p->queue_layer_s;

    if (traits->source || !pr->p->asynchronous) return;
    if (layer_s == 0 && pass_s > 0) {
        s->queue_forward += forward > 0 ? pass_s : 0;
        s->queue_backward += backward > 0 ? pass_s : 0;
        return;
    }
    if (traits->work == PDL_WORK_EXPERTS)
        layer_s *= 8 + 0.5 * (double)layer->experts / local->experts_over;
    else if (traits->work == PDL_WORK_ELEMENTS && pr->p->queue_element_s > 0)
        layer_s = pdl_layer_is_identity(layer) ? 0 : pr->p->queue_element_s;
    s->queue_forward += layer_s / 3;
    s->queue_backward += layer_s * 2 / 3;
}

static void add_gradients(const pdl_pricing_t *pr, const pdl_layer_t *layer, const pdl_local_t *local,
                          pdl_sums_t *s)
{
    const pdl_mesh_t *mesh = &pr->profile->plan->mesh;
    bool              wide = false, split_axis = false, outer = false, inside = false;
    double            bytes = local->weights * pr->profile->compute.item_bytes;

    if (layer->weights == 0) return;
    if (layer->frozen) {
        s->frozen += local->weights;
        return;
    }
    for (int a = 0; a < mesh->axis_count; a++) {
        pdl_axis_kind_t kind = mesh->axis[a].kind;
        if (mesh->axis[a].size == 1) continue;
        wide |= kind != PDL_AXIS_DATA && (local->gradient_axes >> a & 1);
        outer |= kind == PDL_AXIS_SPATIAL && (local->gradient_axes >> a & 1);
        inside |= kind == PDL_AXIS_TENSOR && (local->gradient_axes >> a & 1);
        split_axis |= kind == PDL_AXIS_TENSOR;
    }
    s->weights += local->weights;
    s->tensors += pdl_layer_weight_tensors(layer);
    if (local->experts_over > 1) {
        s->expert_weights += local->weights;
        s->expert_tensors += pdl_layer_weight_tensors(layer);
        if (wide) {
            s->inner_expert_weights += local->weights;
            s->inner_expert_tensors += pdl_layer_weight_tensors(layer);
        }
    } else if (wide) {
        s->wide_weights += local->weights;
        s->wide_tensors += pdl_layer_weight_tensors(layer);
        if (split_axis && outer && !inside) {
            s->outer_weights += local->weights;
            s->outer_tensors += pdl_layer_weight_tensors(layer);
        }
    } else {
        s->data_weights += local->weights;
        s->full_weights += (double)layer->weights;
        s->data_tensors += pdl_layer_weight_tensors(layer);
    }
    s->host_gradients += pdl__host_seconds(pr->p, &pr->leaders, bytes);
    if (split_axis && !local->split)
        for (int a = 0; a < mesh->axis_count; a++)
            if (mesh->axis[a].kind == PDL_AXIS_TENSOR && mesh->axis[a].size > 1)
                s->host_replicated += pdl__host_seconds(pr->p, &pr->leaders, bytes);
}

/* Elements whose format in memory is the framework's choice. */
static void add_formats(const pdl_layer_t *layer, const pdl_local_t *local, pdl_sums_t *s)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);

    if (traits->norm && layer->in.rank == 1) s->norm_inputs += local->samples * local->x_elements;
    if (traits->pool && traits->keeps_inputs) s->pool_outputs += local->samples * local->y_elements;
    if (traits->loss) s->logits += local->samples * local->x_elements;
}

double pdl__weight_share(const pdl_layer_t *layer, const pdl_local_t *local)
{
    double weight = (double)layer->flop_backward_weight * local->share_backward_weight;
    double data = layer->needs_input_gradient ? (double)layer->flop_backward_data * local->share_backward_data : 0;

    return weight > 0 ? weight / (weight + data) : 0;
}

bool pdl__divides_backward(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->work == PDL_WORK_MATRIX && pdl_layer_trained(layer) > 0;
}

bool pdl__outside_blocks(const pdl_model_t *model, int index)
{
    if (pdl_layer_traits(pdl_model_layer(model, index))->loss) return true;
    if (index + 1 >= pdl_model_layer_count(model)) return false;
    const pdl_layer_t *next = pdl_model_layer(model, index + 1);
    return pdl_layer_traits(next)->loss && next->inputs[0] == index;
}

void pdl__price_layer(const pdl_pricing_t *pr, int index, pdl_sums_t *s)
{
    const pdl_partition_t *partition = pr->profile->partition;
    const pdl_layer_t     *layer = pdl_model_layer(pr->profile->plan->model, index);
    const pdl_local_t     *local = &partition->local[index];
    double                 forward, backward, framework = framework_seconds(pr, layer, index, local);

    pdl__slowest_seconds(pr->profile, layer, local, &forward, &backward);
    s->forward += forward + framework / 3;
    s->backward += backward + framework * 2 / 3;
    double queue = s->queue_forward, queue_backward = s->queue_backward;
    add_queue(pr, layer, local, forward, backward, s);
    if (pdl__divides_backward(layer)) {
        s->later += pdl__weight_share(layer, local) * (backward + framework * 2 / 3);
        s->later_queue += (s->queue_backward - queue_backward) / 2;
    }
    if (pdl_layer_is_matrix(layer)) s->matrix += forward + backward + framework;
    if (local->replication > 1) s->replicated += forward + backward;
    add_formats(layer, local, s);
    if (pdl__outside_blocks(pr->profile->plan->model, index)) {
        s->outside += forward;
        s->outside_queue += s->queue_forward - queue;
    }
    if (pdl_layer_traits(layer)->work == PDL_WORK_ATTENTION) {
        s->attentions += 1;
        s->attention += forward;
        s->attention_scores += 2.5 * local->samples * (double)layer->heads * local->share_forward *
                               (double)layer->in.extent[0] * (double)layer->in.extent[0];
    }
    for (int i = 0; i < local->transfer_count; i++)
        if (partition->transfers[local->first_transfer + i].axis >= 0)
            pdl__price_transfer(pr, &partition->transfers[local->first_transfer + i], s);
    add_gradients(pr, layer, local, s);
}

/* All that a micro-batch spends in the layers summed up so far. */
static double run_seconds(const pdl_sums_t *s)
{
    return s->forward + s->backward + s->layer_forward + s->layer_backward + s->halo_forward + s->halo_backward;
}

/* *next = *sums + (*b - *a); the struct is doubles throughout. */
static void add_difference(const pdl_sums_t *a, const pdl_sums_t *b, const pdl_sums_t *sums,
                           pdl_sums_t *restrict next)
{
    const double *x = (const double *)a, *y = (const double *)b, *s = (const double *)sums;
    double       *z = (double *)next;

    for (size_t i = 0; i < sizeof(*sums) / sizeof(double); i++) z[i] = s[i] + (y[i] - x[i]);
}

/* Layer i, whose twins may lie in blocks with another policy. */
static void add_repeated(const pdl_profile_t *profile, int i)
{
    const pdl_sums_t *a = &profile->prefix[i];
    pdl_sums_t       *b = &profile->prefix[i + 1];

    b->blocks = a->blocks;
    if (profile->plan->block_count == 0 || !pdl_plan_recomputes(profile->plan, i)) return;
    b->blocks.forward += b->forward - a->forward;
    b->blocks.layer += b->layer_forward - a->layer_forward;
    b->blocks.halo += b->halo_forward - a->halo_forward;
    b->blocks.queue += b->queue_forward - a->queue_forward;
}

/* Whether stages are cut by the time of hosts too, as those of frameworks take it. What a device of a backend of ours needs to be
   queued is often replayed as a graph. */
static bool hosts_are_balanced(const pdl_parameters_t *p)
{
    return p->asynchronous && p->queue_layer_s + p->queue_element_s + p->queue_call_s > 0;
}

/* Stages are balanced where devices and hosts are: a layer counts as long as a stage of such layers would take. */
static void add_hosts(const pdl_pricing_t *pr)
{
    pdl_profile_t *profile = pr->profile;

    profile->balance[0] = 0;
    for (int i = 0; i < profile->partition->layer_count; i++) {
        const pdl_sums_t *a = &profile->prefix[i], *b = &profile->prefix[i + 1];
        int               twin = profile->partition->twin[i];
        double            device = profile->run[i + 1] - profile->run[i];
        double host = b->queue_forward - a->queue_forward + b->queue_backward - a->queue_backward, seconds;

        if (twin < i)
            seconds = profile->balance[twin + 1] - profile->balance[twin];
        else
            seconds = device + (host > 0 ? pdl__host_wait(pr->p, host, device) : 0);
        profile->balance[i + 1] = profile->balance[i] + seconds;
    }
}

void pdl__price_all(const pdl_pricing_t *pr)
{
    pdl_profile_t *profile = pr->profile;

    memset(&profile->prefix[0], 0, sizeof(profile->prefix[0]));
    profile->run[0] = 0;
    for (int i = 0; i < profile->partition->layer_count; i++) {
        int twin = profile->partition->twin[i];
        if (twin < i) {
            add_difference(&profile->prefix[twin], &profile->prefix[twin + 1], &profile->prefix[i],
                           &profile->prefix[i + 1]);
        } else {
            profile->prefix[i + 1] = profile->prefix[i];
            pdl__price_layer(pr, i, &profile->prefix[i + 1]);
        }
        add_repeated(profile, i);
        profile->run[i + 1] = run_seconds(&profile->prefix[i + 1]);
    }
    if (profile->balance != NULL) add_hosts(pr);
}

/* The input comes with the first layer, and a loss stays with the logits it reads: they are large, it is quick. */
static bool may_begin_stage(const pdl_model_t *model, int i)
{
    return i > 1 && !pdl_layer_traits(pdl_model_layer(model, i))->loss;
}

/* Borders that a single tensor crosses are the natural places to cut a residual network. */
static pdl_status_t find_single_borders(pdl_profile_t *profile)
{
    int  count = profile->partition->layer_count;
    int *cross = calloc((size_t)count + 2, sizeof(*cross)), *last = calloc((size_t)count + 1, sizeof(*last));

    if (!cross || !last) {
        free(cross);
        free(last);
        return pdl_error(PDL_ERR_NOMEM, "out of memory");
    }
    for (int i = 0; i < count; i++) {
        const pdl_layer_t *layer = pdl_model_layer(profile->plan->model, i);
        for (int j = 0; j < layer->input_count; j++) last[layer->inputs[j]] = i;
    }
    for (int i = 0; i < count; i++)
        if (last[i] > i) {
            cross[i + 1]++;
            cross[last[i] + 1]--;
        }
    for (int i = 1; i <= count; i++) {
        cross[i] += cross[i - 1];
        if (i < count && cross[i] <= 1 && may_begin_stage(profile->plan->model, i))
            profile->single[profile->single_count++] = i;
    }
    free(cross);
    free(last);
    return PDL_OK;
}

/* Most programs use rings alone; the other patterns take longer to find out about. */
bool pdl__uses_rings_only(const pdl_partition_t *partition)
{
    for (int i = 0; i < partition->transfer_count; i++) {
        const pdl_transfer_t *t = &partition->transfers[i];
        if (t->primitive == PDL_HALO || t->primitive == PDL_ALLTOALL) return false;
    }
    return pdl_mesh_extent(&partition->plan->mesh, PDL_AXIS_SPATIAL) == 1;
}

/* Stages that wait leave a device that they share to those that work: the mean over a pipeline that fills, works and drains. */
double pdl__dilation(const pdl_device_t *device, const pdl_plan_t *plan)
{
    double stages = (double)pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE), of_each = device->sharers / stages;
    double passes = (double)plan->micro_batches * (double)plan->virtual_stages;
    double most = fmin(stages, passes), all = passes + stages - 1, sum = 0;

    if (device->sharers <= 1) return 1;
    for (double k = 1; k < most; k++) sum += 2 * pdl_device_dilation(device, k * of_each);
    return (sum + (all - 2 * (most - 1)) * pdl_device_dilation(device, most * of_each)) / all;
}

/* Each tensor rank has all of what its stage hands on, unless it is split along the sequence. */
static double send_share(const pdl_pricing_t *pr, const pdl_plan_t *plan)
{
    const pdl_level_t *level = pr->system->level;
    double             ranks = (double)pdl_mesh_extent(&plan->mesh, PDL_AXIS_TENSOR);

    if (!pr->p->scattered_sends || ranks <= 1 || plan->sequence_parallel || pr->system->level_count < 2) return 1;
    double gather = pr->p->network_efficiency * level[1].bandwidth_bytes_per_s /
                    (pr->p->fabric_efficiency * level[0].bandwidth_bytes_per_s);
    return fmin(1, 1 / ranks + (ranks - 1) / ranks * gather);
}

static pdl_status_t profile_fill(pdl_pricing_t *pr, const pdl_plan_t *plan, double micro_batch)
{
    pdl_profile_t *profile = pr->profile;
    pdl_status_t   status = pdl_plan_copy(plan, &profile->plan);

    if (!status) status = pdl_partition_create(profile->plan, micro_batch, &profile->partition);
    if (status) return status;
    size_t count = (size_t)profile->partition->layer_count + 1;
    profile->prefix = malloc(count * sizeof(*profile->prefix));
    profile->borders = malloc(count * sizeof(*profile->borders));
    profile->single = malloc(count * sizeof(*profile->single));
    profile->run = malloc(count * sizeof(*profile->run));
    bool hosts = hosts_are_balanced(pr->p);
    if (hosts) profile->balance = malloc(count * sizeof(*profile->balance));
    if (!profile->prefix || !profile->borders || !profile->single || !profile->run || (hosts && !profile->balance))
        return pdl_error(PDL_ERR_NOMEM, "out of memory");
    pdl__profile_computes(profile, pr, pdl__all_kinds(pr->system));
    profile->even_stages = pr->p->even_stages;
    profile->send_share = send_share(pr, plan);
    pr->rings_only = pdl__uses_rings_only(profile->partition);
    status = pdl__price_groups(pr);
    if (!status) status = find_single_borders(profile);
    if (!status) pdl__price_all(pr);
    return status;
}

pdl_status_t pdl__profile_create(pdl_oracle_t *oracle, const pdl_plan_t *plan, double micro_batch,
                                 pdl_profile_t **out)
{
    pdl_pricing_t pr = {.oracle = oracle,
                        .system = pdl_oracle_system(oracle),
                        .p = pdl_oracle_parameters(oracle),
                        .profile = calloc(1, sizeof(pdl_profile_t))};

    if (!pr.profile) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    pr.profile->oracle = oracle;
    pdl_status_t status = profile_fill(&pr, plan, micro_batch);
    if (status) {
        pdl__profile_destroy(pr.profile);
        return status;
    }
    *out = pr.profile;
    return PDL_OK;
}

static void free_prices(pdl_profile_t *profile)
{
    free(profile->prefix);
    free(profile->run);
    free(profile->balance);
    free(profile->forward);
    free(profile->later);
    for (int r = 0; r < PDL_RECOMPUTE_COUNT; r++) free(profile->pass[r]);
}

void pdl__profile_unborrow(pdl_profile_t *profile)
{
    if (!profile) return;
    free_prices(profile);
    free(profile);
}

void pdl__profile_destroy(pdl_profile_t *profile)
{
    if (!profile) return;
    for (size_t k = 0; k < sizeof(profile->other) / sizeof(profile->other[0]); k++)
        pdl__profile_unborrow(profile->other[k]);
    for (int i = 0; i < profile->stage_sets; i++) pdl__stages_destroy(profile->stages[i]);
    free(profile->stages);
    free(profile->borders);
    free(profile->single);
    free_prices(profile);
    pdl_partition_destroy(profile->partition);
    pdl_plan_destroy(profile->plan);
    free(profile);
}
