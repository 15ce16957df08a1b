/*
 * Keys and values of earlier tokens, for generation: [2][samples][context][kv_heads][dim], keys turned by their angles.
 */
#include "tensor/cpu/sequence/attention.h"

#include "tensor/cpu/threads.h"

#include <string.h>

int64_t pdl__attention_past(const pdl__attention_pass_t *pass, int64_t sample)
{
    return pass->attention->context > 0 ? pass->run->past[sample] : 0;
}

/* Where a token of a sample has its keys or values. */
static float *place(const pdl__attention_pass_t *pass, int part, int64_t sample, int64_t token)
{
    const pdl__attention_t *attention = pass->attention;
    int64_t                 row = (part * attention->samples + sample) * attention->context + token;

    return (float *)pass->run->cache + row * attention->kv_heads * attention->dim;
}

pdl__matrix_t pdl__attention_cached(const pdl__attention_pass_t *pass, int part, int64_t sample, int64_t group,
                                    int64_t token)
{
    const pdl__attention_t *attention = pass->attention;

    return (pdl__matrix_t){place(pass, part, sample, token) + group * attention->dim,
                           attention->kv_heads * attention->dim, false};
}

/* Tokens [first, end) of all samples. */
static void store_slice(void *context, int64_t first, int64_t end)
{
    const pdl__attention_pass_t *pass = context;
    const pdl__attention_t      *attention = pass->attention;
    int64_t                      kv = attention->kv_heads * attention->dim;

    for (int64_t i = first; i < end; i++) {
        int64_t      sample = i / attention->tokens, at = pdl__attention_past(pass, sample) + i % attention->tokens;
        const float *keys =
            (const float *)pass->run->input[0] + i * attention->in_stride + attention->heads * attention->dim;

        if (at >= attention->context) continue;
        memcpy(place(pass, 0, sample, at), keys, (size_t)kv * sizeof(float));
        memcpy(place(pass, 1, sample, at), keys + kv, (size_t)kv * sizeof(float));
        for (int64_t g = 0; attention->rotary != NULL && g < attention->kv_heads; g++) {
            float *key = place(pass, 0, sample, at) + g * attention->dim;

            pdl__attention_rotate(attention, at, 1, 1, keys + g * attention->dim, 0, key, 0);
        }
    }
}

void pdl__attention_store(const pdl__attention_pass_t *pass)
{
    const pdl__attention_t *attention = pass->attention;

    pdl_threads_run(attention->samples * attention->tokens, 8192 / (attention->kv_heads * attention->dim) + 1,
                    store_slice, (void *)(uintptr_t)pass);
}
