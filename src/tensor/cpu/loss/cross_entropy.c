/*
 * Cross-entropy over channels at every position, with label smoothing: with q = (1 - s) [c = class] + s / C,
 * loss = log sum exp x - (1 - s) x_class - s mean x, and its gradient exp(x - log sum exp x) - q.
 *
 * Logits can be the largest tensor of a network, so forward passes over them once and keeps one number a position,
 * the log of the sum; backward passes over them once more, and its result may lie over them.
 */
#include "tensor/cpu/loss/cross_entropy.h"
#include "tensor/cpu/threads.h"
#include "tensor/cpu/vmath.h"

#include <float.h>

#define CHUNK 1024 /* channels of a row at a time: read from memory once, from the first-level cache twice */
#define WIDTH PDL__ENTROPY_WIDTH

typedef pdl__entropy_t     pass_t;
typedef pdl__entropy_row_t row_t;

static pdl_status_t cross_entropy_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    int64_t rows = op->spec.samples * pdl_shape_positions(&op->spec.layer->in);

    (void)cpu;
    op->description.out_bytes = (size_t)(3 * op->spec.samples) * sizeof(float);
    op->description.keeps_inputs = 1;
    if (op->spec.training) op->description.saved_bytes = (size_t)rows * sizeof(float);
    op->description.workspace_bytes =
        (size_t)rows * (sizeof(pdl__entropy_result_t) + sizeof(float)) + (size_t)op->spec.samples * sizeof(float);
    if (op->spec.classes > 0) {
        op->description.workspace_bytes += pdl__entropy_split_bytes(rows);
        pdl__entropy_split_meetings(rows, &op->description);
    }
    return PDL_OK;
}

PDL__CLONES static void add_chunk(int64_t count, const float *x, row_t *row)
{
    float largest = pdl__largest(count, x), sum = 0, total = 0, before = row->largest;

    largest = largest > before ? largest : before;
#pragma omp simd reduction(+ : sum, total)
    for (int64_t i = 0; i < count; i++) {
        sum += pdl__expf(x[i] - largest);
        total += x[i];
    }
    row->sum = row->sum * exp((double)before - (double)largest) + (double)sum;
    row->total += (double)total;
    row->largest = largest;
}

/* Of several largest the first counts as the answer. */
static bool is_first_largest(const float *x, int64_t stride, int32_t class, float largest)
{
    if (x[class * stride] < largest) return false;
    for (int32_t c = 0; c < class; c++)
        if (x[c * stride] >= largest) return false;
    return true;
}

pdl__entropy_result_t pdl__entropy_conclude(const pdl__entropy_t *pass, const pdl__entropy_row_t *row,
                                            double at_class, bool right, float *lse)
{
    double log_sum = (double)row->largest + log(row->sum);
    /* Comparisons with a NaN are false, so `right` says nothing where a logit is one. */
    pdl__entropy_result_t result = {.right = right && isfinite(log_sum) ? 1.0f : 0.0f};

    *lse = (float)log_sum;
    result.loss =
        (float)(log_sum - (1 - pass->smoothing) * at_class - pass->smoothing * row->total / (double)pass->all);
    result.probability = (float)exp(at_class - log_sum);
    return result;
}

/* The result of a position whose channels are all here. */
static void conclude(const pass_t *pass, const float *x, const row_t *row, int64_t i)
{
    int32_t class = pass->classes[i];

    pass->result[i] = (pdl__entropy_result_t){0, 0, 0};
    if (class < 0) return;
    bool right = is_first_largest(x, pass->stride, class, row->largest);
    pass->result[i] = pdl__entropy_conclude(pass, row, (double)x[class * pass->stride], right, &pass->lse[i]);
}

pdl__entropy_row_t pdl__entropy_measure_row(int64_t channels, const float *x)
{
    row_t row = {.largest = -FLT_MAX};

    for (int64_t c = 0; c < channels; c += CHUNK)
        add_chunk(channels - c < CHUNK ? channels - c : CHUNK, x + c, &row);
    return row;
}

static void forward_rows(void *context, int64_t first, int64_t end)
{
    const pass_t *pass = context;

    for (int64_t i = first; i < end; i++) {
        const float *x = pass->x + i * pass->channels;
        row_t        row = {.largest = 0};

        if (pass->classes[i] >= 0) row = pdl__entropy_measure_row(pass->channels, x);
        conclude(pass, x, &row, i);
    }
}

/* WIDTH or fewer positions side by side, channels `stride` apart. */
PDL__CLONES static void measure_columns(int64_t channels, int64_t stride, int64_t width, const float *x,
                                        float *largest, float *sum, float *total)
{
    memcpy(largest, x, (size_t)width * sizeof(float));
    memset(sum, 0, (size_t)width * sizeof(float));
    memset(total, 0, (size_t)width * sizeof(float));
    for (int64_t c = 0; c < channels; c++) {
#pragma omp simd
        for (int64_t i = 0; i < width; i++) {
            largest[i] = x[c * stride + i] > largest[i] ? x[c * stride + i] : largest[i];
            total[i] += x[c * stride + i];
        }
    }
    for (int64_t c = 0; c < channels; c++) {
#pragma omp simd
        for (int64_t i = 0; i < width; i++) sum[i] += pdl__expf(x[c * stride + i] - largest[i]);
    }
}

void pdl__entropy_measure_band(int64_t channels, int64_t stride, int64_t width, const float *x,
                               pdl__entropy_row_t *rows)
{
    float largest[WIDTH], sum[WIDTH], total[WIDTH];

    measure_columns(channels, stride, width, x, largest, sum, total);
    for (int64_t i = 0; i < width; i++) rows[i] = (row_t){largest[i], (double)sum[i], (double)total[i]};
}

static void forward_bands(void *context, int64_t first, int64_t end)
{
    const pass_t *pass = context;
    row_t         rows[WIDTH];

    for (int64_t band = first; band < end; band++) {
        int64_t      n = band / pdl__entropy_bands(pass), position = band % pdl__entropy_bands(pass) * WIDTH;
        int64_t      width = pdl__entropy_band_width(pass, position), at = n * pass->positions + position;
        const float *x = pass->x + n * pass->channels * pass->positions + position;

        pdl__entropy_measure_band(pass->channels, pass->stride, width, x, rows);
        for (int64_t i = 0; i < width; i++) conclude(pass, x + i, &rows[i], at + i);
    }
}

static int64_t counted(const int32_t *classes, int64_t positions)
{
    int64_t count = 0;

    for (int64_t p = 0; p < positions; p++) count += classes[p] >= 0;
    return count;
}

/* Means over the positions that count. */
static void conclude_samples(const pass_t *pass, float *output)
{
    for (int64_t n = 0; n < pass->samples; n++) {
        const pdl__entropy_result_t *result = pass->result + n * pass->positions;
        int64_t                      count = counted(pass->classes + n * pass->positions, pass->positions);
        double share = count > 0 ? 1 / (double)count : 0, loss = 0, right = 0, probability = 0;

        for (int64_t p = 0; p < pass->positions; p++) {
            loss += (double)result[p].loss;
            right += (double)result[p].right;
            probability += (double)result[p].probability;
        }
        output[n] = (float)(loss * share);
        output[pass->samples + n] = (float)(right * share);
        output[2 * pass->samples + n] = (float)(probability * share);
    }
}

/* Sequences and vectors go row by row, images by bands of positions. */
static bool by_rows(const pdl_op_t *op)
{
    return op->spec.layer->in.sequence || pdl_shape_positions(&op->spec.layer->in) == 1;
}

static pass_t make_pass(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t *shape = &op->spec.layer->in;

    return (pass_t){.x = run->input[0],
                    .classes = run->target,
                    .samples = op->spec.samples,
                    .channels = shape->channels,
                    .positions = pdl_shape_positions(shape),
                    .stride = by_rows(op) ? 1 : pdl_shape_positions(shape),
                    .first = op->spec.first_class,
                    .all = op->spec.classes > 0 ? op->spec.classes : shape->channels,
                    .smoothing = run->label_smoothing,
                    .lse = run->saved};
}

static pdl_status_t cross_entropy_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    pass_t       pass = make_pass(op, run);
    int64_t      rows = pass.samples * pass.positions;
    size_t       split = op->spec.classes > 0 ? pdl__entropy_split_bytes(rows) : 0;
    pdl_status_t status =
        pdl_check_labels(op->spec.layer, pass.classes, pass.samples, pass.positions, pass.all, run->first_sample);

    if (status != PDL_OK) return status;
    pass.result = (pdl__entropy_result_t *)((char *)run->workspace + split);
    if (!op->spec.training) pass.lse = (float *)(pass.result + rows);
    if (split > 0)
        pdl__entropy_split_forward(&pass, run->phase, run->workspace);
    else if (by_rows(op))
        pdl_threads_run(rows, 4096 / pass.channels + 1, forward_rows, &pass);
    else
        pdl_threads_run(pass.samples * pdl__entropy_bands(&pass), 1, forward_bands, &pass);
    if (run->phase == op->description.meetings[0]) conclude_samples(&pass, run->output);
    return PDL_OK;
}

/* The channel of a class, -1 when another rank has it. */
static int64_t channel_of(const pass_t *pass, int32_t class)
{
    int64_t channel = class - pass->first;

    return channel >= 0 && channel < pass->channels ? channel : -1;
}

PDL__CLONES static void gradient_row(int64_t count, const float *x, float lse, float factor, float everywhere,
                                     float *dx)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) dx[i] = factor * pdl__expf(x[i] - lse) - everywhere;
}

static void backward_rows(void *context, int64_t first, int64_t end)
{
    const pass_t *pass = context;

    for (int64_t i = first; i < end; i++) {
        float *dx = pass->dx + i * pass->channels, factor = pass->factor[i / pass->positions];

        if (pass->classes[i] < 0) {
            memset(dx, 0, (size_t)pass->channels * sizeof(float));
            continue;
        }
        gradient_row(pass->channels, pass->x + i * pass->channels, pass->lse[i], factor,
                     factor * (float)(pass->smoothing / (double)pass->all), dx);
        int64_t channel = channel_of(pass, pass->classes[i]);
        if (channel >= 0) dx[channel] -= factor * (float)(1 - pass->smoothing);
    }
}

/* `factor` is 0 where a position is left out. */
PDL__CLONES static void gradient_columns(int64_t channels, int64_t stride, int64_t width, const float *x,
                                         const float *lse, const float *factor, float smoothing, float *dx)
{
    for (int64_t c = 0; c < channels; c++) {
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            dx[c * stride + i] = factor[i] * (pdl__expf(x[c * stride + i] - lse[i]) - smoothing);
    }
}

static void backward_bands(void *context, int64_t first, int64_t end)
{
    const pass_t *pass = context;
    float         lse[WIDTH], factor[WIDTH];

    for (int64_t band = first; band < end; band++) {
        int64_t n = band / pdl__entropy_bands(pass), position = band % pdl__entropy_bands(pass) * WIDTH;
        int64_t width = pdl__entropy_band_width(pass, position), at = n * pass->positions + position;
        int64_t begin = n * pass->channels * pass->positions + position;

        for (int64_t i = 0; i < width; i++) {
            factor[i] = pass->classes[at + i] < 0 ? 0.0f : pass->factor[n];
            lse[i] = pass->classes[at + i] < 0 ? 0.0f : pass->lse[at + i];
        }
        gradient_columns(pass->channels, pass->positions, width, pass->x + begin, lse, factor,
                         (float)(pass->smoothing / (double)pass->all), pass->dx + begin);
        for (int64_t i = 0; i < width; i++) {
            int64_t channel = pass->classes[at + i] < 0 ? -1 : channel_of(pass, pass->classes[at + i]);
            if (channel >= 0)
                pass->dx[begin + channel * pass->positions + i] -= factor[i] * (float)(1 - pass->smoothing);
        }
    }
}

static pdl_status_t cross_entropy_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    pass_t pass = make_pass(op, run);
    float *factor = run->workspace;

    pass.dx = run->input_gradient[0];
    pass.factor = factor;
    if (!(what & PDL_BACKWARD_DATA) || pass.dx == NULL) return PDL_OK;
    for (int64_t n = 0; n < pass.samples; n++) {
        int64_t count = counted(pass.classes + n * pass.positions, pass.positions);
        double  weight = run->sample_weight != NULL ? (double)run->sample_weight[n] : 1;

        factor[n] = count > 0 ? (float)(run->loss_scale * weight / (double)count) : 0;
    }
    if (by_rows(op))
        pdl_threads_run(pass.samples * pass.positions, 4096 / pass.channels + 1, backward_rows, &pass);
    else
        pdl_threads_run(pass.samples * pdl__entropy_bands(&pass), 1, backward_bands, &pass);
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_cross_entropy = {.describe = cross_entropy_describe,
                                                .forward = cross_entropy_forward,
                                                .backward = cross_entropy_backward,
                                                .wide = true};
