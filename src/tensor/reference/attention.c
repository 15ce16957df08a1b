/*
 * Attention, one head and one query at a time. The input is q, k and v side by side in channels; with rotary
 * positions q and k are turned first, and their gradients turned back last.
 */
#include "tensor/reference/reference.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define ROTARY_BASE 10000.0

/* One query head with the key/value head it reads. Workspace: q, k, dq, dk [T][D], then probabilities and their
   gradients [T]; with a context q [T][D] and probabilities [context]. */
typedef struct head {
    const pdl_op_t     *op;
    const pdl_op_run_t *run;
    int64_t             sample, index;
    int64_t             tokens, dim;
    int64_t             past;                            /* tokens before the first of this run */
    int64_t             q_channel, k_channel, v_channel; /* of their first elements */
    double             *q, *k, *dq, *dk, *p, *dp;
} head_t;

static void describe(pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;

    op->description.workspace_bytes =
        (size_t)(layer->in.extent[0] * (4 * layer->head_dim + 2) + op->spec.context) * sizeof(double);
    op->description.cache_bytes =
        2 * (size_t)(op->spec.samples * op->spec.context * layer->kv_heads * layer->head_dim) * sizeof(double);
}

static head_t make_head(const pdl_op_t *op, const pdl_op_run_t *run, int64_t sample, int64_t index)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            tokens = layer->in.extent[0], dim = layer->head_dim;
    int64_t            kv = index / (layer->heads / layer->kv_heads);
    double            *space = run->workspace;

    return (head_t){.op = op,
                    .run = run,
                    .sample = sample,
                    .index = index,
                    .tokens = tokens,
                    .dim = dim,
                    .past = op->spec.context > 0 ? run->past[sample] : 0,
                    .q_channel = index * dim,
                    .k_channel = (layer->heads + kv) * dim,
                    .v_channel = (layer->heads + layer->kv_heads + kv) * dim,
                    .q = space,
                    .k = space + tokens * dim,
                    .dq = space + 2 * tokens * dim,
                    .dk = space + 3 * tokens * dim,
                    .p = space + 4 * tokens * dim,
                    .dp = space + 4 * tokens * dim + tokens};
}

/* Turns the halves of every token's vector by its position; direction -1 turns back. */
static void rotate(const head_t *head, double *vectors, int direction)
{
    int64_t half = head->dim / 2;

    for (int64_t t = 0; t < head->tokens; t++)
        for (int64_t i = 0; i < half; i++) {
            double  position = (double)(head->op->spec.origin.space[0] + head->past + t);
            double  angle = direction * position * pow(ROTARY_BASE, -(double)i / (double)half);
            double *a = &vectors[t * head->dim + i], *b = a + half, old = *a;

            *a = old * cos(angle) - *b * sin(angle);
            *b = *b * cos(angle) + old * sin(angle);
        }
}

static void load_rows(const head_t *head, int64_t channel, double *vectors)
{
    const pdl_layer_t *layer = head->op->spec.layer;
    const double      *x = head->run->input[0];

    for (int64_t t = 0; t < head->tokens; t++)
        for (int64_t i = 0; i < head->dim; i++)
            vectors[t * head->dim + i] = x[pdl__reference_at(&layer->in, head->sample, channel + i, t)];
    if (layer->rotary && channel < (layer->heads + layer->kv_heads) * head->dim) rotate(head, vectors, 1);
}

static int64_t key_count(const head_t *head, int64_t query)
{
    return head->op->spec.layer->causal ? query + 1 : head->tokens;
}

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

/* Softmax of q k / sqrt(dim) over the keys that the query may see. */
static void probabilities(const head_t *head, int64_t query)
{
    int64_t keys = key_count(head, query);
    double  largest = -INFINITY, sum = 0;

    for (int64_t j = 0; j < keys; j++) {
        head->p[j] = dot(&head->q[query * head->dim], &head->k[j * head->dim], head->dim) / sqrt((double)head->dim);
        largest = fmax(largest, head->p[j]);
    }
    for (int64_t j = 0; j < keys; j++) sum += head->p[j] = exp(head->p[j] - largest);
    for (int64_t j = 0; j < keys; j++) head->p[j] /= sum;
}

static double keep(const head_t *head, int64_t query, int64_t key)
{
    const pdl_origin_t *origin = &head->op->spec.origin;
    int64_t             tokens = origin->whole.extent[0], heads = origin->whole.channels / head->dim;
    int64_t             h = origin->channel / head->dim + head->index, n = head->run->first_sample + head->sample;

    return pdl__reference_keep(head->op, head->run, "attention", ((n * heads + h) * tokens + query) * tokens + key);
}

static int64_t value_at(const head_t *head, int64_t key, int64_t i)
{
    return pdl__reference_at(&head->op->spec.layer->in, head->sample, head->v_channel + i, key);
}

static void forward_head(const head_t *head)
{
    const pdl_shape_t *out = &head->op->spec.layer->out;
    const double      *x = head->run->input[0];
    double            *y = head->run->output;

    load_rows(head, head->q_channel, head->q);
    load_rows(head, head->k_channel, head->k);
    for (int64_t query = 0; query < head->tokens; query++) {
        probabilities(head, query);
        for (int64_t j = 0; j < key_count(head, query); j++) {
            double p = head->p[j] * keep(head, query, j);

            for (int64_t i = 0; i < head->dim; i++)
                y[pdl__reference_at(out, head->sample, head->q_channel + i, query)] += p * x[value_at(head, j, i)];
        }
    }
}

/* One query: adds to dv in place, and to dq and dk in the workspace. */
static void backward_query(const head_t *head, int64_t query)
{
    const double *x = head->run->input[0], *dy = head->run->output_gradient[0];
    double       *dx = head->run->input_gradient[0], mean = 0;

    probabilities(head, query);
    for (int64_t j = 0; j < key_count(head, query); j++) {
        double kept = keep(head, query, j);

        head->dp[j] = 0;
        for (int64_t i = 0; i < head->dim; i++) {
            double g = dy[pdl__reference_at(&head->op->spec.layer->out, head->sample, head->q_channel + i, query)];

            head->dp[j] += g * x[value_at(head, j, i)] * kept;
            dx[value_at(head, j, i)] += g * head->p[j] * kept;
        }
        mean += head->p[j] * head->dp[j];
    }
    for (int64_t j = 0; j < key_count(head, query); j++) {
        double ds = head->p[j] * (head->dp[j] - mean) / sqrt((double)head->dim);

        for (int64_t i = 0; i < head->dim; i++) {
            head->dq[query * head->dim + i] += ds * head->k[j * head->dim + i];
            head->dk[j * head->dim + i] += ds * head->q[query * head->dim + i];
        }
    }
}

static void store_rows(const head_t *head, double *vectors, int64_t channel)
{
    const pdl_layer_t *layer = head->op->spec.layer;
    double            *dx = head->run->input_gradient[0];

    if (layer->rotary) rotate(head, vectors, -1);
    for (int64_t t = 0; t < head->tokens; t++)
        for (int64_t i = 0; i < head->dim; i++)
            dx[pdl__reference_at(&layer->in, head->sample, channel + i, t)] += vectors[t * head->dim + i];
}

static void backward_head(const head_t *head)
{
    load_rows(head, head->q_channel, head->q);
    load_rows(head, head->k_channel, head->k);
    memset(head->dq, 0, (size_t)(2 * head->tokens * head->dim) * sizeof(double));
    for (int64_t query = 0; query < head->tokens; query++) backward_query(head, query);
    store_rows(head, head->dq, head->q_channel);
    store_rows(head, head->dk, head->k_channel);
}

/* The element of the cache that belongs to channel i of a token: part 0 keys, 1 values. */
static double *cached(const head_t *head, int part, int64_t token, int64_t i)
{
    const pdl_op_spec_t *spec = &head->op->spec;
    int64_t              kv = spec->layer->kv_heads * head->dim;
    int64_t              channel = head->k_channel - spec->layer->heads * head->dim + i;

    return (double *)head->run->cache + ((part * spec->samples + head->sample) * spec->context + token) * kv +
           channel;
}

/* Several query heads store the same keys. */
static void store(const head_t *head)
{
    const pdl_layer_t *layer = head->op->spec.layer;
    const double      *x = head->run->input[0];

    load_rows(head, head->k_channel, head->k);
    for (int64_t t = 0; t < head->tokens && head->past + t < head->op->spec.context; t++)
        for (int64_t i = 0; i < head->dim; i++) {
            *cached(head, 0, head->past + t, i) = head->k[t * head->dim + i];
            *cached(head, 1, head->past + t, i) =
                x[pdl__reference_at(&layer->in, head->sample, head->v_channel + i, t)];
        }
}

/* A query with all that is stored up to itself. */
static void forward_query(const head_t *head, int64_t query)
{
    const pdl_shape_t *out = &head->op->spec.layer->out;
    int64_t            keys = head->past + query + 1;
    double            *y = head->run->output, *p = head->p, largest = -INFINITY, sum = 0;

    for (int64_t j = 0; j < keys; j++) {
        p[j] = dot(&head->q[query * head->dim], cached(head, 0, j, 0), head->dim) / sqrt((double)head->dim);
        largest = fmax(largest, p[j]);
    }
    for (int64_t j = 0; j < keys; j++) sum += p[j] = exp(p[j] - largest);
    for (int64_t j = 0; j < keys; j++)
        for (int64_t i = 0; i < head->dim; i++)
            y[pdl__reference_at(out, head->sample, head->q_channel + i, query)] +=
                p[j] / sum * *cached(head, 1, j, i);
}

static void forward_cached(const head_t *head)
{
    store(head);
    load_rows(head, head->q_channel, head->q);
    for (int64_t query = 0; query < head->tokens && head->past + query < head->op->spec.context; query++)
        forward_query(head, query);
}

static pdl_status_t forward(const pdl_op_t *op, const pdl_op_run_t *run)
{
    for (int64_t n = 0; n < op->spec.samples; n++)
        for (int64_t h = 0; h < op->spec.layer->heads; h++) {
            head_t head = make_head(op, run, n, h);

            if (op->spec.context > 0)
                forward_cached(&head);
            else
                forward_head(&head);
        }
    return PDL_OK;
}

static pdl_status_t backward(const pdl_op_t *op, const pdl_op_run_t *run)
{
    for (int64_t n = 0; run->input_gradient[0] && n < op->spec.samples; n++)
        for (int64_t h = 0; h < op->spec.layer->heads; h++) {
            head_t head = make_head(op, run, n, h);

            backward_head(&head);
        }
    return PDL_OK;
}

const pdl__reference_kind_t pdl__reference_attention = {describe, forward, backward};
