/*
 * The update of the weights of a stage: what it computes, and what it waits for where the optimizer's state is with the host.
 */
#include "oracle/internal.h"

#include <math.h>

double pdl__weight_bytes(const pdl_case_t *c)
{
    return pdl_precision_bytes(c->precision);
}

double pdl__moment_bytes(const pdl_case_t *c)
{
    static const double moments[PDL_OPTIMIZER_COUNT] = {0, 1, 2};

    return c->run_mode == PDL_INFERENCE ? 0 : moments[c->optimizer] * fmax(pdl__weight_bytes(c), 4);
}

/* Processors of the host update: gradients come and weights go over the link beside that. Where their rate is not known they keep up
   with it. */
static double host_update_seconds(const pdl_device_t *device, const pdl_case_t *c, double weights)
{
    double rate = device->host_update_bytes_per_s;
    double moved = pdl_host_link_seconds(&device->host_link, PDL_HOST_BOTH, weights * pdl__weight_bytes(c));

    if (!(rate > 0)) rate = device->host_link.bytes_per_s[PDL_HOST_BOTH];
    return rate > 0 ? fmax(moved, pdl_update_bytes(c->optimizer, weights) / rate) : moved;
}

/* State that is with the host passes through the device in pieces: while one is updated, the next comes and the last goes. */
double pdl__stage_update_seconds(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                                 const pdl_sums_t *sums)
{
    double weights = c->sharding >= PDL_SHARDING_ZERO1
                         ? pdl__shared_weights(c, sums->weights, sums->expert_weights) / (double)c->data
                         : sums->weights;
    double seconds = pdl__slowest_update(&oracle->p, profile, c->optimizer, weights, sums->tensors);

    if (c->optimizer_tier == PDL_TIER_DEVICE) return seconds;
    if (oracle->p.host_updates && c->optimizer_tier == PDL_TIER_HOST)
        return host_update_seconds(profile->device, c, weights);
    return fmax(seconds,
                pdl_host_link_seconds(&profile->device->host_link, PDL_HOST_BOTH, weights * pdl__moment_bytes(c)));
}
