/*
 * The factors of an update, the same on the host and in kernels.
 */
#ifndef PDL_TENSOR_RATES_H
#define PDL_TENSOR_RATES_H

#include <paradl/tensor/backend.h>

#include <math.h>

#ifdef __CUDACC__
#define PDL__BOTH_SIDES __host__ __device__
#else
#define PDL__BOTH_SIDES
#endif

/* The factors of one range: of its step, gradients and weights. */
typedef struct pdl__update_rates {
    double lr, scale, decay;
} pdl__update_rates_t;

/* Of a range whose weights, and gradients or directions, have these norms. `scale`: what *update->scale is. LARS (You, Gitman,
   Ginsburg 2017): the momentum gathers steps that are already scaled by both rates. */
PDL__BOTH_SIDES static inline pdl__update_rates_t pdl__update_rates(const pdl_update_t *update, double scale,
                                                                    bool decays, const double norm[2])
{
    pdl__update_rates_t rates = {update->lr, scale, decays ? update->decay : 0};
    bool                apply = update->kind == PDL_UPDATE_LAMB_APPLY;

    if (update->trust > 0) {
        double rate = update->lr, g = norm[1] * fabs(scale);

        if (decays && norm[0] > 0 && g > 0) rate *= update->trust * norm[0] / (g + rates.decay * norm[0]);
        rates.lr = 1;
        rates.scale *= rate;
        rates.decay *= rate;
    }
    if (apply && decays && norm[0] > 0 && norm[1] > 0) rates.lr *= norm[0] / norm[1];
    return rates;
}

#endif
