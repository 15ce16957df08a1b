/*
 * Mixture of experts, backward. The gradient of a share is the answer times the gradient of the output, which is a
 * times da with da = dy down; the choice itself has no gradient.
 */
#include "tensor/cpu/sequence/moe.h"
#include "tensor/cpu/threads.h"
#include "tensor/cpu/vmath.h"

PDL__CLONES static float dot(int64_t count, const float *a, const float *b)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

PDL__CLONES static void multiply_row(int64_t count, float factor, const float *from, float *to)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] = factor * from[i];
}

PDL__CLONES static void inner_gradients(bool gated, int64_t count, float share, const float *g, const float *u,
                                        const float *da, float *dg, float *du)
{
    if (gated) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            dg[i] = share * da[i] * u[i] * pdl__silu_slope(g[i]);
            du[i] = share * da[i] * pdl__silu(g[i]);
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) du[i] = share * da[i] * pdl__gelu_slope(u[i]);
    }
}

float pdl__moe_share_gradient(const pdl__moe_pass_t *pass, int64_t i, float share)
{
    const pdl__moe_t *moe = pass->moe;
    int64_t           at = i * moe->hidden;
    float            *dy = pass->y + i * moe->out;

    inner_gradients(moe->gated, moe->hidden, share, pass->g + at, pass->u + at, pass->da + at, pass->dg + at,
                    pass->du + at);
    multiply_row(moe->out, share, dy, dy);
    return dot(moe->hidden, pass->a + at, pass->da + at);
}

static void inner_slice(void *context, int64_t first, int64_t end)
{
    const pdl__moe_pass_t *pass = context;
    const pdl__moe_t      *moe = pass->moe;

    for (int64_t i = first; i < end; i++) {
        const pdl__moe_choice_t *made = &pass->choice[pass->list[i]];
        int64_t                  row = pass->list[i] / moe->top_k;

        pass->logit[row * moe->all + made->expert] = pdl__moe_share_gradient(pass, i, made->share);
    }
}

/* In pass->logit, from gradients of shares to those of logits: share (d - sum of share d), 0 for experts not
   chosen. */
static void logit_slice(void *context, int64_t first, int64_t end)
{
    const pdl__moe_pass_t *pass = context;
    const pdl__moe_t      *moe = pass->moe;

    for (int64_t row = first; row < end; row++) {
        const pdl__moe_choice_t *choice = pass->choice + row * moe->top_k;
        float                   *d = pass->logit + row * moe->all, mean = 0;

        for (int64_t k = 0; k < moe->top_k; k++) mean += choice[k].share * d[choice[k].expert];
        for (int64_t k = 0; k < moe->top_k; k++)
            d[choice[k].expert] = choice[k].share * (d[choice[k].expert] - mean);
    }
}

static pdl__matrix_t plain(const float *data, int64_t stride)
{
    return (pdl__matrix_t){data, stride, false};
}

static pdl__matrix_t transposed(const float *data, int64_t stride)
{
    return (pdl__matrix_t){data, stride, true};
}

/* Weight `k` of an expert, its gradient or NULL. */
static float *gradient_of(const pdl__moe_pass_t *pass, int k, int64_t expert)
{
    const pdl__moe_t *moe = pass->moe;
    float            *gradient = pass->run->weight_gradient[k];
    int64_t           elements = k == moe->up + 1 ? moe->out * moe->hidden : moe->hidden * moe->in;

    return gradient != NULL ? gradient + expert * elements : NULL;
}

void pdl__moe_activation_gradients(const pdl__moe_pass_t *pass, int64_t expert)
{
    const pdl__moe_t *moe = pass->moe;
    const float      *down = pass->run->weight[moe->up + 1];

    pdl__moe_multiply(pass, pass->count, moe->hidden, moe->out, plain(pass->y, moe->out),
                      plain(down + expert * moe->out * moe->hidden, moe->hidden), pass->da, false);
}

static void expert_values(pdl__moe_pass_t *pass, int64_t expert)
{
    const pdl__moe_t *moe = pass->moe;
    const float      *dy = pass->run->output_gradient[0];

    pdl__moe_inner(pass, expert);
    for (int64_t i = 0; i < pass->count; i++)
        memcpy(pass->y + i * moe->out, dy + pass->list[i] / moe->top_k * moe->out,
               (size_t)moe->out * sizeof(float));
    pdl__moe_activation_gradients(pass, expert);
    pdl_threads_run(pass->count, 8192 / moe->hidden + 1, inner_slice, pass);
}

void pdl__moe_weight_gradients(const pdl__moe_pass_t *pass, int64_t expert, bool add)
{
    const pdl__moe_t *moe = pass->moe;
    float            *gate = moe->gated ? gradient_of(pass, 1, expert) : NULL;
    float            *up = gradient_of(pass, moe->up, expert), *down = gradient_of(pass, moe->up + 1, expert);

    if (gate != NULL)
        pdl__moe_multiply(pass, moe->hidden, moe->in, pass->count, transposed(pass->dg, moe->hidden),
                          plain(pass->x, moe->in), gate, add);
    if (up != NULL)
        pdl__moe_multiply(pass, moe->hidden, moe->in, pass->count, transposed(pass->du, moe->hidden),
                          plain(pass->x, moe->in), up, add);
    if (down != NULL)
        pdl__moe_multiply(pass, moe->out, moe->hidden, pass->count, transposed(pass->y, moe->out),
                          plain(pass->a, moe->hidden), down, add);
}

void pdl__moe_input_gradients(const pdl__moe_pass_t *pass, int64_t expert)
{
    const pdl__moe_t *moe = pass->moe;
    const float      *up = pass->run->weight[moe->up];
    int64_t           at = expert * moe->hidden * moe->in;

    pdl__moe_multiply(pass, pass->count, moe->in, moe->hidden, plain(pass->du, moe->hidden),
                      plain(up + at, moe->in), pass->dx, false);
    if (moe->gated)
        pdl__moe_multiply(pass, pass->count, moe->in, moe->hidden, plain(pass->dg, moe->hidden),
                          plain((const float *)pass->run->weight[1] + at, moe->in), pass->dx, true);
}

void pdl__moe_clear_gradients(const pdl__moe_pass_t *pass, int64_t expert)
{
    const pdl__moe_t *moe = pass->moe;

    for (int k = 1; k <= moe->up + 1; k++) {
        float  *gradient = gradient_of(pass, k, expert);
        int64_t elements = k == moe->up + 1 ? moe->out * moe->hidden : moe->hidden * moe->in;

        if (gradient != NULL) memset(gradient, 0, (size_t)elements * sizeof(float));
    }
}

static void backward_expert(pdl__moe_pass_t *pass, int64_t expert, bool data, bool weights)
{
    int64_t in = pass->moe->in;
    float  *dx = pass->run->input_gradient[0];
    bool    add = pass->run->accumulate, any = false;

    for (int64_t from = 0; pdl__moe_next(pass, expert, &from); any = true) {
        expert_values(pass, expert);
        if (weights) pdl__moe_weight_gradients(pass, expert, add || any);
        if (!data) continue;
        pdl__moe_input_gradients(pass, expert);
        for (int64_t i = 0; i < pass->count; i++)
            pdl__moe_add(in, 1, pass->dx + i * in, dx + pass->list[i] / pass->moe->top_k * in);
    }
    if (!any && weights && !add) pdl__moe_clear_gradients(pass, expert);
}

void pdl__moe_router_gradients(pdl__moe_pass_t *pass, bool data, bool weights)
{
    const pdl__moe_t   *moe = pass->moe;
    const pdl_op_run_t *run = pass->run;

    pdl_threads_run(moe->rows, 64, logit_slice, pass);
    if (weights && run->weight_gradient[0] != NULL)
        pdl__moe_multiply(pass, moe->all, moe->in, moe->rows, transposed(pass->logit, moe->all),
                          plain(run->input[0], moe->in), run->weight_gradient[0], run->accumulate);
    if (data)
        pdl__moe_multiply(pass, moe->rows, moe->in, moe->all, plain(pass->logit, moe->all),
                          plain(run->weight[0], moe->in), run->input_gradient[0], true);
}

pdl_status_t pdl__moe_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    pdl__moe_pass_t   pass = pdl__moe_begin(op, run);
    const pdl__moe_t *moe = pass.moe;
    float            *dx = run->input_gradient[0];
    bool              data = (what & PDL_BACKWARD_DATA) && dx != NULL, weights = what & PDL_BACKWARD_WEIGHT;

    if (run->phase == 0) {
        memset(pass.logit, 0, (size_t)(moe->rows * moe->all) * sizeof(float));
        if (data) memset(dx, 0, (size_t)(moe->rows * moe->in) * sizeof(float));
    }
    if (moe->ranks > 1) {
        pdl__route_backward(&pass, data, weights);
        return PDL_OK;
    }
    for (int64_t expert = 0; expert < moe->experts; expert++) backward_expert(&pass, expert, data, weights);
    pdl__moe_router_gradients(&pass, data, weights);
    return PDL_OK;
}
