/*
 * Between batch_norm.c, which knows layers, and its kernels, which know vectors.
 *
 * A tensor is cut into *panels*: rows of up to sixteen lanes at a fixed distance. A panel of a BLOCKED tensor is a
 * part of the space of one block (lanes are channels); of a sequence or vector, some rows of sixteen channels; of a
 * PLAIN image, the space of one channel of one sample, all lanes being that channel.
 */
#ifndef PDL_TENSOR_CPU_BATCH_NORM_H
#define PDL_TENSOR_CPU_BATCH_NORM_H

#include <paradl/tensor/backend.h>

typedef struct pdl__panels {
    bool    single;                            /* one channel in all lanes (PLAIN images) */
    int64_t samples;                           /* 1 for sequences and vectors: their rows follow each other */
    int64_t groups;                            /* blocks of channels, or channels when single */
    int64_t parts, rows, part_rows;            /* pieces of the rows of one sample and group */
    int64_t sample_step, group_step, distance; /* in elements; distance is from row to row */
    int64_t last_lanes;                        /* of the last group; when single: of a last, shorter row, or 0 */
    int64_t padded;                            /* channels, to whole blocks */
} pdl__panels_t;

/* With `join`, all rows of a sequence or vector tensor are as of one sample. */
pdl__panels_t pdl__panels_cut(const pdl_shape_t *shape, int64_t samples, pdl_format_t format, bool join);
int64_t       pdl__panels_count(const pdl__panels_t *panels);

typedef struct pdl__norm {
    pdl__panels_t panels;
    const void   *x, *add, *y, *gradient[2];
    void         *out; /* forward: the output; backward: the gradient of x */
    void        *kept; /* backward: the gradient before ReLU, from the first pass to the second; NULL: made again */
    bool         relu, mask_by_output;   /* ReLU's sign is that of y; otherwise of what forward made of x */
    const float *center, *scale, *shift; /* by channel */
    const float *slope, *offset;         /* backward: dx = scale (g + slope (x - center) + offset) */
    double      *partial;                /* [samples * parts][2][padded] */
} pdl__norm_t;

/* Slices of panels, [first, end). */
typedef struct pdl__norm_kernels {
    void (*measure)(void *norm, int64_t first, int64_t end);      /* sums of x - center and of its square */
    void (*apply)(void *norm, int64_t first, int64_t end);        /* out = relu(scale x + shift + add) */
    void (*measure_back)(void *norm, int64_t first, int64_t end); /* sums of g and of g (x - center) */
    void (*apply_back)(void *norm, int64_t first, int64_t end);
} pdl__norm_kernels_t;

extern const pdl__norm_kernels_t pdl__norm_f32, pdl__norm_bf16;

#endif
