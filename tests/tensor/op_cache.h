/*
 * An op that goes on from earlier tokens, run piece by piece, beside the same layer over the whole sequence.
 *
 * Every sample has a sequence of `context` tokens. An op for T tokens runs over it as generation does: samples advance by different
 * numbers of tokens (T, T - 1, ...), what they did not count is overwritten by the next run, and every other run is that of a second op, for one
 * token, with the same cache. Outputs of tokens that counted have to be those of the whole sequence.
 */
#ifndef PDL_TEST_OP_CACHE_H
#define PDL_TEST_OP_CACHE_H

#include "op_cases.h"

typedef struct op_cache {
    pdl_backend_t *backend;
    pdl_layer_t    layer; /* with the shapes of the op */
    pdl_op_t      *op;
    int64_t        samples, tokens, context;
} op_cache_t;

static inline void *op_cache_device(pdl_backend_t *backend, size_t bytes)
{
    void *memory = NULL;

    if (backend->device->ops->alloc(backend->device, PDL_SPACE_DEVICE, bytes + 64, &memory)) abort();
    return memory;
}

static inline void op_cache_release(pdl_backend_t *backend, void *memory, size_t bytes)
{
    backend->device->ops->release(backend->device, PDL_SPACE_DEVICE, memory, bytes + 64);
}

static inline pdl_status_t op_cache_create(op_cache_t *c, pdl_backend_t *backend, const pdl_layer_t *layer,
                                           int64_t samples, int64_t tokens, int64_t context)
{
    static const pdl_format_t plain = PDL_FORMAT_PLAIN;
    pdl_op_spec_t             spec = {.layer = &c->layer,
                                      .inputs = &c->layer.in,
                                      .given = &plain,
                                      .input_count = 1,
                                      .samples = samples,
                                      .plain_weights = true,
                                      .context = context,
                                      .id = 1};

    *c =
        (op_cache_t){.backend = backend, .layer = *layer, .samples = samples, .tokens = tokens, .context = context};
    c->layer.in.extent[0] = c->layer.out.extent[0] = tokens;
    spec.origin.whole = c->layer.out;
    return backend->ops->op_create(backend, &spec, &c->op);
}

/* Values of the host to the device in the activation type, and back. */
static inline pdl_status_t op_cache_put(pdl_backend_t *backend, const double *values, int64_t count, void *to)
{
    float       *floats = malloc((size_t)count * sizeof(*floats) + 1);
    pdl_status_t status;

    for (int64_t i = 0; i < count; i++) floats[i] = (float)values[i];
    status = backend->ops->from_float(backend, NULL, floats, count, to);
    free(floats);
    return status;
}

/* One run of all samples; x and y are [samples][tokens][channels]. */
static inline pdl_status_t op_cache_step(op_cache_t *c, const int32_t *past, void *weight, void *cache,
                                         const double *x, double *y)
{
    pdl_backend_t *b = c->backend;
    int64_t        in = c->samples * pdl_shape_elements(&c->layer.in),
            out = c->samples * pdl_shape_elements(&c->layer.out);
    size_t       in_bytes = b->ops->tensor_bytes(b, &c->layer.in, c->samples, PDL_FORMAT_PLAIN);
    void        *input = op_cache_device(b, in_bytes), *output = op_cache_device(b, c->op->description.out_bytes);
    void        *work = op_cache_device(b, c->op->description.workspace_bytes);
    void        *where = op_cache_device(b, (size_t)c->samples * sizeof(*past));
    float       *floats = malloc((size_t)out * sizeof(*floats) + 1);
    pdl_op_run_t run = {.input = {input},
                        .output = output,
                        .workspace = work,
                        .weight = {weight},
                        .past = where,
                        .cache = cache,
                        .total_samples = c->samples};
    pdl_status_t status = op_cache_put(b, x, in, input);

    if (!status) status = b->device->ops->copy(b->device, NULL, where, past, (size_t)c->samples * sizeof(*past));
    if (!status) status = b->ops->forward(c->op, NULL, &run);
    if (!status) status = b->ops->to_float(b, NULL, output, out, floats);
    for (int64_t i = 0; i < out && !status; i++) y[i] = (double)floats[i];
    free(floats);
    op_cache_release(b, input, in_bytes);
    op_cache_release(b, output, c->op->description.out_bytes);
    op_cache_release(b, work, c->op->description.workspace_bytes);
    op_cache_release(b, where, (size_t)c->samples * sizeof(*past));
    return status;
}

/* Rows of a whole sequence that an op is given, or has given: what is beyond the end is garbage to be kept away. */
static inline void op_cache_rows(const op_cache_t *c, const int32_t *past, const double *whole, int64_t channels,
                                 double *rows)
{
    for (int64_t n = 0; n < c->samples; n++)
        for (int64_t t = 0; t < c->tokens; t++)
            for (int64_t k = 0; k < channels; k++) {
                int64_t at = past[n] + t;
                rows[(n * c->tokens + t) * channels + k] =
                    at < c->context ? whole[(n * c->context + at) * channels + k] : 1.5;
            }
}

/* Runs the whole sequences through `many` and `one` by turns; out: [samples][context][channels]. */
static inline pdl_status_t op_cache_pieces(op_cache_t *many, op_cache_t *one, void *weight, void *cache,
                                           const double *x, double *out)
{
    int64_t  in_channels = many->layer.in.channels, channels = many->layer.out.channels, left = 1;
    int32_t *past = calloc((size_t)many->samples, sizeof(*past));
    double  *rows = op_doubles(many->samples * many->tokens * in_channels),
           *y = op_doubles(many->samples * many->tokens * channels);
    pdl_status_t status = PDL_OK;

    for (int turn = 0; left > 0 && !status; turn++) {
        op_cache_t *c = turn % 2 == 0 ? many : one;

        op_cache_rows(c, past, x, in_channels, rows);
        status = op_cache_step(c, past, weight, cache, rows, y);
        left = 0;
        for (int64_t n = 0; n < c->samples && !status; n++) {
            int64_t counts = c->tokens > n + 1 ? c->tokens - n % 2 : c->tokens;

            for (int64_t t = 0; t < counts && past[n] + t < c->context; t++)
                memcpy(out + (n * c->context + past[n] + t) * channels, y + (n * c->tokens + t) * channels,
                       (size_t)channels * sizeof(*y));
            past[n] = past[n] + counts < c->context ? (int32_t)(past[n] + counts) : (int32_t)c->context;
            left += c->context - past[n];
        }
    }
    free(past);
    free(rows);
    free(y);
    return status;
}

#endif
