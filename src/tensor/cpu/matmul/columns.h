/*
 * Sums over the rows of a matrix: gradients of what is added to, or multiplies, every row.
 */
#ifndef PDL_TENSOR_CPU_COLUMNS_H
#define PDL_TENSOR_CPU_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>

/* sums[j] = (add: +=) sum over i of matrix[i * stride + j]. Short runs of rows are summed in single precision,
   the runs in double; the order depends on the number of rows only. */
void pdl__column_sums(const float *matrix, int64_t rows, int64_t columns, int64_t stride, bool add, float *sums);

#endif
