/*
 * Memory for one operation of a program: areas that grow, with random numbers in what is read.
 */
#include "train/calibrate/bench.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RANDOM_VALUES   ((int64_t)1 << 20)
#define BEHIND          ((size_t)1 << 20) /* tensors of a program have others behind them too */
#define ALIGNMENT       256
#define SHARE_OF_MEMORY 0.9

/* The next place of an area; NULL while it is only counted what an op needs. */
static void *place(pdl__bench_t *b, pdl__area_t area, size_t bytes)
{
    size_t at = b->used[area];

    b->used[area] += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return b->used[area] <= b->bytes[area] ? b->area[area] + at : NULL;
}

static size_t input_bytes(const pdl__bench_t *b, const pdl__unit_t *unit, int k)
{
    return b->backend->ops->tensor_bytes(b->backend, &unit->reads[k], unit->spec.samples,
                                         unit->description.in_format[k]);
}

size_t pdl__index_bytes(const pdl_shape_t *shape, int64_t samples)
{
    return (size_t)(samples * pdl_shape_positions(shape)) * sizeof(int32_t);
}

static void place_inputs(pdl__bench_t *b, const pdl__bench_job_t *job, pdl_op_run_t *run)
{
    const pdl__unit_t *unit = job->unit;

    for (int k = 0; k < unit->spec.input_count; k++) {
        bool gradient = unit->spec.input_gradient && job->graph->unit[unit->input[k]].gradient;

        run->input[k] = pdl_layer_traits(unit->spec.layer)->tokens
                            ? place(b, PDL__AREA_INDICES, pdl__index_bytes(&unit->reads[k], unit->spec.samples))
                            : place(b, PDL__AREA_READ, input_bytes(b, unit, k));
        if (gradient && unit->description.gradient_use[k] != PDL_GRADIENT_PASSED)
            run->input_gradient[k] = place(b, PDL__AREA_WRITTEN, input_bytes(b, unit, k));
    }
}

static void place_weights(pdl__bench_t *b, const pdl_op_description_t *op, pdl_op_run_t *run)
{
    for (int k = 0; k < op->weight_count; k++) {
        size_t bytes = (size_t)op->weight[k].elements * sizeof(float);

        run->weight[k] = place(b, PDL__AREA_WEIGHTS, bytes);
        if (op->weight[k].trainable) run->weight_gradient[k] = place(b, PDL__AREA_WRITTEN, bytes);
    }
}

static void place_targets(pdl__bench_t *b, const pdl__unit_t *unit, pdl_op_run_t *run)
{
    pdl_loss_t loss = pdl_layer_traits(unit->spec.layer)->loss;

    if (loss == PDL_LOSS_CLASSES)
        run->target = place(b, PDL__AREA_INDICES, pdl__index_bytes(&unit->spec.layer->in, unit->spec.samples));
    if (loss == PDL_LOSS_VALUES) run->target = place(b, PDL__AREA_READ, input_bytes(b, unit, 0));
}

static void place_op(pdl__bench_t *b, pdl__bench_job_t *job)
{
    const pdl_op_description_t *op = &job->unit->description;
    int                         gradients = pdl__unit_gradients(job->graph, (int)(job->unit - job->graph->unit));
    pdl_op_run_t                run = {.training = job->unit->spec.training,
                                       .total_samples = job->unit->spec.samples,
                                       .loss_scale = 1.0 / (double)job->unit->spec.samples};

    memset(b->used, 0, sizeof(b->used));
    run.output = place(b, PDL__AREA_WRITTEN, op->out_bytes);
    run.saved = place(b, PDL__AREA_WRITTEN, op->saved_bytes);
    run.workspace = place(b, PDL__AREA_WRITTEN, op->workspace_bytes);
    run.packed = place(b, PDL__AREA_WRITTEN, op->packed_bytes);
    place_inputs(b, job, &run);
    place_weights(b, op, &run);
    place_targets(b, job->unit, &run);
    run.output_gradient[0] = place(b, PDL__AREA_READ, op->out_bytes);
    if (gradients > 1 && op->sums_gradients) run.output_gradient[1] = place(b, PDL__AREA_READ, op->out_bytes);
    if (gradients > 1 && op->adds_gradient)
        run.added_gradient = place(b, PDL__AREA_READ, input_bytes(b, job->unit, 0));
    job->run = run;
}

/* One tensor to another. */
static void place_conversion(pdl__bench_t *b, pdl__bench_job_t *job)
{
    const pdl__unit_t *unit = job->unit;
    int64_t            samples = pdl__region_samples(&unit->region);
    size_t             most = (size_t)(samples * pdl_shape_elements(&unit->shape)) * sizeof(float);
    pdl_format_t format[2] = {unit->input_count > 0 ? job->graph->unit[unit->input[0]].format : PDL_FORMAT_PLAIN,
                              unit->format};

    for (int i = 0; i < 2; i++) {
        size_t bytes = b->backend->ops->tensor_bytes(b->backend, &unit->shape, samples, format[i]);
        if (bytes > most) most = bytes;
    }
    memset(b->used, 0, sizeof(b->used));
    job->from = place(b, unit->kind == PDL__UNIT_SOURCE ? PDL__AREA_WEIGHTS : PDL__AREA_READ,
                      most); /* plain floats are loaded */
    job->to = place(b, PDL__AREA_WRITTEN, most);
}

/* Random numbers at the beginning of an area, then copies of them. */
static pdl_status_t fill(const pdl__bench_t *b, pdl__area_t area, int64_t indices)
{
    pdl_tensor_device_t *device = b->backend->device;
    size_t       item = area == PDL__AREA_READ ? pdl_dtype_bytes(b->backend->activation_type) : sizeof(float);
    int64_t      count = (int64_t)fmin((double)RANDOM_VALUES, (double)(b->bytes[area] / item));
    float       *values = malloc((size_t)count * sizeof(*values));
    int32_t     *numbers = (int32_t *)(void *)values;
    uint32_t     x = 12345;
    pdl_status_t status = PDL_OK;

    if (values == NULL) return pdl__no_memory("for a calibration");
    for (int64_t i = 0; i < count; i++) {
        x = x * 1664525u + 1013904223u;
        if (area == PDL__AREA_INDICES)
            numbers[i] = (int32_t)((int64_t)(x >> 8) % indices);
        else
            values[i] = ((float)(x >> 8) / 8388608.0f - 1.0f) * (area == PDL__AREA_WEIGHTS ? 0.05f : 1.0f);
    }
    if (area == PDL__AREA_READ)
        status = b->backend->ops->from_float(b->backend, NULL, values, count, b->area[area]);
    else
        status = device->ops->copy(device, NULL, b->area[area], values, (size_t)count * item);
    for (size_t done = (size_t)count * item; done < b->bytes[area] && !status; done *= 2)
        status = device->ops->copy(device, NULL, b->area[area] + done, b->area[area],
                                   done < b->bytes[area] - done ? done : b->bytes[area] - done);
    free(values);
    return status;
}

/* As large as what was placed last needs it. */
static pdl_status_t grow(pdl__bench_t *b, pdl__area_t area)
{
    pdl_tensor_device_t *device = b->backend->device;
    void                *memory = NULL;
    size_t               free_bytes = 0, all_bytes = 0;
    pdl_status_t         status = PDL_OK;

    if (b->used[area] <= b->bytes[area]) return PDL_OK;
    b->used[area] += BEHIND;
    device->ops->release(device, PDL_SPACE_DEVICE, b->area[area], b->bytes[area]);
    b->area[area] = NULL;
    b->bytes[area] = 0;
    if (device->ops->memory != NULL) status = device->ops->memory(device, &free_bytes, &all_bytes);
    if (!status && all_bytes > 0 && (double)b->used[area] > SHARE_OF_MEMORY * (double)free_bytes)
        status = pdl_error(PDL_ERR_LIMIT, "an operation does not fit the device");
    if (!status) status = device->ops->alloc(device, PDL_SPACE_DEVICE, b->used[area], &memory);
    if (status) return status;
    b->area[area] = memory;
    b->bytes[area] = b->used[area];
    return area == PDL__AREA_WRITTEN || area == PDL__AREA_INDICES ? PDL_OK : fill(b, area, 0);
}

pdl_status_t pdl__bench_place(pdl__bench_t *b, pdl__bench_job_t *job)
{
    const pdl_layer_t *layer = job->op != NULL ? job->unit->spec.layer : NULL;
    pdl_status_t       status = PDL_OK;

    for (int i = 0; i < 2 && !status; i++) {
        if (job->op != NULL)
            place_op(b, job);
        else
            place_conversion(b, job);
        for (int a = 0; a < PDL__AREAS && i == 0 && !status; a++) status = grow(b, (pdl__area_t)a);
    }
    if (status || layer == NULL) return status;
    if (b->used[PDL__AREA_INDICES] > 0)
        status = fill(b, PDL__AREA_INDICES, layer->vocabulary > 0 ? layer->vocabulary : layer->in.channels);
    if (!status && job->unit->description.packed_bytes > 0)
        status = b->backend->ops->refresh(job->op, b->stream, &job->run);
    return status;
}

pdl_status_t pdl__bench_create(pdl__bench_t *b)
{
    pdl_tensor_device_t *device = b->backend->device;
    pdl_status_t         status = device->ops->stream_create(device, &b->stream);

    for (int i = 0; i < 2 && !status; i++) status = device->ops->event_create(device, &b->event[i]);
    return status ? status : pdl__stall_create(device, &b->stall);
}

void pdl__bench_free(pdl__bench_t *b)
{
    pdl_tensor_device_t *device = b->backend->device;

    for (int a = 0; a < PDL__AREAS; a++)
        if (b->area[a] != NULL) device->ops->release(device, PDL_SPACE_DEVICE, b->area[a], b->bytes[a]);
    pdl__stall_free(&b->stall);
    for (int i = 0; i < 2; i++) device->ops->event_destroy(device, b->event[i]);
    device->ops->stream_destroy(device, b->stream);
}
