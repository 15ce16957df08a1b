/*
 * Convolutions of few channels as products of small matrices.
 *
 * Samples are copied to a buffer with their padding, where the window of any output position begins at some offset
 * and its elements ("taps", k = (channel, window element)) are at fixed offsets from there. From it the panels that
 * the register kernel of gemm.h wants are filled directly, by copies of whole vectors: what is written beyond the end
 * of a piece is overwritten by the next.
 *
 *     forward              y[f][p]  = sum over k of w[f][k] x[k][p]        p: 32 positions at a time, over samples
 *     backward to weights  dw[f][k] = sum over p of dy[f][p] x[p][k]       sample by sample
 *     backward to input    u[k][p]  = sum over f of w[f][k] dy[f][p]       sample by sample; then dx gathers from u
 *
 * Gradients of weights are summed over chunks of samples, whose number depends on the shape only, and these in order:
 * the result is the same for any number of threads.
 */
#include "tensor/cpu/window/conv_small.h"

#include "tensor/cpu/lanes.h"
#include "tensor/cpu/matmul/gemm.h"
#include "tensor/cpu/threads.h"

#include <stdlib.h>

#define ROWS    PDL__GEMM_ROWS
#define COLUMNS PDL__GEMM_COLUMNS

#define CHUNKS       32           /* most pieces that the sum over samples is cut into */
#define GROUP        512          /* positions that forward takes together, at least, where the batch has them */
#define SLACK        64           /* floats before and after buffers that whole vectors may touch */
#define LARGEST      (192 * 1024) /* floats of an unrolled sample: it stays in the second-level cache */
#define PIECE        8            /* taps that are copied at once */
#define MOST_PIECES  COLUMNS      /* of a panel */
#define MOST_FILTERS 16

typedef float v8_t __attribute__((vector_size(32), aligned(4), may_alias));
typedef float v16_t __attribute__((vector_size(64), aligned(4), may_alias));

/* Neighbouring taps that lie side by side in a panel and in the sample. */
typedef struct pdl__taps {
    int64_t panel, lane, offset;
} pdl__taps_t;

struct pdl__small {
    const pdl_layer_t *layer;
    bool               relu;
    int                threads;
    int64_t            samples, channels, filters, k, positions, in_positions;
    int64_t            in[3], out[3], kernel[3], dilation[3], low[3], padded[3]; /* the rows are dimension 2 */
    int64_t            image;                                                    /* floats of a padded sample */
    int64_t            group;          /* samples that forward takes together */
    int64_t            chunks, part;   /* of weight gradients; floats of one */
    int64_t            wide_f, wide_k; /* rounded up to whole panels */
    int64_t            wide_p;
    int64_t            packed;      /* floats of the weights in panels */
    int64_t            scratch;     /* floats of a thread */
    int64_t           *tap;         /* [k] */
    pdl__taps_t       *piece;       /* of all panels, in order */
    int64_t           *first_piece; /* of each panel, and the end */
    pdl__i16_t        *mask;        /* [window along a row][block of 16 inputs]: those it covers */
};

typedef struct pdl__small_run {
    const pdl__small_t *small;
    const pdl_op_run_t *run;
    bool                data, weight;
    float              *packed, *parts, *scratch;
} pdl__small_run_t;

static int64_t round_to(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Measured on one core with AVX-512, batch 64, microseconds (lower quartile) with oneDNN and here: 6 -> 16, 5x5, 14x14
   forward 726 and 495, backward 1625 and 1036; 1 -> 6, 5x5, 28x28 forward 382 and 446, backward 606 and 522, after
   which pooling is faster too, because it finds PLAIN. oneDNN computes whole blocks of 16 channels. Strides and more
   filters, whose blocks are full and whose successors want BLOCKED, are left to it. */
bool pdl__small_suits(const pdl__cpu_t *cpu, const pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            taps = layer->in.channels, positions = pdl_shape_positions(&layer->out);

    if (cpu->base.activation_type != PDL_DTYPE_F32 || pdl_layer_traits(layer)->transposed || layer->groups != 1)
        return false;
    if (layer->in.channels >= PDL__BLOCK || layer->out.channels > MOST_FILTERS) return false;
    for (int d = 0; d < layer->in.rank; d++) {
        if (layer->stride[d] != 1 || layer->pad_low[d] < 0 || layer->pad_high[d] < 0) return false;
        if ((layer->kernel[d] - 1) * layer->dilation[d] >= SLACK / 2 || layer->pad_low[d] >= SLACK / 2)
            return false;
        taps *= layer->kernel[d];
    }
    return round_to(taps, COLUMNS) * round_to(positions, COLUMNS) <= LARGEST;
}

static void fill_shape(const pdl_op_t *op, pdl__small_t *s)
{
    const pdl_layer_t *layer = op->spec.layer;
    int                shift = 3 - layer->in.rank;

    s->layer = layer;
    s->relu = op->spec.fusion.activation == PDL_LAYER_RELU;
    s->threads = op->backend->threads;
    s->samples = op->spec.samples;
    s->channels = layer->in.channels;
    s->filters = layer->out.channels;
    s->k = s->image = s->channels;
    s->positions = s->in_positions = 1;
    for (int d = 0; d < 3; d++) {
        bool real = d >= shift;

        s->in[d] = real ? layer->in.extent[d - shift] : 1;
        s->out[d] = real ? layer->out.extent[d - shift] : 1;
        s->kernel[d] = real ? layer->kernel[d - shift] : 1;
        s->dilation[d] = real ? layer->dilation[d - shift] : 1;
        s->low[d] = real ? layer->pad_low[d - shift] : 0;
        s->padded[d] = s->out[d] + (s->kernel[d] - 1) * s->dilation[d];
        s->k *= s->kernel[d];
        s->image *= s->padded[d];
        s->positions *= s->out[d];
        s->in_positions *= s->in[d];
    }
    s->wide_f = round_to(s->filters, ROWS);
    s->wide_k = round_to(s->k, COLUMNS);
    s->wide_p = round_to(s->positions, COLUMNS);
}

/* Of a thread: samples | panel and part of the product (forward) or gradient, its panels, unrolled sample. */
static void plan_memory(pdl_op_t *op, pdl__small_t *s)
{
    int64_t forward, backward, unrolled = s->wide_k * s->wide_p;

    s->group = (GROUP + s->positions - 1) / s->positions;
    if (s->group > s->samples) s->group = s->samples;
    s->chunks = s->samples < CHUNKS ? s->samples : CHUNKS;
    s->part = s->wide_f * s->wide_k + s->wide_f;
    s->packed = round_to(s->wide_f * s->wide_k, 16);
    forward = s->group * s->image + s->k * COLUMNS + ROWS * COLUMNS + 2 * SLACK;
    backward = s->image + s->wide_f * s->wide_p * 2 + unrolled + 4 * SLACK;
    s->scratch = round_to(op->spec.training && backward > forward ? backward : forward, 16);
    op->description.workspace_bytes =
        (size_t)(s->packed + (op->spec.training ? s->chunks * s->part : 0) + s->threads * s->scratch) *
        sizeof(float);
}

static void fill_taps(pdl__small_t *s)
{
    int64_t at = 0, pieces = 0, length = 0;

    for (int64_t c = 0; c < s->channels; c++)
        for (int64_t z = 0; z < s->kernel[0]; z++)
            for (int64_t y = 0; y < s->kernel[1]; y++)
                for (int64_t x = 0; x < s->kernel[2]; x++)
                    s->tap[at++] = ((c * s->padded[0] + z * s->dilation[0]) * s->padded[1] + y * s->dilation[1]) *
                                       s->padded[2] +
                                   x * s->dilation[2];
    for (int64_t k = 0; k < s->k; k++, length++) {
        if (k % COLUMNS == 0) s->first_piece[k / COLUMNS] = pieces;
        if (k % COLUMNS != 0 && length < PIECE && s->tap[k] == s->tap[k - 1] + 1) continue;
        s->piece[pieces++] = (pdl__taps_t){k / COLUMNS, k % COLUMNS, s->tap[k]};
        length = 0;
    }
    s->first_piece[s->wide_k / COLUMNS] = pieces;
}

static void fill_masks(pdl__small_t *s)
{
    int64_t blocks = (s->in[2] + 15) / 16;

    for (int64_t kx = 0; kx < s->kernel[2]; kx++)
        for (int64_t block = 0; block < blocks; block++)
            for (int64_t lane = 0; lane < 16; lane++) {
                int64_t x = block * 16 + lane + s->low[2] - kx * s->dilation[2];

                s->mask[kx * blocks + block][lane] = x >= 0 && x < s->out[2] ? -1 : 0;
            }
}

void pdl__small_destroy(pdl__small_t *small)
{
    if (small == NULL) return;
    free(small->tap);
    free(small->piece);
    free(small->first_piece);
    free(small->mask);
    free(small);
}

pdl_status_t pdl__small_describe(pdl_op_t *op, pdl__small_t **small)
{
    pdl__small_t *s = calloc(1, sizeof(*s));

    if (s == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", op->spec.layer->name);
    fill_shape(op, s);
    plan_memory(op, s);
    *small = s;
    return PDL_OK;
}

pdl_status_t pdl__small_prepare(pdl__small_t *s)
{
    s->tap = calloc((size_t)s->k, sizeof(*s->tap));
    s->piece = calloc((size_t)s->k, sizeof(*s->piece));
    s->first_piece = calloc((size_t)(s->wide_k / COLUMNS + 1), sizeof(*s->first_piece));
    s->mask = aligned_alloc(64, (size_t)(s->kernel[2] * ((s->in[2] + 15) / 16)) * sizeof(*s->mask));
    if (s->tap == NULL || s->piece == NULL || s->first_piece == NULL || s->mask == NULL)
        return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", s->layer->name);
    fill_taps(s);
    fill_masks(s);
    return PDL_OK;
}

/* A sample with its padding. What vectors read behind the last buffer is not used, but must be there. */
PDL__INLINE void pad_sample(const pdl__small_t *s, const float *x, float *image)
{
    if (s->image == s->channels * s->in_positions) {
        memcpy(image, x, (size_t)s->image * sizeof(*x));
        return;
    }
    memset(image, 0, (size_t)s->image * sizeof(*image));
    for (int64_t c = 0; c < s->channels; c++)
        for (int64_t z = 0; z < s->in[0]; z++) {
            float *to =
                image + ((c * s->padded[0] + z + s->low[0]) * s->padded[1] + s->low[1]) * s->padded[2] + s->low[2];

            for (int64_t y = 0; y < s->in[1]; y++, x += s->in[2], to += s->padded[2])
                memcpy(to, x, (size_t)s->in[2] * sizeof(*x));
        }
}

/* Where the windows of a row of outputs begin in their padded sample. */
PDL__INLINE int64_t windows_at(const pdl__small_t *s, int64_t row)
{
    return (row / s->out[1] * s->padded[1] + row % s->out[1]) * s->padded[2];
}

/* [k][COLUMNS] for `count` positions from `first` on, counted over the samples in `images`. */
PDL__INLINE void fill_positions(const pdl__small_t *s, const float *images, int64_t first, int64_t count,
                                float *panel)
{
    int64_t lane[COLUMNS], from[COLUMNS], rows = s->out[0] * s->out[1];
    int64_t n = first / s->positions, row = first % s->positions / s->out[2], x = first % s->out[2];
    int     pieces = 0;

    for (int64_t at = 0, length; at < count; at += length) {
        if (x == s->out[2]) x = 0, row++;
        if (row == rows) row = 0, n++;
        length = s->out[2] - x < 16 ? s->out[2] - x : 16;
        lane[pieces] = at;
        from[pieces++] = n * s->image + windows_at(s, row) + x;
        x += length;
    }
    for (int64_t k = 0; k < s->k; k++, panel += COLUMNS)
        for (int i = 0; i < pieces; i++)
            *(v16_t *)(panel + lane[i]) = *(const v16_t *)(images + from[i] + s->tap[k]);
}

/* Bias and ReLU on the way from a part of the product to the output. Positions may be of several samples. */
PDL__INLINE void finish_part(const pdl__small_t *s, const float *part, const float *bias, int64_t f0, int64_t first,
                             int64_t count, float *y)
{
    int64_t rows = s->filters - f0 < ROWS ? s->filters - f0 : ROWS;

    for (int64_t at = 0, length; at < count; at += length) {
        int64_t n = (first + at) / s->positions, position = (first + at) % s->positions;

        length = s->positions - position < count - at ? s->positions - position : count - at;
        for (int64_t i = 0; i < rows; i++) {
            float       *to = y + (n * s->filters + f0 + i) * s->positions + position;
            const float *from = part + i * COLUMNS + at;
            float        b = bias != NULL ? bias[f0 + i] : 0.0f;
            int64_t      j = 0;

            for (; j + 16 <= length; j += 16) {
                pdl__f16_t v = pdl__load_f32(from + j, 16) + b;

                pdl__store_f32(to + j, s->relu ? pdl__relu(v) : v, 16);
            }
            for (; j < length; j++) {
                float v = from[j] + b;

                to[j] = s->relu && v < 0.0f ? 0.0f : v;
            }
        }
    }
}

PDL__CLONES static void forward_samples(const pdl__small_run_t *r, int64_t first, int64_t end, float *scratch)
{
    const pdl__small_t   *s = r->small;
    const float          *x = r->run->input[0], *bias = s->layer->bias ? r->run->weight[1] : NULL;
    pdl__gemm_kernel_fn_t kernel = pdl__gemm_kernel();
    float                *panel = scratch, *part = panel + s->k * COLUMNS + SLACK, *images = part + ROWS * COLUMNS;

    for (int64_t n = first; n < end; n += s->group) {
        int64_t samples = end - n < s->group ? end - n : s->group, total = samples * s->positions;
        float  *y = (float *)r->run->output + n * s->filters * s->positions;

        for (int64_t i = 0; i < samples; i++)
            pad_sample(s, x + (n + i) * s->channels * s->in_positions, images + i * s->image);
        for (int64_t q = 0; q < total; q += COLUMNS) {
            int64_t count = total - q < COLUMNS ? total - q : COLUMNS;

            fill_positions(s, images, q, count, panel);
            for (int64_t f = 0; f < s->filters; f += ROWS) {
                kernel(s->k, r->packed + f * s->k, panel, part, COLUMNS, false);
                finish_part(s, part, bias, f, q, count, y);
            }
        }
    }
}

static void forward_workers(void *context, int64_t first, int64_t end)
{
    const pdl__small_run_t *r = context;
    const pdl__small_t     *s = r->small;

    for (int64_t i = first; i < end; i++)
        forward_samples(r, s->samples * i / s->threads, s->samples * (i + 1) / s->threads,
                        r->scratch + i * s->scratch);
}

void pdl__small_forward(const pdl__small_t *small, const pdl_op_run_t *run)
{
    float           *workspace = run->workspace;
    pdl__matrix_t    weights = {.data = run->weight[0], .stride = small->k};
    pdl__small_run_t r = {.small = small, .run = run, .packed = workspace, .scratch = workspace + small->packed};

    pdl__gemm_pack_a(&weights, small->filters, small->k, r.packed);
    pdl_threads_run(small->threads, 1, forward_workers, &r);
}

/* The gradient of a sample before the ReLU. It is copied also where filters are missing for whole panels, for which
   the caller has zeros behind it. */
PDL__INLINE const float *mask_gradient(const pdl__small_run_t *r, int64_t n, float *masked)
{
    const pdl__small_t *s = r->small;
    int64_t             count = s->filters * s->positions, i = 0;
    const float        *g = (const float *)r->run->output_gradient[0] + n * count, *h = r->run->output_gradient[1];
    const float        *y;

    if (!s->relu && s->filters == s->wide_f) return g;
    if (!s->relu) return memcpy(masked, g, (size_t)count * sizeof(*g));
    y = (const float *)r->run->output + n * count;
    if (h != NULL) h += n * count;
    for (; i + 16 <= count; i += 16) {
        pdl__f16_t v = pdl__load_f32(g + i, 16);

        if (h != NULL) v += pdl__load_f32(h + i, 16);
        pdl__store_f32(masked + i, (pdl__f16_t)((pdl__i16_t)v & pdl__positive(pdl__load_f32(y + i, 16))), 16);
    }
    for (; i < count; i++) masked[i] = y[i] > 0.0f ? g[i] + (h != NULL ? h[i] : 0.0f) : 0.0f;
    return masked;
}

/* [panel][position][COLUMNS] of a sample. */
PDL__INLINE void fill_windows(const pdl__small_t *s, const float *image, float *panels)
{
    int64_t lane[MOST_PIECES], offset[MOST_PIECES];

    for (int64_t panel = 0; panel < s->wide_k / COLUMNS; panel++) {
        int pieces = (int)(s->first_piece[panel + 1] - s->first_piece[panel]);

        for (int i = 0; i < pieces; i++) {
            lane[i] = s->piece[s->first_piece[panel] + i].lane;
            offset[i] = s->piece[s->first_piece[panel] + i].offset;
        }
        for (int64_t row = 0; row < s->out[0] * s->out[1]; row++) {
            const float *window = image + windows_at(s, row);

            for (int64_t x = 0; x < s->out[2]; x++, panels += COLUMNS)
                for (int i = 0; i < pieces; i++)
                    *(v8_t *)(panels + lane[i]) = *(const v8_t *)(window + x + offset[i]);
        }
    }
}

PDL__INLINE float sum_row(const float *g, int64_t count)
{
    pdl__f16_t sum = {0};
    float      total = 0.0f;
    int64_t    i = 0;

    for (; i + 16 <= count; i += 16) sum += pdl__load_f32(g + i, 16);
    for (; i < count; i++) total += g[i];
    for (int lane = 0; lane < 16; lane++) total += sum[lane];
    return total;
}

PDL__INLINE void weight_gradient(const pdl__small_run_t *r, int64_t n, bool add, const float *g, float *panels_a,
                                 float *image, float *unrolled, float *part)
{
    const pdl__small_t   *s = r->small;
    pdl__gemm_kernel_fn_t kernel = pdl__gemm_kernel();
    pdl__matrix_t         gradient = {.data = g, .stride = s->positions};
    float                *bias = part + s->wide_f * s->wide_k;

    pad_sample(s, (const float *)r->run->input[0] + n * s->channels * s->in_positions, image);
    fill_windows(s, image, unrolled);
    pdl__gemm_pack_a(&gradient, s->wide_f, s->positions, panels_a);
    for (int64_t k = 0; k < s->wide_k; k += COLUMNS)
        for (int64_t f = 0; f < s->filters; f += ROWS)
            kernel(s->positions, panels_a + f * s->positions, unrolled + k * s->positions, part + f * s->wide_k + k,
                   s->wide_k, add);
    for (int64_t f = 0; f < s->filters; f++)
        bias[f] = (add ? bias[f] : 0.0f) + sum_row(g + f * s->positions, s->positions);
}

/* Sixteen inputs, or fewer, of a row: the sum over the windows that cover them. */
PDL__INLINE pdl__f16_t gather(const pdl__small_t *s, const float *columns, int64_t c, const int64_t at[2],
                              int64_t block)
{
    int64_t    blocks = (s->in[2] + 15) / 16;
    pdl__f16_t sum = {0};

    for (int64_t kz = 0; kz < s->kernel[0]; kz++) {
        int64_t z = at[0] + s->low[0] - kz * s->dilation[0];

        if (z < 0 || z >= s->out[0]) continue;
        for (int64_t ky = 0; ky < s->kernel[1]; ky++) {
            int64_t      y = at[1] + s->low[1] - ky * s->dilation[1];
            int64_t      k = ((c * s->kernel[0] + kz) * s->kernel[1] + ky) * s->kernel[2];
            const float *row;

            if (y < 0 || y >= s->out[1]) continue;
            row = columns + k * s->wide_p + (z * s->out[1] + y) * s->out[2] + block * 16 + s->low[2];
            for (int64_t kx = 0; kx < s->kernel[2]; kx++, row += s->wide_p - s->dilation[2])
                sum += (pdl__f16_t)((pdl__i16_t)pdl__load_f32(row, 16) & s->mask[kx * blocks + block]);
        }
    }
    return sum;
}

PDL__INLINE void input_gradient(const pdl__small_run_t *r, int64_t n, const float *g, float *panels_b,
                                float *columns)
{
    const pdl__small_t   *s = r->small;
    pdl__gemm_kernel_fn_t kernel = pdl__gemm_kernel();
    pdl__matrix_t         gradient = {.data = g, .stride = s->positions};
    float                *dx = (float *)r->run->input_gradient[0] + n * s->channels * s->in_positions;
    float                *end = dx + s->channels * s->in_positions;

    pdl__gemm_pack_b(&gradient, s->filters, s->positions, panels_b);
    for (int64_t p = 0; p < s->positions; p += COLUMNS)
        for (int64_t k = 0; k < s->k; k += ROWS)
            kernel(s->filters, r->packed + k * s->filters, panels_b + p * s->filters, columns + k * s->wide_p + p,
                   s->wide_p, false);
    for (int64_t c = 0; c < s->channels; c++)
        for (int64_t row = 0; row < s->in[0] * s->in[1]; row++, dx += s->in[2])
            for (int64_t block = 0; block * 16 < s->in[2]; block++) {
                const int64_t at[2] = {row / s->in[1], row % s->in[1]};
                pdl__f16_t    v = gather(s, columns, c, at, block);
                float        *to = dx + block * 16;

                /* What goes beyond the row is overwritten by the next. */
                pdl__store_f32(to, v, end - to >= 16 ? 16 : end - to);
            }
}

PDL__CLONES static void backward_chunk(const pdl__small_run_t *r, int64_t chunk, float *scratch)
{
    const pdl__small_t *s = r->small;
    int64_t             first = s->samples * chunk / s->chunks, end = s->samples * (chunk + 1) / s->chunks;
    float              *masked = scratch, *panels = masked + s->wide_f * s->wide_p, *unrolled, *image;

    unrolled = panels + s->wide_f * s->wide_p + SLACK;
    image = unrolled + s->wide_k * s->wide_p + SLACK;
    memset(masked + s->filters * s->positions, 0,
           (size_t)((s->wide_f - s->filters) * s->positions) * sizeof(*masked));
    for (int64_t n = first; n < end; n++) {
        const float *g = mask_gradient(r, n, masked);

        if (r->weight) weight_gradient(r, n, n > first, g, panels, image, unrolled, r->parts + chunk * s->part);
        if (r->data) input_gradient(r, n, g, panels, unrolled);
    }
}

static void backward_workers(void *context, int64_t first, int64_t end)
{
    const pdl__small_run_t *r = context;
    const pdl__small_t     *s = r->small;

    for (int64_t i = first; i < end; i++)
        for (int64_t chunk = s->chunks * i / s->threads; chunk < s->chunks * (i + 1) / s->threads; chunk++)
            backward_chunk(r, chunk, r->scratch + i * s->scratch);
}

PDL__INLINE void add_parts(const pdl__small_run_t *r, int64_t from, int64_t count, float *gradient)
{
    const pdl__small_t *s = r->small;

    for (int64_t chunk = 0; chunk < s->chunks; chunk++) {
        const float *part = r->parts + chunk * s->part + from;

        if (chunk == 0 && !r->run->accumulate)
            for (int64_t i = 0; i < count; i++) gradient[i] = part[i];
        else
            for (int64_t i = 0; i < count; i++) gradient[i] += part[i];
    }
}

PDL__CLONES static void add_filters(void *context, int64_t first, int64_t end)
{
    const pdl__small_run_t *r = context;
    const pdl__small_t     *s = r->small;

    for (int64_t f = first; f < end; f++) {
        add_parts(r, f * s->wide_k, s->k, (float *)r->run->weight_gradient[0] + f * s->k);
        if (s->layer->bias && r->run->weight_gradient[1] != NULL)
            add_parts(r, s->wide_f * s->wide_k + f, 1, (float *)r->run->weight_gradient[1] + f);
    }
}

void pdl__small_backward(const pdl__small_t *small, const pdl_op_run_t *run, unsigned what)
{
    float           *workspace = run->workspace;
    pdl__matrix_t    weights = {.data = run->weight[0], .stride = small->k, .transposed = true};
    pdl__small_run_t r = {.small = small,
                          .run = run,
                          .data = (what & PDL_BACKWARD_DATA) && run->input_gradient[0] != NULL,
                          .weight = (what & PDL_BACKWARD_WEIGHT) && run->weight_gradient[0] != NULL,
                          .packed = workspace,
                          .parts = workspace + small->packed};

    r.scratch = r.parts + small->chunks * small->part;
    if (r.data) pdl__gemm_pack_a(&weights, small->k, small->filters, r.packed);
    pdl_threads_run(small->threads, 1, backward_workers, &r);
    if (r.weight) pdl_threads_run(small->filters, 1 + 4096 / small->k, add_filters, &r);
}
