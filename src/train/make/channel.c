/*
 * Channels: a ring of copies with a request each.
 */
#include "train/make/channel.h"
#include <stdlib.h>

struct pdl__channel {
    pdl__channel_spec_t   spec;
    pdl_ranks_request_t **request;
    char                 *copy;
    int                   next;    /* slot of the next message */
    int                   unasked; /* messages expected for which no receive has been started */
};

pdl_status_t pdl__channel_create(const pdl__channel_spec_t *spec, pdl__channel_t **out)
{
    pdl__channel_t *c = calloc(1, sizeof(*c));
    pdl_status_t    status = PDL_OK;

    if (c) {
        c->spec = *spec;
        c->request = calloc((size_t)spec->slots, sizeof(*c->request));
    }
    if (!c || !c->request) status = pdl_error(PDL_ERR_NOMEM, "out of memory for messages between stages");
    if (!status && !pdl_ranks_dry(spec->ranks)) {
        void *copy = NULL;
        status = spec->device->ops->alloc(spec->device, PDL_SPACE_PINNED, pdl__channel_bytes(c), &copy);
        c->copy = copy;
    }
    for (int i = 0; i < spec->slots && !status; i++)
        status = pdl_ranks_request_create(spec->ranks, (int64_t)spec->bytes, &c->request[i]);
    if (status) {
        pdl__channel_destroy(c);
        return status;
    }
    *out = c;
    return PDL_OK;
}

void pdl__channel_destroy(pdl__channel_t *c)
{
    if (!c) return;
    for (int i = 0; i < c->spec.slots && c->request; i++) pdl_ranks_request_destroy(c->request[i]);
    free(c->request);
    if (c->copy) c->spec.device->ops->release(c->spec.device, PDL_SPACE_PINNED, c->copy, pdl__channel_bytes(c));
    free(c);
}

static char *take_slot(pdl__channel_t *c, pdl_ranks_request_t **request)
{
    int slot = c->next;

    c->next = (slot + 1) % c->spec.slots;
    *request = c->request[slot];
    return c->copy + (size_t)slot * c->spec.bytes;
}

pdl_status_t pdl__channel_send(pdl__channel_t *c, pdl_tensor_stream_t *stream, const void *data)
{
    pdl_ranks_request_t *request;
    char                *copy = take_slot(c, &request);
    pdl_status_t         status = pdl_ranks_request_wait(request);

    if (!status) status = pdl_device_fetch(c->spec.device, stream, copy, data, c->spec.bytes);
    if (status) return status;
    return pdl_ranks_send_start(request, copy, (int64_t)c->spec.bytes, c->spec.peer, c->spec.tag);
}

pdl_status_t pdl__channel_flush(pdl__channel_t *c)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < c->spec.slots && !status; i++) status = pdl_ranks_request_wait(c->request[i]);
    return status;
}

static pdl_status_t ask(pdl__channel_t *c, int slot)
{
    if (c->unasked == 0) return PDL_OK;
    c->unasked--;
    return pdl_ranks_receive_start(c->request[slot], c->copy + (size_t)slot * c->spec.bytes, (int64_t)c->spec.bytes,
                                   c->spec.peer, c->spec.tag);
}

pdl_status_t pdl__channel_expect(pdl__channel_t *c, int messages)
{
    pdl_status_t status = PDL_OK;

    c->unasked = messages;
    c->next = 0;
    for (int i = 0; i < c->spec.slots && !status; i++) status = ask(c, i);
    return status;
}

pdl_status_t pdl__channel_receive(pdl__channel_t *c, pdl_tensor_stream_t *stream, void *data)
{
    int                  slot = c->next;
    pdl_ranks_request_t *request;
    char                *copy = take_slot(c, &request);
    pdl_status_t         status = pdl_ranks_request_wait(request);

    /* The slot is free for the next message when the copy is complete. */
    if (!status) status = pdl_device_fetch(c->spec.device, stream, data, copy, c->spec.bytes);
    return status ? status : ask(c, slot);
}

size_t pdl__channel_message(const pdl__channel_t *c)
{
    return c->spec.bytes;
}

size_t pdl__channel_bytes(const pdl__channel_t *c)
{
    return (size_t)c->spec.slots * c->spec.bytes;
}
