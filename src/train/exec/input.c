/*
 * The batch where the device reads it: in memory of the host, or in one of two slots of the device. One is used while the
 * next batch comes into the other.
 */
#include "train/exec/input.h"
#include "base/memory.h"

static size_t padded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Bytes of the parts of a batch that this rank reads. */
static void measure(const pdl_session_t *s, size_t bytes[PDL__INPUT_PARTS])
{
    const pdl_model_t *model = s->spec.plan->model;
    pdl_shape_t        shape = pdl_model_input(model);
    size_t             count = (size_t)s->count;

    for (int k = 0; k < PDL__INPUT_PARTS; k++) bytes[k] = 0;
    if (s->graph->source >= 0 && s->graph->tokens)
        bytes[PDL__INPUT_TOKENS] = count * (size_t)pdl_shape_positions(&shape) * sizeof(int32_t);
    if (s->graph->source >= 0 && !s->graph->tokens) {
        bytes[PDL__INPUT_VALUES] = count * (size_t)pdl_shape_elements(&shape) * sizeof(float);
        bytes[PDL__INPUT_CHANGES] = count * sizeof(pdl_image_change_t);
    }
    if (s->graph->loss < 0) return;
    const pdl_layer_t *loss = pdl_model_layer(model, s->graph->unit[s->graph->loss].layer);
    if (pdl_layer_traits(loss)->loss == PDL_LOSS_VALUES)
        bytes[PDL__INPUT_NUMBERS] = count * (size_t)pdl_shape_elements(&loss->in) * sizeof(float);
    else
        bytes[PDL__INPUT_LABELS] = count * (size_t)pdl_shape_positions(&loss->in) * sizeof(int32_t);
    bytes[PDL__INPUT_WEIGHT] = count * sizeof(float);
}

size_t pdl__input_place(pdl_session_t *s, size_t at)
{
    pdl__input_t *input = &s->executor.input;
    size_t        whole = 0;

    if (s->executor.device->host_access) return at;
    measure(s, input->bytes);
    for (int k = 0; k < PDL__INPUT_PARTS; k++) {
        input->part_at[k] = whole;
        whole += padded(input->bytes[k]);
    }
    for (int i = 0; i < 2; i++, at += whole) input->slot_at[i] = at;
    return at;
}

pdl_status_t pdl__input_create(pdl_session_t *s)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < 2 && !s->executor.device->host_access && !status; i++)
        status = s->executor.device->ops->event_create(s->executor.device, &s->executor.input.uploaded[i]);
    return status;
}

void pdl__input_destroy(pdl_session_t *s)
{
    for (int i = 0; i < 2; i++)
        if (s->executor.input.uploaded[i])
            s->executor.device->ops->event_destroy(s->executor.device, s->executor.input.uploaded[i]);
}

pdl_tensor_device_t *pdl__input_device(const pdl_session_t *s)
{
    return s->executor.device->host_access ? NULL : s->executor.device;
}

static pdl_status_t no_part(int k)
{
    static const char *const names[PDL__INPUT_PARTS] = {"values", "changes", "tokens",
                                                        "labels", "numbers", "weights"};

    return pdl_error(PDL_ERR_INPUT, "a batch has no %s", names[k]);
}

/* Into a slot that no work uses any more: the host has waited for every step before. */
static pdl_status_t upload(pdl_session_t *s, int slot, const pdl_batch_t *batch)
{
    const pdl__input_t  *input = &s->executor.input;
    pdl_tensor_device_t *device = s->executor.device;
    pdl_tensor_stream_t *stream = s->executor.stream[PDL_STREAM_COPY_IN];
    const void          *values = batch->bytes != NULL ? (const void *)batch->bytes : batch->values;
    const void          *from[PDL__INPUT_PARTS] = {values,        batch->changes, batch->tokens,
                                                   batch->labels, batch->numbers, batch->weight};
    char                *to = s->executor.small + input->slot_at[slot];
    pdl_status_t         status = PDL_OK;

    for (int k = 0; k < PDL__INPUT_PARTS && !status; k++) {
        size_t bytes = input->bytes[k];

        if (bytes == 0 || (k == PDL__INPUT_CHANGES && batch->bytes == NULL)) continue;
        if (k == PDL__INPUT_VALUES && batch->bytes != NULL) bytes /= sizeof(float);
        status = from[k] == NULL ? no_part(k)
                                 : device->ops->copy(device, stream, to + input->part_at[k], from[k], bytes);
    }
    return status ? status : device->ops->record(device, stream, input->uploaded[slot]);
}

static bool same(const pdl_batch_t *a, const pdl_batch_t *b)
{
    return a->epoch == b->epoch && a->step == b->step && a->values == b->values && a->bytes == b->bytes &&
           a->tokens == b->tokens && a->weight == b->weight;
}

/* The slot of a batch that was expected; -1: none. */
static int expected_at(const pdl__input_t *input, const pdl_batch_t *batch)
{
    for (int i = 0; i < 2; i++)
        if (input->waits[i] && same(batch, &input->expected[i])) return i;
    return -1;
}

/* Between two steps: one that no batch waits in, rather `wanted`. */
static int free_slot(const pdl__input_t *input, int wanted)
{
    return input->waits[wanted] && !input->waits[!wanted] ? !wanted : wanted;
}

pdl_status_t pdl_session_expect(pdl_session_t *s, const pdl_batch_t *batch)
{
    pdl__input_t *input = &s->executor.input;
    int           slot = free_slot(input, !input->slot);

    if (s->executor.device->host_access) return PDL_OK;
    input->waits[slot] = true;
    input->expected[slot] = *batch;
    return upload(s, slot, batch);
}

/* The parts of a batch in a slot, where it has them. */
static const void *part_of(const pdl_session_t *s, int k)
{
    const pdl__input_t *input = &s->executor.input;

    return input->bytes[k] == 0 ? NULL : s->executor.small + input->slot_at[input->slot] + input->part_at[k];
}

pdl_status_t pdl__input_begin(pdl_session_t *s, const pdl_batch_t *batch)
{
    pdl__input_t *input = &s->executor.input;
    pdl_status_t  status = PDL_OK;
    int           expected;

    input->batch = *batch;
    if (s->executor.device->host_access) return PDL_OK;
    expected = expected_at(input, batch);
    input->slot = expected >= 0 ? expected : free_slot(input, input->slot);
    input->waits[input->slot] = false;
    if (expected < 0) status = upload(s, input->slot, batch);
    input->batch.values = batch->bytes != NULL ? NULL : part_of(s, PDL__INPUT_VALUES);
    input->batch.bytes = batch->bytes != NULL ? part_of(s, PDL__INPUT_VALUES) : NULL;
    input->batch.changes = part_of(s, PDL__INPUT_CHANGES);
    input->batch.tokens = part_of(s, PDL__INPUT_TOKENS);
    input->batch.labels = part_of(s, PDL__INPUT_LABELS);
    input->batch.numbers = part_of(s, PDL__INPUT_NUMBERS);
    input->batch.weight = part_of(s, PDL__INPUT_WEIGHT);
    if (status) return status;
    return s->executor.device->ops->wait(s->executor.device, s->executor.stream[PDL_STREAM_COMPUTE],
                                         input->uploaded[input->slot]);
}
