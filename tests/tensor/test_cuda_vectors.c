/*
 * Vectors, formats, boxes and updates on a GPU against plain loops.
 */
#include "op_value.h"
#include "tensor/cuda_device.h"
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
        CHECK_OK(f32->ops->sum_squares(f32, NULL, x, counts[k], sum));
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
    static const pdl_shape_t shapes[] = {{.rank = 2, .channels = 3, .extent = {5, 7}},
                                         {.rank = 3, .channels = 16, .extent = {2, 3, 3}},
                                         {.rank = 1, .channels = 70, .extent = {41}},
                                         {.rank = 2, .channels = 1, .extent = {1, 1}}};
    static float             plain[MOST * 8], blocked[MOST * 8], back[MOST * 8];

    for (int s = 0; s < 4; s++) {
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

/* More boxes than one launch takes; copies and sums of both types. */
static void boxes_move_elements(void)
{
    static float     from[MOST], to[MOST], expected[MOST];
    static pdl_box_t box[40];
    pdl_boxes_t      boxes = {.box = box, .count = 40};
    float           *x, *y;

    for (int k = 0; k < 40; k++)
        box[k] = (pdl_box_t){.rank = 3,
                             .extent = {2, 3, 1 + k % 4},
                             .first = {100 * k + 5, 90 * k},
                             .stride = {{40, 10, 1}, {40, 8, 1 + k % 2}}};
    fill(from, MOST, 0);
    fill(to, MOST, 1);
    for (int add = 0; add < 2; add++) {
        memcpy(expected, to, sizeof(to));
        for (int k = 0; k < 40; k++)
            for (int64_t i = 0; i < 6 * box[k].extent[2]; i++) {
                int64_t e = box[k].extent[2], p[] = {i / (3 * e), i / e % 3, i % e}, a = box[k].first[0],
                        b = box[k].first[1];

                for (int d = 0; d < 3; d++) a += p[d] * box[k].stride[0][d], b += p[d] * box[k].stride[1][d];
                expected[b] = add ? expected[b] + from[a] : from[a];
            }
        for (int k = 0; k < 40; k++) boxes.elements += 6 * box[k].extent[2];
        x = cuda_put(f32, from, sizeof(from));
        y = cuda_put(f32, to, sizeof(to));
        CHECK_OK(f32->device->ops->boxes(f32->device, NULL, &boxes, 0, PDL_DTYPE_F32, x, y, add));
        cuda_take(f32, x, NULL, sizeof(from));
        x = cuda_put(f32, expected, sizeof(expected));
        cuda_take(f32, y, from, sizeof(from));
        CHECK(memcmp(from, expected, sizeof(from)) == 0);
        fill(from, MOST, 0);
        cuda_take(f32, x, NULL, sizeof(from));
    }
}

#define VECTOR 41

typedef struct state {
    double w[VECTOR], g[VECTOR], m[VECTOR], v[VECTOR], norm;
} state_t;

static void fill_state(state_t *state)
{
    for (int i = 0; i < VECTOR; i++) {
        state->w[i] = op_value(1, 0, i);
        state->g[i] = op_value(1, 1, i);
        state->m[i] = op_value(1, 2, i);
        state->v[i] = fabs(op_value(1, 3, i));
    }
    state->norm = 0;
}

static void update_there(const pdl_update_t *update, int64_t count, state_t *state)
{
    float   x[4][VECTOR], *there[4];
    double *arrays[] = {state->w, state->g, state->m, state->v},
           *norm = cuda_put(f32, &state->norm, sizeof(double));

    for (int a = 0; a < 4; a++) {
        for (int i = 0; i < VECTOR; i++) x[a][i] = (float)arrays[a][i];
        there[a] = cuda_put(f32, x[a], sizeof(x[a]));
    }
    CHECK_OK(f32->ops->update(f32, NULL, update, count, there[0], there[1], there[2], there[3], norm, NULL));
    for (int a = 0; a < 4; a++) {
        cuda_take(f32, there[a], x[a], sizeof(x[a]));
        for (int i = 0; i < VECTOR; i++) arrays[a][i] = (double)x[a][i];
    }
    cuda_take(f32, norm, &state->norm, sizeof(double));
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
                      .correction2 = 0.1,
                      .gradient_scale = 0.5};

    for (int kind = PDL_UPDATE_SGD; kind <= PDL_UPDATE_LAMB_APPLY; kind++)
        for (int64_t count = 0; count <= VECTOR; count += 5) {
            state_t expected, found;

            u.kind = (pdl_update_kind_t)kind;
            fill_state(&expected);
            fill_state(&found);
            reference->ops->update(reference, NULL, &u, count, expected.w, expected.g, expected.m, expected.v,
                                   &expected.norm, NULL);
            update_there(&u, count, &found);
            CHECK(op_difference(found.w, expected.w, VECTOR) <= 1e-6);
            CHECK(op_difference(found.m, expected.m, VECTOR) <= 1e-6);
            CHECK(op_difference(found.v, expected.v, VECTOR) <= 1e-6);
            CHECK_NEAR(found.norm, expected.norm, 1e-5);
        }
}

int main(int count, char **arguments)
{
    f32 = cuda_backend(count, arguments, PDL_DTYPE_F32);
    bf16 = cuda_backend(count, arguments, PDL_DTYPE_BF16);
    CHECK_OK(pdl_backend_create_reference(&reference));
    RUN(casts_round_to_nearest);
    RUN(sums_are_exact);
    RUN(numbers_for_the_host);
    RUN(formats_keep_values);
    RUN(boxes_move_elements);
    RUN(updates_match_the_reference);
    pdl_backend_destroy(reference);
    pdl_backend_destroy(bf16);
    pdl_backend_destroy(f32);
    return test_done();
}
