/*
 * Why a strategy is not possible on a number of devices: the layer in the way, what it has, and what that allows.
 */
#include "oracle/search/searcher.h"
#include <stdio.h>
#include <string.h>

static bool splits_layers(const pdl_strategy_t *strategy)
{
    return pdl_strategy_has(strategy, PDL_AXIS_TENSOR) || pdl_strategy_has(strategy, PDL_AXIS_SPATIAL);
}

static int64_t smallest_divisor(int64_t n)
{
    for (int64_t d = 2; d <= n / d; d++)
        if (n % d == 0) return d;
    return n;
}

/* Whether some size of the inner axis, or of several together, divides the key-value heads, whole groups of which every device gets. */
static bool heads_divide(int64_t heads, int64_t pe, const pdl_strategy_t *strategy)
{
    bool twice = pdl_strategy_splits_twice(strategy);

    if (!pdl_strategy_is_hybrid(strategy)) return heads % pe == 0;
    for (int64_t t = 2; t <= (twice ? pe : pe - 1) && t <= heads; t++)
        if (pe % t == 0 && heads % t == 0 && (!twice || smallest_divisor(t) < t)) return true;
    return false;
}

static void describe_factors(int64_t pe, char *reason, size_t size)
{
    if (pe < 4)
        snprintf(reason, size, "two axes need at least 4 devices");
    else
        snprintf(reason, size, "%lld devices are no product of two axes: the number is prime", (long long)pe);
}

static int prime_factors(int64_t n)
{
    int count = 0;

    for (; n > 1; n /= smallest_divisor(n)) count++;
    return count;
}

static void describe_layers(pdl__searcher_t *s)
{
    const pdl_strategy_t *strategy = s->best->config.strategy;
    pdl_preset_options_t  options = {.published = s->oracle->p.published_forms,
                                     .spatial_until = s->request->spatial_until};
    bool                  two = pdl_strategy_is_hybrid(strategy);
    int64_t               pe = s->request->pe, smallest = two ? smallest_divisor(pe) : pe, limit;
    char                 *reason = s->best->reason, what[128];
    size_t                size = sizeof(s->best->reason);
    int                   layer;

    if (strategy->per_layer) return;
    if (two && smallest == pe) describe_factors(pe, reason, size);
    if ((two && smallest == pe) || !splits_layers(strategy)) return;
    limit = pdl_preset_limit(s->oracle->model, strategy, &options, &layer);
    if (layer < 0) return;
    const pdl_layer_t *l = pdl_model_layer(s->oracle->model, layer);
    pdl_preset_describe_limit(s->oracle->model, strategy, &options, layer, what, sizeof(what));
    if (smallest > limit)
        snprintf(reason, size, "at most %lld devices%s (layer %s has %s)", (long long)limit,
                 two ? " may share a layer" : "", l->name, what);
    else if (pdl_layer_traits(l)->shared == PDL_SHARED_HEADS && !heads_divide(l->kv_heads, pe, strategy))
        snprintf(reason, size, "layer %s has %s: %s", l->name, what,
                 two ? "no divisor of the number of devices divides them"
                     : "the number of devices does not divide them");
}

void pdl__describe_refusal(pdl__searcher_t *s)
{
    const pdl_strategy_t *strategy = s->best->config.strategy;
    int64_t               pe = s->request->pe;
    bool                  twice = pdl_strategy_splits_twice(strategy);
    int                   axes = pdl_strategy_has(strategy, PDL_AXIS_PIPELINE) ? 3 : 2;

    describe_layers(s);
    if (!twice || s->best->reason[0] != '\0') return;
    if (prime_factors(pe) < axes)
        snprintf(s->best->reason, sizeof(s->best->reason), "%lld devices are no product of %d axes", (long long)pe,
                 axes);
    else
        snprintf(s->best->reason, sizeof(s->best->reason),
                 "no tensor and context axis of %lld devices divide the %lld key-value heads together",
                 (long long)pe, (long long)pdl_preset_heads(s->oracle->model));
}
