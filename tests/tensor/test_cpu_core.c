/*
 * The CPU backend without its layers: arrangements, vectors, updates, memory, and what it refuses.
 */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/simd.h"
#include "tensor/cpu/threads.h"
#include "tensor/image_fixture.h"
#include "tensor/scalars.h"
#include "test.h"

#include <paradl/tensor/backend.h>

#include <stdlib.h>

static pdl_backend_t *backend;

static float value(int64_t i)
{
    return (float)((i * 7919) % 1009) / 1009.0f - 0.5f;
}

static float *numbers(int64_t count)
{
    float *values = malloc((size_t)count * sizeof(*values));

    if (values == NULL) abort();
    for (int64_t i = 0; i < count; i++) values[i] = value(i);
    return values;
}

static void convert_one(pdl_shape_t shape, int64_t samples)
{
    int64_t space = pdl_shape_positions(&shape), blocks = (shape.channels + 15) / 16;
    int64_t plain_count = samples * shape.channels * space, blocked_count = samples * blocks * 16 * space;
    float  *plain = numbers(plain_count), *blocked = numbers(blocked_count), *back = numbers(plain_count);
    int     wrong = 0;

    CHECK_INT(backend->ops->tensor_bytes(backend, &shape, samples, PDL_FORMAT_PLAIN), plain_count * 4);
    CHECK_INT(backend->ops->tensor_bytes(backend, &shape, samples, PDL_FORMAT_BLOCKED), blocked_count * 4);
    CHECK_OK(backend->ops->convert(backend, NULL, &shape, samples, PDL_FORMAT_PLAIN, plain, PDL_FORMAT_BLOCKED,
                                   blocked));
    for (int64_t i = 0; i < blocked_count; i++) {
        int64_t c = i / 16 / space % blocks * 16 + i % 16, n = i / 16 / space / blocks, p = i / 16 % space;

        wrong += blocked[i] != (c < shape.channels ? plain[(n * shape.channels + c) * space + p] : 0);
    }
    CHECK_INT(wrong, 0);
    memset(back, 0xff, (size_t)plain_count * sizeof(*back));
    CHECK_OK(
        backend->ops->convert(backend, NULL, &shape, samples, PDL_FORMAT_BLOCKED, blocked, PDL_FORMAT_PLAIN, back));
    CHECK(memcmp(back, plain, (size_t)plain_count * sizeof(*back)) == 0);
    free(plain);
    free(blocked);
    free(back);
}

static void conversions_are_exact(void)
{
    convert_one((pdl_shape_t){.channels = 1, .extent = {1, 1, 1}, .rank = 1}, 1);
    convert_one((pdl_shape_t){.channels = 16, .extent = {9, 1, 1}, .rank = 1}, 3);
    convert_one((pdl_shape_t){.channels = 19, .extent = {13, 11, 1}, .rank = 2}, 2);
    convert_one((pdl_shape_t){.channels = 33, .extent = {5, 6, 7}, .rank = 3}, 2);
    convert_one((pdl_shape_t){.channels = 64, .extent = {40, 41, 1}, .rank = 2}, 3);
}

static void sequences_are_never_blocked(void)
{
    pdl_shape_t sequence = {.channels = 5, .extent = {7, 1, 1}, .rank = 1, .sequence = true};
    pdl_shape_t vector = {.channels = 5, .extent = {1, 1, 1}};
    float      *values = numbers(70), *copy = numbers(70);

    CHECK_INT(backend->ops->tensor_bytes(backend, &sequence, 2, PDL_FORMAT_BLOCKED), 2 * 35 * 4);
    CHECK_INT(backend->ops->tensor_bytes(backend, &vector, 2, PDL_FORMAT_BLOCKED), 2 * 5 * 4);
    CHECK_OK(
        backend->ops->convert(backend, NULL, &sequence, 2, PDL_FORMAT_PLAIN, values, PDL_FORMAT_BLOCKED, copy));
    CHECK(memcmp(values, copy, 70 * sizeof(*values)) == 0);
    free(values);
    free(copy);
}

static void bf16_rounds_to_even(void)
{
    CHECK_INT(pdl__to_bf16(1.0f), 0x3f80);
    CHECK_INT(pdl__to_bf16(1.00390625f), 0x3f80);  /* 1 + 2^-8: half way, down to even */
    CHECK_INT(pdl__to_bf16(1.01171875f), 0x3f82);  /* 1 + 3 * 2^-8: half way, up to even */
    CHECK_INT(pdl__to_bf16(-1.00390637f), 0xbf81); /* a little more than half way */
    CHECK_INT(pdl__to_bf16(INFINITY), 0x7f80);
    CHECK(isnan(pdl__from_bf16(pdl__to_bf16(NAN))));
    CHECK_NEAR(pdl__from_bf16(0x4049), 3.140625, 0);
}

static void sums_of_squares_do_not_depend_on_threads(void)
{
    static const int64_t counts[] = {1, 15, 4096, 4097, 1000003, 3000001};
    pdl_cpu_options_t    one = {.threads = 1, .precision = PDL_DTYPE_F32};
    pdl_backend_t       *single;

    REQUIRE_OK(pdl_backend_create_cpu(&one, &single));
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        float *values = numbers(counts[i]);
        double expected = 0, many, few;

        for (int64_t k = 0; k < counts[i]; k++) expected += (double)values[k] * (double)values[k];
        pdl__threads_setup(3, false);
        many = squares_of(backend, values, counts[i]);
        pdl__threads_setup(1, false);
        few = squares_of(single, values, counts[i]);
        pdl__threads_setup(2, false);
        CHECK_NEAR(many, expected, 1e-10);
        CHECK(many == few);
        free(values);
    }
    pdl_backend_destroy(single);
}

static void finds_what_is_not_finite(void)
{
    int64_t count = 100003;
    float  *values = numbers(count);

    CHECK_INT(first_not_finite(backend, values, (size_t)count * 4), -1);
    CHECK_INT(first_not_finite(backend, values, 0), -1);
    values[99999] = -INFINITY;
    CHECK_INT(first_not_finite(backend, values, (size_t)count * 4), 99999);
    values[17] = NAN;
    CHECK_INT(first_not_finite(backend, values, (size_t)count * 4), 17);
    values[17] = 3e38f; /* large, but a number */
    CHECK_INT(first_not_finite(backend, values, (size_t)count * 4), 99999);
    free(values);
}

#define SCALE 0.5

/* One element of an update, in double. */
static void update_one(const pdl_update_t *u, double *w, double g, double *m, double *v, double *square)
{
    double direction;

    g *= SCALE;
    switch (u->kind) {
    case PDL_UPDATE_SGD: *w -= u->lr * (g + u->decay * *w); return;
    case PDL_UPDATE_MOMENTUM:
        *m = u->momentum * *m + g + u->decay * *w;
        *w -= u->lr * *m;
        return;
    case PDL_UPDATE_NESTEROV:
        g += u->decay * *w;
        *m = u->momentum * *m + g;
        *w -= u->lr * (g + u->momentum * *m);
        return;
    default: break;
    }
    if (u->kind != PDL_UPDATE_LAMB_APPLY) {
        *m = u->beta1 * *m + (1 - u->beta1) * g;
        *v = u->beta2 * *v + (1 - u->beta2) * g * g;
    }
    direction = *m / u->correction1 / (sqrt(*v / u->correction2) + u->epsilon);
    if (u->kind == PDL_UPDATE_ADAMW) *w -= u->lr * u->decay * *w + u->lr * direction;
    if (u->kind == PDL_UPDATE_LAMB_APPLY) *w -= u->lr * (direction + u->decay * *w);
    if (u->kind == PDL_UPDATE_LAMB_STATE) *square += pow(direction + u->decay * *w, 2);
}

static void updates_follow_their_formulas(void)
{
    int64_t count = 40001;

    for (int kind = PDL_UPDATE_SGD; kind <= PDL_UPDATE_LAMB_APPLY; kind++) {
        pdl_update_t u = {.kind = (pdl_update_kind_t)kind,
                          .lr = 0.1,
                          .momentum = 0.9,
                          .beta1 = 0.9,
                          .beta2 = 0.99,
                          .epsilon = 1e-6,
                          .decay = 0.01,
                          .correction1 = 0.19,
                          .correction2 = 0.0199};
        float       *w = numbers(count), *g = numbers(count), *m = numbers(count), *v = numbers(count);
        double       norm = 0, square = 0, worst = 0;

        for (int64_t i = 0; i < count; i++) {
            g[i] = value(i + 5);
            v[i] = fabsf(v[i]);
        }
        norm = update_range(backend, u, SCALE, count, w, g, m, v);
        for (int64_t i = 0; i < count; i++) {
            double w1 = value(i), m1 = value(i), v1 = fabsf(value(i));

            update_one(&u, &w1, g[i], &m1, &v1, &square);
            worst = fmax(worst, fabs(w1 - w[i]) / (1 + fabs(w1)));
            worst = fmax(worst, fmax(fabs(m1 - m[i]), fabs(v1 - v[i])));
        }
        CHECK(worst < 1e-5);
        CHECK_NEAR(norm, square, 1e-5);
        free(w);
        free(g);
        free(m);
        free(v);
    }
}

static void images_are_those_of_the_loader(void)
{
    static image_case_t c;
    static float        found[IMAGES * PIXELS];

    for (int s = 0; s < IMAGE_SHAPES; s++) {
        image_draw(&image_shapes[s], &c);
        CHECK_OK(backend->ops->load_images(backend, NULL, &image_shapes[s], IMAGES, c.bytes, c.changes, &c.scale,
                                           PDL_FORMAT_PLAIN, found));
        CHECK(memcmp(found, c.expected, (size_t)(IMAGES * pdl_shape_elements(&image_shapes[s])) * sizeof(float)) ==
              0);
    }
}

static void vectors_are_added_and_averaged(void)
{
    int64_t count = 20011;
    float  *a = numbers(count), *b = numbers(count + 3);
    int     wrong = 0;

    backend->ops->add(backend, NULL, a, b + 3, (size_t)count * 4, a);
    for (int64_t i = 0; i < count; i++) wrong += a[i] != value(i) + value(i + 3);
    backend->ops->average(backend, NULL, 0.75, count, a, b);
    for (int64_t i = 0; i < count; i++)
        wrong += fabs(a[i] - (0.75 * (value(i) + value(i + 3)) + 0.25 * value(i))) > 1e-6;
    CHECK_INT(wrong, 0);
    free(a);
    free(b);
}

static void memory_is_aligned_and_zero(void)
{
    size_t sizes[] = {0, 1, 4097, 5u << 20};

    for (int i = 0; i < 4; i++) {
        unsigned char *memory = pdl_memory_take(sizes[i]);

        CHECK(memory != NULL && (uintptr_t)memory % 4096 == 0);
        if (sizes[i] > 0) CHECK_INT(memory[0] | memory[sizes[i] - 1], 0);
        pdl_memory_give(memory, sizes[i]);
    }
    CHECK(pdl_memory_take(SIZE_MAX) == NULL);
    pdl_memory_give(NULL, 0);
}

static void wrong_requests_are_refused(void)
{
    pdl_cpu_options_t options = {.threads = -1, .precision = PDL_DTYPE_F32};
    pdl_layer_t       layer = {.name = "l", .type = PDL_LAYER_RELU, .in = {.channels = 3, .extent = {1, 1, 1}}};
    pdl_op_spec_t     spec = {.layer = &layer, .inputs = &layer.in, .input_count = 1, .samples = 1};
    pdl_backend_t    *other;
    pdl_op_t         *op;

    CHECK_ERROR(pdl_backend_create_cpu(&options, &other), "threads");
    options = (pdl_cpu_options_t){.precision = PDL_DTYPE_F64};
    CHECK_ERROR(pdl_backend_create_cpu(&options, &other), "fp32 or bf16");
    layer.out = layer.in;
    spec.samples = 0;
    CHECK_ERROR(backend->ops->op_create(backend, &spec, &op), "samples");
    spec.samples = 1;
    spec.input_count = PDL_MAX_INPUTS + 1;
    CHECK_ERROR(backend->ops->op_create(backend, &spec, &op), "inputs");
    spec.input_count = 1;
    spec.fusion.add = true;
    CHECK_ERROR(backend->ops->op_create(backend, &spec, &op), "fused");
    spec.fusion.add = false;
    layer.type = PDL_LAYER_INPUT;
    CHECK_ERROR(backend->ops->op_create(backend, &spec, &op), "does not compute");
    layer.type = PDL_LAYER_RELU;
    CHECK_OK(backend->ops->op_create(backend, &spec, &op));
    CHECK_ERROR(backend->ops->backward(op, NULL, &(pdl_op_run_t){0}, PDL_BACKWARD_DATA), "inference");
    backend->ops->op_destroy(op);
    backend->ops->op_destroy(NULL);
    pdl_backend_destroy(NULL);
}

int main(void)
{
    pdl_cpu_options_t options = {.threads = 2, .precision = PDL_DTYPE_F32, .bind = true};

    if (pdl_backend_create_cpu(&options, &backend) != PDL_OK) {
        printf("%s\n", pdl_error_message());
        return 1;
    }
    RUN(conversions_are_exact);
    RUN(sequences_are_never_blocked);
    RUN(bf16_rounds_to_even);
    RUN(sums_of_squares_do_not_depend_on_threads);
    RUN(finds_what_is_not_finite);
    RUN(updates_follow_their_formulas);
    RUN(images_are_those_of_the_loader);
    RUN(vectors_are_added_and_averaged);
    RUN(memory_is_aligned_and_zero);
    RUN(wrong_requests_are_refused);
    pdl_backend_destroy(backend);
    return test_done();
}
