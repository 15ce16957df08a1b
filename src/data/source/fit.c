/*
 * Data sets for a model: what a source should deliver, and what there is to know of a set before it is read.
 */
#include "data/source/source.h"

#include <paradl/model/traits.h>
#include <string.h>

void pdl_source_options_for(const pdl_model_t *model, pdl_source_options_t *options)
{
    const pdl_layer_t *loss = pdl_model_loss(model);

    options->shape = pdl_model_input(model);
    options->target = PDL_TARGET_CLASS;
    if (pdl_model_vocabulary(model) > 0) {
        options->target = PDL_TARGET_TOKENS;
        options->classes = pdl_model_vocabulary(model);
        options->shape.sequence = true;
    } else if (loss) {
        options->classes = loss->in.channels;
        if (pdl_layer_traits(loss)->loss == PDL_LOSS_VALUES)
            options->target = PDL_TARGET_VALUES;
        else if (pdl_shape_positions(&loss->in) > 1)
            options->target = PDL_TARGET_MASK;
    }
}

static pdl_dataset_t dataset_of(const pdl_source_info_t *info)
{
    pdl_dataset_t dataset = {.samples = info->samples,
                             .shape = info->shape,
                             .tokens = info->tokens,
                             .classes = info->classes,
                             .target_count = info->target_count,
                             .target = info->target,
                             .bytes_per_sample = info->bytes_per_sample};

    memcpy(dataset.name, info->name, sizeof(dataset.name));
    return dataset;
}

pdl_status_t pdl_check_data(const pdl_model_t *model, const pdl_source_info_t *info)
{
    pdl_dataset_t dataset = dataset_of(info);

    if (!pdl_model_loss(model))
        return pdl_error(PDL_ERR_INPUT, "model %s ends without a loss: add a layer cross_entropy or mse",
                         pdl_model_name(model));
    return pdl_dataset_check(model, &dataset, true);
}

static pdl_status_t describe_source(const char *path, const pdl_model_t *model, pdl_dataset_t *dataset)
{
    pdl_source_options_t options = {.split = PDL_SPLIT_TRAIN};
    pdl_source_t        *source;
    pdl_status_t         status;

    if (model != NULL) pdl_source_options_for(model, &options);
    status = pdl_source_open(path, &options, &source);
    if (status) return status;
    *dataset = dataset_of(pdl_source_info(source));
    pdl_source_close(source);
    return PDL_OK;
}

/* Names come before paths, as everywhere: a folder of the same name is reached by ./NAME. */
pdl_status_t pdl_data_describe(const char *name_or_path, const pdl_model_t *model, pdl_dataset_t *dataset)
{
    static const char *const extensions[] = {".yaml", NULL};

    const bool   built_in = pdl__known_find(name_or_path) != NULL;
    const bool   there = pdl__path_is_folder(name_or_path) || pdl__path_is_file(name_or_path);
    pdl_status_t status;

    if (!built_in && there && !pdl__has_extension(name_or_path, extensions))
        return describe_source(name_or_path, model, dataset);
    status = pdl_dataset_load(name_or_path, dataset);
    if (status && !there && strchr(name_or_path, '/') == NULL && !pdl__has_extension(name_or_path, extensions))
        return pdl__known_refuse(name_or_path);
    if (!status && model != NULL) pdl_dataset_deliver(model, dataset);
    return status;
}
