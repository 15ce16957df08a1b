/*
 * A wide network divided into several narrow ones, by the width rule of FedDCT (Nguyen et al., IEEE TNSM 2024): the
 * work and the weights of a layer go with the square of its width, so nets of 1/sqrt(S) the width are 1/S each.
 *
 * New widths are a function of the old ones alone: what had equal widths has equal widths again, so residual sums
 * fit.
 */
#include "base/integer.h"
#include "model/builder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* How widths become narrower. */
typedef struct division {
    const pdl_model_t *model;
    double             nets;
    bool              *kept;        /* by layer: it tells the classes apart */
    int64_t            stem, widen; /* a Wide ResNet's; 0: none */
    int64_t            multiple;    /* that widths keep, for groups */
} division_t;

static bool has_width(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->kernel == PDL_KERNEL_MATRIX;
}

/* Weights that are neither matrices nor scales, and attention, have widths that others follow from. */
static bool is_divisible(const pdl_layer_t *layer)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    bool weights = traits->kernel != PDL_KERNEL_NONE && traits->kernel != PDL_KERNEL_SCALE && !has_width(layer);

    return !weights && traits->work != PDL_WORK_ATTENTION && layer->tied_to < 0;
}

static bool is_depthwise(const pdl_layer_t *layer)
{
    return layer->groups > 1 && layer->groups == layer->in.channels;
}

static pdl_status_t check(const pdl_model_t *model, int64_t nets)
{
    if (nets < 1 || nets > 64)
        return pdl_error(PDL_ERR_INPUT, "a network is divided into 1 to 64, not %lld", (long long)nets);
    if (!pdl_model_trainable(model))
        return pdl_error(PDL_ERR_INPUT, "%s is a table of layers and cannot be divided: use a model with a graph",
                         pdl_model_name(model));
    for (int i = 0; i < pdl_model_layer_count(model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        if (!is_divisible(layer))
            return pdl_error(PDL_ERR_UNSUPPORTED,
                             "layer %s of %s: only networks of convolutions and linear layers are divided",
                             layer->name, pdl_model_name(model));
    }
    return PDL_OK;
}

/* What the loss reads has its width from these layers. */
static void keep_classes(division_t *d)
{
    int last = pdl_model_layer_count(d->model) - 1;

    d->kept[last] = true;
    for (int i = last; i > 0; i--) {
        const pdl_layer_t *layer = pdl_model_layer(d->model, i);
        if (!d->kept[i] || has_width(layer)) continue;
        for (int k = 0; k < layer->input_count; k++) d->kept[layer->inputs[k]] = true;
    }
}

/* Groups of a divided layer. */
static int64_t fewer_groups(const division_t *d, int64_t groups)
{
    int64_t fewer = (int64_t)llround((double)groups / d->nets);

    return fewer > 1 ? fewer : 1;
}

/* Residual blocks, a narrow stem, and a factor that all other convolutions have over it. */
static void find_widening(division_t *d)
{
    int64_t stem = 0, factor = 0;
    bool    residual = false;

    for (int i = 0; i < pdl_model_layer_count(d->model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(d->model, i);
        residual |= pdl_layer_traits(layer)->combine == PDL_COMBINE_SUM;
        if (!has_width(layer) || d->kept[i]) continue;
        if (!pdl_layer_is_convolution(layer) || layer->groups > 1) return;
        if (stem == 0) {
            stem = layer->out.channels;
            continue;
        }
        if (layer->out.channels % stem != 0) return;
        factor = pdl__common_divisor(factor, layer->out.channels / stem);
    }
    if (factor < 2 || !residual) return;
    d->stem = stem;
    d->widen = factor;
}

static int64_t narrower(const division_t *d, int64_t width)
{
    double  root = sqrt(d->nets);
    int64_t multiple = width % d->multiple == 0 ? d->multiple : 1;

    if (d->widen > 0 && width == d->stem) return width;
    if (d->widen > 0) {
        double factor = fmax((double)d->widen / root + 0.4, 1);
        return width / d->widen * (int64_t)factor;
    }
    int64_t narrow = (int64_t)llround((double)width / root / (double)multiple) * multiple;
    return narrow > multiple ? narrow : multiple;
}

static pdl_layer_t divide_layer(const division_t *d, const pdl_model_builder_t *builder, int i)
{
    pdl_layer_t   layer = *pdl_model_layer(d->model, i);
    const int64_t in = i > 0 ? pdl__builder_layer(builder, layer.inputs[0])->out.channels : 0;
    const bool    depthwise = is_depthwise(&layer);
    const int64_t each = depthwise ? layer.out.channels / layer.in.channels : 1;

    layer.rate /= d->nets;
    if (!has_width(&layer)) {
        layer.groups = pdl__common_divisor(layer.groups, in);
        return layer;
    }
    if (depthwise) {
        layer.groups = in;
        layer.out.channels = in * each;
        return layer;
    }
    if (layer.groups > 1) layer.groups = fewer_groups(d, layer.groups);
    if (!d->kept[i]) layer.out.channels = narrower(d, layer.out.channels);
    return layer;
}

static pdl_status_t build(const division_t *d, pdl_model_t **divided)
{
    char name[300], where[350];

    snprintf(name, sizeof(name), "%.250s-1of%g", pdl_model_name(d->model), d->nets);
    snprintf(where, sizeof(where), "%.250s divided by %g", pdl_model_name(d->model), d->nets);
    pdl_model_builder_t *builder = pdl__builder_create(name, pdl_model_description(d->model));
    if (!builder) return PDL_ERR_NOMEM;
    for (int i = 0; i < pdl_model_layer_count(d->model); i++) {
        pdl_layer_t  layer = divide_layer(d, builder, i);
        pdl_status_t status = pdl__builder_add(builder, &layer, where, NULL);
        if (!status) continue;
        pdl__builder_destroy(builder);
        return status;
    }
    return pdl__builder_finish(builder, divided);
}

pdl_status_t pdl_model_divide(const pdl_model_t *model, int64_t nets, pdl_model_t **divided)
{
    division_t   d = {.model = model, .nets = (double)nets, .multiple = 1};
    int          count = pdl_model_layer_count(model);
    pdl_status_t status = check(model, nets);

    if (status) return status;
    d.kept = calloc((size_t)count, sizeof(*d.kept));
    if (!d.kept) return pdl_error(PDL_ERR_NOMEM, "out of memory for %d layers", count);
    keep_classes(&d);
    find_widening(&d);
    for (int i = 0; i < count; i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        if (!has_width(layer) || layer->groups < 2 || is_depthwise(layer)) continue;
        int64_t groups = fewer_groups(&d, layer->groups);
        d.multiple = d.multiple / pdl__common_divisor(d.multiple, groups) * groups;
    }
    status = build(&d, divided);
    free(d.kept);
    return status;
}

int pdl_model_cut(const pdl_model_t *model)
{
    int count = pdl_model_layer_count(model);

    for (int i = 1; i < count - 1; i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        if (pdl_layer_traits(layer)->pool || layer->consumer_count > 1) return i;
    }
    return count > 2 ? count - 2 : 0;
}
