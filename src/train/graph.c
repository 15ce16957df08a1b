/*
 * Lowering: walks the layers in order and makes an op of each, with a conversion in front where what arrives lies
 * differently from what the op wants to read.
 */
#include "train/graph.h"
#include <stdlib.h>
#include <string.h>

/* The state of the walk. */
typedef struct lowering {
    const pdl__graph_spec_t *spec;
    const pdl_model_t       *model;
    pdl__graph_t            *graph;
    int                     *head;    /* as pdl__fuse_layers says */
    int                     *unit_of; /* the unit whose output is that of a layer */
} lowering_t;

static pdl_status_t no_memory(void)
{
    return pdl_error(PDL_ERR_NOMEM, "out of memory while preparing a model of this size");
}

/* Appends a unit; the pointer holds until the next one. */
static pdl__unit_t *add_unit(pdl__graph_t *graph, pdl__unit_kind_t kind, int layer)
{
    if (graph->unit_count == graph->capacity) {
        int          capacity = graph->capacity ? 2 * graph->capacity : 128;
        pdl__unit_t *grown = realloc(graph->unit, (size_t)capacity * sizeof(*grown));
        if (!grown) return NULL;
        graph->unit = grown;
        graph->capacity = capacity;
    }
    pdl__unit_t *unit = &graph->unit[graph->unit_count++];
    *unit = (pdl__unit_t){.kind = kind, .layer = layer, .tail = layer, .tied_to = -1};
    for (int k = 0; k < PDL_MAX_WEIGHTS; k++) unit->weight[k] = -1;
    return unit;
}

/* The unit that holds the output of unit `from` in another arrangement. */
static pdl_status_t converted(pdl__graph_t *graph, int from, pdl_format_t format, int *result)
{
    if (graph->unit[from].format == format) {
        *result = from;
        return PDL_OK;
    }
    for (int i = from + 1; i < graph->unit_count; i++)
        if (graph->unit[i].kind == PDL__UNIT_CONVERT && graph->unit[i].input[0] == from) {
            *result = i;
            return PDL_OK;
        }
    pdl__unit_t *unit = add_unit(graph, PDL__UNIT_CONVERT, graph->unit[from].tail);
    if (!unit) return no_memory();
    unit->shape = graph->unit[from].shape;
    unit->format = format;
    unit->input[0] = from;
    unit->input_count = 1;
    unit->gradient = graph->unit[from].gradient;
    *result = graph->unit_count - 1;
    return PDL_OK;
}

static bool reads_tokens(const pdl_model_t *model)
{
    for (int i = 1; i < pdl_model_layer_count(model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        if (layer->type == PDL_LAYER_EMBEDDING && layer->inputs[0] == 0) return true;
    }
    return false;
}

static pdl_status_t lower_source(lowering_t *l)
{
    pdl__unit_t *unit = add_unit(l->graph, PDL__UNIT_SOURCE, 0);

    if (!unit) return no_memory();
    unit->shape = pdl_model_input(l->model);
    unit->format = PDL_FORMAT_PLAIN;
    l->graph->tokens = reads_tokens(l->model);
    l->unit_of[0] = 0;
    return PDL_OK;
}

/* Another shape of the same storage. Flattening is one as long as the tensor lies plain. */
static pdl_status_t lower_view(lowering_t *l, int i)
{
    const pdl_layer_t *layer = pdl_model_layer(l->model, i);
    int                from = l->unit_of[layer->inputs[0]];
    pdl_status_t       status = PDL_OK;

    if (!pdl__is_identity(layer)) status = converted(l->graph, from, PDL_FORMAT_PLAIN, &from);

    if (status) return status;
    pdl__unit_t *unit = add_unit(l->graph, PDL__UNIT_VIEW, i);
    if (!unit) return no_memory();
    unit->shape = layer->out;
    unit->format = l->graph->unit[from].format;
    unit->input[0] = from;
    unit->input_count = 1;
    unit->gradient = l->graph->unit[from].gradient;
    l->unit_of[i] = l->graph->unit_count - 1;
    return PDL_OK;
}

static bool has_tied_reader(const pdl_model_t *model, int i)
{
    for (int k = i + 1; k < pdl_model_layer_count(model); k++)
        if (pdl_model_layer(model, k)->tied_to == i) return true;
    return false;
}

/* The producers a unit reads: those of its first layer, then the other side of a fused sum. */
static pdl_status_t unit_inputs(const lowering_t *l, int head, int tail, pdl_fusion_t fusion, int *producer,
                                int *count)
{
    const pdl_layer_t *layer = pdl_model_layer(l->model, head);

    if (layer->input_count + fusion.add > PDL_MAX_INPUTS)
        return pdl_error(PDL_ERR_LIMIT,
                         "layer %s reads %d tensors, more than the %d that can be trained: concatenate in steps",
                         layer->name, layer->input_count, PDL_MAX_INPUTS);
    *count = layer->input_count;
    for (int j = 0; j < layer->input_count; j++) producer[j] = l->unit_of[layer->inputs[j]];
    if (!fusion.add) return PDL_OK;
    const pdl_layer_t *sum = pdl_model_layer(l->model, tail);
    if (sum->type != PDL_LAYER_ADD)
        sum = pdl_model_layer(l->model, pdl__behind_identities(l->model, sum->inputs[0]));
    producer[(*count)++] =
        l->unit_of[sum->inputs[pdl__behind_identities(l->model, sum->inputs[0]) == head ? 1 : 0]];
    return PDL_OK;
}

static bool trains_weights(const pdl_op_t *op)
{
    for (int k = 0; k < op->weight_count; k++)
        if (op->weight[k].trainable) return true;
    return false;
}

static bool is_loss(pdl_layer_type_t type)
{
    return type == PDL_LAYER_CROSS_ENTROPY || type == PDL_LAYER_MSE;
}

/* Makes the op of layers head .. tail, reading what the units in `producer` hold. */
static pdl_status_t create_op(const lowering_t *l, int head, int tail, const int *producer, int count,
                              pdl_op_t **op)
{
    const pdl__graph_t *graph = l->graph;
    pdl_shape_t         shape[PDL_MAX_INPUTS];
    pdl_format_t        given[PDL_MAX_INPUTS];
    bool                gradient = false;

    for (int j = 0; j < count; j++) {
        shape[j] = graph->unit[producer[j]].shape;
        given[j] = graph->unit[producer[j]].format;
        gradient |= graph->unit[producer[j]].gradient;
    }
    const pdl_layer_t *layer = pdl_model_layer(l->model, head);
    pdl_op_spec_t      spec = {.layer = layer,
                               .inputs = shape,
                               .given = given,
                               .input_count = count,
                               .samples = l->spec->samples,
                               .fusion = pdl__fusion_of(l->model, head, tail),
                               .training = l->spec->training,
                               .input_gradient = l->spec->training && gradient,
                               .accumulates = l->spec->plan->micro_batches > 1,
                               .tied = layer->tied_to >= 0 || has_tied_reader(l->model, head),
                               .id = (uint64_t)head,
                               .origin = {.whole = layer->out}};
    spec.accumulates |= spec.tied;
    return graph->backend->ops->op_create(graph->backend, &spec, op);
}

static pdl_status_t lower_op(lowering_t *l, int head, int tail)
{
    const pdl_layer_t *layer = pdl_model_layer(l->model, head);
    int                producer[PDL_MAX_INPUTS], count = 0;
    pdl_op_t          *op;
    pdl_status_t       status = unit_inputs(l, head, tail, pdl__fusion_of(l->model, head, tail), producer, &count);

    if (status) return status;
    status = create_op(l, head, tail, producer, count, &op);
    if (status) return status;
    for (int j = 0; j < count && !status; j++)
        status = converted(l->graph, producer[j], op->in_format[j], &producer[j]);
    pdl__unit_t *unit = status ? NULL : add_unit(l->graph, PDL__UNIT_OP, head);
    if (!unit) {
        l->graph->backend->ops->op_destroy(op);
        return status ? status : no_memory();
    }
    unit->op = op;
    unit->tail = tail;
    unit->shape = pdl_model_layer(l->model, tail)->out;
    unit->format = op->out_format;
    unit->loss = is_loss(layer->type);
    unit->gradient = trains_weights(op);
    unit->input_count = count;
    if (layer->tied_to >= 0) unit->tied_to = l->unit_of[layer->tied_to];
    for (int j = 0; j < count; j++) {
        unit->input[j] = producer[j];
        unit->gradient |= l->graph->unit[producer[j]].gradient;
    }
    l->unit_of[tail] = l->graph->unit_count - 1;
    if (unit->loss) l->graph->loss = l->unit_of[tail];
    return PDL_OK;
}

static pdl_status_t lower_layers(lowering_t *l)
{
    pdl_status_t status = lower_source(l);

    for (int i = 1; i < pdl_model_layer_count(l->model) && !status; i++) {
        if (l->head[i] < 0) continue;
        const pdl_layer_t *layer = pdl_model_layer(l->model, i);
        if (layer->type == PDL_LAYER_FLATTEN || pdl__is_identity(layer))
            status = lower_view(l, i);
        else
            status = lower_op(l, l->head[i], i);
    }
    if (!status && l->graph->loss < 0)
        status = pdl_error(PDL_ERR_INPUT, "model %s ends without a loss: add a layer cross_entropy or mse",
                           pdl_model_name(l->model));
    return status;
}

static pdl_tape_node_t node_of_op(const pdl__unit_t *unit)
{
    const pdl_op_t *op = unit->op;
    pdl_tape_node_t node = {.out_bytes = op->out_bytes,
                            .saved_bytes = op->saved_bytes,
                            .workspace_bytes = op->workspace_bytes,
                            .keeps_inputs = op->keeps_inputs,
                            .keeps_output = op->keeps_output,
                            .inplace = op->inplace,
                            .sums_gradients = op->sums_gradients,
                            .loss = unit->loss,
                            .backward = unit->gradient};

    for (int j = 0; j < unit->input_count; j++) node.gradient[j] = (pdl_tape_gradient_t)op->gradient_use[j];
    return node;
}

static pdl_status_t make_nodes(pdl__graph_t *graph)
{
    graph->node = calloc((size_t)graph->unit_count, sizeof(*graph->node));
    if (!graph->node) return no_memory();
    for (int i = 0; i < graph->unit_count; i++) {
        const pdl__unit_t *unit = &graph->unit[i];
        pdl_tape_node_t   *node = &graph->node[i];
        if (unit->kind == PDL__UNIT_OP) *node = node_of_op(unit);
        node->source = unit->kind == PDL__UNIT_SOURCE;
        node->view = unit->kind == PDL__UNIT_VIEW;
        node->input_count = unit->input_count;
        node->backward = unit->gradient;
        if (unit->kind != PDL__UNIT_OP)
            node->out_bytes =
                graph->backend->ops->tensor_bytes(graph->backend, &unit->shape, graph->samples, unit->format);
        if (node->source && graph->tokens)
            node->out_bytes = (size_t)(graph->samples * pdl_shape_positions(&unit->shape)) * sizeof(int32_t);
        for (int j = 0; j < unit->input_count; j++) {
            node->input[j] = unit->input[j];
            if (graph->unit[unit->input[j]].gradient) node->input_gradients |= 1u << j;
        }
    }
    return PDL_OK;
}

pdl_status_t pdl__graph_create(const pdl__graph_spec_t *spec, pdl__graph_t **out)
{
    const pdl_model_t *model = spec->plan->model;
    size_t             count = (size_t)pdl_model_layer_count(model);
    pdl__graph_t      *graph = calloc(1, sizeof(*graph));
    int               *table = malloc(2 * count * sizeof(*table));
    lowering_t         l = {.spec = spec, .model = model, .graph = graph, .head = table, .unit_of = table + count};
    pdl_status_t       status = graph && table ? PDL_OK : no_memory();

    if (!status) {
        graph->backend = spec->backend;
        graph->samples = spec->samples;
        graph->loss = -1;
        status = pdl__fuse_layers(model, spec->backend, l.head);
    }
    if (!status) status = lower_layers(&l);
    if (!status) status = make_nodes(graph);
    if (!status && spec->training) status = pdl__choose_recompute(spec->plan, graph);
    free(table);
    if (status) {
        pdl__graph_destroy(graph);
        return status;
    }
    *out = graph;
    return PDL_OK;
}

void pdl__graph_destroy(pdl__graph_t *graph)
{
    if (!graph) return;
    for (int i = 0; i < graph->unit_count; i++)
        if (graph->unit[i].op) graph->backend->ops->op_destroy(graph->unit[i].op);
    free(graph->unit);
    free(graph->node);
    free(graph);
}
