/*
 * One batch by all nets of an ensemble: forward of all of them, the common loss, then backward.
 */
#include "base/clock.h"
#include "train/exec/finite.h"
#include "train/rounds/ensemble_inside.h"
#include "train/run/evaluate.h"
#include <math.h>
#include <paradl/base/random.h>
#include <string.h>

void pdl__ensemble_look(void *context, const pdl_logits_t *logits)
{
    pdl__net_t *net = context;

    memcpy(net->logits + logits->first * logits->classes, logits->values,
           (size_t)(logits->samples * logits->classes) * sizeof(float));
    net->extra = logits->extra;
    net->scale = logits->scale;
}

/* Beta(alpha, alpha) by Joehnk's rejection: for the small alpha that mixing uses nearly every pair is taken. */
static double draw_beta(uint64_t seed, uint64_t stream, double alpha)
{
    for (uint64_t i = 0; i < 1000; i++) {
        double a = pow(pdl_random_uniform(seed, stream, 2 * i), 1 / alpha);
        double b = pow(pdl_random_uniform(seed, stream, 2 * i + 1), 1 / alpha);
        if (a + b > 0 && a + b <= 1) return a / (a + b);
    }
    return 1;
}

/* The same pairs in the same proportion for all nets: drawn once, before the views part. */
static void draw_mixture(pdl__ensemble_t *e, int64_t worker)
{
    const pdl_aggregate_options_t *o = &e->spec.options;
    uint64_t                       update = (uint64_t)pdl_session_updates(e->net[0].session);

    e->mix = 1;
    if (o->mixup <= 0) return;
    e->mix = draw_beta(o->seed, pdl_random_stream("mixup", (uint64_t)worker, update), o->mixup);
    pdl_random_permutation(o->seed, pdl_random_stream("mixup pairs", (uint64_t)worker, update), e->batch,
                           e->partner);
}

static void mix(const pdl__ensemble_t *e, pdl__net_t *net)
{
    pdl_shape_t shape = pdl_model_input(e->model);
    int64_t     elements = pdl_shape_elements(&shape);

    if (!net->mixed) return;
    for (int64_t i = 0; i < e->batch; i++) {
        const float *own = net->batch.values + i * elements, *other = net->batch.values + e->partner[i] * elements;
        for (int64_t k = 0; k < elements; k++)
            net->mixed[i * elements + k] = (float)e->mix * own[k] + (float)(1 - e->mix) * other[k];
    }
    net->batch.values = net->mixed;
}

/* The loss of a mixture has both labels in proportion: what the session's own has too much of the first goes to the
   other. */
static void mix_labels(const pdl__ensemble_t *e, pdl__net_t *net, int64_t i)
{
    float part = (float)((1 - e->mix) * net->scale * (double)net->batch.weight[i]);

    if (e->mix >= 1) return;
    net->extra[i * e->classes + net->batch.labels[i]] += part;
    net->extra[i * e->classes + net->batch.labels[e->partner[i]]] -= part;
}

/* The class that the mean of the logits is largest for; -1: none, as one is not finite. */
static int64_t answer(const pdl__ensemble_t *e, int64_t i)
{
    int64_t best = 0;
    double  largest = -INFINITY;

    for (int64_t c = 0; c < e->classes; c++) {
        double sum = 0;
        for (int n = 0; n < e->nets; n++) sum += (double)e->net[n].logits[i * e->classes + c];
        if (!isfinite(sum)) return -1;
        if (sum > largest) {
            largest = sum;
            best = c;
        }
    }
    return best;
}

static void add_common_loss(pdl__ensemble_t *e)
{
    const float *weight = e->net[0].batch.weight;

    for (int64_t i = 0; i < e->batch; i++) {
        const float *logits[PDL__MAX_NETS];
        float       *extra[PDL__MAX_NETS];
        if (weight[i] == 0) continue;
        for (int n = 0; n < e->nets; n++) {
            logits[n] = e->net[n].logits + i * e->classes;
            extra[n] = e->net[n].extra + i * e->classes;
            mix_labels(e, &e->net[n], i);
        }
        e->sums[1] += answer(e, i) == e->net[0].batch.labels[i];
        e->sums[2] += pdl__agree(e->nets, e->classes, logits, e->weight * e->net[0].scale * (double)weight[i],
                                 e->work, extra);
        e->sums[3] += 1;
    }
}

pdl_status_t pdl__ensemble_step(pdl__ensemble_t *e, int64_t worker)
{
    pdl_status_t status = PDL_OK;

    draw_mixture(e, worker);
    for (int n = 0; n < e->nets && !status; n++) {
        pdl__net_t *net = &e->net[n];
        status = e->spec.views.next(e->spec.views.context, n, &net->batch);
        if (status) break;
        mix(e, net);
        net->session->executor.draws_at = worker * e->batch;
        status = pdl_session_step_begin(net->session, &net->batch);
    }
    if (!status && e->judges) add_common_loss(e);
    for (int n = 0; n < e->nets && !status; n++) {
        pdl_step_result_t result;
        status = pdl_session_step_finish(e->net[n].session, &e->net[n].batch, &result);
        e->sums[0] += e->judges ? result.loss * result.samples : 0;
        e->sums[4] += e->judges ? result.samples : 0;
        e->stopped |= result.stop;
        e->net[n].session->executor.draws_at = e->net[n].session->first;
    }
    return status;
}

/* Cross-entropy of the mean of the logits. */
static double loss_of(const pdl__ensemble_t *e, int64_t i, int32_t label)
{
    double *mean = e->work, largest = -INFINITY, sum = 0;

    for (int64_t c = 0; c < e->classes; c++) {
        mean[c] = 0;
        for (int n = 0; n < e->nets; n++) mean[c] += (double)e->net[n].logits[i * e->classes + c] / e->nets;
        largest = fmax(largest, mean[c]);
    }
    for (int64_t c = 0; c < e->classes; c++) sum += exp(mean[c] - largest);
    return largest + log(sum) - mean[label];
}

pdl_status_t pdl__ensemble_evaluate(pdl__ensemble_t *e, const pdl_batch_t *batch, pdl_step_result_t *result)
{
    double       sums[5] = {0, 0, 0, e->net[0].session->stop}, start_s = pdl__seconds();
    pdl_status_t status = PDL_OK;

    *result = (pdl_step_result_t){0};
    for (int n = 0; n < e->nets && !status; n++) {
        pdl__execution_t execution = {.batch = batch, .mode = PDL__EXECUTE_EVALUATE};
        status = pdl__session_execute(e->net[n].session, e->net[n].session->forward_program, &execution);
    }
    for (int64_t i = 0; i < e->batch && !status && e->judges; i++) {
        if (batch->weight[i] == 0 || batch->labels[i] < 0) continue;
        sums[0] += loss_of(e, i, batch->labels[i]);
        sums[1] += answer(e, i) == batch->labels[i];
        sums[2] += 1;
    }
    sums[4] = e->net[0].session->observer.not_finite; /* all nets see the same samples */
    if (!status) status = pdl_ranks_sum(e->spec.session.ranks, sums, 5);
    if (!status && sums[4] > 0) status = pdl__finite_agree(e->net[0].session, e->spec.session.ranks);
    result->samples = sums[2];
    result->loss = sums[2] > 0 ? sums[0] / sums[2] : 0;
    result->accuracy = sums[2] > 0 ? sums[1] / sums[2] : 0;
    result->stop = sums[3] > 0;
    if (!status && !isfinite(result->loss))
        status = pdl_error(PDL_ERR_NOT_FINITE,
                           "the loss of the mean of %d nets is not finite: lower the learning rate", e->nets);
    result->step_s = result->compute_s = pdl__seconds() - start_s;
    return status;
}

static pdl_status_t evaluate_ensemble(void *ensemble, const pdl_batch_t *batch, pdl_step_result_t *result)
{
    return pdl__ensemble_evaluate(ensemble, batch, result);
}

pdl_status_t pdl__ensemble_score(pdl__ensemble_t *e, pdl_source_t *source, int loader_threads, bool normalise,
                                 pdl_score_t *score)
{
    const pdl_source_t *trained = e->net[0].session->observer.source;

    e->net[0].session->observer.source = source;
    pdl_status_t status =
        pdl__score(e->net[0].session, evaluate_ensemble, e, source, loader_threads, normalise, score);
    e->net[0].session->observer.source = trained;
    return status;
}
