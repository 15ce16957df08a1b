/*
 * One thread: locks are open, nobody is waited for, and no second thread begins.
 */
#ifndef PDL_CORE_PTHREAD_H
#define PDL_CORE_PTHREAD_H

#include <errno.h>
#include <signal.h>
#include <sys/types.h>

/* The types are those of <sys/types.h>. */
#define PTHREAD_ONCE_INIT 0
#define PTHREAD_MUTEX_INITIALIZER \
    {                             \
        0                         \
    }
#define PTHREAD_COND_INITIALIZER \
    {                            \
        0                        \
    }

static inline int pthread_once(pthread_once_t *once, void (*begin)(void))
{
    if ((*once)++ == 0) begin();
    return 0;
}

#define pthread_create(thread, attributes, run, context) ((void)(thread), (void)(run), (void)(context), EAGAIN)
#define pthread_join(thread, result)                     ((void)(thread), 0)
#define pthread_mutex_init(mutex, attributes)            ((void)(mutex), 0)
#define pthread_mutex_destroy(mutex)                     ((void)(mutex), 0)
#define pthread_mutex_lock(mutex)                        ((void)(mutex), 0)
#define pthread_mutex_unlock(mutex)                      ((void)(mutex), 0)
#define pthread_cond_init(condition, attributes)         ((void)(condition), 0)
#define pthread_cond_destroy(condition)                  ((void)(condition), 0)
#define pthread_cond_broadcast(condition)                ((void)(condition), 0)
#define pthread_cond_signal(condition)                   ((void)(condition), 0)
#define pthread_cond_wait(condition, mutex)              ((void)(condition), 0)
#define pthread_cond_timedwait(condition, mutex, until)  ((void)(condition), ETIMEDOUT)
#define pthread_sigmask(how, set, before)                ((void)(set), (void)(before), 0)

#endif
