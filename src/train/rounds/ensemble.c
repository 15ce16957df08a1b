/*
 * Rounds of an ensemble (FedDCT, IEEE TNSM 21(1), 2024): clusters of workers, turns in a cluster, means over
 * clusters.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "train/rounds/ensemble_inside.h"
#include <math.h>
#include <paradl/base/random.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_AGREEMENT 0.005 /* as the released program has it */

double pdl__ensemble_weight(const pdl_aggregate_options_t *o, int64_t round)
{
    double at = o->published_warmup ? 1 : (double)round;
    double part = o->agreement_warmup > 0 ? fmin(1, at / (double)o->agreement_warmup) : 1;

    return o->agreement > 0 ? fmax(o->agreement * part, fmin(LEAST_AGREEMENT, o->agreement)) : 0;
}

static pdl_status_t check(const pdl__ensemble_t *e)
{
    const pdl_plan_t *plan = e->spec.session.plan;
    int64_t           ranks = pdl_mesh_size(&plan->mesh);
    pdl_status_t      status = pdl_aggregate_check(&e->spec.options);
    int64_t           parts = pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE);

    if (status) return status;
    if (pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA) * parts != ranks || parts > 2 || plan->micro_batches > 1)
        return pdl_error(
            PDL_ERR_INPUT,
            "--aggregate feddct keeps nets whole, or stems and bodies on two ranks: use --strategy data, "
            "or pipeline with 2 stages, and leave out --micro-batches");
    if (plan->batch % pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA) != 0 || e->workers < e->nets)
        return pdl_error(PDL_ERR_INPUT, "--aggregate feddct needs %d workers or more, not %lld: lower --nets",
                         e->nets, (long long)e->workers);
    if (e->spec.session.optimizer.ema > 0)
        return pdl_error(PDL_ERR_INPUT, "--aggregate feddct averages weights itself: leave out --ema");
    return PDL_OK;
}

/* The plan of one net: as that of the whole, as far as it applies. Two stages are the stem and the body. */
static pdl_status_t plan_net(pdl__ensemble_t *e)
{
    const pdl_plan_t *whole = e->spec.session.plan;
    bool              parts = pdl_mesh_extent(&whole->mesh, PDL_AXIS_PIPELINE) > 1;
    bool              data = pdl_mesh_extent(&whole->mesh, PDL_AXIS_DATA) > 1;
    pdl_status_t      status = pdl_model_divide(whole->model, e->nets, &e->model);

    if (!status) status = pdl_plan_create(e->model, &whole->mesh, whole->batch, &e->plan);
    if (!status)
        status = pdl_plan_apply_preset(e->plan, !parts ? "data" : data ? "data+pipeline" : "pipeline", NULL);
    if (status) return status;
    if (parts) {
        e->plan->stage_first[1] = pdl_model_cut(e->model) + 1;
        e->plan->stages_given = true;
        return pdl_plan_check(e->plan);
    }
    e->plan->recompute = whole->recompute;
    e->plan->precision = whole->precision;
    e->plan->optimizer = whole->optimizer;
    return pdl_plan_set_blocks(e->plan, whole->block, whole->block_count);
}

static pdl_status_t create_net(pdl__ensemble_t *e, int i)
{
    pdl__net_t        *net = &e->net[i];
    pdl_session_spec_t spec = e->spec.session;

    spec.plan = e->plan;
    spec.separate = true;
    spec.seed = e->spec.session.seed + (uint64_t)i;
    spec.logits = pdl__ensemble_look;
    spec.logits_context = net;
    pdl_status_t status = pdl_session_create(&spec, &net->session);
    if (status) return status;
    e->batch = net->session->count;
    e->classes = net->session->executor.logits.classes;
    e->judges = net->session->graph->loss >= 0;
    net->logits = calloc((size_t)(e->batch * e->classes) + 1, sizeof(*net->logits));
    if (e->spec.options.mixup > 0) {
        pdl_shape_t shape = pdl_model_input(e->model);
        net->mixed = calloc((size_t)(e->batch * pdl_shape_elements(&shape)), sizeof(*net->mixed));
    }
    if (!net->logits || (e->spec.options.mixup > 0 && !net->mixed)) status = pdl__no_memory("for an ensemble");
    if (!status) status = pdl_session_data_ranks(net->session, &e->ranks);
    return pdl_ranks_agree(spec.ranks, status);
}

/* Who takes which clusters is the same in every round. */
static pdl_status_t take(pdl__ensemble_t *e)
{
    size_t workers = (size_t)e->workers;

    e->clusters = (e->workers + e->nets - 1) / e->nets;
    pdl_block_range(e->clusters, pdl_ranks_size(e->ranks), pdl_ranks_rank(e->ranks), &e->first, &e->last);
    e->order = calloc(workers, sizeof(*e->order));
    e->samples = calloc(workers, sizeof(*e->samples));
    e->share = calloc((size_t)e->clusters, sizeof(*e->share));
    e->weight_set = calloc((size_t)e->clusters, sizeof(*e->weight_set));
    e->work = calloc((size_t)((e->nets + 1) * e->classes), sizeof(*e->work));
    e->partner = calloc((size_t)e->batch, sizeof(*e->partner));
    if (!e->order || !e->samples || !e->share || !e->weight_set || !e->work || !e->partner)
        return pdl__no_memory("for an ensemble");
    for (int64_t c = 0; c < e->clusters; c++) e->weight_set[c] = 1 + (int)c;
    pdl_session_t *session[PDL__MAX_NETS];
    bool           moments = e->spec.options.keep_moments;
    int            sets = 1 + (int)(e->last - e->first);
    for (int i = 0; i < e->nets; i++) session[i] = e->net[i].session;
    pdl_status_t status = pdl__weight_sets_check(session, e->nets, sets, moments);
    for (int i = 0; i < e->nets && !status; i++) status = pdl__weight_sets_take(session[i], sets, moments);
    return status;
}

pdl_status_t pdl__ensemble_create(const pdl__ensemble_spec_t *spec, pdl__ensemble_t **out)
{
    pdl__ensemble_t *e = calloc(1, sizeof(*e));

    if (!e) return pdl__no_memory("for an ensemble");
    e->spec = *spec;
    e->workers = spec->workers;
    e->nets = (int)spec->options.nets;
    pdl_status_t status = check(e);
    if (!status) {
        e->net = calloc((size_t)e->nets, sizeof(*e->net));
        status = e->net ? plan_net(e) : pdl__no_memory("for an ensemble");
    }
    status = pdl_ranks_agree(spec->session.ranks, status);
    for (int i = 0; i < e->nets && !status; i++) status = create_net(e, i);
    if (!status) status = pdl_ranks_agree(spec->session.ranks, take(e));
    for (int i = 0; i < e->nets && !status; i++)
        status =
            pdl__weight_set_sum_init(&e->net[i].sum, e->net[i].session, e->ranks, 0, spec->options.keep_moments);
    if (status) {
        pdl__ensemble_destroy(e);
        return status;
    }
    *out = e;
    return PDL_OK;
}

void pdl__ensemble_destroy(pdl__ensemble_t *e)
{
    if (!e) return;
    for (int i = 0; e->net && i < e->nets; i++) {
        pdl__weight_set_sum_fini(&e->net[i].sum);
        pdl_session_destroy(e->net[i].session);
        free(e->net[i].logits);
        free(e->net[i].mixed);
    }
    free(e->net);
    if (e->plan) pdl_plan_destroy(e->plan);
    pdl_model_destroy(e->model);
    free(e->order);
    free(e->samples);
    free(e->share);
    free(e->weight_set);
    free(e->work);
    free(e->partner);
    free(e);
}

pdl_session_t *pdl__ensemble_net(const pdl__ensemble_t *e, int i)
{
    return e->net[i].session;
}

void pdl__ensemble_restore(pdl__ensemble_t *e, int64_t rounds)
{
    e->round = rounds;
    e->updates = pdl_session_updates(e->net[0].session);
}

pdl_status_t pdl__ensemble_begin(pdl__ensemble_t *e, const int64_t *samples, int64_t *steps)
{
    int64_t most = 0;

    for (int64_t w = 0; w < e->workers; w++) {
        if (samples[w] < 1)
            return pdl_error(PDL_ERR_INPUT, "worker %lld has no samples: use fewer --workers", (long long)w);
        if (samples[w] > most) most = samples[w];
        e->samples[w] = (double)samples[w];
    }
    *steps = e->steps = (most + e->batch - 1) / e->batch;
    return PDL_OK;
}

/* Clusters of the round, and what each counts in the mean: as much as its samples. */
static void draw_clusters(pdl__ensemble_t *e)
{
    double all = 0;

    pdl_random_permutation(e->spec.options.seed, pdl_random_stream("ensemble", (uint64_t)e->round, 0), e->workers,
                           e->order);
    memset(e->share, 0, (size_t)e->clusters * sizeof(*e->share));
    for (int64_t p = 0; p < e->workers; p++) {
        e->share[p / e->nets] += e->samples[e->order[p]];
        all += e->samples[e->order[p]];
    }
    for (int64_t c = 0; c < e->clusters; c++) e->share[c] /= all;
}

/* Every worker of a cluster in turn. */
static pdl_status_t train_cluster(pdl__ensemble_t *e, int64_t cluster)
{
    const pdl_aggregate_options_t *o = &e->spec.options;
    int64_t      end = (cluster + 1) * e->nets < e->workers ? (cluster + 1) * e->nets : e->workers;
    int          set = e->weight_set[cluster - e->first];
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < e->nets && !status; i++) {
        pdl_session_t *s = e->net[i].session;
        status = pdl__weight_set_copy(s, 0, set, o->keep_moments);
        if (!status && !o->keep_moments) status = pdl__weight_set_clear_moments(s, set);
        s->weights.moments_from = o->keep_moments ? 0 : e->updates;
        pdl_session_set_updates(s, e->updates);
        if (!status) status = pdl__weight_set_select(s, set);
    }
    for (int64_t p = cluster * e->nets; p < end && !status; p++) {
        double start_s = pdl__seconds();
        for (int64_t epoch = 0; epoch < o->epochs[0] && !status && !e->stopped; epoch++) {
            status = e->spec.views.open(e->spec.views.context, e->order[p], epoch);
            for (int64_t step = 0; step < e->steps && !status && !e->stopped; step++)
                status = pdl__ensemble_step(e, e->order[p]);
        }
        for (int i = 0; i < e->nets; i++)
            pdl__trace_span(e->net[i].session, PDL__MOMENT_TURN - (int)e->order[p], start_s);
    }
    return status;
}

static pdl_status_t average(pdl__ensemble_t *e)
{
    bool         moments = e->spec.options.keep_moments;
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < e->nets && !status; i++) {
        double start_s = pdl__seconds();
        status = pdl__weight_set_mean(e->net[i].session, (int)(e->last - e->first), e->weight_set,
                                      e->share + e->first, 0, moments);
        if (!status) status = pdl__weight_set_sum_run(&e->net[i].sum);
        pdl__trace_span(e->net[i].session, PDL__MOMENT_MEAN, start_s);
    }
    return status;
}

/* The common weights are what the nets mean between rounds. */
static pdl_status_t leave_round(pdl__ensemble_t *e)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < e->nets && !status; i++) {
        status = pdl__weight_set_select(e->net[i].session, 0);
        if (!status && !e->spec.options.keep_moments) status = pdl__weight_set_clear_moments(e->net[i].session, 0);
        pdl_session_set_updates(e->net[i].session, e->updates);
    }
    return status;
}

static pdl_status_t meet(pdl__ensemble_t *e, pdl__ensemble_result_t *result)
{
    double       sums[6] = {e->sums[0], e->sums[1], e->sums[2], e->sums[3], e->sums[4], e->stopped};
    pdl_status_t status = pdl_ranks_sum(e->spec.session.ranks, sums, 6);

    result->samples = sums[3];
    result->loss = sums[4] > 0 ? sums[0] / sums[4] : 0;
    result->accuracy = sums[3] > 0 ? sums[1] / sums[3] : 0;
    result->agreement = sums[3] > 0 ? sums[2] / sums[3] : 0;
    result->stop = sums[5] > 0;
    return status;
}

pdl_status_t pdl__ensemble_run(pdl__ensemble_t *e, pdl__ensemble_result_t *result)
{
    double       start_s = pdl__seconds();
    int64_t      updates = e->nets * e->spec.options.epochs[0] * e->steps;
    pdl_status_t status = PDL_OK;

    e->weight = pdl__ensemble_weight(&e->spec.options, e->round);
    *result = (pdl__ensemble_result_t){.round = e->round, .weight = e->weight};
    memset(e->sums, 0, sizeof(e->sums));
    e->stopped = false;
    draw_clusters(e);
    for (int64_t c = e->first; c < e->last && !status; c++) status = train_cluster(e, c);
    result->train_s = pdl__seconds() - start_s;
    start_s = pdl__seconds();
    if (!status) status = meet(e, result);
    if (!status && !result->stop) {
        status = average(e);
        e->updates += updates;
        e->round++;
        result->updates = updates;
    }
    if (!status) status = leave_round(e);
    result->exchange_s = pdl__seconds() - start_s;
    return status;
}

/* What the ranks of a stem and of a body hold and send, where these are two. */
static pdl_status_t count_parts(const pdl__ensemble_t *e, pdl__ensemble_report_t *report)
{
    int    stage = e->net[0].session->layouts->stages->at;
    double figures[3] = {0, 0, 0}, groups = (double)pdl_mesh_extent(&e->plan->mesh, PDL_AXIS_DATA);

    if (pdl_mesh_extent(&e->plan->mesh, PDL_AXIS_PIPELINE) == 1) return PDL_OK;
    for (int i = 0; i < e->nets; i++) {
        pdl_session_memory_t  memory;
        pdl_session_traffic_t traffic;

        pdl_session_memory(e->net[i].session, &memory);
        pdl_session_traffic(e->net[i].session, &traffic);
        figures[stage] += (double)(memory.total - pdl__weight_sets_bytes(e->net[i].session)) / groups;
        figures[2] += traffic.stages / groups;
    }
    pdl_status_t status = pdl_ranks_sum(e->spec.session.ranks, figures, 3);
    report->stem_bytes = figures[0];
    report->body_bytes = figures[1];
    report->sent_bytes = figures[2];
    return status;
}

pdl_status_t pdl__ensemble_report(const pdl__ensemble_t *e, pdl__ensemble_report_t *report)
{
    const pdl_layer_t *cut = pdl_model_layer(e->model, pdl_model_cut(e->model));
    pdl_model_totals_t whole, net;

    pdl_model_totals(e->spec.session.plan->model, &whole);
    pdl_model_totals(e->model, &net);
    *report =
        (pdl__ensemble_report_t){.whole_weights = whole.weights,
                                 .net_weights = net.weights,
                                 .cut = cut->name,
                                 .cut_bytes = 2.0 * (e->nets - 1) *
                                              (double)(e->batch * pdl_shape_elements(&cut->out)) * sizeof(float),
                                 .logit_bytes = (double)e->nets * (double)(e->batch * e->classes) * sizeof(float)};
    pdl_session_memory(e->net[0].session, &report->net);
    report->net.weights -= pdl__weight_sets_bytes(e->net[0].session);
    report->net.total -= pdl__weight_sets_bytes(e->net[0].session);
    return count_parts(e, report);
}
