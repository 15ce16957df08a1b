/*
 * Samples that are made up, of any shape, and such that a model can learn them. All numbers are drawn from the sample's
 * index, so a sample is the same for every rank and at every reading.
 *
 * The space of a sample is cut into cells, four along each axis. To each class belongs a level for every channel and
 * cell; a sample is the levels of its class with as much noise added. For a class at every position the cells of a
 * sample have classes of their own; for values to fit the levels are those values. Tokens follow each other in a
 * Markov chain with four successors to each.
 */
#include "data/source/source.h"

#include <paradl/base/random.h>

#include <inttypes.h>
#include <stdlib.h>

#define SEED            0x70646c64617461u
#define DEFAULT_SAMPLES 60000
#define CELLS           4  /* along an axis */
#define MAX_CELLS       64 /* in all */

typedef struct state {
    uint64_t seed; /* of the samples of this split */
    int64_t  cells;
} state_t;

static bool claims(const char *path, bool folder)
{
    (void)path;
    (void)folder;
    return false; /* known by its name only */
}

static int64_t cell_count(const pdl_shape_t *shape)
{
    int64_t cells = 1;
    int     i;

    for (i = 0; i < shape->rank; i++) cells *= CELLS;
    return cells;
}

/* The cell along one axis. */
static int64_t cell_along(int64_t at, int64_t extent)
{
    return at * CELLS / extent;
}

/* The cell of a row: positions along the last axis go through CELLS more. */
static int64_t cell_of_row(const pdl_shape_t *shape, int64_t row)
{
    int64_t cell = 0, scale = 1;
    int     i;

    for (i = shape->rank - 2; i >= 0; i--) {
        cell += cell_along(row % shape->extent[i], shape->extent[i]) * scale;
        row /= shape->extent[i];
        scale *= CELLS;
    }
    return cell * CELLS;
}

static pdl_status_t choose_shape(const pdl_source_options_t *options, pdl_source_info_t *info)
{
    char    text[96];
    int64_t elements = 1;
    int     i;

    info->shape = pdl__shape_given(&options->shape) ? options->shape : pdl__shape_image(3, 32, 32);
    for (i = info->shape.rank; i < PDL_MAX_SPACE; i++) info->shape.extent[i] = 1;
    for (i = -1; i < info->shape.rank; i++) {
        const int64_t size = i < 0 ? info->shape.channels : info->shape.extent[i];

        if (info->shape.rank > PDL_MAX_SPACE || size < 1 || __builtin_mul_overflow(elements, size, &elements) ||
            elements > (int64_t)1 << 40) {
            return pdl_error(PDL_ERR_INPUT, "synthetic: samples of %s cannot be made",
                             pdl__shape_text(&info->shape, text));
        }
    }
    return PDL_OK;
}

static pdl_status_t open_synthetic(pdl_source_t *source, const char *path, const pdl_source_options_t *options)
{
    pdl_source_info_t *info = &source->info;
    const bool         valid = options->split == PDL_SPLIT_VALID;
    state_t           *state = calloc(1, sizeof(*state));
    pdl_status_t       st;

    if (state == NULL) return pdl__out_of_memory(path);
    source->state = state;
    st = choose_shape(options, info);
    if (st != PDL_OK) return st;
    info->tokens = options->target == PDL_TARGET_TOKENS;
    if (info->tokens && info->shape.rank != 1) {
        return pdl_error(PDL_ERR_INPUT, "synthetic: tokens make up sequences, the model reads something else");
    }
    if (options->samples < 0 || options->classes < 0 || options->classes > INT32_MAX) {
        return pdl_error(PDL_ERR_INPUT, "synthetic: %" PRId64 " samples of %" PRId64 " classes cannot be made",
                         options->samples, options->classes);
    }
    info->target = options->target;
    info->samples = options->samples > 0 ? options->samples : DEFAULT_SAMPLES;
    if (valid) info->samples = info->samples > 10 ? info->samples / 10 : 1;
    info->classes = options->classes > 0 ? options->classes : info->tokens ? 256 : 10;
    info->target_count = 1;
    if (info->target != PDL_TARGET_CLASS) info->target_count = pdl_shape_positions(&info->shape);
    if (info->target == PDL_TARGET_VALUES) {
        info->target_count = options->classes > 0 ? options->classes : 1;
        info->classes = 0;
    }
    state->seed = SEED + valid;
    state->cells = cell_count(&info->shape);
    return PDL_OK;
}

/* Levels are between -1 and 1 and are the same for both splits. */
static float level_of(int64_t class, int64_t channel, int64_t cell)
{
    const uint64_t stream = pdl_random_stream("synthetic level", (uint64_t) class, (uint64_t)channel);

    return (float)(2 * pdl_random_uniform(SEED, stream, (uint64_t)cell) - 1);
}

/* What one sample is made of. */
typedef struct recipe {
    const pdl_source_info_t *info;
    const pdl_sample_t      *sample;
    int32_t class[MAX_CELLS];  /* of each cell */
    float    level[MAX_CELLS]; /* of each cell, in one channel */
    uint64_t seed, noise;
} recipe_t;

static void draw_classes(const state_t *state, recipe_t *recipe, uint64_t index)
{
    const uint64_t stream = pdl_random_stream("synthetic class", index, 0);
    const uint64_t classes = (uint64_t)recipe->info->classes;
    int64_t        i;

    for (i = 0; i < state->cells; i++) {
        const int64_t from = recipe->info->target == PDL_TARGET_MASK ? i : 0;

        recipe->class[i] = (int32_t)pdl_random_below(state->seed, stream, (uint64_t)from, classes);
    }
}

static void draw_numbers(const state_t *state, const recipe_t *recipe, uint64_t index)
{
    const uint64_t stream = pdl_random_stream("synthetic value", index, 0);
    int64_t        i;

    for (i = 0; i < recipe->info->target_count; i++) {
        recipe->sample->numbers[i] = (float)(2 * pdl_random_uniform(state->seed, stream, (uint64_t)i) - 1);
    }
}

static void set_levels(const state_t *state, recipe_t *recipe, int64_t channel)
{
    int64_t i;

    for (i = 0; i < state->cells; i++) {
        switch (recipe->info->target) {
        case PDL_TARGET_VALUES:
            recipe->level[i] = recipe->sample->numbers[(channel * state->cells + i) % recipe->info->target_count];
            break;
        case PDL_TARGET_MASK: recipe->level[i] = level_of(recipe->class[i], channel, 0); break;
        default: recipe->level[i] = level_of(recipe->class[i], channel, i); break;
        }
    }
}

/* One row of the last axis, `row` being its number among all rows of all channels. */
static void fill_row(const recipe_t *recipe, int64_t row, int64_t length, const float *level, float *values)
{
    int64_t cell, i = 0;

    pdl_random_fill(recipe->seed, recipe->noise, (uint64_t)(row * length), length, values);
    for (cell = 0; cell < CELLS; cell++) {
        const int64_t end = ((cell + 1) * length + CELLS - 1) / CELLS; /* where cell_along() says so */

        for (; i < end; i++) values[i] = level[cell] + 2 * values[i] - 1;
    }
}

static void fill_labels(const recipe_t *recipe, int64_t rows, int64_t length)
{
    int64_t row, x;

    if (recipe->info->target == PDL_TARGET_CLASS) recipe->sample->labels[0] = recipe->class[0];
    if (recipe->info->target != PDL_TARGET_MASK) return;
    for (row = 0; row < rows; row++) {
        const int32_t *class =
            recipe->class + (recipe->info->shape.rank > 0 ? cell_of_row(&recipe->info->shape, row) : 0);

        for (x = 0; x < length; x++) recipe->sample->labels[row * length + x] = class[cell_along(x, length)];
    }
}

static void make_values(const pdl_source_t *source, int64_t index, const pdl_sample_t *sample)
{
    const state_t     *state = source->state;
    const pdl_shape_t *shape = &source->info.shape;
    const int64_t      length = shape->rank > 0 ? shape->extent[shape->rank - 1] : 1;
    const int64_t      rows = pdl_shape_positions(shape) / length;
    recipe_t           recipe = {.info = &source->info, .sample = sample, .seed = state->seed};
    int64_t            c, row;

    recipe.noise = pdl_random_stream("synthetic noise", (uint64_t)index, 0);
    if (source->info.target == PDL_TARGET_VALUES) {
        draw_numbers(state, &recipe, (uint64_t)index);
    } else {
        draw_classes(state, &recipe, (uint64_t)index);
    }
    for (c = 0; c < shape->channels; c++) {
        set_levels(state, &recipe, c);
        for (row = 0; row < rows; row++) {
            const int64_t cell = shape->rank > 0 ? cell_of_row(shape, row) : 0;

            fill_row(&recipe, c * rows + row, length, recipe.level + cell,
                     sample->values + (c * rows + row) * length);
        }
    }
    fill_labels(&recipe, rows, length);
}

/* Half of the time the first successor of a token follows, a quarter of the time the second, then an eighth each. */
static int32_t follow(const state_t *state, const pdl_source_info_t *info, int32_t token, uint64_t stream,
                      uint64_t at)
{
    const double   draw = pdl_random_uniform(state->seed, stream, at);
    const uint64_t choice = draw < 0.5 ? 0 : draw < 0.75 ? 1 : draw < 0.875 ? 2 : 3;

    return (int32_t)pdl_random_below(SEED, pdl_random_stream("synthetic successor", (uint64_t)token, 0), choice,
                                     (uint64_t)info->classes);
}

static void make_tokens(const pdl_source_t *source, int64_t index, const pdl_sample_t *sample)
{
    const pdl_source_info_t *info = &source->info;
    const state_t           *state = source->state;
    const uint64_t           stream = pdl_random_stream("synthetic tokens", (uint64_t)index, 0);
    const int64_t            shift = sample->shift > 0 ? sample->shift : 0;
    int32_t                  token = (int32_t)pdl_random_below(state->seed, stream, 0, (uint64_t)info->classes);
    int64_t                  i;

    for (i = 0; i <= info->target_count + shift; i++) {
        if (i >= shift && i < info->target_count + shift) sample->tokens[i - shift] = token;
        if (i > shift) sample->labels[i - shift - 1] = token;
        token = follow(state, info, token, stream, (uint64_t)i + 1);
    }
}

static pdl_status_t read_synthetic(const pdl_source_t *source, int64_t index, const pdl_sample_t *sample)
{
    if (source->info.tokens) {
        make_tokens(source, index, sample);
    } else {
        make_values(source, index, sample);
    }
    return PDL_OK;
}

static void close_synthetic(void *state)
{
    free(state);
}

const pdl__reader_t pdl__reader_synthetic = {"synthetic", claims, open_synthetic, read_synthetic, close_synthetic};
