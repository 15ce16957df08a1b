/*
 * Whether bytes arrived whole: SHA-256 (FIPS 180-4) against everybody, a fast sum against accidents.
 *
 *     char hex[PDL_SHA256_TEXT];
 *     if (pdl_sha256_file("train.bin", hex)) return ...;
 *     if (strcmp(hex, expected) != 0) ...
 */
#ifndef PARADL_DIGEST_H
#define PARADL_DIGEST_H

#include <paradl/base/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PDL_SHA256_TEXT 65 /* 64 hexadecimal digits and the final zero */

typedef struct pdl_sha256 {
    uint32_t state[8];
    uint64_t bytes;     /* taken so far */
    uint8_t  block[64]; /* of which the last bytes % 64 wait here */
} pdl_sha256_t;

void pdl_sha256_begin(pdl_sha256_t *sum);
void pdl_sha256_add(pdl_sha256_t *sum, const void *data, size_t size);
void pdl_sha256_end(pdl_sha256_t *sum, char hex[PDL_SHA256_TEXT]);

pdl_status_t pdl_sha256_file(const char *path, char hex[PDL_SHA256_TEXT]);

/* A sum of 64 bits, about as fast as memory is read. Any change within eight bytes at a multiple of eight changes it;
   another change goes unnoticed once in 2^64. Not against those who want to deceive. docs/checkpoint_format.md has
   the algorithm, for files depend on it. */
uint64_t pdl_sum64(const void *data, size_t size);

#ifdef __cplusplus
}
#endif
#endif
