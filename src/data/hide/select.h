/*
 * Losses as whole numbers of the same order.
 */
#ifndef PDL_DATA_HIDE_SELECT_H
#define PDL_DATA_HIDE_SELECT_H

#include <stdint.h>
#include <string.h>

#define PDL__KEY_NAN UINT32_MAX /* above every other, infinity included */

/* Of the bits of a loss. Both zeros have the same key. */
static inline uint32_t pdl__bits_key(uint32_t bits)
{
    /* Negative numbers are ordered backwards, and all of them come before the others. */
    uint32_t key = bits ^ ((0u - (bits >> 31)) | UINT32_C(0x80000000));

    key = bits << 1 == 0 ? UINT32_C(0x80000000) : key;
    return bits << 1 > UINT32_C(0xff000000) ? PDL__KEY_NAN : key;
}

static inline uint32_t pdl__loss_key(float loss)
{
    uint32_t bits;

    memcpy(&bits, &loss, sizeof(bits));
    return pdl__bits_key(bits);
}

static inline float pdl__key_loss(uint32_t key)
{
    uint32_t bits = key >> 31 ? key ^ UINT32_C(0x80000000) : ~key;
    float    loss;

    memcpy(&loss, &bits, sizeof(loss));
    return loss;
}

#endif
