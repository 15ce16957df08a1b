/*
 * Cross-entropy when every rank has some of the classes: maxima, then sums of every position are taken over the
 * ranks. Saved: the logarithm of the sum of exponentials of each position. Workspace: what is reduced.
 */
#include "tensor/reference/reference.h"

#include <math.h>
#include <stddef.h>

/* One value a position each; from `sum` on they are added up over the ranks. */
typedef struct shared {
    double *largest;
    double *sum;      /* of exp(x - largest) */
    double *at_class; /* logit of the right class, 0 on ranks that do not have it */
    double *right;    /* 1 for the class being a largest, less 1 for one before it */
    double *total;    /* of the logits */
} shared_t;
#define ARRAYS 5

void pdl__reference_split_describe(pdl_op_t *op)
{
    size_t rows = (size_t)(op->spec.samples * pdl_shape_positions(&op->spec.layer->in));

    if (op->spec.classes == 0) return;
    op->description.workspace_bytes = rows * ARRAYS * sizeof(double);
    if (op->spec.training) op->description.saved_bytes = rows * sizeof(double);
    op->description.meetings[0] = 2;
    op->description.meeting[0][0] = (pdl_meeting_t){.kind = PDL_MEETING_MAX, .count = (int64_t)rows};
    op->description.meeting[0][1] = (pdl_meeting_t){.kind = PDL_MEETING_SUM,
                                                    .at = rows * sizeof(double),
                                                    .count = (int64_t)((ARRAYS - 1) * rows)};
}

static void add_up(const pdl_op_t *op, const pdl_op_run_t *run, int64_t row, const shared_t *s)
{
    const pdl_shape_t *shape = &op->spec.layer->in;
    int64_t            positions = pdl_shape_positions(shape);
    int64_t class = ((const int32_t *)run->target)[row] - op->spec.first_class;
    const double *x = run->input[0];

    s->sum[row] = s->at_class[row] = s->right[row] = s->total[row] = 0;
    if (((const int32_t *)run->target)[row] < 0) return;
    bool before = false;
    for (int64_t c = 0; c < shape->channels; c++) {
        double value = x[pdl__reference_at(shape, row / positions, c, row % positions)];

        s->sum[row] += exp(value - s->largest[row]);
        s->total[row] += value;
        if (c == class) s->at_class[row] = value;
        if (c == class && value >= s->largest[row]) s->right[row] += 1;
        if (c < class && value >= s->largest[row]) before = true;
    }
    if (before) s->right[row] -= 1;
}

static void find_largest(const pdl_op_t *op, const pdl_op_run_t *run, const shared_t *s)
{
    const pdl_shape_t *shape = &op->spec.layer->in;
    int64_t            positions = pdl_shape_positions(shape), rows = op->spec.samples * positions;
    const double      *x = run->input[0];

    for (int64_t row = 0; row < rows; row++) {
        s->largest[row] = -INFINITY;
        for (int64_t c = 0; c < shape->channels; c++)
            s->largest[row] =
                fmax(s->largest[row], x[pdl__reference_at(shape, row / positions, c, row % positions)]);
    }
}

static int64_t counted(const int32_t *classes, int64_t positions)
{
    int64_t count = 0;

    for (int64_t p = 0; p < positions; p++) count += classes[p] >= 0;
    return count;
}

pdl_status_t pdl__reference_split_forward(const pdl_op_t *op, const pdl_op_run_t *run)
{
    int64_t        positions = pdl_shape_positions(&op->spec.layer->in), rows = op->spec.samples * positions;
    double        *w = run->workspace, *out = run->output, *saved = run->saved, smoothing = run->label_smoothing;
    const int32_t *classes = run->target;
    shared_t       s = {w, w + rows, w + 2 * rows, w + 3 * rows, w + 4 * rows};

    for (int64_t row = 0; row < rows; row++)
        if (classes[row] >= op->spec.classes)
            return pdl_error(PDL_ERR_INPUT, "layer %s: class %d, but the network tells only %lld apart",
                             op->spec.layer->name, (int)classes[row], (long long)op->spec.classes);
    if (run->phase == 0) find_largest(op, run, &s);
    for (int64_t row = 0; row < rows && run->phase == 1; row++) add_up(op, run, row, &s);
    for (int64_t row = 0; row < rows && run->phase == 2; row++) {
        int64_t n = row / positions;
        double  log_sum = s.largest[row] + log(s.sum[row]);

        if (op->spec.training) saved[row] = log_sum;
        if (classes[row] < 0) continue;
        double part = 1 / (double)counted(classes + n * positions, positions);
        out[n] += part * (log_sum - (1 - smoothing) * s.at_class[row] -
                          smoothing * s.total[row] / (double)op->spec.classes);
        out[op->spec.samples + n] += part * (s.right[row] > 0 && isfinite(log_sum));
        out[2 * op->spec.samples + n] += part * exp(s.at_class[row] - log_sum);
    }
    return PDL_OK;
}

void pdl__reference_split_backward(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t *shape = &op->spec.layer->in;
    int64_t            positions = pdl_shape_positions(shape), rows = op->spec.samples * positions;
    const int32_t     *classes = run->target;
    const double      *x = run->input[0], *saved = run->saved;
    double            *dx = run->input_gradient[0], smoothing = run->label_smoothing;

    for (int64_t row = 0; dx && row < rows; row++) {
        int64_t n = row / positions;

        if (classes[row] < 0) continue;
        double scale = run->loss_scale * (run->sample_weight ? run->sample_weight[n] : 1) /
                       (double)counted(classes + n * positions, positions);
        for (int64_t c = 0; c < shape->channels; c++) {
            int64_t i = pdl__reference_at(shape, n, c, row % positions);
            double  wanted = (op->spec.first_class + c == classes[row] ? 1 - smoothing : 0) +
                            smoothing / (double)op->spec.classes;

            dx[i] = scale * (exp(x[i] - saved[row]) - wanted);
        }
    }
}
