/*
 * Attention: what both directions share, and forward.
 */
#include "tensor/cpu/sequence/attention.h"

#include "tensor/cpu/threads.h"
#include "tensor/cpu/vmath.h"

#include <float.h>
#include <paradl/base/random.h>
#include <stdlib.h>

#define QUERIES PDL__ATTENTION_QUERIES
#define KEYS    PDL__ATTENTION_KEYS

/* Llama: pair i of dim / 2 turns by position * base^(-i / (dim / 2)). */
static const double rotary_base = 10000;

static pdl_status_t attention_prepare(pdl__cpu_t *cpu, pdl_op_t *op)
{
    pdl__attention_t *attention = op->private_data;
    int64_t           half = attention->dim / 2;
    int64_t           positions = attention->context > 0 ? attention->context : attention->tokens;

    (void)cpu;
    if (!op->spec.layer->rotary) return PDL_OK;
    attention->rotary = malloc((size_t)(positions * attention->dim) * sizeof(float));
    if (attention->rotary == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", op->spec.layer->name);
    for (int64_t t = 0; t < positions; t++)
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)(op->spec.origin.space[0] + t) * pow(rotary_base, -(double)i / (double)half);

            attention->rotary[2 * (t * half + i)] = (float)cos(angle);
            attention->rotary[2 * (t * half + i) + 1] = (float)sin(angle);
        }
    return PDL_OK;
}

static void attention_destroy(pdl_op_t *op)
{
    pdl__attention_t *attention = op->private_data;

    if (attention != NULL) free(attention->rotary);
    free(attention);
}

static pdl_status_t attention_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    const pdl_layer_t  *layer = op->spec.layer;
    const pdl_origin_t *origin = &op->spec.origin;
    pdl__attention_t   *attention;
    int64_t             forward, backward;

    if (layer->rotary && layer->head_dim % 2 != 0)
        return pdl_error(PDL_ERR_INPUT, "%s: rotary attention needs an even head_dim, not %lld", layer->name,
                         (long long)layer->head_dim);
    if (op->spec.context > 0 && (!layer->causal || op->spec.training))
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: only causal attention can go on from earlier tokens",
                         layer->name);
    attention = calloc(1, sizeof(*attention));
    if (attention == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", layer->name);
    attention->samples = op->spec.samples;
    attention->tokens = layer->in.extent[0];
    attention->heads = layer->heads;
    attention->kv_heads = layer->kv_heads;
    attention->dim = layer->head_dim;
    attention->wide = (layer->head_dim + PDL__GEMM_COLUMNS - 1) / PDL__GEMM_COLUMNS * PDL__GEMM_COLUMNS;
    attention->in_stride = layer->in.channels;
    attention->out_stride = layer->out.channels;
    attention->all_heads = origin->whole.channels > 0 ? origin->whole.channels / layer->head_dim : layer->heads;
    attention->at_head = origin->channel / layer->head_dim;
    attention->context = op->spec.context;
    attention->causal = layer->causal;
    attention->scale = (float)(1 / sqrt((double)layer->head_dim));
    attention->rate = (float)layer->rate;
    op->description.cache_bytes =
        2 * (size_t)(attention->samples * attention->context * attention->kv_heads * attention->dim) *
        sizeof(float);
    op->private_data = attention;
    forward = pdl__attention_forward_scratch(attention) * cpu->base.threads;
    backward = pdl__attention_backward_scratch(attention) * cpu->base.threads +
               attention->samples * attention->heads * attention->tokens;
    op->description.keeps_inputs = 1;
    op->description.keeps_output = op->spec.training;
    if (op->spec.training)
        op->description.saved_bytes =
            (size_t)(attention->samples * attention->heads * attention->tokens) * sizeof(float);
    op->description.workspace_bytes =
        (size_t)(op->spec.training && backward > forward ? backward : forward) * sizeof(float);
    return PDL_OK;
}

PDL__CLONES void pdl__attention_rotate(const pdl__attention_t *attention, int64_t token, int64_t count,
                                       float direction, const float *from, int64_t from_stride, float *to,
                                       int64_t to_stride)
{
    int64_t half = attention->dim / 2;

    for (int64_t t = 0; t < count; t++) {
        const float *angle = attention->rotary + (token + t) * attention->dim;
        const float *in = from + t * from_stride;
        float       *out = to + t * to_stride;

#pragma omp simd
        for (int64_t i = 0; i < half; i++) {
            float a = in[i], b = in[half + i], cosine = angle[2 * i], sine = direction * angle[2 * i + 1];

            out[i] = a * cosine - b * sine;
            out[half + i] = b * cosine + a * sine;
        }
    }
}

pdl__matrix_t pdl__attention_rows(const pdl__attention_pass_t *pass, int64_t sample, int64_t channel, int64_t token,
                                  int64_t count, bool rotate, float *rotated)
{
    const pdl__attention_t *attention = pass->attention;
    const float            *rows = pass->run->input[0];

    rows += (sample * attention->tokens + token) * attention->in_stride + channel;
    if (!rotate || attention->rotary == NULL) return (pdl__matrix_t){rows, attention->in_stride, false};
    pdl__attention_rotate(attention, pdl__attention_past(pass, sample) + token, count, 1, rows,
                          attention->in_stride, rotated, attention->dim);
    return (pdl__matrix_t){rotated, attention->dim, false};
}

bool pdl__attention_keep(const pdl__attention_pass_t *pass, int64_t sample, int64_t head, int64_t query,
                         int64_t key, int64_t count, float *keep)
{
    const pdl__attention_t *attention = pass->attention;
    int64_t row = (pass->run->first_sample + sample) * attention->all_heads + attention->at_head + head;
    float   kept = 1.0f / (1.0f - attention->rate);

    if (!pass->run->training || attention->rate == 0) return false;
    pdl_random_fill(pass->run->seed, pass->stream,
                    (uint64_t)((row * attention->tokens + query) * attention->tokens + key), count, keep);
    for (int64_t j = 0; j < count; j++) keep[j] = keep[j] < attention->rate ? 0 : kept;
    return true;
}

void pdl__attention_scores(const pdl__attention_t *attention, int64_t queries, int64_t keys, int64_t ahead,
                           pdl__left_t a, const float *b, float *scores)
{
    pdl__gemm_direct_fn_t kernel = pdl__gemm_direct();

    for (int64_t i = 0; i < queries; i += PDL__GEMM_ROWS, a.data += a.panel)
        for (int64_t j = 0; j < pdl__attention_seen(attention, keys, ahead, i + PDL__GEMM_ROWS - 1);
             j += PDL__GEMM_COLUMNS)
            kernel(attention->dim, &a, b + j * attention->dim, scores + i * KEYS + j, KEYS, false);
}

pdl__attention_pass_t pdl__attention_start(const pdl_op_t *op, const pdl_op_run_t *run, void *scratch,
                                           int64_t scratch_elements)
{
    return (pdl__attention_pass_t){.attention = op->private_data,
                                   .run = run,
                                   .stream = pdl_random_stream("attention", op->spec.id, run->step),
                                   .lse = op->spec.training ? run->saved : NULL,
                                   .scratch = scratch,
                                   .scratch_elements = scratch_elements,
                                   .workers = op->backend->threads};
}

/* The scratch of one worker. */
typedef struct forward {
    float      *queries, *k, *v; /* panels */
    pdl__left_t q;               /* as they lie, or the panels */
    float      *scores;          /* of a tile */
    float      *sum;             /* [QUERIES][wide], the output before it is divided */
    float      *rotated, *rotated_queries;
    float      *keep;
    float       largest[QUERIES];
    double      total[QUERIES];
} forward_t;

int64_t pdl__attention_forward_scratch(const pdl__attention_t *attention)
{
    return 2 * (QUERIES + KEYS) * attention->dim + (QUERIES + KEYS) * attention->wide + QUERIES * KEYS + KEYS;
}

static forward_t place_forward(const pdl__attention_t *attention, float *scratch)
{
    forward_t f;

    f.queries = scratch;
    f.k = f.queries + QUERIES * attention->dim;
    f.v = f.k + KEYS * attention->dim;
    f.scores = f.v + KEYS * attention->wide;
    f.sum = f.scores + QUERIES * KEYS;
    f.rotated = f.sum + QUERIES * attention->wide;
    f.rotated_queries = f.rotated + KEYS * attention->dim;
    f.keep = f.rotated_queries + QUERIES * attention->dim;
    return f;
}

/* Scores of one query to exp(scale (score - largest)), 0 beyond `seen`; returns the factor for what was summed
   before. */
PDL__CLONES static float weigh(int64_t seen, float scale, float *scores, float *largest, double *total)
{
    float high = pdl__largest(seen, scores), sum = 0, factor;

    high = high > *largest ? high : *largest;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < seen; j++) {
        scores[j] = pdl__expf(scale * (scores[j] - high));
        sum += scores[j];
    }
    memset(scores + seen, 0, (size_t)(KEYS - seen) * sizeof(float));
    factor = *total > 0 ? pdl__expf(scale * (*largest - high)) : 0.0f;
    *total = *total * (double)factor + (double)sum;
    *largest = high;
    return factor;
}

PDL__CLONES static void multiply_row(int64_t count, const float *factor, int64_t step, float *row)
{
    if (step == 0) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) row[i] *= factor[0];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) row[i] *= factor[i];
    }
}

/* sum += weights * v, key by key up to the last that a panel of queries sees. The last panel may have rows beyond
   the last query; what they come to is not read. */
static void add_values(const pdl__attention_t *attention, const forward_t *f, int64_t queries, int64_t keys,
                       int64_t ahead)
{
    pdl__gemm_direct_fn_t kernel = pdl__gemm_direct();
    pdl__left_t           weights = {f->scores, KEYS, 1, PDL__GEMM_ROWS * KEYS};

    for (int64_t i = 0; i < queries; i += PDL__GEMM_ROWS, weights.data += weights.panel) {
        int64_t seen = pdl__attention_seen(attention, keys, ahead, i + PDL__GEMM_ROWS - 1);

        for (int64_t c = 0; seen > 0 && c < attention->wide; c += PDL__GEMM_COLUMNS)
            kernel(seen, &weights, f->v + c * keys, f->sum + i * attention->wide + c, attention->wide, true);
    }
}

/* Adds the keys [key, key + keys) to the queries of the tile. */
static void forward_keys(const pdl__attention_pass_t *pass, forward_t *f, int64_t sample, int64_t head,
                         int64_t query, int64_t queries, int64_t key, int64_t keys)
{
    const pdl__attention_t *attention = pass->attention;
    int64_t                 group = head / (attention->heads / attention->kv_heads);
    int64_t                 ahead = pdl__attention_past(pass, sample) + query - key;
    int64_t                 k_channel = (attention->heads + group) * attention->dim;
    int64_t                 v_channel = k_channel + attention->kv_heads * attention->dim;
    pdl__matrix_t           k, v;

    if (attention->context > 0) {
        k = pdl__attention_cached(pass, 0, sample, group, key);
        v = pdl__attention_cached(pass, 1, sample, group, key);
    } else {
        k = pdl__attention_rows(pass, sample, k_channel, key, keys, true, f->rotated);
        v = pdl__attention_rows(pass, sample, v_channel, key, keys, false, NULL);
    }
    k.transposed = true;
    pdl__gemm_pack_b(&k, attention->dim, keys, f->k);
    pdl__gemm_pack_b(&v, keys, attention->dim, f->v);
    pdl__attention_scores(attention, queries, keys, ahead, f->q, f->k, f->scores);
    for (int64_t i = 0; i < queries; i++) {
        float  *row = f->scores + i * KEYS;
        int64_t seen = pdl__attention_seen(attention, keys, ahead, i);
        float   factor;

        if (seen == 0) {
            memset(row, 0, KEYS * sizeof(float));
            continue;
        }
        factor = weigh(seen, attention->scale, row, &f->largest[i], &f->total[i]);
        multiply_row(attention->wide, &factor, 0, f->sum + i * attention->wide);
        if (pdl__attention_keep(pass, sample, head, query + i, key, seen, f->keep))
            multiply_row(seen, f->keep, 1, row);
    }
    add_values(attention, f, queries, keys, ahead);
}

static void forward_tile(const pdl__attention_pass_t *pass, forward_t *f, int64_t sample, int64_t head,
                         int64_t query)
{
    const pdl__attention_t *attention = pass->attention;
    int64_t                 queries = attention->tokens - query < QUERIES ? attention->tokens - query : QUERIES;
    int64_t                 past = pdl__attention_past(pass, sample);
    int64_t                 beyond = attention->context > 0 ? past + query + queries - attention->context : 0;
    int64_t                 end;
    float        *y = (float *)pass->run->output + (sample * attention->tokens + query) * attention->out_stride;
    int64_t       at = (sample * attention->heads + head) * attention->tokens + query;
    pdl__matrix_t q;

    for (int64_t i = queries - (beyond > queries ? queries : beyond); beyond > 0 && i < queries; i++)
        memset(y + i * attention->out_stride + head * attention->dim, 0, (size_t)attention->dim * sizeof(float));
    if (beyond > 0) queries -= beyond;
    if (queries <= 0) return;
    end = attention->causal ? past + query + queries : attention->tokens;
    q = pdl__attention_rows(pass, sample, head * attention->dim, query, queries, true, f->rotated_queries);
    f->q = pdl__gemm_left(&q, queries, attention->dim, f->queries);
    memset(f->sum, 0, (size_t)(QUERIES * attention->wide) * sizeof(float));
    for (int64_t i = 0; i < queries; i++) {
        f->largest[i] = -FLT_MAX;
        f->total[i] = 0;
    }
    for (int64_t key = 0; key < end; key += KEYS)
        forward_keys(pass, f, sample, head, query, queries, key, end - key < KEYS ? end - key : KEYS);
    for (int64_t i = 0; i < queries; i++) {
        float factor = (float)(1 / f->total[i]), *row = f->sum + i * attention->wide;

        multiply_row(attention->dim, &factor, 0, row);
        memcpy(y + i * attention->out_stride + head * attention->dim, row, (size_t)attention->dim * sizeof(float));
        if (pass->lse != NULL) pass->lse[at + i] = attention->scale * f->largest[i] + (float)log(f->total[i]);
    }
}

/* Later tiles of a causal sequence have more keys: workers take turns. */
static void forward_worker(void *context, int64_t first, int64_t end)
{
    const pdl__attention_pass_t *pass = context;
    const pdl__attention_t      *attention = pass->attention;
    int64_t                      tiles = (attention->tokens + QUERIES - 1) / QUERIES;

    for (int64_t worker = first; worker < end; worker++) {
        forward_t f = place_forward(attention, pass->scratch + worker * pass->scratch_elements);

        for (int64_t i = worker; i < attention->samples * attention->heads * tiles; i += pass->workers) {
            int64_t row = i / tiles;

            forward_tile(pass, &f, row / attention->heads, row % attention->heads, i % tiles * QUERIES);
        }
    }
}

static pdl_status_t attention_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    pdl__attention_pass_t pass =
        pdl__attention_start(op, run, run->workspace, pdl__attention_forward_scratch(op->private_data));

    if (op->spec.context > 0) pdl__attention_store(&pass);
    pdl_threads_run(pass.workers, 1, forward_worker, &pass);
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_attention = {.describe = attention_describe,
                                            .prepare = attention_prepare,
                                            .destroy = attention_destroy,
                                            .forward = attention_forward,
                                            .backward = pdl__attention_backward,
                                            .wide = true};
