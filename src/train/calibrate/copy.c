/*
 * Pieces of tensors that stay on their rank while others are sent: copied into the tensor that arrives, there, and summed
 * on the way back. Halos are small, this is all the rest.
 */
#include "base/clock.h"
#include "train/calibrate/calibrate.h"
#include "train/exec/session.h"
#include <paradl/comm/regions.h>
#include <stdlib.h>

enum { SAMPLES = 8, BLOCKS = 8, ROWS = 34, ROW = 32 * 16, ROUNDS = 30 };

/* Rows of images in blocks of channels; the tensor that arrives has one fewer at both ends. */
static pdl_region_t rows(int64_t low, int64_t high)
{
    return (pdl_region_t){.rank = 4,
                          .segments = {1, 1, 1, 1},
                          .range = {{{0, SAMPLES}}, {{0, BLOCKS}}, {{low, high}}, {{0, ROW}}}};
}

static pdl_status_t time_copies(pdl_move_t *move, float *wide, float *narrow, double *least_s)
{
    pdl_status_t status = PDL_OK;

    *least_s = 1e30;
    for (int i = -2; i < ROUNDS && !status; i++) {
        double start_s = pdl__seconds();
        status = pdl_move_forward(move, NULL, wide, narrow);
        if (!status) status = pdl_move_backward(move, NULL, narrow, wide);
        double seconds = pdl__seconds() - start_s;
        if (i >= 0 && seconds < *least_s) *least_s = seconds;
    }
    return status;
}

pdl_status_t pdl__calibrate_copy(pdl__calibrate_t *c)
{
    pdl_region_t    own = rows(0, ROWS), need = rows(1, ROWS - 1);
    pdl_move_spec_t spec = {.group = c->alone, .own = &own, .need = &need};
    size_t          most = (size_t)pdl_region_elements(&own);
    float          *wide = calloc(most, sizeof(*wide)), *narrow = calloc(most, sizeof(*narrow));
    pdl_move_t     *move = NULL;
    double          seconds = 0;
    pdl_status_t    status = wide && narrow ? pdl_move_create(&spec, &move)
                                            : pdl_error(PDL_ERR_NOMEM, "out of memory for copies of tensors");

    status = pdl_ranks_agree(c->ranks, status);
    if (!status) status = pdl_ranks_barrier(c->ranks);
    if (!status) status = time_copies(move, wide, narrow, &seconds);
    if (!status) status = pdl_ranks_sum(c->ranks, &seconds, 1);
    pdl_move_destroy(move);
    free(wide);
    free(narrow);
    if (status) return status;
    seconds /= pdl_ranks_size(c->ranks);
    c->result->copy_bytes_per_s = 2 * sizeof(float) * (double)pdl_region_elements(&need) / seconds;
    pdl__calibrate_say(c, "copies of tensors: %.1f GB/s a device", 1e-9 * c->result->copy_bytes_per_s);
    return PDL_OK;
}
