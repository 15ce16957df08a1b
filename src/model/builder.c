/*
 * The builder is the model under construction: every layer is checked, given its shape and counted the moment
 * it arrives, so that a mistake is reported at the place that made it.
 */
#include "model/builder.h"
#include "base/memory.h"
#include "model/internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME 1000

struct pdl_model_builder {
    pdl_model_t *model;
    bool        *differentiable; /* by layer: it or a layer before it has weights */
};

pdl_status_t pdl__layer_error(const char *where, const pdl_layer_t *layer, const char *format, ...)
{
    char    text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return pdl_error(PDL_ERR_INPUT, "%s%slayer %.100s: %s", where ? where : "", where ? ": " : "", layer->name,
                     text);
}

pdl_model_builder_t *pdl__builder_create(const char *name, const char *description)
{
    pdl_model_builder_t *builder = calloc(1, sizeof(*builder));
    pdl_model_t         *model = calloc(1, sizeof(*model));

    if (builder != NULL && model != NULL) {
        builder->model = model;
        model->arena = pdl_arena_create();
        if (model->arena != NULL) {
            model->name = pdl_arena_strdup(model->arena, name);
            model->description = pdl_arena_strdup(model->arena, description ? description : "");
            if (model->name != NULL && model->description != NULL) return builder;
        }
        pdl_arena_destroy(model->arena);
    }
    free(model);
    free(builder);
    pdl_error(PDL_ERR_NOMEM, "out of memory for model %.100s", name);
    return NULL;
}

void pdl__builder_destroy(pdl_model_builder_t *builder)
{
    if (builder == NULL) return;
    pdl_model_destroy(builder->model);
    free(builder->differentiable);
    free(builder);
}

pdl_status_t pdl__builder_remark(pdl_model_builder_t *builder, const char *text)
{
    pdl_model_t *model = builder->model;
    int          count = 0;

    while (count < PDL_MAX_REMARKS && model->remarks[count] != NULL) count++;
    if (count == PDL_MAX_REMARKS) return PDL_OK;
    model->remarks[count] = pdl_arena_strdup(model->arena, text);
    return model->remarks[count] != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for a model");
}

void pdl__builder_set_table(pdl_model_builder_t *builder)
{
    builder->model->table = true;
}

const pdl_layer_t *pdl__builder_layer(const pdl_model_builder_t *builder, int index)
{
    return pdl_model_layer(builder->model, index);
}

int pdl__builder_count(const pdl_model_builder_t *builder)
{
    return builder->model->count;
}

int pdl__builder_find(const pdl_model_builder_t *builder, const char *name)
{
    return pdl_model_find_layer(builder->model, name);
}

/* Twice as many slots as layers at least, so that a search ends soon. */
static pdl_status_t grow_names(pdl_model_t *model, size_t slot_count)
{
    int *slots = calloc(slot_count, sizeof(*slots));

    if (slots == NULL) return pdl__no_memory("for the layers of a model");
    free(model->name_slots);
    model->name_slots = slots;
    model->name_slot_count = slot_count;
    for (int i = 0; i < model->count; i++) *pdl__name_slot(model, model->layers[i].name) = i + 1;
    return PDL_OK;
}

static pdl_status_t grow(pdl_model_builder_t *builder)
{
    pdl_model_t *model = builder->model;
    int          capacity = model->capacity ? 2 * model->capacity : 64;
    pdl_layer_t *layers;
    bool        *differentiable;

    if (model->count < model->capacity) return PDL_OK;
    layers = realloc(model->layers, (size_t)capacity * sizeof(*layers));
    if (layers == NULL) return pdl__no_memory("for the layers of a model");
    model->layers = layers;
    differentiable = realloc(builder->differentiable, (size_t)capacity * sizeof(*differentiable));
    if (differentiable == NULL) return pdl__no_memory("for the layers of a model");
    builder->differentiable = differentiable;
    if (grow_names(model, 4 * (size_t)capacity)) return PDL_ERR_NOMEM;
    model->capacity = capacity;
    return PDL_OK;
}

static pdl_status_t check_name(const pdl_model_t *model, const pdl_layer_t *layer, const char *where)
{
    size_t length = strlen(layer->name);

    if (length == 0 || length > MAX_NAME)
        return pdl__layer_error(where, layer, "a name has 1 to %d characters", MAX_NAME);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)layer->name[i] < ' ' || layer->name[i] == 127)
            return pdl__layer_error(where, layer, "control characters in the name");
    if (strcmp(layer->name, "in") == 0)
        return pdl__layer_error(where, layer, "the name in is kept for the input of a block; choose another");
    if (pdl_model_find_layer(model, layer->name) >= 0)
        return pdl__layer_error(where, layer, "another layer has this name already");
    return PDL_OK;
}

static pdl_status_t check_inputs(const pdl_model_t *model, const pdl_layer_t *layer, const char *where)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    bool                several = traits->combine != PDL_COMBINE_NONE;
    const char         *type = traits->name;

    if (traits->source) {
        if (layer->input_count != 0) return pdl__layer_error(where, layer, "an input has no inputs");
        return PDL_OK;
    }
    if (model->count == 0) return pdl__layer_error(where, layer, "the first layer must be an input");
    if (several && !model->table && layer->input_count < 2)
        return pdl__layer_error(where, layer, "%s needs two or more inputs", type);
    if (!several && layer->input_count != 1) return pdl__layer_error(where, layer, "%s has one input", type);
    for (int i = 0; i < layer->input_count; i++)
        if (layer->inputs[i] < 0 || layer->inputs[i] >= model->count)
            return pdl__layer_error(where, layer, "input %d is not a layer before this one", layer->inputs[i]);
    return PDL_OK;
}

static bool number_fits(const pdl__attribute_t *attribute, double value)
{
    return isfinite(value) && value >= attribute->min && value <= attribute->max;
}

static bool attribute_fits(const pdl__attribute_t *attribute, const pdl_layer_t *layer)
{
    const void *value = pdl__attribute_value(attribute, layer);

    switch (attribute->kind) {
    case PDL__ATTRIBUTE_INT: return number_fits(attribute, (double)*(const int64_t *)value);
    case PDL__ATTRIBUTE_NUMBER: return number_fits(attribute, *(const double *)value);
    case PDL__ATTRIBUTE_EXTENTS:
        for (int d = 0; d < PDL_MAX_SPACE; d++)
            if (!number_fits(attribute, (double)((const int64_t *)value)[d])) return false;
        return true;
    default: return true;
    }
}

/* A copy with the attributes of its type; what a caller set beside these is back at the default. */
static pdl_status_t copy_attributes(const pdl_model_t *model, const pdl_layer_t *from, const char *where,
                                    pdl_layer_t *to)
{
    *to = pdl__layer_default(from->type);
    to->name = from->name;
    to->inputs = from->inputs;
    to->input_count = from->input_count;
    to->tied_to = from->tied_to;
    if (pdl_layer_traits(from)->source || model->table) {
        to->in = from->in;
        to->out = from->out;
    }
    for (const pdl__attribute_t *a = pdl__attributes; a->key != NULL; a++) {
        if (!pdl__attribute_of(a, from->type)) continue;
        if (!attribute_fits(a, from))
            return pdl__layer_error(where, from, "%s must be between %g and %g", a->key, a->min, a->max);
        memcpy(pdl__attribute_field(a, to), pdl__attribute_value(a, from), pdl__attribute_size(a));
    }
    return PDL_OK;
}

static bool same_kernel(const pdl_layer_t *a, const pdl_layer_t *b)
{
    bool same = a->type == b->type && a->in.channels == b->in.channels && a->out.channels == b->out.channels &&
                a->groups == b->groups && a->vocabulary == b->vocabulary;

    for (int d = 0; d < PDL_MAX_SPACE; d++) same = same && a->kernel[d] == b->kernel[d];
    return same;
}

static pdl_status_t check_tie(const pdl_model_t *model, const pdl_layer_t *layer, const char *where)
{
    const pdl_layer_t *owner;
    bool               fits;

    if (layer->tied_to < 0) return PDL_OK;
    if (layer->tied_to >= model->count) return pdl__layer_error(where, layer, "it is tied to a later layer");
    owner = &model->layers[layer->tied_to];
    if (owner->frozen != layer->frozen)
        return pdl__layer_error(where, layer, "it is %sfrozen, and %.100s, whose weights it uses, is%s",
                                layer->frozen ? "" : "not ", owner->name, layer->frozen ? " not" : "");
    if (owner->tied_to >= 0)
        return pdl__layer_error(where, layer, "%.100s is tied itself; name the layer that has the weights",
                                owner->name);
    pdl_kernel_t kernel = pdl_layer_traits(layer)->kernel;
    if (pdl_layer_is_linear(layer) && pdl_layer_traits(owner)->kernel == PDL_KERNEL_TABLE)
        fits = layer->in.channels == owner->out.channels && layer->out.channels == owner->vocabulary;
    else
        fits = (kernel == PDL_KERNEL_MATRIX || kernel == PDL_KERNEL_TABLE) && same_kernel(layer, owner);
    if (!fits)
        return pdl__layer_error(where, layer, "its weights do not have the shape of those of %.100s", owner->name);
    return PDL_OK;
}

static pdl_status_t store(pdl_model_builder_t *builder, const pdl_layer_t *layer)
{
    pdl_model_t *model = builder->model;
    pdl_layer_t *kept = &model->layers[model->count];
    int         *inputs = pdl_arena_alloc(model->arena, (size_t)layer->input_count + 1, sizeof(*inputs));

    *kept = *layer;
    kept->name = pdl_arena_strdup(model->arena, layer->name);
    if (kept->name == NULL || inputs == NULL) return PDL_ERR_NOMEM;
    if (layer->input_count > 0) memcpy(inputs, layer->inputs, (size_t)layer->input_count * sizeof(*inputs));
    kept->inputs = inputs;
    for (int i = 0; i < kept->input_count; i++) model->layers[inputs[i]].consumer_count++;
    builder->differentiable[model->count] =
        layer->needs_input_gradient || (!layer->frozen && (layer->weights > 0 || layer->tied_to >= 0));
    *pdl__name_slot(model, kept->name) = ++model->count;
    return PDL_OK;
}

pdl_status_t pdl__builder_add(pdl_model_builder_t *builder, const pdl_layer_t *layer, const char *where, int *index)
{
    pdl_model_t *model = builder->model;
    pdl_layer_t  added;
    pdl_status_t status;

    if (model->count >= PDL_MAX_LAYERS)
        return pdl__layer_error(where, layer, "a model has at most %d layers", PDL_MAX_LAYERS);
    status = grow(builder);
    if (!status) status = check_name(model, layer, where);
    if (!status) status = check_inputs(model, layer, where);
    if (!status) status = copy_attributes(model, layer, where, &added);
    if (status) return status;

    if (added.input_count > 0 && !model->table) added.in = model->layers[added.inputs[0]].out;
    for (int i = 0; i < added.input_count; i++)
        added.needs_input_gradient = added.needs_input_gradient || builder->differentiable[added.inputs[i]];
    status = pdl__infer_shape(model, &added, where);
    if (!status) status = check_tie(model, &added, where);
    if (!status) status = pdl__count_layer(model, &added, where);
    if (!status) status = store(builder, &added);
    if (!status && index != NULL) *index = model->count - 1;
    return status;
}

pdl_status_t pdl__builder_finish(pdl_model_builder_t *builder, pdl_model_t **model)
{
    pdl_status_t status;

    if (builder->model->count < 2)
        status = pdl_error(PDL_ERR_INPUT, "model %.100s has no layers", builder->model->name);
    else
        status = pdl__classify(builder->model);
    if (!status) {
        *model = builder->model;
        builder->model = NULL;
    }
    pdl__builder_destroy(builder);
    return status;
}
