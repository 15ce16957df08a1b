/*
 * The union of the cores of all threads of this process: within what mpirun, taskset or a batch system has left to it, and not
 * only on the core of the thread that asks. Where it cannot be told the attributes stay as they are.
 */
#define _GNU_SOURCE /* sets of cores */

#include "data/load/affinity.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/types.h>

void pdl__affinity_of_process(pthread_attr_t *attributes)
{
    DIR           *threads = opendir("/proc/self/task");
    struct dirent *entry;
    cpu_set_t      all;

    if (threads == NULL) return;
    CPU_ZERO(&all);
    while ((entry = readdir(threads)) != NULL) {
        long      thread = strtol(entry->d_name, NULL, 10);
        cpu_set_t one;

        if (thread > 0 && sched_getaffinity((pid_t)thread, sizeof(one), &one) == 0) CPU_OR(&all, &all, &one);
    }
    closedir(threads);
    if (CPU_COUNT(&all) > 0) (void)pthread_attr_setaffinity_np(attributes, sizeof(all), &all);
}
