/*
 * SHA-256 as FIPS 180-4 describes it, and a fast sum.
 */
#include <paradl/base/digest.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
                                       0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
                                       0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
                                       0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
                                       0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
                                       0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
                                       0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
                                       0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
                                       0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
                                       0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
                                       0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int bits)
{
    return x >> bits | x << (32 - bits);
}

static void expand(const uint8_t *block, uint32_t word[64])
{
    for (int i = 0; i < 16; i++, block += 4) {
        word[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t a = word[i - 15], b = word[i - 2];

        word[i] = word[i - 16] + word[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
                  (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
}

static void take_block(pdl_sha256_t *sum, const uint8_t *block)
{
    uint32_t word[64], s[8];

    expand(block, word);
    memcpy(s, sum->state, sizeof(s));
    for (int i = 0; i < 64; i++) {
        uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]), majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        uint32_t t1 =
            s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) + choice + constants[i] + word[i];
        uint32_t t2 = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) + majority;

        memmove(s + 1, s, 7 * sizeof(s[0]));
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) sum->state[i] += s[i];
}

void pdl_sha256_begin(pdl_sha256_t *sum)
{
    /* The first 32 bits of the fractional parts of the square roots of the first eight primes. */
    *sum = (pdl_sha256_t){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void pdl_sha256_add(pdl_sha256_t *sum, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    size_t         used = sum->bytes % 64;

    sum->bytes += size;
    if (used > 0) {
        size_t part = size < 64 - used ? size : 64 - used;

        memcpy(sum->block + used, bytes, part);
        if (used + part < 64) return;
        take_block(sum, sum->block);
        bytes += part;
        size -= part;
    }
    for (; size >= 64; size -= 64, bytes += 64) take_block(sum, bytes);
    if (size > 0) memcpy(sum->block, bytes, size);
}

void pdl_sha256_end(pdl_sha256_t *sum, char hex[PDL_SHA256_TEXT])
{
    const uint64_t bits = sum->bytes * 8;
    const size_t   used = sum->bytes % 64;
    uint8_t        end[72] = {0x80};
    const size_t   zeros = (used < 56 ? 56 : 120) - used; /* up to the length, the bit after the text included */

    for (int i = 0; i < 8; i++) end[zeros + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    pdl_sha256_add(sum, end, zeros + 8);
    for (int i = 0; i < 8; i++) snprintf(hex + 8 * i, 9, "%08x", (unsigned)sum->state[i]);
}

pdl_status_t pdl_sha256_file(const char *path, char hex[PDL_SHA256_TEXT])
{
    const size_t size = (size_t)1 << 16;
    FILE        *file = fopen(path, "rb");
    uint8_t     *buffer = malloc(size);
    pdl_status_t status = PDL_OK;
    pdl_sha256_t sum;
    size_t       count;

    if (file == NULL) {
        status = pdl_error(PDL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    } else if (buffer == NULL) {
        status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    } else {
        pdl_sha256_begin(&sum);
        while ((count = fread(buffer, 1, size, file)) > 0) pdl_sha256_add(&sum, buffer, count);
        if (ferror(file)) {
            status = pdl_error(PDL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
        } else {
            pdl_sha256_end(&sum, hex);
        }
    }
    free(buffer);
    if (file != NULL) fclose(file);
    return status;
}

#define LANES 8

/* A bijection of the state for every word, and of the word for every state: no single change is lost. */
static uint64_t take_word(uint64_t state, uint64_t word)
{
    state = (state ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return state << 29 | state >> 35;
}

/* Eight lanes take every eighth word each, so that their multiplications overlap. */
uint64_t pdl_sum64(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    uint64_t       lane[LANES], word[LANES], sum = size;

    for (int i = 0; i < LANES; i++) lane[i] = UINT64_C(0xBF58476D1CE4E5B9) * (uint64_t)(i + 1);
    for (; size >= sizeof(word); size -= sizeof(word), bytes += sizeof(word)) {
        memcpy(word, bytes, sizeof(word));
        for (int i = 0; i < LANES; i++) lane[i] = take_word(lane[i], word[i]);
    }
    memset(word, 0, sizeof(word));
    if (size > 0) memcpy(word, bytes, size);
    for (int i = 0; i < LANES; i++) sum = take_word(sum, take_word(lane[i], word[i]));
    return sum ^ sum >> 32;
}
