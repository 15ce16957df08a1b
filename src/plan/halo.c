/*
 * Rows that the pieces of a split window exchange.
 */
#include "plan/compile.h"
#include "plan/rules.h"
#include <paradl/layout.h>
#include <stdlib.h>

/* The inputs [low, high) that a piece needs for its block of outputs, and those it owns; false: it has no outputs. */
static bool needs(const pdl_window_t *w, int64_t pieces, int64_t r, pdl_range_t *need, pdl_range_t *own)
{
    int64_t reach = (w->kernel - 1) * w->dilation + 1, out_low, out_high;

    pdl_block_range(w->in, pieces, r, &own->low, &own->high);
    pdl_block_range(w->out, pieces, r, &out_low, &out_high);
    if (out_low == out_high) return false;
    need->low = out_low * w->stride - w->pad;
    need->high = (out_high - 1) * w->stride - w->pad + reach;
    if (need->low < 0) need->low = 0;
    if (need->high > w->in) need->high = w->in;
    return true;
}

/* Rows of what a piece needs that are not its own. */
static int64_t missing_rows(const pdl_range_t *need, const pdl_range_t *own)
{
    int64_t rows = 0;

    if (need->low < own->low) rows += (need->high < own->low ? need->high : own->low) - need->low;
    if (need->high > own->high) rows += need->high - (need->low > own->high ? need->low : own->high);
    return rows;
}

/* Ranks whose block of `n` elements meets a range, the rank `own` not counted. */
static int owners_of(int64_t n, int64_t pieces, int64_t own, const pdl_range_t *range)
{
    int count = 0;

    for (int64_t r = 0; r < pieces; r++) {
        int64_t a, b;
        pdl_block_range(n, pieces, r, &a, &b);
        if (r != own && a < range->high && range->low < b) count++;
    }
    return count;
}

int64_t pdl_halo_rows(const pdl_window_t *w, int64_t pieces, int *neighbours)
{
    int64_t most = 0;

    *neighbours = 0;
    for (int64_t r = 0; r < pieces; r++) {
        pdl_range_t need, own;
        if (!needs(w, pieces, r, &need, &own)) continue;
        int64_t rows = missing_rows(&need, &own);
        if (rows <= most) continue;
        most = rows;
        *neighbours = owners_of(w->in, pieces, r, &need);
    }
    return most;
}

/* What the pieces from `r` on, one after the other in direction `step`, give of a range to another one. */
static void give(const pdl_window_t *w, int64_t pieces, const pdl_range_t *range, int64_t r, int64_t step,
                 int64_t *sent)
{
    for (; r >= 0 && r < pieces; r += step) {
        int64_t low, high;
        pdl_block_range(w->in, pieces, r, &low, &high);
        if (step < 0 ? high <= range->low : low >= range->high) return;
        if (low < range->low) low = range->low;
        if (high > range->high) high = range->high;
        if (low < high) sent[r] += high - low;
    }
}

void pdl_halo_sent(const pdl_window_t *w, int64_t pieces, int64_t *forward, int64_t *backward)
{
    for (int64_t r = 0; r < pieces; r++) forward[r] = 0;
    for (int64_t r = 0; r < pieces; r++) {
        pdl_range_t need, own;
        backward[r] = 0;
        if (!needs(w, pieces, r, &need, &own)) continue;
        backward[r] = missing_rows(&need, &own);
        give(w, pieces, &need, r - 1, -1, forward);
        give(w, pieces, &need, r + 1, 1, forward);
    }
}

/* Adds what every piece of an axis sends to total[]; or leaves that of piece `one` in the transfers. */
static void count_sent(pdl_program_t *program, int axis, int64_t *rows, double *total, int64_t one)
{
    int64_t pieces = program->plan->mesh.axis[axis].size;

    for (int i = 0; i < program->transfer_count; i++) {
        pdl_transfer_t *t = &program->transfers[i];
        if (t->primitive != PDL_HALO || t->axis != axis) continue;
        int          dim = (int)(program->local[t->layer].reads[axis] - PDL_SPLIT_S0);
        pdl_window_t window = pdl__layer_window(pdl_model_layer(program->plan->model, t->layer), dim);
        pdl_halo_sent(&window, pieces, rows, rows + pieces);
        int64_t *sent = t->phase == PDL_PHASE_FORWARD ? rows : rows + pieces;
        if (one >= 0) t->sent *= (double)sent[one];
        for (int64_t r = 0; r < pieces && one < 0; r++) total[r] += t->sent * (double)sent[r];
    }
}

static pdl_status_t find_busiest(pdl_program_t *program, int axis)
{
    int64_t  pieces = program->plan->mesh.axis[axis].size, best = 0;
    double  *total = calloc((size_t)pieces, sizeof(*total));
    int64_t *rows = calloc((size_t)pieces, 2 * sizeof(*rows));

    if (total && rows) {
        count_sent(program, axis, rows, total, -1);
        for (int64_t r = 1; r < pieces; r++)
            if (total[r] > total[best]) best = r;
        count_sent(program, axis, rows, total, best);
    }
    pdl_status_t status = total && rows ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");
    free(total);
    free(rows);
    return status;
}

pdl_status_t pdl__halo_busiest(pdl_program_t *program)
{
    unsigned     axes = 0;
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < program->transfer_count; i++)
        if (program->transfers[i].primitive == PDL_HALO) axes |= 1u << program->transfers[i].axis;
    for (int a = 0; a < program->plan->mesh.axis_count && !status; a++)
        if (axes & 1u << a) status = find_busiest(program, a);
    return status;
}
