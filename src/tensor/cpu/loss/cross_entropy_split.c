/*
 * Forward of cross-entropy when every rank has some of the classes. All ranks come to the same numbers: first the
 * largest logit of every position is found over the ranks, then what remains is a sum over them.
 */
#include "tensor/cpu/loss/cross_entropy.h"
#include "tensor/cpu/threads.h"
#include "tensor/cpu/vmath.h"

/* One value a position each; those that are summed lie one after the other, the last only used with smoothing. */
typedef struct split {
    const pdl__entropy_t *pass;
    double               *mine, *largest; /* largest logit of this rank, and of all */
    double               *sum;            /* of exp(x - largest) */
    double               *at_class;       /* logit of the right class, 0 on ranks that do not have it */
    double               *right;          /* 1 for the class being a largest, less 1 for one before it */
    double               *total;          /* of the logits */
} split_t;
#define ARRAYS 6

size_t pdl__entropy_split_bytes(int64_t rows)
{
    return (size_t)rows * ARRAYS * sizeof(double);
}

static void note(const split_t *split, int64_t i, const pdl__entropy_row_t *row)
{
    bool counts = split->pass->classes[i] >= 0;

    split->mine[i] = split->largest[i] = counts ? (double)row->largest : 0;
    split->sum[i] = counts ? row->sum : 0;
    split->total[i] = counts ? row->total : 0;
}

static void measure_rows(void *context, int64_t first, int64_t end)
{
    const split_t        *split = context;
    const pdl__entropy_t *pass = split->pass;

    for (int64_t i = first; i < end; i++) {
        pdl__entropy_row_t row = {.largest = 0};

        if (pass->classes[i] >= 0) row = pdl__entropy_measure_row(pass->channels, pass->x + i * pass->channels);
        note(split, i, &row);
    }
}

static void measure_bands(void *context, int64_t first, int64_t end)
{
    const split_t        *split = context;
    const pdl__entropy_t *pass = split->pass;
    pdl__entropy_row_t    rows[PDL__ENTROPY_WIDTH];

    for (int64_t band = first; band < end; band++) {
        int64_t n = band / pdl__entropy_bands(pass);
        int64_t position = band % pdl__entropy_bands(pass) * PDL__ENTROPY_WIDTH;
        int64_t width = pdl__entropy_band_width(pass, position);

        pdl__entropy_measure_band(pass->channels, pass->stride, width,
                                  pass->x + n * pass->channels * pass->positions + position, rows);
        for (int64_t i = 0; i < width; i++) note(split, n * pass->positions + position + i, &rows[i]);
    }
}

/* Whether one of the first `count` channels is as large. */
static bool reached(const float *x, int64_t stride, int64_t count, double largest)
{
    if (count <= 0) return false;
    if (stride == 1) return (double)pdl__largest(count, x) >= largest;
    for (int64_t c = 0; c < count; c++)
        if ((double)x[c * stride] >= largest) return true;
    return false;
}

/* Of several largest the first counts as the answer, on whichever rank it is. */
static void share_positions(void *context, int64_t first, int64_t end)
{
    const split_t        *split = context;
    const pdl__entropy_t *pass = split->pass;

    for (int64_t i = first; i < end; i++) {
        const float *x = pass->stride == 1 ? pass->x + i * pass->channels
                                           : pass->x + i / pass->positions * pass->channels * pass->positions +
                                                 i % pass->positions;
        int64_t      channel = pass->classes[i] - pass->first;

        split->at_class[i] = split->right[i] = 0;
        if (pass->classes[i] < 0) continue;
        split->sum[i] *= exp(split->mine[i] - split->largest[i]);
        if (channel >= 0 && channel < pass->channels) {
            split->at_class[i] = (double)x[channel * pass->stride];
            split->right[i] = split->at_class[i] >= split->largest[i] ? 1 : 0;
        }
        if (split->mine[i] >= split->largest[i] &&
            reached(x, pass->stride, channel < pass->channels ? channel : pass->channels, split->largest[i]))
            split->right[i] -= 1;
    }
}

static void conclude_positions(void *context, int64_t first, int64_t end)
{
    const split_t        *split = context;
    const pdl__entropy_t *pass = split->pass;

    for (int64_t i = first; i < end; i++) {
        pdl__entropy_row_t row = {(float)split->largest[i], split->sum[i], split->total[i]};

        pass->result[i] = (pdl__entropy_result_t){0, 0, 0};
        if (pass->classes[i] < 0) continue;
        pass->result[i] = pdl__entropy_conclude(pass, &row, split->at_class[i], split->right[i] > 0, &pass->lse[i]);
    }
}

void pdl__entropy_split_meetings(int64_t rows, pdl_op_description_t *description)
{
    size_t array = (size_t)rows * sizeof(double);

    description->meetings[0] = 2;
    description->meeting[0][0] = (pdl_meeting_t){.kind = PDL_MEETING_MAX, .at = array, .count = rows};
    description->meeting[0][1] =
        (pdl_meeting_t){.kind = PDL_MEETING_SUM, .at = 2 * array, .count = 4 * rows, .smoothed = rows};
}

void pdl__entropy_split_forward(pdl__entropy_t *pass, int phase, double *workspace)
{
    int64_t rows = pass->samples * pass->positions;
    split_t split = {pass,
                     workspace,
                     workspace + rows,
                     workspace + 2 * rows,
                     workspace + 3 * rows,
                     workspace + 4 * rows,
                     workspace + 5 * rows};

    if (phase == 1) pdl_threads_run(rows, 4096 / pass->channels + 1, share_positions, &split);
    if (phase == 2) pdl_threads_run(rows, 256, conclude_positions, &split);
    if (phase > 0) return;
    if (pass->stride == 1)
        pdl_threads_run(rows, 4096 / pass->channels + 1, measure_rows, &split);
    else
        pdl_threads_run(pass->samples * pdl__entropy_bands(pass), 1, measure_bands, &split);
}
