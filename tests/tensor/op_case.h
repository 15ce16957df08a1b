/*
 * One op of one backend, run once: a layer described by a short model text becomes an op, its inputs and weights
 * are filled from a formula, forward and backward run in buffers of exactly the sizes asked for, and everything
 * comes back plain and in double.
 *
 *     op_case_t   c = {.text = "input: {channels: 3, size: [5]}\nlayers: [{relu: {}}]", .samples = 2};
 *     op_result_t result;
 *
 *     if (op_case_run(backend, &c, &result) == PDL_OK) { ... result.output ... }
 *     op_result_free(&result);
 *
 * The op is the last layer of the text; the layers before it only give its inputs their shapes. What an op says
 * about itself is believed: what it does not keep is overwritten before backward, and the workspace always is.
 */
#ifndef PDL_TEST_OP_CASE_H
#define PDL_TEST_OP_CASE_H

#include "op_meeting.h"
#include "op_value.h"
#include "tensor/reference/reference.h"

#include <paradl/tensor/backend.h>

#include <stdlib.h>
#include <string.h>

typedef struct op_case {
    const char  *text; /* input and layers of a model */
    int64_t      samples;
    double       tolerance; /* relative to the largest value of a tensor; 0: that of the test */
    unsigned     seed;
    pdl_fusion_t fusion;
    bool         evaluate;          /* forward only */
    bool         made_for_training; /* with evaluate: by an op that could also train */
    bool         no_input_gradient, accumulate;
    bool         two_gradients; /* where the op sums them */
    bool         with_others;   /* a gradient that others have made of input 0 is added to its own */
    bool         at_once;       /* a loss makes its gradient in forward, where it does that */
    bool         blocked;       /* images are offered blocked where the backend has that */
    bool         inplace;       /* output over input, gradient over gradient, where the op allows it */
    bool         split;         /* the tensor is a piece of a larger one (dropout) */
    bool         coarse;        /* values are multiples of 1/128: exact in bf16, and many are equal */
    double       smoothing;     /* of labels */
    bool         ignore;        /* some classes are left out, in sample 0 all */
    bool         weigh_samples;
    /* batch norm over ranks: this rank has `samples` from `first_sample` on */
    int64_t    first_sample, total_samples;
    meeting_t *meeting; /* NULL: there are no others */
    /* finite differences: added to element `index` of a tensor (see op_value) */
    int     moved_tensor;
    int64_t moved_index;
    double  moved_by;
} op_case_t;

typedef struct op_result {
    char    layer[64], shape[96];
    bool    loss, sums_gradients, has_inplace;
    int     inputs, weights;
    int64_t out_count, in_count[PDL_MAX_INPUTS], weight_count[PDL_MAX_WEIGHTS];
    double *output, *input_gradient[PDL_MAX_INPUTS];                    /* NULL: none */
    double *weight[PDL_MAX_WEIGHTS], *weight_gradient[PDL_MAX_WEIGHTS]; /* gradient NULL: not trainable */
    char    weight_name[PDL_MAX_WEIGHTS][16];
    int64_t weight_dims[PDL_MAX_WEIGHTS][5];
    double  objective; /* sum of output * output gradient, or the scaled and weighted loss */
} op_result_t;

/* Everything an op needs while it runs. */
typedef struct op_bench {
    const op_case_t *c;
    pdl_backend_t   *backend;
    pdl_model_t     *model;
    pdl_op_t        *op;
    pdl_op_run_t     run;
    pdl_shape_t      shapes[PDL_MAX_INPUTS];
    void            *input[PDL_MAX_INPUTS], *input_gradient[PDL_MAX_INPUTS], *output, *gradient[2], *added;
    double          *before; /* reference with a fusion: the output before the activation */
    size_t           input_bytes[PDL_MAX_INPUTS];
    float           *sample_weight, *weight_there;
} op_bench_t;

/* At least one byte, all of them garbage: as floats, NaN. */
static inline size_t op_room(size_t bytes)
{
    return (bytes + 127) / 64 * 64;
}

static inline void *op_take(size_t bytes)
{
    void *memory = aligned_alloc(64, op_room(bytes));

    if (memory == NULL) abort();
    memset(memory, 0xff, op_room(bytes));
    return memory;
}

/* The same for what ops read and write, in memory of the device. Where the host may touch that, it is the host's, so that a
   sanitizer sees what is beyond it. */
static inline void op_copy(pdl_backend_t *backend, void *to, const void *from, size_t bytes)
{
    if (backend->device->ops->copy(backend->device, NULL, to, from, bytes) != PDL_OK) abort();
}

static inline void op_spoil(pdl_backend_t *backend, void *memory, size_t bytes)
{
    void *garbage = op_take(bytes);

    op_copy(backend, memory, garbage, bytes);
    free(garbage);
}

static inline void *op_place(pdl_backend_t *backend, size_t bytes)
{
    void *memory;

    if (backend->device->host_access) return op_take(bytes);
    if (backend->device->ops->alloc(backend->device, PDL_SPACE_DEVICE, op_room(bytes), &memory) != PDL_OK) abort();
    op_spoil(backend, memory, op_room(bytes));
    return memory;
}

static inline void op_give(pdl_backend_t *backend, const void *memory)
{
    if (backend->device->host_access)
        free((void *)memory);
    else
        backend->device->ops->release(backend->device, PDL_SPACE_DEVICE, (void *)memory, 0);
}

/* Memory of the device with these bytes of the host. */
static inline void *op_upload(pdl_backend_t *backend, const void *from, size_t bytes)
{
    void *memory = op_place(backend, bytes);

    op_copy(backend, memory, from, bytes);
    return memory;
}

/* Whether what lies behind `bytes` of memory placed is as it was. */
static inline bool op_unharmed(pdl_backend_t *backend, const void *memory, size_t bytes)
{
    unsigned char at[128];
    size_t        behind = op_room(bytes) - bytes;

    if (memory == NULL) return true;
    op_copy(backend, at, (const char *)memory + bytes, behind);
    for (size_t i = 0; i < behind; i++)
        if (at[i] != 0xff) return false;
    return true;
}

static inline double *op_doubles(int64_t count)
{
    return op_take((size_t)count * sizeof(double));
}

static inline double op_case_value(const op_case_t *c, int tensor, int64_t index)
{
    double value = op_value(c->seed, tensor, index);

    if (c->coarse) value = floor(value * 128) / 128;
    return tensor == c->moved_tensor && index == c->moved_index ? value + c->moved_by : value;
}

/* Plain doubles to the activation type and arrangement of the backend. */
static inline pdl_status_t op_to_backend(pdl_backend_t *backend, const pdl_shape_t *shape, int64_t samples,
                                         const double *plain, pdl_format_t format, void *target)
{
    int64_t      count = pdl_shape_elements(shape) * samples;
    pdl_status_t status;
    void        *typed;
    float       *single;

    if (backend->activation_type == PDL_DTYPE_F64) {
        memcpy(target, plain, (size_t)count * sizeof(double));
        return PDL_OK;
    }
    single = op_take((size_t)count * sizeof(float));
    typed = op_place(backend, (size_t)count * sizeof(float));
    for (int64_t i = 0; i < count; i++) single[i] = (float)plain[i];
    status = backend->ops->from_float(backend, NULL, single, count, typed);
    if (!status)
        status = backend->ops->convert(backend, NULL, shape, samples, PDL_FORMAT_PLAIN, typed, format, target);
    free(single);
    op_give(backend, typed);
    return status;
}

static inline pdl_status_t op_from_backend(pdl_backend_t *backend, const pdl_shape_t *shape, int64_t samples,
                                           pdl_format_t format, const void *source, double *plain)
{
    int64_t      count = pdl_shape_elements(shape) * samples;
    pdl_status_t status;
    void        *typed;
    float       *single;

    if (backend->activation_type == PDL_DTYPE_F64) {
        memcpy(plain, source, (size_t)count * sizeof(double));
        return PDL_OK;
    }
    single = op_take((size_t)count * sizeof(float));
    typed = op_place(backend, (size_t)count * sizeof(float));
    status = backend->ops->convert(backend, NULL, shape, samples, format, source, PDL_FORMAT_PLAIN, typed);
    if (!status) status = backend->ops->to_float(backend, NULL, typed, count, single);
    for (int64_t i = 0; i < count; i++) plain[i] = single[i];
    free(single);
    op_give(backend, typed);
    return status;
}

static inline int64_t op_plain_count(const pdl_weight_t *weight)
{
    int64_t count = 1;

    for (int d = 0; d < weight->rank; d++) count *= weight->dims[d];
    return count;
}

static inline pdl_status_t op_import(op_bench_t *b, int k, const double *plain, void *storage)
{
    int64_t      count = op_plain_count(&b->op->description.weight[k]);
    float       *single;
    pdl_status_t status;

    status = b->backend->device->ops->fill(b->backend->device, NULL, storage,
                                           (size_t)b->op->description.weight[k].elements *
                                               pdl_dtype_bytes(b->backend->weight_type));
    if (status) return status;
    if (b->backend->weight_type == PDL_DTYPE_F64) {
        memcpy(storage, plain, (size_t)count * sizeof(double));
        return PDL_OK;
    }
    single = op_take((size_t)count * sizeof(float));
    for (int64_t i = 0; i < count; i++) single[i] = (float)plain[i];
    status = b->backend->ops->weight_import(b->op, k, single, storage);
    free(single);
    return status;
}

static inline pdl_status_t op_export(op_bench_t *b, int k, const void *storage, double *plain)
{
    int64_t      count = op_plain_count(&b->op->description.weight[k]);
    float       *single;
    pdl_status_t status;

    if (b->backend->weight_type == PDL_DTYPE_F64) {
        memcpy(plain, storage, (size_t)count * sizeof(double));
        return PDL_OK;
    }
    single = op_take((size_t)count * sizeof(float));
    status = b->backend->ops->weight_export(b->op, k, storage, single);
    for (int64_t i = 0; i < count; i++) plain[i] = single[i];
    free(single);
    return status;
}

static inline bool op_is_loss(const pdl_layer_t *layer)
{
    return layer->type == PDL_LAYER_CROSS_ENTROPY || layer->type == PDL_LAYER_MSE;
}

static inline bool op_fused(const op_case_t *c)
{
    return c->fusion.add || c->fusion.activation != PDL_LAYER_INPUT;
}

/* A piece in the middle of something larger, in every dimension that may be split. */
static inline pdl_origin_t op_origin(const op_case_t *c, const pdl_layer_t *layer)
{
    pdl_origin_t origin = {.whole = layer->out};

    if (!c->split) return origin;
    if (layer->type == PDL_LAYER_ATTENTION) {
        origin.whole.channels *= 3;
        origin.channel = layer->head_dim;
        return origin;
    }
    origin.whole.channels += 5;
    origin.channel = 3;
    for (int d = 0; d < layer->out.rank; d++) {
        origin.whole.extent[d] += 2 + d;
        origin.space[d] = 1 + d;
    }
    return origin;
}

static inline const pdl_layer_t *op_layer(const op_bench_t *b)
{
    return pdl_model_layer(b->model, pdl_model_layer_count(b->model) - 1);
}

static inline bool op_same_weight(const pdl_weight_t *a, const pdl_weight_t *b)
{
    return strcmp(a->name, b->name) == 0 && a->rank == b->rank && memcmp(a->dims, b->dims, sizeof(a->dims)) == 0 &&
           a->elements == b->elements && a->trainable == b->trainable;
}

static inline bool op_same(const pdl_op_description_t *a, const pdl_op_description_t *b)
{
    bool same = memcmp(a->in_format, b->in_format, sizeof(a->in_format)) == 0 && a->out_format == b->out_format &&
                a->out_bytes == b->out_bytes && a->saved_bytes == b->saved_bytes &&
                a->workspace_bytes == b->workspace_bytes && a->packed_bytes == b->packed_bytes &&
                a->keeps_inputs == b->keeps_inputs && a->keeps_output == b->keeps_output &&
                a->inplace == b->inplace && a->sums_gradients == b->sums_gradients &&
                a->adds_gradient == b->adds_gradient && a->gradient_in_forward == b->gradient_in_forward &&
                a->divides == b->divides &&
                memcmp(a->gradient_use, b->gradient_use, sizeof(a->gradient_use)) == 0 &&
                a->weight_count == b->weight_count && memcmp(a->flop, b->flop, sizeof(a->flop)) == 0 &&
                a->kernel == b->kernel;

    for (int k = 0; same && k < a->weight_count; k++) same = op_same_weight(&a->weight[k], &b->weight[k]);
    return same;
}

/* The op that is made must be the one that was described, before and after. */
static inline pdl_status_t op_create_as_described(op_bench_t *b, const pdl_op_spec_t *spec)
{
    pdl_op_description_t before, after;
    pdl_status_t         status = b->backend->ops->op_describe(b->backend, spec, &before);

    if (!status) status = b->backend->ops->op_create(b->backend, spec, &b->op);
    if (!status) status = b->backend->ops->op_describe(b->backend, spec, &after);
    if (status) return status;
    if (!op_same(&before, &b->op->description) || !op_same(&after, &before))
        return pdl_error(PDL_ERR_LIMIT, "the op made is not the op described");
    return PDL_OK;
}

static inline pdl_status_t op_make(op_bench_t *b)
{
    const op_case_t   *c = b->c;
    char               text[2048];
    int                length = snprintf(text, sizeof(text), "paradl: model/1\nname: case\n%s\n", c->text);
    pdl_status_t       status = pdl_model_read_yaml_memory(text, (size_t)length, "case", &b->model);
    const pdl_layer_t *layer;
    pdl_format_t       given[PDL_MAX_INPUTS];
    pdl_op_spec_t      spec;

    if (status) return status;
    layer = op_layer(b);
    spec = (pdl_op_spec_t){.layer = layer,
                           .inputs = b->shapes,
                           .given = given,
                           .input_count = layer->input_count,
                           .samples = c->samples,
                           .fusion = c->fusion,
                           .training = !c->evaluate || c->made_for_training,
                           .input_gradient = !c->no_input_gradient && layer->type != PDL_LAYER_EMBEDDING,
                           .accumulates = c->accumulate,
                           .gradient_in_forward = c->at_once && op_is_loss(layer),
                           .shared = c->meeting != NULL,
                           .id = 3,
                           .origin = op_origin(c, layer)};
    for (int i = 0; i < layer->input_count; i++) b->shapes[i] = pdl_model_layer(b->model, layer->inputs[i])->out;
    if (c->fusion.add) b->shapes[spec.input_count++] = layer->out;
    /* The reference knows no fusions: what it lacks is computed here. */
    if (b->backend->activation_type == PDL_DTYPE_F64) spec.fusion = (pdl_fusion_t){false, PDL_LAYER_INPUT};
    if (b->backend->activation_type == PDL_DTYPE_F64 && c->fusion.add) spec.input_count--;
    for (int i = 0; i < spec.input_count; i++) {
        bool image = b->shapes[i].rank > 0 && !b->shapes[i].sequence;

        given[i] = c->blocked && image && b->backend->activation_type != PDL_DTYPE_F64 ? PDL_FORMAT_BLOCKED
                                                                                       : PDL_FORMAT_PLAIN;
    }
    return op_create_as_described(b, &spec);
}

static inline pdl_status_t op_fill_input(op_bench_t *b, int i)
{
    const pdl_layer_t *layer = op_layer(b);
    int64_t count = pdl_shape_elements(&b->shapes[i]) * b->c->samples, first = pdl_shape_elements(&b->shapes[i]);
    size_t  bytes =
        b->backend->ops->tensor_bytes(b->backend, &b->shapes[i], b->c->samples, b->op->description.in_format[i]);
    double      *plain;
    pdl_status_t status;

    if (layer->type == PDL_LAYER_EMBEDDING) bytes = (size_t)count * sizeof(int32_t);
    first *= b->c->first_sample;
    b->input_bytes[i] = bytes;
    if (layer->type == PDL_LAYER_EMBEDDING) {
        int32_t *tokens = op_take(bytes);

        for (int64_t j = 0; j < count; j++)
            tokens[j] = op_index(b->c->seed, OP_INPUT + i, first + j, layer->vocabulary);
        b->run.input[i] = b->input[i] = op_upload(b->backend, tokens, bytes);
        free(tokens);
        return PDL_OK;
    }
    b->run.input[i] = b->input[i] = op_place(b->backend, bytes);
    plain = op_doubles(count);
    for (int64_t j = 0; j < count; j++) plain[j] = op_case_value(b->c, OP_INPUT + i, first + j);
    status = op_to_backend(b->backend, &b->shapes[i], b->c->samples, plain, b->op->description.in_format[i],
                           b->input[i]);
    free(plain);
    return status;
}

static inline pdl_status_t op_fill_weight(op_bench_t *b, int k)
{
    const pdl_weight_t *weight = &b->op->description.weight[k];
    int64_t             count = op_plain_count(weight);
    size_t              bytes = (size_t)weight->elements * pdl_dtype_bytes(b->backend->weight_type);
    double             *plain = op_doubles(count);
    pdl_status_t        status;

    for (int64_t j = 0; j < count; j++) {
        plain[j] = op_case_value(b->c, OP_WEIGHT + k, j);
        if (strcmp(weight->name, "running_var") == 0) plain[j] = 0.5 + fabs(plain[j]);
    }
    b->run.weight[k] = op_place(b->backend, bytes);
    status = op_import(b, k, plain, b->run.weight[k]);
    if (!status && weight->trainable && !b->c->evaluate) {
        b->run.weight_gradient[k] = op_place(b->backend, bytes);
        for (int64_t j = 0; j < count; j++) plain[j] = op_value(b->c->seed, OP_START + k, j);
        if (b->c->accumulate) status = op_import(b, k, plain, b->run.weight_gradient[k]);
    }
    free(plain);
    return status;
}

static inline pdl_status_t op_fill_target(op_bench_t *b)
{
    const pdl_layer_t *layer = op_layer(b);
    const op_case_t   *c = b->c;
    int64_t      positions = pdl_shape_positions(&layer->in), count = c->samples * pdl_shape_elements(&layer->in);
    int32_t     *classes;
    double      *plain;
    pdl_status_t status;

    b->sample_weight = op_take((size_t)c->samples * sizeof(float));
    for (int64_t n = 0; n < c->samples; n++)
        b->sample_weight[n] = (float)(1.5 + op_value(c->seed, OP_SAMPLE_WEIGHT, n));
    b->weight_there = op_upload(b->backend, b->sample_weight, (size_t)c->samples * sizeof(float));
    b->run.sample_weight = c->weigh_samples ? b->weight_there : NULL;
    if (layer->type == PDL_LAYER_MSE) {
        plain = op_doubles(count);
        for (int64_t i = 0; i < count; i++) plain[i] = op_case_value(c, OP_TARGET, i);
        b->run.target = op_place(b->backend, (size_t)count * sizeof(double));
        status = op_to_backend(b->backend, &layer->in, c->samples, plain, PDL_FORMAT_PLAIN, (void *)b->run.target);
        free(plain);
        return status;
    }
    classes = op_take((size_t)(c->samples * positions) * sizeof(int32_t));
    for (int64_t i = 0; i < c->samples * positions; i++) {
        classes[i] = op_index(c->seed, OP_TARGET, i, layer->in.channels);
        if (c->ignore && (i < positions || i % 3 == 1)) classes[i] = -1;
    }
    b->run.target = op_upload(b->backend, classes, (size_t)(c->samples * positions) * sizeof(int32_t));
    free(classes);
    return PDL_OK;
}

static inline pdl_status_t op_fill(op_bench_t *b)
{
    const pdl_layer_t *layer = op_layer(b);
    const op_case_t   *c = b->c;
    pdl_status_t       status = PDL_OK;

    for (int i = 0; i < b->op->spec.input_count && !status; i++) status = op_fill_input(b, i);
    for (int k = 0; k < b->op->description.weight_count && !status; k++) status = op_fill_weight(b, k);
    if (!status && op_is_loss(layer)) status = op_fill_target(b);
    if (status) return status;
    b->run.output = b->output = op_place(b->backend, b->op->description.out_bytes);
    b->run.saved = op_place(b->backend, b->op->description.saved_bytes);
    b->run.workspace = op_place(b->backend, b->op->description.workspace_bytes);
    b->run.packed = op_place(b->backend, b->op->description.packed_bytes);
    b->run.training = !c->evaluate;
    b->run.accumulate = c->accumulate;
    b->run.seed = 11;
    b->run.step = 5;
    b->run.first_sample = c->first_sample + (c->split ? 6 : 0);
    b->run.total_samples = c->meeting ? c->total_samples : c->samples;
    b->run.loss_scale = 0.25;
    b->run.label_smoothing = c->smoothing;
    if (b->op->description.packed_bytes > 0) return b->backend->ops->refresh(b->op, NULL, &b->run);
    return PDL_OK;
}

/* Value of the output gradient; of two, their sum. */
static inline double op_gradient_value(const op_case_t *c, int64_t i)
{
    double value = op_case_value(c, OP_GRADIENT, i);

    return c->two_gradients ? value + op_case_value(c, OP_GRADIENT + 1, i) : value;
}

/* What the reference does not fuse: adds the last input, activates, and notes what came in for backward. */
static inline void op_fused_forward(op_bench_t *b, double *y, int64_t count)
{
    const op_case_t   *c = b->c;
    const pdl_layer_t *layer = op_layer(b);
    int                added = layer->input_count;

    b->before = op_doubles(count);
    for (int64_t i = 0; i < count; i++) {
        if (c->fusion.add) y[i] += op_case_value(c, OP_INPUT + added, count * c->first_sample / c->samples + i);
        b->before[i] = y[i];
        y[i] = pdl__reference_activate(layer, c->fusion.activation, y[i]);
    }
}

static inline pdl_status_t op_forward(op_bench_t *b, op_result_t *result)
{
    const pdl_layer_t *layer = op_layer(b);
    bool               reference = b->backend->activation_type == PDL_DTYPE_F64;
    pdl_status_t       status;

    if (b->c->inplace && b->op->description.inplace) {
        if (b->op->description.keeps_inputs & 1)
            return pdl_error(PDL_ERR_LIMIT, "the op writes over input 0 and yet wants to read it again");
        b->run.output = b->input[0];
    }
    if (b->op->description.gradient_in_forward && !b->c->no_input_gradient && !b->c->evaluate) {
        if (!b->c->inplace) b->input_gradient[0] = op_place(b->backend, b->input_bytes[0]);
        b->run.input_gradient[0] = b->c->inplace ? b->input[0] : b->input_gradient[0];
    }
    status = meeting_run(b->op, &b->run, false, 0, b->c->meeting);
    if (status) return status;
    if (result->loss) {
        double *home = op_doubles(3 * b->c->samples);

        op_copy(b->backend, home, b->output, b->op->description.out_bytes);
        for (int64_t i = 0; i < 3 * b->c->samples; i++)
            result->output[i] = reference ? home[i] : (double)((float *)home)[i];
        for (int64_t n = 0; n < b->c->samples; n++)
            result->objective +=
                b->run.loss_scale * (b->run.sample_weight ? b->sample_weight[n] : 1) * result->output[n];
        free(home);
        return PDL_OK;
    }
    if (reference && op_fused(b->c)) op_fused_forward(b, b->run.output, result->out_count);
    status = op_from_backend(b->backend, &layer->out, b->c->samples, b->op->description.out_format, b->run.output,
                             result->output);
    for (int64_t i = 0; i < result->out_count; i++)
        result->objective += result->output[i] * op_gradient_value(b->c, i);
    return status;
}

/* The gradients of the output, in its arrangement; of two, each apart when the op sums them. */
static inline pdl_status_t op_make_gradients(op_bench_t *b, const op_result_t *result)
{
    const pdl_layer_t *layer = op_layer(b);
    bool               apart = b->c->two_gradients && b->op->description.sums_gradients;
    double            *plain = op_doubles(result->out_count);
    int64_t            first = result->out_count / b->c->samples * b->c->first_sample;
    pdl_status_t       status = PDL_OK;

    for (int g = 0; g < (apart ? 2 : 1) && !status; g++) {
        b->gradient[g] = op_place(b->backend, b->op->description.out_bytes);
        for (int64_t i = 0; i < result->out_count; i++) {
            plain[i] = apart ? op_case_value(b->c, OP_GRADIENT + g, first + i) : op_gradient_value(b->c, first + i);
            if (b->before) plain[i] *= pdl__reference_slope(layer, b->c->fusion.activation, b->before[i]);
        }
        status = op_to_backend(b->backend, &layer->out, b->c->samples, plain, b->op->description.out_format,
                               b->gradient[g]);
        b->run.output_gradient[g] = b->gradient[g];
    }
    /* The tensor that the reference did not add itself: its gradient is what arrives at the layer. */
    if (b->before && b->c->fusion.add && !b->c->no_input_gradient)
        memcpy(result->input_gradient[layer->input_count], plain, (size_t)result->out_count * sizeof(double));
    free(plain);
    return status;
}

/* What the op said it does not read again is lost. */
static inline void op_forget(op_bench_t *b)
{
    for (int i = 0; i < b->op->spec.input_count; i++)
        if (!(b->op->description.keeps_inputs >> i & 1) && b->run.output != b->input[i])
            op_spoil(b->backend, b->input[i], b->input_bytes[i]);
    if (!b->op->description.keeps_output && b->run.output == b->output)
        op_spoil(b->backend, b->output, b->op->description.out_bytes);
    op_spoil(b->backend, b->run.workspace, b->op->description.workspace_bytes);
}

static inline void op_place_input_gradients(op_bench_t *b)
{
    for (int i = 0; i < b->op->spec.input_count; i++) {
        pdl_gradient_use_t use = b->op->description.gradient_use[i];

        if (b->c->no_input_gradient || use == PDL_GRADIENT_PASSED || op_layer(b)->type == PDL_LAYER_EMBEDDING)
            continue;
        if (b->c->inplace && use == PDL_GRADIENT_INPLACE && i == 0) {
            b->run.input_gradient[i] = b->gradient[0];
            continue;
        }
        b->run.input_gradient[i] = b->input_gradient[i] = op_place(b->backend, b->input_bytes[i]);
    }
}

/* What others have made of the gradient of input 0: handed to the op, or added here where it does not do that. */
static inline pdl_status_t op_add_others(op_bench_t *b, op_result_t *result, bool done)
{
    bool    adds = b->op->description.adds_gradient;
    int64_t count = result->in_count[0];
    double *plain = op_doubles(count);

    for (int64_t i = 0; i < count; i++) plain[i] = op_case_value(b->c, OP_GRADIENT + 2, i);
    for (int64_t i = 0; done && !adds && i < count; i++) result->input_gradient[0][i] += plain[i];
    pdl_status_t status = PDL_OK;
    if (!done && adds) {
        b->added = op_place(b->backend, b->input_bytes[0]);
        status = op_to_backend(b->backend, &b->shapes[0], b->c->samples, plain, b->op->description.in_format[0],
                               b->added);
        b->run.added_gradient = b->added;
    }
    free(plain);
    return status;
}

static inline pdl_status_t op_backward(op_bench_t *b, op_result_t *result)
{
    bool         with_others = b->c->with_others && result->input_gradient[0] != NULL;
    unsigned     what = PDL_BACKWARD_WEIGHT | (b->c->no_input_gradient ? 0 : PDL_BACKWARD_DATA);
    pdl_status_t status = result->loss ? PDL_OK : op_make_gradients(b, result);

    if (status) return status;
    if (with_others) status = op_add_others(b, result, false);
    if (!status && !b->op->description.gradient_in_forward) {
        op_forget(b);
        op_place_input_gradients(b);
        status = meeting_run(b->op, &b->run, true, what, b->c->meeting);
    }
    for (int i = 0; i < b->op->spec.input_count && !status; i++) {
        bool        passed = b->op->description.gradient_use[i] == PDL_GRADIENT_PASSED;
        const void *from = passed ? b->gradient[0] : b->run.input_gradient[i];

        if (result->input_gradient[i] == NULL || from == NULL) continue;
        status = op_from_backend(b->backend, &b->shapes[i], b->c->samples,
                                 passed ? b->op->description.out_format : b->op->description.in_format[i], from,
                                 result->input_gradient[i]);
    }
    for (int k = 0; k < b->op->description.weight_count && !status; k++)
        if (result->weight_gradient[k])
            status = op_export(b, k, b->run.weight_gradient[k], result->weight_gradient[k]);
    return !status && with_others ? op_add_others(b, result, true) : status;
}

/* The bytes described were enough. */
static inline pdl_status_t op_check_bytes(const op_bench_t *b)
{
    const pdl_op_description_t *d = &b->op->description;
    bool                        unharmed = op_unharmed(b->backend, b->output, d->out_bytes) &&
                    op_unharmed(b->backend, b->run.saved, d->saved_bytes) &&
                    op_unharmed(b->backend, b->run.workspace, d->workspace_bytes) &&
                    op_unharmed(b->backend, b->run.packed, d->packed_bytes);

    for (int i = 0; i < b->op->spec.input_count; i++)
        unharmed = unharmed && op_unharmed(b->backend, b->input_gradient[i], b->input_bytes[i]);
    for (int k = 0; k < d->weight_count; k++)
        unharmed =
            unharmed && op_unharmed(b->backend, b->run.weight_gradient[k],
                                    (size_t)d->weight[k].elements * pdl_dtype_bytes(b->backend->weight_type));
    return unharmed ? PDL_OK : pdl_error(PDL_ERR_LIMIT, "the op has written beyond the bytes described");
}

static inline void op_result_make(const op_bench_t *b, op_result_t *result)
{
    const pdl_layer_t *layer = op_layer(b);
    bool gradients = !b->c->evaluate && !b->c->no_input_gradient && layer->type != PDL_LAYER_EMBEDDING;
    int  added = b->c->fusion.add ? 1 : 0;

    snprintf(result->layer, sizeof(result->layer), "%s", pdl_layer_type_name(layer->type));
    pdl_shape_format(&layer->in, result->shape, sizeof(result->shape));
    result->loss = op_is_loss(layer);
    result->sums_gradients = b->op->description.sums_gradients;
    result->has_inplace = b->op->description.inplace;
    result->inputs = layer->input_count + added;
    result->weights = b->op->description.weight_count;
    result->out_count = result->loss ? 3 * b->c->samples : pdl_shape_elements(&layer->out) * b->c->samples;
    result->output = op_doubles(result->out_count);
    for (int i = 0; i < result->inputs; i++) {
        result->in_count[i] = pdl_shape_elements(&b->shapes[i]) * b->c->samples;
        if (gradients) result->input_gradient[i] = op_doubles(result->in_count[i]);
    }
    for (int k = 0; k < result->weights; k++) {
        result->weight_count[k] = op_plain_count(&b->op->description.weight[k]);
        result->weight[k] = op_doubles(result->weight_count[k]);
        snprintf(result->weight_name[k], sizeof(result->weight_name[k]), "%s", b->op->description.weight[k].name);
        memcpy(result->weight_dims[k], b->op->description.weight[k].dims, sizeof(result->weight_dims[k]));
        if (b->op->description.weight[k].trainable && !b->c->evaluate)
            result->weight_gradient[k] = op_doubles(result->weight_count[k]);
    }
}

static inline void op_clear(op_bench_t *b)
{
    for (int i = 0; i < PDL_MAX_INPUTS; i++) {
        op_give(b->backend, b->input[i]);
        op_give(b->backend, b->input_gradient[i]);
    }
    for (int k = 0; k < PDL_MAX_WEIGHTS; k++) {
        op_give(b->backend, b->run.weight[k]);
        op_give(b->backend, b->run.weight_gradient[k]);
    }
    op_give(b->backend, b->output);
    op_give(b->backend, b->gradient[0]);
    op_give(b->backend, b->gradient[1]);
    op_give(b->backend, b->added);
    free(b->before);
    op_give(b->backend, b->run.saved);
    op_give(b->backend, b->run.workspace);
    op_give(b->backend, b->run.packed);
    op_give(b->backend, b->run.target);
    free(b->sample_weight);
    op_give(b->backend, b->weight_there);
    b->backend->ops->op_destroy(b->op);
    pdl_model_destroy(b->model);
}

__attribute__((unused)) static void op_result_free(op_result_t *result)
{
    free(result->output);
    for (int i = 0; i < PDL_MAX_INPUTS; i++) free(result->input_gradient[i]);
    for (int k = 0; k < PDL_MAX_WEIGHTS; k++) {
        free(result->weight[k]);
        free(result->weight_gradient[k]);
    }
    *result = (op_result_t){.output = NULL};
}

/* The result must be freed whatever the status. */
__attribute__((unused)) static pdl_status_t op_case_run(pdl_backend_t *backend, const op_case_t *c,
                                                        op_result_t *result)
{
    op_bench_t   bench = {.c = c, .backend = backend};
    pdl_status_t status = op_make(&bench);

    *result = (op_result_t){.output = NULL};
    if (!status) {
        op_result_make(&bench, result);
        status = op_fill(&bench);
    }
    if (!status) status = op_forward(&bench, result);
    if (!status && !c->evaluate) status = op_backward(&bench, result);
    if (!status) status = op_check_bytes(&bench);
    for (int k = 0; k < result->weights && !status; k++)
        status = op_export(&bench, k, bench.run.weight[k], result->weight[k]);
    op_clear(&bench);
    return status;
}

/* The layer of a case in one line, for messages. */
__attribute__((unused)) static const char *op_case_title(const op_case_t *c)
{
    static char title[512];
    size_t      length = 0;

    for (const char *s = c->text; *s != '\0' && length + 1 < sizeof(title); s++)
        if (*s != '\n') title[length++] = *s;
    title[length] = '\0';
    return title;
}

#endif
