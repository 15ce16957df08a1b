/* A thread with the attributes of the process is not confined to the core of the thread that starts it. */
#define _GNU_SOURCE

#include "test.h"

#include "data/load/affinity.h"

#include <sched.h>

static pthread_barrier_t end;

static void *wait_for_end(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&end);
    return NULL;
}

static void *count_cores(void *count)
{
    cpu_set_t set;

    if (pthread_getaffinity_np(pthread_self(), sizeof(set), &set) == 0) *(int *)count = CPU_COUNT(&set);
    return NULL;
}

static int cores_of(pthread_attr_t *attributes)
{
    pthread_t thread;
    int       count = 0;

    CHECK_INT(pthread_create(&thread, attributes, count_cores, &count), 0);
    pthread_join(thread, NULL);
    return count;
}

static void leaves_the_core_of_its_maker(void)
{
    pthread_attr_t attributes;
    pthread_t      other;
    cpu_set_t      all, one;
    int            core = 0;

    CHECK_INT(pthread_getaffinity_np(pthread_self(), sizeof(all), &all), 0);
    pthread_barrier_init(&end, NULL, 2);
    CHECK_INT(pthread_create(&other, NULL, wait_for_end, NULL), 0); /* one that may run anywhere */
    while (!CPU_ISSET(core, &all)) core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    CHECK_INT(pthread_setaffinity_np(pthread_self(), sizeof(one), &one), 0);

    pthread_attr_init(&attributes);
    CHECK_INT(cores_of(&attributes), 1);
    pdl__affinity_of_process(&attributes);
    CHECK_INT(cores_of(&attributes), CPU_COUNT(&all));
    pthread_attr_destroy(&attributes);

    pthread_barrier_wait(&end);
    pthread_join(other, NULL);
    pthread_barrier_destroy(&end);
}

int main(void)
{
    RUN(leaves_the_core_of_its_maker);
    return test_done();
}
