/*
 * Moves of regions.
 *
 * What two members have in common is one message, in the same order on both sides, and one buffer, which is packed
 * in one direction and received into in the other. A part that is one run of memory is sent from where it lies, and
 * received there unless it has to be added.
 */
#include <paradl/comm/regions.h>
#include <paradl/plan/parts.h>

#include "comm/regions_copy.h"
#include "comm/requests.h"
#include "tensor/cpu/simd.h"

#include <stdlib.h>
#include <string.h>

/* How one part goes. */
typedef struct way {
    char                *buffer; /* NULL: never needed */
    pdl_ranks_request_t *request;
} way_t;

/* The parts of one direction, each with its way. */
typedef struct side {
    const pdl_parts_t *parts;
    way_t             *way;
} side_t;

typedef enum move_state { IDLE, FORWARD, BACKWARD } move_state_t;

struct pdl_move {
    pdl_move_parts_t parts;
    side_t           gives, takes;
    bool             pretended; /* has no buffers and cannot be started */
    size_t           item;      /* bytes of an element */
    char            *buffer;
    int64_t          buffer_bytes;
    float           *sums; /* of what comes back, where the target is too short for it; else NULL */
    move_state_t     state;
    const void      *source; /* of the move under way */
    void            *target;
    bool             begun; /* a contribution has arrived at the target */
};

static int64_t part_bytes(const pdl_move_t *move, const pdl_part_t *part)
{
    return part->boxes.elements * (int64_t)move->item;
}

static pdl_status_t make_requests(pdl_move_t *move, pdl_ranks_t *group, const pdl_parts_t *parts, side_t *side)
{
    pdl_status_t status = PDL_OK;

    side->parts = parts;
    side->way = calloc((size_t)parts->count + 1, sizeof(*side->way));
    if (side->way == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a move");
    for (int i = 0; !status && i < parts->count; i++)
        status = pdl_ranks_request_create(group, part_bytes(move, &parts->part[i]), &side->way[i].request);
    return status;
}

static pdl_status_t make_buffers(pdl_move_t *move)
{
    side_t *both[2] = {&move->gives, &move->takes};
    char   *next;

    move->buffer_bytes = pdl_move_buffer_size(&move->parts, (int64_t)move->item);
    if (move->buffer_bytes == 0 || move->pretended) return PDL_OK;
    move->buffer = aligned_alloc(64, (size_t)move->buffer_bytes);
    if (move->buffer == NULL)
        return pdl_error(PDL_ERR_NOMEM, "out of memory for %lld bytes of messages", (long long)move->buffer_bytes);
    next = move->buffer;
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
    move->pretended = pdl_ranks_pretended(spec->group);
    move->item = pdl_dtype_bytes(spec->type);
    status = pdl_move_parts_init(spec->own, spec->need, pdl_ranks_size(spec->group), pdl_ranks_rank(spec->group),
                                 &move->parts);
    if (!status) status = make_requests(move, spec->group, &move->parts.gives, &move->gives);
    if (!status) status = make_requests(move, spec->group, &move->parts.takes, &move->takes);
    if (!status) status = make_buffers(move);
    if (status) {
        pdl_move_destroy(move);
        return status;
    }
    *result = move;
    return PDL_OK;
}

static void destroy_requests(side_t *side)
{
    for (int i = 0; side->way != NULL && i < side->parts->count; i++)
        pdl_ranks_request_destroy(side->way[i].request);
    free(side->way);
}

void pdl_move_destroy(pdl_move_t *move)
{
    if (move == NULL) return;
    destroy_requests(&move->gives);
    destroy_requests(&move->takes);
    pdl_move_parts_fini(&move->parts);
    /* MPI may still write into the buffer after a failure: it is left alone. */
    if (move->state == IDLE) free(move->buffer);
    free(move);
}

/* Packs what several members get once. */
static const void *pack(const pdl_move_t *move, const side_t *side, int i)
{
    const pdl_part_t *part = &side->parts->part[i];

    if (part->run) return (const char *)move->source + (size_t)part->boxes.box[0].first[0] * move->item;
    if (part->packed == i) pdl__boxes_copy(&part->boxes, 0, move->item, move->source, side->way[i].buffer);
    return side->way[part->packed].buffer;
}

static pdl_status_t send_parts(const pdl_move_t *move, const side_t *side)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < side->parts->count; i++) {
        const pdl_part_t *part = &side->parts->part[i];

        status = pdl__request_send(side->way[i].request, pack(move, side, i), part_bytes(move, part), part->peer,
                                   PDL__MOVE_TAG);
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

        status = pdl__request_receive(way->request, place, part_bytes(move, part), part->peer, PDL__MOVE_TAG);
    }
    return status;
}

static pdl_status_t wait_parts(const side_t *side)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < side->parts->count; i++) status = pdl_ranks_request_wait(side->way[i].request);
    return status;
}

static void clear(void *data, int64_t elements, size_t item)
{
    if (elements > 0) memset(data, 0, (size_t)elements * item);
}

/* What comes back to the own region, from the second side of its boxes. Only the first is copied where there are no
   sums apart from the target: elements of 16 bits come back once then. */
static void contribute(pdl_move_t *move, const pdl_boxes_t *boxes, const void *contribution)
{
    bool first = !move->begun;

    if (boxes->elements == 0) return;
    move->begun = true;
    if (move->sums != NULL) {
        if (first) clear(move->sums, move->parts.own_elements, sizeof(*move->sums));
        pdl__boxes_add(boxes, 1, move->item, contribution, move->sums);
        return;
    }
    if (first && boxes->elements < move->parts.own_elements)
        clear(move->target, move->parts.own_elements, move->item);
    if (first)
        pdl__boxes_copy(boxes, 1, move->item, contribution, move->target);
    else
        pdl__boxes_add(boxes, 1, move->item, contribution, move->target);
}

static void round_sums(const pdl_move_t *move)
{
    uint16_t *target = move->target;

    for (int64_t i = 0; i < move->parts.own_elements; i++) target[i] = pdl__to_bf16(move->sums[i]);
}

static pdl_status_t start_forward(pdl_move_t *move)
{
    pdl_status_t status;

    if (move->parts.gaps) clear(move->target, move->parts.need_elements, move->item);
    status = receive_parts(move, &move->takes, move->target);
    if (!status) status = send_parts(move, &move->gives);
    pdl__boxes_copy(&move->parts.local, 0, move->item, move->source, move->target);
    return status;
}

static pdl_status_t start_backward(pdl_move_t *move)
{
    pdl_status_t status = receive_parts(move, &move->gives, NULL);

    if (!status) status = send_parts(move, &move->takes);
    move->begun = false;
    if (move->parts.local_first) contribute(move, &move->parts.local, move->source);
    return status;
}

static pdl_status_t finish_forward(pdl_move_t *move)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < move->parts.takes.count; i++) {
        const pdl_part_t *part = &move->parts.takes.part[i];
        const way_t      *way = &move->takes.way[i];

        status = pdl_ranks_request_wait(way->request);
        if (!status && !part->run) pdl__boxes_copy(&part->boxes, 1, move->item, way->buffer, move->target);
    }
    return status ? status : wait_parts(&move->gives);
}

static pdl_status_t finish_backward(pdl_move_t *move)
{
    bool         local_left = !move->parts.local_first;
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < move->parts.gives.count; i++) {
        const pdl_part_t *part = &move->parts.gives.part[i];

        if (local_left && part->peer > move->parts.member) {
            contribute(move, &move->parts.local, move->source);
            local_left = false;
        }
        status = pdl_ranks_request_wait(move->gives.way[i].request);
        if (!status) contribute(move, &part->boxes, move->gives.way[i].buffer);
    }
    if (status) return status;
    if (local_left) contribute(move, &move->parts.local, move->source);
    if (!move->begun)
        clear(move->target, move->parts.own_elements, move->item);
    else if (move->sums != NULL)
        round_sums(move);
    return wait_parts(&move->takes);
}

pdl_status_t pdl_move_start(pdl_move_t *move, const void *source, void *target, int backward)
{
    if (move->state != IDLE) return pdl_error(PDL_ERR_INPUT, "a move is started again before it was finished");
    if (move->pretended) return pdl_error(PDL_ERR_UNSUPPORTED, "pretended ranks move nothing");
    move->state = backward ? BACKWARD : FORWARD;
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

pdl_status_t pdl_move_forward(pdl_move_t *move, const void *own, void *need)
{
    pdl_status_t status = pdl_move_start(move, own, need, 0);

    return status ? status : pdl_move_finish(move);
}

pdl_status_t pdl_move_backward(pdl_move_t *move, const void *need, void *own)
{
    pdl_status_t status = pdl_move_start(move, need, own, 1);

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
