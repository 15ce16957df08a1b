/*
 * Ranks of a test are threads; here they meet to add up what they have, or to take the largest. A part that has
 * ended takes part no more, so that the others do not wait for ever.
 */
#ifndef PDL_TEST_OP_MEETING_H
#define PDL_TEST_OP_MEETING_H

#include <paradl/base/status.h>

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

    if (count > MEETING_ROOM) return pdl_error(PDL_ERR_LIMIT, "%lld values", (long long)count);
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

static inline pdl_status_t meeting_sum(void *context, double *values, int64_t count)
{
    return meeting_reduce(context, values, count, false);
}

static inline pdl_status_t meeting_max(void *context, double *values, int64_t count)
{
    return meeting_reduce(context, values, count, true);
}

static inline void meeting_leave(meeting_t *meeting)
{
    pthread_mutex_lock(&meeting->lock);
    meeting->gone = true;
    pthread_cond_broadcast(&meeting->changed);
    pthread_mutex_unlock(&meeting->lock);
}

#endif
