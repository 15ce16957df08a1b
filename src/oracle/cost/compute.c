/*
 * Time of one layer on one rank: roofline over operations and bytes, per kernel, with the loss of narrow
 * kernels (docs/oracle.md, "Computation").
 */
#include "oracle/cost/cost.h"
#include <math.h>

/* Of the products of a network in NVFP4, those that stay in 16 bits: 16 % of the linear layers of a network of 12 G parameters
   (Pretraining Large Language Models with NVFP4, arXiv 2509.25149, section 4.1). */
static const double NVFP4_WIDE_PRODUCTS = 0.16;

/* The peak of a precision for all products of a network together. */
static double product_peak(const pdl_device_t *device, pdl_precision_t precision)
{
    double peak = pdl_device_peak(device, precision), wide = pdl_device_peak(device, PDL_BF16);

    if (precision != PDL_NVFP4) return peak;
    return 1 / ((1 - NVFP4_WIDE_PRODUCTS) / peak + NVFP4_WIDE_PRODUCTS / wide);
}

void pdl__compute_cost(const pdl_system_t *system, const pdl_device_t *device, const pdl_parameters_t *p,
                       pdl_precision_t precision, pdl_compute_cost_t *cost)
{
    double peak = product_peak(device, precision);
    bool   wide = precision == PDL_FP32 || precision == PDL_FP64;
    double share = wide ? p->matrix_efficiency : p->tensor_efficiency;

    if (share == 0) share = device->matrix_efficiency * (p->shaped_kernels && !wide ? p->product_gain : 1);
    cost->flop_per_s = share * peak;
    cost->plain_flop_per_s = share * fmin(peak, pdl_device_peak(device, PDL_FP32));
    cost->convolution_flop_per_s = cost->flop_per_s;
    if (!wide && p->convolution_efficiency > 0) cost->convolution_flop_per_s = p->convolution_efficiency * peak;
    cost->winograd_flop_per_s = cost->convolution_flop_per_s * (precision == PDL_FP32 ? p->winograd_gain : 1.0);
    cost->bytes_per_s = (p->memory_efficiency > 0 ? p->memory_efficiency : device->memory_efficiency) *
                        device->memory_bandwidth_bytes_per_s;
    cost->kernel_s = p->kernel_s > 0 ? p->kernel_s : device->launch_s;
    /* Narrow formats are for the factors of matrix products alone: everything else stays in 16 bits. */
    cost->factor_bytes = pdl_precision_factor_bytes(precision);
    cost->cast_bytes =
        pdl_precision_narrow(precision) ? 2 * (cost->factor_bytes + pdl_precision_scale_bytes(precision)) : 0;
    cost->attention_flop_per_s = cost->flop_per_s;
    cost->wide_flop_per_s = cost->flop_per_s;
    if (pdl_precision_narrow(precision) && device->peak_flop_per_s[PDL_BF16] > 0)
        cost->wide_flop_per_s = cost->attention_flop_per_s = share * device->peak_flop_per_s[PDL_BF16];
    if (!wide && p->attention_efficiency > 0) cost->attention_flop_per_s *= p->attention_efficiency / share;
    if (p->attention_flop_per_s > 0)
        cost->attention_flop_per_s = fmin(cost->attention_flop_per_s, p->attention_flop_per_s);
    cost->expert_flop_per_s = cost->flop_per_s;
    if (!wide && p->expert_efficiency > 0) cost->expert_flop_per_s *= p->expert_efficiency / share;
    cost->fused_attention = p->fused_attention;
    cost->fused_softmax = p->fused_softmax;
    cost->item_bytes = pdl_precision_bytes(precision);
    cost->narrow_tile = p->narrow_tile;
    cost->norm_factor = p->norm_factor;
    cost->few_channels = wide ? 0 : p->few_channels;
    cost->batch_norm_factor = p->batch_norm_factor;
    cost->loss_bytes = p->loss_bytes;
    cost->autocast = p->autocast && cost->item_bytes == 2;
    cost->fused_elements = p->fused_elements;
    cost->units = p->shaped_kernels ? device->compute_units : 0;
    cost->attention_backward = p->shaped_kernels ? 0.78 : 1; /* measured on an H200, as the shapes */
    cost->causal_skip = p->causal_skip;
    cost->precision = precision;
    cost->measured = pdl__measured_in(system, precision) ? system->measured : NULL;
    cost->measured_count = cost->measured ? system->measured_count : 0;
    cost->model = NULL;
    cost->dilation = pdl_device_dilation(device, device->sharers);
    cost->step_s = device->step_s;
}

static double kernel(const pdl_compute_cost_t *cost, double flop_per_s, double flop, double elements)
{
    double arithmetic = flop / flop_per_s, memory = elements * cost->item_bytes / cost->bytes_per_s;

    return cost->kernel_s + (arithmetic > memory ? arithmetic : memory);
}

/* Kernels with fewer channels than a tile compute the whole tile all the same. */
static double narrow_loss(const pdl_compute_cost_t *cost, double channels, double whole)
{
    double tile = cost->narrow_tile < whole ? cost->narrow_tile : whole;

    return channels < tile ? tile / channels : 1.0;
}

static bool winograd(const pdl_layer_t *layer)
{
    return pdl_layer_is_convolution(layer) && layer->out.rank == 2 && layer->groups == 1 && layer->kernel[0] == 3 &&
           layer->kernel[1] == 3 && layer->stride[0] == 1 && layer->stride[1] == 1 && layer->dilation[0] == 1;
}

/* What makes the factors of narrow products writes them as such, once as they are and once transposed. What the gradient of weights
   reads transposed is not written where there is none: a half. */
static double cast_ways(const pdl_layer_t *layer)
{
    return layer->frozen ? 0.5 : 1;
}

static void add_casts(const pdl_compute_cost_t *cost, const pdl_layer_t *layer, const pdl_local_t *local,
                      double *forward_s, double *backward_s)
{
    double ways = cast_ways(layer);

    *forward_s +=
        cost->cast_bytes * (ways * local->samples * local->x_elements + local->weights) / cost->bytes_per_s;
    *backward_s += ways * cost->cast_bytes * local->samples * local->y_elements / cost->bytes_per_s;
    /* Weights are read in 32 bits and written in 16, their gradients the other way round; frozen ones have 16 bits. */
    if (cost->autocast && !layer->frozen) {
        *forward_s += 6 * local->weights / cost->bytes_per_s;
        *backward_s += 6 * local->weights / cost->bytes_per_s;
    }
}

/* A product whose largest dimensions are known: its operations say the third. */
static double shaped_kernel(const pdl_compute_cost_t *cost, double rate, double flop, double m, double n,
                            double elements, double loss)
{
    double memory = elements * cost->item_bytes / cost->bytes_per_s;

    if (flop <= 0 || m <= 0 || n <= 0) return cost->kernel_s + memory;
    return cost->kernel_s + fmax(memory, loss * pdl__product_seconds(cost, rate, m, n, flop / (2 * m * n)));
}

/* Rows of fewer channels are not loaded as vectors. */
static const double LEAST_CHANNELS = 8;

/* Rows of factors that do not begin at multiples of 16 bytes are loaded one element at a time, those that do not at multiples
   of 128 share lines of the cache (NVIDIA, Matrix Multiplication Background User's Guide: multiples of 64 elements of 16 bits
   are the fastest on an A100). How much that costs: h200_ops.csv, and models of hidden size 14,400 of published runs. */
static double row_loss(const pdl_compute_cost_t *cost, double bytes)
{
    if (cost->item_bytes == 4 && cost->precision == PDL_FP32) return 1;
    if (fmod(bytes, 16) != 0) return 4;
    return fmod(bytes, 128) != 0 ? 1.25 : 1;
}

/* The three products of a layer: y has a row per position and a column per filter, dx a column per channel, dw is as
   large as the weights. */
static void shaped_seconds(const pdl_compute_cost_t *cost, const pdl_layer_t *layer, const pdl_local_t *local,
                           double rate, double *forward_s, double *backward_s)
{
    double out = fmax(1, local->out_channels), in = fmax(1, local->in_channels);
    double elements = local->samples * (local->x_elements + local->y_elements) + local->weights;
    double forward = local->samples * (double)layer->flop_forward * local->share_forward;
    double weight = local->samples * (double)layer->flop_backward_weight * local->share_backward_weight;
    double data = local->samples * (double)layer->flop_backward_data * local->share_backward_data;
    bool   linear = pdl_layer_is_linear(layer);

    if (in < LEAST_CHANNELS && in < cost->few_channels && !linear) {
        forward *= cost->few_channels / in;
        weight *= cost->few_channels / in;
    }
    double in_loss = linear ? row_loss(cost, in * cost->factor_bytes) : 1;
    double out_loss = linear ? row_loss(cost, out * cost->factor_bytes) : 1;
    /* Tied weights are no weights of the layer: the operations say how deep the product is. */
    double positions = local->samples * local->y_elements / out, depth = forward / (2 * positions * out);
    *forward_s = shaped_kernel(cost, rate, forward, positions, out, elements, in_loss);
    *backward_s =
        layer->frozen ? 0 : shaped_kernel(cost, rate, weight, depth, out, elements, fmax(in_loss, out_loss));
    if (layer->needs_input_gradient)
        *backward_s +=
            shaped_kernel(cost, rate, data, local->samples * local->x_elements / in, in, elements, out_loss);
}

/* Narrow formats are for the products of blocks: logits stay in 16 bits in every framework. */
static bool is_wide_logits(const pdl_compute_cost_t *cost, const pdl_layer_t *layer)
{
    if (!pdl_precision_narrow(cost->precision) || cost->model == NULL) return false;
    const pdl_layer_t *last = pdl_model_layer(cost->model, pdl_model_layer_count(cost->model) - 1);
    return pdl_layer_traits(last)->loss && pdl_model_layer(cost->model, last->inputs[0]) == layer;
}

/* Convolutions and linear layers: one kernel each for y, dx and dw. */
static void matrix_seconds(const pdl_compute_cost_t *cost, const pdl_layer_t *layer, const pdl_local_t *local,
                           double *forward_s, double *backward_s)
{
    double rate = pdl_layer_is_linear(layer) ? cost->flop_per_s
                  : winograd(layer)          ? cost->winograd_flop_per_s
                                             : cost->convolution_flop_per_s;
    double elements = local->samples * (local->x_elements + local->y_elements) + local->weights;
    double out_loss = narrow_loss(cost, local->out_channels, (double)layer->out.channels);
    double in_loss = narrow_loss(cost, local->in_channels, (double)layer->in.channels);

    bool wide = is_wide_logits(cost, layer);
    if (wide) rate = cost->wide_flop_per_s;
    if (cost->units > 0) {
        shaped_seconds(cost, layer, local, rate, forward_s, backward_s);
        if (!wide) add_casts(cost, layer, local, forward_s, backward_s);
        return;
    }
    /* y and dw are narrow in the local filters, dx and dw in the local channels. */
    *forward_s = kernel(cost, rate, local->samples * (double)layer->flop_forward * local->share_forward * out_loss,
                        elements);
    *backward_s = 0;
    if (!layer->frozen)
        *backward_s = kernel(cost, rate,
                             local->samples * (double)layer->flop_backward_weight * local->share_backward_weight *
                                 (out_loss > in_loss ? out_loss : in_loss),
                             elements);
    if (layer->needs_input_gradient)
        *backward_s +=
            kernel(cost, rate,
                   local->samples * (double)layer->flop_backward_data * local->share_backward_data * in_loss,
                   elements);
    if (!wide) add_casts(cost, layer, local, forward_s, backward_s);
}

/* Automatic mixed precision: what sequences are summed up in has 32 bits, and so have norms, whose results are cast. Bytes
   moved per element: a norm reads and writes 32 bits and casts (6); a sum reads 32 and 16 bits and writes 32, its backward adds
   two gradients of 32 bits and casts one. */
static void wide_seconds(const pdl_compute_cost_t *cost, const pdl_traits_t *traits, double elements,
                         double *forward_s, double *backward_s)
{
    double unit = elements / cost->bytes_per_s;

    if (traits->norm) {
        *forward_s = cost->kernel_s + unit * (4 * traits->passes.forward_y * cost->norm_factor + 6);
        *backward_s = cost->kernel_s + unit * (4 * traits->passes.backward_y + 6);
    } else {
        *forward_s = cost->kernel_s + unit * 10;
        *backward_s = cost->kernel_s + unit * 18;
    }
}

static bool element_wise(const pdl_compute_cost_t *cost, int index)
{
    const pdl_traits_t *traits = pdl_layer_traits(pdl_model_layer(cost->model, index));

    return traits->work == PDL_WORK_ELEMENTS && !traits->source;
}

/* Fused: one pass over memory for a chain of element-wise layers, which the norm or the first of them in front takes. Gates are
   multiplied where their activation is computed. */
static bool computed_along(const pdl_compute_cost_t *cost, const pdl_layer_t *layer, const pdl_traits_t *traits)
{
    int latest = -1;

    if (!cost->fused_elements || cost->model == NULL) return false;
    if (!traits->activation && traits->combine != PDL_COMBINE_SUM && traits->combine != PDL_COMBINE_PRODUCT)
        return false;
    for (int i = 0; i < layer->input_count; i++) {
        if (traits->combine == PDL_COMBINE_PRODUCT && element_wise(cost, layer->inputs[i])) return true;
        if (layer->inputs[i] > latest) latest = layer->inputs[i];
    }
    return latest >= 0 && element_wise(cost, latest);
}

static void element_seconds(const pdl_compute_cost_t *cost, const pdl_layer_t *layer, const pdl_local_t *local,
                            double *forward_s, double *backward_s)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    double              fy = traits->passes.forward_y, by = traits->passes.backward_y;
    double              fx = traits->passes.forward_x, bx = traits->passes.backward_x;
    double              unit = local->samples * cost->item_bytes / cost->bytes_per_s;

    *forward_s = *backward_s = 0;
    if (computed_along(cost, layer, traits)) return;
    if (cost->autocast && layer->out.rank == 1 && (traits->norm || traits->combine == PDL_COMBINE_SUM)) {
        wide_seconds(cost, traits, local->samples * local->y_elements, forward_s, backward_s);
        return;
    }
    if (traits->loss && cost->loss_bytes > 0) {
        *forward_s = *backward_s =
            cost->kernel_s + 0.5 * cost->loss_bytes * local->samples * local->x_elements / cost->bytes_per_s;
        return;
    }
    if (traits->norm && traits->statistics) unit *= cost->batch_norm_factor;
    /* Backward of a norm over rows reads them once everywhere. */
    if (traits->norm && !traits->statistics) fy *= cost->norm_factor;
    if (fy + fx > 0) *forward_s = cost->kernel_s + unit * (fy * local->y_elements + fx * local->x_elements);
    if (by + bx > 0) *backward_s = cost->kernel_s + unit * (by * local->y_elements + bx * local->x_elements);
}

/* Without fused attention the scores of every head go through memory. Bytes moved per score: written by the first
   product, then by one kernel for scale, mask and softmax and one for dropout, read by the second product; or by
   one kernel for each step and each change between 16 and 32 bits: 41 and 53, at about half of the bandwidth, as masks are
   broadcast and rows are read twice. Backward passes over scores and gradients likewise. */
static const struct {
    double forward, backward;
} score_bytes[2] = {{84, 108}, {12, 16}};

/* Products of heads in kernels of their own. Rows of a head that do not begin at multiples of 16 bytes are not for tensor cores: 16-bit
   products then run at the rate of 32 bits (published runs with heads of 108 values take 1.3 to 1.45 times as long as with 144 or 216). */
static double head_rate(const pdl_compute_cost_t *cost, double head)
{
    if (cost->units == 0) return cost->wide_flop_per_s;
    return fmod(head * cost->item_bytes, 16) != 0 ? cost->plain_flop_per_s
                                                  : cost->wide_flop_per_s / row_loss(cost, head * cost->item_bytes);
}

/* Fused attention: memory linear in the sequence; backward recomputes the scores, hence 2.5 times the forward. */
static void attention_seconds(const pdl_compute_cost_t *cost, const pdl_layer_t *layer, const pdl_local_t *local,
                              double *forward_s, double *backward_s)
{
    double flop = local->samples * (double)layer->flop_forward * local->share_forward;
    double elements = local->samples * (local->x_elements + local->y_elements);
    double tokens = (double)layer->in.extent[0];
    double scores = local->samples * (double)layer->heads * local->share_forward * tokens * tokens;

    if (layer->causal && cost->causal_skip) flop *= 0.5;
    if (cost->fused_attention) {
        double rate = cost->attention_flop_per_s;
        if (cost->units > 0)
            rate *= pdl__attention_share(cost, local->samples * (double)layer->heads * local->share_forward, tokens,
                                         (double)layer->head_dim);
        *forward_s = kernel(cost, rate, flop, elements);
        *backward_s = kernel(cost, cost->attention_backward * rate, 2.5 * flop, 2.0 * elements);
        return;
    }
    scores *= fmax(1, cost->item_bytes / 2) / cost->bytes_per_s;
    double rate = head_rate(cost, (double)layer->head_dim);
    *forward_s = kernel(cost, rate, flop, elements) + score_bytes[cost->fused_softmax].forward * scores;
    *backward_s =
        kernel(cost, rate, 2.0 * flop, 2.0 * elements) + score_bytes[cost->fused_softmax].backward * scores;
}

/* Products of a group of experts, one kernel for all of them: each has its own rows, in whole tiles. */
static void expert_products(const pdl_compute_cost_t *cost, const pdl_layer_t *layer, const pdl_local_t *local,
                            double *forward_s, double *backward_s)
{
    static const double TILE = 128;
    double              flop = local->samples * (double)layer->flop_forward * local->share_forward;
    double              rate = cost->expert_flop_per_s, products = layer->frozen ? 1 : 2;

    if (cost->units == 0) {
        *forward_s = kernel(cost, rate, flop, local->weights);
        *backward_s = kernel(cost, rate, products * flop, products * local->weights);
        return;
    }
    /* Replicas that share experts out bring their tokens to each other. */
    double tokens = local->samples * (double)layer->in.extent[0] * local->experts_over;
    double rows = tokens * pdl_layer_expert_rows(layer) / fmax(1, (double)layer->experts);
    double experts = fmax(1, ceil((double)layer->experts / local->experts_over));
    double all = experts * TILE * ceil(rows / TILE);
    double hidden = (double)layer->in.channels,
           inner = fmax(1, (double)layer->expert_hidden * local->share_forward),
           wide = inner * (layer->gated ? 2 : 1);
    *forward_s = 2 * cost->kernel_s + pdl__product_seconds(cost, rate, all, wide, hidden) +
                 pdl__product_seconds(cost, rate, all, hidden, inner);
    *backward_s = 2 * products * cost->kernel_s + pdl__product_seconds(cost, rate, all, hidden, wide) +
                  pdl__product_seconds(cost, rate, all, inner, hidden);
    if (layer->frozen) return;
    *backward_s = *backward_s + pdl__product_seconds(cost, rate, experts * hidden, wide, rows) +
                  pdl__product_seconds(cost, rate, experts * inner, hidden, rows);
}

/* The router and, per token, top_k experts, or the capacity of all; every expert's weights are read. Tokens are brought into the order of
   their experts and back (a read and a write each), and the experts' inner activations are passed over. */
static void moe_seconds(const pdl_compute_cost_t *cost, const pdl_layer_t *layer, const pdl_local_t *local,
                        double *forward_s, double *backward_s)
{
    double chosen = local->samples * pdl_layer_expert_rows(layer);
    double inner = (double)layer->in.extent[0] * (double)layer->expert_hidden * local->share_forward;
    double moved = chosen * (2 * (local->x_elements + local->y_elements) + (layer->gated ? 5 : 3) * inner);
    double passes = (moved + local->weights) * cost->item_bytes / cost->bytes_per_s;
    double ways = cast_ways(layer);

    expert_products(cost, layer, local, forward_s, backward_s);
    *forward_s += passes + cost->cast_bytes * (ways * chosen * (local->x_elements + inner) + local->weights) /
                               cost->bytes_per_s;
    *backward_s +=
        2.0 * passes + ways * cost->cast_bytes * chosen * (local->y_elements + 2 * inner) / cost->bytes_per_s;
}

static void roofline_seconds(const pdl_compute_cost_t *cost, const pdl_layer_t *layer, const pdl_local_t *local,
                             double *forward_s, double *backward_s)
{
    switch (pdl_layer_traits(layer)->work) {
    case PDL_WORK_ELEMENTS: element_seconds(cost, layer, local, forward_s, backward_s); break;
    case PDL_WORK_MATRIX: matrix_seconds(cost, layer, local, forward_s, backward_s); break;
    case PDL_WORK_ATTENTION: attention_seconds(cost, layer, local, forward_s, backward_s); break;
    case PDL_WORK_EXPERTS: moe_seconds(cost, layer, local, forward_s, backward_s); break;
    }
}

void pdl__layer_seconds(const pdl_compute_cost_t *cost, const pdl_layer_t *layer, const pdl_local_t *local,
                        double *forward_s, double *backward_s)
{
    double seconds[2];

    roofline_seconds(cost, layer, local, &seconds[0], &seconds[1]);
    if (cost->measured_count > 0 && cost->model) {
        pdl_measured_t row;
        pdl_measured_describe(cost->model, layer, local, cost->precision, &row);
        pdl__measured_apply(cost, &row, seconds);
    }
    *forward_s = cost->dilation * seconds[0];
    *backward_s = cost->dilation * seconds[1];
}

double pdl_update_bytes(pdl_optimizer_t optimizer, double weights)
{
    /* 32-bit values read and written per weight: w and g; momentum; two moments. */
    static const double passes[PDL_OPTIMIZER_COUNT] = {3, 5, 7};

    return weights * 4.0 * passes[optimizer];
}

double pdl__update_seconds(const pdl_parameters_t *p, const pdl_compute_cost_t *cost, pdl_optimizer_t optimizer,
                           double weights, double tensors)
{
    double bytes = pdl_update_bytes(optimizer, weights), seconds = bytes / cost->bytes_per_s;

    if (!p->fused_update && p->update_bytes_per_s > 0) seconds = weights * cost->item_bytes / p->update_bytes_per_s;
    seconds += tensors * p->update_tensor_s;
    if (cost->measured_count == 0 || weights <= 0) return cost->dilation * seconds + cost->step_s;
    pdl_measured_t row = {.layer = PDL_MEASURED_UPDATE,
                          .precision = (int)cost->precision,
                          .after = -1,
                          .work = {bytes},
                          .in_channels = 1,
                          .out_channels = 1,
                          .window = 1};
    double         both[2] = {seconds, 0};
    pdl__measured_apply(cost, &row, both);
    return cost->dilation * both[0] + cost->step_s;
}
