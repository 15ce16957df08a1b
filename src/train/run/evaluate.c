/*
 * Scoring a session on all samples of a data set, each counted once whatever the number of ranks.
 */
#include "train/run/evaluate.h"
#include "base/clock.h"
#include "train/exec/input.h"
#include <paradl/comm/watch.h>

pdl_status_t pdl__score(const pdl_session_t *session, pdl__evaluate_fn_t evaluate, void *context,
                        pdl_source_t *source, int loader_threads, bool normalise, pdl_score_t *score)
{
    pdl_global_order_t order = {.samples = pdl_source_info(source)->samples,
                                .batch = session->batch,
                                .first = session->first,
                                .keep_rest = true,
                                .epoch = -1};
    pdl_loader_spec_t  spec = {.source = source,
                               .samples = session->count,
                               .order = pdl_global_order,
                               .order_context = &order,
                               .steps_per_epoch = pdl_global_order_steps(&order),
                               .threads = loader_threads,
                               .depth = 2,
                               .normalise = normalise,
                               .device = pdl__input_device(session)};
    double             start_s = pdl__seconds(), sums[3] = {0, 0, 0};
    bool               stopped = false;
    pdl_loader_t      *loader = NULL;
    pdl_status_t       status = pdl_ranks_agree(session->spec.ranks, pdl_loader_create(&spec, &loader));

    for (int64_t i = 0; i < spec.steps_per_epoch && !status && !stopped; i++) {
        pdl_batch_t       batch;
        pdl_step_result_t result;
        pdl_watch_at(session->spec.ranks,
                     &(pdl_watch_place_t){.update = session->updates, .doing = "waiting for samples"});
        status = pdl_ranks_agree(session->spec.ranks, pdl_loader_next(loader, &batch));
        if (!status) status = evaluate(context, &batch, &result);
        if (status) break;
        sums[0] += result.loss * result.samples;
        sums[1] += result.accuracy * result.samples;
        sums[2] += result.samples;
        stopped = result.stop;
    }
    pdl_loader_destroy(loader);
    pdl_global_order_free(&order);
    if (status) return status;
    *score = (pdl_score_t){sums[0] / sums[2], sums[1] / sums[2], sums[2], pdl__seconds() - start_s, stopped};
    return PDL_OK;
}

static pdl_status_t evaluate_session(void *session, const pdl_batch_t *batch, pdl_step_result_t *result)
{
    return pdl_session_evaluate(session, batch, result);
}

pdl_status_t pdl_evaluate(pdl_session_t *session, pdl_source_t *source, int loader_threads, bool normalise,
                          pdl_score_t *score)
{
    const pdl_source_t *trained = session->observer.source;

    session->observer.source = source;
    pdl_status_t status = pdl__score(session, evaluate_session, session, source, loader_threads, normalise, score);
    session->observer.source = trained;
    return status;
}
