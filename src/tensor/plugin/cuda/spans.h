/*
 * Tables of ranges of flat arrays: a kernel takes several ranges at once, as an argument. Every range has blocks of threads of
 * its own, which depend on its length alone, so that sums always have the same order.
 */
#ifndef PDL_TENSOR_CUDA_SPANS_H
#define PDL_TENSOR_CUDA_SPANS_H

#include "tensor/plugin/cuda/elements.h"

#define PDL__SPANS         40 /* in one launch: arguments of a kernel may have 4 KiB */
#define PDL__SPAN_THREADS  256
#define PDL__SPAN_PARTIALS 1024 /* blocks of a range whose elements are summed, at most: scratch memory has room */
static_assert(PDL__SPANS * PDL__SPAN_PARTIALS * sizeof(double) <= PDL__STREAM_SCRATCH);

struct pdl_span {
    int64_t elements;
    int64_t at[4];       /* where it begins, in the arrays of the kernel */
    int     first_block; /* of the grid */
    int     parts;       /* blocks */
    int     index;       /* in the table of the caller */
    bool    aligned;     /* eight elements can be read at once */
    bool    decays;      /* what an update says of it */
};

struct pdl_spans {
    int      count, blocks;
    pdl_span span[PDL__SPANS];

    void add(pdl_span one, int most)
    {
        int64_t wanted = (one.elements / 8 + PDL__SPAN_THREADS - 1) / PDL__SPAN_THREADS;

        one.first_block = blocks;
        one.parts = wanted < 1 ? 1 : wanted > most ? most : (int)wanted;
        blocks += one.parts;
        span[count++] = one;
    }
    /* That of this block. */
    __device__ const pdl_span &mine() const
    {
        int k = 0;

        while (k + 1 < count && (int)blockIdx.x >= span[k + 1].first_block) k++;
        return span[k];
    }
};

/* What this block does of its range: `step` has eight(i) and one(i). */
template <typename F> __device__ __forceinline__ void pdl_walk(const pdl_span &span, const F &step)
{
    int64_t first = (int64_t)((int)blockIdx.x - span.first_block) * blockDim.x + threadIdx.x;
    int64_t by = (int64_t)span.parts * blockDim.x, packs = span.aligned ? span.elements / 8 : 0;

    for (int64_t i = first; i < packs; i += by) step.eight(8 * i);
    for (int64_t i = 8 * packs + first; i < span.elements; i += by) step.one(i);
}

/* The same in fours, so that what a warp reads has no gaps; two of them, `by` apart, are in flight together. `step` has
   fours<N>(i, by) and one(i). */
template <typename F> __device__ __forceinline__ void pdl_walk_fours(const pdl_span &span, const F &step)
{
    int64_t first = (int64_t)((int)blockIdx.x - span.first_block) * blockDim.x + threadIdx.x;
    int64_t by = (int64_t)span.parts * blockDim.x, packs = span.aligned ? span.elements / 4 : 0, i = first;

    for (; i + by < packs; i += 2 * by) step.template fours<2>(4 * i, 4 * by);
    if (i < packs) step.template fours<1>(4 * i, 0);
    for (i = 4 * packs + first; i < span.elements; i += by) step.one(i);
}

/* Adds up the partial sums of every range, one a block; a range is a block of this kernel. Where *scale (NULL: 1) is not finite
   sums stay as they are. */
static __global__ void pdl__finish_spans(const __grid_constant__ pdl_spans spans, const double *partial,
                                         const double *scale, double *sums)
{
    __shared__ double shared[32];
    const pdl_span   &span = spans.span[blockIdx.x];
    double            sum = 0;

    if (scale != NULL && !isfinite(*scale)) return;
    for (int i = pdl_thread(); i < span.parts; i += pdl_threads()) sum += partial[span.first_block + i];
    sum = pdl_block_sum(sum, shared);
    if (pdl_thread() == 0) sums[span.index] = sum;
}

#endif
