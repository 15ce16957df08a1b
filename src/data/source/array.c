/*
 * The meaning of axes.
 */
#include "data/source/array.h"

#include <inttypes.h>
#include <stdio.h>

bool pdl__array_elements(const int64_t *size, int rank, int64_t *elements)
{
    int i;

    *elements = 1;
    for (i = 0; i < rank; i++) {
        if (size[i] <= 0 || __builtin_mul_overflow(*elements, size[i], elements)) return false;
        if (*elements > (int64_t)1 << 46) return false;
    }
    return true;
}

/* Takes axis `channel` (-1: none) as the channels and the others as extents. */
static bool interpret(const int64_t *size, int rank, int channel, pdl_shape_t *shape)
{
    int i;

    *shape = (pdl_shape_t){.channels = channel < 0 ? 1 : size[channel], .extent = {1, 1, 1}};
    if (rank - (channel >= 0) > PDL_MAX_SPACE) return false;
    for (i = 0; i < rank; i++) {
        if (i != channel) shape->extent[shape->rank++] = size[i];
    }
    return true;
}

static bool equal(const pdl_shape_t *a, const pdl_shape_t *b)
{
    int i;

    if (a->rank != b->rank || a->channels != b->channels) return false;
    for (i = 0; i < a->rank; i++) {
        if (a->extent[i] != b->extent[i]) return false;
    }
    return true;
}

static bool few(int64_t channels)
{
    return channels == 1 || channels == 3 || channels == 4;
}

/* The channel axis where the model does not tell: none of two axes; of more the first, unless only the last looks
   like colours or fields. */
static int guess_channel(const int64_t *size, int rank)
{
    if (rank == 1) return 0;
    if (rank == 2) return -1;
    if (rank == 3) return few(size[2]) && !few(size[0]) ? 2 : 0;
    return size[rank - 1] <= 16 && size[0] > 16 ? rank - 1 : 0;
}

static void settle(const pdl_shape_t *stored, int channel, const pdl_shape_t *shape, pdl__array_layout_t *layout)
{
    *layout = (pdl__array_layout_t){.shape = *shape,
                                    .channels = stored->channels,
                                    .positions = pdl_shape_positions(stored),
                                    .channels_last = channel > 0,
                                    .height = stored->extent[0],
                                    .width = stored->extent[1]};
}

/* True when the axes read in this way are what the model asks for. */
static bool try_channel(const int64_t *size, int rank, int channel, const pdl_shape_t *asked,
                        pdl__array_layout_t *layout)
{
    pdl_shape_t stored;

    if (!interpret(size, rank, channel, &stored) || !equal(&stored, asked)) return false;
    settle(&stored, channel, asked, layout);
    return true;
}

pdl_status_t pdl__array_layout(const char *name, const int64_t *size, int rank, bool bytes,
                               const pdl_shape_t *asked, pdl__array_layout_t *layout)
{
    const int    guess = guess_channel(size, rank);
    char         have[96], want[96];
    pdl_shape_t  stored, shape;
    pdl_status_t st;

    if (rank < 1 || !interpret(size, rank, guess, &stored)) {
        return pdl_error(PDL_ERR_INPUT, "%s: a sample has %d axes: expected 1 to 4", name, rank);
    }
    if (!pdl__shape_given(asked)) {
        settle(&stored, guess, &stored, layout);
        return PDL_OK;
    }
    if (!asked->sequence) {
        if (try_channel(size, rank, 0, asked, layout) || try_channel(size, rank, rank - 1, asked, layout) ||
            try_channel(size, rank, -1, asked, layout)) {
            return PDL_OK;
        }
        if (bytes && stored.rank == 2) {
            st = pdl__pixels_shape(name, &stored, asked, &shape);
            if (st != PDL_OK) return st;
            settle(&stored, guess, &shape, layout);
            layout->resize = true;
            return PDL_OK;
        }
        if (asked->rank == 0 && asked->channels == pdl_shape_elements(&stored)) {
            *layout = (pdl__array_layout_t){.shape = *asked, .channels = asked->channels, .positions = 1};
            return PDL_OK;
        }
    }
    return pdl_error(PDL_ERR_INPUT,
                     "%s: holds samples of %s, the model reads %s; choose another model or convert them", name,
                     pdl__shape_text(&stored, have), pdl__shape_text(asked, want));
}

pdl_status_t pdl__array_target(pdl_source_t *source, const char *name, const int64_t *size, int rank, bool integers,
                               const pdl__array_layout_t *layout)
{
    int64_t count;

    if (!pdl__array_elements(size, rank, &count)) {
        return pdl_error(PDL_ERR_INPUT, "%s: the extents of a target are 0 or larger than any file", name);
    }
    source->info.target_count = count;
    if (!integers) {
        source->info.target = PDL_TARGET_VALUES;
    } else if (count == 1) {
        source->info.target = PDL_TARGET_CLASS;
    } else if (count == layout->positions && !layout->resize && pdl_shape_positions(&layout->shape) == count) {
        source->info.target = PDL_TARGET_MASK;
    } else {
        return pdl_error(PDL_ERR_INPUT,
                         "%s: %" PRId64
                         " integers for each sample: expected one class, or one for each of its %" PRId64
                         " positions (numbers to fit are floating point)",
                         name, count, layout->positions);
    }
    return PDL_OK;
}
