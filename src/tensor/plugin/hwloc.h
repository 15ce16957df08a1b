/*
 * What hwloc knows of this machine. Internal to the module.
 */
#ifndef PDL_TENSOR_PLUGIN_HWLOC_H
#define PDL_TENSOR_PLUGIN_HWLOC_H

#include <stddef.h>

typedef struct pdl__cores pdl__cores_t;

typedef struct pdl__hwloc {
    /* The cores that the process may use (hardware threads of one core count once); NULL when hwloc cannot say. */
    pdl__cores_t *(*open)(void);
    int (*count)(const pdl__cores_t *cores);
    /* Ties the calling thread to core `worker`, counted over these cores and wrapping around. */
    void (*bind)(const pdl__cores_t *cores, int worker);
    void (*close)(pdl__cores_t *cores);
    /* Names the processor, and counts packages, cores and caches; leaves texts as they are when it cannot say. */
    void (*describe)(char *processor, size_t processor_size, char *topology, size_t topology_size);
} pdl__hwloc_t;

#endif
