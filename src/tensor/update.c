/*
 * Numbers of an update, on the host: rates of layers, the scale of gradients, results that are not finite.
 */
#include "tensor/update.h"

#include <math.h>

/* LARS (You, Gitman, Ginsburg 2017): the momentum gathers steps that are already scaled by both rates. */
static void scale_layer(const pdl_update_t *update, const double norm[2], bool decays, pdl__update_rates_t *rates)
{
    double rate = update->lr, g = norm[1] * fabs(rates->scale);

    if (decays && norm[0] > 0 && g > 0) rate *= update->trust * norm[0] / (g + rates->decay * norm[0]);
    rates->lr = 1;
    rates->scale *= rate;
    rates->decay *= rate;
}

bool pdl__update_rates(const pdl_update_t *update, const pdl_update_range_t *ranges, int count, int i,
                       pdl__update_rates_t *rates)
{
    bool   decays = ranges[i].decays, apply = update->kind == PDL_UPDATE_LAMB_APPLY;
    double norm[2] = {0};

    *rates = (pdl__update_rates_t){.lr = update->lr,
                                   .scale = update->scale != NULL ? *update->scale : 1,
                                   .decay = decays ? update->decay : 0};
    for (int k = 0; k < 2 && (update->trust > 0 || apply); k++) norm[k] = sqrt(update->sums[k * count + i]);
    if (update->trust > 0) scale_layer(update, norm, decays, rates);
    if (apply && decays && norm[0] > 0 && norm[1] > 0) rates->lr *= norm[0] / norm[1];
    return isfinite(rates->scale);
}

pdl_status_t pdl__host_check_results(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *results,
                                     const float *sample_weight, int64_t count, int64_t *flag)
{
    bool doubles = backend->weight_type == PDL_DTYPE_F64;

    (void)stream;
    for (int64_t i = 0; i < count; i++) {
        double value = doubles ? ((const double *)results)[i] : (double)((const float *)results)[i];
        if (!isfinite(value) && (sample_weight == NULL || sample_weight[i] != 0)) *flag = 1;
    }
    return PDL_OK;
}

pdl_status_t pdl__host_clip(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const double *sums, int count,
                            double allowed, const int64_t *flag, double clip[2])
{
    double sum = 0;

    (void)backend, (void)stream;
    for (int i = 0; i < count; i++) sum += sums[i];
    clip[0] = sqrt(sum);
    clip[1] = allowed > 0 ? fmin(1, allowed / (clip[0] + 1e-6)) : 1;
    if (!isfinite(clip[0]) || (flag != NULL && *flag != 0)) clip[1] = NAN;
    return PDL_OK;
}
