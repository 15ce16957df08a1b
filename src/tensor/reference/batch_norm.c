/*
 * Batch norm. Statistics of a channel are over all samples and positions, also those of other ranks when they are
 * shared: then the sums are added up over the ranks before they are used. Saved: mean and 1 / deviation of each channel.
 */
#include "tensor/reference/reference.h"

#include <math.h>
#include <stddef.h>

typedef struct batch {
    const pdl_layer_t *layer;
    int64_t            samples, channels, positions;
    double             count; /* values of a channel, over all ranks */
} batch_t;

static batch_t make_batch(const pdl_op_t *op, const pdl_op_run_t *run)
{
    batch_t batch = {.layer = op->spec.layer,
                     .samples = op->spec.samples,
                     .channels = op->spec.layer->in.channels,
                     .positions = pdl_shape_positions(&op->spec.layer->in)};

    batch.count = (double)((op->spec.shared ? run->total_samples : batch.samples) * batch.positions);
    if (op->spec.shared && run->total_values > 0) batch.count = (double)run->total_values;
    return batch;
}

/* Which of the weights a running statistic is: they follow weight and bias. */
static int running(const pdl_op_t *op, int which)
{
    return op->description.weight_count - 2 + which;
}

static void describe(pdl_op_t *op)
{
    const int64_t *channels = &op->spec.layer->out.channels;

    pdl__reference_weight(op, "weight", true, 1, channels);
    if (op->spec.layer->bias) pdl__reference_weight(op, "bias", true, 1, channels);
    pdl__reference_weight(op, "running_mean", false, 1, channels);
    pdl__reference_weight(op, "running_var", false, 1, channels);
    op->description.saved_bytes = op->description.workspace_bytes = (size_t)*channels * 2 * sizeof(double);
    if (!op->spec.shared || !op->spec.training) return;
    pdl_meeting_t sums = {.kind = PDL_MEETING_SUM, .count = *channels};
    op->description.meetings[0] = 2;
    op->description.meeting[0][0] = op->description.meeting[0][1] = sums;
    op->description.meeting[0][1].at = (size_t)*channels * sizeof(double);
    op->description.meetings[1] = 1;
    op->description.meeting[1][0] = (pdl_meeting_t){.kind = PDL_MEETING_SUM, .count = 2 * *channels};
}

static void sum_values(const batch_t *batch, const pdl_op_run_t *run, double *mean)
{
    const double *x = run->input[0];

    for (int64_t c = 0; c < batch->channels; c++) {
        mean[c] = 0;
        for (int64_t n = 0; n < batch->samples; n++)
            for (int64_t p = 0; p < batch->positions; p++)
                mean[c] += x[pdl__reference_at(&batch->layer->in, n, c, p)];
    }
}

static void sum_squares(const batch_t *batch, const pdl_op_run_t *run, double *mean, double *variance)
{
    const double *x = run->input[0];

    for (int64_t c = 0; c < batch->channels; c++) {
        mean[c] /= batch->count;
        variance[c] = 0;
        for (int64_t n = 0; n < batch->samples; n++)
            for (int64_t p = 0; p < batch->positions; p++) {
                double from_mean = x[pdl__reference_at(&batch->layer->in, n, c, p)] - mean[c];

                variance[c] += from_mean * from_mean;
            }
    }
}

/* Mean and biased variance of every channel, in two passes; false: the ranks have to meet before it goes on. */
static bool measure(const pdl_op_t *op, const batch_t *batch, const pdl_op_run_t *run, double *mean,
                    double *variance)
{
    bool meets = op->description.meetings[0] > 0;

    if (run->phase == 0) sum_values(batch, run, mean);
    if (meets && run->phase == 0) return false;
    if (!meets || run->phase == 1) sum_squares(batch, run, mean, variance);
    if (meets && run->phase == 1) return false;
    for (int64_t c = 0; c < batch->channels; c++) variance[c] /= batch->count;
    return true;
}

/* new = (1 - momentum) old + momentum * that of this batch, the variance made unbiased. */
static void keep_running(const pdl_op_t *op, const pdl_op_run_t *run, const batch_t *batch, const double *mean,
                         const double *variance)
{
    double *running_mean = run->weight[running(op, 0)], *running_var = run->weight[running(op, 1)];
    double  momentum = batch->layer->momentum, unbiased = batch->count > 1 ? batch->count / (batch->count - 1) : 1;

    for (int64_t c = 0; c < batch->channels; c++) {
        running_mean[c] = (1 - momentum) * running_mean[c] + momentum * mean[c];
        running_var[c] = (1 - momentum) * running_var[c] + momentum * unbiased * variance[c];
    }
}

static pdl_status_t forward(const pdl_op_t *op, const pdl_op_run_t *run)
{
    batch_t       batch = make_batch(op, run);
    const double *x = run->input[0], *weight = run->weight[0];
    const double *bias = batch.layer->bias ? run->weight[1] : NULL;
    const double *running_mean = run->weight[running(op, 0)], *running_var = run->weight[running(op, 1)];
    double       *y = run->output, *mean = run->workspace, *variance = mean + batch.channels, *saved = run->saved;

    if (run->training) {
        if (!measure(op, &batch, run, mean, variance)) return PDL_OK;
        if (!run->again) keep_running(op, run, &batch, mean, variance);
    }
    for (int64_t c = 0; c < batch.channels; c++) {
        double centre = run->training ? mean[c] : running_mean[c];
        double rstd = 1 / sqrt((run->training ? variance[c] : running_var[c]) + batch.layer->epsilon);

        if (run->training && saved) {
            saved[c] = centre;
            saved[batch.channels + c] = rstd;
        }
        for (int64_t n = 0; n < batch.samples; n++)
            for (int64_t p = 0; p < batch.positions; p++) {
                int64_t i = pdl__reference_at(&batch.layer->in, n, c, p);

                y[i] = (x[i] - centre) * rstd * weight[c] + (bias ? bias[c] : 0);
            }
    }
    return PDL_OK;
}

/* Sums of dy and of dy times the normalised x, of each channel. */
static void gradient_sums(const batch_t *batch, const pdl_op_run_t *run, double *sum, double *product)
{
    const double *x = run->input[0], *dy = run->output_gradient[0], *mean = run->saved;
    const double *rstd = mean + batch->channels;

    for (int64_t c = 0; c < batch->channels; c++) {
        sum[c] = product[c] = 0;
        for (int64_t n = 0; n < batch->samples; n++)
            for (int64_t p = 0; p < batch->positions; p++) {
                int64_t i = pdl__reference_at(&batch->layer->in, n, c, p);

                sum[c] += dy[i];
                product[c] += dy[i] * (x[i] - mean[c]) * rstd[c];
            }
    }
}

static pdl_status_t backward(const pdl_op_t *op, const pdl_op_run_t *run)
{
    batch_t       batch = make_batch(op, run);
    const double *x = run->input[0], *dy = run->output_gradient[0], *weight = run->weight[0], *mean = run->saved;
    const double *rstd = mean + batch.channels;
    double       *dx = run->input_gradient[0], *dweight = run->weight_gradient[0];
    double       *dbias = batch.layer->bias ? run->weight_gradient[1] : NULL;
    double       *sum = run->workspace, *product = sum + batch.channels;

    if (run->phase == 0) gradient_sums(&batch, run, sum, product);
    for (int64_t c = 0; c < batch.channels && run->phase == 0; c++) {
        if (dweight) dweight[c] += product[c];
        if (dbias) dbias[c] += sum[c];
    }
    if (dx == NULL || run->phase < op->description.meetings[1]) return PDL_OK;
    for (int64_t c = 0; c < batch.channels; c++)
        for (int64_t n = 0; n < batch.samples; n++)
            for (int64_t p = 0; p < batch.positions; p++) {
                int64_t i = pdl__reference_at(&batch.layer->in, n, c, p);
                double  z = (x[i] - mean[c]) * rstd[c];

                dx[i] = weight[c] * rstd[c] * (dy[i] - sum[c] / batch.count - z * product[c] / batch.count);
            }
    return PDL_OK;
}

const pdl__reference_kind_t pdl__reference_batch_norm = {describe, forward, backward};
