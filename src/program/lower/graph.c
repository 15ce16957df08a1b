/*
 * Lowering: walks the layers in order and makes a unit of each, with a conversion in front where what arrives has another
 * format than the op wants to read.
 */
#include "base/memory.h"
#include "program/builder.h"
#include "program/lower/lowering.h"
#include <paradl/model/dataset.h>
#include <stdlib.h>

/* Samples are loaded wherever a layer reads them. */
static pdl_status_t lower_source(pdl__lowering_t *l)
{
    bool         gradient;
    pdl__unit_t *unit;

    if (!pdl__pipe_reads(l->spec->layouts->stages, 0, l->spec->layouts->stages->at, &gradient)) return PDL_OK;
    unit = pdl__add_unit(l->graph, PDL__UNIT_SOURCE, 0);
    if (!unit) return pdl__no_memory("while preparing a model of this size");
    l->graph->source = 0;
    unit->shape = pdl_model_input(l->model);
    unit->format = PDL_FORMAT_PLAIN;
    pdl_status_t status =
        pdl__layouts_region(l->spec->layouts, &l->spec->layouts->layer[0].out, &unit->shape, -1, 0, &unit->region);
    l->graph->tokens = pdl_model_vocabulary(l->model) > 0;
    l->unit_of[0] = 0;
    return status;
}

/* Samples are loaded in the format that their only reader wants, where the backend can: it converts nothing then. */
static void format_source(pdl__graph_t *graph)
{
    pdl__unit_t *reader = NULL;
    int          readers = 0;

    if (graph->source < 0 || graph->tokens || !graph->backend->loads_formats) return;
    for (int i = 0; i < graph->unit_count; i++)
        for (int j = 0; j < graph->unit[i].input_count; j++)
            if (graph->unit[i].input[j] == graph->source) {
                reader = &graph->unit[i];
                readers++;
            }
    if (readers != 1 || reader->kind != PDL__UNIT_CONVERT) return;
    graph->unit[graph->source].format = reader->format;
    reader->kind = PDL__UNIT_VIEW;
}

/* Another shape of the same storage. Flattening is one as long as the tensor is plain. */
static pdl_status_t lower_view(pdl__lowering_t *l, int i)
{
    const pdl_layer_t *layer = pdl_model_layer(l->model, i);
    pdl_region_t       region;
    int                from;
    pdl_status_t       status = pdl__arrive(l, layer->inputs[0], i, -1, &from);

    if (!status)
        status =
            pdl__layouts_region(l->spec->layouts, &l->spec->layouts->layer[i].out, &layer->out, -1, 0, &region);
    if (!status && !pdl__changes_nothing(l->spec->plan, i))
        status = pdl__converted(l->graph, from, PDL_FORMAT_PLAIN, &from);

    if (status) return status;
    pdl__unit_t *unit = pdl__add_unit(l->graph, PDL__UNIT_VIEW, i);
    if (!unit) return pdl__no_memory("while preparing a model of this size");
    unit->region = region;
    unit->shape = pdl__local_shape(&layer->out, &region);
    unit->format = l->graph->unit[from].format;
    unit->input[0] = from;
    unit->input_count = 1;
    unit->gradient = l->graph->unit[from].gradient;
    l->unit_of[i] = l->graph->unit_count - 1;
    return PDL_OK;
}

static pdl_status_t lower_layer(pdl__lowering_t *l, int i)
{
    const pdl_layer_t *layer = pdl_model_layer(l->model, i);
    pdl_status_t       status;

    l->graph->chunk = l->spec->layouts->stages->run[i] / l->spec->layouts->stages->count;
    if (pdl_layer_traits(layer)->view == PDL_VIEW_SAME || pdl__changes_nothing(l->spec->plan, i))
        status = lower_view(l, i);
    else
        status = pdl__lower_op(l, l->head[i], i);
    return status ? status : pdl__send(l, i);
}

static pdl_status_t lower_layers(pdl__walks_t *all)
{
    pdl__lowering_t   *l = &all->of[0];
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
    pdl__walks_t       walks;
    pdl__graph_spec_t *spec;
    pdl__layouts_t    *classes;
    int               *table;
} side_by_side_t;

static pdl_status_t begin_walk(side_by_side_t *s, int c, const pdl__graph_spec_t *spec)
{
    size_t           layers = (size_t)pdl_model_layer_count(spec->plan->model);
    pdl__lowering_t *l = &s->walks.of[c];

    s->spec[c] = *spec;
    s->spec[c].layouts = &s->classes[c];
    *l = (pdl__lowering_t){.spec = &s->spec[c],
                           .model = spec->plan->model,
                           .graph = calloc(1, sizeof(*l->graph)),
                           .head = s->table,
                           .unit_of = s->table + layers * (size_t)(c + 1),
                           .all = &s->walks};
    if (!l->graph) return pdl__no_memory("while preparing a model of this size");
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
    if (!s->walks.of || !s->spec || !s->table) return pdl__no_memory("while preparing a model of this size");
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
    if (!status) format_source(graph);
    if (!status) status = pdl__graph_nodes(graph);
    if (!status && spec->training)
        status = pdl__program_choose_policies(graph->node, graph->unit_count, spec->plan);
    if (!status) status = pdl__rank_weights_create(spec, graph);
    if (status) {
        pdl__graph_destroy(graph);
        return status;
    }
    *out = graph;
    return PDL_OK;
}

void pdl__unit_free(pdl__unit_t *unit)
{
    free(unit->local);
    pdl__dispatch_destroy(unit->routes);
    pdl__halo_destroy(unit->halo);
    pdl__edge_destroy(unit->edge);
    for (int j = 0; j < PDL_MAX_INPUTS; j++) pdl__edge_destroy(unit->after[j]);
}

void pdl__graph_destroy(pdl__graph_t *graph)
{
    if (!graph) return;
    for (int i = 0; i < graph->unit_count; i++) pdl__unit_free(&graph->unit[i]);
    pdl__rank_weights_destroy(graph->weights);
    free(graph->unit);
    free(graph->node);
    free(graph);
}
