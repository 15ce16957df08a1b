/*
 * Language models for sequences of another length: what is said of a token does not depend on how many follow.
 */
#include "model/builder.h"
#include "model/internal.h"

#include <paradl/model/model.h>

/* Whether a layer makes of every position what it has there and before. */
static bool is_causal(const pdl_layer_t *layer)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);

    if (traits->source || traits->loss != PDL_LOSS_NONE || traits->tokens) return true;
    if (traits->work == PDL_WORK_ATTENTION) return layer->causal;
    if (traits->kernel == PDL_KERNEL_POSITIONS) return !layer->class_token;
    return layer->in.sequence && layer->out.sequence && traits->positions == PDL_POSITIONS_ALONE;
}

static pdl_status_t check(const pdl_model_t *model)
{
    const pdl_layer_t *input = pdl_model_layer(model, 0);

    if (!input->out.sequence || input->vocabulary == 0)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s reads no tokens: it is no language model", pdl_model_name(model));
    for (int i = 1; i < pdl_model_layer_count(model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);

        if (!is_causal(layer))
            return pdl_error(
                PDL_ERR_UNSUPPORTED,
                "%s: layer %s (%s) looks at later tokens: only causal language models go on from a text",
                pdl_model_name(model), layer->name, pdl_layer_type_name(layer->type));
    }
    return PDL_OK;
}

pdl_status_t pdl_model_with_tokens(const pdl_model_t *model, int64_t tokens, pdl_model_t **other)
{
    pdl_status_t         status = check(model);
    pdl_model_builder_t *builder;

    if (status) return status;
    builder = pdl__builder_create(pdl_model_name(model), pdl_model_description(model));
    if (builder == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for %s", pdl_model_name(model));
    for (const char *const *line = pdl_model_remarks(model); *line != NULL && !status; line++)
        status = pdl__builder_remark(builder, *line);
    for (int i = 0; i < pdl_model_layer_count(model) && !status; i++) {
        pdl_layer_t layer = *pdl_model_layer(model, i);

        if (i == 0) layer.out.extent[0] = tokens;
        status = pdl__builder_add(builder, &layer, NULL, NULL);
    }
    if (status) {
        pdl__builder_destroy(builder);
        return status;
    }
    status = pdl__builder_finish(builder, other);
    if (!status) (*other)->lora = model->lora;
    return status;
}
