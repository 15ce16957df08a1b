/*
 * Embedding: a row of the table for every token; and position: a learned row added at every position of a sequence.
 * Of a table that is split over ranks, tokens whose row another rank has give zeros.
 *
 * Nobody looks at tokens on the host: one outside the vocabulary gives NaN, which the loss shows.
 */
#include "tensor/cuda/cuda.h"

static pdl_status_t embedding_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            dims[2] = {layer->vocabulary, layer->out.channels};

    (void)cuda;
    pdl__cuda_add_weight(op, "weight", 2, dims, true);
    op->description.keeps_inputs = 1;
    if (op->spec.training)
        op->description.workspace_bytes = pdl__cuda_table_workspace(op->spec.samples * layer->in.extent[0]);
    return PDL_OK;
}

static pdl__cuda_table_t table_of(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;

    return (pdl__cuda_table_t){.rows = op->spec.samples * layer->in.extent[0],
                               .channels = layer->out.channels,
                               .first = op->spec.first_class,
                               .count = layer->vocabulary,
                               .all = op->spec.classes > 0 ? op->spec.classes : layer->vocabulary,
                               .tokens = run->input[0],
                               .table = run->weight[0]};
}

static pdl_status_t embedding_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    const pdl__cuda_t *cuda = pdl__cuda_of(op);
    pdl__cuda_table_t  table = table_of(op, run);

    table.out = run->output;
    return cuda->api->sequences->look_up(cuda->gpu, stream, cuda->base.activation_type, &table);
}

static pdl_status_t embedding_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                       unsigned what)
{
    const pdl__cuda_t *cuda = pdl__cuda_of(op);
    pdl__cuda_table_t  table = table_of(op, run);
    pdl_status_t       status = PDL_OK;

    table.gradient = run->output_gradient[0];
    table.table_gradient = run->weight_gradient[0];
    table.workspace = run->workspace;
    if (!(what & PDL_BACKWARD_WEIGHT) || table.table_gradient == NULL) return PDL_OK;
    if (!run->accumulate)
        status = cuda->api->runtime->fill(cuda->gpu, stream, table.table_gradient,
                                          (size_t)(table.count * table.channels) * sizeof(float));
    if (status) return status;
    return cuda->api->sequences->look_up_back(cuda->gpu, stream, cuda->base.activation_type, &table);
}

/* ---- position: row t of the weight is added to row t of every sample; a class token takes row 0 and moves the others ---- */

static pdl_status_t position_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t dims[2] = {op->spec.context > 0 ? op->spec.context : layer->out.extent[0], layer->out.channels};

    (void)cuda;
    if (op->spec.context > 0 && layer->class_token)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: a class token cannot follow earlier tokens", layer->name);
    pdl__cuda_add_weight(op, "weight", 2, dims, true);
    if (layer->class_token) pdl__cuda_add_weight(op, "class_token", 1, &layer->out.channels, true);
    op->description.inplace = !layer->class_token;
    op->description.gradient_use[0] = layer->class_token ? PDL_GRADIENT_OWN : PDL_GRADIENT_PASSED;
    if (op->spec.training) {
        size_t whole = pdl__cuda_columns_workspace(op->spec.samples, dims[0] * dims[1]);
        size_t token = pdl__cuda_columns_workspace(op->spec.samples, dims[1]);

        op->description.workspace_bytes = whole > token ? whole : token;
    }
    return PDL_OK;
}

static pdl_status_t position_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    const pdl__cuda_t   *cuda = pdl__cuda_of(op);
    const pdl_layer_t   *layer = op->spec.layer;
    pdl__cuda_position_t position = {.samples = op->spec.samples,
                                     .tokens = layer->out.extent[0],
                                     .channels = layer->out.channels,
                                     .rows = op->description.weight[0].dims[0],
                                     .past = op->spec.context > 0 ? run->past : NULL,
                                     .x = run->input[0],
                                     .weight = run->weight[0],
                                     .class_token = layer->class_token ? run->weight[1] : NULL,
                                     .y = run->output};

    return cuda->api->sequences->add_position(cuda->gpu, stream, cuda->base.activation_type, &position);
}

/* Sums over samples of the first `columns` elements of each. */
static pdl_status_t sum_samples(const pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                int64_t columns, float *sums)
{
    const pdl__cuda_t *cuda = pdl__cuda_of(op);

    if (sums == NULL) return PDL_OK;
    return cuda->api->products->sum_columns(cuda->gpu, stream, cuda->base.activation_type, run->output_gradient[0],
                                            op->spec.samples, columns, pdl_shape_elements(&op->spec.layer->out),
                                            run->accumulate, sums, run->workspace);
}

static pdl_status_t position_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                      unsigned what)
{
    const pdl__cuda_t *cuda = pdl__cuda_of(op);
    const pdl_layer_t *layer = op->spec.layer;
    size_t             element = pdl_dtype_bytes(cuda->base.activation_type);
    size_t             row = (size_t)pdl_shape_elements(&layer->out) * element;
    size_t             moved = layer->class_token ? (size_t)layer->out.channels * element : 0;
    const char        *dy = run->output_gradient[0];
    char              *dx = run->input_gradient[0];
    pdl_status_t       status = PDL_OK;

    if (what & PDL_BACKWARD_WEIGHT)
        status = sum_samples(op, stream, run, pdl_shape_elements(&layer->out), run->weight_gradient[0]);
    if (!status && (what & PDL_BACKWARD_WEIGHT) && layer->class_token)
        status = sum_samples(op, stream, run, layer->out.channels, run->weight_gradient[1]);
    if (!(what & PDL_BACKWARD_DATA) || dx == NULL || dx == dy) return status;
    for (int64_t n = 0; !status && n < op->spec.samples; n++)
        status = cuda->api->runtime->copy(cuda->gpu, stream, dx + (size_t)n * (row - moved),
                                          dy + (size_t)n * row + moved, row - moved);
    return status;
}

const pdl__cuda_kind_t pdl__cuda_embedding = {.describe = embedding_describe,
                                              .forward = embedding_forward,
                                              .backward = embedding_backward};
const pdl__cuda_kind_t pdl__cuda_position = {.describe = position_describe,
                                             .forward = position_forward,
                                             .backward = position_backward};
