/*
 * What a session tells of samples: after training steps, and in the pass over hidden samples whose losses are to be
 * known when the next choice is made.
 */
#include "train/sampling/parts.h"
#include <math.h>

pdl_status_t pdl__sampling_note(pdl__sampling_t *s, const pdl_batch_t *batch, int64_t position)
{
    pdl_status_t         status = pdl_session_gather_samples(s->session);
    pdl_sample_results_t results = pdl_session_samples(s->session);

    if (!status && pdl_session_reports(s->session))
        pdl_hide_note(s->hide, position + s->session->first, batch->index, results.loss, results.correct,
                      results.confidence, results.count);
    return status;
}

void pdl__batch_confidence(void *context, const pdl_logits_t *logits)
{
    (void)context;
    for (int64_t n = 0; n < logits->samples; n++) logits->confidence[n] = 0;
    for (int64_t c = 0; c < logits->classes; c++) {
        const float *column = logits->values + c;
        double       most = -INFINITY, sum = 0;
        for (int64_t n = 0; n < logits->samples; n++) most = fmax(most, (double)column[n * logits->classes]);
        for (int64_t n = 0; n < logits->samples; n++) sum += exp((double)column[n * logits->classes] - most);
        for (int64_t n = 0; n < logits->samples; n++) {
            float share = (float)(exp((double)column[n * logits->classes] - most) / sum);
            if (share > logits->confidence[n]) logits->confidence[n] = share;
        }
    }
}

typedef struct list {
    const int64_t *ids;
    int64_t        count;
} list_t;

/* A pdl_order_fn_t. */
static pdl_status_t list_order(void *context, int64_t epoch, int64_t step, int64_t count, int64_t *indices)
{
    const list_t *list = context;

    (void)epoch;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = step * count + i;
        indices[i] = at < list->count ? list->ids[at] : -1;
    }
    return PDL_OK;
}

/* Batches that the rank with the most hidden samples needs: all have to take part in every one. */
static pdl_status_t count_batches(pdl__sampling_t *s, const list_t *list, int64_t samples, int64_t *batches)
{
    double       most = (double)((list->count + samples - 1) / samples);
    pdl_status_t status = pdl_ranks_max(s->options->session.ranks, &most, 1);

    *batches = (int64_t)most;
    return status;
}

pdl_status_t pdl__sampling_refresh(pdl__sampling_t *s)
{
    list_t            list = {0};
    pdl_loader_spec_t spec = pdl__sampling_loader(s);
    pdl_loader_t     *loader = NULL;
    pdl_status_t      status;

    list.ids = pdl_shuffle_hidden(s->shuffle, &list.count);
    spec.order = list_order;
    spec.order_context = &list;
    status = count_batches(s, &list, spec.samples, &spec.steps_per_epoch);
    if (status || spec.steps_per_epoch == 0) return status;
    /* Weights of workers differ in statistics only, and what is hidden should not depend on which one looks. */
    if (!s->options->sampling.refresh_training) status = pdl_session_mean_statistics(s->session, true);
    if (!status) status = pdl_ranks_agree(s->options->session.ranks, pdl_loader_create(&spec, &loader));
    /* The loader augments as it does in this epoch. */
    if (!status) status = pdl_loader_seek(loader, s->epoch, 0);
    for (int64_t i = 0; i < spec.steps_per_epoch && !status; i++) {
        pdl_batch_t       batch;
        pdl_step_result_t result;
        status = pdl_ranks_agree(s->options->session.ranks, pdl_loader_next(loader, &batch));
        if (!status)
            status = s->options->sampling.refresh_training ? pdl_session_pass(s->session, &batch, &result)
                                                           : pdl_session_evaluate(s->session, &batch, &result);
        if (!status) status = pdl__sampling_note(s, &batch, (s->steps + i) * s->batch);
    }
    pdl_loader_destroy(loader);
    return status ? status : pdl_session_mean_statistics(s->session, false);
}
