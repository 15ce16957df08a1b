/*
 * Boxes of regions: found once, copied often.
 */
#include <paradl/plan/boxes.h>

#include <stdlib.h>
#include <string.h>

#define MOST_PIECES (2 * PDL_REGION_SEGMENTS) /* that two sets of ranges have in common */

/* A stretch of one dimension that both regions have: its length, and where it begins in each of them. */
typedef struct piece {
    int64_t length, at[2];
} piece_t;

void pdl_region_tidy(pdl_region_t *region)
{
    for (int d = 0; d < region->rank; d++) {
        pdl_range_t *range = region->range[d];
        int          count = 0;

        for (int s = 0; s < region->segments[d]; s++) {
            if (range[s].low == range[s].high) continue;
            if (count > 0 && range[count - 1].high == range[s].low)
                range[count - 1].high = range[s].high;
            else
                range[count++] = range[s];
        }
        region->segments[d] = count;
    }
}

bool pdl_region_equal(const pdl_region_t *a, const pdl_region_t *b)
{
    for (int d = 0; d < a->rank; d++) {
        if (a->segments[d] != b->segments[d] || a->segments[d] == 0) return false;
        for (int s = 0; s < a->segments[d]; s++) {
            if (a->range[d][s].low != b->range[d][s].low || a->range[d][s].high != b->range[d][s].high)
                return false;
        }
    }
    return true;
}

/* Neighbours in the memory of both regions become one piece, whatever lies between their indices. */
static int add_piece(piece_t *piece, int count, piece_t next)
{
    piece_t *last = count > 0 ? &piece[count - 1] : NULL;

    if (last != NULL && last->at[0] + last->length == next.at[0] && last->at[1] + last->length == next.at[1]) {
        last->length += next.length;
        return count;
    }
    piece[count] = next;
    return count + 1;
}

static int common_pieces(const pdl_region_t *a, const pdl_region_t *b, int d, piece_t piece[MOST_PIECES])
{
    int     i = 0, j = 0, count = 0;
    int64_t before_a = 0, before_b = 0; /* elements of the ranges that are behind us */

    while (i < a->segments[d] && j < b->segments[d]) {
        pdl_range_t x = a->range[d][i], y = b->range[d][j];
        int64_t     low = x.low > y.low ? x.low : y.low, high = x.high < y.high ? x.high : y.high;

        if (low < high)
            count =
                add_piece(piece, count, (piece_t){high - low, {before_a + low - x.low, before_b + low - y.low}});
        if (x.high <= y.high) {
            before_a += x.high - x.low;
            i++;
        } else {
            before_b += y.high - y.low;
            j++;
        }
    }
    return count;
}

bool pdl_region_meet(const pdl_region_t *a, const pdl_region_t *b)
{
    piece_t piece[MOST_PIECES];

    for (int d = 0; d < a->rank; d++) {
        if (common_pieces(a, b, d, piece) == 0) return false;
    }
    return true;
}

static void dense_strides(const int64_t *extent, int rank, int64_t *stride)
{
    int64_t step = 1;

    for (int d = rank - 1; d >= 0; d--) {
        stride[d] = step;
        step *= extent[d];
    }
}

static void region_strides(const pdl_region_t *region, int64_t *stride)
{
    int64_t extent[PDL_REGION_DIMS];

    for (int d = 0; d < region->rank; d++) extent[d] = pdl_region_extent(region, d);
    dense_strides(extent, region->rank, stride);
}

/* Dimensions of one element vanish, and those that follow one another on both sides become one: what is left
   has the longest runs. */
static void merge_dimensions(pdl_box_t *box)
{
    pdl_box_t merged = {.first = {box->first[0], box->first[1]}};
    int       n = 0;

    for (int d = 0; d < box->rank; d++) {
        bool joins = n > 0;

        if (box->extent[d] == 1) continue;
        for (int side = 0; side < 2 && joins; side++)
            joins = merged.stride[side][n - 1] == box->stride[side][d] * box->extent[d];
        if (joins) n--;
        merged.extent[n] = joins ? merged.extent[n] * box->extent[d] : box->extent[d];
        for (int side = 0; side < 2; side++) merged.stride[side][n] = box->stride[side][d];
        n++;
    }
    if (n == 0) {
        merged.extent[0] = merged.stride[0][0] = merged.stride[1][0] = 1;
        n = 1;
    }
    merged.rank = n;
    *box = merged;
}

/* The box of one piece of every dimension, between the two regions. */
static pdl_box_t make_box(int rank, const piece_t piece[][MOST_PIECES], const int *chosen,
                          const int64_t stride[2][PDL_REGION_DIMS])
{
    pdl_box_t box = {.rank = rank};

    for (int d = 0; d < rank; d++) {
        const piece_t *p = &piece[d][chosen[d]];

        box.extent[d] = p->length;
        for (int side = 0; side < 2; side++) {
            box.first[side] += p->at[side] * stride[side][d];
            box.stride[side][d] = stride[side][d];
        }
    }
    return box;
}

/* Puts a message into the place of the second side; the box begins in it where the boxes before it end. */
static void use_message(pdl_box_t *box, int kept, int64_t begin)
{
    box->first[0] = box->first[kept];
    memmove(box->stride[0], box->stride[kept], sizeof(box->stride[0]));
    box->first[1] = begin;
    dense_strides(box->extent, box->rank, box->stride[1]);
}

static bool next_choice(int *chosen, const int *count, int rank)
{
    for (int d = rank - 1; d >= 0; d--) {
        if (++chosen[d] < count[d]) return true;
        chosen[d] = 0;
    }
    return false;
}

pdl_status_t pdl_boxes_init(const pdl_region_t *a, const pdl_region_t *b, pdl_sides_t sides, pdl_boxes_t *boxes)
{
    piece_t piece[PDL_REGION_DIMS][MOST_PIECES];
    int     count[PDL_REGION_DIMS], chosen[PDL_REGION_DIMS] = {0}, total = 1;
    int64_t stride[2][PDL_REGION_DIMS];

    *boxes = (pdl_boxes_t){0};
    for (int d = 0; d < a->rank; d++) total *= count[d] = common_pieces(a, b, d, piece[d]);
    if (total == 0) return PDL_OK;
    boxes->box = malloc((size_t)total * sizeof(*boxes->box));
    if (boxes->box == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the parts of a region");
    region_strides(a, stride[0]);
    region_strides(b, stride[1]);
    do {
        pdl_box_t *box = &boxes->box[boxes->count++];
        int64_t    elements = 1;

        *box = make_box(a->rank, (const piece_t(*)[MOST_PIECES])piece, chosen,
                        (const int64_t(*)[PDL_REGION_DIMS])stride);
        for (int d = 0; d < box->rank; d++) elements *= box->extent[d];
        if (sides != PDL_BOXES_A_B) use_message(box, sides == PDL_BOXES_A_MESSAGE ? 0 : 1, boxes->elements);
        merge_dimensions(box);
        boxes->elements += elements;
    } while (next_choice(chosen, count, a->rank));
    return PDL_OK;
}

void pdl_boxes_fini(pdl_boxes_t *boxes)
{
    free(boxes->box);
    *boxes = (pdl_boxes_t){0};
}

static bool box_equal(const pdl_box_t *a, const pdl_box_t *b)
{
    size_t bytes = (size_t)a->rank * sizeof(a->extent[0]);

    return a->rank == b->rank && a->first[0] == b->first[0] && memcmp(a->extent, b->extent, bytes) == 0 &&
           memcmp(a->stride[0], b->stride[0], bytes) == 0;
}

bool pdl_boxes_equal(const pdl_boxes_t *a, const pdl_boxes_t *b)
{
    if (a->count != b->count) return false;
    for (int i = 0; i < a->count; i++) {
        if (!box_equal(&a->box[i], &b->box[i])) return false;
    }
    return true;
}

bool pdl_boxes_run(const pdl_boxes_t *boxes)
{
    return boxes->count == 1 && boxes->box[0].rank == 1 && boxes->box[0].stride[0][0] == 1;
}
