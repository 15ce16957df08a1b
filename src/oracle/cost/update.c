/*
 * The update of the weights of a stage: what it computes, and what it waits for where the optimizer's state is with the host.
 */
#include "oracle/internal.h"

#include <math.h>

double pdl__weight_bytes(const pdl_case_t *c)
{
    return pdl_precision_bytes(c->precision == PDL_FP8 ? PDL_BF16 : c->precision);
}

double pdl__moment_bytes(const pdl_case_t *c)
{
    static const double moments[PDL_OPTIMIZER_COUNT] = {0, 1, 2};

    return c->run_mode == PDL_INFERENCE ? 0 : moments[c->optimizer] * fmax(pdl__weight_bytes(c), 4);
}

/* State that is with the host passes through the device in pieces: while one is updated, the next comes and the last goes. */
double pdl__stage_update_seconds(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                                 const pdl_sums_t *sums)
{
    double weights = sums->weights / (c->sharding >= PDL_SHARDING_ZERO1 ? (double)c->data : 1.0);
    double seconds = pdl__update_seconds(&oracle->p, &profile->compute, c->optimizer, weights, sums->tensors);

    if (c->optimizer_tier == PDL_TIER_DEVICE) return seconds;
    return fmax(seconds, pdl_host_link_seconds(&oracle->system->device.host_link, PDL_HOST_BOTH,
                                               weights * pdl__moment_bytes(c)));
}
