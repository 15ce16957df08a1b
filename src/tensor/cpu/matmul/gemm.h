/*
 * Matrix products in single precision: C = A B or C += A B, with something done to each finished part of C while it
 * is in the cache.
 *
 * Operands are packed into panels, [k][PDL__GEMM_ROWS] of A and [k][PDL__GEMM_COLUMNS] of B, and a register kernel
 * multiplies one by the other (Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008).
 * Rows of A that lie along k are not packed: the kernel reads them one element at a time in any case. An element of
 * C is summed over k in an order that depends on nothing but the number of terms: not on threads, not on its
 * neighbours, not on packing.
 */
#ifndef PDL_TENSOR_CPU_GEMM_H
#define PDL_TENSOR_CPU_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PDL__GEMM_ROWS    8
#define PDL__GEMM_COLUMNS 32

/* A matrix as it lies: element (i, j) at i * stride + j, or when transposed at j * stride + i. */
typedef struct pdl__matrix {
    const float *data;
    int64_t      stride;
    bool         transposed;
} pdl__matrix_t;

/* Is given a finished part of C: rows [row, row + rows), columns [column, column + columns). */
typedef void (*pdl__gemm_after_fn_t)(void *context, int64_t row, int64_t rows, int64_t column, int64_t columns);

typedef struct pdl__gemm {
    int64_t              m, n, k;
    pdl__matrix_t        a, b; /* m x k and k x n */
    float               *c;
    int64_t              c_stride;
    bool                 add;   /* to what C holds */
    pdl__gemm_after_fn_t after; /* may be NULL */
    void                *after_context;
} pdl__gemm_t;

/* Scratch for pdl__gemm_run with this backend's threads, and for pdl__gemm_serial. */
size_t pdl__gemm_workspace(int threads);
void   pdl__gemm_run(const pdl__gemm_t *gemm, int threads, void *workspace);
void   pdl__gemm_serial(const pdl__gemm_t *gemm, void *workspace);

/* The pieces, for products that stay in the cache. Panels are padded with zeros up to their width. */

/* `rows` x `k` of A to panels of PDL__GEMM_ROWS rows, k x `columns` of B to panels of PDL__GEMM_COLUMNS columns. */
void pdl__gemm_pack_a(const pdl__matrix_t *a, int64_t rows, int64_t k, float *panels);
void pdl__gemm_pack_b(const pdl__matrix_t *b, int64_t k, int64_t columns, float *panels);

/* One PDL__GEMM_ROWS x PDL__GEMM_COLUMNS part of C from one panel of each. */
typedef void (*pdl__gemm_kernel_fn_t)(int64_t k, const float *a, const float *b, float *c, int64_t c_stride,
                                      bool add);
pdl__gemm_kernel_fn_t pdl__gemm_kernel(void); /* the fastest that this processor has */

/* A left factor as it lies, where that is as fast as panels: element (i, p) at i * row + p * step, one of which is
   1; `panel` is from one PDL__GEMM_ROWS rows to the next. */
typedef struct pdl__left {
    const float *data;
    int64_t      row, step, panel;
} pdl__left_t;

/* The factor without packing, or, where rows are not whole panels and the kernel would read beyond, packed into
   `panels`. */
pdl__left_t pdl__gemm_left(const pdl__matrix_t *a, int64_t rows, int64_t k, float *panels);

/* As pdl__gemm_kernel, with the PDL__GEMM_ROWS rows that begin at a->data. The sums have the same bits. */
typedef void (*pdl__gemm_direct_fn_t)(int64_t k, const pdl__left_t *a, const float *b, float *c, int64_t c_stride,
                                      bool add);
pdl__gemm_direct_fn_t pdl__gemm_direct(void);

#endif
