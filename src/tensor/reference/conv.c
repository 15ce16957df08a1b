/*
 * Convolution and its transpose: one loop nest over a form of three tensors. `narrow` has one position per window
 * (the output of a convolution, the input of its transpose), `wide` is what the windows lie on, and the weight is
 * [channel of narrow][channel of wide in the group][window]. Each of the six products is one of the three
 * tensors made from the other two.
 */
#include "tensor/reference/reference.h"

typedef struct form {
    const pdl_layer_t *layer;
    const pdl_shape_t *narrow_shape, *wide_shape;
    int64_t            samples;
    const double      *narrow, *wide, *weight;
    double            *to_narrow, *to_wide, *to_weight; /* NULL: not wanted */
} form_t;

/* Position of `wide` under element `k` of the window at `at`, or -1 when that is padding. */
static int64_t wide_position(const form_t *form, const int64_t at[PDL_MAX_SPACE], const int64_t k[PDL_MAX_SPACE])
{
    const pdl_layer_t *layer = form->layer;
    int64_t            under[PDL_MAX_SPACE];

    for (int d = 0; d < PDL_MAX_SPACE; d++) {
        under[d] = at[d] * layer->stride[d] - layer->pad_low[d] + k[d] * layer->dilation[d];
        if (under[d] < 0 || under[d] >= form->wide_shape->extent[d]) return -1;
    }
    return pdl__reference_join(form->wide_shape, under);
}

/* One channel of narrow with one channel of wide, in one sample. */
static void pair_channels(const form_t *form, int64_t sample, int64_t a, int64_t b, int64_t weight_row)
{
    const pdl_layer_t *layer = form->layer;
    int64_t            window = layer->kernel[0] * layer->kernel[1] * layer->kernel[2];
    int64_t            at[PDL_MAX_SPACE], k[PDL_MAX_SPACE];

    for (int64_t p = 0; p < pdl_shape_positions(form->narrow_shape); p++) {
        int64_t narrow = pdl__reference_at(form->narrow_shape, sample, a, p);

        pdl__reference_part(form->narrow_shape->extent, p, at);
        for (int64_t e = 0; e < window; e++) {
            int64_t weight = weight_row * window + e, wide;

            pdl__reference_part(layer->kernel, e, k);
            wide = wide_position(form, at, k);
            if (wide < 0) continue;
            wide = pdl__reference_at(form->wide_shape, sample, b, wide);
            if (form->to_narrow) form->to_narrow[narrow] += form->wide[wide] * form->weight[weight];
            if (form->to_wide) form->to_wide[wide] += form->narrow[narrow] * form->weight[weight];
            if (form->to_weight) form->to_weight[weight] += form->narrow[narrow] * form->wide[wide];
        }
    }
}

static void evaluate(const form_t *form)
{
    int64_t groups = form->layer->groups;
    int64_t a_per_group = form->narrow_shape->channels / groups, b_per_group = form->wide_shape->channels / groups;

    for (int64_t n = 0; n < form->samples; n++)
        for (int64_t a = 0; a < form->narrow_shape->channels; a++)
            for (int64_t b = 0; b < b_per_group; b++)
                pair_channels(form, n, a, a / a_per_group * b_per_group + b, a * b_per_group + b);
}

static void describe(pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    bool               transposed = pdl_layer_traits(layer)->transposed;
    int64_t            narrow = transposed ? layer->in.channels : layer->out.channels;
    int64_t            wide = transposed ? layer->out.channels : layer->in.channels;
    int64_t dims[5] = {narrow, wide / layer->groups, layer->kernel[0], layer->kernel[1], layer->kernel[2]};

    pdl__reference_weight(op, "weight", true, 2 + layer->in.rank, dims);
    if (layer->bias) pdl__reference_weight(op, "bias", true, 1, &layer->out.channels);
}

static form_t make_form(const pdl_op_t *op, const double *weight)
{
    const pdl_layer_t *layer = op->spec.layer;
    bool               transposed = pdl_layer_traits(layer)->transposed;

    return (form_t){.layer = layer,
                    .narrow_shape = transposed ? &layer->in : &layer->out,
                    .wide_shape = transposed ? &layer->out : &layer->in,
                    .samples = op->spec.samples,
                    .weight = weight};
}

static pdl_status_t forward(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t *out = &op->spec.layer->out;
    const double      *bias = op->description.weight_count > 1 ? run->weight[1] : NULL;
    double            *y = run->output;
    form_t             form = make_form(op, run->weight[0]);

    if (!pdl_layer_traits(op->spec.layer)->transposed) {
        form.wide = run->input[0];
        form.to_narrow = y;
    } else {
        form.narrow = run->input[0];
        form.to_wide = y;
    }
    evaluate(&form);
    for (int64_t n = 0; bias && n < op->spec.samples; n++)
        for (int64_t c = 0; c < out->channels; c++)
            for (int64_t p = 0; p < pdl_shape_positions(out); p++) y[pdl__reference_at(out, n, c, p)] += bias[c];
    return PDL_OK;
}

static pdl_status_t backward(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t *out = &op->spec.layer->out;
    const double      *dy = run->output_gradient[0];
    double            *dbias = op->description.weight_count > 1 ? run->weight_gradient[1] : NULL;
    form_t             form = make_form(op, run->weight[0]);

    form.to_weight = run->weight_gradient[0];
    if (!pdl_layer_traits(op->spec.layer)->transposed) {
        form.narrow = dy;
        form.wide = run->input[0];
        form.to_wide = run->input_gradient[0];
    } else {
        form.narrow = run->input[0];
        form.wide = dy;
        form.to_narrow = run->input_gradient[0];
    }
    evaluate(&form);
    for (int64_t n = 0; dbias && n < op->spec.samples; n++)
        for (int64_t c = 0; c < out->channels; c++)
            for (int64_t p = 0; p < pdl_shape_positions(out); p++) dbias[c] += dy[pdl__reference_at(out, n, c, p)];
    return PDL_OK;
}

const pdl__reference_kind_t pdl__reference_conv = {describe, forward, backward};
const pdl__reference_kind_t pdl__reference_conv_transpose = {describe, forward, backward};
