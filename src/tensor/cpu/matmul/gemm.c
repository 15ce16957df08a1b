/*
 * Packing, and the loops around the register kernel.
 */
#include "tensor/cpu/matmul/gemm.h"

#include "tensor/cpu/simd.h"
#include "tensor/cpu/threads.h"

#define ROWS    PDL__GEMM_ROWS
#define COLUMNS PDL__GEMM_COLUMNS

/* What is packed at a time: up to DEPTH steps of k; as many columns of B as stay in the second-level cache (BAND
   floats in all, 512 KiB) while STRIP rows of A pass by. */
#define DEPTH 512
#define BAND  (128 * 1024)
#define STRIP 128

typedef float v8_t __attribute__((vector_size(32), aligned(4), may_alias));

/* Eight rows of eight, transposed: `in` has rows `in_stride` apart, `out` rows `out_stride` apart. */
PDL__INLINE void transpose8(const float *in, int64_t in_stride, float *out, int64_t out_stride)
{
    v8_t r[8], s[8];

#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) r[i] = *(const v8_t *)(in + i * in_stride);
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        int j = (i / 2) * 4 + i % 2;

        r[j] = __builtin_shufflevector(s[j], s[j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        r[j + 2] = __builtin_shufflevector(s[j], s[j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        *(v8_t *)(out + i * out_stride) = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        *(v8_t *)(out + (i + 4) * out_stride) = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* One panel [depth][width] of `count` <= width lines, where a line runs along k: element (line, p) at line *
   stride + p. */
PDL__INLINE void pack_lines(const float *in, int64_t stride, int64_t count, int64_t depth, int width, float *panel)
{
    int64_t whole = count / 8 * 8;

    for (int64_t line = 0; line < whole; line += 8) {
        int64_t p = 0;

        for (; p + 8 <= depth; p += 8) transpose8(in + line * stride + p, stride, panel + p * width + line, width);
        for (; p < depth; p++)
            for (int i = 0; i < 8; i++) panel[p * width + line + i] = in[(line + i) * stride + p];
    }
    for (int64_t line = whole; line < width; line++)
        for (int64_t p = 0; p < depth; p++) panel[p * width + line] = line < count ? in[line * stride + p] : 0.0f;
}

/* The same where k runs from row to row: element (line, p) at p * stride + line. */
PDL__INLINE void pack_rows(const float *in, int64_t stride, int64_t count, int64_t depth, int width, float *panel)
{
    if (count == width) {
        for (int64_t p = 0; p < depth; p++)
            for (int i = 0; i < width; i += 8)
                *(v8_t *)(panel + p * width + i) = *(const v8_t *)(in + p * stride + i);
        return;
    }
    for (int64_t p = 0; p < depth; p++)
        for (int64_t line = 0; line < width; line++)
            panel[p * width + line] = line < count ? in[p * stride + line] : 0.0f;
}

/* Four panels of A whose rows lie side by side, because one alone would use half of each cache line. */
PDL__INLINE void pack_four(const float *in, int64_t stride, int64_t k, float *panels)
{
    for (int64_t p = 0; p < k; p++)
        for (int i = 0; i < 4; i++)
            *(v8_t *)(panels + (i * k + p) * ROWS) = *(const v8_t *)(in + p * stride + i * ROWS);
}

PDL__CLONES void pdl__gemm_pack_a(const pdl__matrix_t *a, int64_t rows, int64_t k, float *panels)
{
    int64_t row = 0;

    for (; a->transposed && row + 4 * ROWS <= rows; row += 4 * ROWS, panels += 4 * ROWS * k)
        pack_four(a->data + row, a->stride, k, panels);
    for (; row < rows; row += ROWS, panels += ROWS * k) {
        int64_t count = rows - row < ROWS ? rows - row : ROWS;

        if (a->transposed)
            pack_rows(a->data + row, a->stride, count, k, ROWS, panels);
        else
            pack_lines(a->data + row * a->stride, a->stride, count, k, ROWS, panels);
    }
}

PDL__CLONES void pdl__gemm_pack_b(const pdl__matrix_t *b, int64_t k, int64_t columns, float *panels)
{
    for (int64_t column = 0; column < columns; column += COLUMNS, panels += COLUMNS * k) {
        int64_t count = columns - column < COLUMNS ? columns - column : COLUMNS;

        if (b->transposed)
            pack_lines(b->data + column * b->stride, b->stride, count, k, COLUMNS, panels);
        else
            pack_rows(b->data + column, b->stride, count, k, COLUMNS, panels);
    }
}

pdl__left_t pdl__gemm_left(const pdl__matrix_t *a, int64_t rows, int64_t k, float *panels)
{
    if (rows % ROWS != 0) {
        pdl__gemm_pack_a(a, rows, k, panels);
        return (pdl__left_t){panels, 1, ROWS, ROWS * k};
    }
    if (a->transposed) return (pdl__left_t){a->data, 1, a->stride, ROWS};
    return (pdl__left_t){a->data, a->stride, 1, ROWS * a->stride};
}

/* A part at the border of C is made in a buffer, because the kernel knows only whole ones. */
static void border(pdl__gemm_direct_fn_t kernel, int64_t k, const pdl__left_t *a, const float *b, float *c,
                   int64_t c_stride, int64_t rows, int64_t columns, bool add)
{
    float part[ROWS * COLUMNS];

    kernel(k, a, b, part, COLUMNS, false);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            float *out = c + i * c_stride + j;

            *out = add ? *out + part[i * COLUMNS + j] : part[i * COLUMNS + j];
        }
}

/* rows x columns of C from a left factor and packed panels. The rows of A that are multiplied stay in the
   first-level cache, while B passes by. */
static void multiply(pdl__gemm_direct_fn_t kernel, int64_t rows, int64_t columns, int64_t k, pdl__left_t a,
                     const float *b, float *c, int64_t c_stride, bool add)
{
    for (int64_t row = 0; row < rows; row += ROWS, a.data += a.panel)
        for (int64_t column = 0; column < columns; column += COLUMNS) {
            float *part = c + row * c_stride + column;

            if (rows - row >= ROWS && columns - column >= COLUMNS)
                kernel(k, &a, b + column * k, part, c_stride, add);
            else
                border(kernel, k, &a, b + column * k, part, c_stride, rows - row < ROWS ? rows - row : ROWS,
                       columns - column < COLUMNS ? columns - column : COLUMNS, add);
        }
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The part of a matrix that begins at (i, j). */
static pdl__matrix_t part_at(const pdl__matrix_t *matrix, int64_t i, int64_t j)
{
    pdl__matrix_t part = *matrix;

    part.data += matrix->transposed ? j * matrix->stride + i : i * matrix->stride + j;
    return part;
}

/* A strip of A as a left factor: rows that lie along k are read where they are; those that lie across it are not,
   because a column of them would fall into few sets of the cache. */
static pdl__left_t strip_of(const pdl__matrix_t *a, int64_t rows, int64_t k, float *panels)
{
    if (!a->transposed) return pdl__gemm_left(a, rows, k, panels);
    pdl__gemm_pack_a(a, rows, k, panels);
    return (pdl__left_t){panels, 1, ROWS, ROWS * k};
}

/* A rectangle of C. K is cut evenly, so that no cut is short. */
static void region(const pdl__gemm_t *gemm, int64_t row0, int64_t row1, int64_t column0, int64_t column1,
                   float *scratch)
{
    pdl__gemm_direct_fn_t kernel = pdl__gemm_direct();
    int64_t               cuts = (gemm->k + DEPTH - 1) / DEPTH, depth = ((gemm->k + cuts - 1) / cuts + 7) / 8 * 8;
    int64_t               band = BAND / depth / COLUMNS * COLUMNS;
    float                *packed_b = scratch, *packed_a = scratch + BAND;

    for (int64_t k0 = 0; k0 < gemm->k; k0 += depth) {
        int64_t k = smaller(depth, gemm->k - k0);
        bool    add = gemm->add || k0 > 0, last = k0 + k == gemm->k;

        for (int64_t column = column0; column < column1; column += band) {
            int64_t       columns = smaller(band, column1 - column);
            pdl__matrix_t b = part_at(&gemm->b, k0, column);

            pdl__gemm_pack_b(&b, k, columns, packed_b);
            for (int64_t row = row0; row < row1; row += STRIP) {
                int64_t       rows = smaller(STRIP, row1 - row);
                pdl__matrix_t a = part_at(&gemm->a, row, k0);

                multiply(kernel, rows, columns, k, strip_of(&a, rows, k, packed_a), packed_b,
                         gemm->c + row * gemm->c_stride + column, gemm->c_stride, add);
                if (last && gemm->after != NULL) gemm->after(gemm->after_context, row, rows, column, columns);
            }
        }
    }
}

typedef struct grid {
    const pdl__gemm_t *gemm;
    int64_t            down, across;  /* rectangles of C in each direction */
    int64_t            height, width; /* of one */
    float             *scratch;
} grid_t;

#define SCRATCH ((int64_t)BAND + DEPTH * STRIP)

static void run_slice(void *context, int64_t first, int64_t end)
{
    const grid_t *grid = context;

    for (int64_t i = first; i < end; i++) {
        int64_t row = i / grid->across * grid->height, column = i % grid->across * grid->width;

        if (row < grid->gemm->m && column < grid->gemm->n)
            region(grid->gemm, row, smaller(row + grid->height, grid->gemm->m), column,
                   smaller(column + grid->width, grid->gemm->n), grid->scratch + i * SCRATCH);
    }
}

static int64_t piece(int64_t size, int64_t count, int64_t unit)
{
    int64_t units = (size + unit - 1) / unit;

    return (units + count - 1) / count * unit;
}

size_t pdl__gemm_workspace(int threads)
{
    return (size_t)threads * SCRATCH * sizeof(float);
}

/* One rectangle a thread; of the ways to cut that leave nobody idle, the one where the longest packs and multiplies
   the least. Packing an element costs about as much as multiplying it with eight others, and reading one of A as it
   lies as much as with one. */
void pdl__gemm_run(const pdl__gemm_t *gemm, int threads, void *workspace)
{
    grid_t  grid = {.gemm = gemm, .scratch = workspace};
    int64_t best = INT64_MAX, left = gemm->a.transposed ? 8 : 1;

    if (gemm->m * gemm->n * gemm->k < INT64_C(32) * 32 * 32) threads = 1;
    for (int64_t down = 1; down <= threads; down++) {
        int64_t across = threads / down;
        int64_t height = piece(gemm->m, down, ROWS), width = piece(gemm->n, across, COLUMNS);
        int64_t cost = height * width + left * height * ((width + 511) / 512) + 8 * width;

        if (cost >= best) continue;
        best = cost;
        grid.down = down, grid.across = across, grid.height = height, grid.width = width;
    }
    pdl_threads_run(grid.down * grid.across, 1, run_slice, &grid);
}

void pdl__gemm_serial(const pdl__gemm_t *gemm, void *workspace)
{
    region(gemm, 0, gemm->m, 0, gemm->n, workspace);
}
