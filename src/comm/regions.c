/*
 * Moves of regions.
 *
 * What two members have in common is one message, in the same order on both sides, and one buffer, which is packed
 * in one direction and received into in the other. A part that is one run of memory is sent from where it is, and received
 * there unless it has to be added.
 */
#include <paradl/comm/regions.h>
#include <paradl/plan/parts.h>

#include "comm/device/carrier.h"

#include <stdlib.h>

/* How one part goes. */
typedef struct way {
    char       *buffer; /* NULL: never needed */
    pdl_wire_t *wire;
} way_t;

/* The parts of one direction, each with its way. */
typedef struct side {
    const pdl_parts_t *parts;
    way_t             *way;
} side_t;

typedef enum move_state { IDLE, FORWARD, BACKWARD } move_state_t;

struct pdl_move {
    pdl_move_parts_t     parts;
    side_t               gives, takes;
    pdl_transport_t     *transport;
    pdl_tensor_device_t *device;
    pdl_dtype_t          type;
    bool                 dry;  /* has no buffers and cannot be started */
    size_t               item; /* bytes of an element */
    char                *buffer;
    int64_t              buffer_bytes;
    float               *sums; /* of what comes back, where the target is too short for it; else NULL */
    move_state_t         state;
    pdl_tensor_stream_t *stream; /* of the redistribution in flight */
    const void          *source;
    void                *target;
    bool                 begun; /* a contribution has arrived at the target */
};

static int64_t part_bytes(const pdl_move_t *move, const pdl_part_t *part)
{
    return part->boxes.elements * (int64_t)move->item;
}

static pdl_status_t make_wires(pdl_move_t *move, pdl_ranks_t *group, const pdl_parts_t *parts, side_t *side)
{
    pdl_status_t status = PDL_OK;

    side->parts = parts;
    side->way = calloc((size_t)parts->count + 1, sizeof(*side->way));
    if (side->way == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a move");
    for (int i = 0; !status && i < parts->count; i++)
        status = pdl_wire_create(move->transport, group, PDL_SENT_MOVES, part_bytes(move, &parts->part[i]),
                                 &side->way[i].wire);
    return status;
}

static pdl_status_t make_buffers(pdl_move_t *move)
{
    side_t      *both[2] = {&move->gives, &move->takes};
    void        *memory = NULL;
    char        *next;
    pdl_status_t status;

    move->buffer_bytes = pdl_move_buffer_size(&move->parts, (int64_t)move->item);
    if (move->buffer_bytes == 0 || move->dry) return PDL_OK;
    status = pdl_transport_take(move->transport, (size_t)move->buffer_bytes, &memory);
    if (status) return status;
    next = move->buffer = memory;
    for (int b = 0; b < 2; b++) {
        for (int i = 0; i < both[b]->parts->count; i++) {
            if (!pdl_move_buffers(&move->parts, both[b]->parts, i)) continue;
            both[b]->way[i].buffer = next;
            next += pdl_move_padded(part_bytes(move, &both[b]->parts->part[i]));
        }
    }
    if (pdl_move_sums_apart(&move->parts, (int64_t)move->item)) move->sums = (float *)(void *)next;
    return PDL_OK;
}

pdl_status_t pdl_move_create(const pdl_move_spec_t *spec, pdl_move_t **result)
{
    pdl_move_t  *move = calloc(1, sizeof(*move));
    pdl_status_t status;

    if (move == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a move");
    move->dry = pdl_ranks_dry(spec->group);
    move->transport = spec->transport;
    move->device = pdl_transport_device(spec->transport);
    move->type = spec->type;
    move->item = pdl_dtype_bytes(spec->type);
    status = pdl_move_parts_init(spec->own, spec->need, pdl_ranks_size(spec->group), pdl_ranks_rank(spec->group),
                                 &move->parts);
    if (!status) status = make_wires(move, spec->group, &move->parts.gives, &move->gives);
    if (!status) status = make_wires(move, spec->group, &move->parts.takes, &move->takes);
    if (!status) status = make_buffers(move);
    if (status) {
        pdl_move_destroy(move);
        return status;
    }
    *result = move;
    return PDL_OK;
}

static void destroy_wires(side_t *side)
{
    for (int i = 0; side->way != NULL && i < side->parts->count; i++) pdl_wire_destroy(side->way[i].wire);
    free(side->way);
}

void pdl_move_destroy(pdl_move_t *move)
{
    if (move == NULL) return;
    destroy_wires(&move->gives);
    destroy_wires(&move->takes);
    /* Others may still write into the buffer after a failure: it is left alone. */
    if (move->state == IDLE) pdl_transport_give(move->transport, move->buffer, (size_t)move->buffer_bytes);
    pdl_move_parts_fini(&move->parts);
    free(move);
}

static pdl_status_t copy_boxes(const pdl_move_t *move, const pdl_boxes_t *boxes, int from, const void *source,
                               void *target)
{
    return move->device->ops->boxes(move->device, move->stream, boxes, from, move->type, source, target, false);
}

/* What several members get is packed once. */
static pdl_status_t pack(const pdl_move_t *move, const side_t *side, int i)
{
    const pdl_part_t *part = &side->parts->part[i];

    if (part->run || part->packed != i) return PDL_OK;
    return copy_boxes(move, &part->boxes, 0, move->source, side->way[i].buffer);
}

static pdl_status_t send_part(const pdl_move_t *move, const side_t *side, int i)
{
    const pdl_part_t *part = &side->parts->part[i];
    const char       *data = side->way[part->packed].buffer;

    if (part->run) data = (const char *)move->source + (size_t)part->boxes.box[0].first[0] * move->item;
    return pdl_wire_send(side->way[i].wire, move->stream, data, part_bytes(move, part), part->peer, PDL__MOVE_TAG);
}

static pdl_status_t send_parts(const pdl_move_t *move, const side_t *side)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < side->parts->count; i++) {
        status = pack(move, side, i);
        if (!status) status = send_part(move, side, i);
    }
    return status;
}

/* Runs arrive in their place where there is a target, the others in their buffers. */
static pdl_status_t receive_parts(const pdl_move_t *move, const side_t *side, char *target)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < side->parts->count; i++) {
        const pdl_part_t *part = &side->parts->part[i];
        const way_t      *way = &side->way[i];
        bool              there = target != NULL && part->run;
        char             *place = there ? target + (size_t)part->boxes.box[0].first[0] * move->item : way->buffer;

        status =
            pdl_wire_receive(way->wire, move->stream, place, part_bytes(move, part), part->peer, PDL__MOVE_TAG);
    }
    return status;
}

static pdl_status_t start_parts(const pdl_move_t *move, const side_t *from, char *target, const side_t *to)
{
    pdl_status_t status = pdl_transport_begin(move->transport);

    if (!status) status = receive_parts(move, from, target);
    if (!status) status = send_parts(move, to);
    return status ? status : pdl_transport_end(move->transport);
}

static pdl_status_t wait_parts(const side_t *side)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < side->parts->count; i++) status = pdl_wire_wait(side->way[i].wire);
    return status;
}

static pdl_status_t clear(const pdl_move_t *move, void *data, int64_t elements, size_t item)
{
    return move->device->ops->fill(move->device, move->stream, data, (size_t)elements * item);
}

static pdl_status_t add_boxes(const pdl_move_t *move, const pdl_boxes_t *boxes, const void *source, float *sums)
{
    return move->device->ops->boxes(move->device, move->stream, boxes, 1, move->type, source, sums, true);
}

/* What comes back to the own region, from the second side of its boxes. Only the first is copied where there are no
   sums apart from the target: elements of 16 bits come back once then. */
static pdl_status_t contribute(pdl_move_t *move, const pdl_boxes_t *boxes, const void *contribution)
{
    int64_t      elements = move->parts.own_elements;
    bool         first = !move->begun;
    pdl_status_t status = PDL_OK;

    if (boxes->elements == 0) return PDL_OK;
    move->begun = true;
    if (move->sums != NULL) {
        if (first) status = clear(move, move->sums, elements, sizeof(*move->sums));
        return status ? status : add_boxes(move, boxes, contribution, move->sums);
    }
    if (!first) return add_boxes(move, boxes, contribution, move->target);
    if (boxes->elements < elements) status = clear(move, move->target, elements, move->item);
    return status ? status : copy_boxes(move, boxes, 1, contribution, move->target);
}

static pdl_status_t start_forward(pdl_move_t *move)
{
    pdl_status_t status =
        move->parts.gaps ? clear(move, move->target, move->parts.need_elements, move->item) : PDL_OK;

    if (!status) status = start_parts(move, &move->takes, move->target, &move->gives);
    return status ? status : copy_boxes(move, &move->parts.local, 0, move->source, move->target);
}

static pdl_status_t start_backward(pdl_move_t *move)
{
    pdl_status_t status = start_parts(move, &move->gives, NULL, &move->takes);

    move->begun = false;
    if (!status && move->parts.local_first) status = contribute(move, &move->parts.local, move->source);
    return status;
}

static pdl_status_t finish_forward(pdl_move_t *move)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < move->parts.takes.count; i++) {
        const pdl_part_t *part = &move->parts.takes.part[i];
        const way_t      *way = &move->takes.way[i];

        status = pdl_wire_wait(way->wire);
        if (!status && !part->run) status = copy_boxes(move, &part->boxes, 1, way->buffer, move->target);
    }
    return status ? status : wait_parts(&move->gives);
}

static pdl_status_t finish_backward(pdl_move_t *move)
{
    const pdl_move_parts_t *parts = &move->parts;
    bool                    local_left = !parts->local_first;
    pdl_status_t            status = PDL_OK;

    for (int i = 0; !status && i < parts->gives.count; i++) {
        const pdl_part_t *part = &parts->gives.part[i];

        if (local_left && part->peer > parts->member) {
            status = contribute(move, &parts->local, move->source);
            local_left = false;
        }
        if (!status) status = pdl_wire_wait(move->gives.way[i].wire);
        if (!status) status = contribute(move, &part->boxes, move->gives.way[i].buffer);
    }
    if (!status && local_left) status = contribute(move, &parts->local, move->source);
    if (!status && !move->begun)
        status = clear(move, move->target, parts->own_elements, move->item);
    else if (!status && move->sums != NULL)
        status = move->device->ops->round(move->device, move->stream, move->sums, parts->own_elements, move->type,
                                          move->target);
    return status ? status : wait_parts(&move->takes);
}

pdl_status_t pdl_move_start(pdl_move_t *move, pdl_tensor_stream_t *stream, const void *source, void *target,
                            int backward)
{
    if (move->state != IDLE) return pdl_error(PDL_ERR_INPUT, "a move is started again before it was finished");
    if (move->dry) return pdl_error(PDL_ERR_UNSUPPORTED, "dry ranks send nothing");
    move->state = backward ? BACKWARD : FORWARD;
    move->stream = stream;
    move->source = source;
    move->target = target;
    return backward ? start_backward(move) : start_forward(move);
}

pdl_status_t pdl_move_finish(pdl_move_t *move)
{
    pdl_status_t status;

    if (move->state == IDLE) return pdl_error(PDL_ERR_INPUT, "a move is finished before it was started");
    status = move->state == BACKWARD ? finish_backward(move) : finish_forward(move);
    if (!status) move->state = IDLE;
    return status;
}

pdl_status_t pdl_move_forward(pdl_move_t *move, pdl_tensor_stream_t *stream, const void *own, void *need)
{
    pdl_status_t status = pdl_move_start(move, stream, own, need, 0);

    return status ? status : pdl_move_finish(move);
}

pdl_status_t pdl_move_backward(pdl_move_t *move, pdl_tensor_stream_t *stream, const void *need, void *own)
{
    pdl_status_t status = pdl_move_start(move, stream, need, own, 1);

    return status ? status : pdl_move_finish(move);
}

int64_t pdl_move_bytes(const pdl_move_t *move, int backward)
{
    return (backward ? move->parts.takes.elements : move->parts.gives.elements) * (int64_t)move->item;
}

int64_t pdl_move_buffer_bytes(const pdl_move_t *move)
{
    return move->buffer_bytes;
}
