/*
 * Embedding: a row of the table for every token; and position: a learned row added at every position of a sequence.
 * Of a table that is split over ranks, tokens whose row another rank has give zeros.
 *
 * The gradient of a table is summed in the order of the tokens by the one thread that owns the row, so that it does
 * not depend on the number of threads.
 */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/matmul/columns.h"
#include "tensor/cpu/simd.h"
#include "tensor/cpu/threads.h"

typedef struct table {
    const int32_t *tokens;
    int64_t        rows, channels;
    int64_t        first, count; /* the tokens whose rows are here */
    const float   *from;         /* forward: the table; backward: the gradient of the rows */
    float         *to;
    bool           add;
} table_t;

PDL__CLONES static void add_to(int64_t count, const float *a, const float *b, float *sum)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) sum[i] = a[i] + b[i];
}

static pdl_status_t embedding_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            dims[2] = {layer->vocabulary, layer->out.channels};

    (void)cpu;
    pdl__cpu_add_weight(op, "weight", 2, dims, true);
    op->description.keeps_inputs = 1;
    return PDL_OK;
}

static pdl_status_t check_tokens(const pdl_op_t *op, const table_t *table)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            vocabulary = op->spec.classes > 0 ? op->spec.classes : layer->vocabulary;

    for (int64_t i = 0; i < table->rows; i++)
        if (table->tokens[i] < 0 || table->tokens[i] >= vocabulary)
            return pdl_error(PDL_ERR_INPUT,
                             "%s: token %d at position %lld of sample %lld is outside the vocabulary of %lld",
                             layer->name, (int)table->tokens[i], (long long)(i % layer->in.extent[0]),
                             (long long)(i / layer->in.extent[0]), (long long)vocabulary);
    return PDL_OK;
}

static table_t make_table(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;

    return (table_t){.tokens = run->input[0],
                     .rows = op->spec.samples * layer->in.extent[0],
                     .channels = layer->out.channels,
                     .first = op->spec.first_class,
                     .count = layer->vocabulary};
}

static void look_up_slice(void *context, int64_t first, int64_t end)
{
    const table_t *table = context;

    for (int64_t i = first; i < end; i++) {
        int64_t row = table->tokens[i] - table->first;
        size_t  bytes = (size_t)table->channels * sizeof(float);

        if (row < 0 || row >= table->count)
            memset(table->to + i * table->channels, 0, bytes);
        else
            memcpy(table->to + i * table->channels, table->from + row * table->channels, bytes);
    }
}

static pdl_status_t embedding_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    table_t      table = make_table(op, run);
    pdl_status_t status = check_tokens(op, &table);

    if (status != PDL_OK) return status;
    table.from = run->weight[0];
    table.to = run->output;
    pdl_threads_run(table.rows, 8192 / table.channels + 1, look_up_slice, &table);
    return PDL_OK;
}

/* Rows [first, end) of the table. */
static void add_rows_slice(void *context, int64_t first, int64_t end)
{
    const table_t *table = context;

    if (!table->add)
        memset(table->to + first * table->channels, 0, (size_t)((end - first) * table->channels) * sizeof(float));
    for (int64_t i = 0; i < table->rows; i++) {
        int64_t at = table->tokens[i] - table->first;

        if (at < first || at >= end) continue;
        float *row = table->to + at * table->channels;
        add_to(table->channels, row, table->from + i * table->channels, row);
    }
}

static pdl_status_t embedding_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    table_t table = make_table(op, run);

    if (!(what & PDL_BACKWARD_WEIGHT) || run->weight_gradient[0] == NULL) return PDL_OK;
    table.from = run->output_gradient[0];
    table.to = run->weight_gradient[0];
    table.add = run->accumulate;
    pdl_threads_run(op->spec.layer->vocabulary, 8192 / table.channels + 1, add_rows_slice, &table);
    return PDL_OK;
}

/* Position: row t of the weight is added to row t of every sample; a class token takes row 0 and moves the
   others. */
static pdl_status_t position_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t dims[2] = {op->spec.context > 0 ? op->spec.context : layer->out.extent[0], layer->out.channels};

    (void)cpu;
    if (op->spec.context > 0 && layer->class_token)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: a class token has no place behind earlier tokens", layer->name);
    pdl__cpu_add_weight(op, "weight", 2, dims, true);
    if (layer->class_token) pdl__cpu_add_weight(op, "class_token", 1, &layer->out.channels, true);
    op->description.inplace = !layer->class_token;
    op->description.gradient_use[0] = layer->class_token ? PDL_GRADIENT_OWN : PDL_GRADIENT_PASSED;
    return PDL_OK;
}

typedef struct position {
    const pdl_layer_t *layer;
    const int32_t     *past; /* of every sample; NULL: 0 */
    int64_t            rows; /* of the weight */
    const float       *x, *weight, *token;
    float             *y;
} position_t;

static void position_slice(void *context, int64_t first, int64_t end)
{
    const position_t *position = context;
    int64_t           channels = position->layer->out.channels, tokens = position->layer->out.extent[0];
    int64_t           moved = position->token != NULL ? 1 : 0;

    for (int64_t i = first; i < end; i++) {
        int64_t      n = i / tokens, t = i % tokens, at = position->past != NULL ? position->past[n] + t : t;
        const float *from =
            t < moved ? position->token : position->x + (n * (tokens - moved) + t - moved) * channels;

        if (at >= position->rows) at = position->rows - 1; /* of no meaning, but a number */
        add_to(channels, from, position->weight + at * channels, position->y + i * channels);
    }
}

static pdl_status_t position_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    position_t         position = {.layer = layer,
                                   .past = op->spec.context > 0 ? run->past : NULL,
                                   .rows = op->description.weight[0].dims[0],
                                   .x = run->input[0],
                                   .weight = run->weight[0],
                                   .token = layer->class_token ? run->weight[1] : NULL,
                                   .y = run->output};

    pdl_threads_run(op->spec.samples * layer->out.extent[0], 8192 / layer->out.channels + 1, position_slice,
                    &position);
    return PDL_OK;
}

static pdl_status_t position_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            channels = layer->out.channels, row = layer->out.extent[0] * channels;
    const float       *dy = run->output_gradient[0];
    float             *dx = run->input_gradient[0];

    if ((what & PDL_BACKWARD_WEIGHT) && run->weight_gradient[0] != NULL)
        pdl__column_sums(dy, op->spec.samples, row, row, run->accumulate, run->weight_gradient[0]);
    if ((what & PDL_BACKWARD_WEIGHT) && layer->class_token && run->weight_gradient[1] != NULL)
        pdl__column_sums(dy, op->spec.samples, channels, row, run->accumulate, run->weight_gradient[1]);
    if (!(what & PDL_BACKWARD_DATA) || dx == NULL || dx == dy) return PDL_OK;
    for (int64_t n = 0; n < op->spec.samples; n++) {
        int64_t moved = layer->class_token ? channels : 0;

        memcpy(dx + n * (row - moved), dy + n * row + moved, (size_t)(row - moved) * sizeof(float));
    }
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_embedding = {.describe = embedding_describe,
                                            .forward = embedding_forward,
                                            .backward = embedding_backward,
                                            .wide = true};
const pdl__cpu_kind_t pdl__cpu_position = {.describe = position_describe,
                                           .forward = position_forward,
                                           .backward = position_backward,
                                           .wide = true};
