/*
 * On which cores loader threads may run. Internal to data.
 */
#ifndef PDL_DATA_AFFINITY_H
#define PDL_DATA_AFFINITY_H

#include <pthread.h>

/* A thread inherits the cores of the one that starts it, and that one is often bound to a single core for the sake of
   computation. Threads with these attributes run where any thread of the process may. */
void pdl__affinity_of_process(pthread_attr_t *attributes);

#endif
