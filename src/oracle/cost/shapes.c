/*
 * Time of products and attention by their shape. A product is computed in tiles, one at a time on a compute unit: large tiles
 * read their factors less often, small ones leave fewer units idle, and the depth may be shared out where there are few tiles.
 * The library takes the fastest way. The numbers were fitted to 150 times of single operations on one H200
 * (share/measured/h200_ops.csv, docs/accuracy.md); other devices differ in their peaks and units.
 */
#include "oracle/cost/cost.h"
#include <math.h>

/* Rows and columns of a tile. */
static const struct {
    double rows, columns;
} tiles[] = {{128, 256}, {256, 128}, {128, 128}, {64, 256}, {256, 64},
             {64, 128},  {128, 64},  {64, 64},   {256, 32}, {128, 32}};
/* Reading a tile's factors takes as long as this many more rows of each; filling and emptying its pipeline as this much more
   depth; the last wave of tiles costs this share of what it leaves idle. */
static const double REUSE = 44, FILL = 100, LAST_WAVE = 0.15;
/* Shared depth: least, and most parts. */
static const double LEAST_DEPTH = 256, MOST_PARTS = 32;

static double reuse(double rows, double columns)
{
    return 1 + REUSE * (1 / rows + 1 / columns);
}

static double waves(double tile_count, double units)
{
    double full = tile_count / units;

    if (full <= 1) return 1;
    return full + LAST_WAVE * (ceil(full) - full);
}

double pdl__product_seconds(const pdl_compute_cost_t *cost, double flop_per_s, double m, double n, double k)
{
    double best = INFINITY, best_reuse = reuse(tiles[0].rows, tiles[0].columns);
    double unit_flop_per_s = flop_per_s / cost->units;

    for (size_t i = 0; i < sizeof(tiles) / sizeof(tiles[0]); i++) {
        double rows = tiles[i].rows, columns = tiles[i].columns, count = ceil(m / rows) * ceil(n / columns);
        double flop = 2 * rows * columns * reuse(rows, columns) / best_reuse;
        /* As many parts as powers of two, or as there are units for. */
        double most = fmin(fmin(MOST_PARTS, floor(cost->units / count)), floor(k / LEAST_DEPTH));
        for (double parts = 1, next; parts <= fmax(1, most); parts = next) {
            double seconds = waves(count * parts, cost->units) * flop * (k / parts + FILL) / unit_flop_per_s;
            if (parts > 1) seconds += 2 * parts * m * n * 4 / cost->bytes_per_s;
            best = fmin(best, seconds);
            next = parts < most ? fmin(2 * parts, most) : INFINITY;
        }
    }
    return best;
}

/* Queries that a unit has at once; head size and length at which half of the limiting rate is reached. */
static const double QUERIES = 128, HEAD = 74, LENGTH = 660, LARGE_HEAD = 128;

double pdl__attention_share(const pdl_compute_cost_t *cost, double heads, double tokens, double head_size)
{
    double blocks = heads * ceil(tokens / QUERIES);
    double share = head_size / (head_size + HEAD) * (LARGE_HEAD + HEAD) / LARGE_HEAD * tokens / (tokens + LENGTH);

    return share * fmin(1, blocks / cost->units);
}
