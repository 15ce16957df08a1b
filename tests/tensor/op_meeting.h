/*
 * Ranks of a test are threads; here they meet to add up what they have, or to take the largest. A part that has
 * ended takes part no more, so that the others do not wait for ever.
 */
#ifndef PDL_TEST_OP_MEETING_H
#define PDL_TEST_OP_MEETING_H

#include <paradl/tensor/backend.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define MEETING_ROOM 4096

typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    int             parts;
    double          value[MEETING_ROOM];
    int             arrived, left, round;
    bool            gone; /* a part has ended */
} meeting_t;

#define MEETING_OF(n)                                                                        \
    {                                                                                        \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .parts = (n) \
    }

static inline void meeting_put(meeting_t *meeting, const double *values, int64_t count, bool largest)
{
    for (int64_t i = 0; i < count; i++) {
        double before = meeting->value[i];

        if (meeting->arrived == 0)
            meeting->value[i] = values[i];
        else if (largest)
            meeting->value[i] = values[i] > before ? values[i] : before;
        else
            meeting->value[i] = before + values[i];
    }
}

/* The last to arrive opens the next round; `value` stays until all have read it, as nobody enters before. */
static inline pdl_status_t meeting_reduce(meeting_t *meeting, double *values, int64_t count, bool largest)
{
    bool met;
    int  round;

    pthread_mutex_lock(&meeting->lock);
    while (meeting->left > 0) pthread_cond_wait(&meeting->changed, &meeting->lock);
    round = meeting->round;
    meeting_put(meeting, values, count, largest);
    if (++meeting->arrived == meeting->parts) {
        meeting->left = meeting->parts;
        meeting->arrived = 0;
        meeting->round++;
        pthread_cond_broadcast(&meeting->changed);
    }
    while (meeting->round == round && !meeting->gone) pthread_cond_wait(&meeting->changed, &meeting->lock);
    met = meeting->round != round;
    if (met) memcpy(values, meeting->value, (size_t)count * sizeof(*values));
    if (met && --meeting->left == 0) pthread_cond_broadcast(&meeting->changed);
    pthread_mutex_unlock(&meeting->lock);
    return met ? PDL_OK : pdl_error(PDL_ERR_LIMIT, "another part has ended");
}

/* The same for numbers of a device. */
static inline pdl_status_t meeting_reduce_there(meeting_t *meeting, pdl_tensor_device_t *device, void *there,
                                                int64_t count, bool largest)
{
    double       values[MEETING_ROOM];
    size_t       bytes = (size_t)count * sizeof(*values);
    pdl_status_t status = count <= MEETING_ROOM ? device->ops->copy(device, NULL, values, there, bytes)
                                                : pdl_error(PDL_ERR_LIMIT, "%lld values", (long long)count);

    if (!status) status = meeting_reduce(meeting, values, count, largest);
    return status ? status : device->ops->copy(device, NULL, there, values, bytes);
}

/* All phases of an op, whose parts meet between them; `meeting` NULL: it is alone. */
static inline pdl_status_t meeting_run(pdl_op_t *op, pdl_op_run_t *run, bool backward, unsigned what,
                                       meeting_t *meeting)
{
    const pdl_backend_ops_t *ops = op->backend->ops;
    int                      meetings = pdl_op_meetings(op, run, backward);
    pdl_status_t             status = PDL_OK;

    for (run->phase = 0; run->phase <= meetings && !status; run->phase++) {
        const pdl_meeting_t *between = &op->description.meeting[backward][run->phase];

        status = backward ? ops->backward(op, NULL, run, what) : ops->forward(op, NULL, run);
        if (status || run->phase == meetings || meeting == NULL) continue;
        status = meeting_reduce_there(meeting, op->backend->device, (char *)run->workspace + between->at,
                                      between->count - (run->label_smoothing > 0 ? 0 : between->smoothed),
                                      between->kind == PDL_MEETING_MAX);
    }
    run->phase = 0;
    return status;
}

static inline void meeting_leave(meeting_t *meeting)
{
    pthread_mutex_lock(&meeting->lock);
    meeting->gone = true;
    pthread_cond_broadcast(&meeting->changed);
    pthread_mutex_unlock(&meeting->lock);
}

#endif
