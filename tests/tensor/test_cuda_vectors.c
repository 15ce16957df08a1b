/*
 * Vectors, formats, boxes and updates on a GPU against plain loops.
 */
#include "op_value.h"
#include "tensor/cuda_device.h"
#include "tensor/image_fixture.h"
#include "test.h"

#include <math.h>

#define MOST 5000

static pdl_backend_t *f32, *bf16, *reference;

static float rounded(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void fill(float *values, int64_t count, int tensor)
{
    for (int64_t i = 0; i < count; i++) values[i] = (float)op_value(1, tensor, i);
}

static const int64_t counts[] = {1, 7, 8, 9, 255, 256, 2049, MOST};
#define COUNTS ((int)(sizeof(counts) / sizeof(counts[0])))

/* From host memory and back, and with addresses that are not aligned. */
static void casts_round_to_nearest(void)
{
    static float in[MOST + 1], out[MOST + 1];

    fill(in, MOST + 1, 0);
    for (int k = 0; k < COUNTS; k++)
        for (int shift = 0; shift < 2; shift++) {
            char *there = cuda_put(bf16, in, sizeof(in));

            CHECK_OK(bf16->ops->from_float(bf16, NULL, in + shift, counts[k], there + 2 * shift));
            CHECK_OK(bf16->ops->to_float(bf16, NULL, there + 2 * shift, counts[k], out));
            for (int64_t i = 0; i < counts[k]; i++) CHECK(out[i] == rounded(in[i + shift]));
            cuda_take(bf16, there, NULL, sizeof(in));
        }
}

static void sums_are_exact(void)
{
    static float a[MOST], b[MOST], c[MOST];

    fill(a, MOST, 0);
    fill(b, MOST, 1);
    for (int k = 0; k < COUNTS; k++) {
        float *x = cuda_put(f32, a, sizeof(a)), *y = cuda_put(f32, b, sizeof(b));

        CHECK_OK(f32->ops->add(f32, NULL, x, y, (size_t)counts[k] * sizeof(float), x));
        CHECK_OK(f32->device->ops->reduce(f32->device, NULL, PDL_DTYPE_F32, y, x, counts[k]));
        cuda_take(f32, x, c, sizeof(c));
        cuda_take(f32, y, NULL, sizeof(c));
        for (int64_t i = 0; i < MOST; i++) CHECK(c[i] == (i < counts[k] ? a[i] + b[i] + b[i] : a[i]));
    }
}

/* The first of equal ones; rows are apart from each other. A NaN counts where it is the first. */
static void the_largest_of_rows_is_found(void)
{
    enum { ROWS = 5, COUNT = 1031, STRIDE = 1088 };
    static float   a[ROWS * STRIDE];
    static int32_t found[ROWS];
    int32_t       *index = cuda_put(bf16, a, sizeof(found));
    char          *x = cuda_put(bf16, a, sizeof(a) / 2);

    for (int i = 0; i < ROWS * STRIDE; i++) a[i] = i % STRIDE < COUNT ? (float)(i % 7) - 9 : 100;
    a[700] = a[900] = 5;
    a[STRIDE] = NAN;
    a[2 * STRIDE + 3] = NAN;
    a[2 * STRIDE + COUNT - 1] = 1;
    for (int i = 0; i < COUNT; i++) a[3 * STRIDE + i] = -INFINITY;
    a[4 * STRIDE] = 0;
    CHECK_OK(bf16->ops->from_float(bf16, NULL, a, ROWS * STRIDE, x));
    CHECK_OK(bf16->ops->largest(bf16, NULL, x, ROWS, COUNT, STRIDE, index));
    cuda_take(bf16, index, found, sizeof(found));
    cuda_take(bf16, x, NULL, sizeof(a) / 2);
    CHECK(found[0] == 700 && found[1] == 0 && found[2] == COUNT - 1 && found[3] == 0 && found[4] == 0);
}

static void numbers_for_the_host(void)
{
    static float a[MOST];

    for (int k = 0; k < COUNTS; k++) {
        double  *sum = cuda_put(f32, a, sizeof(*sum)), found, expected = 0;
        int64_t *index = cuda_put(f32, a, sizeof(*index)), at;
        float   *x;

        fill(a, MOST, 2);
        for (int64_t i = 0; i < counts[k]; i++) expected += (double)a[i] * (double)a[i];
        x = cuda_put(f32, a, sizeof(a));
        CHECK_OK(f32->ops->sum_squares(f32, NULL, x, &(pdl_slice_t){0, counts[k]}, 1, sum));
        CHECK_OK(f32->device->ops->copy(f32->device, NULL, &found, sum, sizeof(found)));
        CHECK_NEAR(found, expected, 1e-12);
        CHECK_OK(f32->ops->find_not_finite(f32, NULL, x, (size_t)counts[k] * sizeof(float), index));
        CHECK_OK(f32->device->ops->copy(f32->device, NULL, &at, index, sizeof(at)));
        CHECK_INT(at, -1);
        a[counts[k] / 2] = k % 2 ? NAN : INFINITY;
        a[counts[k] - 1] = NAN;
        CHECK_OK(f32->device->ops->copy(f32->device, NULL, x, a, sizeof(a)));
        CHECK_OK(f32->ops->find_not_finite(f32, NULL, x, (size_t)counts[k] * sizeof(float), index));
        CHECK_OK(f32->device->ops->copy(f32->device, NULL, &at, index, sizeof(at)));
        CHECK_INT(at, counts[k] / 2);
        cuda_take(f32, x, NULL, sizeof(a));
        cuda_take(f32, sum, NULL, sizeof(*sum));
        cuda_take(f32, index, NULL, sizeof(*index));
    }
}

/* There: channels last and zeros behind them. Back: as it was. */
static void formats_keep_values(void)
{
    static const pdl_shape_t shapes[] = {
        {.rank = 2, .channels = 3, .extent = {5, 7}},  {.rank = 3, .channels = 16, .extent = {2, 3, 3}},
        {.rank = 1, .channels = 70, .extent = {41}},   {.rank = 2, .channels = 1, .extent = {1, 1}},
        {.rank = 2, .channels = 8, .extent = {9, 15}}, {.rank = 2, .channels = 24, .extent = {5, 13}},
        {.rank = 2, .channels = 32, .extent = {8, 9}}, {.rank = 2, .channels = 48, .extent = {7, 5}}};
    static float plain[MOST * 8], blocked[MOST * 8], back[MOST * 8];

    for (int s = 0; s < (int)(sizeof(shapes) / sizeof(*shapes)); s++) {
        const pdl_shape_t *shape = &shapes[s];
        int64_t            samples = 2, positions = pdl_shape_positions(shape), c = shape->channels;
        int64_t            padded = pdl_backend_block(f32, c), count = samples * positions * c;
        size_t             bytes = f32->ops->tensor_bytes(f32, shape, samples, PDL_FORMAT_BLOCKED);
        float             *x, *y;

        CHECK_INT(bytes, samples * positions * padded * (int64_t)sizeof(float));
        CHECK_INT(padded % 8, 0);
        fill(plain, count, 3);
        memset(blocked, 0xff, sizeof(blocked));
        x = cuda_put(f32, plain, (size_t)count * sizeof(float));
        y = cuda_put(f32, blocked, bytes);
        CHECK_OK(f32->ops->convert(f32, NULL, shape, samples, PDL_FORMAT_PLAIN, x, PDL_FORMAT_BLOCKED, y));
        CHECK_OK(f32->ops->convert(f32, NULL, shape, samples, PDL_FORMAT_BLOCKED, y, PDL_FORMAT_PLAIN, x));
        cuda_take(f32, y, blocked, bytes);
        cuda_take(f32, x, back, (size_t)count * sizeof(float));
        CHECK(memcmp(back, plain, (size_t)count * sizeof(float)) == 0);
        for (int64_t n = 0; n < samples; n++)
            for (int64_t p = 0; p < positions; p++)
                for (int64_t k = 0; k < padded; k++) {
                    float expected = k < c ? plain[(n * c + k) * positions + p] : 0;

                    CHECK(blocked[(n * positions + p) * padded + k] == expected);
                }
    }
}

/* The same with 16 bits, two at a time where rows are even; tiles that are whole and that are not. */
static void formats_keep_halves(void)
{
    static const pdl_shape_t shapes[] = {
        {.rank = 2, .channels = 72, .extent = {9, 8}},   {.rank = 2, .channels = 20, .extent = {3, 10}},
        {.rank = 2, .channels = 66, .extent = {7, 7}},   {.rank = 1, .channels = 5, .extent = {130}},
        {.rank = 2, .channels = 8, .extent = {17, 16}},  {.rank = 2, .channels = 16, .extent = {16, 17}},
        {.rank = 2, .channels = 24, .extent = {10, 14}}, {.rank = 2, .channels = 32, .extent = {16, 8}},
        {.rank = 2, .channels = 48, .extent = {11, 9}}};
    static uint16_t plain[MOST * 4], blocked[MOST * 4], back[MOST * 4];

    for (int s = 0; s < (int)(sizeof(shapes) / sizeof(*shapes)); s++) {
        const pdl_shape_t *shape = &shapes[s];
        int64_t            samples = 2, positions = pdl_shape_positions(shape), c = shape->channels;
        int64_t            padded = pdl_backend_block(bf16, c), count = samples * positions * c;
        size_t             bytes = bf16->ops->tensor_bytes(bf16, shape, samples, PDL_FORMAT_BLOCKED);
        void              *x, *y;

        for (int64_t i = 0; i < count; i++) plain[i] = (uint16_t)(i % 60000 + 1);
        memset(blocked, 0xff, sizeof(blocked));
        x = cuda_put(bf16, plain, (size_t)count * 2);
        y = cuda_put(bf16, blocked, bytes);
        CHECK_OK(bf16->ops->convert(bf16, NULL, shape, samples, PDL_FORMAT_PLAIN, x, PDL_FORMAT_BLOCKED, y));
        CHECK_OK(bf16->device->ops->fill(bf16->device, NULL, x, (size_t)count * 2));
        CHECK_OK(bf16->ops->convert(bf16, NULL, shape, samples, PDL_FORMAT_BLOCKED, y, PDL_FORMAT_PLAIN, x));
        cuda_take(bf16, y, blocked, bytes);
        cuda_take(bf16, x, back, (size_t)count * 2);
        CHECK(memcmp(back, plain, (size_t)count * 2) == 0);
        for (int64_t n = 0; n < samples; n++)
            for (int64_t p = 0; p < positions; p++)
                for (int64_t k = 0; k < padded; k++)
                    CHECK_INT(blocked[(n * positions + p) * padded + k],
                              k < c ? plain[(n * c + k) * positions + p] : 0);
    }
}

/* More boxes than one launch takes, copied and added: rows that fit into units of 16 bytes, rows that do not, and rows that follow one another on both
   sides. */
static void move_boxes(const pdl_box_t *box, int count, bool add)
{
    static float from[MOST], to[MOST], expected[MOST];
    pdl_boxes_t  boxes = {.box = (pdl_box_t *)(uintptr_t)box, .count = count};
    float       *x, *y;

    fill(from, MOST, 0);
    fill(to, MOST, 1);
    memcpy(expected, to, sizeof(to));
    for (int k = 0; k < count; k++)
        for (int64_t i = 0, e = box[k].extent[2], f = box[k].extent[1]; i < box[k].extent[0] * f * e; i++) {
            int64_t p[] = {i / (f * e), i / e % f, i % e}, a = box[k].first[0], b = box[k].first[1];

            for (int d = 0; d < 3; d++) a += p[d] * box[k].stride[0][d], b += p[d] * box[k].stride[1][d];
            expected[b] = add ? expected[b] + from[a] : from[a];
            boxes.elements++;
        }
    x = cuda_put(f32, from, sizeof(from));
    y = cuda_put(f32, to, sizeof(to));
    CHECK_OK(f32->device->ops->boxes(f32->device, NULL, &boxes, 0, PDL_DTYPE_F32, x, y, add));
    cuda_take(f32, x, NULL, sizeof(from));
    x = cuda_put(f32, expected, sizeof(expected));
    cuda_take(f32, y, from, sizeof(from));
    CHECK(memcmp(from, expected, sizeof(from)) == 0);
    cuda_take(f32, x, NULL, sizeof(from));
}

static void boxes_move_elements(void)
{
    static pdl_box_t odd[40], even[20], mixed[20];

    for (int k = 0; k < 40; k++)
        odd[k] = (pdl_box_t){.rank = 3,
                             .extent = {2, 3, 1 + k % 4},
                             .first = {100 * k + 5, 90 * k},
                             .stride = {{40, 10, 1}, {40, 8, 1 + k % 2}}};
    for (int k = 0; k < 20; k++) {
        int64_t row = 4 * (1 + k % 3);

        /* Of whole units; in every fourth box rows follow one another on both sides, in every fifth there is one row. */
        even[k] = (pdl_box_t){.rank = 3,
                              .extent = {2, k % 5 == 0 ? 1 : 3, row},
                              .first = {160 * k + 4, 120 * k},
                              .stride = {{64, k % 4 == 0 ? row : 16, 1}, {56, k % 4 == 0 ? row : 12, 1}}};
        mixed[k] = k % 7 == 3 ? odd[k] : even[k];
        mixed[k].first[0] = 160 * k + (k % 7 == 3 ? 5 : 4);
        mixed[k].first[1] = 120 * k;
    }
    for (int add = 0; add < 2; add++) {
        move_boxes(odd, 40, add);
        move_boxes(even, 20, add);
        move_boxes(even, 1, add);
        move_boxes(mixed, 20, add);
    }
}

/* More ranges than one launch takes, of all lengths up to some vectors, aligned and not; one in three has no packed copy and
   no decay. */
#define RANGES 90
#define ROOM   (RANGES * 64)

typedef struct state {
    double w[ROOM], g[ROOM], m[ROOM], v[ROOM], sums[2 * RANGES], packed[ROOM], scale;
} state_t;

static pdl_update_range_t ranges[RANGES];

static void fill_state(state_t *state, double scale)
{
    for (int i = 0; i < ROOM; i++) {
        state->w[i] = op_value(1, 0, i);
        state->g[i] = op_value(1, 1, i);
        state->m[i] = op_value(1, 2, i);
        state->v[i] = fabs(op_value(1, 3, i));
        state->packed[i] = 7;
    }
    for (int i = 0; i < 2 * RANGES; i++) state->sums[i] = 1 + i % 7;
    state->scale = scale;
    for (int i = 0; i < RANGES; i++)
        ranges[i] = (pdl_update_range_t){.elements = i % 50,
                                         .weights = 64 * i,
                                         .gradients = 64 * i + (i % 5 == 4),
                                         .state = 64 * i,
                                         .packed = i % 3 == 2 ? -1 : 64 * i,
                                         .decays = i % 3 != 2};
}

static void update_there(pdl_update_t update, state_t *state)
{
    static float x[5][ROOM];
    double      *arrays[] = {state->w, state->g, state->m, state->v, state->packed}, *scale, *sums;
    float       *there[5];

    for (int a = 0; a < 5; a++) {
        for (int i = 0; i < ROOM; i++) x[a][i] = (float)arrays[a][i];
        there[a] = cuda_put(f32, x[a], sizeof(x[a]));
    }
    update.weights = there[0], update.gradients = there[1], update.packed = there[4];
    update.moment[0] = there[2], update.moment[1] = there[3];
    update.scale = scale = cuda_put(f32, &state->scale, sizeof(double));
    update.sums = sums = cuda_put(f32, state->sums, sizeof(state->sums));
    CHECK_OK(f32->ops->update(f32, NULL, &update, ranges, RANGES));
    for (int a = 0; a < 5; a++) {
        cuda_take(f32, there[a], x[a], sizeof(x[a]));
        for (int i = 0; i < ROOM; i++) arrays[a][i] = (double)x[a][i];
    }
    cuda_take(f32, sums, state->sums, sizeof(state->sums));
    cuda_take(f32, scale, NULL, sizeof(double));
}

static void update_here(pdl_update_t update, state_t *state)
{
    update.weights = state->w, update.gradients = state->g, update.packed = state->packed;
    update.moment[0] = state->m, update.moment[1] = state->v;
    update.scale = &state->scale;
    update.sums = state->sums;
    CHECK_OK(reference->ops->update(reference, NULL, &update, ranges, RANGES));
}

static void compare_updates(const pdl_update_t *update, double scale)
{
    static state_t expected, found;

    fill_state(&expected, scale);
    update_here(*update, &expected);
    fill_state(&found, scale);
    update_there(*update, &found);
    CHECK(op_difference(found.w, expected.w, ROOM) <= 1e-6);
    CHECK(op_difference(found.m, expected.m, ROOM) <= 1e-6);
    CHECK(op_difference(found.v, expected.v, ROOM) <= 1e-6);
    CHECK(op_difference(found.sums, expected.sums, 2 * RANGES) <= 1e-6);
    for (int i = 0; i < RANGES; i++)
        for (int64_t k = 0; k < 64; k++) {
            bool copied = k < ranges[i].elements && ranges[i].packed >= 0 && isfinite(scale) &&
                          update->kind != PDL_UPDATE_LAMB_STATE;

            CHECK(found.packed[64 * i + k] == (copied ? found.w[64 * i + k] : 7));
        }
}

static void updates_match_the_reference(void)
{
    pdl_update_t u = {.lr = 0.1,
                      .momentum = 0.9,
                      .beta1 = 0.8,
                      .beta2 = 0.9,
                      .epsilon = 1e-3,
                      .decay = 0.01,
                      .correction1 = 0.2,
                      .correction2 = 0.1};

    for (int kind = PDL_UPDATE_SGD; kind <= PDL_UPDATE_LAMB_APPLY; kind++) {
        u.kind = (pdl_update_kind_t)kind;
        compare_updates(&u, 0.5);
    }
    compare_updates(&u, NAN);
    u.kind = PDL_UPDATE_MOMENTUM;
    u.trust = 0.02;
    compare_updates(&u, 0.25);
}

static void what_is_not_finite_is_told(void)
{
    float        values[40] = {0}, weight[40] = {0};
    int64_t      flag = 0;
    double       sums[3] = {1, 2, 6}, out[2];
    pdl_update_t update = {.kind = PDL_UPDATE_SGD, .lr = 1};
    float       *x = cuda_put(f32, values, sizeof(values)), *y = cuda_put(f32, weight, sizeof(weight));
    int64_t     *there = cuda_put(f32, &flag, sizeof(flag));
    double      *s = cuda_put(f32, sums, sizeof(sums)), *clip = cuda_put(f32, sums, sizeof(out));

    values[33] = INFINITY;
    CHECK_OK(f32->device->ops->copy(f32->device, NULL, x, values, sizeof(values)));
    CHECK_OK(f32->ops->check_results(f32, NULL, x, y, 40, there));
    CHECK_OK(f32->device->ops->copy(f32->device, NULL, &flag, there, sizeof(flag)));
    CHECK_INT(flag, 0);
    CHECK_OK(f32->ops->clip(f32, NULL, s, 3, 1, there, clip));
    CHECK_OK(f32->device->ops->copy(f32->device, NULL, out, clip, sizeof(out)));
    CHECK_NEAR(out[0], 3, 1e-12);
    CHECK_NEAR(out[1], 1 / (3 + 1e-6), 1e-12);
    CHECK_OK(f32->ops->check_results(f32, NULL, x, NULL, 40, there));
    CHECK_OK(f32->ops->clip(f32, NULL, s, 3, 0, there, clip));
    CHECK_OK(f32->device->ops->copy(f32->device, NULL, out, clip, sizeof(out)));
    CHECK(isnan(out[1]));
    /* The weights that an update writes. */
    CHECK_OK(f32->device->ops->fill(f32->device, NULL, there, sizeof(flag)));
    update.weights = y, update.gradients = x, update.not_finite = there;
    CHECK_OK(f32->ops->update(f32, NULL, &update, &(pdl_update_range_t){.elements = 33, .packed = -1}, 1));
    CHECK_OK(f32->device->ops->copy(f32->device, NULL, &flag, there, sizeof(flag)));
    CHECK_INT(flag, 0);
    CHECK_OK(f32->ops->update(f32, NULL, &update, &(pdl_update_range_t){.elements = 34, .packed = -1}, 1));
    CHECK_OK(f32->device->ops->copy(f32->device, NULL, &flag, there, sizeof(flag)));
    CHECK_INT(flag, 1);
    cuda_take(f32, x, NULL, 0);
    cuda_take(f32, y, NULL, 0);
    cuda_take(f32, there, NULL, 0);
    cuda_take(f32, s, NULL, 0);
    cuda_take(f32, clip, NULL, 0);
}

/* Where element (n, c, position) of a plain tensor is in a format. */
static int64_t place_of(const pdl_shape_t *shape, pdl_format_t format, int64_t n, int64_t c, int64_t position)
{
    int64_t positions = pdl_shape_positions(shape), width = shape->extent[1], x = position % width,
            y = position / width;

    if (format == PDL_FORMAT_PLAIN) return (n * shape->channels + c) * positions + position;
    if (format == PDL_FORMAT_BLOCKED)
        return (n * positions + position) * pdl_backend_block(f32, shape->channels) + c;
    return n * positions * 4 + (((y / 2 * (width / 2) + x / 2) * 2 + y % 2) * 2 + x % 2) * 4 + c;
}

/* What a format has of a plain tensor, and zeros. */
static void check_format(const pdl_shape_t *shape, pdl_format_t format, const float *plain, const float *found)
{
    int64_t positions = pdl_shape_positions(shape);
    int64_t count = (int64_t)(f32->ops->tensor_bytes(f32, shape, IMAGES, format) / sizeof(float));
    double  sum = 0, expected = 0;

    for (int64_t i = 0; i < IMAGES * pdl_shape_elements(shape); i++) {
        int64_t at = place_of(shape, format, i / positions / shape->channels, i / positions % shape->channels,
                              i % positions);

        CHECK(at < count && found[at] == plain[i]);
        expected += fabs((double)plain[i]);
    }
    for (int64_t i = 0; i < count; i++) sum += fabs((double)found[i]);
    CHECK_NEAR(sum, expected, 1e-9 * expected);
}

static bool has_format(const pdl_shape_t *shape, pdl_format_t format)
{
    return format != PDL_FORMAT_FOLDED ||
           (shape->rank == 2 && shape->channels <= 4 && shape->extent[0] % 2 == 0 && shape->extent[1] % 2 == 0);
}

static void images_are_those_of_the_loader(void)
{
    static const pdl_format_t formats[] = {PDL_FORMAT_PLAIN, PDL_FORMAT_BLOCKED, PDL_FORMAT_FOLDED};
    static image_case_t       c;
    static float              found[IMAGES * PIXELS * 8];

    for (int s = 0; s < IMAGE_SHAPES * 3; s++) {
        const pdl_shape_t *shape = &image_shapes[s / 3];
        pdl_format_t       format = formats[s % 3];
        size_t             bytes_of = f32->ops->tensor_bytes(f32, shape, IMAGES, format);

        if (!has_format(shape, format)) continue;
        image_draw(shape, &c);
        uint8_t            *bytes = cuda_put(f32, c.bytes, sizeof(c.bytes));
        pdl_image_change_t *changes = cuda_put(f32, c.changes, sizeof(c.changes));
        float              *values = cuda_put(f32, found, sizeof(found)), *plain;
        CHECK_OK(f32->ops->load_images(f32, NULL, shape, IMAGES, bytes, changes, &c.scale, format, values));
        CHECK_OK(f32->device->ops->copy(f32->device, NULL, found, values, bytes_of));
        check_format(shape, format, c.expected, found);
        plain = cuda_put(f32, c.expected, sizeof(c.expected));
        CHECK_OK(f32->ops->load_values(f32, NULL, shape, IMAGES, plain, format, values));
        CHECK_OK(f32->device->ops->copy(f32->device, NULL, found, values, bytes_of));
        check_format(shape, format, c.expected, found);
        cuda_take(f32, bytes, NULL, 0);
        cuda_take(f32, changes, NULL, 0);
        cuda_take(f32, values, NULL, 0);
        cuda_take(f32, plain, NULL, 0);
    }
}

/* From both other formats. */
static void images_are_folded(void)
{
    const pdl_shape_t shape = {.rank = 2, .channels = 3, .extent = {6, 10}};
    static float      plain[IMAGES * 180], found[IMAGES * 480];
    float            *x, *y, *z;

    fill(plain, IMAGES * 180, 5);
    x = cuda_put(f32, plain, sizeof(plain));
    y = cuda_put(f32, found, sizeof(found));
    z = cuda_put(f32, found, sizeof(found));
    CHECK_OK(f32->ops->convert(f32, NULL, &shape, IMAGES, PDL_FORMAT_PLAIN, x, PDL_FORMAT_FOLDED, y));
    CHECK_OK(f32->device->ops->copy(f32->device, NULL, found, y, IMAGES * 240 * sizeof(float)));
    check_format(&shape, PDL_FORMAT_FOLDED, plain, found);
    CHECK_OK(f32->ops->convert(f32, NULL, &shape, IMAGES, PDL_FORMAT_PLAIN, x, PDL_FORMAT_BLOCKED, z));
    CHECK_OK(f32->ops->convert(f32, NULL, &shape, IMAGES, PDL_FORMAT_BLOCKED, z, PDL_FORMAT_FOLDED, y));
    CHECK_OK(f32->device->ops->copy(f32->device, NULL, found, y, IMAGES * 240 * sizeof(float)));
    check_format(&shape, PDL_FORMAT_FOLDED, plain, found);
    cuda_take(f32, x, NULL, 0);
    cuda_take(f32, y, NULL, 0);
    cuda_take(f32, z, NULL, 0);
}

/* So much is pinned in another way: the device copies it as any other. */
static void much_memory_is_pinned(void)
{
    enum { BYTES = (64 << 20) + 100, SOME = 1000 };
    static const char    some[SOME];
    pdl_tensor_device_t *device = f32->device;
    char                *home = NULL, *there = cuda_put(f32, some, SOME);
    void                *memory = NULL;

    for (int round = 0; round < 2; round++) {
        CHECK_OK(device->ops->alloc(device, PDL_SPACE_PINNED, BYTES, &memory));
        home = memory;
        CHECK(home[0] == 0 && home[BYTES - 1] == 0);
        memset(home + BYTES - SOME, round + 1, SOME);
        CHECK_OK(device->ops->copy(device, NULL, there, home + BYTES - SOME, SOME));
        CHECK_OK(device->ops->copy(device, NULL, home, there, SOME));
        CHECK(memcmp(home, home + BYTES - SOME, SOME) == 0 && home[SOME - 1] == round + 1);
        device->ops->release(device, PDL_SPACE_PINNED, memory, BYTES);
    }
    cuda_take(f32, there, NULL, SOME);
}

int main(int count, char **arguments)
{
    f32 = cuda_backend(count, arguments, PDL_DTYPE_F32);
    bf16 = cuda_backend(count, arguments, PDL_DTYPE_BF16);
    CHECK_OK(pdl_backend_create_reference(&reference));
    RUN(casts_round_to_nearest);
    RUN(much_memory_is_pinned);
    RUN(sums_are_exact);
    RUN(the_largest_of_rows_is_found);
    RUN(numbers_for_the_host);
    RUN(formats_keep_values);
    RUN(formats_keep_halves);
    RUN(images_are_those_of_the_loader);
    RUN(images_are_folded);
    RUN(boxes_move_elements);
    RUN(updates_match_the_reference);
    RUN(what_is_not_finite_is_told);
    pdl_backend_destroy(reference);
    pdl_backend_destroy(bf16);
    pdl_backend_destroy(f32);
    return test_done();
}
