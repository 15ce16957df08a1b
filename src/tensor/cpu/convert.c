/*
 * Activation tensors from PLAIN to BLOCKED and back: for each sample and block, a transposition of
 * [channels][space] and [space][block]. Work is divided over samples and blocks, so that each piece of memory is
 * written by one thread.
 */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/simd.h"
#include "tensor/cpu/threads.h"

/* Positions handled at a time: 16 rows of 64 floats stay in the first-level cache. */
#define TILE 64

typedef struct pdl__conversion {
    const void *source;
    void       *target;
    int64_t     channels, blocks, space;
} pdl__conversion_t;

/* clang-format off */
#define DEFINE_CONVERSIONS(type, suffix)                                                                        \
    PDL__CLONES static void block_##suffix(void *context, int64_t first, int64_t end)                           \
    {                                                                                                           \
        const pdl__conversion_t *c = context;                                                                   \
                                                                                                                \
        for (int64_t i = first; i < end; i++) {                                                                 \
            int64_t sample = i / c->blocks, channel = i % c->blocks * PDL__BLOCK;                               \
            int64_t left = c->channels - channel, used = left < PDL__BLOCK ? left : PDL__BLOCK;                 \
            const type *restrict from = (const type *)c->source + (sample * c->channels + channel) * c->space;  \
            type *restrict to = (type *)c->target + i * c->space * PDL__BLOCK;                                  \
                                                                                                                \
            for (int64_t s = 0; s < c->space; s += TILE) {                                                      \
                int64_t stop = s + TILE < c->space ? s + TILE : c->space;                                       \
                                                                                                                \
                for (int64_t k = 0; k < used; k++) {                                                            \
                    _Pragma("omp simd")                                                                         \
                    for (int64_t p = s; p < stop; p++) to[p * PDL__BLOCK + k] = from[k * c->space + p];         \
                }                                                                                               \
                for (int64_t k = used; k < PDL__BLOCK; k++)                                                     \
                    for (int64_t p = s; p < stop; p++) to[p * PDL__BLOCK + k] = 0;                              \
            }                                                                                                   \
        }                                                                                                       \
    }                                                                                                           \
                                                                                                                \
    PDL__CLONES static void unblock_##suffix(void *context, int64_t first, int64_t end)                         \
    {                                                                                                           \
        const pdl__conversion_t *c = context;                                                                   \
                                                                                                                \
        for (int64_t i = first; i < end; i++) {                                                                 \
            int64_t sample = i / c->blocks, channel = i % c->blocks * PDL__BLOCK;                               \
            int64_t left = c->channels - channel, used = left < PDL__BLOCK ? left : PDL__BLOCK;                 \
            const type *restrict from = (const type *)c->source + i * c->space * PDL__BLOCK;                    \
            type *restrict to = (type *)c->target + (sample * c->channels + channel) * c->space;                \
                                                                                                                \
            for (int64_t s = 0; s < c->space; s += TILE) {                                                      \
                int64_t stop = s + TILE < c->space ? s + TILE : c->space;                                       \
                                                                                                                \
                for (int64_t k = 0; k < used; k++) {                                                            \
                    _Pragma("omp simd")                                                                         \
                    for (int64_t p = s; p < stop; p++) to[k * c->space + p] = from[p * PDL__BLOCK + k];         \
                }                                                                                               \
            }                                                                                                   \
        }                                                                                                       \
    }
/* clang-format on */

DEFINE_CONVERSIONS(float, f32)
DEFINE_CONVERSIONS(pdl__bf16_t, bf16)

pdl_status_t pdl__cpu_convert(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                              int64_t samples, pdl_format_t from, const void *source, pdl_format_t to, void *target)
{
    bool              bf16 = backend->activation_type == PDL_DTYPE_BF16;
    pdl__conversion_t conversion = {.source = source, .target = target, .channels = shape->channels};
    pdl_slice_fn_t    function;

    (void)stream;
    if (from == to || !pdl__cpu_blockable(shape)) {
        memcpy(target, source, backend->ops->tensor_bytes(backend, shape, samples, from));
        return PDL_OK;
    }
    conversion.blocks = (shape->channels + PDL__BLOCK - 1) / PDL__BLOCK;
    conversion.space = pdl_shape_positions(shape);
    if (to == PDL_FORMAT_BLOCKED)
        function = bf16 ? block_bf16 : block_f32;
    else
        function = bf16 ? unblock_bf16 : unblock_f32;
    pdl_threads_run(samples * conversion.blocks, 1 + 8192 / (conversion.space * PDL__BLOCK), function, &conversion);
    return PDL_OK;
}
