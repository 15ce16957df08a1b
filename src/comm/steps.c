/*
 * Goes through the messages of one rank.
 */
#include "comm/steps.h"
#include "base/memory.h"

#include <stdlib.h>

pdl_status_t pdl__steps_init(pdl__steps_t *steps, const pdl_schedule_t *schedule, int rank, int64_t elements,
                             const int64_t *counts, int64_t chunk_bytes, int64_t slot_bytes)
{
    int64_t      extent = steps->extent, chunk = chunk_bytes / extent;
    pdl_moves_t *scratch = malloc(sizeof(*scratch));
    pdl_status_t status;

    if (scratch == NULL) return pdl__no_memory("for the buffers of a collective");
    status = pdl__layout_init(schedule, rank, elements, counts, scratch, &steps->layout);
    if (!status)
        status = pdl__messages_init(schedule, &steps->layout, chunk < 1 ? 1 : chunk, slot_bytes / extent, scratch,
                                    &steps->messages);
    free(scratch);
    steps->step = steps->messages.step_count;
    return status;
}

void pdl__steps_fini(pdl__steps_t *steps)
{
    pdl__layout_fini(&steps->layout);
    pdl__messages_fini(&steps->messages);
}

static char *place_of(const pdl__steps_t *steps, const pdl__piece_t *segment)
{
    return steps->area[segment->area] + segment->first * steps->extent;
}

static char *slot_of(const pdl__steps_t *steps, const pdl__step_t *step, int receive)
{
    return steps->slots + receive % step->window * step->slot_elements * steps->extent;
}

static const pdl__message_t *receive_of(const pdl__steps_t *steps, const pdl__step_t *step, int receive)
{
    return &steps->messages.receives.message[step->receive_first + receive];
}

/* Where a staged message is after its arrival. */
static const char *arrived_at(pdl__steps_t *steps, const pdl__step_t *step, int receive)
{
    const char *slot = slot_of(steps, step, receive);

    return steps->ops->arrived != NULL ? steps->ops->arrived(steps, receive % step->window, slot) : slot;
}

static pdl_status_t post_receive(pdl__steps_t *steps, const pdl__step_t *step, int receive)
{
    const pdl__message_t *message;
    char                 *place;

    if (receive >= step->receive_count) return PDL_OK;
    message = receive_of(steps, step, receive);
    place = message->staged ? slot_of(steps, step, receive)
                            : place_of(steps, &steps->messages.segment[message->segment_first]);
    return steps->ops->receive(steps, receive % step->window, place, message->count, message->peer);
}

/* Brings the segments of a send together. */
static pdl_status_t pack_message(pdl__steps_t *steps, const pdl__message_t *message)
{
    char        *next = steps->pack + message->pack_first * steps->extent;
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < message->segment_count; i++) {
        const pdl__piece_t *segment = &steps->messages.segment[message->segment_first + i];

        status = steps->ops->copy(steps, place_of(steps, segment), next, segment->count);
        next += segment->count * steps->extent;
    }
    return status;
}

static pdl_status_t post_send(pdl__steps_t *steps, const pdl__step_t *step, int send)
{
    const pdl__message_t *message = &steps->messages.sends.message[step->send_first + send];
    const char           *from = message->pack_first >= 0 ? steps->pack + message->pack_first * steps->extent
                                                          : place_of(steps, &steps->messages.segment[message->segment_first]);

    steps->posted += message->count * steps->extent;
    steps->sends++;
    return steps->ops->send(steps, send, from, message->count, message->peer);
}

/* Packs before anything of the step can arrive. */
static pdl_status_t begin_step(pdl__steps_t *steps, const pdl__step_t *step)
{
    pdl_status_t status = PDL_OK;

    steps->receive = 0;
    steps->sends_done = 0;
    steps->in_step = true;
    for (int s = 0; !status && s < step->send_count; s++) {
        const pdl__message_t *message = &steps->messages.sends.message[step->send_first + s];

        if (message->pack_first >= 0) status = pack_message(steps, message);
    }
    if (!status && steps->ops->group != NULL) status = steps->ops->group(steps, true);
    for (int r = 0; !status && r < step->window; r++) status = post_receive(steps, step, r);
    for (int s = 0; !status && s < step->send_count; s++) status = post_send(steps, step, s);
    return status || steps->ops->group == NULL ? status : steps->ops->group(steps, false);
}

static pdl_status_t complete_sends(pdl__steps_t *steps, int count, bool block, bool *done)
{
    pdl_status_t status = PDL_OK;

    *done = true;
    while (!status && *done && steps->sends_done < count) {
        status = steps->ops->complete(steps, true, steps->sends_done, block, done);
        if (!status && *done) steps->sends_done++;
    }
    return status;
}

/* Adds or copies what has arrived in a slot to its place. */
static pdl_status_t apply(pdl__steps_t *steps, const pdl__message_t *message, const char *slot)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < message->segment_count; i++) {
        const pdl__piece_t *segment = &steps->messages.segment[message->segment_first + i];
        char               *place = place_of(steps, segment);

        status = message->reduce ? steps->ops->add(steps, slot, place, segment->count)
                                 : steps->ops->copy(steps, slot, place, segment->count);
        slot += segment->count * steps->extent;
    }
    return status;
}

/* The oldest receive: when it and the sends from its place are complete, its slot is emptied and posted again. */
static pdl_status_t advance_receive(pdl__steps_t *steps, const pdl__step_t *step, bool block, bool *done)
{
    int                   r = steps->receive;
    const pdl__message_t *message = receive_of(steps, step, r);
    pdl_status_t          status = steps->ops->complete(steps, false, r % step->window, block, done);

    if (!status && *done) status = complete_sends(steps, message->sends_before, block, done);
    if (status || !*done) return status;
    if (r > 0 && receive_of(steps, step, r - 1)->folds) {
        status = steps->ops->add(steps, slot_of(steps, step, r - 1), slot_of(steps, step, r), message->count);
        if (!status) status = post_receive(steps, step, r - 1 + step->window);
    }
    steps->receive++;
    if (status || message->folds) return status;
    if (message->staged) status = apply(steps, message, arrived_at(steps, step, r));
    if (steps->ops->release != NULL) steps->ops->release(steps, r % step->window);
    return status ? status : post_receive(steps, step, r + step->window);
}

void pdl__steps_start(pdl__steps_t *steps)
{
    steps->step = 0;
    steps->in_step = false;
}

pdl_status_t pdl__steps_advance(pdl__steps_t *steps, bool block, bool *done)
{
    pdl_status_t status = PDL_OK;

    *done = true;
    while (steps->step < steps->messages.step_count) {
        const pdl__step_t *step = &steps->messages.step[steps->step];

        if (!steps->in_step) status = begin_step(steps, step);
        while (!status && *done && steps->receive < step->receive_count)
            status = advance_receive(steps, step, block, done);
        if (!status && *done) status = complete_sends(steps, step->send_count, block, done);
        if (status || !*done) return status;
        steps->step++;
        steps->in_step = false;
    }
    return PDL_OK;
}

int64_t pdl__steps_sent(const pdl__steps_t *steps)
{
    const pdl__message_list_t *sends = &steps->messages.sends;
    int64_t                    elements = 0;

    for (int i = 0; i < sends->count; i++) elements += sends->message[i].count;
    return elements * steps->extent;
}
