/*
 * Ways of tokens to the ranks that have their experts.
 */
#include "program/lower/dispatch.h"
#include <stdlib.h>

/* Experts and tokens of every rank of the group. */
static pdl_status_t look_around(const pdl__layouts_t *l, int layer, unsigned axes, pdl__dispatch_t *routes)
{
    const pdl_shape_t *shape = &routes->layer->in;
    pdl_status_t       status = PDL_OK;

    for (int m = 0; m < routes->members && !status; m++) {
        int64_t      coordinates[PDL_MAX_AXES];
        pdl_region_t region;
        pdl__layouts_member(l, axes, m, coordinates);
        routes->first[m] = pdl__experts(l, layer, coordinates).low;
        status = pdl_layout_region(&l->layer[layer].reads, &l->plan->mesh, shape, l->samples, coordinates, &region);
        if (status) break;
        int64_t rows = pdl_region_elements(&region) / pdl_region_extent(&region, PDL_DIM_CHANNEL);
        routes->all_rows += rows;
        if (m == routes->member) routes->rows = rows;
    }
    routes->first[routes->members] = routes->layer->experts;
    return status;
}

/* Elements of the widest row: backward sends one more, that of the share. */
static int64_t widest_row(const pdl_layer_t *layer)
{
    return (layer->in.channels > layer->out.channels ? layer->in.channels : layer->out.channels) + 1;
}

pdl_status_t pdl__dispatch_create(const pdl__layouts_t *l, int layer, bool input_gradient, pdl__dispatch_t **out)
{
    unsigned         axes = pdl__layouts_axes(l, layer, PDL_MODE_EXPERT);
    pdl__dispatch_t *routes = calloc(1, sizeof(*routes));
    pdl_status_t     status = routes ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory while preparing experts");

    if (!status) {
        routes->layer = pdl_model_layer(l->plan->model, layer);
        routes->input_gradient = input_gradient;
        routes->axes = axes;
        routes->member = pdl__layouts_place(l, axes);
        routes->members = pdl__layouts_members(l, axes);
        routes->first = calloc((size_t)routes->members + 1, sizeof(*routes->first));
        if (!routes->first) status = pdl_error(PDL_ERR_NOMEM, "out of memory while preparing experts");
    }
    if (!status) status = look_around(l, layer, axes, routes);
    if (!status) {
        int64_t rows = routes->all_rows * routes->layer->top_k * widest_row(routes->layer) * (int64_t)sizeof(float);
        int64_t counts = routes->layer->experts * (int64_t)sizeof(int64_t);
        routes->bytes = rows > counts ? rows : counts;
    }
    if (status) {
        pdl__dispatch_destroy(routes);
        return status;
    }
    *out = routes;
    return PDL_OK;
}

void pdl__dispatch_destroy(pdl__dispatch_t *routes)
{
    if (!routes) return;
    free(routes->first);
    free(routes);
}

/* Bytes of a row that is sent to an expert, and back. */
static void row_bytes(const pdl__dispatch_t *routes, bool backward, double *there, double *back)
{
    double in = (double)routes->layer->in.channels, out = (double)routes->layer->out.channels;

    *there = sizeof(float) * (backward ? out + 1 : in);
    *back = sizeof(float) * (!backward ? out : routes->input_gradient ? in + 1 : 1);
}

double pdl__dispatch_even_bytes(const pdl__dispatch_t *routes, bool backward)
{
    double all = (double)routes->layer->experts, top_k = pdl_layer_expert_rows(routes->layer), there, back;
    double here = (double)(routes->first[routes->member + 1] - routes->first[routes->member]);
    double gone = (double)routes->rows * top_k * (all - here) / all;
    double guests = (double)(routes->all_rows - routes->rows) * top_k * here / all;

    row_bytes(routes, backward, &there, &back);
    return gone * there + guests * back + (backward ? 0 : (all - here) * sizeof(int64_t));
}

double pdl__dispatch_all_bytes(const pdl__dispatch_t *routes, bool backward)
{
    double rows = (double)routes->all_rows * pdl_layer_expert_rows(routes->layer), there, back;

    row_bytes(routes, backward, &there, &back);
    return rows * (there + back) +
           (backward ? 0 : (double)(routes->layer->experts * routes->members) * sizeof(int64_t));
}
