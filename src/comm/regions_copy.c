/*
 * Boxes of regions: found once, copied often.
 */
#include "comm/regions_copy.h"
#include "tensor/cpu/simd.h"

#include <stdlib.h>
#include <string.h>

#define MOST_PIECES (2 * PDL_REGION_SEGMENTS) /* that two sets of ranges have in common */
#define SHORT_RUN   16                        /* elements; a call of memcpy costs more than such a loop */

/* A stretch of one dimension that both regions have: its length, and where it begins in each of them. */
typedef struct piece {
    int64_t length, at[2];
} piece_t;

void pdl__region_tidy(pdl_region_t *region)
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

bool pdl__region_equal(const pdl_region_t *a, const pdl_region_t *b)
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

bool pdl__region_meet(const pdl_region_t *a, const pdl_region_t *b)
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

/* Dimensions of one element vanish, and those that lie one behind the other on both sides become one: what is left
   has the longest runs. */
static void merge_dimensions(pdl__box_t *box)
{
    pdl__box_t merged = {.first = {box->first[0], box->first[1]}};
    int        n = 0;

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
static pdl__box_t make_box(int rank, const piece_t piece[][MOST_PIECES], const int *chosen,
                           const int64_t stride[2][PDL_REGION_DIMS])
{
    pdl__box_t box = {.rank = rank};

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
static void use_message(pdl__box_t *box, int kept, int64_t begin)
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

pdl_status_t pdl__boxes_init(const pdl_region_t *a, const pdl_region_t *b, pdl__sides_t sides, pdl__boxes_t *boxes)
{
    piece_t piece[PDL_REGION_DIMS][MOST_PIECES];
    int     count[PDL_REGION_DIMS], chosen[PDL_REGION_DIMS] = {0}, total = 1;
    int64_t stride[2][PDL_REGION_DIMS];

    *boxes = (pdl__boxes_t){0};
    for (int d = 0; d < a->rank; d++) total *= count[d] = common_pieces(a, b, d, piece[d]);
    if (total == 0) return PDL_OK;
    boxes->box = malloc((size_t)total * sizeof(*boxes->box));
    if (boxes->box == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the parts of a region");
    region_strides(a, stride[0]);
    region_strides(b, stride[1]);
    do {
        pdl__box_t *box = &boxes->box[boxes->count++];
        int64_t     elements = 1;

        *box = make_box(a->rank, (const piece_t(*)[MOST_PIECES])piece, chosen,
                        (const int64_t(*)[PDL_REGION_DIMS])stride);
        for (int d = 0; d < box->rank; d++) elements *= box->extent[d];
        if (sides != PDL__A_B) use_message(box, sides == PDL__A_MESSAGE ? 0 : 1, boxes->elements);
        merge_dimensions(box);
        boxes->elements += elements;
    } while (next_choice(chosen, count, a->rank));
    return PDL_OK;
}

void pdl__boxes_fini(pdl__boxes_t *boxes)
{
    free(boxes->box);
    *boxes = (pdl__boxes_t){0};
}

static bool box_equal(const pdl__box_t *a, const pdl__box_t *b)
{
    size_t bytes = (size_t)a->rank * sizeof(a->extent[0]);

    return a->rank == b->rank && a->first[0] == b->first[0] && memcmp(a->extent, b->extent, bytes) == 0 &&
           memcmp(a->stride[0], b->stride[0], bytes) == 0;
}

bool pdl__boxes_equal(const pdl__boxes_t *a, const pdl__boxes_t *b)
{
    if (a->count != b->count) return false;
    for (int i = 0; i < a->count; i++) {
        if (!box_equal(&a->box[i], &b->box[i])) return false;
    }
    return true;
}

bool pdl__boxes_run(const pdl__boxes_t *boxes)
{
    return boxes->count == 1 && boxes->box[0].rank == 1 && boxes->box[0].stride[0][0] == 1;
}

/* The two inner dimensions of a box, seen from the source and from the target. */
typedef struct plane {
    int64_t rows, columns;
    int64_t source_row, source_column, target_row, target_column; /* strides */
} plane_t;

typedef void (*plane_fn_t)(const plane_t *plane, const void *source, void *target);

/* The loops of copying and adding, for one pair of types each. */
#define ROWS(what)                                                                                        \
    for (int64_t row = 0; row < plane->rows; row++, from += plane->source_row, to += plane->target_row) { \
        if (plane->source_column == 1 && plane->target_column == 1) {                                     \
            for (int64_t i = 0; i < plane->columns; i++) what(to[i], from[i]);                            \
        } else {                                                                                          \
            for (int64_t i = 0; i < plane->columns; i++)                                                  \
                what(to[i * plane->target_column], from[i * plane->source_column]);                       \
        }                                                                                                 \
    }
#define COPY(to, from)  ((to) = (from))
#define ADD(to, from)   ((to) += (from))
#define WIDEN(to, from) ((to) += pdl__from_bf16(from))

static bool copy_long_rows(const plane_t *plane, size_t item, const char *source, char *target)
{
    if (plane->source_column != 1 || plane->target_column != 1 || plane->columns < SHORT_RUN) return false;
    for (int64_t row = 0; row < plane->rows; row++)
        memcpy(target + (size_t)(row * plane->target_row) * item, source + (size_t)(row * plane->source_row) * item,
               (size_t)plane->columns * item);
    return true;
}

static void copy_4(const plane_t *plane, const void *source, void *target)
{
    const float *restrict from = source;
    float *restrict to = target;

    if (!copy_long_rows(plane, sizeof(*to), source, target)) ROWS(COPY)
}

static void copy_2(const plane_t *plane, const void *source, void *target)
{
    const uint16_t *restrict from = source;
    uint16_t *restrict to = target;

    if (!copy_long_rows(plane, sizeof(*to), source, target)) ROWS(COPY)
}

static void add_4(const plane_t *plane, const void *source, void *target)
{
    const float *restrict from = source;
    float *restrict to = target;

    ROWS(ADD)
}

static void add_2(const plane_t *plane, const void *source, void *target)
{
    const uint16_t *restrict from = source;
    float *restrict to = target;

    ROWS(WIDEN)
}

/* What is done with every plane of a box; elements of the source and the target have so many bytes. */
typedef struct work {
    plane_fn_t function;
    int        from;
    size_t     source_item, target_item;
} work_t;

/* Dimension d and those inside it. */
static void walk(const pdl__box_t *box, int d, const work_t *work, const char *source, char *target)
{
    const int64_t *source_stride = box->stride[work->from], *target_stride = box->stride[1 - work->from];
    int            inner = box->rank - 1;

    if (d + 1 < inner) {
        for (int64_t i = 0; i < box->extent[d]; i++)
            walk(box, d + 1, work, source + (size_t)(i * source_stride[d]) * work->source_item,
                 target + (size_t)(i * target_stride[d]) * work->target_item);
        return;
    }
    work->function(&(plane_t){.rows = inner > 0 ? box->extent[d] : 1,
                              .columns = box->extent[inner],
                              .source_row = inner > 0 ? source_stride[d] : 0,
                              .source_column = source_stride[inner],
                              .target_row = inner > 0 ? target_stride[d] : 0,
                              .target_column = target_stride[inner]},
                   source, target);
}

static void walk_all(const pdl__boxes_t *boxes, const work_t *work, const void *source, void *target)
{
    for (int i = 0; i < boxes->count; i++) {
        const pdl__box_t *box = &boxes->box[i];

        walk(box, 0, work, (const char *)source + (size_t)box->first[work->from] * work->source_item,
             (char *)target + (size_t)box->first[1 - work->from] * work->target_item);
    }
}

void pdl__boxes_copy(const pdl__boxes_t *boxes, int from, size_t item, const void *source, void *target)
{
    work_t work = {item == sizeof(float) ? copy_4 : copy_2, from, item, item};

    walk_all(boxes, &work, source, target);
}

void pdl__boxes_add(const pdl__boxes_t *boxes, int from, size_t item, const void *source, float *target)
{
    work_t work = {item == sizeof(float) ? add_4 : add_2, from, item, sizeof(float)};

    walk_all(boxes, &work, source, target);
}
