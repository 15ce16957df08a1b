/*
 * Mixture of experts, backward. The gradient of a share is the answer times the gradient of the output, which is a
 * times da with da = dy down; the choice itself has no gradient. All is linear in the gradients of shares: with those
 * of some of the experts, others being 0, the gradients of the logits are partial sums.
 */
#include "tensor/cpu/moe.h"
#include "tensor/cpu/threads.h"
#include "tensor/cpu/vmath.h"

PDL__CLONES static float dot(int64_t count, const float *a, const float *b)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

PDL__CLONES static void add_row(int64_t count, const float *from, float *to)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] += from[i];
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

/* From da, for share 1, to the gradient of the share and those of g and u. */
static void inner_slice(void *context, int64_t first, int64_t end)
{
    const pdl__moe_pass_t *pass = context;
    const pdl__moe_t      *moe = pass->moe;

    for (int64_t i = first; i < end; i++) {
        int64_t                  at = i * moe->hidden, choice = pass->list[i], row = choice / moe->top_k;
        const pdl__moe_choice_t *made = &pass->choice[choice];

        pass->logit[row * moe->all + made->expert] = dot(moe->hidden, pass->a + at, pass->da + at);
        inner_gradients(moe->gated, moe->hidden, made->share, pass->g + at, pass->u + at, pass->da + at,
                        pass->dg + at, pass->du + at);
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

/* The tokens of the list: pass->y becomes their dy, times their share once da is made. */
static void expert_values(pdl__moe_pass_t *pass, int64_t expert)
{
    const pdl__moe_t *moe = pass->moe;
    const float      *dy = pass->run->output_gradient[0], *down = pass->run->weight[moe->up + 1];

    pdl__moe_inner(pass, expert);
    for (int64_t i = 0; i < pass->count; i++)
        memcpy(pass->y + i * moe->out, dy + pass->list[i] / moe->top_k * moe->out,
               (size_t)moe->out * sizeof(float));
    pdl__moe_multiply(pass, pass->count, moe->hidden, moe->out, plain(pass->y, moe->out),
                      plain(down + expert * moe->out * moe->hidden, moe->hidden), pass->da, false);
    pdl__parallel(pass->count, 8192 / moe->hidden + 1, inner_slice, pass);
    for (int64_t i = 0; i < pass->count; i++)
        multiply_row(moe->out, pass->choice[pass->list[i]].share, pass->y + i * moe->out, pass->y + i * moe->out);
}

static void expert_weights(const pdl__moe_pass_t *pass, int64_t expert, bool add)
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

static void expert_data(const pdl__moe_pass_t *pass, int64_t expert)
{
    const pdl__moe_t *moe = pass->moe;
    const float      *up = pass->run->weight[moe->up];
    int64_t           at = expert * moe->hidden * moe->in;
    float            *dx = pass->run->input_gradient[0];

    pdl__moe_multiply(pass, pass->count, moe->in, moe->hidden, plain(pass->du, moe->hidden),
                      plain(up + at, moe->in), pass->dx, false);
    if (moe->gated)
        pdl__moe_multiply(pass, pass->count, moe->in, moe->hidden, plain(pass->dg, moe->hidden),
                          plain((const float *)pass->run->weight[1] + at, moe->in), pass->dx, true);
    for (int64_t i = 0; i < pass->count; i++)
        add_row(moe->in, pass->dx + i * moe->in, dx + pass->list[i] / moe->top_k * moe->in);
}

/* An expert that nobody asked has gradients too: zero. */
static void clear_expert(const pdl__moe_pass_t *pass, int64_t expert)
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
    bool add = pass->run->accumulate, any = false;

    for (int64_t from = 0; pdl__moe_next(pass, expert, &from); any = true) {
        expert_values(pass, expert);
        if (weights) expert_weights(pass, expert, add || any);
        if (data) expert_data(pass, expert);
    }
    if (!any && weights && !add) clear_expert(pass, expert);
}

pdl_status_t pdl__moe_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    const pdl__moe_t *moe = op->private_data;
    pdl__moe_pass_t   pass = {.moe = moe, .run = run, .threads = op->backend->threads, .choice = run->saved};
    float            *dx = run->input_gradient[0];
    bool              data = (what & PDL_BACKWARD_DATA) && dx != NULL, weights = what & PDL_BACKWARD_WEIGHT;

    pdl__moe_place(moe, pass.threads, true, run->workspace, &pass);
    memset(pass.logit, 0, (size_t)(moe->rows * moe->all) * sizeof(float));
    if (data) memset(dx, 0, (size_t)(moe->rows * moe->in) * sizeof(float));
    for (int64_t expert = 0; expert < moe->experts; expert++) backward_expert(&pass, expert, data, weights);
    pdl__parallel(moe->rows, 64, logit_slice, &pass);
    if (weights && run->weight_gradient[0] != NULL)
        pdl__moe_multiply(&pass, moe->all, moe->in, moe->rows, transposed(pass.logit, moe->all),
                          plain(run->input[0], moe->in), run->weight_gradient[0], run->accumulate);
    if (data)
        pdl__moe_multiply(&pass, moe->rows, moe->in, moe->all, plain(pass.logit, moe->all),
                          plain(run->weight[0], moe->in), dx, true);
    return PDL_OK;
}
