/*
 * Group norm: the channels of a group, over all positions of a sample, to mean 0 and variance 1, then scaled and
 * shifted channel by channel.
 *
 * Every pass first sums channel by channel, in double precision, and then adds up the channels of a group: so
 * groups need not fit the blocks in which channels lie, and a channel belongs to one thread.
 */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/simd.h"
#include "tensor/cpu/threads.h"

#include <stdlib.h>

typedef struct norm {
    int64_t samples, channels, positions, groups;
    int64_t lanes;  /* channels done side by side: PDL__BLOCK, or 1 in plain images */
    int64_t panels; /* of `lanes` channels, in a sample */
    int64_t stride; /* from one position to the next */
    double  epsilon;
    bool    bias;
} norm_t;

typedef struct statistics {
    float mean, scale;
} statistics_t;

/* Two sums of a channel of one sample. */
typedef struct sums {
    double first, second;
} sums_t;

static pdl_status_t norm_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    bool               blocked = op->spec.given[0] == PDL_FORMAT_BLOCKED && pdl__cpu_blockable(&layer->in);
    norm_t            *norm;

    (void)cpu;
    norm = calloc(1, sizeof(*norm));
    if (norm == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", layer->name);
    norm->samples = op->spec.samples;
    norm->channels = layer->in.channels;
    norm->positions = pdl_shape_positions(&layer->in);
    norm->groups = layer->groups;
    norm->lanes = blocked || layer->in.sequence ? PDL__BLOCK : 1;
    norm->panels = (norm->channels + norm->lanes - 1) / norm->lanes;
    norm->stride = layer->in.sequence ? norm->channels : norm->lanes;
    norm->epsilon = layer->epsilon;
    norm->bias = layer->bias;
    op->private_data = norm;

    pdl__cpu_add_weight(op, "weight", 1, &norm->channels, true);
    if (norm->bias) pdl__cpu_add_weight(op, "bias", 1, &norm->channels, true);
    op->description.in_format[0] = op->description.out_format = blocked ? PDL_FORMAT_BLOCKED : PDL_FORMAT_PLAIN;
    op->description.keeps_inputs = 1;
    op->description.gradient_use[0] = PDL_GRADIENT_INPLACE;
    if (op->spec.training)
        op->description.saved_bytes = (size_t)(norm->samples * norm->groups) * sizeof(statistics_t);
    op->description.workspace_bytes = (size_t)(norm->samples * norm->panels * norm->lanes) * sizeof(sums_t) +
                                      (size_t)(2 * norm->samples * norm->groups) * sizeof(float);
    return PDL_OK;
}

/* Sums of a and of a * b over the positions of `width` channels side by side, or of one channel. */
PDL__CLONES static void sum_lanes(const norm_t *norm, int64_t width, const float *a, const float *b, sums_t *sums)
{
    double first[PDL__BLOCK] = {0}, second[PDL__BLOCK] = {0};

    for (int64_t p = 0; p < norm->positions; p++, a += norm->stride, b += norm->stride) {
#pragma omp simd
        for (int64_t i = 0; i < width; i++) {
            first[i] += (double)a[i];
            second[i] += (double)a[i] * (double)b[i];
        }
    }
    for (int64_t i = 0; i < width; i++) sums[i] = (sums_t){first[i], second[i]};
}

PDL__CLONES static void sum_line(int64_t positions, const float *a, const float *b, sums_t *sums)
{
    double first = 0, second = 0;

#pragma omp simd reduction(+ : first, second)
    for (int64_t p = 0; p < positions; p++) {
        first += (double)a[p];
        second += (double)a[p] * (double)b[p];
    }
    *sums = (sums_t){first, second};
}

/* out = u a + v b + w, with the coefficients of each channel; out may be a. */
PDL__CLONES static void combine_lanes(const norm_t *norm, int64_t width, const float *a, const float *b,
                                      const float *u, const float *v, const float *w, float *out)
{
    for (int64_t p = 0; p < norm->positions; p++, a += norm->stride, b += norm->stride, out += norm->stride) {
#pragma omp simd
        for (int64_t i = 0; i < width; i++) out[i] = u[i] * a[i] + v[i] * b[i] + w[i];
    }
}

PDL__CLONES static void combine_line(int64_t positions, const float *a, const float *b, float u, float v, float w,
                                     float *out)
{
#pragma omp simd
    for (int64_t p = 0; p < positions; p++) out[p] = u * a[p] + v * b[p] + w;
}

typedef struct pass {
    const norm_t       *norm;
    const pdl_op_run_t *run;
    const float        *a, *b; /* what is summed and combined: x and x, or dy and x */
    float              *out;
    sums_t             *sums;  /* [samples][panels * lanes] */
    statistics_t       *saved; /* [samples][groups] */
    float              *means; /* backward: [samples][groups][2], mean of g and of g z */
} pass_t;

/* Where a panel begins, and how many channels are side by side there; padding is treated as channels. */
static int64_t panel_at(const norm_t *norm, int64_t panel, int64_t *width)
{
    int64_t channel = panel % norm->panels * norm->lanes;

    *width = norm->lanes;
    if (norm->stride == norm->lanes) return panel * norm->positions * norm->lanes;
    if (norm->channels - channel < norm->lanes) *width = norm->channels - channel;
    return panel / norm->panels * norm->positions * norm->channels + channel;
}

static void sum_slice(void *context, int64_t first, int64_t end)
{
    const pass_t *pass = context;
    const norm_t *norm = pass->norm;

    for (int64_t i = first; i < end; i++) {
        int64_t width, at = panel_at(norm, i, &width);

        if (norm->lanes == 1)
            sum_line(norm->positions, pass->a + at, pass->b + at, &pass->sums[i]);
        else
            sum_lanes(norm, width, pass->a + at, pass->b + at, &pass->sums[i * norm->lanes]);
    }
}

/* y = scale weight x + (bias - mean scale weight) */
static void forward_coefficients(const pass_t *pass, int64_t n, int64_t c, float *u, float *v, float *w)
{
    const norm_t *norm = pass->norm;
    statistics_t  s = pass->saved[n * norm->groups + c / (norm->channels / norm->groups)];
    const float  *weight = pass->run->weight[0], *bias = norm->bias ? pass->run->weight[1] : NULL;

    *u = s.scale * weight[c];
    *v = 0;
    *w = (bias != NULL ? bias[c] : 0) - s.mean * *u;
}

/* dx = scale (weight dy - mean(g) - z mean(g z)), z = (x - mean) scale */
static void backward_coefficients(const pass_t *pass, int64_t n, int64_t c, float *u, float *v, float *w)
{
    const norm_t *norm = pass->norm;
    int64_t       group = n * norm->groups + c / (norm->channels / norm->groups);
    statistics_t  s = pass->saved[group];
    const float  *weight = pass->run->weight[0], *means = pass->means + 2 * group;

    *u = s.scale * weight[c];
    *v = -s.scale * s.scale * means[1];
    *w = -s.scale * means[0] - *v * s.mean;
}

static void combine_slice(void *context, int64_t first, int64_t end)
{
    const pass_t *pass = context;
    const norm_t *norm = pass->norm;

    for (int64_t i = first; i < end; i++) {
        int64_t width, at = panel_at(norm, i, &width), channel = i % norm->panels * norm->lanes;
        float   u[PDL__BLOCK] = {0}, v[PDL__BLOCK] = {0}, w[PDL__BLOCK] = {0}; /* 0: padding stays 0 */

        for (int64_t lane = 0; lane < norm->lanes && channel + lane < norm->channels; lane++)
            (pass->means != NULL ? backward_coefficients : forward_coefficients)(pass, i / norm->panels,
                                                                                 channel + lane, &u[lane], &v[lane],
                                                                                 &w[lane]);
        if (norm->lanes == 1)
            combine_line(norm->positions, pass->a + at, pass->b + at, u[0], v[0], w[0], pass->out + at);
        else
            combine_lanes(norm, width, pass->a + at, pass->b + at, u, v, w, pass->out + at);
    }
}

static void find_statistics(const pass_t *pass)
{
    const norm_t *norm = pass->norm;
    int64_t       width = norm->channels / norm->groups;
    double        count = (double)(width * norm->positions);

    for (int64_t i = 0; i < norm->samples * norm->groups; i++) {
        const sums_t *sums = pass->sums + i / norm->groups * norm->panels * norm->lanes + i % norm->groups * width;
        double        sum = 0, squares = 0, mean, variance;

        for (int64_t c = 0; c < width; c++) {
            sum += sums[c].first;
            squares += sums[c].second;
        }
        mean = sum / count;
        variance = squares / count - mean * mean;
        pass->saved[i] =
            (statistics_t){(float)mean, (float)(1 / sqrt((variance > 0 ? variance : 0) + norm->epsilon))};
    }
}

static pass_t make_pass(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const norm_t *norm = op->private_data;

    return (pass_t){.norm = norm, .run = run, .sums = run->workspace, .saved = run->saved};
}

/* Where forward keeps nothing, statistics live in the workspace behind the sums. */
static char *behind_sums(const pass_t *pass)
{
    return (char *)(pass->sums + pass->norm->samples * pass->norm->panels * pass->norm->lanes);
}

static pdl_status_t norm_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    pass_t        pass = make_pass(op, run);
    const norm_t *norm = pass.norm;
    int64_t       grain = 8192 / (norm->positions * norm->lanes) + 1;

    if (!op->spec.training) pass.saved = (statistics_t *)behind_sums(&pass);
    pass.a = pass.b = run->input[0];
    pass.out = run->output;
    pdl_threads_run(norm->samples * norm->panels, grain, sum_slice, &pass);
    find_statistics(&pass);
    pdl_threads_run(norm->samples * norm->panels, grain, combine_slice, &pass);
    return PDL_OK;
}

/* From the sums of dy and dy x to those of dy and dy z, in place; and the means over each group. */
static void find_means(const pass_t *pass)
{
    const norm_t *norm = pass->norm;
    const float  *weight = pass->run->weight[0];
    int64_t       width = norm->channels / norm->groups;
    double        count = (double)(width * norm->positions);

    for (int64_t i = 0; i < norm->samples * norm->groups; i++) {
        sums_t *sums = pass->sums + i / norm->groups * norm->panels * norm->lanes + i % norm->groups * width;
        double  mean = (double)pass->saved[i].mean, scale = (double)pass->saved[i].scale, g = 0, gz = 0;

        for (int64_t c = 0; c < width; c++) {
            double w = (double)weight[i % norm->groups * width + c];

            sums[c].second = (sums[c].second - mean * sums[c].first) * scale;
            g += w * sums[c].first;
            gz += w * sums[c].second;
        }
        pass->means[2 * i] = (float)(g / count);
        pass->means[2 * i + 1] = (float)(gz / count);
    }
}

static void weight_gradients(const pass_t *pass)
{
    const norm_t *norm = pass->norm;
    float        *dweight = pass->run->weight_gradient[0];
    float        *dbias = norm->bias ? pass->run->weight_gradient[1] : NULL;

    for (int64_t c = 0; c < norm->channels; c++) {
        sums_t total = {0, 0};

        for (int64_t n = 0; n < norm->samples; n++) {
            total.first += pass->sums[n * norm->panels * norm->lanes + c].first;
            total.second += pass->sums[n * norm->panels * norm->lanes + c].second;
        }
        if (dweight != NULL) dweight[c] = (pass->run->accumulate ? dweight[c] : 0) + (float)total.second;
        if (dbias != NULL) dbias[c] = (pass->run->accumulate ? dbias[c] : 0) + (float)total.first;
    }
}

static pdl_status_t norm_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    pass_t        pass = make_pass(op, run);
    const norm_t *norm = pass.norm;
    int64_t       grain = 8192 / (norm->positions * norm->lanes) + 1;

    pass.means = (float *)behind_sums(&pass);
    pass.a = run->output_gradient[0];
    pass.b = run->input[0];
    pass.out = run->input_gradient[0];
    pdl_threads_run(norm->samples * norm->panels, grain, sum_slice, &pass);
    find_means(&pass);
    if (what & PDL_BACKWARD_WEIGHT) weight_gradients(&pass);
    if ((what & PDL_BACKWARD_DATA) && pass.out != NULL)
        pdl_threads_run(norm->samples * norm->panels, grain, combine_slice, &pass);
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_group_norm = {.describe = norm_describe,
                                             .forward = norm_forward,
                                             .backward = norm_backward,
                                             .wide = true};
