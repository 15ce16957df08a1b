/*
 * Attention, backward. With p the weights of a query, o its output and D = do . o: dv = p^T do, dp = do v^T, ds =
 * scale p (dp - D), dq = ds k, dk = ds^T q; dropped weights are left out of dv and dp.
 *
 * One worker has a key head with all the queries that read it, so that every sum has its order.
 */
#include "tensor/cpu/sequence/attention.h"
#include "tensor/cpu/threads.h"
#include "tensor/cpu/vmath.h"

#define QUERIES PDL__ATTENTION_QUERIES
#define KEYS    PDL__ATTENTION_KEYS

/* The scratch of one worker; _a and _b: as panels of a left and a right factor, _t: transposed. */
typedef struct backward {
    float      *k_tb, *k_b, *v_tb, *q_a, *q_b, *do_a, *do_b;
    pdl__left_t q, gradient; /* as they lie, or q_a and do_a */
    float      *p, *ds;      /* of a tile */
    float      *dq;          /* [QUERIES][wide] */
    float      *dk, *dv;     /* [KEYS][wide] */
    float      *rotated, *keep;
} backward_t;

static int64_t place(const pdl__attention_t *attention, float *scratch, backward_t *b)
{
    int64_t dim = attention->dim, wide = attention->wide, used = 0;
    struct {
        float **at;
        int64_t elements;
    } parts[] = {{&b->k_tb, KEYS * dim},     {&b->k_b, KEYS * wide},    {&b->v_tb, KEYS * dim},
                 {&b->q_a, QUERIES * dim},   {&b->q_b, QUERIES * wide}, {&b->do_a, QUERIES * dim},
                 {&b->do_b, QUERIES * wide}, {&b->p, QUERIES * KEYS},   {&b->ds, QUERIES * KEYS},
                 {&b->dq, QUERIES * wide},   {&b->dk, KEYS * wide},     {&b->dv, KEYS * wide},
                 {&b->rotated, KEYS * dim},  {&b->keep, KEYS}};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (scratch != NULL) *parts[i].at = scratch + used;
        used += parts[i].elements;
    }
    return used;
}

int64_t pdl__attention_backward_scratch(const pdl__attention_t *attention)
{
    backward_t unused;

    return place(attention, NULL, &unused);
}

/* The tile that is worked on. */
typedef struct tile {
    int64_t sample, head, group;
    int64_t query, queries, key, keys;
} tile_t;

PDL__CLONES static float dot(int64_t count, const float *a, const float *b)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

/* One query: scores in p and dp in ds become the weights, kept or dropped, and ds; 0 beyond what it sees. */
PDL__CLONES static void weigh(int64_t seen, float scale, float lse, float d, const float *keep, float *p, float *ds)
{
    if (keep == NULL) {
#pragma omp simd
        for (int64_t j = 0; j < seen; j++) {
            p[j] = pdl__expf(scale * p[j] - lse);
            ds[j] = scale * p[j] * (ds[j] - d);
        }
    } else {
#pragma omp simd
        for (int64_t j = 0; j < seen; j++) {
            float weight = pdl__expf(scale * p[j] - lse);

            p[j] = weight * keep[j];
            ds[j] = scale * weight * (ds[j] * keep[j] - d);
        }
    }
    memset(p + seen, 0, (size_t)(KEYS - seen) * sizeof(float));
    memset(ds + seen, 0, (size_t)(KEYS - seen) * sizeof(float));
}

static void load_keys(const pdl__attention_pass_t *pass, const backward_t *b, const tile_t *tile)
{
    const pdl__attention_t *attention = pass->attention;
    int64_t                 k_channel = (attention->heads + tile->group) * attention->dim;
    int64_t                 v_channel = k_channel + attention->kv_heads * attention->dim;
    pdl__matrix_t k = pdl__attention_rows(pass, tile->sample, k_channel, tile->key, tile->keys, true, b->rotated);
    pdl__matrix_t v = pdl__attention_rows(pass, tile->sample, v_channel, tile->key, tile->keys, false, NULL);

    pdl__gemm_pack_b(&k, tile->keys, attention->dim, b->k_b);
    k.transposed = v.transposed = true;
    pdl__gemm_pack_b(&k, attention->dim, tile->keys, b->k_tb);
    pdl__gemm_pack_b(&v, attention->dim, tile->keys, b->v_tb);
}

static void load_queries(const pdl__attention_pass_t *pass, backward_t *b, const tile_t *tile)
{
    const pdl__attention_t *attention = pass->attention;
    const float            *dy = pass->run->output_gradient[0];
    pdl__matrix_t           q = pdl__attention_rows(pass, tile->sample, tile->head * attention->dim, tile->query,
                                                    tile->queries, true, b->rotated);
    pdl__matrix_t gradient = {dy + (tile->sample * attention->tokens + tile->query) * attention->out_stride +
                                  tile->head * attention->dim,
                              attention->out_stride, false};

    b->q = pdl__gemm_left(&q, tile->queries, attention->dim, b->q_a);
    pdl__gemm_pack_b(&q, tile->queries, attention->dim, b->q_b);
    b->gradient = pdl__gemm_left(&gradient, tile->queries, attention->dim, b->do_a);
    pdl__gemm_pack_b(&gradient, tile->queries, attention->dim, b->do_b);
}

/* p and ds of the tile. */
static void make_scores(const pdl__attention_pass_t *pass, const backward_t *b, const tile_t *tile)
{
    const pdl__attention_t *attention = pass->attention;
    int64_t                 ahead = tile->query - tile->key;
    int64_t                 at = (tile->sample * attention->heads + tile->head) * attention->tokens + tile->query;

    pdl__attention_scores(attention, tile->queries, tile->keys, ahead, b->q, b->k_tb, b->p);
    pdl__attention_scores(attention, tile->queries, tile->keys, ahead, b->gradient, b->v_tb, b->ds);
    for (int64_t i = 0; i < tile->queries; i++) {
        int64_t seen = pdl__attention_seen(attention, tile->keys, ahead, i);
        bool    drops = seen > 0 &&
                     pdl__attention_keep(pass, tile->sample, tile->head, tile->query + i, tile->key, seen, b->keep);

        weigh(seen, attention->scale, pass->lse[at + i], pass->dots[at + i], drops ? b->keep : NULL,
              b->p + i * KEYS, b->ds + i * KEYS);
    }
}

/* dv += p^T do and dk += ds^T q, from the first query on that sees any key of a panel. Rows of p and ds go on with
   zeros beyond the last key. */
static void add_keys(const pdl__attention_t *attention, const backward_t *b, const tile_t *tile)
{
    pdl__gemm_direct_fn_t kernel = pdl__gemm_direct();

    for (int64_t j = 0; j < tile->keys; j += PDL__GEMM_ROWS) {
        int64_t from = attention->causal ? tile->key + j - tile->query : 0;
        int64_t skip = from > 0 ? from : 0, count = tile->queries - skip;

        for (int64_t c = 0; count > 0 && c < attention->wide; c += PDL__GEMM_COLUMNS) {
            pdl__left_t p = {b->p + skip * KEYS + j, 1, KEYS, PDL__GEMM_ROWS};
            pdl__left_t ds = {b->ds + skip * KEYS + j, 1, KEYS, PDL__GEMM_ROWS};
            int64_t     right = c * tile->queries + skip * PDL__GEMM_COLUMNS, to = j * attention->wide + c;

            kernel(count, &p, b->do_b + right, b->dv + to, attention->wide, true);
            kernel(count, &ds, b->q_b + right, b->dk + to, attention->wide, true);
        }
    }
}

PDL__CLONES static void store_row(int64_t count, bool add, const float *from, float *to)
{
    if (!add) {
        memcpy(to, from, (size_t)count * sizeof(float));
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] += from[i];
}

/* dq (+)= ds k: the first tile of keys writes, later ones add. Rows beyond the last query are not read. */
static void add_queries(const pdl__attention_pass_t *pass, const backward_t *b, const tile_t *tile)
{
    const pdl__attention_t *attention = pass->attention;
    pdl__gemm_direct_fn_t   kernel = pdl__gemm_direct();
    pdl__left_t             ds = {b->ds, KEYS, 1, PDL__GEMM_ROWS * KEYS};
    float                  *dx = (float *)pass->run->input_gradient[0] +
                (tile->sample * attention->tokens + tile->query) * attention->in_stride +
                tile->head * attention->dim;

    for (int64_t i = 0; i < tile->queries; i += PDL__GEMM_ROWS, ds.data += ds.panel) {
        int64_t seen = pdl__attention_seen(attention, tile->keys, tile->query - tile->key, i + PDL__GEMM_ROWS - 1);

        for (int64_t c = 0; c < attention->wide; c += PDL__GEMM_COLUMNS)
            kernel(seen, &ds, b->k_b + c * tile->keys, b->dq + i * attention->wide + c, attention->wide, false);
    }
    for (int64_t i = 0; i < tile->queries; i++)
        store_row(attention->dim, tile->key > 0, b->dq + i * attention->wide, dx + i * attention->in_stride);
}

static void store_keys(const pdl__attention_pass_t *pass, const backward_t *b, const tile_t *tile)
{
    const pdl__attention_t *attention = pass->attention;
    float                  *dk = (float *)pass->run->input_gradient[0] +
                (tile->sample * attention->tokens + tile->key) * attention->in_stride +
                (attention->heads + tile->group) * attention->dim;
    float *dv = dk + attention->kv_heads * attention->dim;

    if (attention->rotary != NULL)
        pdl__attention_rotate(attention, tile->key, tile->keys, -1, b->dk, attention->wide, b->dk, attention->wide);
    for (int64_t j = 0; j < tile->keys; j++) {
        store_row(attention->dim, false, b->dk + j * attention->wide, dk + j * attention->in_stride);
        store_row(attention->dim, false, b->dv + j * attention->wide, dv + j * attention->in_stride);
    }
}

/* A tile of keys with every query that sees it. */
static void backward_keys(const pdl__attention_pass_t *pass, backward_t *b, tile_t *tile)
{
    const pdl__attention_t *attention = pass->attention;
    int64_t                 share = attention->heads / attention->kv_heads;
    int64_t                 first = attention->causal ? tile->key / QUERIES * QUERIES : 0;

    load_keys(pass, b, tile);
    memset(b->dk, 0, (size_t)(2 * KEYS * attention->wide) * sizeof(float)); /* dv lies behind dk */
    for (tile->head = tile->group * share; tile->head < (tile->group + 1) * share; tile->head++)
        for (tile->query = first; tile->query < attention->tokens; tile->query += QUERIES) {
            tile->queries = attention->tokens - tile->query < QUERIES ? attention->tokens - tile->query : QUERIES;
            load_queries(pass, b, tile);
            make_scores(pass, b, tile);
            add_keys(attention, b, tile);
            add_queries(pass, b, tile);
        }
    store_keys(pass, b, tile);
}

static void backward_group(const pdl__attention_pass_t *pass, backward_t *b, int64_t sample, int64_t group)
{
    const pdl__attention_t *attention = pass->attention;
    int64_t                 share = attention->heads / attention->kv_heads;
    tile_t                  tile = {.sample = sample, .group = group};
    float *dx = (float *)pass->run->input_gradient[0] + sample * attention->tokens * attention->in_stride;

    for (tile.key = 0; tile.key < attention->tokens; tile.key += KEYS) {
        tile.keys = attention->tokens - tile.key < KEYS ? attention->tokens - tile.key : KEYS;
        backward_keys(pass, b, &tile);
    }
    for (int64_t head = group * share; attention->rotary != NULL && head < (group + 1) * share; head++)
        pdl__attention_rotate(attention, 0, attention->tokens, -1, dx + head * attention->dim, attention->in_stride,
                              dx + head * attention->dim, attention->in_stride);
}

static void backward_worker(void *context, int64_t first, int64_t end)
{
    const pdl__attention_pass_t *pass = context;
    const pdl__attention_t      *attention = pass->attention;

    for (int64_t worker = first; worker < end; worker++) {
        backward_t b = {0};

        place(attention, pass->scratch + worker * pass->scratch_elements, &b);
        for (int64_t i = worker; i < attention->samples * attention->kv_heads; i += pass->workers)
            backward_group(pass, &b, i / attention->kv_heads, i % attention->kv_heads);
    }
}

/* Output times its gradient, for every query of every head. */
static void dots_slice(void *context, int64_t first, int64_t end)
{
    const pdl__attention_pass_t *pass = context;
    const pdl__attention_t      *attention = pass->attention;
    const float                 *y = pass->run->output, *dy = pass->run->output_gradient[0];

    for (int64_t row = first; row < end; row++)
        for (int64_t head = 0; head < attention->heads; head++) {
            int64_t at = row * attention->out_stride + head * attention->dim;
            int64_t sample = row / attention->tokens, token = row % attention->tokens;

            pass->dots[(sample * attention->heads + head) * attention->tokens + token] =
                dot(attention->dim, y + at, dy + at);
        }
}

pdl_status_t pdl__attention_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    const pdl__attention_t *attention = op->private_data;
    int64_t                 rows = attention->samples * attention->tokens;
    float                  *dots = run->workspace;
    pdl__attention_pass_t   pass =
        pdl__attention_start(op, run, dots + rows * attention->heads, pdl__attention_backward_scratch(attention));

    if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[0] == NULL) return PDL_OK;
    pass.dots = dots;
    pdl_threads_run(rows, 8192 / attention->out_stride + 1, dots_slice, &pass);
    pdl_threads_run(pass.workers, 1, backward_worker, &pass);
    return PDL_OK;
}
