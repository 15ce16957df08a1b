/*
 * What a backend does with vectors, whatever layer they belong to: conversions, sums, and the steps of the
 * optimizers.
 */
#include "tensor/reference/reference.h"
#include "tensor/update.h"

#include <math.h>
#include <string.h>

pdl_status_t pdl__reference_convert(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                                    int64_t samples, pdl_format_t from, const void *source, pdl_format_t to,
                                    void *target)
{
    (void)backend, (void)stream;
    if (from != PDL_FORMAT_PLAIN || to != PDL_FORMAT_PLAIN)
        return pdl_error(PDL_ERR_UNSUPPORTED, "the reference backend knows plain tensors only");
    memmove(target, source, (size_t)(pdl_shape_elements(shape) * samples) * sizeof(double));
    return PDL_OK;
}

pdl_status_t pdl__reference_from_float(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const float *source,
                                       int64_t count, void *target)
{
    double *to = target;

    (void)backend, (void)stream;
    for (int64_t i = 0; i < count; i++) to[i] = source[i];
    return PDL_OK;
}

pdl_status_t pdl__reference_to_float(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *source,
                                     int64_t count, float *target)
{
    const double *from = source;

    (void)backend, (void)stream;
    for (int64_t i = 0; i < count; i++) target[i] = (float)from[i];
    return PDL_OK;
}

pdl_status_t pdl__reference_sum(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *a, const void *b,
                                size_t bytes, void *sum)
{
    const double *first = a, *second = b;
    double       *to = sum;

    (void)backend, (void)stream;
    for (size_t i = 0; i < bytes / sizeof(double); i++) to[i] = first[i] + second[i];
    return PDL_OK;
}

pdl_status_t pdl__reference_find_not_finite(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *data,
                                            size_t bytes, int64_t *index)
{
    const double *values = data;

    (void)backend, (void)stream;
    *index = -1;
    for (size_t i = 0; i < bytes / sizeof(double) && *index < 0; i++)
        if (!isfinite(values[i])) *index = (int64_t)i;
    return PDL_OK;
}

pdl_status_t pdl__reference_sum_squares(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *values,
                                        const pdl_slice_t *slices, int count, double *sums)
{
    (void)backend, (void)stream;
    for (int i = 0; i < count; i++) {
        const double *from = (const double *)values + slices[i].at;

        sums[i] = 0;
        for (int64_t k = 0; k < slices[i].elements; k++) sums[i] += from[k] * from[k];
    }
    return PDL_OK;
}

/* Moves both moments of Adam by gradient g. */
static void move_moments(const pdl_update_t *u, double g, double *m, double *v)
{
    *m = u->beta1 * *m + (1 - u->beta1) * g;
    *v = u->beta2 * *v + (1 - u->beta2) * g * g;
}

static double adam_direction(const pdl_update_t *u, double m, double v)
{
    return m / u->correction1 / (sqrt(v / u->correction2) + u->epsilon);
}

static double *moment_of(const pdl_update_t *u, int k, const pdl_update_range_t *range)
{
    return u->moment[k] != NULL ? (double *)u->moment[k] + range->state : NULL;
}

/* Returns the sum of squares that LAMB wants. */
static double update_range(const pdl_update_t *u, const pdl__update_rates_t *rates, const pdl_update_range_t *range)
{
    double *w = (double *)u->weights + range->weights, *m = moment_of(u, 0, range), *v = moment_of(u, 1, range);
    const double *gradients = (const double *)u->gradients + range->gradients;
    double        direction, squares = 0;
    bool          finite = true;

    for (int64_t i = 0; i < range->elements; i++) {
        double g = gradients[i] * rates->scale;

        switch (u->kind) {
        case PDL_UPDATE_SGD: w[i] -= rates->lr * (g + rates->decay * w[i]); break;
        case PDL_UPDATE_MOMENTUM:
            m[i] = u->momentum * m[i] + g + rates->decay * w[i];
            w[i] -= rates->lr * m[i];
            break;
        case PDL_UPDATE_NESTEROV:
            g += rates->decay * w[i];
            m[i] = u->momentum * m[i] + g;
            w[i] -= rates->lr * (g + u->momentum * m[i]);
            break;
        case PDL_UPDATE_ADAMW:
            move_moments(u, g, &m[i], &v[i]);
            w[i] -= rates->lr * rates->decay * w[i];
            w[i] -= rates->lr * adam_direction(u, m[i], v[i]);
            break;
        case PDL_UPDATE_LAMB_STATE:
            move_moments(u, g, &m[i], &v[i]);
            direction = adam_direction(u, m[i], v[i]) + rates->decay * w[i];
            squares += direction * direction;
            break;
        case PDL_UPDATE_LAMB_APPLY:
            w[i] -= rates->lr * (adam_direction(u, m[i], v[i]) + rates->decay * w[i]);
            break;
        }
        finite = finite && isfinite(w[i]) && (v == NULL || isfinite(v[i]));
    }
    if (u->not_finite != NULL && !finite) *u->not_finite = 1;
    return squares;
}

pdl_status_t pdl__reference_update(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_update_t *u,
                                   const pdl_update_range_t *ranges, int count)
{
    pdl__update_rates_t rates;

    (void)backend, (void)stream;
    for (int i = 0; i < count; i++) {
        if (!pdl__host_update_rates(u, ranges, count, i, &rates)) continue;
        double squares = update_range(u, &rates, &ranges[i]);
        if (u->kind == PDL_UPDATE_LAMB_STATE) u->sums[count + i] = squares;
    }
    return PDL_OK;
}

pdl_status_t pdl__reference_average(pdl_backend_t *backend, pdl_tensor_stream_t *stream, double keep, int64_t count,
                                    void *ema, const void *w)
{
    double       *average = ema;
    const double *now = w;

    (void)backend, (void)stream;
    for (int64_t i = 0; i < count; i++) average[i] = keep * average[i] + (1 - keep) * now[i];
    return PDL_OK;
}
