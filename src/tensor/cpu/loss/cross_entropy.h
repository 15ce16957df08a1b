/*
 * Cross-entropy: what the whole one and the one whose classes lie on several ranks have in common.
 */
#ifndef PDL_TENSOR_CPU_CROSS_ENTROPY_H
#define PDL_TENSOR_CPU_CROSS_ENTROPY_H

#include "tensor/cpu/cpu.h"

/* What one position comes to. */
typedef struct pdl__entropy_result {
    float loss, right, probability;
} pdl__entropy_result_t;

/* Logits lie [samples][positions][channels] when stride is 1 (sequences, vectors), otherwise
   [samples][channels][positions]. */
typedef struct pdl__entropy {
    const float           *x;
    const int32_t         *classes;
    int64_t                samples, channels, positions, stride;
    int64_t                first, all; /* channel 0 is class `first` of `all` */
    double                 smoothing;
    float                 *lse;    /* [samples][positions] */
    pdl__entropy_result_t *result; /* forward: the same */
    const float           *factor; /* backward: [samples] */
    float                 *dx;
} pdl__entropy_t;

/* Largest, sum of exp(x - largest) and sum of the logits of a position. */
typedef struct pdl__entropy_row {
    float  largest;
    double sum, total;
} pdl__entropy_row_t;

/* Positions of an image at a time. A band is that many of them. */
#define PDL__ENTROPY_WIDTH 64

static inline int64_t pdl__entropy_bands(const pdl__entropy_t *pass)
{
    return (pass->positions + PDL__ENTROPY_WIDTH - 1) / PDL__ENTROPY_WIDTH;
}

static inline int64_t pdl__entropy_band_width(const pdl__entropy_t *pass, int64_t position)
{
    int64_t left = pass->positions - position;

    return left < PDL__ENTROPY_WIDTH ? left : PDL__ENTROPY_WIDTH;
}

pdl__entropy_row_t pdl__entropy_measure_row(int64_t channels, const float *x);

/* A band of at most PDL__ENTROPY_WIDTH positions side by side, channels `stride` apart. */
void pdl__entropy_measure_band(int64_t channels, int64_t stride, int64_t width, const float *x,
                               pdl__entropy_row_t *rows);

/* `at_class` is the logit of the right class. */
pdl__entropy_result_t pdl__entropy_conclude(const pdl__entropy_t *pass, const pdl__entropy_row_t *row,
                                            double at_class, bool right, float *lse);

/* Workspace that a split forward needs besides, and the meetings between its phases. */
size_t pdl__entropy_split_bytes(int64_t rows);
void   pdl__entropy_split_meetings(int64_t rows, pdl_op_description_t *description);
/* One phase of the result and lse of every position, of all ranks that have other classes. The workspace is as large as
   pdl__entropy_split_bytes says. */
void pdl__entropy_split_forward(pdl__entropy_t *pass, int phase, double *workspace);

#endif
