/*
 * Products of matrices and sums of columns. Matrices lie row by row, without gaps unless it is said.
 */
#ifndef PDL_TENSOR_CUDA_MATMUL_H
#define PDL_TENSOR_CUDA_MATMUL_H

#include "tensor/plugin/cuda/runtime.h"

#include <paradl/tensor/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

/* d [m][n] = f(a [m][k] b [k][n] + c + bias), summed in single precision. */
typedef struct pdl__cuda_matmul_spec {
    int64_t          m, n, k;
    bool             a_turned, b_turned; /* a lies [k][m], b lies [n][k] */
    int64_t          a_row;              /* elements from one row of a to the next; 0: as many as it has */
    pdl_dtype_t      type, out;          /* of a, b, and of c, d */
    bool             bias;               /* of every column, in the type of d */
    pdl_layer_type_t activation;         /* ReLU, GELU of the tanh form, or PDL_NO_ACTIVATION */
    bool             adds;               /* usually with c: the algorithm is chosen so */
    bool             keeps_before;       /* GELU: what it is applied to is written too, in the type of d */
    bool             tf32;               /* factors in fp32 may be rounded to 10 bits */
} pdl__cuda_matmul_spec_t;

typedef struct pdl__cuda_matmul_run {
    const void *a, *b;
    const void *c; /* NULL: nothing is added; may be d */
    const void *bias;
    void       *d, *before;
    void       *workspace; /* pdl__cuda_matmul_workspace() bytes */
} pdl__cuda_matmul_run_t;

/* What split sums may take: enough for eight parts of small products, which need them. */
static inline size_t pdl__cuda_matmul_sums(int64_t m, int64_t n)
{
    size_t most = (size_t)32 << 20, parts = 8 * (size_t)m * (size_t)n * sizeof(float);

    return parts < most ? (parts + 255) / 256 * 256 : most;
}

/* The library wants them at addresses that divide by 256, which those of workspaces need not. */
#define PDL__MATMUL_ALIGNMENT 256

static inline size_t pdl__cuda_matmul_workspace(int64_t m, int64_t n)
{
    return pdl__cuda_matmul_sums(m, n) + PDL__MATMUL_ALIGNMENT;
}

/* Sums of columns are made in parts of the rows first, at most so many. */
static inline int64_t pdl__cuda_column_parts(int64_t rows, int64_t columns)
{
    int64_t parts = ((int64_t)4 << 20) / columns;

    if (parts > 256) parts = 256;
    if (parts > (rows + 7) / 8) parts = (rows + 7) / 8;
    return parts > 0 ? parts : 1;
}

static inline size_t pdl__cuda_columns_workspace(int64_t rows, int64_t columns)
{
    return (size_t)(pdl__cuda_column_parts(rows, columns) * columns) * sizeof(float);
}

/* The gradient of a matrix through an activation that was applied to it, and the sums of its columns. */
typedef struct pdl__cuda_slopes {
    pdl_layer_type_t function;
    int64_t          rows, columns;
    const void      *kept; /* input or output of the activation, as its trait says */
    const void      *dy;
    void            *dz;
    bool             add;  /* to the sums */
    float           *sums; /* NULL: not wanted */
    float           *parts;
} pdl__cuda_slopes_t;

typedef struct pdl__cuda_matmul pdl__cuda_matmul_t;

typedef struct pdl__cuda_products {
    /* Chooses an algorithm, by timing where that is worth while; takes time and memory for that. */
    pdl_status_t (*create)(pdl__gpu_t *gpu, const pdl__cuda_matmul_spec_t *spec, pdl__cuda_matmul_t **matmul);
    void (*destroy)(pdl__cuda_matmul_t *matmul); /* NULL is allowed */
    pdl_status_t (*run)(pdl__cuda_matmul_t *matmul, pdl_tensor_stream_t *stream, const pdl__cuda_matmul_run_t *run);
    /* sums[c] (+)= the sum of column c of a matrix whose rows are `stride` elements apart.
       `parts`: pdl__cuda_columns_workspace() bytes. */
    pdl_status_t (*sum_columns)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const void *matrix,
                                int64_t rows, int64_t columns, int64_t stride, bool add, float *sums, float *parts);
    pdl_status_t (*slope_columns)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                  const pdl__cuda_slopes_t *slopes);
} pdl__cuda_products_t;

extern const pdl__cuda_products_t pdl__cuda_products;

/* Inside the plugins (columns.cu). */
pdl_status_t pdl__cuda_sum_columns(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                   const void *matrix, int64_t rows, int64_t columns, int64_t stride, bool add,
                                   float *sums, float *parts);
pdl_status_t pdl__cuda_slope_columns(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                     const pdl__cuda_slopes_t *slopes);
/* sums[c] (+)= the sum over parts of parts[part * stride + c], in double precision, and other[c] that of the columns behind
   (NULL: not wanted). */
pdl_status_t pdl__cuda_finish_columns(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const float *parts,
                                      int64_t count, int64_t columns, int64_t stride, bool add, float *sums,
                                      float *other);
/* d = f(d + bias) of a product that was made without, and what f is applied to (NULL: not wanted). */
pdl_status_t pdl__cuda_finish_product(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream,
                                      const pdl__cuda_matmul_spec_t *spec, void *d, const void *bias, void *before);
/* Uniform in [-1, 1), for timing. */
pdl_status_t pdl__cuda_fill_random(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, void *values,
                                   int64_t count);

#ifdef __cplusplus
}
#endif
#endif
