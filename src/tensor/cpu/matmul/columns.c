/*
 * Sums over rows. Threads divide the columns, so that each sum is made by one thread from top to bottom.
 */
#include "tensor/cpu/matmul/columns.h"

#include "tensor/cpu/simd.h"
#include "tensor/cpu/threads.h"

#define WIDTH 64 /* columns at a time: the sums stay in registers and in the first-level cache */
#define RUN   16 /* rows summed in single precision */

typedef struct columns {
    const float *matrix;
    int64_t      rows, stride;
    bool         add;
    float       *sums;
} columns_t;

PDL__CLONES static void sum_band(const columns_t *columns, int64_t first, int64_t width)
{
    double total[WIDTH] = {0};

    for (int64_t row = 0; row < columns->rows; row += RUN) {
        int64_t end = row + RUN < columns->rows ? row + RUN : columns->rows;
        float   run[WIDTH] = {0};

        for (int64_t i = row; i < end; i++) {
            const float *line = columns->matrix + i * columns->stride + first;

#pragma omp simd
            for (int64_t j = 0; j < width; j++) run[j] += line[j];
        }
#pragma omp simd
        for (int64_t j = 0; j < width; j++) total[j] += (double)run[j];
    }
    for (int64_t j = 0; j < width; j++) {
        float *sum = &columns->sums[first + j];

        *sum = columns->add ? *sum + (float)total[j] : (float)total[j];
    }
}

static void sum_slice(void *context, int64_t first, int64_t end)
{
    const columns_t *columns = context;

    for (int64_t j = first; j < end; j += WIDTH) sum_band(columns, j, end - j < WIDTH ? end - j : WIDTH);
}

void pdl__column_sums(const float *matrix, int64_t rows, int64_t columns, int64_t stride, bool add, float *sums)
{
    columns_t context = {.matrix = matrix, .rows = rows, .stride = stride, .add = add, .sums = sums};
    int64_t   grain = rows * WIDTH >= 16384 ? WIDTH : 16384 / (rows > 0 ? rows : 1) + WIDTH;

    pdl_threads_run(columns, grain, sum_slice, &context);
}
