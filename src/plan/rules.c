/*
 * Operation rules: for one axis, a mode fixes the placements an operation reads and writes and the share of
 * the work its busiest rank does.
 */
#include <paradl/plan/rules.h>
#include <stdarg.h>
#include <stdio.h>

const char *const pdl_mode_names[PDL_MODE_COUNT] = {"pass",    "replicate", "sample",     "space", "filter",
                                                    "channel", "heads",     "vocabulary", "expert"};

bool pdl_layer_is_matrix(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->kernel == PDL_KERNEL_MATRIX;
}

static bool is_window(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->positions == PDL_POSITIONS_WINDOW;
}

/* Operations that treat every channel alone and keep its position; so does a depthwise convolution. */
static bool is_channelwise(const pdl_layer_t *layer)
{
    pdl_channels_t channels = pdl_layer_traits(layer)->channels;

    if (channels == PDL_CHANNELS_ALONE || channels == PDL_CHANNELS_FOLDED) return true;
    return is_window(layer) && layer->groups > 1 && layer->groups == layer->in.channels;
}

pdl_window_t pdl_layer_window(const pdl_layer_t *layer, int dim)
{
    pdl_window_t window = {layer->in.extent[dim], layer->in.extent[dim], 1, 1, 1, 0};

    if (layer->bilinear) window.kernel = 3, window.pad = 1;
    if (is_window(layer) && dim < layer->in.rank) {
        window.out = layer->out.extent[dim];
        window.kernel = layer->kernel[dim];
        window.stride = layer->stride[dim];
        window.dilation = layer->dilation[dim];
        window.pad = layer->pad_low[dim];
    }
    return window;
}

PDL_PRINTF(3, 4) static bool refuse(char *why, size_t size, const char *format, ...)
{
    va_list arguments;

    if (!why) return false;
    va_start(arguments, format);
    vsnprintf(why, size, format, arguments);
    va_end(arguments);
    return false;
}

/* Operations that give every position to the rank of the input it comes from: pieces must line up. */
static bool pieces_line_up(const pdl_layer_t *layer, int dim, int64_t pieces)
{
    int64_t in = layer->in.extent[dim], out = layer->out.extent[dim];

    switch (pdl_layer_traits(layer)->positions) {
    case PDL_POSITIONS_ROWS: return dim == 0 && (in % pieces == 0 || out == in);
    case PDL_POSITIONS_SCALED: return in % pieces == 0 && out % in == 0;
    default: return true;
    }
}

/* Operations that take all positions together: only their input is split. */
static bool sums_positions(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->positions == PDL_POSITIONS_SUMMED;
}

static bool space_allowed(const pdl_layer_t *layer, const pdl_axis_t *axis, char *why, size_t size)
{
    int     dim = axis->dim;
    int64_t in, out;

    if (dim < 0 || dim >= layer->in.rank) return refuse(why, size, "has only %d spatial extents", layer->in.rank);
    in = layer->in.extent[dim];
    out = sums_positions(layer) ? in : layer->out.extent[dim];
    if (pdl_layer_traits(layer)->positions == PDL_POSITIONS_TOGETHER)
        return refuse(why, size, "cannot be split in space");
    /* Every position moves by one, and the token itself belongs to the first piece alone. */
    if (layer->class_token)
        return refuse(why, size, "puts a class token in front of the positions, which must be together for it");
    if (in < axis->size || out < axis->size)
        return refuse(why, size, "has an extent of %lld", (long long)(in < out ? in : out));
    if (!pieces_line_up(layer, dim, axis->size))
        return refuse(why, size, "has an extent of %lld, which the axis does not divide", (long long)in);
    pdl_window_t window = pdl_layer_window(layer, dim);
    if ((window.kernel - 1) / 2 * window.dilation > in / axis->size)
        return refuse(why, size, "has pieces of %lld rows, thinner than the halo", (long long)(in / axis->size));
    return true;
}

static bool channels_allowed(int64_t have, int64_t size, const char *what, char *why, size_t why_size)
{
    return have >= size || refuse(why, why_size, "has %lld %s", (long long)have, what);
}

bool pdl_mode_allowed(const pdl_layer_t *layer, pdl_mode_t mode, const pdl_axis_t *axis, char *why, size_t size)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    int64_t             n = axis->size;

    if (why && size) why[0] = '\0';
    if (n == 1) return true;
    switch (mode) {
    case PDL_MODE_PASS:
    case PDL_MODE_REPLICATE:
    case PDL_MODE_SAMPLE: return true;
    case PDL_MODE_SPACE: return space_allowed(layer, axis, why, size);
    case PDL_MODE_FILTER:
        if (pdl_layer_is_matrix(layer) && layer->groups > 1)
            return channels_allowed(layer->groups, n, "convolution groups", why, size);
        /* Channels are outermost in a flat vector: blocks line up when every rank has as many. */
        if (traits->channels == PDL_CHANNELS_FOLDED && layer->in.channels % n &&
            layer->in.channels != layer->out.channels)
            return refuse(why, size, "has %lld channels, which the axis does not divide",
                          (long long)layer->in.channels);
        if (traits->channels != PDL_CHANNELS_TOGETHER)
            return channels_allowed(layer->out.channels, n, "filters", why, size);
        return refuse(why, size, "has no filters to split");
    case PDL_MODE_CHANNEL:
        if (!pdl_layer_is_matrix(layer)) return refuse(why, size, "has no input channels to split");
        if (layer->groups > 1) return refuse(why, size, "is grouped: split its filters instead");
        return channels_allowed(layer->in.channels, n, "input channels", why, size);
    case PDL_MODE_HEADS:
        if (traits->shared != PDL_SHARED_HEADS) return refuse(why, size, "is not an attention layer");
        if (layer->kv_heads % n == 0) return true;
        if (layer->kv_heads == layer->heads)
            return refuse(why, size, "has %lld heads, which %lld does not divide", (long long)layer->heads,
                          (long long)n);
        return refuse(why, size, "has %lld key-value heads for its %lld heads, which %lld does not divide",
                      (long long)layer->kv_heads, (long long)layer->heads, (long long)n);
    case PDL_MODE_VOCABULARY:
        if (traits->shared != PDL_SHARED_VOCABULARY) return refuse(why, size, "has no vocabulary");
        if (traits->tokens) return channels_allowed(layer->vocabulary, n, "tokens", why, size);
        return channels_allowed(layer->in.channels, n, "classes", why, size);
    case PDL_MODE_EXPERT:
        if (traits->shared != PDL_SHARED_EXPERTS) return refuse(why, size, "is not a mixture of experts");
        return channels_allowed(layer->experts, n, "experts", why, size) &&
               channels_allowed(layer->in.extent[0], n, "tokens to share out", why, size);
    case PDL_MODE_COUNT: break;
    }
    return refuse(why, size, "has no such mode");
}

static double block_share(int64_t n, int64_t pieces)
{
    return n > 0 ? (double)pdl_block_max(n, pieces) / (double)n : 1.0;
}

static pdl_placement_t space_placement(const pdl_axis_t *axis)
{
    return (pdl_placement_t)(PDL_SPLIT_S0 + axis->dim);
}

/* The placement several inputs agree on: a split wins over whole tensors, which can be sliced for nothing. */
static pdl_placement_t joined(const pdl_layer_t *layer, const pdl_placement_t *given)
{
    pdl_placement_t result = given[0];

    for (int i = 1; i < layer->input_count; i++) {
        if (given[i] == result) continue;
        if (result == PDL_REPLICATED || result == PDL_PARTIAL) result = given[i];
        if (given[i] == PDL_PARTIAL && result == PDL_PARTIAL) result = PDL_REPLICATED;
    }
    return result;
}

pdl_mode_t pdl_mode_of_pass(const pdl_layer_t *layer, const pdl_axis_t *axis, const pdl_placement_t *given)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    pdl_placement_t     in = layer->input_count ? joined(layer, given) : PDL_REPLICATED;
    const pdl_axis_t    space = {PDL_AXIS_SPATIAL, axis->size, in >= PDL_SPLIT_S0 ? (int)(in - PDL_SPLIT_S0) : 0};

    if (in == PDL_SPLIT_N) return PDL_MODE_SAMPLE;
    if (in >= PDL_SPLIT_S0 && pdl_mode_allowed(layer, PDL_MODE_SPACE, &space, NULL, 0)) return PDL_MODE_SPACE;
    if (in == PDL_SPLIT_C) {
        if (is_channelwise(layer) && pdl_mode_allowed(layer, PDL_MODE_FILTER, axis, NULL, 0))
            return PDL_MODE_FILTER;
        if (traits->shared == PDL_SHARED_HEADS && pdl_mode_allowed(layer, PDL_MODE_HEADS, axis, NULL, 0))
            return PDL_MODE_HEADS;
        if (traits->loss && traits->shared == PDL_SHARED_VOCABULARY) return PDL_MODE_VOCABULARY;
    }
    return PDL_MODE_REPLICATE;
}

static pdl_rule_t same_everywhere(pdl_placement_t placement, pdl_placement_t dw, double share)
{
    return (pdl_rule_t){placement, placement, placement, PDL_REPLICATED, dw, share, false};
}

static pdl_rule_t space_rule(const pdl_layer_t *layer, const pdl_axis_t *axis, pdl_placement_t split)
{
    int        dim = (int)(split - PDL_SPLIT_S0);
    pdl_rule_t rule = same_everywhere(split, PDL_PARTIAL, block_share(layer->out.extent[dim], axis->size));

    if (sums_positions(layer)) {
        rule.writes = PDL_PARTIAL;
        rule.share = block_share(layer->in.extent[dim], axis->size);
    }
    if (pdl_layer_traits(layer)->positions == PDL_POSITIONS_ROWS) rule.writes = PDL_SPLIT_S0;
    return rule;
}

pdl_rule_t pdl_layer_rule(const pdl_layer_t *layer, pdl_mode_t mode, const pdl_axis_t *axis,
                          const pdl_placement_t *given)
{
    const pdl_placement_t R = PDL_REPLICATED, P = PDL_PARTIAL, C = PDL_SPLIT_C;
    pdl_placement_t       space = space_placement(axis);

    if (mode == PDL_MODE_PASS) {
        mode = pdl_mode_of_pass(layer, axis, given);
        if (mode == PDL_MODE_SPACE) space = joined(layer, given);
    }
    switch (mode) {
    case PDL_MODE_SAMPLE:
        if (pdl_layer_traits(layer)->loss) return (pdl_rule_t){PDL_SPLIT_N, P, PDL_SPLIT_N, R, P, 1.0, false};
        return same_everywhere(PDL_SPLIT_N, P, 1.0);
    case PDL_MODE_SPACE: return space_rule(layer, axis, space);
    case PDL_MODE_FILTER:
        if (pdl_layer_is_matrix(layer) && layer->groups > 1)
            return (pdl_rule_t){C, C, C, C, C, block_share(layer->groups, axis->size), false};
        if (is_channelwise(layer))
            return (pdl_rule_t){C, C, C, C, C, block_share(layer->out.channels, axis->size), false};
        return (pdl_rule_t){R, C, P, C, C, block_share(layer->out.channels, axis->size), false};
    case PDL_MODE_CHANNEL: return (pdl_rule_t){C, P, C, C, C, block_share(layer->in.channels, axis->size), false};
    case PDL_MODE_HEADS: return (pdl_rule_t){C, C, C, R, R, block_share(layer->heads, axis->size), false};
    case PDL_MODE_VOCABULARY:
        if (pdl_layer_traits(layer)->tokens)
            return (pdl_rule_t){R, P, R, C, C, block_share(layer->vocabulary, axis->size), false};
        return (pdl_rule_t){C, R, C, R, R, block_share(layer->in.channels, axis->size), false};
    case PDL_MODE_EXPERT:
        return (pdl_rule_t){space, space, space, C, C, block_share(layer->experts, axis->size), false};
    default: return (pdl_rule_t){R, R, R, R, R, 1.0, true};
    }
}
