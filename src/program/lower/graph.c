/*
 * Lowering: walks the layers in order and makes an op of each, with a conversion in front where what arrives lies
 * differently from what the op wants to read.
 */
#include "program/lower/graph.h"
#include <paradl/model/dataset.h>
#include <stdlib.h>
#include <string.h>

/* The state of the walk. */
typedef struct lowering {
    const pdl__graph_spec_t *spec;
    const pdl_model_t       *model;
    pdl__graph_t            *graph;
    int                     *head;    /* as pdl__fuse_layers says */
    int                     *unit_of; /* the unit whose output is that of a layer */
    struct walks            *all;
} lowering_t;

/* The ranks of a stage are lowered side by side, one of every class, so that what they must agree upon is looked up. */
typedef struct walks {
    lowering_t *of; /* the first is this rank's */
    int         count;
    int         halo_head, halo_axis; /* what was found of one layer, for all of them */
} walks_t;

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
    *unit = (pdl__unit_t){.kind = kind, .layer = layer, .tail = layer, .tied_to = -1, .chunk = graph->chunk};
    for (int k = 0; k < PDL_MAX_WEIGHTS; k++) unit->weight[k] = -1;
    return unit;
}

/* A whole tensor's shape cut down to what this rank has. */
static pdl_shape_t local_shape(const pdl_shape_t *whole, const pdl_region_t *region)
{
    pdl_shape_t shape = *whole;

    shape.channels = pdl_region_extent(region, PDL_DIM_CHANNEL);
    for (int k = 0; k < shape.rank; k++) shape.extent[k] = pdl_region_extent(region, PDL_DIM_SPACE + k);
    return shape;
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
    unit->region = graph->unit[from].region;
    unit->format = format;
    unit->input[0] = from;
    unit->input_count = 1;
    unit->gradient = graph->unit[from].gradient;
    *result = graph->unit_count - 1;
    return PDL_OK;
}

/* The two directions between this rank and the one of stage `peer`, for the output of a layer. */
static void connect(const lowering_t *l, int layer, int peer, bool gradient, pdl__unit_t *unit)
{
    const pdl__pipe_t *stages = l->spec->layouts->stages;
    pdl_backend_t     *backend = l->graph->backend;
    bool               receives = unit->kind == PDL__UNIT_RECEIVE;
    int                messages = pdl__pipe_messages(stages, stages->at, peer);
    size_t             bytes =
        backend->ops->tensor_bytes(backend, &unit->shape, pdl__region_samples(&unit->region), PDL_FORMAT_PLAIN);

    unit->there = (pdl__stage_link_t){peer, layer, bytes, receives ? 1 : messages};
    if (gradient && l->spec->training)
        unit->back = (pdl__stage_link_t){peer, layer, bytes, receives ? messages : 1};
}

/* What layer `producer` of an earlier stage writes, as it lies there. */
static pdl_status_t receive(lowering_t *l, int producer)
{
    const pdl__layouts_t *layouts = l->spec->layouts;
    const pdl_shape_t    *whole = &pdl_model_layer(l->model, producer)->out;
    pdl__unit_t          *unit = add_unit(l->graph, PDL__UNIT_RECEIVE, producer);
    bool                  gradient;

    if (!unit) return no_memory();
    l->unit_of[producer] = l->graph->unit_count - 1;
    pdl__pipe_reads(layouts->stages, producer, layouts->stages->at, &gradient);
    pdl_status_t status = pdl__layouts_region(layouts, &layouts->layer[producer].out, whole, -1, 0, &unit->region);
    unit->shape = local_shape(whole, &unit->region);
    unit->format = PDL_FORMAT_PLAIN;
    unit->gradient = gradient;
    if (!status) connect(l, producer, pdl__pipe_stage_of(layouts->stages, producer), gradient, unit);
    return status;
}

/* Sends the output of a layer to the other stages that read it. */
static pdl_status_t send(lowering_t *l, int layer)
{
    const pdl__pipe_t *stages = l->spec->layouts->stages;
    pdl_status_t       status = PDL_OK;

    for (int k = 0; k < stages->count && !status; k++) {
        bool gradient;
        int  from = l->unit_of[layer];
        if (k == stages->at || !pdl__pipe_reads(stages, layer, k, &gradient)) continue;
        status = converted(l->graph, from, PDL_FORMAT_PLAIN, &from);
        pdl__unit_t *unit = status ? NULL : add_unit(l->graph, PDL__UNIT_SEND, layer);
        if (!unit) return status ? status : no_memory();
        unit->shape = l->graph->unit[from].shape;
        unit->region = l->graph->unit[from].region;
        unit->format = PDL_FORMAT_PLAIN;
        unit->input[0] = from;
        unit->input_count = 1;
        unit->gradient = gradient;
        connect(l, layer, k, gradient, unit);
    }
    return status;
}

/* The format of what layer `producer` writes, on a rank of this class; what comes from another stage is plain. */
static pdl_format_t format_of(const lowering_t *l, int producer)
{
    int unit = l->unit_of[producer];

    return unit < 0 ? PDL_FORMAT_PLAIN : l->graph->unit[unit].format;
}

/* Channels of a block where a tensor can be in flight in the format that it has, which must be so on all ranks of the
   stage; else 1. Halos are whole rows of blocks too, so that nothing has to be converted around their exchange. */
static int64_t block_in_flight(const lowering_t *l, int producer, int reader)
{
    if (!pdl__edge_keeps_channels(l->spec->layouts, producer, reader)) return 1;
    for (int c = 0; c < l->all->count; c++)
        if (format_of(&l->all->of[c], producer) == PDL_FORMAT_PLAIN) return 1;
    return l->graph->backend->block;
}

/* The unit from which `reader` takes what layer `producer` writes, redistributed where the two lay it out
   differently, without the halo of an axis. */
static pdl_status_t arrive(lowering_t *l, int producer, int reader, int without, int *result)
{
    pdl__graph_t         *graph = l->graph;
    const pdl__layouts_t *layouts = l->spec->layouts;
    int64_t               block = block_in_flight(l, producer, reader);
    pdl_status_t          status = l->unit_of[producer] < 0 ? receive(l, producer) : PDL_OK;
    int                   from = l->unit_of[producer];
    pdl__edge_t          *edge;

    *result = from;
    if (layouts->trivial || status) return status;
    bool gradient = l->spec->training && graph->unit[from].gradient;
    /* Tokens are indices of 32 bits, and only moved. */
    bool tokens = graph->tokens && from == graph->source;
    if (!status)
        status = pdl__edge_create(layouts, producer, reader, without,
                                  tokens ? PDL_DTYPE_F32 : graph->backend->activation_type, gradient, block, &edge);
    if (status) return status;
    if (edge->count[PDL_FORWARD] == 0) {
        pdl__edge_destroy(edge);
        return PDL_OK;
    }
    if (block == 1) status = converted(graph, from, PDL_FORMAT_PLAIN, &from);
    pdl__unit_t *unit = status ? NULL : add_unit(graph, PDL__UNIT_EDGE, producer);
    if (!unit) {
        pdl__edge_destroy(edge);
        return status ? status : no_memory();
    }
    unit->edge = edge;
    unit->reader = reader;
    unit->region = edge->arrives;
    unit->shape = local_shape(&pdl_model_layer(l->model, producer)->out, &edge->arrives);
    unit->format = block > 1 ? PDL_FORMAT_BLOCKED : PDL_FORMAT_PLAIN;
    unit->input[0] = from;
    unit->input_count = 1;
    unit->gradient = gradient;
    *result = graph->unit_count - 1;
    return PDL_OK;
}

/* Samples are loaded wherever a layer reads them. */
static pdl_status_t lower_source(lowering_t *l)
{
    bool         gradient;
    pdl__unit_t *unit;

    if (!pdl__pipe_reads(l->spec->layouts->stages, 0, l->spec->layouts->stages->at, &gradient)) return PDL_OK;
    unit = add_unit(l->graph, PDL__UNIT_SOURCE, 0);
    if (!unit) return no_memory();
    l->graph->source = 0;
    unit->shape = pdl_model_input(l->model);
    unit->format = PDL_FORMAT_PLAIN;
    pdl_status_t status =
        pdl__layouts_region(l->spec->layouts, &l->spec->layouts->layer[0].out, &unit->shape, -1, 0, &unit->region);
    l->graph->tokens = pdl_model_vocabulary(l->model) > 0;
    l->unit_of[0] = 0;
    return status;
}

/* Another shape of the same storage. Flattening is one as long as the tensor lies plain. */
static pdl_status_t lower_view(lowering_t *l, int i)
{
    const pdl_layer_t *layer = pdl_model_layer(l->model, i);
    pdl_region_t       region;
    int                from;
    pdl_status_t       status = arrive(l, layer->inputs[0], i, -1, &from);

    if (!status)
        status =
            pdl__layouts_region(l->spec->layouts, &l->spec->layouts->layer[i].out, &layer->out, -1, 0, &region);
    if (!status && !pdl_layer_is_identity(layer)) status = converted(l->graph, from, PDL_FORMAT_PLAIN, &from);

    if (status) return status;
    pdl__unit_t *unit = add_unit(l->graph, PDL__UNIT_VIEW, i);
    if (!unit) return no_memory();
    unit->region = region;
    unit->shape = local_shape(&layer->out, &region);
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
static pdl_status_t unit_inputs(lowering_t *l, int head, int tail, int without, int *producer, int *count)
{
    const pdl_layer_t *layer = pdl_model_layer(l->model, head);
    pdl_fusion_t       fusion = pdl__fusion_of(l->model, head, tail);
    pdl_status_t       status = PDL_OK;

    if (layer->input_count + fusion.add > PDL_MAX_INPUTS)
        return pdl_error(PDL_ERR_LIMIT,
                         "layer %s reads %d tensors, more than the %d that can be trained: concatenate in steps",
                         layer->name, layer->input_count, PDL_MAX_INPUTS);
    *count = layer->input_count;
    for (int j = 0; j < layer->input_count && !status; j++)
        status = arrive(l, layer->inputs[j], head, without, &producer[j]);
    if (!fusion.add || status) return status;
    int                at = tail;
    const pdl_layer_t *sum = pdl_model_layer(l->model, at);
    if (pdl_layer_traits(sum)->combine != PDL_COMBINE_SUM) at = pdl__behind_identities(l->model, sum->inputs[0]);
    sum = pdl_model_layer(l->model, at);
    bool first = pdl__behind_identities(l->model, sum->inputs[0]) == head;
    return arrive(l, sum->inputs[first ? 1 : 0], at, -1, &producer[(*count)++]);
}

static bool trains_weights(const pdl_op_description_t *description)
{
    for (int k = 0; k < description->weight_count; k++)
        if (description->weight[k].trainable) return true;
    return false;
}

/* Where this rank's piece of a layer's output begins. */
static pdl_origin_t origin_of(const pdl_layer_t *layer, const pdl_region_t *region)
{
    pdl_origin_t origin = {.whole = layer->out, .channel = region->range[PDL_DIM_CHANNEL][0].low};

    for (int k = 0; k < PDL_MAX_SPACE; k++) origin.space[k] = region->range[PDL_DIM_SPACE + k][0].low;
    return origin;
}

/* The layer as this rank computes it: the model's own when that is all of it. */
static pdl_status_t localise(const lowering_t *l, int head, const pdl_region_t *in, const pdl_region_t *out,
                             pdl_layer_t **local)
{
    *local = NULL;
    if (l->spec->layouts->trivial) return PDL_OK;
    *local = malloc(sizeof(**local));
    if (!*local) return no_memory();
    pdl_status_t status = pdl__local_layer(l->spec->layouts, head, in, out, *local);
    if (!status) return PDL_OK;
    free(*local);
    *local = NULL;
    return status;
}

/* Experts on several ranks, and the way to them. */
static pdl_status_t find_experts(const lowering_t *l, int head, pdl_op_spec_t *spec, pdl__unit_t *unit)
{
    if (!pdl__layouts_axes(l->spec->layouts, head, PDL_MODE_EXPERT)) return PDL_OK;
    pdl_status_t status = pdl__dispatch_create(l->spec->layouts, head, spec->input_gradient, &unit->routes);
    if (status) return status;
    spec->expert_first = unit->routes->first;
    spec->expert_rank = unit->routes->member;
    spec->expert_ranks = unit->routes->members;
    spec->expert_rows = unit->routes->all_rows;
    return PDL_OK;
}

/* Which part of a vocabulary is this rank's: rows of a table, or logits as they arrive. */
static void find_classes(const lowering_t *l, int head, const pdl_region_t *in, pdl_op_spec_t *spec)
{
    const pdl__layouts_t *layouts = l->spec->layouts;
    const pdl_layer_t    *layer = pdl_model_layer(l->model, head);

    if (!pdl__layouts_axes(layouts, head, PDL_MODE_VOCABULARY)) return;
    bool table = pdl_layer_traits(layer)->tokens;
    spec->classes = table ? layer->vocabulary : layer->in.channels;
    spec->first_class =
        table ? pdl__vocabulary_rows(layouts, head, layouts->coordinates).low : in->range[PDL_DIM_CHANNEL][0].low;
}

/* The ranks whose samples and positions batch norm takes together, or whose classes cross-entropy does. */
static unsigned find_statistics(const lowering_t *l, int head)
{
    const pdl_traits_t *traits = pdl_layer_traits(pdl_model_layer(l->model, head));
    unsigned            axes = 0;

    if (traits->statistics)
        axes = pdl__layouts_axes(l->spec->layouts, head, PDL_MODE_SAMPLE) |
               pdl__layouts_axes(l->spec->layouts, head, PDL_MODE_SPACE);
    if (l->spec->separate) axes &= ~pdl__data_axes(&l->spec->plan->mesh);
    if (traits->loss) axes = pdl__layouts_axes(l->spec->layouts, head, PDL_MODE_VOCABULARY);
    return axes;
}

/* What is said of the op of layers head .. tail whatever its extents are; `in` and `out` are what it reads and
   writes. */
static pdl_op_spec_t describe_op(const lowering_t *l, int head, int tail, bool gradient, const pdl_region_t *in,
                                 const pdl_region_t *out)
{
    const pdl_layer_t *layer = pdl_model_layer(l->model, head);
    bool               shared = layer->tied_to >= 0 || has_tied_reader(l->model, head);
    pdl_op_spec_t      spec = {.samples = pdl__region_samples(in),
                               .fusion = pdl__fusion_of(l->model, head, tail),
                               .training = l->spec->training,
                               .input_gradient = l->spec->training && gradient,
                               .accumulates = l->spec->plan->micro_batches > 1 || shared,
                               .plain_weights = shared || !l->spec->layouts->trivial,
                               .id = (uint64_t)head,
                               .origin = origin_of(layer, out)};

    find_classes(l, head, in, &spec);
    spec.shared =
        pdl_layer_traits(layer)->statistics && l->spec->plan->sync_batch_norm && find_statistics(l, head) != 0;
    return spec;
}

/* A convolution that gets the halo of an axis by itself, on a rank of this class. */
static pdl_status_t fill_halo(const lowering_t *l, int head, int tail, int axis, const pdl_format_t *given,
                              pdl__halo_spec_t *spec)
{
    const pdl__layouts_t *layouts = l->spec->layouts;
    int                   producer = pdl_model_layer(l->model, head)->inputs[0];
    bool                  gradient = l->unit_of[producer] < 0 || l->graph->unit[l->unit_of[producer]].gradient;

    if (l->unit_of[producer] < 0) pdl__pipe_reads(layouts->stages, producer, layouts->stages->at, &gradient);
    *spec = (pdl__halo_spec_t){.layouts = layouts, .backend = l->graph->backend, .layer = head, .axis = axis};
    pdl_status_t status = pdl__layouts_region(layouts, &layouts->layer[tail].out,
                                              &pdl_model_layer(l->model, tail)->out, -1, 0, &spec->out);
    if (!status) status = pdl__halo_arrives(layouts, head, axis, &spec->in);
    if (status) return status;
    spec->op = describe_op(l, head, tail, gradient, &spec->in, &spec->out);
    spec->op.input_count = 1;
    spec->op.given = given;
    return PDL_OK;
}

/* The axis whose halo layer `head` gets by itself, which all ranks of the stage can do and read in one format; or -1. */
static pdl_status_t choose_halo(const lowering_t *l, int head, int tail, int *axis)
{
    pdl_backend_t *backend = l->graph->backend;
    int            producer = pdl_model_layer(l->model, head)->inputs[0];
    pdl_format_t   format[2];
    pdl_status_t   status = PDL_OK;

    *axis = pdl__halo_axis(l->spec->layouts, head);
    if (pdl_dtype_bytes(backend->activation_type) > sizeof(float) || pdl__fusion_of(l->model, head, tail).add)
        *axis = -1;
    for (int c = 0; c < l->all->count && *axis >= 0 && !status; c++) {
        const lowering_t *other = &l->all->of[c];
        pdl_format_t      given = format_of(other, producer);
        pdl__halo_spec_t  spec;
        bool              possible = false;
        status = fill_halo(other, head, tail, *axis, &given, &spec);
        if (!status) status = pdl__halo_possible(&spec, &possible, &format[c > 0]);
        if (!possible || format[c > 0] != format[0]) *axis = -1;
    }
    return status;
}

/* Where a convolution gets the halo of an axis by itself, its op is described here, before its input arrives, and *axis
   says which; else -1. */
static pdl_status_t create_halo(lowering_t *l, int head, int tail, pdl__unit_t *unit, int *axis)
{
    int              producer = pdl_model_layer(l->model, head)->inputs[0];
    pdl__halo_spec_t spec;
    pdl_status_t     status = PDL_OK;

    if (l->all->halo_head != head) status = choose_halo(l, head, tail, &l->all->halo_axis);
    l->all->halo_head = head;
    *axis = l->all->halo_axis;
    if (status || *axis < 0) return status;
    if (l->unit_of[producer] < 0) status = receive(l, producer);
    unit->given[0] = format_of(l, producer);
    if (!status) status = fill_halo(l, head, tail, *axis, unit->given, &spec);
    if (!status) status = pdl__halo_create(&spec, &unit->description, &unit->local, &unit->halo);
    if (status) return status;
    unit->spec = spec.op;
    unit->spec.layer = unit->local;
    unit->reads[0] = unit->local->in;
    return PDL_OK;
}

pdl_op_spec_t pdl__unit_spec(const pdl__unit_t *unit)
{
    pdl_op_spec_t spec = unit->spec;

    spec.inputs = unit->reads;
    spec.given = unit->given;
    return spec;
}

/* Describes the op of layers head .. tail, reading what the units in `producer` hold. */
static pdl_status_t create_op(const lowering_t *l, int head, int tail, const int *producer, int count,
                              const pdl_region_t *out, pdl__unit_t *unit)
{
    const pdl__graph_t *graph = l->graph;
    const pdl_layer_t  *layer = pdl_model_layer(l->model, head);
    bool                gradient = false;

    for (int j = 0; j < count; j++) {
        unit->reads[j] = graph->unit[producer[j]].shape;
        unit->given[j] = graph->unit[producer[j]].format;
        gradient |= graph->unit[producer[j]].gradient;
    }
    const pdl_region_t *in = &graph->unit[producer[0]].region;
    pdl_status_t        status = pdl__check_tied(l->spec->layouts, head);
    if (!status) status = localise(l, head, in, out, &unit->local);
    if (status) return status;
    pdl_op_spec_t spec = describe_op(l, head, tail, gradient, in, out);
    spec.layer = unit->local ? unit->local : layer;
    spec.input_count = count;
    status = find_experts(l, head, &spec, unit);
    if (status) return status;
    if (unit->local)
        spec.share = (double)pdl_shape_positions(&unit->reads[0]) / (double)pdl_shape_positions(&layer->in);
    unit->spec = spec;
    spec = pdl__unit_spec(unit);
    return graph->backend->ops->op_describe(graph->backend, &spec, &unit->description);
}

/* Gradients that are partial sums, of tensors that arrived as they were written, are summed where they are made. */
static pdl_status_t add_sums(const lowering_t *l, int head, const int *producer, int count, pdl__unit_t *unit)
{
    const pdl_layer_t *layer = pdl_model_layer(l->model, head);
    pdl_backend_t     *backend = l->graph->backend;
    pdl_status_t       status = PDL_OK;

    for (int j = 0; j < count && j < layer->input_count && !l->spec->layouts->trivial && !status; j++) {
        const pdl__unit_t *from = &l->graph->unit[producer[j]];
        unsigned           axes = pdl__edge_sums(l->spec->layouts, layer->inputs[j], head);
        if (from->kind == PDL__UNIT_EDGE || !from->gradient || !axes || !l->spec->training) continue;
        size_t      bytes = backend->ops->tensor_bytes(backend, &from->shape, pdl__region_samples(&from->region),
                                                       unit->description.in_format[j]);
        pdl_dtype_t type = backend->activation_type;
        int64_t     elements = (int64_t)(bytes / pdl_dtype_bytes(type));
        status = pdl__edge_create_sum(l->spec->layouts, axes, type, elements, &unit->after[j]);
    }
    return status;
}

static void free_unit(pdl__unit_t *unit)
{
    free(unit->local);
    pdl__dispatch_destroy(unit->routes);
    pdl__halo_destroy(unit->halo);
    pdl__edge_destroy(unit->edge);
    for (int j = 0; j < PDL_MAX_INPUTS; j++) pdl__edge_destroy(unit->after[j]);
}

/* The unit of this stage that has the weight of layer `owner`, or -1. */
static int tied_unit(const lowering_t *l, int owner)
{
    const pdl__pipe_t *stages = l->spec->layouts->stages;

    if (pdl__pipe_stage_of(stages, owner) == stages->at) return l->unit_of[owner];
    for (int i = 0; i < l->graph->unit_count; i++)
        if (l->graph->unit[i].kind == PDL__UNIT_OP &&
            pdl_model_layer(l->model, l->graph->unit[i].layer)->tied_to == owner)
            return i;
    return -1;
}

/* What the unit of an op is, now that the op is made and its inputs lie as it wants them. */
static void fill_unit(lowering_t *l, pdl__unit_t *unit, int tail, const int *producer, int count)
{
    const pdl_layer_t *layer = pdl_model_layer(l->model, unit->layer);
    unsigned           channel = pdl__layouts_axes(l->spec->layouts, unit->layer, PDL_MODE_CHANNEL);

    unit->tail = tail;
    unit->shape = local_shape(&pdl_model_layer(l->model, tail)->out, &unit->region);
    unit->format = unit->description.out_format;
    unit->loss = pdl_layer_traits(layer)->loss != PDL_LOSS_NONE;
    unit->divides = l->spec->overlap && unit->description.divides;
    unit->gradient = trains_weights(&unit->description);
    unit->input_count = count;
    if (layer->tied_to >= 0) unit->tied_to = tied_unit(l, layer->tied_to);
    if (unit->tied_to == (int)(unit - l->graph->unit)) unit->tied_to = -1; /* the first of them here */
    for (int a = 0; a < PDL_MAX_AXES; a++)
        if (channel >> a & 1 && l->spec->layouts->coordinates[a] > 0) unit->zero_bias = true;
    for (int j = 0; j < count; j++) {
        unit->input[j] = producer[j];
        unit->gradient |= l->graph->unit[producer[j]].gradient;
    }
}

static pdl_status_t lower_op(lowering_t *l, int head, int tail)
{
    const pdl_layer_t *last = pdl_model_layer(l->model, tail);
    int                producer[PDL_MAX_INPUTS], count = 0, without;
    pdl__unit_t        made = {.kind = PDL__UNIT_OP, .layer = head};
    pdl_status_t       status =
        pdl__layouts_region(l->spec->layouts, &l->spec->layouts->layer[tail].out, &last->out, -1, 0, &made.region);

    if (!status) status = create_halo(l, head, tail, &made, &without);
    if (!status) status = unit_inputs(l, head, tail, without, producer, &count);
    if (!status && without < 0) status = create_op(l, head, tail, producer, count, &made.region, &made);
    if (!status) status = add_sums(l, head, producer, count, &made);
    for (int j = 0; j < count && !status; j++)
        status = converted(l->graph, producer[j], made.description.in_format[j], &producer[j]);
    pdl__unit_t *unit = status ? NULL : add_unit(l->graph, PDL__UNIT_OP, head);
    if (!unit) {
        free_unit(&made);
        return status ? status : no_memory();
    }
    made.tied_to = unit->tied_to;
    made.chunk = unit->chunk;
    memcpy(made.weight, unit->weight, sizeof(made.weight));
    *unit = made;
    /* A loss is a partial sum over ranks that have other samples: its output is as many results as it reads samples. */
    memcpy(unit->region.range[PDL_DIM_SAMPLE], l->graph->unit[producer[0]].region.range[PDL_DIM_SAMPLE],
           sizeof(unit->region.range[PDL_DIM_SAMPLE]));
    unit->statistic_axes = find_statistics(l, head);
    fill_unit(l, unit, tail, producer, count);
    l->unit_of[tail] = l->graph->unit_count - 1;
    if (unit->loss) l->graph->loss = l->unit_of[tail];
    return PDL_OK;
}

static pdl_status_t lower_layer(lowering_t *l, int i)
{
    const pdl_layer_t *layer = pdl_model_layer(l->model, i);
    pdl_status_t       status;

    l->graph->chunk = l->spec->layouts->stages->run[i] / l->spec->layouts->stages->count;
    if (pdl_layer_traits(layer)->view == PDL_VIEW_SAME || pdl_layer_is_identity(layer))
        status = lower_view(l, i);
    else
        status = lower_op(l, l->head[i], i);
    return status ? status : send(l, i);
}

static pdl_status_t lower_layers(walks_t *all)
{
    lowering_t        *l = &all->of[0];
    const pdl__pipe_t *stages = l->spec->layouts->stages;
    pdl_status_t       status = PDL_OK;

    for (int c = 0; c < all->count && !status; c++) status = lower_source(&all->of[c]);
    for (int i = 1; i < pdl_model_layer_count(l->model) && !status; i++)
        for (int c = 0; c < all->count && !status; c++)
            if (l->head[i] >= 0 && pdl__pipe_stage_of(stages, i) == stages->at)
                status = lower_layer(&all->of[c], i);
    if (!status && pdl_model_loss(l->model) == NULL)
        status = pdl_error(PDL_ERR_INPUT, "model %s ends without a loss: add a layer cross_entropy or mse",
                           pdl_model_name(l->model));
    return status;
}

/* One walk for every class of ranks; all take part in the same fusions. */
typedef struct side_by_side {
    walks_t            walks;
    pdl__graph_spec_t *spec;
    pdl__layouts_t    *classes;
    int               *table;
} side_by_side_t;

static pdl_status_t begin_walk(side_by_side_t *s, int c, const pdl__graph_spec_t *spec)
{
    size_t      layers = (size_t)pdl_model_layer_count(spec->plan->model);
    lowering_t *l = &s->walks.of[c];

    s->spec[c] = *spec;
    s->spec[c].layouts = &s->classes[c];
    *l = (lowering_t){.spec = &s->spec[c],
                      .model = spec->plan->model,
                      .graph = calloc(1, sizeof(*l->graph)),
                      .head = s->table,
                      .unit_of = s->table + layers * (size_t)(c + 1),
                      .all = &s->walks};
    if (!l->graph) return no_memory();
    l->graph->backend = spec->backend;
    l->graph->loss = l->graph->source = -1;
    for (size_t i = 0; i < layers; i++) l->unit_of[i] = -1;
    return PDL_OK;
}

static pdl_status_t begin_walks(side_by_side_t *s, const pdl__graph_spec_t *spec)
{
    size_t       layers = (size_t)pdl_model_layer_count(spec->plan->model);
    int          count = 0;
    pdl_status_t status = pdl__layouts_classes(spec->layouts, true, &s->classes, &count);

    if (status) return status;
    s->walks.halo_head = -1;
    s->walks.of = calloc((size_t)count, sizeof(*s->walks.of));
    s->spec = calloc((size_t)count, sizeof(*s->spec));
    s->table = malloc((size_t)(count + 1) * layers * sizeof(*s->table));
    if (!s->walks.of || !s->spec || !s->table) return no_memory();
    for (; s->walks.count < count && !status; s->walks.count++) status = begin_walk(s, s->walks.count, spec);
    return status ? status : pdl__fuse_layers(spec->layouts, spec->backend, s->table);
}

/* Of all graphs the first is left. */
static void end_walks(side_by_side_t *s)
{
    for (int c = 1; c < s->walks.count; c++) pdl__graph_destroy(s->walks.of[c].graph);
    free(s->walks.of);
    free(s->spec);
    free(s->table);
    free(s->classes);
}

pdl_status_t pdl__graph_create(const pdl__graph_spec_t *spec, pdl__graph_t **out)
{
    side_by_side_t s = {.table = NULL};
    pdl_status_t   status = begin_walks(&s, spec);
    pdl__graph_t  *graph;

    if (!status) status = lower_layers(&s.walks);
    graph = s.walks.count > 0 ? s.walks.of[0].graph : NULL;
    end_walks(&s);
    if (!status) status = pdl__graph_nodes(graph);
    if (!status && spec->training) status = pdl__choose_recompute(spec->plan, graph);
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
    for (int i = 0; i < graph->unit_count; i++) free_unit(&graph->unit[i]);
    free(graph->unit);
    free(graph->node);
    free(graph);
}
