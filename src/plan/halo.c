/*
 * Rows that the pieces of a split window exchange.
 */
#include <paradl/plan/layout.h>

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
