/*
 * Text generation: a causal language model goes on from prompts, token after token, with a key-value cache.
 *
 *     pdl_generate_spec_t spec = {.model = model, .initial = weights, ..., .prompts = 2, .prompt_tokens = 7, .tokens = 100};
 *     pdl_generator_create(&spec, &generator);
 *     pdl_generator_run(generator, prompts, 2, &options, out, counts, &summary);
 *
 * A prompt is read in pieces of `piece` tokens (prefill); then every run computes one token of each prompt, whose keys and values are added to
 * the cache. Prompts may have different lengths. What comes for a prompt depends on it, the seed and its number alone, and is
 * the same without the cache. One rank; prompts are shared out over several by the caller.
 */
#ifndef PARADL_GENERATE_H
#define PARADL_GENERATE_H

#include <paradl/base/status.h>
#include <paradl/train/predict.h>
#include <paradl/train/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_generate_spec {
    const pdl_model_t  *model; /* borrowed, as the next ones */
    pdl_backend_t      *backend;
    pdl_ranks_t        *ranks;         /* a group of one */
    pdl_initial_file_t *initial;       /* the weights; NULL: drawn ones */
    int64_t             prompts;       /* at a time */
    int64_t             prompt_tokens; /* of the longest prompt */
    int64_t             tokens;        /* to generate, at most */
    int64_t             piece;         /* tokens of a prompt that are read at once; 0: up to 64 */
    bool                no_cache;      /* everything is computed again for every token */
} pdl_generate_spec_t;

typedef struct pdl_generator pdl_generator_t;

/* PDL_ERR_LIMIT where prompts and tokens together are more than the model has positions. */
pdl_status_t pdl_generator_create(const pdl_generate_spec_t *spec, pdl_generator_t **generator);
void         pdl_generator_destroy(pdl_generator_t *generator); /* NULL is allowed */
/* Bytes that are held, of them those of keys and values. */
void pdl_generator_memory(const pdl_generator_t *generator, size_t *total, size_t *cache);
/* A plan of the run that computes one token of every prompt; the generator's. For projections. */
const pdl_plan_t *pdl_generator_plan(const pdl_generator_t *generator);

typedef struct pdl_prompt {
    const int32_t *tokens;
    int64_t        count;  /* at least 1 */
    int64_t        number; /* of all prompts: its random numbers follow from it */
} pdl_prompt_t;

typedef struct pdl_generate_options {
    double   temperature; /* 0: always the most probable token */
    int64_t  top_k;       /* only the most probable ones; 0: all */
    uint64_t seed;
    int32_t  end; /* a token that ends a text, which is not part of it; -1: none */
} pdl_generate_options_t;

typedef struct pdl_generate_summary {
    int64_t prompt_tokens, tokens, runs; /* read; generated; runs that made one token of every prompt each */
    double  prefill_s, decode_s;
    double *seconds; /* of the runs, where there is room; the caller's, or NULL */
    int64_t room;
} pdl_generate_summary_t;

/* Goes on from `count` prompts, at most spec.prompts. out: [count][spec.tokens], counts: how many tokens each has got. What was read,
   made and taken is added to *summary. */
pdl_status_t pdl_generator_run(pdl_generator_t *generator, const pdl_prompt_t *prompts, int64_t count,
                               const pdl_generate_options_t *options, int32_t *out, int64_t *counts,
                               pdl_generate_summary_t *summary);

/* A token by its logits: token number `at` of a prompt. `scratch` has room for as many floats. */
int32_t pdl_generate_choose(const float *logits, int64_t classes, const pdl_generate_options_t *options,
                            int64_t prompt, int64_t at, float *scratch);

#ifdef __cplusplus
}
#endif
#endif
