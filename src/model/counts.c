/*
 * Weights, operations and elements of a layer for one sample, from its shapes.
 *
 * Multiply and add count apart. Convolution and linear layers take 2 C F K Y forward and as much for each of
 * the two gradients; attention 4 s^2 h for scores and context, twice that backward; batch normalisation 4 per
 * element and twice that backward; pooling one per window element; other element-wise layers one per element,
 * both ways. What a layer whose input needs no gradient saves is left out.
 */
#include "model/internal.h"

#include <math.h>

/* The checked product of up to four factors; *ok becomes false, and stays false, when one overflows. */
static int64_t product(bool *ok, int64_t a, int64_t b, int64_t c, int64_t d)
{
    *ok = *ok && !__builtin_mul_overflow(a, b, &a) && !__builtin_mul_overflow(a, c, &a) &&
          !__builtin_mul_overflow(a, d, &a);
    return *ok ? a : 0;
}

static int64_t sum(bool *ok, int64_t a, int64_t b)
{
    *ok = *ok && !__builtin_add_overflow(a, b, &a);
    return *ok ? a : 0;
}

static int64_t elements(bool *ok, const pdl_shape_t *shape)
{
    int64_t positions = product(ok, shape->extent[0], shape->extent[1], shape->extent[2], 1);

    return product(ok, positions, shape->channels, 1, 1);
}

static int64_t window(bool *ok, const pdl_layer_t *layer)
{
    return product(ok, layer->kernel[0], layer->kernel[1], layer->kernel[2], 1);
}

/* Elements of the kernel or matrix, without bias. */
static int64_t kernel_elements(bool *ok, const pdl_layer_t *layer)
{
    switch (pdl_layer_traits(layer)->kernel) {
    case PDL_KERNEL_NONE: return 0;
    case PDL_KERNEL_MATRIX:
        return product(ok, layer->in.channels / layer->groups, layer->out.channels, window(ok, layer), 1);
    case PDL_KERNEL_SCALE: return layer->out.channels;
    case PDL_KERNEL_TABLE: return product(ok, layer->vocabulary, layer->out.channels, 1, 1);
    case PDL_KERNEL_POSITIONS:
        return product(ok, (layer->rows > 0 ? layer->rows : layer->out.extent[0]) + (layer->class_token ? 1 : 0),
                       layer->out.channels, 1, 1);
    case PDL_KERNEL_EXPERTS: {
        int64_t expert =
            product(ok, sum(ok, product(ok, layer->in.channels, layer->gated ? 2 : 1, 1, 1), layer->out.channels),
                    layer->expert_hidden, layer->experts, 1);
        return sum(ok, expert, product(ok, layer->in.channels, layer->experts, 1, 1));
    }
    }
    return 0;
}

/* The layer tables of the original study list kernels only: no norm parameters. */
static void count_weights(bool *ok, pdl_layer_t *layer, bool table)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);

    if (table && traits->kernel != PDL_KERNEL_MATRIX) return;
    layer->bias_weights = traits->bias && layer->bias ? layer->out.channels : 0;
    if (layer->qk_norm) layer->bias_weights = 2 * layer->head_dim;
    layer->weights = layer->tied_to >= 0 ? 0 : kernel_elements(ok, layer);
    layer->weights = sum(ok, layer->weights, layer->bias_weights);
}

/* The capacity of an expert is its even share of what tokens choose, times the factor, in whole rows. */
static int64_t expert_rows(bool *ok, const pdl_layer_t *layer)
{
    int64_t chosen = product(ok, pdl_shape_positions(&layer->out), layer->top_k, 1, 1);
    double  capacity = ceil(layer->capacity_factor * (double)chosen / (double)layer->experts);

    if (layer->capacity_factor <= 0) return chosen;
    *ok = *ok && capacity < (double)(INT64_MAX / 2);
    return *ok ? product(ok, layer->experts, (int64_t)capacity, 1, 1) : 0;
}

double pdl_layer_expert_rows(const pdl_layer_t *layer)
{
    bool ok = true;

    return (double)expert_rows(&ok, layer) / (double)pdl_shape_positions(&layer->out);
}

/* Operations of the tokens' ways through the router and the experts. */
static int64_t moe_macs(bool *ok, const pdl_layer_t *layer)
{
    int64_t router = product(ok, layer->in.channels, layer->experts, pdl_shape_positions(&layer->out), 1);
    int64_t inner = sum(ok, product(ok, layer->in.channels, layer->gated ? 2 : 1, 1, 1), layer->out.channels);

    return sum(ok, router, product(ok, inner, layer->expert_hidden, expert_rows(ok, layer), 1));
}

/* Pairs of a query and a key. A window leaves out the keys before it; those after a query count here as everywhere, and
   who skips them halves the rest: the square less that of the tokens beyond the window. */
static int64_t looked_at(bool *ok, const pdl_layer_t *layer)
{
    int64_t tokens = layer->out.extent[0], beyond = tokens - layer->window;
    int64_t pairs = product(ok, tokens, tokens, 1, 1);

    return layer->window > 0 && beyond > 0 ? pairs - beyond * beyond : pairs;
}

/* Elements of a head that take part in a pair: of the query, and of the value. */
static int64_t scored(const pdl_layer_t *layer)
{
    return layer->head_dim + pdl_attention_value_dim(layer);
}

/* Multiply-accumulates of the layers that are matrix products at heart. */
static int64_t matrix_macs(bool *ok, const pdl_layer_t *layer)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    const pdl_shape_t  *slid = traits->transposed ? &layer->in : &layer->out;

    switch (traits->work) {
    case PDL_WORK_ELEMENTS: return 0;
    case PDL_WORK_MATRIX: return product(ok, kernel_elements(ok, layer), pdl_shape_positions(slid), 1, 1);
    case PDL_WORK_ATTENTION: return product(ok, looked_at(ok, layer), layer->heads, scored(layer), 1);
    case PDL_WORK_EXPERTS: return moe_macs(ok, layer);
    }
    return 0;
}

int64_t pdl_layer_macs(const pdl_layer_t *layer)
{
    bool ok = true;

    return matrix_macs(&ok, layer);
}

typedef struct flops {
    int64_t forward, data, weight;
} flops_t;

/* What the counts of a type are multiplied by. */
static int64_t flop_unit(bool *ok, const pdl_layer_t *layer)
{
    int64_t y = elements(ok, &layer->out);

    switch (pdl_layer_traits(layer)->flop.per) {
    case PDL_FLOP_PER_OUTPUT: return y;
    case PDL_FLOP_PER_INPUT: return elements(ok, &layer->in);
    case PDL_FLOP_PER_TAP: return product(ok, y, window(ok, layer), 1, 1);
    case PDL_FLOP_PER_TERM: return product(ok, y, layer->input_count > 1 ? layer->input_count - 1 : 1, 1, 1);
    case PDL_FLOP_PER_WEIGHT: return layer->bilinear ? product(ok, y, 2, INT64_C(1) << layer->in.rank, 1) : y;
    }
    return 0;
}

static flops_t element_flops(bool *ok, const pdl_layer_t *layer)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    int64_t             unit = flop_unit(ok, layer);
    bool                copies = traits->flop.per == PDL_FLOP_PER_WEIGHT && !layer->bilinear;

    return (flops_t){product(ok, unit, copies ? 0 : traits->flop.forward, 1, 1),
                     product(ok, unit, traits->flop.data, 1, 1), product(ok, unit, traits->flop.weight, 1, 1)};
}

static flops_t layer_flops(bool *ok, const pdl_layer_t *layer)
{
    pdl_work_t work = pdl_layer_traits(layer)->work;
    int64_t    forward = product(ok, 2, matrix_macs(ok, layer), 1, 1);

    if (work == PDL_WORK_ATTENTION) return (flops_t){forward, product(ok, 2, forward, 1, 1), 0};
    if (work != PDL_WORK_ELEMENTS) return (flops_t){forward, forward, forward};
    return element_flops(ok, layer);
}

void pdl_layer_flop(const pdl_layer_t *layer, double flop[3])
{
    bool    ok = true;
    flops_t flops = layer_flops(&ok, layer);

    flop[0] = (double)flops.forward;
    flop[1] = (double)flops.data;
    flop[2] = (double)flops.weight;
}

/* Totals grow as layers arrive, so that an overflow is reported where it happens. */
static void add_to_totals(bool *ok, pdl_model_totals_t *totals, const pdl_layer_t *layer)
{
    int64_t backward = sum(ok, layer->flop_backward_data, layer->flop_backward_weight);

    totals->weights = sum(ok, totals->weights, layer->weights);
    totals->trained = sum(ok, totals->trained, pdl_layer_trained(layer));
    totals->macs = sum(ok, totals->macs, matrix_macs(ok, layer));
    totals->flop_forward = sum(ok, totals->flop_forward, layer->flop_forward);
    totals->flop_backward = sum(ok, totals->flop_backward, backward);
    totals->y_elements = sum(ok, totals->y_elements, layer->y_elements);
    *ok = *ok &&
          !__builtin_add_overflow(totals->weight_tensors, pdl_layer_weight_tensors(layer), &totals->weight_tensors);
}

static pdl_status_t too_large(const pdl_layer_t *layer, const char *where)
{
    return pdl__layer_error(where, layer, "with it, weights, elements or operations exceed 64-bit counts");
}

pdl_status_t pdl__count_layer(pdl_model_t *model, pdl_layer_t *layer, const char *where)
{
    bool               ok = true;
    flops_t            flops;
    pdl_model_totals_t totals = model->totals;

    layer->y_elements = elements(&ok, &layer->out);
    layer->x_elements = pdl_layer_traits(layer)->source ? 0 : elements(&ok, &layer->in);
    for (int i = 1; i < layer->input_count; i++)
        layer->x_elements = sum(&ok, layer->x_elements, model->layers[layer->inputs[i]].y_elements);
    if (!ok) return too_large(layer, where);

    count_weights(&ok, layer, model->table);
    flops = layer_flops(&ok, layer);
    layer->flop_forward = flops.forward;
    layer->flop_backward_data = layer->needs_input_gradient ? flops.data : 0;
    layer->flop_backward_weight = layer->frozen ? 0 : flops.weight;
    add_to_totals(&ok, &totals, layer);
    if (!ok) return too_large(layer, where);
    model->totals = totals;
    return PDL_OK;
}

int64_t pdl_layer_trained(const pdl_layer_t *layer)
{
    return layer->frozen ? 0 : layer->weights;
}

int pdl_layer_weight_tensors(const pdl_layer_t *layer)
{
    bool ok = true;
    int  count = 0;

    if (layer->weights == 0) return 0;
    if (layer->tied_to < 0 && kernel_elements(&ok, layer) > 0) count++;
    if (layer->bias_weights > 0) count++;
    if (layer->class_token) count++;
    if (pdl_layer_traits(layer)->kernel == PDL_KERNEL_EXPERTS)
        count += (layer->gated ? 3 : 2) * (int)layer->experts;
    return count;
}
