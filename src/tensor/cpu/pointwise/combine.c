/*
 * Layers with several inputs: sums and channels side by side. (Products are in mul.c.)
 */
#include "tensor/cpu/chunk.h"
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/threads.h"

#include <stdlib.h>

/* BLOCKED as soon as one input comes like that. */
static pdl_format_t common_format(const pdl_op_t *op)
{
    for (int i = 0; i < op->spec.input_count; i++)
        if (op->spec.given[i] == PDL_FORMAT_BLOCKED && pdl__cpu_blockable(&op->spec.inputs[i]))
            return PDL_FORMAT_BLOCKED;
    return PDL_FORMAT_PLAIN;
}

static void use_format(pdl_op_t *op, pdl_format_t format)
{
    for (int i = 0; i < op->spec.input_count; i++) op->description.in_format[i] = format;
    op->description.out_format = format;
}

typedef struct pdl__terms {
    const void *const *input;
    int                count;
    bool               bf16;
    void              *out;
} pdl__terms_t;

/* The output may be the first input, and that may come a second time: a chunk is written when all have been read.
   */
PDL__CLONES static void add_slice(void *context, int64_t first, int64_t end)
{
    const pdl__terms_t *terms = context;
    float               sum[PDL__CHUNK], buffer[PDL__CHUNK];

    for (int64_t count; first < end; first += count) {
        const float *a, *b;
        float       *out = terms->count > 2 || terms->bf16 ? sum : (float *)terms->out + first;

        count = pdl__chunk_size(first, end);
        a = pdl__chunk_read(terms->bf16, terms->input[0], first, count, sum);
        for (int k = 1; k < terms->count; k++) {
            b = pdl__chunk_read(terms->bf16, terms->input[k], first, count, buffer);
#pragma omp simd
            for (int64_t i = 0; i < count; i++) out[i] = a[i] + b[i];
            a = out;
        }
        if (terms->bf16)
            pdl__chunk_write(true, terms->out, first, count, out);
        else if (out == sum)
            memcpy((float *)terms->out + first, sum, (size_t)count * sizeof(float));
    }
}

static pdl_status_t add_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    (void)cpu;
    use_format(op, common_format(op));
    op->description.inplace = op->spec.input_count > 1;
    for (int i = 0; i < op->spec.input_count; i++) op->description.gradient_use[i] = PDL_GRADIENT_PASSED;
    return PDL_OK;
}

static pdl_status_t add_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    pdl__terms_t terms = {.input = run->input,
                          .count = op->spec.input_count,
                          .bf16 = op->backend->activation_type == PDL_DTYPE_BF16,
                          .out = run->output};

    if (terms.count == 1) {
        memcpy(run->output, run->input[0], op->description.out_bytes);
        return PDL_OK;
    }
    pdl_threads_run((int64_t)(op->description.out_bytes / pdl_dtype_bytes(op->backend->activation_type)),
                    PDL__CHUNK_GRAIN, add_slice, &terms);
    return PDL_OK;
}

/* The output's gradient is that of every input. */
static pdl_status_t add_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    (void)what;
    for (int i = 0; i < op->spec.input_count; i++)
        if (run->input_gradient[i] != NULL && run->input_gradient[i] != run->output_gradient[0])
            memcpy(run->input_gradient[i], run->output_gradient[0], op->description.out_bytes);
    return PDL_OK;
}

/* Concatenation copies, for each row (a sample, or a position of a sequence), one piece of every input. */
typedef struct pdl__pieces {
    int64_t rows;
    int     count;
    size_t  bytes[PDL_MAX_INPUTS], total;
    void   *part[PDL_MAX_INPUTS]; /* NULL: not wanted */
    char   *whole;
    bool    apart; /* from the whole to the parts: backward */
} pdl__pieces_t;

static void copy_rows(void *context, int64_t first, int64_t end)
{
    const pdl__pieces_t *pieces = context;

    for (int64_t r = first; r < end; r++) {
        char *whole = pieces->whole + (size_t)r * pieces->total;

        for (int i = 0; i < pieces->count; i++) {
            char *part = pieces->part[i];

            if (part != NULL && pieces->apart)
                memcpy(part + (size_t)r * pieces->bytes[i], whole, pieces->bytes[i]);
            else if (part != NULL)
                memcpy(whole, part + (size_t)r * pieces->bytes[i], pieces->bytes[i]);
            whole += pieces->bytes[i];
        }
    }
}

static pdl_status_t concat_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    pdl_format_t format = common_format(op);

    (void)cpu;
    /* Blocks can be put side by side only when they are full. */
    for (int i = 0; i < op->spec.input_count; i++) {
        if (op->spec.inputs[i].channels % PDL__BLOCK != 0) format = PDL_FORMAT_PLAIN;
        op->description.gradient_use[i] = PDL_GRADIENT_OWN;
    }
    use_format(op, format);
    return PDL_OK;
}

static pdl__pieces_t cut_pieces(const pdl_op_t *op)
{
    const pdl_shape_t *out = &op->spec.layer->out;
    pdl__pieces_t      pieces = {.rows = op->spec.samples, .count = op->spec.input_count};

    if (out->sequence) pieces.rows *= out->extent[0];
    for (int i = 0; i < pieces.count; i++) {
        pieces.bytes[i] = pdl_dtype_bytes(op->backend->activation_type) *
                          (size_t)(pdl_shape_elements(&op->spec.inputs[i]) * op->spec.samples / pieces.rows);
        pieces.total += pieces.bytes[i];
    }
    return pieces;
}

static void run_pieces(pdl__pieces_t *pieces)
{
    pdl_threads_run(pieces->rows, 1 + (int64_t)(32768 / (pieces->total + 1)), copy_rows, pieces);
}

static pdl_status_t concat_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    pdl__pieces_t pieces = cut_pieces(op);

    for (int i = 0; i < pieces.count; i++) pieces.part[i] = (void *)run->input[i];
    pieces.whole = run->output;
    run_pieces(&pieces);
    return PDL_OK;
}

static pdl_status_t concat_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    pdl__pieces_t pieces = cut_pieces(op);

    if (!(what & PDL_BACKWARD_DATA)) return PDL_OK;
    for (int i = 0; i < pieces.count; i++) pieces.part[i] = run->input_gradient[i];
    pieces.whole = (char *)run->output_gradient[0];
    pieces.apart = true;
    run_pieces(&pieces);
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_add = {.describe = add_describe, .forward = add_forward, .backward = add_backward};
const pdl__cpu_kind_t pdl__cpu_concat = {.describe = concat_describe,
                                         .forward = concat_forward,
                                         .backward = concat_backward};
