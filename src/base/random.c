/*
 * Philox 4x32 with ten rounds: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 *
 * The counter is (index, stream) and the key is the seed, each as two words of 32 bits with the lower one first.
 */
#include <paradl/base/random.h>

#include <math.h>
#include <stddef.h>

#define ROUNDS     10
#define MULTIPLY_0 0xD2511F53U
#define MULTIPLY_1 0xCD9E8D57U
#define WEYL_0     0x9E3779B9U
#define WEYL_1     0xBB67AE85U

__extension__ typedef unsigned __int128 wide_t;

void pdl_random_block(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p0 = (uint64_t)MULTIPLY_0 * c0, p1 = (uint64_t)MULTIPLY_1 * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += WEYL_0;
        k1 += WEYL_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Spreads every bit over all others; the finaliser of SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

uint64_t pdl_random_root(const char *purpose, uint64_t a)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);

    for (const unsigned char *c = (const unsigned char *)purpose; *c != '\0'; c++) {
        hash = (hash ^ *c) * UINT64_C(0x100000001B3);
    }
    return mix(mix(hash) ^ a);
}

uint64_t pdl_random_part(uint64_t root, uint64_t b)
{
    return mix(root ^ b);
}

/* One number after the other, so that exchanging the two gives another stream. */
uint64_t pdl_random_stream(const char *purpose, uint64_t a, uint64_t b)
{
    return pdl_random_part(pdl_random_root(purpose, a), b);
}

static uint64_t upper(const uint32_t block[4])
{
    return (uint64_t)block[1] << 32 | block[0];
}

static uint64_t lower(const uint32_t block[4])
{
    return (uint64_t)block[3] << 32 | block[2];
}

double pdl_random_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t block[4];

    pdl_random_block(seed, stream, index, block);
    return (double)(upper(block) >> 11) * 0x1p-53;
}

double pdl_random_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    const double two_pi = 6.283185307179586476925;
    uint32_t     block[4];
    double       radius, angle;

    pdl_random_block(seed, stream, index, block);
    /* Box and Muller; the first uniform is in (0, 1], so that its logarithm exists. */
    radius = sqrt(-2.0 * log((double)((upper(block) >> 11) + 1) * 0x1p-53));
    angle = two_pi * ((double)(lower(block) >> 11) * 0x1p-53);
    return radius * cos(angle);
}

uint64_t pdl_random_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t limit)
{
    /* Lemire 2019: the upper half of draw * limit is uniform once the draws whose lower half is below
       2^64 mod limit are left out. A block has two draws; another key gives more of them. */
    const uint64_t refused = (UINT64_MAX - limit + 1) % limit;

    for (uint64_t attempt = 0;; attempt++) {
        uint32_t block[4];
        wide_t   product;

        pdl_random_block(attempt == 0 ? seed : mix(seed ^ mix(attempt)), stream, index, block);
        product = (wide_t)upper(block) * limit;
        if ((uint64_t)product >= refused) return (uint64_t)(product >> 64);
        product = (wide_t)lower(block) * limit;
        if ((uint64_t)product >= refused) return (uint64_t)(product >> 64);
    }
}

/* Blocks per turn of the vector loop: a full register of 32-bit lanes where there is AVX-512. */
#define LANES 16

/* LANES consecutive blocks from `index` on as floats. The lower 32 bits of the index must not overflow on the way. The
   loops over lanes have no dependence, and gcc and clang turn each of them into vector instructions. */
static inline __attribute__((always_inline)) void fill_lanes(uint64_t seed, uint64_t stream, uint64_t index,
                                                             float *restrict out)
{
    uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);

    for (int i = 0; i < LANES; i++) {
        c0[i] = (uint32_t)index + (uint32_t)i;
        c1[i] = (uint32_t)(index >> 32);
        c2[i] = (uint32_t)stream;
        c3[i] = (uint32_t)(stream >> 32);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LANES; i++) {
            uint64_t p0 = (uint64_t)MULTIPLY_0 * c0[i], p1 = (uint64_t)MULTIPLY_1 * c2[i];

            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c1[i] = (uint32_t)p1;
            c3[i] = (uint32_t)p0;
        }
        k0 += WEYL_0;
        k1 += WEYL_1;
    }
    for (int i = 0; i < LANES; i++) {
        out[4 * i + 0] = (float)(int32_t)(c0[i] >> 8) * 0x1p-24F;
        out[4 * i + 1] = (float)(int32_t)(c1[i] >> 8) * 0x1p-24F;
        out[4 * i + 2] = (float)(int32_t)(c2[i] >> 8) * 0x1p-24F;
        out[4 * i + 3] = (float)(int32_t)(c3[i] >> 8) * 0x1p-24F;
    }
}

static inline __attribute__((always_inline)) void fill_blocks(uint64_t seed, uint64_t stream, uint64_t index,
                                                              int64_t turns, float *out)
{
    for (int64_t turn = 0; turn < turns; turn++) {
        fill_lanes(seed, stream, index + (uint64_t)turn * LANES, out + turn * LANES * 4);
    }
}

typedef void (*fill_fn_t)(uint64_t seed, uint64_t stream, uint64_t index, int64_t turns, float *out);

static void fill_plain(uint64_t seed, uint64_t stream, uint64_t index, int64_t turns, float *out)
{
    fill_blocks(seed, stream, index, turns, out);
}

/* The choice is made here and not with target_clones, whose resolvers run before a sanitizer has started. */
#if defined(__x86_64__)
static __attribute__((target("avx2"))) void fill_avx2(uint64_t seed, uint64_t stream, uint64_t index, int64_t turns,
                                                      float *out)
{
    fill_blocks(seed, stream, index, turns, out);
}

static __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))) void fill_avx512(uint64_t seed,
                                                                                      uint64_t stream,
                                                                                      uint64_t index, int64_t turns,
                                                                                      float *out)
{
    fill_blocks(seed, stream, index, turns, out);
}

static fill_fn_t fill_choose(void)
{
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw")) {
        return fill_avx512;
    }
    return __builtin_cpu_supports("avx2") ? fill_avx2 : fill_plain;
}
#else
static fill_fn_t fill_choose(void)
{
    return fill_plain;
}
#endif

/* Elements one by one, from blocks of which only a part may be wanted. */
static void fill_some(uint64_t seed, uint64_t stream, uint64_t first, int64_t count, float *out)
{
    uint32_t block[4];

    for (int64_t i = 0; i < count; i++) {
        uint64_t element = first + (uint64_t)i;

        if (i == 0 || element % 4 == 0) pdl_random_block(seed, stream, element / 4, block);
        out[i] = (float)(block[element % 4] >> 8) * 0x1p-24F;
    }
}

void pdl_random_fill(uint64_t seed, uint64_t stream, uint64_t first, int64_t count, float *out)
{
    const fill_fn_t fill = fill_choose();
    int64_t         done = (int64_t)((4 - first % 4) % 4);

    if (done > count) done = count;
    fill_some(seed, stream, first, done, out);
    while (count - done >= LANES * 4) {
        uint64_t index = (first + (uint64_t)done) / 4;
        int64_t  turns = (count - done) / (LANES * 4);
        uint64_t room = ((UINT64_C(1) << 32) - (uint32_t)index) / LANES; /* before the lower half overflows */

        if (room == 0) {
            fill_some(seed, stream, first + (uint64_t)done, LANES * 4, out + done);
            done += LANES * 4;
            continue;
        }
        if ((uint64_t)turns > room) turns = (int64_t)room;
        fill(seed, stream, index, turns, out + done);
        done += turns * LANES * 4;
    }
    fill_some(seed, stream, first + (uint64_t)done, count - done, out + done);
}

void pdl_random_permutation(uint64_t seed, uint64_t stream, int64_t count, int64_t *out)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t j = (int64_t)pdl_random_below(seed, stream, (uint64_t)i, (uint64_t)i + 1);

        /* From the inside out: element i takes the place j of those before it. */
        out[i] = out[j];
        out[j] = i;
    }
}
