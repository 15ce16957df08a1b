/*
 * Mixture of experts, token by token: the router's largest logits choose the experts, the softmax over these weighs
 * what they answer. Which experts are chosen has no gradient.
 */
#include "tensor/reference/reference.h"

#include <math.h>
#include <stddef.h>

typedef struct moe {
    const pdl_layer_t *layer;
    int64_t            ins, outs, hidden, experts;
    const double      *router, *gate, *up, *down; /* gate: NULL when not gated */
    double            *drouter, *dgate, *dup, *ddown;
    /* workspace: [experts] logits, shares (0: not chosen) and gradients of the shares; [hidden] and [outs] */
    double *logit, *share, *dshare, *g, *u, *a, *answer;
} moe_t;

static void describe(pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            router[2] = {layer->experts, layer->in.channels};
    int64_t            up[3] = {layer->experts, layer->expert_hidden, layer->in.channels};
    int64_t            down[3] = {layer->experts, layer->out.channels, layer->expert_hidden};
    int64_t            scratch = 3 * layer->experts + 3 * layer->expert_hidden + layer->out.channels;

    pdl__reference_weight(op, "router", true, 2, router);
    if (layer->gated) pdl__reference_weight(op, "gate", true, 3, up);
    pdl__reference_weight(op, "up", true, 3, up);
    pdl__reference_weight(op, "down", true, 3, down);
    op->description.workspace_bytes = (size_t)scratch * sizeof(double);
}

static moe_t make_moe(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    int                up = layer->gated ? 2 : 1;
    moe_t              moe = {.layer = layer,
                              .ins = layer->in.channels,
                              .outs = layer->out.channels,
                              .hidden = layer->expert_hidden,
                              .experts = layer->experts,
                              .router = run->weight[0],
                              .gate = layer->gated ? run->weight[1] : NULL,
                              .up = run->weight[up],
                              .down = run->weight[up + 1],
                              .drouter = run->weight_gradient[0],
                              .dgate = layer->gated ? run->weight_gradient[1] : NULL,
                              .dup = run->weight_gradient[up],
                              .ddown = run->weight_gradient[up + 1]};

    moe.logit = run->workspace;
    moe.share = moe.logit + moe.experts;
    moe.dshare = moe.share + moe.experts;
    moe.g = moe.dshare + moe.experts;
    moe.u = moe.g + moe.hidden;
    moe.a = moe.u + moe.hidden;
    moe.answer = moe.a + moe.hidden;
    return moe;
}

static double row_dot(const double *matrix, int64_t row, const double *x, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++) sum += matrix[row * count + i] * x[i];
    return sum;
}

/* An expert is chosen when fewer than top_k come before it: by logit, and of equal ones by index. */
static bool is_chosen(const moe_t *moe, int64_t e)
{
    int64_t before = 0;

    for (int64_t o = 0; o < moe->experts; o++)
        before += moe->logit[o] > moe->logit[e] || (moe->logit[o] == moe->logit[e] && o < e);
    return before < moe->layer->top_k;
}

static void route(const moe_t *moe, const double *x)
{
    double largest = -INFINITY, sum = 0;

    for (int64_t e = 0; e < moe->experts; e++) {
        moe->logit[e] = row_dot(moe->router, e, x, moe->ins);
        largest = fmax(largest, moe->logit[e]);
    }
    for (int64_t e = 0; e < moe->experts; e++)
        sum += moe->share[e] = is_chosen(moe, e) ? exp(moe->logit[e] - largest) : 0;
    for (int64_t e = 0; e < moe->experts; e++) moe->share[e] /= sum;
}

static void ask_expert(const moe_t *moe, int64_t e, const double *x)
{
    for (int64_t h = 0; h < moe->hidden; h++) {
        moe->u[h] = row_dot(moe->up, e * moe->hidden + h, x, moe->ins);
        if (moe->gate) {
            moe->g[h] = row_dot(moe->gate, e * moe->hidden + h, x, moe->ins);
            moe->a[h] = pdl__reference_activate(moe->layer, PDL_LAYER_SILU, moe->g[h]) * moe->u[h];
        } else {
            moe->a[h] = pdl__reference_activate(moe->layer, PDL_LAYER_GELU, moe->u[h]);
        }
    }
    for (int64_t f = 0; f < moe->outs; f++)
        moe->answer[f] = row_dot(moe->down, e * moe->outs + f, moe->a, moe->hidden);
}

static pdl_status_t forward(const pdl_op_t *op, const pdl_op_run_t *run)
{
    moe_t         moe = make_moe(op, run);
    const double *x = run->input[0];
    double       *y = run->output;

    for (int64_t t = 0; t < op->spec.samples * pdl_shape_positions(&moe.layer->in); t++) {
        route(&moe, &x[t * moe.ins]);
        for (int64_t e = 0; e < moe.experts; e++) {
            if (moe.share[e] == 0) continue;
            ask_expert(&moe, e, &x[t * moe.ins]);
            for (int64_t f = 0; f < moe.outs; f++) y[t * moe.outs + f] += moe.share[e] * moe.answer[f];
        }
    }
    return PDL_OK;
}

/* dw += d * x, dx += d * w for one row of a matrix. */
static void row_backward(const double *matrix, double *gradient, int64_t row, double d, const double *x, double *dx,
                         int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (gradient) gradient[row * count + i] += d * x[i];
        if (dx) dx[i] += d * matrix[row * count + i];
    }
}

static void backward_expert(const moe_t *moe, int64_t e, const double *x, const double *dy, double *dx)
{
    ask_expert(moe, e, x);
    moe->dshare[e] = 0;
    for (int64_t f = 0; f < moe->outs; f++) moe->dshare[e] += dy[f] * moe->answer[f];
    for (int64_t h = 0; h < moe->hidden; h++) {
        int64_t row = e * moe->hidden + h;
        double  da = 0, du;

        for (int64_t f = 0; f < moe->outs; f++) {
            int64_t i = (e * moe->outs + f) * moe->hidden + h;

            da += moe->share[e] * dy[f] * moe->down[i];
            if (moe->ddown) moe->ddown[i] += moe->share[e] * dy[f] * moe->a[h];
        }
        if (moe->gate) {
            double dg = da * moe->u[h] * pdl__reference_slope(moe->layer, PDL_LAYER_SILU, moe->g[h]);

            du = da * pdl__reference_activate(moe->layer, PDL_LAYER_SILU, moe->g[h]);
            row_backward(moe->gate, moe->dgate, row, dg, x, dx, moe->ins);
        } else {
            du = da * pdl__reference_slope(moe->layer, PDL_LAYER_GELU, moe->u[h]);
        }
        row_backward(moe->up, moe->dup, row, du, x, dx, moe->ins);
    }
}

static pdl_status_t backward(const pdl_op_t *op, const pdl_op_run_t *run)
{
    moe_t moe = make_moe(op, run);

    for (int64_t t = 0; t < op->spec.samples * pdl_shape_positions(&moe.layer->in); t++) {
        const double *x = (const double *)run->input[0] + t * moe.ins;
        const double *dy = (const double *)run->output_gradient[0] + t * moe.outs;
        double       *dx = run->input_gradient[0] ? (double *)run->input_gradient[0] + t * moe.ins : NULL, mean = 0;

        route(&moe, x);
        for (int64_t e = 0; e < moe.experts; e++) {
            moe.dshare[e] = 0;
            if (moe.share[e] == 0) continue;
            backward_expert(&moe, e, x, dy, dx);
            mean += moe.share[e] * moe.dshare[e];
        }
        for (int64_t e = 0; e < moe.experts; e++)
            if (moe.share[e] != 0)
                row_backward(moe.router, moe.drouter, e, moe.share[e] * (moe.dshare[e] - mean), x, dx, moe.ins);
    }
    return PDL_OK;
}

const pdl__reference_kind_t pdl__reference_moe = {describe, forward, backward};
