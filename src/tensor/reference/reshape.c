/*
 * Layers that only move elements (flatten, to_sequence, select), and dropout, which moves some of them.
 */
#include "tensor/reference/reference.h"

#include <paradl/base/random.h>

#include <stddef.h>

/* Output index of the element of channel c and position p of sample n, or -1 when it is not taken. */
static int64_t target(const pdl_layer_t *layer, int64_t n, int64_t c, int64_t p)
{
    int64_t positions = pdl_shape_positions(&layer->in);

    switch (layer->type) {
    case PDL_LAYER_FLATTEN: return (n * layer->in.channels + c) * positions + p;
    case PDL_LAYER_SELECT:
        if (p != (layer->index < 0 ? layer->index + positions : layer->index)) return -1;
        return n * layer->in.channels + c;
    default: return pdl__reference_at(&layer->out, n, c, p);
    }
}

static pdl_status_t forward_move(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    const double      *x = run->input[0];
    double            *y = run->output;

    for (int64_t n = 0; n < op->spec.samples; n++)
        for (int64_t c = 0; c < layer->in.channels; c++)
            for (int64_t p = 0; p < pdl_shape_positions(&layer->in); p++) {
                int64_t to = target(layer, n, c, p);

                if (to >= 0) y[to] = x[pdl__reference_at(&layer->in, n, c, p)];
            }
    return PDL_OK;
}

static pdl_status_t backward_move(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    const double      *dy = run->output_gradient[0];
    double            *dx = run->input_gradient[0];

    for (int64_t n = 0; dx && n < op->spec.samples; n++)
        for (int64_t c = 0; c < layer->in.channels; c++)
            for (int64_t p = 0; p < pdl_shape_positions(&layer->in); p++) {
                int64_t from = target(layer, n, c, p);

                if (from >= 0) dx[pdl__reference_at(&layer->in, n, c, p)] = dy[from];
            }
    return PDL_OK;
}

double pdl__reference_keep(const pdl_op_t *op, const pdl_op_run_t *run, const char *purpose, int64_t index)
{
    double rate = op->spec.layer->rate;
    float  u;

    if (!run->training || rate == 0) return 1;
    pdl_random_fill(run->seed, pdl_random_stream(purpose, op->spec.id, run->step), (uint64_t)index, 1, &u);
    return u < (float)rate ? 0 : 1 / (1 - rate);
}

/* y = x * keep, and dx = dy * keep: `from` and `to` are one pair or the other. */
static void drop(const pdl_op_t *op, const pdl_op_run_t *run, const double *from, double *to)
{
    const pdl_shape_t  *shape = &op->spec.layer->in;
    const pdl_origin_t *origin = &op->spec.origin;
    int64_t             at[PDL_MAX_SPACE];

    for (int64_t n = 0; n < op->spec.samples; n++)
        for (int64_t c = 0; c < shape->channels; c++)
            for (int64_t p = 0; p < pdl_shape_positions(shape); p++) {
                int64_t i = pdl__reference_at(shape, n, c, p), index;

                pdl__reference_part(shape->extent, p, at);
                for (int d = 0; d < PDL_MAX_SPACE; d++) at[d] += origin->space[d];
                index = pdl__reference_at(&origin->whole, run->first_sample + n, origin->channel + c,
                                          pdl__reference_join(&origin->whole, at));
                to[i] = from[i] * pdl__reference_keep(op, run, "dropout", index);
            }
}

static pdl_status_t forward_dropout(const pdl_op_t *op, const pdl_op_run_t *run)
{
    drop(op, run, run->input[0], run->output);
    return PDL_OK;
}

static pdl_status_t backward_dropout(const pdl_op_t *op, const pdl_op_run_t *run)
{
    if (run->input_gradient[0]) drop(op, run, run->output_gradient[0], run->input_gradient[0]);
    return PDL_OK;
}

const pdl__reference_kind_t pdl__reference_flatten = {NULL, forward_move, backward_move};
const pdl__reference_kind_t pdl__reference_to_sequence = {NULL, forward_move, backward_move};
const pdl__reference_kind_t pdl__reference_select = {NULL, forward_move, backward_move};
const pdl__reference_kind_t pdl__reference_dropout = {NULL, forward_dropout, backward_dropout};
