/*
 * An epoch under a data policy, from the projection of one iteration: what is read, exchanged and hidden, how much of it
 * shows, and what has to be stored.
 */
#include "oracle/internal.h"

#include <paradl/oracle/data_policy.h>

#include <math.h>

#define STANDARD_EPOCHS 90
/* Selecting and combining: time per sample of a worker's share (20 ms for 1.3 million on one core), bytes of state that
   every worker learns about each sample. */
#define SELECT_S    15e-9
#define STATE_BYTES 6.0
#define SCORE_BYTES 4.0

/* Seconds of one iteration, by what hiding does to them. */
typedef struct iteration {
    double forward_s, backward_s, sync_s;
} iteration_t;

/* Exchanges inside layers, between stages and the bubble are as much forward as backward. */
static iteration_t split(const pdl_projection_t *p)
{
    double between = p->comm[PDL_COMM_LAYER] + p->comm[PDL_COMM_HALO] + p->comm[PDL_COMM_STAGE] + p->bubble_s;

    return (iteration_t){.forward_s = p->forward_s + between / 2,
                         .backward_s = p->backward_s + between / 2,
                         .sync_s = p->comm[PDL_COMM_GRADIENT] + p->update_s};
}

pdl_policy_question_t pdl_policy_question_of_plan(const pdl_plan_t *plan, const pdl_dataset_t *dataset,
                                                  const pdl_projection_t *projection)
{
    return (pdl_policy_question_t){.policy = plan->data_policy,
                                   .dataset = dataset,
                                   .pe = pdl_mesh_size(&plan->mesh),
                                   .workers = pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA),
                                   .batch = plan->batch,
                                   .projection = projection};
}

static pdl_status_t check(const pdl_policy_question_t *q)
{
    pdl_status_t status = pdl_data_policy_check(&q->policy);

    if (status) return status;
    if (q->dataset == NULL || q->dataset->samples <= 0)
        return pdl_error(PDL_ERR_INPUT,
                         "a data policy needs a data set of known size: name one with --data, such as "
                         "imagenet");
    if (q->workers < 1 || q->pe < q->workers || q->batch < 1)
        return pdl_error(PDL_ERR_INPUT,
                         "%lld workers on %lld devices with a batch of %lld: a worker needs a device",
                         (long long)q->workers, (long long)q->pe, (long long)q->batch);
    if (q->dataset->samples < q->workers)
        return pdl_error(PDL_ERR_LIMIT, "%lld workers, but %s has only %lld samples", (long long)q->workers,
                         q->dataset->name, (long long)q->dataset->samples);
    if ((1 - q->policy.hide) * (double)q->dataset->samples < (double)q->batch && q->policy.hide > 0)
        return pdl_error(
            PDL_ERR_LIMIT,
            "hiding %g of %lld samples leaves less than one batch of %lld: hide less or make the batch "
            "smaller",
            q->policy.hide, (long long)q->dataset->samples, (long long)q->batch);
    return PDL_OK;
}

static double nodes_of(const pdl_system_t *system, int64_t pe)
{
    return ceil((double)pe / (double)pdl_system_group_size(system, 0));
}

/* Hidden samples are read by the refresh pass only. */
static double read_share(const pdl_policy_question_t *q)
{
    double refreshed = q->policy.refresh_every > 0 ? 1 / (double)q->policy.refresh_every : 0;

    return 1 - q->policy.hide_mean * (1 - refreshed);
}

static void project_reading(const pdl_oracle_t *oracle, const pdl_policy_question_t *q,
                            pdl_policy_projection_t *out)
{
    const pdl_storage_t *storage = &oracle->system->storage;
    bool                 pfs = q->policy.store == PDL_POLICY_PFS;
    double               nodes = nodes_of(oracle->system, q->pe), share = read_share(q);
    double               client = pfs ? storage->client_bandwidth_bytes_per_s * storage->shared_efficiency
                                      : storage->local_bandwidth_bytes_per_s;
    double               shared = pfs ? storage->shared_bandwidth_bytes_per_s * storage->shared_efficiency : 0;

    out->read_s = share * pdl_policy_read_seconds((double)q->dataset->samples, q->dataset->bytes_per_sample, nodes,
                                                  client, shared);
    out->shared_limits = shared > 0 && (client <= 0 || shared < nodes * client);
    out->input_s =
        fmax(out->read_s, share * q->projection->staging_s * (double)q->dataset->samples / (double)q->batch);
}

static void project_storage(const pdl_oracle_t *oracle, const pdl_policy_question_t *q,
                            pdl_policy_projection_t *out)
{
    double all = (double)q->dataset->samples * q->dataset->bytes_per_sample;
    double per_node = ceil((double)q->workers / nodes_of(oracle->system, q->pe));

    out->capacity_bytes = oracle->system->storage.local_bytes;
    if (q->policy.shuffle != PDL_POLICY_GLOBAL)
        out->stored_share = (1 + q->policy.exchange) / (double)q->workers;
    else if (q->policy.store == PDL_POLICY_NODE)
        out->stored_share = 1;
    out->stored_bytes = out->stored_share * all;
    /* The workers of a node share one copy of everything, but each has samples of its own. */
    out->node_bytes = fmin(all, out->stored_bytes * (q->policy.shuffle == PDL_POLICY_GLOBAL ? 1 : per_node));
    out->fits = out->capacity_bytes <= 0 || out->node_bytes <= out->capacity_bytes;
}

static double startup(const pdl_oracle_t *oracle, int64_t pe)
{
    int    level = pdl_system_level_of_span(oracle->system, pe);
    double step = level > 0 ? oracle->p.network_step_s : oracle->p.fabric_step_s;

    return step > 0 ? step : oracle->system->level[level].latency_s;
}

/* A partial exchange sends sample by sample to random peers; a paired one sends to one peer after an allgather of
   scores. Slices run beside the passes of their iteration; the last is posted when nothing is left to run beside. */
static void project_exchange(const pdl_policy_question_t *q, double pass_s, pdl_policy_projection_t *out)
{
    double workers = (double)q->workers, bytes, messages;

    if (q->workers < 2) return;
    out->exchange_samples = pdl_policy_exchanged(q->policy.exchange, (double)q->dataset->samples, workers);
    if (out->exchange_samples <= 0) return;
    out->exchange_bytes = bytes = out->exchange_samples * q->dataset->bytes_per_sample;
    messages = out->exchange_samples;
    if (q->policy.shuffle == PDL_POLICY_PAIRED) {
        messages = 1 + ceil(log2(workers));
        bytes += SCORE_BYTES * workers;
    }
    out->exchange_total_s = pdl_policy_exchange_seconds(messages, out->startup_s, bytes, out->exchange_bytes_per_s);
    out->stall_s = pdl_policy_stall_seconds(out->exchange_total_s, out->iterations, pass_s);
    out->tail_s = out->exchange_total_s / out->iterations;
    out->exchange_s = out->iterations * out->stall_s + out->tail_s;
}

static void project_hiding(const pdl_policy_question_t *q, const iteration_t *it, pdl_policy_projection_t *out)
{
    double samples = (double)q->dataset->samples, batch = (double)q->batch;

    out->hidden = q->policy.hide_mean;
    if (q->policy.hide <= 0) return;
    out->select_s = SELECT_S * samples / (double)q->workers;
    if (q->workers > 1)
        out->select_s +=
            ceil(log2((double)q->workers)) * out->startup_s + STATE_BYTES * samples / out->exchange_bytes_per_s;
    out->saving = pdl_hiding_saving(it->forward_s / batch, it->backward_s / batch, it->sync_s, batch, out->hidden,
                                    out->select_s / samples, q->policy.refresh_every);
}

pdl_status_t pdl_oracle_policy(const pdl_oracle_t *oracle, const pdl_policy_question_t *q,
                               pdl_policy_projection_t *answer)
{
    pdl_policy_projection_t out = {.epochs = q->epochs > 0 ? q->epochs : STANDARD_EPOCHS};
    pdl_status_t            status = check(q);
    iteration_t             it;

    if (status) return status;
    it = split(q->projection);
    double full = (double)q->dataset->samples / (double)q->batch, hidden = q->policy.hide_mean;
    out.iterations = (1 - hidden) * full;
    out.startup_s = startup(oracle, q->pe);
    out.exchange_bytes_per_s = q->exchange_bytes_per_s > 0
                                   ? q->exchange_bytes_per_s
                                   : pdl_policy_exchange_rate(oracle->system, &oracle->p, q->pe, q->workers);
    out.pass_s = out.iterations * (it.forward_s + it.backward_s);
    if (q->policy.refresh_every > 0) out.pass_s += hidden * full * it.forward_s / (double)q->policy.refresh_every;
    out.sync_s = out.iterations * it.sync_s;
    project_hiding(q, &it, &out);
    project_reading(oracle, q, &out);
    project_storage(oracle, q, &out);
    project_exchange(q, it.forward_s + it.backward_s, &out);
    out.io_s = fmax(0, out.input_s - out.pass_s - out.sync_s);
    out.epoch_s = out.pass_s + out.sync_s + out.io_s + out.exchange_s + out.select_s;
    bool global = q->policy.shuffle == PDL_POLICY_GLOBAL;
    out.seen = pdl_policy_seen(global ? 1 : q->policy.exchange, (double)q->workers, out.epochs);
    out.never_left = global ? 0 : pdl_policy_never_left(q->policy.exchange, out.epochs);
    *answer = out;
    return PDL_OK;
}
