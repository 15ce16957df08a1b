/*
 * Placing buffers in one arena by colouring the intervals during which they live. Large ones first, each at the
 * lowest place that is free as long as it lives: for training programs, whose saved tensors nest like brackets, this
 * stays within a few per cent of the most bytes alive at once.
 */
#include <paradl/tape.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    const pdl_tape_buffer_t *x = *(pdl_tape_buffer_t *const *)a, *y = *(pdl_tape_buffer_t *const *)b;

    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* The placed buffers are kept sorted by offset. */
static void insert_sorted(pdl_tape_buffer_t **placed, int count, pdl_tape_buffer_t *buffer)
{
    int at = count;

    while (at > 0 && placed[at - 1]->offset > buffer->offset) {
        placed[at] = placed[at - 1];
        at--;
    }
    placed[at] = buffer;
}

static size_t align_up(size_t bytes, size_t alignment)
{
    return (bytes + alignment - 1) & ~(alignment - 1);
}

/* The smallest gap between neighbours in time that holds the buffer; after the last one if there is none. */
static size_t find_gap(pdl_tape_buffer_t *const *placed, int count, const pdl_tape_buffer_t *buffer,
                       size_t alignment)
{
    size_t end = 0, best = 0, best_gap = SIZE_MAX, wanted = align_up(buffer->bytes, alignment);

    for (int i = 0; i < count; i++) {
        const pdl_tape_buffer_t *other = placed[i];
        if (other->last < buffer->first || buffer->last < other->first) continue;
        if (other->offset >= end + wanted && other->offset - end < best_gap) {
            best_gap = other->offset - end;
            best = end;
        }
        size_t other_end = other->offset + align_up(other->bytes, alignment);
        if (other_end > end) end = other_end;
    }
    return best_gap == SIZE_MAX ? end : best;
}

pdl_status_t pdl_colour_intervals(pdl_tape_buffer_t *buffers, int count, size_t alignment, size_t *arena_bytes)
{
    pdl_tape_buffer_t **order = calloc((size_t)count + 1, 2 * sizeof(*order)), **placed = order + count;
    size_t              top = 0;

    if (!order) return pdl_error(PDL_ERR_NOMEM, "out of memory while placing %d buffers", count);
    for (int i = 0; i < count; i++) order[i] = &buffers[i];
    qsort(order, (size_t)count, sizeof(*order), by_size);
    for (int i = 0; i < count; i++) {
        order[i]->offset = find_gap(placed, i, order[i], alignment);
        insert_sorted(placed, i, order[i]);
        size_t end = order[i]->offset + align_up(order[i]->bytes, alignment);
        if (end > top) top = end;
    }
    free(order);
    *arena_bytes = top;
    return PDL_OK;
}
