/*
 * Memory per device as the published program counts it: it puts nothing in the place of gamma but leaves ReLU and
 * batch normalisation out of |x| + |y|, except in the two spatial strategies, which count every layer.
 */
#include "validate/orig/case.h"

#include <math.h>

static bool in_place(const pdl_layer_t *layer)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);

    return traits->original != NULL && (traits->activation || traits->norm);
}

static double activations(const pdl__orig_layer_t *layer)
{
    return in_place(layer->layer) ? 0 : layer->x + layer->y;
}

/* 2 delta sum (b (|x| + |y|) + |w|) */
pdl__orig_footprint_t pdl__orig_memory_whole(const pdl__orig_t *orig)
{
    pdl__orig_footprint_t whole = {.fixed = orig->w};

    for (int i = 0; i < orig->count; i++) whole.per_sample += activations(&orig->layers[i]);
    return whole;
}

/* 2 delta sum ((B / p1) (|x| + |y|) + |w| / p2), |w| being divided where the layer is split */
pdl__orig_footprint_t pdl__orig_memory_data_filter(const pdl__orig_t *orig)
{
    pdl__orig_footprint_t divided = pdl__orig_memory_whole(orig);

    divided.fixed = 0;
    for (int i = 0; i < orig->count; i++)
        divided.fixed += orig->layers[i].split ? orig->layers[i].w / (double)orig->p2 : orig->layers[i].w;
    return divided;
}

/* As above with p1 = 1, but the program divides the weights once more, those of unsplit layers too (fault: weights
   divided twice). */
pdl__orig_footprint_t pdl__orig_memory_filter(const pdl__orig_t *orig)
{
    pdl__orig_footprint_t divided = pdl__orig_memory_data_filter(orig);

    divided.fixed /= (double)orig->p2;
    return divided;
}

/* 2 delta (sum B (|x| + |y|) / p + sum |w|) over the first `count` layers, x and y being divided where the layer is
   split; the weights are those of all layers. */
static pdl__orig_footprint_t divided_samples(const pdl__orig_t *orig, int count)
{
    pdl__orig_footprint_t divided = {.fixed = orig->w};
    double                p2 = (double)orig->p2;

    for (int i = 0; i < count; i++) {
        const pdl__orig_layer_t *layer = &orig->layers[i];

        divided.per_sample += layer->split ? ceil(layer->x / p2) + ceil(layer->y / p2) : layer->x + layer->y;
    }
    return divided;
}

pdl__orig_footprint_t pdl__orig_memory_spatial(const pdl__orig_t *orig)
{
    return divided_samples(orig, orig->count);
}

/* Layers after the last split one are forgotten (fault: truncated split). */
pdl__orig_footprint_t pdl__orig_memory_data_spatial(const pdl__orig_t *orig)
{
    return divided_samples(orig, orig->last_split + 1);
}

/* 2 delta max over the stages of sum (B (|x| + |y|) + |w|) */
pdl__orig_footprint_t pdl__orig_memory_pipeline(const pdl__orig_t *orig)
{
    pdl__orig_footprint_t most = {0};

    for (int i = 0; i < orig->count;) {
        pdl__orig_footprint_t stage = {0};
        int                   first = i;

        for (; i < orig->count && orig->layers[i].stage == orig->layers[first].stage; i++) {
            stage.per_sample += activations(&orig->layers[i]);
            stage.fixed += orig->layers[i].w;
        }
        if (orig->b * stage.per_sample + stage.fixed > orig->b * most.per_sample + most.fixed) most = stage;
    }
    return most;
}
