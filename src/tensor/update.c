/*
 * Numbers of an update, on the host: rates of layers, the scale of gradients, results that are not finite.
 */
#include "tensor/update.h"

#include <math.h>

bool pdl__host_update_rates(const pdl_update_t *update, const pdl_update_range_t *ranges, int count, int i,
                            pdl__update_rates_t *rates)
{
    double norm[2] = {0};

    for (int k = 0; k < 2 && (update->trust > 0 || update->kind == PDL_UPDATE_LAMB_APPLY); k++)
        norm[k] = sqrt(update->sums[k * count + i]);
    *rates = pdl__update_rates(update, update->scale != NULL ? *update->scale : 1, ranges[i].decays, norm);
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
