/*
 * Whether a data set and a model belong together: the one rule, for plans and for runs.
 */
#include <paradl/model/dataset.h>
#include <paradl/model/traits.h>

#include <math.h>

const pdl_layer_t *pdl_model_loss(const pdl_model_t *model)
{
    for (int i = pdl_model_layer_count(model) - 1; i > 0; i--) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        if (pdl_layer_traits(layer)->loss) return layer;
    }
    return NULL;
}

int64_t pdl_model_vocabulary(const pdl_model_t *model)
{
    for (int i = 1; i < pdl_model_layer_count(model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        if (pdl_layer_traits(layer)->tokens && layer->inputs[0] == 0) return layer->vocabulary;
    }
    return 0;
}

bool pdl_shape_scales(const pdl_shape_t *stored, const pdl_shape_t *asked)
{
    bool same = stored->channels == asked->channels;
    bool grey = (stored->channels == 1 && asked->channels == 3) || (stored->channels == 3 && asked->channels == 1);

    return asked->rank == 2 && !asked->sequence && (same || grey) && asked->extent[0] > 0 && asked->extent[1] > 0;
}

static bool same_extents(const pdl_shape_t *a, const pdl_shape_t *b)
{
    return a->extent[0] == b->extent[0] && a->extent[1] == b->extent[1] && a->extent[2] == b->extent[2];
}

/* Pixels are bytes in one channel or three; images of more are arrays of numbers, which nobody scales. */
static bool is_picture(const pdl_dataset_t *dataset)
{
    const pdl_shape_t *shape = &dataset->shape;

    return !dataset->tokens && shape->rank == 2 && !shape->sequence &&
           (shape->channels == 1 || shape->channels == 3);
}

static void cut_windows(int64_t window, pdl_dataset_t *dataset)
{
    double longer = (double)window / (double)dataset->shape.extent[0];

    if (longer == 1) return;
    if (dataset->samples > 0) dataset->samples = (int64_t)fmax(1, floor((double)dataset->samples / longer));
    dataset->bytes_per_sample *= longer;
    dataset->decode_s_per_sample *= longer;
    dataset->shape.extent[0] = dataset->target_count = window;
}

void pdl_dataset_deliver(const pdl_model_t *model, pdl_dataset_t *dataset)
{
    pdl_shape_t input = pdl_model_input(model);
    int64_t     vocabulary = pdl_model_vocabulary(model);

    if (dataset->tokens && vocabulary > 0) cut_windows(input.extent[0], dataset);
    if (dataset->shape.channels == 0) {
        dataset->shape = input;
        dataset->tokens = vocabulary > 0;
    } else if (!dataset->tokens && vocabulary == 0 &&
               ((is_picture(dataset) && pdl_shape_scales(&dataset->shape, &input)) ||
                (input.rank == 0 && input.channels == pdl_shape_elements(&dataset->shape)))) {
        dataset->shape = input;
        if (dataset->target == PDL_TARGET_MASK) dataset->target_count = pdl_shape_positions(&input);
    }
}

static pdl_status_t check_shape(const pdl_model_t *model, const pdl_dataset_t *dataset)
{
    pdl_shape_t input = pdl_model_input(model);
    char        wanted[64], given[64];

    if (dataset->tokens != (pdl_model_vocabulary(model) > 0))
        return pdl_error(PDL_ERR_INPUT,
                         "model %s reads %s, but the samples of %s are %s: choose another model or data set",
                         pdl_model_name(model), dataset->tokens ? "numbers" : "tokens", dataset->name,
                         dataset->tokens ? "tokens" : "numbers");
    if (same_extents(&input, &dataset->shape) && (dataset->tokens || input.channels == dataset->shape.channels))
        return PDL_OK;
    return pdl_error(PDL_ERR_INPUT,
                     "model %s reads samples of %s, those of %s are %s: choose another model or data set",
                     pdl_model_name(model), pdl_shape_format(&input, wanted, sizeof(wanted)), dataset->name,
                     pdl_shape_format(&dataset->shape, given, sizeof(given)));
}

static pdl_status_t check_target(const pdl_model_t *model, const pdl_layer_t *loss, const pdl_dataset_t *dataset)
{
    bool    values = pdl_layer_traits(loss)->loss == PDL_LOSS_VALUES;
    int64_t wanted = values ? pdl_shape_elements(&loss->in) : pdl_shape_positions(&loss->in);

    if (values != (dataset->target == PDL_TARGET_VALUES))
        return pdl_error(PDL_ERR_INPUT, "model %s learns %s, but %s has %s: choose another model or data set",
                         pdl_model_name(model), values ? "numbers" : "classes", dataset->name,
                         values ? "classes" : "numbers");
    if (dataset->target_count != wanted)
        return pdl_error(PDL_ERR_INPUT,
                         "model %s wants %lld target%s a sample, %s has %lld: choose another model or data set",
                         pdl_model_name(model), (long long)wanted, wanted == 1 ? "" : "s", dataset->name,
                         (long long)dataset->target_count);
    if (!values && dataset->classes > loss->in.channels)
        return pdl_error(
            PDL_ERR_INPUT,
            "%s has %lld classes, model %s tells only %lld apart: write a model file with extends: %s and "
            "parameters: {classes: %lld}",
            dataset->name, (long long)dataset->classes, pdl_model_name(model), (long long)loss->in.channels,
            pdl_model_name(model), (long long)dataset->classes);
    return PDL_OK;
}

pdl_status_t pdl_dataset_check(const pdl_model_t *model, const pdl_dataset_t *dataset, bool training)
{
    const pdl_layer_t *loss = pdl_model_loss(model);
    pdl_status_t       status = check_shape(model, dataset);

    if (status) return status;
    if (dataset->tokens && dataset->classes > pdl_model_vocabulary(model))
        return pdl_error(
            PDL_ERR_INPUT,
            "%s has %lld different tokens, the vocabulary of model %s has %lld: write a model file with "
            "extends: %s and parameters: {vocabulary: %lld}",
            dataset->name, (long long)dataset->classes, pdl_model_name(model),
            (long long)pdl_model_vocabulary(model), pdl_model_name(model), (long long)dataset->classes);
    return training && loss && dataset->target_count > 0 ? check_target(model, loss, dataset) : PDL_OK;
}

pdl_status_t pdl_dataset_check_batch(const char *name, int64_t samples, int64_t batch)
{
    if (samples == 0 || samples >= batch) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s has %lld samples, fewer than a batch of %lld: lower --batch", name,
                     (long long)samples, (long long)batch);
}
