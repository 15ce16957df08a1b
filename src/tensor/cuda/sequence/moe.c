/*
 * Mixture of experts (plugin/cuda/sequence/moe.h). Backward makes the inner values again. Where experts are on several ranks
 * an op has phases: the GPU brings rows into order, the ranks exchange them.
 */
#include "tensor/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

/* Of experts on several ranks, in private_data; NULL: all are here. */
typedef struct route {
    int     ranks;
    int64_t all, most; /* experts of all ranks, rows that may come here */
    int32_t first[PDL__MOE_RANKS + 1];
} route_t;

/* Takes `elements` of `item` bytes from the workspace, of which *used are taken. */
static void *take(char *workspace, size_t *used, int64_t elements, size_t item)
{
    size_t at = *used;

    *used += ((size_t)elements * item + 255) / 256 * 256;
    return workspace != NULL ? workspace + at : NULL;
}

/* What orders entries by experts. */
static void place_order(char *workspace, size_t *used, pdl__cuda_moe_t *m)
{
    int64_t entries = m->rows * m->top_k, chunks = (entries + PDL__MOE_CHUNK - 1) / PDL__MOE_CHUNK;

    m->logit = take(workspace, used, m->rows * m->experts, sizeof(float));
    m->counts = take(workspace, used, chunks * m->experts, sizeof(int32_t));
}

/* What experts need for entries that are in order. */
static void place_answers(const pdl_op_t *op, char *workspace, size_t *used, pdl__cuda_moe_t *m)
{
    size_t  element = pdl_dtype_bytes(op->backend->activation_type);
    int64_t entries = m->rows * m->top_k;

    m->in_rows = take(workspace, used, entries * m->in, element);
    m->out_rows = take(workspace, used, entries * m->out, element);
    if (m->gated) m->g = take(workspace, used, entries * m->hidden, element);
    m->u = take(workspace, used, entries * m->hidden, element);
    m->a = take(workspace, used, entries * m->hidden, element);
    if (!op->spec.training) return;
    m->da = take(workspace, used, entries * m->hidden, element);
    if (m->gated) m->dg = take(workspace, used, entries * m->hidden, element);
    m->du = take(workspace, used, entries * m->hidden, element);
    m->d_rows = take(workspace, used, entries * m->in, element);
    m->d_stride = m->in;
}

static void place_entries(const pdl_op_t *op, char *workspace, size_t *used, pdl__cuda_moe_t *m)
{
    int64_t entries = m->rows * m->top_k;

    m->start = take(workspace, used, m->experts + 1, sizeof(int64_t));
    m->slot = take(workspace, used, entries, sizeof(int32_t));
    m->entry = take(workspace, used, entries, sizeof(int32_t));
    if (op->spec.training) m->d_share = take(workspace, used, entries, sizeof(float));
}

/* Places the buffers; with workspace NULL only their bytes count. */
static size_t place(const pdl_op_t *op, char *workspace, pdl__cuda_moe_t *m)
{
    size_t used = 0;

    place_order(workspace, &used, m);
    place_entries(op, workspace, &used, m);
    place_answers(op, workspace, &used, m);
    return used;
}

static pdl__cuda_moe_t form_of(const pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;

    return (pdl__cuda_moe_t){.rows = op->spec.samples * pdl_shape_positions(&layer->in),
                             .in = layer->in.channels,
                             .out = layer->out.channels,
                             .hidden = layer->expert_hidden,
                             .experts = layer->experts,
                             .top_k = layer->top_k,
                             .gated = layer->gated};
}

/* ---- experts on several ranks ---- */

/* Where things are that ranks exchange: in the workspace, and the last two in saved memory. */
typedef struct places {
    size_t sent, to, from, rows, come, go, bytes;
    size_t arrived, x, saved;
} places_t;

static int64_t wider(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Places everything; with workspace and saved NULL only bytes count. */
static places_t place_routes(const pdl_op_t *op, char *workspace, char *saved, pdl__cuda_routes_t *r)
{
    const route_t *route = op->private_data;
    pdl_dtype_t    type = op->backend->activation_type;
    size_t         element = pdl_dtype_bytes(type), used = 0;
    places_t       p;
    int64_t        wide;

    *r = (pdl__cuda_routes_t){.home = form_of(op), .there = form_of(op), .ranks = route->ranks};
    memcpy(r->first, route->first, sizeof(r->first));
    r->home.experts = route->all;
    r->there.rows = route->most;
    r->there.top_k = 1;
    wide = pdl__cuda_route_width(type, wider(r->home.in, r->home.out));
    place_order(workspace, &used, &r->home);
    place_entries(op, workspace, &used, &r->home);
    place_entries(op, workspace, &used, &r->there);
    place_answers(op, workspace, &used, &r->there);
    p.sent = used;
    r->sent = take(workspace, &used, route->all, sizeof(int64_t));
    p.to = used;
    r->to = take(workspace, &used, route->ranks, sizeof(int64_t));
    p.from = used;
    r->from = take(workspace, &used, route->ranks, sizeof(int64_t));
    p.rows = used;
    r->rows = take(workspace, &used, r->home.rows * r->home.top_k * wide, element);
    p.go = used;
    r->go = take(workspace, &used, route->most * wide, element);
    p.come = used;
    if (op->spec.training) {
        r->come = take(workspace, &used, route->most * wide, element);
        r->dy_rows = take(workspace, &used, route->most * r->home.out, element);
        r->there.choice = take(workspace, &used, route->most, sizeof(pdl__cuda_moe_choice_t));
    }
    p.bytes = used;
    used = 0;
    r->home.choice = take(saved, &used, r->home.rows * r->home.top_k, sizeof(pdl__cuda_moe_choice_t));
    p.arrived = used;
    r->arrived = take(saved, &used, route->ranks * r->there.experts, sizeof(int64_t));
    p.x = used;
    r->there.x = take(saved, &used, route->most * r->home.in, element);
    p.saved = used;
    return p;
}

/* As on the CPU: numbers, rows and answers; gradients and what comes of them. */
static void describe_meetings(const places_t *p, pdl_op_description_t *description, bool training)
{
    pdl_meeting_t there = {.kind = PDL_MEETING_ROUTE, .to = p->to, .from = p->from, .into_saved = true}, back;

    there.at = p->sent;
    there.receive = p->arrived;
    description->meeting[0][0] = there;
    there.at = p->rows;
    there.receive = p->x;
    description->meeting[0][1] = there;
    back =
        (pdl_meeting_t){.kind = PDL_MEETING_ROUTE, .to = p->from, .from = p->to, .at = p->go, .receive = p->rows};
    description->meeting[0][2] = description->meeting[1][1] = back;
    there.into_saved = false;
    there.receive = p->come;
    description->meeting[1][0] = there;
    description->meetings[0] = 3;
    description->meetings[1] = training ? 2 : 0;
}

static pdl_status_t route_describe(pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    route_t           *route = calloc(1, sizeof(*route));
    pdl__cuda_routes_t routes;
    places_t           places;

    if (route == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", layer->name);
    route->ranks = op->spec.expert_ranks;
    route->all = op->spec.expert_first[route->ranks];
    route->most = op->spec.expert_rows * (layer->top_k < layer->experts ? layer->top_k : layer->experts);
    for (int r = 0; r <= route->ranks; r++) route->first[r] = (int32_t)op->spec.expert_first[r];
    op->private_data = route;
    places = place_routes(op, NULL, NULL, &routes);
    op->description.workspace_bytes = places.bytes;
    op->description.saved_bytes = places.saved;
    describe_meetings(&places, &op->description, op->spec.training);
    return PDL_OK;
}

static pdl_status_t route_run(const pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                              bool backward, unsigned what)
{
    const pdl__cuda_t *cuda = pdl__cuda_of(op);
    pdl__cuda_routes_t r;
    pdl__cuda_moe_t   *home = &r.home, *there = &r.there;
    int                up = op->spec.layer->gated ? 2 : 1;

    place_routes(op, run->workspace, run->saved, &r);
    home->x = run->input[0];
    home->router = run->weight[0];
    home->out_rows = home->d_rows = r.rows;
    home->y = run->output;
    there->gate = there->gated ? run->weight[1] : NULL;
    there->up = run->weight[up];
    there->down = run->weight[up + 1];
    if (backward) {
        home->dy = run->output_gradient[0];
        there->dy = r.dy_rows;
        home->add = there->add = run->accumulate;
    }
    if (backward && (what & PDL_BACKWARD_DATA)) home->dx = run->input_gradient[0];
    home->d_stride = pdl__cuda_route_width(cuda->base.activation_type, home->dx != NULL ? home->in : 0);
    there->dx = home->dx != NULL ? there->d_rows : NULL;
    if (backward && (what & PDL_BACKWARD_WEIGHT)) {
        home->d_router = run->weight_gradient[0];
        there->d_gate = there->gated ? run->weight_gradient[1] : NULL;
        there->d_up = run->weight_gradient[up];
        there->d_down = run->weight_gradient[up + 1];
    }
    return cuda->api->moes->route(cuda->gpu, stream, cuda->base.activation_type, &r, backward, run->phase);
}

/* ---- the kind ---- */

static pdl_status_t moe_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    int                ranks = op->spec.expert_first != NULL ? op->spec.expert_ranks : 1;
    int64_t            router[2] = {ranks > 1 ? op->spec.expert_first[ranks] : layer->experts, layer->in.channels};
    int64_t            up[3] = {layer->experts, layer->expert_hidden, layer->in.channels};
    int64_t            down[3] = {layer->experts, layer->out.channels, layer->expert_hidden};
    pdl__cuda_moe_t    m = form_of(op);

    (void)cuda;
    if (ranks > PDL__MOE_RANKS)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: experts on %d ranks; on GPUs they are on at most %d",
                         layer->name, ranks, PDL__MOE_RANKS);
    pdl__cuda_add_weight(op, "router", 2, router, true);
    if (layer->gated) pdl__cuda_add_weight(op, "gate", 3, up, true);
    pdl__cuda_add_weight(op, "up", 3, up, true);
    pdl__cuda_add_weight(op, "down", 3, down, true);
    op->description.keeps_inputs = 1;
    op->description.saved_bytes = (size_t)(m.rows * m.top_k) * sizeof(pdl__cuda_moe_choice_t);
    op->description.workspace_bytes = place(op, NULL, &m);
    return ranks > 1 ? route_describe(op) : PDL_OK;
}

static pdl__cuda_moe_t moe_of(const pdl_op_t *op, const pdl_op_run_t *run)
{
    pdl__cuda_moe_t m = form_of(op);
    int             up = m.gated ? 2 : 1;

    place(op, run->workspace, &m);
    m.x = run->input[0];
    m.router = run->weight[0];
    m.gate = m.gated ? run->weight[1] : NULL;
    m.up = run->weight[up];
    m.down = run->weight[up + 1];
    m.choice = run->saved;
    return m;
}

static pdl_status_t moe_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    const pdl__cuda_t *cuda = pdl__cuda_of(op);
    pdl__cuda_moe_t    m = moe_of(op, run);

    if (op->private_data != NULL) return route_run(op, stream, run, false, 0);
    m.y = run->output;
    return cuda->api->moes->forward(cuda->gpu, stream, cuda->base.activation_type, &m);
}

static pdl_status_t moe_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run, unsigned what)
{
    const pdl__cuda_t *cuda = pdl__cuda_of(op);
    pdl__cuda_moe_t    m = moe_of(op, run);
    int                up = m.gated ? 2 : 1;

    if (op->private_data != NULL) return route_run(op, stream, run, true, what);
    m.dy = run->output_gradient[0];
    m.add = run->accumulate;
    if (what & PDL_BACKWARD_DATA) m.dx = run->input_gradient[0];
    if (what & PDL_BACKWARD_WEIGHT) {
        m.d_router = run->weight_gradient[0];
        m.d_gate = m.gated ? run->weight_gradient[1] : NULL;
        m.d_up = run->weight_gradient[up];
        m.d_down = run->weight_gradient[up + 1];
    }
    return cuda->api->moes->backward(cuda->gpu, stream, cuda->base.activation_type, &m);
}

const pdl__cuda_kind_t pdl__cuda_moe = {.describe = moe_describe, .forward = moe_forward, .backward = moe_backward};
