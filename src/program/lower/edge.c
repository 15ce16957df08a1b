/*
 * Redistributions and halos as lists of moves, axis by axis in the order in which the plan was priced.
 */
#include "program/lower/edge.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

/* A list of steps under construction: the layout and region reached so far. */
typedef struct path {
    const pdl__layouts_t *layouts;
    pdl__edge_t          *edge;
    const pdl_shape_t    *shape; /* of the whole tensor */
    int64_t               block; /* channels that lie together at every position; 1: plain */
    pdl_layout_t          now;
    int                   direction;
} path_t;

/* Blocks of channels are what the first dimension counts; the channels of one are part of the innermost extent. */
static pdl_region_t in_blocks(const pdl_region_t *region, int64_t block)
{
    pdl_region_t blocked = *region;
    pdl_range_t *channels = &blocked.range[1][0], *inner = &blocked.range[4][0];

    *channels = (pdl_range_t){0, (channels->high + block - 1) / block};
    *inner = (pdl_range_t){inner->low * block, inner->high * block};
    return blocked;
}

pdl_region_t pdl__edge_in_memory(const pdl_shape_t *shape, int64_t block, const pdl_region_t *region)
{
    static const int image[] = {PDL_DIM_SAMPLE, PDL_DIM_CHANNEL, PDL_DIM_SPACE, PDL_DIM_SPACE + 1,
                                PDL_DIM_SPACE + 2};
    static const int sequence[] = {PDL_DIM_SAMPLE, PDL_DIM_SPACE, PDL_DIM_CHANNEL};

    pdl_region_t permuted =
        shape->sequence ? pdl_region_permute(region, sequence, 3) : pdl_region_permute(region, image, 5);
    return block > 1 ? in_blocks(&permuted, block) : permuted;
}

static pdl_region_t in_memory(const path_t *p, const pdl_region_t *region)
{
    return pdl__edge_in_memory(p->shape, p->block, region);
}

int64_t pdl__edge_block(const pdl_backend_t *backend, pdl_format_t format, int64_t channels)
{
    return format == PDL_FORMAT_BLOCKED ? pdl_backend_block(backend, channels) : 1;
}

static pdl_status_t keep_move(path_t *p, pdl_status_t status, pdl__planned_move_t *move)
{
    if (!status && move != NULL) p->edge->moves[p->edge->move_count++] = move;
    return status;
}

/* A move that was planned before, or NULL. */
static pdl_status_t find_move(path_t *p, const pdl__move_key_t *key, pdl__planned_move_t **move)
{
    pdl_status_t status = pdl__planned_move_find(p->layouts, key, move);

    return keep_move(p, status, *move);
}

/* A move among the ranks that differ in `axes`; regions are in memory order, one per member, and taken over. */
static pdl_status_t add_move(path_t *p, const pdl__move_key_t *key, unsigned axes, pdl_region_t *own,
                             pdl_region_t *need, pdl__planned_move_t **move)
{
    pdl_status_t status = pdl__planned_move_create(p->layouts, key, axes, p->edge->type, own, need, move);

    return keep_move(p, status, status ? NULL : *move);
}

/* Regions of all members of a group. */
static pdl_status_t take_regions(int64_t members, pdl_region_t **own, pdl_region_t **need)
{
    *own = calloc((size_t)members, sizeof(**own));
    *need = calloc((size_t)members, sizeof(**need));
    return *own && *need ? PDL_OK : pdl__no_memory("while preparing redistributions");
}

static pdl_status_t drop_regions(pdl_region_t *own, pdl_region_t *need, pdl_status_t status)
{
    free(own);
    free(need);
    return status;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void add_step(path_t *p, pdl__edge_step_t step, pdl_primitive_t primitive)
{
    int k = p->edge->count[p->direction]++;

    p->edge->step[p->direction][k] = step;
    p->edge->said[p->direction][k] =
        (pdl_program_move_t){.primitive = primitive,
                             .group = step.move->axes,
                             .bytes = (size_t)step.after * pdl_dtype_bytes(p->edge->type),
                             .sent = step.move->sent[step.transpose]};
}

/* Regions of all members of an axis in two layouts. */
static pdl_status_t member_regions(const path_t *p, int axis, const pdl_layout_t *layout, pdl_region_t *regions)
{
    int64_t members = axis < 0 ? 1 : p->layouts->plan->mesh.axis[axis].size;

    for (int64_t m = 0; m < members; m++) {
        pdl_region_t region;
        pdl_status_t status = pdl__layouts_region(p->layouts, layout, p->shape, axis, m, &region);
        if (status) return status;
        regions[m] = in_memory(p, &region);
    }
    return PDL_OK;
}

static pdl_status_t plan_sum(path_t *p, int axis, int64_t elements, const pdl__move_key_t *key,
                             pdl__planned_move_t **move)
{
    int64_t       members = p->layouts->plan->mesh.axis[axis].size;
    pdl_region_t *own, *need;
    pdl_status_t  status = take_regions(members, &own, &need);

    if (status) return drop_regions(own, need, status);
    for (int64_t m = 0; m < members; m++) {
        pdl_range_t range;
        pdl_block_range(elements, members, m, &range.low, &range.high);
        own[m] = (pdl_region_t){.rank = 1, .segments = {1}, .range = {{range}}};
        need[m] = (pdl_region_t){.rank = 1, .segments = {1}, .range = {{{0, elements}}}};
    }
    return add_move(p, key, 1u << axis, own, need, move);
}

/* The sum over an axis: blocks are summed at their owners, which then give them to all. */
static pdl_status_t add_sum(path_t *p, int axis, int64_t elements)
{
    pdl__move_key_t      key = pdl__move_key_sum(p->layouts, 1u << axis, p->edge->type, elements);
    pdl__planned_move_t *move;
    pdl_status_t         status = find_move(p, &key, &move);

    if (!status && move == NULL) status = plan_sum(p, axis, elements, &key, &move);
    if (status) return status;
    int64_t block = pdl_region_elements(&move->own[move->place]);
    add_step(p, (pdl__edge_step_t){move, true, elements, block, 0}, PDL_REDUCE_SCATTER);
    add_step(p, (pdl__edge_step_t){move, false, block, elements, 0}, PDL_ALLGATHER);
    return PDL_OK;
}

/* Between the layout reached so far and the next, which may be among no ranks (axis -1). */
static pdl_status_t plan_change(path_t *p, int axis, const pdl_layout_t *next, const pdl__move_key_t *key,
                                pdl__planned_move_t **move)
{
    int64_t       members = axis < 0 ? 1 : p->layouts->plan->mesh.axis[axis].size;
    unsigned      axes = axis < 0 ? 0 : 1u << axis;
    pdl_region_t *from, *to;
    pdl_status_t  status = take_regions(members, &from, &to);

    if (!status) status = member_regions(p, axis, &p->now, from);
    if (!status) status = member_regions(p, axis, next, to);
    if (status) return drop_regions(from, to, status);
    return key->transpose ? add_move(p, key, axes, to, from, move) : add_move(p, key, axes, from, to, move);
}

/* A change of layout on one axis that is not a sum: `from` and `to` differ in where elements lie. */
static pdl_status_t add_change(path_t *p, int axis, const pdl_layout_t *next, pdl_primitive_t primitive)
{
    bool transpose = primitive == PDL_REDUCE_SCATTER;
    /* A slice of what every rank holds moves nothing. */
    bool                 slice = !transpose && p->now.on[axis] == PDL_REPLICATED;
    pdl__move_key_t      key = pdl__move_key_change(p->layouts, slice ? 0 : 1u << axis, p->edge->type, p->shape,
                                                    p->block, &p->now, next, transpose);
    pdl__planned_move_t *move;
    pdl_status_t         status = find_move(p, &key, &move);

    if (!status && move == NULL) status = plan_change(p, slice ? -1 : axis, next, &key, &move);
    if (status) return status;
    int64_t own = pdl_region_elements(&move->own[move->place]),
            need = pdl_region_elements(&move->need[move->place]);
    int64_t before = transpose ? need : own, after = transpose ? own : need;
    if (primitive == PDL_LOCAL && !slice) primitive = PDL_ALLTOALL; /* cut at other places */
    add_step(p, (pdl__edge_step_t){move, transpose, before, after, least(before, after)}, primitive);
    return PDL_OK;
}

static bool same_segments(const pdl_layout_t *a, const pdl_layout_t *b)
{
    return a->segments == b->segments &&
           memcmp(a->segment, b->segment, (size_t)a->segments * sizeof(*a->segment)) == 0;
}

static pdl_status_t redistribute_axis(path_t *p, int axis, pdl_primitive_t primitive, const pdl_layout_t *to)
{
    pdl_layout_t next = p->now;
    bool         recut = to->on[axis] == PDL_SPLIT_C && !same_segments(&p->now, to);
    pdl_status_t status = PDL_OK;

    next.on[axis] = to->on[axis];
    if (to->on[axis] == PDL_SPLIT_C) {
        next.segments = to->segments;
        memcpy(next.segment, to->segment, sizeof(next.segment));
    }
    if (primitive == PDL_ALLREDUCE) {
        pdl_region_t mine = {0};
        status = pdl__layouts_region(p->layouts, &p->now, p->shape, -1, 0, &mine);
        mine = in_memory(p, &mine);
        if (!status) status = add_sum(p, axis, pdl_region_elements(&mine));
    } else if (p->now.on[axis] != to->on[axis] || recut)
        status = add_change(p, axis, &next, primitive);
    p->now = next;
    return status;
}

/* Whether two axes cut the same dimension, before or after, and another one than the innermost changes: cuts nest, so pieces would not
   be found where taking axis after axis looks for them. */
static bool entangled(const pdl_mesh_t *mesh, const pdl_layout_t *from, const pdl_layout_t *to)
{
    for (int dim = PDL_SPLIT_N; dim < PDL_PLACEMENT_COUNT; dim++) {
        int  axis[PDL_MAX_AXES], count = pdl_layout_nesting(mesh, dim == PDL_SPLIT_C, axis), users = 0;
        bool changes = false, outside = false;
        for (int i = 0; i < count; i++) {
            int a = axis[i];
            if (!pdl_axis_splits(&mesh->axis[a]) || ((int)from->on[a] != dim && (int)to->on[a] != dim)) continue;
            users++;
            outside |= changes;
            changes = from->on[a] != to->on[a] || (dim == PDL_SPLIT_C && !same_segments(from, to));
        }
        if (users > 1 && outside) return true;
    }
    return false;
}

static pdl_status_t plan_at_once(path_t *p, unsigned axes, const pdl_layout_t *to, const pdl__move_key_t *key,
                                 pdl__planned_move_t **move)
{
    const pdl__layouts_t *l = p->layouts;
    const pdl_mesh_t     *mesh = &l->plan->mesh;
    int                   members = pdl__layouts_members(l, axes);
    pdl_region_t         *own, *need;
    pdl_status_t          status = take_regions(members, &own, &need);

    for (int m = 0; m < members && !status; m++) {
        int64_t      coordinates[PDL_MAX_AXES];
        pdl_region_t region;
        pdl__layouts_member(l, axes, m, coordinates);
        status = pdl_layout_region(&p->now, mesh, p->shape, l->samples, coordinates, &region);
        own[m] = in_memory(p, &region);
        if (!status) status = pdl_layout_region(to, mesh, p->shape, l->samples, coordinates, &region);
        need[m] = in_memory(p, &region);
    }
    if (status) return drop_regions(own, need, status);
    return add_move(p, key, axes, own, need, move);
}

/* All changes in one move among the ranks that differ in the axes which change, or which cut anything: a cut outside
   or inside of one that changes shifts. */
static pdl_status_t move_at_once(path_t *p, const pdl_layout_t *to)
{
    const pdl__layouts_t *l = p->layouts;
    const pdl_mesh_t     *mesh = &l->plan->mesh;
    unsigned              axes = 0;

    for (int a = 0; a < mesh->axis_count; a++)
        if (pdl_axis_splits(&mesh->axis[a]) && (p->now.on[a] != to->on[a] || to->on[a] >= PDL_SPLIT_N))
            axes |= 1u << a;
    pdl__move_key_t      key = pdl__move_key_change(l, axes, p->edge->type, p->shape, p->block, &p->now, to, false);
    pdl__planned_move_t *move;
    pdl_status_t         status = find_move(p, &key, &move);
    if (!status && move == NULL) status = plan_at_once(p, axes, to, &key, &move);
    if (status) return status;
    int64_t before = pdl_region_elements(&move->own[move->place]),
            after = pdl_region_elements(&move->need[move->place]);
    add_step(p, (pdl__edge_step_t){move, false, before, after, least(before, after)}, PDL_ALLTOALL);
    p->now = *to;
    return PDL_OK;
}

/* How a tensor is to lie: where its channels stay whole, what the reader says of their cuts, which is about its first
   input, is not about this one. */
static pdl_layout_t wanted(const path_t *p, const pdl_layout_t *to)
{
    pdl_layout_t layout = *to;

    for (int a = 0; a < p->layouts->plan->mesh.axis_count; a++)
        if (pdl_axis_splits(&p->layouts->plan->mesh.axis[a]) && to->on[a] == PDL_SPLIT_C) return layout;
    layout.segments = p->now.segments;
    memcpy(layout.segment, p->now.segment, sizeof(layout.segment));
    return layout;
}

static pdl_status_t redistribute(path_t *p, const pdl_layout_t *to)
{
    const pdl_mesh_t         *mesh = &p->layouts->plan->mesh;
    const pdl_layout_t        from = p->now;
    pdl_redistribution_step_t step[PDL_MAX_AXES];
    pdl_status_t              status = PDL_OK;

    if (entangled(mesh, &from, to)) {
        pdl_layout_t whole = from;
        for (int a = 0; a < mesh->axis_count; a++)
            if (whole.on[a] == PDL_PARTIAL && to->on[a] != PDL_PARTIAL) whole.on[a] = PDL_REPLICATED;
        status = redistribute(p, &whole);
        pdl_layout_t next = wanted(p, to);
        return status ? status : move_at_once(p, &next);
    }
    int steps = pdl_redistribution_steps(mesh, from.on, to->on, step);
    for (int i = 0; i < steps && !status; i++) status = redistribute_axis(p, step[i].axis, step[i].primitive, to);
    return status;
}

/* The rows beyond its own that a piece needs along the extent an axis cuts. `region` grows by them. */
static pdl_status_t add_halo(path_t *p, int layer, int axis, pdl_region_t *region)
{
    const pdl_layer_t *reader = pdl_model_layer(p->layouts->plan->model, layer);
    int64_t       members = p->layouts->plan->mesh.axis[axis].size, me = p->layouts->coordinates[axis], low, high;
    int           dim = PDL_DIM_SPACE + (int)(p->now.on[axis] - PDL_SPLIT_S0);
    pdl_region_t *own, *need, grown = *region;
    pdl_status_t  status = take_regions(members, &own, &need);
    bool          needed = false;
    pdl__planned_move_t *move;

    for (int64_t m = 0; m < members && !status; m++) {
        pdl_region_t piece = *region, out;
        status = pdl__layouts_region(p->layouts, &p->layouts->layer[layer].out, &reader->out, axis, m, &out);
        if (!status) status = pdl__layouts_region(p->layouts, &p->now, p->shape, axis, m, &own[m]);
        if (status) break;
        piece.range[dim][0] = own[m].range[dim][0];
        own[m] = in_memory(p, &piece);
        pdl_range_t rows = pdl__window_needs(reader, dim - PDL_DIM_SPACE, out.range[dim][0], &low, &high);
        needed |= rows.low != piece.range[dim][0].low || rows.high != piece.range[dim][0].high;
        piece.range[dim][0] = rows;
        need[m] = in_memory(p, &piece);
        if (m == me) grown = piece;
    }
    if (status || !needed) return drop_regions(own, need, status);
    status = add_move(p, NULL, 1u << axis, own, need, &move);
    if (status) return status;
    int64_t before = pdl_region_elements(&own[me]), after = pdl_region_elements(&need[me]);
    add_step(p, (pdl__edge_step_t){move, false, before, after, least(before, after)}, PDL_HALO);
    *region = grown;
    return PDL_OK;
}

static pdl_status_t add_halos(path_t *p, int layer, int without, pdl_region_t *region)
{
    const pdl_mesh_t *mesh = &p->layouts->plan->mesh;
    unsigned          axes = pdl__layouts_axes(p->layouts, layer, PDL_MODE_SPACE);
    pdl_status_t      status = PDL_OK;

    if (!pdl__is_window(pdl_model_layer(p->layouts->plan->model, layer))) return PDL_OK;
    for (int a = 0; a < mesh->axis_count && !status; a++)
        if (axes >> a & 1 && a != without) status = add_halo(p, layer, a, region);
    return status;
}

/* Halos go back in the opposite order, then the gradient takes the layout its producer expects. */
static pdl_status_t way_back(path_t *p, int first_halo, const pdl__layer_layout_t *reader,
                             const pdl_layout_t *written)
{
    pdl__edge_t *edge = p->edge;
    pdl_layout_t expected = *written;

    p->direction = PDL_BACKWARD;
    for (int i = edge->count[PDL_FORWARD] - 1; i >= first_halo; i--) {
        const pdl__edge_step_t *step = &edge->step[PDL_FORWARD][i];
        add_step(p, (pdl__edge_step_t){step->move, true, step->after, step->before, step->kept}, PDL_HALO);
    }
    for (int a = 0; a < PDL_MAX_AXES; a++) expected.on[a] = pdl_gradient_placement(expected.on[a]);
    /* The gradient is cut as the tensor was when it arrived; what the reader says of channels is about its first input. */
    memcpy(p->now.on, reader->dx.on, sizeof(p->now.on));
    return redistribute(p, &expected);
}

bool pdl__edge_keeps_channels(const pdl__layouts_t *layouts, int producer, int layer)
{
    const pdl_mesh_t          *mesh = &layouts->plan->mesh;
    const pdl_shape_t         *shape = &pdl_model_layer(layouts->plan->model, producer)->out;
    const pdl_layout_t        *written = &layouts->layer[producer].out;
    const pdl__layer_layout_t *reader = &layouts->layer[layer];

    if (shape->sequence || shape->rank == 0) return false;
    for (int a = 0; a < mesh->axis_count; a++)
        if (pdl_axis_splits(&mesh->axis[a]) &&
            (written->on[a] == PDL_SPLIT_C || reader->reads.on[a] == PDL_SPLIT_C ||
             reader->dx.on[a] == PDL_SPLIT_C))
            return false;
    return true;
}

pdl_status_t pdl__edge_create(const pdl__layouts_t *layouts, int producer, int layer, int without, pdl_dtype_t type,
                              bool gradient, int64_t block, pdl__edge_t **out)
{
    const pdl_layout_t *written = &layouts->layer[producer].out;
    pdl__edge_t        *edge = calloc(1, sizeof(*edge));
    path_t              p = {.layouts = layouts,
                             .edge = edge,
                             .shape = &pdl_model_layer(layouts->plan->model, producer)->out,
                             .block = block,
                             .now = *written};

    if (!edge) return pdl__no_memory("while preparing redistributions");
    edge->type = type;
    pdl_status_t status = redistribute(&p, &layouts->layer[layer].reads);
    int          first_halo = edge->count[PDL_FORWARD];
    if (!status) status = pdl__layouts_region(layouts, &p.now, p.shape, -1, 0, &edge->arrives);
    if (!status) status = add_halos(&p, layer, without, &edge->arrives);
    if (!status && gradient) status = way_back(&p, first_halo, &layouts->layer[layer], written);
    if (status) {
        pdl__edge_destroy(edge);
        return status;
    }
    *out = edge;
    return PDL_OK;
}

pdl_status_t pdl__edge_create_sum(const pdl__layouts_t *layouts, unsigned axes, pdl_dtype_t type, int64_t elements,
                                  pdl__edge_t **out)
{
    pdl__edge_t *edge = calloc(1, sizeof(*edge));
    path_t       p = {.layouts = layouts, .edge = edge, .direction = PDL_BACKWARD};
    pdl_status_t status = edge ? PDL_OK : pdl__no_memory("while preparing redistributions");

    if (!edge) return status;
    edge->type = type;
    for (int a = 0; a < layouts->plan->mesh.axis_count && !status; a++)
        if (axes >> a & 1) status = add_sum(&p, a, elements);
    if (status) {
        pdl__edge_destroy(edge);
        return status;
    }
    *out = edge;
    return PDL_OK;
}

unsigned pdl__edge_sums(const pdl__layouts_t *layouts, int producer, int layer)
{
    const pdl__layer_layout_t *reader = &layouts->layer[layer];
    unsigned                   axes = 0;

    for (int a = 0; a < layouts->plan->mesh.axis_count; a++)
        if (reader->dx.on[a] == PDL_PARTIAL && layouts->layer[producer].out.on[a] != PDL_PARTIAL &&
            layouts->plan->mesh.axis[a].size > 1)
            axes |= 1u << a;
    return axes;
}

void pdl__edge_destroy(pdl__edge_t *edge)
{
    if (!edge) return;
    for (int i = 0; i < edge->move_count; i++) pdl__planned_move_destroy(edge->moves[i]);
    free(edge);
}

double pdl__edge_kept_bytes(const pdl__edge_t *edge, int direction, int step)
{
    return (double)edge->step[direction][step].kept * (double)pdl_dtype_bytes(edge->type);
}
