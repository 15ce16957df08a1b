/*
 * Low-rank adaptation (Hu et al., arXiv 2106.09685): the weights of a network are frozen, and beside chosen linear layers stand
 * adapters, y = L x + B A x, of which alone training changes anything. A is drawn as other layers are, B begins at 0, so that the
 * network begins as it was; the factor alpha / rank is 1.
 *
 * What comes out is a network like others, so planner, simulator and trainer need no rule of their own for it.
 */
#include "model/builder.h"
#include "model/internal.h"

#include <stdio.h>
#include <stdlib.h>

const char *const pdl_lora_layers_names[PDL_LORA_LAYERS_COUNT] = {"attention", "qkv", "all"};

typedef struct adaptation {
    const pdl_model_t *model;
    int64_t            rank;
    bool              *chosen; /* by layer: gets an adapter */
    int *place; /* by layer: who has its output in the new model; before, whether attention reads it */
    int *own;   /* and where the layer itself is */
    pdl_model_builder_t *builder;
} adaptation_t;

static bool is_attention(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->work == PDL_WORK_ATTENTION;
}

/* Linear layers that make what attention reads, through norms and what only joins. The projections of latent attention are two, one
   behind the other. */
enum { READ = 1, READ_LATENT = 2 };
static void choose_before(adaptation_t *a)
{
    for (int i = pdl_model_layer_count(a->model) - 1; i > 0; i--) {
        const pdl_layer_t  *layer = pdl_model_layer(a->model, i);
        const pdl_traits_t *traits = pdl_layer_traits(layer);
        bool                linear = pdl_layer_is_linear(layer);
        int                 passes = 0;

        if (is_attention(layer)) passes = layer->shared_dim > 0 ? READ_LATENT : READ;
        if (traits->combine == PDL_COMBINE_JOIN || traits->norm) passes = a->place[i];
        if (linear) passes = a->place[i] & READ_LATENT;
        if (linear && a->place[i] != 0) a->chosen[i] = true;
        for (int k = 0; k < layer->input_count; k++) a->place[layer->inputs[k]] |= passes;
    }
}

/* What is between the output of attention and the projection that reads it. */
static int behind_drops(const pdl_model_t *model, int i)
{
    while (pdl_layer_traits(pdl_model_layer(model, i))->drops) i = pdl_model_layer(model, i)->inputs[0];
    return i;
}

static void choose_behind(adaptation_t *a)
{
    for (int i = 1; i < pdl_model_layer_count(a->model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(a->model, i);

        if (pdl_layer_is_linear(layer) &&
            is_attention(pdl_model_layer(a->model, behind_drops(a->model, layer->inputs[0]))))
            a->chosen[i] = true;
    }
}

/* All but the last, which makes what the loss reads. */
static void choose_all(adaptation_t *a)
{
    int head = pdl_model_layer(a->model, pdl_model_layer_count(a->model) - 1)->inputs[0];

    for (int i = 1; i < pdl_model_layer_count(a->model); i++)
        a->chosen[i] = i != head && pdl_layer_is_linear(pdl_model_layer(a->model, i));
}

static pdl_status_t check(const adaptation_t *a, pdl_lora_layers_t layers)
{
    bool any = false;

    for (int i = 0; i < pdl_model_layer_count(a->model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(a->model, i);
        int64_t narrow = layer->in.channels < layer->out.channels ? layer->in.channels : layer->out.channels;

        any = any || a->chosen[i];
        if (a->chosen[i] && a->rank >= narrow)
            return pdl_error(PDL_ERR_INPUT, "adapters of rank %lld: layer %s of %s has %lld channels, choose less",
                             (long long)a->rank, layer->name, pdl_model_name(a->model), (long long)narrow);
    }
    if (any) return PDL_OK;
    return layers != PDL_LORA_ALL
               ? pdl_error(PDL_ERR_INPUT,
                           "%s has no attention whose projections could have adapters: choose all layers "
                           "(--lora-layers all)",
                           pdl_model_name(a->model))
               : pdl_error(PDL_ERR_INPUT, "%s has no linear layer but the last that could have an adapter",
                           pdl_model_name(a->model));
}

/* A layer as it was, frozen, reading what stands for its inputs now. */
static pdl_status_t add_frozen(adaptation_t *a, int index)
{
    pdl_layer_t  layer = *pdl_model_layer(a->model, index);
    int         *inputs = malloc(((size_t)layer.input_count + 1) * sizeof(*inputs));
    pdl_status_t status = PDL_OK;

    if (inputs == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a layer");
    for (int i = 0; i < layer.input_count; i++) inputs[i] = a->place[layer.inputs[i]];
    layer.inputs = inputs;
    layer.frozen = layer.weights > 0 || layer.tied_to >= 0;
    if (layer.tied_to >= 0) layer.tied_to = a->own[layer.tied_to];
    status = pdl__builder_add(a->builder, &layer, NULL, &a->own[index]);
    free(inputs);
    a->place[index] = a->own[index];
    return status;
}

static pdl_status_t add_linear(adaptation_t *a, const char *name, int input, int64_t out, pdl_init_t init,
                               int *index)
{
    pdl_layer_t layer = pdl__layer_default(PDL_LAYER_LINEAR);

    layer.name = name;
    layer.inputs = &input;
    layer.input_count = 1;
    layer.out.channels = out;
    layer.bias = false;
    layer.init = init;
    return pdl__builder_add(a->builder, &layer, NULL, index);
}

static pdl_status_t add_adapter(adaptation_t *a, int index)
{
    const pdl_layer_t *layer = pdl_model_layer(a->model, index);
    pdl_layer_t        sum = pdl__layer_default(PDL_LAYER_ADD);
    int                terms[2] = {a->own[index], 0}, low;
    char               name[3][320];

    for (int i = 0; i < 3; i++)
        snprintf(name[i], sizeof(name[i]), "%.300s.%s", layer->name,
                 (const char *[]){"lora_a", "lora_b", "lora_sum"}[i]);
    pdl_status_t status = add_linear(a, name[0], a->place[layer->inputs[0]], a->rank, PDL_INIT_DEFAULT, &low);
    if (!status) status = add_linear(a, name[1], low, layer->out.channels, PDL_INIT_ZERO, &terms[1]);
    sum.name = name[2];
    sum.inputs = terms;
    sum.input_count = 2;
    return status ? status : pdl__builder_add(a->builder, &sum, NULL, &a->place[index]);
}

static bool has_experts(const pdl_model_t *model)
{
    for (int i = 0; i < pdl_model_layer_count(model); i++)
        if (pdl_layer_traits(pdl_model_layer(model, i))->work == PDL_WORK_EXPERTS) return true;
    return false;
}

static pdl_status_t build(adaptation_t *a)
{
    pdl_status_t status = PDL_OK;

    for (const char *const *line = pdl_model_remarks(a->model); *line != NULL && !status; line++)
        status = pdl__builder_remark(a->builder, *line);
    if (!status && has_experts(a->model))
        status =
            pdl__builder_remark(a->builder, "experts have no adapters: their weights are frozen, with the router");
    for (int i = 0; i < pdl_model_layer_count(a->model) && !status; i++) {
        status = add_frozen(a, i);
        if (!status && a->chosen[i]) status = add_adapter(a, i);
    }
    return status;
}

static pdl_status_t adapt(adaptation_t *a, const pdl_lora_t *lora, pdl_model_t **adapted)
{
    if (lora->layers == PDL_LORA_ALL)
        choose_all(a);
    else
        choose_before(a);
    if (lora->layers == PDL_LORA_ATTENTION) choose_behind(a);
    pdl_status_t status = check(a, lora->layers);
    if (!status) status = build(a);
    if (status) return status;
    status = pdl__builder_finish(a->builder, adapted);
    a->builder = NULL;
    if (!status) (*adapted)->lora = *lora;
    return status;
}

pdl_status_t pdl_model_adapt(const pdl_model_t *model, const pdl_lora_t *lora, pdl_model_t **adapted)
{
    size_t       count = (size_t)pdl_model_layer_count(model);
    adaptation_t a = {.model = model, .rank = lora->rank};
    pdl_status_t status = PDL_OK;

    if (!pdl_model_trainable(model))
        return pdl_error(PDL_ERR_INPUT, "%s is a table of layers and has no adapters: use a model with a graph",
                         pdl_model_name(model));
    if (model->totals.trained < model->totals.weights)
        return pdl_error(PDL_ERR_INPUT, "%s has frozen layers already: adapt the model that they come from",
                         pdl_model_name(model));
    if (lora->rank < 1)
        return pdl_error(PDL_ERR_INPUT, "adapters of rank %lld: expected at least 1", (long long)lora->rank);
    a.chosen = calloc(count, sizeof(*a.chosen));
    a.place = calloc(count, sizeof(*a.place));
    a.own = calloc(count, sizeof(*a.own));
    a.builder = pdl__builder_create(pdl_model_name(model), pdl_model_description(model));
    if (a.chosen == NULL || a.place == NULL || a.own == NULL || a.builder == NULL)
        status = pdl_error(PDL_ERR_NOMEM, "out of memory for %s", pdl_model_name(model));
    if (!status) status = adapt(&a, lora, adapted);
    free(a.chosen);
    free(a.place);
    free(a.own);
    if (a.builder != NULL) pdl__builder_destroy(a.builder);
    return status;
}

pdl_lora_t pdl_model_lora(const pdl_model_t *model)
{
    return model->lora;
}
