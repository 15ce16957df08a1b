/*
 * Counter-based random numbers: what is drawn depends on the seed and on *what* is drawn (the stream and the index
 * within it), never on how many ranks draw or in which order. So every strategy can be compared with the serial run,
 * number by number.
 *
 *     uint64_t stream = pdl_random_stream("dropout", layer, step);
 *     float keep = pdl_random_uniform(seed, stream, element) >= rate;
 *
 * The generator is Philox 4x32 with ten rounds (Salmon, Moraes, Dror, Shaw, SC 2011).
 */
#ifndef PARADL_RANDOM_H
#define PARADL_RANDOM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The 128 bits of one counter. */
void pdl_random_block(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4]);

/* A stream of its own for a purpose and two numbers. */
uint64_t pdl_random_stream(const char *purpose, uint64_t a, uint64_t b);
/* The same in two parts: pdl_random_stream(purpose, a, b) = pdl_random_part(pdl_random_root(purpose, a), b). */
uint64_t pdl_random_root(const char *purpose, uint64_t a);
uint64_t pdl_random_part(uint64_t root, uint64_t b);

double   pdl_random_uniform(uint64_t seed, uint64_t stream, uint64_t index); /* [0, 1), 53 bits */
double   pdl_random_normal(uint64_t seed, uint64_t stream, uint64_t index);  /* mean 0, variance 1 */
uint64_t pdl_random_below(uint64_t seed, uint64_t stream, uint64_t index,
                          uint64_t limit); /* [0, limit), limit > 0 */

/* out[0 .. count-1] = uniforms of indices first, first+1, ... in single precision; four to a block, so this is
   the fast way to draw many: element i is word i%4 of block i/4, as a multiple of 2^-24. */
void pdl_random_fill(uint64_t seed, uint64_t stream, uint64_t first, int64_t count, float *out);

/* A random permutation of 0 .. count-1 (Fisher and Yates). */
void pdl_random_permutation(uint64_t seed, uint64_t stream, int64_t count, int64_t *out);

#ifdef __cplusplus
}
#endif
#endif
