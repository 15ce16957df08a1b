/*
 * Initial weights. "default" is what PyTorch's layers draw when they are made: for convolutions and linear
 * layers the uniform distribution within 1 / sqrt(fan in), for weights and biases alike. He: He, Zhang, Ren,
 * Sun, ICCV 2015; Xavier: Glorot and Bengio, AISTATS 2010. Fans are counted as PyTorch does, from the shape of
 * the tensor.
 */
#include <paradl/train/init.h>

#include <paradl/tensor/threads.h>

#include <paradl/base/random.h>
#include <paradl/model/traits.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum law { CONSTANT, UNIFORM, NORMAL } law_t;

typedef struct draw {
    law_t    law;
    double   value; /* the constant, half the width, or the standard deviation */
    uint64_t seed, stream;
    int64_t  first;
    float   *out;
} draw_t;

typedef struct fans {
    double in, out;
} fans_t;

/* [out][in][kernel...]; experts have one such matrix each. Transposed convolutions are [in][out][kernel...], and
   PyTorch counts them as if they were not. */
static fans_t weight_fans(const pdl_layer_t *layer, int rank, const int64_t *dims)
{
    int    matrix = pdl_layer_traits(layer)->kernel == PDL_KERNEL_EXPERTS && rank == 3 ? 1 : 0;
    double field = 1;
    double groups = layer->groups > 0 ? (double)layer->groups : 1;

    if (rank < matrix + 2) return (fans_t){rank > 0 ? (double)dims[0] : 1, 1};
    for (int d = matrix + 2; d < rank; d++) field *= (double)dims[d];
    return (fans_t){(double)dims[matrix + 1] * field, (double)dims[matrix] * field / groups};
}

/* The fan in of the weight that a bias belongs to. */
static double bias_fan(const pdl_layer_t *layer)
{
    double fan = (double)layer->in.channels;

    if (pdl_layer_is_linear(layer)) return fan;
    if (pdl_layer_traits(layer)->transposed) fan = (double)layer->out.channels;
    if (layer->groups > 0) fan /= (double)layer->groups;
    for (int d = 0; d < layer->in.rank; d++) fan *= (double)layer->kernel[d];
    return fan;
}

static draw_t constant(double value)
{
    return (draw_t){.law = CONSTANT, .value = value};
}

static draw_t uniform(double bound)
{
    return (draw_t){.law = UNIFORM, .value = bound};
}

static draw_t normal(double deviation)
{
    return (draw_t){.law = NORMAL, .value = deviation};
}

static draw_t choose_weight(const pdl_layer_t *layer, int rank, const int64_t *dims)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    fans_t              fans = weight_fans(layer, rank, dims);

    if (traits->initial == PDL_INITIAL_ONE) return constant(layer->init == PDL_INIT_ZERO ? 0 : 1);
    switch (layer->init) {
    case PDL_INIT_DEFAULT: break;
    case PDL_INIT_HE: return normal(sqrt(2 / fmax(fans.in, 1)));
    case PDL_INIT_XAVIER: return uniform(sqrt(6 / fmax(fans.in + fans.out, 1)));
    case PDL_INIT_NORMAL: return normal(layer->init_std);
    case PDL_INIT_ZERO: return constant(0);
    case PDL_INIT_ONE: return constant(1);
    }
    /* A table of vectors has no fans. */
    if (traits->initial == PDL_INITIAL_NORMAL) return normal(traits->initial_std);
    return uniform(1 / sqrt(fmax(fans.in, 1)));
}

static draw_t choose_bias(const pdl_layer_t *layer)
{
    if (pdl_layer_traits(layer)->initial == PDL_INITIAL_ONE || layer->init != PDL_INIT_DEFAULT) return constant(0);
    return uniform(1 / sqrt(fmax(bias_fan(layer), 1)));
}

static pdl_status_t choose(const pdl_layer_t *layer, const char *name, int rank, const int64_t *dims, draw_t *draw)
{
    static const char *const drawn[] = {"weight", "router", "gate", "up", "down"};

    for (size_t i = 0; i < sizeof(drawn) / sizeof(drawn[0]); i++) {
        if (strcmp(name, drawn[i]) != 0) continue;
        *draw = choose_weight(layer, rank, dims);
        return PDL_OK;
    }
    if (strcmp(name, "bias") == 0)
        *draw = choose_bias(layer);
    else if (strcmp(name, "running_mean") == 0 || strcmp(name, "class_token") == 0)
        *draw = constant(0);
    else if (strcmp(name, "running_var") == 0)
        *draw = constant(1);
    else
        return pdl_error(PDL_ERR_UNSUPPORTED, "layer %s: how its weight %s starts is not known", layer->name, name);
    return PDL_OK;
}

/* Box and Muller: elements 2p and 2p+1 come from uniforms 2p and 2p+1, the first of which is turned into (0, 1] so
   that its logarithm exists. */
static void to_normal(float *pair, float deviation)
{
    const float two_pi = 6.28318530717958647692F;
    float       radius = deviation * sqrtf(-2 * logf(1 - pair[0])), angle = two_pi * pair[1];

    pair[0] = radius * cosf(angle);
    pair[1] = radius * sinf(angle);
}

#define BLOCK 1024

static void draw_normal(const draw_t *draw, int64_t first, int64_t end)
{
    float buffer[BLOCK + 2];

    while (first < end) {
        int64_t count = end - first < BLOCK ? end - first : BLOCK;
        int64_t from = (draw->first + first) & ~INT64_C(1), before = draw->first + first - from;
        int64_t pairs = (before + count + 1) / 2;

        pdl_random_fill(draw->seed, draw->stream, (uint64_t)from, 2 * pairs, buffer);
        for (int64_t p = 0; p < pairs; p++) to_normal(buffer + 2 * p, (float)draw->value);
        memcpy(draw->out + first, buffer + before, (size_t)count * sizeof(float));
        first += count;
    }
}

/* Elements [first, end) of the piece. */
static void draw_slice(void *context, int64_t first, int64_t end)
{
    const draw_t *draw = context;
    float         bound = (float)draw->value;

    switch (draw->law) {
    case CONSTANT:
        for (int64_t i = first; i < end; i++) draw->out[i] = bound;
        break;
    case UNIFORM:
        pdl_random_fill(draw->seed, draw->stream, (uint64_t)(draw->first + first), end - first, draw->out + first);
        for (int64_t i = first; i < end; i++) draw->out[i] = bound * (2 * draw->out[i] - 1);
        break;
    case NORMAL: draw_normal(draw, first, end); break;
    }
}

static pdl_status_t full_name_stream(const pdl_layer_t *layer, const char *name, uint64_t *stream)
{
    size_t size = strlen(layer->name) + strlen(name) + 2;
    char  *full = malloc(size);

    if (full == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    snprintf(full, size, "%s.%s", layer->name, name);
    *stream = pdl_random_stream(full, 0, 0);
    free(full);
    return PDL_OK;
}

pdl_status_t pdl_init_weight_piece(const pdl_layer_t *layer, const char *name, int rank, const int64_t *dims,
                                   uint64_t seed, int64_t first, int64_t count, float *piece)
{
    draw_t       draw;
    pdl_status_t status = choose(layer, name, rank, dims, &draw);

    if (!status) status = full_name_stream(layer, name, &draw.stream);
    if (status) return status;
    draw.seed = seed;
    draw.first = first;
    draw.out = piece;
    pdl_threads_run(count, 65536, draw_slice, &draw);
    return PDL_OK;
}

pdl_status_t pdl_init_weight(const pdl_layer_t *layer, const char *name, int rank, const int64_t *dims,
                             uint64_t seed, float *plain)
{
    int64_t count = 1;

    for (int d = 0; d < rank; d++) count *= dims[d];
    return pdl_init_weight_piece(layer, name, rank, dims, seed, 0, count, plain);
}
