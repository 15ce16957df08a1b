/*
 * Generation: ops that go on from earlier tokens give what the layer gives over the whole sequence, on every backend here.
 */
#include "op_cache.h"
#include "test.h"

#define BF16_TOLERANCE 2e-2

static pdl_model_t *read_case(const struct cached_op_case *c, const pdl_layer_t **layer)
{
    pdl_model_t *model;
    char         text[1024];
    int          length = snprintf(text, sizeof(text), "paradl: model/1\nname: case\n%s\n", c->text);

    REQUIRE_OK(pdl_model_read_yaml_memory(text, (size_t)length, "case", &model));
    *layer = pdl_model_layer(model, pdl_model_layer_count(model) - 1);
    return model;
}

/* The storage of the weight, if the layer has one: the table of positions. */
static void *make_weight(const op_cache_t *c, size_t *bytes)
{
    const pdl_weight_t *info = &c->op->description.weight[0];
    void               *storage;
    float              *plain;

    *bytes = c->op->description.weight_count == 0
                 ? 0
                 : (size_t)info->elements * pdl_dtype_bytes(c->backend->weight_type);
    if (*bytes == 0) return NULL;
    storage = op_cache_device(c->backend, *bytes);
    plain = malloc((size_t)info->elements * sizeof(*plain));
    for (int64_t i = 0; i < info->elements; i++) plain[i] = (float)op_value(1, OP_WEIGHT, i);
    CHECK_OK(c->backend->ops->weight_import(c->op, 0, plain, storage));
    free(plain);
    return storage;
}

/* The whole sequence at once, by the reference. */
static void run_whole(pdl_backend_t *reference, const struct cached_op_case *c, const pdl_layer_t *layer,
                      const double *x, double *y)
{
    op_cache_t whole;
    size_t     bytes;
    void      *weight;
    int32_t   *past = calloc((size_t)c->samples, sizeof(*past));

    REQUIRE_OK(op_cache_create(&whole, reference, layer, c->samples, c->context, 0));
    weight = make_weight(&whole, &bytes);
    CHECK_OK(op_cache_step(&whole, past, weight, NULL, x, y));
    if (weight != NULL) op_cache_release(reference, weight, bytes);
    reference->ops->op_destroy(whole.op);
    free(past);
}

static void check_case(pdl_backend_t *backend, pdl_backend_t *reference, const struct cached_op_case *c,
                       double bound)
{
    const pdl_layer_t *layer;
    pdl_model_t       *model = read_case(c, &layer);
    int64_t in = c->samples * c->context * layer->in.channels, out = c->samples * c->context * layer->out.channels;
    double *x = op_doubles(in), *expected = op_doubles(out), *found = op_doubles(out);
    op_cache_t many, one;
    size_t     bytes, weight_bytes;
    void      *cache, *weight;

    for (int64_t i = 0; i < in; i++) x[i] = floor(op_value(1, OP_INPUT, i) * 128) / 128;
    run_whole(reference, c, layer, x, expected);
    REQUIRE_OK(op_cache_create(&many, backend, layer, c->samples, layer->in.extent[0], c->context));
    REQUIRE_OK(op_cache_create(&one, backend, layer, c->samples, 1, c->context));
    bytes = many.op->description.cache_bytes;
    CHECK_INT(bytes, one.op->description.cache_bytes);
    cache = op_cache_device(backend, bytes);
    weight = make_weight(&many, &weight_bytes);
    CHECK_OK(op_cache_pieces(&many, &one, weight, cache, x, found));
    if (op_difference(found, expected, out) > bound) {
        test_fail_at(__FILE__, __LINE__);
        printf("%s, %s: off by %.2g of its scale\n", backend->ops->name, c->text,
               op_difference(found, expected, out));
    }
    op_cache_release(backend, cache, bytes);
    if (weight != NULL) op_cache_release(backend, weight, weight_bytes);
    backend->ops->op_destroy(many.op);
    backend->ops->op_destroy(one.op);
    pdl_model_destroy(model);
    free(x);
    free(expected);
    free(found);
}

static void check_backend(pdl_backend_t *backend, double bound)
{
    pdl_backend_t *reference;

    REQUIRE_OK(pdl_backend_create_reference(&reference));
    for (int i = 0; i < CACHED_OP_CASE_COUNT; i++) check_case(backend, reference, &cached_op_cases[i], bound);
    pdl_backend_destroy(reference);
    pdl_backend_destroy(backend);
}

static void reference_goes_on(void)
{
    pdl_backend_t *backend;

    REQUIRE_OK(pdl_backend_create_reference(&backend));
    check_backend(backend, 1e-6);
}

static void cpu_goes_on(void)
{
    pdl_cpu_options_t options = {.threads = 2};
    pdl_backend_t    *backend;

    REQUIRE_OK(pdl_backend_create_cpu(&options, &backend));
    check_backend(backend, 1e-5);
}

static void cpu_goes_on_in_bf16(void)
{
    pdl_cpu_options_t options = {.threads = 2, .precision = PDL_DTYPE_BF16};
    pdl_backend_t    *backend;

    if (pdl_backend_create_cpu(&options, &backend))
        printf("     no bf16 here: %s\n", pdl_error_message());
    else
        check_backend(backend, BF16_TOLERANCE);
}

static void guard_goes_on(void)
{
    pdl_cpu_options_t options = {.threads = 1};
    pdl_backend_t    *backend;

    REQUIRE_OK(pdl_backend_create_guard(&options, true, &backend));
    check_backend(backend, 1e-5);
}

static void gpu_goes_on(void)
{
    pdl_cuda_options_t options = {.precision = PDL_DTYPE_F32, .emulated = true};
    pdl_backend_t     *backend;

    for (int precision = 0; precision < 2; precision++) {
        options.precision = precision == 0 ? PDL_DTYPE_F32 : PDL_DTYPE_BF16;
        if (pdl_backend_create_cuda(&options, &backend))
            printf("     no emulated GPU here: %s\n", pdl_error_message());
        else
            check_backend(backend, precision == 0 ? 1e-5 : BF16_TOLERANCE);
    }
}

static void others_are_refused(void)
{
    static const struct cached_op_case whole = {TOKENS("3, channels: 24", attention : {heads : 2}), 1, 9};
    pdl_cpu_options_t                  options = {.threads = 1};
    const pdl_layer_t                 *layer;
    pdl_model_t                       *model = read_case(&whole, &layer);
    pdl_backend_t                     *backend;
    op_cache_t                         c;

    REQUIRE_OK(pdl_backend_create_cpu(&options, &backend));
    CHECK_ERROR(op_cache_create(&c, backend, layer, 1, 3, 9), "only causal attention");
    pdl_backend_destroy(backend);
    pdl_model_destroy(model);
}

int main(void)
{
    RUN(reference_goes_on);
    RUN(cpu_goes_on);
    RUN(cpu_goes_on_in_bf16);
    RUN(guard_goes_on);
    RUN(gpu_goes_on);
    RUN(others_are_refused);
    return test_done();
}
