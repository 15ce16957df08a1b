/*
 * Borders of windows over pieces: by hand, and against counting.
 */
#include "random.h"
#include "test.h"
#include <paradl/plan/border.h>

/* 3x3 over 8 rows in 2 pieces: one row is missing at the inner side. */
static void test_by_hand(void)
{
    pdl_window_t w = {.in = 8, .out = 8, .kernel = 3, .stride = 1, .dilation = 1, .pad = 1};
    pdl_border_t b;

    pdl_border_find(&w, 2, 0, &b);
    CHECK_INT(b.pad_low, 1);
    CHECK_INT(b.pad_high, 1);
    CHECK(b.border[0].low == b.border[0].high);
    CHECK(b.border[1].low == 3 && b.border[1].high == 4);
    CHECK(b.strip[1].low == 2 && b.strip[1].high == 5);
    CHECK(b.halo[1].low == 4 && b.halo[1].high == 5);
    CHECK(pdl_borders_apart(&w, 2, 4));
    CHECK(!pdl_borders_apart(&w, 4, 4)); /* two rows of two */
    CHECK(pdl_borders_apart(&w, 1, 4));
}

/* Windows that begin behind the first of own rows cannot run on these. */
static void test_shifted(void)
{
    pdl_window_t w = {.in = 27, .out = 14, .kernel = 1, .stride = 2, .dilation = 1, .pad = 0};

    CHECK(!pdl_borders_apart(&w, 2, 4)); /* the second piece has rows from 13 on, and windows from 14 on */
    w.in = 24;
    w.out = 12;
    CHECK(pdl_borders_apart(&w, 3, 4)); /* the last row of a piece is not read at all */
    w.stride = 4;
    w.out = 6;
    CHECK(pdl_borders_apart(&w, 2, 4)); /* nor are the last three */
    w.out = 5;
    CHECK(!pdl_borders_apart(&w, 1, 4)); /* a window more would fit */
}

static bool touches(const pdl_window_t *w, int64_t out, int64_t low, int64_t high)
{
    int64_t first = out * w->stride - w->pad, end = first + (w->kernel - 1) * w->dilation + 1;

    return low < high && first < high && end > low;
}

static bool is_in(pdl_range_t range, int64_t row)
{
    return row >= range.low && row < range.high;
}

/* An output is of a border if its window reaches over own rows at that side, and the strip has all that it reads.
   */
static void count_piece(const pdl_window_t *w, const pdl_border_t *b)
{
    for (int64_t out = b->out.low; out < b->out.high; out++) {
        CHECK(is_in(b->border[0], out) == touches(w, out, 0, b->own.low));
        CHECK(is_in(b->border[1], out) == touches(w, out, b->own.high, w->in));
        for (int side = 0; side < 2; side++)
            for (int64_t k = 0; k < w->kernel && is_in(b->border[side], out); k++) {
                int64_t row = out * w->stride - w->pad + k * w->dilation;
                CHECK(row < 0 || row >= w->in || is_in(b->strip[side], row));
                CHECK(row < 0 || row >= w->in || is_in(b->own, row) || is_in(b->halo[side], row));
            }
    }
}

static void test_random(void)
{
    int apart = 0;

    for (int i = 0; i < 3000; i++) {
        pdl_window_t w = {.in = between(4, 60),
                          .kernel = between(1, 7),
                          .stride = between(1, 3),
                          .dilation = between(1, 2)};
        int64_t      reach = (w.kernel - 1) * w.dilation + 1, pieces = between(1, 5);
        w.pad = between(0, reach / 2);
        if (w.in + 2 * w.pad < reach) continue;
        w.out = (w.in + 2 * w.pad - reach) / w.stride + 1;
        if (!pdl_borders_apart(&w, pieces, 4)) continue;
        apart += pieces > 1;
        for (int64_t m = 0; m < pieces; m++) {
            pdl_border_t b;
            pdl_border_find(&w, pieces, m, &b);
            CHECK(b.pad_low >= 0 && b.border[0].high <= (b.border[1].high > 0 ? b.border[1].low : w.out));
            count_piece(&w, &b);
        }
    }
    CHECK(apart > 300);
}

int main(void)
{
    RUN(test_by_hand);
    RUN(test_shifted);
    RUN(test_random);
    return test_done();
}
