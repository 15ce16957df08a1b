/*
 * Networks with weights: checkpoints, files of weights, ONNX files.
 */
#include "cli/train/trained.h"

#include "cli/commands.h"

#include <string.h>
#include <unistd.h>

/* The nets of an ensemble are kept beside each other, and none of them is a model with a name. */
static bool holds_nets(const char *folder)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/net-0", folder);
    return access(path, F_OK) == 0;
}

/* Opens the checkpoint on all ranks; the first says what is wrong with it. */
static pdl_status_t open_checkpoint(pdl_ranks_t *ranks, pdl__trained_t *network)
{
    pdl_status_t status;

    if (holds_nets(network->path))
        return pdl_error(PDL_ERR_INPUT,
                         "%s holds the nets of --aggregate feddct, which are scored together in training only: use "
                         "paradl train --resume with --valid-every",
                         network->path);
    status = pdl_checkpoint_open_together(ranks, network->path, &network->checkpoint);
    if (status || pdl_ranks_rank(ranks) != 0) return status;
    if (pdl_checkpoint_damage(network->checkpoint))
        fprintf(stderr, "paradl: %s\n", pdl_checkpoint_damage(network->checkpoint));
    if (!pdl_checkpoint_summed(network->checkpoint))
        fprintf(stderr, "%s has no checksums: an earlier version wrote it, and damage would not be noticed\n",
                pdl_checkpoint_path(network->checkpoint));
    return PDL_OK;
}

static bool is_onnx(const char *path)
{
    size_t length = strlen(path);

    return length > 5 && strcmp(path + length - 5, ".onnx") == 0;
}

static pdl_status_t load_model(pdl__trained_t *network, const char *model)
{
    const pdl_checkpoint_info_t *info = network->checkpoint ? pdl_checkpoint_info(network->checkpoint) : NULL;

    if (model) return pdl_model_load(model, &network->model);
    if (is_onnx(network->path)) return pdl_model_load(network->path, &network->model);
    if (info && info->description)
        return pdl_model_read_yaml_memory(info->description, strlen(info->description), "model.yaml",
                                          &network->model);
    if (info && *info->model) {
        pdl_status_t status = pdl_model_load(info->model, &network->model);
        if (status)
            status = pdl_error(status, "%s; %s names this model: say where it is with --model M",
                               pdl_error_message(), pdl_checkpoint_path(network->checkpoint));
        return status;
    }
    return pdl_error(PDL_ERR_INPUT, "%s does not name its model: add --model M", network->path);
}

pdl_status_t pdl__trained_open(pdl_ranks_t *ranks, const char *path, const char *model, const char *init,
                               pdl__trained_t *network)
{
    pdl_status_t status = PDL_OK;

    *network = (pdl__trained_t){.path = path ? path : init};
    if (path == NULL && init == NULL)
        return pdl_error(PDL_ERR_INPUT,
                         "whose weights? give a checkpoint, an ONNX file, or --model M with --init FILE");
    if (path && !is_onnx(path) && !pdl_initial_is_weights(path)) {
        status = open_checkpoint(ranks, network);
        if (!status && init)
            status = pdl_error(PDL_ERR_INPUT, "%s has weights: leave out one of it and --init", path);
    } else {
        status = pdl_initial_open(init ? init : path, PDL_INITIAL_COMPLETE, &network->initial);
    }
    if (!status) status = load_model(network, model);
    status = pdl_ranks_agree(ranks, status);
    if (!status) pdl__print_remarks(network->model);
    return status;
}

void pdl__trained_close(pdl__trained_t *network)
{
    pdl_checkpoint_close(network->checkpoint);
    pdl_initial_close(network->initial);
    pdl_model_destroy(network->model);
}

pdl_status_t pdl__trained_session(const pdl__trained_t *network, pdl_session_spec_t *spec, bool averaged,
                                  pdl_session_t **session)
{
    pdl_status_t status;

    if (averaged && network->checkpoint == NULL)
        return pdl_error(PDL_ERR_INPUT, "%s has no averaged weights: leave out --ema", network->path);
    spec->initial = network->initial;
    status = pdl_session_create(spec, session);
    if (!status && network->checkpoint) status = pdl_session_take(*session, network->checkpoint, averaged);
    return status;
}
