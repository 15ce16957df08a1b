/*
 * Layers that only move elements: flatten, to_sequence, select. They know elements by their size, so every
 * precision is served.
 */
#include "tensor/cpu/pointwise/reshape.h"
#include "tensor/cpu/simd.h"
#include "tensor/cpu/threads.h"

#define TILE 16 /* a transposition goes by tiles, of which whole cache lines are used */

/* A sequence [n][position][channel] and the image that it comes from, where channel c lies in panel c / lanes:
   [n][panel][position][lane]. */
typedef struct turn {
    int64_t channels, positions, lanes, panels;
    size_t  size; /* of an element */
    bool    back; /* from the sequence to the image */
    char   *image, *sequence;
} turn_t;

PDL__INLINE void move(const turn_t *turn, char *image, char *sequence, size_t size)
{
    if (turn->back)
        memcpy(image, sequence, size);
    else
        memcpy(sequence, image, size);
}

PDL__INLINE void turn_tile(const turn_t *turn, int64_t n, int64_t position, int64_t channel, size_t size)
{
    int64_t last_position = position + TILE < turn->positions ? position + TILE : turn->positions;
    int64_t last_channel = channel + TILE < turn->channels ? channel + TILE : turn->channels;

    for (int64_t p = position; p < last_position; p++)
        for (int64_t c = channel; c < last_channel; c++) {
            int64_t panel = n * turn->panels + c / turn->lanes;
            int64_t in_image = (panel * turn->positions + p) * turn->lanes + c % turn->lanes;
            int64_t in_sequence = (n * turn->positions + p) * turn->channels + c;

            move(turn, turn->image + in_image * (int64_t)size, turn->sequence + in_sequence * (int64_t)size, size);
        }
}

static void turn_slice(void *context, int64_t first, int64_t end)
{
    const turn_t *turn = context;
    int64_t       across = (turn->positions + TILE - 1) / TILE;

    for (int64_t i = first; i < end; i++)
        for (int64_t channel = 0; channel < turn->channels; channel += TILE) {
            if (turn->size == 4)
                turn_tile(turn, i / across, i % across * TILE, channel, 4);
            else
                turn_tile(turn, i / across, i % across * TILE, channel, 2);
        }
}

static void turn_all(const pdl_shape_t *shape, int64_t samples, pdl_format_t format, turn_t turn)
{
    int64_t tiles;

    turn.channels = shape->channels;
    turn.positions = pdl_shape_positions(shape);
    turn.lanes = format == PDL_FORMAT_BLOCKED ? PDL__BLOCK : 1;
    turn.panels = (turn.channels + turn.lanes - 1) / turn.lanes;
    tiles = (turn.positions + TILE - 1) / TILE;
    pdl_threads_run(samples * tiles, 4, turn_slice, &turn);
}

void pdl__cpu_to_rows(const pdl_shape_t *shape, int64_t samples, pdl_format_t format, size_t size,
                      const void *image, void *rows)
{
    turn_all(shape, samples, format, (turn_t){.image = (char *)image, .sequence = rows, .size = size});
}

void pdl__cpu_from_rows(const pdl_shape_t *shape, int64_t samples, pdl_format_t format, size_t size,
                        const void *rows, void *image)
{
    /* The padding is zero too. */
    if (format == PDL_FORMAT_BLOCKED && shape->channels % PDL__BLOCK != 0)
        memset(image, 0, (size_t)pdl__cpu_elements(shape, samples, PDL_FORMAT_BLOCKED) * size);
    turn_all(shape, samples, format,
             (turn_t){.image = image, .sequence = (char *)rows, .size = size, .back = true});
}

/* Plain images are vectors already, as they lie; sequences have to be turned. */
static bool flatten_turns(const pdl_op_t *op)
{
    const pdl_shape_t *shape = &op->spec.layer->in;

    return shape->sequence && shape->channels > 1 && shape->extent[0] > 1;
}

static pdl_status_t flatten_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    (void)cpu;
    op->description.inplace = !flatten_turns(op);
    op->description.gradient_use[0] = flatten_turns(op) ? PDL_GRADIENT_OWN : PDL_GRADIENT_PASSED;
    return PDL_OK;
}

static size_t element_bytes(const pdl_op_t *op)
{
    return pdl_dtype_bytes(op->backend->activation_type);
}

static pdl_status_t flatten_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    if (flatten_turns(op))
        pdl__cpu_from_rows(&op->spec.layer->in, op->spec.samples, PDL_FORMAT_PLAIN, element_bytes(op),
                           run->input[0], run->output);
    else if (run->output != run->input[0])
        memcpy(run->output, run->input[0], op->description.out_bytes);
    return PDL_OK;
}

static pdl_status_t flatten_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    void *dx = run->input_gradient[0];

    if (!(what & PDL_BACKWARD_DATA) || dx == NULL || dx == run->output_gradient[0]) return PDL_OK;
    if (flatten_turns(op))
        pdl__cpu_to_rows(&op->spec.layer->in, op->spec.samples, PDL_FORMAT_PLAIN, element_bytes(op),
                         run->output_gradient[0], dx);
    else
        memcpy(dx, run->output_gradient[0], op->description.out_bytes);
    return PDL_OK;
}

static pdl_status_t to_sequence_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    (void)cpu;
    op->description.in_format[0] = pdl__cpu_blockable(&op->spec.layer->in) ? op->spec.given[0] : PDL_FORMAT_PLAIN;
    return PDL_OK;
}

static pdl_status_t to_sequence_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    pdl__cpu_to_rows(&op->spec.layer->in, op->spec.samples, op->description.in_format[0], element_bytes(op),
                     run->input[0], run->output);
    return PDL_OK;
}

static pdl_status_t to_sequence_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    if ((what & PDL_BACKWARD_DATA) && run->input_gradient[0] != NULL)
        pdl__cpu_from_rows(&op->spec.layer->in, op->spec.samples, op->description.in_format[0], element_bytes(op),
                           run->output_gradient[0], run->input_gradient[0]);
    return PDL_OK;
}

static pdl_status_t select_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    (void)cpu;
    (void)op;
    return PDL_OK;
}

/* Bytes of a row, of a sample's sequence, and of what comes before the row that is selected. */
static void select_sizes(const pdl_op_t *op, size_t *row, size_t *sequence, size_t *before)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            index = layer->index < 0 ? layer->index + layer->in.extent[0] : layer->index;

    *row = (size_t)layer->in.channels * element_bytes(op);
    *sequence = *row * (size_t)layer->in.extent[0];
    *before = *row * (size_t)index;
}

static pdl_status_t select_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    const char *x = run->input[0];
    char       *y = run->output;
    size_t      row, sequence, before;

    select_sizes(op, &row, &sequence, &before);
    for (size_t n = 0; n < (size_t)op->spec.samples; n++) memcpy(y + n * row, x + n * sequence + before, row);
    return PDL_OK;
}

static pdl_status_t select_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    const char *dy = run->output_gradient[0];
    char       *dx = run->input_gradient[0];
    size_t      row, sequence, before;

    if (!(what & PDL_BACKWARD_DATA) || dx == NULL) return PDL_OK;
    select_sizes(op, &row, &sequence, &before);
    memset(dx, 0, (size_t)op->spec.samples * sequence);
    for (size_t n = 0; n < (size_t)op->spec.samples; n++) memcpy(dx + n * sequence + before, dy + n * row, row);
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_flatten = {.describe = flatten_describe,
                                          .forward = flatten_forward,
                                          .backward = flatten_backward};
const pdl__cpu_kind_t pdl__cpu_to_sequence = {.describe = to_sequence_describe,
                                              .forward = to_sequence_forward,
                                              .backward = to_sequence_backward};
const pdl__cpu_kind_t pdl__cpu_select = {.describe = select_describe,
                                         .forward = select_forward,
                                         .backward = select_backward};
