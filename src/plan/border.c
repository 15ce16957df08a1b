/*
 * Borders of pieces.
 */
#include <paradl/plan/border.h>

/* Measured on one core in 32 bits (docs/performance.md): a 3x3 window over an image gains so much by equal padding at
   both sides that even one row of four may be computed twice. Others gain no more than copies that are not made. */
#define MOST_OF_IMAGES 4
#define MOST_OF_OTHERS 8

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int64_t extent(pdl_range_t range)
{
    return range.high > range.low ? range.high - range.low : 0;
}

static pdl_range_t common(pdl_range_t a, pdl_range_t b)
{
    return (pdl_range_t){a.low > b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
}

/* The first input of the windows of some outputs and the one behind the last, padding included. */
static pdl_range_t reach(const pdl_window_t *w, pdl_range_t out)
{
    return (pdl_range_t){out.low * w->stride - w->pad,
                         (out.high - 1) * w->stride - w->pad + (w->kernel - 1) * w->dilation + 1};
}

void pdl_border_find(const pdl_window_t *w, int64_t pieces, int64_t piece, pdl_border_t *b)
{
    const pdl_range_t whole = {0, w->in};

    *b = (pdl_border_t){0};
    pdl_block_range(w->in, pieces, piece, &b->own.low, &b->own.high);
    pdl_block_range(w->out, pieces, piece, &b->out.low, &b->out.high);
    pdl_range_t all = reach(w, b->out);
    b->pad_low = b->own.low - all.low;
    b->pad_high = all.high - b->own.high;
    if (b->own.low > 0 && all.low < b->own.low) {
        b->border[0] = common(b->out, (pdl_range_t){b->out.low, -floor_divide(-(b->own.low + w->pad), w->stride)});
        b->strip[0] = common(whole, reach(w, b->border[0]));
        b->halo[0] = (pdl_range_t){b->strip[0].low, b->own.low};
    }
    if (b->own.high < w->in && all.high > b->own.high) {
        int64_t last =
            b->own.high + w->pad - (w->kernel - 1) * w->dilation - 1; /* where a window within them begins */
        b->border[1] = common(b->out, (pdl_range_t){floor_divide(last, w->stride) + 1, b->out.high});
        b->strip[1] = common(whole, reach(w, b->border[1]));
        b->halo[1] = (pdl_range_t){b->own.high, b->strip[1].high};
    }
}

/* The window runs on own rows, and each border on its strip, which does not reach to the other side. */
static bool is_apart(const pdl_window_t *w, int64_t part, const pdl_border_t *b)
{
    if (extent(b->own) == 0 || extent(b->out) == 0) return false;
    if (b->pad_low < 0 || b->pad_high <= -w->stride) return false;
    if (part * (extent(b->border[0]) + extent(b->border[1])) > extent(b->out)) return false;
    return b->strip[0].high <= b->own.high && (extent(b->border[1]) == 0 || b->strip[1].low >= b->own.low);
}

bool pdl_borders_apart(const pdl_window_t *w, int64_t pieces, int64_t part)
{
    for (int64_t piece = 0; piece < pieces; piece++) {
        pdl_border_t border;
        pdl_border_find(w, pieces, piece, &border);
        if (!is_apart(w, part, &border)) return false;
    }
    return true;
}

int64_t pdl_border_part(const pdl_layer_t *layer)
{
    bool image = layer->in.rank == 2;

    for (int d = 0; d < 2 && image; d++)
        image = layer->kernel[d] == 3 && layer->stride[d] == 1 && layer->dilation[d] == 1;
    return image ? MOST_OF_IMAGES : MOST_OF_OTHERS;
}
