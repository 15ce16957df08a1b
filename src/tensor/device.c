/*
 * What all devices share.
 */
#include <paradl/tensor/device.h>

pdl_status_t pdl_device_order(pdl_tensor_device_t *device, pdl_tensor_stream_t *earlier, pdl_tensor_stream_t *later,
                              pdl_tensor_event_t *event)
{
    pdl_status_t status = device->ops->record(device, earlier, event);

    return status ? status : device->ops->wait(device, later, event);
}

pdl_status_t pdl_device_fetch(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, void *to, const void *from,
                              size_t bytes)
{
    pdl_status_t status = device->ops->copy(device, stream, to, from, bytes);

    return status ? status : device->ops->synchronise(device, stream);
}
