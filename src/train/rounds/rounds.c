/*
 * Rounds of periodic averaging (local SGD, FedAvg) and their relatives: SEM, in which models are exchanged before
 * the mean, and CADIS, in which groups of workers have equal weight.
 */
#include "base/clock.h"
#include "train/exec/finite.h"
#include "train/rounds/inside.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static pdl_status_t no_memory(const pdl__rounds_t *r)
{
    return pdl_error(PDL_ERR_NOMEM, "out of memory for %lld workers", (long long)r->workers);
}

static int64_t legs_of(const pdl_aggregate_options_t *o)
{
    return o->kind == PDL_AGGREGATE_SEM ? o->hops : 1;
}

/* Local epochs of a model at one worker. */
static int64_t epochs_of(const pdl_aggregate_options_t *o, int64_t leg)
{
    if (o->kind == PDL_AGGREGATE_SEM) return o->epochs[leg > 0];
    return o->steps > 0 ? 1 : o->epochs[0] + o->epochs[1];
}

/* Whether a worker uses its optimizer's state again, within a round or in the next one. */
static bool moments_stay(const pdl_aggregate_options_t *o)
{
    bool stay = o->keep_moments;

    for (int64_t leg = 0; leg < legs_of(o) && leg < 2; leg++) stay |= epochs_of(o, leg) > 1;
    return stay;
}

void pdl__rounds_plan(const pdl_aggregate_options_t *o, int64_t samples, int64_t batch, pdl__rounds_plan_t *plan)
{
    *plan = (pdl__rounds_plan_t){.steps = (samples + batch - 1) / batch, .rounds = 1};
    for (int64_t leg = 0; leg < legs_of(o); leg++) plan->epochs += epochs_of(o, leg);
    plan->segment = plan->steps;
    if (o->kind != PDL_AGGREGATE_LOCAL || o->steps < 1) return;
    if (o->steps < plan->steps) plan->segment = o->steps;
    plan->rounds = (plan->steps + plan->segment - 1) / plan->segment;
}

static pdl_status_t check(const pdl__rounds_t *r)
{
    const pdl_session_spec_t *session = &r->session->spec;
    int                       ranks = pdl_ranks_size(r->ranks);
    pdl_status_t              status = pdl_aggregate_check(&r->spec.options);

    if (status) return status;
    if (!session->separate || r->session->weights.workers > 1 || r->session->count * ranks != r->session->batch)
        return pdl_error(PDL_ERR_INPUT, "rounds need a session of separate replicas with equal batches");
    if (r->workers < ranks)
        return pdl_error(PDL_ERR_INPUT, "%lld workers on %d data-parallel ranks: use --workers %d or more",
                         (long long)r->workers, ranks, ranks);
    if (session->optimizer.ema > 0)
        return pdl_error(PDL_ERR_INPUT, "--aggregate %s averages weights itself: leave out --ema",
                         pdl_aggregation_names[r->spec.options.kind]);
    return PDL_OK;
}

static pdl_status_t take(pdl__rounds_t *r)
{
    const pdl_aggregate_options_t *o = &r->spec.options;
    int                            spares = pdl__model_exchange_spares(o, pdl_ranks_size(r->ranks));

    r->samples = calloc((size_t)r->workers, sizeof(*r->samples));
    r->share = calloc((size_t)r->workers, sizeof(*r->share));
    r->cluster = calloc((size_t)r->workers, sizeof(*r->cluster));
    r->weight_set = calloc((size_t)r->count, sizeof(*r->weight_set));
    r->before = calloc((size_t)r->count, sizeof(*r->before));
    r->local = calloc((size_t)r->count, sizeof(*r->local));
    if (!r->samples || !r->share || !r->cluster || !r->weight_set || !r->before || !r->local) return no_memory(r);
    for (int64_t w = 0; w < r->count; w++) r->weight_set[w] = 1 + (int)w;
    pdl_status_t status = pdl__worker_groups_init(&r->groups, r->workers, o->hops);
    if (!status) status = pdl__weight_sets_check(&r->session, 1, 1 + (int)r->count + spares, moments_stay(o));
    if (!status) status = pdl__weight_sets_take(r->session, 1 + (int)r->count + spares, moments_stay(o));
    if (!status && spares > 0) status = pdl__model_exchange_create(r, 1 + (int)r->count);
    if (!status && o->kind == PDL_AGGREGATE_CADIS) status = pdl__cadis_create(r);
    return status;
}

pdl_status_t pdl__rounds_create(const pdl__rounds_spec_t *spec, pdl__rounds_t **out)
{
    pdl__rounds_t *r = calloc(1, sizeof(*r));
    int64_t        last = 0;

    if (!r) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    r->spec = *spec;
    r->session = spec->session;
    r->workers = spec->workers;
    r->batch = r->session->count;
    pdl_status_t status = pdl_session_data_ranks(r->session, &r->ranks);
    if (!status) status = check(r);
    if (!status) {
        pdl_block_range(r->workers, pdl_ranks_size(r->ranks), pdl_ranks_rank(r->ranks), &r->first, &last);
        r->count = last - r->first;
        status = take(r);
    }
    status = pdl_ranks_agree(r->session->spec.ranks, status);
    if (!status)
        status =
            pdl__weight_set_sum_init(&r->sum, r->session, r->ranks, PDL__COMMON_SET, spec->options.keep_moments);
    if (status) {
        pdl__rounds_destroy(r);
        return status;
    }
    r->updates = pdl_session_updates(r->session);
    *out = r;
    return PDL_OK;
}

void pdl__rounds_destroy(pdl__rounds_t *r)
{
    if (!r) return;
    pdl__weight_set_sum_fini(&r->sum);
    pdl__cadis_destroy(r);
    pdl__model_exchange_destroy(r);
    pdl__weight_sets_give(r->session);
    pdl__worker_groups_fini(&r->groups);
    free(r->samples);
    free(r->share);
    free(r->cluster);
    free(r->weight_set);
    free(r->before);
    free(r->local);
    free(r);
}

void pdl__rounds_workers(const pdl__rounds_t *r, int64_t *first, int64_t *count)
{
    *first = r->first;
    *count = r->count;
}

pdl_status_t pdl__rounds_begin(pdl__rounds_t *r, const int64_t *samples, pdl__rounds_plan_t *plan)
{
    int64_t most = 0;

    memset(r->samples, 0, (size_t)r->workers * sizeof(*r->samples));
    for (int64_t w = 0; w < r->count; w++) r->samples[r->first + w] = (double)samples[w];
    pdl_status_t status = pdl_ranks_sum(r->ranks, r->samples, r->workers);
    if (status) return status;
    for (int64_t w = 0; w < r->workers; w++) {
        if (r->samples[w] < 1)
            return pdl_error(PDL_ERR_INPUT, "worker %lld has no samples: use fewer --workers", (long long)w);
        if ((int64_t)r->samples[w] > most) most = (int64_t)r->samples[w];
    }
    pdl__rounds_plan(&r->spec.options, most, r->batch, &r->plan);
    r->in_cycle = 0;
    *plan = r->plan;
    return PDL_OK;
}

/* One update of a worker on the model that is there. */
static pdl_status_t train_step(pdl__rounds_t *r, int64_t worker)
{
    pdl_batch_t       batch;
    pdl_step_result_t result;
    pdl_status_t      status = r->spec.next(r->spec.next_context, worker, &batch);

    if (!status && r->cadis.distills) status = pdl__cadis_teach(r, &batch, r->weight_set[worker]);
    if (!status) status = pdl_session_step(r->session, &batch, &result);
    if (status) return status;
    r->sums[0] += result.loss * result.samples;
    r->sums[1] += result.accuracy * result.samples;
    r->sums[2] += result.samples;
    r->stopped |= result.stop;
    if (r->spec.on_step) r->spec.on_step(r->spec.step_context, r->first + worker, &result);
    return PDL_OK;
}

/* `steps` updates of every worker, the first of which is number `update`. */
static pdl_status_t train_turn(pdl__rounds_t *r, int64_t update, int64_t steps)
{
    pdl_session_t *s = r->session;
    pdl_status_t   status = PDL_OK;

    for (int64_t w = 0; w < r->count && !status; w++) {
        double start_s = pdl__seconds();
        status = pdl__weight_set_select(s, r->weight_set[w]);
        /* Where weight sets share the optimizer's state, no worker uses it again. */
        if (!status && !s->weights.weight_set_moments) status = pdl__weight_set_clear_moments(s, PDL__COMMON_SET);
        pdl_session_set_updates(s, update);
        s->executor.draws_at = (r->first + w) * r->batch;
        for (int64_t i = 0; i < steps && !status && !r->stopped; i++) status = train_step(r, w);
        pdl__trace_span(s, PDL__MOMENT_TURN - (int)(r->first + w), start_s);
    }
    s->executor.draws_at = s->first;
    return status;
}

static int64_t steps_of_round(const pdl__rounds_t *r)
{
    int64_t left = r->plan.steps - r->in_cycle * r->plan.segment;

    return left < r->plan.segment ? left : r->plan.segment;
}

/* The training between two means, with the exchanges of models. */
static pdl_status_t train_round(pdl__rounds_t *r)
{
    const pdl_aggregate_options_t *o = &r->spec.options;
    pdl_session_t                 *s = r->session;
    int64_t                        update = r->updates, steps = steps_of_round(r);
    pdl_status_t                   status = PDL_OK;

    for (int64_t w = 0; w < r->count && !status; w++)
        status = pdl__weight_set_copy(s, PDL__COMMON_SET, r->weight_set[w], o->keep_moments);
    for (int64_t leg = 0; leg < legs_of(o) && !status; leg++) {
        double start_s = pdl__seconds();
        if (leg > 0) {
            status = pdl__model_exchange_run(r);
            pdl__trace_span(s, PDL__MOMENT_MOVE, start_s);
        }
        r->sums[3] += pdl__seconds() - start_s;
        if (!o->keep_moments) s->weights.moments_from = update;
        for (int64_t w = 0; w < r->count && s->weights.weight_set_moments && !o->keep_moments && !status; w++)
            status = pdl__weight_set_clear_moments(s, r->weight_set[w]);
        for (int64_t e = 0; e < epochs_of(o, leg) && !status; e++) {
            status = train_turn(r, update, steps);
            update += steps;
        }
    }
    r->updates = update;
    return status;
}

/* A model weighs as much as the samples it has seen. */
static void shares_by_samples(pdl__rounds_t *r)
{
    double all = 0;

    for (int64_t w = 0; w < r->workers; w++) {
        r->share[w] = 0;
        for (int64_t leg = 0; leg < legs_of(&r->spec.options); leg++)
            r->share[w] += r->samples[leg > 0 ? pdl__worker_groups_after(&r->groups, w, -leg) : w];
        all += r->share[w];
    }
    for (int64_t w = 0; w < r->workers; w++) r->share[w] /= all;
}

static pdl_status_t average(pdl__rounds_t *r, pdl__round_result_t *result)
{
    bool         moments = r->spec.options.keep_moments;
    pdl_status_t status = PDL_OK;

    result->mean = (pdl_mean_parts_t){.workers = r->workers, .share = r->share, .cluster = r->cluster};
    if (r->spec.options.kind == PDL_AGGREGATE_CADIS)
        status = pdl__cadis_shares(r, &result->mean);
    else
        shares_by_samples(r);
    if (status) return status;
    for (int64_t w = 0; w < r->count; w++) r->local[w] = r->share[r->first + w];
    status = pdl__weight_set_mean(r->session, (int)r->count, r->weight_set, r->local, PDL__COMMON_SET, moments);
    return status ? status : pdl__weight_set_sum_run(&r->sum);
}

/* Waits for all ranks, which decide together whether the round counts. */
static pdl_status_t meet(pdl__rounds_t *r, pdl__round_result_t *result)
{
    double       sums[4] = {r->sums[0], r->sums[1], r->sums[2], r->stopped};
    pdl_status_t status = pdl_ranks_sum(r->ranks, sums, 4);

    result->samples = sums[2];
    result->loss = sums[2] > 0 ? sums[0] / sums[2] : 0;
    result->accuracy = sums[2] > 0 ? sums[1] / sums[2] : 0;
    result->stop = sums[3] > 0;
    return status;
}

pdl_status_t pdl__rounds_run(pdl__rounds_t *r, pdl__round_result_t *result)
{
    const pdl_aggregate_options_t *o = &r->spec.options;
    double                         start_s = pdl__seconds(), bytes = r->bytes + pdl__weight_set_sum_bytes(&r->sum);
    int64_t                        before = r->updates;

    *result = (pdl__round_result_t){.round = r->round};
    if (r->in_cycle >= r->plan.rounds)
        return pdl_error(PDL_ERR_INPUT, "the cycle has no more than %lld rounds: begin the next one first",
                         (long long)r->plan.rounds);
    memset(r->sums, 0, sizeof(r->sums));
    memset(r->cadis.trust, 0, sizeof(r->cadis.trust));
    r->stopped = false;
    r->cadis.distills = o->kind == PDL_AGGREGATE_CADIS && o->distill > 0 && r->round > 0;
    pdl__worker_groups_draw(&r->groups, o->seed, r->round);
    pdl_status_t status = train_round(r);
    if (!status) status = pdl__finite_agree(r->session, r->session->replica);
    result->train_s = pdl__seconds() - start_s - r->sums[3];
    start_s = pdl__seconds();
    if (!status) status = meet(r, result);
    if (!status && !result->stop) status = average(r, result);
    pdl__trace_span(r->session, PDL__MOMENT_MEAN, start_s);
    if (result->stop) r->updates = before;
    if (!status) status = pdl__weight_set_select(r->session, PDL__COMMON_SET);
    if (!status && !o->keep_moments) status = pdl__weight_set_clear_moments(r->session, PDL__COMMON_SET);
    pdl_session_set_updates(r->session, r->updates);
    result->updates = r->updates - before;
    result->exchange_s = pdl__seconds() - start_s + r->sums[3];
    result->bytes = r->bytes + pdl__weight_set_sum_bytes(&r->sum) - bytes;
    if (!result->stop) {
        r->round++;
        r->in_cycle++;
    }
    return status;
}

const double *pdl__rounds_state(pdl__rounds_t *r, int64_t *count)
{
    double *state = r->cadis.state ? r->cadis.state : r->state;

    *count = r->cadis.state ? pdl__cadis_numbers(r) : 1;
    state[0] = (double)r->round;
    return state;
}

pdl_status_t pdl__rounds_restore(pdl__rounds_t *r, const double *numbers, int64_t count)
{
    int64_t wanted = r->cadis.state ? pdl__cadis_numbers(r) : 1;

    if (count != wanted || !(numbers[0] >= 0 && numbers[0] < 1e15))
        return pdl_error(PDL_ERR_INPUT,
                         "the checkpoint is of rounds with other workers or another --aggregate than %s",
                         pdl_aggregation_names[r->spec.options.kind]);
    if (r->cadis.state) memcpy(r->cadis.state, numbers, (size_t)count * sizeof(*numbers));
    r->round = (int64_t)numbers[0];
    r->updates = pdl_session_updates(r->session);
    return PDL_OK;
}

void pdl__rounds_skip(pdl__rounds_t *r, int64_t rounds)
{
    r->in_cycle = rounds;
}
