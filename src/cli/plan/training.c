/*
 * --tokens and --epochs of paradl plan: how long a training is.
 */
#include "cli/plan/plan.h"

static pdl_status_t count_tokens(const pdl__plan_asked_t *v, pdl__plan_question_t *q)
{
    pdl_shape_t input = pdl_model_input(q->model);
    char        number[PDL_FORMAT_SIZE];

    if (!input.sequence)
        return pdl_error(PDL_ERR_INPUT, "--tokens: samples of %s are no sequences; say --epochs with --data",
                         v->model);
    q->samples = v->tokens / (double)input.extent[0];
    snprintf(q->training, sizeof(q->training), "%s tokens", pdl_format_short(v->tokens, number));
    return PDL_OK;
}

pdl_status_t pdl__plan_training(const pdl__plan_asked_t *v, pdl__plan_question_t *q)
{
    if (v->tokens > 0 && v->epochs > 0) return pdl_error(PDL_ERR_INPUT, "--tokens and --epochs exclude each other");
    if (v->tokens > 0) return count_tokens(v, q);
    if (v->epochs <= 0) return PDL_OK;
    if (v->data == NULL || q->dataset.samples <= 0)
        return pdl_error(PDL_ERR_INPUT, "--epochs needs a data set that ends: name one with --data");
    q->samples = v->epochs * (double)q->dataset.samples;
    snprintf(q->training, sizeof(q->training), "%g epochs of %.60s", v->epochs, q->dataset.name);
    return PDL_OK;
}

const pdl_ownership_t *pdl__plan_own(const pdl__plan_question_t *q, const pdl_search_t *search,
                                     pdl_ownership_t *cost)
{
    if (q->samples <= 0 || search->possible == 0) return NULL;
    pdl_ownership_project(q->system, search->candidates[0].plan, &search->candidates[0].projection, q->samples,
                          cost);
    return cost;
}
