/*
 * Whether a data set and a model belong together.
 */
#include <paradl/train.h>

static const pdl_layer_t *loss_layer(const pdl_model_t *model)
{
    for (int i = pdl_model_layer_count(model) - 1; i > 0; i--) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        if (layer->type == PDL_LAYER_CROSS_ENTROPY || layer->type == PDL_LAYER_MSE) return layer;
    }
    return NULL;
}

/* The number of different tokens a model can read, 0 when it reads numbers. */
static int64_t vocabulary_of(const pdl_model_t *model)
{
    for (int i = 1; i < pdl_model_layer_count(model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        if (layer->type == PDL_LAYER_EMBEDDING && layer->inputs[0] == 0) return layer->vocabulary;
    }
    return 0;
}

void pdl_source_options_for(const pdl_model_t *model, pdl_source_options_t *options)
{
    const pdl_layer_t *loss = loss_layer(model);

    options->shape = pdl_model_input(model);
    options->target = PDL_TARGET_CLASS;
    if (vocabulary_of(model) > 0) {
        options->target = PDL_TARGET_TOKENS;
        options->classes = vocabulary_of(model);
        options->shape.sequence = true;
    } else if (loss) {
        options->classes = loss->in.channels;
        if (loss->type == PDL_LAYER_MSE)
            options->target = PDL_TARGET_VALUES;
        else if (pdl_shape_positions(&loss->in) > 1)
            options->target = PDL_TARGET_MASK;
    }
}

static bool same_extents(const pdl_shape_t *a, const pdl_shape_t *b)
{
    return a->extent[0] == b->extent[0] && a->extent[1] == b->extent[1] && a->extent[2] == b->extent[2];
}

static pdl_status_t check_shape(const pdl_model_t *model, const pdl_source_info_t *info)
{
    pdl_shape_t input = pdl_model_input(model);
    char        wanted[64], given[64];

    if (info->tokens != (vocabulary_of(model) > 0))
        return pdl_error(PDL_ERR_INPUT, "model %s reads %s, but the samples of %s are %s", pdl_model_name(model),
                         info->tokens ? "numbers" : "tokens", info->name, info->tokens ? "tokens" : "numbers");
    if (same_extents(&input, &info->shape) && (info->tokens || input.channels == info->shape.channels))
        return PDL_OK;
    return pdl_error(PDL_ERR_INPUT,
                     "model %s reads samples of %s, those of %s are %s: choose another model or data set",
                     pdl_model_name(model), pdl_shape_format(&input, wanted, sizeof(wanted)), info->name,
                     pdl_shape_format(&info->shape, given, sizeof(given)));
}

static pdl_status_t check_target(const pdl_model_t *model, const pdl_layer_t *loss, const pdl_source_info_t *info)
{
    bool    values = loss->type == PDL_LAYER_MSE;
    int64_t wanted = values ? pdl_shape_elements(&loss->in) : pdl_shape_positions(&loss->in);

    if (values != (info->target == PDL_TARGET_VALUES))
        return pdl_error(PDL_ERR_INPUT, "model %s learns %s, but %s has %s", pdl_model_name(model),
                         values ? "numbers" : "classes", info->name, values ? "classes" : "numbers");
    if (info->target_count != wanted)
        return pdl_error(PDL_ERR_INPUT, "model %s wants %lld targets a sample, %s has %lld", pdl_model_name(model),
                         (long long)wanted, info->name, (long long)info->target_count);
    if (!values && info->classes > loss->in.channels)
        return pdl_error(PDL_ERR_INPUT, "%s has %lld classes, model %s tells only %lld apart", info->name,
                         (long long)info->classes, pdl_model_name(model), (long long)loss->in.channels);
    return PDL_OK;
}

pdl_status_t pdl_check_data(const pdl_model_t *model, const pdl_source_info_t *info)
{
    const pdl_layer_t *loss = loss_layer(model);

    if (!loss)
        return pdl_error(PDL_ERR_INPUT, "model %s ends without a loss: add a layer cross_entropy or mse",
                         pdl_model_name(model));
    pdl_status_t status = check_shape(model, info);
    if (status) return status;
    if (info->tokens && info->classes > vocabulary_of(model))
        return pdl_error(PDL_ERR_INPUT, "%s has %lld different tokens, the vocabulary of model %s has %lld",
                         info->name, (long long)info->classes, pdl_model_name(model),
                         (long long)vocabulary_of(model));
    return check_target(model, loss, info);
}
