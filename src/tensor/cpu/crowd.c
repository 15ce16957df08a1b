/*
 * Threads that do not spin where others want their cores.
 *
 * At the end of a parallel region threads wait for each other, and gcc's OpenMP lets them spin for milliseconds before
 * they sleep. On cores of their own that is right: sleeping and waking takes longer than the wait. Where another program
 * wants a core too, the thread that is waited for is off it for a time slice, the others spin through theirs, and a step
 * takes many times as long.
 *
 * How long to spin is fixed when the program is loaded, with one exception that the manual of gcc documents
 * (GOMP_SPINCOUNT): while there are more threads of OpenMP than processors, they spin next to not at all. So a thread of
 * our own looks ten times a second how long the others have waited for a core, and while they do, it keeps a few idle
 * threads of OpenMP, which sleep and do nothing.
 */
#define _GNU_SOURCE /* gettid */
#include "tensor/cpu/crowd.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#define LOOK_NS 100000000
/* Shares of time that a thread waits for a core. Our own loader alone makes a tenth where threads have all cores; another
   program on every core makes a half. */
#define CROWDED      0.25
#define CALM         0.15
#define CALM_S       1.0 /* of calm before threads spin again, at first and at most */
#define MOST_CALM_S  64.0
#define MOST_WORKERS 1024

static _Atomic(int) worker_id[MOST_WORKERS];

/* One for the process, as the pool of OpenMP is. */
static struct {
    pthread_mutex_t   lock;
    pthread_cond_t    changed;
    pthread_t         thread, idler;
    int               users, threads;
    bool              running, idling, stop;
    int               file[MOST_WORKERS];
    double            delay_s[MOST_WORKERS];
    pdl__crowd_rule_t rule;
} crowd = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void pdl__crowd_join(int worker)
{
    if (worker >= 0 && worker < MOST_WORKERS) atomic_store(&worker_id[worker], (int)gettid());
}

void pdl__crowd_decide(pdl__crowd_rule_t *rule, double share, double seconds)
{
    if (rule->wanted_s <= 0) rule->wanted_s = CALM_S;
    rule->since_s += seconds;
    rule->calm_s = share < CALM ? rule->calm_s + seconds : 0;
    if (!rule->brief && share > CROWDED) {
        /* The calm was none: it takes a longer one next time. */
        if (rule->since_s < 2 * rule->wanted_s) rule->wanted_s *= 2;
        if (rule->wanted_s > MOST_CALM_S) rule->wanted_s = MOST_CALM_S;
        *rule = (pdl__crowd_rule_t){.brief = true, .wanted_s = rule->wanted_s};
    } else if (rule->brief && rule->calm_s >= rule->wanted_s) {
        *rule = (pdl__crowd_rule_t){.wanted_s = rule->wanted_s};
    } else if (!rule->brief && rule->since_s > MOST_CALM_S) {
        rule->wanted_s = CALM_S;
    }
}

#ifdef _OPENMP

/* For how long a thread has waited for a core so far; negative: the system does not say. */
static double waited_s(int file)
{
    char               text[128];
    unsigned long long ran, waited;
    ssize_t            length = file >= 0 ? pread(file, text, sizeof(text) - 1, 0) : -1;

    if (length <= 0) return -1;
    text[length] = '\0';
    return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? 1e-9 * (double)waited : -1;
}

/* The greatest share of the last `seconds` that one of the threads has waited. */
static double look(double seconds)
{
    double most = 0;

    for (int i = 0; i < crowd.threads; i++) {
        double delay_s = waited_s(crowd.file[i]);

        if (delay_s < 0) continue;
        if ((delay_s - crowd.delay_s[i]) / seconds > most) most = (delay_s - crowd.delay_s[i]) / seconds;
        crowd.delay_s[i] = delay_s;
    }
    return most;
}

/* Keeps threads of OpenMP that do nothing; they go with the thread that has called for them. */
static void *idle(void *unused)
{
    int more = omp_get_num_procs() - crowd.threads + 2;
    int idlers = 0;

    (void)unused;
#pragma omp parallel num_threads(more > 2 ? more : 2) reduction(+ : idlers)
    idlers++;
    pthread_mutex_lock(&crowd.lock);
    while (crowd.rule.brief && !crowd.stop) pthread_cond_wait(&crowd.changed, &crowd.lock);
    pthread_mutex_unlock(&crowd.lock);
    return idlers > 0 ? NULL : &crowd;
}

/* Called with the lock, which a thread that is waited for may need. */
static void follow_rule(void)
{
    if (crowd.rule.brief && !crowd.idling) {
        crowd.idling = pthread_create(&crowd.idler, NULL, idle, NULL) == 0;
    } else if (!crowd.rule.brief && crowd.idling) {
        pthread_cond_broadcast(&crowd.changed);
        pthread_mutex_unlock(&crowd.lock);
        pthread_join(crowd.idler, NULL);
        pthread_mutex_lock(&crowd.lock);
        crowd.idling = false;
    }
}

static void *look_after(void *unused)
{
    double then_s = pdl__seconds();

    (void)unused;
    pthread_mutex_lock(&crowd.lock);
    while (!crowd.stop) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&crowd.changed, &crowd.lock, &until);
        double seconds = pdl__seconds() - then_s;
        if (crowd.stop || seconds < 0.5e-9 * LOOK_NS) continue;
        then_s += seconds;
        pdl__crowd_decide(&crowd.rule, look(seconds), seconds);
        follow_rule();
    }
    crowd.rule.brief = false;
    follow_rule();
    pthread_mutex_unlock(&crowd.lock);
    return NULL;
}

static void open_files(void)
{
    for (int i = 0; i < crowd.threads; i++) {
        char path[64];

        snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", atomic_load(&worker_id[i]));
        crowd.file[i] = open(path, O_RDONLY | O_CLOEXEC);
        crowd.delay_s[i] = waited_s(crowd.file[i]);
    }
}

void pdl__crowd_begin(int threads)
{
    sigset_t all, before;

    /* Somebody who has decided how threads wait is not contradicted. */
    if (threads < 2 || getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL) threads = 0;
    pthread_mutex_lock(&crowd.lock);
    crowd.users++;
    if (crowd.users == 1 && threads > 0) {
        crowd.threads = threads < MOST_WORKERS ? threads : MOST_WORKERS;
        crowd.stop = false;
        crowd.rule = (pdl__crowd_rule_t){0};
        open_files();
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        crowd.running = pthread_create(&crowd.thread, NULL, look_after, NULL) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_mutex_unlock(&crowd.lock);
}

void pdl__crowd_end(void)
{
    pthread_mutex_lock(&crowd.lock);
    bool last = --crowd.users == 0 && crowd.running;
    if (last) {
        crowd.stop = true;
        pthread_cond_broadcast(&crowd.changed);
    }
    pthread_mutex_unlock(&crowd.lock);
    if (!last) return;
    pthread_join(crowd.thread, NULL);
    for (int i = 0; i < crowd.threads; i++)
        if (crowd.file[i] >= 0) close(crowd.file[i]);
    crowd.running = false;
}

#else

void pdl__crowd_begin(int threads)
{
    (void)threads;
}

void pdl__crowd_end(void)
{
}

#endif

bool pdl__crowd_waits_briefly(void)
{
    pthread_mutex_lock(&crowd.lock);
    bool brief = crowd.rule.brief;
    pthread_mutex_unlock(&crowd.lock);
    return brief;
}
