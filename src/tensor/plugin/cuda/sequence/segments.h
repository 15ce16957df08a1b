/*
 * Products of segments of rows, each with a matrix of its own, by tiles of 64 x 64; inside moe.cu.
 */
#ifndef PDL_TENSOR_CUDA_SEGMENTS_H
#define PDL_TENSOR_CUDA_SEGMENTS_H

#include "tensor/plugin/cuda/teams.h"

#define PDL_TILE  64
#define PDL_DEPTH 16 /* of factors in shared memory */

/* out [rows][n] (+)= in [rows][k] w, w [k][n] or, turned, [n][k] of the segment's expert. */
struct pdl_segments {
    int64_t        experts, n, k, most; /* most: rows of all segments */
    const int64_t *start;
    const void    *in;
    const float   *weight;
    bool           turned, add;
    void          *out;
};

/* gradient [n][k] of every expert (+)= the sum over its rows of d [rows][n] x [rows][k]. */
struct pdl_segment_sums {
    int64_t        experts, n, k;
    const int64_t *start;
    const void    *d, *x;
    float         *gradient;
    bool           add;
};

/* 256 threads have 4 x 4 numbers each of a tile: c += a^T b, with a and b [PDL_DEPTH][PDL_TILE]. */
static __device__ __forceinline__ void pdl_multiply_tile(const float (*a)[PDL_TILE + 1],
                                                         const float (*b)[PDL_TILE + 1], float c[4][4])
{
    int row = threadIdx.x / 16, column = threadIdx.x % 16;

    for (int k = 0; k < PDL_DEPTH; k++) {
        float x[4], y[4];

        for (int i = 0; i < 4; i++) {
            x[i] = a[k][row + 16 * i];
            y[i] = b[k][column + 16 * i];
        }
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) c[i][j] += x[i] * y[j];
    }
}

template <typename T> static __global__ void __launch_bounds__(256) pdl_segment_product(pdl_segments s)
{
    __shared__ float a[PDL_DEPTH][PDL_TILE + 1], b[PDL_DEPTH][PDL_TILE + 1];
    int64_t          across = (s.n + PDL_TILE - 1) / PDL_TILE, expert = 0, before = 0;

    for (int64_t tile = blockIdx.x;; tile += gridDim.x) {
        int64_t down = tile / across, column = tile % across * PDL_TILE, row, end;
        float   c[4][4] = {};

        for (; expert < s.experts; expert++) {
            int64_t tiles = (s.start[expert + 1] - s.start[expert] + PDL_TILE - 1) / PDL_TILE;

            if (down < before + tiles) break;
            before += tiles;
        }
        if (expert == s.experts) return;
        row = s.start[expert] + (down - before) * PDL_TILE;
        end = s.start[expert + 1];
        for (int64_t depth = 0; depth < s.k; depth += PDL_DEPTH) {
            __syncthreads();
            for (int i = threadIdx.x; i < PDL_TILE * PDL_DEPTH; i += 256) {
                int64_t r = row + i / PDL_DEPTH, k = depth + i % PDL_DEPTH;

                a[i % PDL_DEPTH][i / PDL_DEPTH] = r < end && k < s.k ? (float)((const T *)s.in)[r * s.k + k] : 0.0f;
            }
            for (int i = threadIdx.x; i < PDL_TILE * PDL_DEPTH; i += 256) {
                int     d = s.turned ? i % PDL_DEPTH : i / PDL_TILE, at = s.turned ? i / PDL_DEPTH : i % PDL_TILE;
                int64_t k = depth + d, n = column + at;

                b[d][at] = k < s.k && n < s.n
                               ? s.weight[expert * s.n * s.k + (s.turned ? n * s.k + k : k * s.n + n)]
                               : 0.0f;
            }
            __syncthreads();
            pdl_multiply_tile(a, b, c);
        }
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                int64_t r = row + threadIdx.x / 16 + 16 * i, n = column + threadIdx.x % 16 + 16 * j;

                if (r >= end || n >= s.n) continue;
                T *to = (T *)s.out + r * s.n + n;
                *to = T(s.add ? (float)*to + c[i][j] : c[i][j]);
            }
    }
}

template <typename T> static __global__ void __launch_bounds__(256) pdl_segment_gradient(pdl_segment_sums s)
{
    __shared__ float a[PDL_DEPTH][PDL_TILE + 1], b[PDL_DEPTH][PDL_TILE + 1];
    int64_t          across = (s.k + PDL_TILE - 1) / PDL_TILE, down = (s.n + PDL_TILE - 1) / PDL_TILE;

    for (int64_t tile = blockIdx.x; tile < s.experts * across * down; tile += gridDim.x) {
        int64_t expert = tile / (across * down), n0 = tile / across % down * PDL_TILE,
                k0 = tile % across * PDL_TILE;
        float c[4][4] = {};

        for (int64_t row = s.start[expert]; row < s.start[expert + 1]; row += PDL_DEPTH) {
            __syncthreads();
            for (int i = threadIdx.x; i < PDL_TILE * PDL_DEPTH; i += 256) {
                int64_t r = row + i / PDL_TILE, n = n0 + i % PDL_TILE, k = k0 + i % PDL_TILE;
                bool    is_row = r < s.start[expert + 1];

                a[i / PDL_TILE][i % PDL_TILE] = is_row && n < s.n ? (float)((const T *)s.d)[r * s.n + n] : 0.0f;
                b[i / PDL_TILE][i % PDL_TILE] = is_row && k < s.k ? (float)((const T *)s.x)[r * s.k + k] : 0.0f;
            }
            __syncthreads();
            pdl_multiply_tile(a, b, c);
        }
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                int64_t n = n0 + threadIdx.x / 16 + 16 * i, k = k0 + threadIdx.x % 16 + 16 * j;

                if (n >= s.n || k >= s.k) continue;
                float *to = s.gradient + (expert * s.n + n) * s.k + k;
                *to = s.add ? *to + c[i][j] : c[i][j];
            }
    }
}

#endif
