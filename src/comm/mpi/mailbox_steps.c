/*
 * Messages of an executor through memory that its ranks share.
 *
 * A message is copied into the channel to its receiver, which adds it to its place from there. Sends are filled in one at a time,
 * between looks for arrivals, so that what is sent, received and added stays in the caches of both. Who has to wait for its own sends
 * empties the channels to itself into its slots: then all can go on.
 */
#include "comm/mpi/executor.h"

#include <string.h>

/* Puts the next message into its channel; true where one went. */
static bool fill_one(pdl_executor_t *executor)
{
    enum { AHEAD = 32 }; /* of those whose channels are full */
    int from = executor->filled;

    for (int i = from; i < executor->posted && i < from + AHEAD; i++) {
        pdl__outgoing_t *out = &executor->outgoing[i];
        bool             behind = false;

        if (out->done) continue;
        /* Messages to one rank keep their order. */
        for (int k = executor->filled; k < i && !behind; k++)
            behind = !executor->outgoing[k].done && executor->outgoing[k].peer == out->peer;
        if (behind || !pdl__mailbox_send(executor->mailbox, out->peer, out->from, out->bytes)) continue;
        out->done = true;
        while (executor->filled < executor->posted && executor->outgoing[executor->filled].done) executor->filled++;
        return true;
    }
    return false;
}

static pdl_status_t send(pdl__steps_t *steps, int i, const char *from, int64_t count, int peer)
{
    pdl_executor_t *executor = (pdl_executor_t *)steps;

    if (i == 0) executor->filled = executor->posted = 0;
    executor->outgoing[i] = (pdl__outgoing_t){from, (size_t)(count * steps->extent), peer, false};
    executor->posted = i + 1;
    if (i == 0) fill_one(executor);
    return PDL_OK;
}

static pdl_status_t receive(pdl__steps_t *steps, int i, char *to, int64_t count, int peer)
{
    pdl_executor_t *executor = (pdl_executor_t *)steps;

    executor->incoming[i] = (pdl__incoming_t){to, (size_t)(count * steps->extent), peer, false, NULL};
    return PDL_OK;
}

static const pdl__step_t *current_step(const pdl__steps_t *steps)
{
    return &steps->messages.step[steps->step];
}

/* Moves a message that has arrived out of its channel. */
static bool take(pdl_executor_t *executor, pdl__incoming_t *in)
{
    const char *message = in->done ? NULL : pdl__mailbox_oldest(executor->mailbox, in->peer);

    if (message == NULL) return false;
    memcpy(in->to, message, in->bytes);
    pdl__mailbox_release(executor->mailbox, in->peer);
    in->done = true;
    return true;
}

/* All that has arrived for receives which were posted; in their order, which is that of the channels. */
static bool take_all(pdl_executor_t *executor)
{
    const pdl__steps_t *steps = &executor->steps;
    const pdl__step_t  *step = current_step(steps);
    unsigned            waiting = 0; /* ranks of which an earlier message is still to come, by bits */
    bool                any = false;

    for (int r = steps->receive; r < step->receive_count && r < steps->receive + step->window; r++) {
        pdl__incoming_t *in = &executor->incoming[r % step->window];

        if (in->done || (waiting & 1u << in->peer)) continue;
        if (take(executor, in))
            any = true;
        else
            waiting |= 1u << in->peer;
    }
    return any;
}

/* The oldest receive. What can be added at once is added from the channel. */
static bool look(pdl_executor_t *executor, int i)
{
    const pdl__steps_t   *steps = &executor->steps;
    const pdl__message_t *message =
        &steps->messages.receives.message[current_step(steps)->receive_first + steps->receive];
    pdl__incoming_t *in = &executor->incoming[i];
    bool             folds = message->folds || (steps->receive > 0 && message[-1].folds); /* from slot to slot */

    if (in->done) return true;
    if (!message->staged || folds || message->sends_before > steps->sends_done) return take(executor, in);
    in->held = pdl__mailbox_oldest(executor->mailbox, in->peer);
    in->done = in->held != NULL;
    return in->done;
}

static pdl_status_t complete(pdl__steps_t *steps, bool send, int i, bool block, bool *done)
{
    pdl_executor_t *executor = (pdl_executor_t *)steps;

    for (bool moved = false;;) {
        *done = send ? executor->outgoing[i].done : look(executor, i);
        if (*done || moved) pdl__mailbox_relax(executor->mailbox, false);
        if (*done) return PDL_OK;
        moved = fill_one(executor);
        if (send) moved = take_all(executor) || moved;
        if (!moved) pdl__mailbox_relax(executor->mailbox, true);
        if (!moved && !block) return PDL_OK;
    }
}

static const char *arrived(pdl__steps_t *steps, int i, const char *slot)
{
    const pdl__incoming_t *in = &((pdl_executor_t *)steps)->incoming[i];

    return in->held != NULL ? in->held : slot;
}

static void release(pdl__steps_t *steps, int i)
{
    pdl_executor_t *executor = (pdl_executor_t *)steps;

    if (executor->incoming[i].held == NULL) return;
    executor->incoming[i].held = NULL;
    pdl__mailbox_release(executor->mailbox, executor->incoming[i].peer);
}

const pdl__steps_ops_t pdl__mailbox_ops = {.send = send,
                                           .receive = receive,
                                           .complete = complete,
                                           .add = pdl__executor_add,
                                           .copy = pdl__executor_copy,
                                           .arrived = arrived,
                                           .release = release};
