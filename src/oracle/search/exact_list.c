/*
 * The configurations of an exact search, as nodes that leave policies open.
 */
#include "base/memory.h"
#include "oracle/cost/places.h"
#include "oracle/search/exact.h"
#include <stdlib.h>
#include <string.h>

/* Virtual stages in all of a network without blocks of attention; others have at least a block each. */
#define MOST_VIRTUAL_STAGES 128

static int64_t most_virtual_stages(const pdl_model_t *model, bool *attention)
{
    int64_t layers = pdl_model_layer_count(model), blocks = 0;

    for (int i = 0; i < layers; i++) blocks += pdl_model_layer(model, i)->type == PDL_LAYER_ATTENTION;
    *attention = blocks > 0;
    if (blocks == 0) blocks = MOST_VIRTUAL_STAGES;
    return blocks < layers - 1 ? blocks : layers - 1;
}

pdl__choices_t pdl__choices_of(const pdl_oracle_t *oracle, const pdl__exact_list_t *list,
                               const pdl_config_t *config)
{
    pdl__choices_t choices = {.recompute = {PDL_RECOMPUTE_NONE}, .recomputes = 1, .shardings = 1, .tiers = 1};

    choices.plain = config->pipeline > 1 && config->micro_batches > 1 ? 2 : 1;
    if (config->pipeline > 1 && config->micro_batches % config->pipeline == 0)
        choices.virtual_stages = (int)(list->virtual_stages / config->pipeline);
    if (config->run_mode == PDL_INFERENCE) return choices;
    choices.divided = choices.plain > 1 && oracle->p.zero_bubble;
    if (list->attention) choices.recompute[choices.recomputes++] = PDL_RECOMPUTE_SELECTIVE;
    choices.recompute[choices.recomputes++] = PDL_RECOMPUTE_FULL;
    if (config->data > 1) choices.shardings = PDL_SHARDING_COUNT;
    /* The disk is not for plans of many devices. */
    if (config->optimizer != PDL_OPTIMIZER_SGD && oracle->system->device.host_link.bytes_per_s[PDL_HOST_BOTH] > 0)
        choices.tiers = PDL_TIER_HOST + 1;
    return choices;
}

static pdl_status_t add_node(const pdl_oracle_t *oracle, pdl__exact_list_t *list, const pdl__node_t *model)
{
    pdl__choices_t c = pdl__choices_of(oracle, list, &model->config);

    if (list->count == list->capacity) {
        int          capacity = 2 * list->capacity + 256;
        pdl__node_t *grown = realloc(list->node, (size_t)capacity * sizeof(*grown));
        if (grown == NULL) return pdl__no_memory("for the configurations of a search");
        list->node = grown;
        list->capacity = capacity;
    }
    pdl__node_t *node = &list->node[list->count++];
    *node = *model;
    node->leaves = pdl__schedules_of(&c) * c.recomputes * c.shardings * c.tiers * node->orders;
    list->configurations += node->leaves;
    return PDL_OK;
}

/* Micro-batches of all sizes that divide the samples of a replica, or as many as were asked for. */
static pdl_status_t add_micro_batches(const pdl_oracle_t *oracle, const pdl_request_t *r, pdl__exact_list_t *list,
                                      pdl__node_t node)
{
    int64_t      samples = (r->batch + node.config.data - 1) / node.config.data;
    pdl_status_t status = PDL_OK;

    for (int64_t m = 1; m <= samples && !status; m++) {
        if (r->micro_batches > 0 ? m != r->micro_batches || pdl_plan_check_micro_batches(m, samples) != PDL_OK
                                 : samples % m != 0)
            continue;
        node.config.micro_batches = m;
        node.micro_batch = (double)((samples + m - 1) / m);
        status = add_node(oracle, list, &node);
    }
    return status;
}

/* How far apart neighbours of each axis are; of an axis of one rank it does not matter. */
static void strides_of(const pdl_oracle_t *oracle, const pdl_config_t *config, int64_t stride[3])
{
    pdl_case_t c;

    pdl__case_of_config(oracle, config, NULL, &c);
    stride[0] = c.inner > 1 ? c.inner_stride : 1;
    stride[1] = c.data > 1 ? c.data_stride : 1;
    stride[2] = c.pipeline > 1 ? c.pipeline_stride : 1;
}

/* Every order of parts that puts the stages on other devices. */
static pdl_status_t add_places(const pdl_oracle_t *oracle, const pdl_request_t *r, pdl__exact_list_t *list,
                               pdl__node_t node)
{
    int          order[PDL__MOST_PLACES], orders = pdl__places_orders(oracle, &node.config, order);
    pdl_case_t   c;
    pdl_status_t status = PDL_OK;

    node.order[node.orders++] = node.config.order;
    for (int i = 0; i < orders && !status; i++) {
        node.config.part_order = order[i];
        pdl__case_of_config(oracle, &node.config, NULL, &c);
        node.places = c.places;
        status = add_micro_batches(oracle, r, list, node);
    }
    return status;
}

/* The orders of axes of a mesh that differ, those with the same distances inside layers together where devices are alike. */
static pdl_status_t add_mesh(const pdl_oracle_t *oracle, const pdl_request_t *r, pdl__exact_list_t *list,
                             pdl_config_t config)
{
    pdl__node_t  node[PDL_ORDER_COUNT] = {{.orders = 0}};
    int64_t      seen[PDL_ORDER_COUNT][3];
    int          nodes = 0;
    pdl_status_t status = PDL_OK;

    for (int o = 0; o < PDL_ORDER_COUNT; o++) {
        bool new = true;
        int n = 0;

        config.order = (pdl_order_t)o;
        strides_of(oracle, &config, seen[o]);
        for (int k = 0; k < o; k++) new = new &&memcmp(seen[k], seen[o], sizeof(seen[o])) != 0;
        if (!new) continue;
        int64_t     between = config.experts > 1 ? seen[o][1] : 0;
        pdl__node_t here = {.config = config, .stride = seen[o][0], .expert_stride = between};
        if (list->kinds) {
            status = add_places(oracle, r, list, here);
            if (status) return status;
            continue;
        }
        while (n < nodes && (node[n].stride != seen[o][0] || node[n].expert_stride != between)) n++;
        if (n == nodes) node[nodes++] = here;
        node[n].order[node[n].orders++] = config.order;
    }
    for (int n = 0; n < nodes && !status; n++) status = add_micro_batches(oracle, r, list, node[n]);
    return status;
}

static pdl_status_t add_strategy(const pdl_oracle_t *oracle, const pdl_request_t *r, pdl__exact_list_t *list,
                                 const pdl_strategy_t *strategy)
{
    pdl_preset_options_t options = {.published = oracle->p.published_forms, .spatial_until = r->spatial_until};
    int                  layer, layers = pdl_model_layer_count(oracle->model);
    int64_t              limit = pdl_preset_limit(oracle->model, strategy, &options, &layer);
    int64_t              heads = pdl_strategy_splits_twice(strategy) ? pdl_preset_heads(oracle->model) : 0;
    int64_t              experts = pdl_preset_experts(oracle->model);
    pdl_strategy_mesh_t  mesh = {0};
    pdl_status_t         status = PDL_OK;

    /* Nothing that could be split in space, or by its tokens. */
    if (pdl_strategy_has(strategy, PDL_AXIS_SPATIAL) && layer < 0) return PDL_OK;
    if (pdl_strategy_splits_twice(strategy) && heads == 0) return PDL_OK;
    while (pdl_strategy_next_mesh(strategy, r->pe, layers, &mesh) && !status) {
        pdl_config_t config = pdl_config_on(strategy, &mesh);
        if (mesh.inner > limit || mesh.pipeline > layers - 1 || mesh.data > r->batch) continue;
        if (heads % (mesh.inner * mesh.context) != 0) continue;
        config.batch = r->batch;
        config.optimizer = r->optimizer;
        config.precision = r->precision;
        config.run_mode = r->run_mode;
        config.spatial_until = r->spatial_until;
        for (; config.experts > 0 && !status; config.experts = pdl_config_next_experts(&config, experts))
            for (int split = strategy->width == PDL_WIDTH_PAIRS; split >= 0 && !status; split--) {
                config.sequence_parallel = split;
                status = add_mesh(oracle, r, list, config);
            }
    }
    return status;
}

/* Whether layers of two nodes cost the same but for the size of a micro-batch and the distance of ranks. */
static int by_layers(const pdl__node_t *a, const pdl__node_t *b)
{
    int     x = pdl_strategy_place(a->config.strategy->family), y = pdl_strategy_place(b->config.strategy->family);
    int64_t inner = a->config.spatial * a->config.tensor, other = b->config.spatial * b->config.tensor;

    if (x != y) return x < y ? -1 : 1;
    if (inner != other) return inner < other ? -1 : 1;
    if (a->config.tensor != b->config.tensor) return a->config.tensor < b->config.tensor ? -1 : 1;
    if (a->config.experts != b->config.experts) return a->config.experts < b->config.experts ? -1 : 1;
    return b->config.sequence_parallel - a->config.sequence_parallel;
}

static int by_group(const void *a, const void *b)
{
    const pdl__node_t *x = a, *y = b;
    int                order = by_layers(x, y);

    if (order != 0) return order;
    if (x->micro_batch != y->micro_batch) return x->micro_batch > y->micro_batch ? -1 : 1;
    if (x->stride != y->stride) return x->stride < y->stride ? -1 : 1;
    if (x->expert_stride != y->expert_stride) return x->expert_stride < y->expert_stride ? -1 : 1;
    if (x->config.strategy != y->config.strategy)
        return pdl_strategy_place(x->config.strategy) - pdl_strategy_place(y->config.strategy);
    if (x->config.pipeline != y->config.pipeline) return x->config.pipeline < y->config.pipeline ? -1 : 1;
    if (x->order[0] != y->order[0]) return (int)x->order[0] - (int)y->order[0];
    if (x->config.part_order != y->config.part_order) return x->config.part_order - y->config.part_order;
    return (x->config.micro_batches > y->config.micro_batches) -
           (x->config.micro_batches < y->config.micro_batches);
}

/* The longest first, so that threads end together. */
static int by_length(const void *a, const void *b)
{
    const pdl__chain_t *x = a, *y = b;

    return x->count != y->count ? y->count - x->count : x->first - y->first;
}

static pdl_status_t link_chains(pdl__exact_list_t *list)
{
    list->chain = calloc((size_t)list->count + 1, sizeof(*list->chain));
    if (list->chain == NULL) return pdl__no_memory("for the configurations of a search");
    if (list->count > 1) qsort(list->node, (size_t)list->count, sizeof(*list->node), by_group);
    for (int i = 0; i < list->count; i++) {
        if (i == 0 || by_layers(&list->node[i - 1], &list->node[i]) != 0)
            list->chain[list->chains++] = (pdl__chain_t){.first = i};
        list->chain[list->chains - 1].count++;
    }
    if (list->chains > 1) qsort(list->chain, (size_t)list->chains, sizeof(*list->chain), by_length);
    return PDL_OK;
}

pdl_status_t pdl__exact_list(const pdl_oracle_t *oracle, const pdl_request_t *request, pdl__exact_list_t *list)
{
    const pdl_strategy_t *strategy;
    unsigned              kinds = pdl__all_kinds(oracle->system);
    pdl_status_t          status = PDL_OK;

    *list = (pdl__exact_list_t){.kinds = (kinds & (kinds - 1)) != 0};
    list->virtual_stages = most_virtual_stages(oracle->model, &list->attention);
    for (int i = 0; (strategy = pdl_strategy_at(i)) != NULL && !status; i++) {
        bool wanted = request->strategy == NULL || request->strategy == strategy;
        if (!wanted || strategy->per_layer || (request->pe == 1) != (strategy->axes == 0)) continue;
        status = add_strategy(oracle, request, list, strategy);
    }
    if (!status) status = link_chains(list);
    if (status) pdl__exact_list_free(list);
    return status;
}

void pdl__exact_list_free(pdl__exact_list_t *list)
{
    free(list->node);
    free(list->chain);
    *list = (pdl__exact_list_t){.node = NULL};
}
