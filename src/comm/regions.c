/*
 * Moves of regions.
 *
 * What two members have in common is one message, in the same order on both sides, and one buffer, which is packed
 * in one direction and received into in the other. A part that is one run of memory is sent from where it lies, and
 * received there unless it has to be added.
 */
#include <paradl/comm/regions.h>

#include "comm/regions_check.h"
#include "comm/regions_copy.h"
#include "comm/requests.h"
#include "tensor/cpu/simd.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64 /* bytes: of each message in the buffer, that of a cache line */

/* What one other member gets from here, or gives; the first side is the region here, the second the message. */
typedef struct part {
    int          peer;
    pdl__boxes_t boxes;
    bool         run; /* of memory: forward needs no buffer */
    int   packed;     /* the part whose buffer forward sends: an earlier one where several members get the same */
    char *buffer;     /* NULL: never needed */
    pdl_ranks_request_t *request;
} part_t;

typedef struct parts {
    part_t *part;
    int     count;
    int64_t elements;
} parts_t;

typedef enum move_state { IDLE, FORWARD, BACKWARD } move_state_t;

struct pdl_move {
    int          member;
    bool         pretended;    /* has no buffers and cannot be started */
    size_t       item;         /* bytes of an element */
    pdl__boxes_t local;        /* between own and need */
    parts_t      gives, takes; /* in the order of the members */
    int64_t      own_elements, need_elements;
    bool         gaps;        /* some of what is needed is owned by nobody */
    bool         local_first; /* backward may add its own contribution before the others */
    char        *buffer;
    int64_t      buffer_bytes;
    float       *sums; /* of what comes back, where the target is too short for it; else NULL */
    move_state_t state;
    const void  *source; /* of the move under way */
    void        *target;
    bool         begun; /* a contribution has arrived at the target */
};

/* Whether member r takes from s what s owns and r needs. */
static bool takes_from(const pdl__members_t *members, int r, int s)
{
    return r == s || (members->owner[s] == s && members->owner[r] != s);
}

static pdl_status_t add_part(parts_t *parts, size_t item, pdl_ranks_t *group, int peer, const pdl_region_t *own,
                             const pdl_region_t *need, bool gives)
{
    part_t      *part = &parts->part[parts->count];
    pdl_status_t status;

    status = pdl__boxes_init(own, need, gives ? PDL__A_MESSAGE : PDL__B_MESSAGE, &part->boxes);
    if (status || part->boxes.elements == 0) return status;
    part->peer = peer;
    part->run = pdl__boxes_run(&part->boxes);
    part->packed = parts->count++;
    for (int i = 0; gives && i < part->packed; i++) {
        if (pdl__boxes_equal(&parts->part[i].boxes, &part->boxes)) part->packed = i;
    }
    parts->elements += part->boxes.elements;
    return pdl_ranks_request_create(group, part->boxes.elements * (int64_t)item, &part->request);
}

static pdl_status_t find_parts(const pdl__members_t *members, pdl_ranks_t *group, pdl_move_t *move)
{
    int                 me = move->member;
    const pdl_region_t *own = &members->own[me], *need = &members->need[me];
    pdl_status_t        status = pdl__boxes_init(own, need, PDL__A_B, &move->local);

    move->own_elements = pdl_region_elements(own);
    move->need_elements = pdl_region_elements(need);
    for (int peer = 0; !status && peer < members->count; peer++) {
        if (peer == me) continue;
        if (takes_from(members, peer, me))
            status = add_part(&move->gives, move->item, group, peer, own, &members->need[peer], true);
        if (!status && takes_from(members, me, peer))
            status = add_part(&move->takes, move->item, group, peer, &members->own[peer], need, false);
    }
    move->gaps = move->local.elements + move->takes.elements < move->need_elements;
    return status;
}

/* As a + b is b + a, our own contribution may come first as long as no element gets two from lower members. */
static bool may_add_local_first(const pdl__members_t *members, const pdl_move_t *move)
{
    const parts_t *gives = &move->gives;

    if (move->local.elements == 0) return false;
    for (int i = 0; i < gives->count && gives->part[i].peer < move->member; i++) {
        for (int k = 0; k < i; k++) {
            if (pdl__region_meet(&members->need[gives->part[i].peer], &members->need[gives->part[k].peer]))
                return false;
        }
    }
    return true;
}

static int64_t padded(int64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int64_t part_bytes(const pdl_move_t *move, const part_t *part)
{
    return part->boxes.elements * (int64_t)move->item;
}

/* Every gift has a buffer, because backward adds what comes back. */
static bool needs_buffer(const pdl_move_t *move, const parts_t *parts, int i)
{
    return parts == &move->gives || !parts->part[i].run;
}

static pdl_status_t make_buffers(pdl_move_t *move)
{
    parts_t *both[2] = {&move->gives, &move->takes};
    char    *next;

    for (int b = 0; b < 2; b++) {
        for (int i = 0; i < both[b]->count; i++) {
            if (needs_buffer(move, both[b], i)) move->buffer_bytes += padded(part_bytes(move, &both[b]->part[i]));
        }
    }
    int64_t sums = move->buffer_bytes;
    bool    apart = move->item < sizeof(float) && move->gives.count > 0;
    if (apart) move->buffer_bytes += padded(move->own_elements * (int64_t)sizeof(float));
    if (move->buffer_bytes == 0 || move->pretended) return PDL_OK;
    move->buffer = aligned_alloc(ALIGNMENT, (size_t)move->buffer_bytes);
    if (move->buffer == NULL)
        return pdl_error(PDL_ERR_NOMEM, "out of memory for %lld bytes of messages", (long long)move->buffer_bytes);
    next = move->buffer;
    if (apart) move->sums = (float *)(void *)(move->buffer + sums);
    for (int b = 0; b < 2; b++) {
        for (int i = 0; i < both[b]->count; i++) {
            if (!needs_buffer(move, both[b], i)) continue;
            both[b]->part[i].buffer = next;
            next += padded(part_bytes(move, &both[b]->part[i]));
        }
    }
    return PDL_OK;
}

pdl_status_t pdl_move_create(const pdl_move_spec_t *spec, pdl_move_t **result)
{
    pdl__members_t members;
    pdl_move_t    *move;
    pdl_status_t   status = pdl__members_init(spec, &members);

    if (status) return status;
    move = calloc(1, sizeof(*move));
    if (move != NULL) {
        move->gives.part = calloc((size_t)members.count, sizeof(part_t));
        move->takes.part = calloc((size_t)members.count, sizeof(part_t));
    }
    if (move == NULL || move->gives.part == NULL || move->takes.part == NULL) {
        status = pdl_error(PDL_ERR_NOMEM, "out of memory for a move between %d members", members.count);
    } else {
        move->member = pdl_ranks_rank(spec->group);
        move->pretended = pdl_ranks_pretended(spec->group);
        move->item = pdl_dtype_bytes(spec->type);
        status = find_parts(&members, spec->group, move);
        if (!status) status = make_buffers(move);
        move->local_first = may_add_local_first(&members, move);
    }
    pdl__members_fini(&members);
    if (status) {
        pdl_move_destroy(move);
        return status;
    }
    *result = move;
    return PDL_OK;
}

static void destroy_parts(parts_t *parts)
{
    for (int i = 0; i < parts->count; i++) {
        pdl__boxes_fini(&parts->part[i].boxes);
        pdl_ranks_request_destroy(parts->part[i].request);
    }
    free(parts->part);
}

void pdl_move_destroy(pdl_move_t *move)
{
    if (move == NULL) return;
    destroy_parts(&move->gives);
    destroy_parts(&move->takes);
    pdl__boxes_fini(&move->local);
    /* MPI may still write into the buffer after a failure: it is left alone. */
    if (move->state == IDLE) free(move->buffer);
    free(move);
}

/* Packs what several members get once. */
static const void *pack(const pdl_move_t *move, const parts_t *parts, int i)
{
    const part_t *part = &parts->part[i], *packed = &parts->part[part->packed];

    if (part->run) return (const char *)move->source + (size_t)part->boxes.box[0].first[0] * move->item;
    if (packed == part) pdl__boxes_copy(&part->boxes, 0, move->item, move->source, part->buffer);
    return packed->buffer;
}

static pdl_status_t send_parts(const pdl_move_t *move, const parts_t *parts)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < parts->count; i++) {
        const part_t *part = &parts->part[i];

        status = pdl__request_send(part->request, pack(move, parts, i), part_bytes(move, part), part->peer,
                                   PDL__MOVE_TAG);
    }
    return status;
}

/* Runs arrive in their place where there is a target, the others in their buffers. */
static pdl_status_t receive_parts(const pdl_move_t *move, const parts_t *parts, char *target)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < parts->count; i++) {
        const part_t *part = &parts->part[i];
        bool          there = target != NULL && part->run;
        char         *place = there ? target + (size_t)part->boxes.box[0].first[0] * move->item : part->buffer;

        status = pdl__request_receive(part->request, place, part_bytes(move, part), part->peer, PDL__MOVE_TAG);
    }
    return status;
}

static pdl_status_t wait_parts(const parts_t *parts)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < parts->count; i++) status = pdl_ranks_request_wait(parts->part[i].request);
    return status;
}

static void clear(void *data, int64_t elements, size_t item)
{
    if (elements > 0) memset(data, 0, (size_t)elements * item);
}

/* What comes back to the own region, from the second side of its boxes. Only the first is copied where there are no
   sums apart from the target: elements of 16 bits come back once then. */
static void contribute(pdl_move_t *move, const pdl__boxes_t *boxes, const void *contribution)
{
    bool first = !move->begun;

    if (boxes->elements == 0) return;
    move->begun = true;
    if (move->sums != NULL) {
        if (first) clear(move->sums, move->own_elements, sizeof(*move->sums));
        pdl__boxes_add(boxes, 1, move->item, contribution, move->sums);
        return;
    }
    if (first && boxes->elements < move->own_elements) clear(move->target, move->own_elements, move->item);
    if (first)
        pdl__boxes_copy(boxes, 1, move->item, contribution, move->target);
    else
        pdl__boxes_add(boxes, 1, move->item, contribution, move->target);
}

static void round_sums(const pdl_move_t *move)
{
    uint16_t *target = move->target;

    for (int64_t i = 0; i < move->own_elements; i++) target[i] = pdl__to_bf16(move->sums[i]);
}

static pdl_status_t start_forward(pdl_move_t *move)
{
    pdl_status_t status;

    if (move->gaps) clear(move->target, move->need_elements, move->item);
    status = receive_parts(move, &move->takes, move->target);
    if (!status) status = send_parts(move, &move->gives);
    pdl__boxes_copy(&move->local, 0, move->item, move->source, move->target);
    return status;
}

static pdl_status_t start_backward(pdl_move_t *move)
{
    pdl_status_t status = receive_parts(move, &move->gives, NULL);

    if (!status) status = send_parts(move, &move->takes);
    move->begun = false;
    if (move->local_first) contribute(move, &move->local, move->source);
    return status;
}

static pdl_status_t finish_forward(pdl_move_t *move)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < move->takes.count; i++) {
        const part_t *part = &move->takes.part[i];

        status = pdl_ranks_request_wait(part->request);
        if (!status && !part->run) pdl__boxes_copy(&part->boxes, 1, move->item, part->buffer, move->target);
    }
    return status ? status : wait_parts(&move->gives);
}

static pdl_status_t finish_backward(pdl_move_t *move)
{
    bool         local_left = !move->local_first;
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < move->gives.count; i++) {
        const part_t *part = &move->gives.part[i];

        if (local_left && part->peer > move->member) {
            contribute(move, &move->local, move->source);
            local_left = false;
        }
        status = pdl_ranks_request_wait(part->request);
        if (!status) contribute(move, &part->boxes, part->buffer);
    }
    if (status) return status;
    if (local_left) contribute(move, &move->local, move->source);
    if (!move->begun)
        clear(move->target, move->own_elements, move->item);
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
    return (backward ? move->takes.elements : move->gives.elements) * (int64_t)move->item;
}

int64_t pdl_move_buffer_bytes(const pdl_move_t *move)
{
    return move->buffer_bytes;
}
