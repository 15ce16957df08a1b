/*
 * How many devices each strategy can use: docs/oracle.md, "Limits on devices".
 */
#include "validate/orig/case.h"

#include <stdarg.h>
#include <stdio.h>

void pdl__orig_refuse(pdl_orig_result_t *result, const char *format, ...)
{
    va_list arguments;

    result->feasible = false;
    va_start(arguments, format);
    vsnprintf(result->reason, sizeof(result->reason), format, arguments);
    va_end(arguments);
}

typedef int64_t (*extent_fn_t)(const pdl_layer_t *layer);

/* Only the first dimension of space is ever divided. */
static int64_t least_width(const pdl_layer_t *layer)
{
    return layer->in.extent[0] < layer->out.extent[0] ? layer->in.extent[0] : layer->out.extent[0];
}

static int64_t filters(const pdl_layer_t *layer)
{
    return layer->out.channels;
}

static int64_t channels(const pdl_layer_t *layer)
{
    return layer->in.channels;
}

/* Refuses unless the p2 pieces of every split layer from `first` on hold something. */
static void check_pieces(const pdl__orig_t *orig, int first, extent_fn_t extent, const char *what,
                         pdl_orig_result_t *result)
{
    const pdl__orig_layer_t *least = NULL;

    for (int i = first; i < orig->count; i++) {
        const pdl__orig_layer_t *layer = &orig->layers[i];

        if (layer->split && (least == NULL || extent(layer->layer) < extent(least->layer))) least = layer;
    }
    if (least == NULL) {
        pdl__orig_refuse(result, "no layer is split");
    } else if (extent(least->layer) < orig->p2) {
        pdl__orig_refuse(result, "%lld devices are more than the %lld %s of layer %.60s", (long long)orig->p2,
                         (long long)extent(least->layer), what, least->layer->name);
    }
}

static void check_samples(const pdl__orig_t *orig, const char *what, pdl_orig_result_t *result)
{
    if (orig->p1 > orig->batch)
        pdl__orig_refuse(result, "%lld %s are more than the %lld samples of a batch", (long long)orig->p1, what,
                         (long long)orig->batch);
}

void pdl__orig_limit_serial(const pdl__orig_t *orig, pdl_orig_result_t *result)
{
    if (orig->pe > 1) pdl__orig_refuse(result, "serial training uses one device, not %lld", (long long)orig->pe);
}

void pdl__orig_limit_data(const pdl__orig_t *orig, pdl_orig_result_t *result)
{
    check_samples(orig, "devices", result);
}

void pdl__orig_limit_spatial(const pdl__orig_t *orig, pdl_orig_result_t *result)
{
    check_pieces(orig, 0, least_width, "columns", result);
}

void pdl__orig_limit_filter(const pdl__orig_t *orig, pdl_orig_result_t *result)
{
    check_pieces(orig, 0, filters, "filters", result);
}

/* The first layer has the channels of a picture, too few to count. */
void pdl__orig_limit_channel(const pdl__orig_t *orig, pdl_orig_result_t *result)
{
    check_pieces(orig, 1, channels, "channels", result);
}

void pdl__orig_limit_pipeline(const pdl__orig_t *orig, pdl_orig_result_t *result)
{
    if (orig->p2 > orig->count) {
        pdl__orig_refuse(result, "%lld devices are more than the %d layers", (long long)orig->p2, orig->count);
    } else if (orig->stages < orig->p2) {
        pdl__orig_refuse(result, "the layers can be cut into %d stages of about equal time, not %lld", orig->stages,
                         (long long)orig->p2);
    } else if (orig->segments > orig->batch) {
        pdl__orig_refuse(result, "%lld segments are more than the %lld samples of a batch",
                         (long long)orig->segments, (long long)orig->batch);
    }
}

void pdl__orig_limit_data_filter(const pdl__orig_t *orig, pdl_orig_result_t *result)
{
    check_samples(orig, "groups", result);
    if (result->feasible) pdl__orig_limit_filter(orig, result);
}

void pdl__orig_limit_data_spatial(const pdl__orig_t *orig, pdl_orig_result_t *result)
{
    check_samples(orig, "groups", result);
    if (result->feasible) pdl__orig_limit_spatial(orig, result);
}
