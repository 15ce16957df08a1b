/*
 * Mixture of experts: what both directions share, and forward.
 */
#include "tensor/cpu/sequence/moe.h"

#include "tensor/cpu/threads.h"
#include "tensor/cpu/vmath.h"

#include <stdlib.h>

size_t pdl__moe_place(const pdl__moe_t *moe, int threads, bool backward, char *workspace, pdl__moe_pass_t *pass)
{
    int64_t most = moe->ranks > 1 ? moe->most : moe->rows;
    int64_t tokens = most < PDL__MOE_TOKENS ? most : PDL__MOE_TOKENS;
    int64_t again = backward ? 1 : 0;
    struct {
        float **at;
        int64_t elements;
    } parts[] = {{&pass->logit, moe->rows * moe->all},      {&pass->x, tokens * moe->in},
                 {&pass->g, tokens * moe->hidden},          {&pass->u, tokens * moe->hidden},
                 {&pass->a, tokens * moe->hidden},          {&pass->y, tokens * moe->out},
                 {&pass->da, again * tokens * moe->hidden}, {&pass->dg, again * tokens * moe->hidden},
                 {&pass->du, again * tokens * moe->hidden}, {&pass->dx, again * tokens * moe->in}};
    size_t used = pdl__gemm_workspace(threads) + PDL__MOE_TOKENS * sizeof(*pass->list);

    if (workspace != NULL) {
        pass->gemm = workspace;
        pass->list = (int64_t *)(workspace + pdl__gemm_workspace(threads));
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (workspace != NULL) *parts[i].at = (float *)(workspace + used);
        used += (size_t)parts[i].elements * sizeof(float);
    }
    used = (used + 63) / 64 * 64;
    pass->routes = workspace != NULL ? workspace + used : NULL;
    return moe->ranks > 1 ? used + pdl__route_workspace(moe, backward) : used;
}

/* The layer has the experts of this rank; those of all are what the router chooses from. */
static pdl_status_t describe(const pdl_op_spec_t *spec, pdl__moe_t *moe)
{
    const pdl_layer_t *layer = spec->layer;
    int                ranks = spec->expert_first != NULL ? spec->expert_ranks : 1;

    *moe = (pdl__moe_t){.rows = spec->samples * pdl_shape_positions(&layer->in),
                        .in = layer->in.channels,
                        .out = layer->out.channels,
                        .hidden = layer->expert_hidden,
                        .experts = layer->experts,
                        .all = ranks > 1 ? spec->expert_first[ranks] : layer->experts,
                        .top_k = layer->top_k,
                        .gated = layer->gated,
                        .up = layer->gated ? 2 : 1,
                        .rank = spec->expert_rank,
                        .ranks = ranks};
    if (ranks == 1) return PDL_OK;
    moe->most = spec->expert_rows * (moe->top_k < moe->experts ? moe->top_k : moe->experts);
    moe->first = malloc(((size_t)ranks + 1) * sizeof(*moe->first));
    if (moe->first == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", layer->name);
    memcpy(moe->first, spec->expert_first, ((size_t)ranks + 1) * sizeof(*moe->first));
    return PDL_OK;
}

static pdl_status_t moe_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            up[3] = {layer->experts, layer->expert_hidden, layer->in.channels};
    int64_t            down[3] = {layer->experts, layer->out.channels, layer->expert_hidden};
    pdl__moe_t        *moe;
    pdl__moe_pass_t    unused;

    moe = calloc(1, sizeof(*moe));
    if (moe == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", layer->name);
    pdl_status_t status = describe(&op->spec, moe);
    if (status) {
        free(moe);
        return status;
    }
    op->private_data = moe;
    int64_t router[2] = {moe->all, moe->in};
    pdl__cpu_add_weight(op, "router", 2, router, true);
    if (layer->gated) pdl__cpu_add_weight(op, "gate", 3, up, true);
    pdl__cpu_add_weight(op, "up", 3, up, true);
    pdl__cpu_add_weight(op, "down", 3, down, true);
    op->description.keeps_inputs = 1;
    op->description.saved_bytes = (size_t)(moe->rows * moe->top_k) * sizeof(pdl__moe_choice_t);
    if (moe->ranks > 1) op->description.saved_bytes += pdl__route_saved(moe);
    op->description.workspace_bytes = pdl__moe_place(moe, cpu->base.threads, op->spec.training, NULL, &unused);
    if (moe->ranks > 1)
        pdl__route_meetings(moe, op->spec.training,
                            op->description.workspace_bytes - pdl__route_workspace(moe, op->spec.training),
                            &op->description);
    return PDL_OK;
}

void pdl__moe_multiply(const pdl__moe_pass_t *pass, int64_t m, int64_t n, int64_t k, pdl__matrix_t a,
                       pdl__matrix_t b, float *c, bool add)
{
    pdl__gemm_t gemm = {.m = m, .n = n, .k = k, .a = a, .b = b, .c = c, .c_stride = n, .add = add};

    pdl__gemm_run(&gemm, pass->threads, pass->gemm);
}

/* A NaN comes before every number, so that it is not lost with the experts that nobody asks. */
static bool is_better(float a, float b)
{
    return a > b || (isnan(a) && !isnan(b));
}

/* Takes the best that is left, top_k times; of equal logits the first. Then softmax over those taken. */
static void choose(const pdl__moe_t *moe, const float *logit, pdl__moe_choice_t *choice)
{
    float sum = 0;

    for (int64_t k = 0; k < moe->top_k; k++) {
        int64_t best = -1;

        for (int64_t e = 0; e < moe->all; e++) {
            bool taken = false;

            for (int64_t before = 0; before < k; before++) taken = taken || choice[before].expert == e;
            if (!taken && (best < 0 || is_better(logit[e], logit[best]))) best = e;
        }
        choice[k].expert = (int32_t)best;
        choice[k].share = pdl__expf(logit[best] - logit[choice[0].expert]);
        sum += choice[k].share;
    }
    for (int64_t k = 0; k < moe->top_k; k++) choice[k].share /= sum;
}

static void choose_slice(void *context, int64_t first, int64_t end)
{
    const pdl__moe_pass_t *pass = context;

    for (int64_t row = first; row < end; row++)
        choose(pass->moe, pass->logit + row * pass->moe->all, pass->choice + row * pass->moe->top_k);
}

void pdl__moe_choose(pdl__moe_pass_t *pass)
{
    const pdl__moe_t *moe = pass->moe;

    pdl__moe_multiply(pass, moe->rows, moe->all, moe->in, (pdl__matrix_t){pass->run->input[0], moe->in, false},
                      (pdl__matrix_t){pass->run->weight[0], moe->in, true}, pass->logit, false);
    pdl_threads_run(moe->rows, 64, choose_slice, pass);
}

bool pdl__moe_next(pdl__moe_pass_t *pass, int64_t expert, int64_t *from)
{
    int64_t i = *from;

    pass->count = 0;
    for (; i < pass->moe->rows * pass->moe->top_k && pass->count < PDL__MOE_TOKENS; i++)
        if (pass->choice[i].expert == expert) pass->list[pass->count++] = i;
    *from = i;
    return pass->count > 0;
}

PDL__CLONES static void activate(bool gated, int64_t count, const float *g, const float *u, float *a)
{
    if (gated) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) a[i] = pdl__silu(g[i]) * u[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) a[i] = pdl__gelu(u[i]);
    }
}

static void activate_slice(void *context, int64_t first, int64_t end)
{
    const pdl__moe_pass_t *pass = context;
    int64_t                hidden = pass->moe->hidden, at = first * hidden;

    activate(pass->moe->gated, (end - first) * hidden, pass->g + at, pass->u + at, pass->a + at);
}

void pdl__moe_inner(pdl__moe_pass_t *pass, int64_t expert)
{
    const pdl__moe_t *moe = pass->moe;
    const float      *gate = moe->gated ? pass->run->weight[1] : NULL, *up = pass->run->weight[moe->up];
    int64_t           at = expert * moe->hidden * moe->in;
    pdl__matrix_t     gathered = {pass->x, moe->in, false};

    for (int64_t i = 0; i < pass->count; i++)
        memcpy(pass->x + i * moe->in, pass->from + pass->list[i] / pass->share * moe->in,
               (size_t)moe->in * sizeof(float));
    if (gate != NULL)
        pdl__moe_multiply(pass, pass->count, moe->hidden, moe->in, gathered,
                          (pdl__matrix_t){gate + at, moe->in, true}, pass->g, false);
    pdl__moe_multiply(pass, pass->count, moe->hidden, moe->in, gathered, (pdl__matrix_t){up + at, moe->in, true},
                      pass->u, false);
    pdl_threads_run(pass->count, 8192 / moe->hidden + 1, activate_slice, pass);
}

void pdl__moe_answer(const pdl__moe_pass_t *pass, int64_t expert)
{
    const pdl__moe_t *moe = pass->moe;
    const float      *down = pass->run->weight[moe->up + 1];

    pdl__moe_multiply(pass, pass->count, moe->out, moe->hidden, (pdl__matrix_t){pass->a, moe->hidden, false},
                      (pdl__matrix_t){down + expert * moe->out * moe->hidden, moe->hidden, true}, pass->y, false);
}

PDL__CLONES void pdl__moe_add(int64_t count, float share, const float *from, float *to)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] += share * from[i];
}

pdl__moe_pass_t pdl__moe_begin(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl__moe_t *moe = op->private_data;
    pdl__moe_pass_t   pass = {.moe = moe,
                              .run = run,
                              .threads = op->backend->threads,
                              .choice = run->saved,
                              .from = run->input[0],
                              .share = moe->top_k};

    pdl__moe_place(moe, pass.threads, op->spec.training, run->workspace, &pass);
    return pass;
}

static pdl_status_t moe_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    pdl__moe_pass_t   pass = pdl__moe_begin(op, run);
    const pdl__moe_t *moe = pass.moe;
    float            *y = run->output;

    if (run->phase == 0) {
        pdl__moe_choose(&pass);
        memset(y, 0, (size_t)(moe->rows * moe->out) * sizeof(float));
    }
    if (moe->ranks > 1) {
        pdl__route_forward(&pass, op->spec.training);
        return PDL_OK;
    }
    for (int64_t expert = 0; expert < moe->experts; expert++)
        for (int64_t from = 0; pdl__moe_next(&pass, expert, &from);) {
            pdl__moe_inner(&pass, expert);
            pdl__moe_answer(&pass, expert);
            for (int64_t i = 0; i < pass.count; i++)
                pdl__moe_add(moe->out, pass.choice[pass.list[i]].share, pass.y + i * moe->out,
                             y + pass.list[i] / moe->top_k * moe->out);
        }
    return PDL_OK;
}

static void moe_destroy(pdl_op_t *op)
{
    pdl__moe_t *moe = op->private_data;

    if (moe != NULL) free(moe->first);
    free(moe);
}

const pdl__cpu_kind_t pdl__cpu_moe = {.describe = moe_describe,
                                      .destroy = moe_destroy,
                                      .forward = moe_forward,
                                      .backward = pdl__moe_backward,
                                      .wide = true};
