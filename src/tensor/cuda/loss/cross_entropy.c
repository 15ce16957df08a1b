/*
 * Cross-entropy over the channels of every position. Forward keeps one number a position, the log of the sum, or makes the
 * gradient at once.
 *
 * Where every rank has some of the classes, ranks meet twice: for the largest logit of every position, then for sums.
 */
#include "tensor/cuda/cuda.h"

/* Where things are in the workspace: numbers for meetings, results of positions, factors of samples. */
typedef struct places {
    size_t result, factor, bytes;
} places_t;

static int64_t rows_of(const pdl_op_t *op)
{
    return op->spec.samples * pdl_shape_positions(&op->spec.layer->in);
}

static places_t place(const pdl_op_t *op)
{
    places_t p = {.result =
                      op->spec.classes > 0 ? (size_t)(PDL__ENTROPY_ARRAYS * rows_of(op)) * sizeof(double) : 0};

    p.factor = p.result + (size_t)rows_of(op) * sizeof(pdl__cuda_entropy_result_t);
    p.bytes = p.factor + (size_t)op->spec.samples * sizeof(float);
    return p;
}

static pdl_status_t cross_entropy_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    pdl_op_description_t *description = &op->description;
    int64_t               rows = rows_of(op);
    size_t                array = (size_t)rows * sizeof(double);

    (void)cuda;
    pdl__cuda_set_formats(op);
    description->out_format = PDL_FORMAT_PLAIN;
    if (op->spec.classes == 0 && pdl__cuda_pads(op->backend, &op->spec.layer->in))
        description->in_format[0] = PDL_FORMAT_BLOCKED;
    description->out_bytes = (size_t)(3 * op->spec.samples) * sizeof(float);
    description->gradient_in_forward = op->spec.gradient_in_forward && op->spec.classes == 0;
    description->keeps_inputs = description->gradient_in_forward ? 0 : 1;
    if (op->spec.training && !description->gradient_in_forward)
        description->saved_bytes = (size_t)rows * sizeof(float);
    description->workspace_bytes = place(op).bytes;
    if (op->spec.classes == 0) return PDL_OK;
    description->meetings[0] = 2;
    description->meeting[0][0] = (pdl_meeting_t){.kind = PDL_MEETING_MAX, .at = array, .count = rows};
    description->meeting[0][1] =
        (pdl_meeting_t){.kind = PDL_MEETING_SUM, .at = 2 * array, .count = 4 * rows, .smoothed = rows};
    return PDL_OK;
}

static pdl_status_t cross_entropy_prepare(pdl__cuda_t *cuda, pdl_op_t *op)
{
    return cuda->api->losses->entropy_prepare(cuda->gpu, cuda->base.activation_type,
                                              pdl__cuda_channels(&op->spec.layer->in,
                                                                 op->description.in_format[0]));
}

static pdl__cuda_entropy_t entropy_of(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t *shape = &op->spec.layer->in;
    places_t           p = place(op);
    char              *workspace = run->workspace;

    return (pdl__cuda_entropy_t){.samples = op->spec.samples,
                                 .positions = pdl_shape_positions(shape),
                                 .channels = shape->channels,
                                 .stride = pdl__cuda_channels(shape, op->description.in_format[0]),
                                 .first = op->spec.first_class,
                                 .all = op->spec.classes > 0 ? op->spec.classes : shape->channels,
                                 .x = run->input[0],
                                 .classes = run->target,
                                 .smoothing = run->label_smoothing,
                                 .lse = op->description.saved_bytes > 0 ? run->saved : NULL,
                                 .result = (pdl__cuda_entropy_result_t *)(void *)(workspace + p.result),
                                 .split = run->workspace,
                                 .output = run->output,
                                 .scale = run->loss_scale,
                                 .sample_weight = run->sample_weight,
                                 .factor = (float *)(void *)(workspace + p.factor),
                                 .dx = run->input_gradient[0]};
}

static pdl_status_t cross_entropy_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    const pdl__cuda_t  *cuda = pdl__cuda_of(op);
    pdl__cuda_entropy_t entropy = entropy_of(op, run);

    if (!op->description.gradient_in_forward) entropy.dx = NULL;
    if (op->spec.classes > 0)
        return cuda->api->losses->entropy_split(cuda->gpu, stream, cuda->base.activation_type, &entropy,
                                                run->phase);
    return cuda->api->losses->entropy(cuda->gpu, stream, cuda->base.activation_type, &entropy);
}

static pdl_status_t cross_entropy_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                           unsigned what)
{
    const pdl__cuda_t  *cuda = pdl__cuda_of(op);
    pdl__cuda_entropy_t entropy = entropy_of(op, run);

    if (!(what & PDL_BACKWARD_DATA) || entropy.dx == NULL) return PDL_OK;
    return cuda->api->losses->entropy_back(cuda->gpu, stream, cuda->base.activation_type, &entropy);
}

const pdl__cuda_kind_t pdl__cuda_cross_entropy = {.describe = cross_entropy_describe,
                                                  .prepare = cross_entropy_prepare,
                                                  .forward = cross_entropy_forward,
                                                  .backward = cross_entropy_backward};
