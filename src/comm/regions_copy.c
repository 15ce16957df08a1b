/*
 * Copying and adding boxes.
 */
#include "comm/regions_copy.h"
#include "tensor/cpu/simd.h"

#include <string.h>

#define SHORT_RUN 16 /* elements; a call of memcpy costs more than such a loop */

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
static void walk(const pdl_box_t *box, int d, const work_t *work, const char *source, char *target)
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

static void walk_all(const pdl_boxes_t *boxes, const work_t *work, const void *source, void *target)
{
    for (int i = 0; i < boxes->count; i++) {
        const pdl_box_t *box = &boxes->box[i];

        walk(box, 0, work, (const char *)source + (size_t)box->first[work->from] * work->source_item,
             (char *)target + (size_t)box->first[1 - work->from] * work->target_item);
    }
}

void pdl__boxes_copy(const pdl_boxes_t *boxes, int from, size_t item, const void *source, void *target)
{
    work_t work = {item == sizeof(float) ? copy_4 : copy_2, from, item, item};

    walk_all(boxes, &work, source, target);
}

void pdl__boxes_add(const pdl_boxes_t *boxes, int from, size_t item, const void *source, float *target)
{
    work_t work = {item == sizeof(float) ? add_4 : add_2, from, item, sizeof(float)};

    walk_all(boxes, &work, source, target);
}
