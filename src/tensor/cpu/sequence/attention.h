/*
 * Attention by tiles: scores of some queries with some keys at a time, never all of them (Dao et al.,
 * FlashAttention, 2022). Forward keeps the log of each query's sum of exponentials; backward makes the tiles again
 * from it.
 */
#ifndef PDL_TENSOR_CPU_ATTENTION_H
#define PDL_TENSOR_CPU_ATTENTION_H

#include "tensor/cpu/cpu.h"
#include "tensor/cpu/matmul/gemm.h"

#define PDL__ATTENTION_QUERIES 64  /* of a tile; a multiple of PDL__GEMM_ROWS */
#define PDL__ATTENTION_KEYS    128 /* a multiple of PDL__GEMM_COLUMNS */

typedef struct pdl__attention {
    int64_t samples, tokens, heads, kv_heads, dim;
    int64_t wide;               /* dim, rounded up to whole panels */
    int64_t in_stride;          /* from one token's q, k, v to the next */
    int64_t out_stride;         /* heads * dim */
    int64_t all_heads, at_head; /* of the whole tensor, of which this may be a piece */
    int64_t context;            /* generation: positions that the cache has; else 0 */
    bool    causal;
    float   scale, rate; /* of scores; of dropout */
    float  *rotary;      /* [tokens, or context][dim / 2][2]: cosine and sine, or NULL */
} pdl__attention_t;

/* One run, forward or backward. */
typedef struct pdl__attention_pass {
    const pdl__attention_t *attention;
    const pdl_op_run_t     *run;
    uint64_t                stream; /* of random numbers */
    float                  *lse;    /* [samples][heads][tokens] */
    float                  *dots;   /* backward: [samples][heads][tokens], output times its gradient */
    float                  *scratch;
    int64_t                 scratch_elements; /* of one worker */
    int                     workers;
} pdl__attention_pass_t;

/* Floats that one worker needs. */
int64_t pdl__attention_forward_scratch(const pdl__attention_t *attention);
int64_t pdl__attention_backward_scratch(const pdl__attention_t *attention);

pdl_status_t pdl__attention_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what);

/* Fills in what both directions need; the scratch begins at `scratch`. */
pdl__attention_pass_t pdl__attention_start(const pdl_op_t *op, const pdl_op_run_t *run, void *scratch,
                                           int64_t scratch_elements);

/* `count` tokens of one head from channel `channel` of the input, as they are or rotated into `rotated`
   [count][dim]. */
pdl__matrix_t pdl__attention_rows(const pdl__attention_pass_t *pass, int64_t sample, int64_t channel, int64_t token,
                                  int64_t count, bool rotate, float *rotated);

/* Turns vectors [count][stride] of tokens from `token` on by their angles, or back; to and from may be the same. */
void pdl__attention_rotate(const pdl__attention_t *attention, int64_t token, int64_t count, float direction,
                           const float *from, int64_t from_stride, float *to, int64_t to_stride);

/* keep[j] = 0 or 1 / (1 - rate) for `count` keys from `key` on; false when nothing is dropped. */
bool pdl__attention_keep(const pdl__attention_pass_t *pass, int64_t sample, int64_t head, int64_t query,
                         int64_t key, int64_t count, float *keep);

/* cache.c: tokens of a sample that are stored before this run; all tokens of a run to the cache; and keys (part 0) or values (1) in it. */
int64_t       pdl__attention_past(const pdl__attention_pass_t *pass, int64_t sample);
void          pdl__attention_store(const pdl__attention_pass_t *pass);
pdl__matrix_t pdl__attention_cached(const pdl__attention_pass_t *pass, int part, int64_t sample, int64_t group,
                                    int64_t token);

/* scores [queries][PDL__ATTENTION_KEYS] of a tile from a left factor and panels, leaving out what no query of a
   panel may see: key j is seen by query i when j <= i + ahead. */
void pdl__attention_scores(const pdl__attention_t *attention, int64_t queries, int64_t keys, int64_t ahead,
                           pdl__left_t a, const float *b, float *scores);

/* How many of a tile's keys query i sees. */
static inline int64_t pdl__attention_seen(const pdl__attention_t *attention, int64_t keys, int64_t ahead, int64_t i)
{
    int64_t seen = ahead + i + 1;

    if (!attention->causal || seen > keys) return keys;
    return seen > 0 ? seen : 0;
}

#endif
