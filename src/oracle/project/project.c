/*
 * From a cost profile to a projection: pipeline, exchange, update, input, memory, interval.
 */
#include "oracle/project/pipeline_time.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const char *const pdl_comm_class_names[PDL_COMM_CLASS_COUNT] = {"layer collectives", "halo exchange",
                                                                "stage transfer", "gradient exchange"};

bool pdl__recomputes(const pdl_case_t *c, const pdl_profile_t *profile, int layer)
{
    if (c->run_mode == PDL_INFERENCE) return false;
    if (profile->plan->block_count == 0)
        return c->recompute == PDL_RECOMPUTE_FULL &&
               !(c->block_segments && pdl__outside_blocks(profile->plan->model, layer));
    return pdl_plan_recomputes(profile->plan, layer);
}

pdl__repeated_t pdl__repeated(const pdl_case_t *c, const pdl_sums_t *s)
{
    if (c->run_mode == PDL_INFERENCE) return (pdl__repeated_t){.forward = 0};
    switch (c->recompute) {
    case PDL_RECOMPUTE_FULL:
        return (pdl__repeated_t){.forward = s->forward - (c->block_segments ? s->outside : 0),
                                 .layer = s->layer_forward,
                                 .halo = s->halo_forward,
                                 .queue = s->queue_forward - (c->block_segments ? s->outside_queue : 0)};
    case PDL_RECOMPUTE_SELECTIVE: return (pdl__repeated_t){.forward = s->attention};
    default: return s->blocks;
    }
}

double pdl__run_seconds(const pdl_case_t *c, const pdl_sums_t *a, const pdl_sums_t *b)
{
    double seconds =
        b->forward + b->layer_forward + b->halo_forward - (a->forward + a->layer_forward + a->halo_forward);

    if (c->run_mode == PDL_INFERENCE) return seconds;
    pdl__repeated_t before = pdl__repeated(c, a), after = pdl__repeated(c, b);
    seconds += pdl__repeated_seconds(&after) - pdl__repeated_seconds(&before);
    return seconds + b->backward + b->layer_backward + b->halo_backward -
           (a->backward + a->layer_backward + a->halo_backward);
}

static pdl_status_t sum_passes(const pdl_case_t *c, pdl_profile_t *profile)
{
    const pdl_sums_t nothing = {.forward = 0};
    int              count = profile->partition->layer_count + 1;

    if (profile->pass[c->recompute] != NULL) return PDL_OK;
    double *pass = malloc((size_t)count * sizeof(*pass));
    if (profile->forward == NULL) profile->forward = malloc((size_t)count * sizeof(*profile->forward));
    if (profile->later == NULL) profile->later = malloc((size_t)count * sizeof(*profile->later));
    bool there = pass != NULL && profile->forward != NULL && profile->later != NULL;
    for (int i = 0; i < count && there; i++) {
        const pdl_sums_t *s = &profile->prefix[i];
        profile->forward[i] = s->forward + s->layer_forward + s->halo_forward;
        profile->later[i] = s->later;
        pass[i] = pdl__run_seconds(c, &nothing, s);
    }
    profile->pass[c->recompute] = there ? pass : NULL;
    if (!there) free(pass);
    return profile->pass[c->recompute] != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");
}

pdl_status_t pdl__sum_passes(const pdl_case_t *c, pdl_profile_t *profile)
{
    pdl_status_t status = sum_passes(c, profile);

    for (unsigned kinds = 1; kinds <= profile->kinds && !status; kinds++)
        if (profile->other[kinds] != NULL) status = sum_passes(c, profile->other[kinds]);
    return status;
}

/* Layers for which the host is slower stand beside others for which it is not: a blend counts a part of both. */
double pdl__host_wait(const pdl_parameters_t *p, double host_s, double device_s)
{
    double blend = p->queue_blend;

    if (blend > 0 && host_s > 0) return pow(pow(host_s, blend) + pow(device_s, blend), 1 / blend) - device_s;
    return fmax(0, host_s - device_s);
}

/* Whether a host takes any time of this profile: without it no stage waits for its host. */
static bool hosts_count(const pdl_oracle_t *oracle, const pdl_profile_t *profile)
{
    return profile->prefix[profile->partition->layer_count].queue_forward > 0 || oracle->p.queue_step_s > 0;
}

/* Of a run of layers between two prefix sums, the device waits where the host needs longer to queue a micro-batch than the device to
   work it off. */
double pdl__run_wait(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_sums_t *a, const pdl_sums_t *b)
{
    double host = b->queue_forward - a->queue_forward +
                  oracle->p.queue_step_s / (double)(c->micro_batches * c->virtual_stages);

    if (c->run_mode == PDL_TRAINING)
        host += b->queue_backward - a->queue_backward + pdl__repeated(c, b).queue - pdl__repeated(c, a).queue;
    return host > 0 ? pdl__host_wait(&oracle->p, host, pdl__run_seconds(c, a, b)) : 0;
}

/* What the stage that takes longest with its host takes beyond the one that keeps its device busy longest. */
static double longest_wait(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                           const pdl_stages_t *cut, double slowest_s)
{
    double longest = 0;

    if (!hosts_count(oracle, profile)) return 0;
    for (int64_t s = 0; s < c->pipeline; s++) {
        const pdl_profile_t *on = pdl__profile_on(profile, cut, s);
        double               seconds = 0;
        for (int64_t k = s; k < cut->count; k += c->pipeline) {
            const pdl_sums_t *a = &on->prefix[cut->first[k]], *b = &on->prefix[cut->first[k + 1]];
            seconds += pdl__run_seconds(c, a, b) + pdl__run_wait(oracle, c, a, b);
        }
        longest = fmax(longest, seconds);
    }
    return fmax(0, longest - slowest_s);
}

static void project_compute(const pdl_case_t *c, const pdl_stages_t *st, pdl_projection_t *out)
{
    const pdl_sums_t *slow = &st->sums[st->slowest_stage];
    double            m = (double)c->micro_batches;

    out->forward_s = m * slow->forward;
    if (c->run_mode == PDL_TRAINING) out->backward_s = m * slow->backward + m * pdl__repeated(c, slow).forward;
    out->compute_s = out->forward_s + out->backward_s;
    out->replicated_share = slow->replicated > 0 ? slow->replicated / (slow->forward + slow->backward) : 0;
    out->stage_imbalance = st->slowest / (st->total / (double)st->count);
}

static void project_update(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                           const pdl_sums_t *heavy, pdl_projection_t *out)
{
    if (c->run_mode == PDL_INFERENCE) return;
    out->update_s = pdl__stage_update_seconds(oracle, c, profile, heavy);
    out->compute_s += out->update_s;
}

double pdl__longest_update(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                           const pdl_stages_t *st)
{
    int64_t heavy = st->heaviest_stage;
    double  longest = 0;

    if (c->run_mode == PDL_INFERENCE) return 0;
    if (st->alike)
        return pdl__stage_update_seconds(oracle, c, pdl__profile_on(profile, st, heavy), &st->sums[heavy]);
    for (int64_t s = 0; s < st->count; s++)
        longest = fmax(longest, pdl__stage_update_seconds(oracle, c, st->on[s], &st->sums[s]));
    return longest;
}

static void project_wait(const pdl_case_t *c, double wait_s, pdl_projection_t *out)
{
    double wait = (double)c->micro_batches * wait_s;

    *(c->run_mode == PDL_TRAINING ? &out->backward_s : &out->forward_s) += wait;
    out->compute_s += wait;
}

static void project_layers(const pdl_case_t *c, const pdl_stages_t *st, pdl_projection_t *out)
{
    const pdl_sums_t *slow = &st->sums[st->slowest_stage];
    double            m = (double)c->micro_batches;
    pdl__repeated_t   again = pdl__repeated(c, slow);
    double            layer = slow->layer_forward + again.layer, halo = slow->halo_forward + again.halo;

    if (c->run_mode == PDL_TRAINING) {
        layer += slow->layer_backward;
        halo += slow->halo_backward;
    }
    out->comm[PDL_COMM_LAYER] = m * layer;
    out->comm[PDL_COMM_HALO] = m * halo;
    out->layer_startup_s = m * slow->startup;
    out->layer_allreduce_s = m * slow->allreduce;
    out->matrix_s = m * slow->matrix;
}

double pdl__layers_seconds(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                           const pdl_sums_t *sums)
{
    pdl_sums_t         copy = *sums;
    const pdl_stages_t run = {.count = 1, .sums = &copy, .total = 1, .slowest = 1};
    pdl_projection_t   out;

    out.update_s = out.backward_s = 0;
    project_compute(c, &run, &out);
    project_update(oracle, c, profile, &copy, &out);
    project_layers(c, &run, &out);
    return out.compute_s + out.comm[PDL_COMM_LAYER] + out.comm[PDL_COMM_HALO];
}

/* Two stages that use the same weights add up their gradients after the last micro-batch. */
static void project_tied(const pdl_case_t *c, const pdl_profile_t *profile, const pdl_stages_t *st,
                         pdl_group_t pair, pdl_projection_t *out)
{
    double bytes = st->tied_elements * profile->compute.item_bytes;

    if (bytes <= 0 || c->run_mode == PDL_INFERENCE) return;
    pair.ranks = 2;
    out->gradient_total_s = pdl_collective_seconds(&pair, PDL_ALLREDUCE, &pdl_algorithm_ring, true, bytes);
    out->comm[PDL_COMM_GRADIENT] = out->gradient_total_s;
}

/* What the pipeline takes beyond the work of its busiest stage is bubble; what transfers add to that is theirs. */
static pdl_status_t project_pipeline(pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                                     const pdl_stages_t *st, const pdl_stages_t *cut, double wait_s,
                                     pdl_projection_t *out)
{
    pdl_group_query_t query = {c->pe, c->pipeline, c->pipeline_stride, false, PDL_PATTERN_RING};
    const pdl_sums_t *slow = &st->sums[st->slowest_stage], nothing = {.forward = 0};
    pdl__runs_t       runs = {.c = c, .profile = profile, .cut = cut};
    pdl_group_t       group;

    if (c->pipeline == 1) return PDL_OK;
    pdl_status_t status = pdl_oracle_group(oracle, &query, &group);
    if (status) return status;
    double busy = (double)c->micro_batches * (pdl__run_seconds(c, &nothing, slow) + wait_s), bare, sent;
    runs.oracle = hosts_count(oracle, profile) ? oracle : NULL;
    runs.step_s = group.step_s;
    runs.byte_s = group.seconds_per_byte;
    runs.held = !oracle->p.overlap_stages;
    status = pdl__pipeline_seconds(&runs, &bare, &sent);
    if (status) return status;
    out->bubble_s = fmax(0, bare - busy);
    out->comm[PDL_COMM_STAGE] = sent - bare;
    project_tied(c, profile, st, group, out);
    return PDL_OK;
}

/* Reading is shared by the nodes of the machine. */
static double reading_seconds(const pdl_oracle_t *oracle, const pdl_case_t *c)
{
    const pdl_storage_t *storage = &oracle->system->storage;
    double               bytes = (double)c->batch * c->dataset->bytes_per_sample, seconds = 0;
    double               nodes = ceil((double)c->pe / (double)pdl_system_group_size(oracle->system, 0));

    if (storage->node_bandwidth_bytes_per_s > 0) seconds = bytes / (nodes * storage->node_bandwidth_bytes_per_s);
    if (storage->total_bandwidth_bytes_per_s > 0)
        seconds = fmax(seconds, bytes / storage->total_bandwidth_bytes_per_s);
    return seconds;
}

/* Decoding is shared by the devices, or by the leaders of groups where those load for all; a leader then passes the
   decoded samples on. */
static double staging_seconds(const pdl_oracle_t *oracle, const pdl_case_t *c)
{
    double rate = oracle->system->storage.decode_samples_per_s, seconds = 0;
    bool   leaders = oracle->p.leader_loads && c->inner > 1;

    if (rate > 0 && c->dataset->decode_s_per_sample > 0)
        seconds = (double)c->batch / ((double)(leaders ? c->data : c->pe) * rate);
    if (leaders) {
        pdl_shape_t input = pdl_model_input(oracle->model);
        double      link = oracle->system->host_level[0].bandwidth_bytes_per_s * oracle->p.host_efficiency;
        seconds += (double)c->batch / (double)c->data * 4.0 * (double)pdl_shape_elements(&input) / link;
    }
    return seconds;
}

/* Parameters that were fitted on other machines say less of this one, whose shares of the peaks are estimates. */
static bool is_foreign(const pdl_oracle_t *oracle)
{
    if (!oracle->p.measured || oracle->system->measured_count > 0) return false;
    return oracle->p.machine[0] ? strcmp(oracle->p.machine, oracle->system->name) != 0
                                : !oracle->system->device.fitted;
}

static void project_interval(const pdl_oracle_t *oracle, const pdl_case_t *c, pdl_projection_t *out)
{
    double compute = (out->compute_s + out->bubble_s + out->io_s) / out->total_s, comm = out->comm_s / out->total_s;
    double a = compute * oracle->p.compute_deviation, b = comm * oracle->p.comm_deviation;
    double width = oracle->p.interval_width * sqrt(a * a + b * b);

    /* All runs that parameters were fitted to trained. */
    out->estimated = (!oracle->p.measured || c->run_mode == PDL_INFERENCE) && oracle->system->measured_count == 0;
    if (out->estimated) width = fmax(width, oracle->p.estimate_width);
    if (is_foreign(oracle)) width = fmax(width, oracle->p.machine_width);
    out->low_s = out->total_s * exp(-width);
    out->high_s = out->total_s * exp(width);
}

/* Operations of the model itself: what is recomputed or done by several ranks alike does not count. */
static double useful_flop(const pdl_oracle_t *oracle, const pdl_case_t *c)
{
    pdl_model_totals_t totals;

    pdl_model_totals(oracle->model, &totals);
    return (double)c->batch *
           ((double)totals.flop_forward + (c->run_mode == PDL_TRAINING ? (double)totals.flop_backward : 0));
}

double pdl__energy(const pdl_system_t *system, int part_order, int64_t pe, double busy_s, double idle_s)
{
    const pdl_device_t *d = &system->device;
    int64_t             count[PDL_MAX_PARTS];
    double              sum = 0;

    if (system->part_count == 0) return (double)pe * (d->power_w * busy_s + d->idle_power_w * idle_s);
    pdl_system_count_kinds(system, part_order, pe, count);
    for (int i = 0; i < system->part_count; i++) {
        d = &system->part[i].device;
        if (count[i] > 0) sum += (double)count[i] * (d->power_w * busy_s + d->idle_power_w * idle_s);
    }
    return sum;
}

pdl__sum_t pdl__add_up(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl__parts_t *parts)
{
    pdl__sum_t sum = {.comm_s = 0};

    for (int i = 0; i < PDL_COMM_CLASS_COUNT; i++) sum.comm_s += parts->comm[i];
    double busy = parts->compute_s + sum.comm_s + parts->bubble_s;
    sum.io_s = parts->input_s > busy ? parts->input_s - busy : 0;
    sum.total_s = busy + sum.io_s;
    sum.energy_j =
        pdl__energy(oracle->system, c->part_order, c->pe, parts->compute_s, sum.total_s - parts->compute_s);
    return sum;
}

void pdl__project_sums(const pdl_oracle_t *oracle, const pdl_case_t *c, double kappa, pdl_projection_t *out)
{
    pdl__parts_t parts = {.compute_s = out->compute_s, .bubble_s = out->bubble_s, .input_s = out->input_s};

    memcpy(parts.comm, out->comm, sizeof(parts.comm));
    pdl__sum_t sum = pdl__add_up(oracle, c, &parts);
    out->comm_s = sum.comm_s;
    out->io_s = sum.io_s;
    out->total_s = sum.total_s;
    out->energy_j = sum.energy_j;
    out->congested_s = out->total_s + (kappa - 1) * (out->comm[PDL_COMM_GRADIENT] + out->comm[PDL_COMM_STAGE]);
    project_interval(oracle, c, out);
}

/* The virtual stages of the busiest stage of an interleaved pipeline together, and the seconds of a micro-batch there. */
static pdl_sums_t busiest_stage(const pdl_case_t *c, const pdl_profile_t *profile, const pdl_stages_t *cut,
                                double *busy_s)
{
    pdl_sums_t sums = {.forward = 0};
    double     longest = -1;
    int64_t    busiest = 0;

    for (int64_t s = 0; s < c->pipeline; s++) {
        const double *pass = pdl__profile_on(profile, cut, s)->pass[c->recompute];
        double        seconds = 0;
        for (int64_t k = s; k < cut->count; k += c->pipeline)
            seconds += pass[cut->first[k + 1]] - pass[cut->first[k]];
        if (seconds <= longest) continue;
        longest = seconds;
        busiest = s;
    }
    *busy_s = longest;
    /* The struct is doubles throughout. */
    const pdl_sums_t *prefix = pdl__profile_on(profile, cut, busiest)->prefix;
    for (int64_t k = busiest; k < cut->count; k += c->pipeline) {
        const double *a = (const double *)&prefix[cut->first[k]];
        const double *b = (const double *)&prefix[cut->first[k + 1]];
        for (size_t i = 0; i < sizeof(sums) / sizeof(double); i++) ((double *)&sums)[i] += b[i] - a[i];
    }
    return sums;
}

pdl_status_t pdl__case_stages(const pdl_case_t *c, pdl_profile_t *profile, const int *given,
                              pdl__pipeline_cut_t *cut)
{
    bool         several = c->virtual_stages > 1;
    pdl_status_t status = pdl__profile_stages(c, profile, c->pipeline, several ? NULL : given, &cut->ranks);

    if (!status) status = pdl__sum_passes(c, profile);
    cut->virtual_stages = cut->ranks;
    if (status || !several) return status;
    return pdl__profile_runs(c, profile, c->pipeline * c->virtual_stages, given, &cut->virtual_stages);
}

/* A micro-batch through all virtual stages. */
static double pass_seconds(const pdl_case_t *c, const pdl_profile_t *profile, const pdl_stages_t *cut)
{
    double sum = 0;

    if (cut->on == NULL) return profile->pass[c->recompute][profile->partition->layer_count];
    for (int64_t k = 0; k < cut->count; k++) {
        const double *pass = cut->on[k]->pass[c->recompute];
        sum += pass[cut->first[k + 1]] - pass[cut->first[k]];
    }
    return sum;
}

pdl_status_t pdl__project_passes(pdl_oracle_t *oracle, const pdl_case_t *c, pdl_profile_t *profile,
                                 const pdl__pipeline_cut_t *stages, double *drain_s, pdl_projection_t *out)
{
    const pdl_stages_t *st = stages->ranks, *cut = c->pipeline > 1 ? stages->virtual_stages : st;
    pdl_stages_t        busy = *st;
    pdl_sums_t          sums;

    if (cut != st) {
        sums = busiest_stage(c, profile, cut, &busy.slowest);
        busy.sums = &sums;
        busy.slowest_stage = 0;
        busy.total = pass_seconds(c, profile, cut);
    }
    project_compute(c, &busy, out);
    project_layers(c, &busy, out);
    const pdl_sums_t nothing = {.forward = 0};
    double           busy_s = pdl__run_seconds(c, &nothing, &busy.sums[busy.slowest_stage]);
    double           wait_s = longest_wait(oracle, c, profile, cut, busy_s);
    project_wait(c, wait_s, out);
    *drain_s = pdl__pipeline_drain(&(pdl__runs_t){.c = c, .profile = profile, .cut = cut}, st->heaviest_stage);
    return project_pipeline(oracle, c, profile, &busy, cut, wait_s, out);
}

/* What the heaviest stage does after its last pass it does while those in front of it still work; the first stage, which ends
   last, cannot. */
static double exposed_seconds(const pdl_stages_t *st, double exposed_s, double drain_s)
{
    double heaviest = st->sums[st->heaviest_stage].weights;

    if (st->heaviest_stage == 0 || heaviest <= 0) return exposed_s;
    return fmax(exposed_s - fmax(0, drain_s), exposed_s * st->sums[0].weights / heaviest);
}

/* A projection up to its findings, which are made from it afterwards. */
#define NUMBERS offsetof(pdl_projection_t, findings)

/* The passes are the same wherever state is, which is asked for one after the other. */
static pdl_status_t recall_passes(pdl_oracle_t *oracle, const pdl_case_t *c, pdl_profile_t *profile,
                                  const pdl__pipeline_cut_t *stages, double *drain_s, pdl_projection_t *out)
{
    pdl__passes_t *kept = &oracle->passes;
    pdl_case_t     key = *c;

    key.sharding = PDL_SHARDING_NONE;
    key.optimizer_tier = PDL_TIER_DEVICE;
    if (kept->profile != profile || kept->cut != stages->virtual_stages ||
        memcmp(&kept->key, &key, sizeof(key)) != 0) {
        kept->profile = NULL;
        memset(&kept->projection, 0, NUMBERS);
        pdl_status_t status = pdl__project_passes(oracle, c, profile, stages, &kept->drain_s, &kept->projection);
        if (status) return status;
        kept->key = key;
        kept->profile = profile;
        kept->cut = stages->virtual_stages;
    }
    memcpy(out, &kept->projection, NUMBERS);
    out->finding_count = 0;
    *drain_s = kept->drain_s;
    return PDL_OK;
}

double pdl__input_seconds(const pdl_oracle_t *oracle, const pdl_case_t *c, double *staging_s)
{
    *staging_s = 0;
    if (c->dataset == NULL || c->dataset->bytes_per_sample <= 0) return 0;
    *staging_s = staging_seconds(oracle, c);
    return fmax(reading_seconds(oracle, c), *staging_s);
}

/* Kernels are slower while a collective shares the device with them. */
pdl__beside_t pdl__exchange_beside(const pdl_oracle_t *oracle, const pdl_stages_t *st,
                                   const pdl__gradient_cost_t *e, double drain_s)
{
    double overlapped = fmax(0, e->total_s - e->exposed_s);

    return (pdl__beside_t){.exposed_s = exposed_seconds(st, e->exposed_s, drain_s),
                           .slowdown_s = exposed_seconds(st, (oracle->p.overlap_slowdown - 1) * overlapped,
                                                         drain_s - e->exposed_s)};
}

pdl_status_t pdl__project_case(pdl_oracle_t *oracle, const pdl_case_t *c, pdl_profile_t *profile,
                               const pdl__pipeline_cut_t *cut, pdl_projection_t *out)
{
    const pdl_stages_t  *st = cut->ranks;
    pdl__gradient_cost_t exchange;
    double               drain_s;
    pdl_status_t         status;

    status = recall_passes(oracle, c, profile, cut, &drain_s, out);
    if (!status) status = pdl__gradient_exchange(oracle, c, profile, st, &exchange);
    if (status) return status;
    out->update_s = pdl__longest_update(oracle, c, profile, st);
    out->compute_s += out->update_s;
    pdl__beside_t beside = pdl__exchange_beside(oracle, st, &exchange, drain_s);
    out->gradient_total_s += exchange.total_s;
    out->comm[PDL_COMM_GRADIENT] += beside.exposed_s;
    out->contention = exchange.phi;
    out->backward_s += beside.slowdown_s;
    out->compute_s += beside.slowdown_s;
    out->input_s = pdl__input_seconds(oracle, c, &out->staging_s);
    out->flop = useful_flop(oracle, c);
    pdl__project_sums(oracle, c, exchange.kappa, out);
    return pdl__project_memory(oracle, c, profile, st, out);
}
