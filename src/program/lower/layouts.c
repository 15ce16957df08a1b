/*
 * Layouts of all layers, from the partition of the plan.
 */
#include "program/lower/layouts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The attention layer that reads the output of every layer, looking through what treats every channel alone; -1: none. The first
   reader that is either decides. */
static void find_attention(const pdl_model_t *model, int *reader)
{
    for (int k = pdl_model_layer_count(model) - 1; k >= 0; k--) {
        const pdl_layer_t  *layer = pdl_model_layer(model, k);
        const pdl_traits_t *traits = pdl_layer_traits(layer);
        if (layer->input_count < 1) continue;
        if (traits->shared == PDL_SHARED_HEADS)
            reader[layer->inputs[0]] = k;
        else if (traits->drops)
            reader[layer->inputs[0]] = reader[k];
        /* An adapter and the projection beside it are cut like their sum. */
        for (int j = 0; j < layer->input_count && traits->combine == PDL_COMBINE_SUM && reader[k] >= 0; j++)
            reader[layer->inputs[j]] = reader[k];
    }
}

/* A head's part of the key and its value stand side by side; what all heads share of a key is cut evenly, for ranks
   have to gather it anyway. */
static void cut_latent(const pdl_layer_t *attention, int64_t query, pdl_layout_t *layout)
{
    int64_t own = attention->head_dim - attention->shared_dim + pdl_attention_value_dim(attention);
    int64_t shared = query + attention->kv_heads * own;

    layout->segments = attention->shared_dim > 0 ? 3 : 2;
    layout->segment[0] = (pdl_segment_t){0, query, query / attention->kv_heads};
    layout->segment[1] = (pdl_segment_t){query, shared, own};
    layout->segment[2] = (pdl_segment_t){shared, shared + attention->shared_dim, 1};
}

/* Queries, keys and values are cut each by itself, such that a rank holds whole groups of heads. */
static void cut_by_heads(const pdl_layer_t *attention, pdl_layout_t *layout)
{
    int64_t query = attention->heads * attention->head_dim, key = attention->kv_heads * attention->head_dim;

    layout->segments = 3;
    if (attention->shared_dim > 0 || attention->value_dim > 0) {
        cut_latent(attention, query, layout);
        return;
    }
    layout->segment[0] = (pdl_segment_t){0, query, query / attention->kv_heads};
    layout->segment[1] = (pdl_segment_t){query, query + key, attention->head_dim};
    layout->segment[2] = (pdl_segment_t){query + key, query + 2 * key, attention->head_dim};
}

/* How the channels of a layer's output fall apart. */
static void cut_channels(pdl__layouts_t *l, int i, int reader)
{
    const pdl_model_t  *model = l->plan->model;
    const pdl_layer_t  *layer = pdl_model_layer(model, i);
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    pdl_layout_t       *out = &l->layer[i].out;

    pdl_layout_plain(&layer->out, out);
    if (traits->shared == PDL_SHARED_HEADS)
        out->segment[0].unit = layer->heads / layer->kv_heads * pdl_attention_value_dim(layer);
    else if (traits->channels == PDL_CHANNELS_FOLDED)
        out->segment[0].unit = layer->out.channels / layer->in.channels;
    else if (layer->groups > 1)
        out->segment[0].unit = layer->out.channels / layer->groups;
    else if (traits->drops)
        *out = l->layer[layer->inputs[0]].out;
    else if (reader >= 0)
        cut_by_heads(pdl_model_layer(model, reader), out);
}

/* What a layer reads is cut as its producer cuts it, unless it must be cut by the layer's own units. */
static void cut_inputs(pdl__layouts_t *l, int i)
{
    const pdl_layer_t *layer = pdl_model_layer(l->plan->model, i);
    pdl_layout_t      *reads = &l->layer[i].reads;

    if (layer->input_count < 1) return;
    *reads = l->layer[layer->inputs[0]].out;
    if (pdl_layer_traits(layer)->shared == PDL_SHARED_HEADS) cut_by_heads(layer, reads);
    if (layer->groups > 1) reads->segment[0].unit = layer->in.channels / layer->groups;
}

static void place_layer(pdl__layouts_t *l, int i, int reader)
{
    const pdl_mesh_t  *mesh = &l->plan->mesh;
    const pdl_local_t *local = &l->partition->local[i];

    cut_channels(l, i, reader);
    cut_inputs(l, i);
    l->layer[i].dx = l->layer[i].reads;
    for (int a = 0; a < mesh->axis_count; a++) {
        bool data = mesh->axis[a].kind == PDL_AXIS_DATA; /* the program leaves data axes to the batch */
        l->layer[i].out.on[a] = data ? PDL_SPLIT_N : local->out[a];
        /* Samples are loaded whole; who needs a part of them takes it. */
        if (i == 0 && !data) l->layer[i].out.on[a] = PDL_REPLICATED;
        l->layer[i].reads.on[a] = data ? PDL_SPLIT_N : local->reads[a];
        l->layer[i].dx.on[a] = data ? PDL_SPLIT_N : local->dx[a];
    }
}

static pdl_status_t place_layers(pdl__layouts_t *l, int count)
{
    int *reader = malloc((size_t)count * sizeof(*reader));

    if (reader == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (int i = 0; i < count; i++) reader[i] = -1;
    find_attention(l->plan->model, reader);
    for (int i = 0; i < count; i++) place_layer(l, i, reader[i]);
    free(reader);
    return PDL_OK;
}

static void find_stage_axes(pdl__layouts_t *l)
{
    for (int a = 0; a < l->plan->mesh.axis_count; a++)
        if (l->plan->mesh.axis[a].size > 1 && l->plan->mesh.axis[a].kind != PDL_AXIS_PIPELINE)
            l->stage_axes |= 1u << a;
}

static int stage_at(const pdl__layouts_t *l)
{
    int axis = pdl_mesh_find(&l->plan->mesh, PDL_AXIS_PIPELINE);

    return axis >= 0 ? (int)l->coordinates[axis] : 0;
}

/* Refuses a layer of which some rank would get no part, by its name. */
static pdl_status_t check_layer(const pdl__layouts_t *l, int i)
{
    const pdl_layer_t *layer = pdl_model_layer(l->plan->model, i);
    pdl_region_t       region;
    char               why[128];
    pdl_status_t       status = pdl__layouts_region(l, &l->layer[i].out, &layer->out, -1, 0, &region);

    if (!status && layer->input_count > 0)
        status = pdl__layouts_region(l, &l->layer[i].reads, &pdl_model_layer(l->plan->model, layer->inputs[0])->out,
                                     -1, 0, &region);
    if (!status) return PDL_OK;
    snprintf(why, sizeof(why), "%s", pdl_error_message());
    return pdl_error(status, "layer %s: %s", layer->name, why);
}

static pdl_status_t find_first(pdl__layouts_t *l)
{
    const pdl_shape_t *input = &pdl_model_layer(l->plan->model, 0)->out;
    pdl_region_t       loaded;
    pdl_status_t       status = pdl__layouts_region(l, &l->layer[0].out, input, -1, 0, &loaded);

    l->first = loaded.range[PDL_DIM_SAMPLE][0].low;
    return status;
}

pdl_status_t pdl__layouts_create(const pdl_plan_t *plan, int64_t rank, int64_t samples, pdl__layouts_t **out)
{
    int             count = pdl_model_layer_count(plan->model);
    pdl__layouts_t *l = calloc(1, sizeof(*l));
    pdl_status_t    status = PDL_OK;

    if (l) l->layer = calloc((size_t)count, sizeof(*l->layer));
    if (!l || !l->layer) {
        free(l);
        return pdl_error(PDL_ERR_NOMEM, "out of memory");
    }
    l->plan = plan;
    l->samples = samples;
    pdl_mesh_coordinates(&plan->mesh, rank, l->coordinates);
    status = pdl_partition_create(plan, (double)samples / (double)pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA),
                                  &l->partition);
    if (status) {
        pdl__layouts_destroy(l);
        return status;
    }
    l->trivial = true;
    for (int a = 0; a < plan->mesh.axis_count; a++) l->trivial &= !pdl_axis_splits(&plan->mesh.axis[a]);
    l->trivial &= pdl_plan_expert_axis(plan) < 0;
    status = place_layers(l, count);
    if (!status) status = pdl__known_moves_create(&l->moves);
    if (!status) status = find_first(l);
    if (!status) status = pdl__pipe_create(plan, stage_at(l), &l->stages);
    find_stage_axes(l);
    for (int i = 0; i < count && !status; i++) status = check_layer(l, i);
    if (status) {
        pdl__layouts_destroy(l);
        return status;
    }
    *out = l;
    return PDL_OK;
}

void pdl__layouts_destroy(pdl__layouts_t *l)
{
    if (!l) return;
    pdl__pipe_destroy(l->stages);
    pdl__known_moves_destroy(l->moves);
    pdl_partition_destroy(l->partition);
    free(l->layer);
    free(l);
}

int pdl__layouts_members(const pdl__layouts_t *l, unsigned axes)
{
    int members = 1;

    for (int a = 0; a < l->plan->mesh.axis_count; a++)
        if (axes >> a & 1) members *= (int)l->plan->mesh.axis[a].size;
    return members;
}

int pdl__layouts_place(const pdl__layouts_t *l, unsigned axes)
{
    int place = 0;

    for (int a = 0; a < l->plan->mesh.axis_count; a++)
        if (axes >> a & 1) place = place * (int)l->plan->mesh.axis[a].size + (int)l->coordinates[a];
    return place;
}

void pdl__layouts_member(const pdl__layouts_t *l, unsigned axes, int member, int64_t *coordinates)
{
    memcpy(coordinates, l->coordinates, sizeof(l->coordinates));
    for (int a = l->plan->mesh.axis_count - 1; a >= 0; a--) {
        int size = (int)l->plan->mesh.axis[a].size;
        if (!(axes >> a & 1)) continue;
        coordinates[a] = member % size;
        member /= size;
    }
}

pdl_status_t pdl__layouts_region(const pdl__layouts_t *l, const pdl_layout_t *layout, const pdl_shape_t *shape,
                                 int axis, int64_t at, pdl_region_t *region)
{
    int64_t coordinates[PDL_MAX_AXES];

    memcpy(coordinates, l->coordinates, sizeof(coordinates));
    if (axis >= 0) coordinates[axis] = at;
    return pdl_layout_region(layout, &l->plan->mesh, shape, l->samples, coordinates, region);
}

int64_t pdl__region_samples(const pdl_region_t *region)
{
    return pdl_region_extent(region, PDL_DIM_SAMPLE);
}

int64_t pdl__region_first(const pdl__layouts_t *l, const pdl_region_t *region)
{
    return region->range[PDL_DIM_SAMPLE][0].low - l->first;
}

unsigned pdl__layouts_axes(const pdl__layouts_t *l, int layer, pdl_mode_t mode)
{
    unsigned axes = 0;

    for (int a = 0; a < l->plan->mesh.axis_count; a++)
        if (l->plan->mesh.axis[a].size > 1 && l->plan->mesh.axis[a].kind != PDL_AXIS_PIPELINE &&
            l->partition->local[layer].mode[a] == (uint8_t)mode)
            axes |= 1u << a;
    return axes;
}

unsigned pdl__data_axes(const pdl_mesh_t *mesh)
{
    unsigned axes = 0;

    for (int a = 0; a < mesh->axis_count; a++)
        if (mesh->axis[a].kind == PDL_AXIS_DATA && mesh->axis[a].size > 1) axes |= 1u << a;
    return axes;
}
