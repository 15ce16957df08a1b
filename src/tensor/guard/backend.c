/*
 * The CPU backend on the guard's memory and streams.
 */
#include "tensor/guard/guard.h"
#include "tensor/image.h"

#include <stdlib.h>

typedef struct guard {
    pdl_backend_t  base; /* first: a pdl_backend_t is cast to this */
    pdl_backend_t *cpu;
} guard_t;

pdl_backend_t *pdl__guard_cpu(pdl_backend_t *backend)
{
    return ((guard_t *)backend)->cpu;
}

static bool guard_fuses(pdl_backend_t *backend, const pdl_layer_t *layer, const pdl_fusion_t *fusion)
{
    return pdl__guard_cpu(backend)->ops->fuses(pdl__guard_cpu(backend), layer, fusion);
}

static size_t guard_tensor_bytes(pdl_backend_t *backend, const pdl_shape_t *shape, int64_t samples,
                                 pdl_format_t format)
{
    return pdl__guard_cpu(backend)->ops->tensor_bytes(pdl__guard_cpu(backend), shape, samples, format);
}

static pdl_status_t guard_op_describe(pdl_backend_t *backend, const pdl_op_spec_t *spec,
                                      pdl_op_description_t *description)
{
    return pdl__guard_cpu(backend)->ops->op_describe(pdl__guard_cpu(backend), spec, description);
}

/* An op of the guard has that of the CPU as its private data. */
static pdl_status_t guard_op_create(pdl_backend_t *backend, const pdl_op_spec_t *spec, pdl_op_t **op)
{
    pdl_op_t    *inner = NULL, *made = malloc(sizeof(*made));
    pdl_status_t status = made != NULL
                              ? pdl__guard_cpu(backend)->ops->op_create(pdl__guard_cpu(backend), spec, &inner)
                              : pdl_error(PDL_ERR_NOMEM, "%s: out of memory", spec->layer->name);

    if (status) {
        free(made);
        return status;
    }
    *made = *inner;
    made->backend = backend;
    made->private_data = inner;
    *op = made;
    return PDL_OK;
}

static void guard_op_destroy(pdl_op_t *op)
{
    pdl_op_t *inner = op != NULL ? op->private_data : NULL;

    if (inner != NULL) inner->backend->ops->op_destroy(inner);
    free(op);
}

/* A call of an op in a stream. */
typedef struct call {
    pdl_op_t    *op;
    pdl_op_run_t run;
    unsigned     what;
} call_t;

static pdl_status_t run_forward(void *argument)
{
    const call_t *call = argument;

    return call->op->backend->ops->forward(call->op, NULL, &call->run);
}

static pdl_status_t run_backward(void *argument)
{
    const call_t *call = argument;

    return call->op->backend->ops->backward(call->op, NULL, &call->run, call->what);
}

static pdl_status_t run_refresh(void *argument)
{
    const call_t *call = argument;

    return call->op->backend->ops->refresh(call->op, NULL, &call->run);
}

/* All that an op reads and writes is memory of the device. */
static pdl_status_t call_op(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run, unsigned what,
                            pdl__guard_fn_t function)
{
    pdl_tensor_device_t *device = op->backend->device;
    call_t               call = {op->private_data, *run, what};
    pdl_status_t         status = PDL_OK;

#define TRANSLATE(field, bytes) \
    if (!status) status = pdl__guard_translate(device, call.run.field, bytes, false, (void *)&call.run.field)
    TRANSLATE(output, call.run.output != NULL ? op->description.out_bytes : 0);
    TRANSLATE(saved, call.run.saved != NULL ? op->description.saved_bytes : 0);
    TRANSLATE(workspace, call.run.workspace != NULL ? op->description.workspace_bytes : 0);
    TRANSLATE(packed, 0);
    TRANSLATE(past, 0);
    TRANSLATE(cache, call.run.cache != NULL ? op->description.cache_bytes : 0);
    TRANSLATE(target, 0);
    TRANSLATE(sample_weight, 0);
    for (int i = 0; i < PDL_MAX_INPUTS; i++) {
        TRANSLATE(input[i], 0);
        TRANSLATE(input_gradient[i], 0);
    }
    for (int i = 0; i < PDL_MAX_WEIGHTS; i++) {
        TRANSLATE(weight[i], 0);
        TRANSLATE(weight_gradient[i], 0);
    }
    for (int i = 0; i < 2; i++) TRANSLATE(output_gradient[i], 0);
#undef TRANSLATE
    if (status) return pdl_error(status, "%s: %s", op->spec.layer->name, pdl_error_message());
    return pdl__guard_enqueue(stream, function, &call, sizeof(call));
}

static pdl_status_t guard_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    return call_op(op, stream, run, 0, run_forward);
}

static pdl_status_t guard_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                   unsigned what)
{
    return call_op(op, stream, run, what, run_backward);
}

static pdl_status_t guard_refresh(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    return call_op(op, stream, run, 0, run_refresh);
}

static pdl_status_t guard_weight_import(pdl_op_t *op, int k, const float *plain, void *storage)
{
    pdl_op_t    *inner = op->private_data;
    void        *memory;
    pdl_status_t status = pdl__guard_translate(op->backend->device, storage, 0, true, &memory);

    return status ? status : inner->backend->ops->weight_import(inner, k, plain, memory);
}

static pdl_status_t guard_weight_export(pdl_op_t *op, int k, const void *storage, float *plain)
{
    pdl_op_t    *inner = op->private_data;
    void        *memory;
    pdl_status_t status = pdl__guard_translate(op->backend->device, storage, 0, true, &memory);

    return status ? status : inner->backend->ops->weight_export(inner, k, memory, plain);
}

/* A call on vectors in a stream. */
typedef struct vectors {
    pdl_backend_t *cpu;
    pdl_shape_t    shape;
    pdl_format_t   from, to;
    int64_t        count;
    size_t         bytes;
    double         keep;
    const void    *a, *b;
    void          *c; /* written */
} vectors_t;

static pdl_status_t run_convert(void *argument)
{
    const vectors_t *v = argument;

    return v->cpu->ops->convert(v->cpu, NULL, &v->shape, v->count, v->from, v->a, v->to, v->c);
}

static pdl_status_t run_from_float(void *argument)
{
    const vectors_t *v = argument;

    return v->cpu->ops->from_float(v->cpu, NULL, v->a, v->count, v->c);
}

static pdl_status_t run_to_float(void *argument)
{
    const vectors_t *v = argument;

    return v->cpu->ops->to_float(v->cpu, NULL, v->a, v->count, v->c);
}

static pdl_status_t run_add(void *argument)
{
    const vectors_t *v = argument;

    return v->cpu->ops->add(v->cpu, NULL, v->a, v->b, v->bytes, v->c);
}

static pdl_status_t run_find_not_finite(void *argument)
{
    const vectors_t *v = argument;

    return v->cpu->ops->find_not_finite(v->cpu, NULL, v->a, v->bytes, v->c);
}

static pdl_status_t run_average(void *argument)
{
    const vectors_t *v = argument;

    return v->cpu->ops->average(v->cpu, NULL, v->keep, v->count, v->c, v->a);
}

/* `host`: the first vector, or the one that is written, may be the host's. */
static pdl_status_t call_vectors(pdl_backend_t *backend, pdl_tensor_stream_t *stream, vectors_t v, bool host,
                                 pdl__guard_fn_t function)
{
    const void  *addresses[] = {v.a, v.b, v.c};
    void        *at[3];
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < 3 && !status; i++)
        status = pdl__guard_translate(backend->device, addresses[i], 0, host, &at[i]);
    if (status) return status;
    v.cpu = pdl__guard_cpu(backend);
    v.a = at[0], v.b = at[1], v.c = at[2];
    return pdl__guard_enqueue(stream, function, &v, sizeof(v));
}

static pdl_status_t guard_convert(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                                  int64_t samples, pdl_format_t from, const void *source, pdl_format_t to,
                                  void *target)
{
    vectors_t v = {.shape = *shape, .count = samples, .from = from, .to = to, .a = source, .c = target};

    return call_vectors(backend, stream, v, false, run_convert);
}

static pdl_status_t guard_from_float(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const float *source,
                                     int64_t count, void *target)
{
    return call_vectors(backend, stream, (vectors_t){.a = source, .c = target, .count = count}, true,
                        run_from_float);
}

static pdl_status_t guard_to_float(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *source,
                                   int64_t count, float *target)
{
    return call_vectors(backend, stream, (vectors_t){.a = source, .c = target, .count = count}, true, run_to_float);
}

/* A call that loads images in a stream. */
typedef struct images {
    pdl_backend_t            *cpu;
    pdl_shape_t               shape;
    pdl_image_scale_t         scale;
    int64_t                   samples;
    const uint8_t            *bytes;
    const pdl_image_change_t *changes;
    void                     *target;
} images_t;

static pdl_status_t run_load_images(void *argument)
{
    const images_t *i = argument;

    return i->cpu->ops->load_images(i->cpu, NULL, &i->shape, i->samples, i->bytes, i->changes, &i->scale,
                                    PDL_FORMAT_PLAIN, i->target);
}

static pdl_status_t guard_load_images(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                                      int64_t samples, const uint8_t *bytes, const pdl_image_change_t *changes,
                                      const pdl_image_scale_t *scale, pdl_format_t format, void *target)
{
    images_t     images = {pdl__guard_cpu(backend), *shape, *scale, samples, bytes, changes, target};
    size_t       all = (size_t)(samples * pdl_shape_elements(shape));
    pdl_status_t status = pdl__guard_translate(backend->device, bytes, all, false, (void *)&images.bytes);

    if (!status)
        status = pdl__guard_translate(backend->device, changes, (size_t)samples * sizeof(*changes), false,
                                      (void *)&images.changes);
    if (!status)
        status = pdl__guard_translate(backend->device, target, all * pdl_dtype_bytes(backend->activation_type),
                                      false, (void *)&images.target);
    (void)format;
    return status ? status : pdl__guard_enqueue(stream, run_load_images, &images, sizeof(images));
}

static pdl_status_t guard_add(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *a, const void *b,
                              size_t bytes, void *sum)
{
    return call_vectors(backend, stream, (vectors_t){.a = a, .b = b, .c = sum, .bytes = bytes}, false, run_add);
}

static pdl_status_t guard_find_not_finite(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *data,
                                          size_t bytes, int64_t *index)
{
    return call_vectors(backend, stream, (vectors_t){.a = data, .c = index, .bytes = bytes}, false,
                        run_find_not_finite);
}

static pdl_status_t guard_average(pdl_backend_t *backend, pdl_tensor_stream_t *stream, double keep, int64_t count,
                                  void *ema, const void *w)
{
    return call_vectors(backend, stream, (vectors_t){.keep = keep, .count = count, .a = w, .c = ema}, false,
                        run_average);
}

static void guard_destroy(pdl_backend_t *backend)
{
    pdl_backend_destroy(pdl__guard_cpu(backend));
    backend->device->ops->destroy(backend->device);
    free(backend);
}

pdl_status_t pdl_backend_create_guard(const pdl_cpu_options_t *options, bool lazy, pdl_backend_t **backend)
{
    static const pdl_backend_ops_t ops = {
        .name = "guard",
        .fuses = guard_fuses,
        .tensor_bytes = guard_tensor_bytes,
        .op_describe = guard_op_describe,
        .op_create = guard_op_create,
        .op_destroy = guard_op_destroy,
        .forward = guard_forward,
        .backward = guard_backward,
        .refresh = guard_refresh,
        .weight_import = guard_weight_import,
        .weight_export = guard_weight_export,
        .convert = guard_convert,
        .from_float = guard_from_float,
        .to_float = guard_to_float,
        .add = guard_add,
        .find_not_finite = guard_find_not_finite,
        .load_images = guard_load_images,
        .load_values = pdl__host_load_values,
        .check_results = pdl__guard_check_results,
        .sum_squares = pdl__guard_sum_squares,
        .clip = pdl__guard_clip,
        .update = pdl__guard_update,
        .average = guard_average,
        .destroy = guard_destroy,
    };
    pdl_backend_t *cpu = NULL;
    guard_t       *made = calloc(1, sizeof(*made));
    pdl_status_t   status =
        made != NULL ? pdl_backend_create("cpu", options, &cpu) : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (!status) {
        made->base = *cpu;
        made->base.ops = &ops;
        made->cpu = cpu;
        status = pdl__guard_device_create(cpu->threads, lazy, &made->base.device);
    }
    if (status) {
        pdl_backend_destroy(cpu);
        free(made);
        return status;
    }
    *backend = &made->base;
    return PDL_OK;
}
