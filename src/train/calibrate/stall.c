/*
 * A device that is busy while the host queues work: what is timed then waits for nothing but the device.
 */
#include "train/calibrate/calibrate.h"
#include "train/exec/session.h"
#include <math.h>

#define FILL_S     250e-6
#define LEAST      ((size_t)1 << 16)
#define MOST       ((size_t)1 << 30)
#define MOST_FILLS 400

static pdl_status_t time_fill(const pdl__stall_t *s, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event[2],
                              double *seconds)
{
    const pdl_device_ops_t *ops = s->device->ops;
    pdl_status_t            status = PDL_OK;

    for (int i = 0; i < 2 && !status; i++) {
        status = ops->record(s->device, stream, event[0]);
        if (!status) status = ops->fill(s->device, stream, s->memory, s->bytes);
        if (!status) status = ops->record(s->device, stream, event[1]);
        if (!status) status = ops->synchronise(s->device, stream);
    }
    if (!status) *seconds = fmax(1e-7, ops->elapsed(s->device, event[0], event[1]));
    return status;
}

/* As much memory as the device fills in the time that is wanted of one fill. */
static pdl_status_t find_size(pdl__stall_t *s, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event[2])
{
    for (size_t bytes = LEAST;; bytes *= 4) {
        pdl_status_t status = s->device->ops->alloc(s->device, PDL_SPACE_DEVICE, bytes, &s->memory);

        if (status) return status;
        s->bytes = bytes;
        status = time_fill(s, stream, event, &s->fill_s);
        if (status || s->fill_s >= FILL_S / 2 || bytes >= MOST) return status;
        s->device->ops->release(s->device, PDL_SPACE_DEVICE, s->memory, bytes);
        s->memory = NULL;
    }
}

pdl_status_t pdl__stall_create(pdl_tensor_device_t *device, pdl__stall_t *s)
{
    pdl_tensor_stream_t *stream = NULL;
    pdl_tensor_event_t  *event[2] = {NULL, NULL};
    pdl_status_t         status;

    *s = (pdl__stall_t){.device = device};
    status = device->ops->stream_create(device, &stream);
    for (int i = 0; i < 2 && !status; i++) status = device->ops->event_create(device, &event[i]);
    if (!status) status = find_size(s, stream, event);
    for (int i = 0; i < 2; i++) device->ops->event_destroy(device, event[i]);
    device->ops->stream_destroy(device, stream);
    if (status) pdl__stall_free(s);
    return status;
}

void pdl__stall_free(pdl__stall_t *s)
{
    if (s->memory) s->device->ops->release(s->device, PDL_SPACE_DEVICE, s->memory, s->bytes);
    s->memory = NULL;
}

pdl_status_t pdl__stall(const pdl__stall_t *s, pdl_tensor_stream_t *stream, double seconds)
{
    int          fills = s->memory ? (int)fmin(MOST_FILLS, ceil(seconds / s->fill_s)) : 0;
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < fills && !status; i++)
        status = s->device->ops->fill(s->device, stream, s->memory, s->bytes);
    return status;
}
