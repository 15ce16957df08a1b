/*
 * Channels: a ring of copies with a wire each.
 */
#include "train/make/channel.h"
#include <stdlib.h>

struct pdl__channel {
    pdl__channel_spec_t spec;
    pdl_wire_t        **wire;
    char               *copy;
    int                 next;    /* slot of the next message */
    int                 unasked; /* messages expected for which no receive has been started */
};

pdl_status_t pdl__channel_create(const pdl__channel_spec_t *spec, pdl__channel_t **out)
{
    pdl__channel_t *c = calloc(1, sizeof(*c));
    pdl_status_t    status = PDL_OK;

    if (c) {
        c->spec = *spec;
        c->wire = calloc((size_t)spec->slots, sizeof(*c->wire));
    }
    if (!c || !c->wire) status = pdl_error(PDL_ERR_NOMEM, "out of memory for messages between stages");
    if (!status && !pdl_ranks_dry(spec->ranks)) {
        void *copy = NULL;
        status = pdl_transport_take(spec->transport, pdl__channel_bytes(c), &copy);
        c->copy = copy;
    }
    for (int i = 0; i < spec->slots && !status; i++)
        status =
            pdl_wire_create(spec->transport, spec->ranks, PDL_SENT_MESSAGES, (int64_t)spec->bytes, &c->wire[i]);
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
    for (int i = 0; i < c->spec.slots && c->wire; i++) pdl_wire_destroy(c->wire[i]);
    free(c->wire);
    pdl_transport_give(c->spec.transport, c->copy, pdl__channel_bytes(c));
    free(c);
}

static int take_slot(pdl__channel_t *c)
{
    int slot = c->next;

    c->next = (slot + 1) % c->spec.slots;
    return slot;
}

static char *copy_of(const pdl__channel_t *c, int slot)
{
    return c->copy + (size_t)slot * c->spec.bytes;
}

pdl_status_t pdl__channel_send(pdl__channel_t *c, pdl_tensor_stream_t *stream, const void *data)
{
    pdl_tensor_device_t *device = pdl_transport_device(c->spec.transport);
    int                  slot = take_slot(c);
    pdl_status_t         status = pdl_wire_wait(c->wire[slot]);

    if (!status) status = device->ops->copy(device, stream, copy_of(c, slot), data, c->spec.bytes);
    if (status) return status;
    return pdl_wire_send(c->wire[slot], stream, copy_of(c, slot), (int64_t)c->spec.bytes, c->spec.peer,
                         c->spec.tag);
}

pdl_status_t pdl__channel_flush(pdl__channel_t *c)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < c->spec.slots && !status; i++) status = pdl_wire_wait(c->wire[i]);
    return status;
}

static pdl_status_t ask(pdl__channel_t *c, pdl_tensor_stream_t *stream, int slot)
{
    if (c->unasked == 0) return PDL_OK;
    c->unasked--;
    return pdl_wire_receive(c->wire[slot], stream, copy_of(c, slot), (int64_t)c->spec.bytes, c->spec.peer,
                            c->spec.tag);
}

pdl_status_t pdl__channel_expect(pdl__channel_t *c, pdl_tensor_stream_t *stream, int messages)
{
    pdl_status_t status = PDL_OK;

    c->unasked = messages;
    c->next = 0;
    for (int i = 0; i < c->spec.slots && !status; i++) status = ask(c, stream, i);
    return status;
}

pdl_status_t pdl__channel_receive(pdl__channel_t *c, pdl_tensor_stream_t *stream, void *data)
{
    pdl_tensor_device_t *device = pdl_transport_device(c->spec.transport);
    int                  slot = take_slot(c);
    pdl_status_t         status = pdl_wire_wait(c->wire[slot]);

    /* The next message comes into the slot behind the copy. */
    if (!status) status = device->ops->copy(device, stream, data, copy_of(c, slot), c->spec.bytes);
    return status ? status : ask(c, stream, slot);
}

size_t pdl__channel_message(const pdl__channel_t *c)
{
    return c->spec.bytes;
}

size_t pdl__channel_bytes(const pdl__channel_t *c)
{
    return (size_t)c->spec.slots * c->spec.bytes;
}
