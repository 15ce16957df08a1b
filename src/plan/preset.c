/*
 * The named strategies as presets of modes. A preset only fills in the modes; rules and compilation do the
 * rest, so a plan that gives every layer its own mode is as ordinary as any of these.
 */
#include <paradl/plan/plan.h>
#include <paradl/plan/rules.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first layer with channels: the studies leave it whole in channel parallelism, having 3 or 4 of them. */
static int first_matrix_layer(const pdl_model_t *model)
{
    for (int i = 0; i < pdl_model_layer_count(model); i++)
        if (pdl_layer_is_matrix(pdl_model_layer(model, i))) return i;
    return -1;
}

/* The layer that uses the weight of another one; -1: none. */
static int tied_reader(const pdl_model_t *model, int index)
{
    for (int i = index + 1; i < pdl_model_layer_count(model); i++)
        if (pdl_model_layer(model, i)->tied_to == index) return i;
    return -1;
}

/* What filter or channel parallelism does with a layer. A table that is also the weight of a head is cut as that:
   its rows are filters there, its columns input channels. Unsplit layers keep what they get (PASS), or in the
   published form always get the whole tensor. Layers too small for `axis` stay whole; NULL: none is. */
static pdl_mode_t width_mode(const pdl_model_t *model, int index, pdl_width_t width, bool published,
                             const pdl_axis_t *axis)
{
    const pdl_layer_t *layer = pdl_model_layer(model, index);
    int                head = pdl_layer_traits(layer)->tokens ? tied_reader(model, index) : -1;

    if (published && pdl_layer_is_linear(layer) && !layer->in.sequence) return PDL_MODE_REPLICATE;
    if (pdl_layer_is_matrix(layer)) {
        pdl_mode_t mode = width == PDL_WIDTH_FILTER || layer->groups > 1 ? PDL_MODE_FILTER : PDL_MODE_CHANNEL;
        if (mode == PDL_MODE_CHANNEL && index == first_matrix_layer(model)) return PDL_MODE_REPLICATE;
        return axis && !pdl_mode_allowed(layer, mode, axis, NULL, 0) ? PDL_MODE_REPLICATE : mode;
    }
    if (head >= 0) {
        pdl_mode_t mode = width_mode(model, head, width, published, axis);
        if (mode != PDL_MODE_REPLICATE) return mode == PDL_MODE_FILTER ? PDL_MODE_VOCABULARY : PDL_MODE_FILTER;
    }
    return published ? PDL_MODE_REPLICATE : PDL_MODE_PASS;
}

/* Layers between two tensor-split pairs of a transformer, which sequence parallelism splits along the tokens. */
static bool between_pairs(const pdl_layer_t *layer)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    bool                norm = traits->norm && !traits->statistics, sum = traits->combine == PDL_COMBINE_SUM;

    return layer->out.sequence && (norm || sum || traits->drops || traits->kernel == PDL_KERNEL_POSITIONS);
}

/* How ranks share out a layer that has its own unit for this; PASS: it has none. A vocabulary is not among these. */
static pdl_mode_t shared_mode(const pdl_layer_t *layer)
{
    switch (pdl_layer_traits(layer)->shared) {
    case PDL_SHARED_HEADS: return PDL_MODE_HEADS;
    case PDL_SHARED_EXPERTS: return PDL_MODE_EXPERT;
    default: return PDL_MODE_PASS;
    }
}

/* The frozen layer beside which layer i is the last of an adapter: the sum behind adds up both. -1: it is none. */
static int adapted_by(const pdl_model_t *model, int i)
{
    const pdl_layer_t *sum = i > 0 && i + 1 < pdl_model_layer_count(model) ? pdl_model_layer(model, i + 1) : NULL;

    if (sum == NULL || pdl_layer_traits(sum)->combine != PDL_COMBINE_SUM || sum->input_count != 2 ||
        sum->inputs[1] != i || pdl_model_layer(model, i)->frozen || !pdl_layer_is_linear(pdl_model_layer(model, i)))
        return -1;
    const pdl_layer_t *beside = pdl_model_layer(model, sum->inputs[0]);
    return beside->frozen && pdl_layer_is_linear(beside) ? sum->inputs[0] : -1;
}

/* Adapters follow the layer beside them: where that splits its filters so does their second matrix, and the first, which is small, is
   whole; where it splits its channels so does the first, whose partial sums are small, and the second is whole. What is split in
   filters is added up as it is. */
static bool adapter_mode(const pdl_plan_t *plan, int a, int index, pdl_mode_t *mode)
{
    const pdl_model_t *model = plan->model;
    int first = adapted_by(model, index + 1), second = adapted_by(model, index), sum = adapted_by(model, index - 1);
    int beside = second >= 0 ? second : sum;

    if (first >= 0 && pdl_model_layer(model, index + 1)->inputs[0] == index &&
        pdl_layer_is_linear(pdl_model_layer(model, index))) {
        *mode = plan->modes[first].on[a] == PDL_MODE_CHANNEL ? PDL_MODE_CHANNEL : PDL_MODE_REPLICATE;
        return true;
    }
    if (beside < 0 || (sum >= 0 && plan->modes[beside].on[a] != PDL_MODE_FILTER)) return false;
    *mode = sum >= 0                                       ? PDL_MODE_PASS
            : plan->modes[beside].on[a] == PDL_MODE_FILTER ? PDL_MODE_FILTER
                                                           : PDL_MODE_REPLICATE;
    return true;
}

/* Pairs: a matrix that finds its input whole splits its filters, the next one finds it split and splits its channels. */
static pdl_mode_t pair_mode(const pdl_plan_t *plan, int index, const pdl_axis_t *axis, pdl_placement_t arriving,
                            bool keep_small)
{
    const pdl_layer_t *layer = pdl_model_layer(plan->model, index);
    pdl_mode_t         special = shared_mode(layer);

    if (pdl_layer_traits(layer)->tokens) return PDL_MODE_VOCABULARY;
    if (keep_small && !pdl_mode_allowed(layer, special, axis, NULL, 0)) return PDL_MODE_REPLICATE;
    if (special != PDL_MODE_PASS) return special;
    if (pdl_layer_is_matrix(layer)) {
        bool channel = arriving == PDL_SPLIT_C && pdl_mode_allowed(layer, PDL_MODE_CHANNEL, axis, NULL, 0);
        if (channel) return PDL_MODE_CHANNEL;
        return pdl_mode_allowed(layer, PDL_MODE_FILTER, axis, NULL, 0) ? PDL_MODE_FILTER : PDL_MODE_REPLICATE;
    }
    if (plan->sequence_parallel && between_pairs(layer) && pdl_mode_allowed(layer, PDL_MODE_SPACE, axis, NULL, 0))
        return PDL_MODE_SPACE;
    return PDL_MODE_PASS;
}

static pdl_status_t apply_pairs(pdl_plan_t *plan, int a, bool keep_small)
{
    const pdl_axis_t *axis = &plan->mesh.axis[a];
    int               count = pdl_model_layer_count(plan->model);
    pdl_placement_t  *out = calloc((size_t)count, sizeof(*out));
    pdl_placement_t  *given =
        calloc((size_t)count, sizeof(*given)); /* no layer has more inputs than there are layers */

    if (!out || !given) {
        free(out);
        free(given);
        return pdl_error(PDL_ERR_NOMEM, "out of memory");
    }
    for (int i = 0; i < count; i++) {
        const pdl_layer_t *layer = pdl_model_layer(plan->model, i);
        for (int j = 0; j < layer->input_count; j++) given[j] = out[layer->inputs[j]];
        pdl_placement_t arriving = layer->input_count ? given[0] : PDL_REPLICATED;
        pdl_mode_t      mode;
        if (!adapter_mode(plan, a, i, &mode)) mode = pair_mode(plan, i, axis, arriving, keep_small);
        plan->modes[i].on[a] = (uint8_t)mode;
        out[i] = pdl_layer_rule(layer, mode, axis, given).writes;
    }
    free(out);
    free(given);
    return PDL_OK;
}

static bool begins_space(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->positions == PDL_POSITIONS_WINDOW;
}

/* Splits windows as long as their pieces hold the halo; from the first that cannot be, everything is whole. */
static pdl_status_t apply_space(pdl_plan_t *plan, int a, const pdl_preset_options_t *options)
{
    const pdl_axis_t *axis = &plan->mesh.axis[a];
    int               count = pdl_model_layer_count(plan->model), until = count - 1;
    bool              open = true, split = false;
    char              why[128] = "has nothing to split in space";

    if (options->spatial_until) {
        pdl_status_t status = pdl_model_seek_layer(plan->model, options->spatial_until, &until);
        if (status) return status;
    }
    for (int i = 0; i < count; i++) {
        const pdl_layer_t *layer = pdl_model_layer(plan->model, i);
        pdl_mode_t         mode = PDL_MODE_PASS;
        if (open && begins_space(layer)) open = pdl_mode_allowed(layer, PDL_MODE_SPACE, axis, why, sizeof(why));
        bool summed = pdl_layer_traits(layer)->positions == PDL_POSITIONS_SUMMED && !pdl_layer_traits(layer)->loss;
        if (i > until || (options->published && summed)) open = false;
        if (begins_space(layer) || !open) mode = open ? PDL_MODE_SPACE : PDL_MODE_REPLICATE;
        plan->modes[i].on[a] = (uint8_t)mode;
        split |= mode == PDL_MODE_SPACE;
        if (axis->size > 1 && !split && begins_space(layer) && !open)
            return pdl_error(PDL_ERR_LIMIT, "spatial axis of %lld: layer %s %s", (long long)axis->size, layer->name,
                             i > until ? "comes after the end of the split" : why);
    }
    if (split || axis->size == 1) return PDL_OK;
    return pdl_error(PDL_ERR_LIMIT, "model %s has no convolution or pooling to split in space",
                     pdl_model_name(plan->model));
}

/* Tokens of sequences, but in attention, which needs all of them: there it is heads. */
static pdl_mode_t token_mode(const pdl_layer_t *layer, const pdl_axis_t *axis, bool keep_small)
{
    if (shared_mode(layer) == PDL_MODE_HEADS)
        return keep_small && !pdl_mode_allowed(layer, PDL_MODE_HEADS, axis, NULL, 0) ? PDL_MODE_REPLICATE
                                                                                     : PDL_MODE_HEADS;
    return layer->in.sequence && pdl_mode_allowed(layer, PDL_MODE_SPACE, axis, NULL, 0) ? PDL_MODE_SPACE
                                                                                        : PDL_MODE_PASS;
}

static pdl_status_t apply_tokens(pdl_plan_t *plan, int a, bool keep_small)
{
    const pdl_axis_t *axis = &plan->mesh.axis[a];
    bool              attention = axis->size == 1;

    for (int i = 0; i < pdl_model_layer_count(plan->model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(plan->model, i);
        plan->modes[i].on[a] = (uint8_t)token_mode(layer, axis, keep_small);
        attention |= shared_mode(layer) == PDL_MODE_HEADS;
    }
    if (attention) return PDL_OK;
    return pdl_error(PDL_ERR_LIMIT, "model %s has no attention, over whose heads tokens could be shared out",
                     pdl_model_name(plan->model));
}

static void fill(pdl_plan_t *plan, int a, pdl_mode_t mode)
{
    for (int i = 0; i < pdl_model_layer_count(plan->model); i++) plan->modes[i].on[a] = (uint8_t)mode;
}

/* Every layer splits samples, or tokens, but mixtures, whose experts are shared out. */
static pdl_status_t apply_experts(pdl_plan_t *plan, int a)
{
    bool found = plan->mesh.axis[a].size == 1;

    for (int i = 0; i < pdl_model_layer_count(plan->model); i++) {
        if (shared_mode(pdl_model_layer(plan->model, i)) != PDL_MODE_EXPERT) continue;
        plan->modes[i].on[a] = PDL_MODE_EXPERT;
        found = true;
    }
    if (found) return PDL_OK;
    return pdl_error(PDL_ERR_LIMIT, "model %s has no mixture of experts, which could be shared out",
                     pdl_model_name(plan->model));
}

static pdl_status_t apply_axis(pdl_plan_t *plan, int a, pdl_width_t width, const pdl_preset_options_t *options)
{
    switch (plan->mesh.axis[a].kind) {
    case PDL_AXIS_DATA:
        fill(plan, a, PDL_MODE_SAMPLE);
        return options->expert_axis > 0 && options->expert_axis == a ? apply_experts(plan, a) : PDL_OK;
    case PDL_AXIS_SPATIAL:
        if (width == PDL_WIDTH_TOKENS || width == PDL_WIDTH_PAIRS) {
            pdl_status_t status = apply_tokens(plan, a, options->keep_small);
            return status || options->expert_axis <= 0 ? status : apply_experts(plan, a);
        }
        return apply_space(plan, a, options);
    case PDL_AXIS_TENSOR:
        if (width == PDL_WIDTH_PAIRS) return apply_pairs(plan, a, options->keep_small);
        for (int i = 0; i < pdl_model_layer_count(plan->model); i++)
            plan->modes[i].on[a] = (uint8_t)width_mode(plan->model, i, width, options->published,
                                                       options->keep_small ? &plan->mesh.axis[a] : NULL);
        return PDL_OK;
    default: fill(plan, a, PDL_MODE_PASS); return PDL_OK;
    }
}

pdl_status_t pdl_plan_apply_preset(pdl_plan_t *plan, const char *strategy, const pdl_preset_options_t *options)
{
    const pdl_preset_options_t defaults = {.published = false};
    const pdl_strategy_t      *row = pdl_strategy_find(strategy);
    pdl_status_t               status = row == NULL ? PDL_ERR_INPUT : pdl_strategy_check_mesh(row, &plan->mesh);

    if (status) return status;
    if (row->per_layer)
        return pdl_error(PDL_ERR_INPUT, "strategy %s has no modes of its own: name them, or let a search find them",
                         row->name);
    for (int a = 0; a < plan->mesh.axis_count && !status; a++)
        status = apply_axis(plan, a, row->width, options ? options : &defaults);
    if (!status) snprintf(plan->strategy, sizeof(plan->strategy), "%s", row->name);
    return status;
}

/* Largest size at which one layer may still run in its mode. */
static int64_t layer_limit(const pdl_layer_t *layer, pdl_mode_t mode)
{
    switch (mode) {
    case PDL_MODE_FILTER: return layer->groups > 1 ? layer->groups : layer->out.channels;
    case PDL_MODE_CHANNEL: return layer->in.channels;
    case PDL_MODE_HEADS: return layer->kv_heads;
    case PDL_MODE_EXPERT: return layer->experts;
    default: return INT64_MAX;
    }
}

/* Pieces along the first extent that a window can be cut into. */
static int64_t space_limit(const pdl_layer_t *layer)
{
    pdl_axis_t axis = {PDL_AXIS_SPATIAL, layer->in.extent[0], 0};

    while (axis.size > 1 && !pdl_mode_allowed(layer, PDL_MODE_SPACE, &axis, NULL, 0)) axis.size--;
    return axis.size;
}

/* The split must reach the named layer; without one it must at least begin. */
static bool must_be_split(const pdl_model_t *model, int index, const char *until, bool begun)
{
    return begins_space(pdl_model_layer(model, index)) &&
           (until ? index <= pdl_model_find_layer(model, until) : !begun);
}

/* Whether every layer is split in the same way on the tensor axis. */
static bool splits_width(const pdl_strategy_t *strategy)
{
    return strategy->width == PDL_WIDTH_FILTER || strategy->width == PDL_WIDTH_CHANNEL;
}

static bool splits_space(const pdl_strategy_t *strategy)
{
    return pdl_strategy_has(strategy, PDL_AXIS_SPATIAL) && !pdl_strategy_splits_tokens(strategy);
}

int64_t pdl_preset_limit(const pdl_model_t *model, const pdl_strategy_t *strategy,
                         const pdl_preset_options_t *options, int *limiting_layer)
{
    bool    published = options && options->published;
    int64_t limit = INT64_MAX;

    *limiting_layer = -1;
    for (int i = 0; i < pdl_model_layer_count(model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        int64_t            here = INT64_MAX;
        if (splits_width(strategy))
            here = layer_limit(layer, width_mode(model, i, strategy->width, published, NULL));
        if (strategy->width == PDL_WIDTH_PAIRS) here = layer_limit(layer, shared_mode(layer));
        if (strategy->width == PDL_WIDTH_TOKENS && shared_mode(layer) == PDL_MODE_HEADS)
            here = layer_limit(layer, PDL_MODE_HEADS);
        if (splits_space(strategy) &&
            must_be_split(model, i, options ? options->spatial_until : NULL, limit < INT64_MAX))
            here = space_limit(layer);
        if (here < limit) {
            limit = here;
            *limiting_layer = i;
        }
    }
    return limit;
}

/* The largest number that divides the units of every layer that ranks share out in this mode; 0: there is none. */
static int64_t common_divisor(const pdl_model_t *model, pdl_mode_t mode)
{
    int64_t divisor = 0;

    for (int i = 0; i < pdl_model_layer_count(model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        int64_t            rest = shared_mode(layer) == mode ? layer_limit(layer, mode) : 0;
        while (rest > 0) {
            int64_t next = divisor % rest;
            divisor = rest;
            rest = next;
        }
    }
    return divisor;
}

int64_t pdl_preset_heads(const pdl_model_t *model)
{
    return common_divisor(model, PDL_MODE_HEADS);
}

int64_t pdl_preset_experts(const pdl_model_t *model)
{
    return common_divisor(model, PDL_MODE_EXPERT);
}

static void describe_space(const pdl_layer_t *layer, char *text, size_t size)
{
    pdl_window_t window = pdl_layer_window(layer, 0);
    int64_t      halo = (window.kernel - 1) / 2 * window.dilation, in = layer->in.extent[0];

    if (halo > 1 && in / halo < layer->out.extent[0])
        snprintf(text, size, "%lld rows, of which a piece needs %lld for the halo", (long long)in, (long long)halo);
    else if (layer->out.extent[0] < in)
        snprintf(text, size, "%lld rows of output, from %lld", (long long)layer->out.extent[0], (long long)in);
    else
        snprintf(text, size, "%lld rows", (long long)in);
}

static void describe_mode(const pdl_layer_t *layer, pdl_mode_t mode, char *text, size_t size)
{
    const char *what = mode == PDL_MODE_CHANNEL  ? "input channels"
                       : mode == PDL_MODE_EXPERT ? "experts"
                       : layer->groups > 1       ? "convolution groups"
                                                 : "filters";

    if (mode != PDL_MODE_HEADS)
        snprintf(text, size, "%lld %s", (long long)layer_limit(layer, mode), what);
    else if (layer->kv_heads < layer->heads)
        snprintf(text, size, "%lld key-value heads for its %lld heads", (long long)layer->kv_heads,
                 (long long)layer->heads);
    else
        snprintf(text, size, "%lld heads", (long long)layer->heads);
}

char *pdl_preset_describe_limit(const pdl_model_t *model, const pdl_strategy_t *strategy,
                                const pdl_preset_options_t *options, int limiting_layer, char *text, size_t size)
{
    const pdl_layer_t *layer = pdl_model_layer(model, limiting_layer);
    pdl_mode_t         mode = shared_mode(layer);

    if (splits_width(strategy))
        mode = width_mode(model, limiting_layer, strategy->width, options && options->published, NULL);
    if (splits_space(strategy))
        describe_space(layer, text, size);
    else
        describe_mode(layer, mode, text, size);
    return text;
}
