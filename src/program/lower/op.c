/*
 * Units that compute: an op of a layer and of what is fused behind it, described for the part that this rank has.
 */
#include "base/memory.h"
#include "program/lower/lowering.h"
#include <stdlib.h>
#include <string.h>

static bool has_tied_reader(const pdl_model_t *model, int i)
{
    for (int k = i + 1; k < pdl_model_layer_count(model); k++)
        if (pdl_model_layer(model, k)->tied_to == i) return true;
    return false;
}

/* The producers a unit reads: those of its first layer, then the other side of a fused sum. */
static pdl_status_t unit_inputs(pdl__lowering_t *l, int head, int tail, int without, int *producer, int *count)
{
    const pdl_layer_t *layer = pdl_model_layer(l->model, head);
    pdl_fusion_t       fusion = pdl__fusion_of(l->spec->plan, head, tail);
    pdl_status_t       status = PDL_OK;

    if (layer->input_count + fusion.add > PDL_MAX_INPUTS)
        return pdl_error(PDL_ERR_LIMIT,
                         "layer %s reads %d tensors, more than the %d that can be trained: concatenate in steps",
                         layer->name, layer->input_count, PDL_MAX_INPUTS);
    *count = layer->input_count;
    for (int j = 0; j < layer->input_count && !status; j++)
        status = pdl__arrive(l, layer->inputs[j], head, without, &producer[j]);
    if (!fusion.add || status) return status;
    int                at = tail;
    const pdl_layer_t *sum = pdl_model_layer(l->model, at);
    if (pdl_layer_traits(sum)->combine != PDL_COMBINE_SUM)
        at = pdl__behind_identities(l->spec->plan, sum->inputs[0]);
    sum = pdl_model_layer(l->model, at);
    bool first = pdl__behind_identities(l->spec->plan, sum->inputs[0]) == head;
    return pdl__arrive(l, sum->inputs[first ? 1 : 0], at, -1, &producer[(*count)++]);
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
static pdl_status_t localise(const pdl__lowering_t *l, int head, const pdl_region_t *in, const pdl_region_t *out,
                             pdl_layer_t **local)
{
    *local = NULL;
    if (l->spec->layouts->trivial) return PDL_OK;
    *local = malloc(sizeof(**local));
    if (!*local) return pdl__no_memory("while preparing a model of this size");
    pdl_status_t status = pdl__local_layer(l->spec->layouts, head, in, out, *local);
    if (!status) return PDL_OK;
    free(*local);
    *local = NULL;
    return status;
}

/* Experts on several ranks, and the way to them. */
static pdl_status_t find_experts(const pdl__lowering_t *l, int head, pdl_op_spec_t *spec, pdl__unit_t *unit)
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
static void find_classes(const pdl__lowering_t *l, int head, const pdl_region_t *in, pdl_op_spec_t *spec)
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
static unsigned find_statistics(const pdl__lowering_t *l, int head)
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
static pdl_op_spec_t describe_op(const pdl__lowering_t *l, int head, int tail, bool gradient,
                                 const pdl_region_t *in, const pdl_region_t *out)
{
    const pdl_layer_t *layer = pdl_model_layer(l->model, head);
    bool               shared = layer->tied_to >= 0 || has_tied_reader(l->model, head);
    pdl_op_spec_t      spec = {.samples = pdl__region_samples(in),
                               .fusion = pdl__fusion_of(l->spec->plan, head, tail),
                               .training = l->spec->training,
                               .input_gradient = l->spec->training && gradient,
                               .gradient_in_forward = pdl_layer_traits(layer)->loss != PDL_LOSS_NONE &&
                                                      l->spec->training && gradient && !l->spec->shows_logits,
                               .accumulates = l->spec->plan->micro_batches > 1 || shared,
                               .plain_weights = shared || !l->spec->layouts->trivial || l->spec->context > 0,
                               .context = l->spec->context,
                               .id = (uint64_t)head,
                               .origin = origin_of(layer, out)};

    find_classes(l, head, in, &spec);
    spec.shared =
        pdl_layer_traits(layer)->statistics && l->spec->plan->sync_batch_norm && find_statistics(l, head) != 0;
    return spec;
}

/* A convolution that gets the halo of an axis by itself, on a rank of this class. */
static pdl_status_t fill_halo(const pdl__lowering_t *l, int head, int tail, int axis, const pdl_format_t *given,
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
static pdl_status_t choose_halo(const pdl__lowering_t *l, int head, int tail, int *axis)
{
    pdl_backend_t *backend = l->graph->backend;
    int            producer = pdl_model_layer(l->model, head)->inputs[0];
    pdl_format_t   format[2];
    pdl_status_t   status = PDL_OK;

    *axis = pdl__halo_axis(l->spec->layouts, head);
    if (pdl_dtype_bytes(backend->activation_type) > sizeof(float) || pdl__fusion_of(l->spec->plan, head, tail).add)
        *axis = -1;
    for (int c = 0; c < l->all->count && *axis >= 0 && !status; c++) {
        const pdl__lowering_t *other = &l->all->of[c];
        pdl_format_t           given = pdl__format_of(other, producer);
        pdl__halo_spec_t       spec;
        bool                   possible = false;
        status = fill_halo(other, head, tail, *axis, &given, &spec);
        if (!status) status = pdl__halo_possible(&spec, &possible, &format[c > 0]);
        if (!possible || format[c > 0] != format[0]) *axis = -1;
    }
    return status;
}

/* Where a convolution gets the halo of an axis by itself, its op is described here, before its input arrives, and *axis
   says which; else -1. */
static pdl_status_t create_halo(pdl__lowering_t *l, int head, int tail, pdl__unit_t *unit, int *axis)
{
    int              producer = pdl_model_layer(l->model, head)->inputs[0];
    pdl__halo_spec_t spec;
    pdl_status_t     status = PDL_OK;

    if (l->all->halo_head != head) status = choose_halo(l, head, tail, &l->all->halo_axis);
    l->all->halo_head = head;
    *axis = l->all->halo_axis;
    if (status || *axis < 0) return status;
    if (l->unit_of[producer] < 0) status = pdl__receive(l, producer);
    unit->given[0] = pdl__format_of(l, producer);
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
static pdl_status_t create_op(const pdl__lowering_t *l, int head, int tail, const int *producer, int count,
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
static pdl_status_t add_sums(const pdl__lowering_t *l, int head, const int *producer, int count, pdl__unit_t *unit)
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

/* The unit of this stage that has the weight of layer `owner`, or -1. */
static int tied_unit(const pdl__lowering_t *l, int owner)
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
static void fill_unit(pdl__lowering_t *l, pdl__unit_t *unit, int tail, const int *producer, int count)
{
    const pdl_layer_t *layer = pdl_model_layer(l->model, unit->layer);
    unsigned           channel = pdl__layouts_axes(l->spec->layouts, unit->layer, PDL_MODE_CHANNEL);

    unit->tail = tail;
    unit->shape = pdl__local_shape(&pdl_model_layer(l->model, tail)->out, &unit->region);
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

pdl_status_t pdl__lower_op(pdl__lowering_t *l, int head, int tail)
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
        status = pdl__converted(l->graph, producer[j], made.description.in_format[j], &producer[j]);
    pdl__unit_t *unit = status ? NULL : pdl__add_unit(l->graph, PDL__UNIT_OP, head);
    if (!unit) {
        pdl__unit_free(&made);
        return status ? status : pdl__no_memory("while preparing a model of this size");
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
