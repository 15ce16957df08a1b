/*
 * Time of one layer on one rank: roofline over operations and bytes, per kernel, with the loss of narrow
 * kernels (docs/oracle.md, "Computation").
 */
#include "oracle/cost/cost.h"
#include <math.h>

void pdl__compute_cost(const pdl_system_t *system, const pdl_parameters_t *p, pdl_precision_t precision,
                       pdl_compute_cost_t *cost)
{
    const pdl_device_t *device = &system->device;
    double              peak = pdl_device_peak(device, precision);
    bool                wide = precision == PDL_FP32 || precision == PDL_FP64;
    double              share = wide ? p->matrix_efficiency : p->tensor_efficiency;

    if (share == 0) share = device->matrix_efficiency;
    cost->flop_per_s = share * peak;
    cost->convolution_flop_per_s = cost->flop_per_s;
    if (!wide && p->convolution_efficiency > 0) cost->convolution_flop_per_s = p->convolution_efficiency * peak;
    cost->winograd_flop_per_s = cost->convolution_flop_per_s * (precision == PDL_FP32 ? p->winograd_gain : 1.0);
    cost->bytes_per_s = (p->memory_efficiency > 0 ? p->memory_efficiency : device->memory_efficiency) *
                        device->memory_bandwidth_bytes_per_s;
    cost->kernel_s = p->kernel_s > 0 ? p->kernel_s : device->launch_s;
    /* 8-bit formats are for the factors of matrix products alone: everything else stays in 16 bits. */
    cost->cast_bytes = precision == PDL_FP8 ? 2 * pdl_precision_bytes(PDL_FP8) : 0;
    cost->attention_flop_per_s = cost->flop_per_s;
    if (precision == PDL_FP8 && device->peak_flop_per_s[PDL_BF16] > 0)
        cost->attention_flop_per_s = share * device->peak_flop_per_s[PDL_BF16];
    if (!wide && p->attention_efficiency > 0) cost->attention_flop_per_s *= p->attention_efficiency / share;
    cost->expert_flop_per_s = cost->flop_per_s;
    if (!wide && p->expert_efficiency > 0) cost->expert_flop_per_s *= p->expert_efficiency / share;
    cost->fused_attention = p->fused_attention;
    cost->fused_softmax = p->fused_softmax;
    cost->item_bytes = precision == PDL_FP8 ? pdl_precision_bytes(PDL_BF16) : pdl_precision_bytes(precision);
    cost->narrow_tile = p->narrow_tile;
    cost->causal_skip = p->causal_skip;
    cost->precision = precision;
    cost->measured = pdl__measured_in(system, precision) ? system->measured : NULL;
    cost->measured_count = cost->measured ? system->measured_count : 0;
    cost->model = NULL;
    cost->dilation = device->sharers > 1 ? device->sharers / device->sharing : 1;
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

    /* y and dw are narrow in the local filters, dx and dw in the local channels. */
    *forward_s = kernel(cost, rate, local->samples * (double)layer->flop_forward * local->share_forward * out_loss,
                        elements);
    *backward_s = kernel(cost, rate,
                         local->samples * (double)layer->flop_backward_weight * local->share_backward_weight *
                             (out_loss > in_loss ? out_loss : in_loss),
                         elements);
    if (layer->needs_input_gradient)
        *backward_s +=
            kernel(cost, rate,
                   local->samples * (double)layer->flop_backward_data * local->share_backward_data * in_loss,
                   elements);
    /* What makes the factors of 8-bit products writes them as such, once as they are and once transposed. */
    *forward_s += cost->cast_bytes * (local->samples * local->x_elements + local->weights) / cost->bytes_per_s;
    *backward_s += cost->cast_bytes * local->samples * local->y_elements / cost->bytes_per_s;
}

static void element_seconds(const pdl_compute_cost_t *cost, const pdl_layer_t *layer, const pdl_local_t *local,
                            double *forward_s, double *backward_s)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    double              fy = traits->passes.forward_y, by = traits->passes.backward_y;
    double              fx = traits->passes.forward_x, bx = traits->passes.backward_x;
    double              unit = local->samples * cost->item_bytes / cost->bytes_per_s;

    *forward_s = *backward_s = 0;
    if (fy + fx > 0) *forward_s = cost->kernel_s + unit * (fy * local->y_elements + fx * local->x_elements);
    if (by + bx > 0) *backward_s = cost->kernel_s + unit * (by * local->y_elements + bx * local->x_elements);
}

/* Without fused attention the scores of every head go through memory. Bytes moved per score: written by the first
   product, then by one kernel for scale, mask and softmax and one for dropout, read by the second product; or by
   one kernel for each step and each change between 16 and 32 bits. Backward passes over scores and gradients
   likewise. */
static const struct {
    double forward, backward;
} score_bytes[2] = {{41, 53}, {12, 16}};

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
        *forward_s = kernel(cost, cost->attention_flop_per_s, flop, elements);
        *backward_s = kernel(cost, cost->attention_flop_per_s, 2.5 * flop, 2.0 * elements);
        return;
    }
    scores *= fmax(1, cost->item_bytes / 2) / cost->bytes_per_s;
    *forward_s = kernel(cost, cost->flop_per_s, flop, elements) + score_bytes[cost->fused_softmax].forward * scores;
    *backward_s = kernel(cost, cost->flop_per_s, 2.0 * flop, 2.0 * elements) +
                  score_bytes[cost->fused_softmax].backward * scores;
}

/* The router and, per token, top_k experts; every expert's weights are read. Tokens are brought into the order of
   their experts and back (a read and a write each), and the experts' inner activations are passed over. */
static void moe_seconds(const pdl_compute_cost_t *cost, const pdl_layer_t *layer, const pdl_local_t *local,
                        double *forward_s, double *backward_s)
{
    double flop = local->samples * (double)layer->flop_forward * local->share_forward;
    double chosen = local->samples * (double)layer->top_k;
    double inner = (double)layer->in.extent[0] * (double)layer->expert_hidden * local->share_forward;
    double moved = chosen * (2 * (local->x_elements + local->y_elements) + (layer->gated ? 5 : 3) * inner);
    double passes = (moved + local->weights) * cost->item_bytes / cost->bytes_per_s;

    *forward_s = kernel(cost, cost->expert_flop_per_s, flop, local->weights) + passes;
    *backward_s = kernel(cost, cost->expert_flop_per_s, 2.0 * flop, 2.0 * local->weights) + 2.0 * passes;
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
        pdl__measured_describe(cost->model, layer, local, cost->precision, &row);
        pdl__measured_apply(cost, &row, seconds);
    }
    *forward_s = cost->dilation * seconds[0];
    *backward_s = cost->dilation * seconds[1];
}

double pdl__update_bytes(pdl_optimizer_t optimizer, double weights)
{
    /* 32-bit values read and written per weight: w and g; momentum; two moments. */
    static const double passes[PDL_OPTIMIZER_COUNT] = {3, 5, 7};

    return weights * 4.0 * passes[optimizer];
}

double pdl__update_seconds(const pdl_parameters_t *p, const pdl_compute_cost_t *cost, pdl_optimizer_t optimizer,
                           double weights, double tensors)
{
    double bytes = pdl__update_bytes(optimizer, weights), seconds = bytes / cost->bytes_per_s;

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
